//! Coroutines: spawning, waiting, cancelling, and what they keep to themselves.

mod coro_common;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, Mutex, mpsc as std_mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use blitzen::channel::{mpsc, oneshot};
use blitzen::coro::{self, block_on};
use blitzen::runtime::dump::{AwaitStack, TaskStatus, TaskWait, WaitKind};
use blitzen::runtime::{Builder, Handle, Runtime};
use blitzen::sync::Notify;
use blitzen::task::{self, AbortHandle, JoinError, JoinHandle};
use blitzen::time::{Instant, sleep};

use coro_common::{current, current_builder, multi, multi_builder, runtimes, spawn};

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_coroutine_returns_what_its_function_returns() {
    for runtime in runtimes() {
        let joined = runtime.block_on(async { spawn(|| 40 + 2).await });
        assert_eq!(joined.unwrap(), 42);
    }
}

/// Runs a coroutine whose function has `N` bytes, and returns as many.
fn run_with_bytes<const N: usize>(runtime: &Runtime) {
    let bytes = [7_u8; N];
    let coroutine = runtime.block_on(async {
        let function = move || {
            coro::yield_now();
            bytes.map(|byte| byte + 1)
        };
        assert_eq!(size_of_val(&function), N);
        spawn(function).await.unwrap()
    });
    assert_eq!(coroutine, [8; N]);
}

#[test]
fn a_function_may_have_captured_much() {
    for runtime in runtimes() {
        run_with_bytes::<256>(&runtime);
        run_with_bytes::<900>(&runtime);
        run_with_bytes::<1024>(&runtime);
        run_with_bytes::<4096>(&runtime);
    }
}

#[test]
fn a_function_may_have_captured_more_than_the_stack_holds() {
    const SIZE: usize = 300 * 1024;
    // The calls of this thread move the function, too.
    let main = || {
        for runtime in runtimes() {
            let bytes = [7_u8; SIZE];
            let function = move || {
                coro::yield_now();
                bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>()
            };
            assert!(size_of_val(&function) >= SIZE);
            let sum = runtime.block_on(async { spawn(function).await.unwrap() });
            assert_eq!(sum, 7 * SIZE);
        }
    };
    let thread = thread::Builder::new().stack_size(32 << 20).spawn(main);
    thread.unwrap().join().unwrap();
}

#[test]
fn block_on_waits_for_timers_channels_and_tasks() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (to_coroutine, mut from_task) = mpsc::channel(1);
            let (to_task, from_coroutine) = oneshot::channel();
            let coroutine = spawn(move || {
                block_on(sleep(Duration::from_millis(2)));
                let mut sum = 0;
                while let Some(number) = block_on(from_task.recv()) {
                    sum += number;
                }
                sum += block_on(blitzen::spawn(async { 1000 })).unwrap();
                to_task.send(sum).unwrap();
            });
            for number in 0..10 {
                to_coroutine.send(number).await.unwrap();
            }
            drop(to_coroutine);
            assert_eq!(from_coroutine.await.unwrap(), 1045);
            coroutine.await.unwrap();
        });
    }
}

#[test]
fn a_coroutine_never_changes_its_thread() {
    let runtime = multi(4);
    runtime.block_on(async {
        let coroutines: Vec<_> = (0..200)
            .map(|_| {
                spawn(|| {
                    let here = thread::current().id();
                    let not_send = Rc::new(Cell::new(0));
                    for round in 0..50 {
                        match round % 4 {
                            0 => coro::yield_now(),
                            1 => block_on(blitzen::spawn(async {})).unwrap(),
                            2 => block_on(task::spawn_blocking(|| ())).unwrap(),
                            // Hands its worker over: the thread keeps the coroutine.
                            _ => task::block_in_place(thread::yield_now),
                        }
                        not_send.set(not_send.get() + 1);
                        assert_eq!(thread::current().id(), here);
                    }
                    not_send.get()
                })
            })
            .collect();
        for coroutine in coroutines {
            assert_eq!(coroutine.await.unwrap(), 50);
        }
    });
}

#[test]
fn coroutines_that_have_not_started_are_shared_among_workers() {
    let runtime = multi(2);
    runtime.block_on(async {
        let both = Arc::new(Barrier::new(2));
        // Both are spawned by one worker, and neither ends before the other runs.
        let spawned = blitzen::spawn(async move {
            let other = both.clone();
            let first = spawn(move || {
                both.wait();
                thread::current().id()
            });
            let second = spawn(move || {
                other.wait();
                thread::current().id()
            });
            (first, second)
        });
        let (first, second) = spawned.await.unwrap();
        assert_ne!(first.await.unwrap(), second.await.unwrap());
    });
}

#[test]
fn coroutines_and_tasks_of_a_thread_take_turns() {
    for runtime in [multi(1), current()] {
        runtime.block_on(async {
            let yields = Arc::new(AtomicUsize::new(0));
            let coroutine = spawn({
                let yields = yields.clone();
                move || {
                    while yields.load(SeqCst) < 1000 {
                        coro::yield_now();
                    }
                }
            });
            let task = blitzen::spawn(async move {
                for _ in 0..1000 {
                    yields.fetch_add(1, SeqCst);
                    task::yield_now().await;
                }
            });
            task.await.unwrap();
            coroutine.await.unwrap();
        });
    }
}

#[test]
fn coroutines_and_tasks_that_wake_each_other_take_turns() {
    const TURNS: usize = 1000;
    let runtime = multi_with_rare_fetches();
    let pings = Arc::new(AtomicUsize::new(0));
    let has_ended = Arc::new(AtomicUsize::new(0));
    let [to_first, to_second] = [(); 2].map(|()| Arc::new(Notify::new()));
    let ping = |own: &Arc<Notify>, other: &Arc<Notify>| {
        let (own, other) = (own.clone(), other.clone());
        let (pings, has_ended) = (pings.clone(), has_ended.clone());
        async move {
            while has_ended.load(SeqCst) == 0 {
                own.notified().await;
                pings.fetch_add(1, SeqCst);
                other.notify_one();
            }
        }
    };
    let tasks = [
        runtime.spawn(ping(&to_first, &to_second)),
        runtime.spawn(ping(&to_second, &to_first)),
    ];
    let coroutine = {
        let _entered = runtime.enter();
        let (pings, has_ended) = (pings.clone(), has_ended.clone());
        spawn(move || {
            to_first.notify_one();
            while pings.load(SeqCst) == 0 {
                coro::yield_now();
            }
            let before = pings.load(SeqCst);
            (0..TURNS).for_each(|_| coro::yield_now());
            has_ended.store(1, SeqCst);
            pings.load(SeqCst) - before
        })
    };
    let pings = runtime.block_on(coroutine).unwrap();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert!(pings > TURNS / 2, "the tasks had their turns: {pings}");
    assert!(pings < 2 * TURNS, "and the coroutine its own: {pings}");
}

