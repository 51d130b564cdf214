//! Fibers that have a thread each, of which one runs at a time: it has the baton.
//!
//! ```text
//!   resumer:  give the baton to the fiber      wait until it is back
//!   fiber:    wait for the baton   run   give it back, with what it says
//! ```
//!
//! N1. Only the thread that has the baton runs the function, or goes on after `resume`, or calls
//!     what the fiber wants to have called there.
//!
//! The function is on one thread from its start to its end, so that F1 holds for its frames; it
//! is not the thread that resumes it.

use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use blitzen_util::shim::{Arc, Condvar, Mutex, thread};

use crate::metrics::{CREATED, TAKEN};
use crate::{FiberInfo, FiberState, abort_on_dropped_fiber};

/// Who has the baton, and what comes with it.
enum Baton<I, Y> {
    /// The resumer; the fiber waits.
    Resumer,
    /// The fiber, which was resumed with this and has not begun yet to run.
    Resumed(I),
    /// The fiber.
    Fiber,
    /// The resumer has not taken it yet; the fiber has suspended with this.
    Suspended(Y),
    /// The resumer is to call this, and to give the baton back.
    Call(NonNull<dyn FnMut()>),
    /// The resumer has done so, and the fiber has not gone on yet.
    Called,
    /// The function has returned.
    Returned,
    /// The fiber is dropped before it was ever resumed.
    NeverStarted,
}

struct BatonCell<I, Y> {
    baton: Mutex<Baton<I, Y>>,
    passed: Condvar,
}

/// A value that goes with the baton.
struct Passed<T>(T);

// SAFETY: N1: what it holds is used by one thread at a time, as if they were one.
unsafe impl<T> Send for Passed<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Passed<T> {}

/// Whether a fiber runs on another thread than the one that resumes it.
pub const HAS_OWN_THREAD: bool = true;

/// A function on a thread of its own, which can be suspended.
pub struct Fiber<I: 'static, Y: 'static, R: 'static> {
    shared: Arc<Passed<BatonCell<I, Y>>>,
    /// What the function has returned.
    result: Arc<Passed<Mutex<Option<R>>>>,
    thread: Option<thread::JoinHandle<()>>,
    has_started: bool,
    has_returned: bool,
    not_send: PhantomData<*const ()>,
}

/// With which the function of a fiber suspends it.
pub struct Suspender<I: 'static, Y: 'static> {
    shared: Arc<Passed<BatonCell<I, Y>>>,
}

impl<I, Y> BatonCell<I, Y> {
    fn pass(&self, baton: Baton<I, Y>) {
        *self.baton.lock() = baton;
        self.passed.notify_all();
    }

    /// Waits on the fiber's thread until it is resumed; `None` if it never will be.
    fn wait_resumed(&self) -> Option<I> {
        let mut baton = self.baton.lock();
        loop {
            match std::mem::replace(&mut *baton, Baton::Fiber) {
                Baton::Resumed(input) => return Some(input),
                Baton::NeverStarted => return None,
                other => *baton = other,
            }
            baton = self.passed.wait(baton);
        }
    }

    /// Waits until the fiber has suspended or returned, and calls what it wants to have called.
    fn wait_suspended(&self) -> Option<Y> {
        let mut baton = self.baton.lock();
        loop {
            match std::mem::replace(&mut *baton, Baton::Resumer) {
                Baton::Suspended(said) => return Some(said),
                Baton::Returned => return None,
                Baton::Call(mut f) => {
                    drop(baton);
                    // SAFETY: the fiber lends it until it has the baton again; it does not unwind.
                    unsafe { (f.as_mut())() };
                    self.pass(Baton::Called);
                    baton = self.baton.lock();
                    continue;
                }
                other => *baton = other,
            }
            baton = self.passed.wait(baton);
        }
    }

    /// Waits on the fiber's thread until the resumer has called what it was to call.
    fn wait_called(&self) {
        let mut baton = self.baton.lock();
        while !matches!(*baton, Baton::Called) {
            baton = self.passed.wait(baton);
        }
        *baton = Baton::Fiber;
    }
}

impl<I: 'static, Y: 'static, R: 'static> Fiber<I, Y, R> {
    /// Creates a fiber that will run `body` on a thread with a stack of `info.stack_size` bytes.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn new(
        info: FiberInfo,
        body: impl FnOnce(&Suspender<I, Y>, I) -> R + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Passed(BatonCell {
            baton: Mutex::new(Baton::Resumer),
            passed: Condvar::new(),
        }));
        let result = Arc::new(Passed(Mutex::new(None)));
        let on_thread = Passed((shared.clone(), result.clone(), body));
        let main = move || {
            let Passed((shared, result, body)) = { on_thread };
            let Some(input) = shared.0.wait_resumed() else {
                return;
            };
            let suspender = Suspender { shared };
            let returned = body(&suspender, input);
            *result.0.lock() = Some(returned);
            suspender.shared.0.pass(Baton::Returned);
        };
        let thread = spawn(info, main)?;
        CREATED.add(1);
        TAKEN.add(1);
        Ok(Self {
            shared,
            result,
            thread: Some(thread),
            has_started: false,
            has_returned: false,
            not_send: PhantomData,
        })
    }

    /// Runs the function until it suspends or returns.
    ///
    /// # Safety
    /// F1: no other thread has resumed it before. It has not returned.
    pub unsafe fn resume(&mut self, input: I) -> FiberState<Y, R> {
        self.has_started = true;
        self.shared.0.pass(Baton::Resumed(input));
        if let Some(said) = self.shared.0.wait_suspended() {
            return FiberState::Suspended(said);
        }
        self.has_returned = true;
        let result = self.result.0.lock().take();
        FiberState::Returned(result.expect("written before the baton was passed"))
    }
}

