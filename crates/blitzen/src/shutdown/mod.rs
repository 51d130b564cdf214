//! Graceful shutdown: stop accepting work, finish what is running, and report what
//! did not finish.
//!
//! ```text
//!   signal, trigger ──► token is cancelled ──► tasks stop accepting work
//!                                                 │ guards are dropped
//!                                    drain ◄──────┘ or its limit, or a second signal
//! ```
//!
//! ```
//! use std::time::Duration;
//! use blitzen::shutdown::Shutdown;
//!
//! # #[blitzen::main]
//! # async fn main() -> std::io::Result<()> {
//! let shutdown = Shutdown::on_signals()?; // SIGINT, SIGTERM, ctrl-c
//!
//! let token = shutdown.token();
//! blitzen::spawn(shutdown.track(async move {
//!     loop {
//!         blitzen::select! {
//!             _ = token.cancelled() => break, // finish, and return
//!             _ = blitzen::time::sleep(Duration::from_millis(1)) => { /* work */ }
//!         }
//!     }
//! }));
//!
//! # shutdown.trigger();
//! shutdown.triggered().await;
//! match shutdown.drain(Duration::from_secs(30)).await {
//!     Ok(()) => println!("all done"),
//!     Err(unfinished) => eprintln!("{unfinished}"), // which tasks, and since when
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A shutdown is also a [scope](mod@crate::scope) around the futures that it tracks, unless they
//! run inside another scope or shutdown: once it is triggered,
//! [`task::is_cancelled`](crate::task::is_cancelled) is true in them, and
//! [`task::cancelled`](crate::task::cancelled) is ready. Scopes that they open are cancelled with it
//! if they have a [grace](crate::scope::ScopeBuilder::grace), and a drain also waits for those
//! that were dropped before they were empty.
//!
//! Work that a drain did not wait for keeps running. A runtime that is dropped cancels
//! its tasks, and [`Runtime::shutdown_within`](crate::runtime::Runtime::shutdown_within)
//! does not wait for those that do not stop even then.

mod report;
mod signals;
mod tracked;
mod tracker;

use std::fmt;
use std::io;
use std::panic::Location;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use blitzen_sync::CancelToken;

pub use report::{Reason, Unfinished, Work, WorkingTask};
pub use tracked::Tracked;
pub use tracker::WorkGuard;
use tracker::WorkTracker;

use crate::scope::RootScope;

/// A graceful shutdown: a token that is cancelled when it is triggered, and the work to
/// wait for. Clones refer to the same shutdown.
///
/// # Examples
/// ```
/// use blitzen::shutdown::Shutdown;
///
/// # #[blitzen::main]
/// # async fn main() {
/// let shutdown = Shutdown::new();
/// let task = blitzen::spawn({
///     let (token, guard) = (shutdown.token(), shutdown.work());
///     async move {
///         token.cancelled().await;
///         drop(guard);
///     }
/// });
/// shutdown.trigger();
/// shutdown.drain(std::time::Duration::from_secs(30)).await.unwrap();
/// # task.await.unwrap();
/// # }
/// ```
#[derive(Clone)]
pub struct Shutdown(Arc<ShutdownShared>);

struct ShutdownShared {
    /// The scope around all tracked futures. A trigger cancels it, and a drain waits for its
    /// members too.
    scope: RootScope,
    cause: OnceLock<Cause>,
    /// A drain is to end at once.
    hurry: CancelToken,
    /// The guards. They are not tasks, so they are no members of the scope.
    tracker: WorkTracker,
    /// Cancelled with the last clone: ends the task that waits for signals.
    dropped: CancelToken,
}

/// Why a [`Shutdown`] was triggered.
///
/// # Examples
/// ```
/// use blitzen::shutdown::{Cause, Shutdown};
///
/// let shutdown = Shutdown::new();
/// shutdown.trigger();
/// assert_eq!(shutdown.cause(), Some(Cause::Request));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// [`Shutdown::trigger`] was called.
    Request,
    /// SIGINT, or ctrl-c on Windows.
    Interrupt,
    /// SIGTERM, or the closing of the console on Windows.
    Terminate,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Request => "a request",
            Cause::Interrupt => "an interrupt",
            Cause::Terminate => "the request to terminate",
        })
    }
}

