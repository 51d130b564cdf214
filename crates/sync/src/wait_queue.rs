//! An intrusive FIFO queue of waiting futures.
//!
//! The nodes ([`Waiter`]) live in the futures, so waiting allocates nothing.
//!
//! ```text
//!   Idle ──push──► Queued ──settle──► Granted, GrantedLast, Released
//!                     │
//!                     └────remove───► Removed
//! ```
//!
//! Q1. Tag, waker and links of a waiter are accessed only under the lock of the
//!     queue that holds it, or by its owner while no queue does.
//! Q2. A waiter is settled once: it is unlinked, its waker is moved out, and
//!     then its status is stored. After that store its owner may free it.
//! Q3. A queued waiter is neither moved nor freed: its owner removes it first.
//! Q4. Tag, waker and links are initialised by `push`, not by `new`: most
//!     waiters are never queued and do not pay for it.
//!
//! Wakers are cloned, woken and dropped outside the lock. All three run foreign
//! code, which may take the same lock.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::{Context, Waker};

use blitzen_util::list::{Linked, Links, List};
use blitzen_util::lock::{AsymmetricLock, AsymmetricLockGuard};
use blitzen_util::shim::atomic::AtomicU8;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::const_unless_loom;
use blitzen_util::wake_batch::WakeBatch;

use crate::resource::WaiterOp;

/// The state of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WaiterStatus {
    /// Never queued.
    Idle,
    /// In the queue.
    Queued,
    /// It owns what it waited for. If its future is dropped, the next waiter
    /// must get it.
    Granted,
    /// As `Granted`, but the newest waiter was chosen: if its future is dropped,
    /// the newest of the others is next.
    GrantedLast,
    /// Woken together with all others; there is nothing to pass on.
    Released,
    /// Removed by its owner before it was settled; it still has its waker.
    Removed,
}

/// How the queue settles a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    /// See [`WaiterStatus::Granted`].
    Granted = WaiterStatus::Granted as u8,
    /// See [`WaiterStatus::GrantedLast`].
    GrantedLast = WaiterStatus::GrantedLast as u8,
    /// See [`WaiterStatus::Released`].
    Released = WaiterStatus::Released as u8,
}

/// A node of a [`WaitQueue`], inside the future that waits.
pub(crate) struct Waiter {
    status: AtomicU8,
    /// A number whose meaning the owner of the queue defines.
    tag: UnsafeCell<MaybeUninit<usize>>,
    waker: UnsafeCell<MaybeUninit<Option<Waker>>>,
    links: std::cell::UnsafeCell<MaybeUninit<Links<Waiter>>>,
    /// Never changed.
    op: WaiterOp,
}

