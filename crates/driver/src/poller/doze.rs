//! Whether the owner sleeps in the kernel, and the token that ends it.
//!
//! ```text
//!            interrupt                 interrupt: ring the bell
//!   AWAKE ─────────────► TOKEN ◄──────────────────────────────── ASLEEP
//!     ▲                    │                                       ▲
//!     └────────────────────┘                                       │
//!       begin, end: take it          AWAKE ── begin: may sleep ────┘
//! ```
//!
//! D1. Only the owner writes `ASLEEP`, and only over `AWAKE`; it leaves it
//!     again before anybody else may wait in the kernel.
//! D2. A token stays until the owner takes it, when it sleeps or would. Whoever gives one to a sleeper
//!     rings the bell, which the kernel keeps until it is heard: so it does not
//!     matter whether the owner has reached the kernel yet.
//! D3. The bell may ring once more than needed, if the owner woke by itself
//!     between the token and the bell. It never rings once less.

use blitzen_util::pad::Padded;
use blitzen_util::shim::atomic::AtomicU32;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const TOKEN: u32 = 2;

/// The word between a sleeper and those who wake it.
#[derive(Debug)]
pub(crate) struct Doze(Padded<AtomicU32>);

impl Doze {
    pub(crate) fn new() -> Self {
        Self(Padded(AtomicU32::new(AWAKE)))
    }

    /// The owner wants to sleep: false, and the token taken, if there is one.
    pub(crate) fn begin(&self) -> bool {
        match self.0.compare_exchange(AWAKE, ASLEEP, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(_) => {
                self.end();
                false
            }
        }
    }

    /// The owner is awake again; takes a token that came in the meantime.
    pub(crate) fn end(&self) -> bool {
        // A swap, never a store: a token just given must not be overwritten
        // unseen. Acquire, met by the Release in `give`.
        self.0.swap(AWAKE, Acquire) == TOKEN
    }

    /// Gives the token; true if the owner sleeps and the bell must be rung.
    #[must_use = "a sleeper hears only the bell"]
    pub(crate) fn give(&self) -> bool {
        // Release, met by the Acquire in `end`: what was written before the
        // token is seen after it. Acquire only to keep the chain through an
        // earlier token.
        self.0.swap(TOKEN, AcqRel) == ASLEEP
    }

    /// Whether the owner sleeps, or is just about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.0.load(Relaxed) == ASLEEP
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::atomic::AtomicUsize;
    use blitzen_util::shim::{Arc, Condvar, Mutex, thread};

    /// The kernel's part: sleeps until the bell has rung since the last time.
    #[derive(Default)]
    struct Bell {
        rung: Mutex<bool>,
        heard: Condvar,
    }

    impl Bell {
        fn ring(&self) {
            *self.rung.lock() = true;
            self.heard.notify_one();
        }

        fn wait(&self) {
            let mut rung = self.rung.lock();
            while !*rung {
                rung = self.heard.wait(rung);
            }
            *rung = false;
        }
    }

    struct Worker {
        doze: Doze,
        bell: Bell,
        queue: AtomicUsize,
    }

    impl Worker {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                doze: Doze::new(),
                bell: Bell::default(),
                queue: AtomicUsize::new(0),
            })
        }

        fn push(&self) {
            self.queue.fetch_add(1, Relaxed);
            if self.doze.give() {
                self.bell.ring();
            }
        }

        fn turn(&self) {
            if self.doze.begin() {
                self.bell.wait();
                self.doze.end();
            }
        }
    }

    #[test]
    fn an_interrupt_against_going_to_sleep_is_never_lost() {
        loom::model(|| {
            let worker = Worker::new();
            let other = thread::spawn({
                let worker = worker.clone();
                move || worker.push()
            });
            // Sleeps at most once for nothing: the token is for it alone.
            while worker.queue.load(Relaxed) == 0 {
                worker.turn();
            }
            other.join().unwrap();
        });
    }

    #[test]
    fn two_interrupts_and_a_sleeper_that_wakes_by_itself() {
        loom::model(|| {
            let worker = Worker::new();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let worker = worker.clone();
                    thread::spawn(move || worker.push())
                })
                .collect();
            // A sleep that ends without the bell, as one by a timeout does.
            if worker.doze.begin() {
                worker.doze.end();
            }
            while worker.queue.load(Relaxed) < 2 {
                worker.turn();
            }
            for other in others {
                other.join().unwrap();
            }
        });
    }
}