#[test]
fn a_panic_is_the_handles_error() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let at_once = spawn(|| panic!("at once"));
            let later = spawn(|| {
                coro::yield_now();
                panic!("after a suspension");
            });
            for (handle, text) in [(at_once, "at once"), (later, "after a suspension")] {
                let error = handle.await.unwrap_err();
                let payload = error.into_panic();
                assert_eq!(payload.downcast_ref::<&str>(), Some(&text));
            }
        });
    }
}

#[test]
fn a_panic_of_the_awaited_future_unwinds_the_coroutine() {
    for runtime in runtimes() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Counted(dropped.clone());
        let joined = runtime.block_on(async {
            spawn(move || {
                let _counted = counted;
                block_on(async {
                    task::yield_now().await;
                    panic!("in the future");
                })
            })
            .await
        });
        assert!(joined.unwrap_err().is_panic());
        assert_eq!(dropped.load(SeqCst), 1);
    }
}

#[test]
fn a_coroutine_may_catch_a_panic_and_go_on() {
    for runtime in runtimes() {
        let joined = runtime.block_on(async {
            spawn(|| {
                let caught = catch_unwind(|| block_on(async { panic!("caught") }));
                assert!(caught.is_err() && !thread::panicking());
                coro::yield_now();
                5
            })
            .await
        });
        assert_eq!(joined.unwrap(), 5);
    }
}

#[test]
fn an_abort_unwinds_at_every_suspension() {
    for runtime in runtimes() {
        for aborted_at in 0..6 {
            let dropped = Arc::new(AtomicUsize::new(0));
            runtime.block_on(async {
                let (reached, mut reaching) = mpsc::channel(1);
                let (go_on, going_on) = std_mpsc::channel::<()>();
                let counted = [Counted(dropped.clone()), Counted(dropped.clone())];
                let coroutine = spawn(move || {
                    let [_first, second] = counted;
                    for round in 0..6 {
                        let reached = reached.clone();
                        block_on(async move { reached.send(round).await.unwrap() });
                        let _moved = &second;
                        match round % 3 {
                            0 => block_on(async { pending_until(&going_on).await }),
                            1 => block_on(sleep(Duration::from_millis(1))),
                            _ => coro::yield_now(),
                        }
                    }
                });
                loop {
                    let round = reaching.recv().await.unwrap();
                    if round == aborted_at {
                        break;
                    }
                    go_on.send(()).unwrap();
                }
                coroutine.abort();
                let joined = coroutine.await;
                // In the last rounds it may have ended before.
                assert!(
                    joined.is_ok() && aborted_at % 3 != 0 || joined.unwrap_err().is_cancelled()
                );
            });
            assert_eq!(dropped.load(SeqCst), 2, "at {aborted_at}");
        }
    }
}

/// Waits until there is a message.
async fn pending_until(receiver: &std_mpsc::Receiver<()>) {
    while receiver.try_recv().is_err() {
        sleep(Duration::from_micros(100)).await;
    }
}

#[test]
fn an_abort_before_the_start_drops_the_function() {
    let runtime = multi(1);
    let dropped = Arc::new(AtomicUsize::new(0));
    let counted = Counted(dropped.clone());
    runtime.block_on(async {
        let spawned = blitzen::spawn(async move {
            let coroutine = spawn(move || drop(counted));
            coroutine.abort(); // it is queued behind this task
            coroutine.await.unwrap_err().is_cancelled()
        });
        assert!(spawned.await.unwrap());
    });
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_shield_defers_the_abort() {
    for runtime in runtimes() {
        let finished = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (started, starting) = oneshot::channel();
            let (finish, finishing) = oneshot::channel::<()>();
            let coroutine = spawn({
                let finished = finished.clone();
                move || {
                    coro::shield(|| {
                        started.send(()).unwrap();
                        coro::shield(coro::yield_now);
                        block_on(finishing).unwrap();
                        finished.fetch_add(1, SeqCst);
                    });
                    finished.fetch_add(10, SeqCst); // no suspension yet
                    coro::yield_now();
                    finished.fetch_add(100, SeqCst);
                }
            });
            starting.await.unwrap();
            coroutine.abort();
            finish.send(()).unwrap();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(finished.load(SeqCst), 11);
    }
}

#[test]
fn a_task_shield_inside_block_on_defers_the_abort() {
    for runtime in runtimes() {
        let finished = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (started, starting) = oneshot::channel();
            let (finish, finishing) = oneshot::channel::<()>();
            let coroutine = spawn({
                let finished = finished.clone();
                move || {
                    let shielded = task::shield(async {
                        started.send(()).unwrap();
                        finishing.await.unwrap();
                        finished.fetch_add(1, SeqCst);
                    });
                    // The shield ends in a poll that goes on waiting.
                    block_on(async { blitzen::join!(shielded, pending::<()>()) });
                }
            });
            starting.await.unwrap();
            coroutine.abort();
            task::yield_now().await;
            finish.send(()).unwrap();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(finished.load(SeqCst), 1);
    }
}

extern "C" fn callback() {
    block_on(sleep(Duration::from_millis(5)));
}

extern "C" fn c_library(callback: extern "C" fn(), done: &AtomicUsize) {
    callback();
    done.fetch_add(1, SeqCst);
}

#[test]
fn c_frames_under_a_shield_are_never_unwound() {
    for runtime in runtimes() {
        let done = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (started, starting) = oneshot::channel();
            let coroutine = spawn({
                let done = done.clone();
                move || {
                    started.send(()).unwrap();
                    coro::shield(|| c_library(callback, &done));
                    block_on(pending::<()>());
                }
            });
            starting.await.unwrap();
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(done.load(SeqCst), 1);
    }
}

#[test]
fn a_destructor_that_waits_while_the_coroutine_unwinds_blocks_its_thread() {
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert!(thread::panicking());
            let answer = block_on(async { blitzen::spawn(async { 3 }).await.unwrap() });
            self.0.fetch_add(answer, SeqCst);
        }
    }
    for runtime in [multi(1), multi(4)] {
        let waited = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (started, starting) = oneshot::channel();
            let coroutine = spawn({
                let waits = Waits(waited.clone());
                move || {
                    let _waits = waits;
                    started.send(()).unwrap();
                    block_on(pending::<()>());
                }
            });
            starting.await.unwrap();
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(waited.load(SeqCst), 3);
    }
}

