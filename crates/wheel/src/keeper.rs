//! Who of those that sleep wakes for the timers of all.
//!
//! If each sleeper woke for its own timers, a tick with timers in every shard would wake every
//! worker. So the lowest sleeper that has timers is the *keeper*: it sleeps until the first timer
//! of any sleeper and fires them all, and the others need not wake.
//!
//! ```text
//!   a sleeper   says that it sleeps                fence   asks who keeps, and until when it sleeps
//!   the keeper  says that it sleeps, and is it     fence   looks at the timers of all sleepers
//! ```
//!
//! One fence is first. If the sleeper's, the keeper sees its timers; otherwise the sleeper sees
//! who the keeper is and that it sleeps endlessly, for all that is known yet, or until when; and
//! wakes by itself if that is too late.
//!
//! C1. Whoever sleeps either wakes by itself not later than its first timer, or there is a keeper
//!     that is awake or does so.
//! C2. A keeper that is awake fires what is due in the shards of those that sleep whenever it
//!     looks at its own, and counts them in when it sleeps. If it gets stuck, whoever watches over
//!     it fires them.
//! C3. One that is no longer the keeper sleeps on until its time, and is then like all others.

use std::fmt;

use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::Ordering::{Relaxed, SeqCst};
use blitzen_util::shim::atomic::{AtomicU64, AtomicUsize, fence};

/// In place of a time: it does not sleep.
const AWAKE: u64 = 0;
/// In place of a time: it sleeps until somebody wakes it.
const ENDLESS: u64 = u64::MAX;
/// In place of a worker.
const NOBODY: usize = usize::MAX;

/// Until when each worker sleeps, and who is the keeper.
///
/// ```
/// use blitzen_wheel::Keeper;
///
/// let next_ns = [7_000, 5_000];
/// let keeper = Keeper::new(2);
/// assert_eq!(keeper.lie_down(0, |worker| next_ns[worker]), Some(7_000));
/// assert_eq!(keeper.lie_down(1, |worker| next_ns[worker]), Some(5_000), "that is too late");
/// keeper.get_up(0); // …, fires, and has nothing to do
/// assert_eq!(keeper.lie_down(0, |worker| next_ns[worker]), Some(5_000));
/// keeper.get_up(1);
/// assert_eq!(keeper.lie_down(1, |worker| next_ns[worker]), None, "the other wakes for it");
/// ```
pub struct Keeper {
    who: Padded<AtomicUsize>,
    until_ns: Box<[Padded<AtomicU64>]>,
}

impl Keeper {
    /// Everybody is awake.
    ///
    /// ```
    /// assert_eq!(blitzen_wheel::Keeper::new(4).wakes_ns(3), None);
    /// ```
    pub fn new(workers: usize) -> Self {
        Self {
            who: Padded(AtomicUsize::new(NOBODY)),
            until_ns: (0..workers)
                .map(|_| Padded(AtomicU64::new(AWAKE)))
                .collect(),
        }
    }

    /// A worker is about to sleep: until when. `None` if it need not wake for timers. `next_ns`
    /// answers when the first timer of a worker is due, or [`u64::MAX`], or too early.
    ///
    /// ```
    /// # use blitzen_wheel::Keeper;
    /// let keeper = Keeper::new(1);
    /// assert_eq!(keeper.lie_down(0, |_| 5_000), Some(5_000));
    /// assert_eq!(keeper.lie_down(0, |_| u64::MAX), None);
    /// ```
    pub fn lie_down(&self, worker: usize, next_ns: impl Fn(usize) -> u64) -> Option<u64> {
        let own_ns = next_ns(worker);
        let until_ns = &self.until_ns[worker];
        until_ns.store(ENDLESS, Relaxed);
        if own_ns != ENDLESS {
            // Relaxed: the fence orders it. Fails if somebody lower keeps already, or this one.
            let _ = self
                .who
                .fetch_update(Relaxed, Relaxed, |who| (who > worker).then_some(worker));
        }
        fence(SeqCst);
        let who = self.who.load(Relaxed);
        let wakes_ns = match who == worker {
            true => self.sleepers().map(next_ns).min().unwrap_or(ENDLESS),
            false if who != NOBODY && self.until_ns[who].load(Relaxed) <= own_ns => ENDLESS, // C1
            false => own_ns,
        };
        until_ns.store(wakes_ns, Relaxed);
        (wakes_ns != ENDLESS).then_some(wakes_ns)
    }

