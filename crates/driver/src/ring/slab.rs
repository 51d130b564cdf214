//! Operations in flight, by the token in their user data.
//!
//! ```text
//!            submitted             its last completion
//!   Queued ────────► Running ───────────────────────────────► Done ──► free
//!     │                 │ the future is dropped                  taken
//!     ▼ dropped         ▼              its last completion
//!    free            Abandoned(payload) ──────────────────────► free
//! ```
//!
//! K1. A payload (buffers, paths, a reference to the file) lives until the last
//!     completion of its operation: in the future, or, once that is dropped, in
//!     this slab.
//! K2. A token carries its slot's generation. A slot becomes free only with the
//!     last completion of its operation, or when an operation is withdrawn that
//!     was never submitted. So a token in the kernel always names a live
//!     operation.

use std::io;
use std::task::Waker;

/// The payload of an operation whose future was dropped.
pub(super) trait AbandonedPayload: Send {
    /// Finishes the operation, which has ended with `result`.
    fn finish(self: Box<Self>, result: io::Result<u32>);
}

/// The name of an operation, which its user data contains.
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

enum OpState {
    Free,
    Queued(Option<Waker>),
    Running {
        waker: Option<Waker>,
        /// The result of the first completion, if another one will follow.
        early: Option<i32>,
    },
    Abandoned {
        payload: Box<dyn AbandonedPayload>,
        early: Option<i32>,
        /// Whether the operation runs to its end in the background.
        detached: bool,
    },
    Done(i32),
}

struct OpSlot {
    generation: u32,
    state: OpState,
}

/// All operations of one ring; behind its lock.
#[derive(Default)]
pub(super) struct Slab {
    slots: Vec<OpSlot>,
    free: Vec<usize>,
    live: usize,
}

