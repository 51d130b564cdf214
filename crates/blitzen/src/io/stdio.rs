//! The standard streams. Their operations block, and so run on the blocking pool.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use blitzen_io::{AsyncRead, AsyncWrite, ReadBuf};

use super::blocking::Blocking;

/// A handle to the standard input of the process.
///
/// A read runs on the blocking pool and cannot be cancelled: dropping the runtime
/// waits for it. Interactive programs should read from a thread of their own, or end
/// with [`shutdown_background`](crate::runtime::Runtime::shutdown_background).
///
/// # Examples
///
/// ```no_run
/// use blitzen::io::{AsyncBufReadExt, BufReader};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut lines = BufReader::new(blitzen::io::stdin()).lines();
/// while let Some(line) = lines.next_line().await? {
///     println!("{} bytes", line.len());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Reading panics outside a runtime.
pub struct Stdin(Blocking<io::Stdin>);

/// A handle to the standard output of the process.
///
/// A write returns when the bytes were handed to the blocking pool. Call
/// [`flush`](crate::io::AsyncWriteExt::flush) to wait until they are written. Writes
/// of several tasks may be interleaved.
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncWriteExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut out = blitzen::io::stdout();
/// out.write_all(b"hello\n").await?;
/// out.flush().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Writing panics outside a runtime.
pub struct Stdout(Blocking<io::Stdout>);

/// A handle to the standard error of the process.
///
/// A write returns when the bytes were handed to the blocking pool. Call
/// [`flush`](crate::io::AsyncWriteExt::flush) to wait until they are written.
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncWriteExt;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// blitzen::io::stderr().write_all(b"something to say\n").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Writing panics outside a runtime.
pub struct Stderr(Blocking<io::Stderr>);

/// Creates a handle to the standard input. All handles share the buffer of
/// [`std::io::stdin`].
///
/// # Examples
///
/// ```
/// let stdin = blitzen::io::stdin();
/// # drop(stdin);
/// ```
pub fn stdin() -> Stdin {
    Stdin(Blocking::new(io::stdin()))
}

/// Creates a handle to the standard output.
///
/// # Examples
///
/// ```
/// let stdout = blitzen::io::stdout();
/// # drop(stdout);
/// ```
pub fn stdout() -> Stdout {
    Stdout(Blocking::new(io::stdout()))
}

/// Creates a handle to the standard error.
///
/// # Examples
///
/// ```
/// let stderr = blitzen::io::stderr();
/// # drop(stderr);
/// ```
pub fn stderr() -> Stderr {
    Stderr(Blocking::new(io::stderr()))
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

macro_rules! output {
    ($stream:ident) => {
        impl AsyncWrite for $stream {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.0).poll_write(cx, buf)
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.0).poll_flush(cx)
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.0).poll_shutdown(cx)
            }
        }
    };
}

output!(Stdout);
output!(Stderr);

macro_rules! descriptor {
    ($stream:ident, $std:path) => {
        impl fmt::Debug for $stream {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($stream)).finish_non_exhaustive()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $stream {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                $std().as_raw_fd()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsFd for $stream {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                use std::os::fd::AsRawFd;
                // SAFETY: the standard streams stay open, as std has it.
                unsafe { std::os::fd::BorrowedFd::borrow_raw(self.as_raw_fd()) }
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsRawHandle for $stream {
            fn as_raw_handle(&self) -> std::os::windows::io::RawHandle {
                $std().as_raw_handle()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsHandle for $stream {
            fn as_handle(&self) -> std::os::windows::io::BorrowedHandle<'_> {
                use std::os::windows::io::AsRawHandle;
                // SAFETY: the standard streams stay open, as std has it.
                unsafe { std::os::windows::io::BorrowedHandle::borrow_raw(self.as_raw_handle()) }
            }
        }
    };
}

descriptor!(Stdin, io::stdin);
descriptor!(Stdout, io::stdout);
descriptor!(Stderr, io::stderr);
