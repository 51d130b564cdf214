//! Operations dropped at every stage, queues run over, owners that are stuck
//! or gone: nothing is freed early, freed twice, leaked or lost.

#![cfg(all(blitzen_ring, not(blitzen_loom)))]

#[path = "common/ring.rs"]
mod common;

use std::future::Future;
use std::io::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use blitzen_driver::is_shutdown_error;
use blitzen_driver::ring::file::{Close, Open, Read, Stat, Write};
use blitzen_driver::ring::{Flavour, Memory, Op, Operation, Ring};
use blitzen_util::rng::Rng;
use common::{Counted, RingOwner, ring, run};
use futures::executor::block_on;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn poll<T: Operation>(op: &mut Op<T>) -> Poll<T::Output> {
    Pin::new(op).poll(&mut Context::from_waker(Waker::noop()))
}

/// Turns a ring until nothing is in flight.
fn settle(ring: &Ring) {
    while ring.in_flight() > 0 {
        ring.turn(None).unwrap();
    }
}

fn pipe() -> (OwnedFd, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_future_dropped_before_its_operation_is_sent_takes_it_back() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    let alive = Arc::new(AtomicUsize::new(0));
    let (reader, mut writer) = pipe();
    let reader = Arc::new(reader);
    drop(ring.submit(Read::new(
        reader.clone(),
        Counted::room(8, &alive),
        u64::MAX,
    )));
    assert_eq!((alive.load(SeqCst), ring.in_flight()), (0, 0));
    // The kernel never saw it: what comes goes to the next one.
    writer.write_all(b"next").unwrap();
    let read = Read::new(reader, Memory::room(Vec::with_capacity(8)), u64::MAX);
    let (result, bytes) = run(&ring, ring.submit(read));
    assert_eq!((result.unwrap(), &bytes[..]), (4, &b"next"[..]));
}

#[test]
fn a_future_dropped_while_the_kernel_works_leaves_its_buffer_to_the_ring() {
    for flavour in [Flavour::Shared, Flavour::Pinned] {
        let Some(ring) = ring(8, 16, flavour) else {
            return;
        };
        let alive = Arc::new(AtomicUsize::new(0));
        let (reader, _writer) = pipe();
        let mut read = ring.submit(Read::new(reader, Counted::room(8, &alive), u64::MAX));
        ring.turn(NOW).unwrap();
        assert!(poll(&mut read).is_pending());
        drop(read);
        assert_eq!(alive.load(SeqCst), 1, "the kernel may still write to it");
        settle(&ring);
        assert_eq!(alive.load(SeqCst), 0);
    }
}

#[test]
fn a_future_dropped_after_the_end_frees_its_buffer_once() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    let alive = Arc::new(AtomicUsize::new(0));
    let (reader, mut writer) = pipe();
    writer.write_all(b"x").unwrap();
    let read = ring.submit(Read::new(reader, Counted::room(8, &alive), u64::MAX));
    settle(&ring);
    assert_eq!(alive.load(SeqCst), 1);
    drop(read);
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn files_opened_for_nobody_are_closed() {
    let Some(ring) = ring(64, 128, Flavour::Shared) else {
        return;
    };
    let before = open_descriptors();
    let open = || ring.submit(Open::new(c"/dev/null".into(), libc::O_RDONLY, 0));
    for stage in 0..3 {
        for _ in 0..100 {
            let mut op = open();
            if stage >= 1 {
                ring.turn(NOW).unwrap(); // sent, and perhaps ended
            }
            if stage == 2 && poll(&mut op).is_pending() {
                ring.turn(NOW).unwrap();
            }
            drop(op);
        }
        settle(&ring);
    }
    // Another test's descriptors may come and go; 300 leaked ones would show.
    assert!(open_descriptors() < before + 200);
}

#[test]
fn ten_thousand_files_opened_and_dropped() {
    let Some(ring) = ring(64, 128, Flavour::Shared) else {
        return;
    };
    let before = open_descriptors();
    for _ in 0..100 {
        let opens: Vec<_> = (0..100)
            .map(|_| ring.submit(Open::new(c"/dev/null".into(), libc::O_RDONLY, 0)))
            .collect();
        for op in opens {
            run(&ring, op).unwrap();
        }
    }
    assert_eq!(ring.in_flight(), 0);
    assert!(open_descriptors() < before + 200);
}

#[test]
fn more_operations_than_either_queue_holds_all_end() {
    for flavour in [Flavour::Shared, Flavour::Pinned] {
        let Some(ring) = ring(4, 4, flavour) else {
            return;
        };
        let (reader, mut writer) = pipe();
        let reader = Arc::new(reader);
        let mut reads: Vec<_> = (0..500)
            .map(|_| {
                let room = Memory::room(Vec::with_capacity(1));
                ring.submit(Read::new(reader.clone(), room, u64::MAX))
            })
            .collect();
        ring.turn(NOW).unwrap(); // all of them wait in the kernel
        assert_eq!(ring.in_flight(), 500);
        // All end at once: the completion queue has room for four.
        writer.write_all(&[7; 500]).unwrap();
        let mut bytes = 0;
        while !reads.is_empty() {
            reads.retain_mut(|read| match poll(read) {
                Poll::Ready((result, _)) => {
                    bytes += result.unwrap();
                    false
                }
                Poll::Pending => true,
            });
            if !reads.is_empty() {
                ring.turn(None).unwrap();
            }
        }
        assert_eq!((bytes, ring.in_flight()), (500, 0));
    }
}

