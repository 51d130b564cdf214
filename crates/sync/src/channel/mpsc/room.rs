//! How many messages a bounded channel still has room for, and whose turn it is.
//!
//! ```text
//!   word:  │ tail: 32 │ permits: 29 │ WAITING │ QUEUED │ CLOSED │
//! ```
//!
//! A permit is room for one message. `tail` counts the messages claimed, so a
//! message that finds room is one compare-and-swap: a permit less, a position
//! more.
//!
//! F1. A permit is in the word, with a sender, or with a message in the queue:
//!     `limit` in all.
//! F2. `QUEUED` is set and cleared under the lock of `line`; it is set if and
//!     only if somebody is queued and the channel is not closed.
//! F3. While `QUEUED` is set, permits in the word are gathered for the front of
//!     the line; nobody else takes them. So senders are served in the order
//!     in which they came, however many permits each wants.
//! F4. `CLOSED` is never cleared; from then on nobody gets a permit. What had
//!     been gathered for the front goes with it, and comes back when it is told
//!     of the close.
//! F5. `WAITING` is set by the receiver when it has left its waker, and cleared
//!     by whoever takes that: by a claim, which fires it when the message is
//!     there.
//! F6. Every change of the word is a read-modify-write, so that an Acquire sees
//!     all Releases before it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::wake_batch::{self, WakeBatch};

use super::chan::{Claim, Flow};
use super::waker_cell::WakerCell;
use crate::channel::blocks::Positions;
use crate::queue::{Line, Queue, Status, Waiter};

const CLOSED: u64 = 1;
const QUEUED: u64 = 2;
const WAITING: u64 = 4;
const PERMIT: u64 = 8;
const PERMIT_BITS: u32 = 29;
const TAIL: u64 = 1 << 32;

const _: () = assert!(PERMIT << PERMIT_BITS == TAIL);

/// The most messages that fit at once, whatever the channel's capacity.
const MOST: usize = (1 << PERMIT_BITS) - 1;

/// The receiver has closed the channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// Why there is no room.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Closed,
}

#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    #[inline(always)]
    fn permits(self) -> usize {
        (self.0 as u32 >> PERMIT.trailing_zeros()) as usize
    }

    #[inline(always)]
    fn tail(self) -> usize {
        (self.0 / TAIL) as usize
    }

    #[inline(always)]
    fn claim(self) -> Claim {
        Claim {
            position: self.tail(),
            wakes: self.0 & WAITING != 0, // F5
        }
    }

    #[inline(always)]
    fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    #[inline(always)]
    fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Closed, and everybody's permits are back: no message is in the queue (F1)
    /// and none can come.
    #[inline(always)]
    fn is_idle(self, limit: usize) -> bool {
        self.is_closed() && self.permits() == limit
    }

    /// F3 and F4.
    #[inline(always)]
    fn can_give(self, count: usize) -> bool {
        self.0 & (CLOSED | QUEUED) == 0 && self.permits() >= count
    }
}

/// Permits times their place in the word.
#[inline(always)]
fn permits(count: usize) -> u64 {
    count as u64 * PERMIT
}

/// Room, claims, and the line of those who wait for room.
pub(super) struct Room {
    word: AtomicU64,
    /// To be told when a closed channel has its permits back, or of a message.
    receiver: WakerCell,
    line: Queue,
    /// All permits there are.
    limit: usize,
    /// What the user asked for; more than `limit` only where that is more than
    /// fits into memory.
    capacity: usize,
}

impl Positions for Room {
    #[inline(always)]
    fn distance(position: usize, start: usize) -> usize {
        (position as u32).wrapping_sub(start as u32) as usize
    }

    #[inline(always)]
    fn has_passed(head: usize, position: usize) -> bool {
        (head as u32).wrapping_sub(position as u32) <= i32::MAX as u32
    }

    fn claimed(&self) -> usize {
        // AcqRel: Release, met by the Acquire of every claim.
        Word(self.word.fetch_add(0, AcqRel)).tail()
    }
}

impl Flow for Room {
    #[inline(always)]
    fn receiver(&self) -> &WakerCell {
        &self.receiver
    }

    fn wait(&self) -> usize {
        // AcqRel: Release, met by the Acquire of every claim: it sees the waker.
        Word(self.word.fetch_or(WAITING, AcqRel)).tail()
    }

    fn waits(&self) -> Option<usize> {
        let word = self.word_seen();
        (word.0 & WAITING != 0).then(|| word.tail())
    }

