//! A channel whose receivers all get a clone of every value.
//!
//! Sending never waits. A receiver that is too slow misses the oldest values, and
//! learns how many from [`RecvError::Lagged`].
//!
//! # Examples
//!
//! ```
//! use blitzen::sync::broadcast;
//!
//! # futures::executor::block_on(async {
//! let (tx, mut one) = broadcast::channel(16);
//! let mut two = tx.subscribe();
//! tx.send("hello").unwrap();
//! assert_eq!(one.recv().await, Ok("hello"));
//! assert_eq!(two.recv().await, Ok("hello"));
//! # });
//! ```

//   sends ──► [ 8 ] [ 9 ] [ 6 ] [ 7 ]          a ring of the last four values
//                            ▲     ▲
//                     receiver B  receiver A   each with a position of its own
//
// R1. Sends, and the count of receivers, are under the lock of `tail`.
// R2. The upper bits of a slot's `state` count the receivers that have not read it;
//     the slot holds a value while they are not zero. A receiver is counted in every
//     slot from its position to the tail that has not been overwritten.
// R3. A value is accessed by the thread that has set `LOCKED`, and by a sender that
//     finds `state` zero: no receiver reads the slot then.
// R4. `position` is written by senders, under R3, before `state`: a thread that locks
//     a slot and finds the position it looks for has found its value.
//
// A value is cloned while its slot, and nothing else, is locked. `T` need not be
// `Sync`, so two receivers must not clone it at once.

use std::fmt;
use std::future::poll_fn;
use std::mem::{self, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::task::{Poll, ready};

use blitzen_util::block_on::block_on;
use blitzen_util::coop;
use blitzen_util::entered::assert_may_block;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicU64, AtomicUsize};
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::{Arc, hint, thread};
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch;

use self::error::{RecvError, SendError, TryRecvError};
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
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel(1);
    /// drop(rx);
    /// assert_eq!(tx.send(5).unwrap_err().0, 5);
    /// ```
    #[derive(Debug)]
    pub struct SendError<T>(pub T);

    impl<T> fmt::Display for SendError<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("channel closed")
        }
    }

    impl<T: fmt::Debug> Error for SendError<T> {}

    /// The error of [`Receiver::recv`](super::Receiver::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast::{self, error::RecvError};
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = broadcast::channel(1);
    /// tx.send(1).unwrap();
    /// tx.send(2).unwrap(); // overwrites the first
    /// assert_eq!(rx.recv().await, Err(RecvError::Lagged(1)));
    /// assert_eq!(rx.recv().await, Ok(2));
    /// drop(tx);
    /// assert_eq!(rx.recv().await, Err(RecvError::Closed));
    /// # });
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum RecvError {
        /// All senders were dropped, and all values have been received.
        Closed,
        /// The receiver was too slow, and missed this number of values.
        ///
        /// The next call returns the oldest value that is left.
        Lagged(u64),
    }

    impl fmt::Display for RecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Closed => f.write_str("channel closed"),
                Self::Lagged(count) => write!(f, "channel lagged by {count}"),
            }
        }
    }

    impl Error for RecvError {}

    /// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = broadcast::channel::<u32>(1);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// drop(tx);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum TryRecvError {
        /// The channel is empty.
        Empty,
        /// All senders were dropped, and all values have been received.
        Closed,
        /// The receiver was too slow, and missed this number of values.
        Lagged(u64),
    }

    impl fmt::Display for TryRecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Empty => f.write_str("channel empty"),
                Self::Closed => f.write_str("channel closed"),
                Self::Lagged(count) => write!(f, "channel lagged by {count}"),
            }
        }
    }

    impl Error for TryRecvError {}
}

/// Creates a channel that keeps the last `capacity` values, rounded up to a power
/// of two.
///
/// # Examples
///
/// ```
/// use blitzen::sync::broadcast;
///
/// let (tx, mut rx) = broadcast::channel(16);
/// assert_eq!(tx.send(1).unwrap(), 1); // receivers
/// assert_eq!(rx.try_recv(), Ok(1));
/// ```
///
/// # Panics
///
/// Panics if `capacity` is 0, or greater than `usize::MAX / 2`.
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(capacity);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// The sending half of a broadcast channel.
///
/// Can be cloned.
///
/// # Examples
///
/// ```
/// use blitzen::sync::broadcast;
///
/// let (tx, mut rx) = broadcast::channel(4);
/// let other = tx.clone();
/// tx.send(1).unwrap();
/// other.send(2).unwrap();
/// assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct Sender<T> {
    shared: Arc<BroadcastShared<T>>,
}