#[test]
fn operations_dropped_at_random_free_every_buffer_once() {
    let Some(owner) = RingOwner::start() else {
        return;
    };
    let alive = Arc::new(AtomicUsize::new(0));
    let (reader, mut writer) = pipe();
    // SAFETY: a flag of our own descriptor.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let reader = Arc::new(reader);
    let mut rng = Rng::new(0xD0_D0);
    let mut ops: Vec<Op<Read<Arc<OwnedFd>, Counted>>> = Vec::new();
    for _ in 0..20_000 {
        match rng.below(5) {
            0 | 1 if ops.len() < 64 => {
                let room = Counted::room(4, &alive);
                ops.push(owner.ring.submit(Read::new(reader.clone(), room, u64::MAX)));
            }
            // A full pipe is no concern of ours.
            2 => drop(writer.write(b"x")),
            _ if ops.is_empty() => {}
            3 => {
                let picked = rng.below(ops.len() as u32) as usize;
                drop(ops.swap_remove(picked));
            }
            _ => {
                let picked = rng.below(ops.len() as u32) as usize;
                if poll(&mut ops[picked]).is_ready() {
                    drop(ops.swap_remove(picked));
                }
            }
        }
    }
    drop(ops);
    drop(owner);
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn the_completions_of_an_owner_stuck_in_user_code_are_brought_in_by_another() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    let (reader, mut writer) = pipe();
    let (sent, stop) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let read = Read::new(reader, Memory::room(Vec::with_capacity(8)), u64::MAX);
    let op = ring.submit(read);
    let owner = std::thread::spawn({
        let (ring, sent, stop) = (ring.clone(), sent.clone(), stop.clone());
        move || {
            ring.turn(NOW).unwrap();
            sent.store(true, SeqCst);
            // A task that computes and computes, without a system call.
            while !stop.load(SeqCst) {
                std::hint::spin_loop();
            }
        }
    });
    while !sent.load(SeqCst) {
        std::hint::spin_loop();
    }
    let waiter = std::thread::spawn(move || block_on(op));
    writer.write_all(b"help").unwrap();
    while !waiter.is_finished() {
        ring.rescue().unwrap();
    }
    let (result, bytes) = waiter.join().unwrap();
    assert_eq!((result.unwrap(), &bytes[..]), (4, &b"help"[..]));
    stop.store(true, SeqCst);
    owner.join().unwrap();
}

#[test]
fn a_rescue_leaves_an_owner_that_sleeps_alone() {
    let Some(owner) = RingOwner::start() else {
        return;
    };
    while !owner.ring.is_asleep() {
        std::thread::yield_now();
    }
    for _ in 0..100 {
        assert_eq!(owner.ring.rescue().unwrap(), 0);
    }
}

#[test]
fn the_end_of_the_ring_ends_every_operation_and_loses_no_detached_write() {
    let path = std::env::temp_dir().join(format!("blitzen-last-{}", std::process::id()));
    let file = Arc::new(std::fs::File::create(&path).unwrap());
    let alive = Arc::new(AtomicUsize::new(0));
    let (reader, _writer) = pipe();
    let reader = Arc::new(reader);
    let Some(owner) = RingOwner::start() else {
        return;
    };
    let ring = owner.ring.clone();
    let held: Vec<_> = (0..50)
        .map(|_| {
            ring.submit(Read::new(
                reader.clone(),
                Counted::room(8, &alive),
                u64::MAX,
            ))
        })
        .collect();
    for _ in 0..50 {
        drop(ring.submit(Read::new(
            reader.clone(),
            Counted::room(8, &alive),
            u64::MAX,
        )));
    }
    for n in 0..100_u8 {
        let memory = Memory::bytes(vec![n; 100]);
        ring.submit(Write::new(file.clone(), memory, u64::from(n) * 100))
            .detach();
    }
    drop(owner); // cancels, and waits for the last word
    assert_eq!(ring.in_flight(), 0);
    for op in held {
        let (result, _room) = block_on(op);
        assert!(is_shutdown_error(&result.unwrap_err()));
    }
    assert_eq!(alive.load(SeqCst), 0);
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.len() == 10_000 && text.iter().enumerate().all(|(i, &b)| b as usize == i / 100));
    // Nothing new is taken on.
    let late = ring.submit(Stat::path(c"/dev/null".into(), 0));
    assert!(is_shutdown_error(&block_on(late).unwrap_err()));
}

