//! A channel with many senders and many receivers: each value goes to one of them.
//!
//! ```
//! use blitzen::channel;
//!
//! # futures::executor::block_on(async {
//! let (tx, rx) = channel::bounded(16);
//! let workers: Vec<_> = (0..2)
//!     .map(|_| {
//!         let rx = rx.clone();
//!         std::thread::spawn(move || {
//!             let mut sum = 0;
//!             while let Some(job) = rx.blocking_recv() {
//!                 sum += job;
//!             }
//!             sum
//!         })
//!     })
//!     .collect();
//! for job in 1..=100 {
//!     tx.send(job).await.unwrap();
//! }
//! drop(tx); // the workers end when the channel is empty
//! let sums = workers.into_iter().map(|worker| worker.join().unwrap());
//! assert_eq!(sums.sum::<u32>(), 5050);
//! # });
//! ```
//!
//! The task that has waited longest is woken first, but another task may take the
//! value before it. Where senders must be served in order, and there is one receiver,
//! use [`mpsc`](super::mpsc).

mod bounded_ring;
mod chan;
mod linked_queue;
mod receiver;
mod sender;

pub use self::receiver::{Receiver, WeakReceiver};
pub use self::sender::{Sender, WeakSender};

use self::chan::Chan;
use blitzen_util::shim::Arc;
use blitzen_util::wait::WaitKind;

/// Why a value was not added.
enum PushError {
    Full,
    /// A receiver is just emptying the next slot.
    Emptying,
    Closed,
}

/// Why no value was taken.
enum PopError {
    Empty,
    /// A sender is just filling the next slot.
    Filling,
    /// Empty and closed.
    Closed,
}

/// The side of the channel on which a task waits.
#[derive(Clone, Copy)]
enum WaitSide {
    Receivers,
    Senders,
}

impl WaitSide {
    /// What a task on this side waits for.
    fn wait_kind(self) -> WaitKind {
        match self {
            Self::Receivers => WaitKind::MpmcReceive,
            Self::Senders => WaitKind::MpmcSend,
        }
    }
}

/// Creates a channel that holds at most `capacity` values.
///
/// The memory for them is allocated at once.
///
/// # Examples
///
/// ```
/// use blitzen::channel;
///
/// # futures::executor::block_on(async {
/// let (tx, rx) = channel::bounded(1);
/// tx.send("hello").await.unwrap();
/// assert_eq!(rx.recv().await, Some("hello"));
/// # });
/// ```
///
/// # Panics
///
/// Panics if `capacity` is 0, or greater than `usize::MAX >> 4`.
#[track_caller]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    handles(Chan::bounded(capacity))
}

/// Creates a channel without a limit.
///
/// # Examples
///
/// ```
/// use blitzen::channel;
///
/// let (tx, rx) = channel::unbounded();
/// for value in 0..1000 {
///     tx.try_send(value).unwrap();
/// }
/// assert_eq!(rx.len(), 1000);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    handles(Chan::unbounded())
}

fn handles<T>(chan: Chan<T>) -> (Sender<T>, Receiver<T>) {
    let chan = Arc::new(chan);
    (Sender { chan: chan.clone() }, Receiver { chan })
}
