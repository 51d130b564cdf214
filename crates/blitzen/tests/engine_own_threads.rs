//! What safe code may do on the threads of a runtime, to that runtime itself: drop it,
//! leave another one entered, and block where nobody else should have to wait.

mod engine_common;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;

use blitzen::runtime::{Builder, Handle, LocalRuntime, Runtime};
use blitzen::task::{block_in_place, spawn_blocking, spawn_local, yield_now};
use blitzen::time::sleep;

use engine_common::{FOREVER, SHORT, assert_works, current_thread, multi_thread, must_end};

/// Never drops `value`. Unlike `mem::forget` it keeps the value reachable: what hangs on it
/// is no leak for the leak sanitizer.
fn leak<T>(value: T) {
    static LEAKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let address = Box::into_raw(Box::new(value)).expose_provenance();
    LEAKED.lock().unwrap().push(address);
}

/// A waker that calls a function.
struct CallOnWake<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for CallOnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(on_wake: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(CallOnWake(on_wake)))
}

/// The runtime, for whichever thread drops it first.
type Slot = Arc<Mutex<Option<Runtime>>>;

fn drop_in(slot: &Slot) {
    let runtime = slot.lock().unwrap().take();
    drop(runtime);
}

#[test]
fn a_leaked_enter_guard_affects_no_other_task_of_the_worker() {
    must_end(|| {
        let other = multi_thread(1);
        for in_block_in_place in [false, true] {
            let runtime = multi_thread(1);
            let id = runtime.handle().id();
            let handle = other.handle().clone();
            let leak = runtime.spawn(async move {
                leak(handle.enter());
                if in_block_in_place {
                    block_in_place(|| {
                        leak(handle.enter());
                        thread::sleep(SHORT * 5);
                    });
                }
            });
            runtime.block_on(leak).unwrap();
            runtime.block_on(runtime.spawn(assert_works(id))).unwrap();
        }
    });
}

