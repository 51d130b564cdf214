//! Stopping the clock, and moving it by hand.

use std::time::Duration;

use crate::runtime::clock::ClockError;
use crate::runtime::{Handle, RuntimeFlavor};
use crate::task::yield_now;

/// Stops the clock of the current runtime.
///
/// From now on it moves only when it is [advanced](advance), or by itself, to
/// the next timer, when nothing else is left to do: every worker and every
/// thread that blocks on the runtime waits, no socket is ready, no file
/// operation and no blocking work is under way. Threads that the runtime does
/// not know may be at work all the same.
///
/// It works in runtimes of every flavour; see also
/// [`start_paused`](crate::runtime::Builder::start_paused).
///
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
/// If it stands still already, and outside a runtime.
#[track_caller]
pub fn pause() {
    let handle = Handle::current();
    if let Err(ClockError::Frozen | ClockError::NotFrozen) = handle.inner.world().clock().pause() {
        panic!("time is already frozen");
    }
    // Those who sleep until a timer is due have to think again.
    handle.inner.world().interrupt_all();
}

/// [`pause`] where a multi-thread runtime is to refuse it.
///
/// # Panics
/// As [`pause`], and in a multi-thread runtime.
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

/// Lets the clock go on, from where it stands.
///
/// ```
/// use blitzen::time::{self, Duration, Instant};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// time::pause();
/// time::advance(Duration::from_secs(3600)).await;
/// let stood = Instant::now();
/// time::resume();
/// assert!(Instant::now() >= stood);
/// # });
/// ```
///
/// # Panics
/// If it does not stand still, and outside a runtime.
#[track_caller]
pub fn resume() {
    let handle = Handle::current();
    if let Err(ClockError::Frozen | ClockError::NotFrozen) = handle.inner.world().clock().resume() {
        panic!("time is not frozen");
    }
    handle.inner.world().interrupt_all();
}

/// Moves the clock, which stands still, forward, fires the timers that this
/// makes due, and gives way once to the tasks that wait for them.
///
/// The clock goes to its new time in one step, past all the timers on the way.
/// To have it stop at each, [`sleep`](super::sleep) instead.
///
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
/// The clock has moved with the first poll.
///
/// # Panics
/// If the clock does not stand still, or cannot show a time as late as that; and
/// outside a runtime.
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
