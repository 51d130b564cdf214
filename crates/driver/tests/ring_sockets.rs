//! Sockets on a ring, and their bad days: buffers run dry, queues run over,
//! everything is dropped at every stage, and no byte is lost, repeated or out
//! of order.

#![cfg(all(blitzen_ring, not(blitzen_loom)))]

use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use blitzen_driver::ring::socket::{DrainStep, LeftRing, OnRing, RingStream};
use blitzen_driver::ring::{BufferConfig, Memory, Ring, RingConfig};
use blitzen_driver::{Poller, is_shutdown_error};
use blitzen_util::rng::Rng;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn ring_with(config: RingConfig) -> Option<Arc<Ring>> {
    let poller = Arc::new(Poller::new(64).unwrap());
    match Ring::new(&config, poller) {
        Ok(ring) => Some(Arc::new(ring)),
        Err(refusal) => {
            eprintln!("not tested: {refusal}");
            None
        }
    }
}

fn ring() -> Option<Arc<Ring>> {
    ring_with(RingConfig::default())
}

fn few_buffers(max: u16) -> RingConfig {
    RingConfig {
        buffers: BufferConfig {
            initial: max.min(2),
            max,
            size: 64,
        },
        ..RingConfig::default()
    }
}

const HERE: &str = "the stream is on its ring";

