//! The driver of one worker: its poller, its ring, and where it sleeps.
//!
//! ```text
//!   nothing but interrupts        ──► asleep on a word
//!   sources                       ──► asleep in the poller
//!   operations (and sources)      ──► asleep in the ring, which watches the poller
//! ```
//!
//! The poller is created with the first source, the ring with the first operation, on the
//! thread that adds them. An owner that sleeps elsewhere at that moment is woken, and then
//! sleeps where the new events arrive.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use blitzen_util::shim::Mutex;
use mio::event::Source;

use blitzen_util::spin::Spin;
pub use blitzen_util::spin::SpinPermit;

use crate::park::{ParkState, ParkedIn};
use crate::poller::BUSY_EVENTS;
use crate::{Interest, Poller, Ready, Registration, Stream, shutdown_error};

#[cfg(blitzen_ring)]
use crate::ring::{Op, Operation, Refusal, Ring, RingConfig, reaper, socket};
#[cfg(blitzen_ring)]
use std::os::fd::AsFd;
#[cfg(blitzen_ring)]
use std::time::Instant;

/// The settings of a [`Driver`].
///
/// ```
/// use blitzen_driver::DriverConfig;
///
/// let config = DriverConfig { max_events: 256, ..DriverConfig::default() };
/// # assert!(config.spin.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// The most events that a turn takes in that may wait.
    pub max_events: usize,
    /// The most events a turn takes in that does not wait, since its worker has other
    /// work; 128 if not given, or `max_events` if that is less.
    pub max_busy_events: Option<usize>,
    /// The permit to spin before sleeping; `None` if the driver never spins.
    pub spin: Option<SpinPermit>,
    /// The settings of the ring; `None` if there is never to be one.
    #[cfg(blitzen_ring)]
    pub ring: Option<RingConfig>,
}

impl Default for DriverConfig {
    fn default() -> Self {
        Self {
            max_events: 1024,
            max_busy_events: None,
            spin: None,
            #[cfg(blitzen_ring)]
            ring: Some(RingConfig::default()),
        }
    }
}

/// One worker's poller, ring and park state.
///
/// ```
/// use std::time::Duration;
/// use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
///
/// let driver = Driver::new(DriverConfig::default());
/// driver.turn(Some(Duration::ZERO))?; // nothing to do: no system call
///
/// let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
/// let registration = driver.register(&mut socket, Interest::WRITABLE, Ready::EMPTY)?;
/// assert_eq!(driver.turn(None)?, 1);
/// # drop(registration);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Driver {
    park: Arc<ParkState>,
    poller: OnceLock<Arc<Poller>>,
    #[cfg(blitzen_ring)]
    ring: OnceLock<Result<Arc<Ring>, Refusal>>,
    /// Whether the driver was shut down. Locked while a poller or a ring is created.
    is_shut: Mutex<bool>,
    spin: Spin,
    config: DriverConfig,
}

impl Driver {
    /// Creates a driver that has neither poller nor ring yet.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// assert!(!driver.is_busy());
    /// ```
    pub fn new(config: DriverConfig) -> Self {
        Self {
            park: Arc::new(ParkState::new()),
            poller: OnceLock::new(),
            #[cfg(blitzen_ring)]
            ring: OnceLock::new(),
            is_shut: Mutex::new(false),
            spin: Spin::new(config.spin.clone()),
            config,
        }
    }

    /// Registers a source, as [`Poller::register`] does. Any thread may call it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
    /// let registration = driver.register(&mut socket, Interest::READABLE, Ready::EMPTY)?;
    /// assert!(driver.is_busy());
    /// # drop(registration);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the registration with the poller, or [`shutdown_error()`] after [`shutdown`](Self::shutdown).
    pub fn register(
        &self,
        source: &mut impl Source,
        interest: Interest,
        initially: Ready,
    ) -> io::Result<Registration> {
        let registration = self.poller()?.register(source, interest, initially)?;
        self.source_added();
        Ok(registration)
    }

