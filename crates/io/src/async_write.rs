//! The trait of sinks of bytes.

use std::io::{self, Cursor, IoSlice, Write};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A sink of bytes that a task can wait for.
///
/// Streams implement this trait; their users call the methods of
/// [`AsyncWriteExt`](crate::AsyncWriteExt).
///
/// # Examples
///
/// ```
/// use std::io;
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
/// use blitzen::io::{AsyncWrite, AsyncWriteExt};
///
/// /// Adds up what is written.
/// #[derive(Default)]
/// struct Sum(u64);
///
/// impl AsyncWrite for Sum {
///     fn poll_write(
///         mut self: Pin<&mut Self>,
///         _cx: &mut Context<'_>,
///         buf: &[u8],
///     ) -> Poll<io::Result<usize>> {
///         self.0 += buf.iter().map(|&byte| u64::from(byte)).sum::<u64>();
///         Poll::Ready(Ok(buf.len()))
///     }
///
///     fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
///         Poll::Ready(Ok(()))
///     }
///
///     fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
///         Poll::Ready(Ok(()))
///     }
/// }
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut sum = Sum::default();
/// sum.write_all(&[1, 2, 3]).await?;
/// assert_eq!(sum.0, 6);
/// # Ok(())
/// # }
/// ```
pub trait AsyncWrite {
    /// Attempts to write some of `buf`, and returns how many bytes.
    ///
    /// Returns:
    ///
    /// * `Poll::Ready(Ok(n))` when the first `n` bytes of `buf` were written. Zero,
    ///   if `buf` is not empty, means that the sink accepts nothing more.
    /// * `Poll::Pending` when the sink cannot accept bytes yet. Nothing was written,
    ///   and the task of `cx` is woken when it should try again.
    /// * `Poll::Ready(Err(error))` when the sink failed. Nothing was written.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::io::AsyncWrite;
    ///
    /// let mut writer = Vec::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let polled = Pin::new(&mut writer).poll_write(&mut cx, b"hello");
    /// assert!(matches!(polled, Poll::Ready(Ok(5))));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the sink, such as that of `write(2)`.
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>>;

    /// Attempts to send all bytes that the sink still holds back.
    ///
    /// Returns `Poll::Pending` while some are left; the task of `cx` is woken when
    /// it should try again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Waker};
    /// use blitzen::io::{AsyncWrite, BufWriter};
    ///
    /// let mut writer = BufWriter::new(Vec::new());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(Pin::new(&mut writer).poll_write(&mut cx, b"hello").is_ready());
    /// assert!(Pin::new(&mut writer).poll_flush(&mut cx).is_ready());
    /// assert_eq!(writer.get_ref(), b"hello");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the sink, such as that of `write(2)`.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Attempts to flush the sink and to close it for writing.
    ///
    /// A socket closes its sending direction, a TLS stream sends its closing
    /// message first. After `Poll::Ready(Ok(()))` nothing may be written.
    ///
    /// Returns `Poll::Pending` until that is done; the task of `cx` is woken when it
    /// should try again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Waker};
    /// use blitzen::io::AsyncWrite;
    ///
    /// let (mut client, _server) = blitzen::io::duplex(8);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(Pin::new(&mut client).poll_shutdown(&mut cx).is_ready());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the sink, such as that of `shutdown(2)`.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Attempts to write some of `bufs`, one after another, and returns how many
    /// bytes.
    ///
    /// This is [`poll_write`](Self::poll_write) for several buffers. The default
    /// implementation writes the first buffer that is not empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::IoSlice;
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::io::AsyncWrite;
    ///
    /// let mut writer = Vec::new();
    /// let bufs = [IoSlice::new(b"ab"), IoSlice::new(b"cd")];
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let polled = Pin::new(&mut writer).poll_write_vectored(&mut cx, &bufs);
    /// assert!(matches!(polled, Poll::Ready(Ok(4))));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the sink, such as that of `writev(2)`.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.poll_write(cx, first.map_or(&[], |buf| &**buf))
    }

    /// Returns whether [`poll_write_vectored`](Self::poll_write_vectored) is
    /// cheaper than one write of all buffers copied together.
    ///
    /// The default implementation returns `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::AsyncWrite;
    ///
    /// assert!(Vec::new().is_write_vectored());
    /// ```
    fn is_write_vectored(&self) -> bool {
        false
    }
}

/// Returns how many bytes the buffers hold together.
pub(crate) fn total_len(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter()
        .fold(0, |sum: usize, buf| sum.saturating_add(buf.len()))
}

/// Implements the five methods by what `$this => $inner` makes of `self`.
macro_rules! delegate_write {
    ($this:ident => $inner:expr, $shared:ident => $inner_ref:expr) => {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let $this = self;
            $inner.poll_write(cx, buf)
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let $this = self;
            $inner.poll_write_vectored(cx, bufs)
        }

        fn is_write_vectored(&self) -> bool {
            let $shared = self;
            $inner_ref.is_write_vectored()
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let $this = self;
            $inner.poll_flush(cx)
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let $this = self;
            $inner.poll_shutdown(cx)
        }
    };
}

pub(crate) use delegate_write;

impl<T: ?Sized + AsyncWrite + Unpin> AsyncWrite for Box<T> {
    delegate_write!(this => Pin::new(&mut **this.get_mut()), this => (**this));
}

impl<T: ?Sized + AsyncWrite + Unpin> AsyncWrite for &mut T {
    delegate_write!(this => Pin::new(&mut **this.get_mut()), this => (**this));
}

impl<P> AsyncWrite for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncWrite,
{
    delegate_write!(this => this.as_deref_mut(), this => (**this));
}

/// Implements the trait for sinks in memory, whose `Write` never blocks.
macro_rules! write_at_once {
    ($($sink:ty),*) => {$(
        impl AsyncWrite for $sink {
            fn poll_write(
                mut self: Pin<&mut Self>,
                _cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(Write::write(&mut *self, buf))
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                _cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(Write::write_vectored(&mut *self, bufs))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Write::flush(&mut *self))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }
    )*};
}

write_at_once!(
    Vec<u8>,
    Cursor<&mut [u8]>,
    Cursor<&mut Vec<u8>>,
    Cursor<Vec<u8>>,
    Cursor<Box<[u8]>>
);
