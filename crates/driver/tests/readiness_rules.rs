//! Cached readiness, on real sockets: what is known, when it is forgotten.
//!
//! Tests of Unix only rely on what a selector or a Unix socket does there: on Windows an event comes
//! once until an operation would block, and a stream of TCP has no fixed room.

#![cfg(not(blitzen_loom))]
#![cfg_attr(not(unix), allow(dead_code))] // what only those use

mod common;

use std::io::{ErrorKind, Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use blitzen_driver::{Interest, Poller, Ready, Registration};
use blitzen_util::coop;
use common::{
    BOTH, Count, LocalStream, Owner, blocking, connect, connected, listen, pair, turn_until_ready,
};
use futures::FutureExt;
use futures::executor::block_on;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn poller() -> Arc<Poller> {
    Arc::new(Poller::new(64).unwrap())
}

fn try_read(io: &Registration, mut stream: &LocalStream) -> Result<usize, ErrorKind> {
    io.try_io(Interest::READABLE, || stream.read(&mut [0; 8]))
        .map_err(|error| error.kind())
}

#[test]
fn a_connection_carries_bytes_both_ways() {
    let owner = Owner::start();
    let (listener, accepting) = listen(&owner.poller);
    let other = Owner::start(); // the client's home is another poller
    let (mut client, client_io) = block_on(connect(&other.poller, &listener)).unwrap();
    let (mut server, _) =
        block_on(accepting.async_io(Interest::READABLE, || listener.accept())).unwrap();
    let assumed = Ready::READABLE | Ready::WRITABLE;
    let server_io = owner.poller.register(&mut server, BOTH, assumed).unwrap();

    let message = vec![7; 1 << 20];
    let echo = std::thread::spawn(move || {
        let mut room = vec![0; 4096];
        let mut echoed = 0;
        loop {
            let read = server_io.async_io(Interest::READABLE, || server.read(&mut room));
            let got = block_on(read).unwrap();
            if got == 0 {
                return echoed;
            }
            let mut sent = 0;
            while sent < got {
                let rest = &room[sent..got];
                let write = server_io.async_io(Interest::WRITABLE, || server.write(rest));
                sent += block_on(write).unwrap();
            }
            echoed += got;
        }
    });

    let (mut sent, mut received) = (0, Vec::new());
    let mut room = vec![0; 4096];
    // One task that reads and writes: the direction's own wakers.
    block_on(std::future::poll_fn(|cx| {
        while sent < message.len() {
            match client_io.poll_write_io(cx, || client.write(&message[sent..])) {
                Poll::Ready(moved) => sent += moved.unwrap(),
                Poll::Pending => break,
            }
        }
        while received.len() < message.len() {
            match client_io.poll_read_io(cx, || client.read(&mut room)) {
                Poll::Ready(got) => received.extend_from_slice(&room[..got.unwrap()]),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }));
    assert!(received == message);
    drop(client);
    assert_eq!(echo.join().unwrap(), message.len());
}

#[test]
fn nothing_is_known_before_the_first_event_unless_assumed() {
    let poller = poller();
    let (ours, io, mut theirs) = pair(&poller);
    theirs.write_all(b"x").unwrap();
    assert_eq!(try_read(&io, &ours), Err(ErrorKind::WouldBlock));
    turn_until_ready(&poller, &io, Interest::READABLE);
    assert_eq!(try_read(&io, &ours), Ok(1));

    let (mut ours, mut theirs) = connected();
    theirs.write_all(b"x").unwrap();
    let assumed = Ready::READABLE | Ready::WRITABLE;
    let io = poller.register(&mut ours, BOTH, assumed).unwrap();
    assert_eq!(try_read(&io, &ours), Ok(1));
    // The assumption holds until a try refutes it.
    assert!(io.readiness(Interest::READABLE).now_or_never().is_some());
    assert_eq!(try_read(&io, &ours), Err(ErrorKind::WouldBlock));
    assert!(io.readiness(Interest::READABLE).now_or_never().is_none());
}

/// A pair, the first one registered as a stream that can be written to.
fn stream_pair(poller: &Arc<Poller>) -> (LocalStream, Registration, LocalStream) {
    let (mut ours, theirs) = connected();
    let io = poller
        .register_stream(&mut ours, Ready::READABLE | Ready::WRITABLE)
        .unwrap();
    (ours, io, theirs)
}

/// Writes until there is no room, by tries.
fn fill(io: &Registration, mut stream: &LocalStream) -> usize {
    let mut sent = 0;
    loop {
        match io.try_io(Interest::WRITABLE, || stream.write(&[7; 4096])) {
            Ok(count) => sent += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return sent;
            }
        }
    }
}

#[test]
#[cfg(all(target_os = "linux", not(blitzen_poll)))]
fn a_stream_without_data_causes_no_event() {
    let poller = poller();
    let (ours, io, mut theirs) = stream_pair(&poller);
    assert_eq!(poller.turn(NOW).unwrap(), 0);
    assert!(io.ready_now(Interest::WRITABLE).ready().is_writable());
    assert_eq!(try_read(&io, &ours), Err(ErrorKind::WouldBlock));
    theirs.write_all(b"x").unwrap();
    assert_eq!(poller.turn(NOW).unwrap(), 1);
    assert_eq!(try_read(&io, &ours), Ok(1));
}

#[cfg(unix)]
#[test]
fn a_stream_that_was_full_is_watched_for_room() {
    let poller = poller();
    let (ours, io, mut theirs) = stream_pair(&poller);
    let (woken, waker) = Count::new();
    let mut cx = Context::from_waker(&waker);
    for _ in 0..3 {
        let sent = fill(&io, &ours);
        while poller.turn(NOW).unwrap() > 0 {}
        assert!(io.ready_now(Interest::WRITABLE).ready().is_empty());
        let before = woken.get();
        assert!(io.poll_write_ready(&mut cx).is_pending());
        theirs.read_exact(&mut vec![0; sent]).unwrap();
        while woken.get() == before {
            poller.turn(None).unwrap();
        }
        assert!(io.poll_write_ready(&mut cx).is_ready());
    }
}

#[test]
fn a_stream_carries_more_than_it_has_room_for() {
    let owner = Owner::start();
    let (mut ours, io, theirs) = stream_pair(&owner.poller);
    let reader = std::thread::spawn(move || {
        let mut theirs = blocking(theirs);
        let mut room = vec![0; 1 << 16];
        let mut got = 0;
        loop {
            match theirs.read(&mut room).unwrap() {
                0 => return got,
                count => got += count,
            }
        }
    });
    let message = vec![7; 1 << 22];
    let mut sent = 0;
    // By futures and by the direction's own waker in turn.
    while sent < message.len() {
        let rest = &message[sent..];
        let write = io.async_io(Interest::WRITABLE, || ours.write(rest));
        sent += block_on(write).unwrap();
        let rest = &message[sent..];
        let write =
            |cx: &mut Context<'_>| io.poll_write_stream(cx, rest.len(), || (&ours).write(rest));
        sent += block_on(std::future::poll_fn(write)).unwrap();
    }
    drop((ours, io));
    assert_eq!(reader.join().unwrap(), message.len());
}

#[test]
fn readiness_lasts_until_a_try_finds_nothing() {
    let poller = poller();
    let (ours, io, mut theirs) = pair(&poller);
    theirs.write_all(b"x").unwrap();
    turn_until_ready(&poller, &io, Interest::READABLE);
    assert_eq!(try_read(&io, &ours), Ok(1));
    assert!(io.ready_now(Interest::READABLE).ready().is_readable());
    // An operation that ends otherwise leaves it as it is.
    io.try_io(Interest::READABLE, || Ok(())).unwrap();
    assert!(io.ready_now(Interest::READABLE).ready().is_readable());
    assert_eq!(try_read(&io, &ours), Err(ErrorKind::WouldBlock));
    assert!(io.ready_now(Interest::READABLE).ready().is_empty());
    let mut called = false;
    let untried = io.try_io(Interest::READABLE, || {
        called = true;
        Ok(())
    });
    assert_eq!(untried.unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!called);
    // The other direction is not concerned.
    turn_until_ready(&poller, &io, Interest::WRITABLE);
    assert!(io.ready_now(Interest::WRITABLE).ready().is_writable());
}

#[cfg(all(unix, not(blitzen_poll)))] // which has no second event before a read would block
#[test]
fn a_clear_that_comes_after_a_new_event_leaves_it() {
    let poller = poller();
    let (_ours, io, mut theirs) = pair(&poller);
    theirs.write_all(b"x").unwrap();
    poller.turn(NOW).unwrap();
    let seen = io.ready_now(Interest::READABLE);
    theirs.write_all(b"y").unwrap();
    poller.turn(NOW).unwrap();
    io.clear_readiness(seen);
    assert!(io.ready_now(Interest::READABLE).ready().is_readable());
}

#[cfg(all(unix, not(blitzen_poll)))] // which reports no changes
#[test]
fn a_short_read_forgets_the_readiness_and_a_full_one_keeps_it() {
    let poller = poller();
    let (mut ours, io, mut theirs) = pair(&poller);
    let mut cx = Context::from_waker(Waker::noop());
    theirs.write_all(b"helloworld").unwrap();
    poller.turn(NOW).unwrap();
    let mut room = [0; 5];
    for _ in 0..2 {
        let read = io.poll_read_stream(&mut cx, 5, || ours.read(&mut room));
        assert!(matches!(read, Poll::Ready(Ok(5))));
        assert!(io.ready_now(Interest::READABLE).ready().is_readable());
    }
    let read = io.poll_read_stream(&mut cx, 5, || ours.read(&mut room));
    assert!(read.is_pending());

    theirs.write_all(b"abc").unwrap();
    poller.turn(NOW).unwrap();
    let read = io.poll_read_stream(&mut cx, 5, || ours.read(&mut room));
    assert!(matches!(read, Poll::Ready(Ok(3))));
    assert!(io.ready_now(Interest::READABLE).ready().is_empty());
}

#[cfg(unix)]
#[test]
fn the_end_is_known_for_good() {
    let poller = poller();
    let (mut ours, io, mut theirs) = pair(&poller);
    theirs.write_all(b"last").unwrap();
    drop(theirs);
    poller.turn(NOW).unwrap();
    let event = io.ready_now(Interest::READABLE);
    assert!(event.ready().is_read_closed());
    io.clear_readiness(event);
    let mut cx = Context::from_waker(Waker::noop());
    let mut room = [0; 64];
    for expected in [4, 0, 0] {
        let read = io.poll_read_stream(&mut cx, 64, || ours.read(&mut room));
        assert!(matches!(read, Poll::Ready(Ok(got)) if got == expected));
    }
    assert!(io.ready_now(Interest::WRITABLE).ready().is_write_closed());
}

#[cfg(target_os = "linux")]
#[test]
fn a_named_pipe_that_gets_a_new_writer_is_waited_for_again() {
    use std::fs::OpenOptions;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;

    let path = std::env::temp_dir().join(format!("blitzen-fifo-{}", std::process::id()));
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let open = || {
        let mut options = OpenOptions::new();
        options.custom_flags(libc::O_NONBLOCK);
        options
    };
    let mut reader = open().read(true).open(&path).unwrap();
    let poller = poller();
    let fd = reader.as_raw_fd();
    let mut source = mio::unix::SourceFd(&fd);
    let mut io = poller
        .register(&mut source, Interest::READABLE, Ready::EMPTY)
        .unwrap();
    io.set_bare(fd, Interest::READABLE);

    let mut writer = open().write(true).open(&path).unwrap();
    writer.write_all(b"one").unwrap();
    drop(writer);
    poller.turn(NOW).unwrap();
    assert!(io.ready_now(Interest::READABLE).ready().is_read_closed());
    let writer = open().write(true).open(&path).unwrap(); // opened, not written
    std::fs::remove_file(&path).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut room = [0; 8];
    let read = io.poll_read_io(&mut cx, || reader.read(&mut room));
    assert!(matches!(read, Poll::Ready(Ok(3))));
    // Neither data nor the end: this must wait, not spin.
    let read = io.poll_read_io(&mut cx, || reader.read(&mut room));
    assert!(read.is_pending());
    drop(writer);
    poller.turn(NOW).unwrap();
    let read = io.poll_read_io(&mut cx, || reader.read(&mut room));
    assert!(matches!(read, Poll::Ready(Ok(0))));
}

#[test]
fn every_waiter_of_one_event_is_woken() {
    let owner = Owner::start();
    let (_ours, io, mut theirs) = pair(&owner.poller);
    let io = Arc::new(io);
    let ready = Arc::new(std::sync::Barrier::new(11));
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let (io, ready) = (io.clone(), ready.clone());
            std::thread::spawn(move || {
                let mut wait = pin!(io.readiness(Interest::READABLE));
                let mut cx = Context::from_waker(Waker::noop());
                assert!(wait.as_mut().poll(&mut cx).is_pending());
                ready.wait();
                let event = block_on(wait).unwrap();
                io.clear_readiness(event);
            })
        })
        .collect();
    ready.wait();
    theirs.write_all(b"x").unwrap();
    for waiter in waiters {
        waiter.join().unwrap();
    }
}

