//! The packed state word of a task and its transitions. Safe code: the result of a
//! transition says what the caller may access, and must do.
//!
//! ```text
//!  63        40 39      32 31     24 23     18 17       16 15      10 9       0
//! ┌────────────┬──────────┬─────────┬─────────┬───────────┬──────────┬─────────┐
//! │ references │  shield  │  flags  │  wait   │ lifecycle │ reserved │  route  │
//! └────────────┴──────────┴─────────┴─────────┴───────────┴──────────┴─────────┘
//!
//!            wake, cancel                 start_poll
//!    IDLE ─────────────────► SCHEDULED ─────────────► RUNNING ──► COMPLETE
//!     ▲                          ▲                       │
//!     │                          └── end: notified ──────┤
//!     └───────────────────────────── end: not notified ──┘
//! ```
//!
//! S1. Entering `SCHEDULED` makes one [`Runnable`](crate::Runnable); leaving it
//!     spends it.
//! S2. `notified` is set by wakes that find the task `SCHEDULED` or `RUNNING`
//!     and cleared when a poll starts. The poll sees what a wake published before
//!     that; a wake that comes later causes one more poll.
//! S3. A cancellation takes effect where the shield depth is zero, or whenever
//!     the runtime closes. A coroutine that has unwound is not kept by shields either.
//! S4. The kind of what the task waits for is there while it is `IDLE`, and zero otherwise. The
//!     [queue link](crate::queue_link) has the rest.
//! S5. A poll of a task that has a scope with children *holds* the task: it ends with
//!     `listens` set, and an abort is deferred. It wakes the task for one more poll, in which the
//!     scope hears of it and holds again until it is empty. The abort takes effect at
//!     the end of the first poll that does not hold, so a scope that is not polled any more
//!     cannot defer it for ever.
//! S6. A task whose future unwinds (a coroutine) is polled when it is cancelled: the future
//!     sees that, ends, and lets the cancellation take effect. It is marked with the first poll,
//!     and from then on not closed but by the thread that polls it. When the runtime closes, it is
//!     cancelled, and marked as one that no shield protects.
//! S7. The route of a task that is `SCHEDULED` is that of the queue it is in, or is
//!     going into, and only the thread that has its runnable changes it. While the task is
//!     `RUNNING` the route is that of its next poll: its own, which `start_poll` sets, unless
//!     a wake asks for another. An `IDLE` task has its own route.
//! S8. A task whose future unwinds (S6) may stay `RUNNING` when it yields, while it is in the queue
//!     of its thread: nobody else changes its lifecycle then. Its runnable is spent by the next
//!     poll, as if it were `SCHEDULED`.
//!
//! Nearly all tasks have the default route, zero, and none of the rarer flags. So the transitions
//! of each poll and wake make one test for all of these, and one exchange; if something else is
//! found, or the word changes meanwhile, a function of its own makes the transition.
//!
//! Every transition is one read-modify-write with `AcqRel`. Its partner is the
//! next transition of the same task, so that a thread that makes a transition sees
//! all that was done to the task before.

use blitzen_util::field::Field;
use blitzen_util::shim::Peek;
use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::wait::{PollNote, WaitKind};

use crate::route::{ROUTE_BITS, Route};
use crate::snapshot::TaskStatus;

/// The runtime is shutting down, and the future unwinds: shields do not count (S6).
const UNSHIELDED: u64 = 1 << 11;
/// A dump wants to know what the next poll waits for.
const WATCHED: u64 = 1 << 10;
const ROUTE: Field = Field::new(0, ROUTE_BITS);
const LIFECYCLE: Field = Field::new(16, 2);
/// The lifecycle, and above it the kind of what the task waits for.
const LIFECYCLE_AND_WAIT: Field = Field::new(16, 8);
const WAIT: Field = Field::new(18, 6);
const SHIELD: Field = Field::new(32, 8);
const REFERENCES: Field = Field::new(40, 24);

const NOTIFIED: u64 = 1 << 24;
const CANCELLED: u64 = 1 << 25;
const JOIN_INTEREST: u64 = 1 << 26;
const DETACHED: u64 = 1 << 27;
/// The join waker's slot is full, and belongs to the completing side (T5).
const JOIN_WAKER: u64 = 1 << 28;
/// The runtime is shutting down, or the future has unwound: cancellation waits for no shield.
const CLOSING: u64 = 1 << 29;
/// A scope listens: the last poll held the task (S5).
const LISTENS: u64 = 1 << 30;
/// The scheduler knows when the task was queued. Set by the code that has its runnable,
/// cleared when a poll starts.
const STAMPED: u64 = 1 << 31;
/// The future ends on its own when the task is cancelled (S6).
const UNWINDS: u64 = 1 << 15;

/// Far below the point where the count would wrap, so that threads that increment it
/// at the same time cannot get there, yet beyond any real use.
const MAX_REFERENCES: u64 = REFERENCES.max() / 2;

const IDLE: u64 = 0;
const SCHEDULED: u64 = 1;
const RUNNING: u64 = 2;
const COMPLETE: u64 = 3;

/// What the waking thread must do next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Put the task into a queue of its scheduler: it is in none.
    Enqueue,
    /// Give the task to the dispatcher of its route: it is in no queue.
    Dispatch,
    /// Nothing: the task will be polled anyway, or is complete.
    Nothing,
}

/// What a worker that took a task from a queue must do with it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartPoll {
    /// Poll the future.
    Poll,
    /// Poll the future, and record what it waits for.
    PollWatched,
    /// Nothing was started: the task is to be polled on its route.
    Routed,
    /// Drop the future: the task was cancelled.
    Cancel,
}

/// What a worker must do after a poll that was pending.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndPoll {
    /// Leave it alone: the task may run elsewhere already.
    Idle,
    /// Queue it again: it was woken, or yielded.
    Reschedule,
    /// Queue it again, but maybe elsewhere: its next poll is not on the default route.
    Dispatch,
    /// Drop the future: the task was cancelled.
    Cancel,
}

/// What the thread that closes a runtime must do with a task.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseOutcome {
    /// Drop the future: it belongs to this thread now.
    Cancel,
    /// Nothing: the thread that runs it will drop it.
    Running,
    /// Nothing: it is left to its thread (S6).
    Unwinds,
    /// Nothing: it is complete.
    Complete,
}

/// Whether a reference given up was the last.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefCount {
    Positive,
    Zero,
}

/// What a join handle must drop when it is dropped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JoinHandleDrop {
    /// The output: the task has completed.
    pub(crate) drop_output: bool,
    /// The join waker in its slot.
    pub(crate) drop_waker: bool,
}

/// A copy of the state.
#[derive(Clone, Copy)]
pub(crate) struct StateSnapshot(u64);

impl StateSnapshot {
    fn lifecycle(self) -> u64 {
        LIFECYCLE.get(self.0)
    }

    fn now(self, lifecycle: u64) -> Self {
        Self(LIFECYCLE_AND_WAIT.set(self.0, lifecycle)) // S4
    }

    /// The same with `to` for the lifecycle `from`, in which the task waits for nothing (S4).
    #[inline(always)]
    fn moved(self, from: u64, to: u64) -> Self {
        debug_assert_eq!(LIFECYCLE_AND_WAIT.get(self.0), from);
        Self(self.0 ^ LIFECYCLE.set(0, from ^ to))
    }

    /// A running task that becomes idle.
    #[inline(always)]
    fn now_idle(self, note: PollNote) -> Self {
        Self(self.moved(RUNNING, IDLE).0 | WAIT.set(0, note.kind_number()))
    }

    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    fn with(self, flag: u64) -> Self {
        Self(self.0 | flag)
    }

    fn without(self, flag: u64) -> Self {
        Self(self.0 & !flag)
    }

    fn route(self) -> Route {
        Route::from_bits(ROUTE.get(self.0))
    }

    fn routed(self, route: Route) -> Self {
        Self(ROUTE.set(self.0, route.bits()))
    }

    pub(crate) fn shield_depth(self) -> u64 {
        SHIELD.get(self.0)
    }

    fn references(self) -> u64 {
        REFERENCES.get(self.0)
    }

    pub(crate) fn is_complete(self) -> bool {
        self.lifecycle() == COMPLETE
    }

    pub(crate) fn is_join_interested(self) -> bool {
        self.has(JOIN_INTEREST)
    }

    pub(crate) fn has_join_waker(self) -> bool {
        self.has(JOIN_WAKER)
    }

