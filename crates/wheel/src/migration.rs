//! Which parked worker wakes for the timers of all parked workers.
//!
//! If each parked worker woke for its own timers, a tick with timers in every shard would wake
//! every worker. As in Linux's timer migration, one worker is the *migrator*: the parked worker
//! with timers that has the lowest index. It parks until the first timer of any parked worker and
//! fires them all, so that the others need not wake.
//!
//! ```text
//!   any worker     store: parked                    fence   load migrator and its wake time
//!   the migrator   store: parked, and the migrator  fence   load the timers of all parked workers
//! ```
//!
//! One fence is first. If it is the worker's, the migrator sees the worker's timers. Otherwise the
//! worker sees who the migrator is and when it wakes (never, while that is not yet known), and
//! wakes by itself if that is too late.
//!
//! C1. A parked worker wakes by itself no later than its first timer, or there is a migrator that
//!     is running or does so.
//! C2. A migrator that is running fires what is due in the shards of parked workers whenever it
//!     looks at its own shard, and includes them when it parks. If it is stuck, the worker that
//!     serves its drivers fires them.
//! C3. A worker that is no longer the migrator stays parked until its time, and is then like all
//!     others.

use std::fmt;

use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::Ordering::{Relaxed, SeqCst};
use blitzen_util::shim::atomic::{AtomicU64, AtomicUsize, fence};

/// In place of a wake time: the worker is not parked.
const RUNNING: u64 = 0;
/// In place of a wake time: the worker is parked until it is unparked.
const NEVER: u64 = u64::MAX;
/// In place of a worker's index.
const NO_WORKER: usize = usize::MAX;

/// When each parked worker wakes, and which one is the migrator.
///
/// ```
/// use blitzen_wheel::TimerMigration;
///
/// let next_ns = [7_000, 5_000];
/// let migration = TimerMigration::new(2);
/// assert_eq!(migration.begin_park(0, |worker| next_ns[worker]), Some(7_000));
/// assert_eq!(migration.begin_park(1, |worker| next_ns[worker]), Some(5_000), "7,000 is too late");
/// migration.end_park(0);
/// assert_eq!(migration.begin_park(0, |worker| next_ns[worker]), Some(5_000), "for both");
/// migration.end_park(1);
/// assert_eq!(migration.begin_park(1, |worker| next_ns[worker]), None, "worker 0 wakes for it");
/// ```
pub struct TimerMigration {
    migrator: Padded<AtomicUsize>,
    wake_ns: Box<[Padded<AtomicU64>]>,
}

impl TimerMigration {
    /// Creates the state of `workers` workers, all of them running.
    ///
    /// ```
    /// assert_eq!(blitzen_wheel::TimerMigration::new(4).parked_workers().count(), 0);
    /// ```
    pub fn new(workers: usize) -> Self {
        Self {
            migrator: Padded(AtomicUsize::new(NO_WORKER)),
            wake_ns: (0..workers)
                .map(|_| Padded(AtomicU64::new(RUNNING)))
                .collect(),
        }
    }

    /// Marks `worker` as parked, and returns when it has to wake; `None` if it need not wake for
    /// timers. `next_ns` returns when the first timer of a worker is due, or [`u64::MAX`]; its
    /// answer may be too early, never too late.
    ///
    /// ```
    /// # use blitzen_wheel::TimerMigration;
    /// let migration = TimerMigration::new(1);
    /// assert_eq!(migration.begin_park(0, |_| 5_000), Some(5_000));
    /// assert_eq!(migration.begin_park(0, |_| u64::MAX), None);
    /// ```
    pub fn begin_park(&self, worker: usize, next_ns: impl Fn(usize) -> u64) -> Option<u64> {
        let own_ns = next_ns(worker);
        let own_wake_ns = &self.wake_ns[worker];
        own_wake_ns.store(NEVER, Relaxed);
        if own_ns != NEVER {
            // Relaxed: the fence orders it. It fails if this worker or a lower one is the migrator.
            let _ = self.migrator.fetch_update(Relaxed, Relaxed, |migrator| {
                (migrator > worker).then_some(worker)
            });
        }
        fence(SeqCst);
        let migrator = self.migrator.load(Relaxed);
        let wake_ns = match migrator == worker {
            true => self.parked_workers().map(next_ns).min().unwrap_or(NEVER),
            false if migrator != NO_WORKER && self.wake_ns[migrator].load(Relaxed) <= own_ns => {
                NEVER // C1
            }
            false => own_ns,
        };
        own_wake_ns.store(wake_ns, Relaxed);
        (wake_ns != NEVER).then_some(wake_ns)
    }

