//! The handles of a bounded channel.

use std::fmt;
use std::future::{Future, poll_fn};
use std::iter::FusedIterator;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use blitzen_util::block_on::block_on;
use blitzen_util::entered::assert_may_block;
use blitzen_util::{coop, delay};

use super::bounded_flow::{BoundedFlow, CapacityError, Closed};
use super::chan::{self, Chan, FlowControl, Rx, Tx, WeakTx};
use super::error::{SendError, SendTimeoutError, TryRecvError, TrySendError};

/// The largest capacity that can be asked for: that of a semaphore.
const MAX_CAPACITY: usize = usize::MAX >> 3;

/// Creates a channel that holds at most `buffer` messages.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// # futures::executor::block_on(async {
/// let (tx, mut rx) = mpsc::channel(1);
/// tx.send("hello").await.unwrap();
/// assert_eq!(rx.recv().await, Some("hello"));
/// # });
/// ```
///
/// # Panics
///
/// Panics if `buffer` is 0, or greater than
/// [`Semaphore::MAX_PERMITS`](crate::Semaphore::MAX_PERMITS).
#[track_caller]
pub fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
    assert!(buffer > 0, "mpsc bounded channel requires buffer > 0");
    assert!(
        buffer <= MAX_CAPACITY,
        "a semaphore may not have more than MAX_PERMITS permits ({MAX_CAPACITY})"
    );
    let (tx, rx) = chan::channel(BoundedFlow::new(buffer));
    (Sender { tx }, Receiver { rx })
}

/// The sending half of a bounded channel, created by [`channel`].
///
/// Can be cloned.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(4);
/// let other = tx.clone();
/// tx.try_send(1).unwrap();
/// other.try_send(2).unwrap();
/// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct Sender<T> {
    tx: Tx<T, BoundedFlow>,
}

/// A sender that does not keep the channel open, created by [`Sender::downgrade`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, rx) = mpsc::channel::<u32>(1);
/// let weak = tx.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(tx);
/// assert!(weak.upgrade().is_none());
/// assert!(rx.is_closed());
/// ```
pub struct WeakSender<T> {
    tx: WeakTx<T, BoundedFlow>,
}

/// The receiving half of a bounded channel, created by [`channel`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// # futures::executor::block_on(async {
/// let (tx, mut rx) = mpsc::channel(4);
/// tx.send(1).await.unwrap();
/// drop(tx);
/// assert_eq!(rx.recv().await, Some(1));
/// assert_eq!(rx.recv().await, None);
/// # });
/// ```
pub struct Receiver<T> {
    rx: Rx<T, BoundedFlow>,
}

/// Capacity for one message, reserved by [`Sender::reserve`].
///
/// Dropping it returns the capacity.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(1);
/// let permit = tx.try_reserve().unwrap();
/// assert_eq!(tx.capacity(), 0);
/// permit.send(5); // neither waits nor fails
/// assert_eq!(rx.try_recv(), Ok(5));
/// ```
pub struct Permit<'a, T> {
    chan: &'a Chan<T, BoundedFlow>,
}

/// Capacity for several messages, reserved by [`Sender::reserve_many`]: an iterator
/// of [`Permit`]s.
///
/// Dropping it returns the capacity that was not used.
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(8);
/// for (permit, value) in tx.try_reserve_many(3).unwrap().zip(1..) {
///     permit.send(value);
/// }
/// assert_eq!(rx.len(), 3);
/// ```
pub struct PermitIterator<'a, T> {
    chan: &'a Chan<T, BoundedFlow>,
    left: usize,
}

/// Capacity for one message together with its sender, reserved by
/// [`Sender::reserve_owned`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(1);
/// let permit = tx.try_reserve_owned().unwrap();
/// let tx = permit.send(5);
/// assert_eq!(rx.try_recv(), Ok(5));
/// # drop(tx);
/// ```
pub struct OwnedPermit<T> {
    /// `None` once it has been used.
    tx: Option<Tx<T, BoundedFlow>>,
}

