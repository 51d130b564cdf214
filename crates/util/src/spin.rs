//! A short look around before going to sleep.
//!
//! Waking a thread that sleeps costs its waker ten microseconds and the
//! sleeper twice as many. So a thread whose last waits were short does not
//! sleep at once: for some fifty microseconds it looks itself for what it waits
//! for.
//!
//! Of those that share a permit one at most does so at a time, and only if the
//! machine has another processor for whoever is to produce the event. Whether it
//! pays, past waits say.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::spin_policy::{Clocks, SpinPolicy, Wait};

/// The leave to look around, shared by the workers of a runtime.
///
/// ```
/// use blitzen_util::spin::{Spin, SpinPermit};
///
/// let permit = SpinPermit::new();
/// let spins: Vec<_> = (0..2).map(|_| Spin::new(Some(permit.clone()))).collect();
/// # assert_eq!(spins.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct SpinPermit {
    taken: Arc<AtomicBool>,
    /// Whether there is another processor.
    is_useful: bool,
}

impl SpinPermit {
    /// A permit that nobody has.
    pub fn new() -> Self {
        Self {
            taken: Arc::default(),
            is_useful: processors() > 1,
        }
    }

    fn take(&self) -> Option<Taken<'_>> {
        // Relaxed: the permit guards no memory.
        let taken = self.is_useful && !self.taken.swap(true, Relaxed);
        taken.then(|| Taken(&self.taken))
    }
}

impl Default for SpinPermit {
    fn default() -> Self {
        Self::new()
    }
}

/// How many processors the machine has. Not those this process may use: whoever
/// is to produce an event is often another one.
fn processors() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: no memory is passed.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        if let Ok(online @ 1..) = usize::try_from(online) {
            return online;
        }
    }
    thread::available_parallelism().map_or(1, usize::from)
}

struct Taken<'a>(&'a AtomicBool);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// A wait that has begun: see [`Spin::begin`].
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Instant,
    has_looked: bool,
    has_found: bool,
}

impl Begun {
    /// How long it has taken.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let begun = Spin::new(Some(SpinPermit::new())).begin().unwrap();
    /// assert!(begun.elapsed() <= begun.elapsed());
    /// ```
    pub fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

/// One thread's looking around. Only its owner uses it.
///
/// ```
/// use blitzen_util::spin::{Spin, SpinPermit};
///
/// let spin = Spin::new(Some(SpinPermit::new()));
/// let mut begun = spin.begin();
/// let found = spin.spin(&mut begun, None, || Some("an event"));
/// // Otherwise: sleep, until there is one.
/// spin.end(begun, 1);
/// # assert!(found.is_none(), "nothing is known of how long waits are");
/// ```
#[derive(Debug)]
pub struct Spin {
    permit: Option<SpinPermit>,
    policy: SpinPolicy,
}

impl Spin {
    /// For a thread that has had no waits yet. Without a permit it never looks
    /// around.
    ///
    /// ```
    /// # use blitzen_util::spin::Spin;
    /// assert!(Spin::new(None).begin().is_none());
    /// ```
    pub fn new(permit: Option<SpinPermit>) -> Self {
        Self {
            permit,
            policy: SpinPolicy::new(),
        }
    }

    /// A wait begins; `None` if nobody wants to know.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// assert!(Spin::new(Some(SpinPermit::new())).begin().is_some());
    /// ```
    pub fn begin(&self) -> Option<Begun> {
        self.permit.as_ref().map(|_| Begun {
            at: Instant::now(),
            has_looked: false,
            has_found: false,
        })
    }

    /// Looks around, if that is worth it, until `look` has found something or
    /// it has been long enough, `max_wait` at the most.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// let nothing = spin.spin(&mut spin.begin(), None, || None::<()>);
    /// assert!(nothing.is_none());
    /// ```
    pub fn spin<T>(
        &self,
        begun: &mut Option<Begun>,
        max_wait: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let (permit, begun) = (self.permit.as_ref()?, begun.as_mut()?);
        if !self.policy.wants_to_look() {
            return None;
        }
        let _taken = permit.take()?;
        begun.has_looked = true;
        let limit = Duration::from_nanos(self.policy.limit_ns());
        let limit = max_wait.map_or(limit, |wait| wait.min(limit));
        loop {
            if let Some(found) = look() {
                begun.has_found = true;
                return Some(found);
            }
            if begun.elapsed() >= limit {
                return None;
            }
            std::hint::spin_loop();
        }
    }

    /// The wait is over, but who ended it was in no hurry: it does not count, unless
    /// it was looked for in vain.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// spin.end_at_leisure(spin.begin());
    /// ```
    pub fn end_at_leisure(&self, begun: Option<Begun>) {
        if begun.is_some_and(|begun| begun.has_looked && !begun.has_found) {
            self.policy.learn_leisure();
        }
    }

    /// The wait is over, and so much has come.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// spin.end(spin.begin(), 1); // a short one
    /// ```
    pub fn end(&self, begun: Option<Begun>, events: usize) {
        if let Some(begun) = begun {
            let wait = Wait {
                ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
                has_looked: begun.has_looked,
                in_vain: begun.has_looked && !begun.has_found,
                events: events as u64,
            };
            self.policy.learn(wait, clocks);
        }
    }
}

fn clocks() -> Clocks {
    static START: OnceLock<Instant> = OnceLock::new();
    let ns = START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    Clocks {
        ns,
        // Without such a clock, time that passes is as good as spent.
        cpu_ns: cpu_ns().unwrap_or(ns),
    }
}

/// The calling thread's processor time.
fn cpu_ns() -> Option<u64> {
    #[cfg(unix)]
    {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` may be written to.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        if failed == 0 {
            return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        }
    }
    None
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::spin_policy::LIMIT_NS;

    /// A permit for a machine with enough processors.
    fn permit() -> SpinPermit {
        SpinPermit {
            taken: Arc::default(),
            is_useful: true,
        }
    }

    /// One that looks around.
    fn busy(permit: &SpinPermit) -> Spin {
        Spin {
            policy: SpinPolicy::of_looking(),
            ..Spin::new(Some(permit.clone()))
        }
    }

    fn look_for<T>(spin: &Spin, look: impl FnMut() -> Option<T>) -> Option<T> {
        spin.spin(&mut spin.begin(), None, look)
    }

    #[test]
    fn a_worker_looks_around_only_after_short_waits() {
        assert!(look_for(&Spin::new(Some(permit())), || Some(())).is_none());
        let spin = busy(&permit());
        assert!(look_for(&spin, || Some(())).is_some());
        spin.policy.learn_long();
        assert!(look_for(&spin, || Some(())).is_none());
    }

    #[test]
    fn one_worker_at_a_time() {
        let permit = permit();
        let (first, second) = (busy(&permit), busy(&permit));
        let both = look_for(&first, || Some(look_for(&second, || Some(())).is_some()));
        assert_eq!(both, Some(false));
        assert!(look_for(&second, || Some(())).is_some());
    }

    #[test]
    fn the_search_ends_when_it_has_been_long_enough() {
        let spin = busy(&permit());
        let start = Instant::now();
        assert!(look_for(&spin, || None::<()>).is_none());
        assert!(start.elapsed() >= Duration::from_nanos(LIMIT_NS));
    }

    #[test]
    fn without_a_permit_nothing_is_measured() {
        let spin = Spin::new(None);
        assert!(spin.begin().is_none());
        assert!(look_for(&spin, || Some(())).is_none());
    }
}
