//! The runner tasks of a queue that wait for work.
//!
//! A runner task can be polled although nobody has given it a permit: a dump polls every task. So
//! a flag, and not the poll, says whether it may take tasks.

use std::sync::Arc;
use std::task::Waker;

use blitzen_util::shim::atomic::AtomicBool;
use blitzen_util::shim::atomic::Ordering::Relaxed;

/// What a runner task knows of itself.
pub(crate) struct RunnerTask {
    /// Changed under the lock of the queue. The runner reads it without: after it was given a
    /// permit it is woken.
    permit: Arc<AtomicBool>,
    /// Its index among the known runners of its queue, once it has parked.
    index: Option<usize>,
}

impl RunnerTask {
    /// A runner that is started with a permit.
    pub(crate) fn new() -> Self {
        Self {
            permit: Arc::new(AtomicBool::new(true)),
            index: None,
        }
    }

    // Relaxed, here and below: the lock of the queue and the wake of the runner order it.
    pub(crate) fn has_permit(&self) -> bool {
        self.permit.load(Relaxed)
    }

    /// Notes that the runner has given its permit back, and ends.
    pub(crate) fn lose_permit(&self) {
        self.permit.store(false, Relaxed);
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
    permit: Arc<AtomicBool>,
}

impl ParkedRunners {
    /// Parks a runner, which has given its permit back.
    pub(crate) fn park(&mut self, runner: &mut RunnerTask, waker: &Waker) {
        runner.permit.store(false, Relaxed);
        let index = *runner.index.get_or_insert_with(|| {
            self.known.push(KnownRunner {
                waker: waker.clone(),
                permit: runner.permit.clone(),
            });
            self.known.len() - 1
        });
        self.parked.push(index);
    }

    /// Gives a permit to a runner that is parked; returns its waker, to be called next.
    pub(crate) fn unpark_one(&mut self) -> Option<Waker> {
        let runner = &self.known[self.parked.pop()?];
        runner.permit.store(true, Relaxed);
        Some(runner.waker.clone())
    }

    /// Forgets all runners; returns their wakers. They get no permit any more.
    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        self.parked.clear();
        let known = std::mem::take(&mut self.known).into_iter();
        known.map(|runner| runner.waker).collect()
    }
}
