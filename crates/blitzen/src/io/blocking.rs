//! A blocking stream whose operations run on the blocking pool, one at a time.
//!
//! ```text
//!            spawn                       done
//!   Idle ───────────► Busy(job) ───────────────────► Idle
//!                        └── cancelled, panicked ──► Lost
//! ```
//!
//! L1. A job owns the stream and the buffer, and returns them with its result.
//! L2. The bytes that a write took are in its job, which runs even if the runtime
//!     shuts down. The next operation returns its error.
//! L3. Bytes that a job has read stay in the buffer until a read takes them: dropping
//!     a future loses nothing.
//! L4. A job reads no more than was asked for. What it leaves is there for others that read
//!     the same stream, such as the next handle to the standard input.

use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use blitzen_io::{AsyncRead, AsyncWrite, ReadBuf};
use blitzen_task::{JoinHandle, SpawnMeta};

use crate::runtime::Handle;

/// The most bytes that one job reads or writes.
const MAX_TRANSFER: usize = 2 * 1024 * 1024;

/// A blocking stream with the traits of asynchronous ones.
pub(crate) struct Blocking<T>(BlockingState<T>);

enum BlockingState<T> {
    Idle(StreamBuffer<T>),
    Busy(JoinHandle<(io::Result<()>, StreamBuffer<T>)>),
    Lost,
}

/// What a job owns while it runs, and returns (L1).
struct StreamBuffer<T> {
    stream: T,
    bytes: Vec<u8>,
    /// How many of the bytes were returned by `poll_read`.
    taken: usize,
    /// Whether something was written since the last flush.
    needs_flush: bool,
}

impl<T> StreamBuffer<T> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}

impl<T: Send + Unpin + 'static> Blocking<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self(BlockingState::Idle(StreamBuffer {
            stream,
            bytes: Vec::new(),
            taken: 0,
            needs_flush: false,
        }))
    }

    /// Waits until no job is running, and returns the error of the last one.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut StreamBuffer<T>>> {
        if let BlockingState::Busy(job) = &mut self.0 {
            let (state, result) = match ready!(Pin::new(job).poll(cx)) {
                Ok((result, buffer)) => (BlockingState::Idle(buffer), result),
                Err(error) if error.is_cancelled() => {
                    (BlockingState::Lost, Err(blitzen_driver::shutdown_error()))
                }
                Err(error) => (BlockingState::Lost, Err(io::Error::other(error))),
            };
            self.0 = state;
            if let Err(error) = result {
                return Poll::Ready(Err(error));
            }
        }
        match &mut self.0 {
            BlockingState::Idle(buffer) => Poll::Ready(Ok(buffer)),
            BlockingState::Busy(_) => unreachable!("the job has ended"),
            BlockingState::Lost => Poll::Ready(Err(blitzen_driver::shutdown_error())),
        }
    }

    /// Starts a job. No other job may be running.
    #[track_caller]
    fn start(
        &mut self,
        mut work: impl FnMut(&mut StreamBuffer<T>) -> io::Result<()> + Send + 'static,
    ) {
        let inner = Handle::current().inner; // it may panic: before the stream is taken
        let BlockingState::Idle(mut buffer) = std::mem::replace(&mut self.0, BlockingState::Lost)
        else {
            unreachable!("one job at a time")
        };
        let job = move || (work(&mut buffer), buffer);
        // Mandatory: L2.
        self.0 = BlockingState::Busy(inner.spawn_blocking(job, true, SpawnMeta::caller()));
    }
}

impl<T: Read + Send + Unpin + 'static> AsyncRead for Blocking<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A future that was dropped may have started the job (L3).
        let mut has_read = matches!(self.0, BlockingState::Busy(_));
        loop {
            let buffer = ready!(self.poll_idle(cx))?;
            let rest = buffer.rest();
            // A job that read nothing has found the end.
            if !rest.is_empty() || has_read || buf.remaining() == 0 {
                let count = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..count]);
                buffer.taken += count;
                return Poll::Ready(Ok(()));
            }
            let room = buf.remaining().min(MAX_TRANSFER); // L4
            self.start(move |buffer| read_some(buffer, room));
            has_read = true;
        }
    }
}

