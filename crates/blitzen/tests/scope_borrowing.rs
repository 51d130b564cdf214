//! Scopes whose children borrow.

mod scope_common;

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use blitzen::future::{TaskScope, scope};
use blitzen::runtime::LocalRuntime;
use blitzen::scope::scope_blocking;
use blitzen::task;
use blitzen::time::sleep;
use scope_common::{Alive, FOREVER, on_both, one_thread, poll_once, workers};

#[test]
fn blocking_children_borrow_and_run_in_parallel() {
    let runtime = workers(2);
    runtime.block_on(async {
        // In the root future, and in a task.
        fill_squares();
        task::spawn(async { fill_squares() }).await.unwrap();
        task::spawn_blocking(fill_squares).await.unwrap();
    });
    let _inside = runtime.enter();
    fill_squares();
}

#[test]
fn blocking_children_of_a_current_thread_runtime_that_nobody_runs_are_run_by_who_waits() {
    let (ended, has_ended) = mpsc::channel();
    thread::spawn(move || {
        let runtime = one_thread();
        let inside = runtime.enter();
        fill_squares();
        drop(inside);
        let local = LocalRuntime::new().unwrap();
        let inside = local.enter();
        fill_squares();
        drop(inside);
        ended.send(()).unwrap();
    });
    has_ended.recv_timeout(FOREVER).expect("it hangs");
}

fn fill_squares() {
    let mut squares = [0; 50];
    let count = AtomicUsize::new(0);
    let value = scope_blocking(|s| {
        for (n, square) in squares.iter_mut().enumerate() {
            let count = &count;
            s.spawn(async move {
                sleep(Duration::from_micros(10)).await;
                *square = n * n;
                s.spawn(async {
                    count.fetch_add(1, SeqCst);
                });
            });
        }
        "value"
    });
    assert_eq!(value, "value");
    assert_eq!(count.into_inner(), 50);
    assert_eq!(squares[49], 49 * 49);
}

#[test]
fn two_blocking_children_wait_for_each_other() {
    let runtime = workers(2);
    runtime.block_on(async {
        let task = task::spawn(async {
            let (one, other) = (AtomicBool::new(false), AtomicBool::new(false));
            scope_blocking(|s| {
                s.spawn(async {
                    one.store(true, SeqCst);
                    while !other.load(SeqCst) {
                        task::yield_now().await;
                    }
                });
                s.spawn(async {
                    other.store(true, SeqCst);
                    while !one.load(SeqCst) {
                        task::yield_now().await;
                    }
                });
            });
        });
        task.await.unwrap();
    });
}

/// Uses what it borrows when it is dropped.
struct Borrower<'a>(&'a AtomicUsize);

impl Drop for Borrower<'_> {
    fn drop(&mut self) {
        thread::yield_now();
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_panic_waits_until_nobody_borrows() {
    let runtime = workers(2);
    let _inside = runtime.enter();
    for is_body in [false, true] {
        let drops = Box::new(AtomicUsize::new(0));
        let panic = catch_unwind(AssertUnwindSafe(|| {
            scope_blocking(|s| {
                for _ in 0..10 {
                    let borrower = Borrower(&drops);
                    s.spawn(async move {
                        let _borrower = borrower;
                        pending::<()>().await;
                    });
                }
                match is_body {
                    true => panic!("the news"),
                    false => s.spawn(async { panic!("the news") }),
                }
            });
        }));
        let payload = panic.unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "the news");
        assert_eq!(drops.load(SeqCst), 10);
    }
}

#[test]
fn a_runtime_that_ends_lets_a_blocking_scope_go() {
    for round in 0..20 {
        let runtime = workers(1 + round % 2);
        let (begun, beginning) = mpsc::channel();
        let alive = Alive::default();
        let inside = alive.clone();
        runtime.spawn(async move {
            let drops = AtomicUsize::new(0);
            scope_blocking(|s| {
                for n in 0..20 {
                    let (borrower, guard) = (Borrower(&drops), inside.guard());
                    let begun = begun.clone();
                    s.spawn(async move {
                        let (_borrower, _guard) = (borrower, guard);
                        begun.send(()).unwrap();
                        match n % 3 {
                            0 => pending::<()>().await,
                            // Busy, so that it is woken while the runtime ends.
                            1 => loop {
                                task::yield_now().await;
                            },
                            _ => loop {
                                sleep(Duration::from_micros(20)).await;
                            },
                        }
                    });
                }
            });
            assert_eq!(drops.load(SeqCst), 20);
        });
        for _ in 0..5 {
            beginning.recv().unwrap();
        }
        drop(runtime); // hangs if a child is left
        assert_eq!(alive.count(), 0);
    }
}

#[test]
fn a_runtime_that_ends_cancels_borrowing_children_that_others_wake() {
    for _ in 0..20 {
        let runtime = workers(1);
        let wakers = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (begun, beginning) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let waking = thread::spawn({
            let (wakers, stop) = (wakers.clone(), stop.clone());
            move || {
                while !stop.load(SeqCst) {
                    let woken = std::mem::take(&mut *wakers.lock().unwrap());
                    woken.into_iter().for_each(std::task::Waker::wake);
                }
            }
        });
        let list = wakers.clone();
        runtime.spawn(async move {
            let local = AtomicUsize::new(0);
            scope_blocking(|s| {
                for _ in 0..4 {
                    let (borrower, list, begun) = (Borrower(&local), list.clone(), begun.clone());
                    s.spawn(async move {
                        let _borrower = borrower;
                        begun.send(()).unwrap();
                        poll_fn::<(), _>(|cx| {
                            list.lock().unwrap().push(cx.waker().clone());
                            Poll::Pending
                        })
                        .await;
                    });
                }
            });
        });
        (0..4).for_each(|_| beginning.recv().unwrap());
        drop(runtime);
        stop.store(true, SeqCst);
        waking.join().unwrap();
        wakers.lock().unwrap().clear();
    }
}

