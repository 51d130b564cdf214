//! Where a worker is parked, and the token that unparks it: one word, whether it
//! sleeps on the word itself, in its poller or in its ring.
//!
//! ```text
//!             unpark                        unpark: wake it there
//!   AWAKE ─────────────► NOTIFIED ◄────────────────────────────── parked in …
//!     ▲                     │                                          ▲
//!     └─────────────────────┘                    AWAKE ─── begin ──────┘
//!           begin, end
//! ```
//!
//! B1. Only the owner writes where it is parked, and only over `AWAKE`. It leaves
//!     that state as soon as it has returned from the kernel, before it wakes any task:
//!     from then on a thread that unparks it makes no system call.
//! B2. A token stays until the owner takes it, when it parks or would park. A thread
//!     that gives a token to a parked owner wakes it. In the poller or the ring that is
//!     an event of the poller's waker, which the kernel keeps until a thread takes it:
//!     so it does not matter whether the owner has reached the kernel yet. There may be
//!     one event too many, if the owner woke by itself; never one too few.
//! B3. A thread that serves a poller for its owner may take an event of the waker that
//!     was meant for the owner. It wakes the owner again, unless the owner is awake.
//! B4. The right place depends on what there is to wait for, which others change.
//!     Both sides write one word and read the other's:
//!
//! ```text
//!   owner:   word = place          fence   is the place still right?
//!   others:  there is a source     fence   where is the owner parked?
//! ```
//!
//! One fence is first. If it is the owner's, the others find the owner in the wrong
//! place and unpark it. If it is theirs, the owner finds the source and parks
//! elsewhere.

use std::time::Duration;

use blitzen_util::futex::Futex;
use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use blitzen_util::shim::atomic::fence;

/// Where an owner is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ParkedIn {
    /// On the futex: only a token can wake it.
    Futex = 2,
    /// In the poller: events of sources wake it too.
    Poller = 3,
    /// In the ring, which watches the poller: everything wakes it.
    Ring = 4,
}

const AWAKE: u32 = 0;
const NOTIFIED: u32 = 1;

impl ParkedIn {
    fn from_word(word: u32) -> Option<Self> {
        [Self::Futex, Self::Poller, Self::Ring]
            .into_iter()
            .find(|&place| place as u32 == word)
    }
}

/// Where an owner is parked, and its token.
#[derive(Debug)]
pub(crate) struct ParkState(Padded<Futex>);

impl ParkState {
    pub(crate) fn new() -> Self {
        Self(Padded(Futex::new(AWAKE)))
    }

    /// Marks the owner as parked in `place`. If there is a token, takes it and returns
    /// false.
    pub(crate) fn begin(&self, place: ParkedIn) -> bool {
        let word = self.0.word();
        // Release, met by the Acquire in `unpark`.
        let begun = word.compare_exchange(AWAKE, place as u32, Release, Relaxed);
        if begun.is_err() {
            self.end();
        }
        begun.is_ok()
    }

    /// Marks the owner as parked in the place that `choose` returns, and returns the
    /// place (B4). If there is a token, takes it and returns `None`.
    pub(crate) fn begin_in(&self, choose: impl Fn() -> ParkedIn) -> Option<ParkedIn> {
        loop {
            let place = choose();
            if !self.begin(place) {
                return None;
            }
            fence(SeqCst); // B4
            if choose() == place {
                return Some(place);
            }
            if self.end() {
                return None;
            }
        }
    }

    /// Marks the owner as awake; returns true if it takes a token.
    pub(crate) fn end(&self) -> bool {
        // A swap, never a store (B2). Acquire, met by the Release in `unpark`.
        self.0.word().swap(AWAKE, Acquire) == NOTIFIED
    }

    /// Returns a guard that ends the park when it is dropped, also by a panic: an owner
    /// that is awake must not be woken.
    pub(crate) fn end_on_drop(&self) -> EndPark<'_> {
        EndPark(self)
    }

    /// Whether there is a token.
    pub(crate) fn is_notified(&self) -> bool {
        self.0.word().load(Relaxed) == NOTIFIED
    }

    /// Whether the owner is parked in `place`, or just about to be.
    pub(crate) fn is_parked_in(&self, place: ParkedIn) -> bool {
        self.0.word().load(Relaxed) == place as u32
    }

    /// Whether the owner may be waiting for an event of the waker that another thread
    /// has taken (B3).
    pub(crate) fn may_wait_for_waker(&self) -> bool {
        // Relaxed: the token was given before the event was posted, and the kernel
        // orders the two for the thread that takes the event.
        self.0.word().load(Relaxed) != AWAKE
    }

    /// Sleeps on the futex, if the owner is parked there.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        self.0.wait(ParkedIn::Futex as u32, timeout);
    }

    /// Gives the token, and wakes an owner that is parked on the futex. If it is parked
    /// elsewhere, returns where the caller has to wake it.
    #[must_use = "an owner in the kernel waits for the poller's waker"]
    pub(crate) fn unpark(&self) -> Option<ParkedIn> {
        // Release, met by the Acquire in `end`: what was written before is seen
        // after. Every change of the word is a read-modify-write, so the release of
        // an earlier token goes on through this one.
        let place = ParkedIn::from_word(self.0.word().swap(NOTIFIED, Release))?;
        match place {
            ParkedIn::Futex => {
                self.0.wake_one();
                None
            }
            place => {
                // Acquire, met by the Release in `begin`: the caller sees the poller in which the
                // owner has parked, whoever made it.
                fence(Acquire);
                Some(place)
            }
        }
    }

    /// Returns where the owner is parked, for a thread that has added a source or an
    /// operation (B4).
    pub(crate) fn place_after_change(&self) -> Option<ParkedIn> {
        fence(SeqCst); // B4
        ParkedIn::from_word(self.0.word().load(Relaxed))
    }
}

