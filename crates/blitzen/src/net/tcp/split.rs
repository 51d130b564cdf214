//! The halves of a [`TcpStream`].

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use super::TcpStream;
use crate::io::ReadBuf;

halves!(TcpStream, SocketAddr, "tcp", tcp_pair);

/// Peeking, which Unix streams lack.
macro_rules! peek_methods {
    ($half:ty, $split:literal) => {
        impl $half {
            /// Receives into `buf` without removing the bytes from the stream,
            /// and returns their number.
            ///
            /// # Examples
            ///
            #[doc = tcp_pair!("mut stream", "mut peer")]
            /// peer.write_all(b"hello").await?;
            #[doc = $split]
            /// assert_eq!(reader.peek(&mut [0; 16]).await?, 5);
            /// assert_eq!(reader.read(&mut [0; 16]).await?, 5);
            /// # Ok(()) }
            /// ```
            ///
            /// # Cancel safety
            /// Dropping the future loses nothing.
            ///
            /// # Errors
            /// Returns the error of `recv(2)`, such as
            /// [`ConnectionReset`](io::ErrorKind::ConnectionReset), or an error
            /// if the runtime has been shut down.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.io().peek(buf).await
            }

            /// Attempts to receive into `buf` without removing the bytes from
            /// the stream, and returns their number.
            ///
            /// Only the task that polled last, with this function or another
            /// one that polls to read, is woken.
            ///
            /// # Examples
            ///
            #[doc = tcp_pair!("mut stream", "mut peer")]
            /// peer.write_all(b"hello").await?;
            #[doc = $split]
            /// let mut bytes = [0; 16];
            /// let mut buf = ReadBuf::new(&mut bytes);
            /// std::future::poll_fn(|cx| reader.poll_peek(cx, &mut buf)).await?;
            /// assert_eq!(buf.filled(), b"hello");
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            /// As for [`peek`](Self::peek).
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.io().poll_peek(cx, buf)
            }
        }
    };
}

peek_methods!(ReadHalf<'_>, "let (mut reader, _writer) = stream.split();");
peek_methods!(
    OwnedReadHalf,
    "let (mut reader, _writer) = stream.into_split();"
);
