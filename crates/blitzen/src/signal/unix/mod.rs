//! Unix signals.
//!
//! ```
//! use blitzen::signal::unix::{SignalKind, signal};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let mut hangup = signal(SignalKind::hangup())?;
//! # unsafe { libc::raise(libc::SIGHUP) };
//! // … another process sends SIGHUP …
//! hangup.recv().await;
//! println!("reading the configuration again");
//! # Ok(())
//! # }
//! ```

mod driver;
mod registry;
mod wake_pipe;

pub(crate) use registry::registry;
pub(crate) use wake_pipe::WakePipe;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;

use super::event_count::EventListener;
use crate::runtime::Handle;
use driver::SignalDriver;

/// The number of a signal.
///
/// # Examples
/// ```
/// use blitzen::signal::unix::SignalKind;
///
/// assert_eq!(SignalKind::terminate(), SignalKind::from_raw(libc::SIGTERM));
/// ```
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct SignalKind(libc::c_int);

macro_rules! kinds {
    ($($(#[$attr:meta])* $name:ident $number:ident $about:literal;)*) => {$(
        $(#[$attr])*
        #[doc = concat!("Returns the kind of ", stringify!($number), ": ", $about)]
        ///
        /// # Examples
        /// ```
        /// # use blitzen::signal::unix::SignalKind;
        #[doc = concat!(
            "assert_eq!(SignalKind::", stringify!($name), "().as_raw_value(), libc::",
            stringify!($number), ");"
        )]
        /// ```
        pub const fn $name() -> Self {
            Self(libc::$number)
        }
    )*};
}

impl SignalKind {
    /// Creates the kind of the signal with the number `signum`, which may be a real-time
    /// signal between `SIGRTMIN` and `SIGRTMAX`.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::signal::unix::SignalKind;
    /// let kind = SignalKind::from_raw(libc::SIGPROF);
    /// # assert_eq!(kind.as_raw_value(), libc::SIGPROF);
    /// ```
    pub const fn from_raw(signum: std::os::raw::c_int) -> Self {
        Self(signum)
    }

    /// Returns the number of the signal.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::signal::unix::SignalKind;
    /// assert_eq!(SignalKind::interrupt().as_raw_value(), libc::SIGINT);
    /// ```
    pub const fn as_raw_value(&self) -> std::os::raw::c_int {
        self.0
    }

    kinds! {
        alarm SIGALRM "a timer of the process has expired.";
        child SIGCHLD "a child has ended, stopped or continued.";
        hangup SIGHUP "the terminal was closed; services read their configuration again.";
        #[cfg(any(
            target_os = "dragonfly", target_os = "freebsd", target_os = "macos",
            target_os = "netbsd", target_os = "openbsd", target_os = "illumos"
        ))]
        info SIGINFO "the user asks for the status of the program.";
        interrupt SIGINT "ctrl-c.";
        io SIGIO "a descriptor can be read or written.";
        pipe SIGPIPE "a pipe without readers was written to.";
        quit SIGQUIT "ctrl-\\\\: end with a core dump.";
        terminate SIGTERM "a request to end.";
        user_defined1 SIGUSR1 "for the program's own use.";
        user_defined2 SIGUSR2 "for the program's own use.";
        window_change SIGWINCH "the size of the terminal has changed.";
    }
}

impl From<std::os::raw::c_int> for SignalKind {
    fn from(signum: std::os::raw::c_int) -> Self {
        Self::from_raw(signum)
    }
}

impl From<SignalKind> for std::os::raw::c_int {
    fn from(kind: SignalKind) -> Self {
        kind.as_raw_value()
    }
}

/// A listener for one signal; see [`signal`].
///
/// Every listener in every runtime receives the signal. Several signals that arrive
/// before a listener receives one are coalesced into one, as the system does. A
/// listener can be moved to another runtime, and may outlive its own.
///
/// # Examples
/// ```
/// use blitzen::signal::unix::{SignalKind, signal};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut one, mut other) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined1())?);
/// # unsafe { libc::raise(libc::SIGUSR1) };
/// # unsafe { libc::raise(libc::SIGUSR1) };
/// // … another process sends SIGUSR1 …
/// one.recv().await;
/// other.recv().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a listener does nothing unless it is polled"]
pub struct Signal {
    listener: EventListener,
    driver: Arc<SignalDriver>,
}

/// Creates a listener for the signal `kind`. A signal that arrives before the first
/// [`recv`](Signal::recv) is not lost.
///
/// From the first listener on the signal's default action does not happen, for the
/// rest of the process: SIGTERM, for example, no longer ends it.
///
/// # Examples
/// ```
/// use blitzen::signal::unix::{SignalKind, signal};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut terminate = signal(SignalKind::terminate())?;
/// # unsafe { libc::raise(libc::SIGTERM) };
/// terminate.recv().await;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns `InvalidInput` if `kind` is no signal or one that cannot be caught (SIGKILL,
/// SIGSTOP, SIGSEGV, SIGILL and SIGFPE), the error of `sigaction(2)` or
/// `socketpair(2)`, and an error of kind `Other` if the runtime has been shut down.
///
/// # Panics
/// Panics outside a runtime, and in a runtime without
/// [`enable_io`](crate::runtime::Builder::enable_io).
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let driver = SignalDriver::current()?;
    let listener = registry()?.listen(kind.0)?;
    Ok(Signal { listener, driver })
}

impl Signal {
    /// Waits for the signal. Returns `None` if the listener's runtime has been shut down
    /// and the caller is in no other.
    ///
    /// # Examples
    /// ```
    /// # use blitzen::signal::unix::{SignalKind, signal};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut signal = signal(SignalKind::user_defined2())?;
    /// # unsafe { libc::raise(libc::SIGUSR2) };
    /// assert_eq!(signal.recv().await, Some(()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future loses no signal.
    pub async fn recv(&mut self) -> Option<()> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the signal; see [`recv`](Self::recv).
    ///
    /// # Examples
    /// ```
    /// # use blitzen::signal::unix::{SignalKind, signal};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut signal = signal(SignalKind::user_defined2())?;
    /// # unsafe { libc::raise(libc::SIGUSR2) };
    /// assert_eq!(std::future::poll_fn(|cx| signal.poll_recv(cx)).await, Some(()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let spent = ready!(coop::poll_proceed(cx));
        loop {
            if self.listener.poll(cx).is_ready() {
                spent.made_progress();
                return Poll::Ready(Some(()));
            }
            if !self.driver.is_shut_down() {
                return Poll::Pending;
            }
            // The runtime it was created in has shut down: use the current one.
            match Handle::try_current().map(|_| SignalDriver::current()) {
                Ok(Ok(driver)) => self.driver = driver,
                Ok(Err(_)) | Err(_) => return Poll::Ready(None),
            }
        }
    }
}

/// SIGCHLDs, for a thread that belongs to no runtime and dispatches signals itself.
pub(crate) struct ChildSignals(EventListener);

impl ChildSignals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(registry()?.listen(libc::SIGCHLD)?))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(cx)
    }
}
