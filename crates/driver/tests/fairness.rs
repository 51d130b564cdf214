//! A turn takes in a bounded number of events, and nothing starves behind it.

#![cfg(not(blitzen_loom))]

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use blitzen_driver::{Interest, Poller};
use common::pair;

const NOW: Option<Duration> = Some(Duration::ZERO);

#[test]
fn each_kind_of_turn_has_its_bound() {
    let poller = Arc::new(Poller::with_limits(16, 4).unwrap());
    let _alive: Vec<_> = (0..64).map(|_| pair(&poller)).collect();
    assert_eq!(poller.turn(NOW).unwrap(), 4);
    assert_eq!(poller.try_turn().unwrap(), 4);
    assert_eq!(poller.turn(None).unwrap(), 16);
    assert_eq!(poller.turn(Some(Duration::from_secs(1))).unwrap(), 16);
    assert_eq!(poller.counts().events, 40);
}

#[test]
fn sources_that_never_fall_silent_do_not_starve_the_others() {
    let poller = Arc::new(Poller::with_limits(16, 4).unwrap());
    let mut loud: Vec<_> = (0..8).map(|_| pair(&poller)).collect();
    while poller.turn(NOW).unwrap() > 0 {}
    let mut quiet: Vec<_> = (0..32).map(|_| pair(&poller)).collect();
    while poller.turn(NOW).unwrap() > 0 {}
    for (_, _, peer) in &mut quiet {
        peer.write_all(b"x").unwrap();
    }
    // 40 sources at 4 a turn: every quiet one is heard within a few rounds,
    // however often the loud ones speak.
    for _ in 0..20 {
        for (ours, io, peer) in &mut loud {
            // Until it would block: not every selector reports more before.
            while io
                .try_io(Interest::READABLE, || ours.read(&mut [0; 8]))
                .is_ok()
            {}
            peer.write_all(b"x").unwrap();
        }
        assert_eq!(poller.turn(NOW).unwrap(), 4);
    }
    for (_, io, _) in &quiet {
        assert!(io.ready_now(Interest::READABLE).ready().is_readable());
    }
}
