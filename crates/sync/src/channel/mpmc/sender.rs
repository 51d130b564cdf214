//! The end that sends.

use std::fmt;
use std::future::poll_fn;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;

use blitzen_util::block_on::block_on;
use blitzen_util::coop;
use blitzen_util::entered::assert_may_block;
use blitzen_util::shim::Arc;

use super::chan::{AttemptWaiter, Chan};
use super::{PushError, WaitSide};
use crate::channel::error::{SendError, TrySendError};

/// The sending half of a [bounded](super::bounded) or [unbounded](super::unbounded)
/// channel.
///
/// Can be cloned.
///
/// # Examples
///
/// ```
/// use blitzen::channel;
///
/// let (tx, rx) = channel::bounded(4);
/// let other = tx.clone();
/// tx.try_send(1).unwrap();
/// other.try_send(2).unwrap();
/// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct Sender<T> {
    pub(super) chan: Arc<Chan<T>>,
}

/// A sender that does not keep the channel open, created by [`Sender::downgrade`].
///
/// # Examples
///
/// ```
/// use blitzen::channel;
///
/// let (tx, rx) = channel::bounded::<u32>(1);
/// let weak = tx.downgrade();
/// drop(tx);
/// assert!(weak.upgrade().is_none());
/// assert!(rx.is_closed());
/// ```
pub struct WeakSender<T> {
    chan: Arc<Chan<T>>,
}

// Values are moved in or out whole, so no panic shows them half done.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for WeakSender<T> {}
impl<T> RefUnwindSafe for WeakSender<T> {}

impl<T> Sender<T> {
    /// Sends `value`.
    ///
    /// Waits until there is capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = channel::bounded(1);
    /// tx.send(1).await.unwrap();
    /// assert_eq!(rx.recv().await, Some(1));
    /// drop(rx);
    /// assert_eq!(tx.send(2).await.unwrap_err().0, 2);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it completes, `value` was not sent and is
    /// dropped too.
    ///
    /// # Errors
    ///
    /// Fails if the channel is closed. The error contains `value`.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let chan = &*self.chan;
        let mut unsent = value;
        if coop::has_unit() {
            match chan.push(unsent) {
                Ok(()) => {
                    coop::try_spend(); // there is one: we have just looked
                    return Ok(());
                }
                Err((_, value)) => unsent = value,
            }
        }
        let mut unsent = Some(unsent);
        let waiter = pin!(AttemptWaiter::new(chan, WaitSide::Senders));
        let waiter = waiter.into_ref();
        poll_fn(|cx| chan.poll_send(waiter, &mut unsent, cx))
            .await
            .map_err(SendError)
    }

    /// Sends `value` if there is capacity, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel::{self, error::TrySendError};
    ///
    /// let (tx, _rx) = channel::bounded(1);
    /// assert_eq!(tx.try_send(1), Ok(()));
    /// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `Full` if there is no capacity, and `Closed` if the channel is
    /// closed. The error contains the value.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.chan.try_send(value) {
            Ok(()) => Ok(()),
            Err((PushError::Full | PushError::Emptying, value)) => Err(TrySendError::Full(value)),
            Err((PushError::Closed, value)) => Err(TrySendError::Closed(value)),
        }
    }

    /// Sends `value`, and blocks the current thread until there is capacity.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// std::thread::spawn(move || (0..3).try_for_each(|value| tx.blocking_send(value)));
    /// assert_eq!(rx.blocking_recv(), Some(0));
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        assert_may_block();
        block_on(self.send(value))
    }

    /// Closes the channel: no new value can be sent, and all waiting tasks are
    /// woken.
    ///
    /// Values that were sent can still be received. Returns `false` if the channel
    /// was closed already.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded(4);
    /// tx.try_send(1).unwrap();
    /// assert!(tx.close());
    /// assert!(tx.try_send(2).is_err());
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    pub fn close(&self) -> bool {
        self.chan.close()
    }

    /// Returns `true` if the channel was closed, or all senders or all receivers
    /// were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.chan.is_closed()
    }

    /// Returns the number of values in the channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded(4);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.len(), 1);
    /// # drop(rx);
    /// ```
    pub fn len(&self) -> usize {
        self.chan.len()
    }

    /// Returns `true` if the channel holds no value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert!(tx.is_empty());
    /// # drop((tx, rx));
    /// ```
    pub fn is_empty(&self) -> bool {
        self.chan.len() == 0
    }

    /// Returns `true` if the channel is full.
    ///
    /// An unbounded channel never is.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// tx.try_send(1).unwrap();
    /// assert!(tx.is_full());
    /// # drop(rx);
    /// ```
    pub fn is_full(&self) -> bool {
        self.chan.capacity() == Some(self.chan.len())
    }

    /// Returns the number of values that can be sent now without waiting, or `None`
    /// for an unbounded channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded(4);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.capacity(), Some(3));
    /// # drop(rx);
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        self.chan.capacity().map(|all| all - self.chan.len())
    }

    /// Returns the capacity with which the channel was created, or `None` for an
    /// unbounded channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert_eq!(tx.max_capacity(), Some(4));
    /// # drop((tx, rx));
    /// ```
    pub fn max_capacity(&self) -> Option<usize> {
        self.chan.capacity()
    }

    /// Returns the number of senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert_eq!(tx.sender_count(), 1);
    /// # drop((tx, rx));
    /// ```
    pub fn sender_count(&self) -> usize {
        self.chan.senders.get()
    }

    /// Returns the number of receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert_eq!(tx.receiver_count(), 1);
    /// # drop((tx, rx));
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.chan.receivers.get()
    }

    /// Returns `true` if `self` and `other` belong to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert!(tx.same_channel(&tx.clone()));
    /// # drop((tx, rx));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chan, &other.chan)
    }

    /// Creates a weak handle, which does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// # drop((tx, rx));
    /// ```
    #[must_use = "a weak handle that is dropped at once does nothing"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender {
            chan: self.chan.clone(),
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.chan.senders.add();
        Self {
            chan: self.chan.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.chan.senders.remove() {
            self.chan.close();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("len", &self.len())
            .field("max_capacity", &self.max_capacity())
            .field("closed", &self.is_closed())
            .finish()
    }
}

impl<T> WeakSender<T> {
    /// Returns a new sender, or `None` if the channel has no sender left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(tx);
    /// assert!(weak.upgrade().is_none());
    /// # drop(rx);
    /// ```
    #[must_use = "a handle that is dropped at once does nothing"]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.chan.senders.add_unless_zero().then(|| Sender {
            chan: self.chan.clone(),
        })
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self {
            chan: self.chan.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakSender")
    }
}
