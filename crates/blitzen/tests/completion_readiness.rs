//! A stream by completion whose readiness is asked for: one side knows the socket at
//! any time, so nothing is missed and nobody waits for ever.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
use blitzen::net::{SocketMode, TcpStream, UnixStream};
use blitzen::task::yield_now;
use blitzen::time::timeout;
use completion_common::{half_pair, pattern, poll_once, runtime, runtimes, tcp_pair};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);
/// Some time for the kernel to bring what it can.
const MOMENT: Duration = Duration::from_millis(2);

/// Our side has had short messages, so that the kernel brings all that come.
async fn served_by_the_ring() -> (TcpStream, std::net::TcpStream) {
    let (mut ours, mut theirs) = half_pair().await;
    for n in 0..5 {
        theirs.write_all(&pattern(n, 8)).unwrap();
        ours.read_exact(&mut [0; 8]).await.unwrap();
    }
    assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
    assert_eq!(ours.mode(), SocketMode::Completion);
    (ours, theirs)
}

#[test]
fn readable_returns_for_bytes_and_for_the_end_after_reads_and_tries() {
    for runtime in runtimes() {
        runtime.block_on(async {
            for ends in [false, true] {
                let (mut ours, mut theirs) = served_by_the_ring().await;
                let tried = ours.try_io(Interest::READABLE, || {
                    Err::<(), _>(ErrorKind::WouldBlock.into())
                });
                assert_eq!(tried.unwrap_err().kind(), ErrorKind::WouldBlock);
                assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
                match ends {
                    false => theirs.write_all(b"hello").unwrap(),
                    true => theirs.shutdown(std::net::Shutdown::Write).unwrap(),
                }
                timeout(LONG, ours.readable()).await.unwrap().unwrap();
                let mut bytes = [0; 8];
                let read = timeout(LONG, ours.read(&mut bytes)).await.unwrap();
                assert_eq!(read.unwrap(), if ends { 0 } else { 5 });
                // Again, after a look that finds nothing.
                if !ends {
                    assert_eq!(
                        ours.try_read(&mut bytes).unwrap_err().kind(),
                        ErrorKind::WouldBlock
                    );
                    theirs.write_all(b"again").unwrap();
                    timeout(LONG, ours.readable()).await.unwrap().unwrap();
                    assert_eq!(ours.try_read(&mut bytes).unwrap(), 5);
                }
            }
        });
    }
}

#[test]
fn readable_returns_for_bytes_that_arrive_while_the_stream_moves() {
    for runtime in runtimes() {
        runtime.block_on(async {
            for round in 0..50 {
                let (ours, mut theirs) = served_by_the_ring().await;
                let writer = std::thread::spawn(move || {
                    theirs.write_all(b"hello").unwrap();
                    theirs
                });
                if round % 2 == 0 {
                    yield_now().await;
                }
                let mut received = Vec::new();
                while received.len() < 5 {
                    timeout(LONG, ours.readable()).await.unwrap().unwrap();
                    match ours.try_read_buf(&mut received) {
                        Ok(count) => assert_ne!(count, 0),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                    }
                }
                assert_eq!(received, b"hello");
                drop(writer.join().unwrap());
                // And of the end.
                timeout(LONG, ours.readable()).await.unwrap().unwrap();
                assert_eq!(ours.try_read(&mut [0; 1]).unwrap(), 0);
            }
        });
    }
}

#[test]
fn a_reader_that_waits_goes_on_when_another_task_moves_the_stream() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = served_by_the_ring().await;
            let ours = Arc::new(ours);
            let reader = blitzen::spawn({
                let ours = ours.clone();
                async move {
                    let (result, bytes) = ours.read_owned(Vec::with_capacity(8)).await;
                    result.map(|_| bytes)
                }
            });
            let peeker = blitzen::spawn({
                let ours = ours.clone();
                async move { ours.peek(&mut [0; 8]).await }
            });
            yield_now().await;
            assert_eq!(
                ours.try_read(&mut [0; 8]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            assert_eq!(ours.mode(), SocketMode::Readiness);
            yield_now().await;
            theirs.write_all(b"one").unwrap();
            let first = timeout(LONG, reader).await.unwrap().unwrap();
            assert_eq!(first.unwrap(), b"one");
            theirs.write_all(b"two").unwrap();
            timeout(LONG, peeker).await.unwrap().unwrap().unwrap();
        });
    }
}

