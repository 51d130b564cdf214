//! What a workload may ask of a runtime, and who answers.
//!
//! A1. Every runtime of a row has the same number of workers, and the thread in
//!     `block_on` is not one of them.
//! A2. A runtime lives for one sample and takes its threads with it, so that no
//!     contender runs beside another's threads.
//! A3. An adapter adds nothing a user of that library would not write: at most a
//!     poll that unwraps a `Result`.

#[cfg(feature = "io")]
mod compio;
#[cfg(feature = "io")]
mod glommio;
pub(crate) mod may;
#[cfg(feature = "io")]
mod monoio;
mod smol;
mod tokio_like;

use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

#[cfg(feature = "io")]
pub(crate) use compio::Compio;
#[cfg(feature = "io")]
pub(crate) use glommio::Glommio;
#[cfg(feature = "io")]
pub(crate) use monoio::Monoio;
pub(crate) use smol::{Smol, SmolStatic};
pub(crate) use tokio_like::{
    Blitzen, BlitzenCompletion, BlitzenCurrentThread, BlitzenFull, BlitzenHistograms,
    BlitzenSampled, BlitzenThinned, Tokio, TokioConsole, TokioCurrentThread, TokioHistogram,
};

/// Runs tasks on worker threads.
pub(crate) trait Rt: Sized + 'static {
    /// Resolves to what the task returned; dropping it may cancel the task.
    type Join<T: Send + 'static>: Future<Output = T> + Unpin + Send + 'static;

    fn start(workers: usize) -> Self;

    /// Runs `future` on this thread, beside the workers.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns on the runtime this thread works for or blocks on.
    fn spawn<F>(future: F) -> Self::Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Lets a task run on its own.
    fn detach<T: Send + 'static>(join: Self::Join<T>);

    fn yield_now() -> impl Future<Output = ()> + Send;
}

/// A runtime of one thread, which is the one that starts it, for tasks that stay there.
pub(crate) trait SingleThread: 'static {
    /// Starts, runs `future` to its end, and ends; tasks that are left go with it.
    fn run<F: Future>(future: F) -> F::Output;

    /// Spawns on the runtime of this thread, and lets the task run on its own.
    fn spawn_local(future: impl Future<Output = ()> + 'static);
}

/// Runs a task on a worker and hands its output to this thread.
pub(crate) fn run_inside<R: Rt, F>(rt: &R, future: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    rt.block_on(async { R::spawn(future).await })
}

/// Starts a task on a worker, from this thread, and does not wait for it.
pub(crate) fn spawn_from_outside<R: Rt, F>(rt: &R, future: F) -> R::Join<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut future = Some(future);
    let spawn = |_cx: &mut Context<'_>| {
        let future = future.take().expect("polled once");
        Poll::Ready(R::spawn(future))
    };
    rt.block_on(poll_fn(spawn))
}

/// Runs closures that block on threads of their own.
pub(crate) trait Blocking: Rt {
    fn spawn_blocking<T, F>(work: F) -> impl Future<Output = T> + Unpin + Send + 'static
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;
}

/// A set of tasks that hands out their results as they finish.
pub(crate) trait TaskSet: Rt {
    type Set: Send;

    fn new_set() -> Self::Set;
    fn spawn_into<F>(set: &mut Self::Set, future: F)
    where
        F: Future<Output = u64> + Send + 'static;
    fn join_next(set: &mut Self::Set) -> impl Future<Output = Option<u64>> + Send;
}

/// A runtime workload, for each runtime.
macro_rules! each_runtime {
    ($work:ident) => {
        vec![
            $crate::row::Contender::named("blitzen", $work::<$crate::rt::Blitzen>),
            $crate::row::Contender::named("tokio", $work::<$crate::rt::Tokio>),
            $crate::row::Contender::named("smol", $work::<$crate::rt::Smol>),
            $crate::row::Contender::named("smol-static", $work::<$crate::rt::SmolStatic>),
        ]
    };
}
pub(crate) use each_runtime;
