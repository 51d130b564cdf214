//! Running foreign code where a panic must not spread: a waker, or the destructor of
//! a user's value.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code`, and returns what it panicked with, if it did.
///
/// ```
/// use blitzen_util::quiet::catch;
///
/// assert!(catch(|| ()).is_none());
/// assert!(catch(|| panic!("caught")).is_some());
/// ```
pub fn catch(code: impl FnOnce()) -> Option<Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(code)).err()
}

/// Runs `code`, and drops what it panicked with. The panic hook has reported it.
///
/// ```
/// blitzen_util::quiet::quietly(|| panic!("reported, and no more"));
/// ```
pub fn quietly(code: impl FnOnce()) {
    if let Some(payload) = catch(code) {
        // A payload whose own destructor panics is leaked rather than dropped again.
        std::mem::forget(catch(|| drop(payload)));
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_whose_payload_panics_on_drop_goes_no_further() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                std::panic::panic_any(Bomb);
            }
        }
        quietly(|| std::panic::panic_any(Bomb));
    }
}
