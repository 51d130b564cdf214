//! The tasks of a `JoinSet` that have ended, in that order, and the waker of the task that
//! joins them.
//!
//! ```text
//!   task:    lock, push, take the waker               wake it
//!   joiner:  lock, take all; none: lock, store its waker if there is still none
//! ```
//!
//! F1. Whether something was pushed and the waker are looked at under one lock. So the
//!     joiner sees the task, or the task sees the waker.
//! F2. No foreign code runs under the lock: wakers are cloned, called and dropped outside.

use std::fmt;
use std::mem;
use std::task::Waker;

use blitzen_util::lock::{AsymmetricLock, AsymmetricLockGuard};

/// Keys of tasks that have ended.
pub struct FinishedQueue<K>(AsymmetricLock<Finished<K>>);

struct Finished<K> {
    keys: Vec<K>,
    waker: Option<Waker>,
}

impl<K> FinishedQueue<K> {
    /// An empty queue that nobody waits for.
    pub fn new() -> Self {
        Self(AsymmetricLock::new(Finished {
            keys: Vec::new(),
            waker: None,
        }))
    }

    fn lock(&self) -> AsymmetricLockGuard<'_, Finished<K>> {
        self.0.lock()
    }

    /// Adds a task, and wakes the joiner.
    pub fn push(&self, key: K) {
        let mut finished = self.lock();
        finished.keys.push(key);
        let waker = finished.waker.take();
        drop(finished);
        if let Some(waker) = waker {
            waker.wake(); // F2
        }
    }

    /// Moves all keys to `keys`, which is empty, the oldest first.
    pub fn take_all(&self, keys: &mut Vec<K>) {
        debug_assert!(keys.is_empty());
        mem::swap(keys, &mut self.lock().keys);
    }

    /// Has `waker` called when a task ends; false if one has ended (F1).
    pub fn register(&self, waker: &Waker) -> bool {
        let finished = self.lock();
        if !finished.keys.is_empty() {
            return false;
        }
        if finished
            .waker
            .as_ref()
            .is_some_and(|old| old.will_wake(waker))
        {
            return true;
        }
        drop(finished);
        let waker = waker.clone(); // F2
        let mut finished = self.lock();
        if !finished.keys.is_empty() {
            drop(finished);
            drop(waker); // F2
            return false;
        }
        let old = finished.waker.replace(waker);
        drop(finished);
        drop(old); // F2
        true
    }
}

impl<K> Default for FinishedQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for FinishedQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishedQueue").finish_non_exhaustive()
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::atomic::{AtomicUsize, Ordering::Relaxed};
    use blitzen_util::shim::{Arc, thread};
    use std::sync::Arc as Plain;
    use std::task::Wake;

    struct CountWakes(AtomicUsize);

    impl Wake for CountWakes {
        fn wake(self: Plain<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_joiner_sees_every_task_or_is_woken() {
        loom::model(|| {
            let queue = Arc::new(FinishedQueue::new());
            let tasks: Vec<_> = (0..2)
                .map(|key| {
                    let queue = queue.clone();
                    thread::spawn(move || queue.push(key))
                })
                .collect();
            let wakes = Plain::new(CountWakes(AtomicUsize::new(0)));
            let mut joined = Vec::new();
            queue.take_all(&mut joined);
            let waits = joined.is_empty() && queue.register(&Waker::from(wakes.clone()));
            tasks.into_iter().for_each(|task| task.join().unwrap());
            let woken = wakes.0.load(Relaxed);
            assert_eq!(woken, waits as usize, "F1");
            let mut late = Vec::new();
            queue.take_all(&mut late);
            assert_eq!(joined.len() + late.len(), 2);
        });
    }

    #[test]
    fn a_joiner_that_waits_again_with_another_waker_is_woken_by_it() {
        loom::model(|| {
            let queue = Arc::new(FinishedQueue::new());
            assert!(queue.register(Waker::noop()));
            let task = thread::spawn({
                let queue = queue.clone();
                move || queue.push(())
            });
            let wakes = Plain::new(CountWakes(AtomicUsize::new(0)));
            let waits = queue.register(&Waker::from(wakes.clone()));
            task.join().unwrap();
            assert_eq!(wakes.0.load(Relaxed), waits as usize, "F1");
        });
    }
}
