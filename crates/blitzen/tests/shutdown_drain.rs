//! A drain ends when the work does, or says what did not.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime};
use blitzen::scope::{Scope, Stopped, scope};
use blitzen::shutdown::{Cause, Reason, Shutdown, WorkGuard};
use blitzen::task;

/// Far more than anything here takes, on the busiest machine.
const TEST_LIMIT: Duration = Duration::from_secs(60);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn workers(count: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).enable_all().build().unwrap()
}

#[test]
fn a_drain_waits_for_all_work_and_for_nothing_else() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let shutdown = Shutdown::new();
            let mut tasks = task::JoinSet::new();
            for _ in 0..1_000 {
                let token = shutdown.token();
                tasks.spawn(shutdown.track(async move {
                    token.cancelled().await;
                    task::yield_now().await;
                }));
            }
            blitzen::spawn(std::future::pending::<()>()); // which does not count
            assert_eq!(shutdown.at_work(), 1_000);
            assert_eq!(shutdown.cause(), None);
            shutdown.drain(TEST_LIMIT).await.unwrap();
            assert_eq!(shutdown.cause(), Some(Cause::Request));
            assert_eq!(shutdown.at_work(), 0);
            tasks.join_all().await;
            // There is nothing left to wait for.
            shutdown.drain(Duration::ZERO).await.unwrap();
        });
    }
}

/// A runtime in which time passes only when there is nothing else to do.
fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

#[test]
fn a_drain_ends_with_the_work_and_not_with_the_deadline() {
    paused().block_on(async {
        let shutdown = Shutdown::new();
        for seconds in [1, 3, 2] {
            let token = shutdown.token();
            blitzen::spawn(shutdown.track(async move {
                token.cancelled().await;
                blitzen::time::sleep(Duration::from_secs(seconds)).await;
            }));
        }
        let start = blitzen::time::Instant::now();
        shutdown.drain(TEST_LIMIT).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 3);
    });
}

#[test]
fn a_task_that_will_not_stop_is_named() {
    paused().block_on(async {
        let shutdown = Shutdown::new();
        let line = line!() + 3;
        task::Builder::new()
            .name("stubborn")
            .spawn(shutdown.track(std::future::pending::<()>()))
            .unwrap();
        blitzen::time::sleep(Duration::from_secs(5)).await;
        let guard = shutdown.work();
        let unfinished = shutdown.drain(Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(unfinished.reason, Reason::Deadline);
        let [stubborn, outside] = &unfinished.work[..] else {
            panic!("{unfinished}");
        };
        let task = stubborn.task.as_ref().unwrap();
        assert_eq!(task.name.as_deref(), Some("stubborn"));
        assert_eq!(
            (task.spawned_at.file(), task.spawned_at.line()),
            (file!(), line)
        );
        assert_eq!(stubborn.taken_at.line(), line);
        assert_eq!(stubborn.age, Duration::from_secs(35));
        assert!(outside.task.is_none());
        assert_eq!(outside.age, Duration::from_secs(30));
        let text = unfinished.to_string();
        let place = format!("{}:{line}:", file!());
        assert!(
            text.contains("(stubborn) spawned at ") && text.contains(&place),
            "{text}"
        );
        assert!(text.contains("for 35.0s since"), "{text}");
        drop(guard);
    });
}

#[test]
fn a_task_that_does_not_even_yield_is_named() {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = workers(2);
    runtime.block_on(async {
        let shutdown = Shutdown::new();
        let busy = shutdown.track({
            let stop = stop.clone();
            async move {
                while !stop.load(Relaxed) {
                    std::thread::yield_now();
                }
            }
        });
        let busy = task::Builder::new().name("busy").spawn(busy).unwrap();
        while shutdown.work_list()[0].task.is_none() {
            task::yield_now().await;
        }
        let unfinished = shutdown.drain(Duration::from_millis(10)).await.unwrap_err();
        let task = unfinished.work[0].task.as_ref().unwrap();
        assert_eq!(task.name.as_deref(), Some("busy"));
        assert_eq!(task.id, busy.id());
        stop.store(true, Relaxed);
        shutdown.drain(TEST_LIMIT).await.unwrap();
        busy.await.unwrap();
    });
}

#[test]
fn a_panic_gives_its_guards_back() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let shutdown = Shutdown::new();
            let tracked = blitzen::spawn(shutdown.track(async { panic!("as planned") }));
            let guard = shutdown.work();
            let holding = blitzen::spawn(async move {
                let _guard = guard;
                panic!("as planned");
            });
            shutdown.drain(TEST_LIMIT).await.unwrap();
            assert!(tracked.await.unwrap_err().is_panic());
            assert!(holding.await.unwrap_err().is_panic());
        });
    }
}

