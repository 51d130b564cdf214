//! Connections that end badly, or by halves.

mod net_common;

use std::io::ErrorKind;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use net_common::{runtimes, tcp_pair};

#[test]
fn a_reset_ends_a_read_that_waits() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, theirs) = tcp_pair().await.unwrap();
            let reading = blitzen::spawn(async move { ours.read(&mut [0; 8]).await });
            blitzen::task::yield_now().await;
            theirs.set_zero_linger().unwrap();
            drop(theirs);
            let error = reading.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
    }
}

#[test]
fn a_reset_ends_a_write_that_waits() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, theirs) = tcp_pair().await.unwrap();
            // More than any buffer takes: it waits for a peer that never reads.
            let writing = blitzen::spawn(async move { ours.write_all(&vec![1; 64 << 20]).await });
            theirs.readable().await.unwrap();
            theirs.set_zero_linger().unwrap();
            drop(theirs);
            let error = writing.await.unwrap().unwrap_err();
            let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(kinds.contains(&error.kind()), "{error}");
        });
    }
}

#[test]
fn a_stream_whose_peer_has_stopped_sending_can_still_be_written() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = tcp_pair().await.unwrap();
            theirs.write_all(b"that is all").await.unwrap();
            theirs.shutdown().await.unwrap();

            let mut text = String::new();
            ours.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "that is all");
            assert_eq!(ours.read(&mut [0; 8]).await.unwrap(), 0, "the end stays");

            ours.write_all(b"thank you").await.unwrap();
            drop(ours);
            let mut text = String::new();
            theirs.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "thank you");
        });
    }
}

#[test]
fn a_connection_nobody_waits_for_is_refused() {
    for runtime in runtimes() {
        runtime.block_on(async {
            // Takes the port, so that no other test does, and does not listen.
            let nobody = blitzen::net::TcpSocket::new_v4().unwrap();
            nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = nobody.local_addr().unwrap();
            let error = blitzen::net::TcpStream::connect(address).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        });
    }
}

#[test]
fn a_connection_reset_before_it_is_accepted_leaves_the_listener_well() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = blitzen::net::TcpListener::bind("127.0.0.1:0")
                .await
                .unwrap();
            let address = listener.local_addr().unwrap();
            let gone = std::net::TcpStream::connect(address).unwrap();
            socket2::SockRef::from(&gone)
                .set_linger(Some(std::time::Duration::ZERO))
                .unwrap();
            drop(gone);
            // Some systems hand it out, some hide it, some tell of it.
            if let Ok((mut stream, _)) = listener.accept().await {
                stream.read(&mut [0; 8]).await.unwrap_err();
            }
            let client = std::net::TcpStream::connect(address).unwrap();
            let (_stream, from) = listener.accept().await.unwrap();
            assert_eq!(from, client.local_addr().unwrap());
        });
    }
}
