//! Streams and listeners by completion do what those by readiness do, and
//! refuse what would lose bytes.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
use blitzen::net::{SocketMode, TcpListener, TcpStream, UnixStream};
use completion_common::{half_pair, pattern, poll_once, runtime, runtimes, tcp_pair};

#[test]
fn echoes_of_every_size_come_back() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut client, mut server) = tcp_pair().await;
            let serving = blitzen::spawn(async move {
                let mut buf = vec![0; 8192];
                loop {
                    let count = server.read(&mut buf).await.unwrap();
                    if count == 0 {
                        break;
                    }
                    server.write_all(&buf[..count]).await.unwrap();
                }
            });
            for len in [1, 10, 64, 500, 2047, 2048, 2049, 5000, 16_384, 70_000] {
                for round in 0..10 {
                    let message = pattern(len + round, len);
                    let mut answer = vec![0; len];
                    let (mut reader, mut writer) = client.split();
                    let (sent, received) =
                        blitzen::join!(writer.write_all(&message), reader.read_exact(&mut answer));
                    sent.unwrap();
                    received.unwrap();
                    assert_eq!(answer, message);
                }
            }
            client.shutdown().await.unwrap();
            assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
            serving.await.unwrap();
        });
    }
}

#[test]
fn many_tasks_on_many_workers_echo() {
    let Some(runtime) = runtime(4) else { return };
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        blitzen::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                blitzen::spawn(async move {
                    let mut buf = [0; 1024];
                    loop {
                        match stream.read(&mut buf).await {
                            Ok(0) | Err(_) => break,
                            Ok(count) => stream.write_all(&buf[..count]).await.unwrap(),
                        }
                    }
                });
            }
        });
        let clients: Vec<_> = (0..100)
            .map(|n| {
                blitzen::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    for round in 0..50 {
                        let message = pattern(n * 100 + round, 100 + n);
                        stream.write_all(&message).await.unwrap();
                        let mut answer = vec![0; message.len()];
                        stream.read_exact(&mut answer).await.unwrap();
                        assert_eq!(answer, message);
                        if round % 10 == 0 {
                            blitzen::task::yield_now().await; // and perhaps elsewhere
                        }
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    });
}

#[test]
fn a_stream_moves_to_readiness_and_never_back() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            let mut bytes = [0; 4];
            for round in 0..4 {
                match round {
                    0 => ours.set_mode(SocketMode::Completion).unwrap(),
                    2 => ours.set_mode(SocketMode::Readiness).unwrap(),
                    3 => {
                        let error = ours.set_mode(SocketMode::Completion).unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                        ours.set_mode(SocketMode::PreferCompletion).unwrap();
                    }
                    _ => {}
                }
                let mode = match round {
                    0 | 1 => SocketMode::Completion,
                    _ => SocketMode::Readiness,
                };
                assert_eq!(ours.mode(), mode);
                theirs.write_all(b"ping").unwrap();
                ours.read_exact(&mut bytes).await.unwrap();
                // Leaves a receive armed, where there is one.
                assert!(poll_once(ours.read(&mut bytes)).await.is_none());
                ours.write_all(b"pong").await.unwrap();
                ours.flush().await.unwrap();
            }
            drop(ours);
            let mut text = String::new();
            theirs.read_to_string(&mut text).unwrap();
            assert_eq!(text, "pongpongpongpong");
        });
    }
}

#[test]
fn a_stream_by_readiness_may_become_one_by_completion() {
    if runtime(0).is_none() {
        return;
    }
    let mut builder = blitzen::runtime::Builder::new_current_thread();
    builder.enable_all().socket_mode(SocketMode::Readiness);
    builder.build().unwrap().block_on(async {
        let (mut ours, mut theirs) = half_pair().await;
        let mut bytes = [0; 4];
        for mode in [SocketMode::Readiness, SocketMode::Completion] {
            ours.set_mode(mode).unwrap();
            assert_eq!(ours.mode(), mode);
            theirs.write_all(b"ping").unwrap();
            ours.read_exact(&mut bytes).await.unwrap();
            assert!(poll_once(ours.read(&mut bytes)).await.is_none());
        }
    });
}

