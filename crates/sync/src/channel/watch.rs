//! A channel that keeps the latest value, and notifies receivers of changes.
//!
//! A receiver sees the latest value only: a value that is replaced before the receiver
//! has looked at it is lost.
//!
//! # Examples
//!
//! ```
//! use blitzen::sync::watch;
//!
//! # futures::executor::block_on(async {
//! let (tx, mut rx) = watch::channel("starting");
//! std::thread::spawn(move || tx.send("ready"));
//! rx.changed().await.unwrap();
//! assert_eq!(*rx.borrow_and_update(), "ready");
//! # });
//! ```

//   state:  │ version │ WAITING │ CLOSED │
//
// A receiver remembers the version it has seen. The value has changed for it if the
// current version is another one.
//
// V1. The version is changed while the value is locked for writing, so a thread that
//     holds the read lock reads the version that belongs to the value.
// V2. `WAITING` is set by a receiver that joins `changing`, under the lock of that
//     queue, by an exchange that fails if the version has changed. It is cleared under
//     the same lock when the queue is empty.
//
// So a sender learns from the operation that changes the version whether a receiver
// waits, and without waiters it does not lock the queue.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::task::{Poll, ready};

use blitzen_util::coop;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use blitzen_util::shim::{Arc, RwLock, RwLockReadGuard};
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch;

use self::error::{RecvError, SendError};
use super::handle_count::HandleCount;
use super::wait_until::{QueueEntry, wait_until, wake_all_waiters};
use crate::wait_queue::{Outcome, WaitQueue};

/// Errors of sending and receiving.
pub mod error {
    use std::error::Error;
    use std::fmt;

    /// The error of [`Sender::send`](super::Sender::send): there is no receiver.
    ///
    /// Contains the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// drop(rx);
    /// assert_eq!(tx.send(2).unwrap_err().0, 2);
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct SendError<T>(pub T);

    impl<T> fmt::Debug for SendError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("SendError").finish_non_exhaustive()
        }
    }

    impl<T> fmt::Display for SendError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("channel closed")
        }
    }

    impl<T> Error for SendError<T> {}

    /// The error of waiting for a change: all senders were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = watch::channel(1);
    /// drop(tx);
    /// let error = rx.changed().await.unwrap_err();
    /// assert_eq!(error.to_string(), "channel closed");
    /// # });
    /// ```
    #[derive(Clone, Debug)]
    pub struct RecvError(pub(super) ());

    impl fmt::Display for RecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("channel closed")
        }
    }

    impl Error for RecvError {}
}

const CLOSED: usize = 1;
const WAITING: usize = 2;
/// One version further.
const VERSION: usize = 4;

/// Creates a channel with the value `init`, which the receiver has seen.
///
/// # Examples
///
/// ```
/// use blitzen::sync::watch;
///
/// let (tx, rx) = watch::channel(1);
/// assert_eq!(*rx.borrow(), 1);
/// assert!(!rx.has_changed().unwrap());
/// tx.send(2).unwrap();
/// assert!(rx.has_changed().unwrap());
/// ```
pub fn channel<T>(init: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(init);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// The sending half of a watch channel.
///
/// Can be cloned.
///
/// # Examples
///
/// ```
/// use blitzen::sync::watch;
///
/// let (tx, rx) = watch::channel(1);
/// tx.send_modify(|value| *value += 1);
/// assert_eq!(*rx.borrow(), 2);
/// ```
pub struct Sender<T> {
    shared: Arc<WatchShared<T>>,
}

/// The receiving half of a watch channel.
///
/// Can be cloned.
///
/// # Examples
///
/// ```
/// use blitzen::sync::watch;
///
/// let (tx, mut rx) = watch::channel(1);
/// tx.send(2).unwrap();
/// assert_eq!(*rx.borrow_and_update(), 2);
/// assert!(!rx.has_changed().unwrap());
/// ```
pub struct Receiver<T> {
    shared: Arc<WatchShared<T>>,
    /// The version it has seen.
    seen: usize,
}

/// A borrowed value of a watch channel.
///
/// It holds a read lock: do not keep it across an `.await`, and do not send into
/// the same channel while it exists.
///
/// # Examples
///
/// ```
/// use blitzen::sync::watch;
///
/// let (_tx, rx) = watch::channel(vec![1, 2]);
/// let numbers = rx.borrow();
/// assert_eq!(numbers.len(), 2);
/// ```
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    has_changed: bool,
}