    /// A worker is awake.
    ///
    /// ```
    /// # use blitzen_wheel::Keeper;
    /// # let keeper = Keeper::new(1);
    /// keeper.lie_down(0, |_| 5_000);
    /// keeper.get_up(0);
    /// assert_eq!(keeper.wakes_ns(0), None);
    /// ```
    pub fn get_up(&self, worker: usize) {
        self.until_ns[worker].store(AWAKE, Relaxed);
    }

    /// When a worker wakes by itself; `None` if it does not, or is awake.
    ///
    /// ```
    /// # use blitzen_wheel::Keeper;
    /// # let keeper = Keeper::new(1);
    /// keeper.lie_down(0, |_| 5_000);
    /// assert_eq!(keeper.wakes_ns(0), Some(5_000));
    /// ```
    pub fn wakes_ns(&self, worker: usize) -> Option<u64> {
        let until_ns = self.until_ns[worker].load(Relaxed);
        (until_ns != AWAKE && until_ns != ENDLESS).then_some(until_ns)
    }

    /// Whether a worker, or who looks on its behalf, is to fire the timers of those that sleep:
    /// the keeper, and anybody who has slept, if the keeper is awake and may be stuck.
    ///
    /// ```
    /// # use blitzen_wheel::Keeper;
    /// # let keeper = Keeper::new(2);
    /// keeper.lie_down(0, |_| 5_000);
    /// assert!(!keeper.is_on_duty(1, true));
    /// keeper.get_up(0);
    /// assert!(keeper.is_on_duty(0, false) && keeper.is_on_duty(1, true));
    /// ```
    #[inline]
    pub fn is_on_duty(&self, worker: usize, has_slept: bool) -> bool {
        let who = self.who.load(Relaxed);
        who == worker || has_slept && who != NOBODY && self.until_ns[who].load(Relaxed) == AWAKE
    }

