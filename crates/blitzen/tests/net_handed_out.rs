//! Descriptors that leave the runtime, come back, or are closed behind its back.

mod net_common;

use std::io::{Read, Write};

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream, UdpSocket};
use net_common::{one_thread, poll_once, runtimes, tcp_pair, with_workers};

#[test]
fn unread_bytes_stay_in_a_stream_that_leaves() {
    for runtime in runtimes() {
        let stream = runtime.block_on(async {
            let (ours, mut theirs) = tcp_pair().await.unwrap();
            theirs.write_all(b"some bytes and more").await.unwrap();
            ours.readable().await.unwrap();
            let mut few = [0; 10];
            assert_eq!(ours.try_read(&mut few).unwrap(), 10);
            ours.into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        let mut rest = String::new();
        (&stream).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, " and more");
    }
}

#[test]
fn a_stream_can_move_from_one_runtime_to_another_and_back() {
    let (one, other) = (with_workers(2), one_thread());
    let (mut stream, mut peer) = one.block_on(tcp_pair()).unwrap();
    for round in 0..5_u8 {
        let std_stream = {
            let _runtime = one.enter();
            stream.into_std().unwrap()
        };
        stream = other.block_on(async {
            let mut stream = TcpStream::from_std(std_stream).unwrap();
            stream.write_all(&[round]).await.unwrap();
            stream
        });
        let std_stream = stream.into_std().unwrap();
        stream = one.block_on(async {
            let mut byte = [0];
            peer.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [round]);
            peer.write_all(&byte).await.unwrap();
            let mut stream = TcpStream::from_std(std_stream).unwrap();
            stream.read_exact(&mut byte).await.unwrap();
            stream
        });
    }
}

#[test]
fn a_socket_works_in_the_tasks_of_another_runtime() {
    let (home, away) = (with_workers(1), one_thread());
    let (mut one, mut other) = home.block_on(tcp_pair()).unwrap();
    away.block_on(async {
        let echo = blitzen::spawn(async move {
            let mut bytes = [0; 5];
            other.read_exact(&mut bytes).await.unwrap();
            other.write_all(&bytes).await.unwrap();
        });
        one.write_all(b"hello").await.unwrap();
        let mut bytes = [0; 5];
        one.read_exact(&mut bytes).await.unwrap();
        echo.await.unwrap();
    });
}

#[test]
fn a_duplicate_that_lives_on_disturbs_nobody() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = tcp_pair().await.unwrap();
            let ours = ours.into_std().unwrap();
            let duplicate = ours.try_clone().unwrap();
            drop(TcpStream::from_std(ours).unwrap());
            // Events of a descriptor whose socket is gone, and a socket that may
            // get the same number.
            theirs.write_all(b"for the duplicate").await.unwrap();
            let (mut one, mut other) = tcp_pair().await.unwrap();
            one.write_all(b"x").await.unwrap();
            other.read_exact(&mut [0]).await.unwrap();

            let mut back = TcpStream::from_std(duplicate).unwrap();
            let mut bytes = [0; 17];
            back.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"for the duplicate");
        });
    }
}

#[test]
fn a_listener_and_a_datagram_socket_leave_and_come_back() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(address).unwrap();
            let listener = TcpListener::from_std(listener.into_std().unwrap()).unwrap();
            let (_, from) = listener.accept().await.unwrap();
            assert_eq!(from, client.local_addr().unwrap());

            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            sender
                .send_to(b"hello", socket.local_addr().unwrap())
                .unwrap();
            let socket = UdpSocket::from_std(socket.into_std().unwrap()).unwrap();
            assert_eq!(socket.recv(&mut [0; 8]).await.unwrap(), 5);
        });
    }
}

#[cfg(unix)]
#[test]
fn a_descriptor_closed_while_a_task_waits_on_it_harms_nobody_else() {
    use blitzen::io::unix::AsyncFd;
    use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

    struct Number(RawFd);
    impl AsRawFd for Number {
        fn as_raw_fd(&self) -> RawFd {
            self.0
        }
    }

    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let fd = ours.into_raw_fd();
            // SAFETY: it is closed below on purpose; nothing but the selector
            // is asked about it afterwards.
            let watched = unsafe { AsyncFd::register(Number(fd)) }.unwrap();
            let waiting = blitzen::spawn(async move {
                let _ = watched.readable().await.map(drop);
            });
            blitzen::task::yield_now().await;
            // SAFETY: the last owner of the descriptor.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            let _ = theirs.write_all(b"nobody listens");

            let (mut one, mut other) = tcp_pair().await.unwrap();
            one.write_all(b"x").await.unwrap();
            other.read_exact(&mut [0]).await.unwrap();
            waiting.abort();
            let _ = waiting.await;
        });
    }
}

/// Over poll(2) the selector has forgotten it by then.
#[cfg(unix)]
#[test]
fn a_stream_whose_peer_has_closed_can_leave() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, theirs) = blitzen::net::UnixStream::pair().unwrap();
            drop(theirs);
            assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
            ours.into_std().unwrap();
        });
    }
}

/// Over poll(2) the selector reports an event once: clearing the readiness has to ask for the
/// next one.
#[cfg(unix)]
#[test]
fn an_async_fd_hears_of_every_event_in_both_directions() {
    use blitzen::io::Interest;
    use blitzen::io::unix::AsyncFd;
    use std::io::ErrorKind;
    use std::os::unix::net::UnixStream;
    use std::pin::pin;

    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            // SAFETY: a stream keeps its descriptor open.
            let ours = unsafe { AsyncFd::register(ours) }.unwrap();
            for round in 0..5 {
                let read_byte = |mut ours: &UnixStream| {
                    let mut room = [0];
                    ours.read_exact(&mut room).map(|()| room[0])
                };
                let mut read = pin!(ours.async_io(Interest::READABLE, read_byte));
                assert!(poll_once(read.as_mut()).await.is_none());
                theirs.write_all(&[round]).unwrap();
                assert_eq!(read.await.unwrap(), round);
            }
            for _ in 0..3 {
                let mut sent = 0;
                loop {
                    match ours.get_ref().write(&[7; 4096]) {
                        Ok(count) => sent += count,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                let mut write =
                    pin!(ours.async_io(Interest::WRITABLE, |mut ours| ours.write(&[7])));
                assert!(poll_once(write.as_mut()).await.is_none());
                theirs.read_exact(&mut vec![0; sent]).unwrap();
                assert_eq!(write.await.unwrap(), 1);
                theirs.read_exact(&mut [0]).unwrap();
            }
        });
    }
}
