//! Every pointer cast of the crate: from a header to its cell and back.

use std::alloc::Layout;
use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::mem::{ManuallyDrop, needs_drop, replace};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use blitzen_util::shim::cell::UnsafeCell;

use crate::alloc;
use crate::cell::{Cell, Stage};
use crate::context::TaskContext;
use crate::current::{self, CurrentTaskGuard};
use crate::error::{Failure, JoinError, Outcome};
use crate::header::{Header, Schedule};
use crate::id::Id;
use crate::join::JoinHandle;
use crate::queue_link::QueueLink;
use crate::route::Route;
use crate::span::{Spanned, WakerOp};
use crate::spawn_meta::SpawnMeta;
use crate::state::{CloseOutcome, EndPoll, RefCount, StartPoll, TaskState, Wake};
use crate::{waker, watch};
use blitzen_util::quiet::{catch, quietly};
use blitzen_util::wait::{self, PollNote, WaitKind};

/// This file, as a backtrace names it.
pub(crate) const FILE: &str = file!();

/// The functions that know a task's future and scheduler. Each has the
/// contract of the function below that calls it.
pub(crate) struct Vtable {
    /// The type of the future, and its size.
    pub(crate) future_type: fn() -> &'static str,
    pub(crate) future_size: usize,
    poll: unsafe fn(NonNull<Header>) -> RunOutcome,
    /// Polls the task, and no other after it.
    poll_once: unsafe fn(NonNull<Header>) -> RunOutcome,
    cancel: unsafe fn(NonNull<Header>),
    schedule: unsafe fn(NonNull<Header>),
    dispatch: unsafe fn(NonNull<Header>),
    route_owner: unsafe fn(NonNull<Header>) -> *const (),
    own_route: unsafe fn(NonNull<Header>) -> Route,
    take_output: unsafe fn(NonNull<Header>, *mut ()),
    drop_output: unsafe fn(NonNull<Header>),
    join_waker: unsafe fn(NonNull<Header>) -> NonNull<UnsafeCell<Option<Waker>>>,
    context: unsafe fn(NonNull<Header>) -> Option<NonNull<TaskContext>>,
    is_borrowing: unsafe fn(NonNull<Header>) -> bool,
    free: unsafe fn(NonNull<Header>),
}

/// The result of polling a task.
#[must_use]
#[derive(Debug)]
pub enum RunOutcome {
    /// It has ended.
    Complete,
    /// It waits to be woken, or another dispatcher has it.
    Idle(IdleWait),
    /// It was woken while it ran, and must be queued again where it was.
    Woken(Runnable),
    /// It yielded, and must be queued again where it was, behind the other tasks.
    Yielded(Runnable),
}

/// The kind of what a task waits for that was polled.
// As wide as a pointer, so that the outcome of a poll is returned in registers.
#[derive(Clone, Copy, Debug)]
pub struct IdleWait(u64);

impl IdleWait {
    /// Nothing: the task does not wait, or for something unknown.
    pub const NONE: Self = Self(0);

    #[inline(always)]
    fn of(note: PollNote) -> Self {
        Self(note.bits())
    }

    /// The kind.
    pub fn kind(self) -> WaitKind {
        WaitKind::of_bits(self.0)
    }
}

/// The right to poll a task, once. It is in no queue.
///
/// Dropping it cancels the task.
pub struct Runnable(NonNull<Header>);

// SAFETY: a future that is not `Send` gets here through `spawn_unchecked`,
// whose caller keeps the runnable on its thread.
unsafe impl Send for Runnable {}
// SAFETY: `&Runnable` reaches only the header, which is made of atomics and
// constants, and of fields guarded by locks.
unsafe impl Sync for Runnable {}

impl Runnable {
    /// Polls the task.
    #[inline]
    pub fn run(self) -> RunOutcome {
        let task = self.into_raw();
        // SAFETY: T1 keeps the task alive, the runnable is spent here (S1).
        unsafe { (task.as_ref().vtable.poll)(task) }
    }