// SAFETY: by Q1 every field but the atomic is touched by one thread at a time.
unsafe impl Send for Waiter {}
// SAFETY: as above; `&Waiter` outside this file reaches only the atomic, and `op` is `Sync`.
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
        Self::with_op(WaiterOp::NONE)
    }

    /// A waiter of an operation that subscribers see.
    #[inline(always)]
    pub(crate) fn with_op(op: WaiterOp) -> Self {
        Self {
            status: AtomicU8::new(WaiterStatus::Idle as u8),
            tag: UnsafeCell::new(MaybeUninit::uninit()),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            links: std::cell::UnsafeCell::new(MaybeUninit::uninit()),
            op,
        }
    }

    #[inline(always)]
    pub(crate) fn status(&self) -> WaiterStatus {
        // Acquire, met by the Release in `settle`: what happened before the
        // grant is visible, and the settling thread has finished with the node.
        match self.status.load(Acquire) {
            0 => WaiterStatus::Idle,
            1 => WaiterStatus::Queued,
            2 => WaiterStatus::Granted,
            3 => WaiterStatus::GrantedLast,
            4 => WaiterStatus::Released,
            _ => WaiterStatus::Removed,
        }
    }

    /// The tag that the waiter had when it was settled.
    ///
    /// # Safety
    /// The caller owns the waiter, which was queued, and has seen it settled.
    pub(crate) unsafe fn tag_when_settled(&self) -> usize {
        // SAFETY: Q1, Q2 and Q4, by the contract of this function.
        self.tag.with(|tag| unsafe { (*tag).assume_init() })
    }

    /// Settles a waiter that is in no queue.
    ///
    /// # Safety
    /// The caller owns the waiter, and its status is neither `Queued` nor
    /// `Removed`.
    #[inline]
    pub(crate) unsafe fn settle_unqueued(&self, outcome: Outcome) {
        self.status.store(outcome as u8, Relaxed);
    }

    /// Makes a waiter ready to be queued again.
    ///
    /// # Safety
    /// As for [`settle_unqueued`](Self::settle_unqueued).
    #[inline]
    pub(crate) unsafe fn reset(&self) {
        self.status.store(WaiterStatus::Idle as u8, Relaxed);
    }

    /// Q2, after the node has left the queue.
    ///
    /// # Safety
    /// `node` has just been taken out of a queue whose lock is held.
    unsafe fn settle(node: NonNull<Self>, outcome: Outcome) -> Option<Waker> {
        // SAFETY: Q3 keeps it alive until the store below.
        let waiter = unsafe { node.as_ref() };
        // SAFETY: Q1, the lock is held, and Q4; whoever sees the status below
        // does not look at it again.
        let waker = (waiter.waker).with(|waker| unsafe { (*waker).assume_init_read() });
        // Release, met by the Acquire in `status`.
        waiter.status.store(outcome as u8, Release);
        waker
    }
}

impl Drop for Waiter {
    #[inline(always)]
    fn drop(&mut self) {
        if self.status() == WaiterStatus::Removed {
            // SAFETY: in no queue, hence ours (Q1), and it was not moved out (Q4).
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

/// The waiters of one primitive in order of arrival, and a state `S` that the
/// same lock guards.
pub(crate) struct WaitQueue<S = ()>(AsymmetricLock<QueueContents<S>>);

struct QueueContents<S> {
    state: S,
    waiters: List<Waiter>,
}

impl<S> WaitQueue<S> {
    const_unless_loom! {
        /// An empty queue.
        pub(crate) fn new(state: S) -> Self {
            Self(AsymmetricLock::new(QueueContents {
                state,
                waiters: List::new(),
            }))
        }
    }

    pub(crate) fn lock(&self) -> LockedQueue<'_, S> {
        LockedQueue(self.0.lock())
    }

    /// Replaces the waker of a queued waiter by that of the current poll. Returns
    /// false if the waiter has been settled in the meantime.
    ///
    /// # Safety
    /// `waiter` is in this queue or in none.
    #[cold]
    pub(crate) unsafe fn refresh(&self, waiter: &Waiter, cx: &Context<'_>) -> bool {
        {
            let locked = self.lock();
            if waiter.status() != WaiterStatus::Queued {
                return false;
            }
            if locked.will_wake(waiter, cx.waker()) {
                return true;
            }
        }
        let waker = cx.waker().clone();
        let old; // dropped after the lock is
        let mut locked = self.lock();
        if waiter.status() != WaiterStatus::Queued {
            old = Some(waker);
        } else {
            old = locked.replace_waker(waiter, waker);
        }
        let queued = waiter.status() == WaiterStatus::Queued;
        drop(locked);
        drop(old);
        queued
    }
}

/// The oldest waiters of a queue that can have what they want.
#[derive(Debug, Default)]
pub(crate) struct Satisfiable {
    /// Their number.
    pub(crate) waiters: usize,
    /// How much they want together.
    pub(crate) wanted: usize,
    /// Whether others are queued behind them.
    pub(crate) are_others: bool,
    /// Whether the next one can have what it wants as well, when the batch has room again.
    pub(crate) are_more: bool,
}

/// A locked [`WaitQueue`].
pub(crate) struct LockedQueue<'a, S = ()>(AsymmetricLockGuard<'a, QueueContents<S>>);

impl<S> LockedQueue<'_, S> {
    pub(crate) fn state(&mut self) -> &mut S {
        &mut self.0.state
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.waiters.is_empty()
    }

