//! Writing bytes.

use std::io::{self, Cursor, IoSlice, Write};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A sink of bytes.
///
/// This is what a stream implements; [`AsyncWriteExt`](crate::AsyncWriteExt)
/// is what its users call.
///
/// ```
/// use std::io;
/// use std::pin::Pin;
/// use std::task::{Context, Poll};
/// use blitzen_io::{AsyncWrite, AsyncWriteExt};
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
/// # futures::executor::block_on(async {
/// let mut sum = Sum::default();
/// sum.write_all(&[1, 2, 3]).await?;
/// assert_eq!(sum.0, 6);
/// # io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncWrite {
    /// Writes some of `buf`, and returns how much.
    ///
    /// `Ready(Ok(n))` takes the first `n` bytes, `n <= buf.len()`; zero, where
    /// `buf` is not empty, means that the sink takes nothing more. `Pending`
    /// means that nothing was taken and the task will be woken when it is worth
    /// trying again; so does an error, without the waking.
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>>;

    /// Sends on what was written and is still held back.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the writing: flushes, and tells the other side that no more comes.
    ///
    /// After `Ready(Ok(()))` nothing may be written. For a socket this closes
    /// the sending direction, for TLS it sends the closing message.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Like [`poll_write`](Self::poll_write), from several buffers in order.
    ///
    /// Unless implemented, writes the first one that is not empty.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.poll_write(cx, first.map_or(&[], |buf| &**buf))
    }

    /// Whether [`poll_write_vectored`](Self::poll_write_vectored) is better
    /// than gathering the buffers into one first.
    fn is_write_vectored(&self) -> bool {
        false
    }
}

/// How many bytes the buffers hold together.
pub(crate) fn total_len(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter()
        .fold(0, |sum: usize, buf| sum.saturating_add(buf.len()))
}

/// The five methods, each passed to what `$this => $inner` makes of `self`.
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

/// A sink in memory: its blocking form never blocks.
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