#[test]
fn a_runtime_that_is_dropped_unwinds_a_thousand_suspended_coroutines() {
    for runtime in runtimes() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let threads = Arc::new(Mutex::new(HashSet::new()));
        let (started, starting) = std_mpsc::channel();
        let handles: Vec<_> = {
            let _entered = runtime.enter();
            let handles = (0..1000).map(|_| {
                let (counted, started) = (Counted(dropped.clone()), started.clone());
                let threads = threads.clone();
                spawn(move || {
                    let _counted = counted;
                    let here = thread::current().id();
                    threads.lock().unwrap().insert(here);
                    let _same = SameThread(here);
                    started.send(()).unwrap();
                    block_on(pending::<()>());
                })
            });
            handles.collect()
        };
        runtime.block_on(async {
            task::spawn_blocking(move || (0..1000).for_each(|_| starting.recv().unwrap()))
                .await
                .unwrap()
        });
        drop(runtime);
        assert_eq!(dropped.load(SeqCst), 1000);
        assert!(handles.iter().all(JoinHandle::is_finished));
        assert!(!threads.lock().unwrap().contains(&thread::current().id()));
    }
}

/// Fails unless it is dropped on its thread.
struct SameThread(thread::ThreadId);

impl Drop for SameThread {
    fn drop(&mut self) {
        assert_eq!(thread::current().id(), self.0);
    }
}

thread_local! {
    static PLAIN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

blitzen::task_local! {
    static NUMBER: u32;
    static OTHER: String;
}

#[test]
fn a_shielded_coroutine_sees_the_end_of_a_task_that_is_woken_as_the_runtime_closes() {
    for shut_down in [drop, Runtime::shutdown_background] {
        let runtime = multi(1);
        let handle = runtime.handle().clone();
        let (wake, woken) = oneshot::channel::<()>();
        let (started, ended) = spawn_waiting_for(&runtime, woken);
        started.recv().unwrap();
        // Keeps the worker from cancelling anything.
        let (release, released) = std_mpsc::channel::<()>();
        let (blocking, blocks) = std_mpsc::channel();
        drop(runtime.spawn(async move {
            blocking.send(()).unwrap();
            let _ = released.recv();
        }));
        blocks.recv().unwrap();
        let closing = thread::spawn(move || shut_down(runtime));
        while !handle.spawn(async {}).is_finished() {
            thread::yield_now(); // until it refuses tasks
        }
        wake.send(()).unwrap();
        drop(release);
        closing.join().unwrap();
        assert!(ended.recv().unwrap().is_cancelled());
    }
}

#[test]
fn a_task_that_a_current_thread_runtime_wakes_as_it_closes_ends_for_its_coroutine() {
    let runtime = current();
    let (wake, woken) = oneshot::channel::<()>();
    let (started, ended) = spawn_waiting_for(&runtime, woken);
    runtime.block_on(async {
        task::spawn_blocking(move || started.recv().unwrap())
            .await
            .unwrap();
    });
    // Queued, and dropped as the runtime closes, which wakes the task.
    let wakes = OnDrop(Some(move || wake.send(()).unwrap()));
    drop(runtime.spawn(async move {
        let _wakes = wakes;
        pending::<()>().await
    }));
    drop(runtime);
    assert!(ended.recv().unwrap().is_cancelled());
}

/// Spawns a task that waits for `woken`, and a shielded coroutine that waits for that task. The first
/// channel says that the coroutine has started, the second one how the task has ended.
fn spawn_waiting_for(
    runtime: &Runtime,
    woken: oneshot::Receiver<()>,
) -> (std_mpsc::Receiver<()>, std_mpsc::Receiver<JoinError>) {
    let (started, starting) = std_mpsc::channel();
    let (ended, ending) = std_mpsc::channel();
    let task = runtime.spawn(woken);
    let _entered = runtime.enter();
    drop(spawn(move || {
        coro::shield(|| {
            started.send(()).unwrap();
            ended.send(block_on(task).unwrap_err()).unwrap();
        });
    }));
    (starting, ending)
}

/// Calls a function on drop.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

#[test]
fn thread_locals_are_the_threads_own_across_suspensions() {
    let runtime = multi(2);
    runtime.block_on(async {
        let coroutines: Vec<_> = (0..50)
            .map(|number| {
                spawn(move || {
                    PLAIN.with(|plain| plain.borrow_mut().push(number));
                    for _ in 0..10 {
                        coro::yield_now();
                        assert!(PLAIN.with(|plain| plain.borrow().contains(&number)));
                    }
                })
            })
            .collect();
        for coroutine in coroutines {
            coroutine.await.unwrap();
        }
    });
}

#[test]
#[cfg_attr(blitzen_baton, ignore = "a coroutine has thread-locals of its own")]
fn task_locals_are_put_away_with_a_suspended_coroutine() {
    for runtime in [multi(1), current()] {
        runtime.block_on(async {
            let coroutines: Vec<_> = (0..20)
                .map(|number| {
                    spawn(move || {
                        assert!(NUMBER.try_get().is_err());
                        NUMBER.sync_scope(number, || {
                            coro::yield_now();
                            assert_eq!(NUMBER.get(), number);
                            OTHER.sync_scope(number.to_string(), || {
                                NUMBER.sync_scope(number + 100, || {
                                    coro::yield_now();
                                    assert_eq!(NUMBER.get(), number + 100);
                                    assert_eq!(OTHER.get(), number.to_string());
                                });
                                block_on(OTHER.scope("inner".into(), async {
                                    task::yield_now().await;
                                    assert_eq!(OTHER.get(), "inner");
                                    assert_eq!(NUMBER.get(), number);
                                }));
                            });
                            coro::yield_now();
                            assert_eq!(NUMBER.get(), number);
                        });
                        coro::yield_now();
                        assert!(NUMBER.try_get().is_err());
                    })
                })
                .collect();
            for coroutine in coroutines {
                coroutine.await.unwrap();
            }
            // A cancelled one puts its values back too.
            let aborted = spawn(|| NUMBER.sync_scope(7, || block_on(pending::<()>())));
            task::yield_now().await;
            sleep(Duration::from_millis(1)).await;
            aborted.abort();
            assert!(aborted.await.unwrap_err().is_cancelled());
            let clean = spawn(|| NUMBER.try_get().is_err());
            assert!(clean.await.unwrap());
        });
    }
}

#[test]
fn a_coroutine_cannot_be_suspended_while_it_borrows_a_task_local() {
    let runtime = multi(1);
    let joined = runtime.block_on(async {
        spawn(|| NUMBER.sync_scope(1, || NUMBER.with(|_| coro::yield_now()))).await
    });
    assert!(joined.unwrap_err().is_panic());
}

/// Runs `blocks` on a worker's only thread after `served`, a coroutine, has been suspended there: it
/// waits in a call of [`block_on`] for what `blocks` sends. `blocks` is given the sender, and what
/// `served` returns in the end.
fn block_beside<T: Send + 'static, R: Send + 'static>(
    served: impl FnOnce(&mut dyn FnMut()) -> T + Send + 'static,
    blocks: impl FnOnce(oneshot::Sender<()>, oneshot::Receiver<T>) -> R + Send + 'static,
) -> (Result<R, task::JoinError>, Result<(), task::JoinError>) {
    multi(1).block_on(async {
        let (start, mut is_started) = oneshot::channel::<()>();
        let (wait, waits) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let served = spawn(move || {
            let mut wait = Some(wait);
            let result = served(&mut || {
                wait.take().unwrap().send(()).unwrap();
                block_on(&mut is_started).unwrap();
            });
            let _ = done.send(result);
        });
        waits.await.unwrap();
        let blocks = spawn(move || blocks(start, is_done)).await;
        (blocks, served.await)
    })
}

#[test]
fn nobody_waits_while_it_borrows_a_task_local_and_so_no_coroutine_finds_it_borrowed() {
    let (blocked, served) = block_beside(
        |wait| NUMBER.sync_scope(9, wait),
        |start, is_done| {
            NUMBER.sync_scope(7, || {
                NUMBER.with(|_| {
                    start.send(()).unwrap();
                    task::block_in_place(|| block_on(is_done).unwrap());
                })
            })
        },
    );
    assert!(blocked.unwrap_err().is_panic());
    served.unwrap();
    // A runtime that is driven there runs no coroutine of the thread meanwhile.
    let (blocked, served) = block_beside(
        |wait| NUMBER.sync_scope(9, wait),
        |start, mut is_done| {
            NUMBER.sync_scope(7, || {
                NUMBER.with(|_| {
                    start.send(()).unwrap();
                    task::block_in_place(|| multi(1).block_on(task::yield_now()));
                    assert!(is_done.try_recv().is_err());
                })
            })
        },
    );
    blocked.unwrap();
    served.unwrap();
}

#[test]
#[cfg_attr(blitzen_baton, ignore = "a coroutine has thread-locals of its own")]
fn a_coroutine_does_not_see_the_task_locals_of_code_that_blocks_its_thread() {
    let (seen, served) = block_beside(
        |wait| {
            wait();
            let other = block_on(spawn(|| NUMBER.try_get().ok())).unwrap();
            (
                NUMBER.try_get().ok(),
                other,
                OTHER.sync_scope("x".into(), || OTHER.get()),
            )
        },
        |start, is_done| {
            NUMBER.sync_scope(7, || {
                OTHER.sync_scope("y".into(), || {
                    start.send(()).unwrap();
                    let seen = task::block_in_place(|| block_on(is_done).unwrap());
                    (seen, NUMBER.get(), OTHER.get())
                })
            })
        },
    );
    assert_eq!(seen.unwrap(), ((None, None, "x".into()), 7, "y".into()));
    served.unwrap();
}

#[test]
fn a_runtime_that_a_coroutine_drives_does_not_run_the_coroutines_of_the_outer_one() {
    let (blocked, served) = block_beside(
        |wait| {
            let own_id = Handle::current().id();
            wait();
            block_on(sleep(Duration::from_millis(1))); // a timer of its own runtime
            assert_eq!(Handle::current().id(), own_id);
        },
        |start, _is_done| {
            task::block_in_place(|| {
                current().block_on(async {
                    start.send(()).unwrap();
                    for _ in 0..100 {
                        task::yield_now().await;
                    }
                })
            })
        },
    );
    blocked.unwrap();
    served.unwrap();
}

#[test]
#[cfg_attr(
    blitzen_baton,
    ignore = "what blocks the thread of a coroutine blocks its worker, too"
)]
fn a_task_that_is_polled_in_the_middle_of_a_coroutine_does_not_suspend_it() {
    use blitzen::dispatch::{Dispatcher, PollJob};
    let dispatchers = || [Dispatcher::from_fn(PollJob::run), Dispatcher::unconfined()];
    for runtime in [multi(1), multi(2)] {
        runtime.block_on(async {
            for dispatcher in dispatchers() {
                let waiting = |dispatcher: Dispatcher| {
                    let (send, sent) = oneshot::channel::<()>();
                    let (start, is_started) = oneshot::channel::<()>();
                    let coroutine = spawn(move || {
                        let own = task::id();
                        let inner = dispatcher.spawn(async move {
                            let id = task::id();
                            start.send(()).unwrap();
                            assert!(!coro::is_inside());
                            block_on(sent).unwrap(); // blocks the thread
                            assert_eq!(task::id(), id);
                        });
                        assert_eq!(task::id(), own);
                        block_on(inner).unwrap();
                    });
                    (coroutine, send, is_started)
                };
                let (first, send_first, first_started) = waiting(dispatcher.clone());
                first_started.await.unwrap();
                let (second, send_second, second_started) = waiting(dispatcher);
                second_started.await.unwrap();
                send_first.send(()).unwrap();
                first.await.unwrap();
                send_second.send(()).unwrap();
                second.await.unwrap();
                let plain = blitzen::spawn(async { task::block_in_place(|| 1) });
                assert_eq!(plain.await.unwrap(), 1);
            }
        });
    }
}