    /// The tag of the oldest waiter.
    pub(crate) fn front(&self) -> Option<usize> {
        self.0.waiters.front().map(|node| self.tag(node))
    }

    /// The operation of the oldest waiter.
    #[inline(always)]
    pub(crate) fn front_op(&self) -> WaiterOp {
        match self.0.waiters.front() {
            // SAFETY: Q3 for a node of the list; the field is never changed.
            Some(node) => unsafe { (*node.as_ptr()).op.clone() },
            None => WaiterOp::NONE,
        }
    }

    /// The tag of the newest waiter.
    pub(crate) fn back(&self) -> Option<usize> {
        self.0.waiters.back().map(|node| self.tag(node))
    }

    /// Changes the tag of the oldest waiter.
    pub(crate) fn retag_front(&mut self, tag: usize) {
        if let Some(node) = self.0.waiters.front() {
            // SAFETY: Q3 for a node of the list, Q1 for its tag: `self` is the
            // lock.
            unsafe { node.as_ref() }
                .tag
                .with_mut(|slot| unsafe { *slot = MaybeUninit::new(tag) });
        }
    }

    fn tag(&self, node: NonNull<Waiter>) -> usize {
        // SAFETY: Q3 for a node of the list, Q1 for its tag: `self` is the lock;
        // and Q4.
        unsafe { node.as_ref().tag.with(|tag| (*tag).assume_init()) }
    }

    /// Appends a waiter.
    ///
    /// # Safety
    /// `waiter` is in no queue, and its owner keeps Q3: it calls
    /// [`remove`](Self::remove) on this queue before it moves or drops a waiter
    /// whose status is `Queued`.
    pub(crate) unsafe fn push(&mut self, waiter: &Waiter, tag: usize, waker: Option<Waker>) {
        debug_assert!(waiter.status() == WaiterStatus::Idle, "queued twice");
        // SAFETY: Q1, the waiter is in no queue and the caller owns it.
        unsafe {
            waiter.tag.with_mut(|slot| *slot = MaybeUninit::new(tag));
            (waiter.waker).with_mut(|slot| *slot = MaybeUninit::new(waker));
            *waiter.links.get() = MaybeUninit::new(Links::new());
        }
        // Relaxed: others read it under the lock only.
        waiter.status.store(WaiterStatus::Queued as u8, Relaxed);
        // SAFETY: in no list and staying in place, by the contract of this function.
        unsafe { self.0.waiters.push_back(NonNull::from(waiter)) };
    }

    /// Settles the oldest waiter.
    pub(crate) fn settle_front(&mut self, outcome: Outcome, batch: &mut WakeBatch) {
        if let Some(node) = self.0.waiters.pop_front() {
            // SAFETY: just taken out, under the lock.
            let waker = unsafe { Waiter::settle(node, outcome) };
            waker.into_iter().for_each(|waker| batch.push(waker));
        }
    }

    /// Finds the oldest waiters that can have what they want of `available`, and have their wakers
    /// put into `batch`, where a tag says how many a waiter wants.
    #[inline(always)]
    pub(crate) fn satisfiable(&self, available: usize, batch: &WakeBatch) -> Satisfiable {
        let mut found = Satisfiable::default();
        self.visit_while(|wanted, _| {
            let is_satisfiable = wanted <= available - found.wanted;
            if !is_satisfiable || found.waiters == batch.room() {
                found.are_others = true;
                found.are_more = is_satisfiable;
                return false;
            }
            found.waiters += 1;
            found.wanted += wanted;
            true
        });
        found
    }

    /// Calls `visit` with the tag and the address of each waiter, oldest first, until it returns
    /// false.
    #[inline(always)]
    pub(crate) fn visit_while(&self, mut visit: impl FnMut(usize, usize) -> bool) {
        let waiters = &self.0.waiters;
        let mut next = waiters.front();
        while let Some(node) = next
            && visit(self.tag(node), node.addr().get())
        {
            // SAFETY: in the list, which nobody changes meanwhile: `self` is the lock.
            next = unsafe { waiters.after(node) };
        }
    }

