//! Channels: values handed between tasks.
//!
//! | channel | who sends | who receives | what is kept |
//! |---|---|---|---|
//! | [`bounded`], [`unbounded`] | many | many, each value once | every value |
//! | [`mpsc`] | many | one | every value, senders served in order |
//! | [`oneshot`] | one | one | one value, once |
//! | [`broadcast`] | many | many, each every value | the last so many |
//! | [`watch`] | many | many | the latest value |
//!
//! All of them need nothing but a [`Waker`](std::task::Waker), allocate nothing
//! to wait, and lose nothing when a future is dropped: what it had been given
//! goes to the next. Every asynchronous operation spends the cooperative budget
//! of its task.

pub mod broadcast;
pub mod error;
pub mod mpsc;
pub mod oneshot;
pub mod watch;

mod block_list;
mod mpmc;
mod wait_until;

pub use self::mpmc::{Receiver, Sender, WeakReceiver, WeakSender, bounded, unbounded};