#[test]
fn a_shield_does_not_count_for_a_scope_whose_body_blocks_the_thread() {
    use blitzen::scope::{Scope, Stopped};
    let (release, released) = oneshot::channel::<()>();
    let (shield, is_shielded) = oneshot::channel::<()>();
    let (stopped, served) = block_beside(
        |wait| {
            wait();
            block_on(task::shield(async {
                shield.send(()).unwrap();
                released.await.unwrap();
            }));
        },
        move |start, _is_done| {
            let scope = Scope::builder().within(Duration::from_millis(50));
            let stopped = block_on(scope.run(|_| async move {
                start.send(()).unwrap();
                task::block_in_place(|| block_on(is_shielded).unwrap());
                pending::<()>().await;
                Ok::<(), Stopped>(())
            }));
            release.send(()).unwrap();
            stopped
        },
    );
    assert!(stopped.unwrap().is_err());
    served.unwrap();
}

#[test]
fn entered_runtimes_are_put_away_with_a_suspended_coroutine() {
    for runtime in [multi(1), current()] {
        let other = multi(1);
        let (own_id, other_id) = (runtime.handle().id(), other.handle().id());
        let other_handle = other.handle().clone();
        runtime.block_on(async {
            let coroutine = spawn(move || {
                for _ in 0..3 {
                    let _entered = other_handle.enter();
                    coro::yield_now();
                    assert_eq!(Handle::current().id(), other_id);
                    {
                        let _twice = other_handle.enter();
                        block_on(sleep(Duration::from_millis(1)));
                    }
                    assert_eq!(Handle::current().id(), other_id);
                }
                coro::yield_now();
                assert_eq!(Handle::current().id(), own_id);
            });
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    blitzen::spawn(async move {
                        for _ in 0..20 {
                            assert_eq!(Handle::current().id(), own_id);
                            task::yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            coroutine.await.unwrap();
        });
    }
}

#[test]
fn the_budget_of_a_coroutine_is_that_of_its_poll() {
    let runtime = multi(1);
    runtime.block_on(async {
        // Always ready: without a budget it would never let the task run.
        let (sender, mut receiver) = mpsc::unbounded_channel();
        (0..10_000).for_each(|number| sender.send(number).unwrap());
        let order = Arc::new(Mutex::new(Vec::new()));
        let both = blitzen::spawn({
            let order = order.clone();
            async move {
                let coroutine = spawn({
                    let order = order.clone();
                    move || {
                        (0..10_000).for_each(|_| _ = block_on(receiver.recv()));
                        order.lock().unwrap().push("coroutine");
                    }
                });
                let task = blitzen::spawn(async move { order.lock().unwrap().push("task") });
                (coroutine, task)
            }
        });
        let (coroutine, task) = both.await.unwrap();
        task.await.unwrap();
        coroutine.await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["task", "coroutine"]);
    });
}

#[test]
fn block_on_works_outside_a_coroutine() {
    assert_eq!(block_on(async { 1 }), 1);
    assert!(!coro::is_inside());
    let runtime = multi(1);
    // In a task: another thread goes on with its worker.
    let in_task = runtime.block_on(async {
        blitzen::spawn(async {
            let (sender, receiver) = oneshot::channel();
            blitzen::spawn(async move { sender.send(5).unwrap() });
            block_on(async {
                sleep(Duration::from_millis(1)).await;
                receiver.await.unwrap()
            })
        })
        .await
    });
    assert_eq!(in_task.unwrap(), 5);
    // In blocking code.
    let in_blocking = runtime.block_on(async {
        task::spawn_blocking(|| {
            assert!(!coro::is_inside());
            block_on(async { blitzen::spawn(async { 6 }).await.unwrap() })
        })
        .await
    });
    assert_eq!(in_blocking.unwrap(), 6);
    // In the future of a `block_on`.
    let in_root = runtime.block_on(async { block_on(blitzen::spawn(async { 7 })) });
    assert_eq!(in_root.unwrap(), 7);
}

#[test]
fn a_task_that_waits_for_a_coroutine_of_its_own_thread_gets_it() {
    let runtime = multi(1);
    let joined = runtime.block_on(async {
        blitzen::spawn(async {
            let (ready, readying) = oneshot::channel();
            let (go_on, going_on) = oneshot::channel::<()>();
            let coroutine = spawn(move || {
                ready.send(()).unwrap();
                block_on(going_on).unwrap();
                for _ in 0..10 {
                    coro::yield_now();
                }
                8
            });
            readying.await.unwrap(); // it has started, on this thread
            go_on.send(()).unwrap();
            block_on(coroutine).unwrap()
        })
        .await
    });
    assert_eq!(joined.unwrap(), 8);
}

#[test]
#[should_panic(
    expected = "outside a coroutine on a thread that runs the tasks of a current-thread"
)]
fn block_on_refuses_to_block_a_current_thread_runtime() {
    current().block_on(async { block_on(task::yield_now()) });
}

