//! A wake-up call for tasks: stored for one if nobody waits, or sent to all.
//!
//! ```text
//!   word:  │ generation │ WAITERS │ PERMIT │
//! ```
//!
//! `notify_waiters` starts a new generation. Whoever listens since an older one
//! has been notified, whether queued yet or not.
//!
//! N1. `WAITERS` says that somebody of the current generation is queued. It is
//!     set and cleared under the queue's lock, and while it is set the whole
//!     word is written under that lock only.
//! N2. `PERMIT` and `WAITERS` are never both set.
//! N3. A waiter is queued only in the current generation. So those left over
//!     from older ones stand before all others; whoever meets them there
//!     dismisses them.

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
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::wake_batch::{self, WakeBatch};

use crate::queue::{Line, Queue, Status, Waiter};

const PERMIT: usize = 1;
const WAITERS: usize = 2;
const GENERATION: usize = 4;

#[derive(Clone, Copy)]
struct Word(usize);

impl Word {
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

/// Whose turn it is when one is notified.
#[derive(Clone, Copy)]
enum Turn {
    First,
    Last,
}

/// Wakes one task, or all that wait.
///
/// [`notify_one`](Self::notify_one) wakes the task that has waited longest; if
/// none waits, the next call of [`notified`](Self::notified) completes at once.
/// [`notify_waiters`](Self::notify_waiters) wakes all that wait now.
///
/// ```
/// use std::sync::Arc;
/// use blitzen_sync::Notify;
///
/// # futures::executor::block_on(async {
/// let notify = Arc::new(Notify::new());
/// let waiting = std::thread::spawn({
///     let notify = notify.clone();
///     move || futures::executor::block_on(notify.notified())
/// });
/// notify.notify_one(); // not lost, whoever comes first
/// waiting.join().unwrap();
/// # });
/// ```
pub struct Notify {
    word: AtomicUsize,
    queue: Queue,
}

impl UnwindSafe for Notify {}
impl RefUnwindSafe for Notify {}

impl Notify {
    /// Nobody waits, nothing is stored.
    ///
    /// ```
    /// use blitzen_sync::Notify;
    /// let notify = Notify::new();
    /// notify.notify_one();
    /// ```
    pub fn new() -> Self {
        Self {
            word: AtomicUsize::new(0),
            queue: Queue::new(()),
        }
    }

    const_unless_loom! {
        /// [`new`](Self::new) for a `static`.
        ///
        /// ```
        /// use blitzen_sync::Notify;
        /// static SHUTDOWN: Notify = Notify::const_new();
        /// SHUTDOWN.notify_waiters();
        /// ```
        pub fn const_new() -> Self {
            Self {
                word: AtomicUsize::new(0),
                queue: Queue::new(()),
            }
        }
    }

    #[inline(always)]
    fn word(&self) -> Word {
        Word(self.word.peek(Relaxed))
    }

    /// Waits for a notification.
    ///
    /// The future counts as waiting for [`notify_waiters`](Self::notify_waiters)
    /// from this call on, also before it is first polled; for
    /// [`notify_one`](Self::notify_one) from its first poll, or from
    /// [`enable`](Notified::enable).
    ///
    /// ```
    /// use blitzen_sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Notify::new();
    /// let notified = notify.notified();
    /// notify.notify_waiters();
    /// notified.await;
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives up its place in line; a notification by
    /// `notify_one` that it has not yet returned goes to the next.
    #[inline]
    pub fn notified(&self) -> Notified<'_> {
        Notified(Listening::new(self))
    }

