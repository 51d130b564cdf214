//! The tasks that wait for a source, and the future in which they do.
//!
//! ```text
//!            queue                    an event that matters
//!   Idle ───────────► Queued(waker) ────────────────────────► Notified(event)
//!    ▲                     │                                      │
//!    └─────────────────────┴──────────────────────────────────────┘
//!              the future is dropped, or has returned the event
//! ```
//!
//! Q1. A waiter's state is accessed under the slot's lock, except while it is
//!     `Idle`, when only its future has access to it.
//! Q2. A waiter is in the list exactly while it is `Queued`.
//! Q3. A waiter is notified once and keeps its event: if another task clears the
//!     readiness before the waiter is polled, the wait still ends.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use blitzen_util::list::{Linked, Links, List};
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::wait::{self, WaitKind};

use super::slot::{Direction, SourceSlot};
use super::word::{ReadinessSnapshot, ReadyEvent};
use crate::wake_list::WakeList;
use crate::{Interest, Ready};

/// One waiter of [`Wait`].
#[derive(Debug)]
pub(super) struct ReadinessWaiter {
    links: Links<ReadinessWaiter>,
    mask: Ready,
    state: UnsafeCell<WaiterState>,
}

#[derive(Debug)]
enum WaiterState {
    Idle,
    Queued(Waker),
    Notified(ReadyEvent),
}

// SAFETY: the links and the state are touched under the slot's lock (Q1), and
// what they hold may go to any thread.
unsafe impl Send for ReadinessWaiter {}
// SAFETY: as above; `mask` never changes.
unsafe impl Sync for ReadinessWaiter {}

// SAFETY: the field's address, without a reference to the node.
unsafe impl Linked for ReadinessWaiter {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live node.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl ReadinessWaiter {
    /// Replaces the state.
    ///
    /// # Safety
    /// The slot's lock is held, or the waiter is `Idle` and the caller is its
    /// future (Q1).
    unsafe fn replace_state(&self, state: WaiterState) -> WaiterState {
        self.state.with_mut(|now| {
            // SAFETY: the caller guarantees that nothing else accesses the state.
            std::mem::replace(unsafe { &mut *now }, state)
        })
    }
}

/// All waiters of one source; behind the slot's lock.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    reader: Option<Waker>,
    writer: Option<Waker>,
    list: List<ReadinessWaiter>,
}

impl Waiters {
    /// The waker of a direction; a new one replaces it.
    pub(super) fn of(&mut self, direction: Direction) -> &mut Option<Waker> {
        match direction {
            Direction::Read => &mut self.reader,
            Direction::Write => &mut self.writer,
        }
    }

    /// Gathers the wakers of all that wait for `ready`; `now` is the word after the
    /// event.
    pub(super) fn notify(&mut self, ready: Ready, now: ReadinessSnapshot, wakes: &mut WakeList) {
        for direction in [Direction::Read, Direction::Write] {
            if !(ready & direction.mask()).is_empty()
                && let Some(waker) = self.of(direction).take()
            {
                wakes.push(waker);
            }
        }
        let mut all = self.list.take();
        while let Some(node) = all.pop_front() {
            // SAFETY: Q2, queued: its future has not been dropped, and cannot
            // be while we hold the lock.
            let waiter = unsafe { node.as_ref() };
            let news = ready & waiter.mask;
            if news.is_empty() {
                // SAFETY: just taken out of the only list it was in.
                unsafe { self.list.push_back(node) };
                continue;
            }
            let event = now.event(waiter.mask).with_ready(news);
            // SAFETY: Q1, the caller holds the lock.
            let before = unsafe { waiter.replace_state(WaiterState::Notified(event)) };
            if let WaiterState::Queued(waker) = before {
                wakes.push(waker);
            }
        }
    }

