//! The halves of a stream get on with each other.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use blitzen_io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex, simplex, split,
};
use futures::executor::block_on;

#[test]
fn both_halves_work_from_their_own_threads() {
    const LEN: usize = 200_000;
    let (near, far) = duplex(100);
    let (mut near_reader, mut near_writer) = split(near);
    let (far_reader, mut far_writer) = split(far);
    thread::scope(|scope| {
        scope.spawn(move || {
            let data: Vec<u8> = (0..LEN).map(|n| n as u8).collect();
            block_on(near_writer.write_all(&data)).unwrap();
        });
        scope.spawn(move || {
            block_on(blitzen_io::copy(
                &mut far_reader.take(LEN as u64),
                &mut far_writer,
            ))
        });
        let mut back = vec![0; LEN];
        block_on(near_reader.read_exact(&mut back)).unwrap();
        assert!(back.iter().enumerate().all(|(n, &byte)| byte == n as u8));
    });
}

/// A task that is polled on the spot by whoever wakes it.
struct OnTheSpot<F>(Mutex<Option<Pin<Box<F>>>>);

impl<F: Future<Output = ()> + Send + 'static> Wake for OnTheSpot<F> {
    fn wake(self: Arc<Self>) {
        let Some(mut future) = self.0.lock().unwrap().take() else {
            return;
        };
        let waker = Waker::from(self.clone());
        if future
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            *self.0.lock().unwrap() = Some(future);
        }
    }
}

#[test]
fn a_half_that_is_polled_from_within_the_other_half_comes_to_no_deadlock() {
    let (mut reader, mut writer) = simplex(16);
    let (done, is_done) = std::sync::mpsc::channel();
    let task = Arc::new(OnTheSpot(Mutex::new(Some(Box::pin(async move {
        done.send(reader.read_u8().await.unwrap()).unwrap();
    })))));
    task.wake();
    assert!(is_done.try_recv().is_err());
    // Wakes the reader while the stream is locked.
    block_on(writer.write_u8(7)).unwrap();
    assert_eq!(is_done.try_recv(), Ok(7));
}

/// Panics when it is read.
struct Rotten;

impl AsyncRead for Rotten {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        panic!("rotten")
    }
}

impl AsyncWrite for Rotten {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_panic_in_one_half_does_not_lock_the_other_out() {
    let (mut reader, mut writer) = split(Rotten);
    let read = catch_unwind(AssertUnwindSafe(|| block_on(reader.read(&mut [0]))));
    assert!(read.is_err());
    assert_eq!(block_on(writer.write(b"fine")).unwrap(), 4);
}

#[test]
fn the_stream_goes_with_the_second_half() {
    let (near, mut far) = duplex(8);
    let (reader, writer) = split(near);
    drop(writer);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(far.read(&mut [0])).poll(&mut cx).is_pending());
    drop(reader);
    assert_eq!(block_on(far.read(&mut [0])).unwrap(), 0);
}

#[test]
fn halves_and_ends_may_be_sent_and_shared() {
    fn is<T: Send + Sync + Unpin>() {}
    is::<blitzen_io::ReadHalf<std::cell::Cell<u8>>>();
    is::<blitzen_io::WriteHalf<std::cell::Cell<u8>>>();
    is::<blitzen_io::DuplexStream>();
    is::<blitzen_io::SimplexStream>();
}
