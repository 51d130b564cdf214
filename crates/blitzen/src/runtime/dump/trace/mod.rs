//! Traces in Tokio's shape: where a future waits, by polling it once without letting it proceed.
//!
//! ```text
//!   trace_with ──► poll ──► Root::poll ──► … ──► leaf ──► callback, with the addresses of
//!                                                         the first and the last frame
//! ```
//!
//! While a trace is made the task has no budget, so every leaf that spends one arrives at
//! [`refuse_leaf`] and returns `Pending`. Leaves that spend none are recorded as they start to
//! wait, like those of a watched poll.
//!
//! T1. The pointer to the callback is in the thread-local only while `trace_with` runs, and no
//!     coroutine is suspended meanwhile.
//! T2. A callback that is running is not in the thread-local: leaves that it polls itself are not
//!     traced.

mod stack;
mod tree;

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::future::Future;
use std::mem;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use blitzen_task::Id;
use blitzen_util::{coop, wait};

use super::deep;
use crate::runtime::{Handle, context, trace_root};

pub(super) use stack::LeafStack;
pub use crate::runtime::trace_root::Root;
pub use stack::{Backtrace, BacktraceFrame, BacktraceSymbol};

/// Whether a dump unparks every worker. Tokio's workers each look at their own tasks, which a
/// program can tell by its park hooks.
pub(super) const UNPARKS_WORKERS: bool = true;

type Callback = dyn FnMut(&TraceMeta);

/// What the leaves of the current poll call.
#[derive(Clone, Copy)]
enum Tracer {
    /// No trace is being made.
    None,
    Ready(NonNull<Callback>),
    /// The callback is running (T2).
    Running,
}

thread_local! {
    static TRACER: Cell<Tracer> = const { Cell::new(Tracer::None) };
}

/// Restores the tracer on drop.
struct RestoreTracer(Tracer);

impl Drop for RestoreTracer {
    fn drop(&mut self) {
        // A thread that is ending traces nothing.
        let _ = TRACER.try_with(|tracer| tracer.set(self.0));
    }
}

fn replace_tracer(tracer: Tracer) -> RestoreTracer {
    let before = TRACER.try_with(|slot| slot.replace(tracer));
    RestoreTracer(before.unwrap_or(Tracer::None))
}

/// Where a stack begins and ends, for the callback of [`trace_with`].
///
/// # Examples
///
/// ```
/// use blitzen::runtime::dump::TraceMeta;
///
/// fn has_root(meta: &TraceMeta) -> bool {
///     meta.root_addr.is_some()
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct TraceMeta {
    /// The address of the function that polls the innermost [`Root`], if there is one. The frames
    /// of that function and those outside it belong to whoever polls the traced future.
    pub root_addr: Option<*const c_void>,
    /// The address of the function that has called the callback. The frames of that function and
    /// those inside it belong to the trace.
    pub trace_leaf_addr: *const c_void,
}

/// Calls `f`, which polls a future, and calls `trace_leaf` wherever that future would wait.
///
/// Locks, channels, timers and sockets that are polled by `f` return `Poll::Pending`, even if they
/// could proceed, and the task is woken later. So the future has to be polled again, outside a
/// trace, to proceed. [`Trace::capture`] does the same, and records stacks.
///
/// # Examples
///
/// ```
/// use std::future::{Future, poll_fn};
/// use std::task::Poll;
/// use blitzen::runtime::dump::{Trace, trace_with};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut future = Box::pin(blitzen::task::yield_now());
/// let mut leaves = 0;
/// Trace::root(poll_fn(|cx| {
///     let poll = trace_with(|| future.as_mut().poll(cx), |_| leaves += 1);
///     assert!(poll.is_pending());
///     Poll::Ready(())
/// }))
/// .await;
/// assert_eq!(leaves, 1);
/// future.await;
/// # });
/// ```
pub fn trace_with<FN, FT, R>(f: FN, mut trace_leaf: FT) -> R
where
    FN: FnOnce() -> R,
    FT: FnMut(&TraceMeta),
{
    // T1: a coroutine that is suspended in here would leave the callback behind.
    #[cfg(feature = "coro")]
    let _outside = crate::coro::Outside::enter();
    deep::set_recorder();
    let callback: NonNull<dyn FnMut(&TraceMeta) + '_> = NonNull::from(&mut trace_leaf);
    // SAFETY: this changes only the lifetime. The pointer is used while it is in the thread-local,
    // and the guard below takes it out before `trace_leaf` is dropped (T1).
    let callback: NonNull<Callback> = unsafe { mem::transmute(callback) };
    let _restore = replace_tracer(Tracer::Ready(callback));
    wait::recorded(|| coop::with_trace(refuse_leaf, f))
}

/// Calls the callback of the trace that is being made, for the leaf that has called the function
/// at `entry`; returns false if there is no trace.
pub(super) fn call_tracer(entry: *const c_void) -> bool {
    match TRACER.try_with(Cell::get) {
        Ok(Tracer::Ready(mut callback)) => {
            let _restore = replace_tracer(Tracer::Running);
            let meta = TraceMeta {
                root_addr: trace_root::current(),
                trace_leaf_addr: entry,
            };
            // SAFETY: `trace_with` is still running (T1), and nobody else has the pointer (T2).
            let callback = unsafe { callback.as_mut() };
            callback(&meta);
            true
        }
        Ok(Tracer::Running) => true,
        Ok(Tracer::None) | Err(_) => false,
    }
}

/// Called by each leaf that finds no budget during a trace.
#[inline(never)]
fn refuse_leaf(waker: &Waker) {
    call_tracer(refuse_leaf as fn(&Waker) as *const c_void);
    defer_untraced(waker);
}

