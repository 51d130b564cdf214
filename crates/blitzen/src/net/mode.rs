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
/// By completion, on Linux, the kernel receives into buffers of the runtime before a
/// task reads, and a worker's small writes are sent in batches. That saves system
/// calls for many connections with small messages.
///
/// # Moving to readiness
///
/// A stream by completion moves to readiness, for good, when its readiness is asked
/// for or its descriptor is let out: `readable`, `writable`, `ready`, the `try_`
/// methods, `async_io`, `as_fd`, `as_raw_fd`, `into_std` and
/// `set_mode(SocketMode::Readiness)`. Bytes that were received before are read first.
/// Until they are, `try_io` and `async_io` for reading fail, and `into_std` returns an
/// [`IntoStdError`](super::IntoStdError) that gives the stream back.
///
/// # Writes
///
/// By completion, a small write returns before the kernel has the bytes. They are sent
/// when the worker next turns its driver, or by `flush`, `shutdown`, the drop of the
/// stream or of the runtime, whichever is first. When `flush` returns, the kernel has
/// them. A task that blocks its thread delays them, so await `flush` before blocking.
/// The error of such a write is returned by the next write, flush or shutdown.
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