#[test]
fn the_waker_that_came_last_is_the_one_that_counts() {
    let poller = poller();
    let (_ours, io, mut theirs) = pair(&poller);
    let (first, first_waker) = Count::new();
    let (last, last_waker) = Count::new();
    for waker in [&first_waker, &last_waker] {
        let mut cx = Context::from_waker(waker);
        assert!(io.poll_read_ready(&mut cx).is_pending());
    }
    turn_until_ready(&poller, &io, Interest::WRITABLE); // not what they wait for
    assert_eq!((first.get(), last.get()), (0, 0));
    theirs.write_all(b"x").unwrap();
    turn_until_ready(&poller, &io, Interest::READABLE);
    assert_eq!((first.get(), last.get()), (0, 1));
}

#[test]
fn a_future_dropped_while_it_waits_is_not_woken() {
    let poller = poller();
    let (_ours, io, mut theirs) = pair(&poller);
    let (woken, waker) = Count::new();
    {
        let mut wait = pin!(io.readiness(Interest::READABLE));
        let mut cx = Context::from_waker(&waker);
        assert!(wait.as_mut().poll(&mut cx).is_pending());
    }
    theirs.write_all(b"x").unwrap();
    turn_until_ready(&poller, &io, Interest::READABLE);
    assert_eq!(woken.get(), 0);
    drop(waker);
    assert_eq!(Arc::strong_count(&woken), 1);
}

