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

/// The receiving half of a [bounded](super::bounded) or
/// [unbounded](super::unbounded) channel.
///
/// Can be cloned; each value goes to one receiver.
///
/// # Examples
///
/// ```
/// use blitzen::channel;
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

/// A receiver that does not keep the channel open, created by
/// [`Receiver::downgrade`].
///
/// # Examples
///
/// ```
/// use blitzen::channel;
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
    /// Receives the next value.
    ///
    /// Returns `None` when the channel is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = channel::bounded(4);
    /// std::thread::spawn(move || tx.blocking_send("hello"));
    /// assert_eq!(rx.recv().await, Some("hello"));
    /// assert_eq!(rx.recv().await, None);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: if the future is dropped, no value is lost.
    pub async fn recv(&self) -> Option<T> {
        let chan = &*self.chan;
        if coop::has_unit()
            && let Ok(value) = chan.pop()
        {
            coop::try_spend(); // there is one: we have just looked
            return Some(value);
        }
        let waiter = pin!(AttemptWaiter::new(chan, WaitSide::Receivers));
        let waiter = waiter.into_ref();
        poll_fn(|cx| chan.poll_recv(waiter, cx)).await
    }

    /// Receives up to `limit` values into `buffer`.
    ///
    /// Waits until there is at least one, and returns the number of values added: 0
    /// if `limit` is 0, or if the channel is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
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
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: if the future is dropped, every value is in
    /// `buffer` or in the channel.
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

    /// Receives a value if the channel holds one, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel::{self, error::TryRecvError};
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `Empty` if there is no value now, and `Disconnected` if there will
    /// be none.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.chan.try_recv() {
            Ok(value) => Ok(value),
            Err(PopError::Closed) => Err(TryRecvError::Disconnected),
            Err(PopError::Empty | PopError::Filling) => Err(TryRecvError::Empty),
        }
    }

    /// Receives the next value, and blocks the current thread until there is one.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// std::thread::spawn(move || tx.blocking_send(5));
    /// assert_eq!(rx.blocking_recv(), Some(5));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv(&self) -> Option<T> {
        assert_may_block();
        block_on(self.recv())
    }

    /// Receives up to `limit` values into `buffer`, as
    /// [`recv_many`](Self::recv_many) does, and blocks the current thread until
    /// there is at least one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
    ///
    /// let (tx, rx) = channel::bounded(1);
    /// std::thread::spawn(move || tx.blocking_send(5));
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.blocking_recv_many(&mut buffer, 8), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv_many(&self, buffer: &mut Vec<T>, limit: usize) -> usize {
        assert_may_block();
        block_on(self.recv_many(buffer, limit))
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
    /// assert!(rx.close());
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
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
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
    /// assert_eq!(rx.len(), 1);
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
    /// assert!(rx.is_empty());
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
    /// assert!(rx.is_full());
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
    /// assert_eq!(rx.capacity(), Some(3));
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
    /// assert_eq!(rx.max_capacity(), Some(4));
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
    /// assert_eq!(rx.sender_count(), 1);
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
    /// assert_eq!(rx.receiver_count(), 1);
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
    /// assert!(rx.same_channel(&rx.clone()));
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
    /// Returns a new receiver, or `None` if the channel has no receiver left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::channel;
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
