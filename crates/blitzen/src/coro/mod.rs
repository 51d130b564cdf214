//! Coroutines: plain functions that wait for futures without blocking a thread.
//!
//! A coroutine has a stack of its own. So it can call code that knows nothing of `async`, such as
//! a parser that reads from a [`Read`](std::io::Read), and that code can call back into code
//! that waits, by [`block_on`]: for a socket, a channel, a timer, any future. The
//! coroutine is suspended there, and its thread goes on with other tasks.
//!
//! ```
//! use std::io::Read;
//! use blitzen::{coro, io::AsyncReadExt, net::TcpStream};
//!
//! /// A stream for code that only knows `std::io::Read`.
//! struct Blocking(TcpStream);
//!
//! impl Read for Blocking {
//!     fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
//!         coro::block_on(self.0.read(buffer))
//!     }
//! }
//! ```
//!
//! A coroutine is a task in every other respect: it is spawned, joined, aborted and counted like
//! one. It stays on the thread that starts it, so code that blocks that thread holds it up.

mod builder;
mod fiber_future;
mod inside;
mod scope;
pub(crate) mod thread_state;

use std::future::Future;
use std::thread;

use blitzen_task::current;
use blitzen_util::entered;

use crate::runtime::{self, Handle};
use crate::task::{self, JoinHandle};

pub use builder::Builder;
pub(crate) use inside::Outside;
pub use scope::{Scope, scope};

/// Spawns a coroutine on the current runtime, and returns a [`JoinHandle`] for its output.
///
/// `f` runs on a stack of its own, of 256 KiB; [`Builder`] can set another size. Where it calls
/// [`block_on`] it is suspended, and its thread runs other tasks. Until it starts, it may move to
/// another thread; from then on it stays on its thread.
///
/// Aborting the handle unwinds `f` at the next suspension that no [`shield`] protects. A panic in
/// `f` is the handle's error, as for a task.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::{coro, time};
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// // SAFETY: `sort_by_key` and the closure keep nothing in this thread's locals.
/// let sorted = unsafe {
///     coro::spawn(|| {
///         let mut numbers = vec![3, 1, 2];
///         numbers.sort_by_key(|&number| {
///             coro::block_on(time::sleep(Duration::from_millis(1))); // inside a plain function
///             number
///         });
///         numbers
///     })
/// };
/// assert_eq!(sorted.await.unwrap(), [1, 2, 3]);
/// # });
/// ```
///
/// # Panics
///
/// Panics outside a runtime, and if a current-thread runtime cannot start the thread that its
/// coroutines run on.
///
/// # Safety
///
/// No frame of `f` that lives across [`block_on`], [`yield_now`] or the end of a [`scope`] relies
/// on the calls of its thread being nested: that whatever this thread calls after it also returns
/// before it. Values in thread-locals, `Rc`s and guards are fine. `scoped_tls::ScopedKey::set` is
/// not: when it returns, it restores a pointer that was in a thread-local before, which may point
/// into the frame of another coroutine. Nor may the initialiser of a thread-local wait.
#[track_caller]
pub unsafe fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: handed on.
    unsafe { builder::spawn_default(f) }
}

/// Waits for `future`, and returns its output.
///
/// Inside a coroutine this suspends the coroutine. `future` is polled by the thread, on its large
/// stack. Elsewhere the thread blocks; if it runs a worker of a multi-thread runtime, another
/// thread goes on with the worker. So a function that calls this can be called from a coroutine,
/// from [`spawn_blocking`](crate::task::spawn_blocking), from a task and outside a runtime.
///
/// It also blocks its thread inside a coroutine while that unwinds, and inside
/// [`block_in_place`](crate::task::block_in_place).
///
/// If the coroutine is aborted, `future` is dropped before the coroutine unwinds; its destructor may
/// wait, as in a [`shield`].
///
/// # Examples
///
/// ```
/// use blitzen::{channel::oneshot, coro};
///
/// fn receive(receiver: oneshot::Receiver<u32>) -> u32 {
///     coro::block_on(receiver).unwrap()
/// }
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let (sender, receiver) = oneshot::channel();
/// // SAFETY: no thread-locals.
/// let received = unsafe { coro::spawn(|| receive(receiver)) };
/// sender.send(5).unwrap();
/// assert_eq!(received.await.unwrap(), 5);
///
/// let (sender, receiver) = oneshot::channel();
/// sender.send(6).unwrap();
/// assert_eq!(blitzen::task::spawn_blocking(|| receive(receiver)).await.unwrap(), 6);
/// # });
/// ```
///
/// # Panics
///
/// Resumes a panic of `future`. Panics outside a coroutine on a thread that runs the
/// tasks of a current-thread runtime or of a [`LocalSet`](crate::task::LocalSet): nothing else
/// would run there meanwhile. Panics inside [`LocalKey::with`](crate::task::LocalKey::with).
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    match inside::current() {
        // A thread that panics is not left: other coroutines would take that for their own.
        Some(inside) if !thread::panicking() => inside.wait(future),
        _ => block_thread(future),
    }
}

