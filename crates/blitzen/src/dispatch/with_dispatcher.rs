//! Moving a task to another dispatcher for the length of a future.
//!
//! W1. The content is polled on the dispatcher's route, or where another `with_dispatcher`
//!     inside it has moved the task. On other routes it is not polled.
//! W2. A future that is not on its route asks for the task's next poll to be there only if it
//!     was woken since it was last polled: two of them in one task would pass the task back
//!     and forth for ever otherwise.
//! W3. Its waker has the task polled on the route. When that poll ends, the task's route is its
//!     own again.
//! W4. A scope in the content may defer an abort of the task. As long as it does, so does each poll of
//!     the future that does not poll the content, and one that finds an abort which the content has
//!     not heard of moves the task there.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use blitzen_sched::DispatcherCore;
use blitzen_task::current::{self, AbortHold, AbortStatus, CurrentTask};
use blitzen_task::{RoutableTask, Route};
use pin_project_lite::pin_project;

use super::dispatcher::{Dispatcher, DispatcherKind};
use super::routed_waker::RoutedWaker;
use crate::runtime::Handle;

/// How often a future may be polled in one poll of its task without reaching its dispatcher. More
/// means that some executor inside the task polls it, which is an error.
const MAX_POLLS_IN_PLACE: u32 = 1_000;
/// How often a future tries to move its task back before it ends where it is.
const MAX_RETURNS: u32 = 3;

thread_local! {
    /// The innermost `with_dispatcher` whose content is being polled.
    static ENCLOSING: Cell<Option<Enclosing>> = const { Cell::new(None) };
}

/// A `with_dispatcher` whose content is being polled.
#[derive(Clone, Copy)]
struct Enclosing {
    /// A task that is polled in the middle of that is not inside it.
    task: CurrentTask,
    route: Route,
    /// The last route that one inside it has asked for in this poll.
    requested: Option<Route>,
}

impl Enclosing {
    /// The innermost one of the current task.
    fn here() -> Option<Self> {
        let task = CurrentTask::get();
        ENCLOSING
            .get()
            .filter(|enclosing| Some(enclosing.task) == task)
    }

    /// Tells the innermost one of the current task, if there is one, that `route` was asked for.
    fn note_request(route: Route) {
        if let Some(mut enclosing) = Self::here() {
            enclosing.requested = Some(route);
            ENCLOSING.set(Some(enclosing));
        }
    }

    /// Runs `poll` as a part of a `with_dispatcher` of this route; returns also the last route that
    /// was asked for inside.
    fn during<R>(route: Route, poll: impl FnOnce() -> R) -> (R, Option<Route>) {
        /// Restores what was before, also if the content panics.
        struct Restore(Option<Enclosing>);
        impl Drop for Restore {
            fn drop(&mut self) {
                ENCLOSING.set(self.0);
            }
        }
        let own = CurrentTask::get().map(|task| Self {
            task,
            route,
            requested: None,
        });
        let _restore = Restore(ENCLOSING.replace(own));
        let output = poll();
        (output, ENCLOSING.get().and_then(|own| own.requested))
    }
}

/// Runs `future` on `dispatcher` as part of the calling task, and returns its output.
///
/// The whole task moves to the dispatcher, and moves back when `future` has ended. Nothing is
/// spawned, so `future` may borrow. Other futures of the same task, such as those beside it in a
/// `join!`, may be polled on the dispatcher too, but `future` is polled nowhere else. Once the
/// dispatcher is [closed](Dispatcher::close), `future` goes on where the task is.
///
/// The returned future borrows `dispatcher`. Where it has to own it, as in a `spawn`, await it in an
/// `async move` block.
///
/// # Examples
///
/// ```
/// use blitzen::dispatch::{Dispatcher, with_dispatcher};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let database = Dispatcher::single("database").unwrap();
/// let task = blitzen::spawn(async move {
///     let mut rows = Vec::new();
///     with_dispatcher(&database, async { rows.push(1) }).await;
///     rows
/// });
/// assert_eq!(task.await.unwrap(), [1]);
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the returned future drops `future`, on the thread where that happens.
///
/// # Panics
///
/// Polling the returned future panics unless a task polls it that belongs to the runtime of the
/// dispatcher and can move. The future given to `block_on` is no task, and the tasks of a
/// [`LocalSet`](crate::task::LocalSet) or a [`LocalRuntime`](crate::runtime::LocalRuntime) cannot
/// move, nor can coroutines; [`Dispatcher::run`] works there. Only [`Dispatcher::unconfined`] works everywhere.
pub fn with_dispatcher<F: Future>(dispatcher: &Dispatcher, future: F) -> WithDispatcher<'_, F> {
    WithDispatcher {
        future,
        moved: MovedTask {
            target: MoveTarget::of(dispatcher),
            waker: None,
            nested: None,
            hold: None,
            polls_in_place: 0,
        },
        stage: MoveStage::Running,
    }
}

