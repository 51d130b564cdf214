//! Listeners of a runtime whose sockets go by completion.
#![cfg(blitzen_ring)]

mod completion_common;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use blitzen::io::AsyncReadExt;
use blitzen::net::{SocketMode, TcpListener, TcpStream};
use blitzen::time::timeout;
use completion_common::{open_descriptors, poll_once, runtime, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A client that has connected and reset the connection.
fn connect_and_reset(address: SocketAddr) -> SocketAddr {
    let client = std::net::TcpStream::connect(address).unwrap();
    let from = client.local_addr().unwrap();
    let socket = socket2::SockRef::from(&client);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    from
}

#[test]
fn a_connection_that_was_reset_is_still_accepted() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (listener, address) = listen().await;
            assert!(poll_once(listener.accept()).await.is_none());
            for _ in 0..20 {
                let expected = connect_and_reset(address);
                let accepted = timeout(LONG, listener.accept()).await.unwrap();
                let (mut stream, from) = accepted.expect("a reset is the stream's, not ours");
                assert_eq!(from, expected);
                assert_eq!(stream.mode(), SocketMode::Completion);
                stream.read(&mut [0; 8]).await.unwrap_err();
            }
        });
    }
}

#[test]
fn a_dropped_listener_stops_listening_at_once() {
    for runtime in runtimes() {
        runtime.block_on(async {
            for _ in 0..20 {
                let (listener, address) = listen().await;
                assert!(poll_once(listener.accept()).await.is_none());
                blitzen::task::yield_now().await;
                drop(listener);
                std::net::TcpStream::connect(address).unwrap_err();
                let again = std::net::TcpListener::bind(address).unwrap();
                drop(again);
            }
        });
    }
}

#[test]
fn a_duplicate_of_a_dropped_listener_listens_on() {
    let Some(runtime) = runtime(0) else { return };
    runtime.block_on(async {
        let ours = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ours.local_addr().unwrap();
        let theirs = ours.try_clone().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = TcpListener::from_std(ours).unwrap();
        assert!(poll_once(ours.accept()).await.is_none());
        drop(ours);
        theirs.set_nonblocking(false).unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(theirs.accept().unwrap().1, client.local_addr().unwrap());
    });
}

#[test]
fn a_listener_is_handed_out_with_the_connections_that_nobody_accepted() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (listener, address) = listen().await;
            assert!(poll_once(listener.accept()).await.is_none());
            let client = std::net::TcpStream::connect(address).unwrap();
            blitzen::task::yield_now().await;
            let listener = listener.into_std().unwrap();
            listener.set_nonblocking(false).unwrap();
            assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
        });
    }
}

#[test]
fn connections_that_nobody_asks_for_are_left_to_the_system() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (listener, address) = listen().await;
            assert!(poll_once(listener.accept()).await.is_none());
            let before = open_descriptors();
            let clients: Vec<_> = (0..100)
                .map(|_| std::net::TcpStream::connect(address).unwrap())
                .collect();
            blitzen::time::sleep(Duration::from_millis(1)).await;
            assert!(open_descriptors() <= before + clients.len() + 20);
            for client in clients {
                let accepted = timeout(LONG, listener.accept()).await.unwrap();
                assert_eq!(accepted.unwrap().1, client.local_addr().unwrap());
            }
        });
    }
}

#[test]
fn the_mode_of_a_listener_is_that_of_the_streams_it_accepts() {
    let Some(runtime) = runtime(0) else { return };
    runtime.block_on(async {
        let (mut listener, address) = listen().await;
        for mode in [SocketMode::Readiness, SocketMode::Completion] {
            listener.set_mode(mode).unwrap();
            let (client, accepted) = blitzen::join!(TcpStream::connect(address), listener.accept());
            client.unwrap();
            assert_eq!((accepted.unwrap().0.mode(), listener.mode()), (mode, mode));
        }
        listener.set_mode(SocketMode::PreferCompletion).unwrap();
        assert_eq!(listener.mode(), SocketMode::Completion);
    });
}

struct Unwoken;

impl Wake for Unwoken {
    fn wake(self: Arc<Self>) {}
}

/// Polls once with a waker of its own; how many references to that are left when
/// the future has been dropped.
fn references_after_drop(mut future: Pin<Box<dyn Future<Output = ()> + '_>>) -> usize {
    let unwoken = Arc::new(Unwoken);
    let waker = Waker::from(unwoken.clone());
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
    drop((future, waker));
    Arc::strong_count(&unwoken) - 1
}

#[test]
fn a_dropped_accept_is_forgotten() {
    let Some(runtime) = runtime(0) else { return };
    runtime.block_on(async {
        let (listener, _) = listen().await;
        for _ in 0..3 {
            let accept = Box::pin(async {
                let _ = listener.accept().await;
            });
            assert_eq!(references_after_drop(accept), 0);
        }
    });
}
