//! One worker's io_uring: operations are submitted in batches, and their completions are taken in
//! batches.
//!
//! ```text
//!   submit ──► pending ──► submission queue ═══ enter ═══► kernel
//!   future ◄── slab    ◄── completion queue ◄═════════════════╯
//! ```
//!
//! Any thread may submit, drop or poll an operation. The owner turns the ring: it moves pending
//! entries into the submission queue, enters the kernel, and takes completions in. While it sleeps
//! in the ring, the ring also watches its poller, whose waker wakes it. If the owner is stuck
//! elsewhere, another thread, the *rescuer*, can do the same for it, except sleep.
//!
//! R1. The lock guards the slab, the sockets, the pending entries and both
//!     queues.
//! R2. The owner enters the kernel without the lock, with `entered` set; while it is set, nobody
//!     else accesses the queues. A rescuer enters with the lock held, and never waits in the
//!     kernel.
//! R3. The owner is marked as parked in the ring before it checks the pending entries for the last
//!     time, under the lock. A thread that adds an entry later sees it parked.
//! R4. Wakers are woken and dropped, and payloads dropped, after the lock is released.
//! R5. For the kernel an operation belongs to the thread that submitted it. If that thread ends,
//!     the kernel cancels the operation, and has done nothing of it: if it is
//!     [`REPEATABLE`](Operation::REPEATABLE), it is submitted again.

mod completion;
pub mod file;
mod memory;
mod op;
pub(crate) mod reaper;
mod setup;
mod slab;
pub mod socket;
mod user_data;

#[cfg(not(blitzen_loom))]
mod queues;
#[cfg(blitzen_loom)]
#[path = "queues_model.rs"]
mod queues; // over a simulated kernel

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::{Mutex, MutexGuard, hint};
use blitzen_util::wait::{self, WaitKind};
use io_uring::squeue::Entry;
use io_uring::{opcode, types};

pub use memory::{Memory, Pieces};
pub use op::{Op, Operation};
pub use setup::{Flavour, Refusal, RingConfig};
pub use socket::BufferConfig;

use crate::park::{ParkState, ParkedIn};
use crate::poller::BUSY_EVENTS;
use crate::wake_list::contain_panic;
use crate::{Poller, shutdown_error};
use completion::Completion;
use op::Abandoned;
use queues::{REAPED_AT_ONCE, RingQueues};
use setup::Features;
use slab::{AbandonedPayload, Ended, OnDrop, OpToken, Slab};
use socket::{Deferred, SocketTable, cancel_entry};
use user_data::UserData;

/// The completions after which a turn takes in no more. The next turn finds the rest,
/// and does not sleep.
const COMPLETIONS_PER_TURN: usize = 512;
/// The wakes after which a turn takes in no more completions. With those of the batch
/// that reaches it, they are no more than the events of a poller's busy turn.
const WAKES_PER_TURN: usize = BUSY_EVENTS - REAPED_AT_ONCE;

/// How long a rescuer waits for the completions that it has made the kernel post: some 20 µs.
const RESCUE_SPINS: u32 = 2000;

/// An io_uring and the operations in it.
///
/// ```
/// use std::sync::Arc;
/// use blitzen_driver::Poller;
/// use blitzen_driver::ring::file::Read;
/// use blitzen_driver::ring::{Memory, Ring, RingConfig};
///
/// let poller = Arc::new(Poller::new(1024)?);
/// let ring = match Ring::new(&RingConfig::default(), poller) {
///     Ok(ring) => Arc::new(ring),
///     Err(refusal) => return Ok(println!("no io_uring: {refusal}")),
/// };
/// let file = std::fs::File::open("/etc/passwd")?;
///
/// let read = ring.submit(Read::new(file, Memory::room(Vec::with_capacity(4096)), 0));
/// // The owner turns the ring until the operation has ended …
/// while ring.in_flight() > 0 {
///     ring.turn(None)?;
/// }
/// // … and somebody takes the result.
/// let (read, text) = futures::executor::block_on(read);
/// assert_eq!(read?, text.len());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Ring {
    queues: RingQueues,
    state: Mutex<RingState>,
    /// The park state of the poller: an owner is parked in one place at a time.
    park: Arc<ParkState>,
    poller: Arc<Poller>,
    features: Features,
    flavour: Flavour,
    /// A copy of `state.slab.live()`, to be read without the lock.
    in_flight: AtomicUsize,
    /// A copy of what `state.sockets` counts, to be read without the lock.
    sockets: socket::SocketCounts,
    /// The thread that turns the ring.
    owner: socket::OwnerThread,
    buffers: BufferConfig,
}