#[test]
fn a_runtime_inside_a_coroutine_keeps_its_own_tasks() {
    for runtime in [multi(1), multi(4)] {
        let joined = runtime.block_on(async {
            spawn(|| {
                let here = thread::current().id();
                let inner = task::block_in_place(|| {
                    assert!(!coro::is_inside());
                    let nested = current();
                    nested.block_on(async {
                        let task = blitzen::spawn(async { 9 });
                        sleep(Duration::from_millis(1)).await;
                        let coroutine = spawn(|| {
                            coro::yield_now();
                            1
                        });
                        task.await.unwrap() + coroutine.await.unwrap()
                    })
                });
                assert!(coro::is_inside());
                coro::yield_now();
                assert_eq!(thread::current().id(), here);
                inner
            })
            .await
        });
        assert_eq!(joined.unwrap(), 10);
    }
}

#[test]
#[cfg_attr(blitzen_baton, ignore = "a coroutine has thread-locals of its own")]
fn a_local_set_polled_by_hand_does_not_suspend_the_coroutine_inside() {
    let runtime = multi(2);
    let joined = runtime.block_on(async {
        spawn(|| {
            let set = task::LocalSet::new();
            // By the thread, between two resumes: outside.
            block_on(set.run_until(async {
                assert!(!coro::is_inside());
                task::spawn_local(async { task::yield_now().await })
                    .await
                    .unwrap();
            }));
            coro::is_inside()
        })
        .await
    });
    assert!(joined.unwrap());
}

#[test]
fn coroutines_have_a_task_id_and_a_name() {
    for runtime in runtimes() {
        runtime.block_on(async {
            // SAFETY: nothing relies on nested calls.
            let coroutine = unsafe {
                coro::Builder::new().name("import").spawn(|| {
                    let id = task::id();
                    coro::yield_now();
                    assert_eq!(task::id(), id);
                    id
                })
            };
            let id = coroutine.id();
            assert_eq!(coroutine.await.unwrap(), id);
        });
    }
}

#[test]
fn the_task_list_has_coroutines_with_their_names_and_what_they_wait_for() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let builder = coro::Builder::new().name("import");
            let line = line!() + 2;
            // SAFETY: nothing relies on nested calls.
            let coroutine = unsafe { builder.spawn(|| block_on(sleep(Duration::from_secs(1000)))) };
            let listed = loop {
                let tasks = Handle::current().tasks();
                let listed = tasks.get(coroutine.id()).expect("it is alive");
                if listed.status() == TaskStatus::Idle {
                    break listed.clone();
                }
                task::yield_now().await;
            };
            assert_eq!(listed.name(), Some("import"));
            assert_eq!(listed.spawned_at().line(), line);
            assert_eq!(listed.wait().map(TaskWait::kind), Some(WaitKind::Timer));
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
    }
}

#[test]
fn a_dump_has_the_stack_of_what_a_coroutine_waits_for() {
    for runtime in [multi(1), multi(2)] {
        let entered = runtime.enter();
        let coroutine = spawn(|| block_on(async { sleep(Duration::from_secs(1000)).await }));
        drop(entered);
        // Until it has begun to wait.
        let kinds = loop {
            let dump = runtime.handle().dump_within(Duration::from_secs(60));
            let mut tasks = dump.iter();
            let dumped = tasks.find(|task| task.listed().id() == coroutine.id());
            let stacks = dumped.expect("it is alive").stacks();
            if !stacks.is_empty() {
                break stacks.iter().map(AwaitStack::kind).collect::<Vec<_>>();
            }
        };
        assert_eq!(kinds, [WaitKind::Timer]);
        coroutine.abort();
        let joined = runtime.block_on(coroutine);
        assert!(joined.unwrap_err().is_cancelled());
    }
}