/// The operations of a stream that does not leave its ring.
trait OnItsRing {
    fn poll_read_here(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>>;
    fn poll_peek_here(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>>;
    fn poll_write_here(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;
}

fn here<T>(answer: Poll<OnRing<T>>) -> Poll<io::Result<T>> {
    answer.map(|answer| answer.expect(HERE))
}

impl OnItsRing for RingStream {
    fn poll_read_here(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        here(self.poll_read(cx, room))
    }

    fn poll_peek_here(
        &self,
        cx: &mut Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        here(self.poll_peek(cx, room))
    }

    fn poll_write_here(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        here(self.poll_write(cx, parts))
    }

    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_write_here(&mut cx, &[IoSlice::new(bytes)]) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// A connection: our side on the ring, theirs blocking.
fn pair(ring: &Arc<Ring>) -> (RingStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    (ring.open_stream(Arc::new(ours)).unwrap(), theirs)
}

/// Sets the size of a socket's buffer.
fn set_buffer(socket: &dyn AsRawFd, option: libc::c_int, size: libc::c_int) {
    let (start, len) = ((&raw const size).cast(), size_of_val(&size) as u32);
    // SAFETY: a number, and its size.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, start, len) };
    assert_eq!(set, 0);
}

/// The same with little room on the way.
fn narrow_pair(ring: &Arc<Ring>) -> (RingStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    set_buffer(&ours, libc::SO_SNDBUF, 64 * 1024);
    set_buffer(&theirs, libc::SO_RCVBUF, 64 * 1024);
    ours.set_nonblocking(true).unwrap();
    (ring.open_stream(Arc::new(ours)).unwrap(), theirs)
}

/// Turns the ring until `poll` has answered.
fn drive<T>(ring: &Ring, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loop {
        if let Poll::Ready(output) = poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        ring.turn(Some(Duration::from_secs(20))).unwrap();
    }
}

fn read(stream: &RingStream, most: usize) -> io::Result<Vec<u8>> {
    let mut room = vec![MaybeUninit::uninit(); most];
    let count = drive(stream.ring(), |cx| stream.poll_read_here(cx, &mut room))?;
    Ok(initialised(&room[..count]))
}

fn initialised(room: &[MaybeUninit<u8>]) -> Vec<u8> {
    // SAFETY: the callers pass what a read has filled.
    room.iter()
        .map(|byte| unsafe { byte.assume_init() })
        .collect()
}

fn read_exact(stream: &RingStream, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let more = read(stream, count - bytes.len()).unwrap();
        assert!(!more.is_empty(), "the end after {} bytes", bytes.len());
        bytes.extend(more);
    }
    bytes
}

fn write_all(stream: &RingStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let sent = drive(stream.ring(), |cx| {
            stream.poll_write_here(cx, &[IoSlice::new(bytes)])
        });
        bytes = &bytes[sent.unwrap()..];
    }
}

fn settle(ring: &Ring) {
    while ring.has_kernel_work() {
        ring.turn(Some(Duration::from_millis(100))).unwrap();
    }
}

fn pattern(from: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (from..from + len).map(byte).collect()
}

#[test]
fn messages_go_to_and_fro() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    for n in 0..100_usize {
        let message = pattern(n, n % 50 + 1);
        theirs.write_all(&message).unwrap();
        assert_eq!(read_exact(&ours, message.len()), message);
        write_all(&ours, &message);
        ring.turn(NOW).unwrap();
        let mut answer = vec![0; message.len()];
        theirs.read_exact(&mut answer).unwrap();
        assert_eq!(answer, message);
    }
    drop(theirs);
    assert_eq!(read(&ours, 10).unwrap(), b"");
    assert_eq!(read(&ours, 10).unwrap(), b"", "the end is for good");
    drop(ours);
    settle(&ring);
    assert_eq!(ring.sockets(), 0);
}

#[test]
fn a_flood_comes_in_order_whatever_the_room() {
    let Some(ring) = ring() else { return };
    let (ours, mut theirs) = pair(&ring);
    const TOTAL: usize = 4 << 20;
    let writer = thread::spawn(move || {
        let mut rng = Rng::new(7);
        let mut sent = 0;
        while sent < TOTAL {
            let len = (rng.below(5000) as usize + 1).min(TOTAL - sent);
            theirs.write_all(&pattern(sent, len)).unwrap();
            sent += len;
        }
    });
    let mut rng = Rng::new(8);
    let mut received = 0;
    while received < TOTAL {
        let bytes = read(&ours, rng.below(20_000) as usize + 1).unwrap();
        assert_eq!(bytes, pattern(received, bytes.len()), "at {received}");
        received += bytes.len();
    }
    writer.join().unwrap();
    assert_eq!(read(&ours, 1).unwrap(), b"");
}

#[test]
fn messages_larger_than_a_buffer_and_small_ones_take_turns() {
    let Some(ring) = ring() else { return };
    let (ours, mut theirs) = pair(&ring);
    let sizes = [64, 10_000, 10_000, 10_000, 64, 64, 64, 64, 10_000, 2048, 1];
    let mut from = 0;
    for (turn, size) in sizes.into_iter().cycle().take(66).enumerate() {
        let message = pattern(from, size);
        from += size;
        let waits = |cx: &mut Context<'_>| {
            let mut room = [MaybeUninit::uninit(); 1];
            match turn % 2 {
                0 => ours.poll_read_here(cx, &mut room).map(drop),
                _ => ours.poll_peek_here(cx, &mut room).map(drop),
            }
        };
        assert!(waits(&mut Context::from_waker(Waker::noop())).is_pending());
        theirs.write_all(&message).unwrap();
        // A look takes nothing; and one that finds nothing is told of the rest.
        let mut first = [MaybeUninit::uninit(); 1];
        drive(&ring, |cx| ours.poll_peek_here(cx, &mut first)).unwrap();
        assert_eq!(initialised(&first), message[..1]);
        assert!(
            read_exact(&ours, size) == message,
            "turn {turn}, {size} bytes"
        );
    }
    settle_down(theirs, &ours);
}

/// The end is told as often as one asks.
fn settle_down(theirs: TcpStream, ours: &RingStream) {
    drop(theirs);
    for _ in 0..3 {
        assert_eq!(read(ours, 100).unwrap(), b"");
    }
}

