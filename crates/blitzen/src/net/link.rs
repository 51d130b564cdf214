//! The socket of a stream, in either mode.
//!
//! Readiness is [`PollEvented`]; completion is a [`Line`], which exists only where
//! there is an io_uring. Each has the same methods under the same
//! names.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_io::owned::{IoBuf, IoBufMut};
use bytes::BufMut;
use mio::event::Source;

use super::completion::{Line, Wired};
use super::into_std::Kept;
use super::mode::SocketMode;
use super::raw::MioSocket;
use crate::io::{BOTH, Interest, PollEvented, ReadBuf, Ready};
use crate::runtime::Inner;
use crate::runtime::io::{current, socket_mode};

/// Readiness by names that a completion can have too.
impl<S: Source> PollEvented<S> {
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        Ok(self.registration().readiness(interest).await?.ready())
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.registration().poll_read_ready(cx);
        ready.map(|ready| ready.map(drop))
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.registration().poll_write_ready(cx);
        ready.map(|ready| ready.map(drop))
    }

    pub(crate) fn attempt<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        self.registration().try_io(interest, operation)
    }

    pub(crate) async fn attempts<R>(
        &self,
        interest: Interest,
        operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        self.registration().async_io(interest, operation).await
    }

    /// An error of something that was taken over to be sent: nothing is.
    pub(crate) fn late_error(&self) -> Option<io::Error> {
        None
    }
}

/// What a stream is made of.
pub(crate) enum Link<S: Source + Wired> {
    Ready(PollEvented<S>),
    Line(Box<Line<S>>),
    /// On the way from one to the other.
    Moving,
}

impl<S: Source + Wired> std::panic::UnwindSafe for Link<S> {}
impl<S: Source + Wired> std::panic::RefUnwindSafe for Link<S> {}

