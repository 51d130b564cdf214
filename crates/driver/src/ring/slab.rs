//! Operations in flight, by the token the kernel keeps of them.
//!
//! ```text
//!            sent                  the kernel's last word
//!   Queued ────────► Running ───────────────────────────────► Done ──► free
//!     │                 │ the future is dropped                  taken
//!     ▼ dropped         ▼              the kernel's last word
//!    free            Abandoned(payload) ──────────────────────► free
//! ```
//!
//! K1. A payload (buffers, paths, a reference to the file) lives until the
//!     kernel's last word on its operation: in the future, or, once that is
//!     dropped, in here.
//! K2. A token carries its slot's generation. Only the kernel's last word, or
//!     the withdrawal of an operation it never saw, makes the slot free; so a
//!     token in the kernel always names a live operation.

use std::io;
use std::task::Waker;

/// The payload of an operation whose future is gone.
pub(super) trait AbandonedPayload: Send {
    /// The operation has ended with `result`.
    fn finish(self: Box<Self>, result: io::Result<u32>);
}

/// Names an operation; what the kernel gets to keep of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpToken(u64);

impl OpToken {
    fn new(index: usize, generation: u32) -> Self {
        Self(index as u64 | u64::from(generation) << 32)
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

enum State {
    Free,
    Queued(Option<Waker>),
    Running {
        waker: Option<Waker>,
        /// What a first word said, when the kernel announced another.
        early: Option<i32>,
    },
    Abandoned {
        payload: Box<dyn AbandonedPayload>,
        early: Option<i32>,
        /// Shall go on to its end.
        detached: bool,
    },
    Done(i32),
}

struct Slot {
    generation: u32,
    state: State,
}

/// All operations of one ring; behind its lock.
#[derive(Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free: Vec<usize>,
    live: usize,
}

/// What is to be done, after the lock, about a word from the kernel.
pub(super) enum Ended {
    /// Somebody waits.
    Wake(Waker),
    /// Nobody is left: this is the end of the payload.
    Finish(Box<dyn AbandonedPayload>, i32),
    /// Nothing.
    Nothing,
}

/// What became of an operation whose future was dropped.
pub(super) enum OnDrop {
    /// The kernel never saw it.
    Withdrawn,
    /// It had ended already.
    Ended(i32),
    /// The kernel has it.
    Running,
}

impl Slab {
    /// Operations that have not ended.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn insert(&mut self) -> OpToken {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.slots.len();
            assert!(index < 1 << 31, "two thousand million operations in flight");
            let (generation, state) = (0, State::Free);
            self.slots.push(Slot { generation, state });
            self.free.reserve(self.slots.len()); // ending one never allocates
            index
        });
        self.live += 1;
        let slot = &mut self.slots[index];
        slot.state = State::Queued(None);
        OpToken::new(index, slot.generation)
    }

    /// An operation that ends before it begins.
    pub(super) fn insert_ended(&mut self, result: i32) -> OpToken {
        let token = self.insert();
        self.live -= 1;
        self.slots[token.index()].state = State::Done(result);
        token
    }

    /// The operation goes to the kernel; false if it has been withdrawn.
    pub(super) fn submit(&mut self, token: OpToken) -> bool {
        let Some(slot) = self.get(token) else {
            return false;
        };
        if let State::Queued(waker) = &mut slot.state {
            let waker = waker.take();
            let early = None;
            slot.state = State::Running { waker, early };
        }
        true
    }

    /// A word from the kernel; `more` if it announces another.
    pub(super) fn complete(&mut self, token: OpToken, result: i32, more: bool) -> Ended {
        let slot = self
            .get(token)
            .expect("K2: the kernel names a live operation");
        let (State::Running { early, .. } | State::Abandoned { early, .. }) = &mut slot.state
        else {
            unreachable!("the kernel's last word comes once, after the operation was sent");
        };
        // The first word is the result; later ones only say that the kernel
        // is through with the memory.
        let result = *early.get_or_insert(result);
        if more {
            return Ended::Nothing;
        }
        let before = std::mem::replace(&mut slot.state, State::Done(result));
        self.live -= 1;
        match before {
            State::Running { waker, .. } => waker.map_or(Ended::Nothing, Ended::Wake),
            State::Abandoned { payload, .. } => {
                self.release(token.index());
                Ended::Finish(payload, result)
            }
            _ => unreachable!("one of the two, just now"),
        }
    }

    /// The result, if there is one, which frees the slot; otherwise `waker` is
    /// kept, and the one before handed back to be dropped after the lock.
    pub(super) fn poll(&mut self, token: OpToken, waker: Waker) -> Result<i32, Option<Waker>> {
        let slot = self.get(token).expect("a future names a live operation");
        match &mut slot.state {
            State::Queued(place) | State::Running { waker: place, .. } => Err(place.replace(waker)),
            State::Done(result) => {
                let result = *result;
                self.release(token.index());
                Ok(result)
            }
            _ => unreachable!("a future that polls has not been dropped"),
        }
    }

    /// The future is dropped. If the kernel has the operation, `payload` is
    /// called for, and kept to the end (K1); with `detached`, so it is if the
    /// operation only waits to be sent.
    pub(super) fn abandon(
        &mut self,
        token: OpToken,
        detached: bool,
        payload: impl FnOnce() -> Box<dyn AbandonedPayload>,
    ) -> (OnDrop, Option<Waker>) {
        let slot = self.get(token).expect("a future names a live operation");
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Queued(waker) if !detached => {
                self.live -= 1;
                self.release(token.index());
                (OnDrop::Withdrawn, waker)
            }
            State::Queued(waker) => {
                slot.state = State::Abandoned {
                    payload: payload(),
                    early: None,
                    detached,
                };
                (OnDrop::Running, waker)
            }
            State::Running { waker, early } => {
                slot.state = State::Abandoned {
                    payload: payload(),
                    early,
                    detached,
                };
                (OnDrop::Running, waker)
            }
            State::Done(result) => {
                self.release(token.index());
                (OnDrop::Ended(result), None)
            }
            State::Free | State::Abandoned { .. } => {
                unreachable!("a future is dropped once")
            }
        }
    }

    /// All operations that have not ended, and need not.
    pub(super) fn attached(&self) -> impl Iterator<Item = OpToken> + '_ {
        let is_attached = |state: &State| match state {
            State::Queued(_) | State::Running { .. } => true,
            State::Abandoned { detached, .. } => !detached,
            State::Free | State::Done(_) => false,
        };
        self.slots
            .iter()
            .enumerate()
            .filter(move |(_, slot)| is_attached(&slot.state))
            .map(|(index, slot)| OpToken::new(index, slot.generation))
    }

    fn get(&mut self, token: OpToken) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(token.index())?;
        let is_live = !matches!(slot.state, State::Free);
        (is_live && slot.generation == token.generation()).then_some(slot)
    }

    fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
    }
}