#[test]
fn a_guard_that_a_panic_leaks_is_named_and_holds_nothing_up_for_ever() {
    static ASIDE: Mutex<Vec<WorkGuard>> = Mutex::new(Vec::new());
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let shutdown = Shutdown::new();
            let other = shutdown.clone();
            let leaking = async move {
                // Put aside, where unwinding does not find it.
                ASIDE.lock().unwrap().push(other.work());
                assert!(other.is_triggered(), "as planned");
                ASIDE.lock().unwrap().pop();
            };
            let task = task::Builder::new().name("leaking").spawn(leaking).unwrap();
            assert!(task.await.unwrap_err().is_panic());
            let unfinished = shutdown.drain(Duration::from_millis(1)).await.unwrap_err();
            let task = unfinished.work[0].task.as_ref().unwrap();
            assert_eq!(task.name.as_deref(), Some("leaking"));
            assert_eq!(unfinished.work.len(), 1);
        });
    }
}

#[test]
fn tasks_that_are_aborted_or_never_polled_give_their_guards_back() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let shutdown = Shutdown::new();
            drop(shutdown.track(async {}));
            let task = blitzen::spawn(shutdown.track(std::future::pending::<()>()));
            task.abort();
            shutdown.drain(TEST_LIMIT).await.unwrap();
        });
    }
}

#[test]
fn what_a_destructor_does_is_work() {
    struct Slow(Shutdown);
    impl Drop for Slow {
        fn drop(&mut self) {
            assert_eq!(self.0.at_work(), 1, "the guard outlives the future");
        }
    }
    one_thread().block_on(async {
        let shutdown = Shutdown::new();
        let slow = Slow(shutdown.clone());
        // Has it until it is dropped, after its end.
        let ready = std::future::poll_fn(move |_| {
            let _held = &slow;
            Poll::Ready(())
        });
        shutdown.track(ready).await;
        let slow = Slow(shutdown.clone());
        drop(shutdown.track(async move {
            let _slow = slow;
            std::future::pending::<()>().await
        }));
        assert_eq!(shutdown.at_work(), 0);
    });
}

#[test]
fn work_that_moves_between_guards_is_always_counted() {
    const ROUNDS: usize = 10_000;
    let shutdown = Shutdown::new();
    // Two threads, so two shards, that pass the work to each other.
    let (to_first, first) = std::sync::mpsc::channel();
    let (to_second, second) = std::sync::mpsc::channel();
    to_first.send(shutdown.work()).unwrap();
    let hand_on = |from: Receiver<WorkGuard>, to: Sender<WorkGuard>, keeps_last: bool| {
        let shutdown = shutdown.clone();
        std::thread::spawn(move || {
            for round in 1..=ROUNDS {
                let held = from.recv().unwrap();
                let taken = shutdown.work();
                drop(held);
                if keeps_last && round == ROUNDS {
                    return Some(taken);
                }
                to.send(taken).unwrap();
            }
            None
        })
    };
    let threads = [
        hand_on(first, to_second, false),
        hand_on(second, to_first, true),
    ];
    while threads.iter().any(|thread| !thread.is_finished()) {
        assert!(shutdown.at_work() >= 1);
    }
    drop(threads.map(|thread| thread.join().unwrap()));
    assert_eq!(shutdown.at_work(), 0);
}

#[test]
fn hurry_ends_a_drain_that_is_under_way() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let shutdown = Shutdown::new();
            let _guard = shutdown.work();
            let other = shutdown.clone();
            blitzen::spawn(async move {
                other.triggered().await;
                other.hurry();
            });
            let unfinished = shutdown.drain(TEST_LIMIT).await.unwrap_err();
            assert_eq!(unfinished.reason, Reason::Hurry);
            assert_eq!(unfinished.work.len(), 1);
        });
    }
}

