//! Moving within a source or a sink.

use std::io::{self, Cursor, Seek, SeekFrom};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A stream with a position that can be moved.
///
/// A seek has two halves, so that one call need not be repeated with the same
/// arguments until it is through: [`start_seek`](Self::start_seek) says where
/// to go, [`poll_complete`](Self::poll_complete) waits until the stream is
/// there. [`AsyncSeekExt::seek`](crate::AsyncSeekExt::seek) does both.
///
/// ```
/// use std::io::{Cursor, SeekFrom};
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// use blitzen_io::AsyncSeek;
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
    /// A stream that is still busy with an earlier operation may answer with
    /// an error: wait with [`poll_complete`](Self::poll_complete) first. A
    /// position before the start is an error; beyond the end it is allowed.
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()>;

    /// Waits until the seek is through, and returns the new position from the
    /// start.
    ///
    /// Without a seek under way it returns at once, or when the operation that
    /// is under way has ended; the position is then what the stream last knew.
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