#[test]
fn everything_that_lets_the_descriptor_out_moves_the_stream() {
    type Use = fn(&TcpStream);
    let uses: [Use; 6] = [
        |stream| assert!(stream.as_fd().as_raw_fd() > 0),
        |stream| assert!(stream.as_raw_fd() > 0),
        |stream| drop(stream.try_io(Interest::READABLE, || Ok(()))),
        |stream| drop(stream.try_read(&mut [0; 1])),
        |stream| drop(stream.try_write(b"x")),
        |stream| drop(socket2::SockRef::from(stream).tcp_nodelay()),
    ];
    for runtime in runtimes() {
        runtime.block_on(async {
            for used in uses {
                let (mut ours, mut theirs) = served_by_the_ring().await;
                used(&ours);
                assert_eq!(ours.mode(), SocketMode::Readiness);
                theirs.write_all(b"hello").unwrap();
                let mut bytes = [0; 5];
                timeout(LONG, ours.read_exact(&mut bytes))
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!(&bytes, b"hello");
                ours.write_all(b"hello").await.unwrap();
                theirs.read_exact(&mut bytes).unwrap();
            }
            // These do not.
            let (ours, _theirs) = served_by_the_ring().await;
            ours.set_nodelay(true).unwrap();
            ours.set_ttl(60).unwrap();
            ours.local_addr().unwrap();
            ours.peer_addr().unwrap();
            assert!(ours.take_error().unwrap().is_none());
            assert_eq!(ours.mode(), SocketMode::Completion);
        });
    }
}

#[test]
fn the_descriptor_itself_reads_what_comes_after_it_was_let_out() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = served_by_the_ring().await;
            let socket = socket2::SockRef::from(&ours);
            theirs.write_all(b"hello").unwrap();
            let mut bytes = [std::mem::MaybeUninit::uninit(); 8];
            let read = loop {
                match socket.recv(&mut bytes) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                    read => break read.unwrap(),
                }
            };
            assert_eq!(read, 5);
        });
    }
}

#[test]
fn what_was_written_goes_out_before_the_descriptor() {
    for runtime in runtimes() {
        runtime.block_on(async {
            blitzen::spawn(async {
                let (mut ours, mut theirs) = served_by_the_ring().await;
                for part in [b"1", b"2", b"3"] {
                    ours.write_all(part).await.unwrap();
                }
                let socket = socket2::SockRef::from(&ours);
                socket.shutdown(std::net::Shutdown::Write).unwrap();
                let mut text = String::new();
                theirs.read_to_string(&mut text).unwrap();
                assert_eq!(text, "123");
            })
            .await
            .unwrap();
        });
    }
}

/// Has the kernel put something into the error queue of a socket, for every byte
/// that it sends.
fn stamp_sends(stream: &impl AsRawFd) {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    let (start, len) = ((&raw const flags).cast(), size_of_val(&flags) as u32);
    // SAFETY: a number, and its size.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            start,
            len,
        )
    };
    assert_eq!(set, 0);
}

#[test]
fn something_in_the_error_queue_does_not_make_a_read_spin() {
    for runtime in runtimes() {
        runtime.block_on(async {
            // Before it is the stream's, so that it does not move.
            let (ours, mut theirs) = half_pair().await;
            let ours = ours.into_std().unwrap();
            stamp_sends(&ours);
            let mut ours = TcpStream::from_std(ours).unwrap();
            let mut bytes = vec![0; 50_000];
            // Large messages, which the kernel only announces.
            for _ in 0..3 {
                theirs.write_all(&pattern(0, 50_000)).unwrap();
                ours.read_exact(&mut bytes).await.unwrap();
            }
            ours.write_all(&[7; 4096]).await.unwrap(); // into the error queue
            ours.flush().await.unwrap();
            theirs.read_exact(&mut bytes[..4096]).unwrap();
            // One that spins would never give the time back.
            assert!(timeout(MOMENT, ours.read(&mut bytes)).await.is_err());
            theirs.write_all(b"hello").unwrap();
            let read = timeout(LONG, ours.read(&mut bytes)).await.unwrap();
            assert_eq!(read.unwrap(), 5);
            assert!(timeout(MOMENT, ours.read(&mut bytes)).await.is_err());
            drop(theirs);
            let read = timeout(LONG, ours.read(&mut bytes)).await.unwrap();
            assert_eq!(read.unwrap(), 0);
        });
    }
}