    /// The lifecycle, for dumps.
    pub(crate) fn status(self) -> TaskStatus {
        match self.lifecycle() {
            IDLE => TaskStatus::Idle,
            SCHEDULED => TaskStatus::Scheduled,
            RUNNING => TaskStatus::Running,
            _ => TaskStatus::Complete,
        }
    }

    /// The kind of what an idle task waits for (S4).
    pub(crate) fn wait_kind(self) -> WaitKind {
        WaitKind::from_number(WAIT.get(self.0) as u8)
    }

    pub(crate) fn is_cancelled(self) -> bool {
        self.has(CANCELLED)
    }

    /// How many references there are beside that of the scheduler, of the join handle and of the
    /// shields: those of wakers and abort handles.
    pub(crate) fn other_references(self) -> u64 {
        let scheduler = u64::from(!self.is_complete());
        let known = scheduler + u64::from(self.is_join_interested()) + self.shield_depth();
        self.references().saturating_sub(known)
    }

    /// The state of a task whose poll starts, with its own route and the mark of a task whose future
    /// unwinds among `marks`.
    #[inline(always)]
    fn started(self, marks: u64) -> Self {
        debug_assert_eq!(self.lifecycle(), SCHEDULED, "S1");
        let flags = NOTIFIED | STAMPED | WATCHED | ROUTE.mask();
        let running = self.moved(SCHEDULED, RUNNING).without(flags);
        running.with(marks)
    }

    /// How to start a poll of the task on the route `here`, whatever the flags.
    fn start(self, here: Route) -> StartPoll {
        if self.must_cancel() {
            StartPoll::Cancel
        } else if !self.route().is_default() && self.route() != here {
            StartPoll::Routed
        } else if self.has(WATCHED) {
            StartPoll::PollWatched
        } else {
            StartPoll::Poll
        }
    }

    /// How to poll a task that has yielded and is still `RUNNING` (S8), and the next state. A wake
    /// that came meanwhile causes another poll after this one.
    #[inline(always)]
    fn resume_yielded(self) -> (StartPoll, Option<Self>) {
        match self.has(WATCHED) {
            true => (StartPoll::PollWatched, Some(self.without(WATCHED))),
            // Nothing is to be acquired either: this thread has polled it last.
            false => (StartPoll::Poll, None),
        }
    }

    /// How a pending poll ends, and the next state, whatever the flags and the note.
    fn end_pending(self, note: PollNote) -> (EndPoll, Option<Self>) {
        let ended = match note.holds() {
            true => self.with(LISTENS),
            false => self.without(LISTENS),
        };
        if ended.must_cancel() {
            (EndPoll::Cancel, None)
        } else if note.has_yielded()
            || ended.has(NOTIFIED)
            // The abort came after a scope had looked for it.
            || note.has_unheard() && ended.has(CANCELLED)
            // S6: the hold that deferred it until now kept it from the future, which has to see it.
            || self.has(LISTENS) && ended.has(UNWINDS) && ended.is_cancel_due()
        {
            let end = match ended.route().is_default() {
                true => EndPoll::Reschedule,
                false => EndPoll::Dispatch,
            };
            (end, Some(ended.moved(RUNNING, SCHEDULED)))
        } else {
            (EndPoll::Idle, Some(ended.now_idle(note)))
        }
    }

    /// What to do with a task that becomes `SCHEDULED` outside its poll.
    fn enqueue(self) -> Wake {
        match self.route().is_default() {
            true => Wake::Enqueue,
            false => Wake::Dispatch,
        }
    }

    /// Whether a cancellation takes effect now (S3, S5).
    #[inline]
    fn must_cancel(self) -> bool {
        self.has(CLOSING)
            || self.has(CANCELLED)
                && (self.shield_depth() == 0 || self.has(UNSHIELDED))
                && !self.has(LISTENS | UNWINDS)
    }

    /// Whether a cancellation was requested, whether or not it takes effect now.
    #[inline]
    pub(crate) fn is_cancel_requested(self) -> bool {
        self.has(CLOSING) || self.has(CANCELLED)
    }

    /// Whether a cancellation takes effect now, or would if the future did not unwind itself (S6).
    #[inline]
    pub(crate) fn is_cancel_due(self) -> bool {
        // One test nearly always: without a request nothing is due.
        self.is_cancel_requested() && self.without(UNWINDS).must_cancel()
    }
}

/// The state of one task.
pub(crate) struct TaskState(AtomicU64);

impl TaskState {
    /// Scheduled for its first poll on `route`, with the scheduler's reference and the
    /// join handle's.
    #[inline]
    pub(crate) fn new(route: Route) -> Self {
        Self(AtomicU64::new(Self::new_word() | route.bits()))
    }

    const fn new_word() -> u64 {
        REFERENCES.set(LIFECYCLE.set(0, SCHEDULED), 2) | JOIN_INTEREST
    }

    /// The one compare-exchange loop: `step` gets the word, and returns the answer
    /// for the caller and, if the word is to change, the next word.
    #[inline(always)]
    fn update<R>(&self, mut step: impl FnMut(StateSnapshot) -> (R, Option<StateSnapshot>)) -> R {
        // Relaxed, here and where the exchange fails: after a step that changes
        // nothing the caller accesses nothing of the task.
        let mut seen = self.0.peek(Relaxed);
        loop {
            let (answer, next) = step(StateSnapshot(seen));
            let Some(next) = next else { return answer };
            match self.0.compare_exchange_weak(seen, next.0, AcqRel, Relaxed) {
                Ok(_) => return answer,
                Err(newer) => seen = newer,
            }
        }
    }

    /// Makes one transition if the word is still `seen`: for the usual case of one, which the
    /// loop above would only slow down.
    #[inline(always)]
    fn exchange(&self, seen: StateSnapshot, next: StateSnapshot) -> bool {
        // AcqRel, as every transition.
        let exchanged = self.0.compare_exchange(seen.0, next.0, AcqRel, Relaxed);
        exchanged.is_ok()
    }

    /// The word, for an [`exchange`](Self::exchange). Relaxed, as in [`update`](Self::update).
    #[inline(always)]
    fn seen(&self) -> StateSnapshot {
        StateSnapshot(self.0.peek(Relaxed))
    }

    /// The state as it is now. Acquire, met by [`complete`](Self::complete): a thread
    /// that sees `COMPLETE` sees the output.
    #[inline]
    pub(crate) fn load(&self) -> StateSnapshot {
        StateSnapshot(self.0.peek(Acquire))
    }

    /// Notes that a waker has fired.
    #[inline]
    pub(crate) fn wake(&self) -> Wake {
        let seen = self.seen();
        let is_usual = !seen.has(LIFECYCLE.mask() | ROUTE.mask());
        if is_usual && self.exchange(seen, seen.now(SCHEDULED)) {
            return Wake::Enqueue;
        }
        self.wake_in_any_state()
    }

    #[inline(never)]
    fn wake_in_any_state(&self) -> Wake {
        self.update(|snapshot| match snapshot.lifecycle() {
            IDLE => {
                let next = snapshot.now(SCHEDULED);
                (next.enqueue(), Some(next))
            }
            SCHEDULED | RUNNING => (Wake::Nothing, Some(snapshot.with(NOTIFIED))),
            _ => (Wake::Nothing, None),
        })
    }

    /// Notes that a waker has fired and is spent, with its reference, if the task is idle; otherwise
    /// changes nothing. Only for a task whose future unwinds: nobody but who gets the runnable
    /// can complete it (S6), so it needs no reference until it is queued.
    #[inline]
    pub(crate) fn wake_idle_and_unreference(&self) -> Wake {
        self.update(
            |snapshot| match snapshot.has(LIFECYCLE.mask() | ROUTE.mask()) {
                true => (Wake::Nothing, None),
                false => {
                    let next = snapshot.now(SCHEDULED);
                    (Wake::Enqueue, Some(Self::without_reference(next)))
                }
            },
        )
    }

    #[inline(always)]
    fn without_reference(snapshot: StateSnapshot) -> StateSnapshot {
        debug_assert!(snapshot.references() > 1, "the scheduler has one");
        StateSnapshot(snapshot.0 - REFERENCES.one())
    }

