//! Blocking forms work on plain threads, and refuse where they would stall
//! tasks, naming the caller.

#![cfg(not(blitzen_loom))]

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex as StdMutex};
use std::thread;

use blitzen_sync::{Mutex, RwLock, Semaphore};
use blitzen_util::{coop, entered};

#[test]
fn blocking_forms_wait_for_other_threads() {
    let mutex = Arc::new(Mutex::new(0));
    let lock = Arc::new(RwLock::new(0));
    let semaphore = Arc::new(Semaphore::new(1));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (mutex, lock, semaphore) = (mutex.clone(), lock.clone(), semaphore.clone());
            thread::spawn(move || {
                for _ in 0..1000 {
                    *mutex.blocking_lock() += 1;
                    *mutex.clone().blocking_lock_owned() += 1;
                    *lock.blocking_write() += 1;
                    assert!(*lock.blocking_read() > 0);
                    drop(semaphore.blocking_acquire().unwrap());
                    drop(semaphore.clone().blocking_acquire_owned().unwrap());
                    drop(semaphore.blocking_acquire_many(1).unwrap());
                    drop(semaphore.clone().blocking_acquire_many_owned(1).unwrap());
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(*mutex.blocking_lock(), 8000);
    assert_eq!(*lock.blocking_read(), 4000);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_thread_without_budget_may_still_block() {
    coop::with_budget(|| {
        while coop::try_spend() {}
        let mutex = Mutex::new(0);
        *mutex.blocking_lock() += 1;
        assert_eq!(mutex.into_inner(), 1);
    });
}

#[test]
fn blocking_forms_refuse_on_a_thread_that_drives_tasks() {
    let place: Arc<StdMutex<Option<(String, String)>>> = Arc::default();
    let seen = place.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map(Location::file).unwrap_or_default();
        let text = info.payload_as_str().unwrap_or_default();
        *seen.lock().unwrap() = Some((file.to_string(), text.to_string()));
    }));
    let refuses = |call: &dyn Fn()| {
        let _entered = entered::enter();
        let refused = catch_unwind(AssertUnwindSafe(call)).is_err();
        let (file, text) = place.lock().unwrap().take().unwrap_or_default();
        (refused, file == file!(), text)
    };
    let mutex = Arc::new(Mutex::new(0));
    let lock = RwLock::new(0);
    let semaphore = Arc::new(Semaphore::new(1));
    let outcomes = [
        refuses(&|| drop(mutex.blocking_lock())),
        refuses(&|| drop(mutex.clone().blocking_lock_owned())),
        refuses(&|| drop(lock.blocking_read())),
        refuses(&|| drop(lock.blocking_write())),
        refuses(&|| drop(semaphore.blocking_acquire())),
        refuses(&|| drop(semaphore.blocking_acquire_many(1))),
        refuses(&|| drop(semaphore.clone().blocking_acquire_owned())),
        refuses(&|| drop(semaphore.clone().blocking_acquire_many_owned(1))),
    ];
    std::panic::set_hook(before);
    for (refused, named_the_caller, text) in outcomes {
        assert!(refused && named_the_caller);
        assert!(text.starts_with("Cannot block the current thread from within a runtime"));
    }
    assert!(mutex.try_lock().is_ok());
}
