//! What other threads send to one thread, and what ends that thread's wait.
//!
//! I1. The thread takes what was sent before each wait, and what ends the wait is kept for it if
//!     it comes earlier. Whoever sends something ends the wait afterwards, in the way that
//!     the inbox says under the lock under which it takes what is sent.
//! I2. Who changes the way in which a wait ends looks into the inbox afterwards: what was sent
//!     before may have ended a wait in the way before.

use std::collections::VecDeque;
use std::mem;

use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicBool;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};

/// An inbox for values of `T`; `W` is a way to end the wait of its thread.
pub(crate) struct Inbox<T, W> {
    state: Mutex<InboxState<T, W>>,
    /// Whether there is something in it.
    has_mail: AtomicBool,
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
            has_mail: AtomicBool::new(false),
        }
    }

    /// Sends `value`; returns how to end the wait of the thread, which the caller does next (I1).
    #[must_use]
    pub(crate) fn push(&self, value: T) -> W {
        let mut state = self.state.lock();
        state.sent.push(value);
        // Release, met by the Acquire in `take_into`; the lock would do.
        self.has_mail.store(true, Release);
        state.wakeup.clone()
    }

    /// How to end the wait of the thread.
    pub(crate) fn wakeup(&self) -> W {
        self.state.lock().wakeup.clone()
    }

    /// Changes how to end the wait of the thread, which looks into the inbox next (I2); returns
    /// what was set before.
    pub(crate) fn set_wakeup(&self, wakeup: W) -> W {
        mem::replace(&mut self.state.lock().wakeup, wakeup)
    }

    /// Whether there seems to be something in the inbox.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Relaxed)
    }

    /// Moves all that was sent to the end of `taken`.
    #[inline]
    pub(crate) fn take_into(&self, taken: &mut VecDeque<T>) {
        // Acquire, met by the Release in `push`.
        if self.has_mail.load(Acquire) {
            let mut state = self.state.lock();
            self.has_mail.store(false, Relaxed);
            taken.extend(state.sent.drain(..));
        }
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
        let mut taken = VecDeque::new();
        loop {
            inbox.take_into(&mut taken);
            if taken.len() == count {
                return taken.into();
            }
            parker.park(); // for ever, if the wait is not ended
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
    fn nothing_is_missed_when_the_way_to_end_a_wait_changes() {
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
    fn nothing_is_missed_when_the_way_before_is_set_again() {
        loom::model(|| {
            let outer = Arc::new(Parker::new());
            let inbox = Arc::new(Inbox::new(outer.clone()));
            let senders = [send(&inbox, 1), send(&inbox, 2)];
            let inner = Arc::new(Parker::new());
            let before = inbox.set_wakeup(inner.clone());
            let mut taken = VecDeque::new();
            inbox.take_into(&mut taken);
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
