//! Notifications without data: one for one task, stored if none waits, or one for
//! all tasks that wait.
//!
//! ```text
//!   state:  │ generation │ WAITERS │ PERMIT │
//! ```
//!
//! `notify_waiters` starts a new generation. A future that was created in an
//! older one has been notified, whether it is queued yet or not.
//!
//! N1. `WAITERS` says that a waiter of the current generation is queued. It is
//!     set and cleared under the queue's lock, and while it is set the whole
//!     state is written under that lock only.
//! N2. `PERMIT` and `WAITERS` are never both set.
//! N3. A waiter is queued only in the current generation. So waiters of older
//!     generations precede all others; the thread that finds them at the front
//!     releases them.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_util::coop;
use blitzen_util::shim::Peek;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::const_unless_loom;
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::{self, WakeBatch};

use crate::wait_queue::{LockedQueue, Outcome, WaitQueue, Waiter, WaiterStatus};

const PERMIT: usize = 1;
const WAITERS: usize = 2;
const GENERATION: usize = 4;

#[derive(Clone, Copy)]
struct NotifyState(usize);

impl NotifyState {
    #[inline(always)]
    fn has_permit(self) -> bool {
        self.0 & PERMIT != 0
    }

    #[inline(always)]
    fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    #[inline(always)]
    fn generation(self) -> usize {
        self.0 / GENERATION
    }
}

/// Which waiter `notify_one` or `notify_last` chooses.
#[derive(Clone, Copy)]
enum NotifyOrder {
    Fifo,
    Lifo,
}

/// A notification without data, for one task or for all tasks that wait.
///
/// [`notify_one`](Self::notify_one) wakes the task that has waited longest. If no task
/// waits, it stores the notification, and the next future of
/// [`notified`](Self::notified) completes at once.
/// [`notify_waiters`](Self::notify_waiters) wakes all tasks that wait now.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::Notify;
///
/// # blitzen::runtime::Runtime::new().unwrap().block_on(async {
/// let notify = Arc::new(Notify::new());
/// let waiting = blitzen::task::spawn({
///     let notify = notify.clone();
///     async move { notify.notified().await }
/// });
/// notify.notify_one(); // stored if the task does not wait yet
/// waiting.await.unwrap();
/// # });
/// ```
pub struct Notify {
    state: AtomicUsize,
    queue: WaitQueue,
}

impl UnwindSafe for Notify {}
impl RefUnwindSafe for Notify {}

impl Notify {
    /// Creates a `Notify` without waiters and without a stored notification.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Notify;
    /// let notify = Notify::new();
    /// notify.notify_one();
    /// ```
    pub fn new() -> Self {
        Self {
            state: AtomicUsize::new(0),
            queue: WaitQueue::new(()),
        }
    }

    const_unless_loom! {
        /// Creates a `Notify` without waiters and without a stored notification,
        /// for use in a `static`.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::sync::Notify;
        /// static SHUTDOWN: Notify = Notify::const_new();
        /// SHUTDOWN.notify_waiters();
        /// ```
        pub fn const_new() -> Self {
            Self {
                state: AtomicUsize::new(0),
                queue: WaitQueue::new(()),
            }
        }
    }

    #[inline(always)]
    fn state(&self) -> NotifyState {
        NotifyState(self.state.peek(Relaxed))
    }