impl Shutdown {
    /// Creates a shutdown that only [`trigger`](Self::trigger) and
    /// [`drain`](Self::drain) trigger.
    ///
    /// # Examples
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// assert!(!shutdown.is_triggered());
    /// ```
    pub fn new() -> Self {
        Self(Arc::new(ShutdownShared {
            scope: RootScope::new(),
            cause: OnceLock::new(),
            hurry: CancelToken::new(),
            tracker: WorkTracker::new(),
            dropped: CancelToken::new(),
        }))
    }

    /// Creates a shutdown that SIGINT and SIGTERM trigger too (ctrl-c and the closing of
    /// the console on Windows). A second signal [ends the drain](Self::hurry).
    ///
    /// From now on these signals do not end the process by themselves.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::shutdown::{Cause, Shutdown};
    ///
    /// let shutdown = Shutdown::on_signals()?;
    /// # unsafe { libc::raise(libc::SIGTERM) };
    /// // … another process sends SIGTERM …
    /// shutdown.triggered().await;
    /// assert_eq!(shutdown.cause(), Some(Cause::Terminate));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// Returns the error of `sigaction(2)` or `socketpair(2)` (`SetConsoleCtrlHandler` on
    /// Windows), and an error of kind `Other` if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and on Unix in a runtime without
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        signals::listen(&shutdown.0)?;
        Ok(shutdown)
    }

    /// Triggers the shutdown: cancels its [tokens](Self::token). Later calls have no
    /// effect.
    ///
    /// # Examples
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// shutdown.trigger();
    /// assert!(shutdown.is_triggered());
    /// ```
    pub fn trigger(&self) {
        self.0.trigger(Cause::Request);
    }

    /// Triggers the shutdown, and makes every [drain](Self::drain), also a later one,
    /// return at once, as a second signal does.
    ///
    /// # Examples
    /// ```
    /// # #[blitzen::main]
    /// # async fn main() {
    /// use blitzen::shutdown::{Reason, Shutdown};
    ///
    /// let shutdown = Shutdown::new();
    /// let _guard = shutdown.work();
    /// shutdown.hurry();
    /// let unfinished = shutdown.drain(std::time::Duration::from_secs(30)).await.unwrap_err();
    /// assert_eq!(unfinished.reason, Reason::Hurry);
    /// # }
    /// ```
    pub fn hurry(&self) {
        self.trigger();
        self.0.hurry.cancel();
    }

    /// Returns `true` if the shutdown was triggered.
    ///
    /// # Examples
    /// ```
    /// assert!(!blitzen::shutdown::Shutdown::new().is_triggered());
    /// ```
    pub fn is_triggered(&self) -> bool {
        self.0.is_triggered()
    }

    /// Returns why the shutdown was triggered, or `None` if it was not.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(blitzen::shutdown::Shutdown::new().cause(), None);
    /// ```
    pub fn cause(&self) -> Option<Cause> {
        self.0.cause.get().copied()
    }

    /// Waits until the shutdown is triggered.
    ///
    /// # Examples
    /// ```
    /// # #[blitzen::main]
    /// # async fn main() {
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let other = shutdown.clone();
    /// blitzen::spawn(async move { other.trigger() });
    /// shutdown.triggered().await;
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait.
    pub async fn triggered(&self) {
        self.0.scope.token().cancelled().await;
    }

    /// Returns a token that is cancelled when the shutdown is triggered, for tasks to
    /// wait for beside their work. Each call returns another one. Cancelling it ends the part of
    /// the program that waits for it, and triggers nothing; [`trigger`](Self::trigger) does.
    ///
    /// # Examples
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let (part, rest) = (shutdown.token(), shutdown.token());
    /// part.cancel();
    /// assert!(!rest.is_cancelled());
    /// shutdown.trigger();
    /// assert!(rest.is_cancelled());
    /// ```
    pub fn token(&self) -> CancelToken {
        self.0.scope.token().child_token()
    }

    /// Creates a guard that counts as work until it is dropped: a [drain](Self::drain)
    /// waits for it. The report names the current task, if there is one, and the line of
    /// this call. For work in a task of its own use [`track`](Self::track).
    ///
    /// # Examples
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let guard = shutdown.work();
    /// assert_eq!(shutdown.at_work(), 1);
    /// drop(guard);
    /// assert_eq!(shutdown.at_work(), 0);
    /// ```
    #[track_caller]
    pub fn work(&self) -> WorkGuard {
        WorkGuard::new(self.0.clone(), Location::caller())
    }

    /// Wraps `future`, so that it counts as work from now until it is ready or dropped.
    /// The report names the task that runs it.
    ///
    /// # Examples
    /// ```
    /// # #[blitzen::main]
    /// # async fn main() {
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let task = blitzen::spawn(shutdown.track(async { 7 }));
    /// shutdown.drain(std::time::Duration::from_secs(30)).await.unwrap();
    /// assert_eq!(task.await.unwrap(), 7);
    /// # }
    /// ```
    #[track_caller]
    pub fn track<F: Future>(&self, future: F) -> Tracked<F> {
        Tracked::new(future, self.work())
    }

    /// Returns the number of guards and tracked futures.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(blitzen::shutdown::Shutdown::new().at_work(), 0);
    /// ```
    pub fn at_work(&self) -> usize {
        self.0.tracker.lock().len()
    }

    /// Returns the guards and tracked futures, the oldest first.
    ///
    /// # Examples
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let guard = shutdown.work();
    /// for work in shutdown.work_list() {
    ///     println!("{work}"); // its task, its age, and the line that created it
    /// }
    /// # assert_eq!(shutdown.work_list().len(), 1);
    /// # drop(guard);
    /// ```
    pub fn work_list(&self) -> Vec<Work> {
        self.0.tracker.lock().list()
    }

    /// Triggers the shutdown, and waits until no work is left, for at most `limit` and
    /// not after a second signal.
    ///
    /// # Examples
    /// ```
    /// # #[blitzen::main]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use blitzen::shutdown::Shutdown;
    ///
    /// let shutdown = Shutdown::new();
    /// blitzen::task::Builder::new()
    ///     .name("stubborn")
    ///     .spawn(shutdown.track(std::future::pending::<()>()))
    ///     .unwrap();
    /// # while shutdown.work_list()[0].task.is_none() { blitzen::task::yield_now().await }
    /// let unfinished = shutdown.drain(Duration::from_millis(1)).await.unwrap_err();
    /// let task = unfinished.work[0].task.as_ref().unwrap();
    /// assert_eq!(task.name.as_deref(), Some("stubborn"));
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; the shutdown stays triggered.
    ///
    /// # Errors
    /// Returns [`Unfinished`], which names the work that is left.
    ///
    /// # Panics
    /// Panics if there is work left and the caller is outside a runtime, or in a runtime
    /// without [`enable_time`](crate::runtime::Builder::enable_time).
    pub async fn drain(&self, limit: Duration) -> Result<(), Unfinished> {
        self.trigger();
        let shared = &*self.0;
        if shared.is_idle() {
            return Ok(());
        }
        let mut deadline = pin!(crate::time::sleep(limit));
        let mut hurry = pin!(shared.hurry.cancelled());
        loop {
            let mut progress = pin!(shared.scope.progress().notified());
            // Before counting: a guard dropped in between is not missed.
            progress.as_mut().enable();
            if shared.is_idle() {
                return Ok(());
            }
            let reason = std::future::poll_fn(|cx| {
                if progress.as_mut().poll(cx).is_ready() {
                    Poll::Ready(None)
                } else if hurry.as_mut().poll(cx).is_ready() {
                    Poll::Ready(Some(Reason::Hurry))
                } else {
                    deadline.as_mut().poll(cx).map(|()| Some(Reason::Deadline))
                }
            });
            if let Some(reason) = reason.await {
                let guards = shared.tracker.lock();
                let is_idle = guards.is_empty() && !shared.scope.has_members();
                let work = guards.list();
                return match is_idle {
                    true => Ok(()),
                    false => Err(Unfinished { reason, work }),
                };
            }
        }
    }
}

impl ShutdownShared {
    fn trigger(&self, cause: Cause) {
        // Only the first cause is stored.
        let _ = self.cause.set(cause);
        self.scope.cancel();
    }

    fn is_triggered(&self) -> bool {
        self.scope.is_cancelled()
    }

    /// Whether nothing is left to wait for.
    fn is_idle(&self) -> bool {
        // Locked until the members are counted: one may create a guard and end in between.
        let guards = self.tracker.lock();
        guards.is_empty() && !self.scope.has_members()
    }

    /// Handles a signal: the first triggers the shutdown, any other ends the drain.
    fn on_signal(&self, cause: Cause) {
        match self.is_triggered() {
            false => self.trigger(cause),
            true => self.hurry.cancel(),
        }
    }
}

impl Drop for ShutdownShared {
    fn drop(&mut self) {
        self.dropped.cancel();
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown")
            .field("cause", &self.cause())
            .field("at_work", &self.at_work())
            .finish()
    }
}