#[test]
fn a_token_ends_a_part_of_the_program_and_the_shutdown_ends_them_all() {
    one_thread().block_on(async {
        let shutdown = Shutdown::new();
        let (part, rest) = (shutdown.token(), shutdown.token());
        part.cancel();
        assert!(!shutdown.is_triggered() && !rest.is_cancelled());
        shutdown
            .track(async { assert!(!task::is_cancelled()) })
            .await;
        shutdown.trigger();
        assert!(rest.is_cancelled() && shutdown.token().is_cancelled());
    });
}

#[test]
fn a_shutdown_is_the_scope_of_the_futures_that_it_tracks() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let shutdown = Shutdown::new();
            let (start, is_started) = blitzen::sync::oneshot::channel();
            let tracked = blitzen::spawn(shutdown.track(async {
                assert!(!task::is_cancelled());
                start.send(()).unwrap();
                task::cancelled().await;
                task::is_cancelled()
            }));
            is_started.await.unwrap();
            let guarded = {
                let guard = shutdown.work();
                blitzen::spawn(async move {
                    let _guard = guard;
                    task::is_cancelled()
                })
            };
            // What another scope has spawned belongs to that one.
            let inside = Scope::builder().grace(TEST_LIMIT).run(|s| {
                let tracked = shutdown.track(async {
                    task::cancelled().await;
                    Ok::<_, Stopped>(())
                });
                async move {
                    s.spawn(tracked);
                    s.cancel();
                    Ok(())
                }
            });
            inside.await.unwrap();
            shutdown.drain(TEST_LIMIT).await.unwrap();
            assert!(tracked.await.unwrap());
            assert!(!guarded.await.unwrap(), "a guard is not around any code");
        });
    }
}

#[test]
fn scopes_in_tracked_work_have_their_grace_and_those_without_one_finish() {
    paused().block_on(async {
        let shutdown = Shutdown::new();
        let with_grace = blitzen::spawn(shutdown.track(async {
            let asked = Scope::builder()
                .grace(Duration::from_secs(5))
                .run(|s| async move {
                    s.spawn(std::future::pending::<Result<(), Stopped>>());
                    Ok(())
                });
            asked.await
        }));
        let without = blitzen::spawn(shutdown.track(async {
            let finishes = scope(|s| async move {
                let child = s.spawn(async {
                    blitzen::time::sleep(Duration::from_secs(7)).await;
                    Ok::<_, Stopped>(task::is_cancelled())
                });
                child.await
            });
            finishes.await
        }));
        task::yield_now().await;
        let start = blitzen::time::Instant::now();
        shutdown.trigger();
        assert_eq!(with_grace.await.unwrap(), Ok(()));
        assert_eq!(start.elapsed().as_secs(), 5);
        shutdown.drain(TEST_LIMIT).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 7);
        assert_eq!(without.await.unwrap(), Ok(true));
    });
}