/// What the caller of [`Slab::complete`] must do after it has released the
/// lock.
pub(super) enum Ended {
    /// Wake the task that waits.
    Wake(Waker),
    /// Finish the payload: the future was dropped.
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
    /// Returns the number of operations that have not ended.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn insert(&mut self) -> OpToken {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.slots.len();
            assert!(index < 1 << 31, "two thousand million operations in flight");
            let (generation, state) = (0, OpState::Free);
            self.slots.push(OpSlot { generation, state });
            self.free.reserve(self.slots.len()); // ending one never allocates
            index
        });
        self.live += 1;
        let slot = &mut self.slots[index];
        slot.state = OpState::Queued(None);
        OpToken::new(index, slot.generation)
    }

    /// Inserts an operation that has ended with `result` without being
    /// submitted.
    pub(super) fn insert_ended(&mut self, result: i32) -> OpToken {
        let token = self.insert();
        self.live -= 1;
        self.slots[token.index()].state = OpState::Done(result);
        token
    }

    /// Marks an operation as submitted; returns false if it was withdrawn.
    pub(super) fn submit(&mut self, token: OpToken) -> bool {
        let Some(slot) = self.get(token) else {
            return false;
        };
        if let OpState::Queued(waker) = &mut slot.state {
            let waker = waker.take();
            let early = None;
            slot.state = OpState::Running { waker, early };
        }
        true
    }

    /// Takes in a completion; with `more`, another one will follow.
    pub(super) fn complete(&mut self, token: OpToken, result: i32, more: bool) -> Ended {
        let slot = self
            .get(token)
            .expect("K2: the kernel names a live operation");
        let (OpState::Running { early, .. } | OpState::Abandoned { early, .. }) = &mut slot.state
        else {
            unreachable!("the last completion comes once, after the operation was submitted");
        };
        // The first completion has the result. A later one only says that the
        // kernel has finished with the memory.
        let result = *early.get_or_insert(result);
        if more {
            return Ended::Nothing;
        }
        let before = std::mem::replace(&mut slot.state, OpState::Done(result));
        self.live -= 1;
        match before {
            OpState::Running { waker, .. } => waker.map_or(Ended::Nothing, Ended::Wake),
            OpState::Abandoned { payload, .. } => {
                self.release(token.index());
                Ended::Finish(payload, result)
            }
            _ => unreachable!("one of the two, just now"),
        }
    }

    /// Returns the result, and frees the slot. If there is none yet, keeps `waker` in exchange for
    /// the previous one. The caller drops what is left in `waker` after the lock.
    pub(super) fn poll(&mut self, token: OpToken, waker: &mut Option<Waker>) -> Option<i32> {
        let slot = self.get(token).expect("a future names a live operation");
        match &mut slot.state {
            OpState::Queued(place) | OpState::Running { waker: place, .. } => {
                std::mem::swap(place, waker);
                None
            }
            OpState::Done(result) => {
                let result = *result;
                self.release(token.index());
                Some(result)
            }
            _ => unreachable!("a future that polls has not been dropped"),
        }
    }

    /// Notes that the future was dropped. If the operation was submitted, or is
    /// `detached`, keeps the result of `payload` until its end (K1).
    pub(super) fn abandon(
        &mut self,
        token: OpToken,
        detached: bool,
        payload: impl FnOnce() -> Box<dyn AbandonedPayload>,
    ) -> (OnDrop, Option<Waker>) {
        let slot = self.get(token).expect("a future names a live operation");
        match std::mem::replace(&mut slot.state, OpState::Free) {
            OpState::Queued(waker) if !detached => {
                self.live -= 1;
                self.release(token.index());
                (OnDrop::Withdrawn, waker)
            }
            OpState::Queued(waker) => {
                slot.state = OpState::Abandoned {
                    payload: payload(),
                    early: None,
                    detached,
                };
                (OnDrop::Running, waker)
            }
            OpState::Running { waker, early } => {
                slot.state = OpState::Abandoned {
                    payload: payload(),
                    early,
                    detached,
                };
                (OnDrop::Running, waker)
            }
            OpState::Done(result) => {
                self.release(token.index());
                (OnDrop::Ended(result), None)
            }
            OpState::Free | OpState::Abandoned { .. } => {
                unreachable!("a future is dropped once")
            }
        }
    }

    /// Returns the operations that have not ended, without those that run in
    /// the background.
    pub(super) fn attached(&self) -> impl Iterator<Item = OpToken> + '_ {
        let is_attached = |state: &OpState| match state {
            OpState::Queued(_) | OpState::Running { .. } => true,
            OpState::Abandoned { detached, .. } => !detached,
            OpState::Free | OpState::Done(_) => false,
        };
        self.slots
            .iter()
            .enumerate()
            .filter(move |(_, slot)| is_attached(&slot.state))
            .map(|(index, slot)| OpToken::new(index, slot.generation))
    }

    fn get(&mut self, token: OpToken) -> Option<&mut OpSlot> {
        let slot = self.slots.get_mut(token.index())?;
        let is_live = !matches!(slot.state, OpState::Free);
        (is_live && slot.generation == token.generation()).then_some(slot)
    }

    fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.state = OpState::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
    }
}

impl Drop for Slab {
    /// Leaks memory that the kernel may still write to.
    fn drop(&mut self) {
        for slot in self.slots.drain(..) {
            if let OpState::Abandoned { payload, .. } = slot.state {
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

    fn waker() -> Option<Waker> {
        Some(Waker::noop().clone())
    }

    fn none() -> Box<dyn AbandonedPayload> {
        unreachable!("the payload is not called for")
    }

    #[test]
    fn an_operation_is_queued_submitted_completed_and_taken() {
        let mut slab = Slab::default();
        let token = slab.insert();
        assert!(slab.poll(token, &mut waker()).is_none());
        assert!(slab.submit(token));
        assert!(matches!(slab.complete(token, 7, false), Ended::Wake(_)));
        assert_eq!(slab.live(), 0);
        assert_eq!(slab.poll(token, &mut waker()), Some(7));
        // The slot is used again, under another token.
        let next = slab.insert();
        assert_eq!(next.index(), token.index());
        assert_ne!(next, token);
        assert!(!slab.submit(token));
    }

    #[test]
    fn the_payload_of_a_dropped_future_lives_until_the_last_completion() {
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
    fn dropping_a_future_after_the_end_returns_the_result() {
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
