//! The timers of a runtime: a shard for each worker.
//!
//! Shards are never freed. A runtime that ends gives its shards back, and the next one
//! takes them. So a sleep can hold a `&'static` shard, and neither creating nor dropping
//! one writes a shared reference count. A sleep that outlives its runtime finds the
//! shard closed, or in use by another runtime.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::{Duration, Instant};

use blitzen_util::pad::Padded;
use blitzen_util::shim::Mutex;
use blitzen_wheel::{TickScale, TimerMigration, TimerShard};

use super::clock::{Clock, to_ns};
use super::context;
use super::handle::Handle;
use super::world::RealWorld;

/// The shortest sleep of a worker that has just woken for timers, unless the builder
/// sets another. A wake-up costs some 20 µs of processor time. So waking for any number
/// of timers takes less than a tenth of a processor, and they are late by half of this
/// on average.
const RESOLUTION: Duration = Duration::from_micros(250);

/// Ticks in that time: a timer that expires alone is late by at most about one tick.
const TICKS_PER_RESOLUTION: u32 = 10;

/// The shortest tick: no system wakes a thread more precisely.
const SHORTEST_TICK: Duration = Duration::from_micros(1);

/// Shards of runtimes that have ended.
static FREE: Mutex<Vec<&'static TimerShard>> = Mutex::new(Vec::new());

/// The builder's settings for time.
pub(crate) struct TimeOptions {
    pub(crate) enabled: bool,
    pub(crate) start_paused: bool,
    pub(crate) resolution: Option<Duration>,
}

/// The shards of one runtime.
pub(crate) struct Timers {
    /// Different for every runtime.
    runtime_id: u64,
    shards: Box<[&'static TimerShard]>,
    migration: TimerMigration,
    resolution: Duration,
    /// Set when the shards are opened.
    scale: OnceLock<TickScale>,
}

/// Which thread fires the timers that are due on a worker's shard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FiredBy {
    /// The worker, between two tasks.
    Running,
    /// The worker, which was just unparked.
    Unparked,
    /// Another thread, on its behalf.
    Other,
    /// The same, which must not wait for the worker or for another such thread.
    Helper,
}

impl Timers {
    pub(crate) fn new(workers: usize, resolution: Option<Duration>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut free = FREE.lock();
        let shards = (0..workers)
            .map(|_| free.pop().unwrap_or_else(new_shard))
            .collect();
        Self {
            runtime_id: NEXT.fetch_add(1, Relaxed),
            shards,
            migration: TimerMigration::new(workers),
            resolution: resolution.unwrap_or(RESOLUTION),
            scale: OnceLock::new(),
        }
    }

    /// Opens the shards for timers. `worker_waker` creates the waker of a worker, for a
    /// timer that another thread arms.
    pub(crate) fn open(&self, start: Instant, worker_waker: impl Fn(usize) -> Waker) {
        let tick = (self.resolution / TICKS_PER_RESOLUTION).max(SHORTEST_TICK);
        let tick_ns = tick.as_nanos().try_into().unwrap_or(u64::MAX);
        let scale = *self
            .scale
            .get_or_init(|| TickScale::new(to_ns(start), tick_ns));
        for (worker, shard) in self.shards.iter().enumerate() {
            shard.open(self.runtime_id, scale, worker_waker(worker));
        }
    }

    /// Returns the beginning of the first tick at `now_ns` or after it.
    pub(crate) fn next_tick_ns(&self, now_ns: u64) -> u64 {
        let scale = self.scale.get().expect("a runtime opens its timers");
        scale.tick_start_ns(scale.tick_of_deadline(now_ns))
    }

    fn place(&self, worker: usize) -> TimerPlace {
        TimerPlace {
            shard: self.shards[worker],
            runtime_id: self.runtime_id,
        }
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = &'static TimerShard> {
        self.shards.iter().copied()
    }

    /// The shortest sleep of a worker that has just woken for timers.
    pub(crate) fn resolution(&self) -> Duration {
        self.resolution
    }

    /// Notes that a worker parks; returns when it has to wake for timers, if it does.
    pub(crate) fn begin_park(&self, worker: usize) -> Option<u64> {
        self.shards[worker].begin_park();
        self.migration
            .begin_park(worker, |worker| self.shards[worker].next_ns())
    }

    /// Notes that a worker is unparked.
    pub(crate) fn end_park(&self, worker: usize) {
        self.migration.end_park(worker);
        self.shards[worker].end_park();
    }

