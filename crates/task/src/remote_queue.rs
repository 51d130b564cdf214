//! The tasks of a `LocalSet` that other threads have woken, and the wakers of the tasks that
//! poll the set.
//!
//! ```text
//!   pusher:  lock, push, take the wakers     wake them
//!   poller:  lock, store its waker           lock, pop until it is empty, wait
//! ```
//!
//! M1. Of the two first steps, one comes first. If it is the pusher's, the poller finds the
//!     task; if it is the poller's, the pusher finds the waker.
//! M2. Every poller that waits has its waker here, or has been woken. So it does not matter
//!     which of several pollers goes away.
//! M3. No foreign code runs under the lock: wakers are cloned, called and dropped outside.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::task::Waker;

use blitzen_util::shim::{Mutex, MutexGuard};
use blitzen_util::wake_batch::{self, WakeBatch};

/// A queue that any thread may push to, with the wakers of the tasks that poll the set.
pub struct RemoteQueue<T>(Mutex<Remote<T>>);

struct Remote<T> {
    /// `None` once closed.
    tasks: Option<VecDeque<T>>,
    pollers: Vec<(PollerKey, Waker)>,
    next_key: u64,
}

/// Tells one poller from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollerKey(u64);

impl PollerKey {
    /// The poller that has the set for itself alone, and therefore needs no key of its own.
    pub const EXCLUSIVE: Self = Self(0);
}

