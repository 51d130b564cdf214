//! Which of many members were woken: a bit for each, one waker for them all.
//!
//! A future that waits for many others, the parent, gives each of them, its members,
//! a waker from [`WakeSet::waker`]. Its next poll polls only the members that were
//! woken, instead of all.
//!
//! ```text
//!   member:  set bit                   lock, take the parent's waker, wake it
//!   parent:  lock, store the waker     take the bits, poll those members
//! ```
//!
//! W1. Of the two locked steps one is first. If it is the member's, the parent
//!     sees the bit; if it is the parent's, the member finds the waker.
//! W2. Only the wake that sets a bit needs to wake the parent: until the bit
//!     is taken, that wake is on its way.

use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::shim::Mutex;
use crate::shim::atomic::AtomicU64;
use crate::shim::atomic::Ordering::{Acquire, Relaxed, Release};

/// How many members a word holds.
pub const WORD: usize = u64::BITS as usize;

/// The members of a parent future that were woken.
///
/// ```
/// use std::task::Waker;
/// use blitzen_util::wake_set::WakeSet;
///
/// let set = WakeSet::new(100);
/// set.register(Waker::noop());
/// assert_eq!(set.take(1), (1 << 36) - 1); // at first, all of them
///
/// set.waker(65).wake();
/// assert_eq!(set.take(0), u64::MAX);
/// assert_eq!(set.take(1), 1 << 1);
/// assert_eq!(set.take(1), 0);
/// ```
pub struct WakeSet {
    words: Box<[AtomicU64]>,
    parent: Mutex<Option<Waker>>,
}

impl WakeSet {
    /// Creates a set of `members` members, all of them woken.
    pub fn new(members: usize) -> Arc<Self> {
        let words = (0..members.div_ceil(WORD)).map(|word| {
            let surplus = ((word + 1) * WORD).saturating_sub(members);
            AtomicU64::new(u64::MAX >> surplus)
        });
        Arc::new(Self {
            words: words.collect(),
            parent: Mutex::new(None),
        })
    }

    /// How many words the bits are in.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Sets the waker of the parent, to be woken with any member. Must be called
    /// before [`take`](Self::take) (W1).
    pub fn register(&self, waker: &Waker) {
        let is_known = |known: &Waker| known.will_wake(waker);
        if self.parent.lock().as_ref().is_some_and(is_known) {
            return;
        }
        // Outside the lock: a waker is foreign code, also when it is cloned and dropped.
        let waker = waker.clone();
        let before = self.parent.lock().replace(waker);
        drop(before);
    }

    /// Takes the bits of a word.
    pub fn take(&self, word: usize) -> u64 {
        // Acquire, met by the Release in `wake`: the poll sees what was done before the wake.
        self.words[word].swap(0, Acquire)
    }

    /// Gives back bits of members that were taken but not polled. The caller sees to
    /// it that the parent is polled again.
    pub fn put_back(&self, word: usize, bits: u64) {
        // Relaxed: the parent has seen what was done before these wakes, and what comes between
        // belongs to its release sequence.
        self.words[word].fetch_or(bits, Relaxed);
    }

    /// Marks a member as woken, and wakes the parent.
    pub fn wake(&self, member: usize) {
        let bit = 1 << (member % WORD);
        // Release, met by the Acquire in `take`, also if the bit was set (W2).
        let before = self.words[member / WORD].fetch_or(bit, Release);
        if before & bit != 0 {
            return; // W2
        }
        // Outside the lock: a waker is foreign code.
        let parent = self.parent.lock().take();
        if let Some(waker) = parent {
            waker.wake();
        }
    }

    /// A waker for one member.
    pub fn waker(self: &Arc<Self>, member: usize) -> Waker {
        Waker::from(Arc::new(Member {
            set: self.clone(),
            member,
        }))
    }
}

impl fmt::Debug for WakeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeSet").finish_non_exhaustive()
    }
}