#[cfg(not(blitzen_loom))]
fn spawn(info: FiberInfo, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    let builder = thread::Builder::new().stack_size(info.stack_size.max(1024 * 1024));
    let builder = builder.name(info.name.unwrap_or("coroutine").into());
    builder.spawn(main)
}

#[cfg(blitzen_loom)]
fn spawn(_: FiberInfo, main: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    Ok(thread::spawn(main))
}

impl<I: 'static, Y: 'static, R: 'static> Drop for Fiber<I, Y, R> {
    fn drop(&mut self) {
        if !self.has_returned {
            if self.has_started {
                abort_on_dropped_fiber(); // F2
            }
            self.shared.0.pass(Baton::NeverStarted);
        }
        TAKEN.add(-1);
        if let Some(thread) = self.thread.take() {
            // The function does not unwind (F2).
            let _ = thread.join();
        }
    }
}

impl<I: 'static, Y: 'static> Suspender<I, Y> {
    /// Suspends the fiber: [`Fiber::resume`] returns `said`. Returns what the next `resume` was
    /// given.
    pub fn suspend(&self, said: Y) -> I {
        self.shared.0.pass(Baton::Suspended(said));
        match self.shared.0.wait_resumed() {
            Some(input) => input,
            None => unreachable!("it has been resumed before"),
        }
    }

    /// Calls `f` on the thread that has resumed the fiber, and returns what it returns. A panic of
    /// `f` goes on here.
    ///
    /// # Safety
    /// `f` does not suspend the fiber.
    pub unsafe fn call_on_resumer<T>(&self, f: impl FnOnce() -> T) -> T {
        let (mut f, mut result) = (Some(f), None);
        let mut call = || {
            let f = f.take();
            result = f.map(|f| catch_unwind(AssertUnwindSafe(f)));
        };
        let call: NonNull<dyn FnMut() + '_> = NonNull::from(&mut call);
        // SAFETY: only the lifetime changes: the call is over before this function goes on.
        let call: NonNull<dyn FnMut()> = unsafe { std::mem::transmute(call) };
        self.shared.0.pass(Baton::Call(call));
        self.shared.0.wait_called();
        match result {
            Some(Ok(value)) => value,
            Some(Err(payload)) => resume_unwind(payload),
            None => unreachable!("the resumer has called it"),
        }
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use std::panic::Location;

    fn info() -> FiberInfo {
        FiberInfo {
            name: None,
            spawned_at: Location::caller(),
            stack_size: crate::DEFAULT_STACK_SIZE,
        }
    }

    #[test]
    fn the_baton_goes_to_the_fiber_and_back_with_what_it_carries() {
        loom::model(|| {
            let body = |suspender: &Suspender<u32, u32>, first: u32| {
                let second = suspender.suspend(first + 10);
                second + 100
            };
            let mut fiber = Fiber::new(info(), body).unwrap();
            // SAFETY: on this thread only, and not after it has returned.
            unsafe {
                assert_eq!(fiber.resume(1), FiberState::Suspended(11));
                assert_eq!(fiber.resume(2), FiberState::Returned(102));
            }
        });
    }

    #[test]
    fn what_a_fiber_has_called_runs_on_the_resumers_thread_before_the_fiber_goes_on() {
        loom::model(|| {
            let resumer = thread::current().id();
            let body = move |suspender: &Suspender<(), u32>, ()| {
                let mut count = 0;
                // SAFETY: it does not suspend the fiber.
                let called_on = unsafe {
                    suspender.call_on_resumer(|| {
                        count += 1;
                        thread::current().id()
                    })
                };
                assert_eq!((called_on, count), (resumer, 1));
                suspender.suspend(count);
            };
            let mut fiber = Fiber::new(info(), body).unwrap();
            // SAFETY: on this thread only, and not after it has returned.
            unsafe {
                assert_eq!(fiber.resume(()), FiberState::Suspended(1));
                assert_eq!(fiber.resume(()), FiberState::Returned(()));
            }
        });
    }

    #[test]
    fn a_fiber_that_never_starts_drops_its_function_and_ends_its_thread() {
        loom::model(|| {
            let held = Arc::new(());
            let body = {
                let held = held.clone();
                move |_: &Suspender<(), ()>, ()| drop(held)
            };
            drop(Fiber::new(info(), body).unwrap());
            assert_eq!(Arc::strong_count(&held), 1);
        });
    }
}