impl<S: Source + Wired> Link<S> {
    /// A connection, in the mode of the current runtime.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub(crate) fn new(socket: S, initially: Ready) -> io::Result<Self> {
        Self::with_mode(socket, initially, socket_mode())
    }

    #[track_caller]
    pub(crate) fn with_mode(socket: S, initially: Ready, mode: SocketMode) -> io::Result<Self> {
        let socket = match mode {
            SocketMode::Readiness => socket,
            _ => match Line::new(socket, initially, &current()) {
                Ok(line) => return Ok(Self::Line(Box::new(line))),
                Err((socket, _)) if mode == SocketMode::PreferCompletion => socket,
                Err((_, error)) => return Err(error),
            },
        };
        Ok(Self::Ready(PollEvented::stream(socket, initially)?))
    }

    /// A connection that is being made, which only readiness can tell.
    #[track_caller]
    pub(crate) fn connecting(socket: S) -> io::Result<Self> {
        Self::with_mode(socket, Ready::EMPTY, SocketMode::Readiness)
    }

    pub(crate) fn mode(&self) -> SocketMode {
        match self {
            Self::Line(_) => SocketMode::Completion,
            _ => SocketMode::Readiness,
        }
    }

    /// Changes the mode; leaves everything as it was if that cannot be.
    pub(crate) fn set_mode(&mut self, mode: SocketMode, runtime: &Arc<Inner>) -> io::Result<()> {
        let has_line = matches!(self, Self::Line(_));
        if has_line == (mode != SocketMode::Readiness) {
            return Ok(());
        }
        if let Self::Line(line) = self {
            line.detach()?; // refuses if bytes would be lost
        }
        match std::mem::replace(self, Self::Moving) {
            Self::Ready(evented) => {
                match Line::new(evented.into_inner()?, Ready::WRITABLE, runtime) {
                    Ok(line) => *self = Self::Line(Box::new(line)),
                    Err((socket, error)) => {
                        *self =
                            Self::Ready(PollEvented::new_in(socket, BOTH, Ready::EMPTY, runtime)?);
                        if mode == SocketMode::Completion {
                            return Err(error);
                        }
                    }
                }
            }
            Self::Line(line) => {
                let socket = line.into_socket()?;
                *self = Self::Ready(PollEvented::new_in(socket, BOTH, Ready::EMPTY, runtime)?);
            }
            Self::Moving => {}
        }
        Ok(())
    }

    /// Gives the socket back; or itself, if something would be lost.
    pub(crate) fn into_inner(self) -> Result<S, Kept<Self>> {
        let socket = match self {
            Self::Ready(evented) => evented.into_inner(),
            Self::Line(mut line) => match line.detach() {
                Ok(()) => line.into_socket(),
                Err(error) => return Err((Some(Self::Line(line)), error)),
            },
            Self::Moving => Err(moving()),
        };
        socket.map_err(|error| (None, error))
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Ready(evented) => evented.ready(interest).await,
            Self::Line(line) => line.ready(interest).await,
            Self::Moving => Err(moving()),
        }
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Ready(evented) => evented.poll_read_ready(cx),
            Self::Line(line) => line.poll_read_ready(cx),
            Self::Moving => Poll::Ready(Err(moving())),
        }
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Ready(evented) => evented.poll_write_ready(cx),
            Self::Line(line) => line.poll_write_ready(cx),
            Self::Moving => Poll::Ready(Err(moving())),
        }
    }

    pub(crate) fn attempt<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Self::Ready(evented) => evented.attempt(interest, operation),
            Self::Line(line) => line.attempt(interest, operation),
            Self::Moving => Err(moving()),
        }
    }

    pub(crate) async fn attempts<R>(
        &self,
        interest: Interest,
        operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Self::Ready(evented) => evented.attempts(interest, operation).await,
            Self::Line(line) => line.attempts(interest, operation).await,
            Self::Moving => Err(moving()),
        }
    }

    /// An error of something that was taken over to be sent.
    pub(crate) fn late_error(&self) -> Option<io::Error> {
        match self {
            Self::Line(line) => line.take_error(),
            _ => None,
        }
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        match self {
            Self::Line(line) => line.flush(),
            _ => Ok(()), // the kernel has it
        }
    }

    /// Ends the direction that is written, after what was taken over; `now`
    /// does so if nothing was.
    pub(crate) fn end(&self, now: impl FnOnce(&S) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Line(line) => line.end(),
            _ => now(self),
        }
    }

    pub(crate) fn poll_end(
        &self,
        cx: &mut Context<'_>,
        now: impl FnOnce(&S) -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Line(line) => line.poll_shutdown(cx),
            _ => Poll::Ready(now(self)),
        }
    }
}

