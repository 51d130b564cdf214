//! The waker of a channel's only receiver.
//!
//! ```text
//!   receiver:  write the waker   occupied   set WAITING
//!   sender:    clear WAITING     read the waker   not occupied
//! ```
//!
//! `WAITING` is a bit of the channel's word, see [`Flow`](super::chan::Flow).
//!
//! W1. While `occupied` is false, the place is the receiver's. It sets the bit
//!     after it has left a waker there, and nobody writes there then.
//! W2. Whoever clears the bit has the waker: it reads it out, and then gives the
//!     place back.

use std::mem::MaybeUninit;
use std::task::Waker;

use blitzen_util::shim::atomic::AtomicBool;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;

/// A place for one waker, left by one task and fired by any.
pub(super) struct WakerCell {
    occupied: AtomicBool,
    waker: UnsafeCell<MaybeUninit<Waker>>,
}

/// How a waker was left.
pub(super) enum Registered {
    /// The receiver has to set the bit.
    Now,
    /// It is there from an earlier poll, and may be taken by now: the bit says.
    Before,
    /// Another one is there, which is being fired.
    TooSoon,
}

// SAFETY: W1 and W2 give the waker to one thread at a time, and wakers are
// `Send`.
unsafe impl Sync for WakerCell {}
// SAFETY: wakers are `Send`.
unsafe impl Send for WakerCell {}

impl WakerCell {
    pub(super) fn new() -> Self {
        Self {
            occupied: AtomicBool::new(false),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Leaves `waker` there; `withdraw` clears the bit, and says whether it was
    /// set.
    ///
    /// # Safety
    /// One caller at a time: the receiver.
    pub(super) unsafe fn register(
        &self,
        waker: &Waker,
        withdraw: impl FnOnce() -> bool,
    ) -> Registered {
        // Acquire, met by the Release in `take`: the old waker has been read.
        if self.occupied.load(Acquire) {
            // SAFETY: W1, nobody writes it. Even if it has been taken by now,
            // its two words still can be compared.
            if unsafe { (self.waker).with(|set| (*set).assume_init_ref().will_wake(waker)) } {
                return Registered::Before;
            }
            if !withdraw() {
                return Registered::TooSoon;
            }
            // SAFETY: W2, we have cleared the bit.
            drop(unsafe { self.take() });
        }
        let waker = waker.clone();
        // SAFETY: W1, not occupied.
        self.waker.with_mut(|slot| unsafe { (*slot).write(waker) });
        // Relaxed: the bit, which is set with Release, shows it.
        self.occupied.store(true, Relaxed);
        Registered::Now
    }

    /// The waker, to be fired or dropped.
    ///
    /// # Safety
    /// W2: the caller has just cleared the bit, with Acquire.
    pub(super) unsafe fn take(&self) -> Waker {
        // SAFETY: by the caller's word it is there, and it is not read again.
        let waker = self
            .waker
            .with(|slot| unsafe { (*slot).assume_init_read() });
        // Release, met by the Acquire in `register`.
        self.occupied.store(false, Release);
        waker
    }
}
