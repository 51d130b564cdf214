//! The poller of one worker: it takes events from the kernel, posts them to the sources, and
//! wakes the tasks that wait for them.
//!
//! ```text
//!   kernel ──► turn ──► slot.word ──► wakers, gathered ──► fired
//!              └──────── the turn's lock ────────┘
//! ```
//!
//! A source belongs to one poller; the task that uses it may run anywhere. The
//! poller's owner turns it; if the owner is stuck, any thread may with
//! [`try_turn`](Poller::try_turn). Posting an event only sets bits in a slot's word, so
//! it does not matter which thread does it.
//!
//! P1. A thread that takes events from the kernel holds the turn's lock. If it serves the poller
//!     for the owner, and finds the waker's event, it wakes the owner again (`park.rs`, B3).
//! P2. Wakers are called after the lock is released: they run foreign code, which may drop
//!     sources, register new ones, or turn this poller.
//! P3. A turn takes in a bounded number of events. What is left stays in the
//!     kernel's queue, in front of what was taken, so that nothing starves.
//! P4. A thread that turns the poller only to close named pipes calls no waker: it may be in a
//!     destructor, or serve every runtime of the process. It leaves the wakers to the next turn by
//!     anybody else, which does not wait, or to the shutdown. So they are called when they would be if
//!     their events were still in the kernel's queue.

mod slots;
mod turn_waiters;
mod wait;

cfg_select! {
    windows => {
        mod closing_pipes;
        mod pipe_reaper;
        use closing_pipes::ClosingPipes;
    }
    _ => {
        mod no_closing_pipes;
        use no_closing_pipes::ClosingPipes;
    }
}

use std::io;
use std::sync::Arc;
use std::time::Duration;

use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicU64, AtomicUsize};
use blitzen_util::shim::{Mutex, MutexGuard};
use mio::event::Source;

use slots::{SourceSlots, SourceToken};
use turn_waiters::TurnWaiters;
pub(crate) use wait::BareDescriptor;
pub use wait::Stream;
use wait::{Events, Selector, Waker};

use crate::park::{ParkState, ParkedIn};
use crate::wake_list::WakeList;
use crate::{Interest, Ready, Registration};

/// The token of the waker. No source has it: see [`slots`].
const WAKER_TOKEN: usize = usize::MAX;

/// The most events that a turn takes in when its worker has other work, unless a limit
/// is given: half of a worker's run queue, so that the tasks fit in. The queue is the
/// scheduler's, of which this crate knows nothing.
pub(crate) const BUSY_EVENTS: usize = 128;

/// Whether threads end a wait to get the turn's lock: to add a source over poll(2), and to close a
/// named pipe on Windows.
const MAY_BE_ENDED: bool = cfg!(any(blitzen_poll, windows));

/// Waits for events and hands them to the sources.
///
/// Each worker has one, created with the worker's first source. Before that the worker
/// sleeps on a futex. A thread that creates a poller for a worker that may be asleep
/// has to wake it, so that from then on it sleeps in the poller: otherwise events do
/// not wake it. [`Driver`](crate::Driver) does that.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use blitzen_driver::{Interest, Poller, Ready};
///
/// let poller = Arc::new(Poller::new(1024)?);
/// let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
/// let registration = poller.register(&mut socket, Interest::WRITABLE, Ready::EMPTY)?;
///
/// assert_eq!(poller.turn(Some(Duration::ZERO))?, 1);
/// let sent = registration.try_io(Interest::WRITABLE, || {
///     socket.send_to(b"hello", socket.local_addr()?)
/// })?;
/// assert_eq!(sent, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Poller {
    selector: Selector,
    turn: Mutex<Turn>,
    park: Arc<ParkState>,
    waker: Waker,
    slots: SourceSlots,
    limits: Limits,
    counters: Counters,
    turn_waiters: TurnWaiters,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    idle: usize,
    busy: usize,
}

/// The state of a turn, behind its lock.
#[derive(Debug)]
struct Turn {
    events: Events,
    /// Empty between turns, unless wakers are left (P4); kept to reuse its memory.
    wakes: WakeList,
    closing: ClosingPipes,
}