    /// Waits for a notification.
    ///
    /// The future receives a [`notify_waiters`](Self::notify_waiters) from this call
    /// on, even before it is first polled. It receives a
    /// [`notify_one`](Self::notify_one) from its first poll on, or from
    /// [`enable`](Notified::enable) on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Notify::new();
    /// let notified = notify.notified();
    /// notify.notify_waiters();
    /// notified.await;
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it loses its place in the queue. A notification by
    /// `notify_one` that it has received but not returned goes to the next waiter.
    #[inline]
    pub fn notified(&self) -> Notified<'_> {
        Notified(NotifiedWait::new(self))
    }

    /// Waits for a notification, with a future that owns an `Arc` of this `Notify`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Arc::new(Notify::new());
    /// let notified = notify.clone().notified_owned();
    /// notify.notify_one();
    /// notified.await;
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`notified`](Self::notified).
    #[inline]
    pub fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        OwnedNotified(NotifiedWait::new(self))
    }

    /// Notifies the task that has waited longest.
    ///
    /// If no task waits, the notification is stored, and the next task that waits
    /// completes at once. At most one notification is stored.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Notify::new();
    /// notify.notify_one();
    /// notify.notified().await;
    /// # });
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        self.notify(NotifyOrder::Fifo);
    }

    /// Notifies the task that has waited for the shortest time.
    ///
    /// If no task waits, the notification is stored, as
    /// [`notify_one`](Self::notify_one) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Notify::new();
    /// let mut first = std::pin::pin!(notify.notified());
    /// let mut last = std::pin::pin!(notify.notified());
    /// first.as_mut().enable();
    /// last.as_mut().enable();
    /// notify.notify_last();
    /// last.await;
    /// # });
    /// ```
    #[inline]
    pub fn notify_last(&self) {
        self.notify(NotifyOrder::Lifo);
    }

    #[inline(always)]
    fn notify(&self, order: NotifyOrder) {
        // A guess, and right where nobody calls `notify_waiters`: a load first
        // would cost as much as the exchange.
        let mut state = NotifyState(0);
        while !state.has_waiters() {
            match self.store_permit(state) {
                Ok(()) => return,
                Err(changed) => state = changed,
            }
        }
        self.notify_queued(order);
    }

    /// Writes even if there is a permit already: the task that takes it must see
    /// what was done before this call.
    #[inline(always)]
    fn store_permit(&self, state: NotifyState) -> Result<(), NotifyState> {
        // Release, met by the Acquire in `take_permit`.
        match self
            .state
            .compare_exchange_weak(state.0, state.0 | PERMIT, Release, Relaxed)
        {
            Ok(_) => Ok(()),
            Err(changed) => Err(NotifyState(changed)),
        }
    }

    #[inline(always)]
    fn take_permit(&self, state: NotifyState) -> Result<(), NotifyState> {
        // Acquire, met by the Release in `store_permit`: what was done before
        // the notification is seen after it.
        match self
            .state
            .compare_exchange_weak(state.0, state.0 & !PERMIT, Acquire, Relaxed)
        {
            Ok(_) => Ok(()),
            Err(changed) => Err(NotifyState(changed)),
        }
    }

    #[cold]
    #[inline(never)]
    fn notify_queued(&self, order: NotifyOrder) {
        wake_batch::in_rounds(|batch| {
            let mut waiters = self.queue.lock();
            let mut state = self.state();
            while !state.has_waiters() {
                // No waiter is left, and under the lock none is queued.
                match self.store_permit(state) {
                    Ok(()) => return false,
                    Err(changed) => state = changed,
                }
            }
            match order {
                NotifyOrder::Fifo => {
                    if release_older(&mut waiters, state, batch) {
                        return true; // N3: the first is behind them
                    }
                    waiters.settle_front(Outcome::Granted, batch);
                }
                NotifyOrder::Lifo => waiters.settle_back(Outcome::GrantedLast, batch),
            }
            self.clear_waiters_if_none(&waiters, state);
            false
        });
    }

    /// Keeps N1 when a waiter of the current generation has left the queue.
    fn clear_waiters_if_none(&self, waiters: &LockedQueue<'_>, state: NotifyState) {
        if waiters.back() != Some(state.generation()) {
            // N1 allows a store. Release, met by the Acquires of the generation: whoever calls this
            // has acquired the last `notify_waiters`, and passes on what that has published.
            self.state.store(state.0 & !WAITERS, Release);
        }
    }

    /// Notifies all tasks that wait now.
    ///
    /// Nothing is stored for later ones.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Notify::new();
    /// let (one, two) = (notify.notified(), notify.notified());
    /// notify.notify_waiters();
    /// one.await;
    /// two.await;
    /// # });
    /// ```
    pub fn notify_waiters(&self) {
        let mut state = self.state();
        while !state.has_waiters() {
            let next = state.0.wrapping_add(GENERATION);
            // Release, met by the Acquire loads of `NotifiedWait`.
            match self
                .state
                .compare_exchange_weak(state.0, next, Release, Relaxed)
            {
                Ok(_) => return,
                Err(changed) => state = NotifyState(changed),
            }
        }
        self.notify_all_queued();
    }

    #[cold]
    #[inline(never)]
    fn notify_all_queued(&self) {
        let mut begun = false;
        wake_batch::in_rounds(|batch| {
            let mut waiters = self.queue.lock();
            if !std::mem::replace(&mut begun, true) {
                // N1: all that are queued belong to an older generation now.
                let state = self.state();
                let next = (state.0 & !WAITERS).wrapping_add(GENERATION);
                // Release, met by the Acquire loads of `NotifiedWait`.
                if state.has_waiters() {
                    self.state.store(next, Release);
                } else {
                    self.state.fetch_add(GENERATION, Release);
                }
            }
            release_older(&mut waiters, self.state(), batch)
        });
    }
}

