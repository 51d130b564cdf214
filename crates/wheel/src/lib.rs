//! Timers as arithmetic: a hierarchical wheel that takes the time as an argument.
//!
//! The wheel has no clock and no thread, and does not know what a timer wakes. It counts in
//! *ticks*, and the caller decides how long a tick is: `blitzen` uses 25 µs unless its builder
//! sets another resolution. Shorter ticks are more precise, and cascade more often. So that no
//! timer fires early, deadlines are rounded **up** to a tick and the clock **down**: see
//! [`TickScale`].
//!
//! ```
//! use blitzen_wheel::{WheelEntry, Wheel};
//! use std::pin::pin;
//!
//! let mut wheel = Wheel::new();
//! let tea = pin!(WheelEntry::new("tea"));
//!
//! // SAFETY: `tea` is in no wheel, and it leaves this one below, before it is dropped.
//! unsafe { wheel.insert(tea.as_ref(), 180_000) };
//!
//! assert_eq!(wheel.next_expiry(), Some(180_000));
//! assert!(wheel.poll(179_999).is_none());
//!
//! let rung = wheel.poll(180_000).expect("the tea is ready");
//! // SAFETY: `tea` is still alive.
//! assert_eq!(*unsafe { rung.as_ref() }.value(), "tea");
//! ```
//!
//! # How a runtime uses it
//!
//! Each worker has one wheel behind a lock of its own: a [`TimerShard`]. A timer's [`WheelEntry`] lives
//! inside the future that waits, in a [`Timer`], so nothing is allocated per timer; its value is
//! a state and a waker. The lock is taken
//!
//! * by the worker itself to [`insert`](Wheel::insert), [`reset`](Wheel::reset) and
//!   [`remove`](Wheel::remove): uncontended, so an exchange on a line that it owns;
//! * by the worker between tasks, to [`poll`](Wheel::poll) what is due. One entry comes out
//!   per call, so that the caller can gather a batch of wakers, release the lock, wake them and
//!   come back;
//! * by another worker, to poll the wheel of one that is stuck, or to take out a timer that was
//!   armed on a worker its task has since left.
//!
//! A worker about to park asks [`next_expiry`](Wheel::next_expiry) and parks until then.
//! [`TimerMigration`] decides which of the parked workers wakes for all of them. A runtime that
//! shuts down polls with [`u64::MAX`], which empties the wheel.

mod entry;
mod level;
mod migration;
mod shard;
mod tick_scale;
mod timer;
mod wheel;

pub use entry::WheelEntry;
pub use migration::TimerMigration;
pub use shard::{Closed, TimerShard};
pub use tick_scale::TickScale;
pub use timer::{Timer, TimerState};
pub use wheel::Wheel;
