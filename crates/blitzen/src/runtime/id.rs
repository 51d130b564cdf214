//! The ids of runtimes.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An opaque id of a runtime or of a [`LocalSet`](crate::task::LocalSet), unlike that of any
/// other in the process.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Runtime;
///
/// let (one, other) = (Runtime::new().unwrap(), Runtime::new().unwrap());
/// assert_ne!(one.handle().id(), other.handle().id());
/// ```
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Id(NonZeroU64);

impl Id {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        loop {
            if let Some(number) = NonZeroU64::new(NEXT.fetch_add(1, Relaxed)) {
                return Self(number);
            }
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