    fn stop_waiting(&self) -> bool {
        // AcqRel: Acquire, met by the Release in `wait`: the waker is seen.
        // Release, met by the Acquire there: so is what the receiver missed.
        self.word.fetch_and(!WAITING, AcqRel) & WAITING != 0
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.word_seen().is_closed()
    }

    #[inline(always)]
    fn is_idle(&self, _head: usize) -> bool {
        self.word_seen().is_idle(self.limit)
    }

    #[inline(always)]
    fn len(&self, head: usize) -> usize {
        Self::distance(self.word_seen().tail(), head)
    }

    #[inline(always)]
    fn taken(&self, count: usize) {
        // AcqRel: Release, met by the Acquire of whoever gets the permits.
        let word = Word(self.word.fetch_add(permits(count), AcqRel));
        if word.is_queued() {
            self.serve();
        }
    }

    fn close(&self) {
        wake_batch::in_rounds(|batch| {
            let mut line = self.line.lock();
            let mut word = self.word();
            while !word.is_closed() {
                let wanted = line.front().unwrap_or(0);
                let gathered = wanted.min(word.permits()); // F4
                let next = (word.0 - permits(gathered)) & !QUEUED | CLOSED;
                match self.change(word, next) {
                    Err(changed) => word = changed,
                    Ok(()) => {
                        line.retag_front(wanted - gathered);
                        break;
                    }
                }
            }
            while !line.is_empty() {
                if batch.is_full() {
                    return true;
                }
                line.settle_front(Status::Dismissed, batch);
            }
            false
        });
    }
}

impl Room {
    pub(super) fn new(capacity: usize) -> Self {
        let limit = capacity.min(MOST);
        Self {
            word: AtomicU64::new(permits(limit)),
            receiver: WakerCell::new(),
            line: Queue::new(()),
            limit,
            capacity,
        }
    }

    #[inline(always)]
    fn word(&self) -> Word {
        Word(self.word.load(Relaxed))
    }

    /// Acquire, met by the Release of every permit given back: whoever sees
    /// room, or the close, sees what led to it.
    #[inline(always)]
    fn word_seen(&self) -> Word {
        Word(self.word.load(Acquire))
    }

    /// Acquire: for permits, met by the Release in `taken`; for positions, by the
    /// one in `claimed`; for the waker, by the one in `wait`. Release for `close`,
    /// which others must see together with what was done before.
    #[inline(always)]
    fn change(&self, word: Word, next: u64) -> Result<(), Word> {
        (self.word)
            .compare_exchange_weak(word.0, next, AcqRel, Relaxed)
            .map(drop)
            .map_err(Word)
    }

    /// What the user asked for.
    pub(super) fn max_capacity(&self) -> usize {
        self.capacity
    }

    /// How many permits there can be at the most.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// How many permits a newcomer could take.
    pub(super) fn capacity(&self) -> usize {
        let word = self.word_seen();
        match word.is_queued() {
            true => 0, // F3
            false => word.permits() + (self.capacity - self.limit),
        }
    }

    /// Takes a permit and spends it on a position.
    #[inline(always)]
    pub(super) fn try_claim(&self) -> Result<Claim, Refused> {
        let mut word = self.word();
        while word.can_give(1) {
            let next = word.0.wrapping_add(TAIL - PERMIT) & !WAITING;
            match self.change(word, next) {
                Ok(()) => return Ok(word.claim()),
                Err(changed) => word = changed,
            }
        }
        Err(refusal(word))
    }

    /// Spends a permit that the caller has on a position.
    #[inline(always)]
    pub(super) fn claim(&self) -> Claim {
        // Acquire, met by the Release in `claimed` and in `wait`.
        let mut claim = Word(self.word.fetch_add(TAIL, Acquire)).claim();
        claim.wakes = claim.wakes && self.stop_waiting();
        claim
    }

    /// Takes permits.
    #[inline(always)]
    pub(super) fn try_acquire(&self, count: usize) -> Result<(), Refused> {
        let mut word = self.word();
        if count == 0 && !word.is_closed() {
            return Ok(());
        }
        while word.can_give(count) {
            match self.change(word, word.0 - permits(count)) {
                Ok(()) => return Ok(()),
                Err(changed) => word = changed,
            }
        }
        Err(refusal(word))
    }