#[test]
fn a_runtime_that_has_ended_drops_borrowing_children_at_once() {
    let runtime = workers(1);
    let handle = runtime.handle().clone();
    drop(runtime);
    let _inside = handle.enter();
    let drops = AtomicUsize::new(0);
    scope_blocking(|s| {
        let borrower = Borrower(&drops);
        s.spawn(async move {
            let _borrower = borrower;
        });
        assert_eq!(drops.load(SeqCst), 1);
    });
}

#[test]
fn a_blocking_scope_is_refused_where_nobody_else_can_run_the_children() {
    let refused = catch_unwind(AssertUnwindSafe(|| {
        one_thread().block_on(async { scope_blocking(|_| ()) });
    }));
    assert!(refused.is_err());
    let outside = catch_unwind(|| scope_blocking(|_| ()));
    assert_eq!(outside.is_err(), cfg!(not(feature = "global")));
}

#[test]
fn children_of_a_blocking_scope_see_the_scope_around_it() {
    let runtime = workers(2);
    let seen = runtime.block_on(blitzen::scope(|s| async move {
        s.cancel();
        let seen = AtomicBool::new(false);
        scope_blocking(|inner| inner.spawn(async { seen.store(task::is_cancelled(), SeqCst) }));
        Ok::<_, blitzen::scope::Stopped>(seen.into_inner())
    }));
    assert_eq!(seen, Ok(true));
}

#[test]
fn children_within_a_task_borrow_and_take_turns() {
    on_both(|| async {
        let turns = std::sync::Mutex::new(Vec::new());
        let value = scope(|s: TaskScope<'_, ()>| {
            for n in 0..3 {
                let turns = &turns;
                s.spawn(async move {
                    turns.lock().unwrap().push(n);
                    task::yield_now().await;
                    turns.lock().unwrap().push(n + 10);
                    Ok(())
                });
            }
            let turns = &turns;
            async move {
                s.spawn(async {
                    turns.lock().unwrap().push(3);
                    Ok(())
                });
                Ok("value")
            }
        });
        assert_eq!(value.await, Ok("value"));
        assert_eq!(turns.into_inner().unwrap(), [0, 1, 2, 3, 10, 11, 12]);
    });
}

#[test]
fn an_error_within_a_task_drops_the_others() {
    on_both(|| async {
        for is_body in [false, true] {
            let drops = AtomicUsize::new(0);
            let failed = scope(|s| {
                for _ in 0..10 {
                    let borrower = Borrower(&drops);
                    s.spawn(async move {
                        let _borrower = borrower;
                        pending().await
                    });
                }
                s.spawn(async move { if is_body { Ok(()) } else { Err("child") } });
                async move {
                    if is_body {
                        Err("body")
                    } else {
                        pending().await
                    }
                }
            });
            let failed: Result<(), _> = failed.await;
            assert_eq!(failed, Err(if is_body { "body" } else { "child" }));
            assert_eq!(drops.load(SeqCst), 10);
        }
    });
}

#[test]
fn many_children_within_a_task_are_woken_one_by_one() {
    on_both(|| async {
        let count = AtomicUsize::new(0);
        let done = scope(|s| {
            for n in 0..500 {
                let count = &count;
                s.spawn(async move {
                    sleep(Duration::from_micros(n % 50)).await;
                    count.fetch_add(1, SeqCst);
                    Ok::<_, ()>(())
                });
            }
            async { Ok(()) }
        });
        done.await.unwrap();
        assert_eq!(count.into_inner(), 500);
    });
}

#[test]
fn a_child_spawned_from_another_thread_is_polled() {
    on_both(|| async {
        let (sent, received) = blitzen::channel::oneshot::channel();
        let done = scope(|s: TaskScope<'static, ()>| async move {
            let thread = thread::spawn({
                let s = s.clone();
                move || {
                    thread::sleep(Duration::from_millis(5));
                    s.spawn(async move { sent.send(7).map_err(drop) });
                }
            });
            assert_eq!(received.await, Ok(7));
            thread.join().unwrap();
            Ok(s)
        });
        let ended = done.await.unwrap();
        let alive = Alive::default();
        ended.spawn(alive.forever());
        assert_eq!(alive.count(), 0, "refused");
    });
}

#[test]
fn a_dropped_scope_within_a_task_drops_its_children_although_a_handle_is_kept() {
    on_both(|| async {
        let alive = Alive::default();
        let kept = std::sync::Mutex::new(None);
        let mut dropped = Box::pin(scope(|s: TaskScope<'static, ()>| {
            *kept.lock().unwrap() = Some(s.clone());
            s.spawn(alive.forever());
            async { Ok(()) }
        }));
        assert!(poll_once(&mut dropped).await.is_pending());
        assert_eq!(alive.count(), 1);
        drop(dropped);
        assert_eq!(alive.count(), 0);
        drop(kept);
    });
}
