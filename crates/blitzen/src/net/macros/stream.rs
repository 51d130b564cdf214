//! The methods and traits of streams.
//!
//! The socket is in the field `io`, a [`Link`](crate::net::link::Link).

/// How a stream gets its bytes, and buffers that change hands.
macro_rules! mode_methods {
    ($example:expr) => {
        /// Changes how the stream gets its bytes; see
        /// [`SocketMode`]($crate::net::SocketMode). Nothing is changed if it
        /// fails.
        ///
        /// ```
        #[doc = $example]
        /// use blitzen::net::SocketMode;
        /// socket.set_mode(SocketMode::PreferCompletion)?;
        /// socket.write_all(b"hello").await?;
        /// assert_eq!(peer.read(&mut [0; 16]).await?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Of kind [`Unsupported`](std::io::ErrorKind::Unsupported) if there is
        /// no io_uring; if bytes that were received by completion have not been
        /// read; and what the system says.
        ///
        /// # Panics
        /// Outside a runtime, and in one without I/O.
        #[track_caller]
        pub fn set_mode(&mut self, mode: $crate::net::SocketMode) -> std::io::Result<()> {
            self.io.set_mode(mode, &$crate::runtime::io::current())
        }

        /// How the stream gets its bytes: by readiness or by completion.
        ///
        /// ```
        #[doc = $example]
        /// use blitzen::net::SocketMode;
        /// assert_ne!(socket.mode(), SocketMode::PreferCompletion);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        pub fn mode(&self) -> $crate::net::SocketMode {
            self.io.mode()
        }

        /// Reads once into a buffer, from its first byte up to its capacity,
        /// and gives it back; zero at the end, or if there is no room.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        /// let (result, bytes) = socket.read_owned(Vec::with_capacity(16)).await;
        /// assert_eq!((result?, &bytes[..]), (5, &b"hello"[..]));
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// What the system says, and if the runtime has been shut down.
        ///
        /// # Cancel safety
        /// A future that is dropped takes the buffer with it, and has read
        /// nothing.
        pub async fn read_owned<B>(&self, buf: B) -> (std::io::Result<usize>, B)
        where
            B: $crate::io::owned::IoBufMut,
        {
            self.io.read_owned(buf).await
        }

        /// Writes the initialised bytes of a buffer, or some of them, and gives
        /// it back. By completion it is all of them.
        ///
        /// ```
        #[doc = $example]
        /// let (result, bytes) = socket.write_owned(b"hello".to_vec()).await;
        /// assert_eq!((result?, bytes.len()), (5, 5));
        /// assert_eq!(peer.read(&mut [0; 16]).await?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// What the system says, and if the runtime has been shut down.
        ///
        /// # Cancel safety
        /// A future that is dropped before its turn has come has written
        /// nothing. By completion, one that is dropped later leaves the buffer
        /// to the system, which writes all of it.
        pub async fn write_owned<B>(&self, buf: B) -> (std::io::Result<usize>, B)
        where
            B: $crate::io::owned::IoBuf + Send,
        {
            self.io.write_owned(buf, false).await
        }

        /// Like [`write_owned`](Self::write_owned) but, by completion, without
        /// a copy where the system can do that: the buffer comes back when the
        /// network is through with it. Worth it for some tens of kilobytes.
        ///
        /// ```
        #[doc = $example]
        /// let reading = blitzen::spawn(async move {
        ///     let mut bytes = Vec::new();
        ///     peer.read_to_end(&mut bytes).await.map(|_| bytes.len())
        /// });
        /// let (result, bytes) = socket.send_zc(vec![7; 60_000]).await;
        /// let sent = result?;
        /// # drop(bytes);
        /// drop(socket);
        /// assert_eq!(reading.await??, sent);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// What the system says, and if the runtime has been shut down.
        ///
        /// # Cancel safety
        /// As for [`write_owned`](Self::write_owned).
        pub async fn send_zc<B>(&self, buf: B) -> (std::io::Result<usize>, B)
        where
            B: $crate::io::owned::IoBuf + Send,
        {
            self.io.write_owned(buf, true).await
        }
    };
}

/// Reading and writing a stream without waiting.
macro_rules! stream_methods {
    ($example:expr) => {
        /// Reads what is there, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        /// let mut bytes = [0; 16];
        /// socket.readable().await?;
        /// match socket.try_read(&mut bytes) {
        ///     Ok(0) => println!("the end"),
        ///     Ok(count) => assert_eq!(&bytes[..count], b"hello"),
        ///     Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {} // not yet
        ///     Err(error) => return Err(error),
        /// }
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.io.try_read(buf)
        }

        /// Reads what is there into several buffers, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        /// socket.readable().await?;
        /// let (mut head, mut tail) = ([0; 2], [0; 8]);
        /// let mut both = [std::io::IoSliceMut::new(&mut head), std::io::IoSliceMut::new(&mut tail)];
        /// assert_eq!(socket.try_read_vectored(&mut both)?, 5);
        /// assert_eq!((&head, &tail[..3]), (b"he", &b"llo"[..]));
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
            self.io.try_read_vectored(bufs)
        }

        /// Reads what is there, and appends it to `buf`, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// peer.write_all(b"hello").await?;
        /// socket.readable().await?;
        /// let mut bytes = Vec::with_capacity(16);
        /// assert_eq!(socket.try_read_buf(&mut bytes)?, 5);
        /// assert_eq!(bytes, b"hello");
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
            self.io.try_read_buf(buf)
        }

        /// Writes what there is room for, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// socket.writable().await?;
        /// assert_eq!(socket.try_write(b"hello")?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no room, and
        /// what the system says.
        pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
            self.io.try_write(buf)
        }

        /// Writes what there is room for of several buffers, without waiting.
        ///
        /// ```
        #[doc = $example]
        /// socket.writable().await?;
        /// let both = [std::io::IoSlice::new(b"he"), std::io::IoSlice::new(b"llo")];
        /// assert_eq!(socket.try_write_vectored(&both)?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no room, and
        /// what the system says.
        pub fn try_write_vectored(&self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            self.io.try_write_vectored(bufs)
        }
    };
}

/// The traits of a stream, through methods that need only a shared reference:
/// `poll_read_shared`, `poll_write_shared`, `poll_write_vectored_shared`, `shutdown_write`.
/// `Socket` names mio's socket in the field `io`.
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
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(self.io.flush())
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
                let end = |socket: &Socket| socket.shutdown(std::net::Shutdown::Write);
                $crate::net::socket::ignore_not_connected(self.io.end(end))
            }

            /// The same, when everything that was written is out.
            pub(crate) fn poll_shutdown_shared(
                &self,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let end = |socket: &Socket| socket.shutdown(std::net::Shutdown::Write);
                let ended = self.io.poll_end(cx, end);
                ended.map($crate::net::socket::ignore_not_connected)
            }

            pub(crate) fn flush_shared(&self) -> std::io::Result<()> {
                self.io.flush()
            }
        }

        impl AsRef<Self> for $stream {
            fn as_ref(&self) -> &Self {
                self
            }
        }
    };
}