/// A sender that does not keep the channel open, created by [`Sender::downgrade`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::broadcast;
///
/// let (tx, rx) = broadcast::channel::<u32>(1);
/// let weak = tx.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(tx);
/// assert!(weak.upgrade().is_none());
/// assert!(rx.is_closed());
/// ```
pub struct WeakSender<T> {
    shared: Arc<BroadcastShared<T>>,
}

/// The receiving half of a broadcast channel, created by [`Sender::subscribe`].
///
/// # Examples
///
/// ```
/// use blitzen::sync::broadcast;
///
/// # futures::executor::block_on(async {
/// let (tx, mut rx) = broadcast::channel(4);
/// tx.send(1).unwrap();
/// assert_eq!(rx.recv().await, Ok(1));
/// # });
/// ```
pub struct Receiver<T> {
    shared: Arc<BroadcastShared<T>>,
    /// The position it reads next.
    next: u64,
}

struct BroadcastShared<T> {
    /// A power of two of them.
    ring: Box<[BroadcastSlot<T>]>,
    /// With the receivers that wait for the next value, tagged with its position.
    tail: WaitQueue<BroadcastTail>,
    senders: HandleCount,
    weak_senders: AtomicUsize,
    /// The tasks that wait until there is no receiver.
    closing: WaitQueue,
}

struct BroadcastTail {
    /// The position of the next value.
    next: u64,
    receivers: usize,
    /// No sender is left.
    closed: bool,
}

struct BroadcastSlot<T> {
    position: AtomicU64,
    /// `unread` times [`ONE`], and [`LOCKED`].
    state: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

const LOCKED: usize = 1;
const ONE: usize = 2;

const MAX_RECEIVERS: usize = usize::MAX / ONE;

// SAFETY: R3, a value is with one thread at a time.
unsafe impl<T: Send> Send for BroadcastShared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for BroadcastShared<T> {}

// A panic in `clone` leaves the slot as if the value had been read.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for WeakSender<T> {}
impl<T> RefUnwindSafe for WeakSender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> BroadcastSlot<T> {
    /// Locks the slot if a receiver has not read it.
    #[inline(always)]
    fn lock(&self) -> Option<LockedSlot<'_, T>> {
        let state = self.state.load(Relaxed);
        if state >= ONE && state & LOCKED == 0 {
            // Acquire, met by the Release in `LockedSlot::drop` and `put`.
            let locked =
                (self.state).compare_exchange_weak(state, state | LOCKED, Acquire, Relaxed);
            if locked.is_ok() {
                return Some(LockedSlot { slot: self, state });
            }
        }
        self.lock_contended()
    }

    /// Waits for another thread that is cloning the value.
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> Option<LockedSlot<'_, T>> {
        for turn in 0_u32.. {
            // Acquire, met by the Release in `LockedSlot::drop`: R3 lets a sender
            // write where the last reader has been.
            let state = self.state.load(Acquire);
            if state < ONE {
                return None;
            }
            if state & LOCKED == 0 {
                // Acquire, as in `lock`.
                let locked =
                    (self.state).compare_exchange_weak(state, state | LOCKED, Acquire, Relaxed);
                if locked.is_ok() {
                    return Some(LockedSlot { slot: self, state });
                }
            }
            match turn {
                0..100 => hint::spin_loop(),
                _ => thread::yield_now(),
            }
        }
        unreachable!("the other side ran for a while")
    }

    /// Stores a value for `receivers` receivers; returns the previous value if not
    /// all of them have read it.
    ///
    /// # Safety
    /// Senders only, under R1.
    #[inline(always)]
    unsafe fn put(&self, position: u64, receivers: usize, value: T) -> Option<T> {
        let mut old = None;
        // Acquire, met by the Release in `LockedSlot::drop`: all readers have
        // finished.
        if self.state.load(Acquire) != 0
            && let Some(locked) = self.lock()
        {
            // SAFETY: R3, locked, and by R2 there is a value.
            old = Some(
                self.value
                    .with(|slot| unsafe { (*slot).assume_init_read() }),
            );
            mem::forget(locked); // unlocked below
        }
        // SAFETY: R3, locked, or read by all receivers.
        self.value.with_mut(|slot| unsafe { (*slot).write(value) });
        // Relaxed: R4, and it is looked at again with the slot locked.
        self.position.store(position, Relaxed);
        // Release, met by the Acquire in `lock`: the value is seen.
        self.state.store(receivers * ONE, Release);
        old
    }
}

