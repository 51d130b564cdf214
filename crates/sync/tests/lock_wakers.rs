//! Wakers run foreign code: they are cloned, called and dropped outside the
//! lock, and one that panics costs nobody else a wake.

#![cfg(not(blitzen_loom))]

mod support;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use blitzen_sync::{Barrier, CancelToken, Mutex, Notify, Semaphore, SetOnce};
use blitzen_util::coop;
use support::scripted_waker::Script;
use support::task;

/// Does something with a primitive when woken, and again when dropped.
struct Reentrant<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for Reentrant<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl<F: Fn() + Send + Sync> Drop for Reentrant<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn reentrant(act: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Reentrant(act)).into()
}

fn poll_with<F: Future>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

#[test]
fn a_waker_may_use_the_semaphore_that_wakes_it() {
    let semaphore = Arc::new(Semaphore::new(0));
    let other = semaphore.clone();
    let waker = reentrant(move || {
        let _ = other.try_acquire();
        other.add_permits(1);
    });
    let mut future = Box::pin(semaphore.acquire());
    assert!(poll_with(&mut future, &waker).is_pending());
    drop(waker);
    semaphore.add_permits(1);
    assert!(poll_with(&mut future, Waker::noop()).is_ready());
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn a_waker_that_is_replaced_may_use_the_mutex() {
    let mutex = Arc::new(Mutex::new(0));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let other = mutex.clone();
    let waker = reentrant(move || drop(other.try_lock()));
    let mut future = Box::pin(mutex.lock());
    assert!(poll_with(&mut future, &waker).is_pending());
    drop(waker);
    assert!(poll_with(&mut future, Waker::noop()).is_pending());
    drop(guard);
    assert!(poll_with(&mut future, Waker::noop()).is_ready());
}

#[test]
fn a_waker_may_use_what_closes_sets_cancels_or_meets() {
    let semaphore = Arc::new(Semaphore::new(0));
    let notify = Arc::new(Notify::new());
    let cell = Arc::new(SetOnce::new());
    let token = CancelToken::new();
    let child = token.child_token().child_token();
    let barrier = Arc::new(Barrier::new(2));
    let waker = {
        let (semaphore, notify, cell) = (semaphore.clone(), notify.clone(), cell.clone());
        let (token, barrier) = (token.clone(), barrier.clone());
        reentrant(move || {
            semaphore.add_permits(1);
            semaphore.close();
            notify.notify_waiters();
            notify.notify_one();
            let _ = cell.set(2);
            token.child_token().cancel();
            let _ = poll_with(&mut Box::pin(barrier.wait()), Waker::noop());
        })
    };
    let mut acquire = Box::pin(semaphore.acquire());
    let mut notified = Box::pin(notify.notified());
    let mut wait = Box::pin(cell.wait());
    let mut cancelled = Box::pin(child.cancelled());
    let mut meet = Box::pin(barrier.wait());
    assert!(poll_with(&mut acquire, &waker).is_pending());
    assert!(poll_with(&mut notified, &waker).is_pending());
    assert!(poll_with(&mut wait, &waker).is_pending());
    assert!(poll_with(&mut cancelled, &waker).is_pending());
    assert!(poll_with(&mut meet, &waker).is_pending());
    token.cancel();
    assert!(poll_with(&mut acquire, Waker::noop()).is_ready());
    assert!(poll_with(&mut notified, Waker::noop()).is_ready());
    assert_eq!(poll_with(&mut wait, Waker::noop()), Poll::Ready(&2));
    assert!(poll_with(&mut cancelled, Waker::noop()).is_ready());
    assert!(poll_with(&mut meet, Waker::noop()).is_ready());
}

#[test]
fn a_waker_that_panics_costs_nobody_else_a_wake() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let bomb: Waker = Arc::new(Bomb).into();

    let semaphore = Semaphore::new(0);
    let mut first = Box::pin(semaphore.acquire());
    assert!(poll_with(&mut first, &bomb).is_pending());
    let mut waiting: Vec<_> = (0..100).map(|_| task(semaphore.acquire())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    let panic = catch_unwind(AssertUnwindSafe(|| semaphore.add_permits(101)));
    assert!(panic.is_err());
    assert!(waiting.iter().all(|task| task.wakes() == 1));
    drop((first, waiting));
    assert_eq!(semaphore.available_permits(), 101);

    let token = CancelToken::new();
    let child = token.child_token();
    let mut first = Box::pin(token.cancelled());
    assert!(poll_with(&mut first, &bomb).is_pending());
    let mut waiting: Vec<_> = (0..100).map(|_| task(child.cancelled())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| token.cancel())).is_err());
    assert!(waiting.iter().all(|task| task.wakes() == 1));

    let notify = Notify::new();
    let mut first = Box::pin(notify.notified());
    assert!(poll_with(&mut first, &bomb).is_pending());
    let mut waiting: Vec<_> = (0..100).map(|_| task(notify.notified())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| notify.notify_waiters())).is_err());
    assert!(waiting.iter().all(|task| task.wakes() == 1));
}

