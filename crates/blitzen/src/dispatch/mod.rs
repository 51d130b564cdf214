//! Which threads run a task, and how many tasks at a time.
//!
//! Every task has a dispatcher, which polls it each time it is woken. Tasks of a plain
//! [`spawn`](crate::spawn()) have the default one: the workers of the runtime. With others, some
//! kinds of work do not hold up the rest:
//!
//! | dispatcher | its tasks run on | for |
//! |---|---|---|
//! | [`Dispatcher::default`] | the workers | everything else |
//! | [`limited(n)`](Dispatcher::limited) | the same threads, at most `n` tasks at a time | a limit without threads of its own |
//! | [`Dispatcher::io`] | threads that may block, at least 64 of them | code that may block |
//! | [`Dispatcher::single`] | one thread of its own | a library that wants one thread |
//! | [`Dispatcher::builder`] | threads of its own, on chosen cores | long computations |
//! | [`Dispatcher::group`] | the workers, by shares of processor time | batches beside requests |
//! | [`Dispatcher::unconfined`] | the caller's thread, until they first wait | tasks that nearly always end at once |
//! | [`Dispatcher::from_fn`] | threads of another executor | rayon, a user interface |
//!
//! [`Dispatcher::spawn`] starts a task, [`Dispatcher::run`] starts one and waits for it, and
//! [`with_dispatcher`] moves the calling task for the length of a future, which may borrow.
//!
//! # Examples
//!
//! ```
//! use blitzen::dispatch::{Dispatcher, with_dispatcher};
//!
//! # let runtime = blitzen::runtime::Runtime::new().unwrap();
//! # runtime.block_on(async {
//! let hashing = Dispatcher::builder().threads(2).name("hashing").build().unwrap();
//! let task = blitzen::spawn(async move {
//!     let text = String::from("borrowed");
//!     with_dispatcher(&hashing, async { text.len() }).await
//! });
//! assert_eq!(task.await.unwrap(), 8);
//! # });
//! ```

mod builder;
mod dispatcher;
mod metrics;
mod routed_waker;
mod with_dispatcher;

pub use blitzen_sched::{PollJob, Shares};
pub use builder::DispatcherBuilder;
pub use dispatcher::Dispatcher;
pub(crate) use dispatcher::DispatcherKind;
pub use metrics::DispatcherMetrics;
pub use with_dispatcher::{WithDispatcher, with_dispatcher};
