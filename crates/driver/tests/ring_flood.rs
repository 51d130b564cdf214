//! More comes for the sockets of a ring than their tasks can deal with.

#![cfg(all(target_os = "linux", not(blitzen_loom)))]

mod common;
#[path = "common/ring.rs"]
mod rings;

use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use blitzen_driver::ring::socket::Stream;
use blitzen_driver::ring::{Flavour, Ring};
use common::Count;
use rings::ring;

const STREAMS: usize = 1800;
/// So many wakes of one turn fit into a worker's queue that is half full.
const MOST_AT_ONCE: usize = 128;

/// Lets this process have as many descriptors as it may; how many that is.
fn allow_descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a structure that the system fills, and then reads.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
    }
    limit.rlim_cur
}

/// All of `streams` wait, get a byte, and are woken. Those that were are read when
/// everybody was; how many buffers were held by then.
fn round(ring: &Ring, streams: &mut [(Stream, UnixStream)], byte: u8) -> usize {
    let (woken, waker) = Count::new();
    let mut cx = Context::from_waker(&waker);
    let mut room = [MaybeUninit::uninit(); 8];
    for (ours, theirs) in &mut *streams {
        assert!(ours.poll_read(&mut cx, &mut room).is_pending());
        theirs.write_all(&[byte]).unwrap();
    }
    while woken.get() < streams.len() {
        let before = woken.get();
        ring.turn(Some(Duration::from_secs(20))).unwrap();
        let at_once = woken.get() - before;
        assert!(at_once <= MOST_AT_ONCE, "{at_once} in one turn");
    }
    let held = ring.buffers_held();
    for (ours, _) in streams {
        let Poll::Ready(Ok(1)) = ours.poll_read(&mut cx, &mut room) else {
            panic!("it was woken for a byte");
        };
        // SAFETY: one byte was read.
        assert_eq!(unsafe { room[0].assume_init() }, byte);
    }
    held
}

#[test]
fn in_a_flood_what_has_come_stays_with_the_system_until_it_is_read() {
    let Some(ring) = ring(256, 16 * 1024, Flavour::Shared) else {
        return;
    };
    if allow_descriptors() < 2 * STREAMS as u64 + 100 {
        return eprintln!("not tested: too few descriptors");
    }
    let mut streams: Vec<_> = (0..STREAMS)
        .map(|_| {
            let (theirs, ours) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            (ring.open_stream(Arc::new(ours)).unwrap(), theirs)
        })
        .collect();
    // Brought at first, until there has been too much for long enough.
    assert!(round(&ring, &mut streams, 0) > 0);
    let held = (1..20).map(|byte| round(&ring, &mut streams, byte));
    let held: Vec<_> = held.collect();
    assert_eq!(held.last(), Some(&0), "buffers held after each: {held:?}");

    // When it is over, it is brought again.
    let one = &mut streams[..1];
    let held: Vec<_> = (0..100).map(|byte| round(&ring, one, byte)).collect();
    assert_eq!(held.first(), Some(&0));
    assert_eq!(held.last(), Some(&1), "buffers held after each: {held:?}");
}
