#![doc = include_str!("idle.md")]

use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Relaxed};
use blitzen_util::shim::atomic::{AtomicU32, AtomicU64, fence};
use std::sync::atomic::Ordering::SeqCst;

/// Who sleeps, and how many look for work.
pub(crate) struct Idle {
    searching: Padded<AtomicU32>,
    /// Who looked around last before it slept, and may still do so: of the
    /// sleepers the one that is quickest to wake. A guess.
    awake: AtomicU32,
    /// A bit per worker: set while it sleeps and nobody has come to wake it.
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
    /// It was the last: look whether there is work that nobody comes for.
    Last,
    /// Somebody else still looks.
    NotLast,
}

impl Idle {
    /// All workers asleep: one that has not started is woken by starting it.
    pub(crate) fn new(workers: usize) -> Self {
        let words = workers.div_ceil(64);
        let word = |index: usize| match workers - index * 64 {
            0..64 => (1 << (workers % 64)) - 1,
            _ => u64::MAX,
        };
        Self {
            searching: Padded(AtomicU32::new(0)),
            awake: AtomicU32::new(0),
            parked: (0..words)
                .map(|index| AtomicU64::new(word(index)))
                .collect(),
            workers: workers as u32,
        }
    }

    /// There is new work: picks a sleeper to wake, unless somebody already
    /// looks. The sleeper is counted as searching; hand it
    /// [`searching_on_wake`](Self::searching_on_wake).
    pub(crate) fn worker_to_notify(&self) -> Option<usize> {
        // D1: after the work was published, before looking who searches.
        fence(SeqCst);
        loop {
            if self.searching.load(Relaxed) != 0 || !self.any_parked() {
                return None;
            }
            // AcqRel for the release half: a worker that sees itself counted
            // sees what was published before.
            if self
                .searching
                .compare_exchange(0, 1, AcqRel, Relaxed)
                .is_err()
            {
                return None;
            }
            if let Some(worker) = self.claim_sleeper() {
                return Some(worker);
            }
            // Nobody was there after all. Somebody may have gone to sleep
            // trusting in the searcher that this pretended to be: retire as one.
            if self.retire(Searching(())) == Retired::NotLast {
                return None;
            }
        }
    }

    /// Like [`worker_to_notify`](Self::worker_to_notify) for a worker that adds
    /// to its own queue: it will run the work itself if nobody comes, so a
    /// stale look costs no wake, only some company.
    #[inline]
    pub(crate) fn worker_to_share_with(&self) -> Option<usize> {
        match self.is_company_asleep() {
            true => self.worker_to_notify(),
            false => None,
        }
    }

    /// Whether somebody sleeps and nobody searches; a guess, as above.
    #[inline]
    pub(crate) fn is_company_asleep(&self) -> bool {
        self.searching.load(Relaxed) == 0 && self.any_parked()
    }

