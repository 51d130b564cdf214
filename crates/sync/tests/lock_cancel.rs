//! A future that is dropped leaves its queue, and passes on what it was given.

#![cfg(not(blitzen_loom))]

mod support;

use std::future::pending;
use std::sync::Arc;
use std::task::Poll;

use blitzen_sync::{Barrier, CancelToken, Mutex, Notify, OnceCell, RwLock, Semaphore, SetOnce};
use support::task;

#[test]
fn a_lock_granted_to_a_dropped_future_goes_to_the_next() {
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.try_lock().unwrap();
    let mut first = task(mutex.lock());
    let mut second = task(mutex.clone().lock_owned());
    first.assert_pending();
    second.assert_pending();
    drop(guard);
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert!(second.is_woken());
    drop(second);
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_future_dropped_in_the_middle_of_the_queue_leaves_it_whole() {
    let semaphore = Semaphore::new(0);
    let mut waiting: Vec<_> = (0..3).map(|_| task(semaphore.acquire())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    drop(waiting.remove(1));
    semaphore.add_permits(2);
    waiting
        .iter_mut()
        .for_each(|task| drop(task.assert_ready().unwrap()));
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn what_was_gathered_for_a_dropped_future_serves_the_others() {
    let semaphore = Semaphore::new(2);
    let mut many = task(semaphore.acquire_many(5));
    let mut one = task(semaphore.acquire());
    let mut three = task(semaphore.acquire_many(3));
    many.assert_pending();
    one.assert_pending();
    three.assert_pending();
    drop(many);
    assert!(one.is_woken() && !three.is_woken());
    drop(three);
    assert_eq!(semaphore.available_permits(), 1);
    drop(one);
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn a_writer_dropped_in_the_queue_lets_readers_in() {
    let lock = RwLock::new(());
    let _reading = lock.try_read().unwrap();
    let mut writer = task(lock.write());
    let mut reader = task(lock.read());
    writer.assert_pending();
    reader.assert_pending();
    drop(writer);
    assert!(reader.is_woken());
    drop(reader.assert_ready());
}

#[test]
fn a_future_that_was_never_polled_was_never_queued() {
    let mutex = Mutex::new(());
    drop(mutex.lock());
    let guard = mutex.try_lock().unwrap();
    drop(mutex.lock());
    drop(guard);
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_closed_semaphore_gets_back_what_was_gathered() {
    let semaphore = Semaphore::new(3);
    let mut many = task(semaphore.acquire_many(5));
    many.assert_pending();
    semaphore.close();
    assert!(many.is_woken());
    semaphore.add_permits(1);
    assert!(many.assert_ready().is_err());
    drop(many);
    assert_eq!(semaphore.available_permits(), 4);
}

#[test]
fn a_notification_of_a_dropped_future_goes_to_the_next() {
    let notify = Notify::new();
    let mut waiting: Vec<_> = (0..3).map(|_| task(notify.notified())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    notify.notify_last();
    drop(waiting.pop());
    assert!(waiting[1].is_woken() && !waiting[0].is_woken());
    drop(waiting.pop());
    assert!(waiting[0].is_woken());
    drop(waiting.pop());
    task(notify.notified()).assert_ready();
    task(notify.notified()).assert_pending();
}

#[test]
fn a_notification_to_all_is_not_passed_on() {
    let notify = Notify::new();
    let mut first = task(notify.notified());
    first.assert_pending();
    notify.notify_waiters();
    drop(first);
    task(notify.notified()).assert_pending();
}

#[test]
fn an_arrival_can_be_taken_back() {
    let barrier = Barrier::new(2);
    let mut first = task(barrier.wait());
    first.assert_pending();
    drop(first);
    let mut second = task(barrier.wait());
    second.assert_pending();
    assert!(task(barrier.wait()).assert_ready().is_leader());
    assert!(!second.assert_ready().is_leader());

    // One that has met the others is not missing in the next round.
    let mut third = task(barrier.wait());
    third.assert_pending();
    task(barrier.wait()).assert_ready();
    let mut fourth = task(barrier.wait());
    fourth.assert_pending();
    drop(third);
    assert!(task(barrier.wait()).assert_ready().is_leader());
    assert!(fourth.is_woken());
}

#[test]
fn a_cell_whose_filler_is_dropped_is_filled_by_the_next() {
    let cell = OnceCell::new();
    let mut stuck = task(cell.get_or_init(pending::<i32>));
    let mut next = task(cell.get_or_init(|| async { 2 }));
    stuck.assert_pending();
    next.assert_pending();
    assert!(cell.set(1).unwrap_err().is_initializing_err());
    drop(stuck);
    assert!(next.is_woken());
    assert_eq!(*next.assert_ready(), 2);
}

#[test]
fn a_cell_whose_filler_panics_or_fails_is_filled_by_the_next() {
    let cell = OnceCell::new();
    let mut failing = task(cell.get_or_try_init(|| async { Err::<i32, _>("failed") }));
    assert_eq!(failing.assert_ready(), Err("failed"));
    let mut panicking = task(cell.get_or_init(|| async { panic!("no value") }));
    let panic =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panicking.poll().is_ready()));
    assert!(panic.is_err());
    assert_eq!(*task(cell.get_or_init(|| async { 3 })).assert_ready(), 3);
}

#[test]
fn waiters_for_a_value_come_and_go() {
    let cell = SetOnce::new();
    let mut stays = task(cell.wait());
    let mut leaves = task(cell.wait());
    stays.assert_pending();
    leaves.assert_pending();
    drop(leaves);
    cell.set(5).unwrap();
    assert!(stays.is_woken());
    assert_eq!(*stays.assert_ready(), 5);
}

#[test]
fn what_runs_until_cancelled_is_dropped_in_time() {
    struct Flag<'a>(&'a std::cell::Cell<bool>);
    impl Drop for Flag<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let dropped = std::cell::Cell::new(false);
    let token = CancelToken::new();
    let mut run = task(token.run_until_cancelled(async {
        let _flag = Flag(&dropped);
        pending::<()>().await;
    }));
    run.assert_pending();
    assert!(!dropped.get());
    token.cancel();
    assert!(run.is_woken());
    assert_eq!(run.poll(), Poll::Ready(None));
    assert!(dropped.get());
}
