//! A worker's driver: it sleeps where it hears what can come, moves when that
//! changes, and wakes for everything.

#![cfg(not(blitzen_loom))]

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use blitzen_driver::{Driver, DriverConfig, Interest, Ready, SpinPermit, is_shutdown_error};
use common::{blocking, connected};
use futures::executor::block_on;

/// Turns a driver until it is dropped, then shuts it down.
struct Worker {
    driver: Arc<Driver>,
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(config: DriverConfig) -> Self {
        Self::turning(Arc::new(Driver::new(config)))
    }

    fn turning(driver: Arc<Driver>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicUsize::new(0));
        let thread = std::thread::spawn({
            let (driver, stop, turns) = (driver.clone(), stop.clone(), turns.clone());
            move || {
                while !stop.load(SeqCst) {
                    driver.turn(None).unwrap();
                    turns.fetch_add(1, SeqCst);
                }
                assert_eq!(driver.shutdown(Duration::MAX).unwrap(), 0);
            }
        });
        Self {
            driver,
            stop,
            turns,
            thread: Some(thread),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.driver.interrupt();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// With and without looking around before sleeping.
fn configs() -> [DriverConfig; 2] {
    let spin = Some(SpinPermit::new());
    [
        DriverConfig::default(),
        DriverConfig {
            spin,
            ..DriverConfig::default()
        },
    ]
}

#[test]
fn a_source_registered_while_the_owner_sleeps_elsewhere_wakes_it() {
    for config in configs() {
        for _ in 0..200 {
            let worker = Worker::start(config.clone());
            let (mut ours, mut theirs) = connected();
            let io = worker
                .driver
                .register(&mut ours, Interest::READABLE, Ready::EMPTY)
                .unwrap();
            let reader = std::thread::spawn(move || {
                block_on(io.async_io(Interest::READABLE, || ours.read(&mut [0; 8]))).unwrap()
            });
            theirs.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap(), 1);
        }
    }
}

#[test]
fn a_thousand_round_trips() {
    for config in configs() {
        let worker = Worker::start(config);
        let (mut ours, theirs) = connected();
        let io = worker
            .driver
            .register(&mut ours, Interest::READABLE, Ready::EMPTY)
            .unwrap();
        let mut theirs = blocking(theirs);
        let echo = std::thread::spawn(move || {
            for _ in 0..1000 {
                let mut byte = [0];
                block_on(io.async_io(Interest::READABLE, || ours.read_exact(&mut byte))).unwrap();
                ours.write_all(&byte).unwrap();
            }
        });
        for n in 0..1000_u32 {
            theirs.write_all(&[n as u8]).unwrap();
            let mut back = [0];
            theirs.read_exact(&mut back).unwrap();
            assert_eq!(back[0], n as u8);
        }
        echo.join().unwrap();
    }
}

#[test]
fn an_owner_with_nothing_to_wait_for_sleeps_until_interrupted() {
    let worker = Worker::start(DriverConfig::default());
    let driver = &worker.driver;
    for n in 0..100 {
        while worker.turns.load(SeqCst) < n {
            std::thread::yield_now();
        }
        driver.interrupt();
    }
    assert!(!driver.is_busy());
}

#[test]
fn a_limited_wait_is_kept_wherever_it_is_spent() {
    let limit = Duration::from_micros(500);
    for config in configs() {
        let driver = Driver::new(config);
        let kept = || {
            let start = Instant::now();
            while start.elapsed() < limit {
                driver.turn(Some(limit)).unwrap();
            }
        };
        kept(); // on the word
        let (mut ours, _theirs) = connected();
        let _io = driver
            .register(&mut ours, Interest::READABLE, Ready::EMPTY)
            .unwrap();
        kept(); // in the poller
    }
}

#[test]
fn others_serve_an_owner_that_does_not_turn() {
    let driver = Driver::new(DriverConfig::default());
    assert_eq!(driver.serve().unwrap(), 0);
    let (mut ours, mut theirs) = connected();
    let io = driver
        .register(&mut ours, Interest::READABLE, Ready::EMPTY)
        .unwrap();
    theirs.write_all(b"x").unwrap();
    let mut served = 0;
    while served == 0 {
        served = driver.serve().unwrap(); // over TCP, the byte may still be under way
    }
    assert_eq!(served, 1);
    assert!(io.ready_now(Interest::READABLE).ready().is_readable());
}

#[test]
fn nothing_is_taken_on_after_the_end() {
    for had_poller in [false, true] {
        let driver = Driver::new(DriverConfig::default());
        if had_poller {
            driver.poller().unwrap();
        }
        driver.shutdown(Duration::ZERO).unwrap();
        let (mut ours, _theirs) = connected();
        let refused = driver.register(&mut ours, Interest::READABLE, Ready::EMPTY);
        assert!(is_shutdown_error(&refused.unwrap_err()));
    }
}

#[cfg(blitzen_ring)]
mod with_ring {
    use super::*;
    use blitzen_driver::ring::Memory;
    use blitzen_driver::ring::file::{Read as ReadAt, Stat};

