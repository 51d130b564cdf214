//! What all sockets have in common, written once.
//!
//! Each macro expects a field `io` that is an [`Evented`](crate::io::Evented)
//! or, for streams, a [`Link`](super::link::Link), and the hidden beginning of
//! its examples.

/// Waiting for readiness, and operations of one's own.
macro_rules! readiness_methods {
    ($example:expr, $poll_read_ready:ident, $poll_write_ready:ident) => {
        /// Waits until the socket is ready for any of `interest`.
        ///
        /// The readiness stays remembered until an operation finds otherwise,
        /// so an operation that follows may still find nothing to do.
        ///
        /// ```
        #[doc = $example]
        /// let ready = socket.ready(Interest::READABLE | Interest::WRITABLE).await?;
        /// assert!(ready.is_writable());
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
            self.io.ready(interest).await
        }

        /// Waits until the socket can be read.
        ///
        /// ```
        #[doc = $example]
        /// peer.writable().await?;
        /// peer.try_io(Interest::WRITABLE, || socket2::SockRef::from(&peer).send(b"x"))?;
        /// socket.readable().await?;
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// If the runtime has been shut down.
        ///
        /// # Cancel safety
        /// Dropping the future ends the wait and takes nothing away.
        pub async fn readable(&self) -> std::io::Result<()> {
            self.ready($crate::io::Interest::READABLE).await?;
            Ok(())
        }

        /// Waits until the socket can be written to.
        ///
        /// ```
        #[doc = $example]
        /// socket.writable().await?;
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
            self.ready($crate::io::Interest::WRITABLE).await?;
            Ok(())
        }

        /// Waits until the socket can be read. Of several tasks that wait with
        /// this function, or that read, the one that called last is woken.
        ///
        /// ```
        #[doc = $example]
        /// peer.writable().await?;
        /// peer.try_io(Interest::WRITABLE, || socket2::SockRef::from(&peer).send(b"x"))?;
        #[doc = concat!("std::future::poll_fn(|cx| socket.", stringify!($poll_read_ready), "(cx)).await?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// If the runtime has been shut down.
        pub fn $poll_read_ready(
            &self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.io.poll_read_ready(cx)
        }

        /// Waits until the socket can be written to. Of several tasks that wait
        /// with this function, or that write, the one that called last is woken.
        ///
        /// ```
        #[doc = $example]
        #[doc = concat!("std::future::poll_fn(|cx| socket.", stringify!($poll_write_ready), "(cx)).await?;")]
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// If the runtime has been shut down.
        pub fn $poll_write_ready(
            &self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.io.poll_write_ready(cx)
        }

        /// Tries an operation of one's own if the socket may be ready for it;
        /// otherwise, or if it would have blocked, the answer is
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        ///
        /// The operation works on this socket, and does not block.
        ///
        /// ```
        #[doc = $example]
        /// socket.writable().await?;
        /// let sent = socket.try_io(Interest::WRITABLE, || {
        ///     socket2::SockRef::from(&socket).send(b"hello")
        /// })?;
        /// assert_eq!(sent, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Those of the operation.
        pub fn try_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnOnce() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            self.io.attempt(interest, || self.io.try_io(f))
        }

        /// Tries an operation of one's own, again and again, until it does not
        /// block; waits for `interest` in between.
        ///
        /// ```
        #[doc = $example]
        /// let send = socket.async_io(Interest::WRITABLE, || {
        ///     socket2::SockRef::from(&socket).send(b"hello")
        /// });
        /// assert_eq!(send.await?, 5);
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Those of the operation, and if the runtime has been shut down.
        ///
        /// # Cancel safety
        /// The operation is tried to its end or not at all.
        pub async fn async_io<R>(
            &self,
            interest: $crate::io::Interest,
            mut f: impl FnMut() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            self.io.attempts(interest, || self.io.try_io(&mut f)).await
        }

        /// Takes the error that is queued for the socket, if there is one.
        ///
        /// ```
        #[doc = $example]
        /// assert!(socket.take_error()?.is_none());
        /// # drop(peer);
        /// # Ok(()) }
        /// ```
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            match self.io.late_error() {
                Some(error) => Ok(Some(error)),
                None => self.io.take_error(),
            }
        }
    };
}

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
/// `read_shared`, `write_shared`, `write_vectored_shared`, `shut_down_writing`.
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
                self.read_shared(cx, buf)
            }
        }

        impl $crate::io::AsyncWrite for $stream {
            #[inline]
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.write_shared(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.write_vectored_shared(cx, bufs)
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
                self.shutdown_shared(cx)
            }
        }

        impl $stream {
            pub(crate) fn write_shared(
                &self,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_write(cx, buf)
            }

            pub(crate) fn write_vectored_shared(
                &self,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.io.poll_write_vectored(cx, bufs)
            }

            pub(crate) fn shut_down_writing(&self) -> std::io::Result<()> {
                let end = |socket: &Socket| socket.shutdown(std::net::Shutdown::Write);
                $crate::net::methods::unless_unconnected(self.io.end(end))
            }

            /// The same, when everything that was written is out.
            pub(crate) fn shutdown_shared(
                &self,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let end = |socket: &Socket| socket.shutdown(std::net::Shutdown::Write);
                let ended = self.io.poll_end(cx, end);
                ended.map($crate::net::methods::unless_unconnected)
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

/// From std and back, and the descriptor.
macro_rules! std_traits {
    ($socket:ident, $std:ty) => {
        impl TryFrom<$std> for $socket {
            type Error = std::io::Error;

            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl std::fmt::Debug for $socket {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.io.fmt(f)
            }
        }

        descriptor_traits!($socket);
    };
}

/// The descriptor of the socket in the field `io`.
macro_rules! descriptor_traits {
    ($socket:ident) => {
        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.io.as_raw_fd()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                use std::os::fd::AsRawFd;
                // SAFETY: the socket is open as long as it is borrowed.
                unsafe { std::os::fd::BorrowedFd::borrow_raw(self.as_raw_fd()) }
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsRawSocket for $socket {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                self.io.as_raw_socket()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsSocket for $socket {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                use std::os::windows::io::AsRawSocket;
                // SAFETY: the socket is open as long as it is borrowed.
                unsafe { std::os::windows::io::BorrowedSocket::borrow_raw(self.as_raw_socket()) }
            }
        }
    };
}

/// The peer was faster: there is nothing left to shut down.
pub(crate) fn unless_unconnected(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(()),
        result => result,
    }
}

/// How many connections may wait to be accepted, unless the system allows fewer.
pub(crate) const BACKLOG: i32 = 1024;

/// Refuses a socket that would block its worker.
///
/// # Panics
/// In builds with debug assertions, if it is in blocking mode.
#[cfg(unix)]
#[track_caller]
pub(crate) fn expect_nonblocking(socket: &impl std::os::fd::AsFd) {
    if cfg!(debug_assertions) {
        // Whoever cannot answer is none of our business.
        let is_nonblocking = socket2::SockRef::from(socket).nonblocking().unwrap_or(true);
        assert!(
            is_nonblocking,
            "Registering a blocking socket with the tokio runtime is unsupported: every operation \
             on it would block a worker. Call `set_nonblocking(true)` first."
        );
    }
}

/// Windows does not tell in which mode a socket is.
#[cfg(windows)]
pub(crate) fn expect_nonblocking<T>(_: &T) {}
