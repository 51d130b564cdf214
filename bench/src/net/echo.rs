//! Echo servers: a task per connection reads what there is and writes it back.

use blitzen::net::SocketMode;

use super::client::{Client, Talk};
use super::server::Server;
use super::{
    CLIENT_CALLS, Sockets, each_server, each_server_and_current_thread, server_of,
    server_single_thread,
};
use crate::observe;
use crate::probe::Probe;
use crate::row::{
    COMPLETION, Contender, Row,
    Target::{NoteOverTokio, OverBestPeer, OverTokio},
};
use crate::rt::Blitzen;

/// The usual buffer of such a server.
const BUFFER: usize = 4096;

macro_rules! echo_row {
    ($name:literal, $connections:literal, $depth:literal, $ops:expr, $contenders:ident) => {
        Row::new(
            $name,
            concat!(
                "64 B echoed on ",
                $connections,
                " connections, ",
                $depth,
                " on their way on each: server CPU"
            ),
            $ops,
            $contenders!(echo::<$connections, $depth>, serve),
        )
        .floor("epoll", |probe| {
            echo::<$connections, $depth>(probe, &Server::start_bare_epoll());
        })
        .floor("io_uring", |probe| {
            echo::<$connections, $depth>(probe, &Server::start_bare_uring($connections));
        })
        .workers(1)
        .untraced(CLIENT_CALLS)
    };
}

/// A server whose tasks never leave their thread, among others of that kind.
macro_rules! sharded_row {
    ($name:literal, $connections:literal, $ops:expr) => {
        Row::new(
            $name,
            concat!(
                "64 B echoed on ",
                $connections,
                " connections by tasks that stay on their thread: server CPU"
            ),
            $ops,
            vec![
                Contender::named("blitzen", |probe| {
                    let server = Server::start_sharded(SocketMode::Readiness, serve::<Blitzen>);
                    echo::<$connections, 1>(probe, &server);
                }),
                Contender::named(COMPLETION, |probe| {
                    let server = Server::start_sharded(SocketMode::Completion, serve::<Blitzen>);
                    echo::<$connections, 1>(probe, &server);
                }),
                server_of!("tokio", TokioCurrentThread, echo::<$connections, 1>, serve),
                server_single_thread!("monoio", Monoio, echo::<$connections, 1>, serve),
                server_single_thread!("glommio", Glommio, echo::<$connections, 1>, serve),
            ],
        )
        .floor("io_uring", |probe| {
            echo::<$connections, 1>(probe, &Server::start_bare_uring($connections));
        })
        .workers(1)
        .untraced(CLIENT_CALLS)
        .target(OverBestPeer(1.0))
        .target_of(COMPLETION, OverBestPeer(1.0))
    };
}

