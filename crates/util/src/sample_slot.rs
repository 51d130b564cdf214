//! A place for what a thread is asked to note about itself, in a signal handler.
//!
//! ```text
//!   asker:    free ──► wanted by thread T ──────────────► done ──► free
//!   handler:              └──► T is noting ──► done
//! ```
//!
//! N1. Only thread T leaves `wanted by T` for `noting`, and only the asker takes the wish back. So
//!     a handler that comes too late, for a wish that was taken back, finds nothing to do.
//! N2. What is noted belongs to the handler while it is noting, and otherwise to the asker.
//! N3. The handler takes no lock and does not wait.

use std::time::{Duration, Instant};

use crate::futex::Futex;
use crate::shim::atomic::Ordering::{Acquire, Relaxed, Release};

const FREE: u32 = 0;
const DONE: u32 = 1;
/// Added to the number of the thread, which has 22 bits.
const WANTED: u32 = 1 << 30;
const NOTING: u32 = 2 << 30;

/// The state of the place. What is noted is the user's own.
#[derive(Debug)]
pub struct SampleSlot {
    state: Futex,
}

impl SampleSlot {
    /// Creates a slot that is free.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(blitzen_loom)))]
    pub const fn new() -> Self {
        Self {
            state: Futex::new(FREE),
        }
    }

    /// Creates a slot that is free.
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(blitzen_loom))))]
    pub fn new() -> Self {
        Self {
            state: Futex::new(FREE),
        }
    }

    /// Asks `thread` for a note, has it interrupted by `interrupt`, and waits for at most `limit`
    /// until the note is there; then calls `read`. One thread at a time may ask.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let slot = blitzen_util::sample_slot::SampleSlot::new();
    /// let read = slot.ask(7, Duration::from_secs(1), || slot.note(7, || ()), || "noted");
    /// assert_eq!(read, Some("noted"));
    /// ```
    pub fn ask<R>(
        &self,
        thread: u32,
        limit: Duration,
        interrupt: impl FnOnce() -> bool,
        read: impl FnOnce() -> R,
    ) -> Option<R> {
        assert!(thread < WANTED, "{thread} is no thread");
        let word = self.state.word();
        // Release, met by the Acquire in `note`: the handler sees what the asker has left for it.
        word.store(WANTED | thread, Release);
        let mut deadline = match interrupt() {
            true => Instant::now().checked_add(limit),
            false => Some(Instant::now()),
        };
        loop {
            // Acquire, met by the Release in `note`.
            let state = word.load(Acquire);
            if state == DONE {
                let noted = read();
                word.store(FREE, Relaxed); // N2: nobody else looks
                return Some(noted);
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left != Some(Duration::ZERO) {
                self.state.wait(state, left);
            } else if word
                .compare_exchange(WANTED | thread, FREE, Relaxed, Relaxed)
                .is_ok()
            {
                return None; // N1
            } else {
                deadline = None; // it is being noted, which does not take long
            }
        }
    }

    /// Calls `write` if `thread`, the calling one, was asked for a note; returns whether it was.
    ///
    /// ```
    /// let slot = blitzen_util::sample_slot::SampleSlot::new();
    /// assert!(!slot.note(7, || panic!("nobody has asked")));
    /// ```
    pub fn note(&self, thread: u32, write: impl FnOnce()) -> bool {
        let word = self.state.word();
        // Acquire, met by the Release in `ask`.
        let claimed = word.compare_exchange(WANTED | thread, NOTING, Acquire, Relaxed);
        if claimed.is_err() {
            return false;
        }
        write();
        // Release, met by the Acquire in `ask`: whoever sees it sees what was noted.
        word.store(DONE, Release);
        self.state.wake_one();
        true
    }
}

impl Default for SampleSlot {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    #[test]
    fn a_wish_that_was_taken_back_is_not_answered_later() {
        let slot = SampleSlot::new();
        assert_eq!(slot.ask(7, SOON, || true, || ()), None);
        assert!(!slot.note(7, || panic!("it was taken back")));
        assert_eq!(slot.ask(8, SOON, || true, || ()), None);
    }

    #[test]
    fn another_thread_does_not_answer() {
        let slot = SampleSlot::new();
        let read = slot.ask(7, SOON, || slot.note(8, || panic!("not asked")), || ());
        assert_eq!(read, None);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::shim::{cell::UnsafeCell, thread};
    use std::sync::Arc;

    struct Noted {
        slot: SampleSlot,
        value: UnsafeCell<u32>,
    }

    // SAFETY: the value belongs to the handler while it is noting, else to the asker (N2).
    unsafe impl Sync for Noted {}

    #[test]
    fn what_is_noted_is_seen_whole_or_the_wish_is_taken_back() {
        loom::model(|| {
            let noted = Arc::new(Noted {
                slot: SampleSlot::new(),
                value: UnsafeCell::new(0),
            });
            let other = noted.clone();
            let handler = thread::spawn(move || {
                let write = || {
                    other.value.with_mut(|value| {
                        // SAFETY: N2.
                        unsafe { *value += 1 }
                    })
                };
                other.slot.note(7, write)
            });
            // SAFETY: N2.
            noted.value.with_mut(|value| unsafe { *value = 10 });
            // The asker has no time to wait, so that the handler may come too late.
            // SAFETY: N2.
            let read = || noted.value.with(|value| unsafe { *value });
            let seen = noted.slot.ask(7, Duration::ZERO, || true, read);
            let has_noted = handler.join().unwrap();
            assert_eq!(seen, has_noted.then_some(11));
        });
    }
}
