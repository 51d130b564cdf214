//! A peer that floods one socket does not keep the others from being served.

mod net_common;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use net_common::{runtimes, tcp_pair};

#[test]
fn neighbours_of_a_flooded_socket_are_served() {
    for runtime in runtimes() {
        let done = Arc::new(AtomicBool::new(false));
        let flooding = runtime.block_on(async {
            let listener = blitzen::net::TcpListener::bind("127.0.0.1:0")
                .await
                .unwrap();
            let address = listener.local_addr().unwrap();
            let flooding = std::thread::spawn({
                let done = done.clone();
                move || {
                    let mut stream = std::net::TcpStream::connect(address).unwrap();
                    // Ends with the round trips below, and not before.
                    while !done.load(Relaxed) && stream.write_all(&[7; 65536]).is_ok() {}
                    assert!(done.load(Relaxed));
                }
            });
            let (mut flooded, _) = listener.accept().await.unwrap();
            let reading = blitzen::spawn(async move {
                // One byte at a time of what is always there: never waits.
                while flooded.read(&mut [0]).await.unwrap() > 0 {}
            });
            let (mut one, mut other) = tcp_pair().await.unwrap();
            let echo = blitzen::spawn(async move {
                let mut byte = [0];
                while other.read(&mut byte).await.unwrap() > 0 {
                    other.write_all(&byte).await.unwrap();
                }
            });
            // wine asks its server for every byte that is read, and there are hundreds in a round.
            let rounds = if cfg!(windows) { 20 } else { 200 };
            for round in 0..rounds {
                let mut byte = [round];
                one.write_all(&byte).await.unwrap();
                one.read_exact(&mut byte).await.unwrap();
                assert_eq!(byte, [round]);
            }
            done.store(true, Relaxed);
            drop(one);
            echo.await.unwrap();
            reading.abort();
            assert!(reading.await.unwrap_err().is_cancelled());
            flooding
        });
        flooding.join().unwrap();
    }
}

#[test]
fn a_flooded_datagram_socket_leaves_the_others_their_turn() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let socket = blitzen::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let done = Arc::new(AtomicBool::new(false));
            let flooding = std::thread::spawn({
                let done = done.clone();
                move || {
                    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                    while !done.load(Relaxed) {
                        // Whoever cannot keep up loses datagrams, and so be it.
                        let _ = socket.send_to(&[7; 100], address);
                    }
                }
            });
            let reading = blitzen::spawn(async move {
                loop {
                    socket.recv(&mut [0; 128]).await.unwrap();
                }
            });
            let (mut one, mut other) = tcp_pair().await.unwrap();
            for _ in 0..100 {
                one.write_all(b"x").await.unwrap();
                other.read_exact(&mut [0]).await.unwrap();
            }
            done.store(true, Relaxed);
            reading.abort();
            assert!(reading.await.unwrap_err().is_cancelled());
            flooding.join().unwrap();
        });
    }
}
