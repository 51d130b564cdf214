//! A lock that two parties take in turns, and neither of them waits for on its
//! thread: who finds it held leaves a waker.
//!
//! ```text
//!             take                    give back
//!      UNLOCKED ───────► LOCKED ───────────────────────► UNLOCKED
//!                     │ the other one leaves a waker ▲
//!                     ▼                              │ and wakes it
//!                  CONTENDED ──────────────────────────┘
//! ```
//!
//! L1. Who moved UNLOCKED to LOCKED has the value until it stores UNLOCKED.
//! L2. Only the party that does not hold the lock fills `waiter`, and moves
//!     LOCKED to CONTENDED after that, under the slot's lock.
//! L3. Who gives back an CONTENDED lock takes the waker out and fires it. A waker
//!     that is there without need costs its task one poll.
//!
//! Because it does not block, a waker that polls the other half on the spot,
//! from inside the stream's own poll, finds a lock that is held and not a
//! deadlock.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicU8;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;

const UNLOCKED: u8 = 0;
const LOCKED: u8 = 1;
const CONTENDED: u8 = 2;

/// A value for two parties, each of which asks for it from one place at a time.
/// It is pinned with the lock.
pub(crate) struct BiLock<T> {
    state: AtomicU8,
    waiter: Mutex<Option<Waker>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one party at a time (L1), which may be on
// another thread than the one before: that is a move, no sharing.
unsafe impl<T: Send> Sync for BiLock<T> {}

// As a mutex has it: a value that somebody left half changed is reached through
// the lock only. A panic releases the lock.
impl<T> UnwindSafe for BiLock<T> {}
impl<T> RefUnwindSafe for BiLock<T> {}

impl<T> BiLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            state: AtomicU8::new(UNLOCKED),
            waiter: Mutex::new(None),
            value: UnsafeCell::new(value),
        }
    }

    pub(crate) fn into_inner(self) -> T
    where
        T: Unpin,
    {
        self.value.into_inner()
    }

    /// Does something with the value, or leaves a waker if the other party is
    /// at it.
    pub(crate) fn poll_with<R>(
        self: Pin<&Self>,
        cx: &mut Context<'_>,
        act: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        let this = self.get_ref();
        if !this.try_lock() && !this.try_lock_or_register(cx) {
            return Poll::Pending;
        }
        let _guard = BiLockGuard(this);
        this.value.with_mut(|value| {
            // SAFETY: L1, nobody else reaches the value before `_guard` is
            // dropped. It is pinned as the lock is: nothing moves it out but
            // `into_inner`, which asks for `Unpin`.
            act(unsafe { Pin::new_unchecked(&mut *value) }, cx)
        })
    }

    fn try_lock(&self) -> bool {
        // Acquire, met by the release in `BiLockGuard::drop`: the value is as the
        // other party left it.
        self.state
            .compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed)
            .is_ok()
    }

    /// Leaves a waker with who holds the lock; true if it was given back
    /// meanwhile and is now held here.
    #[cold]
    fn try_lock_or_register(&self, cx: &Context<'_>) -> bool {
        let waker = cx.waker().clone();
        let mut waiter = self.waiter.lock();
        let replaced = waiter.replace(waker);
        let taken = loop {
            // Relaxed: who reads CONTENDED then locks the slot, which is locked
            // here, and so finds the waker.
            match self
                .state
                .compare_exchange(LOCKED, CONTENDED, Relaxed, Relaxed)
            {
                // Already CONTENDED means by us, in an earlier poll, and that the
                // slot has not been looked at since.
                Ok(_) | Err(CONTENDED) => break false,
                Err(_) if self.try_lock() => break true,
                Err(_) => {} // taken again before we could
            }
        };
        let unneeded = if taken { waiter.take() } else { None };
        drop(waiter);
        // A waker may run anything when it ends: not under the slot's lock.
        drop((replaced, unneeded));
        taken
    }
}

/// Gives the lock back, also when the stream panicked.
struct BiLockGuard<'a, T>(&'a BiLock<T>);

impl<T> Drop for BiLockGuard<'_, T> {
    fn drop(&mut self) {
        // Release, met by the acquire in `try_lock`: the next one sees the value.
        if self.0.state.swap(UNLOCKED, Release) == CONTENDED {
            let waiter = self.0.waiter.lock().take();
            if let Some(waker) = waiter {
                waker.wake();
            }
        }
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{Arc, thread};
    use loom::future::block_on;
    use std::future::poll_fn;

    fn add_one(lock: &BiLock<u32>) {
        block_on(poll_fn(|cx| {
            Pin::new(lock).poll_with(cx, |mut value, _| {
                *value += 1;
                Poll::Ready(())
            })
        }));
    }

    #[test]
    fn both_parties_get_their_turn_and_see_the_others_work() {
        loom::model(|| {
            let lock = Arc::new(BiLock::new(0));
            let other = thread::spawn({
                let lock = lock.clone();
                move || {
                    add_one(&lock);
                    add_one(&lock);
                }
            });
            add_one(&lock);
            other.join().unwrap();
            block_on(poll_fn(|cx| {
                Pin::new(&*lock).poll_with(cx, |value, _| {
                    assert_eq!(*value, 3);
                    Poll::Ready(())
                })
            }));
        });
    }

    #[test]
    fn a_waiter_that_comes_again_with_another_waker_is_not_forgotten() {
        loom::model(|| {
            let lock = Arc::new(BiLock::new(0));
            let other = thread::spawn({
                let lock = lock.clone();
                move || add_one(&lock)
            });
            // Polled once for nothing by somebody who will not come back.
            let mut cx = Context::from_waker(Waker::noop());
            let polled = Pin::new(&*lock).poll_with(&mut cx, |mut value, _| {
                *value += 1;
                Poll::Ready(())
            });
            if polled.is_pending() {
                add_one(&lock);
            }
            other.join().unwrap();
            add_one(&lock);
        });
    }
}