    #[inline]
    fn any_parked(&self) -> bool {
        self.parked.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// How many workers sleep; a guess, since they come and go.
    pub(crate) fn parked(&self) -> usize {
        let ones = |word: &AtomicU64| word.load(Relaxed).count_ones() as usize;
        self.parked.iter().map(ones).sum()
    }

    /// Whether a worker sleeps; a guess, as above.
    pub(crate) fn is_parked(&self, worker: usize) -> bool {
        self.parked[worker / 64].load(Relaxed) & bit(worker) != 0
    }

    /// Whether some workers sleep and others do not; a guess, as above.
    pub(crate) fn is_mixed(&self) -> bool {
        (1..self.workers as usize).contains(&self.parked())
    }

    /// A sleeper looks around before it falls asleep.
    pub(crate) fn lies_awake(&self, worker: usize) {
        let worker = worker as u32;
        if self.awake.load(Relaxed) != worker {
            self.awake.store(worker, Relaxed);
        }
    }

    /// Clears the bit of a sleeper, who is to be woken: of the one that may not
    /// have fallen asleep yet, or else of the lowest.
    fn claim_sleeper(&self) -> Option<usize> {
        let awake = self.awake.load(Relaxed) as usize;
        if self.is_parked(awake) && self.claim(awake) {
            return Some(awake);
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

    /// Clears a worker's bit; true if it was set, and the caller now wakes it,
    /// or is the worker itself and stays awake.
    pub(crate) fn claim(&self, worker: usize) -> bool {
        // AcqRel, met by `park`: the two agree on who is asleep.
        self.parked[worker / 64].fetch_and(!bit(worker), AcqRel) & bit(worker) != 0
    }

    /// Counts a worker that ran out of work as searching, unless half of them
    /// search already.
    pub(crate) fn try_search(&self) -> Option<Searching> {
        if 2 * self.searching.load(Relaxed) >= self.workers {
            return None;
        }
        // D2: before looking through the queues.
        self.searching.fetch_add(1, AcqRel);
        fence(SeqCst);
        Some(Searching(()))
    }

    /// What [`worker_to_notify`](Self::worker_to_notify) counted for the worker
    /// it picked. Only that worker calls this, once, after it was woken.
    pub(crate) fn searching_on_wake(&self) -> Searching {
        fence(SeqCst); // D2
        Searching(())
    }

    /// Uncounts a worker that found work, or is about to sleep.
    pub(crate) fn retire(&self, searching: Searching) -> Retired {
        let Searching(()) = searching;
        let before = self.searching.fetch_sub(1, AcqRel);
        debug_assert_ne!(before, 0);
        // D3: before looking whether work is left.
        fence(SeqCst);
        match before {
            1 => Retired::Last,
            _ => Retired::NotLast,
        }
    }

    /// Marks a worker as asleep, and uncounts it. When this answers `Last` it
    /// must look through the queues once more and, if there is work and
    /// [`claim`](Self::claim) gives it back to itself, stay awake.
    pub(crate) fn park(&self, worker: usize, searching: Option<Searching>) -> Retired {
        self.parked[worker / 64].fetch_or(bit(worker), AcqRel);
        match searching {
            Some(searching) => self.retire(searching),
            None => {
                // D3.
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
    fn everybody_is_born_asleep() {
        for workers in [1, 2, 63, 64, 65, 1024] {
            assert_eq!(Idle::new(workers).parked(), workers);
        }
    }

    #[test]
    fn the_lowest_sleeper_is_woken_and_only_one_at_a_time() {
        let idle = awake(130);
        let _ = idle.park(129, None);
        let _ = idle.park(70, None);
        assert!(idle.is_mixed());
        assert_eq!(idle.worker_to_notify(), Some(70));
        assert_eq!(idle.worker_to_notify(), None, "70 searches");
        assert_eq!(idle.retire(idle.searching_on_wake()), Retired::Last);
        assert_eq!(idle.worker_to_share_with(), Some(129));
    }

    #[test]
    fn who_may_not_have_fallen_asleep_yet_is_woken_first() {
        let idle = awake(130);
        for worker in [3, 70, 129] {
            let _ = idle.park(worker, None);
        }
        idle.lies_awake(70);
        assert_eq!(idle.worker_to_notify(), Some(70));
        let _ = idle.retire(idle.searching_on_wake());
        assert_eq!(idle.worker_to_notify(), Some(3), "70 is up");
    }

    #[test]
    fn half_of_the_workers_search_at_the_most() {
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
    use blitzen_util::shim::atomic::AtomicUsize;
    use blitzen_util::shim::atomic::Ordering::Acquire;
    use blitzen_util::shim::{Arc, thread};

    /// Workers that take units of work from one counter and sleep when there
    /// is none; they end when `done` says that all of it was done.
    struct Floor {
        idle: Idle,
        parkers: Vec<Parker>,
        queued: AtomicUsize,
        done: AtomicUsize,
        total: usize,
    }

    impl Floor {
        fn new(workers: usize, total: usize) -> Arc<Self> {
            let floor = Self {
                idle: Idle::new(workers),
                parkers: (0..workers).map(|_| Parker::new()).collect(),
                queued: AtomicUsize::new(0),
                done: AtomicUsize::new(0),
                total,
            };
            for worker in 0..workers {
                assert!(floor.idle.claim(worker));
            }
            Arc::new(floor)
        }

        fn produce(&self) {
            self.queued.fetch_add(1, Relaxed);
            self.notify();
        }

        fn notify(&self) {
            if let Some(worker) = self.idle.worker_to_notify() {
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

        /// One worker, until everything is done. Whoever does the last unit
        /// wakes the others to go home.
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

    #[test]
    fn a_producer_against_the_last_searcher_strands_nothing() {
        loom::model(|| {
            let floor = Floor::new(1, 1);
            let worker = thread::spawn({
                let floor = floor.clone();
                move || floor.work(0)
            });
            floor.produce();
            worker.join().unwrap();
        });
    }

    #[test]
    fn two_producers_against_a_worker_strand_nothing() {
        loom::model(|| {
            let floor = Floor::new(1, 2);
            let worker = thread::spawn({
                let floor = floor.clone();
                move || floor.work(0)
            });
            let other = thread::spawn({
                let floor = floor.clone();
                move || floor.produce()
            });
            floor.produce();
            other.join().unwrap();
            worker.join().unwrap();
        });
    }

    #[test]
    fn a_producer_against_two_workers_strands_nothing() {
        loom::model(|| {
            let floor = Floor::new(2, 2);
            let workers: Vec<_> = (0..2)
                .map(|index| {
                    let floor = floor.clone();
                    thread::spawn(move || floor.work(index))
                })
                .collect();
            floor.produce();
            floor.produce();
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }
}
