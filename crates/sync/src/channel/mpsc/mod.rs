//! A channel with many senders and one receiver.
//!
//! [`channel`] creates a bounded channel: senders wait while it is full, and are
//! served in the order of arrival. [`unbounded_channel`] creates one without a limit.
//!
//! # Closing
//!
//! When every [`Sender`] was dropped, [`recv`](Receiver::recv) returns the remaining
//! values and then `None`. When the receiver was [closed](Receiver::close) or dropped,
//! sending fails and returns the value; a [`Permit`] that was reserved before can
//! still be used.
//!
//! # Examples
//!
//! ```
//! use blitzen::sync::mpsc;
//!
//! # futures::executor::block_on(async {
//! let (tx, mut rx) = mpsc::channel(16);
//! for worker in 0..4 {
//!     let tx = tx.clone();
//!     std::thread::spawn(move || tx.blocking_send(worker));
//! }
//! drop(tx); // the channel closes when the workers have dropped theirs
//!
//! let mut seen = Vec::new();
//! while let Some(worker) = rx.recv().await {
//!     seen.push(worker);
//! }
//! seen.sort();
//! assert_eq!(seen, [0, 1, 2, 3]);
//! # });
//! ```

// Messages lie in linked blocks of 32 slots, which are recycled. Without waiting, a
// bounded channel needs one atomic read-modify-write to send and one to receive; an
// unbounded one needs one to send and none to receive. Nothing is allocated while
// waiting: senders wait in their own futures, and the receiver in the channel.

mod bounded;
mod bounded_flow;
mod chan;
mod unbounded;
mod unbounded_flow;
mod waker_cell;

pub use self::bounded::{
    OwnedPermit, Permit, PermitIterator, Receiver, Sender, WeakSender, channel,
};
pub use self::unbounded::{
    UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel,
};

/// Errors of sending and receiving.
pub mod error {
    pub use crate::channel::error::{SendError, SendTimeoutError, TryRecvError, TrySendError};
}
