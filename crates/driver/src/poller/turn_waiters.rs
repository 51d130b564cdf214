//! Threads that wait for the lock of the turn: to add a source over poll(2), or to close a named pipe
//! on Windows.
//!
//! The thread that waits for events holds that lock. Another one that needs it ends the wait, and
//! keeps the next one from beginning before it has had the lock:
//!
//! ```text
//!   needs the lock:    count = count + 1    event of the waker    lock, count = count - 1
//!   waits for events:  lock                 count = 0?            wait, take the event
//! ```
//!
//! A1. A thread waits only if it has found the count at zero, with the lock held. If it missed a count,
//!     it has not taken the event that came after the count: the event ends its wait.

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::{Mutex, MutexGuard};

/// How many threads wait for the turn's lock.
///
/// Relaxed: the kernel orders the count and the event for the thread that takes the event, and the
/// lock does for those that turn after it (A1).
#[derive(Debug)]
pub(super) struct TurnWaiters(AtomicUsize);

impl TurnWaiters {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Locks `turn`, which another thread has; uses `wake` to end its wait.
    pub(super) fn lock<'a, T>(&self, turn: &'a Mutex<T>, wake: impl FnOnce()) -> MutexGuard<'a, T> {
        self.0.fetch_add(1, Relaxed);
        wake();
        let turn = turn.lock();
        self.0.fetch_sub(1, Relaxed);
        turn
    }

    /// Whether a thread that has the turn's lock may wait (A1).
    pub(super) fn may_wait_for_events(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::waker_event::WakerEvent;
    use blitzen_util::shim::{Arc, thread};

    struct Poller {
        /// The sources.
        turn: Mutex<usize>,
        waiters: TurnWaiters,
        event: WakerEvent,
    }

    impl Poller {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                turn: Mutex::new(0),
                waiters: TurnWaiters::new(),
                event: WakerEvent::default(),
            })
        }

        fn add(&self) {
            *self.waiters.lock(&self.turn, || self.event.post()) += 1;
        }

        /// One turn; returns whether it found a source.
        fn turn(&self) -> bool {
            let sources = self.turn.lock();
            let has_source = *sources > 0;
            if !has_source && self.waiters.may_wait_for_events() {
                self.event.wait();
            } else {
                // A poll that does not wait takes the event, too.
                self.event.take();
                drop(sources);
                thread::yield_now(); // loom would let it turn for ever
            }
            has_source
        }
    }

    /// If the owner waits again before the source is there, both threads sleep for ever.
    #[test]
    fn a_source_is_added_although_the_owner_turns_on_and_on() {
        loom::model(|| {
            let poller = Poller::new();
            let owner = thread::spawn({
                let poller = poller.clone();
                move || while !poller.turn() {}
            });
            poller.add();
            owner.join().unwrap();
        });
    }
}
