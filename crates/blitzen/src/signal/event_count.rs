//! A count of what has happened, and those who wait for more.
//!
//! B1. A listener has heard of everything up to the count when it was made:
//!     what comes later it is told, even if it did not wait at that moment.
//! B2. Several events that a listener has not taken in are one to it.
//! B3. Nothing foreign (a waker's clone, drop or wake) runs under the lock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// One kind of event.
#[derive(Debug)]
pub(crate) struct Board(Mutex<Notes>);

#[derive(Debug)]
struct Notes {
    count: u64,
    /// The next listener's number.
    next: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Board {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Notes {
            count: 0,
            next: 0,
            waiting: BTreeMap::new(),
        }))
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Somebody who is told of everything from now on.
    pub(crate) fn listen(&'static self) -> Listener {
        let mut notes = self.notes();
        notes.next += 1;
        Listener {
            board: self,
            number: notes.next,
            heard: notes.count,
        }
    }

    /// It has happened.
    pub(crate) fn announce(&self) {
        let mut notes = self.notes();
        notes.count += 1;
        wake_all(notes);
    }

    /// Lets everybody who waits look again, although nothing has happened.
    #[cfg(any(unix, test))]
    pub(crate) fn stir(&self) {
        wake_all(self.notes());
    }
}

fn wake_all(mut notes: MutexGuard<'_, Notes>) {
    let waiting = std::mem::take(&mut notes.waiting);
    drop(notes); // B3
    for waker in waiting.into_values() {
        waker.wake();
    }
}

/// Somebody who hears of one kind of event.
#[derive(Debug)]
pub(crate) struct Listener {
    board: &'static Board,
    number: u64,
    /// The count up to which everything is known.
    heard: u64,
}

impl Listener {
    /// Whether something has happened since the last time; otherwise a wake
    /// when it does.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone(); // B3
        let mut notes = self.board.notes();
        let (answer, before) = match notes.count == self.heard {
            true => (Poll::Pending, notes.waiting.insert(self.number, waker)),
            false => {
                self.heard = notes.count; // B2
                (Poll::Ready(()), Some(waker))
            }
        };
        drop(notes);
        drop(before); // B3
        answer
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let waker = self.board.notes().waiting.remove(&self.number);
        drop(waker); // B3
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn what_comes_between_making_and_waiting_is_told() {
        static BOARD: Board = Board::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut early = BOARD.listen();
        BOARD.announce();
        let mut late = BOARD.listen();
        assert!(early.poll(&mut cx).is_ready());
        assert!(early.poll(&mut cx).is_pending());
        assert!(late.poll(&mut cx).is_pending());
    }

    #[test]
    fn events_nobody_took_in_are_one() {
        static BOARD: Board = Board::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut listener = BOARD.listen();
        BOARD.announce();
        BOARD.announce();
        assert!(listener.poll(&mut cx).is_ready());
        assert!(listener.poll(&mut cx).is_pending());
    }

    #[test]
    fn everybody_who_waits_is_woken_and_nobody_who_left() {
        static BOARD: Board = Board::new();
        let woken = Arc::new(Count::default());
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        let mut listeners = [BOARD.listen(), BOARD.listen(), BOARD.listen()];
        for listener in &mut listeners {
            assert!(listener.poll(&mut cx).is_pending());
        }
        let [first, mut second, mut third] = listeners;
        drop(first);
        BOARD.announce();
        assert_eq!(woken.0.load(Relaxed), 2);
        assert!(second.poll(&mut cx).is_ready());
        assert!(third.poll(&mut cx).is_ready());
        assert!(third.poll(&mut cx).is_pending());
        BOARD.stir();
        assert_eq!(woken.0.load(Relaxed), 3);
        assert!(third.poll(&mut cx).is_pending());
    }
}