pin_project! {
    /// The future of [`with_dispatcher`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::dispatch::{Dispatcher, WithDispatcher, with_dispatcher};
    ///
    /// # let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let one = Dispatcher::default().limited(1);
    /// let task = blitzen::spawn(async move {
    ///     let moved: WithDispatcher<'_, _> = with_dispatcher(&one, async { 5 });
    ///     moved.await
    /// });
    /// assert_eq!(task.await.unwrap(), 5);
    /// # });
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct WithDispatcher<'d, F: Future> {
        #[pin]
        future: F,
        moved: MovedTask<'d>,
        stage: MoveStage<F::Output>,
    }
}

/// How far a `with_dispatcher` is.
enum MoveStage<T> {
    /// The content runs.
    Running,
    /// It has ended, and the task comes back to `origin`.
    Returning {
        output: Option<T>,
        origin: Route,
        tries: u32,
    },
}

/// What a future needs of its dispatcher. It borrows that: to count references would take as long as
/// a short poll.
#[derive(Clone, Copy)]
enum MoveTarget<'d> {
    Default(&'d Handle),
    Unconfined,
    Routed(&'d Arc<DispatcherCore>),
}

impl<'d> MoveTarget<'d> {
    fn of(dispatcher: &'d Dispatcher) -> Self {
        match dispatcher.kind() {
            DispatcherKind::Default => Self::Default(dispatcher.runtime()),
            DispatcherKind::Unconfined => Self::Unconfined,
            DispatcherKind::Routed(core) => Self::Routed(core),
        }
    }

    /// The route to it, and the address of the scheduler that has it; `None` if it has no
    /// route: what is awaited there runs where it is.
    fn route(self) -> Option<(Route, *const ())> {
        match self {
            Self::Default(runtime) => {
                let owner = Arc::as_ptr(runtime.inner.scheduler()).cast();
                Some((Route::DEFAULT, owner))
            }
            Self::Unconfined => None,
            Self::Routed(core) => Some((core.route(), core.owner())),
        }
    }

    fn core(self) -> Option<&'d Arc<DispatcherCore>> {
        match self {
            Self::Routed(core) => Some(core),
            Self::Default(_) | Self::Unconfined => None,
        }
    }
}

/// What does not depend on the type of the content.
struct MovedTask<'d> {
    target: MoveTarget<'d>,
    /// Once the content was polled on the route.
    waker: Option<Arc<RoutedWaker>>,
    /// Where a `with_dispatcher` inside the content has moved the task (W1).
    nested: Option<Route>,
    /// Whether a scope in the content has deferred an abort of the task when it was last polled (W4).
    hold: Option<AbortHold>,
    polls_in_place: u32,
}

/// What to do in a poll.
enum MoveStep {
    /// Poll the content here, with its own waker.
    PollHere,
    /// Poll the content where the task is, since the dispatcher is closed.
    PassThrough,
    /// Nothing: the task was moved here for something else.
    Wait,
    /// Move the task first.
    Move,
}

impl MovedTask<'_> {
    fn step(&self, route: Route, parent: &Waker) -> MoveStep {
        let here = current::route();
        if here == route {
            return MoveStep::PollHere;
        }
        if self.target.core().is_some_and(|core| core.is_closed()) {
            return MoveStep::PassThrough;
        }
        match &self.waker {
            Some(_) if self.nested == Some(here) => MoveStep::PollHere, // W1
            Some(waker) if !waker.is_woken() && !self.has_unheard_abort(parent) => {
                MoveStep::Wait // W2
            }
            _ => MoveStep::Move,
        }
    }

    /// Whether the task that polls the future with `waker` was aborted, and a scope in the content,
    /// which defers that, does not know (W4).
    fn has_unheard_abort(&self, waker: &Waker) -> bool {
        self.hold.is_some_and(|hold| !hold.is_heard) && is_aborted(waker)
    }

    /// Polls the content, and notes whether it defers an abort of the task.
    fn poll_content<R>(&mut self, poll: impl FnOnce() -> R) -> R {
        let (output, hold) = current::watch_holds(poll);
        self.hold = hold;
        output
    }

    /// Defers an abort of the task again, if the content does, which is not polled now (W4).
    fn hold_again(&self, waker: &Waker) {
        if self.hold.is_some() {
            current::hold_abort(is_aborted(waker));
        }
    }

    /// Notes what polls the future now: another task gets another waker.
    fn note_parent(&mut self, parent: &Waker) {
        match &self.waker {
            Some(waker) if waker.is_of_current_task() => waker.set_parent(parent),
            _ => self.end_waker(),
        }
    }

    /// Returns the waker for the content in the current task.
    fn waker(&mut self, route: Route, parent: &Waker) -> Arc<RoutedWaker> {
        if let Some(waker) = &self.waker {
            return waker.clone();
        }
        let core = self.target.core().cloned();
        let waker = RoutedWaker::new(self.current_task(), route, core);
        waker.set_parent(parent);
        self.waker = Some(waker.clone());
        waker
    }

    /// Gives the waker up: from now on the content has another one, or none.
    fn end_waker(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.end();
        }
    }

    /// The task that polls the future.
    fn current_task(&self) -> RoutableTask {
        let route = self.target.route();
        match route.and_then(|(_, owner)| RoutableTask::current(owner)) {
            Some(task) => task,
            None => no_movable_task(),
        }
    }

    /// Asks for the next poll of the task to be on `route`.
    #[track_caller]
    fn request(&mut self, task: &RoutableTask, route: Route, waker: &Waker) {
        let is_same_poll = task.next_route() == Some(route) && task.own_route() != route;
        self.polls_in_place = if is_same_poll {
            self.polls_in_place + 1
        } else {
            0
        };
        assert!(
            self.polls_in_place < MAX_POLLS_IN_PLACE,
            "`with_dispatcher` is polled by an executor that runs inside a task, and cannot move \
             that task; use `Dispatcher::run` there"
        );
        Enclosing::note_request(route);
        task.request_route(route);
        if !task.is_woken_by(waker) {
            waker.wake_by_ref();
        }
    }
}

