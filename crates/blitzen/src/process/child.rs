//! A child process.
//!
//! C1. A child is signalled only before it has been waited for: afterwards its process
//!     id may belong to another process.
//! C2. A child that is dropped before it was waited for goes to
//!     [`reap_in_background`].

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::process::{Child as StdChild, Command as StdCommand, ExitStatus, Output};
use std::task::{Context, Poll, ready};

use super::stdio::{ChildStderr, ChildStdin, ChildStdout};
use super::sys::{ExitWait, reap_in_background};
use crate::io::{AsyncRead, AsyncReadExt};
use crate::runtime::Handle;

/// A child process, spawned by [`Command::spawn`](super::Command::spawn).
///
/// The process keeps running when its `Child` is dropped, unless
/// [`kill_on_drop`](super::Command::kill_on_drop) was set. It is reaped in either case.
///
/// # Examples
/// ```
/// # #[cfg(unix)]
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::process::Stdio;
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::process::Command;
///
/// let mut child = Command::new("cat")
///     .stdin(Stdio::piped())
///     .stdout(Stdio::piped())
///     .spawn()?;
/// child.stdin.take().unwrap().write_all(b"hello").await?; // then dropped: end of input
/// let mut text = String::new();
/// child.stdout.take().unwrap().read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// assert!(child.wait().await?.success());
/// # Ok(())
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
pub struct Child {
    // Dropped first: a child that is killed does not see its pipes closed before.
    process: ChildProcess,
    /// The child's standard input, if it is a pipe. Dropping it is the end of the
    /// input.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
}

/// The process, without its pipes. It has the `Drop`, so that the fields of
/// [`Child`] can be moved out of it.
struct ChildProcess {
    state: ChildState,
    kill_on_drop: bool,
}

enum ChildState {
    /// Not waited for by us (C1).
    Running {
        exit: ExitWait, // dropped first: it may refer to the child
        child: StdChild,
    },
    Exited(ExitStatus),
    /// Only while it is being dropped.
    Dropped,
}

impl ChildProcess {
    /// The child, unless it is known to have exited (C1).
    fn running(&self) -> Option<&StdChild> {
        match &self.state {
            ChildState::Running { child, .. } => Some(child),
            ChildState::Exited(_) | ChildState::Dropped => None,
        }
    }

    fn start_kill(&mut self) -> io::Result<()> {
        match &mut self.state {
            ChildState::Running { child, .. } => child.kill(), // C1
            ChildState::Exited(_) | ChildState::Dropped => Ok(()),
        }
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = match &mut self.state {
            ChildState::Running { child, .. } => child.try_wait()?,
            ChildState::Exited(status) => return Ok(Some(*status)),
            ChildState::Dropped => None,
        };
        if let Some(status) = status {
            self.state = ChildState::Exited(status);
        }
        Ok(status)
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        let status = match &mut self.state {
            ChildState::Running { exit, child } => ready!(exit.poll(child, cx))?,
            ChildState::Exited(status) => return Poll::Ready(Ok(*status)),
            ChildState::Dropped => unreachable!("a child is not polled while it is dropped"),
        };
        self.state = ChildState::Exited(status);
        Poll::Ready(Ok(status))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.state, ChildState::Dropped);
        if let ChildState::Running { exit, mut child } = state {
            drop(exit);
            if self.kill_on_drop {
                // It fails if the child has changed its user: then it goes on.
                let _ = child.kill();
            }
            reap_in_background(child); // C2
        }
    }
}

impl Child {
    #[track_caller]
    pub(super) fn spawn(
        command: &mut StdCommand,
        kill_on_drop: bool,
        spawn: impl FnOnce(&mut StdCommand) -> io::Result<StdChild>,
    ) -> io::Result<Self> {
        // It may panic: not after there is a child.
        let runtime = Handle::current();
        let mut child = spawn(command)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut child = Self {
            process: ChildProcess {
                state: ChildState::Running {
                    exit: ExitWait::new(runtime),
                    child,
                },
                kill_on_drop,
            },
            stdin: None,
            stdout: None,
            stderr: None,
        };
        // On an error the child is dropped.
        if let Some(stdin) = stdin {
            child.stdin = Some(ChildStdin::from_std(stdin)?);
        }
        if let Some(stdout) = stdout {
            child.stdout = Some(ChildStdout::from_std(stdout)?);
        }
        if let Some(stderr) = stderr {
            child.stderr = Some(ChildStderr::from_std(stderr)?);
        }
        Ok(child)
    }