#[test]
fn a_ring_that_is_just_dropped_frees_what_was_left_to_it() {
    let Some(ring) = ring(64, 128, Flavour::Shared) else {
        return;
    };
    let alive = Arc::new(AtomicUsize::new(0));
    let (reader, _writer) = pipe();
    let reader = Arc::new(reader);
    let ops: Vec<_> = (0..100)
        .map(|_| {
            ring.submit(Read::new(
                reader.clone(),
                Counted::room(8, &alive),
                u64::MAX,
            ))
        })
        .collect();
    ring.turn(NOW).unwrap();
    drop(ops);
    assert_eq!(alive.load(SeqCst), 100);
    drop(ring);
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn a_waker_that_panics_leaves_the_ring_and_the_result_intact() {
    struct Panics;

    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker's panic");
        }
    }

    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    let panics = Waker::from(Arc::new(Panics));
    let mut one = ring.submit(Stat::path(c"/".into(), 0));
    let mut other = ring.submit(Stat::path(c"/".into(), 0));
    let polled = Pin::new(&mut one).poll(&mut Context::from_waker(&panics));
    assert!(polled.is_pending() && poll(&mut other).is_pending());
    while ring.in_flight() > 0 {
        ring.turn(None).unwrap(); // whoever turns the ring hears nothing of it
    }
    assert!(matches!(poll(&mut one), Poll::Ready(Ok(_))));
    assert!(matches!(poll(&mut other), Poll::Ready(Ok(_))));
    assert!(run(&ring, ring.submit(Stat::path(c"/".into(), 0))).is_ok());
}

/// Done by the kernel as soon as it sees it.
struct Nothing;

// SAFETY: the entry points to nothing.
unsafe impl Operation for Nothing {
    type Output = std::io::Result<()>;

    fn entry(&mut self) -> io_uring::squeue::Entry {
        io_uring::opcode::Nop::new().build()
    }

    fn finish(self, result: std::io::Result<u32>) -> Self::Output {
        result.map(drop)
    }
}

#[test]
fn an_owner_that_never_sleeps_fetches_what_did_not_fit_into_the_queue() {
    for flavour in [Flavour::Shared, Flavour::Pinned] {
        let Some(ring) = ring(4, 4, flavour) else {
            return;
        };
        let mut ops: Vec<_> = (0..100).map(|_| ring.submit(Nothing)).collect();
        // Each turn takes in as many as the queue holds; the others are with the
        // kernel, and nothing but a flag says so.
        let mut turns = 0;
        while ring.in_flight() > 0 {
            ring.turn(NOW).unwrap();
            turns += 1;
            assert!(turns < 10_000, "{} are never fetched", ring.in_flight());
        }
        assert!(turns > 1, "they did not fit");
        for op in &mut ops {
            assert!(matches!(poll(op), Poll::Ready(Ok(()))));
        }
    }
}

#[test]
fn a_number_that_was_closed_is_not_closed_again() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    let other = std::fs::File::open("/dev/null").unwrap();
    // Another test may be quicker to take the number.
    for _ in 0..100 {
        let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let number = file.as_raw_fd();
        let mut close = ring.submit(Close::new(file));
        settle(&ring);
        // SAFETY: a descriptor that is open, and a number.
        let again = unsafe { libc::fcntl(other.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) };
        assert!(matches!(poll(&mut close), Poll::Ready(Ok(()))));
        // SAFETY: just made, and nobody else's.
        let closed = unsafe { libc::close(again) };
        if again == number {
            return assert_eq!(closed, 0, "somebody has closed it");
        }
    }
}

#[test]
fn what_was_not_closed_by_the_kernel_is_closed_all_the_same() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    ring.cancel_all();
    let (reader, writer) = std::io::pipe().unwrap();
    let late = block_on(ring.submit(Close::new(writer.into())));
    assert!(is_shutdown_error(&late.unwrap_err()));
    // SAFETY: a flag of a descriptor that is open.
    unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let end = std::io::Read::read(&mut &reader, &mut [0; 8]);
    assert_eq!(end.expect("nobody has it open"), 0);
}

#[test]
fn opening_a_named_pipe_waits_for_the_other_end() {
    let Some(ring) = ring(8, 16, Flavour::Shared) else {
        return;
    };
    let name = format!("blitzen-ring-pipe-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let c_path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0);
    let mut open = ring.submit(Open::new(c_path, libc::O_RDONLY, 0));
    for _ in 0..10 {
        ring.turn(Some(Duration::from_millis(1))).unwrap();
        assert!(poll(&mut open).is_pending(), "there is nobody yet");
    }
    let mut writer = std::fs::File::options().write(true).open(&path).unwrap();
    writer.write_all(b"x").unwrap();
    let opened = std::fs::File::from(run(&ring, open).unwrap());
    assert_eq!(std::io::Read::read(&mut &opened, &mut [0; 8]).unwrap(), 1);
    std::fs::remove_file(&path).unwrap();
}
