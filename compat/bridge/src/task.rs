//! What is known of one task. Times are the program's, in nanoseconds.

use hdrhistogram::Histogram;

/// Digits of the times in histograms.
const PRECISION: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    Task,
    /// Code on the blocking pool: it was never listed, and no worker has polled it.
    Blocking,
}

/// What a task does that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActiveState {
    Scheduled,
    Running,
}

/// The last times of a task, from which tokio-console tells its state: a task runs if its poll
/// began after the last one ended, and is scheduled if it was queued after the last poll began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LastTimes {
    pub(crate) queued_ns: Option<u64>,
    pub(crate) start_ns: Option<u64>,
    pub(crate) end_ns: Option<u64>,
}

pub(crate) struct TaskRecord {
    pub(crate) kind: TaskKind,
    pub(crate) name: Option<String>,
    /// File, line and column.
    pub(crate) spawned_at: String,
    /// The type of the future, and its size.
    pub(crate) future: Option<(String, u64)>,
    /// When it was spawned, or first seen.
    pub(crate) created_ns: u64,
    pub(crate) ended_ns: Option<u64>,
    pub(crate) polls: u64,
    pub(crate) first_poll_ns: Option<u64>,
    pub(crate) last_start_ns: Option<u64>,
    pub(crate) last_end_ns: Option<u64>,
    /// The time in polls that have ended.
    pub(crate) busy_ns: u64,
    pub(crate) wakes: u64,
    pub(crate) self_wakes: u64,
    /// When it was last queued: spawned or woken.
    pub(crate) last_queued_ns: Option<u64>,
    /// The time in queues, up to the last poll.
    pub(crate) scheduled_ns: u64,
    pub(crate) wakers: u64,
    pub(crate) poll_times: Times,
    pub(crate) scheduled_times: Times,
    /// When the poll began that goes on.
    pub(crate) open_ns: Option<u64>,
    /// When it was queued, if no poll has begun since.
    queued_ns: Option<u64>,
    /// What the last list said that no event has said: that it is queued or runs.
    pub(crate) listed: Option<ActiveState>,
    /// Whether the last list did not have it.
    pub(crate) is_missing: bool,
    /// The publication that had it first.
    pub(crate) shown: Option<u64>,
    /// The publication that has its last change.
    pub(crate) changed: u64,
}

impl TaskRecord {
    pub(crate) fn new(created_ns: u64) -> Self {
        Self {
            kind: TaskKind::Blocking,
            name: None,
            spawned_at: String::new(),
            future: None,
            created_ns,
            ended_ns: None,
            polls: 0,
            first_poll_ns: None,
            last_start_ns: None,
            last_end_ns: None,
            busy_ns: 0,
            wakes: 0,
            self_wakes: 0,
            last_queued_ns: None,
            scheduled_ns: 0,
            wakers: 0,
            poll_times: Times::default(),
            scheduled_times: Times::default(),
            open_ns: None,
            queued_ns: None,
            listed: None,
            is_missing: false,
            shown: None,
            changed: 0,
        }
    }

    /// It was polled before its events were recorded.
    pub(crate) fn assume_poll(&mut self, at_ns: u64) {
        self.polls += 1;
        self.last_start_ns = Some(at_ns);
        self.last_end_ns = Some(at_ns);
    }

    /// Takes in the state that a list says. Of what was before `known_ns`, events may be lost.
    pub(crate) fn set_listed(&mut self, status: &str, known_ns: u64) {
        if self.queued_ns.is_some_and(|queued_ns| queued_ns < known_ns) {
            self.queued_ns = None;
            self.last_queued_ns = None;
        }
        self.listed = match (self.state(), status) {
            (None, "scheduled") => Some(ActiveState::Scheduled),
            (None, "running") => Some(ActiveState::Running),
            _ => None,
        };
    }

    /// The state as far as events say.
    fn state(&self) -> Option<ActiveState> {
        match (self.open_ns, self.queued_ns) {
            (Some(_), _) => Some(ActiveState::Running),
            (None, Some(_)) => Some(ActiveState::Scheduled),
            (None, None) => None,
        }
    }