struct WatchShared<T> {
    value: RwLock<T>,
    state: AtomicUsize,
    senders: HandleCount,
    receivers: HandleCount,
    /// The receivers that wait for a change, tagged with the version they have seen.
    changing: WaitQueue,
    /// The tasks that wait until there is no receiver.
    closing: WaitQueue,
}

// A panic in `send_modify` leaves what the closure has left, without a version.
impl<T: RefUnwindSafe> UnwindSafe for Sender<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for Sender<T> {}
impl<T: RefUnwindSafe> UnwindSafe for Receiver<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for Receiver<T> {}

#[inline(always)]
fn version(state: usize) -> usize {
    state / VERSION
}

#[inline(always)]
fn is_closed(state: usize) -> bool {
    state & CLOSED != 0
}

impl<T> WatchShared<T> {
    #[inline(always)]
    fn state(&self) -> usize {
        // Acquire, met by the Release of every change: a receiver that sees a
        // version, or the close, sees what came before it.
        self.state.load(Acquire)
    }

    #[inline(always)]
    fn borrow(&self) -> (RwLockReadGuard<'_, T>, usize) {
        let value = self.value.read();
        let version = version(self.state()); // V1
        (value, version)
    }

    /// Wakes the receivers that have seen an older version than `end`, if `state`
    /// says that any wait.
    #[inline(always)]
    fn wake_receivers(&self, state: usize, end: usize) {
        if state & WAITING != 0 {
            self.wake_before(end);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_before(&self, end: usize) {
        wake_batch::in_rounds(|batch| {
            let mut waiters = self.changing.lock();
            // Later waiters have joined while we were waking.
            while let Some(seen) = waiters.front()
                && (end.wrapping_sub(seen).wrapping_mul(VERSION)) as isize > 0
            {
                if batch.is_full() {
                    return true;
                }
                waiters.settle_front(Outcome::Released, batch);
            }
            if waiters.is_empty() {
                self.state.fetch_and(!WAITING, Relaxed); // V2
            }
            false
        });
    }

    /// Returns the tag to wait with in `changing`, or `None` if the version has
    /// changed (V2).
    fn must_wait(&self, seen: usize) -> Option<usize> {
        let mut state = self.state();
        loop {
            if version(state) != seen || is_closed(state) {
                return None;
            }
            if state & WAITING != 0 {
                return Some(seen);
            }
            // Relaxed: the lock of the queue orders what it guards, and a caller that need not wait
            // loads the state again.
            match (self.state).compare_exchange_weak(state, state | WAITING, Relaxed, Relaxed) {
                Ok(_) => return Some(seen),
                Err(changed) => state = changed,
            }
        }
    }

    fn subscribe(shared: &Arc<Self>, seen: usize) -> Receiver<T> {
        shared.receivers.add();
        Receiver {
            shared: shared.clone(),
            seen,
        }
    }
}

impl<T> Sender<T> {
    /// Creates a channel without a receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch::Sender;
    ///
    /// let tx = Sender::new(1);
    /// assert!(tx.is_closed());
    /// assert_eq!(*tx.subscribe().borrow(), 1);
    /// ```
    pub fn new(init: T) -> Self {
        Self {
            shared: Arc::new(WatchShared {
                value: RwLock::new(init),
                state: AtomicUsize::new(0),
                senders: HandleCount::new(1),
                receivers: HandleCount::new(0),
                changing: WaitQueue::new(()),
                closing: WaitQueue::new(()),
            }),
        }
    }

    /// Replaces the value with `value`, and notifies the receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*rx.borrow(), 2);
    /// drop(rx);
    /// assert!(tx.send(3).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if there is no receiver. The error contains `value`, and the old value
    /// stays. [`send_replace`](Self::send_replace) works without receivers.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Modifies the value in place with `modify`, and notifies the receivers.
    ///
    /// If `modify` panics, the value stays as `modify` has left it, and the receivers
    /// are not notified.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(vec![1]);
    /// tx.send_modify(|list| list.push(2));
    /// assert_eq!(*rx.borrow(), [1, 2]);
    /// ```
    pub fn send_modify<F>(&self, modify: F)
    where
        F: FnOnce(&mut T),
    {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Modifies the value in place with `modify`, and notifies the receivers if
    /// `modify` returns `true`.
    ///
    /// Returns what `modify` returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// let at_least = |least: i32| {
    ///     tx.send_if_modified(|value| {
    ///         let grows = *value < least;
    ///         *value = least.max(*value);
    ///         grows
    ///     })
    /// };
    /// assert!(!at_least(1));
    /// assert!(!rx.has_changed().unwrap());
    /// assert!(at_least(2));
    /// assert!(rx.has_changed().unwrap());
    /// ```
    pub fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let shared = &*self.shared;
        let mut value = shared.value.write();
        if !modify(&mut value) {
            return false;
        }
        // AcqRel: Release, met by the Acquire in `state`. V1: still locked.
        let state = shared.state.fetch_add(VERSION, AcqRel);
        drop(value);
        shared.wake_receivers(state, version(state) + 1);
        true
    }

    /// Replaces the value with `value`, notifies the receivers, if any, and returns
    /// the old value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch::Sender;
    ///
    /// let tx = Sender::new(1);
    /// assert_eq!(tx.send_replace(2), 1);
    /// assert_eq!(*tx.borrow(), 2);
    /// ```
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| mem::swap(old, &mut value));
        value
    }