#[test]
fn the_end_of_a_stream_of_large_messages_is_found_by_every_read() {
    let Some(ring) = ring() else { return };
    let (ours, mut theirs) = pair(&ring);
    for _ in 0..3 {
        theirs.write_all(&pattern(0, 50_000)).unwrap();
        assert!(read_exact(&ours, 50_000) == pattern(0, 50_000));
    }
    settle_down(theirs, &ours);

    // Also if it has come together with the last bytes.
    let (ours, mut theirs) = pair(&ring);
    for last in [false, false, true] {
        theirs.write_all(&pattern(0, 50_000)).unwrap();
        if last {
            theirs.shutdown(Shutdown::Write).unwrap();
        }
        assert!(read_exact(&ours, 40_000) == pattern(0, 40_000));
        assert!(read(&ours, 20_000).unwrap() == pattern(40_000, 10_000));
    }
    settle_down(theirs, &ours);

    // After a reset the error comes once, then the end.
    let (ours, mut theirs) = pair(&ring);
    for _ in 0..3 {
        theirs.write_all(&pattern(0, 50_000)).unwrap();
        assert!(read_exact(&ours, 50_000) == pattern(0, 50_000));
    }
    write_all(&ours, b"never read");
    let mut one = [0];
    theirs.read_exact(&mut one).unwrap();
    drop(theirs); // with something unread, which is a reset
    assert_eq!(
        read(&ours, 100).unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
    for _ in 0..3 {
        assert_eq!(read(&ours, 100).unwrap(), b"");
    }
}

#[test]
fn what_nobody_reads_is_bounded_and_kept() {
    let Some(ring) = ring() else { return };
    let (ours, mut theirs) = pair(&ring);
    theirs.set_nodelay(true).unwrap();
    // Ping-pong first, so that the receive stays armed.
    for _ in 0..10 {
        theirs.write_all(b"ping").unwrap();
        assert_eq!(read_exact(&ours, 4), b"ping");
    }
    theirs.set_nonblocking(true).unwrap();
    let mut room = [MaybeUninit::uninit(); 1];
    assert!(
        ours.poll_read_here(&mut Context::from_waker(Waker::noop()), &mut room)
            .is_pending()
    );
    let mut sent = 0;
    while let Ok(count) = theirs.write(&pattern(sent, 1000)) {
        sent += count;
        ring.turn(NOW).unwrap();
    }
    settle(&ring); // it has stopped
    assert!(sent > 100_000, "the peer could go on: {sent}");
    assert!(ours.unread() < 64 * 2048, "{} bytes", ours.unread());
    let bytes = read_exact(&ours, sent);
    assert_eq!(bytes, pattern(0, sent));
}

#[test]
fn a_pool_that_has_run_dry_serves_everybody_all_the_same() {
    for most in [1, 2, 4] {
        let Some(ring) = ring_with(few_buffers(most)) else {
            return;
        };
        let mut pairs: Vec<_> = (0..50).map(|_| pair(&ring)).collect();
        let mut cx = Context::from_waker(Waker::noop());
        let mut room = [MaybeUninit::uninit(); 16];
        // All wait, then all have something: far more than there are buffers.
        for (ours, _) in &pairs {
            assert!(ours.poll_read_here(&mut cx, &mut room).is_pending());
        }
        ring.turn(NOW).unwrap();
        for (n, (_, theirs)) in pairs.iter_mut().enumerate() {
            theirs.write_all(&pattern(n, 16)).unwrap();
        }
        // The last first: nobody depends on what others read.
        for (n, (ours, _)) in pairs.iter().enumerate().rev() {
            assert_eq!(read_exact(ours, 16), pattern(n, 16));
        }
        settle_held(&ring);
    }
}

fn settle_held(ring: &Ring) {
    assert_eq!(ring.buffers_held(), 0);
}

#[test]
fn sockets_that_are_never_read_do_not_starve_others() {
    let Some(ring) = ring_with(few_buffers(4)) else {
        return;
    };
    let idle: Vec<_> = (0..20).map(|_| pair(&ring)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut room = [MaybeUninit::uninit(); 1];
    for (ours, _) in &idle {
        assert!(ours.poll_read_here(&mut cx, &mut room).is_pending());
    }
    ring.turn(NOW).unwrap();
    for (_, theirs) in &idle {
        (&*theirs).write_all(b"never read").unwrap();
    }
    let (ours, mut theirs) = pair(&ring);
    for n in 0..200 {
        theirs.write_all(&pattern(n, 40)).unwrap();
        assert_eq!(read_exact(&ours, 40), pattern(n, 40));
    }
    // And nothing of theirs was lost.
    for (ours, _) in &idle {
        assert_eq!(read_exact(ours, 10), b"never read");
    }
}

#[test]
fn what_comes_for_a_socket_that_is_dropped_gives_its_buffer_back() {
    let Some(ring) = ring_with(few_buffers(2)) else {
        return;
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut room = [MaybeUninit::uninit(); 8];
    for _ in 0..10 {
        let (ours, mut theirs) = pair(&ring);
        assert!(ours.poll_read_here(&mut cx, &mut room).is_pending());
        ring.turn(NOW).unwrap(); // the kernel has it
        theirs.write_all(b"late").unwrap();
        drop(ours); // before anybody has looked
        settle(&ring);
    }
    let (ours, mut theirs) = pair(&ring);
    theirs.write_all(b"hello").unwrap();
    let mut turns = 0;
    while ours.poll_read_here(&mut cx, &mut room).is_pending() {
        assert!(turns < 100, "there is no buffer any more");
        turns += 1;
        ring.turn(Some(Duration::from_millis(50))).unwrap();
    }
}

#[test]
fn a_completion_queue_that_overflows_loses_nothing() {
    let config = RingConfig {
        entries: 4,
        completions: 4,
        ..RingConfig::default()
    };
    let Some(ring) = ring_with(config) else {
        return;
    };
    let mut pairs: Vec<_> = (0..100).map(|_| pair(&ring)).collect();
    for round in 0..8 {
        let mut cx = Context::from_waker(Waker::noop());
        let mut room = [MaybeUninit::uninit(); 8];
        for (ours, _) in &pairs {
            assert!(ours.poll_read_here(&mut cx, &mut room).is_pending());
        }
        ring.turn(NOW).unwrap();
        for (n, (_, theirs)) in pairs.iter_mut().enumerate() {
            theirs.write_all(&pattern(n + round, 8)).unwrap();
        }
        for (n, (ours, _)) in pairs.iter().enumerate() {
            assert_eq!(read_exact(ours, 8), pattern(n + round, 8));
        }
    }
}

#[test]
fn an_owner_that_never_waits_gets_what_did_not_fit_into_the_queue() {
    let config = RingConfig {
        entries: 4,
        completions: 4,
        ..RingConfig::default()
    };
    let Some(ring) = ring_with(config) else {
        return;
    };
    let mut pairs: Vec<_> = (0..50).map(|_| pair(&ring)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut room = [MaybeUninit::uninit(); 8];
    for (ours, _) in &pairs {
        assert!(ours.poll_read_here(&mut cx, &mut room).is_pending());
    }
    ring.turn(NOW).unwrap();
    for (_, theirs) in &mut pairs {
        theirs.write_all(b"all of it").unwrap();
    }
    for (ours, _) in &pairs {
        let mut turns = 0;
        while ours.poll_read_here(&mut cx, &mut room).is_pending() {
            assert!(turns < 10_000, "it was left in the kernel");
            turns += 1;
            ring.turn(NOW).unwrap();
            thread::yield_now();
        }
    }
}

#[test]
fn a_socket_is_closed_for_the_peer_whatever_is_armed() {
    let Some(ring) = ring() else { return };
    for waits in [false, true] {
        for turns in [0, 1] {
            let (ours, mut theirs) = pair(&ring);
            if waits {
                let mut cx = Context::from_waker(Waker::noop());
                let mut room = [MaybeUninit::uninit(); 1];
                assert!(ours.poll_read_here(&mut cx, &mut room).is_pending());
            }
            for _ in 0..turns {
                ring.turn(NOW).unwrap();
            }
            drop(ours);
            settle(&ring);
            assert_eq!(theirs.read(&mut [0; 8]).unwrap(), 0);
        }
    }
    assert_eq!(ring.sockets(), 0);
}

#[test]
fn buffered_bytes_are_sent_although_the_stream_is_dropped() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    for waits in [false, true] {
        let (ours, mut theirs) = pair(&ring);
        if waits {
            let mut cx = Context::from_waker(Waker::noop());
            let mut room = [MaybeUninit::uninit(); 1];
            assert!(ours.poll_read_here(&mut cx, &mut room).is_pending());
            ring.turn(NOW).unwrap();
        }
        write_all(&ours, b"last ");
        write_all(&ours, b"words");
        drop(ours);
        settle(&ring);
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "last words");
    }
}

#[test]
fn buffered_bytes_are_sent_although_the_ring_is_shut() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    write_all(&ours, b"he"); // the first of a turn goes out at once
    write_all(&ours, b"llo");
    ring.cancel_all();
    settle(&ring);
    let mut bytes = [0; 5];
    theirs.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    // From then on there is nothing to wait for.
    let mut cx = Context::from_waker(Waker::noop());
    match ours.poll_read_here(&mut cx, &mut [MaybeUninit::uninit(); 4]) {
        Poll::Ready(Err(error)) => assert!(is_shutdown_error(&error)),
        other => panic!("{other:?}"),
    }
    // What needs no waiting is done.
    write_all(&ours, b"still");
    theirs.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"still");
}

