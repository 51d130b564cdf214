#![doc = include_str!("idle.md")]

use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Relaxed};
use blitzen_util::shim::atomic::{AtomicU32, AtomicU64, fence};
use std::sync::atomic::Ordering::SeqCst;

/// Which workers are parked, and how many search for work.
pub(crate) struct Idle {
    searching: Padded<AtomicU32>,
    /// The worker that was the last to spin before sleeping. It may still be
    /// spinning, and is then the quickest to wake. A guess.
    last_spinning: AtomicU32,
    /// A bit for each worker: set while it is parked and no thread has claimed it to
    /// unpark it.
    parked: Box<[AtomicU64]>,
    workers: u32,
}

/// Proof that the worker is counted in `searching`; spending it uncounts it.
#[must_use]
#[derive(Debug)]
pub(crate) struct Searching(());

/// What a worker that stops searching must do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    /// It was the last: it must check whether there is work left.
    Last,
    /// Another worker still searches.
    NotLast,
}

impl Idle {
    /// All workers parked: one that has no thread yet is unparked by starting it.
    pub(crate) fn new(workers: usize) -> Self {
        let words = workers.div_ceil(64);
        let word = |index: usize| match workers - index * 64 {
            0..64 => (1 << (workers % 64)) - 1,
            _ => u64::MAX,
        };
        Self {
            searching: Padded(AtomicU32::new(0)),
            last_spinning: AtomicU32::new(0),
            parked: (0..words)
                .map(|index| AtomicU64::new(word(index)))
                .collect(),
            workers: workers as u32,
        }
    }

    /// Picks a parked worker to unpark for new work, unless one already searches.
    /// Counts that worker as searching; it gets its proof from
    /// [`searching_on_wake`](Self::searching_on_wake).
    pub(crate) fn claim_to_notify(&self) -> Option<usize> {
        // D1: after the work was published, before checking who searches.
        fence(SeqCst);
        loop {
            if self.searching.load(Relaxed) != 0 || !self.any_parked() {
                return None;
            }
            if self
                .searching
                .compare_exchange(0, 1, Relaxed, Relaxed)
                .is_err()
            {
                return None;
            }
            if let Some(worker) = self.claim_parked() {
                return Some(worker);
            }
            // No worker was parked after all. One may have parked since, because it
            // saw a searcher, which was only the count above: retire as one.
            if self.retire(Searching(())) == Retired::NotLast {
                return None;
            }
        }
    }

    /// Like [`claim_to_notify`](Self::claim_to_notify), for a worker that has added
    /// to its own queue. It runs the work itself if no other comes, so a stale
    /// first check loses no work, only some parallelism.
    #[inline]
    pub(crate) fn claim_to_share(&self) -> Option<usize> {
        match self.could_unpark() {
            true => self.claim_to_notify(),
            false => None,
        }
    }

    /// Whether a worker is parked and none searches, so that one could be unparked;
    /// may be stale.
    #[inline]
    pub(crate) fn could_unpark(&self) -> bool {
        self.searching.load(Relaxed) == 0 && self.any_parked()
    }

