//! How long an echo, a timer and a new task wait while one of two workers is blocked, or
//! both.
//!
//! A task blocks its worker for 300 ms, lets it go for a moment, and blocks it again.
//! The value is the longest wait of an echo, of eight connections that ask every few
//! milliseconds; beside it those of a timer and of a task spawned from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::server::Server;
use super::{Net, each_net};
use crate::probe::{Cost, Probe};
use crate::row::{
    COMPLETION, Row,
    Target::{AtMost, NoteAtMost},
};

const BLOCK: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(5);
const CONNECTIONS: usize = 8;
/// What nobody should wait longer than.
const LIMIT_NS: f64 = 20e6;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "stall",
            "one of two workers is blocked for 300 ms at a time: the longest echo",
            (4, 1),
            each_net!(stall),
        )
        .target(AtMost(LIMIT_NS))
        .target(NoteAtMost("timer", LIMIT_NS))
        .target(NoteAtMost("spawn", LIMIT_NS))
        .target_of(COMPLETION, AtMost(LIMIT_NS))
        .target_of(COMPLETION, NoteAtMost("timer", LIMIT_NS))
        .target_of(COMPLETION, NoteAtMost("spawn", LIMIT_NS)),
        Row::new(
            "stall_all",
            "every worker is blocked for 300 ms at a time: the longest echo",
            (4, 1),
            each_net!(stall_all),
        )
        .target(AtMost(LIMIT_NS))
        .target(NoteAtMost("timer", LIMIT_NS))
        .target(NoteAtMost("spawn", LIMIT_NS))
        .target_of(COMPLETION, AtMost(LIMIT_NS))
        .target_of(COMPLETION, NoteAtMost("timer", LIMIT_NS))
        .target_of(COMPLETION, NoteAtMost("spawn", LIMIT_NS)),
    ]
}

/// The longest waits so far.
#[derive(Default)]
struct Longest {
    timer_ns: AtomicU64,
    spawn_ns: AtomicU64,
    is_over: AtomicBool,
}

async fn serve<R: Net>(mut stream: R::Stream) {
    let mut byte = [0];
    while R::read(&mut stream, &mut byte).await == 1 {
        if !R::write_all(&mut stream, &byte).await {
            return;
        }
    }
}

fn stall<R: Net>(probe: &mut Probe) {
    measure::<R>(probe, 1);
}

fn stall_all<R: Net>(probe: &mut Probe) {
    measure::<R>(probe, probe.workers());
}

fn measure<R: Net>(probe: &mut Probe, blockers: usize) {
    let mut notes = [0.0, 0.0];
    let workers = probe.workers();
    probe.derive_once(|blocks| {
        let longest = Arc::new(Longest::default());
        let server = Server::start_with::<R, _>(workers, serve::<R>, {
            let longest = longest.clone();
            move || disturb::<R>(&longest, blockers)
        });
        let echo_ns = ask_for(server.address, (BLOCK + PAUSE) * blocks as u32);
        longest.is_over.store(true, Relaxed);
        drop(server);
        notes = [&longest.timer_ns, &longest.spawn_ns].map(|ns| ns.load(Relaxed) as f64);
        (Cost::of_count(blocks), echo_ns)
    });
    probe.note("timer", notes[0]);
    probe.note("spawn", notes[1]);
}

/// Starts the tasks that block, and those that look how late they are.
fn disturb<R: Net>(longest: &Arc<Longest>, blockers: usize) {
    for _ in 0..blockers {
        R::detach(R::spawn({
            let longest = longest.clone();
            async move {
                while !longest.is_over.load(Relaxed) {
                    thread::sleep(BLOCK);
                    R::sleep(PAUSE).await;
                }
            }
        }));
    }
    // As many as make it likely that some live with the worker that is blocked.
    for _ in 0..4 {
        R::detach(R::spawn({
            let longest = longest.clone();
            async move {
                while !longest.is_over.load(Relaxed) {
                    let due = Instant::now() + PAUSE;
                    R::sleep(PAUSE).await;
                    longest.timer_ns.fetch_max(since_ns(due), Relaxed);
                    let spawned = Instant::now();
                    let longest = longest.clone();
                    // Not awaited: the end of the runtime may cancel it.
                    R::detach(R::spawn(async move {
                        longest.spawn_ns.fetch_max(since_ns(spawned), Relaxed);
                    }));
                }
            }
        }));
    }
}

fn since_ns(moment: Instant) -> u64 {
    Instant::now().saturating_duration_since(moment).as_nanos() as u64
}

/// Echoes for that long on several connections; the longest wait.
fn ask_for(address: SocketAddr, time: Duration) -> f64 {
    let end = Instant::now() + time;
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| thread::spawn(move || ask_until(address, end)))
        .collect();
    let waits = clients.into_iter().map(|client| client.join());
    waits
        .map(|wait| wait.expect("a client does not panic"))
        .fold(0.0, f64::max)
}

fn ask_until(address: SocketAddr, end: Instant) -> f64 {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a socket has options");
    let mut longest_ns = 0;
    while Instant::now() < end {
        let asked = Instant::now();
        stream.write_all(b"x").expect("the server is there");
        stream.read_exact(&mut [0]).expect("the server answers");
        longest_ns = longest_ns.max(since_ns(asked));
        thread::sleep(PAUSE);
    }
    longest_ns as f64
}