    /// Fires a worker's timers that are due, and those of parked workers if it is their
    /// migrator; returns whether there was one.
    #[inline]
    pub(crate) fn fire(&self, worker: usize, fired_by: FiredBy, clock: &Clock) -> bool {
        // A thread that fires on behalf of a stuck migrator has all of its duties.
        match self
            .migration
            .must_fire_for_parked(worker, fired_by == FiredBy::Unparked)
        {
            true => self.fire_for_parked(worker, fired_by, clock),
            false => {
                let shard = self.shards[worker];
                shard.next_ns() != u64::MAX && fire(shard, fired_by, clock.now_ns())
            }
        }
    }

    fn fire_for_parked(&self, worker: usize, fired_by: FiredBy, clock: &Clock) -> bool {
        let next_ns = |worker: usize| self.shards[worker].next_ns();
        let parked = self.migration.parked_workers();
        let first_ns = parked.map(next_ns).fold(next_ns(worker), u64::min);
        if first_ns == u64::MAX {
            return false;
        }
        let now_ns = clock.now_ns();
        now_ns >= first_ns
            && self.migration.parked_workers().fold(
                fire(self.shards[worker], fired_by, now_ns),
                |fired, parked| fire(self.shards[parked], fired_by, now_ns) | fired,
            )
    }

    /// Ends all waits for timers, and refuses new ones.
    pub(crate) fn close(&self) {
        for shard in self.shards() {
            shard.close();
        }
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.close();
        FREE.lock().extend(self.shards());
    }
}

#[inline]
fn fire(shard: &TimerShard, fired_by: FiredBy, now_ns: u64) -> bool {
    match fired_by {
        FiredBy::Helper => shard.try_fire(now_ns),
        FiredBy::Running | FiredBy::Unparked | FiredBy::Other => shard.fire(now_ns),
    }
}

fn new_shard() -> &'static TimerShard {
    let shard: &'static Padded<TimerShard> = Box::leak(Box::new(Padded(TimerShard::new())));
    shard
}

/// The runtime and the shard that a new timer belongs to.
#[derive(Clone, Copy)]
pub(crate) struct TimerPlace {
    pub(crate) shard: &'static TimerShard,
    pub(crate) runtime_id: u64,
}

thread_local! {
    /// Where timers of the calling thread's runtime belong.
    static HERE: Cell<Option<TimerPlace>> = const { Cell::new(None) };
}

/// Sets the place for timers of the calling thread; returns the previous one.
pub(crate) fn enter(place: Option<TimerPlace>) -> Option<TimerPlace> {
    HERE.replace(place)
}

/// Returns the place for timers of a thread that enters a runtime: its own shard if it
/// is a worker, otherwise any.
pub(crate) fn place_in(handle: &Handle) -> Option<TimerPlace> {
    let world = handle.inner.world();
    let timers = world.timers()?;
    let worker = handle.inner.scheduler().current_worker();
    Some(timers.place(worker.unwrap_or_else(|| world.any_worker())))
}

/// Sets the place for timers of a thread that begins to run a worker.
pub(crate) fn enter_worker(world: &RealWorld, worker: usize) {
    HERE.set(world.timers().map(|timers| timers.place(worker)));
}

/// Returns the place for a timer that the calling thread creates.
///
/// # Panics
/// Outside a runtime, and in one without timers.
#[inline]
#[track_caller]
pub(crate) fn here() -> TimerPlace {
    match HERE.get() {
        Some(place) => place,
        None => nowhere(),
    }
}

#[cold]
#[track_caller]
fn nowhere() -> ! {
    match context::with_current(|_| ()) {
        Ok(()) => panic!(
            "A Tokio 1.x context was found, but timers are disabled. Call `enable_time` on the \
             runtime builder to enable timers."
        ),
        Err(error) => panic!("{error}"),
    }
}

/// Returns the shard on which the calling thread should arm a timer, if it is in the
/// runtime that the timer belongs to.
#[inline]
pub(crate) fn shard_here(runtime_id: u64) -> Option<&'static TimerShard> {
    let place = HERE.get().filter(|place| place.runtime_id == runtime_id)?;
    Some(place.shard)
}

/// Whether the calling thread is a worker of the runtime that a timer belongs to.
pub(crate) fn is_worker_of(runtime_id: u64) -> bool {
    let is_worker = context::with_current(|handle| {
        let timers = handle.inner.world().timers();
        timers.is_some_and(|timers| timers.runtime_id == runtime_id)
            && handle.inner.scheduler().current_worker().is_some()
    });
    is_worker.unwrap_or(false)
}

/// Returns the time of the runtime that a timer belongs to, if the calling thread is in
/// it.
#[cold]
pub(crate) fn now_in_runtime(runtime_id: u64) -> Option<Instant> {
    let now = context::with_current(|handle| {
        let world = handle.inner.world();
        let is_own = world
            .timers()
            .is_some_and(|timers| timers.runtime_id == runtime_id);
        is_own.then(|| world.clock().now())
    });
    now.ok().flatten()
}
