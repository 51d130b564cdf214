//! Two connected streams in memory.

use std::fmt;
use std::io::{self, IoSlice};
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use blitzen_util::coop;
use blitzen_util::shim::{Arc, Mutex};
use blitzen_util::wait::{self, WaitKind};
use blitzen_util::wake_batch::WakeBatch;

use crate::pipe::{DeferredWake, Pipe, slices};
use crate::{AsyncRead, AsyncWrite, ReadBuf};

/// One end of a pair of connected streams in memory, created by [`duplex`].
///
/// Dropping one end closes both directions. The other end can still read what was
/// written before; its writes fail with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe).
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
///
/// async fn greet(stream: &mut DuplexStream) -> std::io::Result<()> {
///     stream.write_all(b"hello").await
/// }
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut client, mut server) = blitzen::io::duplex(64);
/// greet(&mut client).await?;
/// drop(client);
/// let mut text = String::new();
/// server.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
pub struct DuplexStream {
    read: Arc<Mutex<Pipe>>,
    write: Arc<Mutex<Pipe>>,
}

/// Creates two connected streams in memory: bytes written to one can be read from
/// the other.
///
/// Each direction holds at most `max_buf_size` bytes. A writer waits until the
/// reader has made room.
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut client, mut server) = blitzen::io::duplex(64);
/// client.write_all(b"ping").await?;
/// let mut buf = [0; 4];
/// server.read_exact(&mut buf).await?;
/// assert_eq!(&buf, b"ping");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Panics if `max_buf_size` is zero.
#[track_caller]
pub fn duplex(max_buf_size: usize) -> (DuplexStream, DuplexStream) {
    let there = Arc::new(Mutex::new(Pipe::with_capacity(max_buf_size)));
    let back = Arc::new(Mutex::new(Pipe::with_capacity(max_buf_size)));
    let near = DuplexStream {
        read: back.clone(),
        write: there.clone(),
    };
    let far = DuplexStream {
        read: there,
        write: back,
    };
    (near, far)
}

/// Calls `act` with the pipe locked, and wakes after the lock is released. Spends a unit of the
/// task's budget, unless `act` returns `Pending`: then the task waits for `kind`.
fn poll_with<R>(
    pipe: &Mutex<Pipe>,
    kind: WaitKind,
    cx: &mut Context<'_>,
    act: impl FnOnce(&mut Pipe, &mut Context<'_>) -> (Poll<R>, DeferredWake),
) -> Poll<R> {
    let spent = ready!(coop::poll_proceed(cx));
    let mut locked = pipe.lock();
    let (result, deferred) = act(&mut locked, cx);
    drop(locked);
    deferred.run();
    match result.is_ready() {
        true => spent.made_progress(),
        false => wait::pending_on(kind, pipe),
    }
    result
}

impl AsyncRead for DuplexStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        poll_with(&self.read, WaitKind::PipeRead, cx, |pipe, cx| {
            pipe.poll_read(cx, buf)
        })
    }
}

impl AsyncWrite for DuplexStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_with(&self.write, WaitKind::PipeWrite, cx, |pipe, cx| {
            pipe.poll_write(cx, iter::once(buf))
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_with(&self.write, WaitKind::PipeWrite, cx, |pipe, cx| {
            pipe.poll_write(cx, slices(bufs))
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wakers = WakeBatch::new();
        self.write.lock().close(&mut wakers);
        wakers.wake_all();
        Poll::Ready(Ok(()))
    }
}

impl Drop for DuplexStream {
    fn drop(&mut self) {
        // Both are closed before a waker is called, which may panic.
        let mut wakers = WakeBatch::new();
        self.write.lock().close(&mut wakers);
        self.read.lock().close(&mut wakers);
        if !thread::panicking() {
            wakers.wake_all(); // otherwise the batch does, and a second panic ends no process
        }
    }
}

impl fmt::Debug for DuplexStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplexStream").finish_non_exhaustive()
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::{AsyncReadExt, AsyncWriteExt};
    use blitzen_util::shim::thread;
    use loom::future::block_on;

    #[test]
    fn every_byte_arrives_through_a_full_pipe_and_then_the_end() {
        loom::model(|| {
            let (mut near, mut far) = duplex(1);
            let writer = thread::spawn(move || block_on(near.write_all(b"ab")).unwrap());
            let mut all = Vec::new();
            block_on(far.read_to_end(&mut all)).unwrap();
            writer.join().unwrap();
            assert_eq!(all, b"ab");
        });
    }

    #[test]
    fn a_waiting_writer_is_woken_when_the_reader_is_dropped() {
        loom::model(|| {
            let (mut near, far) = duplex(1);
            let reader = thread::spawn(move || drop(far));
            let error = block_on(near.write_all(b"ab")).unwrap_err();
            reader.join().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        });
    }
}
