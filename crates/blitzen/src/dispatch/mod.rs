//! Which threads run a task, and how many tasks at a time.
//!
//! Every task has a dispatcher, which resumes it each time it is woken. That of a plain
//! [`spawn`](crate::spawn()) is the default one: the workers of the runtime. Others keep work
//! apart that would get in each other's way:
//!
//! | dispatcher | its tasks run on | for |
//! |---|---|---|
//! | [`Dispatcher::default`] | the workers | everything else |
//! | [`limited(n)`](Dispatcher::limited) | the same threads, at most `n` tasks at a time | a bound without threads of its own |
//! | [`Dispatcher::io`] | threads that may block, at least 64 | code that may block |
//! | [`Dispatcher::single`] | one thread of its own | a library that wants one thread |
//! | [`Dispatcher::builder`] | threads of its own, on cores of one's choice | work that uses the processor for long |
//! | [`Dispatcher::group`] | the workers, by shares of processor time | batches beside requests |
//! | [`Dispatcher::unconfined`] | the caller's thread, until it first waits | what is nearly always ready |
//! | [`Dispatcher::from_fn`] | threads of another executor | rayon and its like |
//!
//! [`Dispatcher::spawn`] starts a task, [`Dispatcher::run`] starts one and waits for it, and
//! [`with_dispatcher`] moves the calling task for a while, so that it may borrow.
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
pub use metrics::DispatcherMetrics;
pub use with_dispatcher::{WithDispatcher, with_dispatcher};
