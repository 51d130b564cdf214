//! One worker's ring: operations go to the kernel in batches, and their ends
//! come back the same way.
//!
//! ```text
//!   submit ──► pending ──► submission queue ═══ enter ═══► kernel
//!   future ◄── slab    ◄── completion queue ◄═════════════════╯
//! ```
//!
//! Any thread may submit, drop or poll an operation. The owner turns the ring:
//! it moves what is pending into the submission queue, enters the kernel, and
//! takes in what came back. While it sleeps in here the ring watches its poller
//! as well, whose waker wakes it. If the owner is stuck elsewhere, any thread
//! can do all that for it, except to sleep.
//!
//! R1. The lock guards the slab, the sockets, the pending entries and both
//!     queues.
//! R2. The owner enters the kernel without the lock, `entered` being set;
//!     nobody else touches the queues while it is. A rescuer enters with the
//!     lock, and never waits there.
//! R3. The owner is marked as parked here before its last look at the pending
//!     entries, under the lock: whoever adds one later sees it parked.
//! R4. Wakers and payloads are fired and dropped after the lock.
//! R5. For the kernel an operation belongs to the thread that entered with it.
//!     If that thread ends the kernel calls the operation off, with nothing
//!     done: one that is [`REPEATABLE`](Operation::REPEATABLE) is asked again.

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
mod port;
#[cfg(blitzen_loom)]
#[path = "port_model.rs"]
mod port; // a kernel of our own making

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
use port::{Port, REAPED_AT_ONCE};
use setup::Features;
use slab::{AbandonedPayload, Ended, OnDrop, OpToken, Slab};
use socket::{Deferred, Table, cancel_entry};
use user_data::UserData;

/// The completions after which a turn takes in no more. The next turn finds the rest,
/// and does not sleep.
const COMPLETIONS_PER_TURN: usize = 512;
/// The wakes after which a turn takes in no more completions. With those of the batch
/// that reaches it, they are no more than the events of a poller's busy turn.
const WAKES_PER_TURN: usize = BUSY_EVENTS - REAPED_AT_ONCE;

/// How long a rescue looks for what it has set free: some 20 µs.
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
///     Err(refusal) => return Ok(println!("without, then: {refusal}")),
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
    port: Port,
    core: Mutex<Core>,
    /// The poller's: an owner is parked in one place at a time.
    park: Arc<ParkState>,
    poller: Arc<Poller>,
    features: Features,
    flavour: Flavour,
    /// `core.slab.live()`, for a look without the lock.
    in_flight: AtomicUsize,
    /// What `core.sockets` counts, for a look without the lock.
    sockets: socket::SocketCounts,
    /// Who turns the ring.
    owner: socket::OwnerThread,
    buffers: BufferConfig,
}

/// What the lock guards, beside the queues.
struct Core {
    slab: Slab,
    sockets: Table,
    pending: VecDeque<Entry>,
    /// There are requests in the submission queue that the kernel answers at
    /// once: before a sleep the answers are taken in.
    has_immediate: bool,
    /// The owner is in the kernel without the lock (R2).
    entered: bool,
    /// The kernel has been asked to say when the poller has events.
    watching: bool,
    shut: bool,
}

impl Core {
    /// Whether something waits to be submitted.
    fn has_requests(&self) -> bool {
        !self.pending.is_empty() || self.sockets.queued() > 0
    }

