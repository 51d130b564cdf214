//! Whether everything in a runtime waits: only then does a clock that stands
//! still move on by itself, to the next timer.
//!
//! Those who can do something are the workers, the threads that block on the
//! runtime, and blocking work. The last of them to lie down finds all others at
//! rest, and moves the clock.
//!
//! L1. One rests while its `lain` equals its `stirs`. Whoever wakes it adds to
//!     `stirs` first, and so does it itself when it gets up: as long as neither
//!     changes it has rested all the time.
//! L2. Who wakes somebody does so before it lies down itself; blocking work
//!     counts from before it is queued until after it has woken its waiter.
//!     Threads that the runtime does not know may do something at any moment.
//! L3. Who lies down, or ends blocking work, says so, passes a fence, and then
//!     judges. One fence is last: that one sees everybody at rest.
//! L4. All rest if each does at one look, and nobody has moved until the next:
//!     between the two, everybody rested at once. What was woken before the
//!     first look is seen by the second, by L2.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, fence};
use std::task::Wake;

use blitzen_util::park::Parker;
use blitzen_util::shim::Mutex;

use super::world::RealWorld;

/// Whether somebody rests.
pub(crate) struct ActivityMark {
    stirs: AtomicU64,
    lain: AtomicU64,
    /// The `stirs` with which it last got up. Its own.
    up: AtomicU64,
}

impl ActivityMark {
    /// Of somebody who rests, since nobody runs it yet.
    pub(crate) const fn new() -> Self {
        Self {
            stirs: AtomicU64::new(0),
            lain: AtomicU64::new(0),
            up: AtomicU64::new(0),
        }
    }

    /// Somebody wakes it.
    #[inline]
    pub(crate) fn stir(&self) {
        // Release, met by the Acquire in `mark`: what is to be done is known
        // before.
        self.stirs.fetch_add(1, Release);
    }

    /// It runs. Also said for it by who makes it run.
    pub(crate) fn get_up(&self) {
        let before = self.stirs.fetch_add(1, Relaxed);
        self.up.store(before + 1, Relaxed);
    }

    /// It is about to sleep; false if somebody has woken it since it got up.
    pub(crate) fn lie_down(&self) -> bool {
        let stirs = self.stirs.load(Relaxed);
        // Release, met by the Acquire in `mark`: L2.
        self.lain.store(stirs, Release);
        fence(SeqCst); // L3
        stirs == self.up.load(Relaxed)
    }

    /// The same number as before if it has rested all the time; `None` if it
    /// does not rest.
    fn mark(&self) -> Option<u64> {
        // Acquire, met by the Releases of `stir` and `lie_down`.
        let lain = self.lain.load(Acquire);
        (self.stirs.load(Acquire) == lain).then_some(lain)
    }
}

/// The parker of a thread that blocks on a runtime without being its worker.
pub(crate) struct BlockOnParker {
    rest: ActivityMark,
    parker: Parker,
}

impl BlockOnParker {
    /// Of somebody who is up.
    pub(crate) fn new() -> Self {
        let rest = ActivityMark::new();
        rest.get_up();
        Self {
            rest,
            parker: Parker::new(),
        }
    }

    pub(crate) fn call(&self) {
        self.rest.stir();
        self.parker.unpark();
    }

    /// Sleeps until it is called, or was before, and moves a clock that stands
    /// still if nothing else is left to do.
    pub(crate) fn sleep(&self, world: &RealWorld) {
        while self.rest.lie_down() && world.clock().is_frozen() && judge(world, Some(&self.rest)) {}
        self.parker.park();
        self.rest.get_up();
    }
}

impl Wake for BlockOnParker {
    fn wake(self: Arc<Self>) {
        self.call();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
    }
}

/// Somebody with a parker.
pub(crate) trait Guest: Send + Sync {
    fn parker(&self) -> &BlockOnParker;
}

impl Guest for BlockOnParker {
    fn parker(&self) -> &BlockOnParker {
        self
    }
}

/// Everybody in a runtime but its workers.
pub(crate) struct Quiescence {
    guests: Mutex<Vec<Arc<dyn Guest>>>,
    /// Blocking work that is queued or runs.
    occupied: AtomicUsize,
    /// Held by whoever judges.
    bench: Mutex<()>,
}

impl Quiescence {
    pub(crate) const fn new() -> Self {
        Self {
            guests: Mutex::new(Vec::new()),
            occupied: AtomicUsize::new(0),
            bench: Mutex::new(()),
        }
    }

    /// Counts a guest in until it is dropped.
    pub(crate) fn enlist(&self, guest: Arc<dyn Guest>) -> CountedThread<'_> {
        self.guests.lock().push(guest.clone());
        CountedThread {
            quiescence: self,
            guest,
        }
    }

    /// Blocking work is about to be queued.
    pub(crate) fn occupy(&self) {
        // Relaxed: whoever does so lies down later, and that is a Release.
        self.occupied.fetch_add(1, Relaxed);
    }

    /// The marks of all who rest; `None` if somebody does not.
    fn marks(&self, world: &RealWorld) -> Option<Vec<u64>> {
        let workers = world.all_drivers().map(|drivers| drivers.rest().mark());
        let guests = self.guests.lock();
        let guests = guests.iter().map(|guest| guest.parker().rest.mark());
        workers.chain(guests).collect()
    }
}

/// A guest that is counted.
pub(crate) struct CountedThread<'a> {
    quiescence: &'a Quiescence,
    guest: Arc<dyn Guest>,
}

impl Drop for CountedThread<'_> {
    fn drop(&mut self) {
        let mut guests = self.quiescence.guests.lock();
        let own = Arc::as_ptr(&self.guest).cast::<()>();
        guests.retain(|guest| Arc::as_ptr(guest).cast::<()>() != own);
    }
}

/// Blocking work has ended, and whoever waited for it is woken.
pub(crate) fn vacate(world: &RealWorld) {
    // Release, met by the Acquire in `judge`: L2. Acquire to keep the chain.
    world.quiescence().occupied.fetch_sub(1, AcqRel);
    fence(SeqCst); // L3
    while world.clock().is_frozen() && judge(world, None) {}
}

/// Whether all rest; if so it moves the clock to the next timer and fires what
/// is due. Called by somebody who has lain down, and who has got up if the
/// answer is true; or by nobody.
pub(crate) fn judge(world: &RealWorld, caller: Option<&ActivityMark>) -> bool {
    let quiescence = world.quiescence();
    let bench = quiescence.bench.lock();
    let before = quiescence.marks(world);
    // Acquire, met by the Release in `vacate`.
    if before.is_none() || quiescence.occupied.load(Acquire) > 0 || world.has_operations() {
        return false;
    }
    let found = world.serve_all();
    if !found {
        // L4. Sockets that were ready have woken somebody, or found is true.
        let next_ns = world
            .next_timer_ns()
            .filter(|_| quiescence.marks(world) == before);
        let Some(next_ns) = next_ns else {
            return false;
        };
        world.clock().move_to(next_ns);
    }
    // Nobody else finds all at rest until the timers have fired.
    match caller {
        Some(rest) => rest.get_up(),
        None => quiescence.occupy(),
    }
    drop(bench); // wakers are foreign code
    world.fire_all();
    if caller.is_none() {
        quiescence.occupied.fetch_sub(1, AcqRel); // as in `vacate`, whose loop judges again
        fence(SeqCst);
    }
    true
}