#[test]
fn buffered_bytes_are_sent_when_the_owner_leaves() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    write_all(&ours, b"all "); // the first of a turn goes out at once
    write_all(&ours, b"of it");
    ring.release_owner().unwrap();
    let mut bytes = [0; 9];
    theirs.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"all of it");
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn whoever_waits_is_woken_when_the_ring_is_shut() {
    let Some(ring) = ring() else { return };
    let (ours, _theirs) = pair(&ring);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let mut room = [MaybeUninit::uninit(); 8];
    let mut read = || ours.poll_read_here(&mut Context::from_waker(&waker), &mut room);
    assert!(read().is_pending());
    ring.cancel_all();
    assert!(woken.0.load(SeqCst), "before the kernel has said anything");
    let Poll::Ready(Err(error)) = read() else {
        panic!("nothing comes any more")
    };
    assert!(is_shutdown_error(&error));
    settle(&ring);
}

#[test]
fn what_the_system_takes_in_parts_or_not_yet_is_sent_whole() {
    for (is_full, is_awaited) in [(false, false), (false, true), (true, false), (true, true)] {
        let Some(ring) = ring() else { return };
        ring.turn(NOW).unwrap(); // this thread is its owner
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = Arc::new(ours);
        let stream = ring.open_stream(socket.clone()).unwrap();
        // The first goes out at once, the others wait for the next turn, for
        // which there is room …
        let mut sent = 0;
        for len in [10, 1500, 1500, 1500, 1500, 1500, 1500, 1500, 1500] {
            let bytes = pattern(sent, len);
            sent += stream.write_now(&bytes).unwrap();
        }
        assert!(ring.has_kernel_work());
        // … until there is less, or none.
        set_buffer(&*socket, libc::SO_SNDBUF, 1);
        let mut others = 0;
        while is_full && (&*socket).write(b"others").is_ok() {
            others += 6;
        }
        let limit = Some(Duration::from_secs(5));
        theirs.set_read_timeout(limit).unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = vec![0; sent + others];
            theirs.read_exact(&mut bytes).unwrap();
            bytes.drain(10..10 + others);
            bytes
        });
        // Also if the owner sleeps and nobody waits for it.
        while !is_awaited && ring.has_kernel_work() {
            ring.turn(Some(Duration::from_secs(20))).unwrap();
        }
        drive(&ring, |cx| stream.poll_flush(cx)).unwrap();
        assert_eq!(reader.join().unwrap(), pattern(0, sent));
    }
}

