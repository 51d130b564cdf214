//! What the runtime keeps in thread-locals for the code that runs, and a suspended coroutine
//! takes with it: the values of task-locals that it has set, the frames of its context, whether
//! it has a budget, and the `LocalSet` that it has entered. Its entered runtimes are in
//! `runtime/context.rs`.
//!
//! Each of them is a pointer or a flag. So to put them away is to swap a few words, unless the
//! coroutine is suspended inside the scope of a task-local.

use std::cell::Cell;
use std::ptr::null;

use blitzen_task::context::{SavedFrames, has_frames, replace_frames};
use blitzen_util::coop;

use crate::task::EnteredSet;

thread_local! {
    /// The innermost scope of a task-local that the code of this thread, or of the coroutine that
    /// it runs, is in.
    static INNERMOST: Cell<*const TaskLocalScope> = const { Cell::new(null()) };
}

/// A scope of a task-local: a value that stands in a thread-local slot, and the place where it
/// goes when the scope is left. It lies in the stack frame of the scope.
pub(crate) struct TaskLocalScope {
    key: *const (),
    value: *mut (),
    functions: &'static ScopeFunctions,
    /// The scope around this one.
    outer: Cell<*const TaskLocalScope>,
}

/// What is done with the slot of a task-local, whatever its type.
pub(crate) struct ScopeFunctions {
    /// Swaps slot and value. To be called with both, while the scope is entered.
    pub(crate) swap: unsafe fn(*const (), *mut ()),
    /// Whether the slot can be swapped: nobody borrows it.
    pub(crate) is_free: unsafe fn(*const ()) -> bool,
}

impl TaskLocalScope {
    pub(crate) fn new(key: *const (), value: *mut (), functions: &'static ScopeFunctions) -> Self {
        Self {
            key,
            value,
            functions,
            outer: Cell::new(null()),
        }
    }

    /// Notes that this scope is entered, and is the innermost.
    ///
    /// # Safety
    /// It stays where it is until [`leave`](Self::leave).
    #[inline]
    pub(crate) unsafe fn enter(&self) {
        self.outer.set(INNERMOST.replace(self));
    }

    /// Notes that this scope, the innermost, is left.
    #[inline]
    pub(crate) fn leave(&self) {
        INNERMOST.set(self.outer.get());
    }

    /// Swaps slot and value.
    ///
    /// # Safety
    /// The scope is entered, and the code inside does not run.
    unsafe fn swap(&self) {
        // SAFETY: as the caller guarantees.
        unsafe { (self.functions.swap)(self.key, self.value) };
    }
}

/// Whether the coroutine can be suspended here, or the thread run another one while it blocks: the
/// calling code does not borrow the value of a task-local.
#[inline]
pub(crate) fn can_suspend() -> bool {
    let innermost = INNERMOST.get();
    innermost.is_null() || are_free(innermost)
}

#[cold]
fn are_free(innermost: *const TaskLocalScope) -> bool {
    let mut next = innermost;
    // SAFETY: the code of this thread is inside these scopes.
    while let Some(scope) = unsafe { next.as_ref() } {
        // SAFETY: its own key.
        if !unsafe { (scope.functions.is_free)(scope.key) } {
            return false;
        }
        next = scope.outer.get();
    }
    true
}

/// Puts the values of scopes into their slots: the outermost first, since scopes
/// of one key nest.
///
/// # Safety
/// The code inside these scopes does not run, and its values are not in their slots.
unsafe fn set_values(innermost: *const TaskLocalScope) {
    // SAFETY: as the caller guarantees.
    if let Some(scope) = unsafe { innermost.as_ref() } {
        // SAFETY: as above.
        unsafe {
            set_values(scope.outer.get());
            scope.swap();
        }
    }
}

/// Takes the values of scopes out of their slots.
///
/// # Safety
/// The code inside these scopes does not run, and its values are in their slots.
unsafe fn take_values(innermost: *const TaskLocalScope) {
    let mut next = innermost;
    // SAFETY: as the caller guarantees.
    while let Some(scope) = unsafe { next.as_ref() } {
        // SAFETY: as above; `can_suspend` has found the slots free.
        unsafe { scope.swap() };
        next = scope.outer.get();
    }
}

/// What a suspended coroutine has taken with it, or what its thread had before it was resumed. By
/// default, that of a coroutine that has not started.
pub(super) struct ThreadState {
    /// The innermost scope of a task-local.
    scopes: *const TaskLocalScope,
    /// Frames on the coroutine's own stack. None of them leads to a frame of the thread that
    /// resumed it.
    frames: SavedFrames,
    is_unconstrained: bool,
    local_set: EnteredSet,
}

