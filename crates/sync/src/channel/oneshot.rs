//! A channel for one value, from one task to another.
//!
//! [`channel`] creates the two halves. The [`Receiver`] is a future of the value; it
//! completes with an error if the [`Sender`] is dropped without sending.
//!
//! # Examples
//!
//! ```
//! use blitzen::sync::oneshot;
//!
//! # futures::executor::block_on(async {
//! let (tx, rx) = oneshot::channel();
//! std::thread::spawn(move || tx.send("hello"));
//! assert_eq!(rx.await, Ok("hello"));
//! # });
//! ```

//             ┌──poll──► WAITING ──send──┐
//   EMPTY ────┤                          ├──► SENT
//             ├──────────send────────────┘
//             └──close, drop──► CLOSED
//
// The four states are bits of one word. Other bits say that a handle was dropped, and that the
// sender waits for the close. The rest of the word counts how often a side began to wait.
//
// O1. `value` belongs to the sender until `SENT` is set, and to the receiver then.
// O2. A waker cell belongs to its side while the `…_WAITING` bit is clear. While the
//     bit is set, nobody writes the cell. Its side gets the waker back by clearing the
//     bit. The other side gets it by setting `…_TAKEN`, which stays set: from then on
//     the owner does not access the cell. It reads the cell before it sets the bit, by an
//     exchange that fails if the cell was written since, as the count has changed then.
// O3. Setting `TX_DROPPED` or `RX_DROPPED` is a handle's last access to the cell. A handle
//     that finds the other one dropped frees the cell, without another atomic operation.
// O4. `SENT` is set together with `TX_DROPPED`, and never after `CLOSED`.
//
// So a value costs one allocation and one compare-and-swap, whether or not the receiver has to be
// woken.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, RawWakerVTable, Waker, ready};

use blitzen_util::block_on::block_on;
use blitzen_util::coop;
use blitzen_util::entered::assert_may_block;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicPtr, AtomicU64};
use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::hint;
use blitzen_util::wait::{self, WaitKind};

use crate::resource::{ReceiverSpans, SenderSpan};

use self::error::{RecvError, TryRecvError};

/// The value is there.
const SENT: u64 = 1;
/// The sender has sent or was dropped.
const TX_DROPPED: u64 = 1 << 1;
/// The receiver wants no value any more.
const CLOSED: u64 = 1 << 2;
/// The receiver was dropped, or is finished.
const RX_DROPPED: u64 = 1 << 3;
/// `rx_waker` is set.
const RX_WAITING: u64 = 1 << 4;
/// The sender has taken `rx_waker`, and is about to send or to be dropped.
const RX_TAKEN: u64 = 1 << 5;
/// `tx_waker` is set.
const TX_WAITING: u64 = 1 << 6;
/// The receiver has `tx_waker`, and is about to close.
const TX_TAKEN: u64 = 1 << 7;
/// One in the count of waits. It does not wrap within a program's life.
const WAIT: u64 = 1 << 8;

/// Errors of receiving.
pub mod error {
    use std::error::Error;
    use std::fmt;

    /// The error of awaiting a [`Receiver`](super::Receiver): the sender was
    /// dropped without sending.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// # futures::executor::block_on(async {
    /// let (tx, rx) = oneshot::channel::<u32>();
    /// drop(tx);
    /// assert_eq!(rx.await.unwrap_err().to_string(), "channel closed");
    /// # });
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecvError(pub(super) ());

    impl fmt::Display for RecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("channel closed")
        }
    }

    impl Error for RecvError {}

    /// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = oneshot::channel::<u32>();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// drop(tx);
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum TryRecvError {
        /// The value has not been sent yet.
        Empty,
        /// The sender was dropped without sending, or the value was received
        /// already.
        Closed,
    }

    impl fmt::Display for TryRecvError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Self::Empty => "channel empty",
                Self::Closed => "channel closed",
            })
        }
    }

    impl Error for TryRecvError {}
}

