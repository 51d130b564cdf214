//! A short spin before a thread sleeps.
//!
//! Waking a thread that sleeps costs its waker ten microseconds and the sleeper twice
//! as many. So a thread whose last waits were short does not sleep at once: for up to
//! fifty microseconds it looks itself for what it waits for.
//!
//! Of the threads that share a permit at most one spins at a time, and only if the
//! machine has another processor for whoever is to produce the event. After three
//! microseconds it offers its processor to other threads between two looks; if one has run
//! for long, the spin is over, and the next ones become rare.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::kernel_thread::processor_ns;
use crate::spin_policy::{LIMIT_NS, SpinPolicy};

/// A look and an offer of the processor take less; if they take longer, another thread has run.
const TAKEN_NS: u128 = 10_000;

/// How long a spin keeps the processor before it offers it to others. A partner on another
/// processor answers within that; one on the same processor cannot.
const EAGER: Duration = Duration::from_micros(3);

/// The permission to spin, shared by the workers of a runtime.
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
    is_taken: Arc<AtomicBool>,
    /// Whether there is another processor.
    is_useful: bool,
    /// Whether there is another one that this process may use.
    is_eager: bool,
}

impl SpinPermit {
    /// Creates a permit that nobody has taken.
    pub fn new() -> Self {
        Self {
            is_taken: Arc::default(),
            is_useful: processors() > 1,
            is_eager: thread::available_parallelism().map_or(1, usize::from) > 1,
        }
    }

    fn take(&self) -> Option<TakenPermit<'_>> {
        // Relaxed: the permit guards no memory.
        let is_ours = self.is_useful && !self.is_taken.swap(true, Relaxed);
        is_ours.then(|| TakenPermit(&self.is_taken))
    }
}

impl Default for SpinPermit {
    fn default() -> Self {
        Self::new()
    }
}

/// How many processors the machine has. Not those that this process may use: whoever
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

struct TakenPermit<'a>(&'a AtomicBool);

impl Drop for TakenPermit<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// A wait that has begun: see [`Spin::begin`].
#[derive(Clone, Copy, Debug)]
pub struct SpinWait {
    began: Instant,
    /// Whether the spin found something while the thread had its processor, if there was one.
    spin_found: Option<bool>,
}

impl SpinWait {
    /// Returns how long the wait has taken.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let wait = Spin::new(Some(SpinPermit::new())).begin().unwrap();
    /// assert!(wait.elapsed() <= wait.elapsed());
    /// ```
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// One thread's spinning. Only its owner uses it, but for [`note_source`](Self::note_source).
///
/// ```
/// use blitzen_util::spin::{Spin, SpinPermit};
///
/// let spin = Spin::new(Some(SpinPermit::new()));
/// let mut wait = spin.begin();
/// let found = spin.spin(&mut wait, None, || Some("an event"));
/// // Otherwise: sleep, until there is one.
/// spin.end(wait, 1);
/// # assert!(found.is_none(), "nothing is known of how long waits are");
/// ```
#[derive(Debug)]
pub struct Spin {
    permit: Option<SpinPermit>,
    policy: SpinPolicy,
}

impl Spin {
    /// Creates the state of a thread that has not waited yet. Without a permit it
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

    /// Begins a wait; returns `None` if the thread never spins.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// assert!(Spin::new(Some(SpinPermit::new())).begin().is_some());
    /// ```
    pub fn begin(&self) -> Option<SpinWait> {
        self.permit.as_ref().map(|_| SpinWait {
            began: Instant::now(),
            spin_found: None,
        })
    }

    /// Spins, if the policy says so, until `look` has found something or it has been
    /// long enough, at most `max_wait`.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// let nothing = spin.spin(&mut spin.begin(), None, || None::<()>);
    /// assert!(nothing.is_none());
    /// ```
    pub fn spin<T>(
        &self,
        wait: &mut Option<SpinWait>,
        max_wait: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let (permit, wait) = (self.permit.as_ref()?, wait.as_mut()?);
        if !self.policy.begin_wait() {
            return None;
        }
        let _taken = permit.take()?;
        let limit = Duration::from_nanos(LIMIT_NS);
        let limit = max_wait.map_or(limit, |wait| wait.min(limit));
        let began = wait.elapsed();
        let mut before = began;
        loop {
            let found = look();
            let now = wait.elapsed();
            let was_taken = (now - before).as_nanos() >= TAKEN_NS;
            if found.is_some() || was_taken || now >= limit {
                wait.spin_found = Some(found.is_some() && !was_taken);
                return found;
            }
            before = now;
            match permit.is_eager && now < began + EAGER {
                true => std::hint::spin_loop(),
                false => thread::yield_now(),
            }
        }
    }