    /// Registers a stream, as [`Poller::register_stream`] does. Any thread may call it.
    ///
    /// ```
    /// # use blitzen_driver::{Driver, DriverConfig, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// let (mut ours, theirs) = mio::net::UnixStream::pair()?;
    /// let registration = driver.register_stream(&mut ours, Ready::WRITABLE)?;
    /// assert!(driver.is_busy());
    /// # drop((registration, theirs));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn register_stream(
        &self,
        stream: &mut impl Stream,
        initially: Ready,
    ) -> io::Result<Registration> {
        let registration = self.poller()?.register_stream(stream, initially)?;
        self.source_added();
        Ok(registration)
    }

    /// Interrupts an owner that sleeps where no event of the new source wakes it.
    fn source_added(&self) {
        self.spin.note_source();
        if self.park.place_after_change() == Some(ParkedIn::Futex) {
            self.interrupt();
        }
    }

    /// Returns the poller, if something has needed it.
    ///
    /// ```
    /// use blitzen_driver::{Driver, DriverConfig};
    ///
    /// assert!(Driver::new(DriverConfig::default()).existing_poller().is_none());
    /// ```
    pub fn existing_poller(&self) -> Option<&Arc<Poller>> {
        self.poller.get()
    }

    /// Returns the worker's poller, and creates it if there is none.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// assert_eq!(driver.poller()?.sources(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the registration with the poller, or [`shutdown_error()`] after [`shutdown`](Self::shutdown).
    pub fn poller(&self) -> io::Result<&Arc<Poller>> {
        if let Some(poller) = self.poller.get() {
            return Ok(poller);
        }
        let shut = self.is_shut.lock();
        if *shut {
            return Err(shutdown_error());
        }
        if self.poller.get().is_none() {
            let busy = match self.config.max_busy_events {
                None => self.config.max_events.min(BUSY_EVENTS),
                Some(busy) => busy,
            };
            let poller = Poller::with_park_state(self.config.max_events, busy, self.park.clone())?;
            let _first = self.poller.set(Arc::new(poller));
        }
        drop(shut);
        Ok(self.poller.get().expect("just set"))
    }

    /// Takes events in and wakes the tasks that wait for them; waits if there are none, unless
    /// `max_wait` is zero. Returns the number of events.
    ///
    /// For the owner, one thread at a time. Returns at once if there was an
    /// [`interrupt`](Self::interrupt) since the last turn that could wait, and may return early
    /// for no reason. A worker without sources and operations makes no system call here unless
    /// it sleeps.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// driver.turn(Some(Duration::from_micros(50)))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the poller or the ring itself fails, for example because other
    /// code has closed its descriptor.
    pub fn turn(&self, max_wait: Option<Duration>) -> io::Result<usize> {
        self.turn_until(max_wait, &|| false)
    }

    /// Like [`turn`](Self::turn), but `is_over` can end the wait as well, as long as the
    /// owner spins. A sleeping owner does not call it: use
    /// [`interrupt`](Self::interrupt) to end a sleep.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig};
    /// let driver = Driver::new(DriverConfig::default());
    /// driver.turn_until(Some(Duration::from_micros(50)), &|| true)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the poller or the ring itself fails, for example because other
    /// code has closed its descriptor.
    pub fn turn_until(
        &self,
        max_wait: Option<Duration>,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<usize> {
        if max_wait == Some(Duration::ZERO) {
            return self.take_events();
        }
        let mut wait = self.spin.begin();
        let look = || self.take_events_while_spinning(is_over);
        if let Some(found) = self.spin.spin(&mut wait, max_wait, look) {
            self.spin.end(wait, *found.as_ref().unwrap_or(&0));
            return found;
        }
        let spent = wait.map_or(Duration::ZERO, |wait| wait.elapsed());
        match max_wait.map(|wait| wait.saturating_sub(spent)) {
            Some(Duration::ZERO) => {
                self.spin.end_timed_out(wait);
                Ok(0)
            }
            left => self.sleep(left, |events| match events {
                Some(events) => self.spin.end(wait, events),
                None => self.spin.end_timed_out(wait),
            }),
        }
    }

    /// Takes events in and wakes the tasks that wait for them, for an owner that is stuck. Any
    /// thread may call this. Returns the number of events.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// assert_eq!(driver.serve()?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the poller or the ring itself fails, for example because other
    /// code has closed its descriptor.
    pub fn serve(&self) -> io::Result<usize> {
        let mut found = 0;
        if let Some(poller) = self.poller.get()
            && poller.must_be_turned()
        {
            found += poller.try_turn()?;
        }
        Ok(found + self.rescue_ring()?)
    }

    /// Makes the turn that waits now, or else the next one that would, return
    /// at once. Costs a system call only if the owner really sleeps.
    ///
    /// ```
    /// use blitzen_driver::{Driver, DriverConfig};
    ///
    /// let driver = Driver::new(DriverConfig::default());
    /// driver.interrupt();
    /// driver.turn(None)?; // returns at once
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn interrupt(&self) {
        // An owner in the poller or the ring waits for the poller's waker. It has seen the poller,
        // and so does whoever has found it there.
        if self.park.unpark().is_some()
            && let Some(poller) = self.poller.get()
        {
            poller.wake_selector();
        }
    }

    /// Ends all waits for sources, refuses new sources and operations, and cancels the
    /// operations in flight. Waits until they have ended, at most `max_wait`, and returns
    /// how many have not.
    ///
    /// The owner calls this, or another thread when the owner no longer turns, but before the
    /// owner's thread ends. Operations that have not ended by then, such as zero-copy sends to
    /// a peer that does not read, are left to the reaper.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// assert_eq!(driver.shutdown(Duration::from_secs(1))?, 0);
    /// assert!(blitzen_driver::is_shutdown_error(&driver.poller().unwrap_err()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the ring itself fails.
    pub fn shutdown(&self, max_wait: Duration) -> io::Result<usize> {
        self.shutdown_sources();
        self.shut_ring(max_wait)
    }

    /// The part of [`shutdown`](Self::shutdown) that any thread may do at any
    /// time: ends all waits for sources, and refuses new sources and
    /// operations.
    ///
    /// ```
    /// # use blitzen_driver::{Driver, DriverConfig};
    /// let driver = Driver::new(DriverConfig::default());
    /// driver.shutdown_sources();
    /// assert!(blitzen_driver::is_shutdown_error(&driver.poller().unwrap_err()));
    /// ```
    pub fn shutdown_sources(&self) {
        *self.is_shut.lock() = true;
        if let Some(poller) = self.poller.get() {
            poller.shutdown();
        }
    }

    /// Whether there are sources or operations that another thread could serve if the
    /// owner were stuck. On Windows, sources that have ended count too: what was cancelled with
    /// them completes later.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// assert!(!driver.is_busy());
    /// ```
    pub fn is_busy(&self) -> bool {
        self.park_place() != ParkedIn::Futex
    }

    /// Returns where the owner has to park to be woken by everything that can come now.
    fn park_place(&self) -> ParkedIn {
        if self.is_ring_needed() {
            return ParkedIn::Ring;
        }
        match self.poller.get() {
            Some(poller) if poller.must_be_turned() => ParkedIn::Poller,
            _ => ParkedIn::Futex,
        }
    }

    /// Takes in events and completions, without waiting.
    fn take_events(&self) -> io::Result<usize> {
        let mut found = self.take_completions()?;
        if let Some(poller) = self.poller.get()
            && poller.must_be_turned()
        {
            found += poller.turn(Some(Duration::ZERO))?;
        }
        Ok(found)
    }

    /// Like [`take_events`](Self::take_events), while the owner spins; returns `None` if there
    /// was nothing, so that the owner goes on spinning.
    fn take_events_while_spinning(&self, is_over: &dyn Fn() -> bool) -> Option<io::Result<usize>> {
        let is_notified = self.park.is_notified() && self.park.end();
        if is_notified || is_over() {
            return Some(Ok(0));
        }
        match self.take_events() {
            Ok(0) => None,
            found => Some(found),
        }
    }

    /// Sleeps where events arrive. If it slept, it then calls `on_end` with the number of events, or
    /// `None` if the time was up.
    fn sleep(
        &self,
        max_wait: Option<Duration>,
        on_end: impl FnOnce(Option<usize>),
    ) -> io::Result<usize> {
        let Some(place) = self.park.begin_in(|| self.park_place()) else {
            return self.take_events();
        };
        let (was_notified, found) = match place {
            ParkedIn::Futex => {
                let parked = self.park.end_on_drop();
                self.park.wait(max_wait);
                (parked.end(), Ok(0))
            }
            ParkedIn::Poller => match self.poller.get() {
                Some(poller) => self.spin.sleep(|| poller.turn_parked(max_wait)),
                None => unreachable!("sources are in a poller"),
            },
            ParkedIn::Ring => self.spin.sleep(|| self.turn_ring_parked(max_wait)),
        };
        // The time of a wait that timed out does not count for the decision whether to spin.
        let events = *found.as_ref().unwrap_or(&0);
        let has_come = events > 0 || was_notified || found.is_err();
        on_end(has_come.then_some(events));
        found
    }
}