    /// [`run`](Self::run) for a task whose route is most likely not the default one.
    pub fn run_routed(self) -> RunOutcome {
        let task = self.into_raw();
        // SAFETY: as above.
        unsafe { poll_routed(task, task.as_ref().vtable.poll) }
    }

    /// Hands the task to its dispatcher, to be queued as if just woken.
    pub fn schedule(self) {
        let task = self.into_raw();
        // SAFETY: T1; the right to poll passes to the queue. What queues the task uses what the task
        // owns, and another thread may have ended the task by then: so it has a reference until then.
        unsafe {
            task.as_ref().state.reference();
            let _release = ReleaseOnDrop(task);
            schedule(task);
        }
    }

    /// The route that the task is to be polled on.
    pub fn route(&self) -> Route {
        self.header().state.route()
    }

    /// Returns the pointer, for queues.
    #[inline]
    pub fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Turns a pointer back into the runnable.
    ///
    /// # Safety
    /// `task` came from [`into_raw`](Self::into_raw), and comes back once.
    #[inline]
    pub unsafe fn from_raw(task: NonNull<Header>) -> Self {
        Self(task)
    }

    /// The task's header.
    pub fn header(&self) -> &Header {
        // SAFETY: T1.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn as_ptr(&self) -> NonNull<Header> {
        self.0
    }

    /// The task's [context](Schedule::context).
    pub fn context(&self) -> Option<&TaskContext> {
        // SAFETY: T1.
        unsafe { context(self.0) }
    }

    /// The next task of the queue that the task is in. Means nothing to a caller that has no
    /// exclusive access to that queue.
    #[inline]
    pub fn queue_next(&self) -> Option<NonNull<Header>> {
        self.header().queue_link.next()
    }

    /// Sets the next task of a queue.
    ///
    /// # Safety
    /// The caller has exclusive access to the queue that the task is in or going into.
    #[inline]
    pub unsafe fn set_queue_next(&self, next: Option<NonNull<Header>>) {
        self.header().queue_link.set_next(next);
    }

    /// Gives up the right to poll without running or cancelling the task. The
    /// scheduler has closed the task, or is about to.
    pub fn forget(self) {
        let _ = self.into_raw();
    }

    /// Whether a thread waits for the task, which [borrows](Schedule::is_borrowing) from it.
    pub fn is_borrowing(&self) -> bool {
        // SAFETY: T1.
        unsafe { (self.header().vtable.is_borrowing)(self.0) }
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        // SAFETY: T1; the runnable is spent here (S1).
        unsafe {
            match self.header().state.close() {
                CloseOutcome::Cancel => (self.0.as_ref().vtable.cancel)(self.0),
                CloseOutcome::Running | CloseOutcome::Unwinds | CloseOutcome::Complete => {}
            }
        }
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Runnable").field(&self.header().id).finish()
    }
}

/// Makes a task of a future. It is in no queue, and in no list of live tasks.
pub fn spawn<F, S>(
    future: F,
    scheduler: S,
    id: Id,
    meta: SpawnMeta,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Schedule,
{
    // SAFETY: the future and its output are `Send`.
    unsafe { spawn_unchecked(future, scheduler, id, meta) }
}

/// Makes a task of a future that may have to stay on its thread.
///
/// # Safety
/// Unless the future is `Send`, every [`Runnable`] of the task is run or
/// dropped on the thread that calls this, and the list of live tasks it is in is
/// closed there; `scheduler` must not pass a runnable to another thread. Unless the
/// output is `Send`, it never leaves that thread (a `JoinHandle` of such a type does
/// not).
pub unsafe fn spawn_unchecked<F, S>(
    future: F,
    scheduler: S,
    id: Id,
    mut meta: SpawnMeta,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + 'static,
    F::Output: 'static,
    S: Schedule,
{
    let span = meta.take_span();
    let cell = alloc::allocate(Layout::new::<Cell<F, S>>()).cast::<Cell<F, S>>();
    // SAFETY: fresh memory of the cell's layout.
    unsafe {
        cell.write(Cell {
            header: Header {
                state: TaskState::new(scheduler.own_route()),
                vtable: const { &vtable::<F, S>() },
                queue_link: QueueLink::new(),
                owned: Default::default(),
                id,
                meta,
                span_id: span.id(),
            },
            scheduler,
            join_waker: UnsafeCell::new(None),
            stage: UnsafeCell::new(Stage::Running(span.attach(future))),
        });
    }
    let task = cell.cast::<Header>();
    // The new state counts the references of these two, and is `SCHEDULED` for the
    // runnable.
    (Runnable(task), JoinHandle::new(task))
}

/// Gives up a reference on drop.
pub(crate) struct ReleaseOnDrop(pub(crate) NonNull<Header>);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        // SAFETY: its own reference, used no more.
        unsafe { release(self.0) };
    }
}

