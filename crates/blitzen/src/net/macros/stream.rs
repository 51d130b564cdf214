//! The methods and traits that TCP and Unix streams share.
//!
//! The socket is in the field `io`, a [`StreamIo`](crate::net::stream_io::StreamIo). `$pair`
//! is the macro of `examples.rs` that makes two connected streams.

/// Readiness, reading and writing without waiting, and the caller's own
/// operations.
macro_rules! stream_methods {
    ($pair:ident) => {
        ready_method!($pair!("socket", "peer"), "socket", "WRITABLE");
        readable_methods!(
            concat!(
                $pair!("socket", "mut peer"),
                "\npeer.write_all(b\"hello\").await?;"
            ),
            "socket",
            poll_read_ready
        );
        writable_methods!($pair!("socket", "peer"), "socket", poll_write_ready);
        try_read_methods!(
            concat!(
                $pair!("reader", "mut writer"),
                "\nwriter.write_all(b\"hello\").await?;"
            ),
            "recv(2)"
        );
        try_write_methods!($pair!("writer", "reader"), "send(2)");
        operation_methods!($pair!("socket", "peer"));
    };
}

/// From std and back.
macro_rules! stream_std_methods {
    ($stream:ident, $std:ty, $mio:ty, $pair:ident) => {
        /// Creates a stream from one of the standard library, which must be in
        /// non-blocking mode.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// let std_stream = socket.into_std()?;
        /// std_stream.set_nonblocking(true)?; // which it is already
        #[doc = concat!("let socket = ", stringify!($stream), "::from_std(std_stream)?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of registering with the system's poller, such as
        /// `epoll_ctl(2)`, or an error if the runtime has been shut down.
        ///
        /// # Panics
        /// Panics outside a runtime, in a runtime without I/O and, with debug
        /// assertions, if the stream is in blocking mode.
        #[track_caller]
        pub fn from_std(stream: $std) -> std::io::Result<$stream> {
            $crate::net::socket::assert_nonblocking(&stream);
            Self::new(<$mio>::from_std(stream), $crate::io::Ready::EMPTY)
        }

        /// Converts the stream into one of the standard library. It stays in
        /// non-blocking mode.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        #[doc = concat!("let std_stream: ", stringify!($std), " = socket.into_std()?;")]
        /// std_stream.set_nonblocking(false)?;
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of leaving the system's poller, such as
        /// `epoll_ctl(2)`. If a stream in
        /// [completion mode](crate::net::SocketMode) has received bytes that
        /// nobody has read, returns an error that holds the stream, an
        /// [`IntoStdError`](crate::net::IntoStdError).
        pub fn into_std(self) -> std::io::Result<$std> {
            match self.io.into_inner() {
                Ok(socket) => Ok(socket.into()),
                Err(kept) => Err($crate::net::into_std::refused(kept, |io| Self { io })),
            }
        }
    };
}

/// `split` and `into_split`.
macro_rules! split_methods {
    ($pair:ident) => {
        /// Splits the stream into two borrowed halves, for use at the same time
        /// within one task.
        ///
        /// # Examples
        ///
        #[doc = $pair!("mut socket", "mut peer")]
        /// let (mut reader, mut writer) = socket.split();
        /// writer.write_all(b"ping").await?;
        /// peer.write_all(b"pong").await?;
        /// let mut bytes = [0; 4];
        /// reader.read_exact(&mut bytes).await?;
        /// assert_eq!(&bytes, b"pong");
        /// # Ok(()) }
        /// ```
        // The lifetime is part of the signature that others name.
        #[allow(clippy::needless_lifetimes)]
        pub fn split<'a>(&'a mut self) -> (ReadHalf<'a>, WriteHalf<'a>) {
            split::split(self)
        }

        /// Splits the stream into two owned halves, which may move to different
        /// tasks.
        ///
        /// Dropping the writing half ends the stream for the peer.
        /// [`reunite`](OwnedReadHalf::reunite) puts the halves together again.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "mut peer")]
        /// let (mut reader, mut writer) = socket.into_split();
        /// let reading = blitzen::spawn(async move {
        ///     let mut text = String::new();
        ///     reader.read_to_string(&mut text).await.map(|_| text)
        /// });
        /// writer.write_all(b"ping").await?;
        /// drop(writer);
        /// let mut text = String::new();
        /// peer.read_to_string(&mut text).await?;
        /// peer.write_all(b"pong").await?;
        /// drop(peer);
        /// assert_eq!(reading.await??, "pong");
        /// # Ok(()) }
        /// ```
        pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
            split::into_split(self)
        }
    };
}

