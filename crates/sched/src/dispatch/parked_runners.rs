//! The runner tasks of a queue that wait for work.
//!
//! A runner task can be polled although nobody has given it a permit: a dump polls every task. So
//! a word, and not the poll, says whether it may take tasks.
//!
//! U1. A runner that is parked has no permit, and whoever gives it one, under the lock of the queue,
//!     may put its first task into the same word. From then on only the runner changes the word,
//!     until it parks again.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::Waker;

use blitzen_task::{Header, Runnable};
use blitzen_util::shim::atomic::AtomicPtr;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};

/// The permit of a runner task: null if it has none, [`no_task`] if it is to look into the queue, or
/// the task that it is to poll first.
struct PermitSlot(AtomicPtr<Header>);

/// A permit without a task. It is the address of no task.
fn no_task() -> *mut Header {
    NonNull::dangling().as_ptr()
}

impl PermitSlot {
    fn has_task(&self) -> bool {
        // Relaxed: what is there is not looked at.
        let permit = self.0.load(Relaxed);
        !permit.is_null() && permit != no_task()
    }
}

/// What a runner task knows of itself.
pub(crate) struct RunnerTask {
    permit: Arc<PermitSlot>,
    /// Its index among the known runners of its queue, once it has parked.
    index: Option<usize>,
}

impl RunnerTask {
    /// A runner that is started with a permit.
    pub(crate) fn new() -> Self {
        Self {
            permit: Arc::new(PermitSlot(AtomicPtr::new(no_task()))),
            index: None,
        }
    }

    pub(crate) fn has_permit(&self) -> bool {
        // Relaxed: what is done with the permit is done under the lock of the queue, or with the
        // task that is taken out below.
        !self.permit.0.load(Relaxed).is_null()
    }

    /// Takes out the task that came with the permit, if there is one.
    pub(crate) fn take_task(&mut self) -> Option<Runnable> {
        // Acquire, met by the Release in `unpark_with`: a runner that is polled for no reason may find
        // the task before it is woken for it.
        let task = NonNull::new(self.permit.0.load(Acquire))?;
        if task.as_ptr() == no_task() {
            return None;
        }
        self.permit.0.store(no_task(), Relaxed); // U1
        // SAFETY: `unpark_with` has made it of a runnable, and it was taken out just now (U1).
        Some(unsafe { Runnable::from_raw(task) })
    }

    /// Notes that the runner has given its permit back, and ends.
    pub(crate) fn lose_permit(&self) {
        debug_assert!(!self.permit.has_task());
        self.permit.0.store(ptr::null_mut(), Relaxed); // U1
    }
}

impl Drop for RunnerTask {
    /// Cancels a task that nobody has taken out.
    fn drop(&mut self) {
        drop(self.take_task());
    }
}

/// The runner tasks that have parked at least once, and which of them are parked. Part of what
/// the lock of a queue guards.
#[derive(Default)]
pub(crate) struct ParkedRunners {
    known: Vec<KnownRunner>,
    /// Indices of those that are parked.
    parked: Vec<usize>,
}

/// A runner task, as its queue knows it.
struct KnownRunner {
    waker: Waker,
    permit: Arc<PermitSlot>,
}

impl ParkedRunners {
    /// Parks a runner, which has given its permit back.
    pub(crate) fn park(&mut self, runner: &mut RunnerTask, waker: &Waker) {
        runner.lose_permit();
        let index = *runner.index.get_or_insert_with(|| {
            self.known.push(KnownRunner {
                waker: waker.clone(),
                permit: runner.permit.clone(),
            });
            self.known.len() - 1
        });
        self.parked.push(index);
    }

    /// Whether no runner is parked.
    pub(crate) fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Gives a permit to a runner that is parked; returns its waker, to be called next.
    pub(crate) fn unpark_one(&mut self) -> Option<Waker> {
        self.unpark(no_task())
    }

    /// Gives a permit, and the first task, to a runner that is parked; returns its waker, to be
    /// called next.
    ///
    /// # Errors
    /// Returns the task if no runner is parked.
    pub(crate) fn unpark_with(&mut self, task: Runnable) -> Result<Waker, Runnable> {
        match self.is_empty() {
            true => Err(task),
            false => {
                let waker = self.unpark(task.into_raw().as_ptr());
                Ok(waker.expect("one is parked"))
            }
        }
    }

    fn unpark(&mut self, permit: *mut Header) -> Option<Waker> {
        let runner = &self.known[self.parked.pop()?];
        // Release, met by the Acquire in `take_task`.
        runner.permit.0.store(permit, Release); // U1
        Some(runner.waker.clone())
    }

    /// How many runners have not yet taken out the task that they were given.
    pub(crate) fn tasks(&self) -> usize {
        let has_task = |runner: &&KnownRunner| runner.permit.has_task();
        self.known.iter().filter(has_task).count()
    }

    /// Forgets all runners; returns their wakers. They get no permit any more.
    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        self.parked.clear();
        let known = std::mem::take(&mut self.known).into_iter();
        known.map(|runner| runner.waker).collect()
    }
}
