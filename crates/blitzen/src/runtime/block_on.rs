//! Running one future on the calling thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use blitzen_sched::{ServeWhileBlocked, count_thread};
use blitzen_task::span;
use blitzen_util::coop;
use blitzen_util::entered::{self, Guard};
use blitzen_util::wait;

use super::block_on_parker::BlockOnParker;
use super::context::{self, KeepContext};
use super::current_thread;
use super::handle::Handle;
use super::inner::Flavor;
use super::seeded_random::SeededRandom;

/// Marks the thread as driving tasks.
///
/// # Panics
/// If it is doing so already.
#[track_caller]
fn enter_runtime() -> Guard {
    match entered::enter() {
        Some(guard) => guard,
        None => panic!(
            "Cannot start a runtime from within a runtime. This happens because a function (like \
             `block_on`) attempted to block the current thread while the thread is being used to \
             drive asynchronous tasks. If you are in an async function, use `.await` on the future \
             instead of blocking on it."
        ),
    }
}

/// Runs `future` without running any tasks.
#[track_caller]
pub(crate) fn block_on<F: Future>(handle: &Handle, future: F) -> F::Output {
    let _entered = enter_runtime();
    let _runtime = context::enter(handle);
    let world = handle.inner.world();
    let _random = world.seeded_random().map(SeededRandom::enter);
    let parker = Arc::new(BlockOnParker::new());
    let _counted = count_thread(&**world, parker.clone());
    let waker = Waker::from(parker.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(span::of_block_on(future));
    // What it waits for may depend on a coroutine of this thread.
    let serving = match can_run_coroutines() {
        true => ServeWhileBlocked::begin(&waker),
        false => None,
    };
    loop {
        let poll = || wait::isolated(|| future.as_mut().poll(&mut cx));
        if let Poll::Ready(output) = coop::with_budget(poll) {
            return output;
        }
        if !serving.as_ref().is_some_and(ServeWhileBlocked::run_one) {
            parker.park(world);
        }
    }
}

/// Whether coroutines of this thread may run while the calling code blocks.
fn can_run_coroutines() -> bool {
    #[cfg(feature = "coro")]
    return crate::coro::thread_state::can_suspend();
    #[cfg(not(feature = "coro"))]
    false
}

/// Runs `future`, and, in a current-thread runtime, the tasks beside it.
#[track_caller]
pub(crate) fn block_on_runtime<F: Future>(handle: &Handle, future: F) -> F::Output {
    match handle.inner.flavor() {
        Flavor::MultiThread => block_on(handle, future),
        Flavor::CurrentThread(core) => {
            let _entered = enter_runtime();
            let _runtime = context::enter(handle);
            let _deferring = context::defer_here();
            let _random = handle
                .inner
                .world()
                .seeded_random()
                .map(SeededRandom::enter);
            let future = pin!(span::of_block_on(future));
            let future = pin!(KeepContext::new(handle, future));
            current_thread::block_on(core, handle, future)
        }
    }
}