/// What a suspended coroutine has taken with it. Hardly any has anything.
pub(super) struct KeptThreadState {
    is_default: Cell<bool>,
    state: Cell<ThreadState>,
}

impl Default for KeptThreadState {
    #[inline]
    fn default() -> Self {
        Self {
            is_default: Cell::new(true),
            state: Cell::default(),
        }
    }
}

impl KeptThreadState {
    fn take(&self) -> ThreadState {
        self.is_default.set(true);
        self.state.take()
    }

    fn set(&self, state: ThreadState) {
        self.is_default.set(state.is_default());
        self.state.set(state);
    }
}

impl Default for ThreadState {
    #[inline]
    fn default() -> Self {
        Self {
            scopes: null(),
            frames: SavedFrames::default(),
            is_unconstrained: false,
            local_set: EnteredSet::NONE,
        }
    }
}

impl ThreadState {
    /// Whether it is the default one.
    #[inline]
    fn is_default(&self) -> bool {
        self.scopes.is_null()
            && self.frames.is_empty()
            && !self.is_unconstrained
            && self.local_set.is_none()
    }

    /// Whether the thread has the default one, so that there is nothing to put away.
    #[inline]
    fn is_default_here() -> bool {
        INNERMOST.get().is_null()
            && !has_frames()
            && !coop::is_unconstrained()
            && !EnteredSet::is_here()
    }

    /// [`install`](Self::install) of what a suspended coroutine keeps in `kept`. Returns what the
    /// thread had, or `None` if that is the default.
    #[inline]
    pub(super) fn install_from(kept: &KeptThreadState) -> Option<Box<Self>> {
        match kept.is_default.get() && Self::is_default_here() {
            true => None, // both have the same
            false => Self::install_rare(kept),
        }
    }

    /// [`put_away`](Self::put_away) of what [`install_from`](Self::install_from) has returned, into
    /// `kept`, if there is such a place.
    #[inline]
    pub(super) fn put_away_into(outer: Option<Box<Self>>, kept: Option<&KeptThreadState>) {
        if outer.is_none() && Self::is_default_here() {
            return; // and so is what is kept
        }
        Self::put_away_rare(outer, kept);
    }

    #[cold]
    fn install_rare(kept: &KeptThreadState) -> Option<Box<Self>> {
        let outer = kept.take().install();
        (!outer.is_default()).then(|| Box::new(outer))
    }

    #[cold]
    fn put_away_rare(outer: Option<Box<Self>>, kept: Option<&KeptThreadState>) {
        let inner = outer.map_or_else(Self::default, |outer| *outer).put_away();
        match kept {
            Some(kept) => kept.set(inner),
            None => inner.local_set.discard(), // the coroutine has not left it
        }
    }

    /// Sets this, which the coroutine has that is about to be polled; returns what the thread had.
    #[inline]
    fn install(self) -> Self {
        let outer = Self {
            scopes: INNERMOST.replace(self.scopes),
            // SAFETY: of calls of the coroutine, which is suspended inside them, and goes on only
            // with its frames installed.
            frames: unsafe { replace_frames(self.frames) },
            is_unconstrained: coop::is_unconstrained(),
            local_set: self.local_set.install(),
        };
        // SAFETY: entered by code that blocks this thread, and has found their slots free before
        // it runs coroutines.
        unsafe { take_values(outer.scopes) };
        // SAFETY: entered by the coroutine, which is suspended inside them.
        unsafe { set_values(self.scopes) };
        if self.is_unconstrained {
            coop::stop();
        }
        outer
    }

    /// Sets this, which the thread had before; returns what the coroutine has, which is suspended
    /// or has ended.
    #[inline]
    fn put_away(self) -> Self {
        let inner = Self {
            scopes: INNERMOST.replace(self.scopes),
            // SAFETY: of calls below this one on the thread's stack, which go on after it.
            frames: unsafe { replace_frames(self.frames) },
            is_unconstrained: coop::is_unconstrained(),
            local_set: self.local_set.install(),
        };
        // SAFETY: entered by the coroutine, which is suspended inside them, or has left them.
        unsafe { take_values(inner.scopes) };
        // SAFETY: taken out by `install`.
        unsafe { set_values(self.scopes) };
        if inner.is_unconstrained && !self.is_unconstrained {
            coop::start();
        }
        inner
    }
}
