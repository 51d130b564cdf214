//! Whether to unpark another worker for a task that is spawned on a worker whose
//! queue is otherwise empty.
//!
//! A parent that goes on computing should see its child start elsewhere within
//! microseconds; a parent that awaits its child at once would only pay for the
//! unpark. The worker learns which kind of parent it runs: while no thief takes such
//! children, it announces (unparks another worker for) ever fewer of them.

use std::cell::Cell;

use blitzen_util::backoff::Backoff;

/// What became of children announced before.
#[derive(Debug, Default)]
pub(crate) struct SpawnBackoff {
    /// At most 1,024 spawns in a row go unannounced.
    backoff: Backoff<1024>,
    /// Whether a child was announced that has not been taken from the slot, as far
    /// as this worker knows.
    announced: Cell<bool>,
}

impl SpawnBackoff {
    /// Counts a task that was spawned on a worker with an empty queue; returns
    /// whether to announce it.
    pub(crate) fn announce_spawn(&self) -> bool {
        let announces = self.backoff.begin_attempt();
        self.announced.set(announces || self.announced.get());
        announces
    }

    /// Notes that the worker looked into its LIFO slot: the task was `still_there`,
    /// or stolen.
    #[inline]
    pub(crate) fn newest_taken(&self, still_there: bool) {
        if self.announced.replace(false) {
            match still_there {
                true => self.backoff.fail(),
                false => self.backoff.succeed(),
            }
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_is_always_stolen_is_always_announced() {
        let backoff = SpawnBackoff::default();
        for _ in 0..100 {
            assert!(backoff.announce_spawn());
            backoff.newest_taken(false);
        }
    }

    #[test]
    fn children_that_are_never_stolen_are_announced_ever_less_but_not_never() {
        let backoff = SpawnBackoff::default();
        let mut announced = 0;
        for _ in 0..10_000 {
            announced += u32::from(backoff.announce_spawn());
            backoff.newest_taken(true);
        }
        assert!((10..30).contains(&announced), "{announced}");
        // The first that is stolen brings the announcements back.
        while !backoff.announce_spawn() {}
        backoff.newest_taken(false);
        assert!(backoff.announce_spawn());
    }
}
