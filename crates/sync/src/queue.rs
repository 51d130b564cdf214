//! Where futures wait: a queue of nodes that live in the futures themselves.
//!
//! ```text
//!   idle ──push──► queued ──settle──► granted, dismissed
//!                     │
//!                     └────remove───► left
//! ```
//!
//! Q1. Tag, waker and links of a waiter are touched only under the lock of the
//!     queue it stands in, or by its owner while it stands in none.
//! Q2. A waiter is settled once: it leaves the queue, gives up its waker, and
//!     last of all its status is stored. From then on its owner may free it.
//! Q3. A queued waiter neither moves nor dies: its owner removes it first.
//! Q4. Tag, waker and links are written when a waiter is queued, and have no
//!     meaning before: most waiters never are, and need not pay for it.
//!
//! Wakers are cloned, fired and dropped outside the lock: all three run foreign
//! code, which may come back for the same lock.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::{Context, Waker};

use blitzen_util::list::{Linked, Links, List};
use blitzen_util::shim::atomic::AtomicU8;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::{Mutex, MutexGuard};
use blitzen_util::wake_batch::WakeBatch;

/// How far a waiter has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Never queued.
    Idle,
    /// In the queue.
    Queued,
    /// Given what it waited for; if it does not want it any more, the next in
    /// line must have it.
    Granted,
    /// Granted to the waiter that came last; then the last of the others is
    /// next.
    GrantedLast,
    /// Let go together with all others; nothing to pass on.
    Dismissed,
    /// Removed before its turn; it still has its waker.
    Left,
}

/// A place in a queue, within the future that waits.
pub(crate) struct Waiter {
    status: AtomicU8,
    /// What the queue's owner wants to know of its waiters.
    tag: UnsafeCell<MaybeUninit<usize>>,
    waker: UnsafeCell<MaybeUninit<Option<Waker>>>,
    links: std::cell::UnsafeCell<MaybeUninit<Links<Waiter>>>,
}

// SAFETY: by Q1 every field but the atomic is touched by one thread at a time.
unsafe impl Send for Waiter {}
// SAFETY: as above; `&Waiter` outside this file reaches only the atomic.
unsafe impl Sync for Waiter {}

// SAFETY: the field's address, without a reference to the node.
unsafe impl Linked for Waiter {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live node.
        let links = unsafe { &raw const (*node.as_ptr()).links };
        // SAFETY: not null, as the node is not.
        unsafe { NonNull::new_unchecked(std::cell::UnsafeCell::raw_get(links).cast()) }
    }
}

impl Waiter {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            status: AtomicU8::new(Status::Idle as u8),
            tag: UnsafeCell::new(MaybeUninit::uninit()),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            links: std::cell::UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline(always)]
    pub(crate) fn status(&self) -> Status {
        // Acquire, met by the Release in `settle`: what was done before the
        // grant is seen after it, and the settler is finished with the node.
        match self.status.load(Acquire) {
            0 => Status::Idle,
            1 => Status::Queued,
            2 => Status::Granted,
            3 => Status::GrantedLast,
            4 => Status::Dismissed,
            _ => Status::Left,
        }
    }

    /// The tag that it had when it was settled.
    ///
    /// # Safety
    /// The caller owns the waiter, which was queued, and has seen it settled.
    pub(crate) unsafe fn settled_tag(&self) -> usize {
        // SAFETY: Q1, Q2 and Q4, by the caller's word.
        self.tag.with(|tag| unsafe { (*tag).assume_init() })
    }

    /// The owner settles its own waiter, which is in no queue.
    #[inline]
    pub(crate) fn settle_unqueued(&self, status: Status) {
        self.status.store(status as u8, Relaxed);
    }

    /// Q2, after the node has left the queue.
    ///
    /// # Safety
    /// `node` has just been taken out of a queue whose lock is held.
    unsafe fn settle(node: NonNull<Self>, status: Status) -> Option<Waker> {
        // SAFETY: Q3 keeps it alive until the store below.
        let waiter = unsafe { node.as_ref() };
        // SAFETY: Q1, the lock is held, and Q4; whoever sees the status below
        // does not look at it again.
        let waker = (waiter.waker).with(|waker| unsafe { (*waker).assume_init_read() });
        // Release, met by the Acquire in `status`.
        waiter.status.store(status as u8, Release);
        waker
    }
}

