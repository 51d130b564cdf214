//! Coroutines that are woken, aborted, refused and dropped where it is least convenient.

mod coro_common;

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;

use blitzen::channel::oneshot;
use blitzen::coro::{self, block_on};
use blitzen::scope::{Scope, Stopped, scope};
use blitzen::task;

use coro_common::{current, multi, runtimes, spawn};

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_coroutine_that_yields_among_others_is_aborted_by_another_thread() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let dropped = Arc::new(AtomicUsize::new(0));
            let yielding: Vec<_> = (0..20)
                .map(|_| {
                    let counted = Counted(dropped.clone());
                    spawn(move || {
                        let _counted = counted;
                        loop {
                            coro::yield_now();
                        }
                    })
                })
                .collect();
            let aborts: Vec<_> = yielding.iter().map(|one| one.abort_handle()).collect();
            let other = thread::spawn(move || aborts.iter().for_each(|one| one.abort()));
            for one in yielding {
                assert!(one.await.unwrap_err().is_cancelled());
            }
            other.join().unwrap();
            assert_eq!(dropped.load(SeqCst), 20);
        });
    }
}

#[test]
fn a_runtime_that_is_dropped_ends_coroutines_that_only_yield() {
    for runtime in runtimes() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let started = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            for _ in 0..50 {
                let (counted, started) = (Counted(dropped.clone()), started.clone());
                drop(spawn(move || {
                    let _counted = counted;
                    started.fetch_add(1, SeqCst);
                    loop {
                        coro::yield_now();
                    }
                }));
            }
            while started.load(SeqCst) < 50 {
                task::yield_now().await;
            }
        });
        drop(runtime);
        assert_eq!(dropped.load(SeqCst), 50);
    }
}

#[test]
fn wakers_outlive_their_coroutine_and_its_runtime() {
    for runtime in runtimes() {
        let kept = Arc::<Mutex<Vec<Waker>>>::default();
        let keep = {
            let kept = kept.clone();
            move || {
                block_on(poll_fn(|cx| {
                    let mut kept = kept.lock().unwrap();
                    assert!(cx.waker().will_wake(&cx.waker().clone()));
                    kept.extend((0..4).map(|_| cx.waker().clone()));
                    match kept.len() {
                        4 => Poll::Pending,
                        _ => Poll::Ready(()),
                    }
                }));
            }
        };
        runtime.block_on(async {
            let coroutine = spawn(keep);
            let first = loop {
                let first = kept.lock().unwrap().pop();
                match first {
                    Some(first) => break first,
                    None => task::yield_now().await,
                }
            };
            // Twice: it has stored four more.
            kept.lock().unwrap().push(Waker::noop().clone());
            first.wake();
            coroutine.await.unwrap();
            kept.lock().unwrap().pop().unwrap().wake();
            kept.lock().unwrap().pop().unwrap().wake_by_ref();
        });
        drop(runtime);
        let mut left = std::mem::take(&mut *kept.lock().unwrap());
        left.pop().unwrap().wake();
        left.pop().unwrap().wake_by_ref();
        drop(left);
    }
}

#[test]
fn wakes_by_value_meet_the_shutdown() {
    for round in 0..200 {
        let runtime = match round % 3 {
            0 => multi(1),
            1 => multi(2),
            _ => current(),
        };
        let (to_waker, wakers) = std_mpsc::channel::<Waker>();
        let dropped = Arc::new(AtomicUsize::new(0));
        let waking = thread::spawn(move || wakers.iter().for_each(Waker::wake));
        runtime.block_on(async {
            for _ in 0..8 {
                let (to_waker, counted) = (to_waker.clone(), Counted(dropped.clone()));
                drop(spawn(move || {
                    let _counted = counted;
                    block_on(poll_fn(|cx| {
                        let _ = to_waker.send(cx.waker().clone());
                        Poll::<()>::Pending
                    }));
                }));
            }
            for _ in 0..round % 7 {
                task::yield_now().await;
            }
        });
        drop(to_waker);
        drop(runtime);
        waking.join().unwrap();
        assert_eq!(dropped.load(SeqCst), 8);
    }
}

#[test]
fn destructors_of_coroutines_that_a_shutdown_unwinds_spawn_and_wait() {
    for runtime in runtimes() {
        let refused = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            for _ in 0..10 {
                let (refused, (started, ready)) = (refused.clone(), oneshot::channel());
                drop(spawn(move || {
                    let _on_drop = OnDrop(|| {
                        drop(spawn(|| block_on(pending::<()>())));
                        let inner = spawn(|| block_on(pending::<()>()));
                        if block_on(inner).is_err() {
                            refused.fetch_add(1, SeqCst);
                        }
                    });
                    started.send(()).unwrap();
                    block_on(pending::<()>());
                }));
                ready.await.unwrap();
            }
        });
        drop(runtime);
        assert_eq!(refused.load(SeqCst), 10);
    }
}