fn read_some<T: Read>(buffer: &mut StreamBuffer<T>, room: usize) -> io::Result<()> {
    buffer.taken = 0;
    buffer.bytes.resize(room, 0);
    let read = loop {
        match buffer.stream.read(&mut buffer.bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => break read,
        }
    };
    buffer.bytes.truncate(*read.as_ref().unwrap_or(&0));
    read.map(drop)
}

impl<T: Write + Send + Unpin + 'static> AsyncWrite for Blocking<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let buffer = ready!(self.poll_idle(cx))?;
        let count = buf.len().min(MAX_TRANSFER);
        buffer.bytes.clear();
        buffer.bytes.extend_from_slice(&buf[..count]);
        buffer.needs_flush = true;
        self.start(|buffer| buffer.stream.write_all(&buffer.bytes));
        // A runtime that has shut down refuses the job.
        if let BlockingState::Busy(job) = &self.0
            && job.is_finished()
        {
            ready!(self.poll_idle(cx))?;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let buffer = ready!(self.poll_idle(cx))?;
            if !buffer.needs_flush {
                return Poll::Ready(Ok(()));
            }
            buffer.needs_flush = false;
            self.start(|buffer| buffer.stream.flush());
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

    /// A writer that takes three bytes at a time, or fails.
    #[derive(Clone, Default)]
    struct ShortWriter {
        written: Arc<Mutex<Vec<u8>>>,
        flushes: Arc<Mutex<usize>>,
        fail: bool,
    }

    impl Write for ShortWriter {
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
    fn bytes_are_written_after_a_flush() {
        let writer = ShortWriter::default();
        let mut stream = Blocking::new(writer.clone());
        runtime().block_on(async {
            stream.write_all(b"hello ").await.unwrap();
            stream.write_all(b"world").await.unwrap();
            stream.flush().await.unwrap();
            stream.flush().await.unwrap(); // nothing to do
        });
        assert_eq!(*writer.written.lock().unwrap(), b"hello world");
        assert_eq!(*writer.flushes.lock().unwrap(), 1);
    }

    #[test]
    fn the_next_operation_returns_the_error_of_a_write() {
        let writer = ShortWriter {
            fail: true,
            ..ShortWriter::default()
        };
        let mut stream = Blocking::new(writer);
        runtime().block_on(async {
            // The write itself returns it if the job is quick.
            let first = stream.write_all(b"hello").await;
            let second = stream.flush().await;
            assert!(first.is_err() || second.is_err());
        });
    }

    #[test]
    fn bytes_that_a_write_took_are_written_although_the_runtime_shuts_down() {
        let writer = ShortWriter::default();
        let mut stream = Blocking::new(writer.clone());
        let runtime = runtime();
        runtime.block_on(stream.write_all(b"last words")).unwrap();
        drop(runtime);
        assert_eq!(*writer.written.lock().unwrap(), b"last words");
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
    fn a_read_takes_no_more_than_was_asked_for() {
        let (far, mut near) = std::io::pipe().unwrap();
        near.write_all(b"abc").unwrap();
        drop(near);
        let mut stream = Blocking::new(far.try_clone().unwrap());
        let mut bytes = [0; 2];
        runtime().block_on(stream.read_exact(&mut bytes)).unwrap();
        assert_eq!(&bytes, b"ab");
        drop(stream);
        assert_eq!(std::io::read_to_string(far).unwrap(), "c");
    }

    #[test]
    fn a_stream_used_outside_a_runtime_by_mistake_is_not_lost() {
        let (mut near, far) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
        let mut stream = Blocking::new(far);
        near.write_all(b"abc").unwrap();
        let outside = std::panic::AssertUnwindSafe(|| {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ = Pin::new(&mut stream).poll_read(&mut cx, &mut ReadBuf::new(&mut [0; 3]));
        });
        assert!(std::panic::catch_unwind(outside).is_err());
        runtime().block_on(async {
            let mut bytes = [0; 3];
            stream.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"abc");
        });
    }

    #[test]
    fn a_write_after_the_shutdown_of_the_runtime_is_an_error() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let mut stream = Blocking::new(ShortWriter::default());
        let error = handle.block_on(stream.write_all(b"x")).unwrap_err();
        assert!(crate::runtime::is_rt_shutdown_err(&error));
    }
}