    /// Takes permits, waiting for them in line.
    pub(super) fn acquire(&self, count: usize) -> Acquiring<'_> {
        Acquiring {
            room: self,
            count,
            waiter: Waiter::new(),
        }
    }

    /// Gives permits back with which nothing was sent.
    pub(super) fn release(&self, count: usize) {
        if count == 0 {
            return;
        }
        self.taken(count);
        if self.word_seen().is_idle(self.limit) {
            self.wake_receiver();
        }
    }

    #[cold]
    #[inline(never)]
    fn serve(&self) {
        wake_batch::in_rounds(|batch| self.serve_line(&mut self.line.lock(), batch));
    }

    /// Hands what has been gathered to those at the front, as far as it goes.
    /// True if the batch is full before that.
    fn serve_line(&self, line: &mut Line<'_>, batch: &mut WakeBatch) -> bool {
        while let Some(wanted) = line.front() {
            let mut word = self.word();
            loop {
                if word.is_closed() || word.permits() < wanted {
                    return false;
                }
                if batch.is_full() {
                    return true;
                }
                let queued = if line.is_single() { QUEUED } else { 0 }; // F2
                match self.change(word, (word.0 - permits(wanted)) & !queued) {
                    Ok(()) => break,
                    Err(changed) => word = changed,
                }
            }
            line.settle_front(Status::Granted, batch);
        }
        false
    }
}

fn refusal(word: Word) -> Refused {
    match word.is_closed() {
        true => Refused::Closed,
        false => Refused::Full,
    }
}

/// Waits for permits.
///
/// Dropped before it is ready, it leaves the line; permits that it has been
/// given are given back.
pub(super) struct Acquiring<'a> {
    room: &'a Room,
    count: usize,
    waiter: Waiter,
}

impl Acquiring<'_> {
    /// What the waiter, settled, has in its hands.
    fn held(&self, status: Status) -> usize {
        match status {
            Status::Granted | Status::GrantedLast => self.count,
            // SAFETY: it is our waiter, and settled.
            Status::Dismissed => self.count - unsafe { self.waiter.settled_tag() }, // F4
            Status::Idle | Status::Queued | Status::Left => 0,
        }
    }

    fn get_in_line(&self, cx: &Context<'_>) -> Poll<Result<(), Closed>> {
        let waker = cx.waker().clone();
        let room = self.room;
        let mut line = room.line.lock();
        loop {
            match room.try_acquire(self.count) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(Refused::Closed) => return Poll::Ready(Err(Closed)),
                Err(Refused::Full) => {}
            }
            let word = room.word();
            // A permit that comes back now makes the change fail.
            let stays = !word.is_closed() && !word.can_give(self.count);
            if stays && (word.is_queued() || room.change(word, word.0 | QUEUED).is_ok()) {
                // SAFETY: idle, pinned, and removed by `drop`.
                unsafe { line.push(&self.waiter, self.count, Some(waker)) };
                return Poll::Pending;
            }
        }
    }
}

impl Future for Acquiring<'_> {
    type Output = Result<(), Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let spent = ready!(coop::poll_proceed(cx));
        let this = self.into_ref().get_ref();
        let outcome = loop {
            match this.waiter.status() {
                Status::Idle => {
                    if let Poll::Ready(outcome) = this.get_in_line(cx) {
                        break outcome;
                    }
                    return Poll::Pending;
                }
                Status::Queued => {
                    // SAFETY: it stands in this line or has been settled.
                    if unsafe { this.room.line.refresh(&this.waiter, cx) } {
                        return Poll::Pending;
                    }
                }
                status => {
                    let held = this.held(status);
                    this.waiter.settle_unqueued(Status::Idle);
                    if !this.room.is_closed() {
                        break Ok(());
                    }
                    this.room.release(held);
                    break Err(Closed);
                }
            }
        };
        spent.made_progress();
        Poll::Ready(outcome)
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if self.waiter.status() == Status::Queued {
            let mut left = false;
            wake_batch::in_rounds(|batch| {
                let mut line = self.room.line.lock();
                if !left {
                    // SAFETY: it stands in this line or has been settled.
                    left = unsafe { line.remove(&self.waiter) }.is_some();
                    if left && line.is_empty() {
                        // F2: what was gathered is anybody's. Release, met by
                        // the Acquire of whoever takes it.
                        self.room.word.fetch_and(!QUEUED, Release);
                    }
                }
                // Whoever is at the front now may want less.
                left && self.room.serve_line(&mut line, batch)
            });
        }
        let held = self.held(self.waiter.status());
        self.room.release(held);
    }
}