/// Creates a channel for one value.
///
/// # Examples
///
/// ```
/// use blitzen::sync::oneshot;
///
/// let (tx, mut rx) = oneshot::channel();
/// tx.send(5).unwrap();
/// assert_eq!(rx.try_recv(), Ok(5));
/// ```
#[cfg_attr(all(tokio_unstable, feature = "resource-spans"), track_caller)]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let span = SenderSpan::new();
    let spans = span.receiver();
    let cell = NonNull::from(Box::leak(Box::new(OneshotCell::new())));
    let receiver = Receiver {
        cell: Some(cell),
        spans,
    };
    (Sender { cell, span }, receiver)
}

/// The sending half of a oneshot channel.
///
/// If it is dropped without sending, the receiver completes with an error.
///
/// # Examples
///
/// ```
/// use blitzen::sync::oneshot;
///
/// let (tx, rx) = oneshot::channel();
/// assert!(!tx.is_closed());
/// drop(rx);
/// assert_eq!(tx.send(5), Err(5));
/// ```
pub struct Sender<T> {
    cell: NonNull<OneshotCell<T>>,
    span: SenderSpan,
}

/// The receiving half of a oneshot channel: a future of the value.
///
/// # Examples
///
/// ```
/// use blitzen::sync::oneshot;
///
/// # futures::executor::block_on(async {
/// let (tx, rx) = oneshot::channel();
/// tx.send(5).unwrap();
/// assert_eq!(rx.await, Ok(5));
/// # });
/// ```
///
/// # Cancel safety
///
/// Awaiting `&mut receiver` is cancel safe: if that future is dropped, the value
/// stays in the channel.
pub struct Receiver<T> {
    /// `None` once it has completed.
    cell: Option<NonNull<OneshotCell<T>>>,
    spans: ReceiverSpans,
}

/// What the two ends share.
struct OneshotCell<T> {
    state: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
    rx_waker: WakerCell,
    tx_waker: WakerCell,
}

/// The two words of a waker. They are atomic since the other side reads them before it knows whether
/// that was in time (O2).
struct WakerCell {
    data: AtomicPtr<()>,
    vtable: AtomicPtr<RawWakerVTable>,
}

impl WakerCell {
    fn new() -> Self {
        Self {
            data: AtomicPtr::new(ptr::null_mut()),
            vtable: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Puts a waker there. Relaxed, here and below: the state publishes it (O2).
    #[inline]
    fn put(&self, waker: Waker) {
        let waker = ManuallyDrop::new(waker);
        self.data.store(waker.data().cast_mut(), Relaxed);
        let vtable = ptr::from_ref(waker.vtable()).cast_mut();
        self.vtable.store(vtable, Relaxed);
    }

    #[inline]
    fn words(&self) -> WakerWords {
        WakerWords {
            data: self.data.load(Relaxed),
            vtable: self.vtable.load(Relaxed),
        }
    }

    /// # Safety
    /// A waker is there, and by O2 it is the caller's.
    unsafe fn take(&self) -> Waker {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.words().waker() }
    }
}

/// What was read of a [`WakerCell`]: maybe not one waker.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WakerWords {
    data: *const (),
    vtable: *const RawWakerVTable,
}

impl WakerWords {
    fn of(waker: &Waker) -> Self {
        Self {
            data: waker.data(),
            vtable: waker.vtable(),
        }
    }

    /// # Safety
    /// They are the words of a waker, which by O2 is the caller's.
    #[inline]
    unsafe fn waker(self) -> Waker {
        // SAFETY: they come from a waker that was not dropped.
        unsafe { Waker::new(self.data, &*self.vtable) }
    }
}

// SAFETY: the cell hands a `T` from one thread to another and never lends it.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above; `&Sender` reaches only the state.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: as for the sender.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: as for the sender.
unsafe impl<T: Send> Sync for Receiver<T> {}

