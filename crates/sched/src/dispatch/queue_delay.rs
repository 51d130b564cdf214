//! How long tasks wait in the queue of a dispatcher.
//!
//! One task at a time is timed, and at most one in [`TASKS_PER_SAMPLE`]. The queue is first in,
//! first out, so a count of the tasks that came and went says when the timed one leaves.

/// Looking at the clock costs as much as a short poll.
const TASKS_PER_SAMPLE: u64 = 64;
/// The weight of the average so far against a new sample.
const HISTORY: u64 = 7;

/// A moving average of what tasks wait in one queue. Part of what the lock of the queue guards.
#[derive(Debug, Default)]
pub(super) struct QueueDelay {
    pushed: u64,
    popped: u64,
    timed: Option<TimedTask>,
    average_ns: Option<u64>,
}

#[derive(Debug)]
struct TimedTask {
    /// How many tasks were pushed before it.
    number: u64,
    pushed_ns: u64,
}

impl QueueDelay {
    /// A task is added at the end of the queue.
    #[inline]
    pub(super) fn push(&mut self, now_ns: impl FnOnce() -> u64) {
        if self.pushed.is_multiple_of(TASKS_PER_SAMPLE) && self.timed.is_none() {
            self.timed = Some(TimedTask {
                number: self.pushed,
                pushed_ns: now_ns(),
            });
        }
        self.pushed += 1;
    }

    /// The first task of the queue is taken out, to be polled now.
    #[inline]
    pub(super) fn pop(&mut self, now_ns: impl FnOnce() -> u64) {
        if let Some(timed) = self.timed.take_if(|timed| timed.number == self.popped) {
            let took_ns = now_ns().saturating_sub(timed.pushed_ns);
            self.average_ns = Some(match self.average_ns {
                None => took_ns,
                Some(average_ns) => (average_ns * HISTORY + took_ns) / (HISTORY + 1),
            });
        }
        self.popped += 1;
    }

    /// The first task of the queue is taken out, and not polled.
    pub(super) fn skip(&mut self) {
        self.timed.take_if(|timed| timed.number == self.popped);
        self.popped += 1;
    }

    /// The queue is emptied, and nothing of it polled.
    pub(super) fn clear(&mut self) {
        self.timed = None;
        self.popped = self.pushed;
    }

    /// The average, once there is one.
    pub(super) fn average_ns(&self) -> Option<u64> {
        self.average_ns
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_so_many_tasks_is_timed_when_it_leaves() {
        let mut delay = QueueDelay::default();
        delay.push(|| 100);
        for _ in 1..TASKS_PER_SAMPLE {
            delay.push(|| unreachable!("another one is timed"));
        }
        assert_eq!(delay.average_ns(), None);
        delay.pop(|| 900);
        assert_eq!(delay.average_ns(), Some(800));
        for _ in 1..TASKS_PER_SAMPLE {
            delay.pop(|| unreachable!("it was not timed"));
        }
        delay.push(|| 1_000);
        delay.pop(|| 1_000);
        assert_eq!(delay.average_ns(), Some(700));
    }

    #[test]
    fn an_emptied_queue_forgets_what_it_timed() {
        let mut delay = QueueDelay::default();
        delay.push(|| 100);
        delay.clear();
        for _ in 1..TASKS_PER_SAMPLE {
            delay.push(|| unreachable!("its turn to be timed has not come"));
            delay.pop(|| unreachable!("it was not timed"));
        }
        assert_eq!(delay.average_ns(), None);
    }
}
