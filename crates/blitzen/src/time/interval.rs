//! Ticking at a fixed period.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Instant, Sleep};

/// How late a tick may come before it counts as missed. What is later than its
/// timer's resolution and a busy worker explain was held up by the program.
const LATE: Duration = Duration::from_millis(5);

/// Ticks now, and then every `period`.
///
/// ```
/// use blitzen::time::{Duration, Instant, interval};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let start = Instant::now();
/// let mut interval = interval(Duration::from_millis(10));
/// interval.tick().await; // at once
/// interval.tick().await;
/// assert_eq!(start.elapsed(), Duration::from_millis(10));
/// # });
/// ```
///
/// # Panics
/// If `period` is zero; outside a runtime, and in one without timers.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Ticks at `start`, and then every `period`.
///
/// ```
/// use blitzen::time::{Duration, Instant, interval_at};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let start = Instant::now() + Duration::from_millis(50);
/// let mut interval = interval_at(start, Duration::from_millis(10));
/// assert_eq!(interval.tick().await, start);
/// # });
/// ```
///
/// # Panics
/// If `period` is zero; outside a runtime, and in one without timers.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero.");
    Interval {
        sleep: Box::pin(Sleep::new(start)),
        period,
        missed: MissedTickBehavior::default(),
    }
}

/// What an [`Interval`] does about ticks that came too late to be seen in time.
///
/// With a period of 10 ms and a program that is held up from 12 to 35 ms:
///
/// | | ticks |
/// |---|---|
/// | `Burst` | 0, 10, *held up*, 35, 35, 40, 50 |
/// | `Delay` | 0, 10, *held up*, 35, 45, 55 |
/// | `Skip` | 0, 10, *held up*, 35, 40, 50 |
///
/// ```
/// use blitzen::time::{Duration, MissedTickBehavior, advance, interval};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let mut interval = interval(Duration::from_millis(10));
/// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// let start = interval.tick().await;
/// advance(Duration::from_millis(35)).await;
/// interval.tick().await; // late, at once
/// assert_eq!(interval.tick().await - start, Duration::from_millis(40));
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Catches up: the missed ticks come one after another, until there are as
    /// many as there should be.
    #[default]
    Burst,
    /// Goes on from the late tick: the next is a whole period after it.
    Delay,
    /// Leaves the missed ticks out: the next comes when it would have.
    Skip,
}

impl MissedTickBehavior {
    /// When the tick comes after one that was due at `due` and is seen `now`.
    fn next(self, due: Instant, now: Instant, period: Duration) -> Option<Instant> {
        let late = now.duration_since(due);
        if late <= LATE {
            return due.checked_add(period);
        }
        match self {
            Self::Burst => due.checked_add(period),
            Self::Delay => now.checked_add(period),
            Self::Skip => {
                let beyond = Duration::from_nanos_u128(late.as_nanos() % period.as_nanos());
                now.checked_add(period - beyond)
            }
        }
    }
}

/// Ticks at a fixed period; see [`interval`] and [`interval_at`].
///
/// ```
/// use blitzen::time::{Duration, interval};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let mut heartbeat = interval(Duration::from_secs(1));
/// for _ in 0..3 {
///     heartbeat.tick().await;
///     // … send it
/// }
/// # });
/// ```
#[derive(Debug)]
pub struct Interval {
    /// Until the next tick. In a box, so that the interval itself can be moved.
    sleep: Pin<Box<Sleep>>,
    period: Duration,
    missed: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick, and tells when it was due.
    ///
    /// ```
    /// # use blitzen::time::{Duration, interval};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut interval = interval(Duration::from_secs(1));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await - first, Duration::from_secs(1));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// A tick that has not been returned has not happened: it comes again.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// [`tick`](Self::tick) as a function. If it answers `Ready` the task will
    /// not be woken for the next tick before it asks again.
    ///
    /// ```
    /// # use blitzen::time::{Duration, interval};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut interval = interval(Duration::from_secs(1));
    /// std::future::poll_fn(|cx| interval.poll_tick(cx)).await;
    /// # });
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.sleep.as_mut().poll(cx));
        let due = self.sleep.deadline();
        let now = Instant::now();
        let next = self.missed.next(due, now, self.period);
        let next = next.unwrap_or_else(Instant::far_future);
        match next > now {
            true => self.sleep.as_mut().reset_ahead(next),
            false => self.sleep.as_mut().reset(next),
        }
        Poll::Ready(due)
    }

    /// The next tick comes a period from now.
    ///
    /// ```
    /// # use blitzen::time::{Duration, Instant, advance, interval};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut interval = interval(Duration::from_secs(10));
    /// interval.tick().await;
    /// advance(Duration::from_secs(7)).await;
    /// interval.reset();
    /// let start = Instant::now();
    /// assert_eq!(interval.tick().await - start, Duration::from_secs(10));
    /// # });
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// The next tick comes at once.
    ///
    /// ```
    /// # use blitzen::time::{Duration, Instant, interval};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut interval = interval(Duration::from_secs(10));
    /// let start = interval.tick().await;
    /// interval.reset_immediately();
    /// assert_eq!(interval.tick().await, start);
    /// # });
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// The next tick comes so long from now.
    ///
    /// ```
    /// # use blitzen::time::{Duration, Instant, interval};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut interval = interval(Duration::from_secs(10));
    /// let start = interval.tick().await;
    /// interval.reset_after(Duration::from_secs(3));
    /// assert_eq!(interval.tick().await - start, Duration::from_secs(3));
    /// # });
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(Instant::after(after));
    }

    /// The next tick comes at `deadline`.
    ///
    /// ```
    /// # use blitzen::time::{Duration, Instant, interval};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut interval = interval(Duration::from_secs(10));
    /// let start = interval.tick().await;
    /// interval.reset_at(start + Duration::from_secs(3));
    /// assert_eq!(interval.tick().await - start, Duration::from_secs(3));
    /// # });
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline);
    }

    /// What it does about missed ticks.
    ///
    /// ```
    /// # use blitzen::time::{Duration, MissedTickBehavior, interval};
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let interval = interval(Duration::from_secs(1));
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Changes what it does about missed ticks.
    ///
    /// ```
    /// # use blitzen::time::{Duration, MissedTickBehavior, interval};
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let mut interval = interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// The time between two ticks.
    ///
    /// ```
    /// # use blitzen::time::{Duration, interval};
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let second = Duration::from_secs(1);
    /// assert_eq!(interval(second).period(), second);
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }
}
