//! Pipes to the standard streams of a child.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

use super::sys;
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The write end of a pipe to a child's standard input.
///
/// Dropping it is the end of the input. Writing fails with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe) once the child has closed the other end.
///
/// # Examples
/// ```
/// # #[cfg(unix)]
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use blitzen::io::AsyncWriteExt;
/// use blitzen::process::Command;
///
/// let mut child = Command::new("wc").arg("-c")
///     .stdin(std::process::Stdio::piped())
///     .stdout(std::process::Stdio::piped())
///     .spawn()?;
/// child.stdin.take().unwrap().write_all(b"hello").await?;
/// let output = child.wait_with_output().await?;
/// assert_eq!(output.stdout.trim_ascii(), b"5");
/// # Ok(())
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct ChildStdin(sys::Sender);

/// The read end of a pipe from a child's standard output.
///
/// # Examples
/// ```
/// # #[cfg(unix)]
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use blitzen::io::{AsyncBufReadExt, BufReader};
/// use blitzen::process::Command;
///
/// let mut child = Command::new("printf").arg("one\\ntwo\\n")
///     .stdout(std::process::Stdio::piped())
///     .spawn()?;
/// let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
/// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
/// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
/// child.wait().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct ChildStdout(sys::Receiver);

/// The read end of a pipe from a child's standard error.
///
/// # Examples
/// ```
/// # #[cfg(unix)]
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use blitzen::io::AsyncReadExt;
/// use blitzen::process::Command;
///
/// let mut child = Command::new("sh").args(["-c", "echo oops >&2"])
///     .stderr(std::process::Stdio::piped())
///     .spawn()?;
/// let mut text = String::new();
/// child.stderr.take().unwrap().read_to_string(&mut text).await?;
/// assert_eq!(text, "oops\n");
/// child.wait().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct ChildStderr(sys::Receiver);

/// The methods that all three have.
macro_rules! stream {
    ($stream:ident, $field:literal, $program:literal) => {
        impl $stream {
            /// Creates the stream from the standard library's, and registers it with the
            /// current runtime.
            ///
            /// # Examples
            /// ```
            /// # #[cfg(unix)]
            /// # #[blitzen::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = concat!("use blitzen::process::", stringify!($stream), ";")]
            ///
            #[doc = concat!("let mut child = std::process::Command::new(\"", $program, "\")")]
            #[doc = concat!("    .", $field, "(std::process::Stdio::piped())")]
            ///     .spawn()?;
            #[doc = concat!(
                                "let stream = ", stringify!($stream), "::from_std(child.", $field,
                                ".take().unwrap())?;"
                            )]
            /// # drop(stream);
            /// # child.wait()?;
            /// # Ok(())
            /// # }
            /// # #[cfg(not(unix))]
            /// # fn main() {}
            /// ```
            ///
            /// # Errors
            /// Returns the error of `fcntl(2)` or of the registration (`epoll_ctl(2)` on
            /// Linux), and an error of kind `Other` if the runtime has been shut down.
            ///
            /// # Panics
            /// Panics outside a runtime, and in a runtime without
            /// [`enable_io`](crate::runtime::Builder::enable_io).
            #[track_caller]
            pub fn from_std(inner: std::process::$stream) -> io::Result<Self> {
                Ok(Self(sys::from_std(inner)?))
            }

            /// Converts the stream into its descriptor, in blocking mode, as other programs
            /// expect it.
            ///
            /// # Examples
            /// ```
            /// # #[blitzen::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// use blitzen::process::Command;
            ///
            #[doc = concat!("let mut child = Command::new(\"", $program, "\")")]
            #[doc = concat!("    .", $field, "(std::process::Stdio::piped())")]
            ///     .spawn()?;
            #[doc = concat!("let stream = child.", $field, ".take().unwrap();")]
            /// let fd: std::os::fd::OwnedFd = stream.into_owned_fd()?;
            /// # drop(fd);
            /// # child.wait().await?;
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// Returns the error of `fcntl(2)`.
            #[cfg(unix)]
            pub fn into_owned_fd(self) -> io::Result<std::os::fd::OwnedFd> {
                self.0.into_blocking_fd()
            }

            /// Converts the stream into its handle.
            ///
            /// # Examples
            /// ```no_run
            /// # #[blitzen::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            /// let mut child = blitzen::process::Command::new("cmd")
            #[doc = concat!("    .", $field, "(std::process::Stdio::piped())")]
            ///     .spawn()?;
            #[doc = concat!("let stream = child.", $field, ".take().unwrap();")]
            /// let handle = stream.into_owned_handle()?;
            /// # drop(handle);
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            /// Returns the error of `DuplicateHandle`.
            #[cfg(windows)]
            pub fn into_owned_handle(self) -> io::Result<std::os::windows::io::OwnedHandle> {
                self.0.into_owned_handle()
            }
        }

        /// For the next command of a pipeline: in blocking mode, as programs expect it.
        impl TryInto<Stdio> for $stream {
            type Error = io::Error;

            fn try_into(self) -> Result<Stdio, io::Error> {
                #[cfg(unix)]
                return Ok(self.into_owned_fd()?.into());
                #[cfg(windows)]
                return Ok(self.into_owned_handle()?.into());
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $stream {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.as_raw_fd()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsFd for $stream {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsRawHandle for $stream {
            fn as_raw_handle(&self) -> std::os::windows::io::RawHandle {
                self.0.as_raw_handle()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsHandle for $stream {
            fn as_handle(&self) -> std::os::windows::io::BorrowedHandle<'_> {
                self.0.as_handle()
            }
        }
    };
}

stream!(ChildStdin, "stdin", "cat");
stream!(ChildStdout, "stdout", "true");
stream!(ChildStderr, "stderr", "true");

impl AsyncWrite for ChildStdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

macro_rules! reads {
    ($($stream:ident)*) => {$(
        impl AsyncRead for $stream {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.0).poll_read(cx, buf)
            }
        }
    )*};
}

reads!(ChildStdout ChildStderr);
