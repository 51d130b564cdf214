//! The memory of finished tasks that is kept for new ones, as those see it who give it back.
//!
//! It is the process's: what one runtime leaves, another one uses.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::alloc;

/// How many bytes may be kept however long nobody uses them.
const KEPT_FOR_GOOD: usize = 1024 * 1024;

/// How much is done at once: some tens of microseconds, for which a parked worker can stay away.
const STACKS_AT_ONCE: usize = 4;
const SLABS_AT_ONCE: usize = 1;

/// Whether there was a surplus, which has been given back in part. The rest follows, also what could
/// be kept: a few blocks that are kept can pin many slabs.
static IS_GIVING_BACK: AtomicBool = AtomicBool::new(false);

/// Returns whether there is memory to give back if it stays unused.
#[inline]
pub fn has_surplus() -> bool {
    alloc::kept_bytes() > KEPT_FOR_GOOD || IS_GIVING_BACK.load(Relaxed)
}

/// Returns a number that changes whenever threads pass kept memory on to each other.
pub fn use_count() -> usize {
    alloc::use_count()
}

/// Returns how many bytes the tasks of this process have from the system, in use or not.
///
/// ```
/// use blitzen_task::kept_memory;
///
/// let runtime = blitzen::runtime::Runtime::new().unwrap();
/// runtime.block_on(async { blitzen::spawn(async {}).await.unwrap() });
/// # if cfg!(not(blitzen_no_recycle)) {
/// assert!(kept_memory::mapped_bytes() > 0);
/// # }
/// ```
pub fn mapped_bytes() -> usize {
    alloc::mapped_bytes()
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
    IS_GIVING_BACK.store(true, Relaxed);
    let goes_on = alloc::give_back(STACKS_AT_ONCE, SLABS_AT_ONCE);
    IS_GIVING_BACK.store(goes_on, Relaxed);
}