/// Queues a task, where its route says.
///
/// # Safety
/// The caller has just moved it to `SCHEDULED`, and holds it alive.
pub(crate) unsafe fn schedule(task: NonNull<Header>) {
    // SAFETY: as the caller guarantees; S7.
    unsafe {
        match task.as_ref().state.route().is_default() {
            true => schedule_default(task),
            false => dispatch(task),
        }
    }
}

/// Queues a task if `wake`, the result of a transition of its state, asks for it.
///
/// # Safety
/// The caller has just made that transition, and holds the task alive.
#[inline]
pub(crate) unsafe fn enqueue(task: NonNull<Header>, wake: Wake) {
    match wake {
        // SAFETY: the transition has made the runnable (S1).
        Wake::Enqueue => unsafe { schedule_default(task) },
        // SAFETY: as above.
        Wake::Dispatch => unsafe { dispatch(task) },
        Wake::Nothing => {}
    }
}

/// Queues a task whose route is the default one.
///
/// # Safety
/// As for [`schedule`].
#[inline]
unsafe fn schedule_default(task: NonNull<Header>) {
    // SAFETY: the caller guarantees that it is alive.
    unsafe { (task.as_ref().vtable.schedule)(task) };
}

/// Gives a task to the dispatcher of its route, which is not the default one.
///
/// # Safety
/// As for [`schedule`].
#[cold]
unsafe fn dispatch(task: NonNull<Header>) {
    // SAFETY: the caller guarantees that it is alive.
    unsafe { (task.as_ref().vtable.dispatch)(task) };
}

/// The address of the scheduler whose dispatchers may poll the task, or null.
///
/// # Safety
/// The caller holds the task alive.
pub(crate) unsafe fn route_owner(task: NonNull<Header>) -> *const () {
    // SAFETY: alive by the caller's word.
    unsafe { (task.as_ref().vtable.route_owner)(task) }
}

/// The task's own route.
///
/// # Safety
/// The caller holds the task alive.
pub(crate) unsafe fn own_route(task: NonNull<Header>) -> Route {
    // SAFETY: alive by the caller's word.
    unsafe { (task.as_ref().vtable.own_route)(task) }
}

/// Drops the future of a task and completes it as cancelled.
///
/// # Safety
/// The caller has just moved it to `RUNNING`.
pub(crate) unsafe fn cancel(task: NonNull<Header>) {
    // SAFETY: T1, T2.
    unsafe { (task.as_ref().vtable.cancel)(task) };
}

/// Moves the output out.
///
/// # Safety
/// The task is complete, the output the caller's (T4) and of the type `out`
/// points to, an `Option<Result<T, JoinError>>`.
pub(crate) unsafe fn take_output(task: NonNull<Header>, out: *mut ()) {
    // SAFETY: alive by the caller's reference.
    unsafe { (task.as_ref().vtable.take_output)(task, out) };
}

/// Drops the output where it is.
///
/// # Safety
/// The task is complete and the output the caller's (T4).
pub(crate) unsafe fn drop_output(task: NonNull<Header>) {
    // SAFETY: alive by the caller's reference.
    unsafe { (task.as_ref().vtable.drop_output)(task) };
}

