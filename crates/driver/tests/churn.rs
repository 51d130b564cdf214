//! Sources that come and go while events fly: nothing is freed too early,
//! nothing is lost, nothing leaks.

#![cfg(not(blitzen_loom))]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::task::Context;

use blitzen_driver::{Interest, Poller, Ready, Registration};
use blitzen_util::rng::Rng;
use common::{BOTH, Count, LocalStream, Owner, connected, pair};

/// How many sources each of two threads registers. A connection of TCP occupies its port for a
/// while after its end.
const SOURCES: usize = if cfg!(unix) { 5000 } else { 500 };

#[test]
fn thousands_of_sources_dropped_at_random_while_events_fly() {
    let owner = Owner::start();
    let (woken, waker) = Count::new();
    let threads: Vec<_> = (0..2)
        .map(|seed| {
            let (poller, waker) = (owner.poller.clone(), waker.clone());
            std::thread::spawn(move || churn(&poller, &waker, 0xB1A5 + seed, SOURCES))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!owner.poller.has_sources());
    assert!(woken.get() > SOURCES / 5, "events did fly: {}", woken.get());
    let poller = owner.poller.clone();
    drop(owner);
    drop(waker);
    assert_eq!(Arc::strong_count(&woken), 1, "a waker has leaked");
    assert!(poller.counts().events > SOURCES as u64 / 5);
}

/// Registers `count` sources, with up to 200 alive, in an order made of `seed`.
fn churn(poller: &Arc<Poller>, waker: &std::task::Waker, seed: u64, count: usize) {
    let mut rng = Rng::new(seed);
    let mut alive: Vec<(LocalStream, Registration, LocalStream)> = Vec::new();
    let mut made = 0;
    while made < count || !alive.is_empty() {
        let choice = rng.below(8);
        if alive.is_empty() || (choice < 3 && made < count && alive.len() < 200) {
            let (ours, io, theirs) = pair(poller);
            let mut cx = Context::from_waker(waker);
            let _either = io.poll_read_ready(&mut cx);
            alive.push((ours, io, theirs));
            made += 1;
            continue;
        }
        let picked = rng.below(alive.len() as u32) as usize;
        match choice {
            3 | 4 => {
                let (_, _, theirs) = &mut alive[picked];
                let _full = theirs.write(b"event");
            }
            5 => {
                // Reads, and waits for more.
                let (ours, io, _) = &mut alive[picked];
                let mut cx = Context::from_waker(waker);
                let _either = io.poll_read_io(&mut cx, || ours.read(&mut [0; 64]));
            }
            6 => {
                // A wait that is dropped at once.
                let (_, io, _) = &alive[picked];
                let mut wait = std::pin::pin!(io.readiness(Interest::READABLE));
                let mut cx = Context::from_waker(waker);
                let _either = std::future::Future::poll(wait.as_mut(), &mut cx);
            }
            _ => {
                let (mut ours, mut io, theirs) = alive.swap_remove(picked);
                match rng.below(3) {
                    0 => drop(io), // while the descriptor is still in the selector
                    1 => io.deregister(&mut ours).unwrap(),
                    _ => drop(ours), // the descriptor goes first
                }
                drop(theirs);
            }
        }
    }
}

#[test]
fn deregistering_while_another_thread_turns() {
    let owner = Owner::start();
    let (mut ours, mut theirs) = connected();
    for round in 0..3000_u32 {
        let mut io = owner
            .poller
            .register(&mut ours, BOTH, Ready::EMPTY)
            .unwrap();
        theirs.write_all(&round.to_ne_bytes()).unwrap();
        if round % 2 == 0 {
            // Sometimes the event has arrived by now, sometimes it is under way.
            let mut room = [0; 4];
            let read = io.async_io(Interest::READABLE, || ours.read_exact(&mut room));
            futures::executor::block_on(read).unwrap();
            assert_eq!(u32::from_ne_bytes(room), round);
            io.deregister(&mut ours).unwrap();
        } else {
            io.deregister(&mut ours).unwrap();
            drop(io);
            // A stream of TCP may not have it yet.
            while let Err(error) = ours.read_exact(&mut [0; 4]) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                std::thread::yield_now();
            }
        }
    }
    assert!(!owner.poller.has_sources());
}

#[cfg(all(target_os = "linux", not(blitzen_poll)))] // epoll's own way
#[test]
fn a_late_event_of_a_descriptor_that_lives_on_elsewhere_reaches_nobody() {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    let poller = Arc::new(Poller::new(64).unwrap());
    let (ours, mut theirs) = connected();
    let ours = OwnedFd::from(std::os::unix::net::UnixStream::from(ours));
    let duplicate = ours.try_clone().unwrap();
    let fd = ours.as_raw_fd();
    let mut source = mio::unix::SourceFd(&fd);
    let mut io = poller
        .register(&mut source, Interest::READABLE, Ready::EMPTY)
        .unwrap();
    // The number is closed, the file is not: the selector keeps reporting it
    // and cannot be told to stop.
    drop(ours);
    assert!(io.deregister(&mut mio::unix::SourceFd(&fd)).is_err());
    drop(io);
    // The slot's next source must not hear of it.
    let (_other, other_io, _peer) = pair(&poller);
    poller.turn(Some(Duration::ZERO)).unwrap();
    theirs.write_all(b"x").unwrap();
    let before = poller.counts().spurious;
    poller.turn(Some(Duration::ZERO)).unwrap();
    assert_eq!(poller.counts().spurious, before + 1);
    assert!(other_io.ready_now(Interest::READABLE).ready().is_empty());
    drop(duplicate);
}
