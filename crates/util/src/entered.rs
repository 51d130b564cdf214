//! Whether the calling thread is driving tasks, and so must not block.
//!
//! A thread that polls tasks (a worker, or a caller of `block_on`) has
//! *entered*. Blocking it would stall every task behind it, so the blocking
//! forms of locks and channels refuse there, and so does a nested `block_on`.
//! A worker that has handed its tasks to others may leave for a while
//! ([`leave`]), and then blocks freely.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Restores the thread's previous mark on drop.
#[derive(Debug)]
#[must_use = "dropping this restores the previous mark"]
pub struct Guard {
    before: bool,
    /// The flag belongs to this thread.
    not_send: PhantomData<*const ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        ENTERED.with(|entered| entered.set(self.before));
    }
}

fn set(now: bool) -> Guard {
    Guard {
        before: ENTERED.with(|entered| entered.replace(now)),
        not_send: PhantomData,
    }
}

/// Marks the thread as driving tasks; returns `None` if it does already.
pub fn enter() -> Option<Guard> {
    (!is_entered()).then(|| set(true))
}

/// Marks the thread as free to block until the guard is dropped.
pub fn leave() -> Guard {
    set(false)
}

/// Whether the thread drives tasks.
pub fn is_entered() -> bool {
    ENTERED.with(Cell::get)
}

/// Panics where blocking would stall tasks.
///
/// # Panics
/// If the thread drives tasks.
#[track_caller]
pub fn assert_may_block() {
    assert!(
        !is_entered(),
        "Cannot block the current thread from within a runtime. This happens because a function \
         attempted to block the current thread while the thread is being used to drive \
         asynchronous tasks. Use the asynchronous form and `.await` it, or move the blocking call \
         into `spawn_blocking`."
    );
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_enters_once_and_may_leave_for_a_while() {
        let guard = enter().unwrap();
        assert!(enter().is_none());
        {
            let _free = leave();
            assert_may_block();
            assert!(enter().is_some());
        }
        assert!(is_entered());
        drop(guard);
        assert!(!is_entered());
    }

    #[test]
    #[should_panic(expected = "Cannot block the current thread from within a runtime")]
    fn blocking_while_entered_is_refused() {
        let _guard = enter();
        assert_may_block();
    }
}
