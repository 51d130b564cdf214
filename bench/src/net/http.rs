//! HTTP/1 with hyper, and with axum on it: connections that stay, one request on each at a
//! time.

use std::convert::Infallible;
use std::sync::OnceLock;

use hyper::body::Incoming;
use hyper::{Request, Response};

use super::client::{Client, Talk};
use super::echo::measure;
use super::server::Server;
use super::{CLIENT_CALLS, Net, each_net};
use crate::probe::Probe;
use crate::row::{COMPLETION, Row, Target::OverTokio};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "hyper_64",
            "HTTP/1 requests to hyper on 64 connections: server CPU",
            (20_000, 256),
            each_net!(hyper),
        )
        .floor("epoll loop", |probe| {
            ask::<64>(probe, &Server::start_bare_hyper(true));
        })
        .workers(1)
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.03))
        .target_of(COMPLETION, OverTokio(1.1)),
        Row::new(
            "axum_64",
            "HTTP/1 requests to axum on 64 connections: server CPU",
            (20_000, 256),
            each_net!(axum, 64),
        )
        .floor("epoll loop", |probe| {
            ask::<64>(probe, &Server::start_bare_axum(true));
        })
        .workers(1)
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.1))
        .target_of(COMPLETION, OverTokio(1.15)),
        Row::new(
            "axum_512",
            "HTTP/1 requests to axum on 512 connections: server CPU",
            (20_000, 1_024),
            each_net!(axum, 512),
        )
        .floor("epoll loop", |probe| {
            ask::<512>(probe, &Server::start_bare_axum(true));
        })
        .workers(1)
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.15))
        .target_of(COMPLETION, OverTokio(1.15)),
    ]
}

const REQUEST: &[u8] = b"GET /hello HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
const BODY: &str = "Hello, world!";

pub(super) async fn answer(_request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(BODY.to_string()))
}

fn answer_len(_request: &[u8], bytes: &[u8]) -> Option<usize> {
    let text = str::from_utf8(bytes).expect("the answer is text");
    let (head, body) = text.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    (body.len() >= BODY.len()).then_some(head.len() + 4 + BODY.len())
}

fn talk() -> Talk {
    Talk {
        request: REQUEST.to_vec(),
        answer_len,
        depth: 1,
    }
}

fn hyper<R: Net>(probe: &mut Probe) {
    let server = Server::start::<R, _>(probe.workers(), R::serve_http);
    ask::<64>(probe, &server);
}

/// The routes, made once and shared as an axum server shares them.
pub(super) fn router() -> axum::Router {
    static ROUTER: OnceLock<axum::Router> = OnceLock::new();
    let router = || axum::Router::new().route("/hello", axum::routing::get(|| async { BODY }));
    ROUTER.get_or_init(router).clone()
}

fn axum<R: Net, const CONNECTIONS: usize>(probe: &mut Probe) {
    let server = Server::start::<R, _>(probe.workers(), R::serve_axum);
    ask::<CONNECTIONS>(probe, &server);
}

fn ask<const CONNECTIONS: usize>(probe: &mut Probe, server: &Server) {
    measure(probe, Client::connect(server.address, CONNECTIONS, &talk()));
}