#[test]
fn coroutines_are_counted_among_the_tasks() {
    let runtime = multi(2);
    runtime.block_on(async {
        let metrics = Handle::current().metrics();
        let (started, mut starting) = mpsc::channel(10);
        let coroutines: Vec<_> = (0..10)
            .map(|_| {
                let started = started.clone();
                spawn(move || {
                    block_on(started.send(())).unwrap();
                    block_on(pending::<()>());
                })
            })
            .collect();
        for _ in 0..10 {
            starting.recv().await.unwrap();
        }
        assert_eq!(metrics.num_alive_tasks(), 10);
        for coroutine in coroutines {
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        }
        // The handle of a task is ready a moment before the task is not counted any more.
        while metrics.num_alive_tasks() > 0 {
            task::yield_now().await;
        }
    });
}

#[test]
fn wakes_from_other_threads_reach_a_coroutine_in_every_state_of_its_thread() {
    let runtime = multi(2);
    runtime.block_on(async {
        let coroutines: Vec<_> = (0..8)
            .map(|number| {
                spawn(move || {
                    for round in 0..200 {
                        // Woken by a plain thread's send, at any time.
                        let woken = Arc::new(AtomicUsize::new(0));
                        let mut sent = false;
                        block_on(poll_fn(|cx| {
                            if woken.load(SeqCst) > 0 {
                                return Poll::Ready(());
                            }
                            if !sent {
                                sent = true;
                                let (waker, woken) = (cx.waker().clone(), woken.clone());
                                task::spawn_blocking(move || {
                                    woken.fetch_add(1, SeqCst);
                                    waker.wake();
                                });
                            }
                            Poll::Pending
                        }));
                        if (round + number) % 16 == 0 {
                            task::block_in_place(thread::yield_now);
                        }
                    }
                })
            })
            .collect();
        for coroutine in coroutines {
            coroutine.await.unwrap();
        }
    });
}

#[test]
fn a_paused_clock_advances_while_coroutines_sleep() {
    let runtime = current_builder().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let coroutine = spawn(|| block_on(sleep(Duration::from_secs(3600))));
        coroutine.await.unwrap();
    });
}

/// Spawns a coroutine whose thread loses its worker while the coroutine is suspended. It goes on
/// with `f` when the sender fires.
async fn spawn_on_lost_thread<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> (oneshot::Sender<()>, JoinHandle<T>) {
    let (started, starting) = oneshot::channel();
    let (go_on, going_on) = oneshot::channel();
    let coroutine = spawn(move || {
        started.send(()).unwrap();
        block_on(going_on).unwrap();
        f()
    });
    starting.await.unwrap();
    let blocking = blitzen::spawn(async {
        let (ran, running) = std_mpsc::channel();
        drop(spawn(move || ran.send(()).unwrap()));
        // The only worker runs that coroutine on another thread; a rescuer would not.
        task::block_in_place(|| running.recv().unwrap());
    });
    blocking.await.unwrap();
    (go_on, coroutine)
}

#[test]
fn a_paused_clock_stands_only_while_a_thread_without_a_worker_runs_a_coroutine() {
    let runtime = multi_builder(1).start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (go_on, coroutine) = spawn_on_lost_thread(|| {
            // If the clock could advance, it would by now: nothing else runs.
            thread::sleep(Duration::from_millis(20));
            let woken = Instant::now();
            block_on(sleep(Duration::from_secs(7200)));
            woken
        })
        .await;
        let before = Instant::now();
        let sleeping = blitzen::spawn(sleep(Duration::from_secs(3600)));
        go_on.send(()).unwrap();
        assert_eq!(coroutine.await.unwrap(), before);
        sleeping.await.unwrap();
    });
}

/// Counts the calls of the hooks before and after a poll.
fn count_polls(builder: &mut Builder) -> [Arc<AtomicUsize>; 2] {
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let [before, after] = counts.clone();
    builder.on_before_task_poll(move |_| _ = before.fetch_add(1, SeqCst));
    builder.on_after_task_poll(move |_| _ = after.fetch_add(1, SeqCst));
    counts
}

#[test]
fn hooks_are_called_around_every_poll_of_a_coroutine() {
    for mut builder in [multi_builder(1), current_builder()] {
        let [before, after] = count_polls(&mut builder);
        let runtime = builder.build().unwrap();
        let coroutine = || (0..2).for_each(|_| block_on(task::yield_now()));
        runtime.block_on(async { spawn(coroutine).await.unwrap() });
        // In a current-thread runtime it also moves to the thread for coroutines.
        assert!(before.load(SeqCst) >= 3, "{before:?}");
        drop(runtime); // its threads have ended
        assert_eq!(before.load(SeqCst), after.load(SeqCst));
    }
}

/// A runtime with one worker that looks into the injection queue so seldom that timers do not
/// depend on it.
fn multi_with_rare_fetches() -> Runtime {
    let mut builder = multi_builder(1);
    builder.global_queue_interval(1 << 18).build().unwrap()
}

#[test]
fn a_coroutine_that_only_yields_holds_nothing_up() {
    for runtime in [multi(1), multi_with_rare_fetches(), current()] {
        let done = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let sleeping = blitzen::spawn({
                let done = done.clone();
                async move {
                    sleep(Duration::from_millis(1)).await;
                    done.fetch_add(1, SeqCst);
                }
            });
            let sending = thread::spawn({
                let (done, handle) = (done.clone(), Handle::current());
                move || drop(handle.spawn(async move { done.fetch_add(1, SeqCst) }))
            });
            let coroutine = spawn(move || {
                while done.load(SeqCst) < 2 {
                    coro::yield_now();
                }
            });
            coroutine.await.unwrap();
            sleeping.await.unwrap();
            sending.join().unwrap();
        });
    }
}

#[test]
fn a_coroutine_that_aborts_itself_goes_no_further_than_its_next_yield() {
    for runtime in runtimes() {
        let went_on = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (give, given) = oneshot::channel::<AbortHandle>();
            let coroutine = spawn({
                let went_on = went_on.clone();
                move || {
                    let own = block_on(given).unwrap();
                    coro::yield_now();
                    own.abort();
                    coro::yield_now();
                    went_on.fetch_add(1, SeqCst);
                }
            });
            give.send(coroutine.abort_handle()).unwrap();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(went_on.load(SeqCst), 0);
    }
}

