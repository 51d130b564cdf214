//! A short look around before going to sleep.
//!
//! Waking a thread that sleeps costs its waker ten microseconds and the
//! sleeper twice as many. So a worker whose last waits were short does not
//! sleep at once: for some fifty microseconds it looks for events itself.
//!
//! One worker of a runtime at most does so at a time, and only if the machine
//! has another processor for whoever is to produce the event. Who looks in vain
//! about every second time stops looking: that would cost more than sleeping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long to look around: twice what a wake costs.
const LIMIT: Duration = Duration::from_micros(50);

/// Waits that end within this are worth looking around for: what was looked
/// for, and the time a wake would have taken.
const SHORT_NS: u64 = 100_000;

/// What a look around in vain counts for.
const IN_VAIN_NS: u64 = SHORT_NS * 2;

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

/// One worker's habits. Only its owner uses it.
#[derive(Debug)]
pub(super) struct Spin {
    permit: Option<SpinPermit>,
    /// How long the last waits took, the later ones counting more.
    gap_ns: AtomicU64,
}

impl Spin {
    pub(super) fn new(permit: Option<SpinPermit>) -> Self {
        Self {
            permit,
            gap_ns: AtomicU64::new(SHORT_NS * 8),
        }
    }

    /// The moment a wait begins; `None` if nobody wants to know.
    pub(super) fn begin(&self) -> Option<Instant> {
        self.permit.as_ref().map(|_| Instant::now())
    }

    /// Looks around, if that is worth it, until `look` has found something or
    /// it has been long enough, `max_wait` at the most.
    pub(super) fn spin<T>(
        &self,
        begun: Option<Instant>,
        max_wait: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let (permit, begun) = (self.permit.as_ref()?, begun?);
        if self.gap_ns.load(Relaxed) > SHORT_NS {
            return None;
        }
        let _taken = permit.take()?;
        let limit = max_wait.map_or(LIMIT, |wait| wait.min(LIMIT));
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if begun.elapsed() >= limit {
                self.note(IN_VAIN_NS);
                return None;
            }
            std::hint::spin_loop();
        }
    }

    /// The wait is over, and something has come.
    pub(super) fn end(&self, begun: Option<Instant>) {
        let Some(begun) = begun else { return };
        let gap = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Capped, so that one long night does not outweigh many short naps.
        self.note(gap.min(SHORT_NS * 8));
    }

    fn note(&self, gap: u64) {
        let before = self.gap_ns.load(Relaxed);
        self.gap_ns.store((before * 3 + gap) / 4, Relaxed);
    }
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

    /// Waits that were over at once.
    fn naps(spin: &Spin, count: usize) {
        for _ in 0..count {
            spin.end(Some(Instant::now()));
        }
    }

    #[test]
    fn a_worker_looks_around_only_after_short_waits() {
        let spin = Spin::new(Some(permit()));
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            Some(())
        };
        assert!(spin.spin(spin.begin(), None, &mut look).is_none());
        naps(&spin, 20);
        assert!(spin.spin(spin.begin(), None, &mut look).is_some());
        let long_ago = Instant::now() - Duration::from_secs(1);
        spin.end(Some(long_ago));
        assert!(spin.spin(spin.begin(), None, &mut look).is_none());
        assert_eq!(looks, 1);
    }

    #[test]
    fn one_worker_at_a_time() {
        let permit = permit();
        let (first, second) = (
            Spin::new(Some(permit.clone())),
            Spin::new(Some(permit.clone())),
        );
        naps(&first, 20);
        naps(&second, 20);
        let both = first.spin(first.begin(), None, || {
            Some(second.spin(second.begin(), None, || Some(())).is_some())
        });
        assert_eq!(both, Some(false));
        assert!(second.spin(second.begin(), None, || Some(())).is_some());
    }

    #[test]
    fn the_search_ends_when_it_has_been_long_enough() {
        let spin = Spin::new(Some(permit()));
        naps(&spin, 20);
        let start = Instant::now();
        assert!(spin.spin(spin.begin(), None, || None::<()>).is_none());
        assert!(start.elapsed() >= LIMIT);
    }

    #[test]
    fn who_looks_in_vain_too_often_stops() {
        let spin = Spin::new(Some(permit()));
        naps(&spin, 20);
        let in_vain = (0..100)
            .take_while(|_| {
                let mut has_looked = false;
                let found = spin.spin(spin.begin(), None, || {
                    has_looked = true;
                    None::<()>
                });
                assert!(found.is_none());
                has_looked
            })
            .count();
        assert!((1..10).contains(&in_vain), "{in_vain}");
    }

    #[test]
    fn without_a_permit_nothing_is_measured() {
        let spin = Spin::new(None);
        assert!(spin.begin().is_none());
        assert!(spin.spin(None, None, || Some(())).is_none());
    }
}
