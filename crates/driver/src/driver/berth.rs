//! Where a worker sleeps, in one word that it sleeps on itself if it has no
//! better place.
//!
//! ```text
//!             interrupt                  interrupt: wake it there
//!   AWAKE ─────────────► TOKEN ◄─────────────────────────────────── a place
//!     ▲                    │                                            ▲
//!     └────────────────────┘                        AWAKE ── turn in ───┘
//!       turn in, get up
//! ```
//!
//! B1. Only the owner writes a place, and only over `AWAKE`.
//! B2. A token stays until the owner takes it, when it sleeps or would.
//! B3. The right place depends on what there is to wait for, which others
//!     change. Both sides write one word and read the other's:
//!
//! ```text
//!   owner:   word = place          fence   is the place still right?
//!   others:  there is a source     fence   where does the owner sleep?
//! ```
//!
//! One fence is first. If the owner's, the others find it in the wrong place
//! and interrupt it; if theirs, the owner finds the source and moves.

use std::time::Duration;

use blitzen_util::futex::Futex;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use blitzen_util::shim::atomic::fence;

/// A place to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Place {
    /// On the word: nothing but an interrupt can come.
    Word = 2,
    /// In the poller: events of sources can come.
    Poller = 3,
    /// In the ring, which watches the poller: everything can come.
    Ring = 4,
}

const AWAKE: u32 = 0;
const TOKEN: u32 = 1;

impl Place {
    fn from_word(word: u32) -> Option<Self> {
        [Self::Word, Self::Poller, Self::Ring]
            .into_iter()
            .find(|&place| place as u32 == word)
    }
}

/// The word.
#[derive(Debug)]
pub(super) struct Berth(Futex);

impl Berth {
    pub(super) fn new() -> Self {
        Self(Futex::new(AWAKE))
    }

    /// The owner wants to sleep in the place that `choose` names: says where,
    /// once that is settled (B3), or `None` if there was a token, now taken.
    pub(super) fn turn_in(&self, choose: impl Fn() -> Place) -> Option<Place> {
        loop {
            let place = choose();
            let word = self.0.word();
            let asleep = word.compare_exchange(AWAKE, place as u32, Relaxed, Relaxed);
            if asleep.is_err() {
                self.get_up();
                return None;
            }
            fence(SeqCst); // B3
            if choose() == place {
                return Some(place);
            }
            if self.get_up() {
                return None;
            }
        }
    }

    /// The owner is awake; true if it takes a token with it.
    pub(super) fn get_up(&self) -> bool {
        // A swap, never a store (B2). Acquire, met by the Release in
        // `interrupt`.
        self.0.word().swap(AWAKE, Acquire) == TOKEN
    }

    /// Whether there is a token.
    pub(super) fn has_token(&self) -> bool {
        self.0.word().load(Relaxed) == TOKEN
    }

    /// Sleeps on the word, if that is the place.
    pub(super) fn sleep_here(&self, timeout: Option<Duration>) {
        self.0.wait(Place::Word as u32, timeout);
    }

    /// Gives the token. The owner may have to be woken in the place returned;
    /// if that is the word it has been.
    pub(super) fn interrupt(&self) -> Option<Place> {
        // Release, met by the Acquire in `get_up`: what was written before is
        // seen after. Acquire only to keep the chain through earlier tokens.
        let place = Place::from_word(self.0.word().swap(TOKEN, AcqRel));
        if place == Some(Place::Word) {
            self.0.wake_one();
        }
        place
    }

    /// Where the owner sleeps, for one that has changed what there is to wait
    /// for (B3).
    pub(super) fn place_after_change(&self) -> Option<Place> {
        fence(SeqCst); // B3
        Place::from_word(self.0.word().load(Relaxed))
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::atomic::AtomicUsize;
    use blitzen_util::shim::{Arc, thread};

    struct Worker {
        berth: Berth,
        sources: AtomicUsize,
        queue: AtomicUsize,
    }

    impl Worker {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                berth: Berth::new(),
                sources: AtomicUsize::new(0),
                queue: AtomicUsize::new(0),
            })
        }

        fn place(&self) -> Place {
            match self.sources.load(Relaxed) {
                0 => Place::Word,
                _ => Place::Poller,
            }
        }

        /// Sleeps once; the place.
        fn turn(&self) -> Option<Place> {
            let place = self.berth.turn_in(|| self.place());
            if place == Some(Place::Word) {
                self.berth.sleep_here(None);
            }
            if place.is_some() {
                self.berth.get_up();
            }
            place
        }
    }

    #[test]
    fn a_source_that_comes_while_the_owner_turns_in_gets_it_into_the_poller() {
        loom::model(|| {
            let worker = Worker::new();
            let other = thread::spawn({
                let worker = worker.clone();
                move || {
                    worker.sources.fetch_add(1, Relaxed);
                    if worker.berth.place_after_change() == Some(Place::Word) {
                        worker.berth.interrupt();
                    }
                }
            });
            // If the change is missed, the owner sleeps on the word for ever.
            while worker.turn() != Some(Place::Poller) {}
            other.join().unwrap();
        });
    }

    #[test]
    fn an_interrupt_is_never_lost_wherever_the_owner_sleeps() {
        loom::model(|| {
            let worker = Worker::new();
            let other = thread::spawn({
                let worker = worker.clone();
                move || {
                    worker.queue.fetch_add(1, Relaxed);
                    worker.berth.interrupt();
                }
            });
            while worker.queue.load(Relaxed) == 0 {
                worker.turn();
            }
            other.join().unwrap();
        });
    }
}