#[test]
fn of_many_parts_a_write_takes_as_many_as_the_kernel_would() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    assert_eq!(ours.write_now(b"first").unwrap(), 5); // the first of a turn goes out at once
    let text = [b'x'; 1500];
    let parts: Vec<_> = text.chunks(1).map(IoSlice::new).collect();
    let mut cx = Context::from_waker(Waker::noop());
    for (rest, count) in [(&parts[..], 1024), (&parts[1024..], 476)] {
        match ours.poll_write_here(&mut cx, rest) {
            Poll::Ready(written) => assert_eq!(written.unwrap(), count),
            Poll::Pending => panic!("there is room"),
        }
    }
    drop(ours);
    settle(&ring);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 1505);
}

#[test]
fn the_end_comes_after_the_last_byte() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    write_all(&ours, b"all "); // the first of a turn goes out at once
    write_all(&ours, b"of it");
    ours.shutdown_write().unwrap();
    settle(&ring);
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    assert_eq!(text, "all of it");
    // The other direction is open.
    theirs.write_all(b"answer").unwrap();
    assert_eq!(read_exact(&ours, 6), b"answer");
}

#[test]
fn a_peer_that_never_reads_stops_the_writer_and_loses_nothing() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    let mut sent = 0;
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        let bytes = pattern(sent, 1000);
        match ours.poll_write_here(&mut cx, &[IoSlice::new(&bytes)]) {
            Poll::Ready(count) => sent += count.unwrap(),
            // What is under way has to end before it counts as full.
            Poll::Pending if ring.turn(NOW).unwrap() > 0 => {}
            Poll::Pending => break,
        }
        assert!(sent < 1 << 30, "no end to it");
    }
    assert!(sent > 1 << 16);
    drop(ours); // everything that was answered for is with the kernel
    settle(&ring);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), sent);
    assert!(bytes == pattern(0, sent));
}

