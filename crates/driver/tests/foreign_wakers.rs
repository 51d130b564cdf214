//! Wakers are foreign code: one that panics ends neither the owner nor the wakes of
//! others, and one may come back to the driver from its wake and from its drop.

#![cfg(not(blitzen_loom))]

mod common;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use blitzen_driver::{Driver, DriverConfig, Interest, Ready, Registration};
use common::LocalStream;

const NOW: Option<Duration> = Some(Duration::ZERO);

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

struct PanicsWhenDropped;

impl Wake for PanicsWhenDropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("a waker that panics when it is dropped");
    }
}

#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A source that is registered, and its peer.
fn source(driver: &Driver) -> (LocalStream, Registration, LocalStream) {
    let (mut ours, theirs) = common::connected();
    let registration = driver
        .register(&mut ours, Interest::READABLE, Ready::EMPTY)
        .unwrap();
    (ours, registration, theirs)
}

fn wait(registration: &Registration, waker: &Waker) {
    let mut cx = Context::from_waker(waker);
    assert!(registration.poll_read_ready(&mut cx).is_pending());
}

#[test]
fn a_waker_that_panics_ends_no_turn_of_the_poller() {
    let driver = Driver::new(DriverConfig::default());
    let sources: Vec<_> = (0..5).map(|_| source(&driver)).collect();
    let counts = Arc::new(Counts::default());
    let (panics, counter) = (Waker::from(Arc::new(Panics)), Waker::from(counts.clone()));
    for round in 1..=3 {
        for (n, (ours, registration, theirs)) in sources.iter().enumerate() {
            let read = || (&*ours).read(&mut [0; 8]);
            while registration.try_io(Interest::READABLE, read).is_ok() {}
            wait(registration, if n == 1 { &panics } else { &counter });
            (&*theirs).write_all(b"x").unwrap();
        }
        let found = match round {
            1 => driver.turn(NOW),
            2 => driver.turn(None),
            _ => driver.serve(),
        };
        assert_eq!(found.unwrap(), 5);
        assert_eq!(counts.0.load(SeqCst), 4 * round);
    }
}

