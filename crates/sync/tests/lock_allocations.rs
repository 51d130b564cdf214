//! Waiting allocates nothing, and futures are small.

#![cfg(not(blitzen_loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use blitzen_sync::{Barrier, CancelToken, Mutex, Notify, OnceCell, RwLock, Semaphore, SetOnce};

struct Counting;

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[track_caller]
fn allocates_nothing(run: impl FnOnce()) {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_allocator_counts() {
    let before = ALLOCATIONS.with(Cell::get);
    drop(std::hint::black_box(Box::new(5)));
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 1);
}

#[test]
fn a_mutex_waits_without_allocating() {
    let mutex = Arc::new(Mutex::new(0));
    allocates_nothing(|| {
        let guard = mutex.try_lock().unwrap();
        let mut waiting = pin!(mutex.lock());
        let mut owned = pin!(mutex.clone().lock_owned());
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(poll(owned.as_mut()).is_pending());
        drop(guard);
        assert!(poll(waiting.as_mut()).is_ready());
        assert!(poll(owned.as_mut()).is_ready());
    });
}

#[test]
fn a_semaphore_is_made_and_waits_without_allocating() {
    allocates_nothing(|| {
        let semaphore = Semaphore::new(1);
        let mut waiting = pin!(semaphore.acquire_many(2));
        assert!(poll(waiting.as_mut()).is_pending());
        semaphore.add_permits(1);
        assert!(poll(waiting.as_mut()).is_ready());
        let mut left = pin!(semaphore.acquire_many(9));
        assert!(poll(left.as_mut()).is_pending());
        semaphore.close();
    });
}

#[test]
fn a_rwlock_is_made_and_waits_without_allocating() {
    allocates_nothing(|| {
        let lock = RwLock::new(0);
        let reading = lock.try_read().unwrap();
        let mut writer = pin!(lock.write());
        let mut reader = pin!(lock.read());
        assert!(poll(writer.as_mut()).is_pending());
        assert!(poll(reader.as_mut()).is_pending());
        drop(reading);
        assert!(poll(writer.as_mut()).is_ready());
        assert!(poll(reader.as_mut()).is_ready());
    });
}

#[test]
fn a_notify_is_made_and_waits_without_allocating() {
    allocates_nothing(|| {
        let notify = Notify::new();
        let mut one = pin!(notify.notified());
        let mut all = pin!(notify.notified());
        assert!(poll(one.as_mut()).is_pending());
        assert!(poll(all.as_mut()).is_pending());
        notify.notify_one();
        notify.notify_waiters();
        assert!(poll(one.as_mut()).is_ready());
        assert!(poll(all.as_mut()).is_ready());
    });
}

#[test]
fn a_barrier_is_made_and_waits_without_allocating() {
    allocates_nothing(|| {
        let barrier = Barrier::new(2);
        let mut first = pin!(barrier.wait());
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(pin!(barrier.wait())).is_ready());
        assert!(poll(first.as_mut()).is_ready());
    });
}

#[test]
fn a_once_cell_is_filled_and_waited_for_without_allocating() {
    allocates_nothing(|| {
        let cell = OnceCell::new();
        let gate = Notify::new();
        let mut filling = pin!(cell.get_or_init(|| async {
            gate.notified().await;
            5
        }));
        let mut waiting = pin!(cell.get_or_init(|| async { 6 }));
        assert!(poll(filling.as_mut()).is_pending());
        assert!(poll(waiting.as_mut()).is_pending());
        gate.notify_one();
        assert_eq!(poll(filling.as_mut()), Poll::Ready(&5));
        assert_eq!(poll(waiting.as_mut()), Poll::Ready(&5));
    });
}

#[test]
fn a_set_once_is_set_and_waited_for_without_allocating() {
    allocates_nothing(|| {
        let cell = SetOnce::new();
        let mut waiting = pin!(cell.wait());
        assert!(poll(waiting.as_mut()).is_pending());
        cell.set(5).unwrap();
        assert_eq!(poll(waiting.as_mut()), Poll::Ready(&5));
    });
}

#[test]
fn a_token_is_waited_for_and_cancelled_without_allocating() {
    let token = CancelToken::new();
    let child = token.child_token();
    allocates_nothing(|| {
        let mut waiting = pin!(token.cancelled());
        let mut below = pin!(child.cancelled());
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(poll(below.as_mut()).is_pending());
        token.cancel();
        assert!(poll(waiting.as_mut()).is_ready());
        assert!(poll(below.as_mut()).is_ready());
    });
    let before = ALLOCATIONS.with(Cell::get);
    let another = CancelToken::new();
    let _child = another.child_token();
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 2, "one a token");
}

#[test]
fn futures_and_primitives_are_small() {
    let mutex = Arc::new(Mutex::new(()));
    let lock = RwLock::new(());
    let semaphore = Semaphore::new(1);
    let notify = Notify::new();
    let barrier = Barrier::new(1);
    const WORD: usize = size_of::<usize>();
    // Of the queue: a futex and a flag, which a pointer follows.
    const LOCK: usize = 8;
    assert_eq!(size_of_val(&mutex.lock()), 7 * WORD);
    assert_eq!(size_of_val(&mutex.clone().lock_owned()), 7 * WORD);
    assert_eq!(size_of_val(&lock.read()), 7 * WORD);
    assert_eq!(size_of_val(&lock.write()), 7 * WORD);
    assert_eq!(size_of_val(&semaphore.acquire()), 7 * WORD);
    assert_eq!(size_of_val(&semaphore.acquire_many(2)), 8 * WORD);
    assert_eq!(size_of_val(&notify.notified()), 8 * WORD);
    assert_eq!(size_of_val(&barrier.wait()), 7 * WORD);
    assert_eq!(size_of::<Mutex<()>>(), LOCK + 3 * WORD);
    assert_eq!(size_of::<Semaphore>(), LOCK + 4 * WORD);
    assert_eq!(size_of::<Notify>(), LOCK + 3 * WORD);
    // The value is a cache line behind the word that readers write.
    assert_eq!(size_of::<RwLock<()>>(), 64 + WORD);
    assert_eq!(size_of::<OnceCell<()>>(), LOCK + 3 * WORD);
    assert_eq!(size_of::<SetOnce<()>>(), LOCK + 3 * WORD);
    assert_eq!(size_of::<Barrier>(), LOCK + 5 * WORD);
}