    /// Takes in a completion.
    fn complete(&mut self, cqe: &port::Cqe, reaped: &mut Reaped) {
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

/// What completions leave to be done after the lock (R4).
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

    /// Whether nothing is to be done.
    fn is_empty(&self) -> bool {
        let Self {
            deferred,
            abandoned,
            taken,
            poller_has_events,
        } = self;
        deferred.is_empty() && abandoned.is_empty() && *taken == 0 && !poller_has_events
    }

    /// Does it. Foreign code that panics, a waker's or a buffer's, ends neither the
    /// caller nor the rest.
    fn finish(self) -> usize {
        for (payload, result) in self.abandoned {
            contain_panic(|| payload.finish(to_result(result)));
        }
        self.deferred.finish();
        self.taken
    }
}

impl Ring {
    /// A ring that watches `poller` while its owner sleeps in it.
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
    ///     Err(refusal) => println!("without, then: {refusal}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The system's refusal. Everything that a ring does can be done without.
    pub fn new(config: &RingConfig, poller: Arc<Poller>) -> Result<Self, Refusal> {
        let (port, features) = Port::open(config)?;
        Ok(Self {
            port,
            core: Mutex::new(Core {
                slab: Slab::default(),
                sockets: Table::default(),
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

    /// Hands an operation over. It goes to the kernel with the owner's next
    /// turn, which an owner asleep in here makes at once.
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
        let token = self.ask(operation.entry());
        Op::new(self.clone(), token, operation)
    }

    /// Queues a request for the owner's next turn.
    fn ask(&self, entry: Entry) -> OpToken {
        let mut core = self.core.lock();
        let token = match core.shut {
            false => {
                let token = core.slab.insert();
                core.pending.push_back(entry.user_data(token.bits()));
                token
            }
            true => core.slab.insert_ended(-libc::ECANCELED),
        };
        self.update_counts(&core);
        drop(core);
        self.wake_sleeper();
        token
    }

    /// Operations that have not ended. A look without a lock.
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
            let (core, entered) = self.submit_pending(self.core.lock());
            return self.finish_turn(core, Reaped::default(), entered);
        }
        self.turn_parked(timeout).1
    }

    /// A turn of an owner that has parked here. Ends the park; true if there was a
    /// token.
    pub(crate) fn turn_parked(&self, timeout: Option<Duration>) -> (bool, io::Result<usize>) {
        let parked = self.park.end_on_drop();
        self.owner.set_current();
        let mut reaped = Reaped::default();
        let (core, entered) = self.sleep(self.core.lock(), timeout, &mut reaped);
        let was_notified = parked.end();
        (was_notified, self.finish_turn(core, reaped, entered))
    }

    /// Takes completions in, and does what they leave.
    fn finish_turn(
        &self,
        mut core: MutexGuard<'_, Core>,
        mut reaped: Reaped,
        entered: io::Result<Entered>,
    ) -> io::Result<usize> {
        self.reap_into(&mut core, &mut reaped);
        drop(core);
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
        core: MutexGuard<'a, Core>,
        timeout: Option<Duration>,
        reaped: &mut Reaped,
    ) -> (MutexGuard<'a, Core>, io::Result<Entered>) {
        // Everything pending has to be with the kernel before a sleep (R3).
        let (mut core, sent) = self.fill_all(core);
        if !matches!(sent, Ok(Entered::Done)) {
            return (core, sent);
        }
        if core.has_immediate {
            // An answer may be that something has to be asked again.
            let (back, entered) = self.enter(core, None);
            core = back;
            if !matches!(entered, Ok(Entered::Done)) {
                return (core, entered);
            }
            self.reap_into(&mut core, reaped);
            if !reaped.is_empty() || core.has_requests() {
                return (core, entered);
            }
        }
        self.watch(&mut core);
        self.enter(core, Some(timeout))
    }

    /// Sends what is pending, and fetches what the kernel has in store.
    fn submit_pending<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
    ) -> (MutexGuard<'a, Core>, io::Result<Entered>) {
        let (core, sent) = self.fill_all(core);
        match sent {
            Ok(Entered::Done) if self.needs_enter() => self.enter(core, None),
            sent => (core, sent),
        }
    }

    /// Moves everything pending into the submission queue, entering the kernel
    /// as often as that is full.
    fn fill_all<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> (MutexGuard<'a, Core>, io::Result<Entered>) {
        while self.fill(&mut core) == Filled::QueueIsFull {
            let (back, entered) = self.enter(core, None);
            core = back;
            if !matches!(entered, Ok(Entered::Done)) {
                return (core, entered);
            }
        }
        (core, Ok(Entered::Done))
    }

    /// Does the work of an owner that is stuck. For a [`Flavour::Shared`] ring
    /// that is all: what is pending goes to the kernel, and what the kernel has
    /// done is taken in. For a pinned one it is only to take in what its owner
    /// has fetched. Does nothing if the owner is in the ring.
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
        let Some(mut core) = self.core.try_lock() else {
            return Ok(0);
        };
        if core.entered {
            return Ok(0); // R2
        }
        if self.flavour == Flavour::Shared {
            self.submit_for_owner(&mut core)?;
            self.fetch_for_owner();
        }
        let reaped = self.reap(&mut core);
        drop(core);
        match self.finish_for_owner(reaped) {
            (taken, true) => Ok(taken + self.poller.try_turn()?),
            (taken, false) => Ok(taken),
        }
    }

    /// Does what is left of completions that were taken in for the owner. Returns how
    /// many there were, and whether the poller has events. Those may be the owner's
    /// wakeup, which waits for it if it has parked since: it is woken again.
    fn finish_for_owner(&self, reaped: Reaped) -> (usize, bool) {
        let poller_has_events = reaped.poller_has_events;
        let taken = reaped.finish();
        if poller_has_events && self.park.may_wait_for_waker() {
            self.port.wake(&self.poller);
        }
        (taken, poller_has_events)
    }

    /// Sends what is pending, under the lock (R2).
    fn submit_for_owner(&self, core: &mut Core) -> io::Result<()> {
        while core.has_requests() {
            self.fill(core);
            core.has_immediate = false;
            if judge(self.port.enter(None))? == Entered::Refused {
                break; // the owner's next turn will see to it
            }
        }
        Ok(())
    }

