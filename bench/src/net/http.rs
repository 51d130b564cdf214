//! HTTP/1 with hyper: connections that stay, one request on each at a time.

use std::convert::Infallible;

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
        .workers(1)
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.03))
        .target_of(COMPLETION, OverTokio(1.1)),
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

fn hyper<R: Net>(probe: &mut Probe) {
    let server = Server::start::<R, _>(probe.workers(), R::serve_http);
    let talk = Talk {
        request: REQUEST.to_vec(),
        answer_len,
        depth: 1,
    };
    measure(probe, Client::connect(server.address, 64, &talk));
}