#[test]
fn a_guard_that_a_waker_leaks_affects_no_task() {
    must_end(|| {
        let other = multi_thread(1);
        let runtime = multi_thread(1);
        let id = runtime.handle().id();
        let handle = other.handle().clone();
        let task = runtime.spawn(async move {
            let leaking = waker(move || leak(handle.enter()));
            let mut short = pin!(sleep(SHORT));
            let polled = short.as_mut().poll(&mut Context::from_waker(&leaking));
            assert!(polled.is_pending());
            sleep(SHORT * 10).await;
            assert_eq!(Handle::current().id(), id);
            assert_works(id).await;
        });
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn a_leaked_enter_guard_affects_no_other_blocking_work() {
    must_end(|| {
        let other = multi_thread(1);
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.max_blocking_threads(1).build().unwrap();
        let id = runtime.handle().id();
        let handle = other.handle().clone();
        runtime.block_on(async {
            spawn_blocking(move || leak(handle.enter())).await.unwrap();
            let seen = spawn_blocking(|| Handle::current().id()).await.unwrap();
            assert_eq!(seen, id);
        });
    });
}

#[test]
fn a_leaked_enter_guard_ends_with_block_on() {
    let other = multi_thread(1);
    for runtime in [multi_thread(1), current_thread()] {
        runtime.block_on(async { leak(other.enter()) });
        assert!(Handle::try_current().is_err(), "nothing is entered");
        runtime.block_on(assert_works(runtime.handle().id()));
    }
}

#[test]
fn a_guard_held_by_the_future_of_block_on_affects_no_task_beside_it() {
    let other = multi_thread(1);
    let runtime = current_thread();
    let id = runtime.handle().id();
    runtime.block_on(async {
        let task = blitzen::spawn(assert_works(id));
        let entered = other.enter();
        for _ in 0..20 {
            sleep(SHORT).await;
            assert_eq!(Handle::current().id(), other.handle().id());
        }
        drop(entered);
        assert_eq!(Handle::current().id(), id);
        task.await.unwrap();
    });
}

#[test]
fn a_guard_held_by_a_local_task_affects_no_other_and_is_dropped_without_harm() {
    let other = multi_thread(1);
    let runtime = LocalRuntime::new().unwrap();
    let id = runtime.handle().id();
    let handle = other.handle().clone();
    runtime.block_on(async {
        let holds = spawn_local(async move {
            let outer = handle.enter();
            let inner = handle.enter();
            sleep(SHORT * 5).await;
            assert_eq!(
                Handle::current().id(),
                id,
                "the poll in which it entered is over"
            );
            drop(inner);
            yield_now().await;
            drop(outer);
        });
        assert_works(id).await;
        holds.await.unwrap();
    });
}

#[test]
fn a_runtime_may_be_dropped_by_its_own_blocking_code() {
    for workers in [1, 2] {
        must_end(move || {
            let runtime = multi_thread(workers);
            let handle = runtime.handle().clone();
            let (done, is_done) = mpsc::channel();
            handle.spawn_blocking(move || {
                drop(runtime);
                done.send(()).unwrap();
            });
            is_done.recv_timeout(FOREVER).unwrap();
        });
    }
}

#[test]
fn a_runtime_may_be_dropped_by_its_own_task_that_blocks_in_place() {
    for workers in [1, 2] {
        must_end(move || {
            let runtime = multi_thread(workers);
            let handle = runtime.handle().clone();
            let (done, is_done) = mpsc::channel();
            let idle = handle.spawn(std::future::pending::<()>());
            handle.spawn(async move {
                // Others block as well, and are waited for.
                let others = [(); 3].map(|()| {
                    blitzen::spawn(async { block_in_place(|| thread::sleep(SHORT * 20)) })
                });
                block_in_place(move || drop(runtime));
                done.send(()).unwrap();
                drop(others);
            });
            is_done.recv_timeout(FOREVER).unwrap();
            while !idle.is_finished() {
                thread::yield_now();
            }
        });
    }
}

#[test]
fn a_runtime_may_be_dropped_by_a_waker_that_blocks_in_place() {
    must_end(|| {
        for is_stuck in [false, true] {
            let runtime = multi_thread(2);
            let handle = runtime.handle().clone();
            let slot = Slot::default();
            *slot.lock().unwrap() = Some(runtime);
            let (done, is_done) = mpsc::channel();
            let end = waker(move || {
                block_in_place(|| drop_in(&slot));
                let _ = done.send(());
            });
            handle.spawn(async move {
                let mut timer = Box::pin(sleep(SHORT * 5));
                let polled = timer.as_mut().poll(&mut Context::from_waker(&end));
                assert!(polled.is_pending());
                if is_stuck {
                    thread::sleep(SHORT * 50); // the monitor fires it
                }
                std::future::pending::<()>().await;
                drop(timer);
            });
            is_done.recv_timeout(FOREVER).unwrap();
        }
    });
}

#[test]
fn a_runtime_may_be_dropped_by_the_function_that_names_its_threads() {
    for is_blocking in [false, true] {
        must_end(move || {
            let slot = Slot::default();
            let take = slot.clone();
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name_fn(move || {
                    drop_in(&take);
                    "named".into()
                })
                .enable_all()
                .build()
                .unwrap();
            let handle = runtime.handle().clone();
            *slot.lock().unwrap() = Some(runtime);
            let is_cancelled = match is_blocking {
                true => {
                    let task = handle.spawn_blocking(|| ());
                    current_thread().block_on(task).is_err()
                }
                false => {
                    let task = handle.spawn(async {});
                    current_thread().block_on(task).is_err()
                }
            };
            assert!(is_cancelled, "the runtime was dropped before");
        });
    }
}

#[test]
fn a_thread_name_may_come_from_a_function_that_needs_threads_of_every_kind() {
    must_end(|| {
        let handles = Arc::new(Mutex::new(Vec::<Handle>::new()));
        let build = || {
            let handles = handles.clone();
            Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name_fn(move || {
                    let handles = handles.lock().unwrap().clone();
                    for handle in handles {
                        handle.spawn(async {});
                        handle.spawn_blocking(|| ());
                    }
                    "worker".into()
                })
                .build()
                .unwrap()
        };
        // Each needs threads of its own and of the other, with names of their own.
        let runtimes = [build(), build()];
        handles
            .lock()
            .unwrap()
            .extend(runtimes.each_ref().map(|one| one.handle().clone()));
        for runtime in &runtimes {
            runtime.block_on(runtime.spawn(async {})).unwrap();
            runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        }
        handles.lock().unwrap().clear(); // the runtimes own the function
    });
}

#[test]
fn a_thread_name_may_come_from_a_function_that_spawns_blocking_work() {
    must_end(|| {
        let handle = Arc::new(Mutex::new(None::<Handle>));
        let own = handle.clone();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name_fn(move || {
                let handle = own.lock().unwrap().clone();
                if let Some(handle) = handle {
                    let count = count.clone();
                    handle.spawn_blocking(move || count.fetch_add(1, SeqCst));
                }
                "with\0nul".into()
            })
            .enable_all()
            .build()
            .unwrap();
        *handle.lock().unwrap() = Some(runtime.handle().clone());
        runtime.block_on(async {
            blitzen::spawn(async {}).await.unwrap();
            spawn_blocking(|| ()).await.unwrap();
            while ran.load(SeqCst) < 2 {
                yield_now().await;
            }
        });
        handle.lock().unwrap().take(); // the runtime owns the function
    });
}

#[test]
fn a_waker_that_never_returns_stops_neither_the_monitor_nor_other_timers() {
    must_end(|| {
        let runtime = multi_thread(2);
        let (release, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let is_blocked = Arc::new(AtomicBool::new(false));
        let blocked = is_blocked.clone();
        let blocks = waker(move || {
            blocked.store(true, SeqCst);
            let _ = wait.lock().unwrap().recv_timeout(FOREVER);
        });
        let (fired, has_fired) = mpsc::channel();
        let fires = waker(move || fired.send(()).unwrap());
        let stuck = runtime.spawn(async move {
            let mut first = Box::pin(sleep(SHORT * 5));
            assert!(
                first
                    .as_mut()
                    .poll(&mut Context::from_waker(&blocks))
                    .is_pending()
            );
            let mut second = Box::pin(sleep(SHORT * 50));
            assert!(
                second
                    .as_mut()
                    .poll(&mut Context::from_waker(&fires))
                    .is_pending()
            );
            // This worker is stuck until a timer of its own has fired, and the other
            // worker has nothing to do: only the monitor is left.
            has_fired.recv_timeout(FOREVER).expect("the timer fires");
            drop(first);
        });
        runtime.block_on(stuck).unwrap();
        assert!(is_blocked.load(SeqCst));
        drop(release);
        runtime.block_on(assert_works(runtime.handle().id()));
    });
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
#[cfg(target_os = "linux")]
fn threads_that_relieve_workers_are_bounded_and_end() {
    const LIMIT: usize = 8;
    const SECTIONS: usize = 64;
    // In a process of its own, since it counts threads.
    if std::env::var_os("COUNT_RELIEF_THREADS").is_none() {
        let own = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(own);
        command.env("COUNT_RELIEF_THREADS", "1");
        command.args([
            "--exact",
            "threads_that_relieve_workers_are_bounded_and_end",
        ]);
        assert!(command.status().unwrap().success());
        return;
    }
    must_end(|| {
        let before = thread_count();
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(LIMIT)
            .thread_keep_alive(SHORT)
            .enable_all()
            .build()
            .unwrap();
        let most = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let tasks: Vec<_> = (0..SECTIONS)
                .map(|_| {
                    let most = most.clone();
                    blitzen::spawn(async move {
                        block_in_place(|| {
                            thread::sleep(SHORT * 10);
                            most.fetch_max(thread_count(), SeqCst);
                        });
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        let most = most.load(SeqCst) - before;
        // Two workers, three monitors, the relief threads, and what runs tasks while all of these
        // are stuck.
        assert!(most <= 2 + 3 + LIMIT + 4, "{most} threads");
        assert!(most >= LIMIT, "they are used: {most} threads");
        // The workers have threads, the monitor, and up to two that stand by; all others end.
        while thread_count() - before > 2 + 3 {
            thread::yield_now();
        }
        runtime.block_on(assert_works(runtime.handle().id()));
    });
}

#[test]
fn a_worker_that_no_relief_thread_was_free_for_gets_the_next_one() {
    must_end(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (ends, tasks): (Vec<_>, Vec<_>) = (0..2)
            .map(|number| {
                let (end, wait) = mpsc::channel::<()>();
                let begun = begun.clone();
                let task = runtime.spawn(async move {
                    block_in_place(|| {
                        begun.lock().unwrap().push(number);
                        wait.recv_timeout(FOREVER).unwrap();
                    });
                });
                (end, task)
            })
            .unzip();
        while begun.lock().unwrap().len() < 2 {
            thread::yield_now();
        }
        // Both threads block: the worker's own, and the only relief thread, which has left
        // the worker behind. The first to come back takes it.
        let first: usize = begun.lock().unwrap()[0];
        let last = ends[1 - first].clone();
        let other = runtime.spawn(async move { last.send(()).unwrap() });
        ends[first].send(()).unwrap();
        runtime.block_on(async {
            other.await.unwrap();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}