    /// Has the task polled once more, and what it waits for recorded.
    pub(crate) fn watch(&self) -> Wake {
        self.update(|snapshot| {
            let watched = snapshot.with(WATCHED);
            match snapshot.lifecycle() {
                IDLE => (watched.enqueue(), Some(watched.now(SCHEDULED))),
                SCHEDULED | RUNNING => (Wake::Nothing, Some(watched.with(NOTIFIED))),
                _ => (Wake::Nothing, None),
            }
        })
    }

    /// The route of a task that the caller has the right to queue or to poll (S7).
    #[inline]
    pub(crate) fn route(&self) -> Route {
        // Relaxed: the caller's own transition, or that of whoever gave it the task, has
        // set the route, and nobody else changes it.
        StateSnapshot(self.0.peek(Relaxed)).route()
    }

    /// Notes that a waker has fired, and that the next poll is to be on `route`. A task that
    /// is in a queue already stays there, and one that runs and has [asked for a
    /// route](Self::request_route) other than `own_route` keeps that: its poll will ask again.
    pub(crate) fn wake_on(&self, route: Route, own_route: Route) -> Wake {
        self.update(|snapshot| match snapshot.lifecycle() {
            IDLE => {
                let next = snapshot.now(SCHEDULED).routed(route);
                (next.enqueue(), Some(next))
            }
            RUNNING if snapshot.route() == own_route => {
                (Wake::Nothing, Some(snapshot.with(NOTIFIED).routed(route)))
            }
            SCHEDULED | RUNNING => (Wake::Nothing, Some(snapshot.with(NOTIFIED))),
            _ => (Wake::Nothing, None),
        })
    }

    /// Asks for another poll, on `route`. The caller is polling the task.
    pub(crate) fn request_route(&self, route: Route) {
        self.update(|snapshot| {
            debug_assert_eq!(snapshot.lifecycle(), RUNNING, "T2");
            ((), Some(snapshot.with(NOTIFIED).routed(route)))
        });
    }

    /// Requests cancellation.
    pub(crate) fn cancel(&self) -> Wake {
        self.update(|snapshot| match snapshot.lifecycle() {
            COMPLETE => (Wake::Nothing, None),
            _ if snapshot.has(CANCELLED) => (Wake::Nothing, None),
            // S5: a scope hears of it although the task is shielded.
            IDLE if snapshot.shield_depth() == 0 || snapshot.has(LISTENS | UNWINDS) => {
                let next = snapshot.with(CANCELLED).now(SCHEDULED);
                (next.enqueue(), Some(next))
            }
            // The future may have looked already (S6).
            RUNNING if snapshot.has(UNWINDS) => {
                let next = snapshot.with(CANCELLED).with(NOTIFIED);
                (Wake::Nothing, Some(next))
            }
            _ => (Wake::Nothing, Some(snapshot.with(CANCELLED))),
        })
    }

    /// Requests cancellation of a task whose future unwinds (S6), and of no other, since the runtime
    /// shuts down.
    pub(crate) fn close_unwinding(&self) -> Wake {
        self.update(|snapshot| {
            let next = snapshot.with(CANCELLED | UNSHIELDED);
            match snapshot.lifecycle() {
                COMPLETE => (Wake::Nothing, None),
                _ if !snapshot.has(UNWINDS) || snapshot.has(UNSHIELDED) => (Wake::Nothing, None),
                IDLE => (next.enqueue(), Some(next.now(SCHEDULED))),
                // The future may have looked already.
                _ => (Wake::Nothing, Some(next.with(NOTIFIED))),
            }
        })
    }

    /// Lets the cancellation take effect at the end of the poll: the future has unwound (S6), and
    /// whatever shield is left protects nothing.
    pub(crate) fn end_unwinding(&self) {
        self.update(|snapshot| {
            debug_assert_eq!(snapshot.lifecycle(), RUNNING, "T2");
            ((), Some(snapshot.without(UNWINDS).with(CLOSING)))
        });
    }

    /// Takes back that the future unwinds: it is not polled.
    pub(crate) fn stop_unwinding_itself(&self) {
        // Relaxed: it orders nothing; the next transition publishes it.
        self.0.fetch_and(!UNWINDS, Relaxed);
    }

    /// Starts a poll of a task that was taken from a queue. The next poll is to be on
    /// `own_route`, unless a wake asks for another (S7).
    #[cfg(test)]
    pub(crate) fn start_poll(&self, own_route: Route) -> StartPoll {
        self.start_poll_of(own_route, false, || Route::DEFAULT)
    }

    /// Starts a poll of a task that was taken from a queue, and whose future `unwinds` (S6) or does
    /// not. It is polled on the default route or, if it has another one, on the route `here`. The
    /// next poll is to be on `own_route`, unless a wake asks for another (S7).
    #[inline(always)]
    pub(crate) fn start_poll_of(
        &self,
        own_route: Route,
        unwinds: bool,
        here: impl FnOnce() -> Route,
    ) -> StartPoll {
        let marks = own_route.bits() | if unwinds { UNWINDS } else { 0 };
        let seen = self.seen();
        if unwinds && seen.lifecycle() == RUNNING {
            return self.update(StateSnapshot::resume_yielded); // S8
        }
        let is_usual = !seen.has(CLOSING | CANCELLED | WATCHED | ROUTE.mask());
        if is_usual && self.exchange(seen, seen.started(marks)) {
            return StartPoll::Poll;
        }
        self.start_any_poll(marks, here())
    }

    #[inline(never)]
    fn start_any_poll(&self, marks: u64, here: Route) -> StartPoll {
        self.update(|snapshot| match snapshot.start(here) {
            StartPoll::Routed => (StartPoll::Routed, None),
            start => (start, Some(snapshot.started(marks))),
        })
    }

    /// Notes that the scheduler knows when the task was queued. The caller has its runnable.
    pub(crate) fn set_stamped(&self) {
        // Relaxed: it publishes nothing. The poll that clears it comes after the queue.
        self.0.fetch_or(STAMPED, Relaxed);
    }

    /// Whether the scheduler knows when the task was queued. The caller has its runnable.
    pub(crate) fn is_stamped(&self) -> bool {
        StateSnapshot(self.0.peek(Relaxed)).has(STAMPED)
    }

    /// Ends a poll that was pending, and whose leaves have left a note. If the task has
    /// yielded, it is queued again without a wake; if a scope holds it, an abort is
    /// deferred (S5).
    #[inline(never)]
    pub(crate) fn end_pending(&self, note: PollNote) -> EndPoll {
        self.update(|snapshot| snapshot.end_pending(note))
    }

    /// [`end_pending`](Self::end_pending) of a poll whose note holds no more than a kind.
    #[inline(always)]
    pub(crate) fn end_waiting(&self, note: PollNote) -> EndPoll {
        let seen = self.seen();
        let is_usual = !seen.has(CLOSING | CANCELLED | NOTIFIED | LISTENS);
        match is_usual && self.exchange(seen, seen.now_idle(note)) {
            true => EndPoll::Idle,
            false => self.end_pending(note),
        }
    }

    /// [`end_pending`](Self::end_pending) of a poll that has yielded, and that no scope holds.
    #[inline(always)]
    pub(crate) fn end_yielded(&self) -> EndPoll {
        let seen = self.seen();
        let is_usual = !seen.has(CLOSING | CANCELLED | LISTENS | ROUTE.mask());
        match is_usual && self.exchange(seen, seen.moved(RUNNING, SCHEDULED)) {
            true => EndPoll::Reschedule,
            false => self.end_pending(PollNote::YIELDED),
        }
    }

    /// Whether a poll that has yielded, and that no scope holds, need not be ended: the task may
    /// stay `RUNNING` (S8).
    #[inline(always)]
    pub(crate) fn may_stay_running(&self) -> bool {
        // Relaxed: only this thread, which polls the task, changes these.
        let snapshot = StateSnapshot(self.0.peek(Relaxed));
        snapshot.has(UNWINDS) && !snapshot.has(CLOSING | LISTENS | ROUTE.mask())
    }

    /// Completes the task, whose output is in place; returns the new state.
    #[inline]
    pub(crate) fn complete(&self) -> StateSnapshot {
        const { assert!(RUNNING + 1 == COMPLETE) };
        // AcqRel, as every transition: an addition, since nothing else ends `RUNNING`.
        let before = StateSnapshot(self.0.fetch_add(LIFECYCLE.one(), AcqRel));
        before.moved(RUNNING, COMPLETE)
    }

