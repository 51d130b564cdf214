//! What the tests of sockets by completion share.
#![allow(dead_code, unused_imports)] // no test needs all of it

#[path = "../net_common/mod.rs"]
mod net_common;

use std::io;

use blitzen::net::{SocketMode, TcpListener, TcpStream};
use blitzen::runtime::{Builder, Runtime};
pub(crate) use net_common::{open_descriptors, pattern, poll_a_few, poll_once};

/// Each flavour of runtime in its turn, with sockets by completion; none, with
/// a word about it, where the system has no io_uring.
pub(crate) fn runtimes() -> impl Iterator<Item = Runtime> {
    [0, 1, 2, 4].into_iter().map_while(runtime)
}

/// A runtime with so many workers; with none, a current-thread one.
pub(crate) fn runtime(workers: usize) -> Option<Runtime> {
    net_common::bound();
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
