//! Models of a socket and the threads that use it: the owner of its ring, a task
//! that runs elsewhere, and a peer.
//!
//! The owner sleeps when it has nothing to do, and so do readers: a wake that is
//! lost is a deadlock, which loom reports.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use blitzen_util::shim::atomic::AtomicBool;
use blitzen_util::shim::atomic::Ordering::{Acquire, Release};
use blitzen_util::shim::thread;
use blitzen_util::shim::{Condvar, Mutex};

use super::{DrainStep, RingStream};
use crate::Poller;
use crate::ring::{BufferConfig, Memory, Ring, RingConfig};

const HERE: &str = "the stream is on its ring";
const NOW: Option<Duration> = Some(Duration::ZERO);

/// The ring, and whether its owner may stop turning it.
struct OwnedRing {
    ring: Arc<Ring>,
    is_over: AtomicBool,
    finished: Mutex<usize>,
}

impl OwnedRing {
    /// Creates a ring with `buffers` buffers of eight bytes.
    fn new(buffers: u16) -> Arc<Self> {
        let config = RingConfig {
            buffers: BufferConfig {
                initial: buffers,
                max: buffers,
                size: 8,
            },
            ..RingConfig::default()
        };
        let poller = Arc::new(Poller::new(1).unwrap());
        Arc::new(Self {
            ring: Arc::new(Ring::new(&config, poller).unwrap()),
            is_over: AtomicBool::new(false),
            finished: Mutex::new(0),
        })
    }

    /// Opens a connection: one side is on the ring, the other is a peer that
    /// never waits.
    fn open(&self) -> (RingStream, Peer) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let stream = self.ring.open_stream(Arc::new(ours)).unwrap();
        let ring = self.ring.clone();
        (stream, Peer { ring, theirs })
    }

    /// The owner's part: turns the ring, and sleeps in it while there is nothing
    /// to do.
    fn serve(&self) {
        // Acquire, met by the Release in `stop`.
        while !self.is_over.load(Acquire) {
            self.ring.turn(None).unwrap();
        }
    }

    /// Stops the owner when `all` threads have finished.
    fn finish(&self, all: usize) {
        // The last thread stops the owner.
        let mut finished = self.finished.lock();
        *finished += 1;
        if *finished == all {
            self.stop();
        }
    }

    /// Stops the owner.
    fn stop(&self) {
        // Release, met by the Acquire in `serve`.
        self.is_over.store(true, Release);
        self.ring.interrupt();
    }

    /// The owner's part after all others have ended: checks that nothing is
    /// left.
    fn settle(&self) {
        while self.ring.has_kernel_work() {
            self.ring.turn(NOW).unwrap();
        }
        assert_eq!(self.ring.buffers_held(), 0, "every buffer is back");
    }
}

/// The other side of a connection.
struct Peer {
    ring: Arc<Ring>,
    theirs: UnixStream,
}

impl Peer {
    fn write(&self, bytes: &[u8]) {
        assert_eq!((&self.theirs).write(bytes).unwrap(), bytes.len());
        self.ring.queues.network();
    }

    /// Returns all bytes that have arrived, and whether the stream has ended.
    fn read(&self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let end = (&self.theirs).read_to_end(&mut bytes);
        (bytes, end.is_ok())
    }
}

/// A thread that waits for a future.
#[derive(Default)]
struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}

fn wait_for<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let sleeper = Arc::new(Sleeper::default());
    let waker = Waker::from(sleeper.clone());
    loop {
        if let Poll::Ready(output) = poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut woken = sleeper.woken.lock();
        while !*woken {
            woken = sleeper.changed.wait(woken);
        }
        *woken = false;
    }
}

fn read(stream: &RingStream) -> Vec<u8> {
    read_up_to::<16>(stream)
}

fn read_up_to<const MOST: usize>(stream: &RingStream) -> Vec<u8> {
    let mut room = [MaybeUninit::uninit(); MOST];
    let count = wait_for(|cx| stream.poll_read(cx, &mut room));
    let count = count.expect(HERE).unwrap();
    initialised(&room[..count])
}

fn initialised(room: &[MaybeUninit<u8>]) -> Vec<u8> {
    let byte = |byte: &MaybeUninit<u8>| {
        // SAFETY: the callers pass what a read has filled.
        unsafe { byte.assume_init() }
    };
    room.iter().map(byte).collect()
}

