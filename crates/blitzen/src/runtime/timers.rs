//! The timers of a runtime: a shard for each worker.
//!
//! Shards are never freed. A runtime that ends gives its own back, and the next
//! one takes them; so a sleep can borrow its shard for good, and neither making
//! nor dropping one touches a count that others write. A sleep that outlives
//! its runtime finds the shard closed, or let to another.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::Duration;

use blitzen_util::pad::Padded;
use blitzen_util::shim::Mutex;
use blitzen_wheel::{Scale, Shard};

use super::clock::to_ns;
use super::context;
use super::handle::Handle;

/// The length of a tick, unless the builder was told another: timers are late
/// by half of it on average, and a worker wakes for them at most so often.
const TICK: Duration = Duration::from_micros(125);

/// The shortest tick: no system wakes a thread more exactly.
const SHORTEST_TICK: Duration = Duration::from_micros(1);

/// Shards of runtimes that have ended.
static FREE: Mutex<Vec<&'static Shard>> = Mutex::new(Vec::new());

/// What the builder was told about time.
pub(crate) struct TimeOptions {
    pub(crate) enabled: bool,
    pub(crate) start_paused: bool,
    pub(crate) resolution: Option<Duration>,
}

/// The shards of one runtime.
pub(crate) struct Timers {
    /// Unlike that of any other runtime.
    tenant: u64,
    shards: Box<[&'static Shard]>,
}

impl Timers {
    pub(crate) fn new(workers: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut free = FREE.lock();
        let shards = (0..workers)
            .map(|_| free.pop().unwrap_or_else(new_shard))
            .collect();
        Self {
            tenant: NEXT.fetch_add(1, Relaxed),
            shards,
        }
    }

    /// Lets timers in. `bell` makes what wakes a worker for a timer that others
    /// have armed.
    pub(crate) fn open(
        &self,
        start: std::time::Instant,
        resolution: Option<Duration>,
        bell: impl Fn(usize) -> Waker,
    ) {
        let tick = resolution.unwrap_or(TICK).max(SHORTEST_TICK);
        let tick_ns = tick.as_nanos().try_into().unwrap_or(u64::MAX);
        let scale = Scale::new(to_ns(start), tick_ns);
        for (worker, shard) in self.shards.iter().enumerate() {
            shard.open(self.tenant, scale, bell(worker));
        }
    }

    pub(crate) fn shard(&self, worker: usize) -> &'static Shard {
        self.shards[worker]
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = &'static Shard> {
        self.shards.iter().copied()
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

fn new_shard() -> &'static Shard {
    let shard: &'static Padded<Shard> = Box::leak(Box::new(Padded(Shard::new())));
    shard
}

/// Where a new timer belongs: to a runtime, and on a shard of it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) shard: &'static Shard,
    pub(crate) tenant: u64,
}

/// Where a timer belongs that is made here.
///
/// # Panics
/// Outside a runtime, and in one without timers.
#[inline]
#[track_caller]
pub(crate) fn here() -> Place {
    match context::with_current(place_in) {
        Ok(Some(place)) => place,
        Ok(None) => panic!(
            "A Tokio 1.x context was found, but timers are disabled. Call `enable_time` on the \
             runtime builder to enable timers."
        ),
        Err(error) => panic!("{error}"),
    }
}

fn place_in(handle: &Handle) -> Option<Place> {
    let world = handle.inner.world();
    let timers = world.timers()?;
    let worker = handle.inner.scheduler().current_worker();
    Some(Place {
        shard: timers.shard(worker.unwrap_or_else(|| world.any_worker())),
        tenant: timers.tenant,
    })
}

/// The shard of the calling thread, if it is a worker of the runtime that a
/// timer belongs to.
#[inline]
pub(crate) fn own_shard(tenant: u64) -> Option<&'static Shard> {
    let shard = context::with_current(|handle| {
        let timers = handle.inner.world().timers()?;
        let worker = match timers.tenant == tenant {
            true => handle.inner.scheduler().current_worker()?,
            false => return None,
        };
        Some(timers.shard(worker))
    });
    shard.ok().flatten()
}

/// What time it is in the runtime that a timer belongs to, as far as the
/// calling thread can know.
#[cold]
pub(crate) fn bent_now(tenant: u64) -> Option<std::time::Instant> {
    let now = context::with_current(|handle| {
        let world = handle.inner.world();
        let is_own = world.timers().is_some_and(|timers| timers.tenant == tenant);
        is_own.then(|| world.clock().now())
    });
    now.ok().flatten()
}
