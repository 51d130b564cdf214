//! `blitzen-console-bridge`: shows a program with a console to tokio-console.
//!
//! ```text
//!   program ──► program.rs   its socket: requests and answers
//!               model.rs     tasks and locks, from lists and events
//!                 task.rs, locks.rs
//!               messages.rs  the model as messages of `console-api`
//!               service.rs   the gRPC service ──► tokio-console
//! ```
//!
//! Answers are values of `blitzen-console-protocol`; `docs/console-protocol.md` describes them.
//!
//! B1. The bridge listens on the loopback interface only.
//! B2. The program is asked only to look, and to record everything while the bridge is connected.
//! B3. Neither a client that does not read nor one that has gone holds up the bridge, and what is
//!     kept for it is bounded.

mod locks;
mod messages;
mod model;
mod program;
mod service;
mod task;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use console_api::instrument::instrument_server::InstrumentServer;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use blitzen_console_protocol::{Events, Stats, Task};
use model::Model;
use program::Program;
use service::{Publisher, Service};

const USAGE: &str = "\
usage: blitzen-console-bridge SOCKET [ADDRESS]

Shows a program that runs on blitzen to tokio-console. SOCKET is the path of the program's
console; `blitzen console PROGRAM --grpc ADDRESS` finds it. ADDRESS is 127.0.0.1:6669 if none is
given.";

const USUAL_ADDRESS: &str = "127.0.0.1:6669";

/// How often tasks are listed, and clients get an update; less often if a list takes long.
const LIST_INTERVAL: Duration = Duration::from_millis(500);
/// How much longer than a list takes the program is left alone.
const LIST_PAUSE_FACTOR: u32 = 10;
/// How often events are read; more often if some were overwritten before, but no more than half of
/// the time.
const MAX_READ_INTERVAL: Duration = Duration::from_millis(50);
const MIN_READ_INTERVAL: Duration = Duration::from_millis(2);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (socket, address) = match args[..] {
        [socket] if !socket.starts_with('-') => (socket, USUAL_ADDRESS),
        [socket, address] => (socket, address),
        _ => {
            eprintln!("{USAGE}");
            return 2.into();
        }
    };
    let runtime = tokio::runtime::Runtime::new();
    let done = runtime.and_then(|runtime| {
        let done = runtime.block_on(run(PathBuf::from(socket), address));
        runtime.shutdown_background(); // clients may be connected
        done
    });
    match done {
        Ok(()) => 0.into(),
        Err(why) => {
            eprintln!("blitzen-console-bridge: {why}");
            1.into()
        }
    }
}

/// Shows the program until it ends, which is an error, or the process is told to end.
async fn run(socket: PathBuf, address: &str) -> io::Result<()> {
    let (mut interrupted, mut terminated) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let listener = listen(address).await?;
    let mut program = Program::connect(&socket).await?;
    tokio::select! {
        ended = show(&mut program, listener) => ended,
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    }
}

/// Serves clients until the program does not answer any more.
async fn show(program: &mut Program, listener: TcpListener) -> io::Result<()> {
    let model = Arc::new(Mutex::new(attach(program).await?));
    let (publisher, service) = Service::new(model.clone());
    let (title, address) = (program.title(), listener.local_addr()?);
    println!("{title} is shown at http://{address}: run `tokio-console http://{address}`");
    let server = Server::builder()
        .add_service(InstrumentServer::new(service))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::select! {
        ended = follow(program, &model, &publisher) => ended,
        served = server => served.map_err(io::Error::other),
    }
}

/// Listens at `address` (B1).
async fn listen(address: &str) -> io::Result<TcpListener> {
    let describe = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(describe)?.collect();
    if !found.iter().all(|address| address.ip().is_loopback()) {
        let why = "not an address of the loopback interface, such as 127.0.0.1:6669";
        return Err(describe(io::Error::new(ErrorKind::InvalidInput, why)));
    }
    TcpListener::bind(&found[..]).await.map_err(describe)
}

/// Has everything recorded from now on, as long as the connection lasts; returns what there is now.
async fn attach(program: &mut Program) -> io::Result<Model> {
    program.ask("hold_trace full").await?;
    let stats: Stats = program.ask_json("stats").await?;
    let events: Events = program.ask_json("events").await?;
    let list: Vec<Task> = program.ask_json("tasks").await?;
    Ok(Model::attach(&stats, events, list))
}

/// Keeps the model up to date until the program does not answer any more.
async fn follow(
    program: &mut Program,
    model: &Mutex<Model>,
    publisher: &Publisher,
) -> io::Result<()> {
    let lock = || model.lock().unwrap_or_else(PoisonError::into_inner);
    let mut interval = MAX_READ_INTERVAL;
    let mut next_list = Instant::now();
    loop {
        sleep(interval).await;
        let start = Instant::now();
        let events: Events = program.ask_json("events").await?;
        let is_late = lock().add_events(events);
        let shortest = start.elapsed().clamp(MIN_READ_INTERVAL, MAX_READ_INTERVAL);
        interval = match is_late {
            true => (interval / 2).max(shortest),
            false => (interval + MIN_READ_INTERVAL).min(MAX_READ_INTERVAL),
        };
        let start = Instant::now();
        if start < next_list {
            continue;
        }
        let stats: Stats = program.ask_json("stats").await?;
        let list: Vec<Task> = program.ask_json("tasks").await?;
        lock().add_list(&stats, list);
        publisher.publish();
        next_list = start + LIST_INTERVAL.max(start.elapsed() * LIST_PAUSE_FACTOR);
    }
}
