//! Futures dropped at every stage of every operation, by completion: no byte is
//! lost or repeated, no connection lost, no descriptor leaked.
#![cfg(blitzen_ring)]

mod completion_common;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream};
use completion_common::{open_descriptors, pattern, poll_a_few, poll_once, runtimes, tcp_pair};

const TOTAL: usize = 1 << 20;

#[test]
fn reads_and_writes_that_are_dropped_half_way_move_each_byte_once() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = tcp_pair().await;
            let writing = blitzen::spawn(async move {
                let mut sent = 0;
                let mut round = 0;
                while sent < TOTAL {
                    round += 1;
                    // Small ones, which are buffered, and large ones.
                    let len = match round % 3 {
                        0 => round * 37 % 9000 + 1,
                        _ => round * 37 % 2000 + 1,
                    };
                    let bytes = pattern(sent, len.min(TOTAL - sent));
                    if let Some(count) = poll_a_few(round % 3 + 1, ours.write(&bytes)).await {
                        sent += count.unwrap();
                    }
                    if round % 50 == 0 {
                        poll_once(ours.flush()).await;
                        poll_once(ours.writable()).await;
                    }
                }
                ours
            });
            let mut received = 0;
            let mut round = 0;
            let mut buf = vec![0; 5000];
            while received < TOTAL {
                round += 1;
                let part = &mut buf[..round * 61 % 5000 + 1];
                let read = match round % 5 {
                    0 => {
                        if let Some(seen) = poll_a_few(2, theirs.peek(part)).await {
                            let seen = seen.unwrap();
                            assert_eq!(part[..seen], pattern(received, seen));
                        }
                        continue;
                    }
                    1 => {
                        poll_once(theirs.readable()).await;
                        continue;
                    }
                    2 => {
                        let room = Vec::with_capacity(part.len());
                        match poll_a_few(2, theirs.read_owned(room)).await {
                            None => continue,
                            Some((result, bytes)) => {
                                part[..bytes.len()].copy_from_slice(&bytes);
                                Some(result)
                            }
                        }
                    }
                    _ => poll_a_few(round % 5 + 1, theirs.read(part)).await,
                };
                if let Some(count) = read {
                    let count = count.unwrap();
                    assert_eq!(part[..count], pattern(received, count), "at {received}");
                    received += count;
                }
            }
            drop(writing.await.unwrap());
            assert_eq!(theirs.read(&mut buf).await.unwrap(), 0, "no byte more");
        });
    }
}

#[test]
fn an_owned_write_that_is_dropped_is_sent_whole_or_not_at_all() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = tcp_pair().await;
            let reading = blitzen::spawn(async move {
                let mut bytes = Vec::new();
                theirs.read_to_end(&mut bytes).await.unwrap();
                bytes
            });
            for round in 0..60_usize {
                // One byte, repeated, so that pieces are told apart.
                let bytes = vec![round as u8; 40_000 + round];
                let write = async {
                    match round % 2 {
                        0 => ours.write_owned(bytes).await,
                        _ => ours.send_zc(bytes).await,
                    }
                };
                poll_a_few(round % 4, write).await;
            }
            drop(ours);
            let bytes = reading.await.unwrap();
            for piece in bytes.chunk_by(|one, other| one == other) {
                assert_eq!(piece.len(), 40_000 + usize::from(piece[0]), "cut");
            }
        });
    }
}

#[test]
fn a_dropped_accept_leaves_the_connection_to_the_next() {
    for runtime in runtimes() {
        let before = open_descriptors();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            for _ in 0..50 {
                let client = std::net::TcpStream::connect(address).unwrap();
                let mut accepted = None;
                while accepted.is_none() {
                    accepted = poll_a_few(2, listener.accept()).await;
                }
                let (_, from) = accepted.unwrap().unwrap();
                assert_eq!(from, client.local_addr().unwrap());
            }
        });
        drop(runtime);
        assert!(open_descriptors() < before + 40);
    }
}

#[test]
fn a_dropped_connect_or_shutdown_does_no_harm() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            for polls in 0..10 {
                poll_a_few(polls, TcpStream::connect(address)).await;
            }
            let mut client = TcpStream::connect(address).await.unwrap();
            let own = client.local_addr().unwrap();
            let mut server = loop {
                let (stream, from) = listener.accept().await.unwrap();
                if from == own {
                    break stream;
                }
            };
            client.write_all(b"hello").await.unwrap();
            poll_once(client.shutdown()).await;
            client.shutdown().await.unwrap();
            let mut text = String::new();
            server.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "hello");
        });
    }
}

#[test]
fn streams_that_come_and_go_at_every_stage_leak_nothing() {
    for runtime in runtimes() {
        let before = open_descriptors();
        runtime.block_on(async {
            for stage in 0..200 {
                let (mut ours, mut theirs) = tcp_pair().await;
                if stage & 1 != 0 {
                    poll_once(ours.read(&mut [0; 8])).await;
                }
                if stage & 2 != 0 {
                    blitzen::task::yield_now().await;
                }
                if stage & 4 != 0 {
                    theirs.write_all(b"ping").await.unwrap();
                }
                if stage & 8 != 0 {
                    poll_once(ours.readable()).await;
                }
                if stage & 16 != 0 {
                    let _ = ours.try_write(b"pong");
                }
                if stage & 32 != 0 {
                    poll_once(ours.write_owned(vec![1; 10_000])).await;
                }
                if stage & 64 != 0 {
                    drop(theirs);
                }
            }
        });
        drop(runtime);
        // Other tests' descriptors come and go; 400 leaked ones would show.
        assert!(open_descriptors() < before + 100);
    }
}