/// See [`ParkState::end_on_drop`].
pub(crate) struct EndPark<'a>(&'a ParkState);

impl EndPark<'_> {
    /// Ends the park now; returns true if the owner takes a token.
    pub(crate) fn end(self) -> bool {
        let state = self.0;
        std::mem::forget(self);
        state.end()
    }
}

impl Drop for EndPark<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::waker_event::WakerEvent;
    use blitzen_util::shim::atomic::{AtomicBool, AtomicUsize};
    use blitzen_util::shim::{Arc, thread};

    struct Worker {
        park: ParkState,
        event: WakerEvent,
        sources: AtomicUsize,
        queue: AtomicUsize,
    }

    impl Worker {
        fn new(sources: usize) -> Arc<Self> {
            Arc::new(Self {
                park: ParkState::new(),
                event: WakerEvent::default(),
                sources: AtomicUsize::new(sources),
                queue: AtomicUsize::new(0),
            })
        }

        fn place(&self) -> ParkedIn {
            match self.sources.load(Relaxed) {
                0 => ParkedIn::Futex,
                _ => ParkedIn::Poller,
            }
        }

        fn unpark(&self) {
            if self.park.unpark().is_some() {
                self.event.post();
            }
        }

        fn push(&self) {
            self.queue.fetch_add(1, Relaxed);
            self.unpark();
        }

        /// Parks once, until a token or an event comes; returns where it parked.
        fn park(&self) -> Option<ParkedIn> {
            let place = self.park.begin_in(|| self.place())?;
            match place {
                ParkedIn::Futex => self.park.wait(None),
                _ => self.event.wait(),
            }
            self.park.end();
            Some(place)
        }
    }

    #[test]
    fn a_source_that_comes_while_the_owner_parks_gets_it_into_the_poller() {
        loom::model(|| {
            let worker = Worker::new(0);
            let other = thread::spawn({
                let worker = worker.clone();
                move || {
                    worker.sources.fetch_add(1, Relaxed);
                    if worker.park.place_after_change() == Some(ParkedIn::Futex) {
                        worker.unpark();
                    }
                }
            });
            // If the change is missed, the owner sleeps on the word for ever.
            loop {
                let place = worker.park.begin_in(|| worker.place());
                if place == Some(ParkedIn::Poller) {
                    break;
                }
                if place.is_some() {
                    worker.park.wait(None);
                    worker.park.end();
                }
            }
            other.join().unwrap();
        });
    }

    #[test]
    fn a_token_is_never_lost_wherever_the_owner_is_parked() {
        for sources in [0, 1] {
            loom::model(move || {
                let worker = Worker::new(sources);
                let other = thread::spawn({
                    let worker = worker.clone();
                    move || worker.push()
                });
                // Parks at most once for nothing: the token is for it alone.
                while worker.queue.load(Relaxed) == 0 {
                    worker.park();
                }
                other.join().unwrap();
            });
        }
    }

    #[test]
    fn whoever_finds_the_owner_in_the_poller_sees_that_there_is_one() {
        loom::model(|| {
            let park = Arc::new(ParkState::new());
            let has_poller = Arc::new(AtomicBool::new(false));
            let maker = thread::spawn({
                let has_poller = has_poller.clone();
                move || has_poller.store(true, Release)
            });
            let giver = thread::spawn({
                let (park, has_poller) = (park.clone(), has_poller.clone());
                move || {
                    if park.unpark() == Some(ParkedIn::Poller) {
                        assert!(has_poller.load(Relaxed), "or nobody wakes the owner");
                    }
                }
            });
            if has_poller.load(Acquire) {
                park.begin(ParkedIn::Poller);
            }
            maker.join().unwrap();
            giver.join().unwrap();
        });
    }

    #[test]
    fn two_tokens_and_an_owner_that_wakes_by_itself() {
        loom::model(|| {
            let worker = Worker::new(1);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let worker = worker.clone();
                    thread::spawn(move || worker.push())
                })
                .collect();
            // A park that ends without an event, as one by a timeout does.
            if worker.park.begin(ParkedIn::Poller) {
                worker.park.end();
            }
            while worker.queue.load(Relaxed) < 2 {
                worker.park();
            }
            for other in others {
                other.join().unwrap();
            }
        });
    }

    #[test]
    fn an_event_that_another_thread_takes_still_reaches_the_owner() {
        loom::model(|| {
            let worker = Worker::new(1);
            let pusher = thread::spawn({
                let worker = worker.clone();
                move || worker.push()
            });
            let server = thread::spawn({
                let worker = worker.clone();
                move || {
                    if worker.event.take() && worker.park.may_wait_for_waker() {
                        worker.event.post(); // B3
                    }
                }
            });
            while worker.queue.load(Relaxed) == 0 {
                worker.park();
            }
            pusher.join().unwrap();
            server.join().unwrap();
        });
    }
}
