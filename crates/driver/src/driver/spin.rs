//! A short look around before going to sleep.
//!
//! Waking a thread that sleeps costs its waker ten microseconds and the
//! sleeper twice as many. So a worker whose last waits were short does not
//! sleep at once: for some fifty microseconds it looks for events itself.
//!
//! One worker of a runtime at most does so at a time, and only if the machine
//! has another processor for whoever is to produce the event. Whether it pays is
//! for the [`Habit`] to say.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::habit::{Clocks, Habit, Wait};

/// How long to look around: twice what a wake costs.
const LIMIT: Duration = Duration::from_micros(50);

/// The leave to look around, shared by the workers of a runtime.
///
/// ```
/// use blitzen_driver::{Driver, DriverConfig, SpinPermit};
///
/// let permit = SpinPermit::new();
/// let drivers: Vec<_> = (0..2)
///     .map(|_| Driver::new(DriverConfig { spin: Some(permit.clone()), ..Default::default() }))
///     .collect();
/// # assert_eq!(drivers.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct SpinPermit {
    taken: Arc<AtomicBool>,
    /// Whether there is another processor.
    is_useful: bool,
}

impl SpinPermit {
    /// A permit for the drivers of one runtime.
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

/// A wait that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    at: Instant,
    has_looked: bool,
}

impl Begun {
    pub(super) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

/// One worker's looking around. Only its owner uses it.
#[derive(Debug)]
pub(super) struct Spin {
    permit: Option<SpinPermit>,
    habit: Habit,
}

impl Spin {
    pub(super) fn new(permit: Option<SpinPermit>) -> Self {
        Self {
            permit,
            habit: Habit::new(),
        }
    }

    /// A wait begins; `None` if nobody wants to know.
    pub(super) fn begin(&self) -> Option<Begun> {
        self.permit.as_ref().map(|_| Begun {
            at: Instant::now(),
            has_looked: false,
        })
    }

    /// Looks around, if that is worth it, until `look` has found something or
    /// it has been long enough, `max_wait` at the most.
    pub(super) fn spin<T>(
        &self,
        begun: &mut Option<Begun>,
        max_wait: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let (permit, begun) = (self.permit.as_ref()?, begun.as_mut()?);
        if !self.habit.wants_to_look() {
            return None;
        }
        let _taken = permit.take()?;
        begun.has_looked = true;
        let limit = max_wait.map_or(LIMIT, |wait| wait.min(LIMIT));
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if begun.elapsed() >= limit {
                return None;
            }
            std::hint::spin_loop();
        }
    }

    /// The wait is over, and so much has come.
    pub(super) fn end(&self, begun: Option<Begun>, events: usize) {
        if let Some(begun) = begun {
            let wait = Wait {
                ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
                has_looked: begun.has_looked,
                events: events as u64,
            };
            self.habit.learn(wait, clocks);
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
            habit: Habit::of_looking(),
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
        spin.habit.learn_long();
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
        assert!(start.elapsed() >= LIMIT);
    }

    #[test]
    fn without_a_permit_nothing_is_measured() {
        let spin = Spin::new(None);
        assert!(spin.begin().is_none());
        assert!(look_for(&spin, || Some(())).is_none());
    }
}
