//! Pausing the clock, and advancing it by hand.

use std::time::Duration;

use crate::runtime::clock::ClockError;
use crate::runtime::{Handle, RuntimeFlavor};
use crate::task::yield_now;

/// Pauses the clock of the current runtime.
///
/// A paused clock moves only when it is [advanced](advance), and by itself, to the
/// next timer, when nothing else is left to do: every worker and every thread that
/// blocks on the runtime waits, no socket is ready, and no file operation and no
/// blocking work is running. The runtime does not know what other threads do.
///
/// Blocking work counts as running until it ends, as in Tokio. So code in
/// [`spawn_blocking`](crate::task::spawn_blocking) or
/// [`block_in_place`](crate::task::block_in_place) that waits for a timer of the same runtime
/// waits for ever: [`advance`] the clock, or await the timer in a task.
///
/// A runtime of any flavour can be paused; see also
/// [`start_paused`](crate::runtime::Builder::start_paused).
///
/// # Examples
/// ```
/// use blitzen::time::{self, Duration, Instant};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// time::pause();
/// let start = Instant::now();
/// time::sleep(Duration::from_secs(3600)).await; // takes no time
/// assert!(start.elapsed() >= Duration::from_secs(3600));
/// # });
/// ```
///
/// # Panics
/// Panics if the clock is paused already, and outside a runtime.
#[track_caller]
pub fn pause() {
    let handle = Handle::current();
    let clock = handle.inner.world().clock();
    if let Err(ClockError::Frozen | ClockError::NotFrozen) = clock.pause() {
        panic!("time is already frozen");
    }
    // Deadlines are rounded up to ticks. The clock stands at the beginning of one, so that a
    // sleep ends when the clock is advanced by exactly its duration.
    if let Some(timers) = handle.inner.world().timers() {
        clock.move_to(timers.next_tick_ns(clock.now_ns()));
    }
    // Workers that are parked until a timer is due compute their wake time anew.
    handle.inner.world().interrupt_all();
}

/// Pauses the clock, as [`pause`] does, and refuses a multi-thread runtime.
///
/// # Panics
/// Panics where [`pause`] does, and in a multi-thread runtime.
#[doc(hidden)]
#[track_caller]
pub fn pause_current_thread() {
    assert!(
        Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread,
        "`time::pause()` requires the `current_thread` runtime flavor, which is the default of \
         `#[tokio::test]`"
    );
    pause();
}

/// Resumes the clock, from the moment at which it stands.
///
/// # Examples
/// ```
/// use blitzen::time::{self, Duration, Instant};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// time::pause();
/// time::advance(Duration::from_secs(3600)).await;
/// let paused_at = Instant::now();
/// time::resume();
/// assert!(Instant::now() >= paused_at);
/// # });
/// ```
///
/// # Panics
/// Panics if the clock is not paused, and outside a runtime.
#[track_caller]
pub fn resume() {
    let handle = Handle::current();
    if let Err(ClockError::Frozen | ClockError::NotFrozen) = handle.inner.world().clock().resume() {
        panic!("time is not frozen");
    }
    handle.inner.world().interrupt_all();
}

/// Advances the paused clock by `duration`, fires the timers that are due then, and
/// yields once to the tasks that wait for them.
///
/// The clock jumps in one step past all the timers on the way. To stop at each of
/// them, use [`sleep`](super::sleep) instead.
///
/// # Examples
/// ```
/// use blitzen::time::{self, Duration, Instant};
///
/// # let runtime = blitzen::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let start = Instant::now();
/// time::advance(Duration::from_micros(1)).await;
/// assert_eq!(start.elapsed(), Duration::from_micros(1));
/// # });
/// ```
///
/// # Cancel safety
/// The first poll advances the clock; dropping the future later changes nothing.
///
/// # Panics
/// Panics if the clock is not paused or overflows, and outside a runtime.
pub async fn advance(duration: Duration) {
    let handle = Handle::current();
    let world = handle.inner.world();
    if let Err(ClockError::Frozen | ClockError::NotFrozen) = world.clock().advance(duration) {
        panic!("time is not frozen");
    }
    world.fire_all();
    drop(handle);
    yield_now().await;
}
