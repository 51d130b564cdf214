//! A child process.
//!
//! C1. Its process id is not reused until it has been waited for: it is
//!     signalled only before.
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

/// A process that was started by a [`Command`](super::Command).
///
/// It goes on when this is dropped, unless
/// [`kill_on_drop`](super::Command::kill_on_drop) was set; its end is collected
/// all the same.
///
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
/// child.stdin.take().unwrap().write_all(b"hello").await?; // and the end
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
    pub(super) fn spawn(command: &mut StdCommand, kill_on_drop: bool) -> io::Result<Self> {
        // Before there is a child that could not be looked after.
        let runtime = Handle::current();
        let mut child = command.spawn()?;
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
        // A child whose pipes are refused is dropped.
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

    /// The system's number of the process; `None` once it is known to be over,
    /// since then the number may be another's.
    ///
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

    /// The system's handle of the process; `None` once it is known to be over.
    ///
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

    /// Asks the system to kill the child, and does not wait for it. A child that
    /// is over already is none to complain about.
    ///
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
    /// What the system says.
    pub fn start_kill(&mut self) -> io::Result<()> {
        self.process.start_kill()
    }

    /// Kills the child, and waits for its end.
    ///
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
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; the child is killed if it was polled.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await?;
        Ok(())
    }

    /// Waits for the end of the child, whose standard input is closed first, so
    /// that it does not wait for more in vain. Asked again, it answers the same.
    ///
    /// A child that writes to a pipe may wait for somebody to read it: then read
    /// it meanwhile, or use [`wait_with_output`](Self::wait_with_output).
    ///
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
    /// # Errors
    /// What the system says, and if the runtime has been shut down and the
    /// caller is in no other.
    ///
    /// # Panics
    /// In a runtime without I/O.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait, and the child can be waited for again;
    /// its standard input is closed.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        poll_fn(|cx| self.process.poll_exit(cx)).await
    }

    /// The child's status, if it is over.
    ///
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
    /// What the system says.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Waits for the end of the child, whose standard input is closed first, and
    /// collects what it writes into those of its streams that are pipes.
    ///
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
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future drops the child and what was collected.
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
        // First the pipes: a child whose last words have been heard is over, or
        // about to be, and often need not be waited for.
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
