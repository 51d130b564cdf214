//! The memory of finished tasks that is kept for new ones, as those see it who give it back.
//!
//! It is the process's: what one runtime leaves, another one uses.

use crate::alloc;

/// How many bytes may be kept however long nobody uses them.
const KEPT_FOR_GOOD: usize = 1024 * 1024;

/// How many stacks are put away at once: that takes less than half a millisecond.
const STACKS_AT_ONCE: usize = 64;

/// Returns whether there is memory to give back if it stays unused.
#[inline]
pub fn has_surplus() -> bool {
    alloc::kept_bytes() > KEPT_FOR_GOOD
}

/// Returns a number that changes whenever threads pass kept memory on to each other.
pub fn use_count() -> usize {
    alloc::use_count()
}

/// Gives some of the surplus back to the system.
///
/// ```
/// use blitzen_task::kept_memory;
///
/// while kept_memory::has_surplus() {
///     kept_memory::give_back();
/// }
/// ```
pub fn give_back() {
    alloc::put_away(STACKS_AT_ONCE, has_surplus);
}

#[cfg(all(test, not(any(blitzen_loom, blitzen_no_recycle))))]
mod tests {
    use super::*;
    use crate::alloc::tests::{burst, depots};

    #[test]
    fn a_surplus_is_given_back_in_portions() {
        let _depots = depots();
        burst(300);
        assert!(has_surplus());
        let mut kept = alloc::kept_bytes();
        while has_surplus() {
            let used = use_count();
            give_back();
            let left = alloc::kept_bytes();
            assert!(left < kept && kept - left <= STACKS_AT_ONCE * 32 * 1024);
            assert_eq!(use_count(), used, "to give back is no use");
            kept = left;
        }
        assert!(kept > KEPT_FOR_GOOD / 2, "the rest stays");
    }
}
