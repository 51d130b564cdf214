//! How streams exchange bytes with the kernel.

use std::io;

/// The environment variable for what the builder leaves open.
const VARIABLE: &str = "BLITZEN_SOCKETS";

/// How streams exchange bytes with the kernel: by readiness or by completion.
///
/// The mode of a runtime's new streams is set with
/// [`Builder::socket_mode`](crate::runtime::Builder::socket_mode) or, without that, by
/// the environment variable `BLITZEN_SOCKETS` (`readiness`, `completion` or
/// `prefer-completion`). [`TcpStream::set_mode`] sets the mode of one stream,
/// [`TcpListener::set_mode`] that of the streams a listener accepts. Listeners, UDP
/// sockets, datagrams and pipes always wait for readiness.
///
/// By completion, which needs io_uring and so Linux, the kernel receives bytes into
/// buffers of the runtime before a task reads them, and a worker sends its small writes
/// in batches. That saves system calls for many connections with small messages.
///
/// # Moving to readiness
///
/// A stream by completion moves to readiness, for good, when a program asks for its
/// readiness or its descriptor: with `readable`, `writable`, `ready`, the `try_`
/// methods, `async_io`, `as_fd`, `as_raw_fd`, `into_std` or
/// `set_mode(SocketMode::Readiness)`.
///
/// Bytes that the kernel has received by then are still in buffers of the runtime.
/// `read`, `peek` and the other methods of the stream, `try_read` among them, return
/// them first. Operations that use the socket itself would miss them: while there are
/// any, `try_io` and `async_io` for reading return an error, and `into_std` returns an
/// [`IntoStdError`](super::IntoStdError) with the stream.
///
/// # Writes
///
/// By completion, a small write returns before the kernel has the bytes. The worker
/// sends them when it next looks for events, at the latest when no task is ready.
/// `flush`, `shutdown`, and dropping the stream or the runtime send them earlier. When
/// `flush` has returned, the kernel has them. A task that blocks its thread delays
/// them: await `flush` before blocking. If the bytes cannot be sent, the next write,
/// flush or shutdown returns the error.
///
/// # Examples
///
/// ```
/// use blitzen::net::{SocketMode, TcpListener};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut listener = TcpListener::bind("127.0.0.1:0").await?;
/// listener.set_mode(SocketMode::PreferCompletion)?; // for its connections
/// # Ok(())
/// # }
/// ```
///
/// [`TcpStream::set_mode`]: crate::net::TcpStream::set_mode
/// [`TcpListener::set_mode`]: crate::net::TcpListener::set_mode
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketMode {
    /// An operation is tried when the kernel reports that the socket is ready. This is
    /// the default, and available on every system.
    #[default]
    Readiness,
    /// The kernel carries out the operations, through io_uring. Fails with
    /// [`Unsupported`](io::ErrorKind::Unsupported) where there is none.
    Completion,
    /// [`Completion`](Self::Completion) where there is an io_uring, otherwise
    /// [`Readiness`](Self::Readiness).
    PreferCompletion,
}

impl SocketMode {
    /// Reads the mode from the environment.
    pub(crate) fn from_environment() -> io::Result<Self> {
        match std::env::var(VARIABLE) {
            Err(std::env::VarError::NotPresent) => Ok(Self::default()),
            Ok(text) => Self::parse(&text).ok_or_else(|| unknown(&text)),
            Err(std::env::VarError::NotUnicode(text)) => Err(unknown(&text.to_string_lossy())),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "readiness" => Some(Self::Readiness),
            "completion" => Some(Self::Completion),
            "prefer-completion" => Some(Self::PreferCompletion),
            _ => None,
        }
    }
}

fn unknown(text: &str) -> io::Error {
    let text = format!(
        "{VARIABLE} must be `readiness`, `completion` or `prefer-completion`, not `{text}`"
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_a_name_and_others_are_refused() {
        assert_eq!(
            SocketMode::parse("completion"),
            Some(SocketMode::Completion)
        );
        assert_eq!(
            SocketMode::parse("prefer-completion"),
            Some(SocketMode::PreferCompletion)
        );
        assert_eq!(SocketMode::parse("readiness"), Some(SocketMode::Readiness));
        assert_eq!(SocketMode::parse("Completion"), None);
        assert!(unknown("epoll").to_string().contains("`epoll`"));
    }
}
