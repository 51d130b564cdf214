//! The drivers of one worker: where it parks, and what it serves there.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use blitzen_driver::Driver;
use blitzen_sched::{Activity, advance_if_quiescent};
use blitzen_util::wake_cause::{self, WakeCause};

use super::io::IoOptions;
use super::timers::{FiredBy, Timers};
use super::world::RealWorld;

/// How long a worker that leaves waits for the operations that it has cancelled.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// The drivers of one worker.
pub(crate) struct WorkerDrivers {
    driver: Driver,
    worker: usize,
    activity: Activity,
    /// When the owner last woke for timers. Only the owner uses this.
    woken_ns: AtomicU64,
}

impl WorkerDrivers {
    pub(crate) fn new(io: &IoOptions, worker: usize) -> Self {
        Self {
            driver: Driver::new(io.driver.clone()),
            worker,
            activity: Activity::new(),
            woken_ns: AtomicU64::new(0),
        }
    }

    /// The worker's sockets and operations, in which it parks.
    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Whether the worker is idle.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Fires what is due and waits for more, at most `max_wait`. Owner only.
    pub(crate) fn turn(&self, world: &RealWorld, max_wait: Option<Duration>) {
        self.turn_until(world, max_wait, &|| false);
    }

    /// Like [`turn`](Self::turn); if the driver spins before it sleeps, `end_spin` can
    /// end that, and the turn.
    pub(crate) fn turn_until(
        &self,
        world: &RealWorld,
        max_wait: Option<Duration>,
        end_spin: &dyn Fn() -> bool,
    ) {
        // Timers that have fired may have queued tasks for the owner, which then must
        // not sleep.
        if self.fire_as(world, FiredBy::Running) || max_wait == Some(Duration::ZERO) {
            must(self.driver.turn(Some(Duration::ZERO)));
            return;
        }
        let wakes_ns = world
            .timers()
            .and_then(|timers| timers.begin_park(self.worker));
        let is_idle = self.activity.set_idle();
        match world.clock().is_frozen() {
            true => self.wait_frozen(world, max_wait, is_idle),
            false => self.wait(world, max_wait, wakes_ns, end_spin),
        }
        self.activity.set_active();
        blitzen_sched::end_park();
        if let Some(timers) = world.timers() {
            timers.end_park(self.worker);
        }
        if self.fire_as(world, FiredBy::Unparked) {
            self.woken_ns.store(world.clock().now_ns(), Relaxed);
        }
    }

    /// Waits for events, for at most `max_wait` and about until the next timer.
    fn wait(
        &self,
        world: &RealWorld,
        max_wait: Option<Duration>,
        wakes_ns: Option<u64>,
        end_spin: &dyn Fn() -> bool,
    ) {
        let until_next = wakes_ns.map(|wakes_ns| self.until(world, wakes_ns));
        let limit = match (max_wait, until_next) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        must(self.driver.turn_until(limit, end_spin));
    }

    /// The time until a timer, or longer if the owner has just woken for other timers.
    fn until(&self, world: &RealWorld, wakes_ns: u64) -> Duration {
        let resolution = world.timers().map_or(Duration::ZERO, Timers::resolution);
        let resolution_ns = resolution.as_nanos().try_into().unwrap_or(u64::MAX);
        let again_ns = self.woken_ns.load(Relaxed).saturating_add(resolution_ns);
        let until_ns = wakes_ns.max(again_ns);
        Duration::from_nanos(until_ns.saturating_sub(world.clock().now_ns()))
    }

    /// Waits for anything but timers. If everything else is idle, advances the paused
    /// clock instead.
    #[cold]
    fn wait_frozen(&self, world: &RealWorld, max_wait: Option<Duration>, is_idle: bool) {
        if !(is_idle && advance_if_quiescent(world, Some(&self.activity))) {
            must(self.driver.turn(max_wait));
        }
    }

    #[inline]
    fn fire_as(&self, world: &RealWorld, fired_by: FiredBy) -> bool {
        world
            .timers()
            .is_some_and(|timers| timers.fire(self.worker, fired_by, world.clock()))
    }

    /// Fires what is due; returns whether there was anything. Any thread may call this.
    pub(crate) fn serve(&self, world: &RealWorld) -> bool {
        self.fire_as(world, FiredBy::Other) | (self.serve_driver() > 0)
    }

    /// The same for an owner that is stuck. Leaves what another thread is about to fire to that
    /// thread, and never waits for it.
    pub(crate) fn try_serve(&self, world: &RealWorld) {
        self.fire_as(world, FiredBy::Helper);
        self.serve_driver();
    }

    fn serve_driver(&self) -> usize {
        wake_cause::during(WakeCause::Io, || must(self.driver.serve()))
    }

    /// Ends a wait of the owner, or its next one.
    pub(crate) fn interrupt(&self) {
        self.activity.wake();
        self.driver.interrupt();
    }

    /// Called when the owner leaves its thread, and may not come back for a long time.
    pub(crate) fn leave(&self) {
        must(self.driver.leave().map(|()| 0));
    }

    /// Ends what waits here. Owner only, and the last thing it does.
    pub(crate) fn shut_down(&self) {
        // The memory of operations that have not ended by then is leaked.
        let _unfinished = must(self.driver.shutdown(CANCEL_WAIT));
    }
}

fn must(found: std::io::Result<usize>) -> usize {
    match found {
        Ok(found) => found,
        Err(error) => driver_failed(&error),
    }
}

/// Panics because the kernel refuses to wait on the driver's own descriptor: other
/// code has closed it, and no socket or timer of the process would work any more.
#[cold]
fn driver_failed(error: &std::io::Error) -> ! {
    eprintln!(
        "blitzen: the I/O driver failed: {error}. Some code in this process closed a descriptor \
         that it does not own; look for a file descriptor that is closed twice."
    );
    std::process::abort();
}