    /// Returns the process id, or `None` once the child has been waited for, since
    /// the system may reuse the id then.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut child = blitzen::process::Command::new("true").spawn()?;
    /// assert!(child.id().is_some());
    /// child.wait().await?;
    /// assert!(child.id().is_none());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    pub fn id(&self) -> Option<u32> {
        self.process.running().map(StdChild::id)
    }

    /// Returns the handle of the process, or `None` once the child has been waited
    /// for.
    ///
    /// # Examples
    /// ```no_run
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut child = blitzen::process::Command::new("cmd").spawn()?;
    /// assert!(child.raw_handle().is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(windows)]
    pub fn raw_handle(&self) -> Option<std::os::windows::io::RawHandle> {
        use std::os::windows::io::AsRawHandle;
        self.process.running().map(AsRawHandle::as_raw_handle)
    }

    /// Sends the child a signal that kills it (SIGKILL on Unix), and does not wait for
    /// its exit. Returns `Ok` if the child has been waited for already.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut child = blitzen::process::Command::new("sleep").arg("1000").spawn()?;
    /// child.start_kill()?;
    /// assert!(!child.wait().await?.success());
    /// child.start_kill()?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// Returns the error of `kill(2)` (`TerminateProcess` on Windows), such as
    /// `PermissionDenied` if the child runs as another user by now.
    pub fn start_kill(&mut self) -> io::Result<()> {
        self.process.start_kill()
    }

    /// Kills the child, and waits for its exit.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut child = blitzen::process::Command::new("sleep").arg("1000").spawn()?;
    /// child.kill().await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Cancel safety
    /// The first poll kills the child; dropping the future later ends the wait.
    ///
    /// # Errors
    /// Returns those of [`start_kill`](Self::start_kill) and [`wait`](Self::wait).
    pub async fn kill(&mut self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await?;
        Ok(())
    }

    /// Closes the child's standard input, waits for its exit, and returns its status.
    /// Later calls return the same status at once.
    ///
    /// A child that writes to a pipe blocks when the pipe is full. Read the pipe at the
    /// same time, or use [`wait_with_output`](Self::wait_with_output).
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut child = blitzen::process::Command::new("true").spawn()?;
    /// assert!(child.wait().await?.success());
    /// assert!(child.wait().await?.success());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. The child can be waited for again; its
    /// standard input stays closed.
    ///
    /// # Errors
    /// Returns the error of `waitpid(2)`, such as `ECHILD` if other code has waited for
    /// the child, and an error of kind `Other` if the child's runtime has been shut
    /// down and the caller is in no other.
    ///
    /// # Panics
    /// Panics if the child's runtime was built without
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        poll_fn(|cx| self.process.poll_exit(cx)).await
    }

    /// Returns the child's status if it has exited, and `None` otherwise. Does not wait,
    /// and leaves its standard input open.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut child = blitzen::process::Command::new("sleep").arg("1000").spawn()?;
    /// assert!(child.try_wait()?.is_none());
    /// child.kill().await?;
    /// assert!(child.try_wait()?.is_some());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// Returns the error of `waitpid(2)`, such as `ECHILD` if other code has waited for
    /// the child.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Closes the child's standard input, reads those of its output streams that are
    /// pipes to their ends, waits for its exit, and returns all of it.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let child = blitzen::process::Command::new("echo")
    ///     .arg("hello")
    ///     .stdout(std::process::Stdio::piped())
    ///     .spawn()?;
    /// assert_eq!(child.wait_with_output().await?.stdout, b"hello\n");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future drops the child and what was read.
    ///
    /// # Errors
    /// Returns those of [`wait`](Self::wait), and the error of `read(2)` on a pipe.
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        async fn collect(stream: &mut Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            if let Some(stream) = stream {
                stream.read_to_end(&mut bytes).await?;
            }
            Ok(bytes)
        }

        drop(self.stdin.take());
        let mut streams = (self.stdout.take(), self.stderr.take());
        // The pipes first: a child that has closed them has exited or is about to,
        // and often need not be waited for.
        let (stdout, stderr) = crate::try_join!(collect(&mut streams.0), collect(&mut streams.1))?;
        let status = self.wait().await?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Child");
        match &self.process.state {
            ChildState::Running { child, .. } => debug.field("id", &child.id()),
            ChildState::Exited(status) => debug.field("status", status),
            ChildState::Dropped => &mut debug,
        };
        debug
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .field("kill_on_drop", &self.process.kill_on_drop)
            .finish()
    }
}
