//! The waker of a channel's only receiver.
//!
//! ```text
//!   EMPTY ──register──► SET ──wake──► TAKING ──► EMPTY
//!     ▲                  │
//!     └────withdraw──────┘
//! ```
//!
//! W1. `waker` is the receiver's while `EMPTY`; nobody writes it otherwise.
//! W2. Whoever moves `SET` to `TAKING` reads the waker out and then gives the
//!     place back; the receiver has its own waker back by moving to `EMPTY`.
//!
//! The two sides meet like this, so that one of them sees the other:
//!
//! ```text
//!   receiver:  swap SET        fence   look for a message
//!   sender:    add a message   fence   load SET
//! ```

use std::mem::MaybeUninit;
use std::task::Waker;

use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicU8, fence_after_rmw};
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::hint;

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

    /// Has `waker` fired by the next [`wake`](Self::wake). The caller looks
    /// for a message once more afterwards.
    ///
    /// # Safety
    /// One caller at a time: the receiver.
    pub(super) unsafe fn register(&self, waker: &Waker) {
        // Acquire, met by the Release in `wake`: the old waker has been read.
        match self.state.load(Acquire) {
            // SAFETY: W1, nobody writes it. Even if it has been taken by now,
            // its two words still can be compared.
            SET if unsafe {
                self.waker
                    .with(|set| (*set).assume_init_ref().will_wake(waker))
            } =>
            {
                return;
            }
            // SAFETY: we are the receiver.
            SET if !unsafe { self.withdraw() } => return come_back(waker),
            TAKING => return come_back(waker),
            _ => {}
        }
        let waker = waker.clone();
        // SAFETY: W1, the state is `EMPTY` and only we leave it.
        self.waker.with_mut(|slot| unsafe { (*slot).write(waker) });
        // AcqRel: Release, met by the Acquire in `wake`, shows the waker.
        self.state.swap(SET, AcqRel);
        fence_after_rmw(); // see the picture above
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

    /// Fires the waker if there is one. The caller has changed something by a
    /// read-modify-write before.
    #[inline(always)]
    pub(super) fn wake(&self) {
        fence_after_rmw(); // see the picture above
        if self.state.load(Relaxed) == SET {
            self.fire();
        }
    }

    #[cold]
    fn fire(&self) {
        // Acquire, met by the Release in `register`.
        if (self.state.compare_exchange(SET, TAKING, Acquire, Relaxed)).is_ok() {
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

/// Somebody is firing the waker of an earlier poll: this one comes back too.
#[cold]
fn come_back(waker: &Waker) {
    hint::spin_loop();
    waker.wake_by_ref();
}
