//! The two halves of a stream, borrowed and owned, written once for all streams.
//!
//! A half has only a shared reference to its stream: reading and writing need
//! no more.

macro_rules! halves {
    ($stream:ident, $addr:ty, $module:literal, $example:expr) => {
        /// The reading half of a borrowed stream; see
        #[doc = concat!("[`split`](", stringify!($stream), "::split).")]
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        /// let (mut reader, _writer) = socket.split();
        /// let mut bytes = [0; 5];
        /// reader.read_exact(&mut bytes).await?;
        /// assert_eq!(&bytes, b"hello");
        /// # Ok(()) }
        /// ```
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        /// The writing half of a borrowed stream; see
        #[doc = concat!("[`split`](", stringify!($stream), "::split).")]
        ///
        /// Shutting it down ends the stream for the peer; dropping it does
        /// nothing.
        ///
        /// ```
        #[doc = $example]
        /// let (_reader, mut writer) = socket.split();
        /// writer.write_all(b"hello").await?;
        /// writer.shutdown().await?;
        /// let mut text = String::new();
        /// peer.read_to_string(&mut text).await?;
        /// assert_eq!(text, "hello");
        /// # Ok(()) }
        /// ```
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        /// The reading half of a stream, for a task of its own; see
        #[doc = concat!("[`into_split`](", stringify!($stream), "::into_split).")]
        ///
        /// ```
        #[doc = $example]
        /// let (mut reader, _writer) = socket.into_split();
        /// let task = blitzen::spawn(async move {
        ///     let mut bytes = [0; 5];
        ///     reader.read_exact(&mut bytes).await.map(|_| bytes)
        /// });
        /// peer.write_all(b"hello").await?;
        /// assert_eq!(&task.await??, b"hello");
        /// # Ok(()) }
        /// ```
        #[derive(Debug)]
        pub struct OwnedReadHalf {
            stream: std::sync::Arc<$stream>,
        }

        /// The writing half of a stream, for a task of its own; see
        #[doc = concat!("[`into_split`](", stringify!($stream), "::into_split).")]
        ///
        /// Dropping it ends the stream for the peer;
        /// [`forget`](Self::forget) does not.
        ///
        /// ```
        #[doc = $example]
        /// let (_reader, mut writer) = socket.into_split();
        /// writer.write_all(b"hello").await?;
        /// drop(writer);
        /// let mut text = String::new();
        /// peer.read_to_string(&mut text).await?;
        /// assert_eq!(text, "hello");
        /// # Ok(()) }
        /// ```
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: std::sync::Arc<$stream>,
            shutdown_on_drop: bool,
        }

        /// The two halves were not of one stream. Here they are again.
        ///
        /// ```
        #[doc = $example]
        /// let (reader, writer) = socket.into_split();
        /// let (other_reader, other_writer) = peer.into_split();
        #[doc = concat!("let error: blitzen::net::", $module, "::ReuniteError =")]
        ///     reader.reunite(other_writer).unwrap_err();
        /// let (reader, other_writer) = (error.0, error.1);
        /// let socket = reader.reunite(writer).unwrap();
        /// let peer = other_reader.reunite(other_writer).unwrap();
        /// # drop((socket, peer));
        /// # Ok(()) }
        /// ```
        #[derive(Debug)]
        pub struct ReuniteError(
            /// The reading half.
            pub OwnedReadHalf,
            /// The writing half.
            pub OwnedWriteHalf,
        );

        impl std::fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("tried to reunite halves that are not from the same socket")
            }
        }

        impl std::error::Error for ReuniteError {}

        pub(crate) fn split(stream: &mut $stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
            (ReadHalf(stream), WriteHalf(stream))
        }

        pub(crate) fn into_split(stream: $stream) -> (OwnedReadHalf, OwnedWriteHalf) {
            let stream = std::sync::Arc::new(stream);
            let reader = OwnedReadHalf {
                stream: stream.clone(),
            };
            let writer = OwnedWriteHalf {
                stream,
                shutdown_on_drop: true,
            };
            (reader, writer)
        }

        fn reunite(reader: OwnedReadHalf, writer: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
            if !std::sync::Arc::ptr_eq(&reader.stream, &writer.stream) {
                return Err(ReuniteError(reader, writer));
            }
            writer.forget();
            match std::sync::Arc::try_unwrap(reader.stream) {
                Ok(stream) => Ok(stream),
                Err(_) => unreachable!("a stream has two halves"),
            }
        }

        impl ReadHalf<'_> {
            fn stream(&self) -> &$stream {
                self.0
            }

            half_methods!($addr, $example, "let (half, _writer) = socket.split();");
            read_half_methods!($example, "let (half, _writer) = socket.split();");
        }

        impl WriteHalf<'_> {
            fn stream(&self) -> &$stream {
                self.0
            }

            half_methods!($addr, $example, "let (_reader, half) = socket.split();");
            write_half_methods!($example, "let (_reader, half) = socket.split();");
        }

        impl OwnedReadHalf {
            fn stream(&self) -> &$stream {
                &self.stream
            }

            half_methods!(
                $addr,
                $example,
                "let (half, _writer) = socket.into_split();"
            );
            read_half_methods!($example, "let (half, _writer) = socket.into_split();");

            /// Puts the halves of a stream together again.
            ///
            /// ```
            #[doc = $example]
            /// let (reader, writer) = socket.into_split();
            /// let socket = reader.reunite(writer).unwrap();
            /// # drop((socket, peer));
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            /// If they are not of one stream: both halves back.
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                reunite(self, other)
            }
        }

        impl OwnedWriteHalf {
            fn stream(&self) -> &$stream {
                &self.stream
            }

            half_methods!(
                $addr,
                $example,
                "let (_reader, half) = socket.into_split();"
            );
            write_half_methods!($example, "let (_reader, half) = socket.into_split();");

            /// Puts the halves of a stream together again.
            ///
            /// ```
            #[doc = $example]
            /// let (reader, writer) = socket.into_split();
            /// let socket = writer.reunite(reader).unwrap();
            /// # drop((socket, peer));
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            /// If they are not of one stream: both halves back.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                reunite(other, self)
            }

            /// Drops the half without ending the stream for the peer.
            ///
            /// ```
            #[doc = $example]
            /// let (reader, writer) = socket.into_split();
            /// writer.forget(); // the peer can go on sending, and waiting
            /// # drop((reader, peer));
            /// # Ok(()) }
            /// ```
            pub fn forget(mut self) {
                self.shutdown_on_drop = false;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.shutdown_on_drop {
                    // A connection that is gone needs no end.
                    let _ = self.stream.shutdown_write();
                }
            }
        }

        half_traits!(read, $stream, ReadHalf<'_>);
        half_traits!(read, $stream, OwnedReadHalf);
        half_traits!(write, $stream, WriteHalf<'_>, |_half| {});
        half_traits!(write, $stream, OwnedWriteHalf, |half| half
            .shutdown_on_drop =
            false);
    };
}

