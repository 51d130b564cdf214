//! Wakers that are gathered under a lock and woken after it.

use std::cell::Cell;
use std::mem::{forget, take};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use blitzen_util::prefetch::prefetch;

/// How many wakers ahead memory is prefetched.
const PREFETCH_DISTANCE: usize = 3;

thread_local! {
    /// An empty vector, whose memory the next wakers of this thread use.
    static SPARE: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
}

/// Runs foreign code, such as a waker, and catches its panic: the panic hook has
/// reported it, and it must neither end a worker nor keep other tasks from being
/// woken.
pub(crate) fn contain_panic(foreign: impl FnOnce()) {
    let drop_payload = |payload| catch_unwind(AssertUnwindSafe(|| drop(payload)));
    if let Err(payload) = catch_unwind(AssertUnwindSafe(foreign))
        && let Err(second) = drop_payload(payload)
    {
        forget(second); // there may be no end to it
    }
}

/// Any number of wakers.
///
/// Every waker in the list is woken: if one panics, the others are woken all the
/// same.
#[derive(Debug, Default)]
pub(crate) struct WakeList(Vec<Waker>);

impl WakeList {
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.0.capacity() == 0 {
            // A thread that is ending has none.
            self.0 = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        self.0.push(waker);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of wakers, which bounds a turn of a ring.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Wakes all of them, in the order in which they came.
    pub(crate) fn wake_all(&mut self) {
        self.0.reverse();
        while !self.0.is_empty() {
            contain_panic(|| self.wake_until_panic());
        }
        if self.0.capacity() > 0 {
            let _ = SPARE.try_with(|spare| spare.set(take(&mut self.0)));
        }
    }

    fn wake_until_panic(&mut self) {
        while let Some(waker) = self.0.pop() {
            // The task of a waker is likely not to be in the cache.
            if let Some(later) = self.0.len().checked_sub(PREFETCH_DISTANCE) {
                prefetch(self.0[later].data());
            }
            waker.wake();
        }
    }
}

impl Drop for WakeList {
    /// Wakes the rest: the list is not empty here only while a panic unwinds.
    fn drop(&mut self) {
        self.wake_all();
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    struct Recorder(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Recorder {
        fn wake(self: Arc<Self>) {
            assert_ne!(self.0, 13, "a waker that panics");
            self.1.lock().unwrap().push(self.0);
        }
    }

    fn wake(numbers: &[u32]) -> Vec<u32> {
        let seen = Arc::default();
        let mut wakes = WakeList::default();
        for &number in numbers {
            wakes.push(Arc::new(Recorder(number, Arc::clone(&seen))).into());
        }
        wakes.wake_all();
        assert!(wakes.is_empty());
        let seen = seen.lock().unwrap();
        seen.clone()
    }

    #[test]
    fn wakers_are_woken_in_the_order_they_came() {
        assert_eq!(wake(&[0, 1, 2]), [0, 1, 2]);
    }

    #[test]
    fn a_waker_that_panics_does_not_cost_the_others_their_wake() {
        assert_eq!(wake(&[1, 13, 2, 13, 3]), [1, 2, 3]);
    }
}