    /// Those that sleep.
    ///
    /// ```
    /// # use blitzen_wheel::Keeper;
    /// # let keeper = Keeper::new(2);
    /// keeper.lie_down(1, |_| 5_000);
    /// assert_eq!(keeper.sleepers().collect::<Vec<_>>(), [1]);
    /// ```
    pub fn sleepers(&self) -> impl Iterator<Item = usize> {
        (0..self.until_ns.len()).filter(|&worker| self.until_ns[worker].load(Relaxed) != AWAKE)
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until_ns = self.until_ns.iter().map(|until_ns| until_ns.load(Relaxed));
        f.debug_struct("Keeper")
            .field("who", &self.who.load(Relaxed))
            .field("until_ns", &until_ns.collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_with_timers_keeps_for_all() {
        let keeper = Keeper::new(4);
        let next_ns = |worker: usize| [ENDLESS, 400, 300, 200][worker];
        assert_eq!(keeper.lie_down(3, next_ns), Some(200));
        assert_eq!(
            keeper.lie_down(2, next_ns),
            Some(200),
            "lower: it takes over"
        );
        assert_eq!(keeper.lie_down(0, next_ns), None, "it has no timers");
        assert_eq!(keeper.lie_down(1, next_ns), Some(200));
        for worker in [2, 3] {
            keeper.get_up(worker);
            assert!(!keeper.is_on_duty(worker, true));
            assert_eq!(keeper.lie_down(worker, next_ns), None);
        }
    }

    #[test]
    fn a_keeper_that_is_awake_is_trusted() {
        let keeper = Keeper::new(2);
        let next_ns = |worker: usize| [400, 300][worker];
        keeper.lie_down(0, next_ns);
        keeper.get_up(0);
        assert_eq!(keeper.lie_down(1, next_ns), None);
        assert!(keeper.is_on_duty(0, false), "C2");
        assert!(keeper.is_on_duty(1, true), "who watches");
        assert_eq!(keeper.lie_down(0, next_ns), Some(300), "C2");
    }

    #[test]
    fn who_sleeps_alone_wakes_for_its_own() {
        let keeper = Keeper::new(1);
        assert_eq!(keeper.lie_down(0, |_| 100), Some(100));
        keeper.get_up(0);
        assert_eq!(keeper.lie_down(0, |_| ENDLESS), None);
        assert!(format!("{keeper:?}").contains("who"));
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{Arc, thread};

    /// Each worker has one timer, at this time.
    struct Crew<const N: usize> {
        keeper: Keeper,
        next_ns: [u64; N],
    }

    impl<const N: usize> Crew<N> {
        fn new(next_ns: [u64; N]) -> Arc<Self> {
            let keeper = Keeper::new(N);
            Arc::new(Self { keeper, next_ns })
        }

        fn sleep(&self, worker: usize) -> Option<u64> {
            self.keeper.lie_down(worker, |worker| self.next_ns[worker])
        }

        /// C1, with everybody asleep.
        fn assert_nothing_is_slept_over(&self) {
            let first = self.next_ns.iter().min().unwrap();
            let wakes = (0..N)
                .filter_map(|worker| self.keeper.wakes_ns(worker))
                .min();
            assert!(
                wakes.is_some_and(|wakes| wakes <= *first),
                "{:?}",
                self.keeper
            );
        }
    }

    fn check<const N: usize>(next_ns: [u64; N]) {
        loom::model(move || {
            let crew = Crew::new(next_ns);
            let others: Vec<_> = (1..N)
                .map(|worker| {
                    let crew = crew.clone();
                    thread::spawn(move || crew.sleep(worker))
                })
                .collect();
            crew.sleep(0);
            for other in others {
                other.join().unwrap();
            }
            crew.assert_nothing_is_slept_over();
        });
    }

    #[test]
    fn two_that_lie_down_at_once_sleep_over_nothing() {
        check([100, 200]);
        check([200, 100]);
    }

    #[test]
    fn three_that_lie_down_at_once_sleep_over_nothing() {
        check([300, 200, 100]);
    }

    #[test]
    fn a_new_keeper_counts_in_who_trusted_the_old_one() {
        loom::model(|| {
            let crew = Arc::new((Keeper::new(3), [300, 100, 200].map(AtomicU64::new)));
            fn sleep(crew: &(Keeper, [AtomicU64; 3]), worker: usize) -> Option<u64> {
                crew.0
                    .lie_down(worker, |worker| crew.1[worker].load(Relaxed))
            }
            sleep(&crew, 1); // keeps until 100
            let others = [0, 2].map(|worker| {
                let crew = crew.clone();
                thread::spawn(move || sleep(&crew, worker))
            });
            // It wakes, fires its timer, and has no other.
            crew.0.get_up(1);
            crew.1[1].store(ENDLESS, Relaxed);
            sleep(&crew, 1);
            others.map(|other| other.join().unwrap());
            let wakes = (0..3).filter_map(|worker| crew.0.wakes_ns(worker)).min();
            assert!(wakes.is_some_and(|wakes| wakes <= 200), "{:?}", crew.0);
        });
    }

    #[test]
    fn a_keeper_that_lies_down_again_counts_in_who_trusted_it() {
        loom::model(|| {
            let crew = Crew::new([200, 100]);
            crew.sleep(0);
            let other = thread::spawn({
                let crew = crew.clone();
                move || crew.sleep(1)
            });
            crew.keeper.get_up(0);
            crew.sleep(0);
            other.join().unwrap();
            crew.assert_nothing_is_slept_over();
        });
    }
}