// The value is moved in or out whole, so no panic shows it half done.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Unpin for Receiver<T> {}

impl<T> OneshotCell<T> {
    fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
            rx_waker: WakerCell::new(),
            tx_waker: WakerCell::new(),
        }
    }

    #[inline(always)]
    fn state(&self) -> u64 {
        // Acquire, met by every change of the state: a thread that sees a bit sees
        // what was written before it was set.
        self.state.load(Acquire)
    }

    /// Moves from `state` to `next`; otherwise says what the state is instead.
    ///
    /// Release, met by `state` and by the Acquire of a failure: a set bit shows what it
    /// stands for, a cleared one that its waker has been read. A success acquires nothing: `state`
    /// was acquired before, and by the count it is not another one that looks the same.
    #[inline(always)]
    fn step(place: &AtomicU64, state: u64, next: u64) -> Result<(), u64> {
        place
            .compare_exchange_weak(state, next, Release, Acquire)
            .map(drop)
    }

    /// Sets `bits`, unless one of `unless` is set already: then returns the state.
    /// First moves both wakers out, so that nothing is left to be done in the cell
    /// afterwards.
    ///
    /// A pointer, since the bits may allow the other side to free the cell before
    /// this returns, and a reference promises that it is there until then.
    ///
    /// # Safety
    /// O3: the caller has not set its `…_DROPPED` bit.
    #[inline(always)]
    unsafe fn settle(
        cell: NonNull<Self>,
        bits: u64,
        unless: u64,
        ours: &WakerBits,
        theirs: &WakerBits,
    ) -> Result<Option<TakenWakers>, NotSettled> {
        // SAFETY: by the contract it is there until the bits are set.
        let place = unsafe { &(*cell.as_ptr()).state };
        let state = place.load(Acquire); // as in `state`
        if state & unless != 0 {
            return Err(NotSettled {
                state,
                _taken: None,
            });
        }
        if state & ours.waiting == 0 {
            // SAFETY: as above.
            let words = unsafe { theirs.waker_cell(cell.as_ref()) }.words();
            let waits = theirs.has_waker(state);
            let taken = if waits { theirs.taken } else { 0 };
            if Self::step(place, state, state | bits | taken).is_ok() {
                let theirs = waits.then(|| {
                    // SAFETY: O2, and nobody has written the words since the state was read.
                    unsafe { words.waker() }
                });
                return Ok(theirs.map(TakenWakers::of_other));
            }
        }
        // SAFETY: the caller upholds the same contract.
        unsafe { Self::settle_slow(cell, bits, unless, ours, theirs) }
    }

    /// # Safety
    /// As for [`settle`](Self::settle).
    #[cold]
    #[inline(never)]
    unsafe fn settle_slow(
        cell: NonNull<Self>,
        bits: u64,
        unless: u64,
        ours: &WakerBits,
        theirs: &WakerBits,
    ) -> Result<Option<TakenWakers>, NotSettled> {
        // SAFETY: by the contract it is there until the bits are set.
        let place = unsafe { &(*cell.as_ptr()).state };
        let mut taken = TakenWakers::default();
        let mut state = place.load(Acquire); // as in `state`
        loop {
            if state & unless != 0 {
                let _taken = Some(taken);
                return Err(NotSettled { state, _taken });
            }
            let next = if theirs.has_waker(state) {
                state | theirs.taken
            } else if ours.has_waker(state) {
                state & !ours.waiting
            } else {
                state | bits
            };
            if let Err(changed) = Self::step(place, state, next) {
                state = changed;
                continue;
            }
            if theirs.has_waker(state) {
                // SAFETY: O2, we have marked it as taken.
                taken.theirs = Some(unsafe { theirs.waker_cell(cell.as_ref()).take() });
            } else if ours.has_waker(state) {
                // SAFETY: O2, we have cleared our bit.
                taken.ours = Some(unsafe { ours.waker_cell(cell.as_ref()).take() });
            } else {
                return Ok(Some(taken));
            }
            state = next;
        }
    }

    /// Stores the caller's waker for the other side to wake. Returns false if one of
    /// `unless` is set, and true if the task will be woken, by the other side or by
    /// itself.
    #[inline]
    fn wait(&self, ours: &WakerBits, unless: u64, cx: &Context<'_>) -> bool {
        let place = ours.waker_cell(self);
        let mut state = self.state();
        if state & ours.waiting != 0 {
            // Nobody writes here while the bit is set (O2). Even if the waker has been taken, its
            // two words still can be compared.
            if place.words() == WakerWords::of(cx.waker()) {
                return true;
            }
            while ours.has_waker(state) {
                match Self::step(&self.state, state, state & !ours.waiting) {
                    Ok(()) => {
                        // SAFETY: O2, we have cleared our bit.
                        drop(unsafe { place.take() });
                        state &= !ours.waiting;
                    }
                    Err(changed) => state = changed,
                }
            }
            if state & ours.waiting != 0 {
                // The other side is waking an earlier waker of ours right now, and is
                // about to set its bit.
                hint::spin_loop();
                cx.waker().wake_by_ref();
                return true;
            }
        }
        place.put(cx.waker().clone()); // O2, the bit is clear and ours to set
        let mut state = self.state();
        loop {
            if state & unless != 0 {
                // SAFETY: the bit is still clear: the waker is ours.
                drop(unsafe { place.take() });
                return false;
            }
            match Self::step(
                &self.state,
                state,
                (state | ours.waiting).wrapping_add(WAIT),
            ) {
                Ok(()) => return true,
                Err(changed) => state = changed,
            }
        }
    }

    /// # Safety
    /// O3: the other handle was dropped, and the caller does not use the cell again.
    #[inline(always)]
    unsafe fn free(cell: NonNull<Self>, state: u64) {
        // SAFETY: made by `channel`, and by O3 nobody else frees it.
        let cell = unsafe { Box::from_raw(cell.as_ptr()) };
        // SAFETY: the bits say what is there (O1, O2), and `state` is final.
        unsafe {
            if RX.has_waker(state) {
                drop(cell.rx_waker.take());
            }
            if TX.has_waker(state) {
                drop(cell.tx_waker.take());
            }
            if state & SENT != 0 {
                cell.value.with_mut(|value| (*value).assume_init_drop());
            }
        }
    }
}