#[test]
fn the_next_write_returns_the_error_of_buffered_bytes() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, theirs) = pair(&ring);
    // A peer that is gone, with something unread, resets the connection.
    write_all(&ours, b"x");
    ring.turn(NOW).unwrap();
    theirs.shutdown(Shutdown::Both).unwrap();
    let mut result = Ok(1);
    let (other, _other_peer) = pair(&ring);
    for _ in 0..1000 {
        // Another's is the first of the turn, so ours are buffered.
        write_all(&other, b"x");
        result = ours.write_now(b"more");
        if result.is_err() {
            break;
        }
        ring.turn(NOW).unwrap();
    }
    let error = result.unwrap_err();
    assert!(
        matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ),
        "{error}"
    );
}

#[test]
fn a_stream_that_leaves_its_ring_leaves_no_byte_behind() {
    let Some(ring) = ring() else { return };
    for is_brought in [false, true] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = Arc::new(ours);
        let stream = ring.open_stream(ours.clone()).unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let mut room = [MaybeUninit::uninit(); 8];
        assert!(stream.poll_read(&mut cx, &mut room).is_pending());
        ring.turn(NOW).unwrap(); // armed
        if is_brought {
            (&theirs).write_all(b"hello").unwrap();
            while stream.unread() == 0 {
                ring.turn(None).unwrap();
            }
        }
        stream.leave();
        assert_eq!(ring.sockets(), 0);
        stream.drain().unwrap();
        (&theirs).write_all(b"world").unwrap();
        // What was brought is here, and everything else where others find it.
        let mut bytes = Vec::new();
        if is_brought {
            assert_eq!(stream.has_undrained(), Some(true));
            assert!(matches!(
                stream.drain_peek(&mut room[..2]),
                DrainStep::Bytes(2)
            ));
            while let DrainStep::Bytes(count) = stream.drain_read(&mut room[..2]) {
                bytes.extend(initialised(&room[..count]));
            }
        }
        assert_eq!(stream.has_undrained(), Some(false));
        assert!(matches!(
            stream.poll_read(&mut cx, &mut room),
            Poll::Ready(Err(LeftRing))
        ));
        assert!(matches!(
            stream.poll_write(&mut cx, &[]),
            Poll::Ready(Err(LeftRing))
        ));
        let mut rest = [0; 8];
        let count = (&*ours).read(&mut rest).unwrap();
        bytes.extend(&rest[..count]);
        let expected: &[u8] = if is_brought { b"helloworld" } else { b"world" };
        assert_eq!(bytes, expected);
        drop(stream);
        assert_eq!(Arc::strong_count(&ours), 1, "the ring has let go of it");
    }
}

#[test]
fn whoever_waits_is_woken_when_the_stream_leaves() {
    let Some(ring) = ring() else { return };
    let (ours, _theirs) = pair(&ring);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let mut cx = Context::from_waker(&waker);
    let mut room = [MaybeUninit::uninit(); 8];
    assert!(ours.poll_read(&mut cx, &mut room).is_pending());
    ours.leave();
    assert!(woken.0.load(SeqCst));
    assert!(matches!(
        ours.poll_read(&mut cx, &mut room),
        Poll::Ready(Err(LeftRing))
    ));
    settle(&ring);
}

#[test]
fn buffered_bytes_are_sent_when_the_stream_has_left() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    write_all(&ours, b"all "); // the first of a turn goes out at once
    write_all(&ours, b"of it");
    ours.leave();
    let mut bytes = [0; 9];
    theirs.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"all of it");
    assert!(matches!(ours.drain_send(), DrainStep::Done));
}