/// The mode of the socket, and operations on owned buffers. `$zero_copy` says
/// whether the kernel can send such a socket's bytes without a copy.
macro_rules! mode_methods {
    ($pair:ident, zero_copy: $zero_copy:literal) => {
        /// Sets how the stream does its I/O; see
        /// [`SocketMode`](crate::net::SocketMode).
        ///
        /// A stream moves from completion to readiness by itself, and for good,
        /// when its readiness or its descriptor is asked for.
        ///
        /// # Examples
        ///
        #[doc = $pair!("mut socket", "mut peer")]
        /// use blitzen::net::SocketMode;
        ///
        /// socket.set_mode(SocketMode::PreferCompletion)?;
        /// socket.write_all(b"hello").await?;
        /// assert_eq!(peer.read(&mut [0; 16]).await?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`Unsupported`](std::io::ErrorKind::Unsupported) if `mode` is
        /// `Completion` and the system has no io_uring,
        /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) if it is
        /// `Completion` and the stream has moved to readiness, and otherwise the
        /// error of registering the socket. The mode stays as it was.
        ///
        /// # Panics
        /// Panics outside a runtime, and in a runtime without I/O.
        #[track_caller]
        pub fn set_mode(&mut self, mode: $crate::net::SocketMode) -> std::io::Result<()> {
            self.io.set_mode(mode, &$crate::runtime::io::current())
        }

        /// Returns how the stream does its I/O: `Readiness` or `Completion`.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// use blitzen::net::SocketMode;
        ///
        /// assert_ne!(socket.mode(), SocketMode::PreferCompletion);
        /// # Ok(()) }
        /// ```
        pub fn mode(&self) -> $crate::net::SocketMode {
            self.io.mode()
        }

        /// Reads once into `buf`, from its first byte up to its capacity, and
        /// returns the number of bytes read together with `buf`.
        ///
        /// Zero means that the peer has ended the stream, or that `buf` has no
        /// capacity.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "mut peer")]
        /// peer.write_all(b"hello").await?;
        /// let (result, bytes) = socket.read_owned(Vec::with_capacity(16)).await;
        /// assert_eq!((result?, &bytes[..]), (5, &b"hello"[..]));
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, no bytes were read;
        /// `buf` is dropped with it.
        ///
        /// # Errors
        /// Returns the error of `recv(2)`, such as
        /// [`ConnectionReset`](std::io::ErrorKind::ConnectionReset), or an error
        /// if the runtime has been shut down.
        pub async fn read_owned<B>(&self, buf: B) -> (std::io::Result<usize>, B)
        where
            B: $crate::io::owned::IoBufMut,
        {
            self.io.read_owned(buf).await
        }

        /// Writes the initialized bytes of `buf`, and returns the number of
        /// bytes written together with `buf`.
        ///
        /// In completion mode it writes all of them; otherwise it may write
        /// only the beginning.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "mut peer")]
        /// let (result, bytes) = socket.write_owned(b"hello".to_vec()).await;
        /// assert_eq!((result?, bytes.len()), (5, 5));
        /// assert_eq!(peer.read(&mut [0; 16]).await?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// In readiness mode, a future that is dropped before it completes has
        /// written nothing. In completion mode it may have handed `buf` to the
        /// kernel, which then writes all of it.
        ///
        /// # Errors
        /// Returns the error of `send(2)`, such as
        /// [`BrokenPipe`](std::io::ErrorKind::BrokenPipe), or an error if the
        /// runtime has been shut down.
        pub async fn write_owned<B>(&self, buf: B) -> (std::io::Result<usize>, B)
        where
            B: $crate::io::owned::IoBuf + Send,
        {
            self.io.write_owned(buf, false).await
        }

        /// Like [`write_owned`](Self::write_owned), but in completion mode the
        /// kernel sends from `buf` without a copy where it can.
        ///
        /// `buf` comes back when the network no longer needs it. This pays from
        /// some tens of kilobytes on. Unix domain sockets always copy.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "mut peer")]
        /// let reading = blitzen::spawn(async move {
        ///     let mut bytes = Vec::new();
        ///     peer.read_to_end(&mut bytes).await
        /// });
        /// let (result, _bytes) = socket.send_zc(vec![7; 60_000]).await;
        /// drop(socket);
        /// assert_eq!(reading.await??, result?);
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// As for [`write_owned`](Self::write_owned).
        ///
        /// # Errors
        /// As for [`write_owned`](Self::write_owned).
        pub async fn send_zc<B>(&self, buf: B) -> (std::io::Result<usize>, B)
        where
            B: $crate::io::owned::IoBuf + Send,
        {
            self.io.write_owned(buf, $zero_copy).await
        }
    };
}

/// The traits of a stream, through methods that need only a shared reference, so
/// that halves can use them too. The stream itself has `poll_read_shared`.
macro_rules! stream_traits {
    ($stream:ident) => {
        impl $crate::io::AsyncRead for $stream {
            #[inline]
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.poll_read_shared(cx, buf)
            }
        }

        impl $crate::io::AsyncWrite for $stream {
            #[inline]
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.poll_write_shared(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.poll_write_vectored_shared(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.poll_flush_shared(cx)
            }

            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.poll_shutdown_shared(cx)
            }
        }

        impl $stream {
            pub(crate) fn poll_write_shared(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_write(cx, buf)
            }

            pub(crate) fn poll_write_vectored_shared(
                &self,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_write_vectored(cx, bufs)
            }

            pub(crate) fn shutdown_write(&self) -> std::io::Result<()> {
                let result = self
                    .io
                    .shutdown_write(|socket| socket.shutdown(std::net::Shutdown::Write));
                $crate::net::socket::ignore_not_connected(result)
            }

            /// Like [`shutdown_write`](Self::shutdown_write), after everything that was
            /// written has been sent.
            pub(crate) fn poll_shutdown_shared(
                &self,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let result = self
                    .io
                    .poll_shutdown_write(cx, |socket| socket.shutdown(std::net::Shutdown::Write));
                result.map($crate::net::socket::ignore_not_connected)
            }

            pub(crate) fn poll_flush_shared(
                &self,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.io.poll_flush(cx)
            }
        }

        impl AsRef<Self> for $stream {
            fn as_ref(&self) -> &Self {
                self
            }
        }
    };
}
