//! A lock for two parties that never blocks: a party that finds it locked leaves a
//! waker and returns `Pending`.
//!
//! ```text
//!              try_lock                  unlock
//!    UNLOCKED ───────► LOCKED ─────────────────────► UNLOCKED
//!                        │ the other party               ▲
//!                        ▼ leaves a waker                │ wakes it
//!                    CONTENDED ──────────────────────────┘
//! ```
//!
//! L1. The party that moved UNLOCKED to LOCKED owns the value until it stores
//!     UNLOCKED.
//! L2. Only the party that does not own the value fills `waiter`, and then moves
//!     LOCKED to CONTENDED while it holds the lock of `waiter`.
//! L3. Whoever unlocks a CONTENDED lock takes the waker and wakes it. A needless
//!     waker costs its task one poll.
//!
//! A waker may poll the other half at once, from within the stream's own poll. It
//! then finds a locked lock, and not a deadlock.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use blitzen_util::quiet::quietly;
use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicU8;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;

const UNLOCKED: u8 = 0;
const LOCKED: u8 = 1;
const CONTENDED: u8 = 2;

/// A value that two parties share, each from one task at a time. It is pinned with
/// the lock.
pub(crate) struct BiLock<T> {
    state: AtomicU8,
    waiter: Mutex<Option<Waker>>,
    value: UnsafeCell<T>,
}

// SAFETY: one party at a time uses the value (L1). That it may do so on another
// thread than the party before amounts to a move, not to sharing.
unsafe impl<T: Send> Sync for BiLock<T> {}

// As for a mutex: a value that a panic left half changed is reached through the lock
// only.
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

    /// Calls `act` with the value, or leaves a waker if the other party has it.
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
        // Acquire, met by the release in `BiLockGuard::drop`: what the other party
        // did to the value is visible.
        self.state
            .compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed)
            .is_ok()
    }

    /// Leaves a waker for the other party. Returns `true` if the lock was released
    /// meanwhile and is now locked by this party.
    #[cold]
    fn try_lock_or_register(&self, cx: &Context<'_>) -> bool {
        let waker = cx.waker().clone();
        let mut waiter = self.waiter.lock();
        let replaced = waiter.replace(waker);
        let taken = loop {
            // Relaxed: the party that reads CONTENDED then locks `waiter`, which is
            // locked here, and so finds the waker.
            match self
                .state
                .compare_exchange(LOCKED, CONTENDED, Relaxed, Relaxed)
            {
                // CONTENDED already: by an earlier poll of this party, and the waker
                // was not taken since.
                Ok(_) | Err(CONTENDED) => break false,
                Err(_) if self.try_lock() => break true,
                Err(_) => {} // taken again before we could
            }
        };
        let unneeded = if taken { waiter.take() } else { None };
        drop(waiter);
        // Dropping a waker may run any code: not while `waiter` is locked.
        drop((replaced, unneeded));
        taken
    }
}

/// Unlocks on drop, also if the stream panicked.
struct BiLockGuard<'a, T>(&'a BiLock<T>);

impl<T> Drop for BiLockGuard<'_, T> {
    fn drop(&mut self) {
        // Release, met by the acquire in `try_lock`: the next owner sees the value.
        if self.0.state.swap(UNLOCKED, Release) == CONTENDED {
            let waiter = self.0.waiter.lock().take();
            match waiter {
                None => {}
                Some(waker) if thread::panicking() => {
                    quietly(|| waker.wake()); // a second panic would abort the process
                }
                Some(waker) => waker.wake(),
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
    fn both_parties_get_the_lock_and_see_what_the_other_did() {
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
    fn a_party_that_polls_again_with_another_waker_is_woken() {
        loom::model(|| {
            let lock = Arc::new(BiLock::new(0));
            let other = thread::spawn({
                let lock = lock.clone();
                move || add_one(&lock)
            });
            // A first poll, with a waker that does nothing.
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