/// What the lock guards, apart from the queues.
struct RingState {
    slab: Slab,
    sockets: SocketTable,
    pending: VecDeque<Entry>,
    /// Whether there are requests in the submission queue that the kernel completes at once: their
    /// completions are taken in before the owner sleeps.
    has_immediate: bool,
    /// Whether the owner is in the kernel without the lock (R2).
    entered: bool,
    /// Whether the kernel watches the poller for events.
    watching: bool,
    shut: bool,
}

impl RingState {
    /// Whether something waits to be submitted.
    fn has_requests(&self) -> bool {
        !self.pending.is_empty() || self.sockets.queued() > 0
    }

    /// Takes in a completion.
    fn complete(&mut self, cqe: &queues::Cqe, reaped: &mut Reaped) {
        let completion = Completion {
            result: cqe.result(),
            flags: cqe.flags(),
        };
        match UserData::from_bits(cqe.user_data()) {
            UserData::Cancel => {}
            UserData::Poller => {
                self.watching = completion.has_more();
                reaped.poller_has_events = true;
            }
            UserData::Op(token) => {
                let has_more = completion.has_more();
                reaped.add(self.slab.complete(token, completion.result, has_more));
            }
            UserData::Socket(key, kind) => {
                let deferred = &mut reaped.deferred;
                let is_news = self.sockets.complete(key, kind, &completion, deferred);
                reaped.taken += usize::from(is_news);
            }
        }
    }
}

/// What completions leave to do after the lock is released (R4).
#[derive(Default)]
struct Reaped {
    deferred: Deferred,
    abandoned: Vec<(Box<dyn AbandonedPayload>, i32)>,
    taken: usize,
    poller_has_events: bool,
}

impl Reaped {
    fn add(&mut self, ended: Ended) {
        self.taken += 1;
        match ended {
            Ended::Wake(waker) => self.deferred.wakes.push(waker),
            Ended::Finish(payload, result) => self.abandoned.push((payload, result)),
            Ended::Nothing => {}
        }
    }

    /// Whether there is nothing to do.
    fn is_empty(&self) -> bool {
        let Self {
            deferred,
            abandoned,
            taken,
            poller_has_events,
        } = self;
        deferred.is_empty() && abandoned.is_empty() && *taken == 0 && !poller_has_events
    }

    /// Does it, and returns the number of completions. A waker or destructor that panics ends
    /// neither the caller nor the rest of the work.
    fn finish(self) -> usize {
        for (payload, result) in self.abandoned {
            contain_panic(|| payload.finish(to_result(result)));
        }
        self.deferred.finish();
        self.taken
    }
}

impl Ring {
    /// Creates a ring that watches `poller` while its owner sleeps in the ring.
    ///
    /// A [`Flavour::Pinned`] ring belongs to the first thread that turns it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use blitzen_driver::Poller;
    /// use blitzen_driver::ring::{Ring, RingConfig};
    ///
    /// let poller = Arc::new(Poller::new(16)?);
    /// match Ring::new(&RingConfig::default(), poller) {
    ///     Ok(ring) => assert_eq!(ring.in_flight(), 0),
    ///     Err(refusal) => println!("no io_uring: {refusal}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns why the system has no ring for us. Everything that a ring does can be done without
    /// one.
    pub fn new(config: &RingConfig, poller: Arc<Poller>) -> Result<Self, Refusal> {
        let (queues, features) = RingQueues::open(config)?;
        Ok(Self {
            queues,
            state: Mutex::new(RingState {
                slab: Slab::default(),
                sockets: SocketTable::default(),
                pending: VecDeque::new(),
                has_immediate: false,
                entered: false,
                watching: false,
                shut: false,
            }),
            park: poller.park_state().clone(),
            poller,
            features,
            flavour: config.flavour,
            in_flight: AtomicUsize::new(0),
            sockets: socket::SocketCounts::default(),
            owner: socket::OwnerThread::default(),
            buffers: config.buffers,
        })
    }