#[test]
fn an_operation_spends_one_unit_of_the_budget_and_a_wait_none() {
    let poller = poller();
    let (_ours, io, _theirs) = pair(&poller);
    poller.turn(None).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let done = coop::with_budget(|| {
        let mut done = 0;
        while io.poll_write_io(&mut cx, || Ok(())).is_ready() {
            done += 1;
            assert!(done < 1000);
        }
        done
    });
    assert_eq!(done, 128);
    let done = coop::with_budget(|| {
        // Looking is free.
        for _ in 0..1000 {
            let look = io.readiness(Interest::WRITABLE);
            assert!(pin!(look).poll(&mut cx).is_ready());
        }
        let mut done = 0;
        let operation = || io.async_io(Interest::WRITABLE, || Ok(()));
        while pin!(operation()).poll(&mut cx).is_ready() {
            done += 1;
            assert!(done < 1000);
        }
        done
    });
    assert_eq!(done, 128);
    coop::with_budget(|| {
        for _ in 0..1000 {
            assert!(io.poll_read_ready(&mut cx).is_pending());
        }
        assert!(coop::has_budget_remaining());
    });
}

#[cfg(target_os = "linux")]
#[test]
fn urgent_data_and_queued_errors_are_told_apart() {
    use std::os::fd::AsRawFd;

    let poller = poller();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let fd = client.as_raw_fd();
    let io = poller
        .register(
            &mut mio::unix::SourceFd(&fd),
            Interest::PRIORITY,
            Ready::EMPTY,
        )
        .unwrap();
    // SAFETY: one byte of a live buffer.
    let sent = unsafe { libc::send(server.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
    assert_eq!(sent, 1);
    while io.ready_now(Interest::PRIORITY).ready().is_empty() {
        poller.turn(None).unwrap();
    }
    assert!(io.ready_now(Interest::PRIORITY).ready().is_priority());
    assert!(io.ready_now(Interest::ERROR).ready().is_empty());
}

#[cfg(all(unix, not(blitzen_poll)))] // mio takes any number
#[test]
fn a_descriptor_the_system_refuses_costs_no_slot() {
    let poller = poller();
    let fd = -1;
    let mut source = mio::unix::SourceFd(&fd);
    assert!(poller.register(&mut source, BOTH, Ready::EMPTY).is_err());
    assert!(!poller.has_sources());
}

#[test]
fn a_descriptor_can_leave_and_come_back() {
    let poller = poller();
    let (mut ours, mut io, mut theirs) = pair(&poller);
    io.deregister(&mut ours).unwrap();
    drop(io);
    assert_eq!(poller.sources(), 0);
    theirs.write_all(b"x").unwrap();
    assert_eq!(poller.turn(NOW).unwrap(), 0);
    let io = poller.register(&mut ours, BOTH, Ready::EMPTY).unwrap();
    turn_until_ready(&poller, &io, Interest::READABLE);
    assert_eq!(try_read(&io, &ours), Ok(1));
}

#[test]
fn waits_may_move_to_any_thread() {
    fn assert_send_sync<T: Send + Sync>(value: T) {
        drop(value);
    }
    let poller = poller();
    let (_ours, io, _theirs) = pair(&poller);
    assert_send_sync(io.readiness(Interest::READABLE));
    assert_send_sync(io.async_io(Interest::READABLE, || Ok(())));
    assert_send_sync(io);
    assert_send_sync(poller);
}

#[cfg(unix)]
#[test]
fn an_error_of_an_earlier_datagram_wakes_a_waiting_receive() {
    let poller = poller();
    // Takes the port, so that no other test does, and hears nobody but itself.
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    nobody.connect(address).unwrap();
    let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.connect(address).unwrap();
    let io = poller.register(&mut socket, BOTH, Ready::EMPTY).unwrap();
    socket.send(b"is anybody there?").unwrap();
    while io.ready_now(Interest::READABLE).ready().is_empty() {
        poller.turn(None).unwrap();
    }
    let error = io.try_io(Interest::READABLE, || socket.recv(&mut [0; 8]));
    assert_eq!(
        error.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
}

#[test]
fn a_wait_yields_when_the_budget_is_spent() {
    use blitzen_util::coop;
    use std::task::{Context, Poll, Waker};

    let poller = poller();
    let (_ours, io, _theirs) = pair(&poller);
    poller.turn(None).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    coop::with_budget(|| {
        for _ in 0..coop::BUDGET {
            assert!(io.poll_write_ready(&mut cx).is_ready());
        }
        let mut wait = std::pin::pin!(io.readiness(Interest::WRITABLE));
        assert!(matches!(wait.as_mut().poll(&mut cx), Poll::Pending));
        coop::with_budget(|| assert!(wait.as_mut().poll(&mut cx).is_ready()));
    });
}
