//! An orderly end: stop taking on work, finish what is under way, and know what
//! did not.
//!
//! ```text
//!   signal, trigger ──► token ──► tasks stop taking on work
//!                                    │ guards are dropped
//!                       drain ◄──────┘ or the deadline, or a second signal
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
//!             _ = token.cancelled() => break, // finish what is under way, and leave
//!             _ = blitzen::time::sleep(Duration::from_millis(1)) => { /* work */ }
//!         }
//!     }
//! }));
//!
//! # shutdown.trigger();
//! shutdown.triggered().await;
//! match shutdown.drain(Duration::from_secs(30)).await {
//!     Ok(()) => println!("all done"),
//!     Err(unfinished) => eprintln!("{unfinished}"), // who, since when, spawned where
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What a drain gives up on still runs: a runtime that is dropped cancels its
//! tasks, and [`Runtime::shutdown_within`](crate::runtime::Runtime::shutdown_within)
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

use blitzen_sync::{CancelToken, Notify};

pub use report::{Reason, Unfinished, Work, WorkingTask};
pub use tracked::Tracked;
pub use tracker::WorkGuard;
use tracker::WorkTracker;

/// An orderly end that is to come: who asks for it, who takes part in it, and
/// who waits for them. Clones are the same.
///
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
    token: CancelToken,
    cause: OnceLock<Cause>,
    /// A drain is to end at once.
    hurry: CancelToken,
    tracker: WorkTracker,
    /// Notified when, after the trigger, a shard of the tracker has become empty.
    progress: Notify,
    /// Cancelled with the last clone: ends the task that waits for signals.
    dropped: CancelToken,
}

/// Why it is time to end.
///
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
    /// SIGINT, or ctrl-c.
    Interrupt,
    /// SIGTERM, or the closing of the console.
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
    /// One that only [`trigger`](Self::trigger) sets off.
    ///
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// assert!(!shutdown.is_triggered());
    /// ```
    pub fn new() -> Self {
        Self(Arc::new(ShutdownShared {
            token: CancelToken::new(),
            cause: OnceLock::new(),
            hurry: CancelToken::new(),
            tracker: WorkTracker::new(),
            progress: Notify::new(),
            dropped: CancelToken::new(),
        }))
    }

    /// One that SIGINT and SIGTERM set off too, or ctrl-c and the closing of the
    /// console; a second one [ends the drain](Self::hurry).
    ///
    /// From now on these signals do not end the process by themselves.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::shutdown::{Cause, Shutdown};
    ///
    /// let shutdown = Shutdown::on_signals()?;
    /// # unsafe { libc::raise(libc::SIGTERM) };
    /// // … somebody sends SIGTERM …
    /// shutdown.triggered().await;
    /// assert_eq!(shutdown.cause(), Some(Cause::Terminate));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// If no handler can be installed, or the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        signals::listen(&shutdown.0)?;
        Ok(shutdown)
    }

    /// It is time to end: cancels the [token](Self::token). Only the first time
    /// counts.
    ///
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// shutdown.trigger();
    /// assert!(shutdown.is_triggered());
    /// ```
    pub fn trigger(&self) {
        self.0.trigger(Cause::Request);
    }

    /// Enough: ends a [drain](Self::drain) at once, or the next one, as a second
    /// signal does.
    ///
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

    /// Whether it is time to end.
    ///
    /// ```
    /// assert!(!blitzen::shutdown::Shutdown::new().is_triggered());
    /// ```
    pub fn is_triggered(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Why it is time to end, once it is.
    ///
    /// ```
    /// assert_eq!(blitzen::shutdown::Shutdown::new().cause(), None);
    /// ```
    pub fn cause(&self) -> Option<Cause> {
        self.0.cause.get().copied()
    }

    /// Waits until it is time to end.
    ///
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
    /// Dropping the future ends the wait and takes nothing away.
    pub async fn triggered(&self) {
        self.0.token.cancelled().await;
    }

    /// What is cancelled when it is time to end: for tasks to wait for beside
    /// their work. It has [children](CancelToken::child_token) for parts of the
    /// program that may end earlier.
    ///
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let part = shutdown.token().child_token();
    /// shutdown.trigger();
    /// assert!(part.is_cancelled());
    /// ```
    pub fn token(&self) -> CancelToken {
        self.0.token.clone()
    }

    /// Counts as work until the guard is dropped: a [drain](Self::drain) waits
    /// for it. The report names the task that asked for it, if it was one, and
    /// this line; for work that goes into a task of its own, see
    /// [`track`](Self::track).
    ///
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

    /// A future that counts as work from now until it has ended or is dropped.
    /// The report names the task that it runs in.
    ///
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

    /// How much work is under way.
    ///
    /// ```
    /// assert_eq!(blitzen::shutdown::Shutdown::new().at_work(), 0);
    /// ```
    pub fn at_work(&self) -> usize {
        self.0.tracker.lock().len()
    }

    /// What work is under way, the oldest first.
    ///
    /// ```
    /// let shutdown = blitzen::shutdown::Shutdown::new();
    /// let guard = shutdown.work();
    /// for work in shutdown.work_list() {
    ///     println!("{work}"); // who, for how long, since which line
    /// }
    /// # assert_eq!(shutdown.work_list().len(), 1);
    /// # drop(guard);
    /// ```
    pub fn work_list(&self) -> Vec<Work> {
        self.0.tracker.lock().list()
    }

    /// Waits until no work is left, but no longer than `limit`, and not after a
    /// second signal. It is time to end, if it was not before.
    ///
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
    /// # Errors
    /// [`Unfinished`] names the work that is left.
    ///
    /// # Panics
    /// Outside a runtime, and in one without time, if there is work left.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; it is time to end all the same.
    pub async fn drain(&self, limit: Duration) -> Result<(), Unfinished> {
        self.trigger();
        let shared = &*self.0;
        if shared.tracker.lock().is_empty() {
            return Ok(());
        }
        let mut deadline = pin!(crate::time::sleep(limit));
        let mut hurry = pin!(shared.hurry.cancelled());
        loop {
            let mut progress = pin!(shared.progress.notified());
            // Before counting: a guard dropped in between is not missed.
            progress.as_mut().enable();
            if shared.tracker.lock().is_empty() {
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
                let work = self.work_list();
                return match work.is_empty() {
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
        self.token.cancel();
    }

    /// Handles a signal: the first triggers the shutdown, any other ends the drain.
    fn on_signal(&self, cause: Cause) {
        match self.token.is_cancelled() {
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