impl Drop for MovedTask<'_> {
    fn drop(&mut self) {
        self.end_waker();
    }
}

/// Whether the current task, which polls the calling code with `waker`, was aborted.
fn is_aborted(waker: &Waker) -> bool {
    let status = current::abort_status(waker);
    status.is_some_and(|status| status != AbortStatus::None)
}

#[cold]
#[track_caller]
fn no_movable_task() -> ! {
    panic!(
        "`with_dispatcher` must be polled by a task of the dispatcher's runtime that can move: not \
         by `block_on`, a `LocalSet`, a `LocalRuntime` or another runtime; use `Dispatcher::run` \
         there"
    )
}

impl<F: Future> Future for WithDispatcher<'_, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some((route, owner)) = this.moved.target.route() else {
            return this.future.poll(cx);
        };
        if !RoutableTask::is_current_of(owner) {
            no_movable_task();
        }
        if let MoveStage::Returning {
            output,
            origin,
            tries,
        } = this.stage
        {
            *tries += 1;
            return match current::route() == *origin || *tries > MAX_RETURNS {
                true => match output.take() {
                    Some(output) => Poll::Ready(output),
                    None => panic!("`WithDispatcher` polled after completion"),
                },
                false => {
                    let task = this.moved.current_task();
                    this.moved.request(&task, *origin, cx.waker());
                    Poll::Pending
                }
            };
        }
        let mut future = this.future;
        if let Some(core) = this.moved.target.core()
            && core.is_elastic()
            && current::route().is_default()
        {
            let poll = || core.run_in_place(|| future.as_mut().poll(cx)).ok();
            let (polled, hold) = current::watch_holds(poll);
            if let Some(polled) = polled {
                this.moved.hold = hold;
                this.moved.end_waker(); // the content has the task's own now
                return polled;
            }
        }
        this.moved.note_parent(cx.waker());
        match this.moved.step(route, cx.waker()) {
            MoveStep::PassThrough => return this.moved.poll_content(|| future.poll(cx)),
            MoveStep::Wait => {
                this.moved.hold_again(cx.waker());
                return Poll::Pending;
            }
            MoveStep::Move => {
                this.moved.hold_again(cx.waker());
                let task = this.moved.current_task();
                this.moved.request(&task, route, cx.waker());
                return Poll::Pending;
            }
            MoveStep::PollHere => {}
        }
        let enclosing = Enclosing::here().map(|enclosing| enclosing.route);
        let waker = this.moved.waker(route, cx.waker());
        waker.begin_poll();
        let own = Waker::from(waker);
        let poll = || future.poll(&mut Context::from_waker(&own));
        let is_direct = current::is_polled_directly(cx.waker());
        let (polled, nested) = Enclosing::during(route, || match is_direct {
            true => {
                let poll = || current::with_alias(&own, poll);
                this.moved.poll_content(poll)
            }
            false => poll(),
        });
        let Poll::Ready(output) = polled else {
            if let Some(nested) = nested {
                this.moved.nested = Some(nested).filter(|nested| *nested != route);
                Enclosing::note_request(nested); // for those around this one
            }
            return Poll::Pending;
        };
        let task = this.moved.current_task();
        let origin = enclosing.unwrap_or_else(|| task.own_route());
        if current::route() == origin {
            return Poll::Ready(output);
        }
        *this.stage = MoveStage::Returning {
            output: Some(output),
            origin,
            tries: 0,
        };
        this.moved.request(&task, origin, cx.waker());
        Poll::Pending
    }
}

impl<F: Future> fmt::Debug for WithDispatcher<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithDispatcher")
            .field(
                "route",
                &self.moved.target.route().map(|(route, _)| route.index()),
            )
            .finish_non_exhaustive()
    }
}