    /// Marks `worker` as running.
    ///
    /// ```
    /// # use blitzen_wheel::TimerMigration;
    /// # let migration = TimerMigration::new(1);
    /// migration.begin_park(0, |_| 5_000);
    /// migration.end_park(0);
    /// assert_eq!(migration.parked_workers().count(), 0);
    /// ```
    pub fn end_park(&self, worker: usize) {
        self.wake_ns[worker].store(RUNNING, Relaxed);
    }

    /// Returns when `worker` wakes by itself; `None` if it does not, or is running.
    #[cfg(all(test, blitzen_loom))]
    fn wake_ns(&self, worker: usize) -> Option<u64> {
        let wake_ns = self.wake_ns[worker].load(Relaxed);
        (wake_ns != RUNNING && wake_ns != NEVER).then_some(wake_ns)
    }

    /// Returns whether `worker`, or the thread that serves its drivers, has to fire the timers of
    /// parked workers. The migrator has to. So has a worker that `was_parked` until now while the
    /// migrator is running, because a running migrator may be stuck.
    ///
    /// ```
    /// # use blitzen_wheel::TimerMigration;
    /// # let migration = TimerMigration::new(2);
    /// migration.begin_park(0, |_| 5_000);
    /// assert!(!migration.must_fire_for_parked(1, true));
    /// migration.end_park(0);
    /// assert!(migration.must_fire_for_parked(0, false));
    /// assert!(migration.must_fire_for_parked(1, true));
    /// ```
    #[inline]
    pub fn must_fire_for_parked(&self, worker: usize, was_parked: bool) -> bool {
        let migrator = self.migrator.load(Relaxed);
        migrator == worker
            || was_parked
                && migrator != NO_WORKER
                && self.wake_ns[migrator].load(Relaxed) == RUNNING
    }

    /// Returns the workers that are parked.
    ///
    /// ```
    /// # use blitzen_wheel::TimerMigration;
    /// # let migration = TimerMigration::new(2);
    /// migration.begin_park(1, |_| 5_000);
    /// assert_eq!(migration.parked_workers().collect::<Vec<_>>(), [1]);
    /// ```
    pub fn parked_workers(&self) -> impl Iterator<Item = usize> {
        (0..self.wake_ns.len()).filter(|&worker| self.wake_ns[worker].load(Relaxed) != RUNNING)
    }
}