#[cfg(blitzen_ring)]
impl Driver {
    /// Queues an operation on the worker's ring. Any thread may call this.
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen_driver::ring::file::Stat;
    /// use blitzen_driver::{Driver, DriverConfig};
    ///
    /// let driver = Driver::new(DriverConfig::default());
    /// match driver.submit(Stat::path(c"/".into(), 0)) {
    ///     Ok(stat) => {
    ///         while driver.is_busy() {
    ///             driver.turn(None)?;
    ///         }
    ///         futures::executor::block_on(stat)?;
    ///     }
    ///     Err((_stat, refusal)) => println!("to the blocking pool, then: {refusal}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the operation if there is no ring.
    pub fn submit<T: Operation>(&self, operation: T) -> Result<Op<T>, (T, io::Error)> {
        let ring = match self.ring() {
            Ok(ring) => ring,
            Err(error) => return Err((operation, error)),
        };
        Ok(ring.submit(operation))
    }

    /// Returns the worker's ring, and creates it if there is none. Any thread may call this.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Driver, DriverConfig, Interest, Ready};
    /// let driver = Driver::new(DriverConfig::default());
    /// match driver.ring() {
    ///     Ok(ring) => assert_eq!(ring.in_flight(), 0),
    ///     Err(error) => println!("without: {error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error of kind [`Unsupported`](io::ErrorKind::Unsupported) if the system
    /// has no io_uring or forbids it; the error of creating the poller; or
    /// [`shutdown_error()`] after [`shutdown`](Self::shutdown).
    pub fn ring(&self) -> io::Result<&Arc<Ring>> {
        let made = match self.ring.get() {
            Some(made) => made,
            None => self.make_ring()?,
        };
        made.as_ref()
            .map_err(|refusal| io::Error::new(io::ErrorKind::Unsupported, refusal.to_string()))
    }

