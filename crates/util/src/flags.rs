//! Flags that a signal handler may raise, and a collector that is notified of them.
//!
//! ```text
//!   raise:    set the flag        swap notified to true; notify if it was not
//!   collect:  swap notified to false  take the flags
//! ```
//!
//! If a raise finds `notified` set, it comes before the collector's swap, and the
//! collector sees its flag. If it comes after the swap, it notifies again.
//!
//! F1. Raising takes no lock and no memory, and makes one atomic step a word.
//! F2. Between two collections at most one raise has to notify, so that a pipe used
//!     for it never fills.

use crate::shim::atomic::Ordering::{AcqRel, Relaxed};
use crate::shim::atomic::{AtomicBool, AtomicU64};

const PER_WORD: usize = u64::BITS as usize;

/// A number of flags, none raised at first.
///
/// ```
/// use blitzen_util::flags::Flags;
///
/// let flags = Flags::new(100);
/// assert!(flags.raise(70)); // the collector has to be notified …
/// assert!(!flags.raise(3)); // … which covers this one too
/// let mut raised = Vec::new();
/// flags.collect(|index| raised.push(index));
/// assert_eq!(raised, [3, 70]);
/// ```
#[derive(Debug)]
pub struct Flags {
    /// Whether the collector was notified, and has not begun since.
    notified: AtomicBool,
    words: Box<[AtomicU64]>,
}

impl Flags {
    /// Creates the flags `0..count`.
    pub fn new(count: usize) -> Self {
        Self {
            notified: AtomicBool::new(false),
            words: (0..count.div_ceil(PER_WORD))
                .map(|_| AtomicU64::new(0))
                .collect(),
        }
    }

    /// Raises a flag; returns true if the caller has to notify the collector.
    ///
    /// # Panics
    /// Panics if there is no such flag.
    #[must_use = "without a notification the flag is not collected"]
    pub fn raise(&self, index: usize) -> bool {
        self.words[index / PER_WORD].fetch_or(1 << (index % PER_WORD), Relaxed);
        // Release, met by the Acquire in `collect`: a collector that sees `notified` sees
        // the flag. Acquire, met by its Release: this notification
        // comes after one that the collector may have consumed.
        // (The model checks only the first: its pipe is a counter, and adding to it
        // reads the latest value anyway, as writing to a pipe does.)
        !self.notified.swap(true, AcqRel)
    }

    /// Lowers all flags, and calls `visit` for each that was raised.
    pub fn collect(&self, mut visit: impl FnMut(usize)) {
        // Acquire and Release, met by those in `raise`. Before the flags are
        // taken: one that is raised after it was read must notify again.
        self.notified.swap(false, AcqRel);
        for (word, base) in self.words.iter().zip((0..).step_by(PER_WORD)) {
            if word.load(Relaxed) == 0 {
                continue; // a raise that comes now notifies again
            }
            let mut raised = word.swap(0, Relaxed);
            while raised != 0 {
                visit(base + raised.trailing_zeros() as usize);
                raised &= raised - 1;
            }
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_shown_once_for_any_number_of_raises() {
        let flags = Flags::new(129);
        assert!(flags.raise(128));
        assert!(!flags.raise(128));
        assert!(!flags.raise(0));
        let collected = || {
            let mut raised = Vec::new();
            flags.collect(|index| raised.push(index));
            raised
        };
        assert_eq!(collected(), [0, 128]);
        assert_eq!(collected(), []);
        assert!(flags.raise(64), "collecting has reset `notified`");
        assert_eq!(collected(), [64]);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::shim::atomic::Ordering::{Acquire, Release};
    use crate::shim::{Arc, thread};

    #[test]
    fn a_collector_that_collects_when_notified_misses_nothing() {
        loom::model(|| {
            // Two words: in one word both flags would always be seen together.
            let flags = Arc::new(Flags::new(PER_WORD + 1));
            // The bytes in the pipe.
            let pipe = Arc::new(AtomicU64::new(0));
            let raise = {
                let (flags, pipe) = (flags.clone(), pipe.clone());
                move |index| {
                    if flags.raise(index) {
                        pipe.fetch_add(1, Release);
                    }
                }
            };
            let other = thread::spawn({
                let raise = raise.clone();
                move || raise(PER_WORD)
            });
            raise(0);
            let mut seen = [0; 2];
            let mut collect_if_notified = || {
                if pipe.swap(0, Acquire) > 0 {
                    flags.collect(|index| seen[index / PER_WORD] += 1);
                }
            };
            collect_if_notified();
            other.join().unwrap();
            collect_if_notified();
            assert_eq!(seen, [1, 1]);
        });
    }
}