/// A slot of which a receiver is reading the value.
struct LockedSlot<'a, T> {
    slot: &'a BroadcastSlot<T>,
    /// Before it was locked.
    state: usize,
}

impl<T> LockedSlot<'_, T> {
    /// Unlocks it unread.
    fn release(self) {
        // Release, met by the Acquire in `lock`.
        self.slot.state.store(self.state, Release);
        mem::forget(self);
    }
}

impl<T> Drop for LockedSlot<'_, T> {
    /// Unlocks it as read by one more; the last one drops the value.
    #[inline(always)]
    fn drop(&mut self) {
        let state = self.state - ONE;
        let value = (state < ONE).then(|| {
            let slot = &self.slot.value;
            // SAFETY: R3, locked, and R2: there will be no value from now on.
            slot.with(|slot| unsafe { (*slot).assume_init_read() })
        });
        // Release, met by the Acquire in `lock` and `put`.
        self.slot.state.store(state, Release);
        drop(value);
    }
}

impl<T> BroadcastShared<T> {
    #[inline(always)]
    fn slot(&self, position: u64) -> &BroadcastSlot<T> {
        &self.ring[position as usize & (self.ring.len() - 1)]
    }

    /// Adds a receiver.
    #[track_caller]
    fn subscribe(shared: &Arc<Self>) -> Receiver<T> {
        let mut locked = shared.tail.lock();
        let tail = locked.state();
        assert!(tail.receivers < MAX_RECEIVERS, "max receivers");
        tail.receivers += 1;
        let next = tail.next;
        drop(locked);
        Receiver {
            shared: shared.clone(),
            next,
        }
    }

    /// Wakes the receivers that wait for a value before `end`.
    #[cold]
    #[inline(never)]
    fn wake_before(&self, end: u64) {
        wake_batch::in_rounds(|batch| {
            let mut locked = self.tail.lock();
            // Later waiters have joined while we were waking.
            while let Some(tag) = locked.front()
                && (end as usize).wrapping_sub(tag) as isize > 0
            {
                if batch.is_full() {
                    return true;
                }
                locked.settle_front(Outcome::Released, batch);
            }
            false
        });
    }

    fn senders(&self) -> usize {
        self.senders.get() // acquires: what they sent is visible
    }

    fn downgrade(shared: &Arc<Self>) -> WeakSender<T> {
        shared.weak_senders.fetch_add(1, Relaxed);
        WeakSender {
            shared: shared.clone(),
        }
    }
}

impl<T> Drop for BroadcastShared<T> {
    fn drop(&mut self) {
        // Every receiver has read its values on the way out, so none is left.
        debug_assert!((self.ring.iter()).all(|slot| slot.state.load(Relaxed) == 0));
    }
}

