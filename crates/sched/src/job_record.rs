//! Records what runs outside the loops of workers: code of the blocking pool, and polls of tasks by
//! dispatchers.

use std::sync::Arc;

use blitzen_observe::Event;
use blitzen_task::glue::id_number;
use blitzen_task::{Header, Id, RunOutcome, SpawnMeta};

use crate::current;
use crate::observation::{ObservedSet, spawn_events};
use crate::scheduler::Scheduler;

/// Where the beginning of a poll by a dispatcher was recorded.
#[must_use]
pub(crate) enum RoutedRecord<'a> {
    Nowhere,
    /// With the worker of the calling thread.
    Worker(&'a Arc<Scheduler>),
    /// As a job: the thread has no worker.
    Job(Box<JobRecord>),
}

/// Records one job of the blocking pool.
pub struct JobRecord {
    scheduler: Arc<Scheduler>,
    id: u64,
}

impl Scheduler {
    /// Records that a job is submitted to the blocking pool, if events are recorded; returns what
    /// records its run.
    #[inline]
    pub fn record_job(self: &Arc<Self>, id: Id, meta: &SpawnMeta) -> Option<Box<JobRecord>> {
        let is_recording = self.observation.switches().has(ObservedSet::EVENTS);
        is_recording.then(|| self.record_submitted(id_number(id), meta))
    }

    #[cold]
    fn record_submitted(self: &Arc<Self>, id: u64, meta: &SpawnMeta) -> Box<JobRecord> {
        self.record_spawned(id, meta);
        let scheduler = self.clone();
        Box::new(JobRecord { scheduler, id })
    }

    /// Records that a task is spawned for a dispatcher, if events are recorded.
    #[inline]
    pub(crate) fn record_routed(self: &Arc<Self>, task: &Header) {
        if self.observation.switches().has(ObservedSet::EVENTS) {
            self.record_spawned(id_number(task.id()), task.spawn_meta());
        }
    }

    #[cold]
    fn record_spawned(self: &Arc<Self>, id: u64, meta: &SpawnMeta) {
        current::with_worker_of(self, |worker| match worker {
            Some(worker) => worker.record_all(worker.event_time_ns(), spawn_events(id, meta)),
            None => {
                let (shard, now_ns) = (self.inject_shard(), self.world().now_ns());
                let events = spawn_events(id, meta);
                self.observation.record_outside(shard, now_ns, events);
            }
        });
    }

    /// Records that a dispatcher polls a task on the calling thread, if events are recorded.
    #[cold]
    pub(crate) fn record_routed_start(self: &Arc<Self>, id: Id) -> RoutedRecord<'_> {
        if !self.observation.switches().has(ObservedSet::EVENTS) {
            return RoutedRecord::Nowhere;
        }
        let id = id_number(id);
        let has_worker = current::with_worker_of(self, |worker| {
            worker.map(|worker| {
                let start = match worker.is_polling() {
                    true => Event::NestedPollStart { id },
                    false => Event::PollStart { id },
                };
                worker.record_at(worker.event_time_ns(), start);
            })
        });
        if has_worker.is_some() {
            return RoutedRecord::Worker(self);
        }
        let job = Box::new(JobRecord {
            scheduler: self.clone(),
            id,
        });
        match job.push(Event::JobStart { id }) {
            true => RoutedRecord::Job(job),
            false => RoutedRecord::Nowhere,
        }
    }
}

impl RoutedRecord<'_> {
    /// Records that the poll has ended.
    pub(crate) fn end(self, outcome: &RunOutcome) {
        match self {
            Self::Nowhere => {}
            // Not if the task has handed the worker to another thread.
            Self::Worker(scheduler) => current::with_worker_of(scheduler, |worker| {
                if let Some(worker) = worker {
                    worker.record_poll_end(worker.event_time_ns(), outcome);
                }
            }),
            Self::Job(job) => {
                let (id, is_complete) = (job.id, matches!(outcome, RunOutcome::Complete));
                job.push(Event::JobEnd { id, is_complete });
            }
        }
    }
}

impl JobRecord {
    /// Runs the job. Its end is recorded if its beginning was, also if it panics.
    pub fn run<R>(self: Box<Self>, code: impl FnOnce() -> R) -> R {
        let is_recorded = self.push(Event::JobStart { id: self.id });
        let _end = is_recorded.then(|| EndOnDrop(self));
        code()
    }

    fn push(&self, event: Event) -> bool {
        let now_ns = self.scheduler.world().now_ns();
        self.scheduler.observation.record_job(now_ns, event)
    }
}

struct EndOnDrop(Box<JobRecord>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let (id, is_complete) = (self.0.id, true);
        self.0.push(Event::JobEnd { id, is_complete });
    }
}