/// Arms a receive, and does not wait.
fn arm(stream: &RingStream) {
    let mut cx = Context::from_waker(Waker::noop());
    let read = stream.poll_read(&mut cx, &mut [MaybeUninit::uninit(); 16]);
    assert!(read.is_pending());
}

/// Writes a byte if that need not wait; returns whether it did.
fn write(stream: &RingStream, byte: u8) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    match stream.poll_write(&mut cx, &[IoSlice::new(&[byte])]) {
        Poll::Ready(written) => written.expect(HERE).is_ok(),
        Poll::Pending => false,
    }
}

/// Writes so that the bytes wait for the owner's next turn. For the owner.
fn write_behind(ring: &Ring, stream: &RingStream, bytes: &[u8]) {
    ring.turn(NOW).unwrap(); // becomes the ring's owner
    for byte in bytes {
        assert!(write(stream, *byte));
    }
    assert!(ring.sockets.queued.load(Acquire) > 0, "buffered");
}

#[test]
fn a_reader_on_another_thread_gets_what_comes() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        let reader = thread::spawn({
            let owned = owned.clone();
            move || {
                assert_eq!(read(&stream), b"x");
                drop(stream);
                owned.stop();
            }
        });
        let talker = thread::spawn(move || {
            peer.write(b"x");
            peer
        });
        owned.serve();
        reader.join().unwrap();
        drop(talker.join().unwrap());
        owned.settle();
    });
}

/// A connection whose messages are large, so that they are read with `recv(2)`;
/// some bytes of one have arrived.
fn open_large(owned: &OwnedRing) -> (Arc<RingStream>, Peer) {
    let (stream, peer) = owned.open();
    arm(&stream);
    peer.write(b"a bufferABCDEFGHIJ");
    owned.ring.turn(NOW).unwrap();
    owned.ring.turn(NOW).unwrap();
    assert_eq!(read_up_to::<8>(&stream), b"a buffer");
    (Arc::new(stream), peer)
}

/// Two threads read two bytes each while the owner turns the ring. Returns what
/// they got.
fn read_by_two(owned: &Arc<OwnedRing>, stream: Arc<RingStream>) -> [Vec<u8>; 2] {
    let reader = |stream: Arc<RingStream>, owned: Arc<OwnedRing>| {
        move || {
            let bytes = read_up_to::<2>(&stream);
            drop(stream);
            owned.finish(2);
            bytes
        }
    };
    let one = thread::spawn(reader(stream.clone(), owned.clone()));
    let other = thread::spawn(reader(stream, owned.clone()));
    owned.serve();
    [one.join().unwrap(), other.join().unwrap()]
}

#[test]
fn of_two_readers_each_gets_what_follows_what_the_other_got() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = open_large(&owned);
        let mut read = read_by_two(&owned, stream);
        read.sort();
        assert_eq!(read, [b"AB".to_vec(), b"CD".to_vec()]);
        drop(peer);
        owned.settle();
    });
}

#[test]
fn a_reader_that_goes_away_takes_nothing_with_it() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        arm(&stream);
        let dropper = thread::spawn(move || drop(stream));
        let talker = thread::spawn(move || {
            let _ = (&peer.theirs).write(b"x"); // the reader may have gone
            peer.ring.queues.network();
            peer
        });
        owned.ring.turn(NOW).unwrap();
        dropper.join().unwrap();
        let peer = talker.join().unwrap();
        owned.settle();
        assert_eq!(
            owned.ring.queues.buffers_left(),
            1,
            "the kernel has it again"
        );
        let closed = (&peer.theirs).read(&mut [0; 1]);
        let is_open =
            matches!(&closed, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_open, "the descriptor is closed: {closed:?}");
    });
}

#[test]
fn a_reader_without_a_buffer_is_served_when_one_is_returned() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (full, full_peer) = owned.open();
        let (hungry, hungry_peer) = owned.open();
        arm(&full);
        full_peer.write(b"full");
        owned.ring.turn(NOW).unwrap();
        owned.ring.turn(NOW).unwrap();
        assert_eq!(owned.ring.queues.buffers_left(), 0);
        hungry_peer.write(b"hungry");
        let giver = thread::spawn(move || assert_eq!(read(&full), b"full"));
        let waiter = thread::spawn({
            let owned = owned.clone();
            move || {
                assert_eq!(read(&hungry), b"hungry");
                owned.stop();
            }
        });
        owned.serve();
        giver.join().unwrap();
        waiter.join().unwrap();
        owned.settle();
        assert_eq!(owned.ring.queues.buffers_left(), 1);
    });
}