#[test]
fn unread_bytes_come_first_after_the_move_to_readiness() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
            theirs.write_all(b"unread").unwrap();
            // The receive is armed, so what is seen has been brought.
            assert_eq!(ours.peek(&mut [0; 8]).await.unwrap(), 6);
            ours.set_mode(SocketMode::Readiness).unwrap();
            ours.readable().await.unwrap(); // the kernel brings no more
            theirs.write_all(b"more").unwrap();
            let refused = ours.try_io(Interest::READABLE, || Ok(()));
            assert!(refused.unwrap_err().to_string().contains("6 bytes"));
            // Nothing was lost by asking.
            let mut bytes = [0; 10];
            assert_eq!(ours.try_read(&mut bytes[..2]).unwrap(), 2);
            assert_eq!(ours.peek(&mut bytes[2..]).await.unwrap(), 4);
            ours.read_exact(&mut bytes[2..]).await.unwrap();
            assert_eq!(&bytes, b"unreadmore");
            let mut ours = ours.into_std().unwrap();
            theirs.write_all(b"later").unwrap();
            ours.set_nonblocking(false).unwrap();
            ours.read_exact(&mut bytes[..5]).unwrap();
            assert_eq!(&bytes[..5], b"later");
        });
    }
}

#[test]
fn foreign_operations_take_part_where_nothing_is_buffered() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = half_pair().await;
            theirs.write_all(b"peek at me").unwrap();
            let recv =
                || socket2::SockRef::from(&ours).recv(&mut [std::mem::MaybeUninit::uninit(); 4]);
            assert_eq!(ours.async_io(Interest::READABLE, recv).await.unwrap(), 4);
            ours.writable().await.unwrap();
            let sent = ours.try_io(Interest::WRITABLE, || {
                socket2::SockRef::from(&ours).send(b"hi")
            });
            assert_eq!(sent.unwrap(), 2);
            // And what blitzen knows goes on after it.
            let mut rest = [0; 6];
            ours.readable().await.unwrap();
            assert_eq!(ours.try_read(&mut rest).unwrap(), 6);
            assert_eq!(&rest, b" at me");
            let error = ours.try_read(&mut rest).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        });
    }
}

#[test]
fn a_write_that_answered_arrives_although_everything_is_dropped_at_once() {
    for workers in [0, 1, 2] {
        for polls_before in [false, true] {
            let Some(runtime) = runtime(workers) else {
                return;
            };
            let theirs: Vec<_> = (0..100)
                .map(|n| {
                    let task = async move {
                        let (mut ours, theirs) = half_pair().await;
                        if polls_before {
                            // Something is armed.
                            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
                            blitzen::task::yield_now().await;
                        }
                        for part in pattern(n, 100).chunks(10) {
                            assert_eq!(ours.write(part).await.unwrap(), 10);
                        }
                        theirs
                    };
                    runtime.block_on(async move { blitzen::spawn(task).await.unwrap() })
                })
                .collect();
            drop(runtime);
            for (n, mut theirs) in theirs.into_iter().enumerate() {
                let mut bytes = Vec::new();
                theirs.read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes, pattern(n, 100));
            }
        }
    }
}