impl Drop for Slab {
    /// Memory that the kernel may still write to is not given back, not even
    /// now: better lost than shared.
    fn drop(&mut self) {
        for slot in self.slots.drain(..) {
            if let State::Abandoned { payload, .. } = slot.state {
                std::mem::forget(payload);
            }
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    struct Note(Arc<Mutex<Vec<i32>>>);

    impl AbandonedPayload for Note {
        fn finish(self: Box<Self>, result: io::Result<u32>) {
            let result = result.map_or(-1, |n| n as i32);
            self.0.lock().unwrap().push(result);
        }
    }

    fn waker() -> Waker {
        Waker::noop().clone()
    }

    fn none() -> Box<dyn AbandonedPayload> {
        unreachable!("the payload is not called for")
    }

    #[test]
    fn an_operation_goes_its_way() {
        let mut slab = Slab::default();
        let token = slab.insert();
        assert!(slab.poll(token, waker()).is_err());
        assert!(slab.submit(token));
        assert!(matches!(slab.complete(token, 7, false), Ended::Wake(_)));
        assert_eq!(slab.live(), 0);
        assert!(matches!(slab.poll(token, waker()), Ok(7)));
        // The slot is used again, under another name.
        let next = slab.insert();
        assert_eq!(next.index(), token.index());
        assert_ne!(next, token);
        assert!(!slab.submit(token));
    }

    #[test]
    fn a_dropped_future_leaves_its_payload_until_the_last_word() {
        let mut slab = Slab::default();
        let token = slab.insert();
        slab.submit(token);
        let heard = Arc::default();
        let payload = Box::new(Note(Arc::clone(&heard)));
        let (fate, _) = slab.abandon(token, false, || payload);
        assert!(matches!(fate, OnDrop::Running));
        assert_eq!(slab.attached().collect::<Vec<_>>(), [token]);
        assert!(matches!(slab.complete(token, 3, true), Ended::Nothing));
        assert_eq!(slab.live(), 1);
        match slab.complete(token, 0, false) {
            Ended::Finish(payload, result) => payload.finish(Ok(result as u32)),
            _ => panic!("the payload has to be buried"),
        }
        assert_eq!(*heard.lock().unwrap(), [3], "the first word is the result");
        assert_eq!((slab.live(), slab.attached().count()), (0, 0));
    }

    #[test]
    fn an_operation_the_kernel_never_saw_is_withdrawn_unless_it_is_detached() {
        let mut slab = Slab::default();
        let token = slab.insert();
        let (fate, _) = slab.abandon(token, false, none);
        assert!(matches!(fate, OnDrop::Withdrawn));
        assert!(!slab.submit(token));
        assert_eq!(slab.live(), 0);

        let token = slab.insert();
        let (fate, _) = slab.abandon(token, true, || Box::new(Note(Arc::default())));
        assert!(matches!(fate, OnDrop::Running));
        assert!(slab.submit(token));
        assert!(matches!(slab.complete(token, 0, false), Ended::Finish(..)));
    }

    #[test]
    fn a_future_dropped_after_the_end_is_told_how_it_ended() {
        let mut slab = Slab::default();
        let token = slab.insert();
        slab.submit(token);
        slab.complete(token, 9, false);
        let (fate, _) = slab.abandon(token, false, none);
        assert!(matches!(fate, OnDrop::Ended(9)));
    }

    #[test]
    fn what_the_kernel_may_still_write_to_is_never_freed() {
        let heard: Arc<Mutex<Vec<i32>>> = Arc::default();
        let mut slab = Slab::default();
        let token = slab.insert();
        slab.submit(token);
        let payload = Box::into_raw(Box::new(Note(heard.clone())));
        // SAFETY: just made from a box.
        slab.abandon(token, false, || unsafe { Box::from_raw(payload) });
        drop(slab);
        assert_eq!(Arc::strong_count(&heard), 2);
        // SAFETY: as was to be shown, nobody has freed it.
        drop(unsafe { Box::from_raw(payload) });
    }
}
