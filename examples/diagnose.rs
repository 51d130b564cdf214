//! A program with five faults, and what the runtime says of each: a deadlock, a call that blocks a
//! worker, a task that wakes itself, a task whose waker is lost, and a future that is too large.
//!
//! ```text
//! cargo run --release --example diagnose
//! ```
//!
//! ends by itself. With the argument `wait` it stays as it is: Ctrl-\ then writes the list of
//! tasks, from a thread of its own.

use std::future::{pending, poll_fn};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use blitzen::runtime::lint::LintKind;
use blitzen::runtime::{Builder, dump};
use blitzen::sync::{Barrier, Mutex};
use blitzen::task;

/// How long to wait for the next report. A machine that is busy with other programs may be too slow
/// for some faults to show.
const LIMIT: Duration = Duration::from_secs(10);

const EXPECTED: [LintKind; 5] = [
    LintKind::Deadlock,
    LintKind::BlockingLock,
    LintKind::SelfWake,
    LintKind::LostWaker,
    LintKind::LargeFuture,
];

fn main() -> std::io::Result<()> {
    // Before the locks are made whose owners are to be known.
    dump::note_lock_owners(true);
    let (found, lints) = mpsc::channel();
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(3)
        .enable_all()
        .slow_poll(Duration::from_millis(100))
        .on_lint(move |lint| drop(found.send(lint.clone())));
    #[cfg(unix)]
    builder.dump_on(blitzen::signal::unix::SignalKind::quit());
    let runtime = builder.build()?;
    let entered = runtime.enter();

    deadlock()?;
    let (release, wait) = mpsc::channel::<()>();
    named("blocks its worker", async move {
        let _ = wait.recv();
    })?;
    named("wakes itself", wakes_itself())?;
    named("has lost its waker", pending::<()>())?;
    named("is large", large())?;

    println!("lints:");
    let mut missing = EXPECTED.to_vec();
    while !missing.is_empty() {
        let Ok(lint) = lints.recv_timeout(LIMIT) else {
            println!("  not seen: {missing:?}");
            break;
        };
        missing.retain(|&kind| kind != lint.kind());
        println!("  {lint}");
    }
    println!("\n{}", runtime.handle().tasks());
    if std::env::args().nth(1).as_deref() == Some("wait") {
        println!("Ctrl-\\ lists the tasks again, Ctrl-C ends the program");
        lints.iter().for_each(|lint| println!("{lint}"));
    }
    drop((release, entered)); // which ends the task that blocks its worker
    Ok(())
}

#[track_caller]
fn named(
    name: &str,
    future: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<task::JoinHandle<()>> {
    task::Builder::new().name(name).spawn(future)
}

/// Two tasks that take two locks in different orders.
fn deadlock() -> std::io::Result<()> {
    let (one, other) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let both_locked = Arc::new(Barrier::new(2));
    let pairs = [(one.clone(), other.clone()), (other, one)];
    for (first, second) in pairs {
        let both_locked = both_locked.clone();
        named("deadlock", async move {
            let _first = first.lock().await;
            both_locked.wait().await;
            let _second = second.lock().await; // the list says: mutex, held by the other task
        })?;
    }
    Ok(())
}

/// Returns `Pending`, and asks to be polled again at once, for ever.
async fn wakes_itself() {
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    })
    .await;
}

/// Keeps a buffer across a point where it waits, so that the buffer is part of the future.
async fn large() {
    let buffer = [0_u8; 24 * 1024];
    task::yield_now().await;
    pending::<()>().await;
    std::hint::black_box(&buffer);
}