impl Drop for Waiter {
    #[inline(always)]
    fn drop(&mut self) {
        if self.status() == Status::Left {
            // SAFETY: in no queue, hence ours (Q1), and nobody took it (Q4).
            self.waker
                .with_mut(|waker| unsafe { (*waker).assume_init_drop() });
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiter").field(&self.status()).finish()
    }
}

/// The waiters of one primitive in order of arrival, and what else its lock
/// guards.
pub(crate) struct Queue<S = ()>(Mutex<Standing<S>>);

struct Standing<S> {
    state: S,
    waiters: List<Waiter>,
}

impl<S> Queue<S> {
    const_unless_loom! {
        /// An empty queue.
        pub(crate) fn new(state: S) -> Self {
            Self(Mutex::new(Standing {
                state,
                waiters: List::new(),
            }))
        }
    }

    pub(crate) fn lock(&self) -> Line<'_, S> {
        Line(self.0.lock())
    }

    /// Makes a queued waiter wake whoever polls it now. False if it has been
    /// settled in the meantime.
    ///
    /// # Safety
    /// `waiter` stands in this queue or in none.
    #[cold]
    pub(crate) unsafe fn refresh(&self, waiter: &Waiter, cx: &Context<'_>) -> bool {
        {
            let line = self.lock();
            if waiter.status() != Status::Queued {
                return false;
            }
            if line.wakes(waiter, cx.waker()) {
                return true;
            }
        }
        let waker = cx.waker().clone();
        let old; // dropped after the lock is
        let mut line = self.lock();
        if waiter.status() != Status::Queued {
            old = Some(waker);
        } else {
            old = line.set_waker(waiter, waker);
        }
        let queued = waiter.status() == Status::Queued;
        drop(line);
        drop(old);
        queued
    }
}

/// A queue, locked.
pub(crate) struct Line<'a, S = ()>(MutexGuard<'a, Standing<S>>);

