//! What the runtime keeps in thread-locals for the code that runs, and a suspended coroutine
//! takes with it: the values of task-locals that it has set, the frames of its context, and
//! whether it has a budget. Its entered runtimes are in `runtime/context.rs`.

use std::cell::RefCell;
use std::mem;

use blitzen_task::context::{SavedFrames, replace_frames};
use blitzen_util::coop;

thread_local! {
    /// The scopes of task-locals that the code of this thread, or of the coroutine that it runs,
    /// is in: the innermost last.
    static SCOPES: RefCell<Vec<TaskLocalScope>> = const { RefCell::new(Vec::new()) };
}

/// A scope of a task-local: a value that stands in a thread-local slot, and the place where it
/// goes when the scope is left.
#[derive(Clone, Copy)]
pub(crate) struct TaskLocalScope {
    pub(crate) key: *const (),
    pub(crate) value: *mut (),
    /// Swaps slot and value. To be called with both, while the scope is entered.
    pub(crate) swap: unsafe fn(*const (), *mut ()),
    /// Whether the slot can be swapped: nobody borrows it.
    pub(crate) is_free: unsafe fn(*const ()) -> bool,
}

/// Notes that a scope was entered.
pub(crate) fn enter_scope(scope: TaskLocalScope) {
    let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().push(scope));
}

/// Notes that the innermost scope is left.
pub(crate) fn leave_scope() {
    let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().pop());
}

/// Whether the coroutine can be suspended here: nobody borrows the value of a task-local.
pub(super) fn can_suspend() -> bool {
    SCOPES.with(|scopes| {
        let scopes = scopes.borrow();
        // SAFETY: its key, of a scope that is entered.
        scopes
            .iter()
            .all(|scope| unsafe { (scope.is_free)(scope.key) })
    })
}

/// What a suspended coroutine has taken with it.
#[derive(Default)]
pub(super) struct ThreadState {
    scopes: Vec<TaskLocalScope>,
    /// Frames on the coroutine's own stack. None of them leads to a frame of the thread that
    /// resumed it.
    frames: SavedFrames,
    is_unconstrained: bool,
}

/// What the thread had before it resumed a coroutine.
pub(super) struct OuterState {
    scopes: Vec<TaskLocalScope>,
    frames: SavedFrames,
    is_unconstrained: bool,
}

impl ThreadState {
    /// Sets what the coroutine has, which is about to be polled.
    #[inline]
    pub(super) fn install(&mut self) -> OuterState {
        for scope in &self.scopes {
            // SAFETY: entered by the coroutine, which is suspended inside it.
            unsafe { (scope.swap)(scope.key, scope.value) };
        }
        let inner = mem::take(&mut self.scopes);
        let outer = OuterState {
            scopes: SCOPES.with(|scopes| scopes.replace(inner)),
            // SAFETY: of calls of the coroutine, which is suspended inside them, and goes on only
            // with its frames installed.
            frames: unsafe { replace_frames(mem::take(&mut self.frames)) },
            is_unconstrained: coop::is_unconstrained(),
        };
        if self.is_unconstrained {
            coop::stop();
        }
        outer
    }

    /// Takes what the coroutine has, which is suspended or has ended, and sets what the thread
    /// had before.
    #[inline]
    pub(super) fn put_away(&mut self, outer: OuterState) {
        self.scopes = SCOPES.with(|scopes| scopes.replace(outer.scopes));
        // SAFETY: of calls below this one on the thread's stack, which go on after it.
        self.frames = unsafe { replace_frames(outer.frames) };
        for scope in self.scopes.iter().rev() {
            // SAFETY: as above; `can_suspend` has found the slots free.
            unsafe { (scope.swap)(scope.key, scope.value) };
        }
        self.is_unconstrained = coop::is_unconstrained();
        if self.is_unconstrained && !outer.is_unconstrained {
            coop::start();
        }
    }
}
