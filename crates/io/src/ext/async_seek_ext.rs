//! Moving within a stream, in one call.

use std::future::Future;
use std::io::{self, SeekFrom};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::AsyncSeek;

/// What every [`AsyncSeek`] can do.
///
/// ```
/// use std::io::{Cursor, SeekFrom};
/// use blitzen_io::{AsyncReadExt, AsyncSeekExt};
///
/// # futures::executor::block_on(async {
/// let mut cursor = Cursor::new(b"abcdef");
/// assert_eq!(cursor.seek(SeekFrom::Start(3)).await?, 3);
/// assert_eq!(cursor.read_u8().await?, b'd');
/// assert_eq!(cursor.stream_position().await?, 4);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub trait AsyncSeekExt: AsyncSeek {
    /// Moves to `pos`, and returns the new position from the start.
    ///
    /// # Errors
    /// A position before the start, and what the stream says.
    ///
    /// # Cancel safety
    /// The stream may or may not have moved when the future is dropped.
    ///
    /// ```
    /// # use std::io::{Cursor, SeekFrom};
    /// # use blitzen_io::AsyncSeekExt;
    /// # futures::executor::block_on(async {
    /// let mut cursor = Cursor::new(b"abcdef");
    /// assert_eq!(cursor.seek(SeekFrom::End(-1)).await?, 5);
    /// assert!(cursor.seek(SeekFrom::Current(-6)).await.is_err());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
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

    /// Moves to the start.
    ///
    /// ```
    /// # use std::io::Cursor;
    /// # use blitzen_io::{AsyncReadExt, AsyncSeekExt};
    /// # futures::executor::block_on(async {
    /// let mut cursor = Cursor::new(b"abc");
    /// cursor.read_u16().await?;
    /// assert_eq!(cursor.rewind().await?, 0);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn rewind(&mut self) -> Seek<'_, Self>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Start(0))
    }

    /// The position from the start.
    ///
    /// ```
    /// # use std::io::Cursor;
    /// # use blitzen_io::{AsyncReadExt, AsyncSeekExt};
    /// # futures::executor::block_on(async {
    /// let mut cursor = Cursor::new(b"abc");
    /// cursor.read_u16().await?;
    /// assert_eq!(cursor.stream_position().await?, 2);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    fn stream_position(&mut self) -> Seek<'_, Self>
    where
        Self: Unpin,
    {
        self.seek(SeekFrom::Current(0))
    }
}

impl<S: AsyncSeek + ?Sized> AsyncSeekExt for S {}

pin_project! {
    /// See [`AsyncSeekExt::seek`].
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