/// Panics where [`block_on`] would.
#[track_caller]
fn assert_can_wait() {
    if !thread::panicking() {
        inside::assert_can_suspend();
        if is_inside() {
            return;
        }
    }
    let has_other_tasks = entered::is_entered()
        && (blitzen_sched::is_current_thread_driver() || task::is_polling_local_set());
    assert!(
        !has_other_tasks,
        "`coro::block_on` called outside a coroutine on a thread that runs the tasks of a \
         current-thread runtime or a `LocalSet`. Use `.await`, or call it in a coroutine or in \
         `spawn_blocking`."
    );
}

#[track_caller]
fn block_thread<F: Future>(future: F) -> F::Output {
    assert_can_wait();
    task::block_in_place(|| match Handle::try_current() {
        Ok(handle) => runtime::block_on_thread(&handle, future),
        Err(_) => blitzen_util::block_on::block_on(future),
    })
}

/// Lets other tasks of the thread run before the coroutine goes on. If none is ready, the coroutine
/// goes on at once, but not more often in a row than a worker lets tasks run before it looks for
/// I/O and timers. Outside a coroutine, yields the thread.
///
/// # Examples
///
/// ```
/// use blitzen::coro;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// // SAFETY: no thread-locals.
/// let sum = unsafe {
///     coro::spawn(|| {
///         let mut sum = 0;
///         for number in 0..1000 {
///             sum += number;
///             coro::yield_now();
///         }
///         sum
///     })
/// };
/// assert_eq!(sum.await.unwrap(), 499_500);
/// # });
/// ```
pub fn yield_now() {
    match inside::current() {
        Some(inside) if !thread::panicking() => {
            inside::assert_can_suspend();
            // An abort takes effect where the coroutine waits.
            let may_unwind = current::is_cancel_requested();
            if may_unwind || !blitzen_sched::yield_in_place() {
                inside.wait_for_turn(may_unwind);
            }
        }
        _ => thread::yield_now(),
    }
}

/// Calls `f`, and returns what it returns. If the coroutine is aborted meanwhile, it is not
/// unwound before `f` has returned.
///
/// Frames of other languages cannot be unwound: if C code calls back into Rust code that calls
/// [`block_on`], the call of the C code belongs into a shield. Outside a coroutine `f` is simply
/// called. A runtime that shuts down waits for coroutines that are under a shield, as it waits
/// for [`spawn_blocking`](crate::task::spawn_blocking).
///
/// # Examples
///
/// ```
/// use blitzen::{coro, task};
///
/// extern "C" fn callback() {
///     coro::block_on(task::yield_now());
/// }
///
/// extern "C" fn c_library(callback: extern "C" fn()) {
///     callback();
/// }
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// // SAFETY: no thread-locals.
/// let called = unsafe { coro::spawn(|| coro::shield(|| c_library(callback))) };
/// called.await.unwrap();
/// # });
/// ```
pub fn shield<R>(f: impl FnOnce() -> R) -> R {
    let _shield = inside::current().map(inside::Inside::raise_shield);
    f()
}

/// Returns whether the caller runs in a coroutine, so that [`block_on`] suspends it.
///
/// # Examples
///
/// ```
/// use blitzen::coro;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// assert!(!coro::is_inside());
/// // SAFETY: no thread-locals.
/// assert!(unsafe { coro::spawn(coro::is_inside) }.await.unwrap());
/// # });
/// ```
#[inline]
pub fn is_inside() -> bool {
    inside::current().is_some()
}
