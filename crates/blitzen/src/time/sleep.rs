//! Waiting until a deadline.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use blitzen_sync::resource::SleepSpans;
use blitzen_util::coop;
use blitzen_util::wait::{self, WaitKind};
use blitzen_wheel::{Timer, TimerShard, TimerState};

use super::Instant;
use crate::runtime::clock::{self, to_ns};
use crate::runtime::{context, timers};

/// Waits for `duration`.
///
/// The future is ready no earlier than `duration` after this call; the page of
/// [`time`](super) says how much later. A `duration` that overflows the clock
/// counts as some thirty years. A `duration` of zero waits for the next tick of the
/// timers, so that a loop of such sleeps lets other tasks run and I/O proceed.
///
/// # Examples
/// ```
/// use blitzen::time::{Duration, Instant, sleep};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let start = Instant::now();
/// sleep(Duration::from_secs(60)).await;
/// assert_eq!(start.elapsed(), Duration::from_secs(60));
/// # });
/// ```
///
/// # Cancel safety
/// Dropping the future removes the timer.
///
/// # Panics
/// Panics outside a runtime, and in a runtime without
/// [`enable_time`](crate::runtime::Builder::enable_time).
#[inline]
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::after(duration)
}

/// Waits until `deadline`. A deadline in the past is ready at the first poll.
///
/// # Examples
/// ```
/// use blitzen::time::{Duration, Instant, sleep_until};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let deadline = Instant::now() + Duration::from_secs(60);
/// sleep_until(deadline).await;
/// assert_eq!(Instant::now(), deadline);
/// # });
/// ```
///
/// # Cancel safety
/// Dropping the future removes the timer.
///
/// # Panics
/// Panics outside a runtime, and in a runtime without
/// [`enable_time`](crate::runtime::Builder::enable_time).
#[inline]
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(deadline)
}

pin_project_lite::pin_project! {
    /// The future of [`sleep`] and [`sleep_until`].
    ///
    /// It belongs to the runtime in which it was created, and its timer is armed by
    /// the first poll. [`reset`](Self::reset) makes it wait again, at less cost than a
    /// new one; for that it has to be pinned.
    ///
    /// Polling it after its runtime has been shut down panics.
    ///
    /// # Examples
    /// ```
    /// use blitzen::time::{Duration, Instant, sleep};
    ///
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut idle = Box::pin(sleep(Duration::from_secs(30)));
    /// loop {
    ///     blitzen::select! {
    ///         () = &mut idle => break,
    ///         () = async { /* a request */ } => {
    ///             idle.as_mut().reset(Instant::now() + Duration::from_secs(30));
    ///             # break;
    ///         }
    ///     }
    /// }
    /// # });
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        deadline: Instant,
        first_poll: FirstPoll,
        spans: SleepSpans,
        #[pin]
        timer: Timer<&'static TimerShard>,
    }
}

/// What the first poll of a [`Sleep`] does, after it was created or reset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstPoll {
    /// Reads the clock: a deadline that has passed is ready at once.
    ReadClock,
    /// Arms the timer. The deadline was in the future when it was set, so reading
    /// the clock is not worth its cost.
    Arm,
    /// Arms the timer, although the deadline is the moment it was set: a loop of
    /// sleeps of no length must let other tasks and I/O proceed. With a paused clock
    /// it yields instead, so that the clock does not move.
    Yield,
}

impl Sleep {
    #[inline]
    #[track_caller]
    pub(crate) fn after(duration: Duration) -> Self {
        let mut sleep = Self::new(Instant::after(duration));
        sleep.first_poll = match duration.is_zero() {
            true => FirstPoll::Yield,
            false => FirstPoll::Arm,
        };
        sleep
    }

    #[inline]
    #[track_caller]
    pub(crate) fn new(deadline: Instant) -> Self {
        let place = timers::here();
        Self {
            deadline,
            first_poll: FirstPoll::ReadClock,
            spans: SleepSpans::new(),
            timer: Timer::new(place.shard, place.runtime_id),
        }
    }