    /// Borrows the current value.
    ///
    /// Senders wait while it is borrowed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// assert_eq!(*tx.borrow(), 1);
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref {
            value: self.shared.value.read(),
            has_changed: false, // a sender has seen what was sent
        }
    }

    /// Returns `true` if there is no receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until all receivers are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = watch::channel(1);
    /// std::thread::spawn(move || drop(rx));
    /// tx.closed().await; // nobody looks: stop computing
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn closed(&self) {
        wait_until(&self.shared.closing, || self.is_closed()).await;
    }

    /// Creates a receiver that has seen the current value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch::Sender;
    ///
    /// let tx = Sender::new(1);
    /// let rx = tx.subscribe();
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        WatchShared::subscribe(&self.shared, version(self.shared.state()))
    }

    /// Returns the number of receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// assert_eq!(tx.receiver_count(), 1);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers.get()
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// let _other = tx.clone();
    /// assert_eq!(tx.sender_count(), 2);
    /// ```
    pub fn sender_count(&self) -> usize {
        self.shared.senders.get()
    }

    /// Returns `true` if `self` and `other` send into the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, _rx) = watch::channel(1);
    /// let (other, _rx) = watch::channel(1);
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.add();
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.remove() {
            // AcqRel: Release, met by the Acquire in `state`.
            let state = self.shared.state.fetch_or(CLOSED, AcqRel);
            self.shared.wake_receivers(state, version(state) + 1);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("value", &*self.borrow())
            .field("receivers", &self.receiver_count())
            .finish()
    }
}

