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

/// Sends into a [bounded](super::bounded) or [unbounded](super::unbounded)
/// channel; may be cloned.
///
/// ```
/// use blitzen_sync::channel;
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

/// A sender that does not keep the channel open; made by
/// [`Sender::downgrade`].
///
/// ```
/// use blitzen_sync::channel;
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
    /// Sends a value, waiting for room if need be.
    ///
    /// # Errors
    /// If the channel is closed; the error has the value.
    ///
    /// # Cancel safety
    /// Dropped while it waits, the value has not been sent and is dropped with
    /// the future. A turn that it had been given goes to the next.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = channel::bounded(1);
    /// tx.send(1).await.unwrap();
    /// assert_eq!(rx.recv().await, Some(1));
    /// drop(rx);
    /// assert_eq!(tx.send(2).await.unwrap_err().0, 2);
    /// # });
    /// ```
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let chan = &*self.chan;
        let mut unsent = value;
        if coop::has_budget_remaining() {
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

    /// Sends a value if there is room.
    ///
    /// # Errors
    /// If there is none, or the channel is closed; the error has the value.
    ///
    /// ```
    /// use blitzen_sync::channel::{self, error::TrySendError};
    ///
    /// let (tx, _rx) = channel::bounded(1);
    /// assert_eq!(tx.try_send(1), Ok(()));
    /// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.chan.try_send(value) {
            Ok(()) => Ok(()),
            Err((PushError::Full | PushError::Emptying, value)) => Err(TrySendError::Full(value)),
            Err((PushError::Closed, value)) => Err(TrySendError::Closed(value)),
        }
    }

    /// Sends a value from a thread that runs no tasks, waiting for room if need
    /// be.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    ///
    /// # Panics
    /// Within a runtime.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// std::thread::spawn(move || (0..3).try_for_each(|value| tx.blocking_send(value)));
    /// assert_eq!(rx.blocking_recv(), Some(0));
    /// ```
    #[track_caller]
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        assert_may_block();
        block_on(self.send(value))
    }

    /// Refuses values from now on, and wakes everybody who waits. What has been
    /// sent can still be received. False if it was closed before.
    ///
    /// ```
    /// use blitzen_sync::channel;
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

    /// Whether it was closed, or all senders or all receivers are gone.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.chan.is_closed()
    }

    /// How many values are waiting to be received.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded(4);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.len(), 1);
    /// # drop(rx);
    /// ```
    pub fn len(&self) -> usize {
        self.chan.len()
    }

    /// Whether no value is waiting.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert!(tx.is_empty());
    /// # drop((tx, rx));
    /// ```
    pub fn is_empty(&self) -> bool {
        self.chan.len() == 0
    }

    /// Whether there is no room. Never without a bound.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// tx.try_send(1).unwrap();
    /// assert!(tx.is_full());
    /// # drop(rx);
    /// ```
    pub fn is_full(&self) -> bool {
        self.chan.capacity() == Some(self.chan.len())
    }

    /// How many values there is room for now; `None` without a bound.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded(4);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.capacity(), Some(3));
    /// # drop(rx);
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        self.chan.capacity().map(|all| all - self.chan.len())
    }

    /// How many values there is room for when it is empty; `None` without a
    /// bound.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert_eq!(tx.max_capacity(), Some(4));
    /// # drop((tx, rx));
    /// ```
    pub fn max_capacity(&self) -> Option<usize> {
        self.chan.capacity()
    }

    /// How many senders there are.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert_eq!(tx.sender_count(), 1);
    /// # drop((tx, rx));
    /// ```
    pub fn sender_count(&self) -> usize {
        self.chan.senders.count()
    }

    /// How many receivers there are.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert_eq!(tx.receiver_count(), 1);
    /// # drop((tx, rx));
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.chan.receivers.count()
    }

    /// Whether both belong to one channel.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// assert!(tx.same_channel(&tx.clone()));
    /// # drop((tx, rx));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chan, &other.chan)
    }

    /// Makes a handle that does not keep the channel open.
    ///
    /// ```
    /// use blitzen_sync::channel;
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
    /// A sender, if the channel still has one.
    ///
    /// ```
    /// use blitzen_sync::channel;
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
