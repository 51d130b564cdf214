//! The task this thread is polling or dropping: a thread-local, nothing else.

use std::cell::Cell;
use std::ptr::{self, NonNull, null};
use std::task::{RawWakerVTable, Waker};

use blitzen_util::thread_local_const;
use blitzen_util::wait::{self, PollNote};

use crate::context::Frame;
use crate::header::Header;
use crate::id::Id;
use crate::route::Route;
use crate::spawn_meta::SpawnMeta;
use crate::waker;

struct Current {
    task: Cell<Option<NonNull<Header>>>,
    /// The task that is polled on another route than the default one, and that route. The
    /// task may have another one polled inside it, which is current then.
    routed: Cell<(Option<NonNull<Header>>, Route)>,
    /// The waker that stands for that of a task.
    alias: Cell<Option<Alias>>,
    /// The innermost frame of the context.
    frames: Cell<Option<NonNull<Frame>>>,
    /// The task whose shields are counted, or none for code outside a task, and those raised
    /// less those lowered.
    shields: Cell<(Option<NonNull<Header>>, isize)>,
    /// The task that was spawned last on this thread by a task that may wait for it next. It may be
    /// gone: the address is only compared.
    newest_child: Cell<*const Header>,
    /// The ids that this thread has reserved, `next..end`.
    next_id: Cell<u64>,
    end_id: Cell<u64>,
}

/// A waker that is given to a part of a task in place of the task's own. It is only compared.
#[derive(Clone, Copy)]
struct Alias {
    task: NonNull<Header>,
    data: *const (),
    vtable: *const RawWakerVTable,
}

thread_local_const! {
    static CURRENT: Current = Current {
        task: Cell::new(None),
        routed: Cell::new((None, Route::DEFAULT)),
        alias: Cell::new(None),
        frames: Cell::new(None),
        shields: Cell::new((None, 0)),
        newest_child: Cell::new(null()),
        next_id: Cell::new(0),
        end_id: Cell::new(0),
    };
}

/// Restores on drop the task that was current before, and what it has noted: a task may be
/// polled within the poll of another one.
pub(crate) struct CurrentTaskGuard {
    task: Option<NonNull<Header>>,
    note: PollNote,
}

impl Drop for CurrentTaskGuard {
    #[inline]
    fn drop(&mut self) {
        CURRENT.with(|current| current.task.set(self.task));
        wait::replace(self.note);
    }
}

/// Makes `task` current until the guard is dropped. The caller keeps the task
/// alive for as long.
#[inline]
pub(crate) fn enter(task: NonNull<Header>) -> CurrentTaskGuard {
    CurrentTaskGuard {
        task: CURRENT.with(|current| current.task.replace(Some(task))),
        note: wait::take(),
    }
}

/// Notes on drop that the task before is polled on its route again.
pub(crate) struct RouteGuard((Option<NonNull<Header>>, Route));

impl Drop for RouteGuard {
    fn drop(&mut self) {
        CURRENT.with(|current| current.routed.set(self.0));
    }
}

/// Notes that `task` is polled on `route` until the guard is dropped.
pub(crate) fn enter_route(task: NonNull<Header>, route: Route) -> RouteGuard {
    CURRENT.with(|current| RouteGuard(current.routed.replace((Some(task), route))))
}

/// Returns the current task. The caller of [`enter`] keeps it alive.
#[inline]
pub(crate) fn task() -> Option<NonNull<Header>> {
    CURRENT.with(|current| current.task.get())
}

/// The route that the current task is polled on; the default one if there is none.
pub fn route() -> Route {
    CURRENT.with(|current| match current.routed.get() {
        (task, route) if task.is_some() && task == current.task.get() => route,
        _ => Route::DEFAULT,
    })
}

/// The id of the current task.
pub fn id() -> Option<Id> {
    // SAFETY: a current task is alive.
    task().map(|task| unsafe { task.as_ref() }.id)
}

/// Whether `waker` wakes the current task directly.
pub fn owns(waker: &Waker) -> bool {
    task().is_some_and(|task| waker::is_of(waker, task))
}