/// Written under the turn's lock, read without it.
#[derive(Debug)]
struct Counters {
    turns: AtomicU64,
    events: AtomicU64,
    spurious: AtomicU64,
    served: AtomicU64,
    /// Written without the lock.
    registered: AtomicU64,
    /// How many named pipes are being closed.
    closing: AtomicUsize,
}

/// The counters of a [`Poller`].
///
/// ```
/// let poller = blitzen_driver::Poller::new(16)?;
/// poller.turn(Some(std::time::Duration::ZERO))?;
/// assert_eq!(poller.counts().turns, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollerCounts {
    /// Times the kernel was asked for events.
    pub turns: u64,
    /// Events that reached a source.
    pub events: u64,
    /// Events without effect: the source had ended, or the waker was used for an owner
    /// that had woken by itself.
    pub spurious: u64,
    /// Turns that brought events, made by another thread than the owner's.
    pub served: u64,
    /// Sources that were registered, whether or not they still are.
    pub registered: u64,
}

/// Which thread turns the poller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TurnedBy {
    Owner,
    Other,
    /// One that closes named pipes (P4).
    PipeCloser,
}

impl Poller {
    /// Creates a poller that takes in at most `max_events` in a turn that may wait, and
    /// at most 128 of them in one that does not.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(1024)?;
    /// assert_eq!(poller.sources(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of creating the selector, such as too many open descriptors.
    ///
    /// # Panics
    /// Panics if `max_events` is 0.
    #[track_caller]
    pub fn new(max_events: usize) -> io::Result<Self> {
        Self::with_limits(max_events, max_events.min(BUSY_EVENTS))
    }

    /// Creates a poller with two limits: `idle` for turns that may wait, `busy` for turns
    /// of a worker that has other work.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::with_limits(1024, 32)?;
    /// assert!(!poller.has_sources());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of creating the selector, such as too many open descriptors.
    ///
    /// # Panics
    /// Panics if a limit is 0.
    #[track_caller]
    pub fn with_limits(idle: usize, busy: usize) -> io::Result<Self> {
        Self::with_park_state(idle, busy, Arc::new(ParkState::new()))
    }

    /// Like [`with_limits`](Self::with_limits), for an owner that also parks elsewhere.
    #[track_caller]
    pub(crate) fn with_park_state(
        idle: usize,
        busy: usize,
        park: Arc<ParkState>,
    ) -> io::Result<Self> {
        assert!(
            idle > 0 && busy > 0,
            "a turn must take in at least one event"
        );
        let selector = Selector::new()?;
        let waker = Waker::new(selector.registry(), mio::Token(WAKER_TOKEN))?;
        Ok(Self {
            turn: Mutex::new(Turn {
                events: Events::with_limits(busy, idle),
                wakes: WakeList::default(),
                closing: ClosingPipes::new(),
            }),
            park,
            waker,
            slots: SourceSlots::new(),
            limits: Limits { idle, busy },
            counters: Counters {
                turns: AtomicU64::new(0),
                events: AtomicU64::new(0),
                spurious: AtomicU64::new(0),
                served: AtomicU64::new(0),
                registered: AtomicU64::new(0),
                closing: AtomicUsize::new(0),
            },
            turn_waiters: TurnWaiters::new(),
            selector,
        })
    }

