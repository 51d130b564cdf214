//! A future that is dropped in the middle of an operation loses no byte, and
//! repeats none.

mod net_common;

use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
use blitzen::net::{TcpListener, TcpStream, UdpSocket};
use net_common::{pattern, poll_a_few, poll_once, runtimes, tcp_pair};

const TOTAL: usize = 1 << 20;

#[test]
fn reads_and_writes_that_are_dropped_half_way_move_each_byte_once() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = tcp_pair().await.unwrap();
            let writing = blitzen::spawn(async move {
                let mut sent = 0;
                let mut round = 0;
                while sent < TOTAL {
                    round += 1;
                    let bytes = pattern(sent, (round * 37 % 4096 + 1).min(TOTAL - sent));
                    // Given up after a few polls, and tried again: only a write
                    // that has answered counts.
                    if let Some(count) = poll_a_few(round % 3 + 1, ours.write(&bytes)).await {
                        sent += count.unwrap();
                    }
                }
                ours
            });
            let mut received = 0;
            let mut round = 0;
            let mut buf = vec![0; 5000];
            while received < TOTAL {
                round += 1;
                let room = round * 61 % 5000 + 1;
                let part = &mut buf[..room];
                let read = match round % 4 {
                    0 => {
                        // A look first, which takes nothing.
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
fn the_halves_of_a_stream_survive_dropped_operations_too() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, theirs) = tcp_pair().await.unwrap();
            let (_reader, mut writer) = ours.into_split();
            let (mut reader, _writer) = theirs.into_split();
            let writing = blitzen::spawn(async move {
                let mut sent = 0;
                while sent < TOTAL {
                    let bytes = pattern(sent, 1500.min(TOTAL - sent));
                    if let Some(count) = poll_once(writer.write(&bytes)).await {
                        sent += count.unwrap();
                    } else {
                        writer.writable().await.unwrap();
                    }
                }
            });
            let mut received = 0;
            let mut buf = vec![0; 2000];
            while received < TOTAL {
                if let Some(count) = poll_once(reader.read(&mut buf)).await {
                    let count = count.unwrap();
                    assert_eq!(buf[..count], pattern(received, count));
                    received += count;
                } else {
                    reader.readable().await.unwrap();
                }
            }
            writing.await.unwrap();
            assert_eq!(reader.read(&mut buf).await.unwrap(), 0);
        });
    }
}

#[test]
fn a_dropped_accept_leaves_the_connection_to_the_next() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            for _ in 0..20 {
                let client = std::net::TcpStream::connect(address).unwrap();
                let mut accepted = None;
                while accepted.is_none() {
                    accepted = poll_a_few(2, listener.accept()).await;
                }
                let (_, from) = accepted.unwrap().unwrap();
                assert_eq!(from, client.local_addr().unwrap());
            }
        });
    }
}

#[test]
fn a_dropped_connect_leaves_nothing_behind() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            for polls in 0..10 {
                let Some(_) = poll_a_few(polls, TcpStream::connect(address)).await else {
                    continue;
                };
            }
            // Whatever came of those before: this one is served.
            let mut client = TcpStream::connect(address).await.unwrap();
            let own = client.local_addr().unwrap();
            let mut server = loop {
                let (stream, from) = listener.accept().await.unwrap();
                if from == own {
                    break stream;
                }
            };
            client.write_all(b"hello").await.unwrap();
            let mut bytes = [0; 5];
            server.read_exact(&mut bytes).await.unwrap();
        });
    }
}

#[test]
fn datagrams_are_received_once_whatever_is_dropped() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            sender
                .connect(receiver.local_addr().unwrap())
                .await
                .unwrap();
            for number in 0..500_u32 {
                let bytes = number.to_be_bytes();
                while poll_a_few(1, sender.send(&bytes)).await.is_none() {}
                let mut buf = [0; 16];
                let count = loop {
                    poll_once(receiver.peek_from(&mut buf)).await;
                    poll_once(receiver.ready(Interest::READABLE)).await;
                    if let Some(received) = poll_a_few(2, receiver.recv_from(&mut buf)).await {
                        break received.unwrap().0;
                    }
                };
                assert_eq!(buf[..count], bytes);
            }
            assert!(poll_a_few(3, receiver.recv(&mut [0; 16])).await.is_none());
        });
    }
}

#[cfg(unix)]
#[test]
fn pipes_and_unix_streams_move_each_byte_once() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut sender, mut receiver) = blitzen::net::unix::pipe::pipe().unwrap();
            let (mut one, mut other) = blitzen::net::UnixStream::pair().unwrap();
            // From the pipe into the socket and out again, all with interruptions.
            let feeding = blitzen::spawn(async move {
                let mut sent = 0;
                while sent < TOTAL {
                    let bytes = pattern(sent, 3000.min(TOTAL - sent));
                    if let Some(count) = poll_a_few(2, sender.write(&bytes)).await {
                        sent += count.unwrap();
                    }
                }
            });
            let passing = blitzen::spawn(async move {
                let mut buf = vec![0; 1024];
                loop {
                    let count = match poll_a_few(2, receiver.read(&mut buf)).await {
                        None => continue,
                        Some(count) => count.unwrap(),
                    };
                    if count == 0 {
                        break;
                    }
                    let mut passed = 0;
                    while passed < count {
                        if let Some(more) = poll_a_few(2, one.write(&buf[passed..count])).await {
                            passed += more.unwrap();
                        }
                    }
                }
            });
            let mut received = 0;
            let mut buf = vec![0; 4096];
            loop {
                let Some(count) = poll_a_few(2, other.read(&mut buf)).await else {
                    continue;
                };
                let count = count.unwrap();
                if count == 0 {
                    break;
                }
                assert_eq!(buf[..count], pattern(received, count));
                received += count;
            }
            assert_eq!(received, TOTAL);
            feeding.await.unwrap();
            passing.await.unwrap();
        });
    }
}
