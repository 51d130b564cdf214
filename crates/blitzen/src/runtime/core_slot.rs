//! The one place from which the tasks of a current-thread runtime are run.
//!
//! Several threads may block on the runtime at once. One of them takes the
//! seat; the others wait for their own futures, and for the seat to become free.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use blitzen_sched::{CoreGuard, Worker};
use blitzen_util::coop;

use super::handle::Handle;
use super::quiescence::{self, BlockOnParker};
use super::world::RealWorld;

/// The seat, and who waits for it.
pub(crate) struct CoreSlot {
    state: Mutex<State>,
}

struct State {
    /// `None` while somebody has it.
    worker: Option<Box<Worker>>,
    waiting: VecDeque<Arc<Guest>>,
}

/// A thread that blocks on the runtime: where it sleeps, and whether its
/// future was woken.
struct Guest {
    woken: AtomicBool,
    parker: BlockOnParker,
    /// To interrupt a worker that sleeps at its drivers.
    world: Arc<RealWorld>,
    seated: AtomicBool,
}

impl Guest {
    fn call(&self) {
        // Release, met by the Acquire swap of who polls the future.
        if !self.woken.swap(true, Release) {
            self.parker.call();
            // Relaxed: a guest that is just taking the seat looks at `woken`
            // before it sleeps.
            if self.seated.load(Relaxed) {
                self.world.drivers(0).interrupt();
            }
        }
    }
}

impl quiescence::Guest for Guest {
    fn parker(&self) -> &BlockOnParker {
        &self.parker
    }
}

impl Wake for Guest {
    fn wake(self: Arc<Self>) {
        self.call();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
    }
}

impl CoreSlot {
    pub(crate) fn new(worker: Box<Worker>) -> Self {
        Self {
            state: Mutex::new(State {
                worker: Some(worker),
                waiting: VecDeque::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes the worker for good, to close it.
    pub(crate) fn take(&self) -> Option<Box<Worker>> {
        self.state().worker.take()
    }

    /// Runs `future`, and the runtime's tasks whenever the seat is free.
    pub(crate) fn block_on<F: Future>(&self, handle: &Handle, future: Pin<&mut F>) -> F::Output {
        let guest = Arc::new(Guest {
            woken: AtomicBool::new(true),
            parker: BlockOnParker::new(),
            world: handle.inner.world().clone(),
            seated: AtomicBool::new(false),
        });
        let waker = Waker::from(guest.clone());
        let mut future = future;
        loop {
            if let Some(taken) = self.try_sit(&guest) {
                return taken.seat().drive(future, &waker, &guest.woken);
            }
            if let Some(output) = self.wait_standing(future.as_mut(), &waker, &guest) {
                return output;
            }
        }
    }

    fn try_sit<'a>(&'a self, guest: &'a Arc<Guest>) -> Option<Taken<'a>> {
        let mut state = self.state();
        let Some(worker) = state.worker.take() else {
            if !state.waiting.iter().any(|other| Arc::ptr_eq(other, guest)) {
                state.waiting.push_back(guest.clone());
            }
            return None;
        };
        state.waiting.retain(|other| !Arc::ptr_eq(other, guest));
        drop(state);
        guest.seated.store(true, Relaxed);
        guest.world.drivers(0).rest().get_up();
        Some(Taken {
            world: &guest.world,
            seat: Some(CoreGuard::take(worker)),
            slot: self,
        })
    }

    /// Polls `future` when it is woken; `None` when the seat may be free.
    fn wait_standing<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        guest: &Arc<Guest>,
    ) -> Option<F::Output> {
        let mut cx = Context::from_waker(waker);
        let _counted = guest.world.quiescence().enlist(guest.clone());
        loop {
            // Acquire by the poll's own synchronisation: see `Guest::call`.
            if guest
                .woken
                .swap(false, std::sync::atomic::Ordering::Acquire)
                && let Poll::Ready(output) = coop::with_budget(|| future.as_mut().poll(&mut cx))
            {
                self.stop_waiting(guest);
                return Some(output);
            }
            if self.state().worker.is_some() {
                return None;
            }
            guest.parker.sleep(&guest.world);
        }
    }

    fn stop_waiting(&self, guest: &Arc<Guest>) {
        let mut state = self.state();
        state.waiting.retain(|other| !Arc::ptr_eq(other, guest));
        // It may have been told of a free seat that it does not take.
        if state.worker.is_some() {
            Self::tell_next(&mut state);
        }
    }

    fn tell_next(state: &mut State) {
        if let Some(next) = state.waiting.pop_front() {
            next.parker.call();
        }
    }
}

/// The seat, given back on drop: also when the future panics.
struct Taken<'a> {
    seat: Option<CoreGuard>,
    slot: &'a CoreSlot,
    world: &'a RealWorld,
}

impl Taken<'_> {
    fn seat(&self) -> &CoreGuard {
        match &self.seat {
            Some(seat) => seat,
            None => unreachable!("given back on drop only"),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            let worker = seat.leave();
            self.world.drivers(0).leave();
            self.world.drivers(0).rest().lie_down();
            let mut state = self.slot.state();
            state.worker = Some(worker);
            CoreSlot::tell_next(&mut state);
        }
    }
}
