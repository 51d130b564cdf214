//! Wakers gathered under a lock and fired after it.

use std::mem::MaybeUninit;
use std::task::Waker;

use crate::quiet::quietly;

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
    /// Slots in `fired..len` are initialised.
    wakers: [MaybeUninit<Waker>; CAPACITY],
    fired: usize,
    len: usize,
}

impl WakeBatch {
    /// An empty batch.
    pub const fn new() -> Self {
        Self {
            wakers: [const { MaybeUninit::uninit() }; CAPACITY],
            fired: 0,
            len: 0,
        }
    }

    /// Whether the batch must be fired before more can be gathered.
    pub const fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// How many more wakers it can take before it must be fired.
    pub const fn room(&self) -> usize {
        CAPACITY - self.len
    }

    /// Adds a waker.
    ///
    /// # Panics
    /// If the batch is full.
    pub fn push(&mut self, waker: Waker) {
        self.wakers[self.len].write(waker);
        self.len += 1;
    }

    /// Fires every waker, in the order they were added. If one panics the
    /// others are fired all the same, and the panic goes on.
    #[inline]
    pub fn wake_all(&mut self) {
        while let Some(waker) = self.next() {
            waker.wake();
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Waker> {
        if self.fired == self.len {
            (self.fired, self.len) = (0, 0);
            return None;
        }
        self.fired += 1;
        // SAFETY: the slot was in `fired..len`, and is not any more: it is read
        // once.
        Some(unsafe { self.wakers[self.fired - 1].assume_init_read() })
    }
}

/// Wakes more wakers than one batch holds: calls `gather`, which takes the lock,
/// fills the batch and returns whether more wakers are left; then fires the batch;
/// and so on until none are left.
///
/// A waker that panics ends neither its batch nor the rounds after it.
///
/// ```
/// use std::task::Waker;
/// use blitzen_util::wake_batch;
///
/// let mut waiting = vec![Waker::noop().clone(); 100];
/// wake_batch::in_rounds(|batch| {
///     while !batch.is_full() && let Some(waker) = waiting.pop() {
///         batch.push(waker);
///     }
///     !waiting.is_empty()
/// });
/// assert!(waiting.is_empty());
/// ```
#[inline]
pub fn in_rounds(mut gather: impl FnMut(&mut WakeBatch) -> bool) {
    let mut batch = WakeBatch::new();
    if gather(&mut batch) {
        more_rounds(batch, gather);
    } else {
        batch.wake_all();
    }
}

#[cold]
#[inline(never)]
fn more_rounds(mut batch: WakeBatch, gather: impl FnMut(&mut WakeBatch) -> bool) {
    let mut rounds = Rounds { gather, more: true };
    batch.wake_all();
    while rounds.more {
        rounds.more = (rounds.gather)(&mut batch);
        batch.wake_all();
    }
}

struct Rounds<F: FnMut(&mut WakeBatch) -> bool> {
    gather: F,
    more: bool,
}

impl<F: FnMut(&mut WakeBatch) -> bool> Drop for Rounds<F> {
    /// Rounds are left here only while a waker's panic unwinds.
    fn drop(&mut self) {
        while self.more {
            let mut batch = WakeBatch::new();
            self.more = (self.gather)(&mut batch);
        }
    }
}

impl Default for WakeBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WakeBatch {
    #[inline]
    fn drop(&mut self) {
        if self.fired != self.len {
            self.fire_unwinding();
        }
    }
}

impl WakeBatch {
    /// Fires the wakers that are left when the batch is dropped, which happens only
    /// while a panic unwinds. Their tasks are no longer in a queue, and would never be
    /// woken otherwise.
    #[cold]
    #[inline(never)]
    fn fire_unwinding(&mut self) {
        while let Some(waker) = self.next() {
            // A second panic would abort; the first one is the one to report.
            quietly(|| waker.wake());
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
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
    fn a_full_batch_wakes_every_waker() {
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

    #[test]
    fn wakers_fire_in_the_order_they_were_added() {
        struct Note(Arc<std::sync::Mutex<Vec<usize>>>, usize);
        impl Wake for Note {
            fn wake(self: Arc<Self>) {
                self.0.lock().unwrap().push(self.1);
            }
        }
        let order = Arc::default();
        let mut batch = WakeBatch::new();
        for _ in 0..2 {
            for index in 0..3 {
                batch.push(Arc::new(Note(Arc::clone(&order), index)).into());
            }
            batch.wake_all();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_waker_that_panics_does_not_end_the_rounds() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let mut left: Vec<Waker> = vec![count.clone().into(); 3 * CAPACITY];
        left.push(Arc::new(Bomb).into()); // fired first
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            in_rounds(|batch| {
                while !batch.is_full()
                    && let Some(waker) = left.pop()
                {
                    batch.push(waker);
                }
                !left.is_empty()
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(count.0.load(Relaxed), 3 * CAPACITY);
    }
}