/// Releases the waiters of older generations. Returns true if the batch is full.
fn release_older(waiters: &mut LockedQueue<'_>, state: NotifyState, batch: &mut WakeBatch) -> bool {
    while waiters
        .front()
        .is_some_and(|generation| generation != state.generation())
    {
        if batch.is_full() {
            return true;
        }
        waiters.settle_front(Outcome::Released, batch);
    }
    // The caller may add one more.
    batch.is_full()
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Notify")
            .field("permit", &state.has_permit())
            .field("waiters", &state.has_waiters())
            .finish()
    }
}

/// What [`Notified`] and [`OwnedNotified`] have in common.
struct NotifiedWait<N: Deref<Target = Notify>> {
    notify: N,
    /// The state when the future was created. Its generation decides whether
    /// `notify_waiters` has been called since.
    since: NotifyState,
    /// `Released` after completion: there is nothing to pass on.
    waiter: Waiter,
}

impl<N: Deref<Target = Notify>> NotifiedWait<N> {
    #[inline(always)]
    fn new(notify: N) -> Self {
        // Acquire, met by the Release in `notify_waiters`: a call that this
        // generation already counts is not waited for, so what was done before it
        // must be visible.
        let since = NotifyState(notify.state.peek(Acquire));
        Self {
            notify,
            since,
            waiter: Waiter::new(),
        }
    }