/// The wakers that [`OneshotCell::settle`] has moved out of the cell.
#[derive(Default)]
struct TakenWakers {
    theirs: Option<Waker>,
    ours: Option<Waker>,
}

impl TakenWakers {
    fn of_other(theirs: Waker) -> Self {
        Self {
            theirs: Some(theirs),
            ours: None,
        }
    }

    /// Wakes the other side, and then drops our own waker: the drop may panic.
    fn wake(self) {
        let _ours = self.ours;
        if let Some(theirs) = self.theirs {
            theirs.wake();
        }
    }
}

/// Why [`OneshotCell::settle`] has set nothing.
struct NotSettled {
    state: u64,
    /// Dropped last: the drop of a waker may panic.
    _taken: Option<TakenWakers>,
}

/// The bits of one side.
struct WakerBits {
    waiting: u64,
    taken: u64,
}

const RX: WakerBits = WakerBits {
    waiting: RX_WAITING,
    taken: RX_TAKEN,
};

const TX: WakerBits = WakerBits {
    waiting: TX_WAITING,
    taken: TX_TAKEN,
};

impl WakerBits {
    /// Whether a waker is there, and not taken.
    #[inline(always)]
    fn has_waker(&self, state: u64) -> bool {
        state & (self.waiting | self.taken) == self.waiting
    }

    #[inline(always)]
    fn waker_cell<'a, T>(&self, cell: &'a OneshotCell<T>) -> &'a WakerCell {
        match self.waiting {
            RX_WAITING => &cell.rx_waker,
            _ => &cell.tx_waker,
        }
    }
}