    /// Registers a source. It counts as `initially` ready until an operation finds
    /// otherwise: with [`Ready::EMPTY`] the first operation waits for an event, with
    /// `READABLE | WRITABLE`, as for an accepted socket, it is tried at once.
    ///
    /// Any thread may call this; this poller reports the source's events from then on.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// let poller = Arc::new(Poller::new(16)?);
    /// let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
    /// let registration = poller.register(&mut socket, Interest::READABLE, Ready::EMPTY)?;
    /// assert_eq!(poller.sources(), 1);
    /// drop(registration);
    /// assert!(!poller.has_sources());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of `epoll_ctl(2)` or its like, or
    /// [`shutdown_error`](crate::shutdown_error()) after [`shutdown`](Self::shutdown).
    pub fn register(
        self: &Arc<Self>,
        source: &mut impl Source,
        interest: Interest,
        initially: Ready,
    ) -> io::Result<Registration> {
        let (slot, token) = self.slots.open(initially)?;
        // Created before the system call, so that an error frees the slot.
        let registration = Registration::new(self.clone(), slot.into(), token.0);
        self.between_waits(|selector| {
            let registry = selector.registry();
            registry.register(source, mio::Token(token.0), interest.to_mio())
        })?;
        self.counters.registered.fetch_add(1, Relaxed);
        Ok(registration)
    }