// Messages are moved in or out whole, so no panic shows them half done.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for WeakSender<T> {}
impl<T> RefUnwindSafe for WeakSender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}
impl<T> UnwindSafe for Permit<'_, T> {}
impl<T> RefUnwindSafe for Permit<'_, T> {}
impl<T> UnwindSafe for PermitIterator<'_, T> {}
impl<T> RefUnwindSafe for PermitIterator<'_, T> {}
impl<T> UnwindSafe for OwnedPermit<T> {}
impl<T> RefUnwindSafe for OwnedPermit<T> {}

impl<T> Unpin for Receiver<T> {}

impl From<Closed> for SendError<()> {
    fn from(_: Closed) -> Self {
        Self(())
    }
}

/// The error of a try-operation that hands `value` back.
fn try_send_error<T>(why: CapacityError, value: T) -> TrySendError<T> {
    match why {
        CapacityError::Full => TrySendError::Full(value),
        CapacityError::Closed => TrySendError::Closed(value),
    }
}

impl<T> Sender<T> {
    #[inline(always)]
    fn chan(&self) -> &Chan<T, BoundedFlow> {
        self.tx.chan()
    }

    #[inline(always)]
    fn flow(&self) -> &BoundedFlow {
        &self.tx.chan().flow
    }

    /// Sends `value`.
    ///
    /// Waits until there is capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::channel(1);
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
    /// dropped too, and the place in the queue is lost. To keep the value,
    /// [`reserve`](Self::reserve) first.
    ///
    /// # Errors
    ///
    /// Fails if the receiver was closed or dropped. The error contains `value`.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let chan = self.chan();
        if coop::has_unit()
            && let Ok(claim) = chan.flow.try_claim()
        {
            coop::try_spend(); // there is one: we have just looked
            // SAFETY: just claimed.
            unsafe { chan.send_at(claim, value) };
            return Ok(());
        }
        match chan.flow.acquire(1).await {
            Ok(()) => {
                Permit { chan }.send(value);
                Ok(())
            }
            Err(Closed) => Err(SendError(value)),
        }
    }

    /// Sends `value`.
    ///
    /// Waits for capacity for at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::sync::mpsc::{self, error::SendTimeoutError};
    ///
    /// # blitzen::runtime::Runtime::new().unwrap().block_on(async {
    /// let (tx, _rx) = mpsc::channel(1);
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(tx.send_timeout(1, timeout).await, Ok(()));
    /// let error = tx.send_timeout(2, timeout).await;
    /// assert_eq!(error, Err(SendTimeoutError::Timeout(2)));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// Returns `Timeout` if there was no capacity in time, and `Closed` if the
    /// receiver was closed or dropped. The error contains `value`.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with timers enabled.
    pub async fn send_timeout(
        &self,
        value: T,
        timeout: Duration,
    ) -> Result<(), SendTimeoutError<T>> {
        let timers = delay::timers();
        if coop::has_unit()
            && let Ok(permit) = self.try_reserve()
        {
            coop::try_spend(); // there is one: we have just looked
            permit.send(value);
            return Ok(());
        }
        let mut reserve = pin!(self.reserve());
        let mut late = (timers.delay)(timeout);
        let permit = poll_fn(|cx| match reserve.as_mut().poll(cx) {
            Poll::Ready(permit) => Poll::Ready(Some(permit)),
            Poll::Pending => late.as_mut().poll(cx).map(|()| None),
        });
        match permit.await {
            Some(Ok(permit)) => {
                permit.send(value);
                Ok(())
            }
            Some(Err(_closed)) => Err(SendTimeoutError::Closed(value)),
            None => Err(SendTimeoutError::Timeout(value)),
        }
    }

    /// Sends `value` if there is capacity, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc::{self, error::TrySendError};
    ///
    /// let (tx, _rx) = mpsc::channel(1);
    /// assert_eq!(tx.try_send(1), Ok(()));
    /// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `Full` if there is no capacity or other senders wait for it, and
    /// `Closed` if the receiver was closed or dropped. The error contains the
    /// value.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.flow().try_claim() {
            Ok(claim) => {
                // SAFETY: just claimed.
                unsafe { self.chan().send_at(claim, value) };
                Ok(())
            }
            Err(why) => Err(try_send_error(why, value)),
        }
    }

    /// Sends `value`, and blocks the current thread until there is capacity.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let sender = std::thread::spawn(move || (0..3).try_for_each(|n| tx.blocking_send(n)));
    /// assert_eq!(rx.blocking_recv(), Some(0));
    /// assert_eq!(rx.blocking_recv(), Some(1));
    /// assert_eq!(rx.blocking_recv(), Some(2));
    /// assert!(sender.join().unwrap().is_ok());
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

    /// Reserves capacity for one message.
    ///
    /// Waits until there is some. The permit then sends without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.reserve().await.unwrap();
    /// assert!(tx.try_send(1).is_err()); // the capacity is reserved
    /// permit.send(2);
    /// assert_eq!(rx.recv().await, Some(2));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it loses its place in the queue. Capacity that it
    /// was granted goes to the next waiter.
    ///
    /// # Errors
    ///
    /// Fails if the receiver was closed or dropped.
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        let chan = self.chan();
        acquire(&chan.flow, 1).await?;
        Ok(Permit { chan })
    }

    /// Reserves capacity for `n` messages.
    ///
    /// Waits until there is enough.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::channel(2);
    /// let mut permits = tx.reserve_many(2).await.unwrap();
    /// permits.next().unwrap().send(1);
    /// permits.next().unwrap().send(2);
    /// assert!(permits.next().is_none());
    /// assert_eq!(rx.recv().await, Some(1));
    /// assert!(tx.reserve_many(3).await.is_err());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// Fails if the receiver was closed or dropped, or if `n` exceeds the capacity
    /// of the channel.
    pub async fn reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, SendError<()>> {
        let chan = self.chan();
        if n > chan.flow.limit() {
            return Err(SendError(()));
        }
        acquire(&chan.flow, n).await?;
        Ok(PermitIterator { chan, left: n })
    }

    /// Reserves capacity for one message, with a permit that owns the sender.
    ///
    /// Waits until there is some.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.clone().reserve_owned().await.unwrap();
    /// std::thread::spawn(move || permit.send(5));
    /// assert_eq!(rx.recv().await, Some(5));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As for [`reserve`](Self::reserve). The sender is dropped too.
    ///
    /// # Errors
    ///
    /// Fails if the receiver was closed or dropped.
    pub async fn reserve_owned(self) -> Result<OwnedPermit<T>, SendError<()>> {
        acquire(self.flow(), 1).await?;
        Ok(OwnedPermit { tx: Some(self.tx) })
    }

    /// Reserves capacity for one message, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc::{self, error::TrySendError};
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let permit = tx.try_reserve().unwrap();
    /// assert_eq!(tx.try_reserve().unwrap_err(), TrySendError::Full(()));
    /// drop(permit);
    /// assert!(tx.try_reserve().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`try_send`](Self::try_send).
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        let chan = self.chan();
        match chan.flow.try_acquire(1) {
            Ok(()) => Ok(Permit { chan }),
            Err(why) => Err(try_send_error(why, ())),
        }
    }

    /// Reserves capacity for `n` messages, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(2);
    /// assert!(tx.try_reserve_many(3).is_err());
    /// let permits = tx.try_reserve_many(2).unwrap();
    /// assert_eq!(permits.len(), 2);
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`try_send`](Self::try_send).
    pub fn try_reserve_many(&self, n: usize) -> Result<PermitIterator<'_, T>, TrySendError<()>> {
        let chan = self.chan();
        match chan.flow.try_acquire(n) {
            Ok(()) => Ok(PermitIterator { chan, left: n }),
            Err(why) => Err(try_send_error(why, ())),
        }
    }

    /// Reserves capacity for one message, with a permit that owns the sender,
    /// without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.clone().try_reserve_owned().unwrap();
    /// assert!(tx.try_reserve_owned().is_err());
    /// permit.send(5);
    /// assert_eq!(rx.try_recv(), Ok(5));
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`try_send`](Self::try_send). The error contains the sender.
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        match self.flow().try_acquire(1) {
            Ok(()) => Ok(OwnedPermit { tx: Some(self.tx) }),
            Err(why) => Err(try_send_error(why, self)),
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
    /// let (tx, rx) = mpsc::channel::<u32>(1);
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
    /// let (tx, rx) = mpsc::channel::<u32>(1);
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.flow().is_closed()
    }

    /// Returns `true` if `self` and `other` send into the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let (other, _rx) = mpsc::channel::<u32>(1);
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.tx.is_same(&other.tx)
    }

    /// Returns the number of messages that can be sent now without waiting.
    ///
    /// Permits that are reserved do not count.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel(4);
    /// tx.try_send(1).unwrap();
    /// let _permit = tx.try_reserve().unwrap();
    /// assert_eq!(tx.capacity(), 2);
    /// ```
    pub fn capacity(&self) -> usize {
        self.flow().capacity()
    }

    /// Returns the capacity with which the channel was created.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel(4);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(tx.max_capacity(), 4);
    /// ```
    pub fn max_capacity(&self) -> usize {
        self.flow().max_capacity()
    }

    /// Creates a weak sender, which does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// ```
    #[must_use = "a weak sender that is dropped at once does nothing"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender {
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
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
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
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let _weak = tx.downgrade();
    /// assert_eq!(tx.weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.chan().weak_count()
    }
}

