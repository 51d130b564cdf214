//! `read_to_string`.

use std::future::Future;
use std::io;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::read_line::Utf8Appender;
use super::read_to_end::ReadToEndState;
use crate::AsyncRead;

pin_project! {
    /// The future of [`AsyncReadExt::read_to_string`](crate::AsyncReadExt::read_to_string).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadToString<'a, R: ?Sized> {
        reader: &'a mut R,
        appender: Utf8Appender<'a>,
        state: ReadToEndState,
        #[pin]
        _pin: PhantomPinned,
    }
}

pub(super) fn read_to_string<'a, R>(
    reader: &'a mut R,
    string: &'a mut String,
) -> ReadToString<'a, R>
where
    R: AsyncRead + Unpin + ?Sized,
{
    let appender = Utf8Appender::of(string);
    ReadToString {
        reader,
        state: ReadToEndState::of(&appender.bytes),
        appender,
        _pin: PhantomPinned,
    }
}

impl<R: AsyncRead + Unpin + ?Sized> Future for ReadToString<'_, R> {
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let reader = Pin::new(&mut **this.reader);
        match ready!(
            this.state
                .poll_read_to_end(&mut this.appender.bytes, reader, cx)
        ) {
            Ok(()) => Poll::Ready(this.appender.commit()),
            Err(error) => {
                this.appender.roll_back();
                Poll::Ready(Err(error))
            }
        }
    }
}