#[test]
fn buffered_bytes_are_sent_once_when_a_flush_has_ended() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        write_behind(&owned.ring, &stream, b"abc");
        owned.ring.queues.cut_sends(1);
        let flusher = thread::spawn({
            let owned = owned.clone();
            move || {
                wait_for(|cx| stream.poll_flush(cx)).unwrap();
                assert_eq!(peer.read().0, b"abc", "all of it, once, in order");
                drop(stream);
                owned.stop();
            }
        });
        owned.serve();
        flusher.join().unwrap();
        owned.settle();
    });
}

#[test]
fn a_shutdown_and_a_drop_follow_the_buffered_bytes() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        write_behind(&owned.ring, &stream, b"abc");
        owned.ring.queues.cut_sends(1);
        let ender = thread::spawn(move || {
            stream.shutdown_write().unwrap();
            drop(stream);
        });
        owned.ring.turn(NOW).unwrap();
        ender.join().unwrap();
        owned.settle();
        assert_eq!(peer.read(), (b"abc".to_vec(), true));
    });
}

#[test]
fn a_sleeping_owner_shuts_down_what_another_thread_ends() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        write_behind(&owned.ring, &stream, b"ab");
        let ender = thread::spawn({
            let owned = owned.clone();
            move || {
                stream.shutdown_write().unwrap();
                wait_for(|cx| stream.poll_flush(cx)).unwrap();
                owned.stop();
                stream
            }
        });
        owned.serve();
        let stream = ender.join().unwrap();
        assert_eq!(peer.read(), (b"ab".to_vec(), true), "the end was said");
        drop(stream);
        owned.settle();
    });
}

#[test]
fn a_stream_that_leaves_leaves_no_byte_behind() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = Arc::new(ours);
        let stream = owned.ring.open_stream(socket.clone()).unwrap();
        let (ring, theirs) = (owned.ring.clone(), theirs);
        let peer = Peer { ring, theirs };
        arm(&stream);
        owned.ring.turn(NOW).unwrap();
        let leaver = thread::spawn({
            let owned = owned.clone();
            move || {
                stream.leave();
                stream.drain().unwrap();
                let mut room = [MaybeUninit::uninit(); 16];
                let bytes = match stream.drain_read(&mut room) {
                    DrainStep::Bytes(count) => initialised(&room[..count]),
                    DrainStep::Done => Vec::new(),
                    other => panic!("{other:?}"),
                };
                drop(stream);
                owned.stop();
                bytes
            }
        });
        let talker = thread::spawn(move || {
            peer.write(b"x");
            peer
        });
        owned.serve();
        let mut bytes = leaver.join().unwrap();
        let _peer = talker.join().unwrap();
        owned.settle();
        // Other reads find the rest.
        let end = (&*socket).read_to_end(&mut bytes).unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(bytes, b"x", "once");
    });
}

#[test]
fn bytes_that_arrive_while_a_stream_leaves_are_read() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = Arc::new(ours);
        let stream = owned.ring.open_stream(socket.clone()).unwrap();
        arm(&stream);
        owned.ring.turn(NOW).unwrap();
        let ring = owned.ring.clone();
        Peer { ring, theirs }.write(b"x"); // armed, so the ring brings it
        let reader = thread::spawn({
            let owned = owned.clone();
            move || {
                stream.leave();
                let mut room = [MaybeUninit::uninit(); 16];
                let bytes = wait_for(|cx| {
                    loop {
                        match stream.drain_read(&mut room) {
                            DrainStep::Bytes(count) => return Poll::Ready(count),
                            DrainStep::Pending => {
                                std::task::ready!(stream.poll_recv_drained(cx));
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                });
                assert_eq!(initialised(&room[..bytes]), b"x");
                drop(stream);
                owned.stop();
            }
        });
        owned.serve();
        reader.join().unwrap();
        owned.settle();
        drop(socket);
    });
}