#[test]
fn a_waker_that_panics_ends_no_shutdown() {
    let driver = Driver::new(DriverConfig::default());
    let sources: Vec<_> = (0..3).map(|_| source(&driver)).collect();
    let counts = Arc::new(Counts::default());
    wait(&sources[0].1, &Waker::from(counts.clone()));
    wait(&sources[1].1, &Waker::from(Arc::new(Panics)));
    wait(&sources[2].1, &Waker::from(counts.clone()));
    assert_eq!(driver.shutdown(Duration::from_secs(1)).unwrap(), 0);
    assert_eq!(counts.0.load(SeqCst), 2);
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_does_not_cost_a_slot() {
    let driver = Driver::new(DriverConfig::default());
    for _ in 0..3 {
        let (_ours, registration, _theirs) = source(&driver);
        wait(&registration, &Waker::from(Arc::new(PanicsWhenDropped)));
        drop(registration);
        assert_eq!(driver.poller().unwrap().sources(), 0);
    }
}

/// What a waker does when it is woken and when it is dropped.
type Action = Box<dyn FnMut() + Send>;

struct Acts(Mutex<Action>);

impl Acts {
    fn waker(action: impl FnMut() + Send + 'static) -> Waker {
        Arc::new(Self(Mutex::new(Box::new(action)))).into()
    }
}

impl Wake for Acts {
    fn wake(self: Arc<Self>) {
        (self.0.lock().unwrap())();
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        (self.0.lock().unwrap())();
    }
}

#[test]
fn a_waker_may_come_back_to_the_driver_from_its_wake_and_its_drop() {
    let driver = Arc::new(Driver::new(DriverConfig::default()));
    let (_ours, registration, theirs) = source(&driver);
    let registration = Arc::new(registration);
    let acted = Arc::new(AtomicUsize::new(0));
    let waker = Acts::waker({
        let (driver, registration, acted) = (driver.clone(), registration.clone(), acted.clone());
        move || {
            // Looks at its own source, registers and drops another, and turns.
            let mut cx = Context::from_waker(Waker::noop());
            let _ = registration.poll_read_ready(&mut cx);
            drop(source(&driver));
            driver.turn(NOW).unwrap();
            driver.serve().unwrap();
            driver.interrupt();
            acted.fetch_add(1, SeqCst);
        }
    });
    wait(&registration, &waker);
    wait(&registration, &waker);
    drop(waker);
    (&theirs).write_all(b"x").unwrap();
    driver.turn(NOW).unwrap();
    assert_eq!(acted.load(SeqCst), 2, "woken, then dropped");
}

#[cfg(blitzen_ring)]
mod by_completion {
    use super::*;
    use blitzen_driver::ring::file::Stat;
    use blitzen_driver::ring::socket::RingStream;
    use std::future::Future;
    use std::mem::MaybeUninit;
    use std::os::unix::net::UnixStream;
    use std::pin::Pin;
    use std::task::{Poll, RawWaker, RawWakerVTable};

    fn stream(driver: &Driver) -> Option<(RingStream, UnixStream)> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        match driver.open_stream(Arc::new(ours)) {
            Ok(stream) => Some((stream, theirs)),
            Err(refusal) => {
                eprintln!("not tested: {refusal}");
                None
            }
        }
    }

    fn wait(stream: &RingStream, waker: &Waker) {
        let mut cx = Context::from_waker(waker);
        let read = stream.poll_read(&mut cx, &mut [MaybeUninit::uninit(); 8]);
        assert!(read.is_pending());
    }

    #[test]
    fn a_waker_that_panics_ends_no_turn_of_the_ring() {
        let driver = Driver::new(DriverConfig::default());
        let Some(first) = stream(&driver) else { return };
        let mut streams = vec![first];
        streams.extend((0..4).filter_map(|_| stream(&driver)));
        let counts = Arc::new(Counts::default());
        let (panics, counter) = (Waker::from(Arc::new(Panics)), Waker::from(counts.clone()));
        for round in 1..=3 {
            for (n, (ours, _)) in streams.iter().enumerate() {
                wait(ours, if n == 1 { &panics } else { &counter });
            }
            driver.turn(NOW).unwrap(); // armed
            for (_, theirs) in &mut streams {
                theirs.write_all(b"x").unwrap();
            }
            while counts.0.load(SeqCst) < 4 * round {
                match round {
                    1 => driver.turn(None).unwrap(),
                    2 => driver.turn(NOW).unwrap(),
                    _ => driver.serve().unwrap(),
                };
            }
            for (ours, _) in &streams {
                let mut cx = Context::from_waker(Waker::noop());
                let read = ours.poll_read(&mut cx, &mut [MaybeUninit::uninit(); 8]);
                assert!(matches!(read, Poll::Ready(Ok(Ok(1)))));
            }
        }
    }

    #[test]
    fn a_waker_that_panics_ends_neither_a_shutdown_nor_a_leave_nor_a_drop() {
        let driver = Driver::new(DriverConfig::default());
        let Some((leaving, _peer)) = stream(&driver) else {
            return;
        };
        wait(&leaving, &Waker::from(Arc::new(Panics)));
        leaving.leave();
        let Some((dropped, _peer)) = stream(&driver) else {
            return;
        };
        wait(&dropped, &Waker::from(Arc::new(PanicsWhenDropped)));
        drop(dropped);
        let counts = Arc::new(Counts::default());
        let mut streams = Vec::new();
        for n in 0..3 {
            let Some((ours, theirs)) = stream(&driver) else {
                return;
            };
            let waker = match n {
                1 => Waker::from(Arc::new(Panics)),
                _ => Waker::from(counts.clone()),
            };
            wait(&ours, &waker);
            streams.push((ours, theirs));
        }
        assert_eq!(driver.shutdown(Duration::from_secs(5)).unwrap(), 0);
        assert_eq!(counts.0.load(SeqCst), 2);
    }

    /// A waker each clone of which acts when it is dropped.
    fn each_clone_acts(action: impl Fn() + Send + Sync + 'static) -> Waker {
        type Action = Arc<dyn Fn() + Send + Sync>;
        fn raw(action: Action) -> RawWaker {
            RawWaker::new(Box::into_raw(Box::new(action)).cast(), &VTABLE)
        }
        const VTABLE: RawWakerVTable = RawWakerVTable::new(
            // SAFETY: the data is that of `raw`, and stays until `drop`.
            |data| raw(unsafe { &*data.cast::<Action>() }.clone()),
            |_| unreachable!("nobody wakes it"),
            |_| unreachable!("nobody wakes it"),
            |data| {
                // SAFETY: the data is that of `raw`, and is dropped once.
                let action = unsafe { Box::from_raw(data.cast::<Action>().cast_mut()) };
                action();
            },
        );
        // SAFETY: the functions do what the contract says, from any thread.
        unsafe { Waker::from_raw(raw(Arc::new(action))) }
    }

    #[test]
    fn a_waker_may_submit_an_operation_from_its_drop() {
        let driver = Arc::new(Driver::new(DriverConfig::default()));
        let stat = || Stat::path(c"/dev/null".into(), 0);
        let mut op = match driver.submit(stat()) {
            Ok(op) => op,
            Err((_, refusal)) => return eprintln!("not tested: {refusal}"),
        };
        while driver.has_operations() {
            driver.turn(None).unwrap();
        }
        let waker = each_clone_acts({
            let driver = driver.clone();
            move || {
                driver
                    .submit(stat())
                    .map_err(|(_, error)| error)
                    .unwrap()
                    .detach()
            }
        });
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut op).poll(&mut cx).is_ready());
        drop(waker);
        assert_eq!(driver.shutdown(Duration::MAX).unwrap(), 0);
    }

    #[test]
    fn a_waker_may_read_its_own_stream_from_its_wake_and_its_drop() {
        let driver = Arc::new(Driver::new(DriverConfig::default()));
        let Some((ours, mut theirs)) = stream(&driver) else {
            return;
        };
        let (ours, acted) = (Arc::new(ours), Arc::new(AtomicUsize::new(0)));
        let waker = Acts::waker({
            let (driver, ours, acted) = (driver.clone(), ours.clone(), acted.clone());
            move || {
                let mut cx = Context::from_waker(Waker::noop());
                let _ = ours.poll_read(&mut cx, &mut [MaybeUninit::uninit(); 8]);
                let _ = ours.poll_peek(&mut cx, &mut [MaybeUninit::uninit(); 8]);
                let _ = ours.poll_flush(&mut cx);
                drop(stream(&driver));
                driver.turn(NOW).unwrap();
                driver.serve().unwrap();
                acted.fetch_add(1, SeqCst);
            }
        });
        wait(&ours, &waker);
        wait(&ours, &waker); // replaces, and so drops, a clone
        {
            let mut room = [MaybeUninit::uninit(); 8];
            let mut read = Box::pin(ours.read(&mut room));
            let mut cx = Context::from_waker(&waker);
            assert!(Pin::new(&mut read).poll(&mut cx).is_pending());
        }
        drop(waker);
        theirs.write_all(b"x").unwrap();
        while acted.load(SeqCst) < 2 {
            driver.turn(None).unwrap();
        }
    }
}