impl<T> Sender<T> {
    /// Creates a channel without a receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast::Sender;
    ///
    /// let tx = Sender::new(4);
    /// assert!(tx.send(1).is_err());
    /// let mut rx = tx.subscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(2));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is 0, or greater than `usize::MAX / 2`.
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "broadcast channel capacity cannot be zero");
        assert!(
            capacity <= usize::MAX >> 1,
            "broadcast channel capacity exceeded `usize::MAX / 2`"
        );
        let len = capacity.next_power_of_two();
        let slot = |index: usize| BroadcastSlot {
            // One lap behind: no receiver looks for that.
            position: AtomicU64::new((index as u64).wrapping_sub(len as u64)),
            state: AtomicUsize::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        let tail = BroadcastTail {
            next: 0,
            receivers: 0,
            closed: false,
        };
        Self {
            shared: Arc::new(BroadcastShared {
                ring: (0..len).map(slot).collect(),
                tail: WaitQueue::new(tail),
                senders: HandleCount::new(1),
                weak_senders: AtomicUsize::new(0),
                closing: WaitQueue::new(()),
            }),
        }
    }

    /// Sends `value` to all current receivers, and returns their number.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, mut one) = broadcast::channel(4);
    /// let mut two = tx.subscribe();
    /// assert_eq!(tx.send(5).unwrap(), 2);
    /// assert_eq!((one.try_recv(), two.try_recv()), (Ok(5), Ok(5)));
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if there is no receiver. The error contains `value`.
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let shared = &*self.shared;
        let mut locked = shared.tail.lock();
        let tail = locked.state();
        let receivers = tail.receivers;
        if receivers == 0 {
            return Err(SendError(value));
        }
        let position = tail.next;
        tail.next += 1;
        // SAFETY: the lock is held.
        let old = unsafe { shared.slot(position).put(position, receivers, value) };
        let has_waiters = !locked.is_empty();
        drop(locked);
        if has_waiters {
            shared.wake_before(position + 1);
        }
        drop(old);
        Ok(receivers)
    }

    /// Creates a receiver of the values that are sent from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// let mut rx = tx.subscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(2));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there would be more than `usize::MAX / 2` receivers.
    #[track_caller]
    pub fn subscribe(&self) -> Receiver<T> {
        BroadcastShared::subscribe(&self.shared)
    }

    /// Creates a weak sender, which does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(1);
    /// let weak = tx.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// ```
    #[must_use = "a weak sender that is dropped at once does nothing"]
    pub fn downgrade(&self) -> WeakSender<T> {
        BroadcastShared::downgrade(&self.shared)
    }

    /// Returns the number of values that at least one receiver has not received.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, mut rx) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// assert_eq!(tx.len(), 1);
    /// rx.try_recv().unwrap();
    /// assert_eq!(tx.len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        let shared = &*self.shared;
        let mut locked = shared.tail.lock();
        let next = locked.state().next;
        let len = shared.ring.len() as u64;
        // A receiver that has not read a value has not read the later ones either.
        let (mut read, mut unread) = (next.saturating_sub(len), next);
        while read < unread {
            let middle = read + (unread - read) / 2;
            match shared.slot(middle).state.load(Relaxed) >= ONE {
                true => unread = middle,
                false => read = middle + 1,
            }
        }
        (next - read) as usize
    }

    /// Returns `true` if all receivers have received all values.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel(4);
    /// assert!(tx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!tx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        let mut locked = self.shared.tail.lock();
        // Every receiver reads the last value last.
        let last = locked.state().next.wrapping_sub(1);
        self.shared.slot(last).state.load(Relaxed) < ONE
    }

    /// Returns the number of receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _one) = broadcast::channel::<u32>(4);
    /// let _two = tx.subscribe();
    /// assert_eq!(tx.receiver_count(), 2);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.shared.tail.lock().state().receivers
    }

    /// Returns `true` if `self` and `other` send into the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(1);
    /// let (other, _rx) = broadcast::channel::<u32>(1);
    /// assert!(tx.same_channel(&tx.clone()));
    /// assert!(!tx.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Waits until all receivers are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = broadcast::channel::<u32>(1);
    /// std::thread::spawn(move || drop(rx));
    /// tx.closed().await; // nobody listens: stop producing
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn closed(&self) {
        wait_until(&self.shared.closing, || self.receiver_count() == 0).await;
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(1);
    /// let _other = tx.clone();
    /// assert_eq!(tx.strong_count(), 2);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.shared.senders()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(1);
    /// let _weak = tx.downgrade();
    /// assert_eq!(tx.weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.shared.weak_senders.load(Relaxed)
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

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if !self.shared.senders.remove() {
            return;
        }
        let mut locked = self.shared.tail.lock();
        locked.state().closed = true;
        // All waiters wait for the next position, and no receiver joins any more.
        let end = locked.state().next + 1;
        let has_waiters = !locked.is_empty();
        drop(locked);
        if has_waiters {
            self.shared.wake_before(end);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::Sender")
    }
}

