//! Streams by completion of every family, through every end: half-closed, reset,
//! cancelled, and with their runtime dropped around them.
#![cfg(blitzen_ring)]

mod completion_common;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{SocketMode, TcpListener, TcpStream, UnixListener, UnixStream};
use blitzen::runtime::Runtime;
use blitzen::time::timeout;
use completion_common::{half_pair, open_descriptors, pattern, poll_a_few, runtime, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);
/// More than the system takes of a connection whose peer does not read.
const LARGE: usize = 16 << 20;

/// One at a time: some count what the process has.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

async fn tcp_pair(address: &str) -> Option<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(address).await.ok()?;
    let address = listener.local_addr().unwrap();
    let (client, accepted) = blitzen::join!(TcpStream::connect(address), listener.accept());
    Some((client.unwrap(), accepted.unwrap().0))
}

/// Sends both ways, ends one way, then the other.
macro_rules! check_half_close {
    ($client:expr, $server:expr) => {{
        let (mut client, mut server) = ($client, $server);
        assert_eq!(client.mode(), SocketMode::Completion);
        let mut bytes = vec![0; 20_000];
        for size in [1, 100, 3000, 20_000, 7] {
            let sent = pattern(size, size);
            let (written, read) = blitzen::join!(
                client.write_all(&sent),
                server.read_exact(&mut bytes[..size])
            );
            written.unwrap();
            read.unwrap();
            assert!(bytes[..size] == sent);
        }
        client.shutdown().await.unwrap();
        for _ in 0..3 {
            let end = timeout(LONG, server.read(&mut bytes)).await.unwrap();
            assert_eq!(end.unwrap(), 0);
        }
        server.write_all(b"and back").await.unwrap();
        server.shutdown().await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "and back");
        client.write_all(b"late").await.unwrap_err();
    }};
}

#[test]
fn every_family_is_half_closed_both_ways() {
    let _alone = alone();
    for runtime in runtimes() {
        runtime.block_on(async {
            for address in ["127.0.0.1:0", "[::1]:0"] {
                let Some((client, server)) = tcp_pair(address).await else {
                    eprintln!("not tested with {address}");
                    continue;
                };
                check_half_close!(client, server);
            }
            let (client, server) = UnixStream::pair().unwrap();
            check_half_close!(client, server);
            let path = std::env::temp_dir().join(format!("blitzen-{}.sock", std::process::id()));
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).unwrap();
            let (client, accepted) = blitzen::join!(UnixStream::connect(&path), listener.accept());
            std::fs::remove_file(&path).unwrap();
            check_half_close!(client.unwrap(), accepted.unwrap().0);
        });
    }
}

type Operation = for<'a> fn(&'a mut TcpStream) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Operations that wait; each says whether it has succeeded.
const OPERATIONS: [(&str, Operation); 8] = [
    ("read", |stream| {
        Box::pin(async { stream.read(&mut [0; 8]).await.is_ok_and(|count| count > 0) })
    }),
    ("peek", |stream| {
        Box::pin(async { stream.peek(&mut [0; 8]).await.is_ok_and(|count| count > 0) })
    }),
    ("read_owned", |stream| {
        Box::pin(async {
            let (read, _) = stream.read_owned(Vec::with_capacity(8)).await;
            read.is_ok_and(|count| count > 0)
        })
    }),
    ("write", |stream| {
        Box::pin(async { stream.write_all(&vec![7; LARGE]).await.is_ok() })
    }),
    ("small writes", |stream| {
        Box::pin(async {
            for _ in 0..LARGE / 1000 {
                if stream.write_all(&[7; 1000]).await.is_err() {
                    return false;
                }
            }
            stream.flush().await.is_ok()
        })
    }),
    ("write_owned", |stream| {
        Box::pin(async {
            let (written, _) = stream.write_owned(vec![7; LARGE]).await;
            written.is_ok_and(|count| count == LARGE)
        })
    }),
    ("send_zc", |stream| {
        Box::pin(async {
            let (written, _) = stream.send_zc(vec![7; LARGE]).await;
            written.is_ok_and(|count| count == LARGE)
        })
    }),
    ("readable", |stream| {
        Box::pin(async {
            let mut byte = [0; 1];
            loop {
                if stream.readable().await.is_err() {
                    return false;
                }
                match stream.try_read(&mut byte) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    read => return read.is_ok_and(|count| count > 0),
                }
            }
        })
    }),
];

#[test]
fn a_reset_ends_every_operation() {
    let _alone = alone();
    for runtime in runtimes() {
        for (name, operation) in OPERATIONS {
            runtime.block_on(async {
                let (mut ours, theirs) = half_pair().await;
                let running = blitzen::spawn(async move { operation(&mut ours).await });
                blitzen::time::sleep(Duration::from_millis(3)).await;
                let socket = socket2::SockRef::from(&theirs);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
                drop(theirs);
                let succeeded = timeout(LONG, running).await.expect(name).unwrap();
                assert!(!succeeded, "{name}");
            });
        }
    }
}