    /// Notes that a source was added, whose events waits may bring. Any thread may call it.
    ///
    /// ```
    /// # use blitzen_util::spin::Spin;
    /// Spin::new(None).note_source();
    /// ```
    pub fn note_source(&self) {
        if self.permit.is_some() {
            self.policy.note_source();
        }
    }

    /// Runs `sleep`, in which the thread sleeps, and now and then measures what that costs.
    ///
    /// ```
    /// # use blitzen_util::spin::Spin;
    /// assert_eq!(Spin::new(None).sleep(|| 7), 7);
    /// ```
    pub fn sleep<T>(&self, sleep: impl FnOnce() -> T) -> T {
        let is_measured = self.permit.is_some() && self.policy.begin_sleep();
        let began_ns = is_measured.then(processor_ns).flatten();
        let slept = sleep();
        if let Some(began_ns) = began_ns
            && let Some(now_ns) = processor_ns()
        {
            self.policy.end_sleep(now_ns.saturating_sub(began_ns));
        }
        slept
    }

    /// Ends a wait whose time was up. How long it took says nothing of how long events take, but a
    /// spin in vain was one.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// spin.end_timed_out(spin.begin());
    /// ```
    pub fn end_timed_out(&self, wait: Option<SpinWait>) {
        if let Some(SpinWait {
            spin_found: Some(false),
            ..
        }) = wait
        {
            self.policy.note_vain_spin();
        }
    }

    /// Ends a wait that has brought `events` events.
    ///
    /// ```
    /// # use blitzen_util::spin::{Spin, SpinPermit};
    /// let spin = Spin::new(Some(SpinPermit::new()));
    /// spin.end(spin.begin(), 1); // a short one
    /// ```
    pub fn end(&self, wait: Option<SpinWait>, events: usize) {
        if let Some(wait) = wait {
            let ns = u64::try_from(wait.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.policy.end_wait(ns, events, wait.spin_found);
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// A permit for a machine with enough processors.
    fn permit() -> SpinPermit {
        SpinPermit {
            is_taken: Arc::default(),
            is_useful: true,
            is_eager: true,
        }
    }

    /// A thread whose last waits were short.
    fn eager(permit: &SpinPermit) -> Spin {
        let spin = Spin::new(Some(permit.clone()));
        for _ in 0..20 {
            spin.policy.end_wait(1_000, 1, None);
        }
        spin
    }

    fn spin_for<T>(spin: &Spin, look: impl FnMut() -> Option<T>) -> Option<T> {
        spin.spin(&mut spin.begin(), None, look)
    }

    #[test]
    fn a_thread_spins_after_short_waits_only() {
        assert!(spin_for(&Spin::new(Some(permit())), || Some(())).is_none());
        assert!(spin_for(&eager(&permit()), || Some(())).is_some());
    }

    #[test]
    fn one_thread_spins_at_a_time() {
        let permit = permit();
        let (first, second) = (eager(&permit), eager(&permit));
        let both = spin_for(&first, || Some(spin_for(&second, || Some(())).is_some()));
        assert_eq!(both, Some(false));
        assert!(spin_for(&second, || Some(())).is_some());
    }

    #[test]
    fn a_spin_that_finds_nothing_ends() {
        assert!(spin_for(&eager(&permit()), || None::<()>).is_none());
    }

    #[test]
    fn a_spin_ends_once_another_thread_has_had_the_processor() {
        let mut looks = 0;
        let found = spin_for(&eager(&permit()), || {
            looks += 1;
            // As long as if another thread had run meanwhile.
            let began = Instant::now();
            while began.elapsed().as_nanos() < TAKEN_NS {}
            None::<()>
        });
        assert_eq!((found, looks), (None, 1));
    }

    #[test]
    fn spins_that_end_with_the_time_become_rare() {
        let spin = eager(&permit());
        let spins = (0..100).filter(|_| {
            let mut wait = spin.begin();
            let mut looks = 0;
            let nothing = spin.spin(&mut wait, Some(Duration::ZERO), || {
                looks += 1;
                None::<()>
            });
            assert_eq!(nothing, None);
            spin.end_timed_out(wait);
            looks > 0
        });
        assert!((2..10).contains(&spins.count()));
    }

    #[test]
    fn without_a_permit_nothing_is_measured() {
        let spin = Spin::new(None);
        assert!(spin.begin().is_none());
        assert!(spin_for(&spin, || Some(())).is_none());
    }
}