impl<T> WeakSender<T> {
    /// Returns a new sender, or `None` if the channel has no sender left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, mut rx) = broadcast::channel(1);
    /// let weak = tx.downgrade();
    /// weak.upgrade().unwrap().send(5).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(5));
    /// ```
    #[must_use = "a sender that is dropped at once does nothing"]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        (self.shared.senders.add_unless_zero()).then(|| Sender {
            shared: self.shared.clone(),
        })
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(1);
    /// assert_eq!(tx.downgrade().strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.shared.senders()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, _rx) = broadcast::channel::<u32>(1);
    /// assert_eq!(tx.downgrade().weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.shared.weak_senders.load(Relaxed)
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        BroadcastShared::downgrade(&self.shared)
    }
}

impl<T> Drop for WeakSender<T> {
    fn drop(&mut self) {
        self.shared.weak_senders.fetch_sub(1, Relaxed);
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::WeakSender")
    }
}

/// Returns the value at `next`, and advances `next`.
#[inline(always)]
fn try_next<T: Clone>(shared: &BroadcastShared<T>, next: &mut u64) -> Result<T, TryRecvError> {
    loop {
        let slot = shared.slot(*next);
        // Relaxed: a guess, which the lock confirms.
        if slot.position.load(Relaxed) == *next
            && let Some(locked) = slot.lock()
        {
            // Relaxed: nobody writes it while it is locked (R4).
            if slot.position.load(Relaxed) == *next {
                *next += 1;
                // SAFETY: R3, locked, and R2: we had not read it.
                let value = slot
                    .value
                    .with(|slot| unsafe { (*slot).assume_init_ref() }.clone());
                drop(locked);
                return Ok(value);
            }
            locked.release();
        }
        empty_or_lagged(shared, next)?;
    }
}

/// Returns why `next` is not in the ring; `Ok` if it is by now.
#[cold]
#[inline(never)]
fn empty_or_lagged<T>(shared: &BroadcastShared<T>, next: &mut u64) -> Result<(), TryRecvError> {
    let mut locked = shared.tail.lock();
    let tail = locked.state();
    if tail.next == *next {
        return Err(match tail.closed {
            true => TryRecvError::Closed,
            false => TryRecvError::Empty,
        });
    }
    let oldest = tail.next.saturating_sub(shared.ring.len() as u64);
    if *next < oldest {
        let lost = oldest - *next;
        *next = oldest;
        return Err(TryRecvError::Lagged(lost));
    }
    Ok(())
}

impl<T> Receiver<T> {
    /// Returns the number of values that were sent and not yet received, including
    /// those that this receiver missed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// tx.send(2).unwrap();
    /// assert_eq!(rx.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        (self.shared.tail.lock().state().next - self.next) as usize
    }

    /// Returns `true` if this receiver has received all values.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel(4);
    /// assert!(rx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if `self` and `other` receive from the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, one) = broadcast::channel::<u32>(1);
    /// let two = tx.subscribe();
    /// assert!(one.same_channel(&two));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns `true` if all senders were dropped.
    ///
    /// Values may be left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel::<u32>(1);
    /// assert!(!rx.is_closed());
    /// drop(tx);
    /// assert!(rx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared.senders() == 0
    }

    /// Returns the number of senders that keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel::<u32>(1);
    /// let _other = tx.clone();
    /// assert_eq!(rx.sender_strong_count(), 2);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.shared.senders()
    }

    /// Returns the number of weak senders.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, rx) = broadcast::channel::<u32>(1);
    /// let _weak = tx.downgrade();
    /// assert_eq!(rx.sender_weak_count(), 1);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.shared.weak_senders.load(Relaxed)
    }
}

