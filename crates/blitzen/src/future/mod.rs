//! Combinators of futures.
//!
//! The macros [`join!`](crate::join!), [`try_join!`](crate::try_join!) and
//! [`select!`](crate::select!) combine a few futures in place. The functions of this
//! module are for everything else: the futures are in a collection, or the combination
//! is returned or stored.
//!
//! | wait for | tuple, array | collection |
//! |---|---|---|
//! | all | [`join`] | [`join_all`] |
//! | all, or the first error | [`try_join`] | [`try_join_all`] |
//! | the first, drop the others | [`race`], [`either`] | [`race`] |
//! | the first, keep the others | | [`select_all`] |
//! | the first success | | [`select_ok`] |
//! | all, started one by one | | [`scope`](scope()) |
//!
//! All futures of a combination run on the calling task: concurrently, not in parallel.
//! All combinations are fair. In a large collection only the futures that were woken are
//! polled.
//!
//! # Examples
//!
//! ```
//! use blitzen::future::{join, race, ready};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() {
//! assert_eq!(join((ready(1), ready("two"))).await, (1, "two"));
//! assert_eq!(race([ready(3), ready(3)]).await, 3);
//! # }
//! ```

/// Calls `$each` for tuples of one to twelve members, with two names and an index for
/// each member.
macro_rules! for_each_tuple {
    ($each:ident) => {
        $each!(A Ao 0);
        $each!(A Ao 0 B Bo 1);
        $each!(A Ao 0 B Bo 1 C Co 2);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4 F Fo 5);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4 F Fo 5 G Go 6);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4 F Fo 5 G Go 6 H Ho 7);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4 F Fo 5 G Go 6 H Ho 7 I Io 8);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4 F Fo 5 G Go 6 H Ho 7 I Io 8 J Jo 9);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4 F Fo 5 G Go 6 H Ho 7 I Io 8 J Jo 9 K Ko 10);
        $each!(A Ao 0 B Bo 1 C Co 2 D Do 3 E Eo 4 F Fo 5 G Go 6 H Ho 7 I Io 8 J Jo 9 K Ko 10 L Lo 11);
    };
}
use for_each_tuple;

mod either;
mod join;
mod join_all;
#[doc(hidden)]
pub mod maybe_done;
#[doc(hidden)]
pub mod owned_branch;
mod pin_element;
mod poll_group;
mod race;
mod scope;
mod select_all;
mod try_join;

pub use std::future::{Pending, PollFn, Ready, pending, poll_fn, ready};

pub use either::{Either, EitherOf, either};
pub use join::{Join, Joinable, join};
pub use join_all::{JoinAll, TryJoinAll, join_all, try_join_all};
pub use owned_branch::Passive;
pub use race::{Race, Raceable, race};
pub use scope::{TaskScope, TaskScopeFuture, scope};
pub use select_all::{SelectAll, SelectOk, select_all, select_ok};
pub use try_join::{TryJoin, TryJoinable, try_join};