/// Stops a leaf that is being traced; returns `Ready` outside a trace.
#[doc(hidden)]
#[inline(never)]
pub fn trace_leaf(cx: &mut Context<'_>) -> Poll<()> {
    let entry = trace_leaf as fn(&mut Context<'_>) -> Poll<()> as *const c_void;
    match call_tracer(entry) {
        true => {
            defer_untraced(cx.waker());
            Poll::Pending
        }
        false => Poll::Ready(()),
    }
}

/// Has `waker` woken later. To yield is what a leaf of its own does too; this is none.
fn defer_untraced(waker: &Waker) {
    let _restore = replace_tracer(Tracer::Running);
    context::defer(waker);
}

impl Handle {
    /// Returns whether the current task is polled for a dump or a trace.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Handle;
    ///
    /// assert!(!Handle::is_tracing());
    /// ```
    pub fn is_tracing() -> bool {
        wait::is_recording()
    }
}

/// The stacks that lead to where a future waits.
///
/// Its `Display` form is a tree with a line for each call, outermost first. To write it, or to
/// [resolve](Self::resolve_backtraces) the stacks, symbols are looked up in the debug information
/// of the program, which may take long.
///
/// # Examples
///
/// ```
/// use std::future::Future;
/// use std::task::{Context, Waker};
/// use blitzen::runtime::dump::Trace;
///
/// let mut future = Box::pin(blitzen::task::yield_now());
/// let mut cx = Context::from_waker(Waker::noop());
/// let (poll, trace) = Trace::capture(|| future.as_mut().poll(&mut cx));
/// assert!(poll.is_pending());
/// println!("{trace}");
/// ```
#[derive(Debug)]
pub struct Trace {
    stacks: Vec<LeafStack>,
}

impl Trace {
    /// Calls `f`, which polls a future, and returns its result and the stack of everything that the
    /// future would wait for.
    ///
    /// Nothing that the future awaits proceeds, as with [`trace_with`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::Future;
    /// use std::task::{Context, Waker};
    /// use blitzen::runtime::dump::Trace;
    ///
    /// let mut future = Box::pin(blitzen::task::yield_now());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let (_, trace) = Trace::capture(|| future.as_mut().poll(&mut cx));
    /// assert_eq!(trace.resolve_backtraces().len(), 1);
    /// ```
    pub fn capture<F, R>(f: F) -> (R, Trace)
    where
        F: FnOnce() -> R,
    {
        let mut stacks = Vec::new();
        let result = trace_with(f, |meta| stacks.push(LeafStack::between(meta)));
        (result, Trace { stacks })
    }

    /// Returns a future that polls `f`, and at which the stacks of a trace end.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::Trace;
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// assert_eq!(Trace::root(async { 1 }).await, 1);
    /// # });
    /// ```
    pub fn root<F>(f: F) -> Root<F>
    where
        F: Future,
    {
        Root::new(f)
    }

    /// Returns a backtrace for each place where the future waits, with the names of its functions.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::Future;
    /// use std::task::{Context, Waker};
    /// use blitzen::runtime::dump::Trace;
    ///
    /// let mut future = Box::pin(blitzen::task::yield_now());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let (_, trace) = Trace::capture(|| future.as_mut().poll(&mut cx));
    /// for backtrace in trace.resolve_backtraces() {
    ///     println!("{} frames", backtrace.frames().count());
    /// }
    /// ```
    pub fn resolve_backtraces(&self) -> Vec<Backtrace> {
        self.stacks.iter().map(LeafStack::resolve).collect()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stacks = self.stacks.iter().map(LeafStack::resolve);
        tree::write(f, stacks.map(|stack| stack.lines_from_root()))
    }
}

/// The tasks of a [`Dump`](super::Dump) that were polled for it.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// let dump = runtime.block_on(runtime.handle().dump());
/// assert_eq!(dump.tasks().iter().count(), 0);
/// ```
#[derive(Debug)]
pub struct Tasks {
    tasks: Vec<Task>,
}

impl Tasks {
    /// Returns an iterator over the tasks, by id.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::Dump;
    ///
    /// fn print(dump: &Dump) {
    ///     for task in dump.tasks().iter() {
    ///         println!("{}", task.trace());
    ///     }
    /// }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter()
    }
}

impl FromIterator<(Id, Vec<LeafStack>)> for Tasks {
    fn from_iter<I: IntoIterator<Item = (Id, Vec<LeafStack>)>>(answers: I) -> Self {
        let task = |(id, stacks)| Task {
            id,
            trace: Trace { stacks },
        };
        Self {
            tasks: answers.into_iter().map(task).collect(),
        }
    }
}

/// A task among the [`Tasks`] of a dump.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::dump::Task;
///
/// fn print(task: &Task) {
///     println!("task {}:\n{}", task.id(), task.trace());
/// }
/// ```
#[derive(Debug)]
pub struct Task {
    id: Id,
    trace: Trace,
}

impl Task {
    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::Dump;
    ///
    /// fn has(dump: &Dump, id: blitzen::task::Id) -> bool {
    ///     dump.tasks().iter().any(|task| task.id() == id)
    /// }
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    /// Returns where the task waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::Task;
    ///
    /// fn text(task: &Task) -> String {
    ///     task.trace().to_string()
    /// }
    /// ```
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

impl super::Dump {
    /// Returns the tasks that were polled for the dump, in Tokio's shape.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let dump = runtime.block_on(runtime.handle().dump());
    /// assert_eq!(dump.tasks().iter().count(), 0);
    /// ```
    pub fn tasks(&self) -> &Tasks {
        self.polled()
    }
}
