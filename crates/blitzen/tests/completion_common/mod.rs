//! What the tests of sockets by completion share.
#![allow(dead_code)] // no test needs all of it

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::Poll;

use blitzen::net::{SocketMode, TcpListener, TcpStream};
use blitzen::runtime::{Builder, Runtime};

/// Each flavour of runtime in its turn, with sockets by completion; none, with
/// a word about it, where the system has no io_uring.
pub(crate) fn runtimes() -> impl Iterator<Item = Runtime> {
    [0, 1, 2, 4].into_iter().map_while(runtime)
}

/// A runtime with so many workers; with none, a current-thread one.
pub(crate) fn runtime(workers: usize) -> Option<Runtime> {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(workers.max(1));
    builder.enable_all().socket_mode(SocketMode::Completion);
    let runtime = builder.build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    match listener {
        Ok(_) => Some(runtime),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            eprintln!("not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A connection: the side that connected, and the side that was accepted.
pub(crate) async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = blitzen::join!(TcpStream::connect(address), listener.accept());
    let (client, server) = (client.unwrap(), accepted.unwrap().0);
    assert_eq!(client.mode(), SocketMode::Completion);
    assert_eq!(server.mode(), SocketMode::Completion);
    (client, server)
}

/// Our side by completion, theirs of std's, blocking.
pub(crate) async fn half_pair() -> (TcpStream, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    theirs
        .set_read_timeout(Some(std::time::Duration::from_secs(20)))
        .unwrap();
    (listener.accept().await.unwrap().0, theirs)
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
    let mut future = pin!(future);
    for _ in 0..polls {
        let answer = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = answer {
            return Some(output);
        }
        blitzen::task::yield_now().await;
    }
    None
}

/// Bytes that tell where in the stream they belong.
pub(crate) fn pattern(from: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (from..from + len).map(byte).collect()
}

/// The descriptors this process has open.
pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
