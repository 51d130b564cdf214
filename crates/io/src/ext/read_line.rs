//! `read_line`, and how it appends bytes to a string.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::read_until::poll_read_until;
use crate::AsyncBufRead;

/// A string whose bytes are taken out while others, which need not be UTF-8, are
/// appended to them.
///
/// T1. The first `first_len` bytes are the string's own, and so are UTF-8.
/// T2. Every way to end it, `drop` included, puts UTF-8 back into the string.
#[derive(Debug)]
pub(super) struct Utf8Appender<'a> {
    string: &'a mut String,
    pub(super) bytes: Vec<u8>,
    first_len: usize,
    is_taken: bool,
}

impl<'a> Utf8Appender<'a> {
    pub(super) fn of(string: &'a mut String) -> Self {
        let bytes = std::mem::take(string).into_bytes();
        Self {
            string,
            first_len: bytes.len(),
            bytes,
            is_taken: true,
        }
    }

    /// Puts all bytes back, and returns how many are new. Restores the string if they
    /// are not UTF-8.
    pub(super) fn commit(&mut self) -> io::Result<usize> {
        let added = self.bytes.len() - self.first_len;
        if std::str::from_utf8(&self.bytes[self.first_len..]).is_ok() {
            // SAFETY: T1, and the rest was just checked.
            unsafe { self.restore() };
            return Ok(added);
        }
        // The error's positions count from the start of the string.
        let error = std::str::from_utf8(&self.bytes)
            .map(drop)
            .expect_err("its second part is not UTF-8");
        self.roll_back();
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Restores the string as it was.
    pub(super) fn roll_back(&mut self) {
        self.bytes.truncate(self.first_len);
        // SAFETY: T1.
        unsafe { self.restore() };
    }

    /// Makes the bytes a string again.
    ///
    /// # Safety
    ///
    /// The bytes must be UTF-8.
    unsafe fn restore(&mut self) {
        // SAFETY: the caller upholds the same contract.
        *self.string = unsafe { String::from_utf8_unchecked(std::mem::take(&mut self.bytes)) };
        self.first_len = 0;
        self.is_taken = false;
    }
}

impl Drop for Utf8Appender<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            // T2. Nobody is left to receive the error.
            let _ = self.commit();
        }
    }
}

pin_project! {
    /// The future of [`AsyncBufReadExt::read_line`](crate::AsyncBufReadExt::read_line).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadLine<'a, R: ?Sized> {
        reader: &'a mut R,
        appender: Utf8Appender<'a>,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read_line<'a, R>(reader: &'a mut R, string: &'a mut String) -> ReadLine<'a, R>
where
    R: AsyncBufRead + Unpin + ?Sized,
{
    ReadLine {
        reader,
        appender: Utf8Appender::of(string),
        _pin: PhantomPinned,
    }
}

impl<R: AsyncBufRead + Unpin + ?Sized> Future for ReadLine<'_, R> {
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let reader = Pin::new(&mut **this.reader);
        match ready!(poll_read_until(reader, cx, b'\n', &mut this.appender.bytes)) {
            Ok(_) => Poll::Ready(this.appender.commit()),
            Err(error) => {
                // Keeps what came before the error if it is UTF-8. If it is not,
                // the reader's error is the one that matters.
                let _ = this.appender.commit();
                Poll::Ready(Err(error))
            }
        }
    }
}
