//! Many senders, one receiver.
//!
//! [`channel`] is bounded: whoever sends into a full one waits, in the order of
//! arrival. [`unbounded_channel`] takes whatever comes.
//!
//! ```
//! use blitzen_sync::channel::mpsc;
//!
//! # futures::executor::block_on(async {
//! let (tx, mut rx) = mpsc::channel(16);
//! for worker in 0..4 {
//!     let tx = tx.clone();
//!     std::thread::spawn(move || tx.blocking_send(worker));
//! }
//! drop(tx); // or the channel stays open
//!
//! let mut seen = Vec::new();
//! while let Some(worker) = rx.recv().await {
//!     seen.push(worker);
//! }
//! seen.sort();
//! assert_eq!(seen, [0, 1, 2, 3]);
//! # });
//! ```
//!
//! # When it ends
//!
//! Once every [`Sender`] is gone, [`recv`](Receiver::recv) returns what is left
//! and then `None`. Once the receiver is [closed](Receiver::close) or dropped,
//! sending fails and gives the value back; a [`Permit`] obtained before that can
//! still be used.
//!
//! # How it works
//!
//! Messages lie in linked blocks of 32 slots that are used again and again. A
//! message that finds room costs one atomic read-modify-write to send and one to
//! receive, and no lock; without a bound, one and none. Nothing is allocated
//! while waiting: whoever waits for room does so in its own future, and the
//! receiver in the channel.

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

/// What sending and receiving may answer.
pub mod error {
    pub use crate::channel::error::{SendError, SendTimeoutError, TryRecvError, TrySendError};
}