    /// Removes all waiters of a source that has ended. A waiter that is still here
    /// belongs to a future that was leaked. Returns the wakers, for the caller to
    /// drop after it has released the lock.
    pub(super) fn remove_all(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        wakers.extend(self.reader.take());
        wakers.extend(self.writer.take());
        while let Some(node) = self.list.pop_front() {
            // SAFETY: Q2: queued, so the future has not been dropped and its memory
            // is valid.
            let waiter = unsafe { node.as_ref() };
            // SAFETY: Q1, the caller holds the lock.
            if let WaiterState::Queued(waker) = unsafe { waiter.replace_state(WaiterState::Idle) } {
                wakers.push(waker);
            }
        }
        wakers
    }
}

/// Waits until a slot has readiness of an interest.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Wait<'a> {
    slot: &'a SourceSlot,
    waiter: ReadinessWaiter,
    /// Whether the waiter is not `Idle`. Only the future uses this.
    shared: Cell<bool>,
}

// SAFETY: `waiter` is both, and `shared` is touched only through
// `Pin<&mut Wait>` and in `drop`: by one thread at a time.
unsafe impl Sync for Wait<'_> {}

impl<'a> Wait<'a> {
    pub(crate) fn new(slot: &'a SourceSlot, interest: Interest) -> Self {
        Self {
            slot,
            waiter: ReadinessWaiter {
                links: Links::new(),
                mask: Ready::for_interest(interest),
                state: UnsafeCell::new(WaiterState::Idle),
            },
            shared: Cell::new(false),
        }
    }

    fn start(&self, cx: &Context<'_>) -> Poll<ReadyEvent> {
        if let Some(event) = self.slot.word().load().wait_event(self.waiter.mask) {
            return Poll::Ready(event);
        }
        let waker = cx.waker().clone(); // foreign code: before the lock
        let mut waiters = self.slot.waiters().lock();
        // Again, under the lock: a thread that posts after this check takes the lock
        // after this one, and finds the waiter.
        if let Some(event) = self.slot.word().load().wait_event(self.waiter.mask) {
            drop(waiters);
            return Poll::Ready(event);
        }
        // SAFETY: Q1, we hold the lock.
        unsafe { self.waiter.replace_state(WaiterState::Queued(waker)) };
        // SAFETY: not shared, so in no list; pinned, and `drop` takes it out.
        unsafe { waiters.list.push_back(NonNull::from(&self.waiter)) };
        self.shared.set(true);
        Poll::Pending
    }

    fn poll_queued(&self, cx: &Context<'_>) -> Poll<ReadyEvent> {
        let waker = cx.waker().clone(); // foreign code: before the lock
        let waiters = self.slot.waiters().lock();
        // SAFETY: Q1, we hold the lock.
        let before = unsafe { self.waiter.replace_state(WaiterState::Idle) };
        let answer = match &before {
            WaiterState::Notified(event) => {
                self.shared.set(false);
                Poll::Ready(*event)
            }
            _ => {
                // SAFETY: Q1, as above.
                unsafe { self.waiter.replace_state(WaiterState::Queued(waker)) };
                Poll::Pending
            }
        };
        drop(waiters);
        drop(before); // the old waker: foreign code, after the lock
        answer
    }
}

/// What a task waits for that waits for `mask`.
fn wait_kind(mask: Ready) -> WaitKind {
    if mask == Direction::Read.mask() {
        WaitKind::Readable
    } else if mask == Direction::Write.mask() {
        WaitKind::Writable
    } else {
        WaitKind::Ready
    }
}

impl Future for Wait<'_> {
    type Output = ReadyEvent;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ReadyEvent> {
        // A shared reference from here on: the list has another one.
        let this = self.into_ref().get_ref();
        let poll = match this.shared.get() {
            false => this.start(cx),
            true => this.poll_queued(cx),
        };
        if poll.is_pending() {
            wait::pending_on(wait_kind(this.waiter.mask), this.slot);
        }
        poll
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !self.shared.get() {
            return;
        }
        let mut waiters = self.slot.waiters().lock();
        // SAFETY: alive, and in this slot's list or in none (Q2).
        unsafe { waiters.list.remove(NonNull::from(&self.waiter)) };
        // SAFETY: Q1, we hold the lock.
        let state = unsafe { self.waiter.replace_state(WaiterState::Idle) };
        drop(waiters);
        drop(state); // a waker: foreign code, after the lock
    }
}