/// Fills, reads or clears the slot of the join waker.
///
/// # Safety
/// T5 gives the caller the slot; it holds the task alive.
pub(crate) unsafe fn with_join_waker<R>(
    task: NonNull<Header>,
    visit: impl FnOnce(&mut Option<Waker>) -> R,
) -> R {
    // SAFETY: the caller guarantees that it is alive.
    let slot = unsafe { (task.as_ref().vtable.join_waker)(task).as_ref() };
    // SAFETY: exclusive by T5.
    slot.with_mut(|slot| visit(unsafe { &mut *slot }))
}

/// Reads the slot of the join waker while the other side may read it too.
///
/// # Safety
/// The slot is published; the caller is one of its two readers (T5).
pub(crate) unsafe fn read_join_waker<R>(
    task: NonNull<Header>,
    visit: impl FnOnce(&Option<Waker>) -> R,
) -> R {
    // SAFETY: the caller guarantees that it is alive.
    let slot = unsafe { (task.as_ref().vtable.join_waker)(task).as_ref() };
    // SAFETY: nobody writes a published slot (T5).
    slot.with(|slot| visit(unsafe { &*slot }))
}

/// What the task's scheduler says about its context.
///
/// # Safety
/// The task is alive for `'a`.
pub(crate) unsafe fn context<'a>(task: NonNull<Header>) -> Option<&'a TaskContext> {
    // SAFETY: alive by the caller's word, and the scheduler in it.
    unsafe { (task.as_ref().vtable.context)(task).map(|context| context.as_ref()) }
}

/// Gives up one reference; the last one frees the task.
///
/// # Safety
/// The caller owns a reference, and does not use it again.
#[inline]
pub(crate) unsafe fn release(task: NonNull<Header>) {
    // SAFETY: the caller upholds the same contract.
    unsafe { release_by(task, TaskState::unreference) };
}

/// [`release`] of a reference that is likely to be the last.
///
/// # Safety
/// As for [`release`].
#[inline]
pub(crate) unsafe fn release_last(task: NonNull<Header>) {
    // SAFETY: the caller upholds the same contract.
    unsafe { release_by(task, TaskState::unreference_last) };
}

/// # Safety
/// As for [`release`].
#[inline(always)]
unsafe fn release_by(task: NonNull<Header>, unreference: impl FnOnce(&TaskState) -> RefCount) {
    // SAFETY: the caller's reference keeps the header alive until the count is
    // lowered; the vtable is read before.
    let (remaining, free) = unsafe {
        let header = task.as_ref();
        let free = header.vtable.free;
        (unreference(&header.state), free)
    };
    if remaining == RefCount::Zero {
        // SAFETY: T3.
        unsafe { free(task) };
    }
}

const fn vtable<F: Future + 'static, S: Schedule>() -> Vtable {
    Vtable {
        future_type: type_name::<F>,
        future_size: size_of::<F>(),
        poll: match S::HAS_ROWS {
            true => poll_row::<F, S>,
            false => poll_cell::<F, S>,
        },
        poll_once: poll_cell::<F, S>,
        cancel: cancel_cell::<F, S>,
        schedule: schedule_cell::<F, S>,
        dispatch: dispatch_cell::<F, S>,
        route_owner: route_owner_cell::<F, S>,
        own_route: own_route_cell::<F, S>,
        take_output: take_output_cell::<F, S>,
        drop_output: drop_output_cell::<F, S>,
        join_waker: join_waker_cell::<F, S>,
        context: context_cell::<F, S>,
        is_borrowing: is_borrowing_cell::<F, S>,
        free: free_cell::<F, S>,
    }
}

/// # Safety
/// The task was made by `spawn_unchecked::<F, S>` and is alive for `'a`.
unsafe fn cell<'a, F: Future, S>(task: NonNull<Header>) -> &'a Cell<F, S> {
    // SAFETY: the header is the cell's first field.
    unsafe { task.cast::<Cell<F, S>>().as_ref() }
}