    /// Whether the kernel knows an operation, by its
    /// [`CODE`](io_uring::opcode::Read::CODE).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// assert!(ring.supports(io_uring::opcode::Read::CODE));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn supports(&self, code: u8) -> bool {
        self.features.supports(code)
    }

    /// Queues an operation. It is submitted with the owner's next turn; an owner that sleeps in the
    /// ring is woken for it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// let stat = ring.submit(Stat::path(c"/".into(), 0));
    /// while ring.in_flight() > 0 {
    ///     ring.turn(None)?;
    /// }
    /// assert!(futures::executor::block_on(stat).is_ok());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn submit<T: Operation>(self: &Arc<Self>, mut operation: T) -> Op<T> {
        let token = self.queue_request(operation.entry());
        Op::new(self.clone(), token, operation)
    }

    /// Queues a request for the owner's next turn.
    fn queue_request(&self, entry: Entry) -> OpToken {
        let mut state = self.state.lock();
        let token = match state.shut {
            false => {
                let token = state.slab.insert();
                state.pending.push_back(entry.user_data(token.bits()));
                token
            }
            true => state.slab.insert_ended(-libc::ECANCELED),
        };
        self.update_counts(&state);
        drop(state);
        self.interrupt_parked();
        token
    }

    /// Returns the number of operations that have not ended. Takes no lock.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// let stat = ring.submit(Stat::path(c"/".into(), 0));
    /// assert_eq!(ring.in_flight(), 1);
    /// # drop(stat);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// Submits what is pending, waits for a completion or an event of the
    /// poller, at most for `timeout`, and wakes the tasks that wait for them. Returns
    /// how many there were.
    ///
    /// For the owner, one thread at a time. Makes no system call if it must
    /// not wait and has nothing to submit or to fetch. Returns at once if there
    /// was an [`interrupt`](Self::interrupt) since the last turn that could
    /// wait, and may return early for no reason.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// assert_eq!(ring.turn(Some(Duration::ZERO))?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the ring itself fails; a signal is no error.
    pub fn turn(&self, timeout: Option<Duration>) -> io::Result<usize> {
        if timeout == Some(Duration::ZERO) || !self.park.begin(ParkedIn::Ring) {
            self.owner.set_current();
            let (state, entered) = self.submit_pending(self.state.lock());
            return self.finish_turn(state, Reaped::default(), entered);
        }
        self.turn_parked(timeout).1
    }

    /// A turn of an owner that has parked here. Ends the park; true if there was a
    /// token.
    pub(crate) fn turn_parked(&self, timeout: Option<Duration>) -> (bool, io::Result<usize>) {
        let parked = self.park.end_on_drop();
        self.owner.set_current();
        let mut reaped = Reaped::default();
        let (state, entered) = self.sleep(self.state.lock(), timeout, &mut reaped);
        let was_notified = parked.end();
        (was_notified, self.finish_turn(state, reaped, entered))
    }

    /// Takes completions in, and does what they leave to do.
    fn finish_turn(
        &self,
        mut state: MutexGuard<'_, RingState>,
        mut reaped: Reaped,
        entered: io::Result<EnterOutcome>,
    ) -> io::Result<usize> {
        self.reap_into(&mut state, &mut reaped);
        drop(state);
        let poller_has_events = reaped.poller_has_events;
        let taken = reaped.finish();
        entered?;
        match poller_has_events {
            true => Ok(taken + self.poller.turn(Some(Duration::ZERO))?),
            false => Ok(taken),
        }
    }

    /// Submits what is pending and waits.
    fn sleep<'a>(
        &'a self,
        state: MutexGuard<'a, RingState>,
        timeout: Option<Duration>,
        reaped: &mut Reaped,
    ) -> (MutexGuard<'a, RingState>, io::Result<EnterOutcome>) {
        // Everything that is pending has to be submitted before the owner sleeps (R3).
        let (mut state, sent) = self.fill_all(state);
        if !matches!(sent, Ok(EnterOutcome::Done)) {
            return (state, sent);
        }
        if state.has_immediate {
            // A completion may have queued another request.
            let (back, entered) = self.enter(state, None);
            state = back;
            if !matches!(entered, Ok(EnterOutcome::Done)) {
                return (state, entered);
            }
            self.reap_into(&mut state, reaped);
            if !reaped.is_empty() || state.has_requests() {
                return (state, entered);
            }
        }
        self.watch(&mut state);
        self.enter(state, Some(timeout))
    }

    /// Submits what is pending, and enters the kernel if it has completions to post.
    fn submit_pending<'a>(
        &'a self,
        state: MutexGuard<'a, RingState>,
    ) -> (MutexGuard<'a, RingState>, io::Result<EnterOutcome>) {
        let (state, sent) = self.fill_all(state);
        match sent {
            Ok(EnterOutcome::Done) if self.needs_enter() => self.enter(state, None),
            sent => (state, sent),
        }
    }

    /// Moves everything pending into the submission queue, entering the kernel
    /// as often as that is full.
    fn fill_all<'a>(
        &'a self,
        mut state: MutexGuard<'a, RingState>,
    ) -> (MutexGuard<'a, RingState>, io::Result<EnterOutcome>) {
        while self.fill(&mut state) == Filled::QueueIsFull {
            let (back, entered) = self.enter(state, None);
            state = back;
            if !matches!(entered, Ok(EnterOutcome::Done)) {
                return (state, entered);
            }
        }
        (state, Ok(EnterOutcome::Done))
    }

    /// Serves the ring for an owner that is stuck. A [`Flavour::Shared`] ring is served completely:
    /// pending entries are submitted, and completions are taken in. Of a pinned ring, only the
    /// completions that are in the queue are taken in. Does nothing if the owner is in the kernel.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// assert_eq!(ring.rescue()?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`turn`](Self::turn).
    pub fn rescue(&self) -> io::Result<usize> {
        let Some(mut state) = self.state.try_lock() else {
            return Ok(0);
        };
        if state.entered {
            return Ok(0); // R2
        }
        if self.flavour == Flavour::Shared {
            self.submit_for_owner(&mut state)?;
            self.fetch_for_owner();
        }
        let reaped = self.reap(&mut state);
        drop(state);
        match self.finish_for_owner(reaped) {
            (taken, true) => Ok(taken + self.poller.try_turn()?),
            (taken, false) => Ok(taken),
        }
    }

    /// Does what completions have left to do that were taken in for the owner. Returns how many
    /// there were, and whether the poller has events. One of these may be the event of the waker
    /// that was meant for the owner: an owner that has parked since is woken again.
    fn finish_for_owner(&self, reaped: Reaped) -> (usize, bool) {
        let poller_has_events = reaped.poller_has_events;
        let taken = reaped.finish();
        if poller_has_events && self.park.may_wait_for_waker() {
            self.queues.wake(&self.poller);
        }
        (taken, poller_has_events)
    }

    /// Submits what is pending, with the lock held (R2).
    fn submit_for_owner(&self, state: &mut RingState) -> io::Result<()> {
        while state.has_requests() {
            self.fill(state);
            state.has_immediate = false;
            if check_entered(self.queues.enter(None))? == EnterOutcome::Refused {
                break; // the owner's next turn submits the rest
            }
        }
        Ok(())
    }

    /// Makes the kernel post completions that it would post only when a thread that has
    /// submitted them enters the kernel. Under the lock.
    fn fetch_for_owner(&self) {
        // SAFETY: R1, we hold the lock and the owner has not entered.
        if !unsafe { self.queues.waits_for_submitter() } {
            return;
        }
        // An interrupt of its processor makes the owner's thread enter the kernel.
        self.queues.interrupt_submitters();
        for _ in 0..RESCUE_SPINS {
            // SAFETY: as above.
            if unsafe { self.queues.has_completions() } {
                break;
            }
            hint::spin_loop();
        }
    }

    /// Makes the turn that waits now, or else the next one that would, return
    /// early. Costs a system call only if the owner sleeps in here.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// ring.interrupt();
    /// ring.turn(None)?; // returns at once
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn interrupt(&self) {
        if self.park.unpark().is_some() {
            self.queues.wake(&self.poller);
        }
    }

    /// Whether the owner sleeps in here, or is just about to.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// assert!(!ring.is_asleep());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_asleep(&self) -> bool {
        self.park.is_parked_in(ParkedIn::Ring)
    }

    /// Refuses new operations, and cancels those in flight, except those that were
    /// [detached](Op::detach). The owner then has to turn the ring until none is [in
    /// flight](Self::in_flight) any more. Its thread must not end, nor the ring be dropped, before
    /// that.
    ///
    /// Operations end with what they have done, or with the error [`shutdown_error()`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::Poller;
    /// # use blitzen_driver::ring::{Ring, RingConfig, file::Stat};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
    /// # let ring = Arc::new(ring);
    /// ring.cancel_all();
    /// let late = ring.submit(Stat::path(c"/".into(), 0));
    /// assert!(blitzen_driver::is_shutdown_error(&futures::executor::block_on(late).unwrap_err()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancel_all(&self) {
        let mut state = self.state.lock();
        state.shut = true;
        let attached: Vec<_> = state.slab.attached().collect();
        for token in attached {
            state.pending.push_back(cancel_entry(UserData::Op(token)));
        }
        let mut deferred = Deferred::default();
        state.sockets.shut(&mut deferred);
        self.update_counts(&state);
        drop(state);
        deferred.finish();
        self.wake_sleeper();
    }

    /// Cancels sends of bytes that were buffered, for which a socket has no room although it had
    /// when it was measured. To be called some time after [`cancel_all`](Self::cancel_all).
    pub fn cancel_sends(&self) {
        let mut state = self.state.lock();
        state.sockets.cancel_sends();
        self.update_counts(&state);
        drop(state);
        self.wake_sleeper();
    }

    /// Whether a turn would submit something or take something in.
    fn has_more(&self) -> bool {
        let state = self.state.lock();
        // SAFETY: R1, R2: under the lock, by the owner.
        state.has_requests() || unsafe { self.queues.has_completions() }
    }

    /// Whether the kernel only still reads the buffers of zero-copy sends, as it may until their
    /// peers have acknowledged the bytes.
    pub(crate) fn only_reads_buffers(&self) -> bool {
        let state = self.state.lock();
        state.slab.live() == 0 && state.sockets.only_reads_buffers()
    }

    /// Whether any thread may turn the ring.
    pub(crate) fn is_shared(&self) -> bool {
        self.flavour == Flavour::Shared
    }

    /// Returns the result of an operation; `Pending`, and wakes the task when there is one.
    fn poll_op(&self, token: OpToken, cx: &Context<'_>) -> Poll<io::Result<u32>> {
        let mut waker = Some(cx.waker().clone()); // R4: foreign code, as is its drop
        let mut state = self.state.lock();
        let answer = state.slab.poll(token, &mut waker);
        let shut = state.shut;
        drop(state);
        match answer {
            Some(result) if shut && result == -libc::ECANCELED => {
                Poll::Ready(Err(shutdown_error()))
            }
            Some(result) => Poll::Ready(to_result(result)),
            None => {
                wait::pending(WaitKind::RingOperation, token.bits());
                Poll::Pending
            }
        }
    }

    /// Notes that the future of an operation was dropped; with `detached` the operation runs to its
    /// end.
    fn abandon<T: Operation>(&self, token: OpToken, payload: T, detached: bool) {
        let mut payload = Some(payload);
        let mut state = self.state.lock();
        let (on_drop, waker) = state.slab.abandon(token, detached, || {
            Box::new(Abandoned(payload.take().expect("called for once")))
        });
        if matches!(on_drop, OnDrop::Running) && !detached {
            state.pending.push_back(cancel_entry(UserData::Op(token)));
        }
        self.update_counts(&state);
        drop(state);
        drop(waker); // R4
        match on_drop {
            OnDrop::Running => self.wake_sleeper(),
            OnDrop::Withdrawn => drop(payload),
            OnDrop::Ended(result) => {
                let payload = payload.expect("not called for");
                drop(payload.finish(to_result(result)));
            }
        }
    }

    /// Wakes the owner if it is parked, wherever that is: the ring may not have been needed when it
    /// chose the place (`park.rs`, B4).
    pub(crate) fn interrupt_parked(&self) {
        if self.park.place_after_change().is_some() {
            self.interrupt();
        }
    }

    /// Wakes an owner that sleeps in the kernel, to submit what is pending.
    fn wake_sleeper(&self) {
        // R3: parked now, or it will see what was added under the lock.
        if self.is_asleep() {
            self.interrupt();
        }
    }

    fn update_counts(&self, state: &RingState) {
        self.in_flight.store(state.slab.live(), Relaxed);
        self.sockets.update(&state.sockets);
    }

    /// Moves pending entries into the submission queue.
    fn fill(&self, state: &mut RingState) -> Filled {
        while let Some(entry) = state.pending.front() {
            if let UserData::Op(token) = UserData::from_bits(entry.get_user_data())
                && !state.slab.submit(token)
            {
                state.pending.pop_front(); // withdrawn
                continue;
            }
            // SAFETY: R1, R2, under the lock. The slab or the future keeps the payload until the
            // last completion (K1).
            if !unsafe { self.queues.push(entry) } {
                return Filled::QueueIsFull;
            }
            state.pending.pop_front();
        }
        // SAFETY: R1, R2, under the lock. The table keeps descriptors and memory until the last
        // completion (S1).
        let push = |entry: &Entry| unsafe { self.queues.push(entry) };
        state.sockets.fill(push, &mut state.has_immediate)
    }

    /// Has the kernel watch the poller for events.
    fn watch(&self, state: &mut RingState) {
        if state.watching {
            return;
        }
        let events = opcode::PollAdd::new(types::Fd(self.poller.as_raw_fd()), libc::POLLIN as u32);
        let entry = events.build().user_data(UserData::Poller.bits());
        // `fill` may have left the queue full. Then the turn only enters the kernel, and does not
        // wait (`enter`).
        // SAFETY: R1, R2. The entry points to nothing, and the poller's
        // descriptor lives as long as the ring.
        state.watching = unsafe { self.queues.push(&entry) };
    }

    /// Whether entering the kernel without waiting would do anything.
    fn needs_enter(&self) -> bool {
        // SAFETY: R1, R2: the owner, under the lock.
        unsafe { self.queues.needs_enter() }
    }

    /// Enters the kernel without the lock (R2). With `wait`, waits for a completion: `Some(None)`
    /// without a limit.
    fn enter<'a>(
        &'a self,
        mut state: MutexGuard<'a, RingState>,
        wait: Option<Option<Duration>>,
    ) -> (MutexGuard<'a, RingState>, io::Result<EnterOutcome>) {
        state.entered = true;
        // If the kernel does not watch the poller, nothing could wake the owner.
        let may_wait = state.watching;
        state.has_immediate = false;
        drop(state);
        let entered = check_entered(self.queues.enter(wait.filter(|_| may_wait)));
        let mut state = self.state.lock();
        state.entered = false;
        (state, entered)
    }

    /// Takes completions in.
    fn reap(&self, state: &mut RingState) -> Reaped {
        let mut reaped = Reaped::default();
        self.reap_into(state, &mut reaped);
        reaped
    }

    fn reap_into(&self, state: &mut RingState, reaped: &mut Reaped) {
        let mut taken = 0;
        let visit = |cqes: &[queues::Cqe]| {
            for cqe in cqes {
                if let UserData::Socket(key, kind) = UserData::from_bits(cqe.user_data()) {
                    state.sockets.prefetch(key, kind);
                }
            }
            for cqe in cqes {
                state.complete(cqe, reaped);
            }
            taken += cqes.len();
            taken < COMPLETIONS_PER_TURN && reaped.deferred.wakes.len() < WAKES_PER_TURN
        };
        // SAFETY: R1, R2: under the lock, and the owner is not in the kernel, or this is the owner.
        unsafe { self.queues.reap(visit) };
        self.update_counts(state);
    }
}

