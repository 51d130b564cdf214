//! The jobs that wait for a thread of the blocking pool: cut into shards, so that
//! submitters on different threads do not share a lock.
//!
//! Q1. A shard's `len` is written under its lock only.

use std::cell::Cell;
use std::collections::VecDeque;

use blitzen_task::Runnable;
use blitzen_util::pad::Padded;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::thread_shard::thread_shard;

#[cfg(not(blitzen_loom))]
const SHARDS: usize = 8;
#[cfg(blitzen_loom)]
const SHARDS: usize = 1;

/// Work that blocks.
#[derive(Debug)]
pub struct Job {
    /// A task whose first poll does all of it.
    pub task: Runnable,
    /// It runs even if the pool closes first.
    pub mandatory: bool,
}

/// The queue.
pub(super) struct JobQueue {
    shards: Box<[Padded<JobShard>]>,
}

struct JobShard {
    jobs: Mutex<Jobs>,
    len: AtomicUsize,
}

struct Jobs {
    queue: VecDeque<Job>,
    closed: bool,
}

/// Where a job was put.
pub(super) struct Queued<'a>(&'a JobShard);

impl Queued<'_> {
    /// Whether a thread has taken everything in that shard.
    pub(super) fn is_taken(&self) -> bool {
        self.0.len.load(Relaxed) == 0
    }
}

impl JobQueue {
    pub(super) fn new() -> Self {
        let shard = |_| {
            Padded(JobShard {
                jobs: Mutex::new(Jobs {
                    queue: VecDeque::new(),
                    closed: false,
                }),
                len: AtomicUsize::new(0),
            })
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    /// How many jobs wait; a guess, since they come and go.
    pub(super) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.len.load(Relaxed))
            .sum()
    }

    /// Adds a job; returns it if the queue is closed.
    pub(super) fn push(&self, job: Job) -> Result<Queued<'_>, Job> {
        let shard = &self.shards[thread_shard() % SHARDS];
        let mut jobs = shard.jobs.lock();
        if jobs.closed {
            return Err(job);
        }
        jobs.queue.push_back(job);
        shard.len.store(jobs.queue.len(), Relaxed);
        Ok(Queued(shard))
    }

    /// Takes the oldest job of the first shard from `next` on that has one. Then
    /// `next` is the shard behind that one: every submitter has its turn.
    pub(super) fn pop(&self, next: &Cell<usize>) -> Option<Job> {
        let start = next.get();
        for index in start..start + SHARDS {
            let shard = &self.shards[index % SHARDS];
            if shard.len.load(Relaxed) == 0 {
                continue;
            }
            let mut jobs = shard.jobs.lock();
            let job = jobs.queue.pop_front();
            shard.len.store(jobs.queue.len(), Relaxed);
            if job.is_some() {
                next.set((index + 1) % SHARDS);
                return job;
            }
        }
        None
    }

    /// Takes the jobs that `wanted` picks.
    pub(super) fn drain(&self, mut wanted: impl FnMut(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut jobs = shard.jobs.lock();
            let queue = std::mem::take(&mut jobs.queue);
            let (out, stay) = queue.into_iter().partition::<Vec<_>, _>(&mut wanted);
            taken.extend(out);
            jobs.queue = stay.into();
            shard.len.store(jobs.queue.len(), Relaxed);
        }
        taken
    }

    /// Accepts no more jobs.
    pub(super) fn close(&self) {
        for shard in &self.shards {
            shard.jobs.lock().closed = true;
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::{Tasks, id};
    use std::sync::{Arc, Barrier};

    #[test]
    fn every_submitter_has_its_turn_however_fast_the_others_are() {
        let tasks = Arc::new(Tasks::new());
        let queue = Arc::new(JobQueue::new());
        // A thread for each shard, with as many jobs as one thread of the pool takes
        // in the whole test.
        let all = Arc::new(Barrier::new(SHARDS));
        let submitters: Vec<_> = (0..SHARDS)
            .map(|_| {
                let (tasks, queue, all) = (tasks.clone(), queue.clone(), all.clone());
                std::thread::spawn(move || {
                    all.wait();
                    let mut own = Vec::new();
                    for _ in 0..SHARDS {
                        let task = tasks.next();
                        own.push(id(&task));
                        let job = Job {
                            task,
                            mandatory: false,
                        };
                        assert!(queue.push(job).is_ok());
                    }
                    own
                })
            })
            .collect();
        let submitted: Vec<_> = submitters.into_iter().map(|t| t.join().unwrap()).collect();
        let next = Cell::new(0);
        let first: Vec<_> = (0..SHARDS)
            .map(|_| {
                let job = queue.pop(&next).unwrap();
                let id = id(&job.task);
                job.task.forget();
                id
            })
            .collect();
        // Threads are numbered over the whole process, so two may share a shard.
        let served = submitted
            .iter()
            .filter(|own| own.iter().any(|id| first.contains(id)));
        let shards_used = queue
            .shards
            .iter()
            .filter(|shard| shard.len.load(Relaxed) > 0);
        assert!(served.count() >= shards_used.count());
        for job in queue.drain(|_| true) {
            job.task.forget();
        }
        tasks.close();
    }
}
