//! Waiting for readiness, and operations of the caller's own.
//!
//! The socket is in the field `io`: an [`PollEvented`](crate::io::PollEvented) or, for
//! streams, a [`Link`](crate::net::link::Link).

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
