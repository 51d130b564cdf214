//! Spinning for a short time before going to sleep.
//!
//! Waking a sleeping thread costs its waker ten microseconds and the sleeper twice
//! as many. So a thread whose last waits were short does not sleep at once: it polls
//! for about fifty microseconds for the event that it waits for.
//!
//! Of the threads that share a [permit](SpinPermit) at most one spins at a time, and
//! only if the machine has another processor, on which the event can be produced.
//! The policy learns from past waits whether spinning pays (`spin_policy.rs`).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::spin_policy::{Clocks, EndedWait, SpinPolicy};

/// The permit to spin, shared by the workers of a runtime: one of them spins at a
/// time.
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
    /// Creates a permit that no thread has taken.
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

/// How many processors the machine has. Not those that this process may use: often
/// another process produces the event.
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
pub struct BegunWait {
    at: Instant,
    has_spun: bool,
    has_found: bool,
}

impl BegunWait {
    /// Returns whether it began with a spin that found nothing.
    fn has_missed(&self) -> bool {
        self.has_spun && !self.has_found
    }

    /// Returns how long the wait has taken so far.
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

/// The spinning of one thread. No other thread uses it.
///
/// ```
/// use blitzen_util::spin::{Spin, SpinPermit};
///
/// let spin = Spin::new(Some(SpinPermit::new()));
/// let mut begun = spin.begin();
/// let found = spin.spin(&mut begun, None, || Some("an event"));
/// // If nothing was found: sleep until there is an event.
/// spin.end(begun, 1);
/// # assert!(found.is_none(), "the first wait never spins");
/// ```
#[derive(Debug)]
pub struct Spin {
    permit: Option<SpinPermit>,
    policy: SpinPolicy,
}

impl Spin {
    /// Creates the state of a thread that has had no waits yet. Without a permit it
    /// never spins.
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

    /// Begins a wait; returns `None` if there is no permit, and so nothing to
    /// measure.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// assert!(Spin::new(Some(SpinPermit::new())).begin().is_some());
    /// ```
    pub fn begin(&self) -> Option<BegunWait> {
        self.permit.as_ref().map(|_| BegunWait {
            at: Instant::now(),
            has_spun: false,
            has_found: false,
        })
    }

    /// Spins, if that is worth it, until `look` finds something, for at most
    /// `max_wait`. Returns what it found.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// let nothing = spin.spin(&mut spin.begin(), None, || None::<()>);
    /// assert!(nothing.is_none());
    /// ```
    pub fn spin<T>(
        &self,
        begun: &mut Option<BegunWait>,
        max_wait: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let (permit, begun) = (self.permit.as_ref()?, begun.as_mut()?);
        if !self.policy.decide_to_spin() {
            return None;
        }
        let _taken = permit.take()?;
        begun.has_spun = true;
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

    /// Ends a wait that was ended by something that is not urgent. The wait does not
    /// count, unless it began with a spin that found nothing.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// spin.end_not_urgent(spin.begin());
    /// ```
    pub fn end_not_urgent(&self, begun: Option<BegunWait>) {
        if begun.is_some_and(|begun| begun.has_missed()) {
            self.policy.learn_not_urgent();
        }
    }

    /// Ends a wait that brought `events` events.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// spin.end(spin.begin(), 1); // a short one
    /// ```
    pub fn end(&self, begun: Option<BegunWait>, events: usize) {
        if let Some(begun) = begun {
            let wait = EndedWait {
                ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
                has_spun: begun.has_spun,
                has_missed: begun.has_missed(),
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
        // Without a clock of processor time, take the thread to be always busy.
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

    /// A thread that spins in its next wait.
    fn busy(permit: &SpinPermit) -> Spin {
        Spin {
            policy: SpinPolicy::of_spinning(),
            ..Spin::new(Some(permit.clone()))
        }
    }

    fn look_for<T>(spin: &Spin, look: impl FnMut() -> Option<T>) -> Option<T> {
        spin.spin(&mut spin.begin(), None, look)
    }

    #[test]
    fn a_worker_spins_only_after_short_waits() {
        assert!(look_for(&Spin::new(Some(permit())), || Some(())).is_none());
        let spin = busy(&permit());
        assert!(look_for(&spin, || Some(())).is_some());
        spin.policy.learn_long();
        assert!(look_for(&spin, || Some(())).is_none());
    }

    #[test]
    fn one_worker_spins_at_a_time() {
        let permit = permit();
        let (first, second) = (busy(&permit), busy(&permit));
        let both = look_for(&first, || Some(look_for(&second, || Some(())).is_some()));
        assert_eq!(both, Some(false));
        assert!(look_for(&second, || Some(())).is_some());
    }

    #[test]
    fn spinning_ends_at_the_limit() {
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
