//! Signals reach every listener, whatever becomes of runtimes. Each test has a
//! signal of its own, since all share the process.
#![cfg(unix)]

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime};
use blitzen::signal::unix::{Signal, SignalKind, signal};

/// Far more than anything here takes, on the busiest machine.
const TEST_LIMIT: Duration = Duration::from_secs(60);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn workers(count: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).enable_all().build().unwrap()
}

fn send(kind: SignalKind) {
    // To this thread, so that it has been handled when this returns.
    // SAFETY: a signal to ourselves, for which there is a handler.
    unsafe { assert_eq!(libc::raise(kind.as_raw_value()), 0) };
}

async fn receive(listener: &mut Signal) -> Option<()> {
    let received = blitzen::time::timeout(TEST_LIMIT, listener.recv()).await;
    received.expect("the signal comes")
}

/// Lets the drivers look.
async fn settle() {
    for _ in 0..3 {
        blitzen::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn is_silent(listener: &mut Signal) -> bool {
    settle().await;
    poll_fn(|cx| Poll::Ready(listener.poll_recv(cx).is_pending())).await
}

#[test]
fn a_signal_between_listening_and_the_first_wait_is_received() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let kind = SignalKind::hangup();
            let mut one = signal(kind).unwrap();
            let mut other = signal(kind).unwrap();
            send(kind);
            settle().await; // it has been dispatched, and no listener has waited
            assert_eq!(receive(&mut one).await, Some(()));
            assert_eq!(receive(&mut other).await, Some(()));
            assert!(is_silent(&mut one).await);
        });
    }
}

#[test]
fn signals_are_coalesced_until_one_is_received() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let kind = SignalKind::user_defined1();
            let mut listener = signal(kind).unwrap();
            for _ in 0..1_000 {
                send(kind);
            }
            assert_eq!(receive(&mut listener).await, Some(()));
            // The last may have come after the dispatch of the first.
            settle().await;
            let _either = poll_fn(|cx| Poll::Ready(listener.poll_recv(cx))).await;
            assert!(is_silent(&mut listener).await);
            for _ in 0..1_000 {
                send(kind);
                assert_eq!(receive(&mut listener).await, Some(()));
            }
        });
    }
}

#[test]
fn a_wait_that_was_dropped_loses_nothing() {
    one_thread().block_on(async {
        let kind = SignalKind::window_change();
        let mut listener = signal(kind).unwrap();
        for _ in 0..10 {
            let wait = blitzen::time::timeout(Duration::from_millis(1), listener.recv());
            assert!(wait.await.is_err());
            send(kind);
            settle().await;
            assert_eq!(receive(&mut listener).await, Some(()));
        }
    });
}

#[test]
fn a_listener_outlives_its_runtime_in_another() {
    let kind = SignalKind::alarm();
    for first in [one_thread(), workers(2)] {
        let mut listener = first.block_on(async { signal(kind).unwrap() });
        drop(first);
        let second = one_thread();
        second.block_on(async {
            assert!(is_silent(&mut listener).await);
            send(kind);
            assert_eq!(receive(&mut listener).await, Some(()));
        });
    }
}

#[test]
fn a_listener_without_any_runtime_returns_none() {
    let runtime = one_thread();
    let mut listener = runtime.block_on(async { signal(SignalKind::io()).unwrap() });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(listener.poll_recv(&mut cx).is_pending());
    drop(runtime);
    assert_eq!(listener.poll_recv(&mut cx), Poll::Ready(None));
}

#[test]
fn the_end_of_a_runtime_wakes_listeners_that_wait_elsewhere() {
    let kind = SignalKind::quit();
    let first = one_thread();
    let mut listener = first.block_on(async { signal(kind).unwrap() });
    let (waits, is_waiting) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        one_thread().block_on(async move {
            let received = poll_fn(|cx| {
                let answer = listener.poll_recv(cx);
                let _ = waits.send(()); // once is enough
                answer
            });
            blitzen::time::timeout(TEST_LIMIT, received).await
        })
    });
    is_waiting.recv().unwrap();
    drop(first);
    is_waiting.recv_timeout(TEST_LIMIT).expect("it looks again");
    send(kind);
    assert_eq!(waiter.join().unwrap(), Ok(Some(())));
}

#[test]
fn every_runtime_receives_every_signal_while_others_start_and_end() {
    let kind = SignalKind::user_defined2();
    let comers = std::thread::spawn(move || {
        for _ in 0..50 {
            let runtime = one_thread();
            let listener = runtime.block_on(async { signal(kind).unwrap() });
            drop(runtime);
            drop(listener);
        }
    });
    let (ready, is_ready) = mpsc::channel();
    let mut listeners: Vec<_> = (0..4)
        .map(|_| {
            let ready = ready.clone();
            let (go_on, goes_on) = mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                let runtime = one_thread();
                let mut listener = runtime.block_on(async { signal(kind).unwrap() });
                ready.send(()).unwrap();
                while goes_on.recv().is_ok() {
                    runtime.block_on(async { receive(&mut listener).await });
                    ready.send(()).unwrap();
                }
            });
            (go_on, thread)
        })
        .collect();
    let all_ready = |listeners: &Vec<_>| {
        for _ in listeners {
            is_ready
                .recv_timeout(TEST_LIMIT)
                .expect("every listener receives it");
        }
    };
    all_ready(&listeners);
    for _ in 0..50 {
        send(kind);
        for (go_on, _) in &listeners {
            go_on.send(()).unwrap();
        }
        all_ready(&listeners);
    }
    for (go_on, thread) in listeners.drain(..) {
        drop(go_on);
        thread.join().unwrap();
    }
    comers.join().unwrap();
}

#[test]
fn a_blocked_worker_does_not_keep_a_signal_from_the_others() {
    let kind = SignalKind::pipe();
    let runtime = workers(2);
    runtime.block_on(async {
        // The worker that made the listener watches for it.
        let (release, released) = mpsc::channel::<()>();
        let (hand_over, handed_over) = blitzen::channel::oneshot::channel();
        let blocked = blitzen::spawn(async move {
            let listener = signal(kind).unwrap();
            assert!(hand_over.send(listener).is_ok());
            let _ = released.recv(); // what a task should not do
        });
        let mut listener = handed_over.await.unwrap();
        send(kind);
        assert_eq!(receive(&mut listener).await, Some(()));
        drop(release);
        blocked.await.unwrap();
    });
}

#[test]
fn what_cannot_be_caught_is_an_error() {
    one_thread().block_on(async {
        for number in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 0x7fff_ffff, -1] {
            let error = signal(SignalKind::from_raw(number)).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
        for number in 1..32 {
            if !matches!(
                number,
                libc::SIGKILL | libc::SIGSTOP | libc::SIGSEGV | libc::SIGILL | libc::SIGFPE
            ) {
                drop(signal(SignalKind::from_raw(number)).unwrap());
            }
        }
    });
}
