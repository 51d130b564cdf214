//! Records what a small program does, and writes it as a file for <https://ui.perfetto.dev>.
//!
//! ```text
//! cargo run --release --example record -- trace.pftrace
//! ```
//!
//! In the file: two tasks that wake each other, one that sleeps, one that reads from a socket, one
//! that computes for too long, and code on the blocking pool. Without an argument it prints the
//! events as text.

use std::fs::File;
use std::time::{Duration, Instant};

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream};
use blitzen::runtime::{Builder, TraceMode};
use blitzen::sync::mpsc;
use blitzen::task;
use blitzen::time::sleep;

const ROUNDS: usize = 20;

fn main() -> std::io::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .trace(TraceMode::Full)
        .build()?;
    runtime.block_on(async {
        let ((to_pong, from_ping), (to_ping, from_pong)) = (mpsc::channel(1), mpsc::channel(1));
        let tasks = [
            named("ping", exchange(to_pong, from_pong))?,
            named("pong", exchange(to_ping, from_ping))?,
            named("sleeps", sleeps())?,
            named("computes", computes())?,
            named("waits for a job", waits_for_jobs())?,
            named("reads", reads(TcpListener::bind("127.0.0.1:0").await?))?,
        ];
        for task in tasks {
            task.await?;
        }
        std::io::Result::Ok(())
    })?;
    let trace = runtime.handle().trace();
    match std::env::args_os().nth(1) {
        Some(path) => trace.write_perfetto(File::create(path)?),
        None => trace.write_text(std::io::stdout()),
    }
}

fn named(
    name: &str,
    future: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<task::JoinHandle<()>> {
    task::Builder::new().name(name).spawn(future)
}

/// Sends a number, and waits for the other side's.
async fn exchange(to_other: mpsc::Sender<usize>, mut from_other: mpsc::Receiver<usize>) {
    for round in 0..ROUNDS {
        if to_other.send(round).await.is_err() || from_other.recv().await.is_none() {
            return;
        }
    }
}

async fn sleeps() {
    for _ in 0..5 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// A poll of three milliseconds, in which the worker can do nothing else.
async fn computes() {
    sleep(Duration::from_millis(1)).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(3) {
        std::hint::spin_loop();
    }
}

async fn waits_for_jobs() {
    let job = || task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(2)));
    for job in [job(), job()] {
        let _ = job.await;
    }
}

/// Reads what another task writes, a byte every millisecond.
async fn reads(listener: TcpListener) {
    let Ok(address) = listener.local_addr() else {
        return;
    };
    let writer = task::spawn(async move {
        let mut stream = TcpStream::connect(address).await?;
        for _ in 0..3 {
            sleep(Duration::from_millis(1)).await;
            stream.write_all(b"x").await?;
        }
        std::io::Result::Ok(())
    });
    if let Ok((mut stream, _)) = listener.accept().await {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
    }
    let _ = writer.await;
}