/// A server whose runtime is observed.
pub(crate) fn observed_row() -> Row {
    Row::new(
        "observe_echo_32",
        "64 B echoed on 32 connections, 1 on their way on each: server CPU",
        (60_000, 256),
        vec![
            server_of!("blitzen", Blitzen, echo::<32, 1>, serve),
            server_of!(observe::SAMPLED, BlitzenSampled, echo::<32, 1>, serve),
            server_of!(observe::FULL, BlitzenFull, echo::<32, 1>, serve),
            server_of!(observe::HISTOGRAMS, BlitzenHistograms, echo::<32, 1>, serve),
            server_of!("tokio", Tokio, echo::<32, 1>, serve),
            server_of!(
                observe::TOKIO_HISTOGRAM,
                TokioHistogram,
                echo::<32, 1>,
                serve
            )
            .in_other_build(),
            server_of!(observe::TOKIO_CONSOLE, TokioConsole, echo::<32, 1>, serve).in_other_build(),
        ],
    )
    .untraced(CLIENT_CALLS)
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        echo_row!("echo_1", 1, 1, (4_000, 64), each_server_and_current_thread)
            .target(OverTokio(1.15))
            .target(NoteOverTokio("time", 1.7))
            .target_of(COMPLETION, OverTokio(1.15))
            .target_of(COMPLETION, NoteOverTokio("time", 1.7)),
        echo_row!(
            "echo_32",
            32,
            1,
            (60_000, 256),
            each_server_and_current_thread
        )
        .target(OverTokio(1.05))
        .target_of(COMPLETION, OverTokio(1.12)),
        echo_row!("echo_256", 256, 1, (60_000, 512), each_server)
            .target(OverTokio(1.05))
            .target_of(COMPLETION, OverTokio(1.12)),
        echo_row!("echo_1024", 1024, 1, (60_000, 2_048), each_server)
            .target(OverTokio(1.0))
            .target(NoteOverTokio("p99", 3.0))
            .target_of(COMPLETION, OverTokio(1.08))
            .target_of(COMPLETION, NoteOverTokio("p99", 3.0)),
        echo_row!("echo_8192", 8192, 1, (250_000, 8_192), each_server)
            .target(OverTokio(0.95))
            .target(NoteOverTokio("p99", 1.8))
            .target_of(COMPLETION, OverTokio(0.95))
            .target_of(COMPLETION, NoteOverTokio("p99", 1.8)),
        echo_row!("echo16_1", 1, 16, (100_000, 64), each_server)
            .target(OverTokio(1.0))
            .target_of(COMPLETION, OverTokio(1.0)),
        echo_row!("echo16_32", 32, 16, (800_000, 512), each_server)
            .target(OverTokio(1.05))
            .target_of(COMPLETION, OverTokio(1.12)),
        echo_row!("echo16_256", 256, 16, (800_000, 4_096), each_server)
            .target(OverTokio(1.05))
            .target_of(COMPLETION, OverTokio(1.12)),
        echo_row!("echo16_1024", 1024, 16, (800_000, 16_384), each_server)
            .target(OverTokio(1.05))
            .target_of(COMPLETION, OverTokio(1.12)),
        echo_row!("echo16_8192", 8192, 16, (1_600_000, 16_384), each_server)
            .target(OverTokio(0.95))
            .target_of(COMPLETION, OverTokio(0.95)),
        sharded_row!("shard_echo_32", 32, (60_000, 256)),
        sharded_row!("shard_echo_1024", 1024, (60_000, 2_048)),
        Row::new(
            "copy_16k",
            "16 KiB echoed by the library's copy, 32 connections: server CPU",
            (8_000, 64),
            each_server!(echo_large, copy),
        )
        .workers(1)
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.5))
        .target_of(COMPLETION, OverTokio(1.5)),
        Row::new(
            "echo_16k",
            "16 KiB echoed through a buffer of 4 KiB, 32 connections: server CPU",
            (8_000, 64),
            each_server!(echo_large, serve),
        )
        .floor("epoll", |probe| {
            echo_large(probe, &Server::start_bare_epoll())
        })
        .workers(1)
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.0))
        .target_of(COMPLETION, OverTokio(1.0)),
    ]
}

/// The row of a curve over the number of connections.
pub(crate) fn sized_row() -> Row {
    Row::new(
        "echo_connections",
        "64 B echoed on that many connections: server CPU",
        (20_000, 200),
        each_server!(echo_sized, serve),
    )
    .workers(1)
}

fn echo_sized(probe: &mut Probe, server: &Server) {
    let talk = Talk::echo(64, 1);
    let connections = probe.size() as usize;
    measure(probe, Client::connect(server.address, connections, &talk));
}

pub(super) async fn serve<R: Sockets>(mut connection: R::Connection) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let (count, received) = R::receive(&mut connection, buffer).await;
        if count == 0 {
            return;
        }
        let (is_sent, sent) = R::send_all(&mut connection, received, count).await;
        if !is_sent {
            return;
        }
        buffer = sent;
    }
}

async fn copy<R: Sockets>(connection: R::Connection) {
    R::copy_all_back(connection).await;
}

fn echo<const CONNECTIONS: usize, const DEPTH: usize>(probe: &mut Probe, server: &Server) {
    let talk = Talk::echo(64, DEPTH);
    measure(probe, Client::connect(server.address, CONNECTIONS, &talk));
}

fn echo_large(probe: &mut Probe, server: &Server) {
    let talk = Talk::echo(16 * 1024, 1);
    measure(probe, Client::connect(server.address, 32, &talk));
}

/// Server CPU per request, and beside it the time and the latencies.
pub(super) fn measure(probe: &mut Probe, mut client: Client) {
    let mut notes = None;
    probe.derive(|n| {
        let run = client.run(n);
        let per_request = |ns: f64| ns / n as f64;
        notes = Some([
            ("time", per_request(run.cost.wall_ns())),
            ("p50", run.latency_ns(0.5)),
            ("p99", run.latency_ns(0.99)),
            ("longest", run.latency_ns(1.0)),
        ]);
        (run.cost, per_request(run.cost.cpu_ns()))
    });
    for (name, value) in notes.into_iter().flatten() {
        probe.note(name, value);
    }
}
