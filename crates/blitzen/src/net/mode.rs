//! How sockets wait: for readiness, or for completions.

use std::io;

/// Says it where the builder does not.
const VARIABLE: &str = "BLITZEN_SOCKETS";

/// How a stream or a listener gets its bytes and connections.
///
/// For a whole runtime the builder says it
/// ([`socket_mode`](crate::runtime::Builder::socket_mode)) or, if that does not,
/// the environment: `BLITZEN_SOCKETS=completion`, `prefer-completion` or
/// `readiness`. For one socket, [`TcpStream::set_mode`] and
/// [`TcpListener::set_mode`] do.
///
/// By completion, on Linux, the kernel brings what is received by itself, and
/// what a worker sends goes out in batches: fewer system calls, for many
/// connections with small messages. What was received and not yet read is then
/// in the runtime's hands, so a stream that has some is not handed out:
/// `into_std` answers with an error that [gives it back](super::IntoStdError), and
/// `try_io` for reading with one that says how much there is to read first. Who
/// reads from the descriptor itself (`AsFd`) misses those bytes. UDP sockets,
/// datagrams and pipes always go by readiness.
///
/// A small write that has answered goes to the kernel when its worker next
/// looks up, which it does before it sleeps; also when the stream is dropped or
/// the runtime is shut down right after. A task that blocks its thread holds it
/// up, unless the runtime has another worker. An error is told with the next
/// write, flush or shutdown.
///
/// ```
/// use blitzen::net::{SocketMode, TcpListener};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut listener = TcpListener::bind("127.0.0.1:0").await?;
/// listener.set_mode(SocketMode::PreferCompletion)?; // for its connections, too
/// # Ok(())
/// # }
/// ```
///
/// [`TcpStream::set_mode`]: crate::net::TcpStream::set_mode
/// [`TcpListener::set_mode`]: crate::net::TcpListener::set_mode
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketMode {
    /// The socket is tried when the system says that it is ready. Everywhere,
    /// and the default.
    #[default]
    Readiness,
    /// The system does the work, by io_uring; an error of kind
    /// [`Unsupported`](io::ErrorKind::Unsupported) where there is none.
    Completion,
    /// By completion where there is an io_uring, otherwise by readiness.
    PreferCompletion,
}

impl SocketMode {
    /// What the environment says.
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