struct Member {
    set: Arc<WakeSet>,
    member: usize,
}

impl Wake for Member {
    fn wake(self: Arc<Self>) {
        self.set.wake(self.member);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set.wake(self.member);
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn every_member_is_woken_at_first() {
        for members in [0, 1, 63, 64, 65, 128, 130] {
            let set = WakeSet::new(members);
            let bits: u32 = (0..set.words())
                .map(|word| set.take(word).count_ones())
                .sum();
            assert_eq!(bits as usize, members);
        }
    }

    #[test]
    fn a_waker_that_is_replaced_may_wake_a_member_as_it_is_dropped() {
        struct WakesWhenDropped(Arc<WakeSet>);
        impl Wake for WakesWhenDropped {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for WakesWhenDropped {
            fn drop(&mut self) {
                self.0.wake(1);
            }
        }
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let set = WakeSet::new(3);
            set.take(0);
            set.register(&Arc::new(WakesWhenDropped(set.clone())).into());
            set.register(Waker::noop());
            done.send(set.take(0)).unwrap();
        });
        let woken = is_done.recv_timeout(std::time::Duration::from_secs(30));
        assert_eq!(woken, Ok(0b010), "stuck at the lock, or not woken");
    }

    #[test]
    fn the_parent_is_woken_once_for_many_wakes() {
        let count = Arc::new(Count::default());
        let set = WakeSet::new(3);
        set.take(0);
        set.register(&count.clone().into());
        let waker = set.waker(1);
        waker.wake_by_ref();
        waker.wake_by_ref();
        set.waker(2).wake();
        assert_eq!(count.0.load(Relaxed), 1);
        assert_eq!(set.take(0), 0b110);
        set.register(&count.clone().into());
        waker.wake();
        assert_eq!(count.0.load(Relaxed), 2);
    }

    #[test]
    fn bits_put_back_are_there_again() {
        let set = WakeSet::new(8);
        assert_eq!(set.take(0), 0xFF);
        set.put_back(0, 0xF0);
        assert_eq!(set.take(0), 0xF0);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    /// A member that is woken already is woken again.
    #[test]
    fn a_poll_sees_what_was_done_before_the_wakes_that_it_takes() {
        loom::model(|| {
            let set = WakeSet::new(1);
            let shared = Arc::new((UnsafeCell::new(0), AtomicBool::new(false)));
            let other = thread::spawn({
                let (set, shared) = (set.clone(), shared.clone());
                move || {
                    // SAFETY: the other thread reads it after this wake; loom says if not.
                    shared.0.with_mut(|done| unsafe { *done = 1 });
                    set.wake(0);
                    shared.1.store(true, Relaxed);
                }
            });
            while !shared.1.load(Relaxed) {
                thread::yield_now();
            }
            set.put_back(0, 1);
            assert_eq!(set.take(0), 1);
            // SAFETY: written before the wake that was taken; loom says if not.
            assert_eq!(shared.0.with(|done| unsafe { *done }), 1);
            other.join().unwrap();
        });
    }

    /// Two members are woken, one twice, while the parent polls.
    #[test]
    fn a_wake_is_seen_or_wakes_the_parent() {
        loom::model(|| {
            let set = WakeSet::new(2);
            set.take(0);
            let woken = Arc::new(Flag(AtomicBool::new(false)));
            let members: Vec<_> = (0..2)
                .map(|member| {
                    let set = set.clone();
                    thread::spawn(move || {
                        set.wake(member);
                        if member == 0 {
                            set.wake(member);
                        }
                    })
                })
                .collect();
            set.register(&woken.clone().into());
            let seen = set.take(0);
            for member in members {
                member.join().unwrap();
            }
            let left = set.take(0);
            assert_eq!(seen | left, 0b11, "no wake is lost");
            assert!(left == 0 || woken.0.load(Relaxed), "what was not seen woke");
        });
    }
}
