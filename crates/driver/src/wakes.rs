//! Any number of wakers, gathered under a lock and fired after it.

use std::cell::Cell;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use blitzen_util::prefetch::prefetch;

/// How many wakers ahead memory is brought near.
const AHEAD: usize = 3;

thread_local! {
    /// Empty; its memory is for the next wakers this thread gathers.
    static SPARE: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
}

/// Wakers to be fired.
///
/// A waker gathered is a promise to wake: if one panics the others are fired
/// all the same, and the panic goes on.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Vec<Waker>);

impl Wakes {
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

    /// How many there are: what a turn of a ring is bounded by.
    #[cfg(target_os = "linux")]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Fires all of them, the first first.
    pub(crate) fn fire(&mut self) {
        self.0.reverse();
        while let Some(waker) = self.0.pop() {
            // What a waker names is likely to have gone cold.
            if let Some(later) = self.0.len().checked_sub(AHEAD) {
                prefetch(self.0[later].data());
            }
            waker.wake();
        }
        if self.0.capacity() > 0 {
            let _ = SPARE.try_with(|spare| spare.set(take(&mut self.0)));
        }
    }
}

impl Drop for Wakes {
    /// Not empty here means that a waker has panicked.
    fn drop(&mut self) {
        while let Some(waker) = self.0.pop() {
            // A second panic would abort; the first one is the one to report.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    struct Note(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            assert_ne!(self.0, 13, "a waker that panics");
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn wakers_fire_in_the_order_they_came() {
        let seen = Arc::default();
        let mut wakes = Wakes::default();
        for n in 0..3 {
            wakes.push(Arc::new(Note(n, Arc::clone(&seen))).into());
        }
        wakes.fire();
        assert!(wakes.is_empty());
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_waker_that_panics_does_not_cost_the_others_their_wake() {
        let seen = Arc::default();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut wakes = Wakes::default();
            for n in [1, 13, 2, 3] {
                wakes.push(Arc::new(Note(n, Arc::clone(&seen))).into());
            }
            wakes.fire();
        }));
        assert!(result.is_err());
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
    }
}
