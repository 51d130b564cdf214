//! The join wakers of a `JoinSet`: each pushes the key of its task to the [`FinishedQueue`].
//!
//! They are made in groups, so that most cost neither an allocation nor a reference to the queue. The
//! address of a waker's key is its data, and the group is found by rounding that address down:
//!
//! ```text
//!   │ handles │ queue │ key │ key │ key │ …  │     aligned to its own size
//!                             ▲
//!                      data of a waker
//! ```
//!
//! G1. `handles` counts the wakers of a group, those included that its source has not given out yet.
//!     Whoever gives up the last handles frees the group.
//! G2. The source writes a key before it gives out the waker, which is given up no earlier than that.
//!     Nobody writes it again.

use std::fmt;
use std::mem::size_of;
use std::process;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use blitzen_util::shim::AccessCheck;
use blitzen_util::shim::MODEL;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicU32, AtomicUsize, fence};

use crate::finished_queue::FinishedQueue;

/// The size of a group, and what its address is a multiple of.
const GROUP_BYTES: usize = 128;

/// How many wakers are in a group; in a model few, so that groups end.
const GROUP_LEN: usize = match MODEL {
    true => 2,
    false => (GROUP_BYTES - 2 * size_of::<usize>()) / size_of::<u32>(),
};

const MAX_HANDLES: usize = usize::MAX / 2;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

#[repr(C, align(128))]
struct WakerGroup {
    handles: AtomicUsize,
    finished: Arc<FinishedQueue<u32>>,
    keys: [AtomicU32; GROUP_LEN],
    accesses: AccessCheck,
}

const _: () = assert!(MODEL || size_of::<WakerGroup>() == GROUP_BYTES);
const _: () = assert!(align_of::<WakerGroup>() == GROUP_BYTES);

impl WakerGroup {
    fn new(finished: Arc<FinishedQueue<u32>>) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self {
            handles: AtomicUsize::new(GROUP_LEN),
            finished,
            keys: std::array::from_fn(|_| AtomicU32::new(0)),
            accesses: AccessCheck::new(),
        })))
    }

    /// Gives up `count` handles.
    ///
    /// # Safety
    /// They are the caller's, who does not use the group again.
    #[inline]
    unsafe fn give_up(group: NonNull<Self>, count: usize) {
        // SAFETY: the caller's handles are counted (G1).
        let handles = unsafe { &group.as_ref().handles };
        // Release, met by the fence: who frees the group comes after all that others did with it.
        if handles.fetch_sub(count, Release) == count {
            // Acquire, met by the Release of all others.
            fence(Acquire);
            // SAFETY: the last handles (G1); it was made by `new`.
            let group = unsafe { Box::from_raw(group.as_ptr()) };
            group.accesses.write();
        }
    }
}

/// Makes wakers that push the keys of tasks to a [`FinishedQueue`].
pub struct FinishedWakers {
    finished: Arc<FinishedQueue<u32>>,
    /// The group from which the next waker is, and how many it has given out: fewer than there are.
    group: Option<(NonNull<WakerGroup>, usize)>,
}

// SAFETY: a group may be reached and freed by any thread, as its wakers are.
unsafe impl Send for FinishedWakers {}
// SAFETY: `&FinishedWakers` reaches the queue only.
unsafe impl Sync for FinishedWakers {}

impl FinishedWakers {
    /// Makes wakers for a new queue.
    pub fn new() -> Self {
        Self {
            finished: Arc::default(),
            group: None,
        }
    }

    /// The queue.
    #[inline]
    pub fn finished(&self) -> &FinishedQueue<u32> {
        &self.finished
    }

    /// Returns a waker that pushes `key`.
    #[inline]
    pub fn waker(&mut self, key: u32) -> Waker {
        let (group, index) = match self.group.take() {
            Some(next) => next,
            None => (WakerGroup::new(self.finished.clone()), 0),
        };
        let is_last = index + 1 == GROUP_LEN;
        self.group = (!is_last).then_some((group, index + 1));
        // SAFETY: this waker's handle is counted, and nobody else has it (G1).
        let keys = unsafe { &raw const (*group.as_ptr()).keys }.cast::<AtomicU32>();
        // SAFETY: `index` is below the length. The pointer comes from that of the whole group.
        let place = unsafe { keys.add(index) };
        // SAFETY: in the group. Relaxed: whoever hands the waker to another thread publishes it (G2).
        unsafe { (*place).store(key, Relaxed) };
        // SAFETY: the functions keep the contract: the handle is the waker's now.
        unsafe { Waker::new(place.cast(), &VTABLE) }
    }
}

