//! Sending and receiving datagrams, for UDP and Unix sockets.

/// What does not name a peer, and receiving from anybody.
///
/// The socket is in the field `io`, an [`PollEvented`](crate::io::PollEvented).
/// `$pair` makes two connected sockets, `$bound` two that have addresses, of
/// which `peer` is connected to `socket`. `$is_peer` is a line that checks that
/// `from` is the address of `peer`; `$with_addr` converts the system's address
/// to `$addr`. `$refused` says when a socket reports `ConnectionRefused`.
macro_rules! datagram_methods {
    (
        pair: $pair:ident,
        bound: $bound:ident,
        addr: $addr:ty,
        with_addr: $with_addr:path,
        is_peer: $is_peer:literal,
        refused: $refused:literal $(,)?
    ) => {
        ready_method!($pair!("socket", "peer"), "socket", "WRITABLE");
        readable_methods!(
            concat!($pair!("socket", "peer"), "\npeer.send(b\"hello\").await?;"),
            "socket",
            poll_recv_ready
        );
        writable_methods!($pair!("socket", "peer"), "socket", poll_send_ready);
        operation_methods!($pair!("socket", "peer"));

        /// Sends `buf` as one datagram to the connected peer, and returns the
        /// number of bytes sent.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// assert_eq!(socket.send(b"hello").await?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, nothing was sent.
        ///
        /// # Errors
        /// Returns the error of `send(2)`, or an error if the runtime has been
        /// shut down. [`ConnectionRefused`](std::io::ErrorKind::ConnectionRefused)
        /// means that
        #[doc = concat!($refused, ".")]
        pub async fn send(&self, buf: &[u8]) -> std::io::Result<usize> {
            let send = || self.io.send(buf);
            self.io.attempts($crate::io::Interest::WRITABLE, send).await
        }

        /// Attempts to send `buf` as one datagram to the connected peer.
        ///
        /// Only the task that polled last, with this function or another one
        /// that polls to send, is woken.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// let sent = std::future::poll_fn(|cx| socket.poll_send(cx, b"hello")).await?;
        /// assert_eq!(sent, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`send`](Self::send).
        pub fn poll_send(
            &self,
            cx: &mut std::task::Context<'_>,
            buf: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            let registration = self.io.registration();
            registration.poll_write_io(cx, || self.io.send(buf))
        }

        /// Sends `buf` as one datagram to the connected peer, without waiting.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// socket.writable().await?;
        /// assert_eq!(socket.try_send(b"hello")?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no
        /// room, and otherwise the errors of [`send`](Self::send).
        pub fn try_send(&self, buf: &[u8]) -> std::io::Result<usize> {
            let send = || self.io.send(buf);
            self.io.attempt($crate::io::Interest::WRITABLE, send)
        }

        /// Receives one datagram into `buf`, and returns the number of bytes.
        ///
        /// A connected socket receives only from its peer. The bytes that do
        /// not fit into `buf` are lost.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// let mut bytes = [0; 16];
        /// let count = socket.recv(&mut bytes).await?;
        /// assert_eq!(&bytes[..count], b"hello");
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, no datagram was
        /// received.
        ///
        /// # Errors
        /// Returns the error of `recv(2)`, or an error if the runtime has been
        /// shut down. [`ConnectionRefused`](std::io::ErrorKind::ConnectionRefused)
        /// means that
        #[doc = concat!($refused, ".")]
        pub async fn recv(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            let recv = || self.io.recv(&mut &mut *buf);
            self.io.attempts($crate::io::Interest::READABLE, recv).await
        }

        /// Attempts to receive one datagram into `buf`.
        ///
        /// Only the task that polled last, with this function or another one
        /// that polls to receive, is woken. The bytes that do not fit into
        /// `buf` are lost.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// let mut bytes = [0; 16];
        /// let mut buf = ReadBuf::new(&mut bytes);
        /// std::future::poll_fn(|cx| socket.poll_recv(cx, &mut buf)).await?;
        /// assert_eq!(buf.filled(), b"hello");
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`recv`](Self::recv).
        pub fn poll_recv(
            &self,
            cx: &mut std::task::Context<'_>,
            buf: &mut $crate::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            let registration = self.io.registration();
            let received = registration.poll_read_io(cx, || self.io.recv(buf));
            received.map(|received| received.map(drop))
        }

        /// Receives one datagram into `buf` without waiting, and returns the
        /// number of bytes.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// socket.readable().await?;
        /// assert_eq!(socket.try_recv(&mut [0; 16])?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](std::io::ErrorKind::WouldBlock) if no datagram
        /// has arrived, and otherwise the errors of [`recv`](Self::recv).
        pub fn try_recv(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            let recv = || self.io.recv(&mut &mut *buf);
            self.io.attempt($crate::io::Interest::READABLE, recv)
        }

        /// Receives one datagram, appends it to `buf`, and returns the number of
        /// bytes.
        ///
        /// A connected socket receives only from its peer. The bytes that
        /// exceed the capacity of `buf` are lost.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// let mut bytes = Vec::with_capacity(16);
        /// assert_eq!(socket.recv_buf(&mut bytes).await?, 5);
        /// assert_eq!(bytes, b"hello");
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, no datagram was
        /// received.
        ///
        /// # Errors
        /// As for [`recv`](Self::recv).
        pub async fn recv_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
            let recv = || self.io.recv(buf);
            self.io.attempts($crate::io::Interest::READABLE, recv).await
        }

        /// Receives one datagram without waiting, appends it to `buf`, and
        /// returns the number of bytes.
        ///
        /// # Examples
        ///
        #[doc = $pair!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// socket.readable().await?;
        /// let mut bytes = Vec::with_capacity(16);
        /// assert_eq!(socket.try_recv_buf(&mut bytes)?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`try_recv`](Self::try_recv).
        pub fn try_recv_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
            let recv = || self.io.recv(buf);
            self.io.attempt($crate::io::Interest::READABLE, recv)
        }

        /// Receives one datagram into `buf`, and returns the number of bytes and
        /// the address of the sender.
        ///
        /// The bytes that do not fit into `buf` are lost.
        ///
        /// # Examples
        ///
        #[doc = $bound!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// let mut bytes = [0; 16];
        /// let (count, from) = socket.recv_from(&mut bytes).await?;
        /// assert_eq!(&bytes[..count], b"hello");
        #[doc = $is_peer]
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, no datagram was
        /// received.
        ///
        /// # Errors
        /// Returns the error of `recvfrom(2)`, or an error if the runtime has
        /// been shut down.
        pub async fn recv_from(&self, buf: &mut [u8]) -> std::io::Result<(usize, $addr)> {
            let recv = || self.io.recv_from(&mut &mut *buf);
            let received = self.io.attempts($crate::io::Interest::READABLE, recv);
            $with_addr(received.await)
        }

        /// Attempts to receive one datagram into `buf`, and returns the address
        /// of the sender.
        ///
        /// Only the task that polled last, with this function or another one
        /// that polls to receive, is woken. The bytes that do not fit into
        /// `buf` are lost.
        ///
        /// # Examples
        ///
        #[doc = $bound!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// let mut bytes = [0; 16];
        /// let mut buf = ReadBuf::new(&mut bytes);
        /// let from = std::future::poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)).await?;
        /// assert_eq!(buf.filled(), b"hello");
        #[doc = $is_peer]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`recv_from`](Self::recv_from).
        pub fn poll_recv_from(
            &self,
            cx: &mut std::task::Context<'_>,
            buf: &mut $crate::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<$addr>> {
            let registration = self.io.registration();
            let received = registration.poll_read_io(cx, || self.io.recv_from(buf));
            received.map(|received| Ok($with_addr(received)?.1))
        }

        /// Receives one datagram into `buf` without waiting, and returns the
        /// number of bytes and the address of the sender.
        ///
        /// # Examples
        ///
        #[doc = $bound!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// socket.readable().await?;
        /// let (count, from) = socket.try_recv_from(&mut [0; 16])?;
        /// assert_eq!(count, 5);
        #[doc = $is_peer]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](std::io::ErrorKind::WouldBlock) if no datagram
        /// has arrived, and otherwise the error of `recvfrom(2)`.
        pub fn try_recv_from(&self, buf: &mut [u8]) -> std::io::Result<(usize, $addr)> {
            let recv = || self.io.recv_from(&mut &mut *buf);
            $with_addr(self.io.attempt($crate::io::Interest::READABLE, recv))
        }

        /// Receives one datagram, appends it to `buf`, and returns the number of
        /// bytes and the address of the sender.
        ///
        /// The bytes that exceed the capacity of `buf` are lost.
        ///
        /// # Examples
        ///
        #[doc = $bound!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// let mut bytes = Vec::with_capacity(16);
        /// let (_count, from) = socket.recv_buf_from(&mut bytes).await?;
        /// assert_eq!(bytes, b"hello");
        #[doc = $is_peer]
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, no datagram was
        /// received.
        ///
        /// # Errors
        /// As for [`recv_from`](Self::recv_from).
        pub async fn recv_buf_from<B: bytes::BufMut>(
            &self,
            buf: &mut B,
        ) -> std::io::Result<(usize, $addr)> {
            let recv = || self.io.recv_from(buf);
            let received = self.io.attempts($crate::io::Interest::READABLE, recv);
            $with_addr(received.await)
        }

        /// Receives one datagram without waiting, appends it to `buf`, and
        /// returns the number of bytes and the address of the sender.
        ///
        /// # Examples
        ///
        #[doc = $bound!("socket", "peer")]
        /// peer.send(b"hello").await?;
        /// socket.readable().await?;
        /// let mut bytes = Vec::with_capacity(16);
        /// let (_count, from) = socket.try_recv_buf_from(&mut bytes)?;
        /// assert_eq!(bytes, b"hello");
        #[doc = $is_peer]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`try_recv_from`](Self::try_recv_from).
        pub fn try_recv_buf_from<B: bytes::BufMut>(
            &self,
            buf: &mut B,
        ) -> std::io::Result<(usize, $addr)> {
            let recv = || self.io.recv_from(buf);
            $with_addr(self.io.attempt($crate::io::Interest::READABLE, recv))
        }
    };
}
