//! One source's readiness and waiters, in memory that outlives the source.
//!
//! ```text
//!   post:  change the word      lock   gather the waiters   unlock
//!   wait:  look at the word     lock   look again, queue    unlock
//! ```
//!
//! One of the two takes the lock first. If it is the waiter, the poster finds it in
//! the list. If it is the poster, the waiter sees the changed word when it checks
//! again.
//!
//! S1. Nothing foreign (a waker's clone, drop or wake) runs under the lock: it
//!     could come back to this very slot.
//! S2. A slot is retired by the owner of its source, when nothing borrows the
//!     source any more; it then belongs to the list of free slots.

use std::task::{Context, Poll, Waker};

use blitzen_util::shim::Mutex;
use blitzen_util::wait::{self, WaitKind};

use super::waiter::Waiters;
use super::word::{ReadinessWord, ReadyEvent};
use crate::Ready;
use crate::wake_list::WakeList;

/// The direction of a wait. Each has room for one waker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// What a task waits for in this direction.
    fn wait_kind(self) -> WaitKind {
        match self {
            Direction::Read => WaitKind::Readable,
            Direction::Write => WaitKind::Writable,
        }
    }

    /// The readiness that ends a wait in this direction.
    pub(crate) fn mask(self) -> Ready {
        match self {
            Direction::Read => Ready::READABLE | Ready::READ_CLOSED,
            Direction::Write => Ready::WRITABLE | Ready::WRITE_CLOSED,
        }
    }
}

/// The memory of one source. On a cache line of its own: neighbours belong to other
/// tasks.
#[derive(Debug)]
#[cfg_attr(not(blitzen_loom), repr(align(64)))]
pub(crate) struct SourceSlot {
    word: ReadinessWord,
    waiters: Mutex<Waiters>,
}

#[cfg(all(not(blitzen_loom), target_os = "linux", target_pointer_width = "64"))]
const _: () = assert!(size_of::<SourceSlot>() == 64);

impl SourceSlot {
    pub(crate) fn new() -> Self {
        Self {
            word: ReadinessWord::new(),
            waiters: Mutex::new(Waiters::default()),
        }
    }

    pub(super) fn word(&self) -> &ReadinessWord {
        &self.word
    }

    pub(super) fn waiters(&self) -> &Mutex<Waiters> {
        &self.waiters
    }

    /// Begins a source in a free slot that the caller owns; returns its generation.
    pub(crate) fn open(&self, initially: Ready) -> u32 {
        self.word.open(initially).generation()
    }

    /// Ends the source (S2). Returns the wakers, for the caller to drop (S1).
    #[must_use]
    pub(crate) fn retire(&self) -> Vec<Waker> {
        self.word.retire();
        // After the word was changed: an event that gets the lock later finds another
        // generation.
        self.waiters.lock().remove_all()
    }

    /// Adds an event to the readiness, and gathers the wakers of those that wait for
    /// it; returns false if the event is for an earlier source.
    pub(crate) fn post(
        &self,
        is_current: impl Fn(u32) -> bool,
        ready: Ready,
        wakes: &mut WakeList,
    ) -> bool {
        let Some(posted) = self.word.post(is_current, ready) else {
            return false;
        };
        let mut waiters = self.waiters.lock();
        // The source may have been retired since, and another one opened: its
        // waiters have nothing to do with this event.
        if self.word.load().generation() != posted.generation() {
            return false;
        }
        waiters.notify(ready, posted, wakes);
        true
    }

    /// Ends all waits, present and future, because the driver shuts down.
    pub(crate) fn shut(&self, wakes: &mut WakeList) {
        let shut = self.word.shut();
        self.waiters.lock().notify(Ready::ALL, shut, wakes);
    }

    /// Returns the current readiness.
    #[inline]
    pub(crate) fn now(&self, mask: Ready) -> ReadyEvent {
        self.word.load().event(mask)
    }

    /// Clears the readiness of `event`, unless another event has come since.
    #[inline]
    pub(crate) fn clear(&self, event: ReadyEvent) {
        self.word.clear(event);
    }