    /// # Safety
    /// The waiter stays in place until this is dropped.
    #[inline(always)]
    unsafe fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiter.status() == WaiterStatus::Idle {
            // A permit that was there may still be, in the same generation: try to
            // take it without another load.
            let mut state = self.since;
            if !state.has_permit() || !coop::has_unit() {
                // Acquire, met by the Release in `notify_waiters`.
                state = NotifyState(self.notify.state.peek(Acquire));
                if state.generation() != self.since.generation() {
                    // SAFETY: idle.
                    return unsafe { self.complete() };
                }
            }
            if state.has_permit() {
                let Poll::Ready(spent) = coop::poll_proceed(cx) else {
                    return Poll::Pending;
                };
                if self.notify.take_permit(state).is_ok() {
                    spent.made_progress();
                    // SAFETY: idle.
                    return unsafe { self.complete() };
                }
            }
        }
        // SAFETY: the caller upholds the same contract.
        unsafe { self.poll_queued(Some(cx)) }
    }

    /// Without a context, for `enable`, no waker is stored and no budget spent.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll).
    #[cold]
    #[inline(never)]
    unsafe fn poll_queued(&self, mut cx: Option<&mut Context<'_>>) -> Poll<()> {
        loop {
            return match self.waiter.status() {
                WaiterStatus::Idle => {
                    // SAFETY: the caller upholds the same contract.
                    if unsafe { self.enqueue(cx.as_deref()) } {
                        return self.pending(cx.is_some());
                    }
                    continue;
                }
                WaiterStatus::Queued => match &cx {
                    None => Poll::Pending,
                    Some(cx) => {
                        // SAFETY: it is in this queue or has been settled.
                        match unsafe { self.notify.queue.refresh(&self.waiter, cx) } {
                            true => self.pending(true),
                            false => continue,
                        }
                    }
                },
                WaiterStatus::Granted | WaiterStatus::GrantedLast => match cx.take() {
                    // SAFETY: granted, so in no queue.
                    None => unsafe { self.complete() },
                    Some(cx) => self.finish_within_budget(cx),
                },
                WaiterStatus::Released => Poll::Ready(()),
                WaiterStatus::Removed => unreachable!("it leaves when it is dropped"),
            };
        }
    }

    /// Notes what the task waits for, unless this is a call of `enable`.
    fn pending(&self, is_polled: bool) -> Poll<()> {
        if is_polled {
            wait::pending_on(WaitKind::Notify, &*self.notify);
        }
        Poll::Pending
    }

    /// Returns false if there is no need to queue: the status says why.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll), and the waiter is idle.
    unsafe fn enqueue(&self, cx: Option<&Context<'_>>) -> bool {
        let waker = cx.map(|cx| cx.waker().clone());
        let mut waiters = self.notify.queue.lock();
        // Acquire, met by the Release in `notify_waiters`.
        let mut state = NotifyState(self.notify.state.peek(Acquire));
        loop {
            if state.generation() != self.since.generation() {
                // SAFETY: idle, and ours.
                unsafe { self.waiter.settle_unqueued(Outcome::Released) };
                return false;
            }
            if state.has_permit() {
                match self.notify.take_permit(state) {
                    Ok(()) => {
                        // SAFETY: idle, and ours.
                        unsafe { self.waiter.settle_unqueued(Outcome::Granted) };
                        return false;
                    }
                    Err(_) => state = NotifyState(self.notify.state.peek(Acquire)), // as above
                }
                continue;
            }
            if !state.has_waiters() {
                // Acquire, met by the Release in `notify_one`: its permit may have come and been
                // taken by another task since the load, and what came before it is seen.
                let set = self.notify.state.compare_exchange_weak(
                    state.0,
                    state.0 | WAITERS,
                    Acquire,
                    Acquire,
                );
                if let Err(changed) = set {
                    state = NotifyState(changed);
                    continue;
                }
            }
            // SAFETY: idle, and in place until `drop` takes it out.
            unsafe { waiters.push(&self.waiter, self.since.generation(), waker) };
            return true;
        }
    }

    /// # Safety
    /// The waiter is in no queue.
    #[inline(always)]
    unsafe fn complete(&self) -> Poll<()> {
        // SAFETY: ours, and in no queue by the contract of this function.
        unsafe { self.waiter.settle_unqueued(Outcome::Released) };
        Poll::Ready(())
    }

    /// Completes with a notification that has been granted, if the budget allows it.
    fn finish_within_budget(&self, cx: &mut Context<'_>) -> Poll<()> {
        match coop::poll_proceed(cx) {
            Poll::Ready(spent) => {
                spent.made_progress();
                // SAFETY: the waiter has been granted, so it is in no queue.
                unsafe { self.complete() }
            }
            Poll::Pending => Poll::Pending,
        }
    }

    #[cold]
    #[inline(never)]
    fn abandon(&self) {
        if self.waiter.status() == WaiterStatus::Queued {
            let mut waiters = self.notify.queue.lock();
            // SAFETY: it is in this queue or has been settled.
            if unsafe { waiters.remove(&self.waiter) }.is_some() {
                let state = self.notify.state();
                if state.has_waiters() {
                    self.notify.clear_waiters_if_none(&waiters, state);
                }
            }
        }
        match self.waiter.status() {
            WaiterStatus::Granted => self.notify.notify(NotifyOrder::Fifo),
            WaiterStatus::GrantedLast => self.notify.notify(NotifyOrder::Lifo),
            WaiterStatus::Idle
            | WaiterStatus::Queued
            | WaiterStatus::Released
            | WaiterStatus::Removed => {}
        }
    }
}

impl<N: Deref<Target = Notify>> Drop for NotifiedWait<N> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(
            self.waiter.status(),
            WaiterStatus::Idle | WaiterStatus::Released
        ) {
            self.abandon();
        }
    }
}

/// The future of [`Notify::notified`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::{Notify, futures::Notified};
/// # futures::executor::block_on(async {
/// let notify = Notify::new();
/// let notified: Notified<'_> = notify.notified();
/// notify.notify_waiters();
/// notified.await;
/// # });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Notified<'a>(NotifiedWait<&'a Notify>);

impl Notified<'_> {
    /// Registers the future for [`notify_one`](Notify::notify_one) before it is
    /// first polled.
    ///
    /// Returns `true` if it has already been notified: it completes at its next
    /// poll.
    ///
    /// A task that checks a condition between this call and the `.await` does not miss
    /// a notification:
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// use blitzen::sync::Notify;
    ///
    /// async fn wait_for(flag: &AtomicBool, changed: &Notify) {
    ///     loop {
    ///         let mut notified = std::pin::pin!(changed.notified());
    ///         notified.as_mut().enable();
    ///         if flag.load(Relaxed) {
    ///             return;
    ///         }
    ///         notified.await;
    ///     }
    /// }
    /// # futures::executor::block_on(wait_for(&AtomicBool::new(true), &Notify::new()));
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        // SAFETY: pinned, and so in place until it is dropped.
        unsafe { self.0.poll_queued(None) }.is_ready()
    }
}

