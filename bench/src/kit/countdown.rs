//! Waits until many tasks have each said that they are done.
//!
//! One shared counter would bounce between the cores and cost each task more than
//! its scheduling. So neighbouring tasks share a stripe, neighbours mostly run on
//! the same worker, and only the last of a stripe touches the common count.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

use super::Signal;

const TASKS_PER_STRIPE: u64 = 64;

#[repr(align(128))]
struct Stripe(AtomicU64);

pub(crate) struct Countdown {
    stripes: Box<[Stripe]>,
    stripes_left: AtomicU64,
    all_done: Signal,
}

impl Countdown {
    pub(crate) fn new(tasks: u64) -> Countdown {
        assert!(tasks > 0);
        let stripes: Box<[Stripe]> = (0..tasks.div_ceil(TASKS_PER_STRIPE))
            .map(|stripe| {
                let first = stripe * TASKS_PER_STRIPE;
                Stripe(AtomicU64::new(TASKS_PER_STRIPE.min(tasks - first)))
            })
            .collect();
        Countdown {
            stripes_left: AtomicU64::new(stripes.len() as u64),
            stripes,
            all_done: Signal::default(),
        }
    }

    /// Task number `task` is done. Once for each task.
    pub(crate) fn done(&self, task: u64) {
        let stripe = &self.stripes[(task / TASKS_PER_STRIPE) as usize].0;
        // AcqRel on both counts: the last one sees everything the others did.
        let before = stripe.fetch_sub(1, AcqRel);
        assert!(before > 0, "task {task} was done twice");
        if before == 1 && self.stripes_left.fetch_sub(1, AcqRel) == 1 {
            self.all_done.fire();
        }
    }

    /// Waits for the last one.
    pub(crate) async fn wait(&self) {
        while !self.is_over() {
            self.all_done.wait().await;
        }
    }

    /// Acquire, met by the AcqRel of `done`.
    pub(crate) fn is_over(&self) -> bool {
        self.stripes_left.load(Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_last_task_only() {
        for tasks in [1, 63, 64, 65, 200] {
            let countdown = Countdown::new(tasks);
            for task in 0..tasks {
                assert!(!countdown.is_over());
                countdown.done(task);
            }
            futures_lite::future::block_on(countdown.wait());
        }
    }
}