    /// Registers a stream for reading and writing. If `initially` has `WRITABLE`, and
    /// the system allows it, the selector watches whether the stream is writable only
    /// after a write has found no room: most streams never have such a write.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// let poller = Arc::new(Poller::new(16)?);
    /// let (mut ours, theirs) = mio::net::UnixStream::pair()?;
    /// let registration = poller.register_stream(&mut ours, Ready::WRITABLE)?;
    /// let sent = registration.try_io(Interest::WRITABLE, || (&ours).write(b"hello"))?;
    /// assert_eq!(sent, 5);
    /// # drop(theirs);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn register_stream(
        self: &Arc<Self>,
        stream: &mut impl Stream,
        initially: Ready,
    ) -> io::Result<Registration> {
        if !initially.is_writable() {
            return self.register(stream, Interest::READABLE | Interest::WRITABLE, initially);
        }
        let (slot, token) = self.slots.open(initially)?;
        // Created before the system call, so that an error frees the slot.
        let mut registration = Registration::new(self.clone(), slot.into(), token.0);
        let token = mio::Token(token.0);
        let later = self.between_waits(|selector| selector.add_stream(stream, token))?;
        if let Some(descriptor) = later {
            registration.watch_writes_later(descriptor);
        }
        self.counters.registered.fetch_add(1, Relaxed);
        Ok(registration)
    }

    /// Adds a source: over poll(2), while no thread waits.
    ///
    /// After a wait, mio removes the descriptors whose other ends were closed, by number. If such a
    /// number was closed and used again meanwhile, that removes the new source.
    fn between_waits<R>(&self, add: impl FnOnce(&Selector) -> R) -> R {
        if !cfg!(blitzen_poll) {
            return add(&self.selector);
        }
        let _turn = self.lock_turn();
        add(&self.selector)
    }

    /// Locks the turn. Ends the wait of a thread that has the lock.
    #[cfg_attr(not(any(blitzen_poll, windows)), allow(dead_code))]
    fn lock_turn(&self) -> MutexGuard<'_, Turn> {
        let contended = || self.turn_waiters.lock(&self.turn, || self.wake_selector());
        self.turn.try_lock().unwrap_or_else(contended)
    }

    /// Whether any source is registered. Makes no system call and takes no lock.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// assert!(!poller.has_sources());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn has_sources(&self) -> bool {
        self.slots.live() > 0
    }

    /// Whether the owner has to turn: for sources, or for pending operations of sources that
    /// have ended. Makes no system call and takes no lock.
    pub(crate) fn must_be_turned(&self) -> bool {
        // On Windows, dropping a named pipe only asks the system to cancel its operations. The
        // cancelled read, and the write under way, complete later, through this poller; until a
        // poll takes that completion in, mio keeps the buffer that the system may write to, and
        // with it the handle: the pipe's other end sees no end. The same holds for the memory of a
        // socket. So a poller that may have had a source is turned for as long as it exists. A
        // driver makes its poller for the first source, and waiting in it costs no more than
        // waiting on a word.
        cfg!(windows) || self.has_sources()
    }

    /// How many sources are registered.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// assert_eq!(poller.sources(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sources(&self) -> usize {
        self.slots.live()
    }

    /// Waits for events, at most for `timeout`, and wakes the tasks that wait for them.
    /// Returns the number of events.
    ///
    /// For the owner, one thread at a time. Returns at once if there was an
    /// [`interrupt`](Self::interrupt) since the last turn that could wait, and
    /// may return early for no reason.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// let found = poller.turn(Some(std::time::Duration::from_micros(50)))?;
    /// assert_eq!(found, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the selector itself; a signal is no error.
    pub fn turn(&self, timeout: Option<Duration>) -> io::Result<usize> {
        if timeout == Some(Duration::ZERO) || !self.park.begin(ParkedIn::Poller) {
            let turn = self.turn.lock();
            return self.run(turn, TurnedBy::Owner);
        }
        self.turn_parked(timeout).1
    }

    /// A turn of an owner that is parked in the poller. Ends the park; also returns whether
    /// there was a token.
    pub(crate) fn turn_parked(&self, timeout: Option<Duration>) -> (bool, io::Result<usize>) {
        let parked = self.park.end_on_drop();
        let mut turn = self.turn.lock();
        let waited = self.wait(&mut turn, self.limits.idle, timeout);
        let was_notified = parked.end();
        let found = waited.map(|()| self.deliver(turn, TurnedBy::Owner));
        (was_notified, found)
    }

    /// Turns the poller for an owner that is stuck, without waiting. Does
    /// nothing if another thread is turning it.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// assert_eq!(poller.try_turn()?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`turn`](Self::turn).
    pub fn try_turn(&self) -> io::Result<usize> {
        match self.turn.try_lock() {
            Some(turn) => self.run(turn, TurnedBy::Other),
            None => Ok(0),
        }
    }

    /// Makes the turn that waits now, or else the next one that would, return
    /// early.
    ///
    /// Costs a system call only if the owner sleeps in here.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// poller.interrupt();
    /// poller.turn(None)?; // returns at once
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn interrupt(&self) {
        if self.park.unpark().is_some() {
            self.wake_selector();
        }
    }

    /// Whether the owner sleeps in here, or is just about to.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// assert!(!poller.is_asleep());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_asleep(&self) -> bool {
        self.park.is_parked_in(ParkedIn::Poller)
    }

    /// Ends all waits for this poller's sources, and refuses new sources.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
    /// poller.shutdown();
    /// let error = poller.register(&mut socket, Interest::READABLE, Ready::EMPTY).unwrap_err();
    /// assert!(blitzen_driver::is_shutdown_error(&error));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self) {
        let mut wakes = WakeList::default();
        self.slots.shut(&mut wakes);
        let mut left = self.take_left_wakers();
        wakes.wake_all();
        left.wake_all();
    }

    /// Returns the wakers that are left (P4). The sources have been shut: a turn that has found wakers
    /// before has left them when this gets the lock, and a later one finds none.
    fn take_left_wakers(&self) -> WakeList {
        match cfg!(windows) {
            true => std::mem::take(&mut self.lock_turn().wakes),
            false => WakeList::default(),
        }
    }

    /// Whether [`shutdown`](Self::shutdown) was called.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// poller.shutdown();
    /// assert!(poller.is_shutdown());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.slots.is_shut()
    }

    /// Returns the counters of this poller.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// assert_eq!(poller.counts().events, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn counts(&self) -> PollerCounts {
        PollerCounts {
            turns: self.counters.turns.load(Relaxed),
            events: self.counters.events.load(Relaxed),
            spurious: self.counters.spurious.load(Relaxed),
            served: self.counters.served.load(Relaxed),
            registered: self.counters.registered.load(Relaxed),
        }
    }

    #[cfg(blitzen_ring)] // for a ring
    pub(crate) fn park_state(&self) -> &Arc<ParkState> {
        &self.park
    }

    /// Wakes the thread that waits for the selector, in the selector or in the ring.
    pub(crate) fn wake_selector(&self) {
        // A full counter or pipe is no failure. Any other would leave the thread asleep: panic.
        self.waker.wake().expect("the poller's waker must work");
    }

    pub(crate) fn deregister(&self, source: &mut impl Source) -> io::Result<()> {
        self.selector.remove(source)
    }

    pub(crate) fn watch_both(&self, descriptor: i32, token: usize) -> io::Result<()> {
        self.selector.watch_both(descriptor, mio::Token(token))
    }

    pub(crate) fn watch_again(&self, bare: &BareDescriptor, token: usize) -> io::Result<()> {
        self.selector.watch_again(bare, mio::Token(token))
    }

    pub(crate) fn close(&self, token: usize) {
        self.slots.close(SourceToken(token));
    }

    /// A turn that does not wait.
    fn run(&self, mut turn: MutexGuard<'_, Turn>, by: TurnedBy) -> io::Result<usize> {
        self.wait(&mut turn, self.limits.busy, Some(Duration::ZERO))?;
        Ok(self.deliver(turn, by))
    }

    fn wait(&self, turn: &mut Turn, limit: usize, timeout: Option<Duration>) -> io::Result<()> {
        add(&self.counters.turns, 1);
        let must_return =
            MAY_BE_ENDED && !(self.turn_waiters.may_wait_for_events() && turn.wakes.is_empty());
        let timeout = match must_return {
            true => Some(Duration::ZERO), // P4, or A1 of `turn_waiters.rs`
            false => turn.closing.timeout_of_wait(timeout),
        };
        match self.selector.wait(&mut turn.events, limit, timeout) {
            // A signal came: a turn may end early, with no events.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            waited => waited,
        }
    }

    /// Posts the events to their sources, then wakes the tasks that wait (P2). Returns how many events
    /// have reached a source; each waker that was left (P4) counts as another one, so that a turn that
    /// wakes somebody never returns 0.
    fn deliver(&self, mut turn: MutexGuard<'_, Turn>, by: TurnedBy) -> usize {
        let Turn {
            events,
            wakes,
            closing,
        } = &mut *turn;
        let left = if cfg!(windows) { wakes.len() } else { 0 }; // P4
        let (mut reached, mut spurious) = (0, 0);
        let mut was_woken = false;
        for (token, ready) in events.iter() {
            if token == WAKER_TOKEN {
                was_woken = true;
                self.waker.clear();
            }
            if closing.post(token, ready) {
                continue;
            }
            let token = SourceToken(token);
            let hit = self
                .slots
                .get(token)
                .is_some_and(|slot| slot.post(|generation| token.is_of(generation), ready, wakes));
            reached += u64::from(hit);
            spurious += u64::from(!hit);
        }
        if closing.count() > 0 && !events.are_left() {
            closing.advance(self.selector.registry(), &self.waker);
            self.counters.closing.store(closing.count(), Relaxed);
        }
        if reached + spurious == 0 && left == 0 {
            return 0;
        }
        add(&self.counters.events, reached);
        add(&self.counters.spurious, spurious);
        add(
            &self.counters.served,
            u64::from(by != TurnedBy::Owner && reached > 0),
        );
        if was_woken && by != TurnedBy::Owner && self.park.may_wait_for_waker() {
            self.wake_selector(); // P1
        }
        if wakes.is_empty() || by == TurnedBy::PipeCloser {
            return reached as usize; // P4
        }
        let mut taken = std::mem::take(wakes);
        drop(turn);
        taken.wake_all();
        // Keeps the memory for the next turn, unless another thread is turning by now, or has left
        // wakers.
        if let Some(mut turn) = self.turn.try_lock()
            && turn.wakes.is_empty()
        {
            turn.wakes = taken;
        }
        reached as usize + left
    }
}

/// Adds to a counter that has one writer at a time.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

/// The descriptor becomes readable when there are events to take in: a ring,
/// or another selector, can wait for it.
#[cfg(all(unix, not(blitzen_poll)))]
impl std::os::fd::AsRawFd for Poller {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.selector.registry().as_raw_fd()
    }
}

#[cfg(all(unix, not(blitzen_poll)))]
impl std::os::fd::AsFd for Poller {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        use std::os::fd::AsRawFd;
        // SAFETY: the selector keeps the descriptor open as long as `self`
        // lives.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}
