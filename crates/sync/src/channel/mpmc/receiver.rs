//! The end that receives.

use std::fmt;
use std::future::poll_fn;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;

use blitzen_util::block_on::block_on;
use blitzen_util::coop;
use blitzen_util::entered::assert_may_block;
use blitzen_util::shim::Arc;

use super::chan::{AttemptWaiter, Chan};
use super::{PopError, WaitSide};
use crate::channel::error::TryRecvError;

/// Receives from a [bounded](super::bounded) or [unbounded](super::unbounded)
/// channel; may be cloned. Each value goes to one receiver.
///
/// ```
/// use blitzen_sync::channel;
///
/// let (tx, rx) = channel::bounded(4);
/// let other = rx.clone();
/// tx.try_send(1).unwrap();
/// tx.try_send(2).unwrap();
/// assert_eq!((rx.try_recv(), other.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct Receiver<T> {
    pub(super) chan: Arc<Chan<T>>,
}

/// A receiver that does not keep the channel open; made by
/// [`Receiver::downgrade`].
///
/// ```
/// use blitzen_sync::channel;
///
/// let (tx, rx) = channel::bounded::<u32>(1);
/// let weak = rx.downgrade();
/// drop(rx);
/// assert!(weak.upgrade().is_none());
/// assert!(tx.is_closed());
/// ```
pub struct WeakReceiver<T> {
    chan: Arc<Chan<T>>,
}

// Values are moved in or out whole, so no panic shows them half done.
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}
impl<T> UnwindSafe for WeakReceiver<T> {}
impl<T> RefUnwindSafe for WeakReceiver<T> {}

impl<T> Receiver<T> {
    /// Receives the next value, waiting for it if need be; `None` when there
    /// will be none.
    ///
    /// # Cancel safety
    /// A value is received or stays in the channel, wherever the future is
    /// dropped. A turn that it had been given goes to the next.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = channel::bounded(4);
    /// std::thread::spawn(move || tx.blocking_send("hello"));
    /// assert_eq!(rx.recv().await, Some("hello"));
    /// assert_eq!(rx.recv().await, None);
    /// # });
    /// ```
    pub async fn recv(&self) -> Option<T> {
        let chan = &*self.chan;
        if coop::has_budget_remaining()
            && let Ok(value) = chan.pop()
        {
            coop::try_spend(); // there is one: we have just looked
            return Some(value);
        }
        let waiter = pin!(AttemptWaiter::new(chan, WaitSide::Receivers));
        let waiter = waiter.into_ref();
        poll_fn(|cx| chan.poll_recv(waiter, cx)).await
    }

    /// Adds up to `limit` values to `buffer`, waiting until there is at least
    /// one; returns how many. Zero means that there will be none, or that
    /// `limit` is zero.
    ///
    /// # Cancel safety
    /// Values are in `buffer` or stay in the channel, wherever the future is
    /// dropped.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = channel::bounded(4);
    /// for value in [1, 2, 3] {
    ///     tx.send(value).await.unwrap();
    /// }
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.recv_many(&mut buffer, 2).await, 2);
    /// assert_eq!(buffer, [1, 2]);
    /// # });
    /// ```
    pub async fn recv_many(&self, buffer: &mut Vec<T>, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        let Some(first) = self.recv().await else {
            return 0;
        };
        buffer.push(first);
        let mut count = 1;
        while count < limit
            && let Ok(value) = self.chan.pop()
        {
            buffer.push(value);
            count += 1;
        }
        count
    }

    /// Receives a value that is there.
    ///
    /// # Errors
    /// Says whether one may still come.
    ///
    /// ```
    /// use blitzen_sync::channel::{self, error::TryRecvError};
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.chan.try_recv() {
            Ok(value) => Ok(value),
            Err(PopError::Closed) => Err(TryRecvError::Disconnected),
            Err(PopError::Empty | PopError::Filling) => Err(TryRecvError::Empty),
        }
    }

    /// Receives the next value on a thread that runs no tasks.
    ///
    /// # Panics
    /// Within a runtime.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// std::thread::spawn(move || tx.blocking_send(5));
    /// assert_eq!(rx.blocking_recv(), Some(5));
    /// ```
    #[track_caller]
    pub fn blocking_recv(&self) -> Option<T> {
        assert_may_block();
        block_on(self.recv())
    }

    /// [`recv_many`](Self::recv_many) on a thread that runs no tasks.
    ///
    /// # Panics
    /// Within a runtime.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// std::thread::spawn(move || tx.blocking_send(5));
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.blocking_recv_many(&mut buffer, 8), 1);
    /// ```
    #[track_caller]
    pub fn blocking_recv_many(&self, buffer: &mut Vec<T>, limit: usize) -> usize {
        assert_may_block();
        block_on(self.recv_many(buffer, limit))
    }

    /// Refuses values from now on, and wakes everybody who waits. What has been
    /// sent can still be received. False if it was closed before.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded(4);
    /// tx.try_send(1).unwrap();
    /// assert!(rx.close());
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
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
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
    /// assert_eq!(rx.len(), 1);
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
    /// assert!(rx.is_empty());
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
    /// assert!(rx.is_full());
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
    /// assert_eq!(rx.capacity(), Some(3));
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
    /// assert_eq!(rx.max_capacity(), Some(4));
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
    /// assert_eq!(rx.sender_count(), 1);
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
    /// assert_eq!(rx.receiver_count(), 1);
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
    /// assert!(rx.same_channel(&rx.clone()));
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
    /// let weak = rx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// # drop((tx, rx));
    /// ```
    #[must_use = "a weak handle that is dropped at once does nothing"]
    pub fn downgrade(&self) -> WeakReceiver<T> {
        WeakReceiver {
            chan: self.chan.clone(),
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.chan.receivers.add();
        Self {
            chan: self.chan.clone(),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.chan.receivers.remove() {
            self.chan.close_and_clear();
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("len", &self.len())
            .field("max_capacity", &self.max_capacity())
            .field("closed", &self.is_closed())
            .finish()
    }
}

impl<T> WeakReceiver<T> {
    /// A receiver, if the channel still has one.
    ///
    /// ```
    /// use blitzen_sync::channel;
    ///
    /// let (tx, rx) = channel::bounded::<u32>(4);
    /// let weak = rx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(rx);
    /// assert!(weak.upgrade().is_none());
    /// # drop(tx);
    /// ```
    #[must_use = "a handle that is dropped at once does nothing"]
    pub fn upgrade(&self) -> Option<Receiver<T>> {
        self.chan.receivers.add_unless_zero().then(|| Receiver {
            chan: self.chan.clone(),
        })
    }
}

impl<T> Clone for WeakReceiver<T> {
    fn clone(&self) -> Self {
        Self {
            chan: self.chan.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakReceiver")
    }
}