impl<T> Sender<T> {
    #[inline(always)]
    fn cell(&self) -> &OneshotCell<T> {
        // SAFETY: O3, our bit is not set, so the cell has not been freed.
        unsafe { self.cell.as_ref() }
    }

    /// Sends `value`.
    ///
    /// Returns it if the receiver was closed or dropped.
    ///
    /// `Ok` does not mean that the value will be received: the receiver may be dropped
    /// before it takes it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// assert_eq!(tx.send(3), Ok(()));
    /// assert_eq!(rx.try_recv(), Ok(3));
    /// ```
    #[inline]
    pub fn send(self, value: T) -> Result<(), T> {
        let mut sender = ManuallyDrop::new(self);
        let span = mem::take(&mut sender.span);
        let cell = sender.cell();
        // SAFETY: O1, nothing has been sent.
        cell.value.with_mut(|slot| unsafe { (*slot).write(value) });
        let bits = SENT | TX_DROPPED;
        // SAFETY: our `…_DROPPED` bit is not set.
        match unsafe { OneshotCell::settle(sender.cell, bits, CLOSED, &TX, &RX) } {
            Ok(None) => {
                span.sent();
                Ok(())
            }
            Ok(Some(taken)) => {
                taken.wake();
                span.sent();
                Ok(())
            }
            Err(_closed) => {
                // SAFETY: O1 and O4, not sent and never will be.
                let value = cell
                    .value
                    .with(|slot| unsafe { (*slot).assume_init_read() });
                sender.span = span;
                drop(ManuallyDrop::into_inner(sender));
                Err(value)
            }
        }
    }

    /// Waits until the receiver is closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// # futures::executor::block_on(async {
    /// let (mut tx, rx) = oneshot::channel::<u32>();
    /// std::thread::spawn(move || drop(rx));
    /// tx.closed().await; // nobody wants the answer: stop computing it
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn closed(&mut self) {
        poll_fn(|cx| self.poll_closed(cx)).await;
    }

    /// Polls whether the receiver was closed or dropped, as
    /// [`closed`](Self::closed) does.
    ///
    /// Only the task of the last call is woken.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::{Context, Waker};
    /// use blitzen::sync::oneshot;
    ///
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let (mut tx, rx) = oneshot::channel::<u32>();
    /// assert!(tx.poll_closed(&mut cx).is_pending());
    /// drop(rx);
    /// assert!(tx.poll_closed(&mut cx).is_ready());
    /// ```
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let spent = ready!(coop::poll_proceed(cx));
        let cell = self.cell();
        while cell.state() & CLOSED == 0 {
            if cell.wait(&TX, CLOSED, cx) {
                wait::pending_on(WaitKind::Oneshot, cell);
                return Poll::Pending;
            }
        }
        spent.made_progress();
        Poll::Ready(())
    }

    /// Returns `true` if the receiver was closed or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// let (tx, rx) = oneshot::channel::<u32>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.cell().state() & CLOSED != 0
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // SAFETY: our `…_DROPPED` bit is not set.
        match unsafe { OneshotCell::settle(self.cell, TX_DROPPED, RX_DROPPED, &TX, &RX) } {
            Ok(None) => {}
            Ok(Some(taken)) => taken.wake(),
            // SAFETY: O3.
            Err(refused) => unsafe { OneshotCell::free(self.cell, refused.state) },
        }
        self.span.dropped();
    }
}

impl<T> Receiver<T> {
    fn cell(&self) -> Option<&OneshotCell<T>> {
        // SAFETY: O3, our bit is not set, so the cell has not been freed.
        self.cell.as_ref().map(|cell| unsafe { cell.as_ref() })
    }

