//! Where sockets can be made and used, and what is said where they cannot.

mod net_common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream, UdpSocket};
use blitzen::runtime::Builder;
use net_common::{runtimes, tcp_pair, with_workers};

fn panic_text(code: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(code)).unwrap_err();
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().unwrap().to_string(),
    }
}

fn a_listener() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

#[test]
fn outside_a_runtime_there_is_no_reactor() {
    let text = panic_text(|| drop(TcpListener::from_std(a_listener())));
    let expected =
        "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_runtime_without_io_says_how_to_enable_it() {
    let runtime = Builder::new_multi_thread().enable_time().build().unwrap();
    let text = panic_text(|| {
        let _inside = runtime.enter();
        drop(TcpListener::from_std(a_listener()));
    });
    assert_eq!(
        text,
        "A Tokio 1.x context was found, but IO is disabled. Call `enable_io` on the runtime \
         builder to enable IO."
    );
}

#[cfg(all(unix, debug_assertions))]
#[test]
fn a_socket_in_blocking_mode_is_refused() {
    let runtime = with_workers(1);
    let text = panic_text(|| {
        let _inside = runtime.enter();
        let blocking = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        drop(TcpListener::from_std(blocking));
    });
    assert!(text.contains("set_nonblocking(true)"), "{text}");
}

#[test]
fn sockets_made_before_any_task_was_spawned_are_served() {
    // The workers start with the first socket.
    let runtime = with_workers(2);
    let _inside = runtime.enter();
    let listener = TcpListener::from_std(a_listener()).unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || std::net::TcpStream::connect(address).unwrap());
    let (_, from) = runtime.block_on(listener.accept()).unwrap();
    assert_eq!(from, client.join().unwrap().local_addr().unwrap());
}

#[test]
fn a_socket_is_awaited_from_a_thread_that_is_no_worker() {
    for runtime in runtimes() {
        let (mut one, mut other) = runtime.block_on(tcp_pair()).unwrap();
        let handle = runtime.handle().clone();
        let (ended, end) = blitzen::channel::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 5];
            handle.block_on(one.read_exact(&mut bytes)).unwrap();
            ended.send(bytes).unwrap();
        });
        // In a current-thread runtime somebody has to be in `block_on`.
        let bytes = runtime.block_on(async {
            other.write_all(b"hello").await.unwrap();
            end.await.unwrap()
        });
        assert_eq!(&bytes, b"hello");
        thread.join().unwrap();
    }
}

#[test]
fn many_sockets_made_outside_are_spread_and_all_served() {
    let runtime = with_workers(4);
    let pairs: Vec<_> = (0..50)
        .map(|_| runtime.block_on(tcp_pair()).unwrap())
        .collect();
    let tasks: Vec<_> = pairs
        .into_iter()
        .map(|(mut one, mut other)| {
            runtime.spawn(async move {
                for round in 0..50 {
                    one.write_all(&[round]).await.unwrap();
                    let mut byte = [0];
                    other.read_exact(&mut byte).await.unwrap();
                    assert_eq!(byte, [round]);
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn names_are_looked_up_and_addresses_are_not() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let stream = TcpStream::connect(format!("localhost:{port}"))
                .await
                .unwrap();
            assert!(stream.peer_addr().unwrap().ip().is_loopback());
            assert!(UdpSocket::bind("no such name:0").await.is_err());
            let none: &[std::net::SocketAddr] = &[];
            let error = TcpStream::connect(none).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        });
    }
}