    #[cold]
    fn make_ring(&self) -> io::Result<&Result<Arc<Ring>, Refusal>> {
        let poller = self.poller()?.clone();
        let shut = self.is_shut.lock();
        if *shut {
            return Err(shutdown_error());
        }
        if self.ring.get().is_none() {
            let ring = match &self.config.ring {
                Some(config) => Ring::new(config, poller).map(Arc::new),
                None => Err(Refusal::Forbidden(io::Error::other(
                    "the runtime was built without",
                ))),
            };
            let ring = match ring {
                Err(refusal) if refusal.is_temporary() => return Err(refusal.into()),
                ring => ring,
            };
            let _first = self.ring.set(ring);
        }
        drop(shut);
        Ok(self.ring.get().expect("just set"))
    }

    fn existing_ring(&self) -> Option<&Arc<Ring>> {
        self.ring.get()?.as_ref().ok()
    }

    /// Whether operations of this worker are in flight.
    ///
    /// ```
    /// # use blitzen_driver::{Driver, DriverConfig};
    /// assert!(!Driver::new(DriverConfig::default()).has_operations());
    /// ```
    pub fn has_operations(&self) -> bool {
        self.existing_ring()
            .is_some_and(|ring| ring.in_flight() > 0)
    }

    fn take_completions(&self) -> io::Result<usize> {
        match self.existing_ring() {
            Some(ring) if ring.is_needed() => ring.turn(Some(Duration::ZERO)),
            _ => Ok(0),
        }
    }

    fn turn_ring_parked(&self, max_wait: Option<Duration>) -> (bool, io::Result<usize>) {
        match self.existing_ring() {
            Some(ring) => ring.turn_parked(max_wait),
            None => unreachable!("operations are in a ring"),
        }
    }