#[test]
fn coroutines_that_no_worker_can_start_are_refused_by_rescuers_and_aborted() {
    let runtime = multi(1);
    let (go_on, blocked) = std_mpsc::channel::<()>();
    let (is_stuck, stuck) = std_mpsc::channel::<()>();
    runtime.spawn(async move {
        is_stuck.send(()).unwrap();
        let _ = blocked.recv(); // holds the only worker
    });
    stuck.recv().unwrap();
    let _entered = runtime.enter();
    let ran = Arc::new(AtomicUsize::new(0));
    let spawned: Vec<_> = (0..10)
        .map(|_| {
            let ran = ran.clone();
            spawn(move || {
                coro::yield_now();
                ran.fetch_add(1, SeqCst);
            })
        })
        .collect();
    let rescued = runtime.spawn(async {});
    let ended = runtime.block_on(rescued); // a rescuer is there
    ended.unwrap();
    spawned.iter().step_by(2).for_each(|one| one.abort());
    go_on.send(()).unwrap();
    runtime.block_on(async {
        for (index, one) in spawned.into_iter().enumerate() {
            assert_eq!(one.await.is_err(), index % 2 == 0);
        }
    });
    assert_eq!(ran.load(SeqCst), 5);
}

#[test]
fn nested_shields_and_scopes_of_an_aborted_coroutine_end_in_order() {
    for runtime in runtimes() {
        let order = Arc::<Mutex<Vec<u32>>>::default();
        let (to_abort, abort) = oneshot::channel();
        runtime.block_on(async {
            let parent = spawn({
                let order = order.clone();
                move || {
                    let borrowed = &*order;
                    let _last = OnDrop(|| borrowed.lock().unwrap().push(4));
                    coro::shield(|| {
                        coro::shield(|| {
                            to_abort.send(()).unwrap();
                            for _ in 0..10 {
                                block_on(task::yield_now());
                            }
                            borrowed.lock().unwrap().push(1);
                        });
                        coro::yield_now();
                        coro::scope(|scope| {
                            // SAFETY: no thread-locals.
                            unsafe { scope.spawn(|| borrowed.lock().unwrap().push(2)) };
                        });
                        borrowed.lock().unwrap().push(3);
                    });
                    coro::scope(|scope| {
                        // SAFETY: no thread-locals.
                        unsafe { scope.spawn(|| block_on(pending::<()>())) };
                    });
                    borrowed.lock().unwrap().push(99);
                }
            });
            abort.await.unwrap();
            parent.abort();
            assert!(parent.await.unwrap_err().is_cancelled());
        });
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
    }
}

/// A scope whose child waits for ever; says when both wait, and adds "child" to `ends` when the child
/// is dropped.
async fn wait_in_scope(waits: oneshot::Sender<()>, ends: Arc<Mutex<Vec<&'static str>>>) {
    let _: Result<(), Stopped> = scope(|s: Scope<Stopped>| async move {
        let end = OnDrop(move || ends.lock().unwrap().push("child"));
        s.spawn(async move {
            let _end = end;
            let _ = waits.send(());
            pending::<Result<(), Stopped>>().await
        });
        pending().await
    })
    .await;
}

#[test]
fn an_abort_of_a_coroutine_that_waits_in_a_scope_takes_effect_when_the_scope_is_empty() {
    for is_shutdown in [false, true] {
        for runtime in runtimes() {
            let ends = Arc::new(Mutex::new(Vec::new()));
            runtime.block_on(async {
                let (waits, has_begun) = oneshot::channel();
                let (in_scope, in_frame) = (ends.clone(), ends.clone());
                let coroutine = spawn(move || {
                    let _end = OnDrop(|| in_frame.lock().unwrap().push("coroutine"));
                    block_on(wait_in_scope(waits, in_scope));
                });
                has_begun.await.unwrap();
                task::yield_now().await; // the poll in which the coroutine began to wait is over
                if !is_shutdown {
                    coroutine.abort();
                    assert!(coroutine.await.unwrap_err().is_cancelled());
                }
            });
            drop(runtime);
            assert_eq!(*ends.lock().unwrap(), ["child", "coroutine"]);
        }
    }
}