/// Whether everything that was queued fitted into the submission queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    Everything,
    QueueIsFull,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnterOutcome {
    Done,
    /// The completion queue is full, or the kernel has no memory.
    Refused,
}

impl Drop for Ring {
    /// Closing a ring does not end its operations at once. Futures keep the ring alive, so only
    /// operations without a future are left. If the owner has not called
    /// [`cancel_all`](Ring::cancel_all), they are turned for a short time; the memory of those that
    /// have not ended then is leaked.
    fn drop(&mut self) {
        if !self.has_kernel_work() {
            return;
        }
        self.cancel_all();
        for _ in 0..100 {
            if !self.has_kernel_work() || self.turn(Some(Duration::from_millis(10))).is_err() {
                return;
            }
        }
    }
}

impl AsRawFd for Ring {
    /// Returns the descriptor, which is readable while there are completions.
    fn as_raw_fd(&self) -> RawFd {
        self.queues.as_raw_fd()
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("flavour", &self.flavour)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

/// Decides which errors of entering the kernel are temporary.
fn check_entered(entered: io::Result<()>) -> io::Result<EnterOutcome> {
    match entered {
        Ok(()) => Ok(EnterOutcome::Done),
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR) => Ok(EnterOutcome::Done),
            // The completion queue has overflowed, or there is no memory at the moment: try again
            // later.
            Some(libc::EBUSY | libc::EAGAIN) => Ok(EnterOutcome::Refused),
            _ => Err(error),
        },
    }
}

