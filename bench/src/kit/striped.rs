//! A value that many tasks use, without a reference count that all of them change.
//!
//! Each task holds a reference, and gives it up as it ends. One count for all would pass
//! between the cores with every task, and its cost would hide the runtime's. So neighbouring
//! tasks share a count, as they share a stripe of a [`Countdown`](super::Countdown).

use std::ops::Deref;
use std::sync::Arc;

const TASKS_PER_STRIPE: u64 = 64;

/// References to one value, for a number of tasks.
pub(crate) struct Striped<T>(Box<[StripeRef<T>]>);

/// The reference of a task.
pub(crate) struct StripeRef<T>(Arc<Stripe<T>>);

#[repr(align(128))]
struct Stripe<T>(Arc<T>);

impl<T> Striped<T> {
    pub(crate) fn new(value: &Arc<T>, tasks: u64) -> Self {
        let stripe = |_| StripeRef(Arc::new(Stripe(value.clone())));
        Self((0..tasks.div_ceil(TASKS_PER_STRIPE)).map(stripe).collect())
    }

    /// The reference for task number `task`.
    pub(crate) fn of(&self, task: u64) -> StripeRef<T> {
        StripeRef(self.0[(task / TASKS_PER_STRIPE) as usize].0.clone())
    }
}

impl<T> Deref for StripeRef<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_reaches_the_value_until_the_last_has_ended() {
        for tasks in [1, 63, 64, 65, 200] {
            let value = Arc::new(7);
            let striped = Striped::new(&value, tasks);
            let held: Vec<_> = (0..tasks).map(|task| striped.of(task)).collect();
            drop(striped);
            assert!(held.iter().all(|held| **held == 7));
            assert_eq!(Arc::strong_count(&value) as u64, 1 + tasks.div_ceil(64));
            drop(held);
            assert_eq!(Arc::strong_count(&value), 1);
        }
    }
}