/// What every half has.
macro_rules! half_methods {
    ($addr:ty, $example:expr, $half:literal) => {
        /// Waits until the stream is ready for any of `interest`.
        ///
        /// ```
        #[doc = $example]
        #[doc = $half]
        /// assert!(half.ready(Interest::WRITABLE).await?.is_writable());
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// If the runtime has been shut down.
        ///
        /// # Cancel safety
        /// Dropping the future ends the wait and takes nothing away.
        pub async fn ready(
            &self,
            interest: $crate::io::Interest,
        ) -> std::io::Result<$crate::io::Ready> {
            self.stream().ready(interest).await
        }

        /// The address of the other side.
        ///
        /// ```
        #[doc = $example]
        /// let peer_address = socket.peer_addr()?;
        #[doc = $half]
        /// assert_eq!(format!("{:?}", half.peer_addr()?), format!("{peer_address:?}"));
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        pub fn peer_addr(&self) -> std::io::Result<$addr> {
            self.stream().peer_addr()
        }

        /// The address of this side.
        ///
        /// ```
        #[doc = $example]
        /// let own_address = socket.local_addr()?;
        #[doc = $half]
        /// assert_eq!(format!("{:?}", half.local_addr()?), format!("{own_address:?}"));
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        pub fn local_addr(&self) -> std::io::Result<$addr> {
            self.stream().local_addr()
        }
    };
}