impl<T> RemoteQueue<T> {
    /// An empty queue without pollers.
    pub fn new() -> Self {
        Self(Mutex::new(Remote {
            tasks: Some(VecDeque::new()),
            pollers: Vec::new(),
            next_key: PollerKey::EXCLUSIVE.0 + 1,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Remote<T>> {
        self.0.lock()
    }

    /// Queues a task and wakes every poller; gives the task back once closed.
    pub fn push(&self, task: T) -> Result<(), T> {
        let mut task = Some(task);
        wake_batch::in_rounds(|batch| {
            let mut remote = self.lock();
            if let Some(tasks) = &mut remote.tasks
                && let Some(task) = task.take()
            {
                tasks.push_back(task);
            }
            remote.take_wakers(batch)
        });
        match task {
            None => Ok(()),
            Some(refused) => Err(refused),
        }
    }

    /// The oldest task.
    pub fn pop(&self) -> Option<T> {
        self.lock().tasks.as_mut()?.pop_front()
    }

    /// Takes all tasks out, and refuses others from now on.
    pub fn close(&self) -> VecDeque<T> {
        let mut remote = self.lock();
        let tasks = remote.tasks.take();
        let pollers = mem::take(&mut remote.pollers);
        drop(remote);
        drop(pollers); // M3
        tasks.unwrap_or_default()
    }

    /// A key for one more poller.
    pub fn new_poller(&self) -> PollerKey {
        let mut remote = self.lock();
        let key = remote.next_key;
        remote.next_key += 1;
        PollerKey(key)
    }

    /// Has `waker` called when there is something to do. To be called before the poller looks
    /// for tasks (M1).
    pub fn register(&self, poller: PollerKey, waker: &Waker) {
        let same = |(key, old): &(PollerKey, Waker)| *key == poller && old.will_wake(waker);
        if self.lock().pollers.iter().any(same) {
            return;
        }
        let waker = waker.clone(); // M3
        let mut remote = self.lock();
        let place = remote.pollers.iter_mut().find(|(key, _)| *key == poller);
        let old = match place {
            Some((_, old)) => Some(mem::replace(old, waker)),
            None => {
                remote.pollers.push((poller, waker));
                None
            }
        };
        drop(remote);
        drop(old); // M3
    }

    /// Wakes every poller.
    pub fn wake_pollers(&self) {
        wake_batch::in_rounds(|batch| self.lock().take_wakers(batch));
    }

    /// Removes a poller, and wakes the others: it may have been woken for tasks that it has
    /// not run.
    pub fn leave(&self, poller: PollerKey) {
        let mut remote = self.lock();
        let place = remote.pollers.iter().position(|(key, _)| *key == poller);
        let left = place.map(|place| remote.pollers.swap_remove(place));
        drop(remote);
        drop(left); // M3
        self.wake_pollers();
    }
}

impl<T> Default for RemoteQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for RemoteQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteQueue").finish_non_exhaustive()
    }
}

impl<T> Remote<T> {
    /// Moves wakers to the batch; true if some had no room there.
    fn take_wakers(&mut self, batch: &mut WakeBatch) -> bool {
        while !batch.is_full()
            && let Some((_, waker)) = self.pollers.pop()
        {
            batch.push(waker);
        }
        !self.pollers.is_empty()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    #[derive(Default)]
    struct CountWakes(AtomicUsize);

    impl Wake for CountWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_closed_queue_gives_back_what_it_has_and_what_comes() {
        let queue = RemoteQueue::new();
        queue.push(1).unwrap();
        queue.push(2).unwrap();
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.close(), [2]);
        assert_eq!(queue.push(3), Err(3));
        assert_eq!(queue.pop(), None);
        assert!(queue.close().is_empty());
    }

    #[test]
    fn every_poller_is_woken_once_however_many_there_are() {
        let queue = RemoteQueue::new();
        let wakes = Arc::new(CountWakes::default());
        for _ in 0..100 {
            let poller = queue.new_poller();
            let waker = Waker::from(wakes.clone());
            queue.register(poller, &waker);
            queue.register(poller, &waker);
        }
        queue.push(()).unwrap();
        queue.push(()).unwrap();
        assert_eq!(wakes.0.load(Relaxed), 100);
        assert_eq!(Arc::strong_count(&wakes), 1);
    }

    #[test]
    fn a_poller_that_leaves_is_not_woken_and_the_others_are() {
        let queue = RemoteQueue::<()>::new();
        let (leaving, staying) = (Arc::<CountWakes>::default(), Arc::<CountWakes>::default());
        let keys = [queue.new_poller(), queue.new_poller()];
        queue.register(keys[0], &Waker::from(leaving.clone()));
        queue.register(keys[1], &Waker::from(staying.clone()));
        queue.leave(keys[0]);
        assert_eq!(leaving.0.load(Relaxed), 0);
        assert_eq!(staying.0.load(Relaxed), 1);
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

    fn wakes() -> (Plain<CountWakes>, Waker) {
        let wakes = Plain::new(CountWakes(AtomicUsize::new(0)));
        (wakes.clone(), wakes.into())
    }

    #[test]
    fn a_poller_finds_the_task_or_is_woken() {
        loom::model(|| {
            let queue = Arc::new(RemoteQueue::new());
            let pusher = thread::spawn({
                let queue = queue.clone();
                move || queue.push(7).unwrap()
            });
            let (wakes, waker) = wakes();
            queue.register(PollerKey::EXCLUSIVE, &waker);
            let found = queue.pop();
            pusher.join().unwrap();
            match found {
                Some(7) => {}
                _ => assert_eq!((wakes.0.load(Relaxed), queue.pop()), (1, Some(7)), "M1"),
            }
        });
    }

    #[test]
    fn a_poller_that_stays_is_woken_although_another_leaves() {
        loom::model(|| {
            let queue = Arc::new(RemoteQueue::new());
            let (leaving, staying) = (queue.new_poller(), queue.new_poller());
            let (_, woken_in_vain) = wakes();
            let (wakes, waker) = wakes();
            queue.register(staying, &waker);
            queue.register(leaving, &woken_in_vain);
            let pusher = thread::spawn({
                let queue = queue.clone();
                move || queue.push(7).unwrap()
            });
            queue.leave(leaving);
            pusher.join().unwrap();
            assert_eq!(wakes.0.load(Relaxed), 1, "M2");
        });
    }

    #[test]
    fn closing_against_a_push_leaves_the_task_to_one_of_the_two() {
        loom::model(|| {
            let queue = Arc::new(RemoteQueue::new());
            let pusher = thread::spawn({
                let queue = queue.clone();
                move || queue.push(7).is_err()
            });
            let here = queue.close().len() == 1;
            let there = pusher.join().unwrap();
            assert!(here ^ there);
            assert!(queue.pop().is_none());
        });
    }
}
