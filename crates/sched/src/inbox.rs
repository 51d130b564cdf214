//! What other threads send to one thread, and the wakeup that ends that thread's wait.
//!
//! I1. The thread empties its inbox before each wait. Whoever sends a value calls the wakeup
//!     afterwards: the one that was set when the value went in, since both are under one lock. A
//!     wakeup that comes before the wait ends it too.
//! I2. A thread that changes its wakeup empties the inbox afterwards: whoever sent a value before
//!     may have called the old one.

use std::mem;

use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicBool;
use blitzen_util::shim::atomic::Ordering::Relaxed;

/// An inbox for values of `T`. `W` is a wakeup: it ends the wait of the inbox's thread.
pub(crate) struct Inbox<T, W> {
    state: Mutex<InboxState<T, W>>,
    /// Whether there is something in it.
    has_items: AtomicBool,
}

struct InboxState<T, W> {
    sent: Vec<T>,
    wakeup: W,
}

impl<T, W: Clone> Inbox<T, W> {
    /// An empty inbox.
    pub(crate) fn new(wakeup: W) -> Self {
        Self {
            state: Mutex::new(InboxState {
                sent: Vec::new(),
                wakeup,
            }),
            has_items: AtomicBool::new(false),
        }
    }

    /// Sends `value`; returns the wakeup, which the caller calls next (I1).
    #[must_use]
    pub(crate) fn push(&self, value: T) -> W {
        let mut state = self.state.lock();
        state.sent.push(value);
        // Relaxed: the lock orders what was sent, and the wakeup that follows orders this (I1).
        self.has_items.store(true, Relaxed);
        state.wakeup.clone()
    }

    /// The wakeup of the thread.
    pub(crate) fn wakeup(&self) -> W {
        self.state.lock().wakeup.clone()
    }

    /// Changes the wakeup of the thread, which empties the inbox next (I2); returns the one before.
    pub(crate) fn set_wakeup(&self, wakeup: W) -> W {
        mem::replace(&mut self.state.lock().wakeup, wakeup)
    }

    /// Whether there seems to be something in the inbox.
    #[inline]
    pub(crate) fn has_items(&self) -> bool {
        self.has_items.load(Relaxed)
    }

    /// Takes all that was sent, in its order. `take` calls no foreign code.
    #[inline]
    pub(crate) fn take_all(&self, take: impl FnMut(T)) {
        if self.has_items() {
            self.take_sent(take);
        }
    }

    #[cold]
    fn take_sent(&self, take: impl FnMut(T)) {
        let mut state = self.state.lock();
        self.has_items.store(false, Relaxed);
        state.sent.drain(..).for_each(take);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::{Arc, thread};

    type ParkerInbox = Inbox<u32, Arc<Parker>>;

    /// Takes `count` values, and waits for them with `parker`.
    fn take(inbox: &ParkerInbox, parker: &Parker, count: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        loop {
            inbox.take_all(|value| taken.push(value));
            if taken.len() == count {
                return taken;
            }
            parker.park(); // for ever, if nobody unparks it
        }
    }

    fn send(inbox: &Arc<ParkerInbox>, value: u32) -> thread::JoinHandle<()> {
        let inbox = inbox.clone();
        thread::spawn(move || inbox.push(value).unpark())
    }

    #[test]
    fn the_thread_gets_what_two_others_send() {
        loom::model(|| {
            let parker = Arc::new(Parker::new());
            let inbox = Arc::new(Inbox::new(parker.clone()));
            let senders = [send(&inbox, 1), send(&inbox, 2)];
            let mut taken = take(&inbox, &parker, 2);
            taken.sort_unstable();
            assert_eq!(taken, [1, 2]);
            senders
                .into_iter()
                .for_each(|sender| sender.join().unwrap());
        });
    }

    #[test]
    fn nothing_is_missed_when_the_wakeup_changes() {
        loom::model(|| {
            let worker = Arc::new(Parker::new());
            let inbox = Arc::new(Inbox::new(worker.clone()));
            let sender = send(&inbox, 1);
            // The thread loses its worker, and waits in another way from then on.
            let own = Arc::new(Parker::new());
            inbox.set_wakeup(own.clone());
            assert_eq!(take(&inbox, &own, 1), [1]);
            sender.join().unwrap();
        });
    }

    #[test]
    fn nothing_is_missed_when_the_wakeup_before_is_set_again() {
        loom::model(|| {
            let outer = Arc::new(Parker::new());
            let inbox = Arc::new(Inbox::new(outer.clone()));
            let senders = [send(&inbox, 1), send(&inbox, 2)];
            let inner = Arc::new(Parker::new());
            let before = inbox.set_wakeup(inner.clone());
            let mut taken = Vec::new();
            inbox.take_all(|value| taken.push(value));
            inbox.set_wakeup(before);
            let left = 2 - taken.len();
            taken.extend(take(&inbox, &outer, left));
            assert_eq!(taken.iter().sum::<u32>(), 3);
            senders
                .into_iter()
                .for_each(|sender| sender.join().unwrap());
        });
    }
}
