//! Timers under wakers that panic, moves between runtimes and threads, and the
//! end of their runtime.

#![cfg(not(blitzen_loom))]

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

use blitzen::runtime::{Builder, Runtime};
use blitzen::time::{Duration, Instant, Sleep, sleep, timeout};

const MINUTE: Duration = Duration::from_secs(60);
const ROUNDS: u64 = if cfg!(debug_assertions) { 300 } else { 3_000 };

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn workers(count: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).enable_all().build().unwrap()
}

/// Polls a sleep once, with any waker.
fn poll_with(sleep: &mut Pin<Box<Sleep>>, waker: &Waker) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(waker))
}

/// Panics with itself when woken, and with itself when dropped.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic_any(Payload);
    }
}

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("a payload that panics when dropped");
    }
}

#[test]
fn wakers_that_panic_cost_neither_a_worker_nor_another_timer() {
    for runtime in [one_thread(), workers(1), workers(2)] {
        runtime.block_on(async {
            let bomb = Waker::from(Arc::new(Bomb));
            // More than are fired in one batch.
            let mut armed: Vec<_> = (0..100).map(|_| Box::pin(sleep(ms(300)))).collect();
            for (index, sleep) in armed.iter_mut().enumerate() {
                let waker = if index % 3 == 0 { &bomb } else { Waker::noop() };
                assert!(poll_with(sleep, waker).is_pending());
            }
            let others: Vec<_> = (0..10).map(|_| blitzen::spawn(sleep(ms(301)))).collect();
            for other in others {
                timeout(MINUTE, other).await.expect("it fires").unwrap();
            }
            for sleep in armed {
                timeout(MINUTE, sleep).await.expect("it fires");
            }
        });
        drop(runtime);
    }
}

#[test]
fn wakers_that_panic_do_not_keep_a_runtime_from_ending() {
    for runtime in [one_thread(), workers(2)] {
        let mut armed = {
            let _inside = runtime.enter();
            Box::pin(sleep(MINUTE))
        };
        assert!(poll_with(&mut armed, &Arc::new(Bomb).into()).is_pending());
        drop(runtime);
        assert!(!armed.is_elapsed());
    }
}

#[test]
fn a_waker_that_cannot_be_cloned_leaves_the_timer_usable() {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| panic!("a waker that cannot be cloned"),
        |_| (),
        |_| (),
        |_| (),
    );
    // SAFETY: the functions touch nothing.
    let stubborn = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
    one_thread().block_on(async {
        let mut armed = Box::pin(sleep(MINUTE));
        let poll = |sleep: &mut Pin<Box<Sleep>>| {
            catch_unwind(AssertUnwindSafe(|| poll_with(sleep, &stubborn)))
        };
        assert!(poll(&mut armed).is_err(), "when it would be armed");
        assert!(poll_with(&mut armed, Waker::noop()).is_pending());
        assert!(
            poll(&mut armed).is_err(),
            "when the waker would be replaced"
        );
        armed.as_mut().reset(Instant::now() + ms(1));
        timeout(MINUTE, armed).await.expect("it fires");
    });
}

#[test]
fn a_sleep_fires_in_another_runtime_than_its_own() {
    let (own, other) = (workers(1), one_thread());
    let nap = {
        let _inside = own.enter();
        sleep(ms(5))
    };
    let deadline = nap.deadline();
    other.block_on(async {
        timeout(MINUTE, nap).await.expect("it fires");
        assert!(Instant::now() >= deadline);
    });
}

