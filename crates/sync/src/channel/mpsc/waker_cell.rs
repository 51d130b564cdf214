//! The waker of a channel's only receiver.
//!
//! ```text
//!   receiver:  write the waker   set occupied      set WAITING
//!   sender:    clear WAITING     read the waker    clear occupied
//! ```
//!
//! `WAITING` is a bit of the channel's state, see
//! [`FlowControl`](super::chan::FlowControl).
//!
//! W1. While `occupied` is false, only the receiver accesses `waker`. It sets the
//!     bit after it has stored a waker; then nobody writes there.
//! W2. The thread that clears the bit owns the waker: it moves it out, and then
//!     clears `occupied`.

use std::mem::MaybeUninit;
use std::task::Waker;

use blitzen_util::shim::atomic::AtomicBool;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;

/// A cell for one waker, stored by one task and taken by any thread.
pub(super) struct WakerCell {
    occupied: AtomicBool,
    waker: UnsafeCell<MaybeUninit<Waker>>,
}

/// The result of [`WakerCell::register`].
pub(super) enum WakerRegistration {
    /// The waker was stored. The receiver has to set the bit.
    Stored,
    /// The same waker was stored by an earlier poll. The bit says whether it has
    /// been taken since.
    AlreadyStored,
    /// Another waker is stored, and a sender is waking it.
    BeingWoken,
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

    /// Stores `waker`. `withdraw` clears the bit, and returns whether it was set.
    ///
    /// # Safety
    /// One caller at a time: the receiver.
    pub(super) unsafe fn register(
        &self,
        waker: &Waker,
        withdraw: impl FnOnce() -> bool,
    ) -> WakerRegistration {
        // Acquire, met by the Release in `take`: the old waker has been read.
        if self.occupied.load(Acquire) {
            // SAFETY: W1, nobody writes it. Even if it has been taken by now,
            // its two words still can be compared.
            if unsafe { (self.waker).with(|set| (*set).assume_init_ref().will_wake(waker)) } {
                return WakerRegistration::AlreadyStored;
            }
            if !withdraw() {
                return WakerRegistration::BeingWoken;
            }
            // SAFETY: W2, we have cleared the bit.
            drop(unsafe { self.take() });
        }
        let waker = waker.clone();
        // SAFETY: W1, not occupied.
        self.waker.with_mut(|slot| unsafe { (*slot).write(waker) });
        // Relaxed: the bit, which is set with Release, shows it.
        self.occupied.store(true, Relaxed);
        WakerRegistration::Stored
    }

    /// Moves the waker out, to be woken or dropped.
    ///
    /// # Safety
    /// W2: the caller has just cleared the bit, with Acquire.
    pub(super) unsafe fn take(&self) -> Waker {
        // SAFETY: by the contract of this function it is there, and it is not read again.
        let waker = self
            .waker
            .with(|slot| unsafe { (*slot).assume_init_read() });
        // Release, met by the Acquire in `register`.
        self.occupied.store(false, Release);
        waker
    }
}
