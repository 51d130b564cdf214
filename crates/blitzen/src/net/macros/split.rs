//! The two halves of a stream, borrowed and owned, for TCP and Unix.
//!
//! A half has a shared reference to its stream, which is all that reading and
//! writing need.

macro_rules! halves {
    ($stream:ident, $addr:ty, $module:literal, $pair:ident) => {
        /// The reading half of a borrowed
        #[doc = concat!("[`", stringify!($stream), "`], created by [`split`](", stringify!($stream), "::split).")]
        ///
        /// # Examples
        ///
        #[doc = $pair!("mut stream", "mut peer")]
        /// let (mut reader, _writer) = stream.split();
        /// peer.write_all(b"hello").await?;
        /// let mut bytes = [0; 5];
        /// reader.read_exact(&mut bytes).await?;
        /// assert_eq!(&bytes, b"hello");
        /// # Ok(()) }
        /// ```
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        /// The writing half of a borrowed
        #[doc = concat!("[`", stringify!($stream), "`], created by [`split`](", stringify!($stream), "::split).")]
        ///
        /// [`shutdown`](crate::io::AsyncWriteExt::shutdown) ends the stream for
        /// the peer; dropping the half does not.
        ///
        /// # Examples
        ///
        #[doc = $pair!("mut stream", "mut peer")]
        /// let (_reader, mut writer) = stream.split();
        /// writer.write_all(b"hello").await?;
        /// writer.shutdown().await?;
        /// let mut text = String::new();
        /// peer.read_to_string(&mut text).await?;
        /// assert_eq!(text, "hello");
        /// # Ok(()) }
        /// ```
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        /// The owned reading half of a
        #[doc = concat!("[`", stringify!($stream), "`], created by [`into_split`](", stringify!($stream), "::into_split).")]
        ///
        /// # Examples
        ///
        #[doc = $pair!("stream", "mut peer")]
        /// let (mut reader, _writer) = stream.into_split();
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

        /// The owned writing half of a
        #[doc = concat!("[`", stringify!($stream), "`], created by [`into_split`](", stringify!($stream), "::into_split).")]
        ///
        /// Dropping the half ends the stream for the peer;
        /// [`forget`](Self::forget) does not.
        ///
        /// # Examples
        ///
        #[doc = $pair!("stream", "mut peer")]
        /// let (_reader, mut writer) = stream.into_split();
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

        /// The error of `reunite` for two halves of different streams. It holds
        /// both halves.
        ///
        /// # Examples
        ///
        #[doc = $pair!("stream", "peer")]
        #[doc = concat!("use blitzen::net::", $module, "::ReuniteError;")]
        ///
        /// let (reader, writer) = stream.into_split();
        /// let (_peer_reader, peer_writer) = peer.into_split();
        /// let ReuniteError(reader, _peer_writer) = reader.reunite(peer_writer).unwrap_err();
        /// let stream = reader.reunite(writer).unwrap();
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
            fn io(&self) -> &$stream {
                self.0
            }

            read_half_methods!(
                $addr,
                $pair,
                "\nlet (reader, _writer) = stream.split();\npeer.write_all(b\"hello\").await?;"
            );
        }

        impl WriteHalf<'_> {
            fn io(&self) -> &$stream {
                self.0
            }

            write_half_methods!($addr, $pair, "\nlet (_reader, writer) = stream.split();");
        }

        impl OwnedReadHalf {
            fn io(&self) -> &$stream {
                &self.stream
            }

            read_half_methods!(
                $addr,
                $pair,
                "\nlet (reader, _writer) = stream.into_split();\npeer.write_all(b\"hello\").await?;"
            );

            /// Puts the two halves of a stream together again.
            ///
            /// # Examples
            ///
            #[doc = $pair!("stream", "peer")]
            /// let (reader, writer) = stream.into_split();
            /// let stream = reader.reunite(writer).unwrap();
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            /// Returns both halves in a [`ReuniteError`] if they are from
            /// different streams.
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                reunite(self, other)
            }
        }

        impl OwnedWriteHalf {
            fn io(&self) -> &$stream {
                &self.stream
            }

            write_half_methods!(
                $addr,
                $pair,
                "\nlet (_reader, writer) = stream.into_split();"
            );

            /// Puts the two halves of a stream together again.
            ///
            /// # Examples
            ///
            #[doc = $pair!("stream", "peer")]
            /// let (reader, writer) = stream.into_split();
            /// let stream = writer.reunite(reader).unwrap();
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            /// Returns both halves in a [`ReuniteError`] if they are from
            /// different streams.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                reunite(other, self)
            }

            /// Drops the half without ending the stream for the peer.
            ///
            /// # Examples
            ///
            #[doc = $pair!("stream", "mut peer")]
            /// let (mut reader, writer) = stream.into_split();
            /// writer.forget();
            /// peer.write_all(b"hello").await?;
            /// assert_eq!(reader.read(&mut [0; 16]).await?, 5);
            /// # Ok(()) }
            /// ```
            pub fn forget(mut self) {
                self.shutdown_on_drop = false;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.shutdown_on_drop {
                    // It fails only if the connection is broken, and then the
                    // peer needs no end of the stream.
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

/// The addresses of the stream. `$split` makes `$half` of `stream`.
macro_rules! half_addr_methods {
    ($addr:ty, $pair:ident, $split:literal, $half:literal) => {
        /// Returns the address of the peer.
        ///
        /// # Examples
        ///
        #[doc = $pair!("mut stream", "mut peer")]
        /// let expected = format!("{:?}", stream.peer_addr()?);
        #[doc = concat!($split, "\nassert_eq!(format!(\"{:?}\", ", $half, ".peer_addr()?), expected);")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getpeername(2)`, such as
        /// [`NotConnected`](std::io::ErrorKind::NotConnected).
        pub fn peer_addr(&self) -> std::io::Result<$addr> {
            self.io().peer_addr()
        }

        /// Returns the address of this side.
        ///
        /// # Examples
        ///
        #[doc = $pair!("mut stream", "mut peer")]
        /// let expected = format!("{:?}", stream.local_addr()?);
        #[doc = concat!($split, "\nassert_eq!(format!(\"{:?}\", ", $half, ".local_addr()?), expected);")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockname(2)`.
        pub fn local_addr(&self) -> std::io::Result<$addr> {
            self.io().local_addr()
        }
    };
}

/// `$split` makes `reader` of `stream`, on which `hello` waits to be read.
macro_rules! read_half_methods {
    ($addr:ty, $pair:ident, $split:literal) => {
        half_addr_methods!($addr, $pair, $split, "reader");
        ready_method!(
            concat!($pair!("mut stream", "mut peer"), $split),
            "reader",
            "READABLE"
        );
        readable_methods!(concat!($pair!("mut stream", "mut peer"), $split), "reader");
        try_read_methods!(concat!($pair!("mut stream", "mut peer"), $split), "recv(2)");
    };
}

/// `$split` makes `writer` of `stream`.
macro_rules! write_half_methods {
    ($addr:ty, $pair:ident, $split:literal) => {
        half_addr_methods!($addr, $pair, $split, "writer");
        ready_method!(
            concat!($pair!("mut stream", "peer"), $split),
            "writer",
            "WRITABLE"
        );
        writable_methods!(concat!($pair!("mut stream", "peer"), $split), "writer");
        try_write_methods!(concat!($pair!("mut stream", "peer"), $split), "send(2)");
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
                self.io().poll_read_shared(cx, buf)
            }
        }

        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                self.io()
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
                self.io().poll_write_shared(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io().poll_write_vectored_shared(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.io().poll_flush_shared(cx)
            }

            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $this = self.get_mut();
                let result = std::task::ready!($this.io().poll_shutdown_shared(cx));
                if result.is_ok() {
                    $after_shutdown;
                }
                std::task::Poll::Ready(result)
            }
        }

        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                self.io()
            }
        }
    };
}