impl<S: MioSocket + Wired> Link<S>
where
    for<'a> &'a S: Read + Write,
{
    /// Reads; `is_plain` if a read that does not fill the room has emptied the
    /// socket.
    #[inline]
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        is_plain: bool,
    ) -> Poll<io::Result<()>> {
        let read = match self {
            Self::Ready(evented) if is_plain => {
                let registration = evented.registration();
                registration.poll_read_stream(cx, buf.remaining(), || evented.recv(buf))
            }
            Self::Ready(evented) => evented
                .registration()
                .poll_read_io(cx, || evented.recv(buf)),
            Self::Line(line) => return line.poll_read(cx, buf),
            Self::Moving => Poll::Ready(Err(moving())),
        };
        read.map(|read| read.map(drop))
    }

    pub(crate) fn poll_peek<B: BufMut + ?Sized>(
        &self,
        cx: &mut Context<'_>,
        buf: &mut B,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Ready(evented) => evented
                .registration()
                .poll_read_io(cx, || evented.peek(buf)),
            Self::Line(line) => line.poll_peek(cx, buf),
            Self::Moving => Poll::Ready(Err(moving())),
        }
    }

    pub(crate) async fn peek(&self, mut buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Ready(evented) => {
                let peek = || evented.peek(&mut &mut *buf);
                evented
                    .registration()
                    .async_io(Interest::READABLE, peek)
                    .await
            }
            _ => std::future::poll_fn(|cx| self.poll_peek(cx, &mut buf)).await,
        }
    }

    #[inline]
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Ready(evented) => {
                let registration = evented.registration();
                registration.poll_write_stream(cx, buf.len(), || (&**evented).write(buf))
            }
            Self::Line(line) => line.poll_write(cx, &[IoSlice::new(buf)]),
            Self::Moving => Poll::Ready(Err(moving())),
        }
    }

    pub(crate) fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            // Not as a stream's: more buffers than the system takes at once
            // make a short write that has not filled the socket.
            Self::Ready(evented) => evented
                .registration()
                .poll_write_io(cx, || (&**evented).write_vectored(bufs)),
            Self::Line(line) => line.poll_write(cx, bufs),
            Self::Moving => Poll::Ready(Err(moving())),
        }
    }

    pub(crate) fn try_read(&self, mut buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Ready(evented) => evented.attempt(Interest::READABLE, || (&**evented).read(buf)),
            Self::Line(line) => line.try_read(&mut buf),
            Self::Moving => Err(moving()),
        }
    }

    pub(crate) fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Ready(evented) => {
                evented.attempt(Interest::READABLE, || (&**evented).read_vectored(bufs))
            }
            Self::Line(line) => line.try_read_vectored(bufs),
            Self::Moving => Err(moving()),
        }
    }

    pub(crate) fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        match self {
            Self::Ready(evented) => evented.attempt(Interest::READABLE, || evented.recv(buf)),
            Self::Line(line) => line.try_read(buf),
            Self::Moving => Err(moving()),
        }
    }

    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Ready(evented) => evented.attempt(Interest::WRITABLE, || (&**evented).write(buf)),
            Self::Line(line) => line.try_write(&[IoSlice::new(buf)]),
            Self::Moving => Err(moving()),
        }
    }

    pub(crate) fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Ready(evented) => {
                evented.attempt(Interest::WRITABLE, || (&**evented).write_vectored(bufs))
            }
            Self::Line(line) => line.try_write(bufs),
            Self::Moving => Err(moving()),
        }
    }

    pub(crate) async fn read_owned<B: IoBufMut>(&self, mut buf: B) -> (io::Result<usize>, B) {
        match self {
            Self::Line(line) => line.read_owned(buf).await,
            _ => {
                let read = std::future::poll_fn(|cx| {
                    let total = buf.total_len();
                    // SAFETY: the buffer's own bytes, borrowed for this call,
                    // into which only initialised ones are written.
                    let room = unsafe {
                        let start = buf.stable_mut_ptr().cast();
                        std::slice::from_raw_parts_mut(start, total)
                    };
                    let mut room = ReadBuf::uninit(room);
                    let read = self.poll_read(cx, &mut room, false);
                    let count = room.filled().len();
                    read.map(|read| read.map(|()| count))
                });
                let result = read.await;
                if let Ok(count) = result {
                    // SAFETY: so many have been filled.
                    unsafe { buf.set_init(count) };
                }
                (result, buf)
            }
        }
    }

    pub(crate) async fn write_owned<B: IoBuf + Send>(
        &self,
        buf: B,
        zero_copy: bool,
    ) -> (io::Result<usize>, B) {
        match self {
            Self::Line(line) => line.write_owned(buf, zero_copy).await,
            _ => {
                let write = std::future::poll_fn(|cx| self.poll_write(cx, buf.as_init()));
                let result = write.await;
                (result, buf)
            }
        }
    }
}

impl<S: Source + Wired> Deref for Link<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        match self {
            Self::Ready(evented) => evented,
            Self::Line(line) => line.socket(),
            Self::Moving => panic!("{}", moving()),
        }
    }
}

impl<S: Source + Wired + fmt::Debug> fmt::Debug for Link<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moving => f.write_str("Moving"),
            _ => (**self).fmt(f),
        }
    }
}

/// A socket whose change of mode was broken off by an error of the system.
fn moving() -> io::Error {
    io::Error::other("the socket was lost when its mode was changed")
}