impl<T: Clone> Receiver<T> {
    /// Creates another receiver, of the values that are sent from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, mut one) = broadcast::channel(4);
    /// tx.send(1).unwrap();
    /// let mut two = one.resubscribe();
    /// tx.send(2).unwrap();
    /// assert_eq!((one.try_recv(), two.try_recv()), (Ok(1), Ok(2)));
    /// ```
    #[track_caller]
    pub fn resubscribe(&self) -> Self {
        BroadcastShared::subscribe(&self.shared)
    }

    /// Receives the next value.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, mut rx) = broadcast::channel(4);
    /// std::thread::spawn(move || tx.send("hello"));
    /// assert_eq!(rx.recv().await, Ok("hello"));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: if the future is dropped, no value is lost.
    ///
    /// # Errors
    ///
    /// Returns `Lagged` if this receiver missed values, and `Closed` if there will
    /// be no more.
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        let shared = &*self.shared;
        let next = &mut self.next;
        let entry = pin!(QueueEntry::new(&shared.tail));
        let entry = entry.into_ref();
        poll_fn(|cx| {
            let spent = ready!(coop::poll_proceed(cx));
            let received = loop {
                match try_next(shared, next) {
                    Ok(value) => break Ok(value),
                    Err(TryRecvError::Lagged(count)) => break Err(RecvError::Lagged(count)),
                    Err(TryRecvError::Closed) => break Err(RecvError::Closed),
                    Err(TryRecvError::Empty) => {}
                }
                let must_wait = |tail: &mut BroadcastTail| {
                    let nothing_new = tail.next == *next && !tail.closed;
                    nothing_new.then_some(*next as usize)
                };
                if entry.wait(cx, must_wait) {
                    wait::pending_on(WaitKind::Broadcast, shared);
                    return Poll::Pending;
                }
            };
            spent.made_progress();
            Poll::Ready(received)
        })
        .await
    }

    /// Receives a value if the channel holds one, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = broadcast::channel(2);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `Empty` if there is no value, `Closed` if there will be none, and
    /// `Lagged` if this receiver missed values.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        try_next(&self.shared, &mut self.next)
    }

    /// Receives the next value, and blocks the current thread until there is one.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::broadcast;
    ///
    /// let (tx, mut rx) = broadcast::channel(4);
    /// std::thread::spawn(move || tx.send(5));
    /// assert_eq!(rx.blocking_recv(), Ok(5));
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        assert_may_block();
        block_on(self.recv())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        /// The positions still to be read, which go on if a value's drop panics.
        struct ReadOnDrop<'a, T> {
            shared: &'a BroadcastShared<T>,
            next: u64,
            end: u64,
            is_last: bool,
        }

        impl<T> ReadOnDrop<'_, T> {
            fn read(&mut self) {
                while self.next < self.end {
                    let position = self.next;
                    self.next += 1;
                    if let Some(locked) = self.shared.slot(position).lock() {
                        // Relaxed: nobody writes it while it is locked (R4).
                        match locked.slot.position.load(Relaxed) == position {
                            true => drop(locked),
                            false => locked.release(), // overwritten by now
                        }
                    }
                }
            }
        }

        impl<T> Drop for ReadOnDrop<'_, T> {
            fn drop(&mut self) {
                self.read();
                if self.is_last {
                    wake_all_waiters(&self.shared.closing);
                }
            }
        }

        let shared = &*self.shared;
        let mut locked = shared.tail.lock();
        let tail = locked.state();
        tail.receivers -= 1;
        let is_last = tail.receivers == 0;
        let end = tail.next;
        drop(locked);
        let oldest = end.saturating_sub(shared.ring.len() as u64);
        let mut unread = ReadOnDrop {
            shared,
            next: self.next.max(oldest),
            end,
            is_last,
        };
        unread.read();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::Receiver")
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use std::future::Future;
    use std::task::{Context, Waker};

    use loom::future::block_on;

    #[test]
    fn every_receiver_gets_every_value() {
        loom::model(|| {
            let (tx, mut one) = channel(2);
            let mut two = tx.subscribe();
            let receiver = thread::spawn(move || {
                assert_eq!(block_on(one.recv()), Ok(1));
                assert_eq!(block_on(one.recv()), Ok(2));
                assert_eq!(block_on(one.recv()), Err(RecvError::Closed));
            });
            tx.send(1).unwrap();
            tx.send(2).unwrap();
            drop(tx);
            assert_eq!(two.try_recv(), Ok(1));
            assert_eq!(two.try_recv(), Ok(2));
            assert_eq!(two.try_recv(), Err(TryRecvError::Closed));
            receiver.join().unwrap();
        });
    }

    #[test]
    fn what_is_overwritten_is_counted_and_the_rest_is_whole() {
        loom::model(|| {
            let (tx, mut rx) = channel(1);
            let sender = thread::spawn(move || {
                for value in 1..=2 {
                    tx.send(Arc::new(value)).unwrap();
                }
            });
            let mut seen = 0;
            loop {
                match block_on(rx.recv()) {
                    Ok(value) => {
                        seen += 1;
                        assert_eq!(*value, seen);
                    }
                    Err(RecvError::Lagged(count)) => seen += count,
                    Err(RecvError::Closed) => break,
                }
            }
            assert_eq!(seen, 2);
            sender.join().unwrap();
        });
    }

    #[test]
    fn two_receivers_clone_one_after_the_other() {
        loom::model(|| {
            let (tx, mut one) = channel(1);
            let mut two = tx.subscribe();
            tx.send(Exclusive::new()).unwrap();
            let receiver = thread::spawn(move || one.try_recv().is_ok());
            assert!(two.try_recv().is_ok() && receiver.join().unwrap());
            assert!(tx.is_empty());
        });
    }

    #[test]
    fn a_sender_overtakes_a_receiver_or_waits_for_its_clone() {
        loom::model(|| {
            let (tx, mut rx) = channel(1);
            tx.send(Exclusive::new()).unwrap();
            let sender = thread::spawn(move || tx.send(Exclusive::new()).is_ok());
            let lost = match rx.try_recv() {
                Ok(_) => 0,
                Err(TryRecvError::Lagged(lost)) => lost,
                Err(other) => panic!("{other:?}"),
            };
            assert!(sender.join().unwrap());
            assert_eq!((rx.len(), rx.try_recv().is_ok()), (1, true), "{lost} lost");
        });
    }

    #[test]
    fn values_are_dropped_once_by_whoever_is_last() {
        loom::model(|| {
            let value = Arc::new(());
            let (tx, mut one) = channel(1);
            let two = tx.subscribe();
            tx.send(value.clone()).unwrap();
            let receiver = thread::spawn(move || drop(one.try_recv()));
            drop(two);
            receiver.join().unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        });
    }

    #[test]
    fn a_value_overwritten_while_its_receiver_leaves_is_dropped_once() {
        loom::model(|| {
            let value = Arc::new(());
            let (tx, rx) = channel(1);
            tx.send(value.clone()).unwrap();
            let receiver = thread::spawn(move || drop(rx));
            let _ = tx.send(value.clone());
            receiver.join().unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        });
    }

    /// Its clones must not overlap, and must not be disturbed.
    #[derive(Debug)]
    struct Exclusive(UnsafeCell<u32>);

    impl Exclusive {
        fn new() -> Self {
            Self(UnsafeCell::new(0))
        }
    }

    impl Clone for Exclusive {
        fn clone(&self) -> Self {
            // SAFETY: loom fails the model if two threads are here at once.
            self.0.with_mut(|count| unsafe { *count += 1 });
            Self::new()
        }
    }

    #[test]
    fn a_receive_given_up_loses_nothing() {
        loom::model(|| {
            let (tx, mut rx) = channel(2);
            let sender = thread::spawn(move || tx.send(1).unwrap());
            let polled = pin!(rx.recv()).poll(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(value) => assert_eq!(value, Ok(1)),
                Poll::Pending => assert_eq!(block_on(rx.recv()), Ok(1)),
            }
            sender.join().unwrap();
        });
    }

    #[test]
    fn the_sender_sees_that_the_last_receiver_was_dropped() {
        loom::model(|| {
            let (tx, one) = channel::<u32>(1);
            let two = tx.subscribe();
            let receiver = thread::spawn(move || drop(one));
            drop(two);
            block_on(tx.closed());
            assert_eq!(tx.receiver_count(), 0);
            receiver.join().unwrap();
        });
    }
}
