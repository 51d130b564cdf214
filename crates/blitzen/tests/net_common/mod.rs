//! What the tests of sockets share.
#![allow(dead_code)] // no test needs all of it

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use blitzen::net::{TcpListener, TcpStream};
use blitzen::runtime::{Builder, Runtime};

/// Ends the program if a test does not end: longer than any takes on a machine
/// that has a lot of other work.
pub(crate) fn bound() {
    static STARTED: std::sync::Once = std::sync::Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_secs(240));
            eprintln!("a test of sockets hangs");
            std::process::abort();
        });
    });
}

/// Each flavour of runtime in its turn.
pub(crate) fn runtimes() -> impl Iterator<Item = Runtime> {
    [None, Some(1), Some(2), Some(4)]
        .into_iter()
        .map(|workers| match workers {
            None => one_thread(),
            Some(workers) => with_workers(workers),
        })
}

pub(crate) fn one_thread() -> Runtime {
    bound();
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

pub(crate) fn with_workers(workers: usize) -> Runtime {
    bound();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers);
    builder.enable_all().build().unwrap()
}

/// A connection: the side that connected, and the side that was accepted.
pub(crate) async fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (client, accepted) = blitzen::join!(
        TcpStream::connect(listener.local_addr()?),
        listener.accept()
    );
    Ok((client?, accepted?.0))
}

/// Polls a future once, and then drops it: what it answered, if it did.
pub(crate) async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let answer = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
    match answer {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Polls a future `polls` times at the most, with yields in between, and then
/// drops it.
pub(crate) async fn poll_a_few<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    struct Few<F> {
        future: Pin<Box<F>>,
        left: usize,
    }
    impl<F: Future> Future for Few<F> {
        type Output = Option<F::Output>;

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            match self.future.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        }
    }
    Few {
        future: Box::pin(future),
        left: polls,
    }
    .await
}

/// Bytes that tell where in the stream they belong.
pub(crate) fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len)
        .map(|position| {
            let mixed = (position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 56) as u8
        })
        .collect()
}

/// The descriptors this process has open.
pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