#[test]
fn a_waiting_reader_is_woken_when_the_stream_leaves() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        let stream = Arc::new(stream);
        let leaver = thread::spawn({
            let stream = stream.clone();
            move || stream.leave()
        });
        let reader = thread::spawn({
            let owned = owned.clone();
            move || {
                let mut room = [MaybeUninit::uninit(); 16];
                let read = wait_for(|cx| stream.poll_read(cx, &mut room));
                assert!(read.is_err(), "it has left");
                // Then the stream can be used by readiness.
                wait_for(|cx| stream.poll_recv_drained(cx));
                assert!(matches!(stream.drain_read(&mut room), DrainStep::Done));
                owned.stop();
            }
        });
        owned.serve();
        reader.join().unwrap();
        leaver.join().unwrap();
        drop(peer);
        owned.settle();
    });
}

#[test]
fn dropping_a_waiter_against_a_completion_is_safe() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        let giver_up = thread::spawn({
            let owned = owned.clone();
            move || {
                let mut room = [MaybeUninit::uninit(); 16];
                {
                    let mut read = pin!(stream.read(&mut room));
                    let mut cx = Context::from_waker(Waker::noop());
                    if read.as_mut().poll(&mut cx).is_ready() {
                        owned.stop();
                        return;
                    }
                }
                assert_eq!(read(&stream), b"x", "it is for the next one");
                owned.stop();
            }
        });
        let talker = thread::spawn(move || {
            peer.write(b"x");
            peer
        });
        owned.serve();
        giver_up.join().unwrap();
        drop(talker.join().unwrap());
        owned.settle();
    });
}

#[test]
fn a_rescuer_serves_the_reader_of_a_stuck_owner() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        arm(&stream);
        peer.write(b"x");
        let rescuer = thread::spawn({
            let owned = owned.clone();
            move || owned.ring.rescue().unwrap()
        });
        let reader = thread::spawn({
            let owned = owned.clone();
            move || {
                assert_eq!(read(&stream), b"x");
                drop(stream);
                owned.stop();
            }
        });
        rescuer.join().unwrap();
        owned.serve(); // it was stuck until now
        reader.join().unwrap();
        owned.settle();
    });
}

/// A buffer that notes when it is freed.
struct Buffer(Arc<AtomicBool>, Vec<u8>);

impl Drop for Buffer {
    fn drop(&mut self) {
        self.1.fill(b'-'); // the kernel would send this if it still used the buffer
        assert!(!self.0.swap(true, Release), "freed once");
    }
}

#[test]
fn an_owned_buffer_goes_out_whole_although_its_future_is_dropped() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        let freed = Arc::new(AtomicBool::new(false));
        let buffer = Buffer(freed.clone(), b"whole".to_vec());
        let span = |buffer: &mut Buffer| (buffer.1.as_mut_ptr(), buffer.1.len());
        // SAFETY: the buffer's own bytes, which stay where they are.
        let memory = unsafe { Memory::new(buffer, span, |_, _| {}) };
        let sender = thread::spawn(move || {
            {
                let mut send = pin!(stream.write_owned(memory, false));
                let mut cx = Context::from_waker(Waker::noop());
                let _ = send.as_mut().poll(&mut cx);
            }
            drop(stream);
        });
        owned.ring.turn(NOW).unwrap();
        sender.join().unwrap();
        owned.settle();
        assert!(freed.load(Acquire));
        assert_eq!(peer.read(), (b"whole".to_vec(), true));
    });
}

#[test]
fn an_owned_buffer_is_not_mixed_with_what_the_owner_writes() {
    loom::model(|| {
        let owned = OwnedRing::new(1);
        let (stream, peer) = owned.open();
        owned.ring.queues.cut_sends(1);
        owned.ring.turn(NOW).unwrap(); // becomes the ring's owner
        let stream = Arc::new(stream);
        let sender = thread::spawn({
            let (owned, stream) = (owned.clone(), stream.clone());
            move || {
                let memory = Memory::bytes(b"whole".to_vec());
                let mut send = pin!(stream.write_owned(memory, false));
                let (result, _) = wait_for(|cx| send.as_mut().poll(cx)).expect(HERE);
                let sent = result.unwrap();
                owned.stop();
                sent
            }
        });
        // While an owned buffer is being sent, other writes have to wait.
        let written: Vec<u8> = (*b"xab")
            .into_iter()
            .filter(|byte| write(&stream, *byte))
            .collect();
        owned.serve();
        let sent = sender.join().unwrap();
        drop(stream);
        owned.settle();
        let (received, _) = peer.read();
        let is_whole = |at: &usize| received[*at..].starts_with(&b"whole"[..sent]);
        let at = (0..received.len()).find(is_whole).expect("in one piece");
        assert_eq!([&received[..at], &received[at + sent..]].concat(), written);
    });
}
