//! Tells the kernel, once in a process, that locks rely on its interrupting all processors.
//!
//! While the process has one thread that is a system call. With more, the kernel takes some ten
//! milliseconds: then a thread that belongs to no runtime waits for it.

use std::sync::Once;
use std::thread;

use blitzen_util::asymmetric_fence::{IS_POSSIBLE, is_prepared, prepare};

use super::affinity;

/// Tells it if that takes no time: for a runtime that is built, whatever its kind.
pub(super) fn prepare_if_alone() {
    static ONCE: Once = Once::new();
    if IS_POSSIBLE {
        ONCE.call_once(|| {
            if is_alone() {
                prepare();
            }
        });
    }
}

/// Tells it: for a runtime that starts threads. If there can be none, locks are as slow as others.
pub(super) fn prepare_in_background() {
    static ONCE: Once = Once::new();
    if IS_POSSIBLE {
        ONCE.call_once(|| {
            if !is_prepared() {
                let thread = thread::Builder::new().name("blitzen-fence".into());
                let _detached = affinity::spawn_unbound(thread, || {
                    prepare();
                });
            }
        });
    }
}

/// Whether the calling thread is the only one of the process, as far as the system says.
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}
