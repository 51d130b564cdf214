//! Functions on the types of this crate that only the runtime may call.
//!
//! `blitzen` re-exports [`Id`] and [`JoinHandle`], so that users can call their public
//! methods. What only `blitzen` and its crates need stands here, as
//! functions, which it does not re-export. All are sound all the same.
//!
//! ```compile_fail,E0624
//! # let runtime = blitzen::runtime::Runtime::new().unwrap();
//! let mut handle = runtime.spawn(async {});
//! handle.set_join_waker(std::task::Waker::noop());
//! ```
//!
//! ```compile_fail,E0624
//! let id = blitzen::task::Id::next();
//! ```

use std::task::Waker;

use std::ptr::NonNull;

use crate::error::JoinError;
use crate::header::Header;
use crate::id::Id;
use crate::join::JoinHandle;
use crate::raw;
use crate::route::Route;

/// Returns an id that no task has yet.
#[inline]
pub fn next_id() -> Id {
    Id::next()
}

/// Returns the number behind an id.
#[inline]
pub fn id_number(id: Id) -> u64 {
    id.as_u64()
}

/// Returns the route on which a task is polled unless a wake asks for another.
pub fn own_route(task: &Header) -> Route {
    // SAFETY: a header is never moved out of its task, which is alive while it is borrowed.
    unsafe { raw::own_route(NonNull::from(task)) }
}

/// Returns the id with a number.
pub fn id_of_number(number: u64) -> Option<Id> {
    Id::from_u64(number)
}

/// Sets the waker to call when the task of `handle` ends; true if it has ended
/// already, and the waker was not needed.
///
/// # Panics
/// If the handle has a waker.
#[track_caller]
pub fn set_join_waker<T>(handle: &mut JoinHandle<T>, waker: Waker) -> bool {
    handle.set_first_join_waker(waker)
}

/// Takes the output of a task that has ended; `None` if it has not.
///
/// # Panics
/// If the output was taken before.
#[track_caller]
pub fn try_take_output<T>(handle: &mut JoinHandle<T>) -> Option<Result<T, JoinError>> {
    handle.try_take_output()
}

/// Notes that the current task may wait for `child` next, which it has just spawned. If it does, and
/// the child has not ended, it yields once before it leaves a waker: the child is likely to run
/// before it goes on, and then nobody has to be woken.
#[inline]
pub fn expect_join<T>(child: &JoinHandle<T>) {
    child.expect_join();
}