    /// [`notified`](Self::notified) with a future that keeps this alive.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Arc::new(Notify::new());
    /// let notified = notify.clone().notified_owned();
    /// notify.notify_one();
    /// notified.await;
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// As for [`notified`](Self::notified).
    #[inline]
    pub fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        OwnedNotified(Listening::new(self))
    }

    /// Notifies the task that has waited longest. If none waits, the next one
    /// that does so is notified at once; several calls store one notification.
    ///
    /// ```
    /// use blitzen_sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Notify::new();
    /// notify.notify_one();
    /// notify.notified().await;
    /// # });
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        self.notify(Turn::First);
    }

    /// Notifies the task that came last. If none waits, this is like
    /// [`notify_one`](Self::notify_one).
    ///
    /// ```
    /// use blitzen_sync::Notify;
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
        self.notify(Turn::Last);
    }

    #[inline(always)]
    fn notify(&self, turn: Turn) {
        // A guess, and right where nobody calls `notify_waiters`: looking first
        // would cost as much again as the exchange.
        let mut word = Word(0);
        while !word.has_waiters() {
            match self.store_permit(word) {
                Ok(()) => return,
                Err(changed) => word = changed,
            }
        }
        self.notify_line(turn);
    }

    /// Also where there is a permit already: who takes it must see what was done
    /// before this call.
    #[inline(always)]
    fn store_permit(&self, word: Word) -> Result<(), Word> {
        // Release, met by the Acquire in `take_permit`.
        match self
            .word
            .compare_exchange_weak(word.0, word.0 | PERMIT, Release, Relaxed)
        {
            Ok(_) => Ok(()),
            Err(changed) => Err(Word(changed)),
        }
    }

    #[inline(always)]
    fn take_permit(&self, word: Word) -> Result<(), Word> {
        // Acquire, met by the Release in `store_permit`: what was done before
        // the notification is seen after it.
        match self
            .word
            .compare_exchange_weak(word.0, word.0 & !PERMIT, Acquire, Relaxed)
        {
            Ok(_) => Ok(()),
            Err(changed) => Err(Word(changed)),
        }
    }

    #[cold]
    #[inline(never)]
    fn notify_line(&self, turn: Turn) {
        wake_batch::in_rounds(|batch| {
            let mut line = self.queue.lock();
            let mut word = self.word();
            while !word.has_waiters() {
                // All gone: and under the lock nobody queues.
                match self.store_permit(word) {
                    Ok(()) => return false,
                    Err(changed) => word = changed,
                }
            }
            match turn {
                Turn::First => {
                    if dismiss_older(&mut line, word, batch) {
                        return true; // N3: the first is behind them
                    }
                    line.settle_front(Status::Granted, batch);
                }
                Turn::Last => line.settle_back(Status::GrantedLast, batch),
            }
            self.clear_if_alone(&line, word);
            false
        });
    }

    /// Keeps N1 when a waiter of the current generation has left the queue.
    fn clear_if_alone(&self, line: &Line<'_>, word: Word) {
        if line.back() != Some(word.generation()) {
            // N1 allows a store; Relaxed: it tells nobody anything.
            self.word.store(word.0 & !WAITERS, Relaxed);
        }
    }

    /// Notifies every task that waits now. Nothing is stored for later ones.
    ///
    /// ```
    /// use blitzen_sync::Notify;
    /// # futures::executor::block_on(async {
    /// let notify = Notify::new();
    /// let (one, two) = (notify.notified(), notify.notified());
    /// notify.notify_waiters();
    /// one.await;
    /// two.await;
    /// # });
    /// ```
    pub fn notify_waiters(&self) {
        let mut word = self.word();
        while !word.has_waiters() {
            let next = word.0.wrapping_add(GENERATION);
            // Release, met by the Acquire loads of `Listening`.
            match self
                .word
                .compare_exchange_weak(word.0, next, Release, Relaxed)
            {
                Ok(_) => return,
                Err(changed) => word = Word(changed),
            }
        }
        self.notify_everyone_in_line();
    }

    #[cold]
    #[inline(never)]
    fn notify_everyone_in_line(&self) {
        let mut begun = false;
        wake_batch::in_rounds(|batch| {
            let mut line = self.queue.lock();
            if !std::mem::replace(&mut begun, true) {
                // N1: all that are queued are of an older generation now.
                let word = self.word();
                let next = (word.0 & !WAITERS).wrapping_add(GENERATION);
                // Release, met by the Acquire loads of `Listening`.
                if word.has_waiters() {
                    self.word.store(next, Release);
                } else {
                    self.word.fetch_add(GENERATION, Release);
                }
            }
            dismiss_older(&mut line, self.word(), batch)
        });
    }
}

