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

/// Makes a channel that takes as many messages as memory holds.
///
/// ```
/// use blitzen_sync::channel::mpsc;
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

/// Sends into an unbounded channel; may be cloned.
///
/// ```
/// use blitzen_sync::channel::mpsc;
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

/// A sender that does not keep the channel open; made by
/// [`UnboundedSender::downgrade`].
///
/// ```
/// use blitzen_sync::channel::mpsc;
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

/// Receives from an unbounded channel.
///
/// ```
/// use blitzen_sync::channel::mpsc;
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

    /// Sends a value; it never waits.
    ///
    /// # Errors
    /// If the receiver was closed or dropped; the error has the value.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// assert!(tx.send(1).is_ok());
    /// drop(rx);
    /// assert_eq!(tx.send(2).unwrap_err().0, 2);
    /// ```
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
    /// # Cancel safety
    /// Nothing is lost by giving up.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// std::thread::spawn(move || drop(rx));
    /// tx.closed().await; // nobody listens: stop producing
    /// # });
    /// ```
    pub async fn closed(&self) {
        self.chan().closed().await;
    }

    /// Whether the receiver was closed or dropped.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.chan().flow.is_closed()
    }

    /// Whether both senders belong to one channel.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let (other, _rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.is_same(&other.tx)
    }

    /// Makes a sender that does not keep the channel open.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
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

    /// How many senders keep the channel open.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// let _other = tx.clone();
    /// assert_eq!(tx.strong_count(), 2);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.chan().strong_count()
    }

    /// How many weak senders there are.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
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
    /// A sender, if the channel still has one.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// let weak = tx.downgrade();
    /// weak.upgrade().unwrap().send(5).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(5));
    /// ```
    pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
        self.tx.upgrade().map(|tx| UnboundedSender { tx })
    }

    /// How many senders keep the channel open.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, _rx) = mpsc::unbounded_channel::<u32>();
    /// assert_eq!(tx.downgrade().strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.tx.chan().strong_count()
    }

    /// How many weak senders there are.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
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
    /// Receives the next value, waiting for it if need be; `None` when there
    /// will be none.
    ///
    /// # Cancel safety
    /// A value is received or stays in the channel, wherever the future is
    /// dropped.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send("hello"));
    /// assert_eq!(rx.recv().await, Some("hello"));
    /// assert_eq!(rx.recv().await, None);
    /// # });
    /// ```
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.rx.poll_recv(cx)).await
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
    /// use blitzen_sync::channel::mpsc;
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
    pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        poll_fn(|cx| self.rx.poll_recv_many(cx, buffer, limit)).await
    }

    /// Receives a value that is there.
    ///
    /// # Errors
    /// Says whether one may still come.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.rx.try_recv()
    }

    /// Receives the next value on a thread that runs no tasks.
    ///
    /// # Panics
    /// Within a runtime.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send(5));
    /// assert_eq!(rx.blocking_recv(), Some(5));
    /// ```
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Option<T> {
        assert_may_block();
        block_on(self.recv())
    }

    /// [`recv_many`](Self::recv_many) on a thread that runs no tasks.
    ///
    /// # Panics
    /// Within a runtime.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::unbounded_channel();
    /// std::thread::spawn(move || tx.send(5));
    /// let mut buffer = Vec::new();
    /// assert_eq!(rx.blocking_recv_many(&mut buffer, 8), 1);
    /// ```
    #[track_caller]
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        assert_may_block();
        block_on(self.recv_many(buffer, limit))
    }

    /// [`recv`](Self::recv) for use inside another future. Only the last task to
    /// ask is woken.
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen_sync::channel::mpsc;
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

    /// [`recv_many`](Self::recv_many) for use inside another future. Only the
    /// last task to ask is woken.
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen_sync::channel::mpsc;
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

    /// Refuses values from now on. What has been sent before can still be
    /// received: `recv` returns `None` after it.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
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

    /// Whether it was closed, or all senders are gone; messages may be left.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.rx.is_closed()
    }

    /// Whether no message is waiting.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// assert!(rx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.rx.len() == 0
    }

    /// How many messages are waiting.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel();
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.rx.len()
    }

    /// How many senders keep the channel open.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
    ///
    /// let (tx, rx) = mpsc::unbounded_channel::<u32>();
    /// let _other = tx.clone();
    /// assert_eq!(rx.sender_strong_count(), 2);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.rx.chan().strong_count()
    }

    /// How many weak senders there are.
    ///
    /// ```
    /// use blitzen_sync::channel::mpsc;
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