/// The current task of a thread, for another thread that runs on its behalf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CurrentTask(NonNull<Header>);

// SAFETY: it reaches only the header, which is made for any thread.
unsafe impl Send for CurrentTask {}

/// Makes another thread's task current on the calling thread; restores what was on drop.
pub struct BorrowedTaskGuard(#[expect(dead_code, reason = "restores on drop")] CurrentTaskGuard);

impl CurrentTask {
    /// The current task of the calling thread.
    pub fn get() -> Option<Self> {
        task().map(Self)
    }

    /// Makes it the current task of the calling thread until the guard is dropped.
    ///
    /// # Safety
    /// The task stays alive for as long.
    pub unsafe fn enter(self) -> BorrowedTaskGuard {
        BorrowedTaskGuard(enter(self.0))
    }
}

/// Whether somebody has asked for the current task's end: by an abort, or the shutdown of its
/// runtime.
#[inline]
pub fn is_cancel_requested() -> bool {
    // SAFETY: a current task is alive.
    task().is_some_and(|task| unsafe { task.as_ref() }.state.load().is_cancel_requested())
}

/// Whether the current task is to end now: somebody has asked for it, and no
/// [`shield`](crate::shield()) is up.
#[inline]
pub fn is_cancel_due() -> bool {
    // SAFETY: a current task is alive.
    task().is_some_and(|task| unsafe { task.as_ref() }.state.load().is_cancel_due())
}

/// Lets a cancellation of the current task, whose future has unwound itself, take effect when its
/// poll ends, whatever shields were left behind.
pub fn end_unwinding() {
    if let Some(task) = task() {
        // SAFETY: a current task is alive.
        unsafe { task.as_ref() }.state.end_unwinding();
    }
}

/// Calls `visit` with the current task's id and where it was spawned.
pub fn with_spawn_meta<R>(visit: impl FnOnce(Id, &SpawnMeta) -> R) -> Option<R> {
    // SAFETY: a current task is alive, and stays current while `visit` runs.
    let task = task().map(|task| unsafe { &*task.as_ptr() })?;
    Some(visit(task.id, &task.meta))
}

/// Whether `waker` is the current task's own. If it is not, an executor may run
/// within the task, and block its thread.
#[inline]
pub fn is_own_waker(waker: &Waker) -> bool {
    task().is_some_and(|task| waker::is_of(waker, task))
}

/// Whether what is polled with `waker` ends its poll with the current task: the waker is the task's
/// own, or [stands for it](with_alias).
pub fn is_polled_directly(waker: &Waker) -> bool {
    let is_alias = |alias: Alias| {
        Some(alias.task) == task()
            && alias.data == waker.data()
            && ptr::eq(alias.vtable, waker.vtable())
    };
    is_own_waker(waker)
        || CURRENT
            .with(|current| current.alias.get())
            .is_some_and(is_alias)
}

/// Runs `code`, a part of the poll of the current task, which is given `alias` in place of the
/// task's own waker.
pub fn with_alias<R>(alias: &Waker, code: impl FnOnce() -> R) -> R {
    /// Restores what was before, also if `code` panics.
    struct Restore(Option<Alias>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.with(|current| current.alias.set(self.0));
        }
    }
    let alias = task().map(|task| Alias {
        task,
        data: alias.data(),
        vtable: alias.vtable(),
    });
    let _restore = Restore(CURRENT.with(|current| current.alias.replace(alias)));
    code()
}

/// Has the current task queued again when its poll ends, behind the others,
/// without the cost of a wake. Returns false if `waker` is not the task's own,
/// and so must be woken.
#[inline]
pub fn yield_if_own(waker: &Waker) -> bool {
    let is_own = is_own_waker(waker);
    if is_own {
        wait::request_yield();
    }
    is_own
}

/// Whether the current task was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortStatus {
    /// It was not.
    None,
    /// It was, and the abort takes effect when the task next waits.
    Requested,
    /// It was, and a shield defers the abort.
    Shielded,
}

