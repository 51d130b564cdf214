//! What safe code may do to a runtime without harming anybody else: enter foreign
//! handles, end runtimes inside others, block in wakers and hooks, panic anywhere.

mod engine_common;

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use blitzen::net::UdpSocket;
use blitzen::runtime::{Builder, Handle, LocalRuntime, Runtime};
use blitzen::sync::oneshot;
use blitzen::task::{block_in_place, yield_now};
use blitzen::time::sleep;

use engine_common::{
    FOREVER, SHORT, assert_works, current_thread, multi_thread, must_end, with_hostile_waker,
};

/// A future that must never leave the thread it was made on.
struct Pinned {
    own: thread::ThreadId,
    polls: usize,
    _not_send: Rc<()>,
}

impl Future for Pinned {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        assert_eq!(self.own, thread::current().id(), "polled on another thread");
        self.polls += 1;
        if self.polls == 100 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[test]
fn block_in_place_never_moves_the_tasks_of_a_local_runtime() {
    must_end(|| {
        let other = multi_thread(2);
        let local = LocalRuntime::new().unwrap();
        local.block_on(async {
            let tasks = [(); 10].map(|()| {
                blitzen::task::spawn_local(Pinned {
                    own: thread::current().id(),
                    polls: 0,
                    _not_send: Rc::new(()),
                })
            });
            let refused = {
                let _entered = other.enter();
                catch_unwind(|| block_in_place(|| ()))
            };
            assert!(refused.is_err(), "the only thread would be blocked");
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn a_worker_that_blocks_with_another_runtime_entered_stays_in_its_own() {
    must_end(|| {
        for dead in [false, true] {
            let own = multi_thread(1);
            let id = own.handle().id();
            let other = current_thread();
            let handle = other.handle().clone();
            if dead {
                drop(other);
            }
            let dropped = Arc::new(AtomicUsize::new(0));
            let idle = {
                struct CountDrop(Arc<AtomicUsize>);
                impl Drop for CountDrop {
                    fn drop(&mut self) {
                        self.0.fetch_add(1, SeqCst);
                    }
                }
                let guard = CountDrop(dropped.clone());
                own.spawn(async move {
                    let _guard = guard;
                    pending::<()>().await
                })
            };
            let task = own.spawn(async move {
                for _ in 0..20 {
                    let _entered = handle.enter();
                    block_in_place(|| thread::sleep(SHORT));
                    drop(_entered);
                    assert_works(id).await;
                }
            });
            own.block_on(task).unwrap();
            own.block_on(assert_works(id));
            assert_eq!(dropped.load(SeqCst), 0, "an idle task was cancelled");
            assert!(!idle.is_finished());
        }
    });
}

#[test]
fn wakers_fired_by_the_drivers_may_block_in_place() {
    must_end(|| {
        let runtime = multi_thread(2);
        let id = runtime.handle().id();
        let task = runtime.spawn(async move {
            let block = || block_in_place(thread::yield_now);
            for _ in 0..50 {
                with_hostile_waker(sleep(SHORT), block).await;
                with_hostile_waker(yield_now(), block).await;
            }
            let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let address = receiver.local_addr().unwrap();
            for _ in 0..50 {
                let send = blitzen::spawn({
                    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                    async move {
                        sleep(SHORT).await;
                        sender.send_to(&[1], address).unwrap();
                    }
                });
                with_hostile_waker(receiver.recv(&mut [0]), block)
                    .await
                    .unwrap();
                send.await.unwrap();
            }
            drop(sender);
            assert_works(id).await;
        });
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn a_waker_that_blocks_in_place_while_it_is_cloned_harms_nobody() {
    /// Blocks in place whenever it is cloned.
    fn hostile(inner: Waker) -> Waker {
        use std::task::{RawWaker, RawWakerVTable};
        fn clone(data: *const ()) -> RawWaker {
            block_in_place(thread::yield_now);
            // SAFETY: from `Arc::into_raw`, and still counted.
            unsafe { Arc::increment_strong_count(data.cast::<Waker>()) };
            RawWaker::new(data, &VTABLE)
        }
        fn wake(data: *const ()) {
            // SAFETY: from `Arc::into_raw`; the waker's own count.
            unsafe { Arc::from_raw(data.cast::<Waker>()) }.wake_by_ref();
        }
        fn wake_by_ref(data: *const ()) {
            // SAFETY: as above, borrowed.
            unsafe { &*data.cast::<Waker>() }.wake_by_ref();
        }
        fn drop_it(data: *const ()) {
            // SAFETY: as in `wake`.
            drop(unsafe { Arc::from_raw(data.cast::<Waker>()) });
        }
        static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_it);
        // SAFETY: the table counts references to an `Arc<Waker>`.
        unsafe { Waker::new(Arc::into_raw(Arc::new(inner)).cast(), &VTABLE) }
    }

    must_end(|| {
        let runtime = multi_thread(2);
        let id = runtime.handle().id();
        let task = runtime.spawn(async move {
            for _ in 0..50 {
                let mut yields = std::pin::pin!(yield_now());
                poll_fn(|cx| {
                    let waker = hostile(cx.waker().clone());
                    yields.as_mut().poll(&mut Context::from_waker(&waker))
                })
                .await;
            }
            assert_works(id).await;
        });
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn park_hooks_may_block_in_place() {
    must_end(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_park(|| block_in_place(thread::yield_now))
            .on_thread_unpark(|| block_in_place(thread::yield_now))
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(assert_works(runtime.handle().id()));
    });
}

#[test]
fn park_and_unpark_hooks_take_turns_on_each_thread() {
    thread_local!(static IS_PARKED: Cell<bool> = const { Cell::new(false) });
    must_end(|| {
        for mut builder in [Builder::new_multi_thread(), Builder::new_current_thread()] {
            let mistakes = Arc::new(AtomicUsize::new(0));
            let hook = |is_park: bool| {
                let mistakes = mistakes.clone();
                move || {
                    let was_parked = IS_PARKED.replace(is_park);
                    mistakes.fetch_add(usize::from(was_parked == is_park), SeqCst);
                }
            };
            let runtime = builder
                .worker_threads(2)
                .on_thread_park(hook(true))
                .on_thread_unpark(hook(false))
                .enable_all()
                .build()
                .unwrap();
            let id = runtime.handle().id();
            for _ in 0..3 {
                runtime.block_on(runtime.spawn(assert_works(id))).unwrap();
            }
            drop(runtime);
            assert_eq!(mistakes.load(SeqCst), 0);
        }
    });
}

/// Ends `inner` in every way there is, on a thread that drives another runtime.
async fn end_inside(id: blitzen::runtime::Id) {
    let inner = || {
        let inner = current_thread();
        inner.spawn(async {
            let _entered = Handle::current();
            pending::<()>().await
        });
        inner
    };
    inner().shutdown_background();
    assert_works(id).await;
    inner().shutdown_timeout(Duration::ZERO);
    assert_works(id).await;
    let inner = inner();
    let error = catch_unwind(AssertUnwindSafe(|| drop(inner))).unwrap_err();
    let text = error.downcast_ref::<String>().map(String::as_str);
    let text = text.or(error.downcast_ref::<&str>().copied()).unwrap();
    assert!(text.starts_with("Cannot drop a runtime in a context where blocking"));
    assert_works(id).await;
}

#[test]
fn a_runtime_may_end_inside_a_task_of_another() {
    must_end(|| {
        let outer = current_thread();
        let id = outer.handle().id();
        outer.block_on(async {
            let idle = blitzen::spawn(pending::<()>());
            end_inside(id).await;
            blitzen::spawn(end_inside(id)).await.unwrap();
            assert!(!idle.is_finished());
        });
    });
    must_end(|| {
        let outer = multi_thread(2);
        let id = outer.handle().id();
        let idle = outer.spawn(pending::<()>());
        outer.block_on(outer.spawn(end_inside(id))).unwrap();
        outer.block_on(end_inside(id));
        assert!(!idle.is_finished());
    });
    must_end(|| {
        let outer = LocalRuntime::new().unwrap();
        let id = outer.handle().id();
        outer.block_on(async {
            blitzen::task::spawn_local(end_inside(id)).await.unwrap();
            LocalRuntime::new().unwrap().shutdown_background();
            assert_works(id).await;
        });
    });
}

#[test]
fn hooks_that_panic_take_no_thread_along() {
    must_end(|| {
        let calls = Arc::new(AtomicUsize::new(0));
        let hook = |calls: &Arc<AtomicUsize>| {
            let calls = calls.clone();
            move || {
                calls.fetch_add(1, SeqCst);
                panic!("in a hook");
            }
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(hook(&calls))
            .on_thread_park(hook(&calls))
            .on_thread_unpark(hook(&calls))
            .on_thread_stop(hook(&calls))
            .enable_all()
            .build()
            .unwrap();
        let id = runtime.handle().id();
        runtime.block_on(assert_works(id));
        runtime.block_on(async {
            for _ in 0..10 {
                blitzen::task::spawn_blocking(|| ()).await.unwrap();
            }
        });
        drop(runtime);
        assert!(calls.load(SeqCst) > 4);
    });
}

#[test]
fn thread_names_that_panic_start_threads_all_the_same() {
    must_end(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name_fn(|| panic!("no name"))
            .enable_all()
            .build()
            .unwrap();
        let id = runtime.handle().id();
        runtime.block_on(async {
            blitzen::spawn(assert_works(id)).await.unwrap();
            blitzen::task::spawn_blocking(|| ()).await.unwrap();
        });
    });
}

#[test]
fn wakers_that_panic_take_neither_a_worker_nor_the_monitor_along() {
    fn panics() {
        panic!("in a waker");
    }

    async fn program() {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = receiver.local_addr().unwrap();
        for _ in 0..10 {
            with_hostile_waker(sleep(SHORT), panics).await;
            with_hostile_waker(yield_now(), panics).await;
            let send = blitzen::spawn(async move {
                sleep(SHORT).await;
                let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                sender.send_to(&[1], address).unwrap();
            });
            with_hostile_waker(receiver.recv(&mut [0]), panics)
                .await
                .unwrap();
            send.await.unwrap();
        }
        // Served by the monitor, or a sibling, since its worker is stuck.
        let sleeper = blitzen::spawn(with_hostile_waker(sleep(SHORT), panics));
        yield_now().await;
        thread::sleep(Duration::from_millis(20));
        sleeper.await.unwrap();
    }

    must_end(|| {
        let runtime = current_thread();
        let id = runtime.handle().id();
        runtime.block_on(async { blitzen::spawn(program()).await.unwrap() });
        runtime.block_on(assert_works(id));
    });
    for workers in [1, 2] {
        must_end(move || {
            let runtime = multi_thread(workers);
            let id = runtime.handle().id();
            runtime.block_on(runtime.spawn(program())).unwrap();
            runtime.block_on(assert_works(id));
        });
    }
}

/// Has a thread of its own drive `runtime` until it is sent something.
fn drive(runtime: &Arc<Runtime>) -> (thread::JoinHandle<()>, oneshot::Sender<()>) {
    let (end, wait) = oneshot::channel();
    let (driving, is_driving) = mpsc::channel();
    let runtime = runtime.clone();
    let driver = thread::spawn(move || {
        runtime.block_on(async {
            driving.send(()).unwrap();
            wait.await.unwrap();
        })
    });
    is_driving.recv().unwrap();
    (driver, end)
}

#[test]
fn a_future_that_panics_while_another_thread_drives_leaves_no_trace() {
    must_end(|| {
        let runtime = Arc::new(current_thread());
        let (driver, end) = drive(&runtime);
        for _ in 0..3 {
            let panicked: thread::Result<()> = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(async {
                    sleep(SHORT).await;
                    panic!("beside the driver");
                })
            }));
            assert!(panicked.is_err());
        }
        // Needs somebody who drives the timers, also after the first has gone.
        let next = thread::spawn({
            let runtime = runtime.clone();
            move || {
                runtime.block_on(async {
                    end.send(()).unwrap();
                    for _ in 0..50 {
                        sleep(SHORT).await;
                    }
                });
            }
        });
        driver.join().unwrap();
        next.join().unwrap();
        runtime.block_on(assert_works(runtime.handle().id()));
    });
}

#[test]
fn a_paused_clock_advances_after_a_thread_that_blocked_on_the_runtime_has_left() {
    for is_current_thread in [false, true] {
        must_end(move || {
            let mut builder = match is_current_thread {
                true => Builder::new_current_thread(),
                false => Builder::new_multi_thread(),
            };
            let runtime = builder.enable_all().start_paused(true).build().unwrap();
            let handle = runtime.handle().clone();
            let (entered, has_entered) = mpsc::channel();
            let other = thread::spawn(move || {
                handle.block_on(async {
                    entered.send(()).unwrap();
                    // Until the other thread is idle, most of the time.
                    thread::sleep(Duration::from_millis(50));
                });
            });
            has_entered.recv().unwrap();
            runtime.block_on(async { sleep(Duration::from_secs(3600)).await });
            other.join().unwrap();
        });
    }
}

#[test]
fn a_core_is_not_kept_for_a_thread_whose_poll_blocks() {
    must_end(|| {
        let runtime = Arc::new(current_thread());
        let (driver, leave) = drive(&runtime);
        // A thread beside the driver blocks in its poll until a task has run.
        let (ran, has_run) = mpsc::channel();
        let (wake, woken) = oneshot::channel::<()>();
        let blocked = thread::spawn({
            let runtime = runtime.clone();
            move || {
                runtime.block_on(async {
                    woken.await.unwrap();
                    let blocks = || block_in_place(|| has_run.recv_timeout(FOREVER));
                    match catch_unwind(AssertUnwindSafe(blocks)) {
                        Ok(ran) => ran.unwrap(),
                        // It is refused if this thread has come to drive before its poll.
                        Err(_) => {
                            while has_run.try_recv().is_err() {
                                yield_now().await;
                            }
                        }
                    }
                })
            }
        });
        // Another one would drive, if it were notified.
        let willing = thread::spawn({
            let runtime = runtime.clone();
            move || {
                runtime.block_on(async move {
                    blitzen::spawn(async move {
                        wake.send(()).unwrap();
                        leave.send(()).unwrap();
                        // On whichever thread drives after the first has left.
                        sleep(Duration::from_millis(20)).await;
                        ran.send(()).unwrap();
                    })
                    .await
                    .unwrap();
                })
            }
        });
        driver.join().unwrap();
        willing.join().unwrap();
        blocked.join().unwrap();
    });
}

#[test]
fn a_waker_that_waits_for_a_task_of_its_runtime_hangs_nobody() {
    for paused in [false, true] {
        must_end(move || {
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .start_paused(paused)
                .build()
                .unwrap();
            let handle = runtime.handle().clone();
            let wait = move || {
                let task = handle.spawn(async { 1 });
                assert_eq!(block_in_place(|| handle.block_on(task)).unwrap(), 1);
            };
            let task = runtime.spawn(async move {
                for _ in 0..5 {
                    with_hostile_waker(sleep(SHORT), wait.clone()).await;
                }
            });
            runtime.block_on(task).unwrap();
        });
    }
}

#[test]
fn a_runtime_may_end_on_one_of_its_own_threads() {
    must_end(|| {
        let (ended, has_ended) = mpsc::channel();
        let slot = Arc::new(std::sync::Mutex::new(None::<Runtime>));
        let take = slot.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_keep_alive(SHORT)
            .on_thread_stop(move || {
                let own = take.lock().unwrap().take();
                drop(own);
                let _ = ended.send(());
            })
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        *slot.lock().unwrap() = Some(runtime);
        // Its thread ends after the keep-alive, and the runtime with it.
        handle.spawn_blocking(|| ());
        has_ended.recv_timeout(FOREVER).unwrap();
    });
}

#[test]
fn a_thread_name_may_come_from_a_function_that_spawns() {
    must_end(|| {
        let handle = Arc::new(std::sync::Mutex::new(None::<Handle>));
        let own = handle.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name_fn(move || {
                let handle = own.lock().unwrap().clone();
                if let Some(handle) = handle {
                    handle.spawn(async {});
                }
                "named".into()
            })
            .enable_all()
            .build()
            .unwrap();
        *handle.lock().unwrap() = Some(runtime.handle().clone());
        runtime.block_on(runtime.spawn(async {})).unwrap();
        handle.lock().unwrap().take(); // the runtime owns the function
    });
}

#[test]
fn an_enter_guard_in_a_thread_local_value_ends_with_its_thread() {
    thread_local! {
        static GUARD: std::cell::RefCell<Option<blitzen::runtime::EnterGuard<'static>>> =
            const { std::cell::RefCell::new(None) };
    }
    must_end(|| {
        static RUNTIME: std::sync::OnceLock<Runtime> = std::sync::OnceLock::new();
        let runtime = RUNTIME.get_or_init(current_thread);
        thread::spawn(|| {
            GUARD.with(|guard| drop(guard.borrow_mut().take()));
            let entered = runtime.enter();
            GUARD.with(|guard| *guard.borrow_mut() = Some(entered));
        })
        .join()
        .unwrap();
    });
}

#[test]
fn a_shutdown_that_would_wait_is_refused_in_a_task() {
    must_end(|| {
        let outer = multi_thread(1);
        let id = outer.handle().id();
        let task = outer.spawn(async move {
            let inner = multi_thread(1);
            let refused = catch_unwind(AssertUnwindSafe(|| {
                inner.shutdown_timeout(FOREVER);
            }));
            assert!(refused.is_err(), "its worker would be blocked");
            assert_works(id).await;
            let refused = catch_unwind(|| {
                let inner = LocalRuntime::new().unwrap();
                inner.shutdown_timeout(FOREVER);
            });
            assert!(refused.is_err(), "a local one would block it, too");
            assert_works(id).await;
        });
        outer.block_on(task).unwrap();
    });
}