unsafe fn poll_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) -> RunOutcome {
    // SAFETY: T1.
    let cell = unsafe { cell::<F, S>(task) };
    let state = &cell.header.state;
    let entered = current::enter(task);

    match state.start_poll_of(cell.scheduler.own_route(), S::UNWINDS, current::route) {
        StartPoll::Poll => {}
        StartPoll::PollWatched => drop(wait::replace(PollNote::RECORD)),
        StartPoll::Cancel => {
            // SAFETY: running (T2).
            unsafe { complete::<F, S>(task, Err(Failure::Cancelled), entered) };
            return RunOutcome::Complete;
        }
        StartPoll::Routed => {
            drop(entered);
            // SAFETY: the poll has not started: it is still the caller's.
            return unsafe { poll_routed(task, poll_cell::<F, S>) };
        }
    }
    if !cell.scheduler.may_poll_here(&cell.header) {
        return match state.end_pending(PollNote::YIELDED) {
            EndPoll::Cancel => {
                // SAFETY: running (T2).
                unsafe { complete::<F, S>(task, Err(Failure::Cancelled), entered) };
                RunOutcome::Complete
            }
            _ => cell.scheduler.requeue(Runnable(task), true),
        };
    }
    // SAFETY: the task outlives its poll.
    let waker = unsafe { waker::borrowed(task, S::UNWINDS) };
    let mut cx = Context::from_waker(&waker);
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let panicking = DropWhileUnwinding(&cell.stage);
        let polled = cell
            .stage
            // SAFETY: T2; the cell never moves.
            .with_mut(|stage| unsafe { (*stage).poll(&mut cx) });
        std::mem::forget(panicking);
        polled
    }));
    let note = wait::take();
    let outcome = match polled {
        Ok(Poll::Pending) if S::UNWINDS && note.is_yield() && state.may_stay_running() => {
            cell.header.span_id.report(WakerOp::WakeByRef); // no waker was called
            return cell.scheduler.requeue(Runnable(task), true);
        }
        Ok(Poll::Pending) => match end_pending(&cell.header, note) {
            // The task may have been freed by now: it must not be accessed any more.
            EndPoll::Idle => return RunOutcome::Idle(IdleWait::of(note)),
            // T1: its own runnable keeps it alive until it is queued.
            EndPoll::Reschedule => {
                return cell.scheduler.requeue(Runnable(task), note.has_yielded());
            }
            EndPoll::Dispatch => return end_routed(Runnable(task), note.has_yielded(), entered),
            EndPoll::Cancel => Err(Failure::Cancelled),
        },
        Ok(Poll::Ready(output)) => Ok(output),
        Err(mut payload) => {
            cell.scheduler.panicked(&mut payload);
            Err(Failure::Panicked(payload))
        }
    };
    // SAFETY: running (T2).
    unsafe { complete::<F, S>(task, outcome, entered) };
    RunOutcome::Complete
}

/// Polls a task, and then those that its scheduler wants to be polled at once.
///
/// # Safety
/// The caller has the task's runnable.
unsafe fn poll_row<F: Future + 'static, S: Schedule>(task: NonNull<Header>) -> RunOutcome {
    // SAFETY: the caller's runnable, which is spent here.
    let mut ended = unsafe { poll_cell::<F, S>(task) };
    while let Some(next) = S::next_in_row(&ended) {
        let next = next.into_raw();
        // SAFETY: T1 keeps the task alive, its runnable is spent here (S1).
        ended = unsafe { (next.as_ref().vtable.poll_once)(next) };
    }
    ended
}

