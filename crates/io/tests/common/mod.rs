//! A stream that is in no hurry: it waits, is interrupted and moves few bytes
//! at a time, as its script says.

#![allow(dead_code, reason = "each test uses its part")]

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf, SeekFrom};
use proptest::prelude::*;

/// What the next operation meets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Wait,
    Interrupted,
    AtMost(usize),
}

/// Scripts that let something through in the end.
pub(crate) fn scripts() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Wait),
        1 => Just(Step::Interrupted),
        4 => (1..9_usize).prop_map(Step::AtMost),
    ];
    prop::collection::vec(step, 0..12).prop_map(|mut steps| {
        steps.push(Step::AtMost(64));
        steps
    })
}

/// The same without interruptions, for operations that report them.
pub(crate) fn calm_scripts() -> impl Strategy<Value = Vec<Step>> {
    scripts().prop_map(|mut steps| {
        steps.retain(|step| !matches!(step, Step::Interrupted));
        steps
    })
}

/// A stream under a script, which starts again at its end.
pub(crate) struct Jumpy<T> {
    pub(crate) inner: T,
    script: Vec<Step>,
    next: usize,
}

impl<T> Jumpy<T> {
    pub(crate) fn new(inner: T, script: Vec<Step>) -> Self {
        Self {
            inner,
            script,
            next: 0,
        }
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let step = self.script[self.next % self.script.len()];
        self.next += 1;
        match step {
            Step::Wait => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Step::Interrupted => Poll::Ready(Err(io::ErrorKind::Interrupted.into())),
            Step::AtMost(limit) => Poll::Ready(Ok(limit)),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Jumpy<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let limit = ready!(self.poll_step(cx))?.min(buf.remaining());
        let mut storage = vec![0; limit];
        let mut part = ReadBuf::new(&mut storage);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part))?;
        buf.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncBufRead + Unpin> AsyncBufRead for Jumpy<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        let limit = ready!(this.poll_step(cx))?;
        let bytes = ready!(Pin::new(&mut this.inner).poll_fill_buf(cx))?;
        Poll::Ready(Ok(&bytes[..bytes.len().min(limit)]))
    }

    fn consume(mut self: Pin<&mut Self>, amt: usize) {
        Pin::new(&mut self.inner).consume(amt);
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Jumpy<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let limit = ready!(self.poll_step(cx))?.min(buf.len());
        Pin::new(&mut self.inner).poll_write(cx, &buf[..limit])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<T: AsyncSeek + Unpin> AsyncSeek for Jumpy<T> {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        Pin::new(&mut self.inner).start_seek(position)
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        // A seek waits at most; it is not interrupted.
        if matches!(self.poll_step(cx), Poll::Pending) {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_complete(cx)
    }
}