impl Default for FinishedWakers {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FinishedWakers {
    fn drop(&mut self) {
        if let Some((group, given_out)) = self.group.take() {
            // SAFETY: the handles of the wakers that were not given out (G1).
            unsafe { WakerGroup::give_up(group, GROUP_LEN - given_out) };
        }
    }
}

impl fmt::Debug for FinishedWakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishedWakers").finish_non_exhaustive()
    }
}

/// The group of a waker.
fn group(data: *const ()) -> NonNull<WakerGroup> {
    let address = |address: usize| address & !(GROUP_BYTES - 1);
    let group = data.cast_mut().cast::<WakerGroup>().map_addr(address);
    match NonNull::new(group) {
        Some(group) => group,
        None => unreachable!("the data of a waker lies in its group"),
    }
}

/// Pushes the key of a waker.
///
/// # Safety
/// `data` is that of a waker made here, which is not given up meanwhile.
unsafe fn push(data: *const ()) {
    // SAFETY: counted by the caller's waker (G1).
    let group = unsafe { group(data).as_ref() };
    group.accesses.read();
    // SAFETY: in the group. Relaxed: G2.
    let key = unsafe { (*data.cast::<AtomicU32>()).load(Relaxed) };
    group.finished.push(key);
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: called on a live waker, whose handle is counted (G1).
    let handles = unsafe { &group(data).as_ref().handles };
    // Relaxed: the caller has a handle, so the group cannot be freed meanwhile.
    if handles.fetch_add(1, Relaxed) > MAX_HANDLES {
        process::abort();
    }
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the functions keep the contract of a waker. Dropped at the end, also if the joiner's
    // waker panics.
    let waker = unsafe { Waker::new(data, &VTABLE) };
    waker.wake_by_ref();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: called on a live waker.
    unsafe { push(data) };
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker's handle, used no more.
    unsafe { WakerGroup::give_up(group(data), 1) };
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn taken(wakers: &FinishedWakers) -> Vec<u32> {
        let mut keys = Vec::new();
        wakers.finished().take_all(&mut keys);
        keys
    }

    #[test]
    fn every_waker_pushes_its_own_key() {
        let mut wakers = FinishedWakers::new();
        let given_out: Vec<Waker> = (0..3 * GROUP_LEN as u32 + 1)
            .map(|key| wakers.waker(key))
            .collect();
        for waker in given_out.iter().rev() {
            waker.wake_by_ref();
        }
        let keys: Vec<u32> = (0..3 * GROUP_LEN as u32 + 1).rev().collect();
        assert_eq!(taken(&wakers), keys);
        given_out.into_iter().for_each(Waker::wake);
        assert_eq!(taken(&wakers).len(), keys.len());
    }

    #[test]
    fn wakers_outlive_their_source_and_each_other() {
        for given_out in 0..=2 * GROUP_LEN {
            let mut wakers = FinishedWakers::new();
            let finished = wakers.finished.clone();
            let mut kept: Vec<Waker> = (0..given_out as u32).map(|key| wakers.waker(key)).collect();
            drop(wakers);
            if let Some(first) = kept.first().cloned() {
                kept.clear();
                first.wake_by_ref();
                first.wake();
                let mut keys = Vec::new();
                finished.take_all(&mut keys);
                assert_eq!(keys, [0, 0]);
            }
            assert_eq!(Arc::strong_count(&finished), 1, "all groups are gone");
        }
    }

    #[test]
    fn a_joiners_waker_that_panics_leaks_no_group() {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("the joiner's waker");
            }
        }
        let mut wakers = FinishedWakers::new();
        let finished = wakers.finished.clone();
        assert!(finished.register(&Waker::from(Arc::new(Panics))));
        let waker = wakers.waker(1);
        drop(wakers);
        let woken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
        assert!(woken.is_err());
        assert_eq!(Arc::strong_count(&finished), 1);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::thread;

    #[test]
    fn the_last_waker_or_the_source_frees_the_group() {
        loom::model(|| {
            let mut wakers = FinishedWakers::new();
            let finished = wakers.finished.clone();
            let wakes = wakers.waker(7);
            let thread = thread::spawn(move || wakes.wake());
            let other = wakers.waker(8);
            let dropping = thread::spawn(move || drop(other.clone()));
            drop(wakers);
            thread.join().unwrap();
            dropping.join().unwrap();
            let mut keys = Vec::new();
            finished.take_all(&mut keys);
            assert_eq!(keys, [7]);
            assert_eq!(Arc::strong_count(&finished), 1);
        });
    }
}