#[test]
fn what_block_on_has_written_is_sent_when_it_returns() {
    let Some(runtime) = runtime(0) else { return };
    let (mut ours, mut theirs) = runtime.block_on(half_pair());
    for n in 0..10 {
        runtime.block_on(async {
            ours.write_all(&pattern(n, 50)).await.unwrap();
            ours.write_all(&pattern(n + 50, 50)).await.unwrap();
        });
        let mut bytes = [0; 100];
        theirs.read_exact(&mut bytes).unwrap(); // nobody turns the runtime now
        assert_eq!(&bytes[..], pattern(n, 100));
    }
    // Nor when the stream is dropped with a receive armed.
    runtime.block_on(async {
        assert!(poll_once(ours.read(&mut [0; 1])).await.is_none());
        blitzen::task::yield_now().await;
    });
    drop(ours);
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_runtime_may_be_dropped_with_hundreds_of_operations_in_flight() {
    for workers in [0, 2] {
        let before = completion_common::open_descriptors();
        let Some(runtime) = runtime(workers) else {
            return;
        };
        let (listeners, mut peers) = runtime.block_on(async {
            let mut peers = Vec::new();
            let mut listeners = Vec::new();
            for n in 0..100 {
                let (mut ours, theirs) = half_pair().await;
                peers.push(theirs);
                blitzen::spawn(async move {
                    let mut buf = vec![0; n * 100 + 1];
                    let _ = ours.read_exact(&mut buf).await;
                });
                // An address of its own, or another test takes the port afterwards.
                let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
                listeners.push(listener.local_addr().unwrap());
                blitzen::spawn(async move { listener.accept().await.map(drop) });
            }
            for _ in 0..10 {
                blitzen::task::yield_now().await;
            }
            (listeners, peers)
        });
        drop(runtime);
        for peer in &mut peers {
            assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "closed");
        }
        for address in listeners {
            assert!(std::net::TcpStream::connect(address).is_err(), "closed");
        }
        drop(peers);
        // Other tests' descriptors come and go; 200 leaked ones would show.
        assert!(completion_common::open_descriptors() < before + 150);
    }
}

#[test]
fn a_stream_outlives_its_runtime() {
    let Some(runtime) = runtime(1) else { return };
    let (mut ours, mut theirs) = runtime.block_on(async {
        blitzen::spawn(async {
            let (mut ours, theirs) = half_pair().await;
            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
            blitzen::task::yield_now().await;
            (ours, theirs)
        })
        .await
        .unwrap()
    });
    drop(runtime);
    // What needs no waiting is still done; what does says why it does not.
    assert_eq!(ours.try_write(b"still here").unwrap(), 10);
    theirs.read_exact(&mut [0; 10]).unwrap();
    let Some(other) = completion_common::runtime(0) else {
        return;
    };
    let error = other.block_on(ours.read(&mut [0; 8])).unwrap_err();
    assert!(blitzen::runtime::is_rt_shutdown_err(&error), "{error}");
    theirs.write_all(b"bytes").unwrap();
    let mut bytes = [0; 5];
    while ours.try_read(&mut bytes).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(&bytes, b"bytes");
    ours.into_std().unwrap();
}

#[test]
fn owned_buffers_are_read_written_and_given_back() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (client, server) = tcp_pair().await;
            let (sent, big) = blitzen::join!(
                async {
                    let (result, small) = client.write_owned(pattern(0, 100)).await;
                    assert_eq!((result.unwrap(), small.len()), (100, 100));
                    let (result, big) = client.send_zc(pattern(100, 200_000)).await;
                    assert_eq!(result.unwrap(), 200_000);
                    big
                },
                async {
                    let mut all = Vec::new();
                    while all.len() < 200_100 {
                        let (result, buf) = server.read_owned(Vec::with_capacity(30_000)).await;
                        assert_eq!(result.unwrap(), buf.len());
                        all.extend(buf);
                    }
                    all
                }
            );
            assert_eq!(sent.len(), 200_000);
            assert!(big == pattern(0, 200_100));
        });
    }
}

#[test]
fn unix_streams_go_by_completion_too() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut one, mut other) = UnixStream::pair().unwrap();
            assert_eq!(one.mode(), SocketMode::Completion);
            for n in 0..50 {
                one.write_all(&pattern(n, 300)).await.unwrap();
                let mut bytes = [0; 300];
                other.read_exact(&mut bytes).await.unwrap();
                assert_eq!(&bytes[..], pattern(n, 300));
            }
            one.shutdown().await.unwrap();
            assert_eq!(other.read(&mut [0; 1]).await.unwrap(), 0);
        });
    }
}

#[test]
fn time_that_stands_still_goes_on_although_sockets_wait() {
    let mut builder = blitzen::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    let runtime = builder.build().unwrap();
    runtime.block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        stream.set_mode(SocketMode::PreferCompletion).unwrap();
        let silence = Duration::from_secs(3600);
        let read = blitzen::time::timeout(silence, stream.read(&mut [0; 1])).await;
        assert!(read.is_err());
    });
}
