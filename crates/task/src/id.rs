//! Names for tasks.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::current;

/// An opaque name of a task, unlike that of any other task that is running.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(NonZeroU64);

/// Names a thread takes at once, so that spawning shares no counter.
const BATCH: u64 = 1024;

/// The first name of the next batch. Names start at 1.
static NEXT_BATCH: AtomicU64 = AtomicU64::new(1);

impl Id {
    /// A name that no task has yet.
    #[inline]
    pub(crate) fn next() -> Self {
        let number = current::next_id(|| NEXT_BATCH.fetch_add(BATCH, Relaxed), BATCH);
        match NonZeroU64::new(number) {
            Some(number) => Self(number),
            // 2^64 tasks, a thousand million a second for five centuries.
            None => Self::next(),
        }
    }

    /// The number behind the name.
    #[inline]
    pub(crate) fn as_u64(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