#[test]
fn a_coroutine_may_drop_its_own_runtime_in_place() {
    let runtime = multi(2);
    let handle = runtime.handle().clone();
    let (done, doing) = std_mpsc::channel();
    let _entered = handle.enter();
    let others: Vec<_> = (0..10)
        .map(|_| spawn(|| block_on(pending::<()>())))
        .collect();
    spawn(move || {
        coro::yield_now();
        task::block_in_place(|| drop(runtime));
        let ended = catch_unwind(AssertUnwindSafe(|| block_on(pending::<()>()))).is_err();
        done.send(ended).unwrap();
    });
    assert!(doing.recv().unwrap(), "it is cancelled where it next waits");
    let outside = current();
    for other in others {
        assert!(outside.block_on(other).unwrap_err().is_cancelled());
    }
}

blitzen::inherited! {
    static BOUND: u32;
}

#[test]
fn bindings_of_coroutines_that_take_turns_on_a_thread_do_not_mix() {
    let runtime = multi(1);
    let (to_second, second_waits) = oneshot::channel::<()>();
    let (to_first, first_waits) = oneshot::channel::<()>();
    runtime.block_on(async {
        let first = spawn(move || {
            BOUND.bind_sync(1, || {
                to_second.send(()).unwrap();
                block_on(first_waits).unwrap();
                BOUND.get()
            })
        });
        let second = spawn(move || {
            let inner = BOUND.bind_sync(2, || {
                block_on(second_waits).unwrap();
                to_first.send(()).unwrap();
                // The first one leaves its binding meanwhile.
                (0..10).for_each(|_| coro::yield_now());
                BOUND.get()
            });
            (inner, BOUND.get())
        });
        assert_eq!(first.await.unwrap(), Some(1));
        assert_eq!(second.await.unwrap(), (Some(2), None));
        assert_eq!(task::spawn(async { BOUND.get() }).await.unwrap(), None);
    });
}

/// Uses about that much of the stack of the thread.
#[inline(never)]
fn use_stack(bytes: usize) -> usize {
    let page = std::hint::black_box([1_u8; 4096]);
    match bytes > page.len() {
        true => use_stack(bytes - page.len()) + usize::from(page[0]),
        false => 1,
    }
}

#[test]
fn every_poll_of_an_awaited_future_is_on_the_threads_own_stack() {
    for runtime in runtimes() {
        let joined = runtime.block_on(async {
            let builder = coro::Builder::new().stack_size(16 * 1024);
            let body = || {
                let mut polls = 0;
                block_on(poll_fn(|cx| {
                    assert!(use_stack(256 * 1024) > 32);
                    assert!(!coro::is_inside());
                    polls += 1;
                    cx.waker().wake_by_ref();
                    match polls {
                        3 => Poll::Ready(polls),
                        _ => Poll::Pending,
                    }
                }))
            };
            // SAFETY: it does not rely on nested calls of its thread.
            unsafe { builder.spawn(body) }.await
        });
        assert_eq!(joined.unwrap(), 3);
    }
}

#[test]
fn a_future_that_a_coroutine_awaits_may_itself_block_its_thread() {
    for runtime in runtimes() {
        let joined = runtime.block_on(async {
            let coroutine = spawn(|| {
                block_on(async {
                    let first = block_on(blitzen::spawn(async { 1 })).unwrap();
                    task::yield_now().await;
                    first
                        + block_on(spawn(|| block_on(blitzen::spawn(async { 2 })).unwrap()))
                            .unwrap()
                })
            });
            coroutine.await
        });
        assert_eq!(joined.unwrap(), 3);
    }
}

#[test]
fn a_panic_in_the_first_poll_and_in_a_later_one_unwinds_alike() {
    for runtime in runtimes() {
        let joined = runtime.block_on(async {
            spawn(|| {
                for polls_before in 0..3 {
                    let mut polls = 0;
                    let panics = poll_fn(|cx| {
                        assert!(polls < polls_before, "polled {polls} times");
                        polls += 1;
                        cx.waker().wake_by_ref();
                        Poll::<()>::Pending
                    });
                    let caught = catch_unwind(AssertUnwindSafe(|| block_on(panics)));
                    let message = caught.unwrap_err().downcast::<String>().unwrap();
                    assert_eq!(*message, format!("polled {polls_before} times"));
                    assert!(coro::is_inside() && !thread::panicking());
                }
            })
            .await
        });
        joined.unwrap();
    }
}

#[test]
fn a_coroutine_that_is_aborted_while_its_future_is_polled_goes_no_further() {
    for runtime in runtimes() {
        for polls_before in 0..3 {
            let went_on = Arc::new(AtomicUsize::new(0));
            runtime.block_on(async {
                let (give, given) = oneshot::channel::<AbortHandle>();
                let coroutine = spawn({
                    let went_on = went_on.clone();
                    move || {
                        let own = block_on(given).unwrap();
                        let mut polls = 0;
                        block_on(poll_fn(|cx| {
                            if polls == polls_before {
                                own.abort();
                                return Poll::Pending; // and nobody wakes it
                            }
                            polls += 1;
                            cx.waker().wake_by_ref();
                            Poll::<()>::Pending
                        }));
                        went_on.fetch_add(1, SeqCst);
                    }
                });
                give.send(coroutine.abort_handle()).unwrap();
                assert!(coroutine.await.unwrap_err().is_cancelled());
            });
            assert_eq!(went_on.load(SeqCst), 0);
        }
    }
}

#[test]
fn an_aborted_coroutine_does_not_wait_even_for_a_future_that_is_ready() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (give, given) = oneshot::channel::<AbortHandle>();
            let coroutine = spawn(move || {
                block_on(given).unwrap().abort();
                block_on(async { unreachable!("not polled") })
            });
            give.send(coroutine.abort_handle()).unwrap();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
    }
}

/// A future that is never ready, and whose destructor panics.
struct PanicsOnDrop;

impl Future for PanicsOnDrop {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

#[test]
fn a_destructor_that_panics_as_its_coroutine_is_cancelled_is_the_handles_error() {
    for runtime in runtimes() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Counted(dropped.clone());
        runtime.block_on(async {
            let (reached, reaching) = oneshot::channel();
            let coroutine = spawn(move || {
                let _counted = counted;
                reached.send(()).unwrap();
                block_on(PanicsOnDrop);
            });
            reaching.await.unwrap();
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_panic());
        });
        assert_eq!(dropped.load(SeqCst), 1);
    }
}

/// A value of a thread that waits, and spawns if it can, when the thread ends.
struct WaitsAtTheEnd(std_mpsc::Sender<(bool, u32)>);

impl Drop for WaitsAtTheEnd {
    fn drop(&mut self) {
        coro::yield_now();
        let waited = block_on(async { 5 });
        let _ = self.0.send((coro::is_inside(), waited));
    }
}

