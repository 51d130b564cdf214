//! A poller that is shut down ends every wait with an error, and refuses
//! everything that would need it.

#![cfg(not(blitzen_loom))]

mod common;

use std::future::Future;
use std::io::{Read, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use blitzen_driver::{Interest, Poller, Ready, Registration, is_shutdown_error};
use common::{BOTH, Owner, pair};
use futures::executor::block_on;

#[test]
fn waits_under_way_and_later_ones_end_with_the_error() {
    let owner = Owner::start();
    let (mut ours, io, _theirs) = pair(&owner.poller);
    while ours.write(&[0; 512]).is_ok() {} // nothing to read, no room to write
    while !io.ready_now(Interest::WRITABLE).ready().is_empty() {
        io.clear_refuted(io.ready_now(Interest::WRITABLE));
    }
    let mut under_way = pin!(io.readiness(Interest::READABLE));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(under_way.as_mut().poll(&mut cx).is_pending());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let read = std::future::poll_fn(|cx| io.poll_read_ready(cx));
            assert!(is_shutdown_error(&block_on(read).unwrap_err()));
        });
        scope.spawn(|| {
            let accept = io.async_io(Interest::READABLE, || (&ours).read(&mut [0; 8]));
            assert!(is_shutdown_error(&block_on(accept).unwrap_err()));
        });
        owner.poller.shutdown();
    });
    assert!(is_shutdown_error(&block_on(under_way).unwrap_err()));
    assert!(is_shutdown_error(
        &block_on(io.readiness(Interest::READABLE)).unwrap_err()
    ));
    let write = std::future::poll_fn(|cx| io.poll_write_ready(cx));
    assert!(is_shutdown_error(&block_on(write).unwrap_err()));
}

#[test]
fn tries_go_on_and_find_what_there_is() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (mut ours, io, mut theirs) = pair(&poller);
    theirs.write_all(b"hello").unwrap();
    poller.shutdown();
    let mut room = [0; 5];
    let mut read = || io.try_io(Interest::READABLE, || ours.read(&mut room));
    assert_eq!(read().unwrap(), 5);
    assert!(read().is_err());
    // What found nothing must not hide the end of the poller.
    assert!(is_shutdown_error(
        &block_on(io.readiness(Interest::READABLE)).unwrap_err()
    ));
}

#[test]
fn new_sources_are_refused() {
    let poller = Arc::new(Poller::new(64).unwrap());
    poller.shutdown();
    assert!(poller.is_shutdown());
    let (mut ours, _theirs) = common::connected();
    let refused = poller.register(&mut ours, BOTH, Ready::EMPTY).unwrap_err();
    assert!(is_shutdown_error(&refused));
    assert_eq!(
        refused.to_string(),
        "A Tokio 1.x context was found, but it is being shutdown."
    );
}

#[test]
fn a_waker_that_holds_its_own_source_is_dropped() {
    struct Cycle {
        source: Mutex<Option<Registration>>,
        dropped: Arc<AtomicBool>,
    }
    impl Wake for Cycle {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Cycle {
        fn drop(&mut self) {
            self.dropped.store(true, SeqCst);
        }
    }

    let poller = Arc::new(Poller::new(64).unwrap());
    let (_ours, io, _theirs) = pair(&poller);
    let dropped = Arc::new(AtomicBool::new(false));
    let cycle = Arc::new(Cycle {
        source: Mutex::new(None),
        dropped: dropped.clone(),
    });
    let waker = Waker::from(cycle.clone());
    let mut cx = Context::from_waker(&waker);
    assert!(matches!(io.poll_read_ready(&mut cx), Poll::Pending));
    *cycle.source.lock().unwrap() = Some(io);
    drop((cycle, waker));
    assert!(!dropped.load(SeqCst));
    poller.shutdown();
    assert!(dropped.load(SeqCst));
    assert_eq!(poller.turn(Some(Duration::ZERO)).unwrap(), 0);
}