#[test]
fn a_flush_ends_when_the_kernel_has_everything() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    for by_owner in [true, false] {
        let (ours, mut theirs) = pair(&ring);
        write_all(&ours, b"all "); // the first of a turn goes out at once
        write_all(&ours, b"of it");
        if by_owner {
            // With the next turn, like those of other streams.
            let mut cx = Context::from_waker(Waker::noop());
            assert!(ours.poll_flush_in_turn(&mut cx).is_pending());
            drive(&ring, |cx| ours.poll_flush_in_turn(cx)).unwrap();
        } else {
            // The owner does nothing meanwhile.
            thread::scope(|scope| {
                let flush = || {
                    let mut cx = Context::from_waker(Waker::noop());
                    let flushed = ours.poll_flush_in_turn(&mut cx);
                    assert!(matches!(flushed, Poll::Ready(Ok(()))));
                };
                scope.spawn(flush).join().unwrap();
            });
        }
        let mut bytes = [0; 9];
        theirs.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"all of it");
    }
}

#[test]
fn a_flush_that_does_not_wait_for_a_turn_sends_at_once() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    let (ours, mut theirs) = pair(&ring);
    write_all(&ours, b"all "); // the first of a turn goes out at once
    write_all(&ours, b"of it");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(ours.poll_flush(&mut cx), Poll::Ready(Ok(()))));
    let mut bytes = [0; 9];
    theirs.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"all of it");
}

#[test]
fn several_wait_for_one_stream_and_those_who_give_up_are_forgotten() {
    let Some(ring) = ring() else { return };
    let (ours, mut theirs) = pair(&ring);
    let woken: Vec<_> = (0..3)
        .map(|_| Arc::new(Woken(AtomicBool::new(false))))
        .collect();
    let mut rooms = [[MaybeUninit::uninit(); 1]; 3];
    let mut reads: Vec<_> = rooms
        .iter_mut()
        .map(|room| Box::pin(ours.read(room)))
        .collect();
    for (read, woken) in reads.iter_mut().zip(&woken) {
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(read.as_mut().poll(&mut cx).is_pending());
        assert!(read.as_mut().poll(&mut cx).is_pending());
    }
    drop(reads.remove(1));
    assert_eq!(Arc::strong_count(&woken[1]), 1, "forgotten");
    theirs.write_all(b"ab").unwrap();
    while !woken[0].0.load(SeqCst) {
        ring.turn(None).unwrap();
    }
    assert!(woken[2].0.load(SeqCst) && !woken[1].0.load(SeqCst));
    for read in reads {
        assert_eq!(futures::executor::block_on(read).unwrap().unwrap(), 1);
    }
    assert_eq!(Arc::strong_count(&woken[0]), 1);
}

#[test]
fn owned_buffers_go_out_in_order_and_come_back() {
    let Some(ring) = ring() else { return };
    ring.turn(NOW).unwrap(); // this thread is its owner
    for zero_copy in [false, true] {
        let (ours, mut theirs) = narrow_pair(&ring);
        let (go_on, may_go_on) = std::sync::mpsc::channel();
        let reader = thread::spawn(move || {
            let mut bytes = vec![0; 300_200];
            theirs.read_exact(&mut bytes).unwrap();
            may_go_on.recv().unwrap();
            theirs.read_to_end(&mut bytes).unwrap();
            bytes
        });
        write_all(&ours, &pattern(0, 100));
        let big = pattern(100, 300_000);
        let mut sending = Box::pin(ours.write_owned(Memory::bytes(big), zero_copy));
        let (sent, back) = drive(&ring, |cx| sending.as_mut().poll(cx)).expect(HERE);
        drop(sending);
        assert_eq!((sent.unwrap(), back.len()), (300_000, 300_000));
        write_all(&ours, &pattern(300_100, 100));
        // One that is dropped under way goes on to its end, and what follows
        // comes after it.
        const BIG: usize = 3_000_000; // more than the sockets take
        let big = Memory::bytes(pattern(300_200, BIG));
        let mut cx = Context::from_waker(Waker::noop());
        {
            let mut dropped = Box::pin(ours.write_owned(big, zero_copy));
            for _ in 0..3 {
                assert!(dropped.as_mut().poll(&mut cx).is_pending());
                ring.turn(NOW).unwrap();
            }
        }
        let after = pattern(300_200 + BIG, 100);
        assert!(
            ours.poll_write_here(&mut cx, &[IoSlice::new(&after)])
                .is_pending()
        );
        go_on.send(()).unwrap();
        write_all(&ours, &after);
        drop(ours);
        settle(&ring);
        let bytes = reader.join().unwrap();
        assert_eq!(bytes.len(), 300_300 + BIG);
        assert!(bytes == pattern(0, 300_300 + BIG));
    }
}

