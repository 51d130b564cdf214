//! Wakers gathered under a lock and fired after it.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Enough that a full batch is rare, few enough to live on the stack.
const CAPACITY: usize = 32;

/// Up to 32 wakers, without an allocation.
///
/// ```
/// use blitzen_util::wake_batch::WakeBatch;
///
/// let mut batch = WakeBatch::new();
/// batch.push(std::task::Waker::noop().clone());
/// // … release the lock …
/// batch.wake_all();
/// assert!(!batch.is_full());
/// ```
#[derive(Debug)]
pub struct WakeBatch {
    /// Slots below `len` are initialised.
    wakers: [MaybeUninit<Waker>; CAPACITY],
    len: usize,
}

impl WakeBatch {
    /// An empty batch.
    pub const fn new() -> Self {
        Self {
            wakers: [const { MaybeUninit::uninit() }; CAPACITY],
            len: 0,
        }
    }

    /// Whether the batch must be fired before more can be gathered.
    pub const fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// Adds a waker.
    ///
    /// # Panics
    /// If the batch is full.
    pub fn push(&mut self, waker: Waker) {
        self.wakers[self.len].write(waker);
        self.len += 1;
    }

    /// Fires every waker. If one panics the others are fired all the same,
    /// and the panic goes on.
    pub fn wake_all(&mut self) {
        while let Some(waker) = self.pop() {
            waker.wake();
        }
    }

    fn pop(&mut self) -> Option<Waker> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the slot was below `len`, and is not any more: it is read once.
        Some(unsafe { self.wakers[self.len].assume_init_read() })
    }
}

impl Default for WakeBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WakeBatch {
    /// A batch that is not empty here is being unwound: a waker gathered is a
    /// promise to wake, whatever went wrong in between.
    fn drop(&mut self) {
        while let Some(waker) = self.pop() {
            // A second panic would abort; the first one is the one to report.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }

    #[test]
    fn a_full_batch_wakes_everybody() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let mut batch = WakeBatch::new();
        while !batch.is_full() {
            batch.push(count.clone().into());
        }
        batch.wake_all();
        assert_eq!(count.0.load(Relaxed), CAPACITY);
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn a_waker_that_panics_does_not_cost_the_others_their_wake() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut batch = WakeBatch::new();
            batch.push(count.clone().into());
            batch.push(Arc::new(Bomb).into());
            batch.push(count.clone().into());
            batch.wake_all();
        }));
        assert!(panicked.is_err());
        assert_eq!(count.0.load(Relaxed), 2);
    }
}