    /// Closes the task, since the runtime shuts down.
    pub(crate) fn close(&self) -> CloseOutcome {
        self.update(|snapshot| match snapshot.lifecycle() {
            IDLE | SCHEDULED => (
                CloseOutcome::Cancel,
                Some(snapshot.with(CLOSING).now(RUNNING)),
            ),
            RUNNING => (CloseOutcome::Running, Some(snapshot.with(CLOSING))),
            _ => (CloseOutcome::Complete, None),
        })
    }

    /// Like [`close`](Self::close), but leaves a task alone whose future unwinds (S6).
    pub(crate) fn close_other(&self) -> CloseOutcome {
        self.update(|snapshot| match snapshot.lifecycle() {
            COMPLETE => (CloseOutcome::Complete, None),
            _ if snapshot.has(UNWINDS) => (CloseOutcome::Unwinds, None),
            RUNNING => (CloseOutcome::Running, Some(snapshot.with(CLOSING))),
            _ => (
                CloseOutcome::Cancel,
                Some(snapshot.with(CLOSING).now(RUNNING)),
            ),
        })
    }

    /// Like [`close_other`](Self::close_other) while queues may still hold the task: takes it
    /// over only if it is in none.
    pub(crate) fn close_idle(&self) -> CloseOutcome {
        self.update(|snapshot| match snapshot.lifecycle() {
            _ if snapshot.has(UNWINDS) => (CloseOutcome::Unwinds, None),
            IDLE => (
                CloseOutcome::Cancel,
                Some(snapshot.with(CLOSING).now(RUNNING)),
            ),
            SCHEDULED | RUNNING => (CloseOutcome::Running, Some(snapshot.with(CLOSING))),
            _ => (CloseOutcome::Complete, None),
        })
    }

    /// Adds a level of shield.
    ///
    /// # Panics
    /// At the 256th level.
    #[track_caller]
    pub(crate) fn raise_shield(&self) {
        let deep = self.update(|snapshot| match snapshot.shield_depth() == SHIELD.max() {
            true => (true, None),
            false => (false, Some(StateSnapshot(snapshot.0 + SHIELD.one()))),
        });
        assert!(
            !deep,
            "shields are nested more than {} deep: leave some of them first",
            SHIELD.max()
        );
    }

    /// Removes a level of shield; without the last one a deferred cancellation takes
    /// effect.
    pub(crate) fn lower_shield(&self) -> Wake {
        self.update(|snapshot| {
            debug_assert_ne!(snapshot.shield_depth(), 0);
            let next = StateSnapshot(snapshot.0 - SHIELD.one());
            match next.lifecycle() {
                IDLE if next.is_cancel_due() => (next.enqueue(), Some(next.now(SCHEDULED))),
                // The future may have looked already (S6): another task may end the shield.
                RUNNING if next.has(UNWINDS) && next.is_cancel_due() => {
                    (Wake::Nothing, Some(next.with(NOTIFIED)))
                }
                _ => (Wake::Nothing, Some(next)),
            }
        })
    }

    /// Gives the slot, which the join handle has filled, to the completing side;
    /// returns false if the task is complete, and the slot still belongs to the
    /// handle.
    #[inline]
    pub(crate) fn publish_join_waker(&self) -> bool {
        self.update(|snapshot| {
            debug_assert!(!snapshot.has(JOIN_WAKER), "T5");
            match snapshot.is_complete() {
                true => (false, None),
                false => (true, Some(snapshot.with(JOIN_WAKER))),
            }
        })
    }

    /// Gives the slot back to the join handle; returns false if the task is complete,
    /// and the completing side may be reading the slot.
    pub(crate) fn retract_join_waker(&self) -> bool {
        self.update(|snapshot| match snapshot.is_complete() {
            true => (false, None),
            false => (true, Some(snapshot.without(JOIN_WAKER))),
        })
    }

    /// Gives the slot back after the completing side has read it; returns true if the
    /// join handle was dropped, and the completing side must clear the slot.
    #[inline]
    pub(crate) fn return_join_waker(&self) -> bool {
        // AcqRel, met by `drop_join_handle`: whichever of the two comes second
        // clears the slot, and sees what the first did with it.
        let before = StateSnapshot(self.0.fetch_and(!JOIN_WAKER, AcqRel));
        debug_assert!(before.is_complete() && before.has(JOIN_WAKER), "T5");
        !before.is_join_interested()
    }

    /// Notes that the join handle is dropped.
    #[inline]
    pub(crate) fn drop_join_handle(&self) -> JoinHandleDrop {
        self.update(|snapshot| {
            let gone = snapshot.without(JOIN_INTEREST).with(DETACHED);
            match snapshot.is_complete() {
                true => {
                    let leave = JoinHandleDrop {
                        drop_output: true,
                        // Otherwise the completing side is reading it (T5).
                        drop_waker: !snapshot.has(JOIN_WAKER),
                    };
                    (leave, Some(gone))
                }
                false => {
                    let leave = JoinHandleDrop {
                        drop_output: false,
                        drop_waker: true,
                    };
                    (leave, Some(gone.without(JOIN_WAKER)))
                }
            }
        })
    }

    /// Drops the join handle of a task that is still new, and its reference with it,
    /// in one step; returns false if the task is not new any more.
    #[inline]
    pub(crate) fn detach_new(&self) -> bool {
        let new = Self::new_word();
        let detached = (new & !JOIN_INTEREST | DETACHED) - REFERENCES.one();
        // Release, met by the next transition. Nothing is read.
        self.0
            .compare_exchange(new, detached, Release, Relaxed)
            .is_ok()
    }

    /// Adds a reference.
    #[inline]
    pub(crate) fn reference(&self) {
        // Relaxed: the caller has a reference, so the task cannot be freed meanwhile.
        let before = StateSnapshot(self.0.fetch_add(REFERENCES.one(), Relaxed));
        if before.references() >= MAX_REFERENCES {
            abort_on_too_many_references();
        }
    }

    /// Removes a reference.
    #[inline]
    pub(crate) fn unreference(&self) -> RefCount {
        // AcqRel, met by itself: the thread that frees the task sees what every other
        // holder did with it.
        let before = StateSnapshot(self.0.fetch_sub(REFERENCES.one(), AcqRel));
        debug_assert_ne!(before.references(), 0, "T3");
        match before.references() == 1 {
            true => RefCount::Zero,
            false => RefCount::Positive,
        }
    }

    /// Removes a reference that is likely to be the last: then nobody is left to change the word,
    /// and reading it is enough.
    #[inline]
    pub(crate) fn unreference_last(&self) -> RefCount {
        match self.load().references() == 1 {
            true => RefCount::Zero,
            false => self.unreference(),
        }
    }
}