#[test]
fn an_owned_buffer_comes_back_unsent_when_the_stream_has_left() {
    let Some(ring) = ring() else { return };
    let (ours, mut theirs) = pair(&ring);
    let mut cx = Context::from_waker(Waker::noop());
    ours.leave();
    assert!(ours.poll_send_drained(&mut cx).is_ready());
    let mut sending = Box::pin(ours.write_owned(Memory::bytes(vec![1; 10]), false));
    match sending.as_mut().poll(&mut cx) {
        Poll::Ready(Err(unsent)) => assert_eq!(unsent, [1; 10]),
        other => panic!("the stream has left: {other:?}"),
    }
    drop(sending);
    drop(ours);
    settle(&ring);
    assert_eq!(theirs.read(&mut [0; 16]).unwrap(), 0);
}

#[test]
fn streams_dropped_at_random_lose_no_byte_and_leak_nothing() {
    let Some(ring) = ring_with(few_buffers(16)) else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let owner = thread::spawn({
        let (ring, stop) = (ring.clone(), stop.clone());
        move || {
            while !stop.load(SeqCst) {
                ring.turn(Some(Duration::from_millis(1))).unwrap();
            }
            ring.cancel_all();
            settle(&ring);
        }
    });
    let mut rng = Rng::new(0xD0_D0);
    let mut streams: Vec<(RingStream, TcpStream, usize, usize)> = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..20_000 {
        let picked = rng.below(streams.len().max(1) as u32) as usize;
        match rng.below(8) {
            0 if streams.len() < 32 => {
                let (ours, theirs) = pair(&ring);
                theirs.set_nonblocking(true).unwrap();
                streams.push((ours, theirs, 0, 0));
            }
            1 if streams.len() > 16 => drop(streams.swap_remove(picked)),
            _ if streams.is_empty() => {}
            2 | 3 => {
                let (_, theirs, sent, _) = &mut streams[picked];
                let len = rng.below(150) as usize;
                // A full socket is no concern of ours.
                *sent += theirs.write(&pattern(*sent, len)).unwrap_or(0);
            }
            _ => {
                let (ours, _, sent, received) = &mut streams[picked];
                let mut room = vec![MaybeUninit::uninit(); rng.below(100) as usize + 1];
                if let Poll::Ready(count) = ours.poll_read_here(&mut cx, &mut room) {
                    let bytes = initialised(&room[..count.unwrap()]);
                    assert_eq!(bytes, pattern(*received, bytes.len()));
                    *received += bytes.len();
                    assert!(received <= sent);
                }
            }
        }
    }
    drop(streams);
    stop.store(true, SeqCst);
    ring.interrupt();
    owner.join().unwrap();
    assert_eq!((ring.sockets(), ring.buffers_held()), (0, 0));
}

#[test]
fn the_sockets_of_a_stuck_owner_are_served_by_another_thread() {
    let Some(ring) = ring() else { return };
    let (ours, mut theirs) = pair(&ring);
    let (ready, stop) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let owner = thread::spawn({
        let (ring, ready, stop) = (ring.clone(), ready.clone(), stop.clone());
        move || {
            ring.turn(NOW).unwrap();
            ready.store(true, SeqCst);
            while !stop.load(SeqCst) {
                std::hint::spin_loop();
            }
        }
    });
    while !ready.load(SeqCst) {
        std::hint::spin_loop();
    }
    // From the first receive on, everything is done by others.
    let mut cx = Context::from_waker(Waker::noop());
    for n in 0..20 {
        theirs.write_all(&pattern(n, 30)).unwrap();
        let mut room = [MaybeUninit::uninit(); 30];
        let mut bytes = Vec::new();
        while bytes.len() < 30 {
            match ours.poll_read_here(&mut cx, &mut room) {
                Poll::Ready(count) => bytes.extend(initialised(&room[..count.unwrap()])),
                Poll::Pending => drop(ring.rescue().unwrap()),
            }
        }
        assert_eq!(bytes, pattern(n, 30));
        // Not the owner: straight to the system.
        assert_eq!(ours.write_now(b"ok").unwrap(), 2);
        theirs.read_exact(&mut [0; 2]).unwrap();
    }
    stop.store(true, SeqCst);
    owner.join().unwrap();
}