impl Future for Notified<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: pinned, and so in place until it is dropped.
        unsafe { self.0.poll(cx) }
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified")
            .field("notify", self.0.notify)
            .field("waiter", &self.0.waiter)
            .finish()
    }
}

/// The future of [`Notify::notified_owned`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use blitzen::sync::{Notify, futures::OwnedNotified};
/// # futures::executor::block_on(async {
/// let notify = Arc::new(Notify::new());
/// let notified: OwnedNotified = notify.clone().notified_owned();
/// notify.notify_waiters();
/// notified.await;
/// # });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct OwnedNotified(NotifiedWait<Arc<Notify>>);

impl OwnedNotified {
    /// Registers the future for [`notify_one`](Notify::notify_one) before it is
    /// first polled, as [`Notified::enable`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen::sync::Notify;
    /// let notify = Arc::new(Notify::new());
    /// let mut notified = Box::pin(notify.clone().notified_owned());
    /// assert!(!notified.as_mut().enable());
    /// notify.notify_one();
    /// assert!(notified.as_mut().enable());
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        // SAFETY: pinned, and so in place until it is dropped.
        unsafe { self.0.poll_queued(None) }.is_ready()
    }
}

impl Future for OwnedNotified {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: pinned, and so in place until it is dropped.
        unsafe { self.0.poll(cx) }
    }
}

