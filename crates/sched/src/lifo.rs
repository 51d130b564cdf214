//! The slot of a worker's newest task, which runs next because its data is likely
//! to be in the cache still.
//!
//! F1. Only the owner fills the slot; anyone may empty it.

use std::ptr::{NonNull, null_mut};

use blitzen_task::{Header, Runnable};
use blitzen_util::shim::atomic::AtomicPtr;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};

/// The slot.
pub(crate) struct Lifo {
    task: AtomicPtr<Header>,
}

impl Lifo {
    /// An empty slot.
    pub(crate) fn new() -> Self {
        Self {
            task: AtomicPtr::new(null_mut()),
        }
    }

    /// Fills the slot and returns the task it held. Owner only.
    #[inline]
    pub(crate) fn replace(&self, task: Runnable) -> Option<Runnable> {
        let task = self.fill(task).err()?.into_raw().as_ptr();
        // Release as in `fill`. What comes out the owner has put in itself (F1).
        runnable(self.task.swap(task, Release))
    }

    /// Fills the slot if it is empty. Owner only.
    #[inline]
    pub(crate) fn fill(&self, task: Runnable) -> Result<(), Runnable> {
        // By F1 an empty slot stays empty, so a plain store will do.
        if !self.task.load(Relaxed).is_null() {
            return Err(task);
        }
        // Release, met by the Acquire in `take` and `take_if`.
        self.task.store(task.into_raw().as_ptr(), Release);
        Ok(())
    }

    /// Empties the slot.
    #[inline]
    pub(crate) fn take(&self) -> Option<Runnable> {
        if self.task.load(Relaxed).is_null() {
            return None;
        }
        // Acquire, met by the Release in `replace`.
        runnable(self.task.swap(null_mut(), Acquire))
    }

    /// Returns the address of the task in the slot, to compare with a later one.
    #[inline]
    pub(crate) fn peek(&self) -> Option<PeekedTask> {
        NonNull::new(self.task.load(Relaxed)).map(PeekedTask)
    }

    /// Empties the slot if the task in it is the one that an earlier `peek` saw.
    pub(crate) fn take_if(&self, seen: PeekedTask) -> Option<Runnable> {
        // Acquire, met by the Release in `replace`. Another task at the same
        // address is just as good to steal.
        let taken = self
            .task
            .compare_exchange(seen.0.as_ptr(), null_mut(), Acquire, Relaxed);
        runnable(taken.unwrap_or(null_mut()))
    }
}

/// The address of a task that was in the slot. It is only compared: the task may
/// have been freed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeekedTask(NonNull<Header>);

/// Turns a pointer that was taken out of the slot back into the task.
fn runnable(task: *mut Header) -> Option<Runnable> {
    // SAFETY: the slot was filled from `into_raw`, and only one thread takes the
    // pointer out of it.
    NonNull::new(task).map(|task| unsafe { Runnable::from_raw(task) })
}

impl Default for Lifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Lifo {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::{Tasks, id};

    #[test]
    fn the_newest_task_evicts_the_one_before() {
        let tasks = Tasks::new();
        let lifo = Lifo::new();
        assert!(lifo.replace(tasks.next()).is_none());
        let evicted = lifo.replace(tasks.next()).unwrap();
        assert_eq!(id(&evicted), tasks.ids()[0]);
        assert_eq!(id(&lifo.take().unwrap()), tasks.ids()[1]);
        assert!(lifo.take().is_none());
    }

    #[test]
    fn a_thief_takes_only_what_it_has_seen() {
        let tasks = Tasks::new();
        let lifo = Lifo::new();
        lifo.replace(tasks.next());
        let seen = lifo.peek().unwrap();
        let kept = lifo.replace(tasks.next()); // keeps the first alive: no reuse
        assert!(lifo.take_if(seen).is_none());
        assert!(lifo.take_if(lifo.peek().unwrap()).is_some());
        drop(kept);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::testing::{Tasks, id};
    use blitzen_util::shim::{Arc, thread};

    /// The slot is empty or full at first. The thief has seen the task before, or takes any.
    fn check(is_full: bool, steal: impl Fn(&Lifo) -> Option<Runnable> + Send + 'static) {
        let tasks = Tasks::new();
        let lifo = Arc::new(Lifo::new());
        if is_full {
            assert!(lifo.replace(tasks.next()).is_none());
        }
        let thief = thread::spawn({
            let lifo = lifo.clone();
            move || {
                steal(&lifo).map(|task| {
                    let seen = id(&task);
                    task.forget();
                    seen
                })
            }
        });
        let mut seen = Vec::new();
        let mut keep = |task: Option<Runnable>| {
            if let Some(task) = task {
                seen.push(id(&task));
                task.forget();
            }
        };
        keep(lifo.replace(tasks.next()));
        keep(lifo.take());
        keep(lifo.take());
        seen.extend(thief.join().unwrap());
        seen.sort();
        let mut made = tasks.ids();
        made.sort();
        assert_eq!(seen, made);
        tasks.close();
    }

    #[test]
    fn the_owner_and_a_thief_never_both_get_the_task() {
        loom::model(|| check(true, |lifo| lifo.peek().and_then(|seen| lifo.take_if(seen))));
    }

    #[test]
    fn a_thief_gets_the_first_task_whole() {
        loom::model(|| {
            check(false, |lifo| {
                lifo.peek().and_then(|seen| lifo.take_if(seen))
            })
        });
    }

    #[test]
    fn another_thread_that_empties_the_slot_gets_the_task_whole() {
        loom::model(|| check(false, Lifo::take));
    }
}