#[test]
fn thread_locals_that_outlive_their_coroutine_may_wait_as_the_thread_ends() {
    thread_local!(static KEPT: RefCell<Option<WaitsAtTheEnd>> = const { RefCell::new(None) });
    for runtime in [multi(1), current()] {
        let (sender, receiver) = std_mpsc::channel();
        runtime.block_on(async {
            let coroutine = spawn(move || {
                KEPT.set(Some(WaitsAtTheEnd(sender)));
                coro::yield_now();
            });
            coroutine.await.unwrap();
        });
        drop(runtime);
        assert_eq!(receiver.recv().unwrap(), (false, 5));
    }
}

#[test]
fn coroutines_that_yield_to_each_other_hold_nothing_up() {
    for runtime in [multi(1), multi_with_rare_fetches()] {
        runtime.block_on(hold_nothing_up());
    }
}

/// Ends when a timer, a task of the worker's own queue and one from outside have run beside
/// coroutines that yield to each other.
async fn hold_nothing_up() {
    let done = Arc::new(AtomicUsize::new(0));
    let yielding: Vec<_> = (0..3)
        .map(|_| {
            let done = done.clone();
            spawn(move || {
                while done.load(SeqCst) < 3 {
                    coro::yield_now();
                }
            })
        })
        .collect();
    let count = {
        let done = done.clone();
        move || done.fetch_add(1, SeqCst)
    };
    drop(blitzen::spawn({
        let count = count.clone();
        async move {
            sleep(Duration::from_millis(1)).await;
            count();
            drop(blitzen::spawn(async move { count() }));
        }
    }));
    let handle = Handle::current();
    let sending = thread::spawn(move || drop(handle.spawn(async move { count() })));
    for coroutine in yielding {
        coroutine.await.unwrap();
    }
    sending.join().unwrap();
}

/// Enters a runtime when it is woken, and does not leave it.
struct LeaksContext(Handle);

impl std::task::Wake for LeaksContext {
    fn wake(self: Arc<Self>) {
        std::mem::forget(self.0.enter());
    }
}

#[test]
#[cfg_attr(blitzen_asan, ignore = "it leaks handles of a runtime")]
fn a_coroutine_is_in_its_runtime_although_the_one_before_it_has_left_another_behind() {
    let other = current();
    let waker = Arc::new(LeaksContext(other.handle().clone())).into();
    let runtime = multi(1);
    runtime.block_on(async {
        let own = Handle::current().id();
        let (go_on, going_on) = blitzen::channel::watch::channel(false);
        let coroutines = (0..10).map(|_| {
            let mut going_on = going_on.clone();
            spawn(move || {
                block_on(going_on.wait_for(|go_on| *go_on)).unwrap();
                Handle::current().id() == own
            })
        });
        let mut coroutines: Vec<_> = coroutines.collect();
        // All of them wait, and each has a waker that is called when it ends.
        let mut cx = std::task::Context::from_waker(&waker);
        for coroutine in &mut coroutines {
            assert!(std::pin::Pin::new(coroutine).poll(&mut cx).is_pending());
        }
        spawn(move || go_on.send(true).unwrap()).await.unwrap();
        for coroutine in coroutines {
            assert!(coroutine.await.unwrap());
        }
    });
}

#[test]
fn a_coroutine_keeps_the_runtimes_it_has_entered_however_many_its_thread_has() {
    // One of them is as deep as the thread that blocks in `block_on` when it goes on.
    for depth in 1..=6 {
        let (runtime, other) = (multi(1), multi(1));
        let other_id = other.handle().id();
        let other = other.handle().clone();
        runtime.block_on(async {
            let (waits, is_waiting) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel::<()>();
            let (wait_again, waits_again) = oneshot::channel();
            let (end, ends) = oneshot::channel::<()>();
            let coroutine = spawn(move || {
                let mut entered: Vec<_> = (0..depth).map(|_| other.enter()).collect();
                waits.send(()).unwrap();
                block_on(goes_on).unwrap();
                assert_eq!(Handle::current().id(), other_id);
                wait_again.send(()).unwrap();
                block_on(ends).unwrap();
                assert_eq!(Handle::current().id(), other_id, "of {depth}");
                while entered.pop().is_some() {}
                Handle::current().id()
            });
            is_waiting.await.unwrap();
            let own = Handle::current().id();
            let blocks = blitzen::spawn(async move {
                go_on.send(()).unwrap();
                block_on(waits_again).unwrap();
                task::yield_now().await;
                Handle::current().id()
            });
            assert_eq!(blocks.await.unwrap(), own);
            end.send(()).unwrap();
            assert_eq!(coroutine.await.unwrap(), own);
        });
    }
}

#[test]
fn an_entered_local_set_is_put_away_with_a_suspended_coroutine() {
    for runtime in [multi(1), current()] {
        runtime.block_on(async {
            let (waits, is_waiting) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel::<()>();
            let coroutine = spawn(move || {
                let set = task::LocalSet::new();
                let entered = set.enter();
                waits.send(()).unwrap();
                block_on(goes_on).unwrap();
                let local = task::spawn_local(async { 5 });
                drop(entered);
                assert!(catch_unwind(|| task::spawn_local(async {})).is_err());
                drop(set);
                std::mem::forget(task::LocalSet::new().enter()); // is not left to others
                block_on(local).unwrap_err().is_cancelled()
            });
            is_waiting.await.unwrap();
            let finds_none = || catch_unwind(|| task::spawn_local(async {})).is_err();
            assert!(
                spawn(finds_none).await.unwrap(),
                "a set of another coroutine"
            );
            assert!(blitzen::spawn(async move { finds_none() }).await.unwrap());
            go_on.send(()).unwrap();
            assert!(coroutine.await.unwrap());
            assert!(
                spawn(finds_none).await.unwrap(),
                "a set that was never left"
            );
        });
    }
}

#[test]
#[cfg_attr(
    blitzen_baton,
    ignore = "code that blocks the thread of a coroutine blocks its worker"
)]
fn threads_that_only_finish_their_coroutines_do_not_count_as_relief_threads() {
    let mut builder = multi_builder(1);
    let runtime = builder.max_blocking_threads(2).build().unwrap();
    runtime.block_on(async {
        // Each has its own thread, which has lost the worker.
        let mut lost = Vec::new();
        for _ in 0..6 {
            lost.push(spawn_on_lost_thread(|| thread::current().id()).await);
        }
        let mut threads = HashSet::new();
        for (go_on, coroutine) in lost {
            go_on.send(()).unwrap();
            threads.insert(coroutine.await.unwrap());
        }
        assert_eq!(threads.len(), 6);
        // Nor are they too many afterwards.
        let (go_on, coroutine) = spawn_on_lost_thread(|| ()).await;
        go_on.send(()).unwrap();
        coroutine.await.unwrap();
    });
}
