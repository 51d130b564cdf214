//! Ticks at a fixed period.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Instant, Sleep};

/// How late a tick may come before it counts as missed. The timer's resolution and
/// a busy worker explain less; a program that is held up explains more.
const LATE: Duration = Duration::from_millis(5);

/// Creates an [`Interval`] that ticks now, and then every `period`.
///
/// # Examples
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
/// Panics if `period` is zero, outside a runtime, and in a runtime without
/// [`enable_time`](crate::runtime::Builder::enable_time).
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Creates an [`Interval`] that ticks at `start`, and then every `period`.
///
/// # Examples
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
/// Panics if `period` is zero, outside a runtime, and in a runtime without
/// [`enable_time`](crate::runtime::Builder::enable_time).
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero.");
    Interval {
        sleep: Box::pin(Sleep::new(start)),
        period,
        missed: MissedTickBehavior::default(),
    }
}

/// What an [`Interval`] does when ticks were missed.
///
/// A tick is missed if it is taken more than 5 ms late, because the program was
/// busy with something else.
///
/// With a period of 10 ms and a program that is held up from 12 to 35 ms:
///
/// | | ticks |
/// |---|---|
/// | `Burst` | 0, 10, *held up*, 35, 35, 40, 50 |
/// | `Delay` | 0, 10, *held up*, 35, 45, 55 |
/// | `Skip` | 0, 10, *held up*, 35, 40, 50 |
///
/// # Examples
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
    /// Catches up: the missed ticks come one right after another.
    #[default]
    Burst,
    /// Delays all later ticks: the next one comes a whole period after the late
    /// one.
    Delay,
    /// Skips the missed ticks: the next one comes at the next multiple of the
    /// period.
    Skip,
}

impl MissedTickBehavior {
    /// Returns when the next tick is due, after one that was due at `due` and is
    /// taken `now`.
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

/// A timer that ticks at a fixed period; see [`interval`] and [`interval_at`].
///
/// # Examples
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
    /// Waits for the next tick, and returns the moment at which it was due.
    ///
    /// # Examples
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
    /// Dropping the future takes no tick: the next call waits for the same one.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick; see [`tick`](Self::tick).
    ///
    /// After `Ready` the task is not woken for the following tick until it polls
    /// again.
    ///
    /// # Examples
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

    /// Makes the next tick come one period from now.
    ///
    /// # Examples
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

    /// Makes the next tick come at once.
    ///
    /// # Examples
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

    /// Makes the next tick come `after` from now.
    ///
    /// # Examples
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

    /// Makes the next tick come at `deadline`.
    ///
    /// # Examples
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

    /// Returns what the interval does when ticks were missed.
    ///
    /// # Examples
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

    /// Sets what the interval does when ticks were missed.
    ///
    /// # Examples
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

    /// Returns the time between two ticks.
    ///
    /// # Examples
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
