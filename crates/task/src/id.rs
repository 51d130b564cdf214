//! The ids of tasks.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::current;

/// An opaque id of a task, unlike that of any other task in the process.
///
/// [`JoinHandle::id`](crate::JoinHandle::id), `task::id` and `task::try_id` return it.
///
/// # Examples
///
/// ```
/// use blitzen::task;
///
/// # let runtime = blitzen::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let (one, other) = (task::spawn(async {}), task::spawn(async {}));
/// assert_ne!(one.id(), other.id());
/// # one.await.unwrap();
/// # other.await.unwrap();
/// # });
/// ```
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(NonZeroU64);

/// How many ids a thread reserves at once, so that spawning shares no counter.
const BATCH: u64 = 1024;

/// The first id of the next batch. Ids start at 1.
static NEXT_BATCH: AtomicU64 = AtomicU64::new(1);

impl Id {
    /// An id that no task has yet.
    #[inline]
    pub(crate) fn next() -> Self {
        let number = current::next_id(|| NEXT_BATCH.fetch_add(BATCH, Relaxed), BATCH);
        match NonZeroU64::new(number) {
            Some(number) => Self(number),
            // 2^64 tasks, a thousand million a second for five centuries.
            None => Self::next(),
        }
    }

    /// The id with a number.
    pub(crate) fn from_u64(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The number behind the id.
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
