//! The halves of a [`TcpStream`].

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use super::TcpStream;
use crate::io::ReadBuf;

halves!(TcpStream, SocketAddr, "tcp", tcp_pair!());

/// Looking at what is there, which only TCP has.
macro_rules! peek_methods {
    ($half:ty, $split:literal) => {
        impl $half {
            /// Waits for data and reads it, but leaves it there.
            ///
            /// ```
            #[doc = tcp_pair!()]
            /// peer.write_all(b"hello").await?;
            #[doc = $split]
            /// assert_eq!(half.peek(&mut [0; 16]).await?, 5);
            /// assert_eq!(half.read(&mut [0; 16]).await?, 5);
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            /// What the system says, and if the runtime has been shut down.
            ///
            /// # Cancel safety
            /// Nothing is taken, so nothing is lost.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.stream().peek(buf).await
            }

            /// Waits for data and reads it, but leaves it there.
            ///
            /// ```
            #[doc = tcp_pair!()]
            /// peer.write_all(b"hello").await?;
            #[doc = $split]
            /// let mut bytes = [0; 16];
            /// let mut buf = ReadBuf::new(&mut bytes);
            /// std::future::poll_fn(|cx| half.poll_peek(cx, &mut buf)).await?;
            /// assert_eq!(buf.filled(), b"hello");
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            /// What the system says, and if the runtime has been shut down.
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.stream().poll_peek(cx, buf)
            }
        }
    };
}

peek_methods!(ReadHalf<'_>, "let (mut half, _writer) = socket.split();");
peek_methods!(
    OwnedReadHalf,
    "let (mut half, _writer) = socket.into_split();"
);
