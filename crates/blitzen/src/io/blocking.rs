//! A stream that blocks, used by tasks: its operations run on the pool of
//! threads for that, one at a time.
//!
//! ```text
//!            spawn                       done
//!   Idle ───────────► Busy(job) ───────────────────► Idle
//!                        └── cancelled, panicked ──► Lost
//! ```
//!
//! L1. A job has the stream and the buffer; they come back with its result.
//! L2. What a write has taken is in its job, which runs even if the runtime
//!     shuts down. An error of it is told to the next operation.
//! L3. What a job has read, and nobody has taken, stays in the buffer: dropping
//!     a future loses nothing.

use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_io::{AsyncRead, AsyncWrite, ReadBuf};
use blitzen_task::{JoinHandle, Origin};

use crate::runtime::Handle;

/// The most bytes one job moves.
const MOST: usize = 2 * 1024 * 1024;

/// A job reads at least this much, since getting one done costs more than that.
const LEAST_READ: usize = 8 * 1024;

/// A stream that blocks.
pub(crate) struct Blocking<T>(State<T>);

enum State<T> {
    Idle(Desk<T>),
    Busy(JoinHandle<(io::Result<()>, Desk<T>)>),
    Lost,
}

/// What goes into a job and comes back (L1).
struct Desk<T> {
    stream: T,
    bytes: Vec<u8>,
    /// How many of the bytes have been taken already.
    taken: usize,
    /// Whether something was written since the last flush.
    unflushed: bool,
}

impl<T> Desk<T> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}

impl<T: Send + Unpin + 'static> Blocking<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self(State::Idle(Desk {
            stream,
            bytes: Vec::new(),
            taken: 0,
            unflushed: false,
        }))
    }

    /// Waits until no job is under way. Tells the error of the last one.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut Desk<T>>> {
        if let State::Busy(job) = &mut self.0 {
            let (state, result) = match ready!(Pin::new(job).poll(cx)) {
                Ok((result, desk)) => (State::Idle(desk), result),
                Err(error) if error.is_cancelled() => (State::Lost, Err(blitzen_driver::gone())),
                Err(error) => (State::Lost, Err(io::Error::other(error))),
            };
            self.0 = state;
            if let Err(error) = result {
                return Poll::Ready(Err(error));
            }
        }
        match &mut self.0 {
            State::Idle(desk) => Poll::Ready(Ok(desk)),
            State::Busy(_) => unreachable!("it was waited for"),
            State::Lost => Poll::Ready(Err(blitzen_driver::gone())),
        }
    }

    /// Starts a job. The stream is idle.
    #[track_caller]
    fn start(&mut self, mut work: impl FnMut(&mut Desk<T>) -> io::Result<()> + Send + 'static) {
        let State::Idle(mut desk) = std::mem::replace(&mut self.0, State::Lost) else {
            unreachable!("one job at a time")
        };
        let job = move || (work(&mut desk), desk);
        let inner = Handle::current().inner;
        // Mandatory: L2.
        self.0 = State::Busy(inner.spawn_blocking(job, true, Origin::caller()));
    }
}

impl<T: Read + Send + Unpin + 'static> AsyncRead for Blocking<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Somebody may have started it, and not waited for it (L3).
        let mut has_read = matches!(self.0, State::Busy(_));
        loop {
            let desk = ready!(self.poll_idle(cx))?;
            let rest = desk.rest();
            // Nothing from a job that has read is the end.
            if !rest.is_empty() || has_read || buf.remaining() == 0 {
                let count = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..count]);
                desk.taken += count;
                return Poll::Ready(Ok(()));
            }
            let room = buf.remaining().clamp(LEAST_READ, MOST);
            self.start(move |desk| read_some(desk, room));
            has_read = true;
        }
    }
}

fn read_some<T: Read>(desk: &mut Desk<T>, room: usize) -> io::Result<()> {
    desk.taken = 0;
    desk.bytes.resize(room, 0);
    let read = loop {
        match desk.stream.read(&mut desk.bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => break read,
        }
    };
    desk.bytes.truncate(*read.as_ref().unwrap_or(&0));
    read.map(drop)
}

impl<T: Write + Send + Unpin + 'static> AsyncWrite for Blocking<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let desk = ready!(self.poll_idle(cx))?;
        let count = buf.len().min(MOST);
        desk.bytes.clear();
        desk.bytes.extend_from_slice(&buf[..count]);
        desk.unflushed = true;
        self.start(|desk| desk.stream.write_all(&desk.bytes));
        // A runtime that is gone has refused the job.
        if let State::Busy(job) = &self.0
            && job.is_finished()
        {
            ready!(self.poll_idle(cx))?;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let desk = ready!(self.poll_idle(cx))?;
            if !desk.unflushed {
                return Poll::Ready(Ok(()));
            }
            desk.unflushed = false;
            self.start(|desk| desk.stream.flush());
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use blitzen_io::{AsyncReadExt, AsyncWriteExt};
    use std::sync::{Arc, Mutex};

    /// Takes three bytes at a time, and fails when told to.
    #[derive(Clone, Default)]
    struct Slow {
        written: Arc<Mutex<Vec<u8>>>,
        flushes: Arc<Mutex<usize>>,
        fail: bool,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.fail {
                return Err(io::Error::other("full"));
            }
            let count = bytes.len().min(3);
            self.written.lock().unwrap().extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            *self.flushes.lock().unwrap() += 1;
            Ok(())
        }
    }

    fn runtime() -> crate::runtime::Runtime {
        crate::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

    #[test]
    fn what_was_written_is_there_after_the_flush() {
        let slow = Slow::default();
        let mut stream = Blocking::new(slow.clone());
        runtime().block_on(async {
            stream.write_all(b"hello ").await.unwrap();
            stream.write_all(b"world").await.unwrap();
            stream.flush().await.unwrap();
            stream.flush().await.unwrap(); // nothing to do
        });
        assert_eq!(*slow.written.lock().unwrap(), b"hello world");
        assert_eq!(*slow.flushes.lock().unwrap(), 1);
    }

    #[test]
    fn an_error_is_told_to_the_next_operation() {
        let slow = Slow {
            fail: true,
            ..Slow::default()
        };
        let mut stream = Blocking::new(slow);
        runtime().block_on(async {
            // The first may hear of it already, if the job is quick.
            let first = stream.write_all(b"hello").await;
            let second = stream.flush().await;
            assert!(first.is_err() || second.is_err());
        });
    }

    #[test]
    fn what_a_write_took_is_written_although_the_runtime_goes() {
        let slow = Slow::default();
        let mut stream = Blocking::new(slow.clone());
        let runtime = runtime();
        runtime.block_on(stream.write_all(b"last words")).unwrap();
        drop(runtime);
        assert_eq!(*slow.written.lock().unwrap(), b"last words");
    }

    #[test]
    fn bytes_read_for_a_future_that_was_dropped_are_there_for_the_next() {
        let (mut near, far) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
        let mut stream = Blocking::new(far);
        runtime().block_on(async {
            {
                let mut dropped = [0; 16];
                let mut read = std::pin::pin!(stream.read(&mut dropped));
                let first = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
                assert!(first.is_pending());
            }
            near.write_all(b"abc").unwrap();
            let mut bytes = [0; 2];
            stream.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"ab");
            drop(near);
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"c");
        });
    }

    #[test]
    fn a_write_after_the_end_of_the_runtime_is_an_error() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let mut stream = Blocking::new(Slow::default());
        let error = handle.block_on(stream.write_all(b"x")).unwrap_err();
        assert!(crate::runtime::is_rt_shutdown_err(&error));
    }
}