/// Whether the current task was aborted; `None` if `waker` is not its own, and does not
/// [stand for it](with_alias): then the end of its poll is not the end of what is being polled.
pub fn abort_status(waker: &Waker) -> Option<AbortStatus> {
    let task = task().filter(|_| is_polled_directly(waker))?;
    // SAFETY: a current task is alive.
    let state = unsafe { task.as_ref() }.state.load();
    Some(match (state.is_cancelled(), state.shield_depth()) {
        (false, _) => AbortStatus::None,
        (true, 0) => AbortStatus::Requested,
        (true, _) => AbortStatus::Shielded,
    })
}

/// Defers an abort of the current task beyond the end of this poll, since a scope in it
/// has members. If `is_heard` is false, an abort that comes before the end of the poll causes
/// another poll.
pub fn hold_abort(is_heard: bool) {
    wait::request_hold(is_heard);
}

/// An abort of the current task is [deferred](hold_abort).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortHold {
    /// All who defer it know of it.
    pub is_heard: bool,
}

/// Runs `code`, a part of the poll of the current task; returns also whether it has
/// [deferred](hold_abort) an abort.
#[inline]
pub fn watch_holds<R>(code: impl FnOnce() -> R) -> (R, Option<AbortHold>) {
    // Nearly always there is none.
    let before = wait::is_held().then(wait::take_holds);
    let output = code();
    let hold = wait::is_held().then(|| AbortHold {
        is_heard: !wait::has_unheard_holds(),
    });
    before.into_iter().for_each(wait::add_holds);
    (output, hold)
}

/// Restores on drop whose shields were counted before, and adds those that were counted since if
/// they are of the same task.
struct ShieldCount((Option<NonNull<Header>>, isize));

impl Drop for ShieldCount {
    fn drop(&mut self) {
        CURRENT.with(|current| {
            let ((task, before), (counted, raised)) = (self.0, current.shields.get());
            let added = if task == counted { raised } else { 0 };
            current.shields.set((task, before.wrapping_add(added)));
        });
    }
}

/// Runs `code`; returns also how many shields of the current task it has raised, less those that it
/// has lowered. A task that is polled in the middle of it has shields of its own.
pub fn count_shields<R>(code: impl FnOnce() -> R) -> (R, isize) {
    let task = task();
    let count = CURRENT.with(|current| ShieldCount(current.shields.replace((task, 0))));
    let output = code();
    let (_, raised) = CURRENT.with(|current| current.shields.get());
    drop(count);
    (output, raised)
}

/// Counts a shield of `task` that was raised or lowered.
pub(crate) fn count_shield(task: Option<NonNull<Header>>, change: isize) {
    CURRENT.with(|current| {
        let (counted, raised) = current.shields.get();
        if counted == task {
            current.shields.set((task, raised.wrapping_add(change)));
        }
    });
}

/// The innermost frame of the context.
#[inline]
pub(crate) fn frames() -> Option<NonNull<Frame>> {
    CURRENT.with(|current| current.frames.get())
}

#[inline]
pub(crate) fn set_frames(frames: Option<NonNull<Frame>>) {
    CURRENT.with(|current| current.frames.set(frames));
}

/// Notes that the current task may wait for `child` next, which it has just spawned.
#[inline]
pub(crate) fn set_newest_child(child: NonNull<Header>) {
    CURRENT.with(|current| current.newest_child.set(child.as_ptr()));
}

/// Whether `task` was spawned last on this thread, by a task that may wait for it next. True at most
/// once.
#[inline]
pub(crate) fn take_newest_child(task: NonNull<Header>) -> bool {
    CURRENT.with(|current| {
        let is_newest = ptr::eq(current.newest_child.get(), task.as_ptr());
        if is_newest {
            current.newest_child.set(null());
        }
        is_newest
    })
}

/// The next unused id of this thread's batch, or the first of a new one.
#[inline]
pub(crate) fn next_id(new_batch: impl FnOnce() -> u64, batch: u64) -> u64 {
    CURRENT.with(|current| {
        let mut next = current.next_id.get();
        if next == current.end_id.get() {
            next = new_batch();
            current.end_id.set(next + batch);
        }
        current.next_id.set(next + 1);
        next
    })
}