/// Polls a task on its route.
///
/// # Safety
/// The caller has the task's runnable, and `poll` is its function.
unsafe fn poll_routed(
    task: NonNull<Header>,
    poll: unsafe fn(NonNull<Header>) -> RunOutcome,
) -> RunOutcome {
    // SAFETY: T1.
    let route = unsafe { task.as_ref() }.state.route();
    let _on_route = current::enter_route(task, route);
    // SAFETY: the caller's runnable, which is spent here.
    match unsafe { poll(task) } {
        RunOutcome::Woken(task) | RunOutcome::Yielded(task) if task.route() != route => {
            task.schedule();
            RunOutcome::Idle(IdleWait::NONE)
        }
        outcome => outcome,
    }
}

/// Ends a poll of a task that is queued again, and not on the default route.
#[cold]
fn end_routed(task: Runnable, has_yielded: bool, entered: CurrentTaskGuard) -> RunOutcome {
    let polled_on = current::route();
    drop(entered);
    if task.route() != polled_on {
        task.schedule();
        return RunOutcome::Idle(IdleWait::NONE);
    }
    match has_yielded {
        true => RunOutcome::Yielded(task),
        false => RunOutcome::Woken(task),
    }
}

/// Ends a poll that was pending, and first stores what the task waits for.
#[inline(always)]
fn end_pending(task: &Header, note: PollNote) -> EndPoll {
    if note.is_wait() {
        if !note.is_empty() {
            task.queue_link.set_wait(wait::identity());
        }
        return task.state.end_waiting(note);
    }
    if note.has_yielded() {
        task.span_id.report(WakerOp::WakeByRef); // no waker was called
    }
    match note.is_yield() {
        true => task.state.end_yielded(), // what it waits for does not matter: it runs again
        false => end_pending_rare(task, note),
    }
}

/// [`end_pending`] of a poll that was recorded, or whose task is held by a scope.
#[inline(never)]
fn end_pending_rare(task: &Header, note: PollNote) -> EndPoll {
    task.queue_link.set_wait(wait::identity());
    if note.is_recorded() {
        watch::watched(task);
    }
    task.state.end_pending(note)
}

/// Drops a future whose poll panics, as the panic passes through: what it owns
/// sees that the thread is panicking, as a function's locals would.
struct DropWhileUnwinding<'a, F: Future>(&'a UnsafeCell<Stage<F>>);

impl<F: Future> Drop for DropWhileUnwinding<'_, F> {
    fn drop(&mut self) {
        // A second panic here would abort; the first one is the one to report.
        quietly(|| {
            self.0
                // SAFETY: T2, and the poll that panicked is over.
                .with_mut(|stage| unsafe { *stage = Stage::Consumed })
        });
    }
}

unsafe fn cancel_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) {
    let entered = current::enter(task);
    // SAFETY: running (T2), so alive (T1).
    unsafe { complete::<F, S>(task, Err(Failure::Cancelled), entered) };
}

/// Replaces the future with the outcome, takes the task off its scheduler and wakes the
/// join handle.
///
/// # Safety
/// The caller moved the task to `RUNNING`, and made it current with `entered`.
unsafe fn complete<F: Future + 'static, S: Schedule>(
    task: NonNull<Header>,
    outcome: Outcome<F::Output>,
    entered: CurrentTaskGuard,
) {
    // SAFETY: T1.
    let cell = unsafe { cell::<F, S>(task) };

    // Before the outcome is in place, and where it was polled.
    let consume = || {
        cell.stage
            // SAFETY: T2.
            .with_mut(|stage| unsafe { *stage = Stage::Consumed })
    };
    let dropped = match needs_drop::<Spanned<F>>() {
        true => catch(consume),
        false => None, // overwriting it is enough
    };
    let outcome = match (dropped, outcome) {
        (None, outcome) => outcome,
        // The future's destructor panicked after its poll had. The first panic
        // is the one to report.
        (Some(payload), outcome @ Err(Failure::Panicked(_))) => {
            quietly(|| drop(payload));
            outcome
        }
        (Some(mut payload), outcome) => {
            cell.scheduler.panicked(&mut payload);
            quietly(|| drop(outcome));
            Err(Failure::Panicked(payload))
        }
    };
    cell.stage
        // SAFETY: T2; what was there was consumed above.
        .with_mut(|stage| unsafe { stage.write(Stage::Finished(outcome)) });

    cell.scheduler.completing();
    let state = cell.header.state.complete();
    cell.scheduler.release(&cell.header);
    if !state.is_join_interested() {
        // SAFETY: nobody joins: the output is ours (T4).
        quietly(|| unsafe { drop_output_cell::<F, S>(task) });
    } else if state.has_join_waker() {
        // SAFETY: published, and read by us until returned (T5).
        unsafe {
            read_join_waker(task, |waker| {
                if let Some(waker) = waker {
                    quietly(|| waker.wake_by_ref());
                }
            });
            if cell.header.state.return_join_waker() {
                quietly(|| drop(with_join_waker(task, Option::take)));
            }
        }
    }
    // Freeing the task may run foreign code, which must not see it as the current task.
    drop(entered);
    // SAFETY: the scheduler's reference (T1).
    unsafe { release_last(task) };
}