impl<S> Line<'_, S> {
    pub(crate) fn state(&mut self) -> &mut S {
        &mut self.0.state
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.waiters.is_empty()
    }

    /// The tag of whoever has waited longest.
    pub(crate) fn front(&self) -> Option<usize> {
        self.0.waiters.front().map(|node| self.tag(node))
    }

    /// The tag of whoever came last.
    pub(crate) fn back(&self) -> Option<usize> {
        self.0.waiters.back().map(|node| self.tag(node))
    }

    /// Changes the tag of whoever has waited longest.
    pub(crate) fn retag_front(&mut self, tag: usize) {
        if let Some(node) = self.0.waiters.front() {
            // SAFETY: Q3 for a node of the list, Q1 for its tag: `self` is the
            // lock.
            unsafe { node.as_ref() }
                .tag
                .with_mut(|slot| unsafe { *slot = MaybeUninit::new(tag) });
        }
    }

    /// Whether exactly one waits.
    pub(crate) fn is_single(&self) -> bool {
        self.0.waiters.front().is_some() && self.0.waiters.front() == self.0.waiters.back()
    }

    fn tag(&self, node: NonNull<Waiter>) -> usize {
        // SAFETY: Q3 for a node of the list, Q1 for its tag: `self` is the lock;
        // and Q4.
        unsafe { node.as_ref().tag.with(|tag| (*tag).assume_init()) }
    }

    /// Puts a waiter behind all others.
    ///
    /// # Safety
    /// `waiter` is in no queue, and its owner keeps Q3: it calls
    /// [`remove`](Self::remove) on this queue before it moves or drops a waiter
    /// whose status is `Queued`.
    pub(crate) unsafe fn push(&mut self, waiter: &Waiter, tag: usize, waker: Option<Waker>) {
        debug_assert!(waiter.status() == Status::Idle, "queued twice");
        // SAFETY: Q1, the waiter is in no queue and the caller owns it.
        unsafe {
            waiter.tag.with_mut(|slot| *slot = MaybeUninit::new(tag));
            (waiter.waker).with_mut(|slot| *slot = MaybeUninit::new(waker));
            *waiter.links.get() = MaybeUninit::new(Links::new());
        }
        // Relaxed: others read it under the lock only.
        waiter.status.store(Status::Queued as u8, Relaxed);
        // SAFETY: in no list and staying in place, by the caller's word.
        unsafe { self.0.waiters.push_back(NonNull::from(waiter)) };
    }

    /// Settles whoever has waited longest.
    pub(crate) fn settle_front(&mut self, status: Status, batch: &mut WakeBatch) {
        if let Some(node) = self.0.waiters.pop_front() {
            // SAFETY: just taken out, under the lock.
            let waker = unsafe { Waiter::settle(node, status) };
            waker.into_iter().for_each(|waker| batch.push(waker));
        }
    }

    /// Settles whoever came last.
    pub(crate) fn settle_back(&mut self, status: Status, batch: &mut WakeBatch) {
        if let Some(node) = self.0.waiters.pop_back() {
            // SAFETY: just taken out, under the lock.
            let waker = unsafe { Waiter::settle(node, status) };
            waker.into_iter().for_each(|waker| batch.push(waker));
        }
    }

    /// Takes a waiter out before its turn; returns its tag. `None` if it has
    /// been settled: then its status says how.
    ///
    /// # Safety
    /// `waiter` stands in this queue or in none.
    pub(crate) unsafe fn remove(&mut self, waiter: &Waiter) -> Option<usize> {
        if waiter.status() != Status::Queued {
            return None;
        }
        let node = NonNull::from(waiter);
        // SAFETY: queued, and nowhere else by the caller's word.
        let was_in = unsafe { self.0.waiters.remove(node) };
        debug_assert!(was_in, "Q2");
        waiter.status.store(Status::Left as u8, Relaxed);
        Some(self.tag(node))
    }

    fn wakes(&self, waiter: &Waiter, waker: &Waker) -> bool {
        // SAFETY: Q1, `self` is the lock; and Q4, it is queued.
        let known = |slot: *const MaybeUninit<_>| unsafe { (*slot).assume_init_ref() };
        let wakes = |known: &Option<Waker>| known.as_ref().is_some_and(|old| old.will_wake(waker));
        waiter.waker.with(|slot| wakes(known(slot)))
    }

    #[must_use = "drop it outside the lock"]
    fn set_waker(&mut self, waiter: &Waiter, waker: Waker) -> Option<Waker> {
        // SAFETY: Q1, `self` is the lock; and Q4, it is queued.
        waiter
            .waker
            .with_mut(|slot| unsafe { (*slot).assume_init_mut() }.replace(waker))
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Wake;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn however_a_waiter_ends_its_waker_is_dropped_once() {
        for fate in [
            Status::Idle,
            Status::Granted,
            Status::Dismissed,
            Status::Left,
        ] {
            let nobody = Arc::new(Nobody);
            let queue = Queue::new(());
            {
                let waiter = pin!(Waiter::new());
                let waiter = &*waiter;
                let mut batch = WakeBatch::new();
                if fate != Status::Idle {
                    // SAFETY: idle, and it leaves the queue below.
                    unsafe { queue.lock().push(waiter, 7, Some(nobody.clone().into())) };
                    let waker = Waker::from(nobody.clone());
                    // SAFETY: it stands in this queue.
                    assert!(unsafe { queue.refresh(waiter, &Context::from_waker(&waker)) });
                    let other = Waker::from(Arc::new(Nobody));
                    // SAFETY: as above.
                    assert!(unsafe { queue.refresh(waiter, &Context::from_waker(&other)) });
                    assert_eq!(Arc::strong_count(&nobody), 2, "it wakes the other");
                    // SAFETY: as above.
                    assert!(unsafe { queue.refresh(waiter, &Context::from_waker(&waker)) });
                }
                match fate {
                    Status::Idle => {}
                    // SAFETY: as above.
                    Status::Left => assert_eq!(unsafe { queue.lock().remove(waiter) }, Some(7)),
                    settled => queue.lock().settle_front(settled, &mut batch),
                }
                assert_eq!(waiter.status(), fate);
                // SAFETY: it stands in no queue.
                assert_eq!(unsafe { queue.lock().remove(waiter) }, None);
                batch.wake_all();
            }
            assert_eq!(Arc::strong_count(&nobody), 1, "{fate:?}");
        }
    }
}