/// Takes permits, in the queue if they are not there at once.
async fn acquire(flow: &BoundedFlow, count: usize) -> Result<(), Closed> {
    if coop::has_unit() && flow.try_acquire(count).is_ok() {
        coop::try_spend(); // there is one: we have just looked
        return Ok(());
    }
    flow.acquire(count).await
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            tx: self.tx.clone(),
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_handle(f, "Sender", self.chan())
    }
}

fn fmt_handle<T>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    chan: &Chan<T, BoundedFlow>,
) -> fmt::Result {
    f.debug_struct(name)
        .field("capacity", &chan.flow.capacity())
        .field("max_capacity", &chan.flow.max_capacity())
        .field("closed", &chan.flow.is_closed())
        .field("senders", &chan.strong_count())
        .finish()
}

impl<T> WeakSender<T> {
    /// Returns a new sender, or `None` if the channel has no sender left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let weak = tx.downgrade();
    /// weak.upgrade().unwrap().try_send(5).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(5));
    /// ```
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.tx.upgrade().map(|tx| Sender { tx })
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
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
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// assert_eq!(tx.downgrade().weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.tx.chan().weak_count()
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self {
            tx: self.tx.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakSender")
    }
}

impl<T> Receiver<T> {
    #[inline(always)]
    fn flow(&self) -> &BoundedFlow {
        &self.rx.chan().flow
    }

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
    /// let (tx, mut rx) = mpsc::channel(4);
    /// std::thread::spawn(move || tx.blocking_send("hello"));
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
    /// let (tx, mut rx) = mpsc::channel(4);
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
    /// let (tx, mut rx) = mpsc::channel(1);
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
    /// let (tx, mut rx) = mpsc::channel(1);
    /// std::thread::spawn(move || tx.blocking_send(5));
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
    /// let (tx, mut rx) = mpsc::channel(1);
    /// std::thread::spawn(move || tx.blocking_send(5));
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
    /// let (tx, mut rx) = mpsc::channel(1);
    /// assert_eq!(rx.poll_recv(&mut cx), Poll::Pending);
    /// tx.try_send(1).unwrap();
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
    /// let (tx, mut rx) = mpsc::channel(1);
    /// tx.try_send(1).unwrap();
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
    /// Values that were sent, or for which a permit was reserved, can still be
    /// received; `recv` returns `None` after them.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = mpsc::channel(4);
    /// tx.send(1).await.unwrap();
    /// rx.close();
    /// assert!(tx.send(2).await.is_err());
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
    /// let (tx, rx) = mpsc::channel::<u32>(1);
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
    /// let (tx, rx) = mpsc::channel(1);
    /// assert!(rx.is_empty());
    /// tx.try_send(1).unwrap();
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
    /// let (tx, rx) = mpsc::channel(4);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.rx.len()
    }

    /// Returns the number of messages that can be sent now without waiting.
    ///
    /// Permits that are reserved do not count.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::channel(4);
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.capacity(), 3);
    /// ```
    pub fn capacity(&self) -> usize {
        self.flow().capacity()
    }

    /// Returns the capacity with which the channel was created.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (_tx, rx) = mpsc::channel::<u32>(4);
    /// assert_eq!(rx.max_capacity(), 4);
    /// ```
    pub fn max_capacity(&self) -> usize {
        self.flow().max_capacity()
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::channel::<u32>(1);
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
    /// let (tx, rx) = mpsc::channel::<u32>(1);
    /// let _weak = tx.downgrade();
    /// assert_eq!(rx.sender_weak_count(), 1);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.rx.chan().weak_count()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_handle(f, "Receiver", self.rx.chan())
    }
}

