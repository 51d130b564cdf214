//! Interrupting a poller: never lost, and free of charge while its owner is
//! awake.

#![cfg(not(blitzen_loom))]

mod common;

use std::sync::Arc;
use std::time::Duration;

use blitzen_driver::{Interest, Poller, Ready};
use common::{Owner, connected};

#[test]
fn a_sleeping_owner_wakes() {
    // `Owner`'s drop interrupts and joins: it hangs if that does not work.
    for _ in 0..100 {
        let owner = Owner::start();
        while !owner.poller.is_asleep() {
            std::thread::yield_now();
        }
        drop(owner);
    }
}

#[test]
fn a_token_given_early_ends_the_next_wait_and_only_that() {
    let poller = Poller::new(16).unwrap();
    poller.interrupt();
    poller.interrupt();
    assert_eq!(poller.turn(None).unwrap(), 0); // returns
    let short = Duration::from_millis(1);
    let start = std::time::Instant::now();
    poller.turn(Some(short)).unwrap();
    assert!(start.elapsed() >= short, "one token, one early return");
}

#[test]
fn a_turn_that_does_not_wait_leaves_the_token() {
    let poller = Poller::new(16).unwrap();
    poller.interrupt();
    poller.turn(Some(Duration::ZERO)).unwrap();
    poller.turn(None).unwrap(); // returns
}

#[cfg(all(unix, not(blitzen_poll)))]
#[test]
fn no_system_call_is_made_for_an_owner_that_is_awake() {
    use std::os::fd::AsRawFd;

    let poller = Arc::new(Poller::new(16).unwrap());
    poller.interrupt();
    let mut look = libc::pollfd {
        fd: poller.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live entry.
    let rung = unsafe { libc::poll(&mut look, 1, 0) };
    assert_eq!(rung, 0, "the bell was rung for nobody");
}

#[test]
fn interrupts_from_everywhere_never_leave_the_owner_asleep() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    let poller = Arc::new(Poller::new(16).unwrap());
    let queued = Arc::new(AtomicUsize::new(0));
    let pushers: Vec<_> = (0..3)
        .map(|_| {
            let (poller, queued) = (poller.clone(), queued.clone());
            std::thread::spawn(move || {
                for _ in 0..5000 {
                    queued.fetch_add(1, SeqCst);
                    poller.interrupt();
                }
            })
        })
        .collect();
    while queued.load(SeqCst) < 15_000 {
        poller.turn(None).unwrap();
    }
    for pusher in pushers {
        pusher.join().unwrap();
    }
}

#[test]
fn an_interrupt_is_not_lost_beside_sources_that_come_and_go() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const ROUNDS: usize = 5000;
    let poller = Arc::new(Poller::new(16).unwrap());
    let answered = Arc::new(AtomicUsize::new(0));
    let asker = std::thread::spawn({
        let (poller, answered) = (poller.clone(), answered.clone());
        move || {
            let (mut ours, _theirs) = connected();
            for asked in 1..=ROUNDS {
                poller.interrupt();
                // No event comes of it, which would wake the owner as well.
                let mut registration = poller
                    .register(&mut ours, Interest::READABLE, Ready::EMPTY)
                    .unwrap();
                registration.deregister(&mut ours).unwrap();
                while answered.load(SeqCst) < asked {
                    std::thread::yield_now();
                }
            }
        }
    });
    for count in 1..=ROUNDS {
        poller.turn(None).unwrap(); // hangs if an interrupt is lost
        answered.store(count, SeqCst);
    }
    asker.join().unwrap();
}
