//! The readiness of one source in one word.
//!
//! ```text
//!   63          32 31        8    7     6    5       0
//!   │ generation  │   tick    │ free │ shut │  ready  │
//! ```
//!
//! W1. Only `retire` changes the generation; an event that carries another one
//!     changes nothing. So an event may arrive after its source has ended.
//! W2. Every event moves the tick, and a clear acts only if the tick is the one
//!     its reader saw. So a read that found nothing never clears an event that came
//!     after it.
//! W3. Once `shut` is set, only `retire` changes the word.

use blitzen_util::field::Field;
use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::Ready;

const READY: Field = Field::new(0, 6);
const SHUT: Field = Field::new(6, 1);
const TICK: Field = Field::new(8, 24);
const GENERATION: Field = Field::new(32, 32);

const _: () = assert!(Ready::ALL.bits() as u64 <= READY.max());

/// Readiness as it was at one moment.
///
/// A wait returns it. Passing it to
/// [`clear_readiness`](crate::Registration::clear_readiness) clears exactly the
/// readiness that the waiter knew, and nothing that was reported since.
///
/// ```
/// # use std::sync::Arc;
/// # use blitzen_driver::{Interest, Poller, Ready};
/// # let poller = Arc::new(Poller::new(16)?);
/// # let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
/// let registration = poller.register(&mut socket, Interest::WRITABLE, Ready::EMPTY)?;
/// poller.turn(None)?;
/// let event = registration.ready_now(Interest::WRITABLE);
/// assert!(event.ready().is_writable() && !event.is_shutdown());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyEvent {
    ready: Ready,
    tick: u32,
    shut: bool,
}

impl ReadyEvent {
    /// Returns what the source was ready for, within the interest of the wait.
    pub fn ready(self) -> Ready {
        self.ready
    }

    /// Whether the driver has been shut down: no event will come any more.
    pub fn is_shutdown(self) -> bool {
        self.shut
    }

    /// Returns the same event with another readiness, to clear a part of it.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # use std::sync::Arc;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// # let poller = Arc::new(Poller::new(16)?);
    /// # let (mut ours, mut theirs) = mio::net::UnixStream::pair()?;
    /// # let both = Interest::READABLE | Interest::WRITABLE;
    /// # let mut registration = poller.register(&mut ours, both, Ready::EMPTY)?;
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// poller.turn(None)?;
    /// let event = registration.ready_now(Interest::READABLE | Interest::WRITABLE);
    /// registration.clear_readiness(event.with_ready(Ready::WRITABLE));
    /// assert!(registration.ready_now(Interest::WRITABLE).ready().is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with_ready(self, ready: Ready) -> Self {
        Self { ready, ..self }
    }
}

/// A copy of the word.
#[derive(Clone, Copy)]
pub(crate) struct ReadinessSnapshot(u64);

impl ReadinessSnapshot {
    fn ready(self) -> Ready {
        Ready::from_bits(READY.get(self.0) as u8)
    }

    pub(crate) fn generation(self) -> u32 {
        GENERATION.get(self.0) as u32
    }

    pub(crate) fn is_shut(self) -> bool {
        SHUT.get(self.0) != 0
    }

    /// Returns the event of the readiness within `mask`, which may be empty.
    pub(crate) fn event(self, mask: Ready) -> ReadyEvent {
        ReadyEvent {
            ready: self.ready() & mask,
            tick: TICK.get(self.0) as u32,
            shut: self.is_shut(),
        }
    }

    /// Returns [`event`](Self::event), if it ends a wait: if it is not empty, or the
    /// driver has shut down.
    pub(crate) fn wait_event(self, mask: Ready) -> Option<ReadyEvent> {
        let event = self.event(mask);
        (event.shut || !event.ready.is_empty()).then_some(event)
    }

    fn with_ready(self, ready: Ready) -> Self {
        Self(READY.set(self.0, ready.bits().into()))
    }

    fn next_tick(self) -> Self {
        let tick = (TICK.get(self.0) + 1) & TICK.max();
        Self(TICK.set(self.0, tick))
    }
}

/// The atomic word.
#[derive(Debug)]
pub(crate) struct ReadinessWord(AtomicU64);