    /// Returns the readiness for a direction; `Pending`, with a wake to come, if there
    /// is none.
    #[inline]
    pub(crate) fn poll(&self, cx: &Context<'_>, direction: Direction) -> Poll<ReadyEvent> {
        match self.word.load().wait_event(direction.mask()) {
            Some(event) => Poll::Ready(event),
            None => self.wait(cx, direction),
        }
    }

    fn wait(&self, cx: &Context<'_>, direction: Direction) -> Poll<ReadyEvent> {
        let waker = cx.waker().clone(); // S1
        let mut waiters = self.waiters.lock();
        if let Some(event) = self.word.load().wait_event(direction.mask()) {
            drop(waiters);
            return Poll::Ready(event);
        }
        let before = waiters.of(direction).replace(waker);
        drop(waiters);
        drop(before); // S1
        wait::pending_on(direction.wait_kind(), self);
        Poll::Pending
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::Interest;
    use crate::readiness::Wait;
    use std::future::Future;
    use std::pin::pin;
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

    impl Count {
        fn new() -> (Arc<Self>, Waker) {
            let count = Arc::new(Self::default());
            (count.clone(), count.into())
        }

        fn get(&self) -> usize {
            self.0.load(Relaxed)
        }
    }

    fn post(slot: &SourceSlot, ready: Ready) {
        let mut wakes = WakeList::default();
        assert!(slot.post(|_| true, ready, &mut wakes));
        wakes.wake_all();
    }

    #[test]
    fn an_event_wakes_those_it_concerns_and_nobody_else() {
        let slot = SourceSlot::new();
        slot.open(Ready::EMPTY);
        let (reads, reader) = Count::new();
        let (writes, writer) = Count::new();
        assert!(
            slot.poll(&Context::from_waker(&reader), Direction::Read)
                .is_pending()
        );
        assert!(
            slot.poll(&Context::from_waker(&writer), Direction::Write)
                .is_pending()
        );
        post(&slot, Ready::READABLE);
        assert_eq!((reads.get(), writes.get()), (1, 0));
        post(&slot, Ready::READABLE); // nobody waits any more
        assert_eq!((reads.get(), writes.get()), (1, 0));
        post(&slot, Ready::WRITE_CLOSED);
        assert_eq!((reads.get(), writes.get()), (1, 1));
    }

    #[test]
    fn only_the_last_waker_of_a_direction_counts() {
        let slot = SourceSlot::new();
        slot.open(Ready::EMPTY);
        let (first, first_waker) = Count::new();
        let (last, last_waker) = Count::new();
        assert!(
            slot.poll(&Context::from_waker(&first_waker), Direction::Read)
                .is_pending()
        );
        assert!(
            slot.poll(&Context::from_waker(&last_waker), Direction::Read)
                .is_pending()
        );
        post(&slot, Ready::READABLE);
        assert_eq!((first.get(), last.get()), (0, 1));
    }

    #[test]
    fn every_future_is_notified_even_if_another_clears_first() {
        let slot = SourceSlot::new();
        slot.open(Ready::EMPTY);
        let (woken, waker) = Count::new();
        let mut cx = Context::from_waker(&waker);
        let mut first = pin!(Wait::new(&slot, Interest::READABLE));
        let mut second = pin!(Wait::new(&slot, Interest::READABLE));
        let mut other = pin!(Wait::new(&slot, Interest::WRITABLE));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(other.as_mut().poll(&mut cx).is_pending());
        post(&slot, Ready::READABLE);
        assert_eq!(woken.get(), 2);
        let Poll::Ready(event) = first.as_mut().poll(&mut cx) else {
            panic!("told");
        };
        slot.clear(event);
        assert!(slot.now(Ready::ALL).ready().is_empty());
        assert!(second.as_mut().poll(&mut cx).is_ready());
        assert!(other.as_mut().poll(&mut cx).is_pending());
    }

    #[test]
    fn a_future_that_was_dropped_is_not_woken() {
        let slot = SourceSlot::new();
        slot.open(Ready::EMPTY);
        let (woken, waker) = Count::new();
        let mut cx = Context::from_waker(&waker);
        {
            let mut wait = pin!(Wait::new(&slot, Interest::READABLE));
            assert!(wait.as_mut().poll(&mut cx).is_pending());
            assert!(wait.as_mut().poll(&mut cx).is_pending());
        }
        post(&slot, Ready::READABLE);
        assert_eq!(woken.get(), 0);
        drop(waker);
        assert_eq!(Arc::strong_count(&woken), 1);
    }

    #[test]
    fn shutting_ends_every_wait_and_retiring_drops_every_waker() {
        let slot = SourceSlot::new();
        slot.open(Ready::EMPTY);
        let (woken, waker) = Count::new();
        let mut cx = Context::from_waker(&waker);
        let mut wait = pin!(Wait::new(&slot, Interest::ERROR));
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        assert!(slot.poll(&cx, Direction::Write).is_pending());
        let mut wakes = WakeList::default();
        slot.shut(&mut wakes);
        wakes.wake_all();
        assert_eq!(woken.get(), 2);
        let answer = wait.as_mut().poll(&mut cx);
        assert!(matches!(answer, Poll::Ready(event) if event.is_shutdown()));

        let slot = SourceSlot::new();
        slot.open(Ready::EMPTY);
        assert!(slot.poll(&cx, Direction::Write).is_pending());
        drop(slot.retire());
        drop(waker);
        assert_eq!(Arc::strong_count(&woken), 1);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::Interest;
    use crate::readiness::Wait;
    use blitzen_util::shim::atomic::{AtomicUsize, Ordering::Relaxed};
    use blitzen_util::shim::{Arc, thread};
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Waker;

    /// A slot, and the bytes that the kernel holds for it.
    struct Socket {
        slot: SourceSlot,
        bytes: AtomicUsize,
    }

    impl Socket {
        fn new() -> Arc<Self> {
            let socket = Self {
                slot: SourceSlot::new(),
                bytes: AtomicUsize::new(0),
            };
            socket.slot.open(Ready::EMPTY);
            Arc::new(socket)
        }

        /// The peer sends a byte, and a poller posts the event.
        fn arrive(&self) {
            self.bytes.fetch_add(1, Relaxed);
            self.post(Ready::READABLE);
        }

        fn post(&self, ready: Ready) {
            let mut wakes = WakeList::default();
            self.slot.post(|_| true, ready, &mut wakes);
            wakes.wake_all();
        }

        /// A read that takes one byte; clears the readiness if there is none.
        fn try_read(&self, event: ReadyEvent) -> bool {
            let mut bytes = self.bytes.load(Relaxed);
            while bytes > 0 {
                match self
                    .bytes
                    .compare_exchange(bytes, bytes - 1, Relaxed, Relaxed)
                {
                    Ok(_) => return true,
                    Err(now) => bytes = now,
                }
            }
            self.slot.clear(event);
            false
        }

        async fn read_by_poll(&self) {
            poll_fn(|cx| {
                loop {
                    match self.slot.poll(cx, Direction::Read) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(event) if self.try_read(event) => return Poll::Ready(()),
                        Poll::Ready(_) => {}
                    }
                }
            })
            .await
        }

        async fn read_by_future(&self) {
            while !self.try_read(Wait::new(&self.slot, Interest::READABLE).await) {}
        }
    }

    #[test]
    fn an_event_against_a_clearing_read_is_never_lost() {
        loom::model(|| {
            let socket = Socket::new();
            let peer = thread::spawn({
                let socket = socket.clone();
                move || {
                    socket.arrive();
                    socket.arrive();
                }
            });
            loom::future::block_on(async {
                socket.read_by_poll().await;
                socket.read_by_poll().await;
            });
            peer.join().unwrap();
        });
    }

    #[test]
    fn two_tasks_and_two_events_end_however_they_mix() {
        loom::model(|| {
            let socket = Socket::new();
            let reader = thread::spawn({
                let socket = socket.clone();
                move || loom::future::block_on(socket.read_by_future())
            });
            let peer = thread::spawn({
                let socket = socket.clone();
                move || {
                    socket.arrive();
                    socket.arrive();
                }
            });
            loom::future::block_on(socket.read_by_poll());
            reader.join().unwrap();
            peer.join().unwrap();
        });
    }

    #[test]
    fn an_event_against_a_future_that_is_dropped_touches_nothing_of_it() {
        loom::model(|| {
            let socket = Socket::new();
            let peer = thread::spawn({
                let socket = socket.clone();
                move || socket.arrive()
            });
            {
                let mut wait = pin!(Wait::new(&socket.slot, Interest::READABLE));
                let _either = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            loom::future::block_on(socket.read_by_future());
            peer.join().unwrap();
        });
    }

    #[test]
    fn an_event_against_retiring_reaches_no_later_source() {
        loom::model(|| {
            let socket = Socket::new();
            let generation = socket.slot.now_generation();
            let peer = thread::spawn({
                let socket = socket.clone();
                move || {
                    let mut wakes = WakeList::default();
                    socket
                        .slot
                        .post(|g| g == generation, Ready::READABLE, &mut wakes);
                    wakes.wake_all();
                }
            });
            drop(socket.slot.retire());
            socket.slot.open(Ready::EMPTY);
            // The later source waits, and does not get the earlier one's event.
            let mut wait = pin!(Wait::new(&socket.slot, Interest::READABLE));
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(wait.as_mut().poll(cx).is_pending());
            peer.join().unwrap();
            assert!(wait.as_mut().poll(cx).is_pending());
        });
    }

    /// A waker that counts its calls, with an atomic of std: the count is not part of
    /// the model.
    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn events_against_a_clearing_read_a_wait_and_the_end_of_the_source() {
        loom::model(|| {
            let socket = Socket::new();
            let generation = socket.slot.now_generation();
            let poller = thread::spawn({
                let socket = socket.clone();
                move || {
                    for _ in 0..2 {
                        socket.bytes.fetch_add(1, Relaxed);
                        let mut wakes = WakeList::default();
                        let is_current = |g| g == generation;
                        socket.slot.post(is_current, Ready::READABLE, &mut wakes);
                        wakes.wake_all();
                    }
                }
            });
            // The first byte is read, whatever the read clears on the way.
            loom::future::block_on(socket.read_by_poll());
            // A wait for the second one, cut short by the end of the source.
            let first = std::sync::Arc::new(Count::default());
            let waker = Waker::from(first.clone());
            let _either = socket
                .slot
                .poll(&Context::from_waker(&waker), Direction::Read);
            drop(socket.slot.retire());
            drop(waker);

            // A task that waits for the next source in the same slot is not woken.
            socket.slot.open(Ready::EMPTY);
            let second = std::sync::Arc::new(Count::default());
            let waker = Waker::from(second.clone());
            let polled = socket
                .slot
                .poll(&Context::from_waker(&waker), Direction::Read);
            assert!(polled.is_pending());
            poller.join().unwrap();
            assert_eq!(second.0.load(std::sync::atomic::Ordering::Relaxed), 0);
            // And the waker of the retired source has been dropped.
            assert_eq!(std::sync::Arc::strong_count(&first), 1);
        });
    }

    #[test]
    fn shutting_against_a_wait_leaves_nobody_waiting() {
        loom::model(|| {
            let socket = Socket::new();
            let driver = thread::spawn({
                let socket = socket.clone();
                move || {
                    let mut wakes = WakeList::default();
                    socket.slot.shut(&mut wakes);
                    wakes.wake_all();
                }
            });
            let event = loom::future::block_on(Wait::new(&socket.slot, Interest::READABLE));
            assert!(event.is_shutdown());
            let event =
                loom::future::block_on(poll_fn(|cx| socket.slot.poll(cx, Direction::Write)));
            assert!(event.is_shutdown());
            driver.join().unwrap();
        });
    }

    impl SourceSlot {
        fn now_generation(&self) -> u32 {
            self.word.load().generation()
        }
    }
}