#[test]
fn a_drain_waits_for_a_scope_that_was_dropped_in_tracked_work() {
    paused().block_on(async {
        let shutdown = Shutdown::new();
        let grace = Duration::from_secs(5);
        shutdown
            .track(async {
                let mut dropped = Box::pin(Scope::builder().grace(grace).run(|s| async move {
                    s.spawn(std::future::pending::<Result<(), Stopped>>());
                    std::future::pending::<Result<(), Stopped>>().await
                }));
                std::future::poll_fn(|cx| {
                    assert!(dropped.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
            })
            .await;
        assert_eq!(shutdown.at_work(), 0);
        let start = blitzen::time::Instant::now();
        let early = shutdown.drain(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((early.reason, early.work.len()), (Reason::Deadline, 0));
        shutdown.drain(TEST_LIMIT).await.unwrap();
        assert_eq!(start.elapsed(), grace);
    });
}

#[test]
fn an_abort_of_a_tracked_task_empties_its_scope_and_ends_it() {
    for runtime in [one_thread(), workers(2)] {
        runtime.block_on(async {
            let shutdown = Shutdown::new();
            let (sender, opened) = blitzen::channel::oneshot::channel();
            let task = blitzen::spawn(shutdown.track(async {
                let done = scope(|s| async move {
                    s.spawn(std::future::pending::<Result<(), Stopped>>());
                    sender.send(()).unwrap();
                    Ok::<_, Stopped>(())
                });
                done.await
            }));
            opened.await.unwrap();
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            shutdown.drain(TEST_LIMIT).await.unwrap();
        });
    }
}

#[cfg(unix)]
mod signals {
    use super::*;
    use std::sync::MutexGuard;

    /// One test at a time: the signals of one reach the listeners of all, so each waits until
    /// those of the one before were dispatched.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        one_thread().block_on(async {
            use blitzen::signal::unix::{SignalKind, signal};
            // Earlier signals are dispatched with this one.
            let mut marker = signal(SignalKind::user_defined1()).unwrap();
            send(libc::SIGUSR1);
            marker.recv().await;
        });
        alone
    }

    fn send(signal: i32) {
        // To this thread, so that it has been handled when this returns.
        // SAFETY: a signal to ourselves, for which there is a handler.
        unsafe { assert_eq!(libc::raise(signal), 0) };
    }

    #[test]
    fn the_first_signal_triggers_and_the_second_ends_the_drain() {
        let _alone = alone();
        for runtime in [one_thread(), workers(2)] {
            for (first, cause, second) in [
                (libc::SIGINT, Cause::Interrupt, libc::SIGTERM),
                (libc::SIGTERM, Cause::Terminate, libc::SIGTERM),
            ] {
                runtime.block_on(async {
                    let shutdown = Shutdown::on_signals().unwrap();
                    let _guard = shutdown.work();
                    send(first);
                    shutdown.triggered().await;
                    assert_eq!(shutdown.cause(), Some(cause));
                    let drain = shutdown.drain(TEST_LIMIT);
                    send(second);
                    let unfinished = drain.await.unwrap_err();
                    assert_eq!(unfinished.reason, Reason::Hurry);
                });
            }
        }
    }

    #[test]
    fn a_signal_after_a_manual_trigger_ends_the_drain() {
        let _alone = alone();
        one_thread().block_on(async {
            let shutdown = Shutdown::on_signals().unwrap();
            let _guard = shutdown.work();
            shutdown.trigger();
            send(libc::SIGINT);
            let unfinished = shutdown.drain(TEST_LIMIT).await.unwrap_err();
            assert_eq!(unfinished.reason, Reason::Hurry);
            assert_eq!(shutdown.cause(), Some(Cause::Request));
        });
    }

    #[test]
    fn the_task_that_listens_ends_with_the_last_clone() {
        let _alone = alone();
        let runtime = one_thread();
        runtime.block_on(async {
            let shutdown = Shutdown::on_signals().unwrap();
            let guard = shutdown.work();
            drop(shutdown);
            task::yield_now().await;
            assert_eq!(runtime.metrics().num_alive_tasks(), 1);
            drop(guard);
            while runtime.metrics().num_alive_tasks() > 0 {
                task::yield_now().await;
            }
        });
    }

    #[test]
    fn signals_while_a_runtime_ends_do_no_harm() {
        let _alone = alone();
        // A handler is there before the first signal.
        let keep = one_thread();
        let watching = keep.block_on(async { Shutdown::on_signals().unwrap() });
        let is_done = Arc::new(AtomicBool::new(false));
        let sender = std::thread::spawn({
            let is_done = is_done.clone();
            move || {
                while !is_done.load(Relaxed) {
                    send(libc::SIGTERM);
                    send(libc::SIGINT);
                    std::thread::yield_now();
                }
            }
        });
        for round in 0..30 {
            let runtime = match round % 2 {
                0 => one_thread(),
                _ => workers(2),
            };
            let shutdown = runtime.block_on(async {
                let shutdown = Shutdown::on_signals().unwrap();
                let token = shutdown.token();
                blitzen::spawn(shutdown.track(async move { token.cancelled().await }));
                let done = blitzen::time::timeout(TEST_LIMIT, shutdown.triggered()).await;
                done.expect("a signal comes");
                shutdown
            });
            drop(runtime);
            assert_eq!(shutdown.at_work(), 0, "a runtime drops what it runs");
        }
        is_done.store(true, Relaxed);
        sender.join().unwrap();
        drop((watching, keep));
    }
}
