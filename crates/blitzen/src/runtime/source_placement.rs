//! Which worker watches a source that was created outside the workers, such as a connection that
//! the future of `block_on` has accepted.
//!
//! All of them go to one worker while that worker has time. It then finds many events in one look,
//! where two workers would find few each, with twice the system calls and sleeps. Others steal the
//! tasks that it cannot run at once. If it has not parked for a while, it has more events than it
//! can serve, and the next sources go to the next worker.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A worker that does not park for this long has no time for more sources.
const BUSY_NS: u64 = 10_000_000;

/// Where the last source went. All of it is a hint: Relaxed.
#[derive(Debug, Default)]
pub(crate) struct SourcePlacement {
    worker: AtomicUsize,
    /// How often that worker had parked.
    parks: AtomicU64,
    /// When that was seen first.
    since_ns: AtomicU64,
}

impl SourcePlacement {
    /// Returns the worker for a new source, of `workers`. `parks` returns how often a worker has
    /// parked, and whether it is parked now.
    pub(crate) fn place(
        &self,
        workers: usize,
        now_ns: u64,
        parks: impl Fn(usize) -> (u64, bool),
    ) -> usize {
        if workers == 1 {
            return 0;
        }
        let worker = self.worker.load(Relaxed);
        let (count, is_parked) = parks(worker);
        if is_parked || self.parks.load(Relaxed) != count {
            self.note(worker, count, now_ns);
            return worker;
        }
        if now_ns.saturating_sub(self.since_ns.load(Relaxed)) < BUSY_NS {
            return worker;
        }
        let next = (worker + 1) % workers;
        self.note(next, parks(next).0, now_ns);
        next
    }

    fn note(&self, worker: usize, parks: u64, now_ns: u64) {
        self.worker.store(worker, Relaxed);
        self.parks.store(parks, Relaxed);
        self.since_ns.store(now_ns, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn sources_go_to_one_worker_while_it_parks_now_and_then() {
        let placement = SourcePlacement::default();
        for ms in 0..100 {
            let place = placement.place(4, ms * 9 * MS, |_| (ms, false));
            assert_eq!(place, 0);
        }
        assert_eq!(placement.place(4, 10_000 * MS, |_| (99, true)), 0);
    }

    #[test]
    fn the_next_worker_has_its_turn_when_one_no_longer_parks() {
        let placement = SourcePlacement::default();
        let places = (0..60).map(|ms| placement.place(4, (1_000 + ms) * MS, |_| (7, false)));
        let places: Vec<_> = places.collect();
        let expected = [0, 1, 2, 3, 0, 1].iter().flat_map(|&worker| [worker; 10]);
        assert!(places.into_iter().eq(expected));
    }
}
