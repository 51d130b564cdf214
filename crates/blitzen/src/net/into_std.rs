//! The error of `into_std`, which gives the socket back.

use std::error::Error;
use std::{fmt, io};

/// The error of an `into_std` that would have lost data. It holds the socket.
///
/// A stream in [completion mode](super::SocketMode) may have received bytes that
/// nobody has read yet. `into_std` would lose them, so it returns an
/// [`io::Error`] that contains this error.
///
/// # Examples
///
/// ```
/// use blitzen::io::AsyncReadExt;
/// use blitzen::net::{IntoStdError, TcpStream};
///
/// /// Reads until `into_std` loses nothing.
/// async fn hand_out(mut stream: TcpStream) -> std::io::Result<(Vec<u8>, std::net::TcpStream)> {
///     let mut unread = Vec::new();
///     loop {
///         let error = match stream.into_std() {
///             Ok(stream) => return Ok((unread, stream)),
///             Err(error) => error,
///         };
///         stream = error.downcast::<IntoStdError<TcpStream>>()?.into_socket();
///         stream.read_buf(&mut unread).await?;
///     }
/// }
/// # use blitzen::net::{SocketMode, TcpListener};
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let connect = TcpStream::connect(listener.local_addr()?);
/// # let (mut stream, accepted) = blitzen::try_join!(connect, listener.accept())?;
/// # stream.set_mode(SocketMode::PreferCompletion)?;
/// # let (mut byte, moment) = ([0], std::time::Duration::ZERO);
/// # let waiting = blitzen::time::timeout(moment, stream.read(&mut byte)).await;
/// # assert!(waiting.is_err()); // the kernel has been asked to bring bytes
/// # accepted.0.writable().await?;
/// # accepted.0.try_write(b"hello")?;
/// # stream.readable().await?;
/// # let (unread, stream) = hand_out(stream).await?;
/// # stream.set_nonblocking(false)?;
/// # let mut rest = vec![0; 5 - unread.len()];
/// # std::io::Read::read_exact(&mut &stream, &mut rest)?;
/// # assert_eq!([unread, rest].concat(), b"hello");
/// # Ok(())
/// # }
/// ```
pub struct IntoStdError<S> {
    socket: S,
    reason: io::Error,
}

impl<S> IntoStdError<S> {
    /// Returns the socket, unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::{IntoStdError, TcpStream};
    ///
    /// fn recover(error: IntoStdError<TcpStream>) -> TcpStream {
    ///     eprintln!("not yet: {error}");
    ///     error.into_socket()
    /// }
    /// ```
    pub fn into_socket(self) -> S {
        self.socket
    }

    /// Returns a reference to the socket.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::{IntoStdError, TcpStream};
    ///
    /// fn log(error: &IntoStdError<TcpStream>) -> std::io::Result<()> {
    ///     eprintln!("{}: {error}", error.socket().peer_addr()?);
    ///     Ok(())
    /// }
    /// ```
    pub fn socket(&self) -> &S {
        &self.socket
    }
}

impl<S> fmt::Display for IntoStdError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<S: fmt::Debug> fmt::Debug for IntoStdError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoStdError")
            .field("socket", &self.socket)
            .field("reason", &self.reason)
            .finish()
    }
}

impl<S: fmt::Debug> Error for IntoStdError<S> {}

/// What `into_inner` returns when it fails: the socket's wrapper, unless it was lost, and the
/// error.
pub(super) type Kept<T> = (Option<T>, io::Error);

/// Makes the error of `into_std`; `wrap` turns the wrapper back into the socket.
pub(super) fn refused<T, S>((kept, reason): Kept<T>, wrap: impl FnOnce(T) -> S) -> io::Error
where
    S: fmt::Debug + Send + Sync + 'static,
{
    match kept {
        Some(kept) => {
            let (kind, socket) = (reason.kind(), wrap(kept));
            io::Error::new(kind, IntoStdError { socket, reason })
        }
        None => reason,
    }
}