    /// Whether the system has rings; says so if not.
    fn has_ring() -> bool {
        let made = Driver::new(DriverConfig::default()).ring().map(drop);
        if let Err(error) = &made {
            eprintln!("not tested: {error}");
        }
        made.is_ok()
    }

    #[test]
    fn an_operation_submitted_while_the_owner_sleeps_anywhere_ends() {
        if !has_ring() {
            return;
        }
        for config in configs() {
            for round in 0..100 {
                let worker = Worker::start(config.clone());
                let (mut ours, _theirs) = connected();
                // Half of the owners sleep on their word, half in the poller.
                let _io = (round % 2 == 0).then(|| {
                    let driver = &worker.driver;
                    driver.register(&mut ours, Interest::READABLE, Ready::EMPTY)
                });
                for _ in 0..3 {
                    let stat = Stat::path(c"/dev/null".into(), 0);
                    let op = worker.driver.submit(stat).map_err(|(_, error)| error);
                    block_on(op.unwrap()).unwrap();
                }
            }
        }
    }

    #[test]
    fn sources_are_served_while_operations_are_in_flight_and_the_other_way_round() {
        if !has_ring() {
            return;
        }
        for config in configs() {
            let worker = Worker::start(config);
            let (pipe_reader, mut pipe_writer) = std::io::pipe().unwrap();
            let room = Memory::room(Vec::with_capacity(8));
            let read = ReadAt::new(pipe_reader, room, u64::MAX);
            let op = worker.driver.submit(read).map_err(|(_, error)| error);
            let op = op.unwrap();
            let (mut ours, mut theirs) = connected();
            let io = worker
                .driver
                .register(&mut ours, Interest::READABLE, Ready::EMPTY)
                .unwrap();
            for _ in 0..100 {
                theirs.write_all(b"x").unwrap();
                let mut byte = [0];
                block_on(io.async_io(Interest::READABLE, || ours.read_exact(&mut byte))).unwrap();
            }
            pipe_writer.write_all(b"end").unwrap();
            assert_eq!(block_on(op).0.unwrap(), 3);
        }
    }

    #[test]
    fn an_operation_whose_thread_has_ended_is_submitted_again_although_the_owner_sleeps_elsewhere()
    {
        if !has_ring() {
            return;
        }
        let driver = Arc::new(Driver::new(DriverConfig::default()));
        let (reader, mut writer) = std::io::pipe().unwrap();
        let submitter = std::thread::spawn({
            let driver = driver.clone();
            move || {
                let room = Memory::room(Vec::with_capacity(8));
                let read = ReadAt::new(reader, room, u64::MAX);
                let op = driver.submit(read).map_err(|(_, error)| error).unwrap();
                driver.turn(Some(Duration::ZERO)).unwrap();
                op
            }
        });
        let op = submitter.join().unwrap();
        let (mut ours, _theirs) = connected();
        let _io = driver.register(&mut ours, Interest::READABLE, Ready::EMPTY);
        let worker = Worker::turning(driver);
        // The kernel cancels what belongs to a thread that has ended, when there is something to
        // read. For all the owner knows, the operation has ended.
        writer.write_all(b"end").unwrap();
        let ring = worker.driver.ring().unwrap();
        let poller = worker.driver.poller().unwrap();
        while ring.in_flight() > 0 || !poller.is_asleep() {
            std::thread::yield_now();
        }
        assert_eq!(block_on(op).0.unwrap(), 3);
    }

    #[test]
    fn the_end_cancels_what_is_in_flight() {
        if !has_ring() {
            return;
        }
        let worker = Worker::start(DriverConfig::default());
        let (reader, _writer) = std::io::pipe().unwrap();
        let room = Memory::room(Vec::with_capacity(8));
        let read = ReadAt::new(reader, room, u64::MAX);
        let op = worker.driver.submit(read).map_err(|(_, error)| error);
        let op = op.unwrap();
        drop(worker);
        let (result, _room) = block_on(op);
        assert!(is_shutdown_error(&result.unwrap_err()));
    }

    #[test]
    fn a_driver_without_a_ring_returns_the_operation() {
        let config = DriverConfig {
            ring: None,
            ..DriverConfig::default()
        };
        let driver = Driver::new(config);
        for _ in 0..2 {
            let stat = Stat::path(c"/dev/null".into(), 0);
            let (_stat, error) = driver.submit(stat).map(drop).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        }
    }
}
