//! Reading and writing streams, pipes and their halves without waiting.
//!
//! Each type has a method `io()`, which returns what these methods are passed
//! on to.

/// The setup makes a `reader` on which `hello` waits to be read; `$call` is the
/// system call that reads.
macro_rules! try_read_methods {
    ($setup:expr, $call:literal) => {
        /// Reads into `buf` without waiting, and returns the number of bytes
        /// read.
        ///
        /// Zero means that the other side has ended the stream, or that `buf`
        /// is empty.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// let mut bytes = [0; 16];
        /// reader.readable().await?;
        /// match reader.try_read(&mut bytes) {
        ///     Ok(count) => assert_eq!(&bytes[..count], b"hello"),
        ///     Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {} // wait again
        ///     Err(error) => return Err(error),
        /// }
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is
        /// nothing to read yet, and otherwise the error of
        #[doc = concat!("`", $call, "`.")]
        pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.io().try_read(buf)
        }

        /// Reads into `bufs`, one after the other, without waiting, and returns
        /// the number of bytes read.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// reader.readable().await?;
        /// let (mut head, mut tail) = ([0; 2], [0; 8]);
        /// let mut bufs = [std::io::IoSliceMut::new(&mut head), std::io::IoSliceMut::new(&mut tail)];
        /// assert_eq!(reader.try_read_vectored(&mut bufs)?, 5);
        /// assert_eq!((&head, &tail[..3]), (b"he", &b"llo"[..]));
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`try_read`](Self::try_read).
        pub fn try_read_vectored(
            &self,
            bufs: &mut [std::io::IoSliceMut<'_>],
        ) -> std::io::Result<usize> {
            self.io().try_read_vectored(bufs)
        }

        /// Reads without waiting, appends the bytes to `buf`, and returns their
        /// number.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// reader.readable().await?;
        /// let mut bytes = Vec::with_capacity(16);
        /// assert_eq!(reader.try_read_buf(&mut bytes)?, 5);
        /// assert_eq!(bytes, b"hello");
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`try_read`](Self::try_read).
        pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
            self.io().try_read_buf(buf)
        }
    };
}

/// The setup makes a `writer`; `$call` is the system call that writes.
macro_rules! try_write_methods {
    ($setup:expr, $call:literal) => {
        /// Writes the beginning of `buf` without waiting, and returns the number
        /// of bytes written.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// writer.writable().await?;
        /// match writer.try_write(b"hello") {
        ///     Ok(count) => assert_eq!(count, 5),
        ///     Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {} // wait again
        ///     Err(error) => return Err(error),
        /// }
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](std::io::ErrorKind::WouldBlock) if there is no
        /// room, [`BrokenPipe`](std::io::ErrorKind::BrokenPipe) if the other
        /// side is closed, and otherwise the error of
        #[doc = concat!("`", $call, "`.")]
        pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
            self.io().try_write(buf)
        }

        /// Writes the beginning of `bufs` without waiting, and returns the
        /// number of bytes written.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// writer.writable().await?;
        /// let bufs = [std::io::IoSlice::new(b"he"), std::io::IoSlice::new(b"llo")];
        /// assert_eq!(writer.try_write_vectored(&bufs)?, 5);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`try_write`](Self::try_write).
        pub fn try_write_vectored(&self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            self.io().try_write_vectored(bufs)
        }
    };
}