/// Dismisses those before the current generation. True if the batch is full and
/// some are left.
fn dismiss_older(line: &mut Line<'_>, word: Word, batch: &mut WakeBatch) -> bool {
    while line
        .front()
        .is_some_and(|generation| generation != word.generation())
    {
        if batch.is_full() {
            return true;
        }
        line.settle_front(Status::Dismissed, batch);
    }
    // The caller may want to add one more.
    batch.is_full()
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word();
        f.debug_struct("Notify")
            .field("permit", &word.has_permit())
            .field("waiters", &word.has_waiters())
            .finish()
    }
}

/// What both futures are.
struct Listening<N: Deref<Target = Notify>> {
    notify: N,
    /// When it began to listen: its generation counts, the rest is what was
    /// there.
    since: Word,
    /// Dismissed once the future has completed: nothing to pass on.
    waiter: Waiter,
}

impl<N: Deref<Target = Notify>> Listening<N> {
    #[inline(always)]
    fn new(notify: N) -> Self {
        // Acquire, met by the Release in `notify_waiters`: one that this
        // generation already counts must not be waited for, and what was done
        // before it can be seen instead.
        let since = Word(notify.word.peek(Acquire));
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
        if self.waiter.status() == Status::Idle {
            // A permit that was there may still be, in the same generation: it is
            // taken without looking again.
            let mut word = self.since;
            if !word.has_permit() || !coop::has_budget_remaining() {
                // Acquire, met by the Release in `notify_waiters`.
                word = Word(self.notify.word.peek(Acquire));
                if word.generation() != self.since.generation() {
                    return self.complete();
                }
            }
            if word.has_permit() {
                let Poll::Ready(spent) = coop::poll_proceed(cx) else {
                    return Poll::Pending;
                };
                if self.notify.take_permit(word).is_ok() {
                    spent.made_progress();
                    return self.complete();
                }
            }
        }
        // SAFETY: handed on.
        unsafe { self.poll_in_line(Some(cx)) }
    }

    /// Without a context, for `enable`, nobody is woken and no budget spent.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll).
    #[cold]
    #[inline(never)]
    unsafe fn poll_in_line(&self, mut cx: Option<&mut Context<'_>>) -> Poll<()> {
        loop {
            return match self.waiter.status() {
                Status::Idle => {
                    // SAFETY: handed on.
                    if unsafe { self.get_in_line(cx.as_deref()) } {
                        return Poll::Pending;
                    }
                    continue;
                }
                Status::Queued => match &cx {
                    None => Poll::Pending,
                    Some(cx) => {
                        // SAFETY: it stands in this queue or has been settled.
                        match unsafe { self.notify.queue.refresh(&self.waiter, cx) } {
                            true => Poll::Pending,
                            false => continue,
                        }
                    }
                },
                Status::Granted | Status::GrantedLast => match cx.take() {
                    None => self.complete(),
                    Some(cx) => self.within_budget(cx),
                },
                Status::Dismissed => Poll::Ready(()),
                Status::Left => unreachable!("it leaves when it is dropped"),
            };
        }
    }

    /// False if there is no need to queue: then the status says why.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll), and the waiter is idle.
    unsafe fn get_in_line(&self, cx: Option<&Context<'_>>) -> bool {
        let waker = cx.map(|cx| cx.waker().clone());
        let mut line = self.notify.queue.lock();
        // Acquire, met by the Release in `notify_waiters`.
        let mut word = Word(self.notify.word.peek(Acquire));
        loop {
            if word.generation() != self.since.generation() {
                self.waiter.settle_unqueued(Status::Dismissed);
                return false;
            }
            if word.has_permit() {
                match self.notify.take_permit(word) {
                    Ok(()) => {
                        self.waiter.settle_unqueued(Status::Granted);
                        return false;
                    }
                    Err(_) => word = Word(self.notify.word.peek(Acquire)), // as above
                }
                continue;
            }
            if !word.has_waiters() {
                // AcqRel: Acquire as above on failure too; Release for nothing
                // but symmetry.
                let set = self.notify.word.compare_exchange_weak(
                    word.0,
                    word.0 | WAITERS,
                    AcqRel,
                    Acquire,
                );
                if let Err(changed) = set {
                    word = Word(changed);
                    continue;
                }
            }
            // SAFETY: idle, and in place until `drop` takes it out.
            unsafe { line.push(&self.waiter, self.since.generation(), waker) };
            return true;
        }
    }