#[test]
fn every_operation_may_be_dropped_at_every_point() {
    let _alone = alone();
    for workers in [0, 2] {
        let Some(runtime) = runtime(workers) else {
            return;
        };
        // Each worker has opened what it needs.
        for _ in 0..20 {
            runtime.block_on(async { blitzen::spawn(half_pair()).await.unwrap() });
        }
        let before = open_descriptors() + 2 * workers;
        for (name, operation) in OPERATIONS {
            for polls in 0..4 {
                runtime.block_on(async {
                    let (mut ours, theirs) = half_pair().await;
                    poll_a_few(polls, operation(&mut ours)).await;
                    // The stream is still good for reading.
                    std::io::Write::write_all(&mut &theirs, b"hello").unwrap();
                    let mut bytes = [0; 5];
                    let read = timeout(LONG, ours.read_exact(&mut bytes)).await;
                    read.expect(name).expect(name);
                    assert_eq!(&bytes, b"hello", "{name} after {polls}");
                });
            }
        }
        runtime.block_on(async {
            // What was left to the kernel ends with its connection.
            for _ in 0..1000 {
                if open_descriptors() <= before {
                    return;
                }
                blitzen::time::sleep(Duration::from_millis(5)).await;
            }
            panic!("{} descriptors instead of {before}", open_descriptors());
        });
    }
}

/// Drops a runtime while `operation` is in flight, and returns the peer.
fn drop_in_flight(runtime: Runtime, operation: Operation) -> std::net::TcpStream {
    let theirs = runtime.block_on(async {
        let (mut ours, theirs) = half_pair().await;
        blitzen::spawn(async move { operation(&mut ours).await });
        blitzen::time::sleep(Duration::from_millis(2)).await;
        theirs
    });
    drop(runtime);
    theirs
}

/// Waits until the process has no more than `max` descriptors. A ring whose runtime was
/// dropped is closed when the network needs its zero-copy buffers no more.
fn expect_descriptors(max: usize, name: &str) {
    let start = Instant::now();
    while open_descriptors() > max {
        let left = open_descriptors();
        assert!(start.elapsed() < LONG, "{name}: {left} instead of {max}");
        std::thread::yield_now();
    }
}

#[test]
fn a_runtime_may_be_dropped_with_every_operation_in_flight() {
    let _alone = alone();
    for workers in [0, 1, 2] {
        for (name, operation) in OPERATIONS {
            let before = open_descriptors();
            let Some(runtime) = runtime(workers) else {
                return;
            };
            let theirs = drop_in_flight(runtime, operation);
            // The peer sees the end.
            let mut peer = &theirs;
            std::io::copy(&mut peer, &mut std::io::sink()).expect(name);
            drop(theirs);
            match name {
                "send_zc" => expect_descriptors(before, name),
                _ => assert_eq!(open_descriptors(), before, "{name}"),
            }
        }
    }
}

#[test]
fn runtimes_dropped_with_operations_in_flight_leave_no_descriptors_behind() {
    let _alone = alone();
    let before = open_descriptors();
    let mut peers = Vec::new();
    for workers in [0, 2, 0, 2] {
        for (_, operation) in OPERATIONS {
            let Some(runtime) = runtime(workers) else {
                return;
            };
            peers.push(drop_in_flight(runtime, operation));
        }
    }
    // Without having read: what they were sent, nobody waits for any more.
    drop(peers);
    expect_descriptors(before, "after all of them");
}

#[test]
fn two_tasks_read_and_write_one_stream_at_once() {
    let _alone = alone();
    for runtime in runtimes() {
        runtime.block_on(async {
            let (client, server) = tcp_pair("127.0.0.1:0").await.unwrap();
            let (client, server) = (Arc::new(client), Arc::new(server));
            let mut tasks = Vec::new();
            for _ in 0..2 {
                let client = client.clone();
                tasks.push(blitzen::spawn(async move {
                    for _ in 0..200 {
                        assert_eq!(client.write_owned(vec![1; 100]).await.0.unwrap(), 100);
                    }
                    0
                }));
                let server = server.clone();
                tasks.push(blitzen::spawn(async move {
                    let mut received = 0;
                    while received < 20_000 {
                        // Each at most its half, so that neither takes the other's.
                        let room = Vec::with_capacity((20_000 - received).min(70));
                        server.peek(&mut [0; 10]).await.unwrap();
                        let (read, bytes) = server.read_owned(room).await;
                        received += read.unwrap();
                        assert!(bytes.iter().all(|byte| *byte == 1));
                    }
                    received
                }));
            }
            let mut received = 0;
            for task in tasks {
                received += timeout(LONG, task).await.unwrap().unwrap();
            }
            assert_eq!(received, 40_000);
        });
    }
}