    /// Closes the channel: the value can no longer be sent.
    ///
    /// If it was sent already, it can still be received.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// rx.close();
    /// assert_eq!(tx.send(1), Err(1));
    /// ```
    pub fn close(&mut self) {
        let Some(cell) = self.cell else { return };
        let unless = TX_DROPPED | CLOSED;
        // SAFETY: our `…_DROPPED` bit is not set.
        let settled = unsafe { OneshotCell::settle(cell, CLOSED, unless, &RX, &TX) };
        // An error says that there is nothing to close any more.
        if let Ok(Some(taken)) = settled {
            taken.wake();
        }
    }

    /// Returns `true` if this receiver has completed: awaiting it again panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_terminated());
    /// rx.try_recv().unwrap();
    /// assert!(rx.is_terminated());
    /// ```
    pub fn is_terminated(&self) -> bool {
        self.cell.is_none()
    }

    /// Returns `true` if no value can be received now.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// let (tx, rx) = oneshot::channel();
    /// assert!(rx.is_empty());
    /// tx.send(1).unwrap();
    /// assert!(!rx.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.cell().is_none_or(|cell| cell.state() & SENT == 0)
    }

    /// Receives the value if it was sent, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot::{self, error::TryRecvError};
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let state = match self.cell() {
            Some(cell) => cell.state(),
            None => return Err(TryRecvError::Closed),
        };
        match self.take_result(state) {
            Some(Ok(value)) => Ok(value),
            Some(Err(_closed)) => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Receives the value, and blocks the current thread until it is sent.
    ///
    /// For use outside of a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::sync::oneshot;
    ///
    /// let (tx, rx) = oneshot::channel();
    /// std::thread::spawn(move || tx.send(5));
    /// assert_eq!(rx.blocking_recv(), Ok(5));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called on a thread that runs tasks.
    #[track_caller]
    pub fn blocking_recv(self) -> Result<T, RecvError> {
        assert_may_block();
        block_on(self)
    }

    /// Returns the result that `state` stands for, if it is final. The receiver has then
    /// completed.
    #[inline(always)]
    fn take_result(&mut self, state: u64) -> Option<Result<T, RecvError>> {
        if state & (SENT | TX_DROPPED | CLOSED) == 0 {
            return None;
        }
        let cell = self.cell.take()?;
        if state & SENT == 0 {
            drop_receiver(cell);
            return Some(Err(RecvError(())));
        }
        // SAFETY: O1; the bit is not shown to `free`, so it is read once.
        let value = unsafe { (cell.as_ref().value).with(|value| (*value).assume_init_read()) };
        // SAFETY: O4, so O3: the sender has set its bit.
        unsafe { OneshotCell::free(cell, state & !SENT) };
        self.spans.received();
        Some(Ok(value))
    }
}

/// Sets `RX_DROPPED`: the receiver's last access to the cell (O3).
#[inline]
fn drop_receiver<T>(cell: NonNull<OneshotCell<T>>) {
    let bits = CLOSED | RX_DROPPED;
    // SAFETY: O3, `RX_DROPPED` is set here first.
    match unsafe { OneshotCell::settle(cell, bits, TX_DROPPED, &RX, &TX) } {
        Ok(None) => {}
        Ok(Some(taken)) => taken.wake(),
        // SAFETY: O3.
        Err(refused) => unsafe { OneshotCell::free(cell, refused.state) },
    }
}

