//! Misuse panics with a text that says what is wrong, at the caller's line.

#![cfg(not(blitzen_loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use blitzen_sync::{Mutex, RwLock, Semaphore};

fn panic_text(call: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("no panic");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().unwrap().to_string(),
    }
}

#[test]
fn too_many_permits() {
    let max = Semaphore::MAX_PERMITS;
    assert_eq!(
        panic_text(|| _ = Semaphore::new(max + 1)),
        format!("a semaphore may not have more than MAX_PERMITS permits ({max})")
    );
    assert_eq!(
        panic_text(|| Semaphore::new(1).add_permits(max)),
        format!("number of added permits ({max}) would overflow MAX_PERMITS ({max})")
    );
    assert_eq!(
        panic_text(|| Semaphore::new(1).add_permits(max + 1)),
        format!("cannot add more than MAX_PERMITS permits ({max})")
    );
    Semaphore::new(max - 1).add_permits(1);
    let full = Semaphore::new(max);
    let permit = full.try_acquire().unwrap();
    full.add_permits(1);
    assert!(panic_text(|| drop(permit)).contains("would overflow"));
    assert_eq!(full.available_permits(), max);
}

#[test]
fn too_many_permits_while_somebody_waits() {
    let semaphore = Semaphore::new(1);
    // With 32 bits, `MAX_PERMITS` is less than a `u32` can hold.
    let many = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
    let mut waiting = Box::pin(semaphore.acquire_many(many));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    let text = panic_text(|| semaphore.add_permits(Semaphore::MAX_PERMITS));
    assert!(text.contains("would overflow"));
    drop(waiting);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn permits_of_different_semaphores() {
    let (one, two) = (Semaphore::new(1), Semaphore::new(1));
    let text = panic_text(|| {
        let mut permit = one.try_acquire().unwrap();
        permit.merge(two.try_acquire().unwrap());
    });
    assert_eq!(text, "merging permits from different semaphore instances");
    assert_eq!(one.available_permits() + two.available_permits(), 2);
}

#[test]
fn too_many_readers_or_none() {
    assert_eq!(
        panic_text(|| _ = RwLock::with_max_readers(0, (u32::MAX >> 3) + 1)),
        "a RwLock may not be created with more than 536870911 readers"
    );
    assert_eq!(
        panic_text(|| _ = RwLock::with_max_readers(0, 0)),
        "a RwLock may not be created with 0 readers"
    );
    assert_eq!(
        panic_text(|| _ = RwLock::const_with_max_readers(0, 0)),
        "a RwLock may not be created with 0 readers"
    );
}

#[test]
fn a_future_polled_after_it_has_returned() {
    let mutex = Mutex::new(());
    let mut lock = Box::pin(mutex.lock());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(lock.as_mut().poll(&mut cx).is_ready());
    let text = panic_text(|| drop(lock.as_mut().poll(&mut cx)));
    assert_eq!(text, "`async fn` resumed after completion");
}

#[test]
fn a_closure_that_panics_in_map_unlocks() {
    let mutex = Mutex::new(1);
    panic_text(|| {
        drop(blitzen_sync::MutexGuard::map(
            mutex.try_lock().unwrap(),
            |_| -> &mut i32 { panic!("in map") },
        ));
    });
    assert!(mutex.try_lock().is_ok(), "no poison, no lock");
}

#[test]
fn texts_that_users_see() {
    let mutex = Mutex::new("data");
    assert_eq!(format!("{mutex:?}"), r#"Mutex { data: "data" }"#);
    let guard = mutex.try_lock().unwrap();
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
    assert_eq!(format!("{guard:?} {guard}"), r#""data" data"#);
    let error = mutex.try_lock().unwrap_err();
    assert_eq!(
        format!("{error:?} {error}"),
        "TryLockError(()) operation would block"
    );

    let lock = RwLock::new(1);
    assert_eq!(format!("{lock:?}"), "RwLock { data: 1 }");
    let guard = lock.try_write().unwrap();
    assert_eq!(format!("{lock:?} {guard:?}"), "RwLock { data: <locked> } 1");

    let semaphore = Semaphore::new(1);
    semaphore.close();
    let error = semaphore.blocking_acquire().unwrap_err();
    assert_eq!(
        format!("{error:?} {error}"),
        "AcquireError(()) semaphore closed"
    );
    let error = semaphore.try_acquire().unwrap_err();
    assert_eq!(format!("{error:?} {error}"), "Closed semaphore closed");
}
