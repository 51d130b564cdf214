//! The waker of a channel's only receiver.
//!
//! ```text
//!   EMPTY ──register──► SET ──fire──► TAKING ──► EMPTY
//!     ▲                  │
//!     └────withdraw──────┘
//! ```
//!
//! W1. `waker` is the receiver's while `EMPTY`; nobody writes it otherwise.
//! W2. Whoever moves `SET` to `TAKING` reads the waker out and then gives the
//!     place back; the receiver has its own waker back by moving to `EMPTY`.

use std::mem::MaybeUninit;
use std::task::Waker;

use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicU8, fence_after_rmw};
use blitzen_util::shim::cell::UnsafeCell;

const EMPTY: u8 = 0;
const SET: u8 = 1;
const TAKING: u8 = 2;

/// One waker, set by one task and fired by any.
pub(super) struct WakerCell {
    state: AtomicU8,
    waker: UnsafeCell<MaybeUninit<Waker>>,
}

// SAFETY: W1 and W2 give the waker to one thread at a time, and wakers are
// `Send`.
unsafe impl Sync for WakerCell {}
// SAFETY: wakers are `Send`.
unsafe impl Send for WakerCell {}

impl WakerCell {
    pub(super) fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Leaves `waker` to be fired. False if the one of an earlier poll is being
    /// fired just now.
    ///
    /// # Safety
    /// One caller at a time: the receiver.
    pub(super) unsafe fn register(&self, waker: &Waker) -> bool {
        // Acquire, met by the Release in `fire`: the old waker has been read.
        match self.state.load(Acquire) {
            // SAFETY: W1, nobody writes it. Even if it has been taken by now,
            // its two words still can be compared.
            SET if unsafe {
                self.waker
                    .with(|set| (*set).assume_init_ref().will_wake(waker))
            } =>
            {
                return true;
            }
            // SAFETY: we are the receiver.
            SET if !unsafe { self.withdraw() } => return false,
            TAKING => return false,
            _ => {}
        }
        let waker = waker.clone();
        // SAFETY: W1, the state is `EMPTY` and only we leave it.
        self.waker.with_mut(|slot| unsafe { (*slot).write(waker) });
        // Release, met by the Acquire in `fire`, shows the waker.
        self.state.store(SET, Release);
        true
    }

    /// Drops the waker; false if somebody is just firing it.
    ///
    /// # Safety
    /// The caller is the receiver.
    pub(super) unsafe fn withdraw(&self) -> bool {
        // Acquire for the failure: `EMPTY` means that it has been read.
        match (self.state).compare_exchange(SET, EMPTY, Relaxed, Acquire) {
            Ok(_) => {
                // SAFETY: W2, it was `SET` and we moved it.
                drop(unsafe { self.take() });
                true
            }
            Err(state) => state == EMPTY,
        }
    }

    /// Fires the waker if there is one, after a rare change that was made by a
    /// read-modify-write. The receiver looks for such changes after it has
    /// registered, and after a fence of its own.
    pub(super) fn fire_after_rmw(&self, taken: impl FnOnce()) {
        fence_after_rmw();
        if self.state.load(Relaxed) == SET {
            self.fire(taken);
        }
    }

    /// Fires the waker if there is one. Calls `taken` when it is sure to, and
    /// before the receiver can register again.
    #[cold]
    #[inline(never)]
    pub(super) fn fire(&self, taken: impl FnOnce()) {
        // Acquire, met by the Release in `register`.
        if (self.state.compare_exchange(SET, TAKING, Acquire, Relaxed)).is_ok() {
            taken();
            // SAFETY: W2, it was `SET` and we moved it.
            let waker = unsafe { self.take() };
            // Release, met by the Acquire in `register` and `withdraw`.
            self.state.store(EMPTY, Release);
            waker.wake();
        }
    }

    /// # Safety
    /// W2: the caller has moved the state away from `SET`.
    unsafe fn take(&self) -> Waker {
        // SAFETY: `SET` said that it was there, and it is not read again.
        self.waker
            .with(|slot| unsafe { (*slot).assume_init_read() })
    }
}

impl Drop for WakerCell {
    fn drop(&mut self) {
        // SAFETY: nobody else is left.
        unsafe { self.withdraw() };
    }
}
