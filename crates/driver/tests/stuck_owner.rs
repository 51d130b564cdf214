//! A poller whose owner is stuck is served by others; one whose owner sleeps
//! in it is left alone.

#![cfg(not(blitzen_loom))]

mod common;

use std::io::{Read, Write};
use std::sync::mpsc;
use std::task::Context;
use std::time::Duration;

use blitzen_driver::Interest;
use common::{Owner, blocking, pair};
use futures::executor::block_on;

#[test]
fn another_thread_serves_the_sources_of_a_stuck_owner() {
    let poller = std::sync::Arc::new(blitzen_driver::Poller::new(64).unwrap());
    let (mut ours, io, mut theirs) = pair(&poller);
    let (release, stuck) = mpsc::channel::<()>();
    let (about_to_block, blocked) = mpsc::channel();
    let owner = std::thread::spawn({
        let poller = poller.clone();
        move || {
            poller.turn(Some(Duration::ZERO)).unwrap();
            about_to_block.send(()).unwrap();
            stuck.recv().unwrap(); // a task that blocks its worker
        }
    });
    blocked.recv().unwrap();

    let reader = std::thread::spawn(move || {
        block_on(io.async_io(Interest::READABLE, || ours.read(&mut [0; 8]))).unwrap()
    });
    theirs.write_all(b"help").unwrap();
    let mut served = 0;
    while served == 0 {
        served = poller.try_turn().unwrap();
    }
    assert_eq!(reader.join().unwrap(), 4);
    assert!(poller.counts().served >= 1);
    release.send(()).unwrap();
    owner.join().unwrap();
}

#[test]
fn nobody_interferes_with_an_owner_that_waits() {
    let owner = Owner::start();
    while !owner.poller.is_asleep() {
        std::thread::yield_now();
    }
    let before = owner.poller.counts();
    for _ in 0..1000 {
        assert_eq!(owner.poller.try_turn().unwrap(), 0);
    }
    assert_eq!(owner.poller.counts(), before);
}

#[test]
fn an_owner_and_its_helpers_together_lose_no_event() {
    let owner = Owner::start();
    let (mut ours, io, theirs) = pair(&owner.poller);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let helper = std::thread::spawn({
        let (poller, stop) = (owner.poller.clone(), stop.clone());
        move || {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                poller.interrupt(); // gets the owner out of the way now and then
                poller.try_turn().unwrap();
            }
        }
    });
    let reader = std::thread::spawn(move || {
        for _ in 0..2000 {
            let mut byte = [0];
            block_on(io.async_io(Interest::READABLE, || ours.read_exact(&mut byte))).unwrap();
            block_on(io.async_io(Interest::WRITABLE, || ours.write_all(&byte))).unwrap();
        }
    });
    let mut theirs = blocking(theirs);
    for n in 0..2000_u32 {
        let byte = [n as u8];
        theirs.write_all(&byte).unwrap();
        let mut back = [0];
        theirs.read_exact(&mut back).unwrap();
        assert_eq!(back, byte);
    }
    reader.join().unwrap();
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    helper.join().unwrap();
}

#[test]
fn a_waker_may_turn_the_poller_and_drop_its_source() {
    use std::sync::{Arc, Mutex};
    use std::task::{Wake, Waker};

    struct Nested {
        poller: Arc<blitzen_driver::Poller>,
        source: Mutex<Option<blitzen_driver::Registration>>,
    }
    impl Wake for Nested {
        fn wake(self: Arc<Self>) {
            drop(self.source.lock().unwrap().take());
            self.poller.turn(Some(Duration::ZERO)).unwrap();
        }
    }

    let poller = Arc::new(blitzen_driver::Poller::new(64).unwrap());
    let (_ours, io, mut theirs) = pair(&poller);
    let nested = Arc::new(Nested {
        poller: poller.clone(),
        source: Mutex::new(None),
    });
    let waker = Waker::from(nested.clone());
    assert!(
        io.poll_read_ready(&mut Context::from_waker(&waker))
            .is_pending()
    );
    *nested.source.lock().unwrap() = Some(io);
    theirs.write_all(b"x").unwrap();
    // On Windows, the room to write is an event of its own.
    while poller.has_sources() {
        assert_eq!(poller.turn(None).unwrap(), 1);
    }
}