    #[inline]
    fn any_parked(&self) -> bool {
        self.parked.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// How many workers are parked; may be stale.
    pub(crate) fn parked(&self) -> usize {
        let ones = |word: &AtomicU64| word.load(Relaxed).count_ones() as usize;
        self.parked.iter().map(ones).sum()
    }

    /// How many workers are not parked; may be stale.
    pub(crate) fn running(&self) -> usize {
        (self.workers as usize).saturating_sub(self.parked())
    }

    /// Whether a worker is parked; may be stale.
    pub(crate) fn is_parked(&self, worker: usize) -> bool {
        self.parked[worker / 64].load(Relaxed) & bit(worker) != 0
    }

    /// Notes that a parked worker spins before it sleeps.
    pub(crate) fn note_spinning(&self, worker: usize) {
        let worker = worker as u32;
        if self.last_spinning.load(Relaxed) != worker {
            self.last_spinning.store(worker, Relaxed);
        }
    }

    /// Claims a parked worker, to be unparked: the one that may still be spinning,
    /// or else the lowest.
    fn claim_parked(&self) -> Option<usize> {
        let spinning = self.last_spinning.load(Relaxed) as usize;
        if self.is_parked(spinning) && self.claim(spinning) {
            return Some(spinning);
        }
        for (index, word) in self.parked.iter().enumerate() {
            let mut seen = word.load(Relaxed);
            while seen != 0 {
                let worker = index * 64 + seen.trailing_zeros() as usize;
                if self.claim(worker) {
                    return Some(worker);
                }
                seen = word.load(Relaxed);
            }
        }
        None
    }

    /// Clears a worker's bit; returns true if it was set. Then the caller unparks
    /// the worker, or is the worker itself and does not sleep.
    pub(crate) fn claim(&self, worker: usize) -> bool {
        // AcqRel, met by itself: a worker that finds its bit cleared was counted as searching
        // before that, and uncounts itself later, or sees that the scheduler is closed.
        self.parked[worker / 64].fetch_and(!bit(worker), AcqRel) & bit(worker) != 0
    }

    /// Counts a worker that ran out of work as searching, unless half of them
    /// search already.
    pub(crate) fn try_search(&self) -> Option<Searching> {
        if 2 * self.searching.load(Relaxed) >= self.workers {
            return None;
        }
        self.searching.fetch_add(1, Relaxed);
        Some(Searching(()))
    }

    /// Returns the proof that [`claim_to_notify`](Self::claim_to_notify) counted the
    /// calling worker. Only the worker that it picked calls this, once, after it
    /// was unparked.
    pub(crate) fn searching_on_wake(&self) -> Searching {
        Searching(())
    }

    /// Uncounts a worker that found work, or is about to park.
    pub(crate) fn retire(&self, searching: Searching) -> Retired {
        let Searching(()) = searching;
        // AcqRel, met by itself: a worker that parks sets its bit before it is uncounted, and the
        // last one that is uncounted looks for work after that. A producer that saw no bit
        // fenced before that look.
        let before = self.searching.fetch_sub(1, AcqRel);
        debug_assert_ne!(before, 0);
        // D2: before checking whether work is left.
        fence(SeqCst);
        match before {
            1 => Retired::Last,
            _ => Retired::NotLast,
        }
    }

    /// Marks a worker as parked, and uncounts it. If this returns `Last`, the worker
    /// must check the queues once more. If there is work, and
    /// [`claim`](Self::claim) returns true, it must not sleep.
    pub(crate) fn park(&self, worker: usize, searching: Option<Searching>) -> Retired {
        self.parked[worker / 64].fetch_or(bit(worker), Relaxed);
        match searching {
            Some(searching) => self.retire(searching),
            None => {
                // D2.
                fence(SeqCst);
                match self.searching.load(Relaxed) {
                    0 => Retired::Last,
                    _ => Retired::NotLast,
                }
            }
        }
    }
}

fn bit(worker: usize) -> u64 {
    1 << (worker % 64)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn awake(workers: usize) -> Idle {
        let idle = Idle::new(workers);
        for worker in 0..workers {
            assert!(idle.claim(worker));
        }
        idle
    }

    #[test]
    fn every_worker_starts_parked() {
        for workers in [1, 2, 63, 64, 65, 1024] {
            assert_eq!(Idle::new(workers).parked(), workers);
        }
    }

    #[test]
    fn the_lowest_parked_worker_is_unparked_and_only_one_at_a_time() {
        let idle = awake(130);
        let _ = idle.park(129, None);
        let _ = idle.park(70, None);
        assert_eq!(idle.running(), 128);
        assert_eq!(idle.claim_to_notify(), Some(70));
        assert_eq!(idle.claim_to_notify(), None, "70 searches");
        assert_eq!(idle.retire(idle.searching_on_wake()), Retired::Last);
        assert_eq!(idle.claim_to_share(), Some(129));
    }

    #[test]
    fn a_worker_that_may_still_spin_is_unparked_first() {
        let idle = awake(130);
        for worker in [3, 70, 129] {
            let _ = idle.park(worker, None);
        }
        idle.note_spinning(70);
        assert_eq!(idle.claim_to_notify(), Some(70));
        let _ = idle.retire(idle.searching_on_wake());
        assert_eq!(idle.claim_to_notify(), Some(3), "70 is unparked");
    }

    #[test]
    fn at_most_half_of_the_workers_search() {
        let idle = awake(4);
        let first = idle.try_search().unwrap();
        let second = idle.try_search().unwrap();
        assert!(idle.try_search().is_none());
        assert_eq!(idle.retire(first), Retired::NotLast);
        assert_eq!(idle.park(0, Some(second)), Retired::Last);
        assert_eq!(idle.parked(), 1);
    }

    #[test]
    fn a_claim_is_won_once() {
        let idle = Idle::new(1);
        assert!(idle.claim(0) && !idle.claim(0));
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::atomic::Ordering::Acquire;
    use blitzen_util::shim::atomic::{AtomicBool, AtomicUsize};
    use blitzen_util::shim::{Arc, thread};

    /// Workers that take units of work from one counter and sleep when there
    /// is none. They end when `done` has reached `total`.
    struct Workers {
        idle: Idle,
        parkers: Vec<Parker>,
        queued: AtomicUsize,
        done: AtomicUsize,
        total: usize,
    }

    impl Workers {
        fn new(count: usize, total: usize) -> Arc<Self> {
            let workers = Self {
                idle: Idle::new(count),
                parkers: (0..count).map(|_| Parker::new()).collect(),
                queued: AtomicUsize::new(0),
                done: AtomicUsize::new(0),
                total,
            };
            for worker in 0..count {
                assert!(workers.idle.claim(worker));
            }
            Arc::new(workers)
        }

        fn produce(&self) {
            self.queued.fetch_add(1, Relaxed);
            self.notify();
        }

        fn notify(&self) {
            if let Some(worker) = self.idle.claim_to_notify() {
                self.parkers[worker].unpark();
            }
        }

        fn take(&self) -> bool {
            let mut queued = self.queued.load(Relaxed);
            while queued > 0 {
                match self
                    .queued
                    .compare_exchange(queued, queued - 1, AcqRel, Relaxed)
                {
                    Ok(_) => return true,
                    Err(newer) => queued = newer,
                }
            }
            false
        }

        /// Runs one worker until everything is done. The worker that does the last
        /// unit unparks the others, which then end.
        fn work(&self, worker: usize) {
            let mut searching = self.idle.try_search();
            loop {
                while self.take() {
                    if let Some(search) = searching.take() {
                        if self.idle.retire(search) == Retired::Last
                            && self.queued.load(Relaxed) > 0
                        {
                            self.notify();
                        }
                    }
                    if self.done.fetch_add(1, AcqRel) + 1 == self.total {
                        self.parkers.iter().for_each(Parker::unpark);
                        return;
                    }
                }
                let retired = self.idle.park(worker, searching.take());
                if retired == Retired::Last
                    && self.queued.load(Relaxed) > 0
                    && self.idle.claim(worker)
                {
                    searching = self.idle.try_search();
                    continue;
                }
                self.parkers[worker].park();
                if self.done.load(Acquire) == self.total {
                    return;
                }
                searching = Some(self.idle.searching_on_wake());
            }
        }
    }

    /// As in a shutdown, which claims all workers after it has set its flag.
    #[test]
    fn a_worker_that_finds_its_bit_cleared_sees_what_came_before() {
        loom::model(|| {
            let shared = Arc::new((Idle::new(1), AtomicBool::new(false)));
            let other = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.store(true, Relaxed);
                    shared.0.claim(0)
                }
            });
            let is_ours = shared.0.claim(0);
            assert!(is_ours || shared.1.load(Relaxed));
            assert_ne!(other.join().unwrap(), is_ours);
        });
    }

    #[test]
    fn a_producer_against_the_last_searcher_strands_nothing() {
        loom::model(|| {
            let workers = Workers::new(1, 1);
            let worker = thread::spawn({
                let workers = workers.clone();
                move || workers.work(0)
            });
            workers.produce();
            worker.join().unwrap();
        });
    }

    #[test]
    fn two_producers_against_a_worker_strand_nothing() {
        loom::model(|| {
            let workers = Workers::new(1, 2);
            let worker = thread::spawn({
                let workers = workers.clone();
                move || workers.work(0)
            });
            let other = thread::spawn({
                let workers = workers.clone();
                move || workers.produce()
            });
            workers.produce();
            other.join().unwrap();
            worker.join().unwrap();
        });
    }

    #[test]
    fn a_producer_against_two_workers_strands_nothing() {
        loom::model(|| {
            let workers = Workers::new(2, 2);
            let threads: Vec<_> = (0..2)
                .map(|index| {
                    let workers = workers.clone();
                    thread::spawn(move || workers.work(index))
                })
                .collect();
            workers.produce();
            workers.produce();
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}
