//! `block_on` of a current-thread runtime.
//!
//! Several threads may block on the runtime at once. One of them takes the core and
//! runs the tasks; the others poll their own futures, and wait for the core to
//! become free.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use blitzen_sched::{
    Activity, BlockedThread, CoreGuard, CoreSlot, CoreWait, CoreWaiter, FutureWake, WakeTarget,
    Worker, count_thread, participant_left,
};
use blitzen_util::coop;

use super::block_on_parker::BlockOnParker;
use super::handle::Handle;
use super::world::RealWorld;

/// A thread that blocks on the runtime: where it sleeps, and whether its future was
/// woken.
struct BlockOnThread {
    wake: FutureWake,
    parker: BlockOnParker,
    /// To interrupt the worker's driver turn.
    world: Arc<RealWorld>,
}

impl BlockOnThread {
    fn wake_future(&self) {
        let target = self.wake.wake();
        if target != WakeTarget::Nobody {
            self.parker.unpark();
        }
        if target == WakeTarget::Driver {
            self.world.drivers(0).interrupt();
        }
    }
}

impl Wake for BlockOnThread {
    fn wake(self: Arc<Self>) {
        self.wake_future();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_future();
    }
}

impl BlockedThread for BlockOnThread {
    fn activity(&self) -> &Activity {
        self.parker.activity()
    }
}

impl CoreWaiter for BlockOnThread {
    fn notify_core_free(&self) {
        self.parker.unpark();
    }
}

/// Runs `future`, and the runtime's tasks whenever the core is free.
pub(crate) fn block_on<F: Future>(
    core_slot: &CoreSlot<Box<Worker>>,
    handle: &Handle,
    mut future: Pin<&mut F>,
) -> F::Output {
    let thread = Arc::new(BlockOnThread {
        wake: FutureWake::new(),
        parker: BlockOnParker::new(),
        world: handle.inner.world().clone(),
    });
    let waker = Waker::from(thread.clone());
    let wait = core_slot.wait(thread.clone());
    let counted = count_thread(&*thread.world, thread.clone());
    loop {
        if let Some(core) = core_slot.take() {
            drop(wait);
            let core = TakenCore::enter(core, core_slot, &thread);
            drop(counted); // from now on the worker counts
            return core.guard().drive(future, &waker, &thread.wake);
        }
        if let Some(output) = wait_for_core(future.as_mut(), &waker, &thread, &wait) {
            return output;
        }
    }
}

/// Polls `future` when it is woken; returns `None` when the core may be free.
fn wait_for_core<F: Future>(
    mut future: Pin<&mut F>,
    waker: &Waker,
    thread: &Arc<BlockOnThread>,
    wait: &CoreWait<'_, Box<Worker>>,
) -> Option<F::Output> {
    let mut cx = Context::from_waker(waker);
    loop {
        if thread.wake.take() {
            // The poll may block: the thread leaves the queue, so that a core that
            // becomes free meanwhile goes to another.
            wait.leave();
            if let Poll::Ready(output) = coop::with_budget(|| future.as_mut().poll(&mut cx)) {
                return Some(output);
            }
        }
        if wait.enqueue_unless_free() {
            return None;
        }
        thread.parker.park(&thread.world);
    }
}

/// The core, given back on drop: also when the future panics.
struct TakenCore<'a> {
    guard: Option<CoreGuard>,
    slot: &'a CoreSlot<Box<Worker>>,
    thread: &'a BlockOnThread,
}

impl<'a> TakenCore<'a> {
    fn enter(
        core: Box<Worker>,
        slot: &'a CoreSlot<Box<Worker>>,
        thread: &'a BlockOnThread,
    ) -> Self {
        thread.wake.set_driving();
        thread.world.drivers(0).activity().set_active();
        Self {
            guard: Some(CoreGuard::enter(core)),
            slot,
            thread,
        }
    }

    fn guard(&self) -> &CoreGuard {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("given back on drop only"),
        }
    }
}

impl Drop for TakenCore<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            let core = guard.leave();
            let drivers = self.thread.world.drivers(0);
            drivers.leave();
            drivers.activity().set_undriven();
            self.slot.put_back(core);
            participant_left(&*self.thread.world);
        }
    }
}