#[test]
fn a_sleep_whose_runtime_ends_panics_in_another_runtime() {
    let (own, other) = (workers(1), workers(1));
    let nap = {
        let _inside = own.enter();
        sleep(MINUTE * 60)
    };
    let (polled, is_polled) = mpsc::channel();
    let waits = other.spawn(async move {
        let mut nap = Box::pin(nap);
        poll_fn(|cx| {
            let polled_now = nap.as_mut().poll(cx);
            polled.send(()).unwrap();
            polled_now
        })
        .await;
    });
    is_polled.recv().unwrap();
    drop(own);
    let ended = other.block_on(async { timeout(MINUTE, waits).await });
    let error = ended.expect("it is woken").unwrap_err();
    let panic = *error.into_panic().downcast::<&'static str>().unwrap();
    assert!(panic.contains("being shutdown"), "{panic}");
}

#[test]
fn what_outlives_its_runtime_disturbs_no_later_one() {
    for _ in 0..20 {
        let old = workers(2);
        let (mut naps, later): (Vec<_>, Vec<_>) = {
            let _inside = old.enter();
            (0..64)
                .map(|_| (Box::pin(sleep(ms(3))), Box::pin(sleep(MINUTE))))
                .unzip()
        };
        let mut later = later;
        for nap in naps.iter_mut().chain(&mut later) {
            assert!(poll_with(nap, Waker::noop()).is_pending());
        }
        drop(old);
        // It takes over the shards of the old one.
        let new = workers(2);
        let threads = [naps, later].map(|mut naps| {
            thread::spawn(move || {
                for nap in &mut naps {
                    nap.as_mut().reset(Instant::now() + ms(1));
                    let _ = nap.is_elapsed();
                }
            })
        });
        new.block_on(async {
            let start = Instant::now();
            timeout(MINUTE, sleep(ms(2))).await.expect("it fires");
            assert!(start.elapsed() >= ms(2));
        });
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_sleep_that_is_reset_while_it_fires_is_never_early_and_always_fires() {
    let runtime = workers(2);
    let handle = runtime.handle().clone();
    for round in 0..ROUNDS {
        let mut nap = {
            let _inside = handle.enter();
            Box::pin(sleep(Duration::from_micros(50)))
        };
        assert!(poll_with(&mut nap, Waker::noop()).is_pending());
        // Somewhere around the moment at which a worker fires it.
        let race = Instant::now() + Duration::from_micros(round % 120);
        while Instant::now() < race {
            std::hint::spin_loop();
        }
        let deadline = Instant::now() + Duration::from_micros(100);
        nap.as_mut().reset(deadline);
        runtime.block_on(async {
            timeout(MINUTE, nap.as_mut()).await.expect("it fires");
        });
        assert!(Instant::now() >= deadline);
    }
}

#[test]
fn a_sleep_that_is_dropped_while_it_fires_leaves_nothing_behind() {
    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }
    let runtime = workers(2);
    for round in 0..ROUNDS {
        let mut nap = {
            let _inside = runtime.enter();
            Box::pin(sleep(Duration::from_micros(50)))
        };
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        assert!(poll_with(&mut nap, &flag.clone().into()).is_pending());
        let race = Instant::now() + Duration::from_micros(round % 120);
        while Instant::now() < race {
            std::hint::spin_loop();
        }
        let had_fired = nap.is_elapsed();
        drop(nap);
        // A waker that is on its way is called, and then let go.
        while Arc::strong_count(&flag) > 1 {
            thread::yield_now();
        }
        assert!(flag.0.load(SeqCst) || !had_fired);
    }
}

#[test]
fn a_task_that_panics_on_drop_gives_its_timers_back() {
    struct PanicsOnDrop(#[allow(dead_code)] Pin<Box<Sleep>>);
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a value that panics when dropped");
        }
    }
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let task = blitzen::spawn(async {
                let mut nap = Box::pin(sleep(MINUTE));
                assert!(poll_with(&mut nap, Waker::noop()).is_pending());
                let _held = PanicsOnDrop(nap);
                std::future::pending::<()>().await;
            });
            blitzen::task::yield_now().await;
            task.abort();
            let _ended = timeout(MINUTE, task).await.expect("it ends");
            timeout(MINUTE, sleep(ms(1))).await.expect("timers go on");
        });
    }
}
