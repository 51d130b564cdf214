//! Locks and permits are given in the order in which they were asked for.

#![cfg(not(blitzen_loom))]

mod support;

use std::sync::Arc;

use blitzen_sync::{Barrier, Mutex, Notify, RwLock, Semaphore};
use blitzen_util::coop;
use support::task;

#[test]
fn a_mutex_goes_to_whoever_waited_longest() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().unwrap();
    let mut waiting: Vec<_> = (0..5).map(|_| task(mutex.lock())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    drop(guard);
    for index in 0..5 {
        for later in &mut waiting[index + 1..] {
            assert!(!later.is_woken());
            later.assert_pending();
        }
        assert!(waiting[index].is_woken());
        assert!(mutex.try_lock().is_err(), "handed over, not up for grabs");
        drop(waiting[index].assert_ready());
    }
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_task_that_wants_many_is_not_overtaken() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut many = task(semaphore.acquire_many(3));
    let mut one = task(semaphore.acquire());
    many.assert_pending();
    one.assert_pending();
    assert_eq!(semaphore.available_permits(), 0, "gathered for the first");
    assert!(semaphore.try_acquire().is_err());
    assert_eq!(semaphore.forget_permits(1), 0);
    drop(held);
    assert!(many.is_woken() && !one.is_woken());
    drop(many.assert_ready());
    assert!(one.is_woken());
    drop(one.assert_ready());
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn one_release_serves_as_many_as_it_can_in_order() {
    let semaphore = Semaphore::new(0);
    let mut waiting: Vec<_> = [2, 1, 4, 1]
        .into_iter()
        .map(|count| task(semaphore.acquire_many(count)))
        .collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    semaphore.add_permits(5);
    let woken: Vec<_> = waiting.iter().map(|task| task.is_woken()).collect();
    assert_eq!(woken, [true, true, false, false]);
    semaphore.add_permits(2);
    assert!(waiting[2].is_woken() && !waiting[3].is_woken());
}

#[test]
fn nothing_asked_for_is_given_at_once() {
    let semaphore = Semaphore::new(0);
    let mut waiting = task(semaphore.acquire());
    waiting.assert_pending();
    assert_eq!(
        task(semaphore.acquire_many(0))
            .assert_ready()
            .unwrap()
            .num_permits(),
        0
    );
    assert!(semaphore.try_acquire_many(0).is_ok());
    semaphore.close();
    assert!(semaphore.try_acquire_many(0).is_err());
    assert!(task(semaphore.acquire_many(0)).assert_ready().is_err());
}

#[test]
fn more_waiters_than_one_batch_are_all_served() {
    let semaphore = Semaphore::new(0);
    let mut waiting: Vec<_> = (0..100).map(|_| task(semaphore.acquire())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    semaphore.add_permits(99);
    for (index, task) in waiting.iter_mut().enumerate() {
        assert_eq!(task.wakes(), usize::from(index < 99));
    }
    waiting.truncate(99);
    waiting
        .iter_mut()
        .for_each(|task| task.assert_ready().unwrap().forget());
    assert_eq!(semaphore.available_permits(), 0);
}

#[test]
fn a_writer_that_waits_holds_back_later_readers() {
    let lock = RwLock::new(1);
    let reader = lock.try_read().unwrap();
    let mut writer = task(lock.write());
    let mut later = task(lock.read());
    writer.assert_pending();
    later.assert_pending();
    assert!(lock.try_read().is_err());
    drop(reader);
    assert!(writer.is_woken() && !later.is_woken());
    let writing = writer.assert_ready();
    later.assert_pending();
    drop(writing);
    assert_eq!(*later.assert_ready(), 1);
}

#[test]
fn readers_behind_a_writer_come_in_together() {
    let lock = RwLock::new(1);
    let writing = lock.try_write().unwrap();
    let mut readers: Vec<_> = (0..50).map(|_| task(lock.read())).collect();
    let mut writer = task(lock.write());
    readers.iter_mut().for_each(|task| task.assert_pending());
    writer.assert_pending();
    drop(writing);
    let reading: Vec<_> = readers.iter_mut().map(|task| task.assert_ready()).collect();
    writer.assert_pending();
    drop(reading);
    *writer.assert_ready() = 2;
}

#[test]
fn a_downgraded_writer_lets_in_readers_but_no_writer() {
    let lock = RwLock::with_max_readers(1, 2);
    let writing = lock.try_write().unwrap();
    let mut reader = task(lock.read());
    let mut writer = task(lock.write());
    reader.assert_pending();
    writer.assert_pending();
    let reading = writing.downgrade();
    let other = reader.assert_ready();
    writer.assert_pending();
    drop((reading, other));
    assert!(writer.is_woken());

    let single = RwLock::with_max_readers(1, 1);
    let reading = single.try_write().unwrap().downgrade();
    assert!(single.try_read().is_err());
    drop(reading);
    assert!(single.try_write().is_ok());
}

#[test]
fn notify_one_takes_the_first_and_notify_last_the_last() {
    let notify = Notify::new();
    let mut waiting: Vec<_> = (0..3).map(|_| task(notify.notified())).collect();
    waiting.iter_mut().for_each(|task| task.assert_pending());
    notify.notify_last();
    notify.notify_one();
    let woken: Vec<_> = waiting.iter().map(|task| task.is_woken()).collect();
    assert_eq!(woken, [true, false, true]);
}

#[test]
fn the_last_to_arrive_leads() {
    let barrier = Barrier::new(3);
    for _ in 0..3 {
        let mut waiting = [task(barrier.wait()), task(barrier.wait())];
        waiting.iter_mut().for_each(|task| task.assert_pending());
        assert!(task(barrier.wait()).assert_ready().is_leader());
        for task in &mut waiting {
            assert!(task.is_woken());
            assert!(!task.assert_ready().is_leader());
        }
    }
}

#[test]
fn a_task_without_budget_keeps_its_place_but_takes_no_free_lock() {
    let mutex = Arc::new(Mutex::new(()));
    coop::with_budget(|| {
        while coop::try_spend() {}
        let mut free = task(mutex.lock());
        free.assert_pending();
        assert!(free.is_woken(), "told to come back");
        assert!(mutex.try_lock().is_ok(), "free while it yields");

        let guard = mutex.clone().try_lock_owned().unwrap();
        let mut first = task(mutex.lock());
        first.assert_pending();
        let mut second = task(mutex.lock());
        coop::with_unconstrained(|| second.assert_pending());
        drop(guard);
        assert!(first.is_woken() && !second.is_woken());
        first.assert_pending(); // granted, but out of budget
        coop::with_budget(|| drop(first.assert_ready()));
        coop::with_budget(|| drop(second.assert_ready()));
    });
}

#[test]
fn an_operation_spends_one_unit_of_budget() {
    let mutex = Mutex::new(());
    let lock = RwLock::new(());
    let semaphore = Semaphore::new(1);
    let barrier = Barrier::new(1);
    let notify = Notify::new();
    let spent = |poll: &mut dyn FnMut() -> bool| {
        coop::with_budget(|| (0..1000).take_while(|_| poll()).count()) as u8
    };
    assert_eq!(
        spent(&mut || task(mutex.lock()).poll().is_ready()),
        coop::BUDGET
    );
    assert_eq!(
        spent(&mut || task(lock.read()).poll().is_ready()),
        coop::BUDGET
    );
    assert_eq!(
        spent(&mut || task(lock.write()).poll().is_ready()),
        coop::BUDGET
    );
    assert_eq!(
        spent(&mut || task(semaphore.acquire()).poll().is_ready()),
        coop::BUDGET
    );
    assert_eq!(
        spent(&mut || task(barrier.wait()).poll().is_ready()),
        coop::BUDGET
    );
    assert_eq!(
        spent(&mut || {
            notify.notify_one();
            task(notify.notified()).poll().is_ready()
        }),
        coop::BUDGET
    );
}