/// Ends the process: a count that wraps would free a task that is in use. A
/// panic could be caught, and the program would go on counting.
#[cold]
fn abort_on_too_many_references() -> ! {
    use std::io::Write;
    // A process without a standard error still ends.
    let _ = writeln!(
        std::io::stderr(),
        "blitzen: a task has more than {MAX_REFERENCES} references (wakers, abort handles, \
         shields), which is the limit of their count; the program probably leaks its wakers. \
         The process is aborted."
    );
    std::process::abort();
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn running() -> TaskState {
        let state = TaskState::new(Route::DEFAULT);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        state
    }

    /// As a thread polls a task that it has from a dispatcher.
    fn start_routed_poll(state: &TaskState, own_route: Route) {
        assert_eq!(state.start_poll(own_route), StartPoll::Routed);
        let route = state.route();
        assert!(!route.is_default());
        let start = state.start_poll_of(own_route, false, || route);
        assert_eq!(start, StartPoll::Poll);
    }

    fn idle() -> TaskState {
        let state = running();
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
        state
    }

    #[test]
    fn an_idle_task_is_queued_by_the_first_wake_only() {
        let state = idle();
        assert_eq!(state.wake(), Wake::Enqueue);
        assert_eq!(state.wake(), Wake::Nothing);
    }

    #[test]
    fn a_coroutine_that_yields_is_woken_watched_and_aborted_as_if_it_ran() {
        let state = TaskState::new(Route::DEFAULT);
        assert!(!state.may_stay_running());
        let start = || state.start_poll_of(Route::DEFAULT, true, || Route::DEFAULT);
        assert_eq!(start(), StartPoll::Poll);
        assert!(state.may_stay_running());
        assert_eq!(state.wake(), Wake::Nothing);
        assert_eq!(start(), StartPoll::Poll, "S8");
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Reschedule);
        assert_eq!(start(), StartPoll::Poll);
        assert_eq!(state.watch(), Wake::Nothing);
        assert_eq!(start(), StartPoll::PollWatched, "S8");
        assert_eq!(state.cancel(), Wake::Nothing);
        assert_eq!(start(), StartPoll::Poll, "S8");
        assert!(state.load().is_cancel_due());
        state.end_unwinding();
        assert!(!state.may_stay_running());
        assert_eq!(state.end_yielded(), EndPoll::Cancel);
    }

    /// Starts a poll of a task whose future unwinds.
    fn start_unwinding(state: &TaskState) -> StartPoll {
        state.start_poll_of(Route::DEFAULT, true, || Route::DEFAULT)
    }

    /// A task whose future unwinds, in its first poll, aborted under a shield.
    fn shielded_unwinding() -> TaskState {
        let state = TaskState::new(Route::DEFAULT);
        assert_eq!(start_unwinding(&state), StartPoll::Poll);
        state.raise_shield();
        assert_eq!(state.cancel(), Wake::Nothing);
        assert!(!state.load().is_cancel_due());
        state
    }

    #[test]
    fn a_coroutine_whose_last_shield_ends_outside_its_poll_is_polled() {
        let state = shielded_unwinding();
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Reschedule);
        assert_eq!(start_unwinding(&state), StartPoll::Poll);
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.lower_shield(), Wake::Enqueue);
        assert_eq!(start_unwinding(&state), StartPoll::Poll);
        assert!(state.load().is_cancel_due());
    }

    #[test]
    fn a_coroutine_whose_last_shield_ends_while_it_runs_is_polled_again() {
        let state = shielded_unwinding();
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Reschedule);
        assert_eq!(start_unwinding(&state), StartPoll::Poll);
        assert_eq!(state.lower_shield(), Wake::Nothing);
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Reschedule);
        assert_eq!(start_unwinding(&state), StartPoll::Poll);
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Idle, "once");
    }

    #[test]
    fn a_runtime_that_closes_asks_coroutines_to_end_whatever_their_shields() {
        let state = shielded_unwinding();
        assert_eq!(state.close_unwinding(), Wake::Nothing);
        assert!(state.load().is_cancel_due());
        let state = shielded_unwinding();
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Reschedule);
        assert_eq!(start_unwinding(&state), StartPoll::Poll);
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.close_unwinding(), Wake::Enqueue);
        assert_eq!(state.close_unwinding(), Wake::Nothing, "once");
        assert_eq!(start_unwinding(&state), StartPoll::Poll);
        assert!(state.load().is_cancel_due());
        state.end_unwinding();
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Cancel);
        let plain = idle();
        assert_eq!(plain.close_unwinding(), Wake::Nothing);
        assert!(!plain.load().is_cancel_requested());
    }

    #[test]
    fn a_coroutine_that_has_unwound_is_cancelled_although_a_shield_is_left() {
        let state = shielded_unwinding();
        state.end_unwinding();
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Cancel);
    }

    #[test]
    fn a_wake_before_the_poll_does_not_ask_for_another() {
        let state = idle();
        assert_eq!(state.wake(), Wake::Enqueue);
        assert_eq!(state.wake(), Wake::Nothing);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
    }

    #[test]
    fn a_wake_during_the_poll_asks_for_another() {
        let state = running();
        assert_eq!(state.wake(), Wake::Nothing);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Reschedule);
    }

    #[test]
    fn a_stamp_is_for_one_poll() {
        let state = TaskState::new(Route::DEFAULT);
        assert!(!state.is_stamped());
        state.set_stamped();
        assert!(state.is_stamped());
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        assert!(!state.is_stamped());
        assert_eq!(state.end_pending(PollNote::YIELDED), EndPoll::Reschedule);
        assert!(!state.is_stamped());
    }

    #[test]
    fn a_task_is_watched_in_its_next_poll_and_in_no_other() {
        let state = idle();
        assert_eq!(state.watch(), Wake::Enqueue);
        assert_eq!(state.watch(), Wake::Nothing, "it is queued already");
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::PollWatched);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.wake(), Wake::Enqueue);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);

        assert_eq!(state.watch(), Wake::Nothing, "it runs, and will run again");
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Reschedule);
        assert_eq!(state.cancel(), Wake::Nothing);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Cancel);
        let _ = state.complete();
        assert_eq!(state.watch(), Wake::Nothing);
    }

    #[test]
    fn the_kind_of_a_wait_is_there_while_the_task_is_idle() {
        let state = running();
        blitzen_util::wait::pending(WaitKind::Mutex, 8);
        let note = blitzen_util::wait::take();
        assert_eq!(state.end_pending(note), EndPoll::Idle);
        assert_eq!(state.load().wait_kind(), WaitKind::Mutex);
        state.reference();
        assert_eq!(state.load().wait_kind(), WaitKind::Mutex);
        assert_eq!(state.wake(), Wake::Enqueue);
        assert_eq!(state.load().wait_kind(), WaitKind::Unknown, "S4");
    }

    #[test]
    fn a_wake_on_a_route_moves_a_task_for_one_poll_only() {
        let other = Route::new(7).unwrap();
        let state = idle();
        assert_eq!(state.wake_on(other, Route::DEFAULT), Wake::Dispatch);
        assert_eq!(state.route(), other);
        start_routed_poll(&state, Route::DEFAULT);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.wake(), Wake::Enqueue);
        assert_eq!(state.route(), Route::DEFAULT);
    }

    #[test]
    fn a_task_in_a_queue_keeps_its_route_and_one_that_runs_takes_the_new_one() {
        let (own, other) = (Route::new(1).unwrap(), Route::new(1023).unwrap());
        let state = TaskState::new(own);
        assert_eq!(state.wake_on(other, own), Wake::Nothing);
        assert_eq!(state.route(), own, "it is in that queue");
        start_routed_poll(&state, own);
        assert_eq!(state.wake_on(other, own), Wake::Nothing);
        assert_eq!(state.wake(), Wake::Nothing);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Dispatch);
        assert_eq!(state.route(), other);
        start_routed_poll(&state, own);
        assert_eq!(state.end_pending(PollNote::YIELDED), EndPoll::Dispatch);
        assert_eq!(state.route(), own);
    }

    #[test]
    fn a_poll_that_asks_for_a_route_gets_it_whoever_wakes_the_task() {
        let (asked, other) = (Route::new(1).unwrap(), Route::new(2).unwrap());
        for asks_first in [true, false] {
            let state = running();
            if asks_first {
                state.request_route(asked);
            }
            assert_eq!(state.wake_on(other, Route::DEFAULT), Wake::Nothing);
            if !asks_first {
                state.request_route(asked);
            }
            assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Dispatch);
            assert_eq!(state.route(), asked);
        }
    }

    #[test]
    fn a_cancelled_task_is_dropped_on_its_own_route() {
        let own = Route::new(3).unwrap();
        let state = TaskState::new(own);
        start_routed_poll(&state, own);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.cancel(), Wake::Dispatch);
        assert_eq!(state.route(), own);
        assert_eq!(state.start_poll(own), StartPoll::Cancel);
    }

    #[test]
    fn whatever_wakes_a_task_with_a_route_sends_it_there() {
        let own = Route::new(3).unwrap();
        let wakes: [fn(&TaskState) -> Wake; 4] = [
            TaskState::wake,
            TaskState::watch,
            TaskState::cancel,
            |state| {
                state.raise_shield();
                assert_eq!(state.cancel(), Wake::Nothing);
                state.lower_shield()
            },
        ];
        for wake in wakes {
            let state = TaskState::new(own);
            start_routed_poll(&state, own);
            assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
            assert_eq!(wake(&state), Wake::Dispatch);
            assert_eq!(state.route(), own);
        }
    }

    #[test]
    fn a_task_with_a_route_is_watched_there() {
        let state = TaskState::new(Route::new(3).unwrap());
        assert_eq!(state.watch(), Wake::Nothing);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Routed);
        let start = state.start_poll_of(Route::DEFAULT, false, || state.route());
        assert_eq!(start, StartPoll::PollWatched);
    }

    #[test]
    fn a_yield_goes_back_to_the_queue() {
        assert_eq!(
            running().end_pending(PollNote::YIELDED),
            EndPoll::Reschedule
        );
    }

    #[test]
    fn a_cancelled_task_is_queued_once_to_be_dropped() {
        let state = idle();
        assert_eq!(state.cancel(), Wake::Enqueue);
        assert_eq!(state.cancel(), Wake::Nothing);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Cancel);
    }

    #[test]
    fn a_shield_defers_cancellation_until_the_outermost_ends() {
        let state = running();
        state.raise_shield();
        state.raise_shield();
        assert_eq!(state.cancel(), Wake::Nothing);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.lower_shield(), Wake::Nothing);
        assert_eq!(state.lower_shield(), Wake::Enqueue);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Cancel);
    }

    #[test]
    fn a_shield_left_during_a_poll_lets_the_cancellation_through_at_its_end() {
        let state = running();
        state.raise_shield();
        assert_eq!(state.cancel(), Wake::Nothing);
        assert_eq!(state.lower_shield(), Wake::Nothing);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Cancel);
    }

    #[test]
    fn an_abort_gives_a_task_that_a_scope_holds_one_more_poll() {
        let state = running();
        assert_eq!(state.end_pending(PollNote::HELD), EndPoll::Idle);
        assert_eq!(state.cancel(), Wake::Enqueue);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        assert_eq!(
            state.end_pending(PollNote::HELD),
            EndPoll::Idle,
            "until it is empty"
        );
        assert_eq!(state.wake(), Wake::Enqueue);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Cancel);
    }

    #[test]
    fn an_abort_of_a_task_that_unwinds_is_seen_once_no_scope_holds_it() {
        let state = TaskState::new(Route::DEFAULT);
        let start = || state.start_poll_of(Route::DEFAULT, true, || Route::DEFAULT);
        assert_eq!(start(), StartPoll::Poll);
        assert_eq!(state.end_pending(PollNote::HELD), EndPoll::Idle);
        assert_eq!(state.cancel(), Wake::Enqueue);
        assert_eq!(start(), StartPoll::Poll);
        assert!(!state.load().is_cancel_due(), "the scope holds it");
        assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Reschedule);
        assert_eq!(start(), StartPoll::Poll);
        assert!(state.load().is_cancel_due(), "the future sees it");
        state.stop_unwinding_itself();
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Cancel);
    }

    #[test]
    fn an_abort_that_a_scope_has_not_seen_causes_another_poll() {
        let state = running();
        assert_eq!(state.cancel(), Wake::Nothing);
        let unheard = PollNote::HELD_UNHEARD;
        assert_eq!(state.end_pending(unheard), EndPoll::Reschedule);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        assert_eq!(state.end_pending(PollNote::HELD), EndPoll::Idle);
    }

    #[test]
    fn a_scope_hears_of_an_abort_under_a_shield() {
        let state = running();
        state.raise_shield();
        assert_eq!(state.end_pending(PollNote::HELD), EndPoll::Idle);
        assert_eq!(state.cancel(), Wake::Enqueue);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.lower_shield(), Wake::Enqueue);
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Cancel);
    }

    #[test]
    fn closing_waits_for_no_scope() {
        let state = running();
        assert_eq!(state.close(), CloseOutcome::Running);
        assert_eq!(state.end_pending(PollNote::HELD), EndPoll::Cancel);
    }

    #[test]
    fn closing_waits_for_no_shield() {
        let state = running();
        state.raise_shield();
        assert_eq!(state.close(), CloseOutcome::Running);
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Cancel);
        let state = running();
        state.raise_shield();
        assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
        assert_eq!(state.close(), CloseOutcome::Cancel);
    }

    #[test]
    #[should_panic(expected = "shields are nested more than 255 deep")]
    fn too_many_shields_panic_and_do_not_wrap() {
        let state = running();
        for _ in 0..256 {
            state.raise_shield();
        }
    }

    #[test]
    fn only_the_last_reference_leaves_zero() {
        let state = TaskState::new(Route::DEFAULT);
        state.reference();
        assert_eq!(state.unreference(), RefCount::Positive);
        assert_eq!(state.unreference(), RefCount::Positive);
        assert_eq!(state.unreference(), RefCount::Zero);
    }

    #[test]
    fn a_new_task_is_detached_in_one_step() {
        let state = TaskState::new(Route::DEFAULT);
        assert!(state.detach_new());
        assert!(!state.load().is_join_interested());
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        assert!(!state.complete().is_join_interested());
        assert_eq!(state.unreference(), RefCount::Zero);
        assert!(!running().detach_new(), "something has happened to it");
    }

    #[test]
    fn a_complete_task_answers_nothing() {
        let state = running();
        let snapshot = state.complete();
        assert!(snapshot.is_join_interested() && !snapshot.has_join_waker());
        assert_eq!(state.wake(), Wake::Nothing);
        assert_eq!(state.cancel(), Wake::Nothing);
        assert_eq!(state.close(), CloseOutcome::Complete);
        assert!(!state.publish_join_waker());
        assert_eq!(
            state.drop_join_handle(),
            JoinHandleDrop {
                drop_output: true,
                drop_waker: true
            }
        );
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::cell::UnsafeCell;
    use blitzen_util::shim::{Arc, thread};

    fn running() -> Arc<TaskState> {
        let state = Arc::new(TaskState::new(Route::DEFAULT));
        assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
        state
    }

    #[test]
    fn a_wake_during_a_poll_is_never_lost() {
        loom::model(|| {
            let state = running();
            let waker = thread::spawn({
                let state = state.clone();
                move || state.wake()
            });
            let ended = state.end_pending(PollNote::EMPTY);
            let woken = waker.join().unwrap();
            assert!(
                (ended == EndPoll::Reschedule) ^ (woken == Wake::Enqueue),
                "queued exactly once: {ended:?} {woken:?}"
            );
        });
    }

    #[test]
    fn a_watch_during_a_poll_is_seen_by_the_next_one() {
        loom::model(|| {
            let state = running();
            let watcher = thread::spawn({
                let state = state.clone();
                move || state.watch()
            });
            let ended = state.end_pending(PollNote::EMPTY);
            let watched = watcher.join().unwrap();
            assert!(
                (ended == EndPoll::Reschedule) ^ (watched == Wake::Enqueue),
                "queued exactly once: {ended:?} {watched:?}"
            );
            assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::PollWatched);
        });
    }

    #[test]
    fn a_change_of_route_against_a_wake_queues_a_task_once() {
        let other = Route::new(5).unwrap();
        loom::model(move || {
            let state = running();
            assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
            let waker = thread::spawn({
                let state = state.clone();
                move || {
                    (state.wake_on(other, Route::DEFAULT) == Wake::Dispatch).then(|| state.route())
                }
            });
            let here = (state.wake() == Wake::Enqueue).then(|| state.route());
            let there = waker.join().unwrap();
            assert!(here.is_some() ^ there.is_some());
            // Whoever queues it does so where its own wake said.
            assert_eq!(here.unwrap_or(Route::DEFAULT), Route::DEFAULT);
            assert_eq!(there.unwrap_or(other), other);
        });
    }

    #[test]
    fn a_change_of_route_against_the_end_of_a_poll_queues_a_task_once_and_there() {
        let other = Route::new(5).unwrap();
        loom::model(move || {
            let state = running();
            let waker = thread::spawn({
                let state = state.clone();
                move || {
                    (state.wake_on(other, Route::DEFAULT) == Wake::Dispatch).then(|| state.route())
                }
            });
            let ended = state.end_pending(PollNote::EMPTY);
            let here = (ended == EndPoll::Dispatch).then(|| state.route());
            let there = waker.join().unwrap();
            assert!(here.is_some() ^ there.is_some());
            assert_eq!(here.or(there), Some(other));
        });
    }

    #[test]
    fn two_wakes_queue_an_idle_task_once() {
        loom::model(|| {
            let state = running();
            assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
            let waker = thread::spawn({
                let state = state.clone();
                move || state.wake()
            });
            let here = state.wake();
            let there = waker.join().unwrap();
            assert!((here == Wake::Enqueue) ^ (there == Wake::Enqueue));
        });
    }

    #[test]
    fn what_a_wake_published_is_seen_by_the_poll_it_asked_for() {
        use blitzen_util::shim::atomic::AtomicUsize;
        loom::model(|| {
            let shared = Arc::new((TaskState::new(Route::DEFAULT), AtomicUsize::new(0)));
            let waker = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.store(1, Relaxed);
                    // Scheduled or running: either way somebody polls later.
                    shared.0.wake()
                }
            });
            let mut seen = false;
            loop {
                assert_eq!(shared.0.start_poll(Route::DEFAULT), StartPoll::Poll);
                seen |= shared.1.load(Relaxed) == 1;
                if shared.0.end_pending(PollNote::EMPTY) == EndPoll::Idle {
                    break;
                }
            }
            let woken = waker.join().unwrap();
            assert!(seen || woken == Wake::Enqueue);
        });
    }

    #[test]
    fn an_abort_against_the_end_of_a_poll_drops_the_future_once() {
        loom::model(|| {
            let state = running();
            let aborter = thread::spawn({
                let state = state.clone();
                move || state.cancel()
            });
            let mut drops = (state.end_pending(PollNote::EMPTY) == EndPoll::Cancel) as u32;
            if aborter.join().unwrap() == Wake::Enqueue {
                drops += (state.start_poll(Route::DEFAULT) == StartPoll::Cancel) as u32;
            }
            assert_eq!(drops, 1);
        });
    }

    /// A coroutine in its first poll.
    fn started() -> Arc<TaskState> {
        let state = Arc::new(TaskState::new(Route::DEFAULT));
        let start = state.start_poll_of(Route::DEFAULT, true, || Route::DEFAULT);
        assert_eq!(start, StartPoll::Poll);
        state
    }

    #[test]
    fn a_runtime_that_closes_cancels_a_coroutine_before_its_first_poll_or_leaves_it_alone() {
        loom::model(|| {
            let state = Arc::new(TaskState::new(Route::DEFAULT));
            let closer = thread::spawn({
                let state = state.clone();
                move || state.close_idle()
            });
            let start = state.start_poll_of(Route::DEFAULT, true, || Route::DEFAULT);
            let is_left_alone = closer.join().unwrap() == CloseOutcome::Unwinds;
            assert!(is_left_alone ^ (start == StartPoll::Cancel), "{start:?}");
            if is_left_alone {
                assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
            }
        });
    }

    #[test]
    fn a_wake_of_a_coroutine_that_has_yielded_is_never_lost() {
        loom::model(|| {
            let state = started();
            let waker = thread::spawn({
                let state = state.clone();
                move || state.wake()
            });
            let resumed = state.start_poll_of(Route::DEFAULT, true, || Route::DEFAULT); // it has yielded: S8
            assert_eq!(resumed, StartPoll::Poll);
            let ended = state.end_pending(PollNote::EMPTY);
            let woken = waker.join().unwrap();
            assert!(
                (ended == EndPoll::Reschedule) ^ (woken == Wake::Enqueue),
                "queued exactly once: {ended:?} {woken:?}"
            );
        });
    }

    /// Both the waker and an abort may queue the coroutine. Whoever does polls it to its end.
    #[test]
    fn whoever_frees_a_coroutine_comes_after_a_waker_that_is_spent() {
        loom::model(|| {
            let task = Arc::new((TaskState::new(Route::DEFAULT), UnsafeCell::new(())));
            let start = task
                .0
                .start_poll_of(Route::DEFAULT, true, || Route::DEFAULT);
            assert_eq!(start, StartPoll::Poll);
            task.0.reference(); // the waker's
            assert_eq!(task.0.end_pending(PollNote::EMPTY), EndPoll::Idle);
            fn release(task: &(TaskState, UnsafeCell<()>)) -> u32 {
                let is_last = task.0.unreference() == RefCount::Zero;
                if is_last {
                    task.1.with_mut(|_| ()); // frees it
                }
                is_last.into()
            }
            fn poll_to_end(task: &(TaskState, UnsafeCell<()>)) -> u32 {
                let start = task
                    .0
                    .start_poll_of(Route::DEFAULT, true, || Route::DEFAULT);
                assert_eq!(start, StartPoll::Poll, "S6");
                let _ = task.0.complete();
                release(task)
            }
            let waker = thread::spawn({
                let task = task.clone();
                move || {
                    task.1.with(|_| ()); // the waker looks at the task
                    match task.0.wake_idle_and_unreference() {
                        Wake::Nothing => release(&task),
                        _ => poll_to_end(&task),
                    }
                }
            });
            let mut frees = match task.0.cancel() {
                Wake::Nothing => 0,
                _ => poll_to_end(&task),
            };
            let _ = task.0.drop_join_handle();
            frees += release(&task);
            assert_eq!(frees + waker.join().unwrap(), 1);
        });
    }

    /// A coroutine looks for an abort before it suspends. One that comes later has it polled
    /// again: never dropped, and never left suspended.
    #[test]
    fn an_abort_of_a_coroutine_against_its_suspension_is_seen_by_it() {
        loom::model(|| {
            let state = started();
            let aborter = thread::spawn({
                let state = state.clone();
                move || state.cancel()
            });
            if !state.load().is_cancel_due() {
                let ended = state.end_pending(PollNote::EMPTY);
                let woken = aborter.join().unwrap();
                assert!(
                    (ended == EndPoll::Reschedule) ^ (woken == Wake::Enqueue),
                    "queued exactly once: {ended:?} {woken:?}"
                );
                assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll, "S6");
                assert!(state.load().is_cancel_due());
            }
        });
    }

    #[test]
    fn a_wake_against_an_abort_of_a_suspended_coroutine_queues_it_once() {
        loom::model(|| {
            let state = started();
            assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
            let waker = thread::spawn({
                let state = state.clone();
                move || state.wake()
            });
            let aborted = state.cancel();
            let status = state.load().status();
            assert_eq!(status, TaskStatus::Scheduled, "an abort needs no wake");
            let woken = waker.join().unwrap();
            assert!((aborted == Wake::Enqueue) ^ (woken == Wake::Enqueue));
            assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll, "S6");
            assert!(state.load().is_cancel_due());
        });
    }

    /// A scope's member ends and wakes the task, while the task is aborted. The scope always
    /// hears of the abort, or was empty before it came.
    #[test]
    fn an_abort_of_a_held_task_against_the_end_of_its_scope_lands_once() {
        use blitzen_util::shim::atomic::AtomicBool;
        loom::model(|| {
            let shared = Arc::new((TaskState::new(Route::DEFAULT), AtomicBool::new(false)));
            assert_eq!(shared.0.start_poll(Route::DEFAULT), StartPoll::Poll);
            let hold = PollNote::HELD_UNHEARD;
            assert_eq!(shared.0.end_pending(hold), EndPoll::Idle);
            let aborter = thread::spawn({
                let shared = shared.clone();
                move || shared.0.cancel()
            });
            let member = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.store(true, Relaxed);
                    shared.0.wake()
                }
            });
            // The worker: runs the task when it is queued, as its scope would.
            let mut queued = 0;
            let mut drops = 0;
            let mut run = || match shared.0.start_poll(Route::DEFAULT) {
                StartPoll::Cancel => {
                    let is_empty = shared.1.load(Relaxed);
                    assert!(is_empty, "the abort waits for the scope");
                    drops += 1;
                }
                StartPoll::PollWatched | StartPoll::Routed => unreachable!("nobody asks for it"),
                StartPoll::Poll => loop {
                    let is_aborted = shared.0.load().is_cancelled();
                    let is_empty = shared.1.load(Relaxed);
                    let requests = match (is_empty, is_aborted) {
                        (true, _) => PollNote::EMPTY,
                        (false, true) => PollNote::HELD,
                        (false, false) => hold,
                    };
                    match shared.0.end_pending(requests) {
                        EndPoll::Cancel => {
                            assert!(is_empty, "the abort waits for the scope");
                            drops += 1;
                            break;
                        }
                        EndPoll::Idle => break,
                        EndPoll::Reschedule => {
                            assert_eq!(shared.0.start_poll(Route::DEFAULT), StartPoll::Poll)
                        }
                        EndPoll::Dispatch => unreachable!("it has the default route"),
                    }
                },
            };
            let first = aborter.join().unwrap();
            if first == Wake::Enqueue {
                queued += 1;
                run();
            }
            if member.join().unwrap() == Wake::Enqueue {
                queued += 1;
                run();
            }
            assert!(queued > 0);
            assert_eq!(drops, 1);
        });
    }

    #[test]
    fn an_abort_is_heard_by_a_scope_that_begins_to_hold_meanwhile() {
        loom::model(|| {
            let state = running();
            let aborter = thread::spawn({
                let state = state.clone();
                move || state.cancel()
            });
            let mut heard = false;
            let mut poll = || {
                let seen = state.load().is_cancelled();
                heard |= seen;
                match seen {
                    true => state.end_pending(PollNote::HELD),
                    false => state.end_pending(PollNote::HELD_UNHEARD),
                }
            };
            if poll() == EndPoll::Reschedule {
                assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
                assert_eq!(poll(), EndPoll::Idle);
            }
            if aborter.join().unwrap() == Wake::Enqueue {
                assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
                assert_eq!(poll(), EndPoll::Idle);
            }
            assert!(heard);
        });
    }

    #[test]
    fn an_abort_against_the_last_shield_takes_effect_once() {
        loom::model(|| {
            let state = running();
            state.raise_shield();
            assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
            let aborter = thread::spawn({
                let state = state.clone();
                move || state.cancel()
            });
            let left = state.lower_shield();
            let aborted = aborter.join().unwrap();
            assert!((left == Wake::Enqueue) ^ (aborted == Wake::Enqueue));
            assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Cancel);
        });
    }

    #[test]
    fn the_end_of_the_last_shield_of_an_aborted_coroutine_is_followed_by_a_poll() {
        loom::model(|| {
            let state = Arc::new(TaskState::new(Route::DEFAULT));
            let start = |state: &TaskState| {
                let start = state.start_poll_of(Route::DEFAULT, true, || Route::DEFAULT);
                assert_eq!(start, StartPoll::Poll);
            };
            start(&state);
            state.raise_shield();
            assert_eq!(state.cancel(), Wake::Nothing);
            assert_eq!(state.end_waiting(PollNote::EMPTY), EndPoll::Reschedule);
            start(&state);
            let other = thread::spawn({
                let state = state.clone();
                move || state.lower_shield()
            });
            let has_seen = state.load().is_cancel_due(); // as the future looks
            let ended = state.end_waiting(PollNote::EMPTY);
            let woken = other.join().unwrap();
            let polls = (ended == EndPoll::Reschedule) as u32 + (woken == Wake::Enqueue) as u32;
            assert!(polls <= 1, "queued once");
            assert!(has_seen || polls == 1, "it sees that it is to end");
        });
    }

    #[test]
    fn closing_against_a_wake_leaves_one_owner_of_the_future() {
        loom::model(|| {
            let state = running();
            assert_eq!(state.end_pending(PollNote::EMPTY), EndPoll::Idle);
            let waker = thread::spawn({
                let state = state.clone();
                move || state.wake()
            });
            // Queues are closed before tasks are, so a wake that enqueues finds
            // the queue shut and leaves the task to whoever closes it.
            assert_eq!(state.close(), CloseOutcome::Cancel);
            let _ = waker.join().unwrap();
            assert!(!state.load().is_complete());
        });
    }

    #[test]
    fn closing_against_the_end_of_a_poll_drops_the_future_once() {
        loom::model(|| {
            let state = running();
            let closer = thread::spawn({
                let state = state.clone();
                move || state.close()
            });
            let mut drops = (state.end_pending(PollNote::EMPTY) == EndPoll::Cancel) as u32;
            drops += (closer.join().unwrap() == CloseOutcome::Cancel) as u32;
            assert_eq!(drops, 1);
        });
    }

    #[test]
    fn completion_against_a_dropped_handle_leaves_one_owner_of_output_and_waker() {
        loom::model(|| {
            let state = running();
            assert!(state.publish_join_waker());
            let handle = thread::spawn({
                let state = state.clone();
                move || state.drop_join_handle()
            });
            let snapshot = state.complete();
            let output_here = !snapshot.is_join_interested();
            let waker_here = snapshot.has_join_waker() && state.return_join_waker();
            let leave = handle.join().unwrap();
            assert!(output_here ^ leave.drop_output);
            assert!(waker_here ^ leave.drop_waker);
        });
    }

    #[test]
    fn whoever_drops_the_join_waker_comes_after_the_other_reader() {
        loom::model(|| {
            let task = Arc::new((TaskState::new(Route::DEFAULT), UnsafeCell::new(())));
            assert_eq!(task.0.start_poll(Route::DEFAULT), StartPoll::Poll);
            assert!(task.0.publish_join_waker());
            let handle = thread::spawn({
                let task = task.clone();
                move || {
                    task.1.with(|_| ()); // compares it with another
                    if task.0.drop_join_handle().drop_waker {
                        task.1.with_mut(|_| ());
                    }
                }
            });
            if task.0.complete().has_join_waker() {
                task.1.with(|_| ()); // wakes it
                if task.0.return_join_waker() {
                    task.1.with_mut(|_| ());
                }
            }
            handle.join().unwrap();
        });
    }

    #[test]
    fn completion_against_a_new_join_waker_is_seen_by_one_of_them() {
        loom::model(|| {
            let state = running();
            let handle = thread::spawn({
                let state = state.clone();
                move || state.publish_join_waker()
            });
            let woken = state.complete().has_join_waker();
            let published = handle.join().unwrap();
            assert_eq!(woken, published, "woken, or told that it is complete");
        });
    }

    #[test]
    fn detaching_a_new_task_against_its_first_poll_drops_the_output_once() {
        loom::model(|| {
            let state = Arc::new(TaskState::new(Route::DEFAULT));
            let worker = thread::spawn({
                let state = state.clone();
                move || {
                    assert_eq!(state.start_poll(Route::DEFAULT), StartPoll::Poll);
                    let output_here = !state.complete().is_join_interested();
                    (output_here, state.unreference() == RefCount::Zero)
                }
            });
            let (output_there, last_there) = match state.detach_new() {
                true => (false, false),
                false => {
                    let leave = state.drop_join_handle();
                    (leave.drop_output, state.unreference() == RefCount::Zero)
                }
            };
            let (output_here, last_here) = worker.join().unwrap();
            assert!(output_here ^ output_there);
            assert!(last_here ^ last_there);
        });
    }

    #[test]
    fn whoever_frees_the_task_comes_after_every_other_use_of_it() {
        loom::model(|| {
            let task = Arc::new((TaskState::new(Route::DEFAULT), UnsafeCell::new(())));
            let use_and_release = |task: &(TaskState, UnsafeCell<()>)| {
                task.1.with(|_| ()); // as long as the reference is held
                if task.0.unreference() == RefCount::Zero {
                    task.1.with_mut(|_| ()); // frees it
                }
            };
            let other = thread::spawn({
                let task = task.clone();
                move || use_and_release(&task)
            });
            use_and_release(&task);
            other.join().unwrap();
        });
    }

    #[test]
    fn whoever_frees_the_task_without_a_transition_comes_after_every_other_use_of_it() {
        loom::model(|| {
            let task = Arc::new((TaskState::new(Route::DEFAULT), UnsafeCell::new(())));
            let other = thread::spawn({
                let task = task.clone();
                move || {
                    task.1.with(|_| ()); // as long as the reference is held
                    if task.0.unreference() == RefCount::Zero {
                        task.1.with_mut(|_| ()); // frees it
                    }
                }
            });
            task.1.with(|_| ());
            if task.0.unreference_last() == RefCount::Zero {
                task.1.with_mut(|_| ());
            }
            other.join().unwrap();
        });
    }

    #[test]
    fn whoever_frees_a_task_that_was_detached_comes_after_its_handle() {
        loom::model(|| {
            let task = Arc::new((TaskState::new(Route::DEFAULT), UnsafeCell::new(())));
            let worker = thread::spawn({
                let task = task.clone();
                move || {
                    assert_eq!(task.0.start_poll(Route::DEFAULT), StartPoll::Poll);
                    let _ = task.0.complete();
                    if task.0.unreference() == RefCount::Zero {
                        task.1.with_mut(|_| ()); // frees it
                    }
                }
            });
            task.1.with(|_| ()); // the handle looks at the task
            let detached = task.0.detach_new();
            if !detached {
                let _ = task.0.drop_join_handle();
                if task.0.unreference() == RefCount::Zero {
                    task.1.with_mut(|_| ());
                }
            }
            worker.join().unwrap();
        });
    }

    #[test]
    fn exactly_one_of_three_references_is_the_last() {
        loom::model(|| {
            let state = Arc::new(TaskState::new(Route::DEFAULT));
            let other = thread::spawn({
                let state = state.clone();
                move || {
                    state.reference();
                    let first = state.unreference() == RefCount::Zero;
                    first as u32 + (state.unreference() == RefCount::Zero) as u32
                }
            });
            let here = (state.unreference() == RefCount::Zero) as u32;
            assert_eq!(here + other.join().unwrap(), 1);
        });
    }
}