impl fmt::Debug for TimerMigration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wake_ns = self.wake_ns.iter().map(|wake_ns| wake_ns.load(Relaxed));
        f.debug_struct("TimerMigration")
            .field("migrator", &self.migrator.load(Relaxed))
            .field("wake_ns", &wake_ns.collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_worker_with_timers_wakes_for_all() {
        let migration = TimerMigration::new(4);
        let next_ns = |worker: usize| [NEVER, 400, 300, 200][worker];
        assert_eq!(migration.begin_park(3, next_ns), Some(200));
        assert_eq!(
            migration.begin_park(2, next_ns),
            Some(200),
            "lower: it takes over"
        );
        assert_eq!(migration.begin_park(0, next_ns), None, "it has no timers");
        assert_eq!(migration.begin_park(1, next_ns), Some(200));
        for worker in [2, 3] {
            migration.end_park(worker);
            assert!(!migration.must_fire_for_parked(worker, true));
            assert_eq!(migration.begin_park(worker, next_ns), None);
        }
    }

    #[test]
    fn a_running_migrator_is_trusted() {
        let migration = TimerMigration::new(2);
        let next_ns = |worker: usize| [400, 300][worker];
        migration.begin_park(0, next_ns);
        migration.end_park(0);
        assert_eq!(migration.begin_park(1, next_ns), None);
        assert!(migration.must_fire_for_parked(0, false), "C2");
        assert!(
            migration.must_fire_for_parked(1, true),
            "the migrator may be stuck"
        );
        assert_eq!(migration.begin_park(0, next_ns), Some(300), "C2");
    }

    #[test]
    fn a_lone_parked_worker_wakes_for_its_own_timers() {
        let migration = TimerMigration::new(1);
        assert_eq!(migration.begin_park(0, |_| 100), Some(100));
        migration.end_park(0);
        assert_eq!(migration.begin_park(0, |_| NEVER), None);
        assert!(format!("{migration:?}").contains("migrator"));
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{Arc, thread};

    /// Each worker has one timer, at this time.
    struct Workers<const N: usize> {
        migration: TimerMigration,
        next_ns: [u64; N],
    }

    impl<const N: usize> Workers<N> {
        fn new(next_ns: [u64; N]) -> Arc<Self> {
            let migration = TimerMigration::new(N);
            Arc::new(Self { migration, next_ns })
        }

        fn park(&self, worker: usize) -> Option<u64> {
            self.migration
                .begin_park(worker, |worker| self.next_ns[worker])
        }

        /// C1, with every worker parked.
        fn assert_no_timer_is_missed(&self) {
            let first = self.next_ns.iter().min().unwrap();
            let wakes = (0..N)
                .filter_map(|worker| self.migration.wake_ns(worker))
                .min();
            assert!(
                wakes.is_some_and(|wakes| wakes <= *first),
                "{:?}",
                self.migration
            );
        }
    }

    fn check<const N: usize>(next_ns: [u64; N]) {
        loom::model(move || {
            let workers = Workers::new(next_ns);
            let others: Vec<_> = (1..N)
                .map(|worker| {
                    let workers = workers.clone();
                    thread::spawn(move || workers.park(worker))
                })
                .collect();
            workers.park(0);
            for other in others {
                other.join().unwrap();
            }
            workers.assert_no_timer_is_missed();
        });
    }

    #[test]
    fn two_workers_that_park_at_once_miss_no_timer() {
        check([100, 200]);
        check([200, 100]);
    }

    #[test]
    fn three_workers_that_park_at_once_miss_no_timer() {
        check([300, 200, 100]);
    }

    #[test]
    fn a_new_migrator_includes_those_that_trusted_the_old_one() {
        loom::model(|| {
            let workers = Arc::new((TimerMigration::new(3), [300, 100, 200].map(AtomicU64::new)));
            fn park(workers: &(TimerMigration, [AtomicU64; 3]), worker: usize) -> Option<u64> {
                workers
                    .0
                    .begin_park(worker, |worker| workers.1[worker].load(Relaxed))
            }
            park(&workers, 1); // the migrator, until 100
            let others = [0, 2].map(|worker| {
                let workers = workers.clone();
                thread::spawn(move || park(&workers, worker))
            });
            // It wakes, fires its timer, and has no other.
            workers.0.end_park(1);
            workers.1[1].store(NEVER, Relaxed);
            park(&workers, 1);
            for other in others {
                other.join().unwrap();
            }
            let wakes = (0..3).filter_map(|worker| workers.0.wake_ns(worker)).min();
            assert!(wakes.is_some_and(|wakes| wakes <= 200), "{:?}", workers.0);
        });
    }

    #[test]
    fn a_migrator_that_parks_again_includes_those_that_trusted_it() {
        loom::model(|| {
            let workers = Workers::new([200, 100]);
            workers.park(0);
            let other = thread::spawn({
                let workers = workers.clone();
                move || workers.park(1)
            });
            workers.migration.end_park(0);
            workers.park(0);
            other.join().unwrap();
            workers.assert_no_timer_is_missed();
        });
    }
}