impl<T> Drop for Receiver<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            drop_receiver(cell);
            self.spans.dropped();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(self.cell.is_some(), "called after complete");
        let spans = self.spans.clone();
        let _entered = spans.enter();
        let spent = ready!(coop::poll_proceed(cx));
        loop {
            let Some(cell) = self.cell() else {
                unreachable!("asserted above")
            };
            let state = cell.state();
            if let Some(answer) = self.take_result(state) {
                spent.made_progress();
                spans.polled(true);
                return Poll::Ready(answer);
            }
            let Some(cell) = self.cell() else {
                unreachable!("no answer yet")
            };
            if cell.wait(&RX, TX_DROPPED, cx) {
                wait::pending_on(WaitKind::Oneshot, cell);
                spans.polled(false);
                return Poll::Pending;
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closed = self.is_closed();
        f.debug_struct("Sender").field("closed", &closed).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("empty", &self.is_empty())
            .field("terminated", &self.is_terminated())
            .finish()
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::thread;
    use blitzen_util::shim::{AccessCheck, Arc};
    use loom::future::block_on;

    /// Polls once with a waker that wakes nobody, as a future that is then
    /// dropped or moved to another task would.
    fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn what_is_sent_is_received() {
        loom::model(|| {
            let (tx, rx) = channel();
            let sender = thread::spawn(move || tx.send(Arc::new(5)).is_ok());
            assert_eq!(block_on(rx).map(|value| *value), Ok(5));
            assert!(sender.join().unwrap());
        });
    }

    #[test]
    fn a_receiver_that_changes_tasks_is_woken_in_the_last() {
        loom::model(|| {
            let (tx, mut rx) = channel();
            let sender = thread::spawn(move || drop(tx.send(5)));
            match poll_once(&mut rx) {
                Poll::Ready(value) => assert_eq!(value, Ok(5)),
                Poll::Pending => assert_eq!(block_on(rx), Ok(5)),
            }
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_dropped_sender_wakes_the_receiver() {
        loom::model(|| {
            let (tx, rx) = channel::<u32>();
            let sender = thread::spawn(move || drop(tx));
            assert_eq!(block_on(rx), Err(RecvError(())));
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_value_meets_a_dropped_receiver_and_is_dropped_once() {
        loom::model(|| {
            let value = Arc::new(());
            let (tx, mut rx) = channel();
            let sent = value.clone();
            let sender = thread::spawn(move || drop(tx.send(sent)));
            let _ = poll_once(&mut rx);
            drop(rx);
            sender.join().unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        });
    }

    #[test]
    fn a_value_meets_a_close_and_is_received_or_given_back() {
        loom::model(|| {
            let (tx, mut rx) = channel();
            let sender = thread::spawn(move || tx.send(5));
            rx.close();
            let received = block_on(rx);
            match sender.join().unwrap() {
                Ok(()) => assert_eq!(received, Ok(5)),
                Err(value) => assert_eq!((value, received), (5, Err(RecvError(())))),
            }
        });
    }

    #[test]
    fn the_sender_sees_that_the_receiver_was_dropped() {
        loom::model(|| {
            let (mut tx, rx) = channel::<u32>();
            let receiver = thread::spawn(move || drop(rx));
            let _ = tx.poll_closed(&mut Context::from_waker(Waker::noop()));
            block_on(tx.closed());
            assert!(tx.is_closed());
            receiver.join().unwrap();
        });
    }

    #[test]
    fn both_sides_may_wait_and_both_may_be_dropped() {
        loom::model(|| {
            let (mut tx, mut rx) = channel::<u32>();
            let sender = thread::spawn(move || {
                let _ = tx.poll_closed(&mut Context::from_waker(Waker::noop()));
            });
            let _ = poll_once(&mut rx);
            drop(rx);
            sender.join().unwrap();
        });
    }

    /// The sender may have waited for the close before.
    fn check_failed_send(has_waited: bool) {
        let done = Arc::new(AccessCheck::new());
        let (mut tx, mut rx) = channel::<u32>();
        if has_waited {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(tx.poll_closed(&mut cx).is_pending());
        }
        let sender = thread::spawn({
            let done = done.clone();
            move || {
                if tx.send(5).is_err() {
                    done.read();
                }
            }
        });
        done.write();
        rx.close();
        sender.join().unwrap();
    }

    #[test]
    fn a_send_that_fails_sees_what_the_receiver_did() {
        loom::model(|| check_failed_send(false));
    }

    #[test]
    fn a_send_that_fails_after_a_wait_sees_what_the_receiver_did() {
        loom::model(|| check_failed_send(true));
    }
}
