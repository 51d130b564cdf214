//! Waiting for readiness, and operations of the caller's own.
//!
//! Each type has a method `io()`, which returns what these methods are passed
//! on to.

/// `ready`, with an example that waits for `$interest` on `$socket`.
macro_rules! ready_method {
    ($setup:expr, $socket:literal, $interest:expr) => {
        /// Waits for any of the states in `interest`, and returns those that
        /// hold.
        ///
        /// A state is remembered until an operation meets
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock). So it may be out of
        /// date: the operation that follows must be ready to wait again.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        #[doc = concat!("let ready = ", $socket, ".ready(Interest::", $interest, ").await?;")]
        /// assert!(!ready.is_empty());
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// Dropping the future loses nothing.
        ///
        /// # Errors
        /// Returns an error if the runtime has been shut down.
        pub async fn ready(
            &self,
            interest: $crate::io::Interest,
        ) -> std::io::Result<$crate::io::Ready> {
            self.io().ready(interest).await
        }
    };
}

/// `readable`, and its poll function if one is named. The setup leaves
/// something to be read on `$socket`.
macro_rules! readable_methods {
    ($setup:expr, $socket:literal) => {
        /// Waits until there is something to read, or reading would report the
        /// end or an error.
        ///
        /// The readiness may be out of date: a read that follows may still meet
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        #[doc = concat!($socket, ".readable().await?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// Dropping the future loses nothing.
        ///
        /// # Errors
        /// Returns an error if the runtime has been shut down.
        pub async fn readable(&self) -> std::io::Result<()> {
            self.io().ready($crate::io::Interest::READABLE).await?;
            Ok(())
        }
    };
    ($setup:expr, $socket:literal, $poll:ident) => {
        readable_methods!($setup, $socket);

        /// Polls for something to read.
        ///
        /// Only the task that polled last, with this function or another one
        /// that polls to read, is woken. The readiness may be out of date, as
        /// for [`readable`](Self::readable).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        #[doc = concat!("std::future::poll_fn(|cx| ", $socket, ".", stringify!($poll), "(cx)).await?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns an error if the runtime has been shut down.
        pub fn $poll(
            &self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.io().poll_read_ready(cx)
        }
    };
}

/// `writable`, and its poll function if one is named.
macro_rules! writable_methods {
    ($setup:expr, $socket:literal) => {
        /// Waits until there is room to write, or writing would report an error.
        ///
        /// The readiness may be out of date: a write that follows may still meet
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        #[doc = concat!($socket, ".writable().await?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// Dropping the future loses nothing.
        ///
        /// # Errors
        /// Returns an error if the runtime has been shut down.
        pub async fn writable(&self) -> std::io::Result<()> {
            self.io().ready($crate::io::Interest::WRITABLE).await?;
            Ok(())
        }
    };
    ($setup:expr, $socket:literal, $poll:ident) => {
        writable_methods!($setup, $socket);

        /// Polls for room to write.
        ///
        /// Only the task that polled last, with this function or another one
        /// that polls to write, is woken. The readiness may be out of date, as
        /// for [`writable`](Self::writable).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        #[doc = concat!("std::future::poll_fn(|cx| ", $socket, ".", stringify!($poll), "(cx)).await?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns an error if the runtime has been shut down.
        pub fn $poll(
            &self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.io().poll_write_ready(cx)
        }
    };
}

/// `try_io`, `async_io` and `take_error` of a socket. The setup makes `socket`.
macro_rules! operation_methods {
    ($setup:expr) => {
        /// Calls `f` if the socket is ready for `interest`.
        ///
        /// `f` must work on this socket, and must not block. If it returns
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock), the readiness is
        /// forgotten until the system reports it again.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.writable().await?;
        /// let sent = socket.try_io(Interest::WRITABLE, || {
        ///     socket2::SockRef::from(&socket).send(b"hello")
        /// })?;
        /// assert_eq!(sent, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](std::io::ErrorKind::WouldBlock) without
        /// calling `f` if the socket is not ready, and otherwise the error of
        /// `f`.
        pub fn try_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnOnce() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            let operation = || $crate::io::settled(f());
            self.io.attempt(interest, || self.io.try_io(operation))?
        }

        /// Calls `f` until it does not return
        /// [`WouldBlock`](std::io::ErrorKind::WouldBlock), and waits for
        /// `interest` before each call.
        ///
        /// `f` must work on this socket, and must not block.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// let send = socket.async_io(Interest::WRITABLE, || {
        ///     socket2::SockRef::from(&socket).send(b"hello")
        /// });
        /// assert_eq!(send.await?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, no call of `f` has
        /// succeeded.
        ///
        /// # Errors
        /// Returns the error of `f`, or an error if the runtime has been shut
        /// down.
        pub async fn async_io<R>(
            &self,
            interest: $crate::io::Interest,
            mut f: impl FnMut() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            let mut operation = || $crate::io::settled(f());
            let attempts = self
                .io
                .attempts(interest, || self.io.try_io(&mut operation));
            attempts.await?
        }

        /// Returns the pending error of the socket, and clears it
        /// (`SO_ERROR`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// assert!(socket.take_error()?.is_none());
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockopt(2)`.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            match self.io.late_error() {
                Some(error) => Ok(Some(error)),
                None => self.io.take_error(),
            }
        }
    };
}
