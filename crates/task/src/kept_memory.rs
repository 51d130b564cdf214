//! The memory of finished tasks that is kept for new ones, as those see it who give it back.
//!
//! It is the process's: what one runtime leaves, another one uses.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::alloc;

/// So little is not worth the trouble.
const MIN_SURPLUS: usize = 1024 * 1024;

/// Whether there was a surplus, and something of it is left, which was in use. It follows, however
/// little it is: a few blocks that are kept can pin many pages.
static IS_GIVING_BACK: AtomicBool = AtomicBool::new(false);

/// Returns whether there is memory to give back if it stays unused.
#[inline]
pub fn has_surplus() -> bool {
    alloc::kept_bytes() > MIN_SURPLUS || IS_GIVING_BACK.load(Relaxed)
}

/// Begins a period: [`give_back_some`] gives back what nobody has used in it.
pub fn start_period() {
    alloc::start_period();
}

/// Gives some memory back to the system that nobody has used in the present period, for which it
/// takes some microseconds. Returns false if there was none.
///
/// ```
/// use blitzen_task::kept_memory;
///
/// kept_memory::start_period();
/// while kept_memory::give_back_some() {}
/// ```
pub fn give_back_some() -> bool {
    let goes_on = alloc::give_back_some();
    IS_GIVING_BACK.store(goes_on || alloc::kept_bytes() > 0, Relaxed);
    goes_on
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
