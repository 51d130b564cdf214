//! The socket of a stream, in either mode.
//!
//! Readiness is [`PollEvented`]; completion is a [`CompletionStream`], which exists
//! only where there is an io_uring. Each has the same methods under the same names.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_io::owned::{IoBuf, IoBufMut};
use bytes::BufMut;
use mio::event::Source;

use super::completion::{CompletionStream, RingSocket, require_ring};
use super::into_std::Kept;
use super::mode::SocketMode;
use super::raw::MioSocket;
use super::small_writes::write_small_at_once;
use crate::io::{Interest, PollEvented, ReadBuf, Ready};
use crate::runtime::Inner;
use crate::runtime::io::{current, socket_mode};

/// Readiness, with the methods that a completion stream has too.
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

    /// Returns `None`: no bytes are buffered.
    pub(crate) fn late_error(&self) -> Option<io::Error> {
        None
    }
}

/// The socket of a stream.
pub(crate) enum StreamIo<S: Source + RingSocket> {
    Readiness(PollEvented<S>),
    /// By completion, or moved from there to readiness.
    Completion(Box<CompletionStream<S>>),
}

impl<S: Source + RingSocket> std::panic::UnwindSafe for StreamIo<S> {}
impl<S: Source + RingSocket> std::panic::RefUnwindSafe for StreamIo<S> {}

impl<S: Source + RingSocket> StreamIo<S> {
    /// Creates a connection in the mode of the current runtime.
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
            _ => {
                let runtime = current();
                match require_ring(&runtime) {
                    Ok(available) => {
                        let stream = CompletionStream::new(socket, initially, &runtime, available);
                        return Ok(Self::Completion(Box::new(stream)));
                    }
                    Err(_) if mode == SocketMode::PreferCompletion => socket,
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(Self::Readiness(PollEvented::stream(socket, initially)?))
    }

    /// Creates a connection that is being established, which only readiness can
    /// report.
    #[track_caller]
    pub(crate) fn connecting(socket: S) -> io::Result<Self> {
        Self::with_mode(socket, Ready::EMPTY, SocketMode::Readiness)
    }

    pub(crate) fn mode(&self) -> SocketMode {
        match self {
            Self::Completion(stream) if !stream.has_moved() => SocketMode::Completion,
            _ => SocketMode::Readiness,
        }
    }

    /// Changes the mode; leaves everything as it was if that fails.
    pub(crate) fn set_mode(&mut self, mode: SocketMode, runtime: &Arc<Inner>) -> io::Result<()> {
        match self {
            Self::Readiness(_) if mode == SocketMode::Readiness => Ok(()),
            Self::Readiness(evented) => {
                let available = match require_ring(runtime) {
                    Err(_) if mode == SocketMode::PreferCompletion => return Ok(()),
                    available => available?,
                };
                // From here on nothing fails.
                let (socket, initially) = (evented.take(), Ready::WRITABLE);
                let stream = CompletionStream::new(socket, initially, runtime, available);
                *self = Self::Completion(Box::new(stream));
                Ok(())
            }
            Self::Completion(stream) => match mode {
                SocketMode::Readiness => stream.move_to_readiness(),
                SocketMode::Completion if stream.has_moved() => Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the stream has moved to readiness, since its readiness or its descriptor was \
                     asked for, and cannot go back to completion",
                )),
                _ => Ok(()),
            },
        }
    }

    /// Returns the socket; or itself, if bytes would be lost.
    pub(crate) fn into_inner(self) -> Result<S, Kept<Self>> {
        match self {
            Self::Readiness(evented) => evented.into_inner().map_err(|error| (None, error)),
            Self::Completion(stream) => stream
                .into_socket()
                .map_err(|(stream, error)| (stream.map(Self::Completion), error)),
        }
    }

    /// Returns the descriptor, and moves the stream to readiness.
    #[cfg(unix)]
    pub(crate) fn as_raw_fd(&self) -> std::os::fd::RawFd
    where
        S: std::os::fd::AsRawFd,
    {
        match self {
            Self::Readiness(evented) => (**evented).as_raw_fd(),
            Self::Completion(stream) => stream.expose().as_raw_fd(),
        }
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Readiness(evented) => evented.ready(interest).await,
            Self::Completion(stream) => stream.ready(interest).await,
        }
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Readiness(evented) => evented.poll_read_ready(cx),
            Self::Completion(stream) => stream.poll_read_ready(cx),
        }
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Readiness(evented) => evented.poll_write_ready(cx),
            Self::Completion(stream) => stream.poll_write_ready(cx),
        }
    }

    pub(crate) fn attempt<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Self::Readiness(evented) => evented.attempt(interest, operation),
            Self::Completion(stream) => stream.attempt(interest, operation),
        }
    }

    pub(crate) async fn attempts<R>(
        &self,
        interest: Interest,
        operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        match self {
            Self::Readiness(evented) => evented.attempts(interest, operation).await,
            Self::Completion(stream) => stream.attempts(interest, operation).await,
        }
    }

    /// Takes the error of buffered bytes that could not be sent.
    pub(crate) fn late_error(&self) -> Option<io::Error> {
        match self {
            Self::Readiness(_) => None,
            Self::Completion(stream) => stream.take_send_error(),
        }
    }

    /// Passes everything that was written to the kernel.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Readiness(_) => Poll::Ready(Ok(())), // the kernel has it
            Self::Completion(stream) => stream.poll_flush(cx),
        }
    }

    /// Shuts down the sending direction: by readiness with `now`, by completion
    /// after buffered bytes.
    pub(crate) fn shutdown_write(&self, now: impl FnOnce(&S) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Readiness(evented) => now(evented),
            Self::Completion(stream) => stream.shutdown_write(),
        }
    }

    pub(crate) fn poll_shutdown_write(
        &self,
        cx: &mut Context<'_>,
        now: impl FnOnce(&S) -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Readiness(evented) => Poll::Ready(now(evented)),
            Self::Completion(stream) => stream.poll_shutdown(cx),
        }
    }
}