#[test]
fn a_coroutine_that_aborts_itself_beside_a_scope_waits_for_the_scope() {
    for runtime in runtimes() {
        let ends = Arc::new(Mutex::new(Vec::new()));
        runtime.block_on(async {
            let (waits, _has_begun) = oneshot::channel();
            let (give, handle) = oneshot::channel::<task::AbortHandle>();
            let (in_scope, in_frame) = (ends.clone(), ends.clone());
            let coroutine = spawn(move || {
                let _end = OnDrop(|| in_frame.lock().unwrap().push("coroutine"));
                let handle = block_on(handle).unwrap();
                let mut waiting = pin!(wait_in_scope(waits, in_scope));
                block_on(poll_fn(|cx| {
                    let polled = waiting.as_mut().poll(cx);
                    handle.abort(); // after the scope has looked for it
                    polled
                }));
            });
            assert!(give.send(coroutine.abort_handle()).is_ok());
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(*ends.lock().unwrap(), ["child", "coroutine"]);
    }
}

#[test]
fn an_abort_takes_effect_when_a_shield_of_the_coroutine_ends_in_another_task() {
    for runtime in runtimes() {
        for _ in 0..20 {
            runtime.block_on(async {
                let (finish, finishing) = oneshot::channel::<()>();
                let (hand_over, handed_over) = oneshot::channel();
                let coroutine = spawn(move || {
                    let mut shielded = Box::pin(task::shield(finishing));
                    block_on(poll_fn(|cx| match shielded.as_mut().poll(cx) {
                        Poll::Pending => Poll::Ready(()),
                        Poll::Ready(_) => unreachable!("nobody has sent"),
                    }));
                    let other = blitzen::spawn(shielded);
                    assert!(hand_over.send(other).is_ok());
                    block_on(pending::<()>());
                });
                let other = handed_over.await.unwrap();
                coroutine.abort();
                for _ in 0..20 {
                    task::yield_now().await; // until the coroutine has looked, mostly
                }
                finish.send(()).unwrap();
                other.await.unwrap().unwrap();
                assert!(coroutine.await.unwrap_err().is_cancelled());
            });
        }
    }
}

#[test]
fn a_shutdown_does_not_wait_for_the_task_shields_of_coroutines() {
    // Still reachable, so that leak detection has nothing to say.
    static LEAKED: Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>> = Mutex::new(Vec::new());
    for is_aborted in [false, true] {
        for is_leaked in [false, true] {
            for runtime in runtimes() {
                let dropped = Arc::new(AtomicUsize::new(0));
                let (waits, is_waiting) = oneshot::channel();
                let counted = Counted(dropped.clone());
                runtime.block_on(async {
                    let coroutine = spawn(move || {
                        let mut shielded = Box::pin(task::shield(async {
                            let _counted = counted;
                            pending::<()>().await
                        }));
                        let mut waits = Some(waits);
                        block_on(poll_fn(|cx| {
                            assert!(shielded.as_mut().poll(cx).is_pending());
                            if let Some(waits) = waits.take() {
                                waits.send(()).unwrap();
                            }
                            match is_leaked {
                                true => Poll::Ready(()),
                                false => Poll::Pending,
                            }
                        }));
                        LEAKED.lock().unwrap().push(shielded);
                        block_on(pending::<()>());
                    });
                    is_waiting.await.unwrap();
                    if is_aborted {
                        coroutine.abort();
                    }
                });
                drop(runtime);
                assert_eq!(dropped.load(SeqCst), usize::from(!is_leaked));
            }
        }
    }
}

#[test]
#[cfg_attr(
    blitzen_baton,
    ignore = "code that blocks the thread of a coroutine blocks its worker"
)]
fn a_coroutine_that_drops_its_runtime_does_not_wait_for_what_waits_for_its_thread() {
    let runtime = multi(1);
    let handle = runtime.handle().clone();
    let (done, doing) = std_mpsc::channel();
    let outside = current();
    let _entered = handle.enter();
    let (waits, is_waiting) = oneshot::channel();
    let other = spawn(move || {
        waits.send(()).unwrap();
        block_on(pending::<()>())
    });
    outside.block_on(is_waiting).unwrap();
    let (begin, has_begun) = oneshot::channel();
    let job = task::spawn_blocking(move || {
        begin.send(()).unwrap();
        block_on(other)
    });
    outside.block_on(has_begun).unwrap();
    drop(spawn(move || {
        task::block_in_place(|| drop(runtime));
        done.send(()).unwrap();
    }));
    doing.recv().unwrap();
    assert!(outside.block_on(job).unwrap().unwrap_err().is_cancelled());
}

#[test]
fn a_destructor_of_the_awaited_future_may_wait_although_the_coroutine_is_aborted() {
    struct WaitsOnDrop(Arc<AtomicUsize>, Option<oneshot::Sender<()>>);
    impl Future for WaitsOnDrop {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            self.1
                .take()
                .into_iter()
                .for_each(|polled| polled.send(()).unwrap());
            Poll::Pending
        }
    }
    impl Drop for WaitsOnDrop {
        fn drop(&mut self) {
            coro::yield_now();
            let answer = block_on(async {
                task::yield_now().await;
                blitzen::spawn(async { 3 }).await.unwrap()
            });
            self.0.fetch_add(answer, SeqCst);
        }
    }
    for runtime in runtimes() {
        let waited = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (polled, is_polled) = oneshot::channel();
            let future = WaitsOnDrop(waited.clone(), Some(polled));
            let coroutine = spawn(move || block_on(future));
            is_polled.await.unwrap();
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(waited.load(SeqCst), 3);
    }
}
