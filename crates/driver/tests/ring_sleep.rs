//! An owner asleep in its ring wakes for everything: completions, events of
//! its poller, interrupts, what others submit, and the end of its time.

#![cfg(all(blitzen_ring, not(blitzen_loom)))]

#[path = "common/ring.rs"]
mod common;

use std::io::Write as _;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use blitzen_driver::ring::file::{Read, Stat};
use blitzen_driver::ring::{Flavour, Memory, Ring, RingConfig};
use blitzen_driver::{Interest, Poller, Ready};
use common::{RingOwner, ring};
use futures::executor::block_on;

#[test]
fn for_a_completion() {
    for flavour in [Flavour::Shared, Flavour::Pinned] {
        let Some(ring) = ring(8, 16, flavour) else {
            return;
        };
        let (reader, mut writer) = std::io::pipe().unwrap();
        let room = Memory::room(Vec::with_capacity(8));
        let op = ring.submit(Read::new(reader, room, u64::MAX));
        let peer = std::thread::spawn({
            let ring = ring.clone();
            move || {
                while !ring.is_asleep() {
                    std::thread::yield_now();
                }
                writer.write_all(b"x").unwrap();
            }
        });
        while ring.in_flight() > 0 {
            ring.turn(None).unwrap();
        }
        peer.join().unwrap();
        assert_eq!(block_on(op).0.unwrap(), 1);
    }
}

#[test]
fn for_an_event_of_its_poller() {
    for flavour in [Flavour::Shared, Flavour::Pinned] {
        let poller = Arc::new(Poller::new(64).unwrap());
        let config = RingConfig {
            flavour,
            ..RingConfig::default()
        };
        let Ok(ring) = Ring::new(&config, poller.clone()) else {
            return;
        };
        let (mut ours, mut theirs) = mio::net::UnixStream::pair().unwrap();
        let io = poller
            .register(&mut ours, Interest::READABLE, Ready::EMPTY)
            .unwrap();
        let ring = Arc::new(ring);
        for _ in 0..100 {
            let peer = std::thread::spawn({
                let ring = ring.clone();
                move || {
                    while !ring.is_asleep() {
                        std::thread::yield_now();
                    }
                    theirs.write_all(b"x").unwrap();
                    theirs
                }
            });
            while io.ready_now(Interest::READABLE).ready().is_empty() {
                ring.turn(None).unwrap();
            }
            theirs = peer.join().unwrap();
            let mut room = [0; 8];
            std::io::Read::read(&mut ours, &mut room).unwrap();
            io.clear_refuted(io.ready_now(Interest::READABLE));
        }
        let mut cx = Context::from_waker(Waker::noop());
        assert!(io.poll_read_ready(&mut cx).is_pending());
    }
}

#[test]
fn for_an_interrupt_early_or_late() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    ring.interrupt();
    ring.turn(None).unwrap(); // returns
    for _ in 0..100 {
        // Its drop interrupts and joins: it hangs if that does not work.
        let owner = RingOwner::start().unwrap();
        while !owner.ring.is_asleep() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn for_what_another_thread_submits() {
    let Some(owner) = RingOwner::start() else {
        return;
    };
    for _ in 0..200 {
        while !owner.ring.is_asleep() {
            std::thread::yield_now();
        }
        block_on(owner.ring.submit(Stat::path(c"/dev/null".into(), 0))).unwrap();
    }
}

#[test]
fn for_the_end_of_its_time() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    let (reader, _writer) = std::io::pipe().unwrap();
    let op = ring.submit(Read::new(
        reader,
        Memory::room(Vec::with_capacity(8)),
        u64::MAX,
    ));
    let timeout = Duration::from_micros(300);
    let start = Instant::now();
    while start.elapsed() < timeout {
        ring.turn(Some(timeout)).unwrap();
    }
    drop(op);
    while ring.in_flight() > 0 {
        ring.turn(None).unwrap();
    }
}