impl ReadinessWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn load(&self) -> ReadinessSnapshot {
        // Acquire, met by the Release of the update: a system call that depends on
        // this value is not made before it was read.
        ReadinessSnapshot(self.0.load(Acquire))
    }

    /// Begins a source. Only the caller uses the slot.
    pub(crate) fn open(&self, initially: Ready) -> ReadinessSnapshot {
        self.update(|word| Some(word.with_ready(initially)))
            .unwrap_or_else(|word| word)
    }

    /// Adds `ready`, an event of `generation`; returns `None` if it came too late
    /// (W1).
    pub(crate) fn post(
        &self,
        is_current: impl Fn(u32) -> bool,
        ready: Ready,
    ) -> Option<ReadinessSnapshot> {
        let posted = self.update(
            |word| match is_current(word.generation()) && !word.is_shut() {
                true => Some(word.with_ready(word.ready() | ready).next_tick()),
                false => None,
            },
        );
        posted.ok()
    }

    /// Clears the readiness of `event`, unless another event has come since (W2, W3).
    pub(crate) fn clear(&self, event: ReadyEvent) {
        let _nothing_to_clear = self.update(|word| {
            let now = word.event(event.ready);
            let clears = now.tick == event.tick && !now.shut && !now.ready.is_empty();
            clears.then(|| word.with_ready(word.ready() - event.ready))
        });
    }

    /// Marks the driver as shut down: every attempt is made, and every wait fails.
    pub(crate) fn shut(&self) -> ReadinessSnapshot {
        self.update(|word| {
            Some(ReadinessSnapshot(
                SHUT.set(word.with_ready(Ready::ALL).0, 1),
            ))
        })
        .unwrap_or_else(|word| word)
    }

    /// Ends a source: events that still carry its generation are ignored.
    pub(crate) fn retire(&self) {
        let _always = self.update(|word| {
            let next = word.generation().wrapping_add(1);
            Some(ReadinessSnapshot(GENERATION.set(0, next.into())))
        });
    }

    /// The one compare-exchange loop; returns the new word, or the old one if `next`
    /// returns `None`.
    fn update(
        &self,
        mut next: impl FnMut(ReadinessSnapshot) -> Option<ReadinessSnapshot>,
    ) -> Result<ReadinessSnapshot, ReadinessSnapshot> {
        let mut word = self.load();
        loop {
            let Some(new) = next(word) else {
                return Err(word);
            };
            // AcqRel, met by `load` and by the next update: the changes of a
            // word form one chain. Relaxed if it fails: either the next try acquires, or
            // `next` changes nothing and nobody uses what the word says.
            match self.0.compare_exchange_weak(word.0, new.0, AcqRel, Relaxed) {
                Ok(_) => return Ok(new),
                Err(now) => word = ReadinessSnapshot(now),
            }
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn any(_: u32) -> bool {
        true
    }

    #[test]
    fn a_clear_leaves_what_came_after_the_look() {
        let word = ReadinessWord::new();
        word.open(Ready::EMPTY);
        word.post(any, Ready::READABLE);
        let seen = word.load().event(Ready::READABLE);
        word.post(any, Ready::READABLE);
        word.clear(seen);
        assert_eq!(word.load().ready(), Ready::READABLE);
        word.clear(word.load().event(Ready::READABLE));
        assert_eq!(word.load().ready(), Ready::EMPTY);
    }

    #[test]
    fn a_clear_takes_only_what_it_names() {
        let word = ReadinessWord::new();
        word.open(Ready::READABLE | Ready::WRITABLE);
        word.clear(word.load().event(Ready::READABLE));
        assert_eq!(word.load().ready(), Ready::WRITABLE);
    }

    #[test]
    fn the_tick_wraps_without_touching_its_neighbours() {
        let last_tick = TICK.set(0, TICK.max());
        let word = ReadinessWord(AtomicU64::new(GENERATION.set(last_tick, 7)));
        let generation = word.open(Ready::EMPTY).generation();
        word.post(any, Ready::WRITABLE);
        let now = word.load();
        assert_eq!(now.event(Ready::ALL).tick, 0);
        assert_eq!(now.generation(), generation);
        assert_eq!(now.ready(), Ready::WRITABLE);
    }

    #[test]
    fn an_event_of_an_earlier_generation_changes_nothing() {
        let word = ReadinessWord::new();
        let old = word.open(Ready::EMPTY).generation();
        word.retire();
        let new = word.open(Ready::EMPTY).generation();
        assert_ne!(old, new);
        assert!(word.post(|g| g == old, Ready::READABLE).is_none());
        assert!(word.load().wait_event(Ready::ALL).is_none());
    }

    #[test]
    fn nothing_but_retiring_changes_a_word_that_is_shut() {
        let word = ReadinessWord::new();
        word.open(Ready::EMPTY);
        word.shut();
        let seen = word.load().event(Ready::ALL);
        assert!(seen.is_shutdown() && seen.ready() == Ready::ALL);
        word.clear(seen);
        assert!(word.post(any, Ready::READABLE).is_none());
        assert_eq!(word.load().event(Ready::ALL), seen);
        word.retire();
        assert!(!word.load().is_shut());
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{AccessCheck, Arc, thread};

    /// The task that the second event wakes clears both: a read that it tries before must find what
    /// came with the first.
    #[test]
    fn the_second_of_two_events_passes_on_what_came_before_the_first() {
        loom::model(|| {
            let shared = Arc::new((ReadinessWord::new(), AccessCheck::new()));
            let post = |word: &ReadinessWord| word.post(|_| true, Ready::READABLE).unwrap();
            let second = thread::spawn({
                let shared = shared.clone();
                move || {
                    let posted = post(&shared.0);
                    if posted.event(Ready::READABLE).tick == 2 {
                        shared.1.read();
                    }
                }
            });
            shared.1.write();
            post(&shared.0);
            second.join().unwrap();
        });
    }
}