    #[inline(always)]
    fn complete(&self) -> Poll<()> {
        self.waiter.settle_unqueued(Status::Dismissed);
        Poll::Ready(())
    }

    /// Hands over what has been granted, in this poll or in one with a budget.
    fn within_budget(&self, cx: &mut Context<'_>) -> Poll<()> {
        match coop::poll_proceed(cx) {
            Poll::Ready(spent) => {
                spent.made_progress();
                self.complete()
            }
            Poll::Pending => Poll::Pending,
        }
    }

    #[cold]
    #[inline(never)]
    fn abandon(&self) {
        if self.waiter.status() == Status::Queued {
            let mut line = self.notify.queue.lock();
            // SAFETY: it stands in this queue or has been settled.
            if unsafe { line.remove(&self.waiter) }.is_some() {
                let word = self.notify.word();
                if word.has_waiters() {
                    self.notify.clear_if_alone(&line, word);
                }
            }
        }
        match self.waiter.status() {
            Status::Granted => self.notify.notify(Turn::First),
            Status::GrantedLast => self.notify.notify(Turn::Last),
            Status::Idle | Status::Queued | Status::Dismissed | Status::Left => {}
        }
    }
}

impl<N: Deref<Target = Notify>> Drop for Listening<N> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.waiter.status(), Status::Idle | Status::Dismissed) {
            self.abandon();
        }
    }
}

/// The future of [`Notify::notified`].
///
/// ```
/// use blitzen_sync::{Notify, futures::Notified};
/// # futures::executor::block_on(async {
/// let notify = Notify::new();
/// let notified: Notified<'_> = notify.notified();
/// notify.notify_waiters();
/// notified.await;
/// # });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Notified<'a>(Listening<&'a Notify>);

impl Notified<'_> {
    /// Gets in line for [`notify_one`](Notify::notify_one) without waiting.
    /// True if the notification is already there; then the future completes at
    /// its next poll.
    ///
    /// What a task looks at between this and the `.await` cannot change behind
    /// its back:
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// use blitzen_sync::Notify;
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
        unsafe { self.0.poll_in_line(None) }.is_ready()
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
/// ```
/// use std::sync::Arc;
/// use blitzen_sync::{Notify, futures::OwnedNotified};
/// # futures::executor::block_on(async {
/// let notify = Arc::new(Notify::new());
/// let notified: OwnedNotified = notify.clone().notified_owned();
/// notify.notify_waiters();
/// notified.await;
/// # });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct OwnedNotified(Listening<Arc<Notify>>);

impl OwnedNotified {
    /// As [`Notified::enable`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use blitzen_sync::Notify;
    /// let notify = Arc::new(Notify::new());
    /// let mut notified = Box::pin(notify.clone().notified_owned());
    /// assert!(!notified.as_mut().enable());
    /// notify.notify_one();
    /// assert!(notified.as_mut().enable());
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        // SAFETY: pinned, and so in place until it is dropped.
        unsafe { self.0.poll_in_line(None) }.is_ready()
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
    use crate::permits::model::poll_once;
    use blitzen_util::shim::Arc;
    use blitzen_util::shim::cell::UnsafeCell as Watched;
    use blitzen_util::shim::thread;
    use loom::future::block_on;

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
            assert!(!notify.word().has_permit() && !notify.word().has_waiters());
        });
    }

    #[test]
    fn all_who_listen_hear_notify_waiters() {
        loom::model(|| {
            let notify = Arc::new(Notify::new());
            let early = notify.notified();
            let listener = thread::spawn({
                let notify = notify.clone();
                // Began to listen before or after: in the latter case it may not
                // wait for ever, so it only looks once.
                move || poll_once(Box::pin(notify.notified()).as_mut()).is_ready()
            });
            let notifier = thread::spawn({
                let notify = notify.clone();
                move || notify.notify_waiters()
            });
            block_on(early); // or loom reports a deadlock
            notifier.join().unwrap();
            listener.join().unwrap();
            assert!(!notify.word().has_waiters());
            assert!(poll_once(Box::pin(notify.notified()).as_mut()).is_pending());
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
            assert!(!notify.word().has_waiters());
        });
    }
}
