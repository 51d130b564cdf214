//! Fibers that switch stacks on the calling thread.

use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::thread;

use corosensei::stack::StackPointer;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::overflow::{self, Guarded};
use crate::guard::GUARD_SIZE;
use crate::slab::{Stack, page_size};
use crate::{FiberInfo, FiberState, MIN_STACK_SIZE, abort_on_dropped_fiber, cache};

/// The room at the base of a stack for what belongs to its fiber: the fiber itself stays small, and
/// is cheap to move.
const RESERVED: usize = 64;

const _: () = assert!(size_of::<Guarded>() <= RESERVED && align_of::<Guarded>() <= RESERVED);

// SAFETY: it has a guard area at its low end, and more than the smallest size above it
// (`Fiber::new`). The limit is a multiple of a page, the base of 64 bytes.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        NonZeroUsize::new(Stack::base(self) - RESERVED).expect("not at the address 0")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(Stack::limit(self)).expect("not at the address 0")
    }
}

/// Whether a fiber runs on another thread than the one that resumes it.
pub const HAS_OWN_THREAD: bool = false;

/// A function on a stack of its own, which can be suspended.
pub struct Fiber<I: 'static, Y: 'static, R: 'static> {
    coroutine: ManuallyDrop<Coroutine<I, Y, R, Stack>>,
    /// Above the base of its stack.
    guarded: NonNull<Guarded>,
}

/// With which the function of a fiber suspends it. Neither `Send` nor `Sync`: it belongs to the stack.
pub struct Suspender<I: 'static, Y: 'static>(*const Yielder<I, Y>);

impl<I: 'static, Y: 'static, R: 'static> Fiber<I, Y, R> {
    /// Creates a fiber that will run `body` on a stack of at least `info.stack_size` bytes.
    ///
    /// # Errors
    /// The system has no memory for another stack.
    #[inline]
    pub fn new(
        mut info: FiberInfo,
        body: impl FnOnce(&Suspender<I, Y>, I) -> R + 'static,
    ) -> io::Result<Self> {
        info.stack_size = whole_pages(info.stack_size.max(MIN_STACK_SIZE))?;
        let stack = cache::take(info.stack_size)?;
        overflow::prepare_thread();
        let guarded = NonNull::new((stack.base() - RESERVED) as *mut Guarded);
        let guarded = guarded.expect("not at the address 0");
        // SAFETY: within the stack, and above what its fiber uses. Nothing there is ever dropped.
        unsafe { guarded.write(Guarded::new(info, &stack)) };
        let coroutine = Coroutine::with_stack(stack, move |yielder, input| {
            body(&Suspender(yielder), input)
        });
        Ok(Self {
            coroutine: ManuallyDrop::new(coroutine),
            guarded,
        })
    }

    /// Runs the function until it suspends or returns.
    ///
    /// # Safety
    /// F1: no other thread has resumed it before. It has not returned.
    #[inline]
    pub unsafe fn resume(&mut self, input: I) -> FiberState<Y, R> {
        // SAFETY: written by `new`, and there as long as the stack.
        let guarded = unsafe { self.guarded.as_ref() };
        overflow::enter(guarded);
        let result = self.coroutine.resume(input);
        overflow::leave(guarded);
        match result {
            CoroutineResult::Yield(said) => FiberState::Suspended(said),
            CoroutineResult::Return(result) => FiberState::Returned(result),
        }
    }
}

impl<I: 'static, Y: 'static, R: 'static> Drop for Fiber<I, Y, R> {
    #[inline]
    fn drop(&mut self) {
        let has_returned = self.coroutine.done();
        if !has_returned && self.coroutine.started() {
            abort_on_dropped_fiber(); // F2
        }
        // SAFETY: not used again.
        let coroutine = unsafe { ManuallyDrop::take(&mut self.coroutine) };
        if has_returned {
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
        // SAFETY: the yielder outlives the function, to which the suspender is lent.
        unsafe { (*self.0).suspend(said) }
    }

    /// Calls `f` on the stack of whoever has resumed the fiber: the thread's, or another fiber's.
    /// Returns what `f` returns.
    /// A panic of `f` goes on here.
    ///
    /// # Safety
    /// `f` does not suspend the fiber.
    #[inline]
    pub unsafe fn call_on_resumer<T>(&self, f: impl FnOnce() -> T) -> T {
        /// A function that does not suspend the fiber.
        struct Call<F>(F);
        // SAFETY: it does not go to another thread. The bound is there so that nobody suspends
        // the fiber from outside of its stack, and the caller guarantees that.
        unsafe impl<F> Send for Call<F> {}
        impl<T, F: FnOnce() -> T> Call<F> {
            #[inline]
            fn call(self) -> thread::Result<T> {
                catch_unwind(AssertUnwindSafe(self.0))
            }
        }
        let call = Call(f);
        // SAFETY: the yielder outlives the function, to which the suspender is lent.
        match unsafe { (*self.0).on_parent_stack(move || call.call()) } {
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    }
}

/// Rounds a size up to whole pages.
#[inline]
fn whole_pages(size: usize) -> io::Result<usize> {
    match size.is_multiple_of(GUARD_SIZE) {
        true => Ok(size), // no system has larger pages
        false => size
            .checked_next_multiple_of(page_size())
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into()),
    }
}