macro_rules! read_half_methods {
    ($example:expr, $half:literal) => {
        /// Waits until the stream can be read.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        #[doc = $half]
        /// half.readable().await?;
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// If the runtime has been shut down.
        ///
        /// # Cancel safety
        /// Dropping the future ends the wait and takes nothing away.
        pub async fn readable(&self) -> std::io::Result<()> {
            self.stream().readable().await
        }

        /// Reads what is there, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        #[doc = $half]
        /// half.readable().await?;
        /// assert_eq!(half.try_read(&mut [0; 16])?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.stream().try_read(buf)
        }

        /// Reads what is there into several buffers, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        #[doc = $half]
        /// half.readable().await?;
        /// let mut bytes = [0; 8];
        /// let mut bufs = [std::io::IoSliceMut::new(&mut bytes)];
        /// assert_eq!(half.try_read_vectored(&mut bufs)?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read_vectored(
            &self,
            bufs: &mut [std::io::IoSliceMut<'_>],
        ) -> std::io::Result<usize> {
            self.stream().try_read_vectored(bufs)
        }

        /// Reads what is there, and appends it to `buf`, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        #[doc = $half]
        /// half.readable().await?;
        /// let mut bytes = Vec::with_capacity(8);
        /// assert_eq!(half.try_read_buf(&mut bytes)?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
            self.stream().try_read_buf(buf)
        }
    };
}

macro_rules! write_half_methods {
    ($example:expr, $half:literal) => {
        /// Waits until the stream can be written to.
        ///
        /// ```
        #[doc = $example]
        #[doc = $half]
        /// half.writable().await?;
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// If the runtime has been shut down.
        ///
        /// # Cancel safety
        /// Dropping the future ends the wait and takes nothing away.
        pub async fn writable(&self) -> std::io::Result<()> {
            self.stream().writable().await
        }

        /// Writes what there is room for, without waiting.
        ///
        /// ```
        #[doc = $example]
        #[doc = $half]
        /// half.writable().await?;
        /// assert_eq!(half.try_write(b"hello")?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no room, and
        /// what the system says.
        pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
            self.stream().try_write(buf)
        }

        /// Writes what there is room for of several buffers, without waiting.
        ///
        /// ```
        #[doc = $example]
        #[doc = $half]
        /// half.writable().await?;
        /// assert_eq!(half.try_write_vectored(&[std::io::IoSlice::new(b"hello")])?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no room, and
        /// what the system says.
        pub fn try_write_vectored(&self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            self.stream().try_write_vectored(bufs)
        }
    };
}

macro_rules! half_traits {
    (read, $stream:ident, $half:ty) => {
        impl $crate::io::AsyncRead for $half {
            #[inline]
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.stream().poll_read_shared(cx, buf)
            }
        }

        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                self.stream()
            }
        }
    };
    (write, $stream:ident, $half:ty, |$this:ident| $after_shutdown:expr) => {
        impl $crate::io::AsyncWrite for $half {
            #[inline]
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.stream().poll_write_shared(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.stream().poll_write_vectored_shared(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(self.stream().flush_shared())
            }

            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $this = self.get_mut();
                let result = std::task::ready!($this.stream().poll_shutdown_shared(cx));
                if result.is_ok() {
                    $after_shutdown;
                }
                std::task::Poll::Ready(result)
            }
        }

        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                self.stream()
            }
        }
    };
}
