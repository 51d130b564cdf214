//! The handles of an unbounded channel.

use std::fmt;
use std::future::poll_fn;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::task::{Context, Poll};

use blitzen_util::block_on::block_on;
use blitzen_util::entered::assert_may_block;

use super::chan::{self, Chan, FlowControl, Rx, Tx, WeakTx};
use super::error::{SendError, TryRecvError};
use super::unbounded_flow::UnboundedFlow;

/// Creates a channel without a limit.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// # futures::executor::block_on(async {
/// let (tx, mut rx) = mpsc::unbounded_channel();
/// tx.send("hello").unwrap();
/// assert_eq!(rx.recv().await, Some("hello"));
/// # });
/// ```
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    let (tx, rx) = chan::channel(UnboundedFlow::new());
    (UnboundedSender { tx }, UnboundedReceiver { rx })
}

/// The sending half of an unbounded channel, created by [`unbounded_channel`].
///
/// Can be cloned.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::unbounded_channel();
/// let other = tx.clone();
/// tx.send(1).unwrap();
/// other.send(2).unwrap();
/// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct UnboundedSender<T> {
    tx: Tx<T, UnboundedFlow>,
}

/// A sender that does not keep the channel open, created by
/// [`UnboundedSender::downgrade`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, rx) = mpsc::unbounded_channel::<u32>();
/// let weak = tx.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(tx);
/// assert!(weak.upgrade().is_none());
/// assert!(rx.is_closed());
/// ```
pub struct WeakUnboundedSender<T> {
    tx: WeakTx<T, UnboundedFlow>,
}

/// The receiving half of an unbounded channel, created by [`unbounded_channel`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// # futures::executor::block_on(async {
/// let (tx, mut rx) = mpsc::unbounded_channel();
/// tx.send(1).unwrap();
/// drop(tx);
/// assert_eq!(rx.recv().await, Some(1));
/// assert_eq!(rx.recv().await, None);
/// # });
/// ```
pub struct UnboundedReceiver<T> {
    rx: Rx<T, UnboundedFlow>,
}

// Messages are moved in or out whole, so no panic shows them half done.
impl<T> UnwindSafe for UnboundedSender<T> {}
impl<T> RefUnwindSafe for UnboundedSender<T> {}
impl<T> UnwindSafe for WeakUnboundedSender<T> {}
impl<T> RefUnwindSafe for WeakUnboundedSender<T> {}
impl<T> UnwindSafe for UnboundedReceiver<T> {}
impl<T> RefUnwindSafe for UnboundedReceiver<T> {}

impl<T> Unpin for UnboundedReceiver<T> {}

impl<T> UnboundedSender<T> {
    #[inline(always)]
    fn chan(&self) -> &Chan<T, UnboundedFlow> {
        self.tx.chan()
    }

    /// Sends `value`, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// assert!(tx.send(1).is_ok());
    /// drop(rx);
    /// assert_eq!(tx.send(2).unwrap_err().0, 2);
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the receiver was closed or dropped. The error contains `value`.
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let chan = self.chan();
        match chan.flow.claim() {
            Some(claim) => {
                // SAFETY: just claimed.
                unsafe { chan.send_at(claim, value) };
                Ok(())
            }
            None => Err(SendError(value)),
        }
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// std::thread::spawn(move || drop(rx));
    /// tx.closed().await; // nobody listens: stop producing
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn closed(&self) {
        self.chan().closed().await;
    }

    /// Returns `true` if the receiver was closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.chan().flow.is_closed()
    }

    /// Returns `true` if `self` and `other` send into the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let (other, _rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.is_same(&other.tx)
    }

    /// Creates a weak sender, which does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// ```
    #[must_use = "a weak sender that is dropped at once does nothing"]
    pub fn downgrade(&self) -> WeakUnboundedSender<T> {
        WeakUnboundedSender {
            tx: self.tx.downgrade(),
        }
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let _other = tx.clone();
    /// assert_eq!(tx.strong_count(), 2);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.chan().strong_count()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let _weak = tx.downgrade();
    /// assert_eq!(tx.weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.chan().weak_count()
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        Self {
            tx: self.tx.clone(),
        }
    }
}