    /// Settles the newest waiter.
    pub(crate) fn settle_back(&mut self, outcome: Outcome, batch: &mut WakeBatch) {
        if let Some(node) = self.0.waiters.pop_back() {
            // SAFETY: just taken out, under the lock.
            let waker = unsafe { Waiter::settle(node, outcome) };
            waker.into_iter().for_each(|waker| batch.push(waker));
        }
    }

    /// Removes a waiter before it is settled, and returns its tag. Returns `None`
    /// if it has been settled: its status says how.
    ///
    /// # Safety
    /// `waiter` is in this queue or in none.
    pub(crate) unsafe fn remove(&mut self, waiter: &Waiter) -> Option<usize> {
        if waiter.status() != WaiterStatus::Queued {
            return None;
        }
        let node = NonNull::from(waiter);
        // SAFETY: queued, and nowhere else by the contract of this function.
        let was_linked = unsafe { self.0.waiters.remove(node) };
        debug_assert!(was_linked, "Q2");
        waiter.status.store(WaiterStatus::Removed as u8, Relaxed);
        Some(self.tag(node))
    }

    fn will_wake(&self, waiter: &Waiter, waker: &Waker) -> bool {
        // SAFETY: Q1, `self` is the lock; and Q4, it is queued.
        let known = |slot: *const MaybeUninit<_>| unsafe { (*slot).assume_init_ref() };
        let wakes = |known: &Option<Waker>| known.as_ref().is_some_and(|old| old.will_wake(waker));
        waiter.waker.with(|slot| wakes(known(slot)))
    }

    #[must_use = "drop it outside the lock"]
    fn replace_waker(&mut self, waiter: &Waiter, waker: Waker) -> Option<Waker> {
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

    struct NoopWake;

    impl Wake for NoopWake {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn however_a_waiter_ends_its_waker_is_dropped_once() {
        for fate in [
            WaiterStatus::Idle,
            WaiterStatus::Granted,
            WaiterStatus::Released,
            WaiterStatus::Removed,
        ] {
            let noop = Arc::new(NoopWake);
            let queue = WaitQueue::new(());
            {
                let waiter = pin!(Waiter::new());
                let waiter = &*waiter;
                let mut batch = WakeBatch::new();
                if fate != WaiterStatus::Idle {
                    // SAFETY: idle, and it leaves the queue below.
                    unsafe { queue.lock().push(waiter, 7, Some(noop.clone().into())) };
                    let waker = Waker::from(noop.clone());
                    // SAFETY: it is in this queue.
                    assert!(unsafe { queue.refresh(waiter, &Context::from_waker(&waker)) });
                    let other = Waker::from(Arc::new(NoopWake));
                    // SAFETY: as above.
                    assert!(unsafe { queue.refresh(waiter, &Context::from_waker(&other)) });
                    assert_eq!(Arc::strong_count(&noop), 2, "it wakes the other");
                    // SAFETY: as above.
                    assert!(unsafe { queue.refresh(waiter, &Context::from_waker(&waker)) });
                }
                match fate {
                    WaiterStatus::Idle => {}
                    WaiterStatus::Removed => {
                        // SAFETY: as above.
                        assert_eq!(unsafe { queue.lock().remove(waiter) }, Some(7))
                    }
                    WaiterStatus::Granted => {
                        queue.lock().settle_front(Outcome::Granted, &mut batch);
                    }
                    _ => queue.lock().settle_front(Outcome::Released, &mut batch),
                }
                assert_eq!(waiter.status(), fate);
                // SAFETY: it is in no queue.
                assert_eq!(unsafe { queue.lock().remove(waiter) }, None);
                batch.wake_all();
            }
            assert_eq!(Arc::strong_count(&noop), 1, "{fate:?}");
        }
    }
}