impl<T> Permit<'_, T> {
    /// Sends `value` with the reserved capacity: without waiting, and even if the
    /// channel was closed since.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.try_reserve().unwrap();
    /// rx.close();
    /// permit.send(5);
    /// assert_eq!(rx.try_recv(), Ok(5));
    /// ```
    pub fn send(self, value: T) {
        let chan = self.chan;
        mem::forget(self); // the permit goes with the message
        let claim = chan.flow.claim();
        // SAFETY: just claimed.
        unsafe { chan.send_at(claim, value) };
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        self.chan.flow.release(1);
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_handle(f, "Permit", self.chan)
    }
}

impl<'a, T> Iterator for PermitIterator<'a, T> {
    type Item = Permit<'a, T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(Permit { chan: self.chan })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for PermitIterator<'_, T> {}
impl<T> FusedIterator for PermitIterator<'_, T> {}

impl<T> Drop for PermitIterator<'_, T> {
    fn drop(&mut self) {
        self.chan.flow.release(self.left);
    }
}

impl<T> fmt::Debug for PermitIterator<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitIterator")
            .field("capacity", &self.left)
            .finish_non_exhaustive()
    }
}

impl<T> OwnedPermit<T> {
    /// Sends `value` as [`Permit::send`] does, and returns the sender.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let tx = tx.try_reserve_owned().unwrap().send(5);
    /// assert_eq!(rx.try_recv(), Ok(5));
    /// # drop(tx);
    /// ```
    pub fn send(mut self, value: T) -> Sender<T> {
        let Some(tx) = self.tx.take() else {
            unreachable!("taken by methods that take the permit")
        };
        let permit = Permit { chan: tx.chan() };
        permit.send(value);
        Sender { tx }
    }

