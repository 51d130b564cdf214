//! Fibers that switch stacks on the calling thread.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;

use corosensei::stack::StackPointer;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::overflow::{self, Guarded};
use crate::slab::Stack;
use crate::{FiberInfo, MIN_STACK_SIZE, abort_on_dropped_fiber, cache};

// SAFETY: it has a guard area at its low end, and more than the smallest size above it
// (`Fiber::new`). Both addresses are multiples of a page.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        NonZeroUsize::new(Stack::base(self)).expect("not at the address 0")
    }

    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(Stack::limit(self)).expect("not at the address 0")
    }
}

/// Whether a fiber runs on another thread than the one that resumes it.
pub const HAS_OWN_THREAD: bool = false;

/// A function on a stack of its own, which can be suspended.
pub struct Fiber<I: 'static, Y: 'static> {
    /// Taken out when the function has returned.
    coroutine: ManuallyDrop<Coroutine<I, Y, (), Stack>>,
    guarded: Box<Guarded>,
    has_returned: bool,
}

/// With which the function of a fiber suspends it.
pub struct Suspender<I: 'static, Y: 'static> {
    yielder: *const Yielder<I, Y>,
    /// Not `Send`, nor `Sync`.
    on_stack: Cell<()>,
}

impl<I: 'static, Y: 'static> Fiber<I, Y> {
    /// Creates a fiber that will run `body` on a stack of at least `info.stack_size` bytes.
    ///
    /// # Errors
    /// The system has no memory for another stack.
    pub fn new(
        mut info: FiberInfo,
        body: impl FnOnce(&Suspender<I, Y>, I) + 'static,
    ) -> io::Result<Self> {
        let size = info.stack_size.max(MIN_STACK_SIZE);
        let size = size.checked_next_multiple_of(page_size());
        let size = size.ok_or(io::ErrorKind::OutOfMemory)?;
        info.stack_size = size;
        let stack = cache::take(size)?;
        overflow::prepare_thread();
        let guarded = Box::new(Guarded::new(info, &stack));
        let coroutine = Coroutine::with_stack(stack, move |yielder, input| {
            let suspender = Suspender {
                yielder,
                on_stack: Cell::new(()),
            };
            body(&suspender, input);
        });
        Ok(Self {
            coroutine: ManuallyDrop::new(coroutine),
            guarded,
            has_returned: false,
        })
    }

    /// Runs the function until it suspends, and returns what it says then; `None` when it has
    /// returned.
    ///
    /// # Safety
    /// F1: no other thread has resumed it before. It has not returned.
    #[inline]
    pub unsafe fn resume(&mut self, input: I) -> Option<Y> {
        let before = overflow::enter(&*self.guarded);
        let result = self.coroutine.resume(input);
        overflow::enter(before);
        match result {
            CoroutineResult::Yield(said) => Some(said),
            CoroutineResult::Return(()) => {
                self.has_returned = true;
                None
            }
        }
    }
}

impl<I: 'static, Y: 'static> Drop for Fiber<I, Y> {
    fn drop(&mut self) {
        if !self.has_returned && self.coroutine.started() {
            abort_on_dropped_fiber(); // F2
        }
        // SAFETY: not used again.
        let coroutine = unsafe { ManuallyDrop::take(&mut self.coroutine) };
        if self.has_returned {
            cache::put_back(coroutine.into_stack());
        }
        // One that was never resumed drops its function, and its stack.
    }
}

impl<I: 'static, Y: 'static> Suspender<I, Y> {
    /// Suspends the fiber: [`Fiber::resume`] returns `said`. Returns what the next `resume` was
    /// given.
    #[inline]
    pub fn suspend(&self, said: Y) -> I {
        let () = self.on_stack.get();
        // SAFETY: the yielder outlives the function, to which the suspender is lent.
        unsafe { (*self.yielder).suspend(said) }
    }
}

fn page_size() -> usize {
    // SAFETY: only asks.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