    /// Returns the deadline.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant, sleep_until};
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # let _inside = runtime.enter();
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns `true` if the timer has fired. A `Sleep` that was never polled has not
    /// fired, even if its deadline has passed.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, sleep};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let mut nap = Box::pin(sleep(Duration::from_secs(1)));
    /// assert!(!nap.is_elapsed());
    /// nap.as_mut().await;
    /// assert!(nap.is_elapsed());
    /// # });
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.timer.state() == TimerState::Fired
    }

    /// Sets another deadline, earlier or later, also after the timer has fired. A
    /// task that waits for this `Sleep` is woken at the new deadline.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::time::{Duration, Instant, sleep};
    /// # let runtime = blitzen::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// let start = Instant::now();
    /// let mut nap = Box::pin(sleep(Duration::from_secs(1)));
    /// nap.as_mut().reset(start + Duration::from_secs(5));
    /// nap.await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(5));
    /// # });
    /// ```
    #[inline]
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let mut this = self.project();
        let before = std::mem::replace(this.deadline, deadline);
        *this.first_poll = FirstPoll::ReadClock;
        this.timer.as_mut().reset(to_ns(deadline.into_std()));
        if deadline < before && this.timer.state() == TimerState::Armed {
            expire_if_due(this.timer, deadline);
        }
    }

    /// Sets a deadline that is in the future; see [`reset`](Self::reset).
    pub(crate) fn reset_ahead(mut self: Pin<&mut Self>, deadline: Instant) {
        self.as_mut().reset(deadline);
        *self.project().first_poll = FirstPoll::Arm;
    }
}

/// Fires `timer` if `deadline` has passed, and returns whether it has. Otherwise
/// that would happen only when the worker next looks at its timers.
#[inline]
fn expire_if_due(timer: Pin<&mut Timer<&'static TimerShard>>, deadline: Instant) -> bool {
    let now = match clock::ever_paused() {
        false => std::time::Instant::now(),
        true => match timers::now_in_runtime(timer.runtime_id()) {
            Some(now) => now,
            // This thread is not in the timer's runtime: a worker of that one
            // will fire it.
            None => return false,
        },
    };
    let is_due = deadline.into_std() <= now;
    if is_due {
        timer.expire();
    }
    is_due
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let spans = this.spans.clone();
        let _entered = spans.enter();
        let spent = coop::poll_proceed(cx);
        spans.polled(spent.is_ready());
        let spent = ready!(spent);
        loop {
            match this.timer.state() {
                TimerState::Fired => break,
                TimerState::Armed if this.timer.as_mut().update_waker(cx.waker()) => {
                    spans.polled(false);
                    return pending_until(to_ns(this.deadline.into_std()));
                }
                TimerState::Armed => {} // it was just now
                TimerState::Idle => {
                    let first_poll = std::mem::replace(this.first_poll, FirstPoll::ReadClock);
                    if first_poll == FirstPoll::ReadClock || clock::ever_paused() {
                        if first_poll == FirstPoll::Yield {
                            context::defer(cx.waker());
                            return Poll::Pending;
                        }
                        if expire_if_due(this.timer.as_mut(), *this.deadline) {
                            break;
                        }
                    }
                    let shard = timers::shard_here(this.timer.runtime_id());
                    let deadline_ns = to_ns(this.deadline.into_std());
                    spans.armed(|| this.deadline.saturating_duration_since(Instant::now()));
                    if this
                        .timer
                        .as_mut()
                        .arm(shard, deadline_ns, cx.waker())
                        .is_ok()
                    {
                        spans.polled(false);
                        return pending_until(deadline_ns);
                    }
                }
                TimerState::Closed => return poll_closed(&this.timer),
            }
        }
        spans.polled(true);
        spent.made_progress();
        Poll::Ready(())
    }
}

/// Notes that the task waits for a timer.
#[inline]
fn pending_until(deadline_ns: u64) -> Poll<()> {
    wait::pending(WaitKind::Timer, wait::deadline_identity(deadline_ns));
    Poll::Pending
}

/// The runtime is shutting down, or has. It cancels its own tasks when they return
/// `Pending`; anybody else would wait for ever.
#[cold]
fn poll_closed(timer: &Timer<&'static TimerShard>) -> Poll<()> {
    match timers::is_worker_of(timer.runtime_id()) {
        true => Poll::Pending,
        false => panic!("A Tokio 1.x context was found, but it is being shutdown."),
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