unsafe fn schedule_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) {
    // SAFETY: the caller guarantees that it is alive; the runnable was made by its move to
    // `SCHEDULED` (S1).
    unsafe { cell::<F, S>(task) }
        .scheduler
        .schedule(Runnable(task));
}

unsafe fn dispatch_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) {
    // SAFETY: as above.
    let cell = unsafe { cell::<F, S>(task) };
    let route = cell.header.state.route();
    cell.scheduler.dispatch(Runnable(task), route);
}

unsafe fn route_owner_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) -> *const () {
    // SAFETY: alive by the caller's word.
    unsafe { cell::<F, S>(task) }.scheduler.route_owner()
}

unsafe fn own_route_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) -> Route {
    // SAFETY: alive by the caller's word.
    unsafe { cell::<F, S>(task) }.scheduler.own_route()
}

unsafe fn take_output_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>, out: *mut ()) {
    // SAFETY: alive by the caller's reference.
    let cell = unsafe { cell::<F, S>(task) };
    let stage = cell
        .stage
        // SAFETY: T4.
        .with_mut(|stage| unsafe { replace(&mut *stage, Stage::Consumed) });
    let Stage::Finished(outcome) = stage else {
        panic!("JoinHandle polled after completion");
    };
    let joined = outcome.map_err(|failure| JoinError::new(cell.header.id, failure));
    // SAFETY: the caller's `out` has this type.
    unsafe { *out.cast::<Option<Result<F::Output, JoinError>>>() = Some(joined) };
}

unsafe fn drop_output_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) {
    let _current = current::enter(task);
    // SAFETY: alive by the caller's reference.
    let cell = unsafe { cell::<F, S>(task) };
    cell.stage
        // SAFETY: T4.
        .with_mut(|stage| unsafe { *stage = Stage::Consumed });
}

unsafe fn join_waker_cell<F: Future + 'static, S: Schedule>(
    task: NonNull<Header>,
) -> NonNull<UnsafeCell<Option<Waker>>> {
    // SAFETY: the caller guarantees that it is alive.
    NonNull::from(&unsafe { cell::<F, S>(task) }.join_waker)
}

unsafe fn context_cell<F: Future + 'static, S: Schedule>(
    task: NonNull<Header>,
) -> Option<NonNull<TaskContext>> {
    // SAFETY: alive by the caller's word.
    unsafe { cell::<F, S>(task) }
        .scheduler
        .context()
        .map(NonNull::from)
}

unsafe fn is_borrowing_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) -> bool {
    // SAFETY: alive by the caller's word.
    unsafe { cell::<F, S>(task) }.scheduler.is_borrowing()
}

unsafe fn free_cell<F: Future + 'static, S: Schedule>(task: NonNull<Header>) {
    // SAFETY: T3; by T4 the output has been dropped or taken, so that nothing
    // here depends on the thread.
    unsafe {
        task.cast::<Cell<F, S>>().drop_in_place();
        alloc::release(task.cast(), Layout::new::<Cell<F, S>>());
    }
}
