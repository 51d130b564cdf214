//! The methods of every stream with a position.

use std::future::Future;
use std::io::{self, SeekFrom};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::AsyncSeek;

/// The methods of every [`AsyncSeek`].
///
/// # Examples
///
/// ```
/// use std::io::{Cursor, SeekFrom};
/// use blitzen::io::{AsyncReadExt, AsyncSeekExt};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut cursor = Cursor::new(b"abcdef");
/// assert_eq!(cursor.seek(SeekFrom::Start(3)).await?, 3);
/// assert_eq!(cursor.read_u8().await?, b'd');
/// assert_eq!(cursor.stream_position().await?, 4);
/// # Ok(())
/// # }
/// ```
pub trait AsyncSeekExt: AsyncSeek {
    /// Moves to `pos`, and returns the new position, counted from the start.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Cursor, SeekFrom};
    /// use blitzen::io::AsyncSeekExt;
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut cursor = Cursor::new(b"abcdef");
    /// assert_eq!(cursor.seek(SeekFrom::End(-1)).await?, 5);
    /// assert!(cursor.seek(SeekFrom::Current(-6)).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the stream may have moved or not.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](std::io::ErrorKind::InvalidInput) if `pos` lies before
    /// the start, or the error of the stream, such as that of `lseek(2)`.
    fn seek(&mut self, pos: SeekFrom) -> Seek<'_, Self>
    where
        Self: Unpin,
    {
        Seek {
            stream: self,
            wanted: Some(pos),
            _pin: PhantomPinned,
        }
    }

    /// Moves to the start, and returns that position, which is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    /// use blitzen::io::{AsyncReadExt, AsyncSeekExt};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut cursor = Cursor::new(b"abc");
    /// cursor.read_u16().await?;
    /// assert_eq!(cursor.rewind().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the stream, such as that of `lseek(2)`.
    fn rewind(&mut self) -> Seek<'_, Self>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Start(0))
    }

    /// Returns the position, counted from the start.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Cursor;
    /// use blitzen::io::{AsyncReadExt, AsyncSeekExt};
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut cursor = Cursor::new(b"abc");
    /// cursor.read_u16().await?;
    /// assert_eq!(cursor.stream_position().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the stream, such as that of `lseek(2)`.
    fn stream_position(&mut self) -> Seek<'_, Self>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Current(0))
    }
}

impl<S: AsyncSeek + ?Sized> AsyncSeekExt for S {}

pin_project! {
    /// The future of [`AsyncSeekExt::seek`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Seek<'a, S: ?Sized> {
        stream: &'a mut S,
        // Gone once the seek has been started.
        wanted: Option<SeekFrom>,
        #[pin]
        _pin: PhantomPinned,
    }
}

impl<S: AsyncSeek + Unpin + ?Sized> Future for Seek<'_, S> {
    type Output = io::Result<u64>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut stream = Pin::new(&mut **this.stream);
        if let Some(position) = *this.wanted {
            // An operation that was given up halfway has to end first.
            ready!(stream.as_mut().poll_complete(cx))?;
            stream.as_mut().start_seek(position)?;
            *this.wanted = None;
        }
        stream.poll_complete(cx)
    }
}