impl<S: MioSocket + RingSocket> StreamIo<S>
where
    for<'a> &'a S: Read + Write,
{
    /// Reads. `is_plain` says that a read that does not fill `buf` has emptied the
    /// socket.
    #[inline]
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        is_plain: bool,
    ) -> Poll<io::Result<()>> {
        let read = match self {
            Self::Readiness(evented) if is_plain => {
                let registration = evented.registration();
                registration.poll_read_stream(cx, buf.remaining(), || evented.recv(buf))
            }
            Self::Readiness(evented) => evented
                .registration()
                .poll_read_io(cx, || evented.recv(buf)),
            Self::Completion(stream) => return stream.poll_read(cx, buf, is_plain),
        };
        read.map(|read| read.map(drop))
    }

    pub(crate) fn poll_peek<B: BufMut + ?Sized>(
        &self,
        cx: &mut Context<'_>,
        buf: &mut B,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Readiness(evented) => evented
                .registration()
                .poll_read_io(cx, || evented.peek(buf)),
            Self::Completion(stream) => stream.poll_peek(cx, buf),
        }
    }

    pub(crate) async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Readiness(evented) => {
                let peek = || evented.peek(&mut &mut *buf);
                evented.attempts(Interest::READABLE, peek).await
            }
            Self::Completion(stream) => stream.peek(buf).await,
        }
    }

    #[inline]
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Readiness(evented) => {
                let registration = evented.registration();
                registration.poll_write_stream(cx, buf.len(), || (&**evented).write(buf))
            }
            Self::Completion(stream) => stream.poll_write(cx, &[IoSlice::new(buf)]),
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
            Self::Readiness(evented) => evented
                .registration()
                .poll_write_io(cx, || write_small_at_once(&**evented, bufs)),
            Self::Completion(stream) => stream.poll_write(cx, bufs),
        }
    }

    pub(crate) fn try_read(&self, mut buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Readiness(evented) => {
                evented.attempt(Interest::READABLE, || (&**evented).read(buf))
            }
            Self::Completion(stream) => stream.try_read(&mut buf),
        }
    }

    pub(crate) fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Readiness(evented) => {
                evented.attempt(Interest::READABLE, || (&**evented).read_vectored(bufs))
            }
            Self::Completion(stream) => stream.try_read_vectored(bufs),
        }
    }

    pub(crate) fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        match self {
            Self::Readiness(evented) => evented.attempt(Interest::READABLE, || evented.recv(buf)),
            Self::Completion(stream) => stream.try_read(buf),
        }
    }

    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Readiness(evented) => {
                evented.attempt(Interest::WRITABLE, || (&**evented).write(buf))
            }
            Self::Completion(stream) => stream.try_write(&[IoSlice::new(buf)]),
        }
    }

    pub(crate) fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Readiness(evented) => {
                evented.attempt(Interest::WRITABLE, || write_small_at_once(&**evented, bufs))
            }
            Self::Completion(stream) => stream.try_write(bufs),
        }
    }

    pub(crate) async fn read_owned<B: IoBufMut>(&self, mut buf: B) -> (io::Result<usize>, B) {
        match self {
            Self::Readiness(evented) => {
                let recv = || {
                    let total = buf.total_len();
                    // SAFETY: the buffer's own bytes, borrowed for this call, into
                    // which only initialised ones are written.
                    let room = unsafe {
                        let start = buf.stable_mut_ptr().cast();
                        std::slice::from_raw_parts_mut(start, total)
                    };
                    evented.recv(&mut ReadBuf::uninit(room))
                };
                let result = evented.attempts(Interest::READABLE, recv).await;
                if let Ok(count) = result {
                    // SAFETY: that many have been filled.
                    unsafe { buf.set_init(count) };
                }
                (result, buf)
            }
            Self::Completion(stream) => stream.read_owned(buf).await,
        }
    }

    pub(crate) async fn write_owned<B: IoBuf + Send>(
        &self,
        buf: B,
        zero_copy: bool,
    ) -> (io::Result<usize>, B) {
        match self {
            Self::Readiness(evented) => {
                let send = || (&**evented).write(buf.as_init());
                let result = evented.attempts(Interest::WRITABLE, send).await;
                (result, buf)
            }
            Self::Completion(stream) => stream.write_owned(buf, zero_copy).await,
        }
    }
}

impl<S: Source + RingSocket> Deref for StreamIo<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        match self {
            Self::Readiness(evented) => evented,
            Self::Completion(stream) => stream.socket(),
        }
    }
}

impl<S: Source + RingSocket + fmt::Debug> fmt::Debug for StreamIo<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