    /// The last times at `now_ns`. The end of a poll, a wake and the beginning of the next poll may
    /// have been recorded at the same time.
    pub(crate) fn last_times(&self, now_ns: u64) -> LastTimes {
        let mut times = LastTimes {
            queued_ns: self.last_queued_ns,
            start_ns: self.last_start_ns,
            end_ns: self.last_end_ns,
        };
        match self.state().or(self.listed) {
            Some(ActiveState::Running) => {
                let start_ns = self.open_ns.unwrap_or(now_ns);
                times.start_ns = Some(start_ns);
                times.end_ns = self.last_end_ns.min(Some(start_ns.saturating_sub(1)));
            }
            Some(ActiveState::Scheduled) => {
                let queued_ns = self.queued_ns.unwrap_or(now_ns);
                times.queued_ns = self.last_start_ns.map(|ns| ns + 1).max(Some(queued_ns));
            }
            None => {}
        }
        times
    }

    /// It was spawned or woken.
    pub(crate) fn queue(&mut self, at_ns: u64) {
        self.last_queued_ns = self.last_queued_ns.max(Some(at_ns));
        self.queued_ns = Some(at_ns);
    }

    /// A poll begins. Of what was before `known_ns`, events may be lost.
    pub(crate) fn start_poll(&mut self, at_ns: u64, known_ns: u64) {
        self.polls += 1;
        self.first_poll_ns.get_or_insert(at_ns);
        self.last_start_ns = Some(at_ns);
        self.open_ns = Some(at_ns);
        let queued_ns = self.queued_ns.take();
        if let Some(queued_ns) = queued_ns.filter(|&queued_ns| queued_ns >= known_ns) {
            let delay_ns = at_ns.saturating_sub(queued_ns);
            self.scheduled_ns += delay_ns;
            self.scheduled_times.record(delay_ns);
        }
    }

    /// The poll ends that began at `start_ns`. Another one may have begun on another thread.
    pub(crate) fn end_poll(&mut self, start_ns: u64, at_ns: u64) {
        let time_ns = at_ns.saturating_sub(start_ns);
        self.busy_ns += time_ns;
        self.poll_times.record(time_ns);
        if self.open_ns == Some(start_ns) {
            self.open_ns = None;
            self.last_end_ns = Some(at_ns);
        }
    }

    /// The poll has ended that began at `start_ns`, but nobody knows when.
    pub(crate) fn lose_poll(&mut self, start_ns: u64) {
        if self.open_ns == Some(start_ns) {
            self.open_ns = None;
            self.last_end_ns = Some(start_ns);
        }
    }

    /// Its poll has ended, in which it was woken or has yielded.
    pub(crate) fn requeue(&mut self, at_ns: u64) {
        self.wakes += 1;
        self.self_wakes += 1;
        self.queue(at_ns);
    }

    pub(crate) fn end(&mut self, at_ns: u64) {
        if let Some(start_ns) = self.open_ns {
            self.end_poll(start_ns, at_ns);
        }
        self.ended_ns.get_or_insert(at_ns);
    }
}

/// A histogram that takes no memory while it is empty.
#[derive(Default)]
pub(crate) struct Times(Option<Histogram<u32>>);

impl Times {
    fn record(&mut self, ns: u64) {
        // A time that does not fit would be one of centuries.
        let _ = self.0.get_or_insert_with(empty).record(ns);
    }

    pub(crate) fn histogram(&self) -> Histogram<u32> {
        self.0.clone().unwrap_or_else(empty)
    }
}

fn empty() -> Histogram<u32> {
    Histogram::new(PRECISION).expect("a histogram may have two digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What tokio-console makes of the last times.
    fn shown(task: &TaskRecord) -> Option<ActiveState> {
        let times = task.last_times(100);
        match times.start_ns > times.end_ns {
            true => Some(ActiveState::Running),
            false if times.queued_ns > times.start_ns => Some(ActiveState::Scheduled),
            false => None,
        }
    }

    #[test]
    fn the_state_that_is_shown_is_the_last_one_even_at_the_same_time() {
        let mut task = TaskRecord::new(5);
        task.queue(5);
        assert_eq!(shown(&task), Some(ActiveState::Scheduled));
        task.start_poll(5, 0);
        assert_eq!(shown(&task), Some(ActiveState::Running));
        task.end_poll(5, 5);
        assert_eq!(shown(&task), None);
        task.requeue(5);
        assert_eq!(shown(&task), Some(ActiveState::Scheduled));
        task.start_poll(5, 0);
        assert_eq!(shown(&task), Some(ActiveState::Running));
        task.end_poll(5, 9);
        assert_eq!(shown(&task), None);
        // Events were lost.
        for (status, state) in [
            ("scheduled", ActiveState::Scheduled),
            ("running", ActiveState::Running),
        ] {
            task.set_listed(status, 20);
            assert_eq!(shown(&task), Some(state));
        }
        task.set_listed("idle", 20);
        assert_eq!(shown(&task), None);
    }
}