    /// Makes the kernel post completions that it would post only when a thread that has
    /// submitted them enters the kernel. Under the lock.
    fn fetch_for_owner(&self) {
        // SAFETY: R1, we hold the lock and the owner has not entered.
        if !unsafe { self.port.waits_for_submitter() } {
            return;
        }
        // Interrupting its processor makes it enter.
        self.port.interrupt_submitters();
        for _ in 0..RESCUE_SPINS {
            // SAFETY: as above.
            if unsafe { self.port.has_completions() } {
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
            self.port.wake(&self.poller);
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

    /// Refuses new operations, and asks the kernel to end those it has, except
    /// those that were [detached](Op::detach). The owner then has to turn the
    /// ring until none is [in flight](Self::in_flight) any more; only after
    /// that may its thread and the ring go.
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
        let mut core = self.core.lock();
        core.shut = true;
        let attached: Vec<_> = core.slab.attached().collect();
        for token in attached {
            core.pending.push_back(cancel_entry(UserData::Op(token)));
        }
        let mut deferred = Deferred::default();
        core.sockets.shut(&mut deferred);
        self.update_counts(&core);
        drop(core);
        deferred.finish();
        self.wake_sleeper();
    }

    /// Gives up sends of bytes that were taken over, for which a connection has no
    /// room although it had when it was measured. After
    /// [`cancel_all`](Self::cancel_all), and some time.
    pub fn cancel_sends(&self) {
        let mut core = self.core.lock();
        core.sockets.cancel_sends();
        self.update_counts(&core);
        drop(core);
        self.wake_sleeper();
    }

    /// Whether a turn would submit something or take something in.
    fn has_more(&self) -> bool {
        let core = self.core.lock();
        // SAFETY: R1, R2: under the lock, by the owner.
        core.has_requests() || unsafe { self.port.has_completions() }
    }

    /// Whether all that the kernel still does is to read the buffers of zero-copy
    /// sends, as it may until their peers have acknowledged the bytes.
    pub(crate) fn only_reads_buffers(&self) -> bool {
        let core = self.core.lock();
        core.slab.live() == 0 && core.sockets.only_reads_buffers()
    }

    /// Whether any thread may turn the ring.
    pub(crate) fn is_shared(&self) -> bool {
        self.flavour == Flavour::Shared
    }

    /// The result of an operation, or a wake when there is one.
    fn poll_op(&self, token: OpToken, cx: &Context<'_>) -> Poll<io::Result<u32>> {
        let waker = cx.waker().clone(); // R4: foreign code
        let mut core = self.core.lock();
        let answer = core.slab.poll(token, waker);
        let shut = core.shut;
        drop(core);
        match answer {
            Ok(result) if shut && result == -libc::ECANCELED => Poll::Ready(Err(shutdown_error())),
            Ok(result) => Poll::Ready(to_result(result)),
            Err(_before) => {
                wait::pending(WaitKind::RingOperation, token.bits());
                Poll::Pending
            }
        }
    }

    /// The future of an operation is dropped; with `detached` the operation goes on
    /// to its end.
    fn abandon<T: Operation>(&self, token: OpToken, payload: T, detached: bool) {
        let mut payload = Some(payload);
        let mut core = self.core.lock();
        let (state, waker) = core.slab.abandon(token, detached, || {
            Box::new(Abandoned(payload.take().expect("called for once")))
        });
        if matches!(state, OnDrop::Running) && !detached {
            core.pending.push_back(cancel_entry(UserData::Op(token)));
        }
        self.update_counts(&core);
        drop(core);
        drop(waker); // R4
        match state {
            OnDrop::Running => self.wake_sleeper(),
            OnDrop::Withdrawn => drop(payload),
            OnDrop::Ended(result) => {
                let payload = payload.expect("not called for");
                drop(payload.finish(to_result(result)));
            }
        }
    }

    /// Wakes an owner that sleeps in the kernel, to submit what is pending.
    fn wake_sleeper(&self) {
        // R3: parked now, or it will see what was added under the lock.
        if self.is_asleep() {
            self.interrupt();
        }
    }

    fn update_counts(&self, core: &Core) {
        self.in_flight.store(core.slab.live(), Relaxed);
        self.sockets.update(&core.sockets);
    }

    /// Moves pending entries into the submission queue.
    fn fill(&self, core: &mut Core) -> Filled {
        while let Some(entry) = core.pending.front() {
            if let UserData::Op(token) = UserData::from_bits(entry.get_user_data())
                && !core.slab.submit(token)
            {
                core.pending.pop_front(); // withdrawn
                continue;
            }
            // SAFETY: R1, R2, under the lock. The slab keeps the payload, or
            // its future does, until the kernel's last word (K1).
            if !unsafe { self.port.push(entry) } {
                return Filled::QueueIsFull;
            }
            core.pending.pop_front();
        }
        // SAFETY: R1, R2, under the lock. The table keeps descriptors and memory
        // until the kernel's last word (S1).
        let push = |entry: &Entry| unsafe { self.port.push(entry) };
        core.sockets.fill(push, &mut core.has_immediate)
    }

    /// Asks to be told when the poller has events.
    fn watch(&self, core: &mut Core) {
        if core.watching {
            return;
        }
        let events = opcode::PollAdd::new(types::Fd(self.poller.as_raw_fd()), libc::POLLIN as u32);
        let entry = events.build().user_data(UserData::Poller.bits());
        // There may be no room: `fill` may have left the queue full. Then the turn
        // only enters, and does not wait (`enter`).
        // SAFETY: R1, R2. The entry points to nothing, and the poller's
        // descriptor lives as long as the ring.
        core.watching = unsafe { self.port.push(&entry) };
    }

    /// Whether entering the kernel without waiting would do anything.
    fn needs_enter(&self) -> bool {
        // SAFETY: R1, R2: the owner, under the lock.
        unsafe { self.port.needs_enter() }
    }

    /// Enters the kernel without the lock (R2), waiting if there is a limit
    /// for it.
    fn enter<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        wait: Option<Option<Duration>>,
    ) -> (MutexGuard<'a, Core>, io::Result<Entered>) {
        core.entered = true;
        // Without the poller's watch nobody could wake us.
        let may_wait = core.watching;
        core.has_immediate = false;
        drop(core);
        let entered = judge(self.port.enter(wait.filter(|_| may_wait)));
        let mut core = self.core.lock();
        core.entered = false;
        (core, entered)
    }

    /// Takes completions in.
    fn reap(&self, core: &mut Core) -> Reaped {
        let mut reaped = Reaped::default();
        self.reap_into(core, &mut reaped);
        reaped
    }

    fn reap_into(&self, core: &mut Core, reaped: &mut Reaped) {
        let mut taken = 0;
        let visit = |cqes: &[port::Cqe]| {
            for cqe in cqes {
                if let UserData::Socket(key, kind) = UserData::from_bits(cqe.user_data()) {
                    core.sockets.prefetch(key, kind);
                }
            }
            for cqe in cqes {
                core.complete(cqe, reaped);
            }
            taken += cqes.len();
            taken < COMPLETIONS_PER_TURN && reaped.deferred.wakes.len() < WAKES_PER_TURN
        };
        // SAFETY: R1, R2: under the lock, and the owner has not entered, or
        // is us.
        unsafe { self.port.reap(visit) };
        self.update_counts(core);
    }
}

/// Whether everything that was queued fitted into the submission queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    Everything,
    QueueIsFull,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    Done,
    /// The kernel wants its completions taken in, or has no memory.
    Refused,
}

impl Drop for Ring {
    /// Closing a ring does not end what runs in it at once, so nothing may be
    /// running. Futures keep the ring alive, so these are orphans; should the
    /// owner have gone without [`cancel_all`](Ring::cancel_all), they get a
    /// little time, and what then still runs is never freed.
    fn drop(&mut self) {
        if !self.is_at_work() {
            return;
        }
        self.cancel_all();
        for _ in 0..100 {
            if !self.is_at_work() || self.turn(Some(Duration::from_millis(10))).is_err() {
                return;
            }
        }
    }
}

impl AsRawFd for Ring {
    /// Returns the descriptor, which is readable while there are completions.
    fn as_raw_fd(&self) -> RawFd {
        self.port.as_raw_fd()
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

/// What the kernel's answer to an entry means for the ring.
fn judge(entered: io::Result<()>) -> io::Result<Entered> {
    match entered {
        Ok(()) => Ok(Entered::Done),
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR) => Ok(Entered::Done),
            // Completions that did not fit have to be taken in first, or
            // there is no memory just now: later.
            Some(libc::EBUSY | libc::EAGAIN) => Ok(Entered::Refused),
            _ => Err(error),
        },
    }
}

/// The kernel's number as a result.
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

    /// An operation whose memory the kernel uses when it does it.
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

    /// A ring whose kernel wants the memory of `end` when it works.
    fn ring_for(end: &LoomArc<OpEnd>) -> Arc<Ring> {
        let (ring, end) = (ring(), end.clone());
        let work = move || assert!(!end.freed.load(Acquire), "K1: the kernel still uses it");
        ring.port.set_work(Box::new(work));
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
    fn an_owner_and_a_rescuer_do_not_meet_in_the_queues() {
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
