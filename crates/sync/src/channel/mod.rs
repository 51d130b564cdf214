//! Channels, which pass values between tasks.
//!
//! | channel | senders | receivers | values kept |
//! |---|---|---|---|
//! | [`bounded`], [`unbounded`] | many | many; each value goes to one | all |
//! | [`mpsc`] | many, served in order | one | all |
//! | [`oneshot`] | one | one | one |
//! | [`broadcast`] | many | many; each gets every value | the last `capacity` |
//! | [`watch`] | many | many; each sees the latest value | the latest |
//!
//! Waiting allocates nothing. If a waiting future is dropped, no value is lost that
//! it could have received. Every asynchronous operation spends the cooperative budget
//! of its task.
//!
//! # Examples
//!
//! ```
//! use blitzen::channel;
//!
//! # futures::executor::block_on(async {
//! let (tx, rx) = channel::bounded(16);
//! tx.send("hello").await.unwrap();
//! assert_eq!(rx.recv().await, Some("hello"));
//! # });
//! ```

pub mod broadcast;
pub mod error;
pub mod mpsc;
pub mod oneshot;
pub mod watch;

mod block_list;
mod handle_count;
mod mpmc;
mod wait_until;

pub use self::mpmc::{Receiver, Sender, WeakReceiver, WeakSender, bounded, unbounded};