struct Unwoken;

impl Wake for Unwoken {
    fn wake(self: Arc<Self>) {}
}

/// Polls once with a waker of its own; how many references to that are left when
/// the future has been dropped.
fn references_after_drop<T>(mut future: Pin<Box<dyn Future<Output = T> + '_>>) -> usize {
    let unwoken = Arc::new(Unwoken);
    let waker = Waker::from(unwoken.clone());
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
    drop((future, waker));
    Arc::strong_count(&unwoken) - 1
}

#[test]
fn a_dropped_wait_is_forgotten() {
    let Some(runtime) = runtime(0) else { return };
    runtime.block_on(async {
        let (ours, _theirs) = served_by_the_ring().await;
        let mut room = [0; 8];
        assert_eq!(references_after_drop(Box::pin(ours.peek(&mut room))), 0);
        let read = ours.read_owned(Vec::with_capacity(8));
        assert_eq!(references_after_drop(Box::pin(read)), 0);
        assert_eq!(ours.mode(), SocketMode::Completion);
        ours.try_read(&mut room).unwrap_err(); // there is nothing
        for _ in 0..3 {
            assert_eq!(references_after_drop(Box::pin(ours.readable())), 0);
            let recv = || Err::<(), _>(ErrorKind::WouldBlock.into());
            let tried = ours.async_io(Interest::READABLE, recv);
            assert_eq!(references_after_drop(Box::pin(tried)), 0);
        }
    });
}

#[test]
fn all_who_wait_through_a_shared_reference_are_served() {
    for runtime in runtimes() {
        runtime.block_on(async {
            for moves in [false, true] {
                let (ours, mut theirs) = served_by_the_ring().await;
                let ours = Arc::new(ours);
                if moves {
                    drop(ours.try_read(&mut [0; 1]));
                }
                let peekers: Vec<_> = (0..3)
                    .map(|_| {
                        let ours = ours.clone();
                        blitzen::spawn(async move { ours.peek(&mut [0; 8]).await })
                    })
                    .collect();
                let readers: Vec<_> = (0..3)
                    .map(|_| {
                        let ours = ours.clone();
                        blitzen::spawn(
                            async move { ours.read_owned(Vec::with_capacity(1)).await.0 },
                        )
                    })
                    .collect();
                blitzen::time::sleep(MOMENT).await;
                theirs.write_all(b"abcdef").unwrap();
                for reader in readers {
                    assert_eq!(timeout(LONG, reader).await.unwrap().unwrap().unwrap(), 1);
                }
                for peeker in peekers {
                    assert!(timeout(LONG, peeker).await.unwrap().unwrap().unwrap() >= 1);
                }
            }
        });
    }
}

#[test]
fn unix_streams_move_too() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
            theirs.write_all(b"hello").await.unwrap();
            theirs.flush().await.unwrap();
            timeout(LONG, ours.readable()).await.unwrap().unwrap();
            let mut bytes = [0; 5];
            ours.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"hello");
        });
    }
}

#[test]
fn both_sides_move_in_the_middle_of_a_long_transfer() {
    const TOTAL: usize = 3 << 20;
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut client, mut server) = tcp_pair().await;
            let writer = blitzen::spawn(async move {
                for (n, part) in pattern(0, TOTAL).chunks(5000).enumerate() {
                    client.write_all(part).await.unwrap();
                    if n == 100 {
                        client.writable().await.unwrap();
                    }
                }
                client.shutdown().await.unwrap();
            });
            let mut received = Vec::new();
            let mut reads = 0;
            while server.read_buf(&mut received).await.unwrap() > 0 {
                reads += 1;
                if reads == 20 {
                    server.readable().await.unwrap();
                }
            }
            writer.await.unwrap();
            assert!(received == pattern(0, TOTAL));
        });
    }
}