impl<T> fmt::Debug for UnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_handle(f, "UnboundedSender", self.chan())
    }
}

fn fmt_handle<T>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    chan: &Chan<T, UnboundedFlow>,
) -> fmt::Result {
    f.debug_struct(name)
        .field("closed", &chan.flow.is_closed())
        .field("senders", &chan.strong_count())
        .finish()
}

impl<T> WeakUnboundedSender<T> {
    /// Returns a new sender, or `None` if the channel has no sender left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// let weak = tx.downgrade();
    /// weak.upgrade().unwrap().send(5).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(5));
    /// ```
    pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
        self.tx.upgrade().map(|tx| UnboundedSender { tx })
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// assert_eq!(tx.downgrade().strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.tx.chan().strong_count()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// assert_eq!(tx.downgrade().weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.chan().weak_count()
    }
}

impl<T> Clone for WeakUnboundedSender<T> {
    fn clone(&self) -> Self {
        Self {
            tx: self.tx.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakUnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakUnboundedSender")
    }
}

impl<T> UnboundedReceiver<T> {
    /// Receives the next value.
    ///
    /// Returns `None` when the channel is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send("hello"));
    /// assert_eq!(rx.recv().await, Some("hello"));
    /// assert_eq!(rx.recv().await, None);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: if the future is dropped, no value is lost.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.rx.poll_recv(cx)).await
    }

    /// Receives up to `limit` values into `buffer`.
    ///
    /// Waits until there is at least one, and returns the number of values added: 0
    /// if `limit` is 0, or if the channel is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// for value in [1, 2, 3] {
    ///     tx.send(value).unwrap();
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
    pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        poll_fn(|cx| self.rx.poll_recv_many(cx, buffer, limit)).await
    }

    /// Receives a value if the channel holds one, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `Empty` if there is no value now, and `Disconnected` if there will
    /// be none.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.rx.try_recv()
    }

    /// Receives the next value, and blocks the current thread until there is one.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send(5));
    /// assert_eq!(rx.blocking_recv(), Some(5));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Option<T> {
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
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send(5));
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.blocking_recv_many(&mut buffer, 8), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        assert_may_block();
        block_on(self.recv_many(buffer, limit))
    }

    /// Polls for the next value, as [`recv`](Self::recv) does.
    ///
    /// Only the task of the last call is woken.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::sync::mpsc;
    ///
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// assert_eq!(rx.poll_recv(&mut cx), Poll::Pending);
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.poll_recv(&mut cx), Poll::Ready(Some(1)));
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.rx.poll_recv(cx)
    }

    /// Polls for up to `limit` values, as [`recv_many`](Self::recv_many) does.
    ///
    /// Only the task of the last call is woken.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::sync::mpsc;
    ///
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.poll_recv_many(&mut cx, &mut buffer, 8), Poll::Ready(1));
    /// ```
    pub fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
        self.rx.poll_recv_many(cx, buffer, limit)
    }

    /// Closes the channel: no new value can be sent.
    ///
    /// Values that were sent can still be received; `recv` returns `None` after
    /// them.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// rx.close();
    /// assert!(tx.send(2).is_err());
    /// assert_eq!(rx.recv().await, Some(1));
    /// assert_eq!(rx.recv().await, None);
    /// # });
    /// ```
    pub fn close(&mut self) {
        self.rx.close();
    }

    /// Returns `true` if the channel was closed or all senders were dropped.
    ///
    /// Messages may be left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.rx.is_closed()
    }

    /// Returns `true` if the channel holds no message.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// assert!(rx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.rx.len() == 0
    }

    /// Returns the number of messages in the channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.rx.len()
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// let _other = tx.clone();
    /// assert_eq!(rx.sender_strong_count(), 2);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.rx.chan().strong_count()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// let _weak = tx.downgrade();
    /// assert_eq!(rx.sender_weak_count(), 1);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.rx.chan().weak_count()
    }
}

impl<T> fmt::Debug for UnboundedReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_handle(f, "UnboundedReceiver", self.rx.chan())
    }
}