    /// Returns the capacity to the channel, and the sender to the caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let tx = tx.try_reserve_owned().unwrap().release();
    /// assert_eq!(tx.capacity(), 1);
    /// ```
    pub fn release(mut self) -> Sender<T> {
        let Some(tx) = self.tx.take() else {
            unreachable!("taken by methods that take the permit")
        };
        tx.chan().flow.release(1);
        Sender { tx }
    }

    /// Returns `true` if `self` and `other` are permits of the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(2);
    /// let one = tx.clone().try_reserve_owned().unwrap();
    /// let two = tx.try_reserve_owned().unwrap();
    /// assert!(one.same_channel(&two));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        match (&self.tx, &other.tx) {
            (Some(tx), Some(other)) => tx.is_same(other),
            _ => false,
        }
    }

    /// Returns `true` if `sender` sends into the channel of this permit.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let permit = tx.clone().try_reserve_owned().unwrap();
    /// assert!(permit.same_channel_as_sender(&tx));
    /// ```
    pub fn same_channel_as_sender(&self, sender: &Sender<T>) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.is_same(&sender.tx))
    }
}

impl<T> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        if let Some(tx) = &self.tx {
            tx.chan().flow.release(1);
        }
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tx {
            Some(tx) => fmt_handle(f, "OwnedPermit", tx.chan()),
            None => f.write_str("OwnedPermit"),
        }
    }
}
