//! Signals under wakers that panic, and across `fork(2)` and `execve(2)`. Each
//! test has a signal of its own, since all share the process.

#![cfg(unix)]

use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt;
use std::panic::panic_any;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use blitzen::process::Command;
use blitzen::runtime::{Builder, Runtime};
use blitzen::signal::unix::{Signal, SignalKind, signal};
use blitzen::time::timeout;

const MINUTE: Duration = Duration::from_secs(60);

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap(),
    ]
}

fn send(kind: SignalKind) {
    // SAFETY: a signal to ourselves, for which there is a handler.
    unsafe { assert_eq!(libc::raise(kind.as_raw_value()), 0) };
}

async fn receive(listener: &mut Signal) -> Option<()> {
    let received = timeout(MINUTE, listener.recv()).await;
    received.expect("the signal comes")
}

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("a payload that panics when dropped");
    }
}

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic_any(Payload);
    }
}

#[test]
fn wakers_that_panic_cost_neither_a_worker_nor_another_listener() {
    let kind = SignalKind::user_defined1();
    for runtime in runtimes() {
        let mut bombs: Vec<_> = {
            let _inside = runtime.enter();
            (0..10).map(|_| signal(kind).unwrap()).collect()
        };
        let bomb = Waker::from(Arc::new(Bomb));
        let mut cx = Context::from_waker(&bomb);
        runtime.block_on(async {
            let mut waits = signal(kind).unwrap();
            for _ in 0..3 {
                for listener in &mut bombs {
                    assert!(listener.poll_recv(&mut cx).is_pending());
                }
                send(kind);
                assert_eq!(receive(&mut waits).await, Some(()));
                for listener in &mut bombs {
                    assert!(listener.poll_recv(&mut cx).is_ready());
                }
            }
            blitzen::spawn(async {}).await.unwrap();
        });
        // A listener needs no runtime to be dropped.
        std::thread::spawn(move || drop(bombs)).join().unwrap();
    }
}

#[test]
fn a_signal_to_a_child_before_it_runs_its_program_is_none_of_ours() {
    let kind = SignalKind::user_defined2();
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut ours = signal(kind).unwrap();
            let mut command = Command::new("true");
            // SAFETY: `raise` may be called there. The handler is still ours.
            unsafe {
                command.pre_exec(move || match libc::raise(kind.as_raw_value()) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
            for _ in 0..5 {
                assert!(command.status().await.unwrap().success());
            }
            let is_silent = poll_fn(|cx| Poll::Ready(ours.poll_recv(cx).is_pending())).await;
            assert!(is_silent, "it was the child's");
            send(kind);
            assert_eq!(receive(&mut ours).await, Some(()), "ours still come");
        });
    }
}

#[test]
fn a_program_that_is_run_does_not_inherit_the_handlers() {
    let kind = SignalKind::alarm();
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut ours = signal(kind).unwrap();
            let status = Command::new("sh")
                .args(["-c", "kill -ALRM $$; exit 3"])
                .status()
                .await
                .unwrap();
            assert_eq!(status.signal(), Some(kind.as_raw_value()));
            let is_silent = poll_fn(|cx| Poll::Ready(ours.poll_recv(cx).is_pending())).await;
            assert!(is_silent);
        });
    }
}
