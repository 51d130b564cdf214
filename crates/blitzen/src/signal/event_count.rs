//! An event count: how often something has happened, and the listeners that
//! wait for more.
//!
//! B1. A listener has seen the count at the moment it was created. It sees
//!     every later event, even if it was not waiting at that moment.
//! B2. Several events between two polls of a listener are one to it.
//! B3. No foreign code (a waker's clone, drop or wake) runs under the lock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use blitzen_util::quiet::quietly;
use blitzen_util::wait::{self, WaitKind};

/// The count of one kind of event.
#[derive(Debug)]
pub(crate) struct EventCount(Mutex<Counted>);

#[derive(Debug)]
struct Counted {
    count: u64,
    next_listener_id: u64,
    /// The wakers of those that wait, by listener.
    waiting: BTreeMap<u64, Waker>,
}

impl EventCount {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Counted {
            count: 0,
            next_listener_id: 0,
            waiting: BTreeMap::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Creates a listener for every event from now on.
    pub(crate) fn listen(&'static self) -> EventListener {
        let mut counted = self.lock();
        counted.next_listener_id += 1;
        EventListener {
            events: self,
            id: counted.next_listener_id,
            seen: counted.count,
        }
    }

    /// Counts an event, and wakes those that wait.
    pub(crate) fn increment(&self) {
        let mut counted = self.lock();
        counted.count += 1;
        wake_all(counted);
    }

    /// Wakes those that wait, so that they look again, although nothing has
    /// happened.
    #[cfg(any(unix, test))]
    pub(crate) fn wake_listeners(&self) {
        wake_all(self.lock());
    }
}

fn wake_all(mut counted: MutexGuard<'_, Counted>) {
    let waiting = std::mem::take(&mut counted.waiting);
    drop(counted); // B3
    for waker in waiting.into_values() {
        // The panic hook has reported a waker that panics. It must neither cost
        // the others their wake, nor end the thread that dispatches.
        quietly(|| waker.wake());
    }
}

/// A listener for one kind of event.
#[derive(Debug)]
pub(crate) struct EventListener {
    events: &'static EventCount,
    id: u64,
    /// The count up to which it has seen everything.
    seen: u64,
}

impl EventListener {
    /// Returns `Ready` if something has happened since the last time; otherwise
    /// the task is woken when it does.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone(); // B3
        let mut counted = self.events.lock();
        let (answer, before) = match counted.count == self.seen {
            true => (Poll::Pending, counted.waiting.insert(self.id, waker)),
            false => {
                self.seen = counted.count; // B2
                (Poll::Ready(()), Some(waker))
            }
        };
        drop(counted);
        drop(before); // B3
        if answer.is_pending() {
            wait::pending_on(WaitKind::Signal, self.events);
        }
        answer
    }
}

impl Drop for EventListener {
    fn drop(&mut self) {
        let waker = self.events.lock().waiting.remove(&self.id);
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
    fn a_waker_that_panics_does_not_cost_the_others_their_wake() {
        struct Bomb;
        impl Wake for Bomb {
            fn wake(self: Arc<Self>) {
                panic!("a waker that panics");
            }
        }
        static EVENTS: EventCount = EventCount::new();
        let woken = Arc::new(Count::default());
        let wakers = [Waker::from(Arc::new(Bomb)), woken.clone().into()];
        let mut listeners = [EVENTS.listen(), EVENTS.listen()];
        for (listener, waker) in listeners.iter_mut().zip(&wakers) {
            assert!(listener.poll(&mut Context::from_waker(waker)).is_pending());
        }
        EVENTS.increment();
        assert_eq!(woken.0.load(Relaxed), 1);
    }

    #[test]
    fn an_event_between_listening_and_waiting_is_seen() {
        static EVENTS: EventCount = EventCount::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut early = EVENTS.listen();
        EVENTS.increment();
        let mut late = EVENTS.listen();
        assert!(early.poll(&mut cx).is_ready());
        assert!(early.poll(&mut cx).is_pending());
        assert!(late.poll(&mut cx).is_pending());
    }

    #[test]
    fn events_between_two_polls_are_one() {
        static EVENTS: EventCount = EventCount::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut listener = EVENTS.listen();
        EVENTS.increment();
        EVENTS.increment();
        assert!(listener.poll(&mut cx).is_ready());
        assert!(listener.poll(&mut cx).is_pending());
    }

    #[test]
    fn every_listener_that_waits_is_woken_and_none_that_was_dropped() {
        static EVENTS: EventCount = EventCount::new();
        let woken = Arc::new(Count::default());
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        let mut listeners = [EVENTS.listen(), EVENTS.listen(), EVENTS.listen()];
        for listener in &mut listeners {
            assert!(listener.poll(&mut cx).is_pending());
        }
        let [first, mut second, mut third] = listeners;
        drop(first);
        EVENTS.increment();
        assert_eq!(woken.0.load(Relaxed), 2);
        assert!(second.poll(&mut cx).is_ready());
        assert!(third.poll(&mut cx).is_ready());
        assert!(third.poll(&mut cx).is_pending());
        EVENTS.wake_listeners();
        assert_eq!(woken.0.load(Relaxed), 3);
        assert!(third.poll(&mut cx).is_pending());
    }
}
