//! The trait of streams with a position.

use std::io::{self, Cursor, Seek, SeekFrom};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A stream with a position that can be moved.
///
/// A seek has two steps: [`start_seek`](Self::start_seek) begins it, and
/// [`poll_complete`](Self::poll_complete) waits until it is done.
/// [`AsyncSeekExt::seek`](crate::AsyncSeekExt::seek) does both.
///
/// # Examples
///
/// ```
/// use std::io::{Cursor, SeekFrom};
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// use blitzen::io::AsyncSeek;
///
/// let mut cursor = Cursor::new(b"abcdef");
/// let mut cx = Context::from_waker(Waker::noop());
/// Pin::new(&mut cursor).start_seek(SeekFrom::End(-2))?;
/// let Poll::Ready(Ok(4)) = Pin::new(&mut cursor).poll_complete(&mut cx) else { panic!() };
/// # std::io::Result::Ok(())
/// ```
pub trait AsyncSeek {
    /// Begins to move to `position`.
    ///
    /// A position beyond the end is allowed. Call
    /// [`poll_complete`](Self::poll_complete) to wait until the stream has moved.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Cursor, SeekFrom};
    /// use std::pin::Pin;
    /// use blitzen::io::AsyncSeek;
    ///
    /// let mut cursor = Cursor::new(b"abcdef");
    /// Pin::new(&mut cursor).start_seek(SeekFrom::Start(2))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](io::ErrorKind::InvalidInput) if `position` lies
    /// before the start. A stream that is still busy with an earlier operation may
    /// return [`Other`](io::ErrorKind::Other): call
    /// [`poll_complete`](Self::poll_complete) first.
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()>;

    /// Attempts to complete a seek, and returns the new position, counted from the
    /// start.
    ///
    /// If no seek was started, it returns the last position that the stream knows.
    /// Returns `Poll::Pending` while the stream is busy; the task of `cx` is woken
    /// when it should try again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Cursor, SeekFrom};
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker};
    /// use blitzen::io::AsyncSeek;
    ///
    /// let mut cursor = Cursor::new(b"abcdef");
    /// let mut cx = Context::from_waker(Waker::noop());
    /// Pin::new(&mut cursor).start_seek(SeekFrom::Start(2))?;
    /// let polled = Pin::new(&mut cursor).poll_complete(&mut cx);
    /// assert!(matches!(polled, Poll::Ready(Ok(2))));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the stream, such as that of `lseek(2)`.
    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>>;
}

impl<T: ?Sized + AsyncSeek + Unpin> AsyncSeek for Box<T> {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        Pin::new(&mut **self).start_seek(position)
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut **self).poll_complete(cx)
    }
}

impl<T: ?Sized + AsyncSeek + Unpin> AsyncSeek for &mut T {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        Pin::new(&mut **self).start_seek(position)
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut **self).poll_complete(cx)
    }
}

impl<P> AsyncSeek for Pin<P>
where
    P: DerefMut,
    P::Target: AsyncSeek,
{
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.as_deref_mut().start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.as_deref_mut().poll_complete(cx)
    }
}

impl<T: AsRef<[u8]> + Unpin> AsyncSeek for Cursor<T> {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        Seek::seek(&mut *self, position).map(drop)
    }

    fn poll_complete(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.position()))
    }
}