    fn rescue_ring(&self) -> io::Result<usize> {
        match self.existing_ring() {
            Some(ring) if ring.is_needed() => ring.rescue(),
            _ => Ok(0),
        }
    }

    fn is_ring_needed(&self) -> bool {
        self.existing_ring().is_some_and(|ring| ring.is_needed())
    }

    /// Adds a connected socket to the worker's ring. Any thread may call this.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_driver::{Driver, DriverConfig};
    ///
    /// let driver = Driver::new(DriverConfig::default());
    /// let (ours, _theirs) = std::os::unix::net::UnixStream::pair()?;
    /// ours.set_nonblocking(true)?;
    /// match driver.open_stream(Arc::new(ours)) {
    ///     Ok(stream) => assert_eq!(stream.unread(), 0),
    ///     Err(refusal) => println!("by readiness, then: {refusal}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`ring`](Self::ring).
    pub fn open_stream<S>(&self, socket: Arc<S>) -> io::Result<socket::RingStream>
    where
        S: AsFd + Send + Sync + 'static,
    {
        let ring = self.ring()?;
        let stream = ring.open_stream(socket)?;
        self.spin.note_source();
        ring.interrupt_parked(); // the ring is needed now
        Ok(stream)
    }

    /// Called when the owner leaves its thread and may not come back. Buffered bytes are sent
    /// now, and no more are buffered until the next turn.
    ///
    /// ```
    /// # use blitzen_driver::{Driver, DriverConfig};
    /// let driver = Driver::new(DriverConfig::default());
    /// driver.leave()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the ring itself fails.
    pub fn leave(&self) -> io::Result<()> {
        match self.existing_ring() {
            Some(ring) if ring.is_needed() => ring.release_owner(),
            _ => Ok(()),
        }
    }

    fn shut_ring(&self, max_wait: Duration) -> io::Result<usize> {
        let Some(ring) = self.existing_ring() else {
            return Ok(0);
        };
        ring.cancel_all();
        turn_until_idle(ring, max_wait)?;
        if ring.has_kernel_work() && !ring.only_reads_buffers() {
            // Sockets without room for the rest do not keep their descriptors open.
            ring.cancel_sends();
            turn_until_idle(ring, max_wait)?;
        }
        let unfinished = ring.in_flight();
        if ring.has_kernel_work() && ring.is_shared() {
            // If the system refuses a thread or a descriptor for that, the memory that the
            // kernel may still use is leaked with the ring.
            let _ = reaper::reap_in_background(ring.clone());
        }
        Ok(unfinished)
    }
}

/// Turns a ring until all operations have ended, or only those are left that the reaper can
/// wait for, but at most for `max_wait`.
#[cfg(blitzen_ring)]
fn turn_until_idle(ring: &Ring, max_wait: Duration) -> io::Result<()> {
    let end = Instant::now().checked_add(max_wait);
    while ring.has_kernel_work() && !(ring.is_shared() && ring.only_reads_buffers()) {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        ring.turn(left)?;
    }
    Ok(())
}

/// The same methods where there are no rings.
#[cfg(not(blitzen_ring))]
impl Driver {
    /// Returns false: there are no operations.
    ///
    /// ```
    /// # use blitzen_driver::{Driver, DriverConfig};
    /// assert!(!Driver::new(DriverConfig::default()).has_operations());
    /// ```
    pub fn has_operations(&self) -> bool {
        false
    }

    /// Does nothing: there is no ring.
    ///
    /// ```
    /// # use blitzen_driver::{Driver, DriverConfig};
    /// let driver = Driver::new(DriverConfig::default());
    /// driver.leave()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Never fails.
    pub fn leave(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_ring_needed(&self) -> bool {
        false
    }

    fn take_completions(&self) -> io::Result<usize> {
        Ok(0)
    }

    fn turn_ring_parked(&self, _max_wait: Option<Duration>) -> (bool, io::Result<usize>) {
        unreachable!("nobody parks where there is no ring")
    }

    fn rescue_ring(&self) -> io::Result<usize> {
        Ok(0)
    }

    fn shut_ring(&self, _max_wait: Duration) -> io::Result<usize> {
        Ok(0)
    }
}