impl<T> Receiver<T> {
    /// Borrows the current value, without marking it as seen.
    ///
    /// Senders wait while it is borrowed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*rx.borrow(), 2);
    /// assert!(rx.has_changed().unwrap());
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        let (value, version) = self.shared.borrow();
        Ref {
            value,
            has_changed: version != self.seen,
        }
    }

    /// Borrows the current value, and marks it as seen.
    ///
    /// Senders wait while it is borrowed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, mut rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert_eq!(*rx.borrow_and_update(), 2);
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let (value, version) = self.shared.borrow();
        let seen = mem::replace(&mut self.seen, version);
        Ref {
            value,
            has_changed: version != seen,
        }
    }

    /// Returns `true` if this receiver has not seen the current value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert!(rx.has_changed().unwrap());
    /// drop(tx);
    /// assert!(rx.has_changed().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if all senders were dropped.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        let state = self.shared.state();
        match is_closed(state) {
            true => Err(RecvError(())),
            false => Ok(version(state) != self.seen),
        }
    }

    /// Marks the current value as not seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// # futures::executor::block_on(async {
    /// let (_tx, mut rx) = watch::channel(1);
    /// rx.mark_changed();
    /// rx.changed().await.unwrap(); // at once
    /// # });
    /// ```
    pub fn mark_changed(&mut self) {
        // Any other than the present one.
        self.seen = version(self.shared.state().wrapping_sub(VERSION));
    }

    /// Marks the current value as seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, mut rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// rx.mark_unchanged();
    /// assert!(!rx.has_changed().unwrap());
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = version(self.shared.state());
    }

    /// Waits for a value that this receiver has not seen, and marks it as seen.
    ///
    /// Returns at once if the current value has not been seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = watch::channel(1);
    /// std::thread::spawn(move || tx.send(2));
    /// rx.changed().await.unwrap();
    /// assert_eq!(*rx.borrow(), 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: if the future is dropped, no value has been
    /// marked as seen.
    ///
    /// # Errors
    ///
    /// Fails if all senders were dropped, and the last value has been seen.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        let shared = &*self.shared;
        let seen = &mut self.seen;
        let entry = pin!(QueueEntry::new(&shared.changing));
        let entry = entry.into_ref();
        poll_fn(|cx| {
            let spent = ready!(coop::poll_proceed(cx));
            let changed = loop {
                let state = shared.state();
                if version(state) != *seen {
                    *seen = version(state);
                    break Ok(());
                }
                if is_closed(state) {
                    break Err(RecvError(()));
                }
                if entry.wait(cx, |()| shared.must_wait(*seen)) {
                    wait::pending_on(WaitKind::Watch, shared);
                    return Poll::Pending;
                }
            };
            spent.made_progress();
            Poll::Ready(changed)
        })
        .await
    }

    /// Waits for a value for which `wanted` returns `true`, and marks it as seen.
    ///
    /// Returns at once if the current value is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = watch::channel(1);
    /// std::thread::spawn(move || (2..10).try_for_each(|value| tx.send(value)));
    /// let value = rx.wait_for(|value| *value > 5).await.unwrap();
    /// assert!(*value > 5);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped, values for which
    /// `wanted` returned `false` have been marked as seen.
    ///
    /// # Errors
    ///
    /// Fails if all senders were dropped, and `wanted` returns `false` for the last
    /// value.
    pub async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        let shared = &*self.shared;
        let seen = &mut self.seen;
        let entry = pin!(QueueEntry::new(&shared.changing));
        let entry = entry.into_ref();
        let mut asked = None;
        poll_fn(|cx| {
            let spent = ready!(coop::poll_proceed(cx));
            loop {
                let state = shared.state(); // before the value: closed means last
                if asked != Some(version(state)) {
                    let (value, version) = shared.borrow();
                    asked = Some(version);
                    let has_changed = mem::replace(seen, version) != version;
                    if wanted(&value) {
                        spent.made_progress();
                        return Poll::Ready(Ok(Ref { value, has_changed }));
                    }
                }
                if is_closed(state) {
                    spent.made_progress();
                    return Poll::Ready(Err(RecvError(())));
                }
                if entry.wait(cx, |()| shared.must_wait(*seen)) {
                    wait::pending_on(WaitKind::Watch, shared);
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Returns `true` if `self` and `other` receive from the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (_tx, rx) = watch::channel(1);
    /// assert!(rx.same_channel(&rx.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns `true` if all senders were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, rx) = watch::channel(1);
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        is_closed(self.shared.state())
    }
}

impl<T> Clone for Receiver<T> {
    /// The clone has seen what the original has.
    fn clone(&self) -> Self {
        WatchShared::subscribe(&self.shared, self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.receivers.remove() {
            wake_all_waiters(&self.shared.closing);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.borrow();
        f.debug_struct("Receiver")
            .field("value", &*value)
            .field("has_changed", &value.has_changed)
            .field("closed", &self.is_closed())
            .finish()
    }
}

impl<T> Ref<'_, T> {
    /// Returns `true` if the receiver had not seen the value before.
    ///
    /// Returns `false` if the value was borrowed from a sender.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::watch;
    ///
    /// let (tx, mut rx) = watch::channel(1);
    /// tx.send(2).unwrap();
    /// assert!(rx.borrow_and_update().has_changed());
    /// assert!(!rx.borrow_and_update().has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ref")
            .field("value", &**self)
            .field("has_changed", &self.has_changed)
            .finish()
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use std::future::Future;
    use std::task::{Context, Waker};

    use blitzen_util::shim::cell::UnsafeCell;
    use blitzen_util::shim::{AccessCheck, thread};
    use loom::future::block_on;

    #[test]
    fn a_change_reaches_whoever_waits() {
        loom::model(|| {
            let (tx, mut rx) = channel(0);
            let sender = thread::spawn(move || tx.send(1).unwrap());
            block_on(rx.changed()).unwrap();
            assert_eq!(*rx.borrow(), 1);
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_change_publishes_what_was_done_before_it() {
        loom::model(|| {
            let done = Arc::new(UnsafeCell::new(0));
            let (tx, rx) = channel(0);
            let sender = thread::spawn({
                let done = done.clone();
                move || {
                    // SAFETY: read only after the change.
                    done.with_mut(|done| unsafe { *done = 1 });
                    tx.send(1).unwrap();
                    tx
                }
            });
            if rx.has_changed().unwrap() {
                // SAFETY: written before the change.
                assert_eq!(done.with(|done| unsafe { *done }), 1);
            }
            drop(sender.join().unwrap());
        });
    }

    #[test]
    fn two_changes_reach_two_receivers() {
        loom::model(|| {
            let (tx, mut one) = channel(0);
            let mut two = one.clone();
            let receiver =
                thread::spawn(move || block_on(one.wait_for(|value| *value == 2)).is_ok());
            tx.send(1).unwrap();
            tx.send(2).unwrap();
            block_on(two.changed()).unwrap();
            assert_eq!(*two.borrow(), 2);
            assert!(receiver.join().unwrap());
        });
    }

    #[test]
    fn the_last_value_is_seen_before_the_close() {
        loom::model(|| {
            let (tx, mut rx) = channel(0);
            let sender = thread::spawn(move || tx.send(1).unwrap());
            let value = block_on(rx.wait_for(|value| *value == 1)).map(|value| *value);
            assert_eq!(value.unwrap(), 1);
            assert!(block_on(rx.changed()).is_err());
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_wait_given_up_leaves_the_change_for_the_next() {
        loom::model(|| {
            let (tx, mut rx) = channel(0);
            let sender = thread::spawn(move || {
                tx.send(1).unwrap();
                tx
            });
            let polled = pin!(rx.changed()).poll(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(changed) => changed.unwrap(),
                Poll::Pending => block_on(rx.changed()).unwrap(),
            }
            assert!(!rx.has_changed().unwrap());
            drop(sender.join().unwrap());
        });
    }

    #[test]
    fn the_sender_sees_that_the_last_receiver_was_dropped() {
        loom::model(|| {
            let (tx, one) = channel(0);
            let two = one.clone();
            let receiver = thread::spawn(move || drop(one));
            drop(two);
            block_on(tx.closed());
            assert!(tx.is_closed());
            receiver.join().unwrap();
        });
    }

    #[test]
    fn the_end_of_the_last_sender_publishes_what_it_did() {
        loom::model(|| {
            let done = Arc::new(AccessCheck::new());
            let (tx, rx) = channel(0);
            let sender = thread::spawn({
                let done = done.clone();
                move || {
                    done.write();
                    drop(tx);
                }
            });
            if rx.has_changed().is_err() {
                done.read();
            }
            sender.join().unwrap();
        });
    }
}