#[test]
fn the_latest_waker_is_the_one_that_is_called() {
    let notify = Notify::new();
    let mut first = task(notify.notified());
    assert!(!first.pinned().enable());
    first.assert_pending();
    let mut moved = task(first.pinned());
    moved.assert_pending();
    moved.assert_pending();
    notify.notify_one();
    assert_eq!(moved.wakes(), 1);
    moved.assert_ready();
    drop(moved);
    assert_eq!(first.wakes(), 0);
}

#[test]
fn a_waiter_is_woken_once() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().unwrap();
    let mut waiting = task(mutex.lock());
    waiting.assert_pending();
    waiting.assert_pending();
    drop(guard);
    assert_eq!(waiting.wakes(), 1);
    drop(waiting.assert_ready());
    assert_eq!(waiting.wakes(), 1);
}

/// Polls a lock future whose waker unlocks the mutex when it is cloned, so that the
/// poll gets the lock on its slow path.
fn lock_while_the_waker_is_cloned(mutex: &Arc<Mutex<()>>, script: Script) -> bool {
    let held = Arc::new(std::sync::Mutex::new(mutex.clone().try_lock_owned().ok()));
    let waker = Script {
        on_clone: Box::new(move || drop(held.lock().unwrap().take())),
        ..script
    }
    .waker();
    let mut future = Box::pin(mutex.lock());
    let polled = catch_unwind(AssertUnwindSafe(|| poll_with(&mut future, &waker)));
    std::mem::forget(waker);
    polled.is_err()
}

#[test]
fn a_waker_that_panics_in_a_yield_does_not_keep_the_lock() {
    let mutex = Arc::new(Mutex::new(()));
    let panicked = coop::with_budget(|| {
        while coop::try_spend() {}
        lock_while_the_waker_is_cloned(
            &mutex,
            Script {
                on_wake: Box::new(|| panic!("a waker that panics")),
                ..Script::default()
            },
        )
    });
    assert!(panicked, "the yield calls the waker");
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_waker_that_panics_when_dropped_does_not_keep_the_lock() {
    let mutex = Arc::new(Mutex::new(()));
    let script = Script {
        on_drop: Box::new(|| panic!("a waker that panics")),
        ..Script::default()
    };
    assert!(lock_while_the_waker_is_cloned(&mutex, script));
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_cancelled_token_has_no_child_that_is_not() {
    // The children have waiters enough for several batches, so that wakers run
    // while a part of the tree has not been reached.
    let parent = CancelToken::new();
    let child = parent.child_token();
    let grandchildren: Vec<_> = (0..3).map(|_| child.child_token()).collect();
    let waker = {
        let (child, grandchildren) = (child.clone(), grandchildren.clone());
        reentrant(move || {
            child.cancel();
            assert!(grandchildren.iter().all(CancelToken::is_cancelled));
        })
    };
    let mut waiting: Vec<_> = (0..40)
        .map(|_| Box::pin(grandchildren[0].cancelled()))
        .collect();
    for future in &mut waiting {
        assert!(poll_with(future, &waker).is_pending());
    }
    parent.cancel();
    for future in &mut waiting {
        assert!(poll_with(future, Waker::noop()).is_ready());
    }
}