impl fmt::Debug for OwnedNotified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedNotified")
            .field("notify", &*self.0.notify)
            .field("waiter", &self.0.waiter)
            .finish()
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::batch_semaphore::model::poll_once;
    use blitzen_util::shim::Arc;
    use blitzen_util::shim::cell::UnsafeCell as Watched;
    use blitzen_util::shim::thread;
    use loom::future::block_on;
    use std::pin::pin;

    #[test]
    fn a_notification_is_never_lost_and_publishes() {
        loom::model(|| {
            let shared = Arc::new((Notify::new(), Watched::new(0)));
            let notifier = thread::spawn({
                let shared = shared.clone();
                move || {
                    // SAFETY: read only after the notification.
                    shared.1.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.notify_one();
                }
            });
            block_on(shared.0.notified()); // or loom reports a deadlock
            // SAFETY: written before the notification.
            assert_eq!(shared.1.with(|slot| unsafe { *slot }), 1);
            notifier.join().unwrap();
        });
    }

    #[test]
    fn a_notification_that_another_task_takes_publishes_too() {
        loom::model(|| {
            let shared = Arc::new((Notify::new(), AtomicUsize::new(0)));
            let notifier = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.store(1, Relaxed);
                    shared.0.notify_one();
                    let _ = poll_once(pin!(shared.0.notified()));
                }
            });
            let mut waiting = pin!(shared.0.notified());
            let has_permit = waiting.as_mut().enable();
            let has_seen = shared.1.load(Relaxed) == 1;
            notifier.join().unwrap();
            // The permit was taken before it queued, or it was notified.
            assert!(has_permit || has_seen || poll_once(waiting).is_ready());
        });
    }

    #[test]
    fn a_waiter_that_gives_up_passes_on_what_was_published_before_it_came() {
        loom::model(|| {
            let shared = Arc::new((Notify::new(), Watched::new(0)));
            let mut early = pin!(shared.0.notified());
            let notifier = thread::spawn({
                let shared = shared.clone();
                move || {
                    // SAFETY: read only after the notification.
                    shared.1.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.notify_waiters();
                }
            });
            let other = thread::spawn({
                let shared = shared.clone();
                move || pin!(shared.0.notified()).as_mut().enable()
            });
            if poll_once(early.as_mut()).is_ready() {
                // SAFETY: written before the notification.
                assert_eq!(shared.1.with(|slot| unsafe { *slot }), 1);
            }
            notifier.join().unwrap();
            other.join().unwrap();
        });
    }

    #[test]
    fn a_notification_merged_into_another_publishes_too() {
        loom::model(|| {
            let shared = Arc::new((Notify::new(), AtomicUsize::new(0)));
            shared.0.notify_one();
            let notifier = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.1.store(1, Relaxed);
                    shared.0.notify_one();
                }
            });
            block_on(shared.0.notified());
            if shared.1.load(Relaxed) == 0 {
                // Then it was not merged, but comes: or loom reports a deadlock.
                block_on(shared.0.notified());
                assert_eq!(shared.1.load(Relaxed), 1);
            }
            notifier.join().unwrap();
        });
    }

    #[test]
    fn one_that_gives_up_passes_its_notification_on() {
        loom::model(|| {
            let notify = Arc::new(Notify::new());
            let quitter = thread::spawn({
                let notify = notify.clone();
                move || {
                    let mut future = Box::pin(notify.notified());
                    if poll_once(future.as_mut()).is_ready() {
                        notify.notify_one();
                    }
                }
            });
            let notifier = thread::spawn({
                let notify = notify.clone();
                move || notify.notify_one()
            });
            block_on(notify.notified()); // or loom reports a deadlock
            quitter.join().unwrap();
            notifier.join().unwrap();
            assert!(!notify.state().has_permit() && !notify.state().has_waiters());
        });
    }

    #[test]
    fn notify_waiters_wakes_all_waiters() {
        loom::model(|| {
            let notify = Arc::new(Notify::new());
            let early = notify.notified();
            let listener = thread::spawn({
                let notify = notify.clone();
                // The future was created before or after the call. In the latter case
                // it would wait for ever, so it is polled only once.
                move || poll_once(Box::pin(notify.notified()).as_mut()).is_ready()
            });
            let notifier = thread::spawn({
                let notify = notify.clone();
                move || notify.notify_waiters()
            });
            block_on(early); // or loom reports a deadlock
            notifier.join().unwrap();
            listener.join().unwrap();
            assert!(!notify.state().has_waiters());
            assert!(poll_once(Box::pin(notify.notified()).as_mut()).is_pending());
        });
    }

    #[test]
    fn notify_waiters_publishes_to_a_future_that_was_not_queued() {
        loom::model(|| {
            let shared = Arc::new((Notify::new(), Watched::new(0)));
            let notified = shared.0.notified();
            let notifier = thread::spawn({
                let shared = shared.clone();
                move || {
                    // SAFETY: read only after the notification.
                    shared.1.with_mut(|slot| unsafe { *slot = 1 });
                    shared.0.notify_waiters();
                }
            });
            block_on(notified); // or loom reports a deadlock
            // SAFETY: written before the notification.
            assert_eq!(shared.1.with(|slot| unsafe { *slot }), 1);
            notifier.join().unwrap();
        });
    }

    #[test]
    fn one_and_all_at_once_wake_both_and_leave_nothing_behind() {
        loom::model(|| {
            let notify = Arc::new(Notify::new());
            let mut first = Box::pin(notify.notified());
            assert!(poll_once(first.as_mut()).is_pending());
            let second = notify.notified();
            let all = thread::spawn({
                let notify = notify.clone();
                move || notify.notify_waiters()
            });
            let one = thread::spawn({
                let notify = notify.clone();
                move || notify.notify_one()
            });
            block_on(first);
            block_on(second); // by one or by all, or loom reports a deadlock
            all.join().unwrap();
            one.join().unwrap();
            assert!(!notify.state().has_waiters());
        });
    }

    /// Has a thread set a condition and notify everybody, while this one looks at the condition with a
    /// future at hand, and waits if it is not set: for ever, if it misses both. A waiter is `queued`
    /// at first, and may leave meanwhile.
    fn check_condition(is_queued: bool, leaves: bool) {
        let notify = std::sync::Arc::new(Notify::new());
        let condition = Arc::new(AtomicUsize::new(0));
        let mut queued = is_queued.then(|| Box::pin(notify.clone().notified_owned()));
        if let Some(queued) = &mut queued {
            assert!(poll_once(queued.as_mut()).is_pending());
        }
        let notifier = thread::spawn({
            let (notify, condition) = (notify.clone(), condition.clone());
            move || {
                condition.store(1, Relaxed);
                notify.notify_waiters();
            }
        });
        if leaves {
            queued = None;
        }
        let notified = notify.notified();
        if condition.load(Relaxed) == 0 {
            block_on(notified);
            assert_eq!(condition.load(Relaxed), 1);
        }
        notifier.join().unwrap();
        drop(queued);
    }

    #[test]
    fn a_future_made_after_notify_waiters_publishes_what_came_before_it() {
        loom::model(|| check_condition(false, false));
    }

    #[test]
    fn a_future_made_after_queued_waiters_were_notified_publishes_too() {
        loom::model(|| check_condition(true, false));
    }

    #[test]
    fn a_future_made_after_the_waiters_have_left_publishes_too() {
        loom::model(|| check_condition(true, true));
    }
}