/// Converts the result of a completion.
fn to_result(number: i32) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| io::Error::from_raw_os_error(-number))
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::atomic::AtomicBool;
    use blitzen_util::shim::atomic::Ordering::{Acquire, Release};
    use blitzen_util::shim::thread;
    use loom::sync::Arc as LoomArc;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::Waker;

    /// An operation whose memory the kernel accesses when it carries it out.
    struct Nothing(LoomArc<OpEnd>);

    #[derive(Default)]
    struct OpEnd {
        freed: AtomicBool,
        finished: AtomicBool,
    }

    impl Nothing {
        fn new() -> (Self, LoomArc<OpEnd>) {
            let end = LoomArc::new(OpEnd::default());
            (Self(end.clone()), end)
        }
    }

    impl Drop for Nothing {
        fn drop(&mut self) {
            assert!(!self.0.freed.swap(true, Release), "freed once");
        }
    }

    // SAFETY: the entry points to nothing.
    unsafe impl Operation for Nothing {
        type Output = ();

        fn entry(&mut self) -> Entry {
            opcode::Nop::new().build()
        }

        fn finish(self, _: io::Result<u32>) {
            self.0.finished.store(true, Release);
        }
    }

    fn ring() -> Arc<Ring> {
        let poller = Arc::new(Poller::new(1).unwrap());
        Arc::new(Ring::new(&RingConfig::default(), poller).unwrap())
    }

    /// A ring whose kernel accesses the memory of `end` for each operation.
    fn ring_for(end: &LoomArc<OpEnd>) -> Arc<Ring> {
        let (ring, end) = (ring(), end.clone());
        let work = move || assert!(!end.freed.load(Acquire), "K1: the kernel still uses it");
        ring.queues.set_work(Box::new(work));
        ring
    }

    fn poll(op: &mut Op<Nothing>) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(op).poll(&mut cx).is_ready()
    }

    #[test]
    fn memory_outlives_the_kernels_use_although_the_future_is_dropped() {
        loom::model(|| {
            let (operation, end) = Nothing::new();
            let ring = ring_for(&end);
            let mut op = ring.submit(operation);
            let dropper = thread::spawn(move || {
                poll(&mut op);
                drop(op);
            });
            ring.turn(Some(Duration::ZERO)).unwrap();
            dropper.join().unwrap();
            while ring.in_flight() > 0 {
                ring.turn(Some(Duration::ZERO)).unwrap();
            }
            assert!(end.freed.load(Acquire));
        });
    }

    #[test]
    fn an_owner_asleep_wakes_for_what_another_thread_submits() {
        loom::model(|| {
            let (operation, end) = Nothing::new();
            let ring = ring();
            let other = thread::spawn({
                let ring = ring.clone();
                move || ring.submit(operation)
            });
            let mut taken = 0;
            while taken == 0 {
                taken = ring.turn(None).unwrap(); // sleeps for ever if it misses that
            }
            let mut op = other.join().unwrap();
            assert!(poll(&mut op) && end.finished.load(Acquire));
        });
    }

    #[test]
    fn an_owner_and_a_rescuer_never_access_the_queues_at_once() {
        loom::model(|| {
            let (operation, end) = Nothing::new();
            let ring = ring_for(&end);
            let mut op = ring.submit(operation);
            let rescuer = thread::spawn({
                let ring = ring.clone();
                move || {
                    let taken = ring.rescue().unwrap();
                    ring.interrupt(); // as the task does that it has woken
                    taken
                }
            });
            let mut taken = ring.turn(None).unwrap();
            taken += rescuer.join().unwrap();
            while taken == 0 {
                taken = ring.turn(None).unwrap();
            }
            assert_eq!((taken, ring.in_flight()), (1, 0), "taken in once");
            assert!(poll(&mut op));
        });
    }

    #[test]
    fn a_stuck_owner_a_rescuer_and_a_dropped_future() {
        loom::model(|| {
            let (operation, end) = Nothing::new();
            let ring = ring_for(&end);
            let op = ring.submit(operation);
            let dropper = thread::spawn(move || drop(op));
            let rescuer = thread::spawn({
                let ring = ring.clone();
                move || ring.rescue().unwrap()
            });
            ring.turn(Some(Duration::ZERO)).unwrap(); // and then it is stuck
            dropper.join().unwrap();
            rescuer.join().unwrap();
            while ring.in_flight() > 0 {
                ring.rescue().unwrap();
            }
            assert!(end.freed.load(Acquire));
        });
    }
}
