//! Named pipes that are closed while Windows still has operations of theirs: a poller that nobody
//! turns finishes with them.

#![cfg(windows)]

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::windows::io::{AsRawHandle, FromRawHandle};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use blitzen_driver::{Interest, Poller, Ready, Registration};
use common::{BOTH, turn_until_ready};
use mio::windows::NamedPipe;
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OVERLAPPED, PIPE_ACCESS_DUPLEX, PIPE_ACCESS_INBOUND, PIPE_ACCESS_OUTBOUND, ReadFile,
};
use windows_sys::Win32::System::IO::CancelIoEx;
use windows_sys::Win32::System::Pipes::{CreateNamedPipeW, PIPE_TYPE_BYTE, PIPE_TYPE_MESSAGE};

const NOW: Option<Duration> = Some(Duration::ZERO);
const FOREVER: Duration = Duration::from_secs(20);

/// More than a pipe's buffer holds.
const MUCH: usize = 1 << 20;

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + FOREVER;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn new_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let own = NEXT.fetch_add(1, Relaxed);
    format!(r"\\.\pipe\blitzen-driver-{}-{own}", std::process::id())
}

/// A server that is registered, and its name.
fn server(poller: &Arc<Poller>) -> (NamedPipe, Registration, String) {
    let name = new_name();
    let mut pipe = NamedPipe::new(&name).unwrap();
    let registration = poller.register(&mut pipe, BOTH, Ready::EMPTY).unwrap();
    (pipe, registration, name)
}

fn open(name: &str) -> File {
    File::options().read(true).write(true).open(name).unwrap()
}

/// A server with a client.
fn pair(poller: &Arc<Poller>) -> (NamedPipe, Registration, File) {
    let (pipe, registration, name) = server(poller);
    let client = open(&name);
    pipe.connect().unwrap();
    (pipe, registration, client)
}

/// Begins to write `MUCH` bytes, which the client does not read yet. Forgets that the pipe was
/// writable, so that it is ready once the write has ended.
fn begin_write(poller: &Poller, pipe: &mut NamedPipe, registration: &Registration) {
    turn_until_ready(poller, registration, Interest::WRITABLE);
    let written = registration.try_io(Interest::WRITABLE, || pipe.write(&[7; MUCH]));
    assert_eq!(written.unwrap(), MUCH);
    let refused = registration.try_io(Interest::WRITABLE, || pipe.write(&[8]));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A server whose client was closed during a write, and its name. Nobody has seen the error of the
/// write: mio keeps it.
fn server_with_a_failed_write(poller: &Arc<Poller>) -> (NamedPipe, Registration, String) {
    let (mut pipe, registration, name) = server(poller);
    let client = open(&name);
    pipe.connect().unwrap();
    begin_write(poller, &mut pipe, &registration);
    drop(client);
    turn_until_ready(poller, &registration, Interest::WRITABLE);
    (pipe, registration, name)
}

/// Has the client read until the end, which comes only when the server's handle is closed.
fn read_to_end(mut client: File) -> usize {
    let (sender, count) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = client.read_to_end(&mut bytes);
        let _ = sender.send(bytes.len());
    });
    count.recv_timeout(FOREVER).expect("no end in time")
}

#[test]
fn a_server_without_a_client_has_nothing_to_wait_for() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, _) = server(&poller);
    drop(registration);
    poller.close_pipe(pipe, false);
    assert_eq!(poller.closing_pipes(), 0);
}

#[test]
fn a_wait_for_a_client_is_cancelled() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, name) = server(&poller);
    assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(registration);
    poller.close_pipe(pipe, true);
    until("the wait does not end", || poller.closing_pipes() == 0);
    assert!(File::open(name).is_err(), "closed");
}

#[test]
fn a_server_that_has_disconnected_its_client_is_closed_whether_or_not_it_waits_for_another() {
    for waits in [false, true] {
        let poller = Arc::new(Poller::new(64).unwrap());
        let (pipe, registration, client) = pair(&poller);
        pipe.disconnect().unwrap();
        if waits {
            assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        drop(registration);
        poller.close_pipe(pipe, waits);
        assert_eq!(read_to_end(client), 0);
        until("something is left", || poller.closing_pipes() == 0);
    }
}

#[test]
fn a_server_that_may_have_waited_for_its_client_is_closed() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, client) = pair(&poller);
    drop(registration);
    poller.close_pipe(pipe, true);
    assert_eq!(read_to_end(client), 0);
    until("something is left", || poller.closing_pipes() == 0);
}

/// Creates the server's end of a pipe that may have one instance.
fn new_server(name: &str, open_mode: u32, pipe_type: u32) -> NamedPipe {
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    let open_mode = open_mode | FILE_FLAG_OVERLAPPED;
    // SAFETY: the name ends with a zero, and there are no attributes.
    let handle = unsafe {
        CreateNamedPipeW(
            name.as_ptr(),
            open_mode,
            pipe_type,
            1,
            4096,
            4096,
            0,
            std::ptr::null(),
        )
    };
    assert_ne!(handle, INVALID_HANDLE_VALUE);
    // SAFETY: just opened, and nobody else's.
    unsafe { NamedPipe::from_raw_handle(handle) }
}

#[test]
fn pipes_in_one_direction_are_closed() {
    for open_mode in [PIPE_ACCESS_INBOUND, PIPE_ACCESS_OUTBOUND] {
        for (waits, has_client) in [(false, false), (true, false), (true, true), (false, true)] {
            let poller = Arc::new(Poller::new(64).unwrap());
            let name = new_name();
            let mut pipe = new_server(&name, open_mode, PIPE_TYPE_BYTE);
            let registration = poller.register(&mut pipe, BOTH, Ready::EMPTY).unwrap();
            if waits {
                assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
            }
            let is_read = open_mode == PIPE_ACCESS_OUTBOUND;
            let mut options = File::options();
            let options = options.read(is_read).write(!is_read);
            let client = has_client.then(|| options.open(&name).unwrap());
            drop(registration);
            poller.close_pipe(pipe, waits);
            until("something is left", || poller.closing_pipes() == 0);
            drop(client);
            drop(new_server(&name, open_mode, PIPE_TYPE_BYTE)); // refused while another one is open
        }
    }
}

#[test]
fn a_client_that_nobody_has_seen_yet_reads_the_end() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, name) = server(&poller);
    assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
    let client = open(&name);
    drop(registration);
    poller.close_pipe(pipe, true);
    assert_eq!(read_to_end(client), 0);
    until("something is left", || poller.closing_pipes() == 0);
}

#[test]
fn a_write_is_completed_before_the_pipe_is_closed() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (mut pipe, registration, client) = pair(&poller);
    assert_eq!(pipe.write(&[7; MUCH]).unwrap(), MUCH);
    drop(registration);
    poller.close_pipe(pipe, false);
    assert_eq!(poller.closing_pipes(), 1);
    // The reaper keeps what it has to turn.
    drop(poller);
    assert_eq!(read_to_end(client), MUCH);
}

#[test]
fn a_write_is_completed_even_if_the_pipe_may_have_waited_for_its_client() {
    for is_wait_seen_to_end in [true, false] {
        let poller = Arc::new(Poller::new(64).unwrap());
        let (mut pipe, registration, name) = server(&poller);
        assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = open(&name);
        if is_wait_seen_to_end {
            turn_until_ready(&poller, &registration, Interest::WRITABLE);
        }
        assert_eq!(pipe.write(&[7; MUCH]).unwrap(), MUCH);
        drop(registration);
        poller.close_pipe(pipe, true);
        assert_eq!(read_to_end(client), MUCH);
        until("something is left", || poller.closing_pipes() == 0);
    }
}

#[test]
fn an_owner_that_waits_closes_a_pipe_with_a_failed_write_and_a_late_client() {
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // A poll takes in one event, so closing the pipe does not get to its client at once.
        let poller = Arc::new(Poller::with_limits(1, 1).unwrap());
        let (pipe, registration, name) = server_with_a_failed_write(&poller);
        pipe.disconnect().unwrap();
        while poller.turn(NOW).unwrap() > 0 {}
        let pairs: Vec<_> = (0..10).map(|_| pair(&poller)).collect();
        assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = open(&name);
        drop(registration);
        poller.close_pipe(pipe, true);
        assert_eq!(poller.closing_pipes(), 1);
        while poller.closing_pipes() > 0 {
            poller.turn(None).unwrap();
        }
        let _ = sender.send(());
        drop((pairs, client));
    });
    ended.recv_timeout(FOREVER).expect("the owner waits on");
}

#[test]
fn closing_a_pipe_sends_no_empty_message() {
    // A poll takes in one event, so closing the pipe does not get to its own at once.
    let poller = Arc::new(Poller::with_limits(1, 1).unwrap());
    let pairs: Vec<_> = (0..10).map(|_| pair(&poller)).collect();
    let name = new_name();
    let mut pipe = new_server(&name, PIPE_ACCESS_DUPLEX, PIPE_TYPE_MESSAGE);
    let registration = poller.register(&mut pipe, BOTH, Ready::EMPTY).unwrap();
    let client = open(&name);
    drop(registration);
    poller.close_pipe(pipe, false);
    until("something is left", || poller.closing_pipes() == 0);
    let (mut room, mut count) = ([0; 16], 0);
    // SAFETY: the handle is open, and what is written to outlives the call.
    let has_message = unsafe {
        let none = std::ptr::null_mut();
        ReadFile(
            client.as_raw_handle(),
            room.as_mut_ptr(),
            16,
            &mut count,
            none,
        )
    };
    assert_eq!(has_message, 0, "only the end");
    drop(pairs);
}

#[test]
fn a_pipe_whose_write_has_failed_is_closed() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, name) = server_with_a_failed_write(&poller);
    drop(registration);
    poller.close_pipe(pipe, false);
    until("something is left", || poller.closing_pipes() == 0);
    assert!(File::open(name).is_err(), "closed");
}

#[test]
fn a_pipe_whose_write_was_cancelled_is_closed_although_its_client_is_there() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (mut pipe, registration, client) = pair(&poller);
    begin_write(&poller, &mut pipe, &registration);
    // SAFETY: the handle is open; without an operation, all are meant.
    let cancelled = unsafe { CancelIoEx(pipe.as_raw_handle(), std::ptr::null()) };
    assert_ne!(cancelled, 0);
    turn_until_ready(&poller, &registration, Interest::WRITABLE);
    drop(registration);
    poller.close_pipe(pipe, false);
    assert!(read_to_end(client) < MUCH);
    until("something is left", || poller.closing_pipes() == 0);
}

#[test]
fn a_server_whose_write_has_failed_is_closed_with_its_next_client() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, name) = server_with_a_failed_write(&poller);
    pipe.disconnect().unwrap();
    assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
    let client = open(&name);
    drop(registration);
    poller.close_pipe(pipe, true);
    assert_eq!(read_to_end(client), 0);
    until("something is left", || poller.closing_pipes() == 0);
}

#[test]
fn a_poller_that_is_shut_down_closes_pipes_too() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, client) = pair(&poller);
    poller.shutdown();
    drop(registration);
    poller.close_pipe(pipe, false);
    assert_eq!(read_to_end(client), 0);
    until("something is left", || poller.closing_pipes() == 0);
}

#[test]
fn events_that_are_left_of_an_earlier_poll_hide_no_end() {
    // A poll finds one event at a time.
    let poller = Arc::new(Poller::with_limits(1, 1).unwrap());
    let pairs: Vec<_> = (0..20).map(|_| pair(&poller)).collect();
    poller.turn(NOW).unwrap();
    for (pipe, registration, client) in pairs {
        drop(registration);
        poller.close_pipe(pipe, false);
        assert_eq!(read_to_end(client), 0);
    }
    until("something is left", || poller.closing_pipes() == 0);
}

#[test]
fn pipes_are_closed_while_another_thread_waits_in_the_poller() {
    let owner = common::Owner::start();
    for _ in 0..20 {
        let (pipe, registration, client) = pair(&owner.poller);
        drop(registration);
        owner.poller.close_pipe(pipe, false);
        assert_eq!(read_to_end(client), 0);
    }
    until("something is left", || owner.poller.closing_pipes() == 0);
}

#[test]
fn an_owner_that_waits_sees_the_late_end_of_a_cancelled_wait() {
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // A poll takes in one event, so closing the pipe does not get to the end of the wait.
        let poller = Arc::new(Poller::with_limits(1, 1).unwrap());
        let pairs: Vec<_> = (0..10).map(|_| pair(&poller)).collect();
        let (pipe, registration, _) = server(&poller);
        assert_eq!(pipe.connect().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(registration);
        poller.close_pipe(pipe, true);
        assert_eq!(poller.closing_pipes(), 1);
        while poller.closing_pipes() > 0 {
            poller.turn(None).unwrap();
        }
        drop(pairs);
        let _ = sender.send(());
    });
    ended.recv_timeout(FOREVER).expect("the owner waits on");
}

/// The threads that have called a waker.
#[derive(Default)]
struct Callers(Mutex<Vec<ThreadId>>);

impl Wake for Callers {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().push(std::thread::current().id());
    }
}

impl Callers {
    /// Waits for room to write.
    fn waiting_for(registration: &Registration) -> Arc<Self> {
        let callers = Arc::new(Self::default());
        let waker = callers.clone().into();
        let ready = registration.poll_write_ready(&mut Context::from_waker(&waker));
        assert!(ready.is_pending());
        callers
    }

    fn get(&self) -> Vec<ThreadId> {
        self.0.lock().unwrap().clone()
    }
}

fn is_writable(registration: &Registration) -> bool {
    let ready = registration.ready_now(Interest::WRITABLE).ready();
    ready.is_writable()
}

/// The next turn calls the waker that was left, and does not wait for events before.
fn expect_wake_in_next_turn(poller: &Arc<Poller>, callers: &Callers) {
    assert_eq!(callers.get(), []);
    let (sender, ended) = std::sync::mpsc::channel();
    let owner = std::thread::spawn({
        let poller = poller.clone();
        move || sender.send(poller.turn(None))
    });
    let found = ended.recv_timeout(FOREVER).expect("the turn waits");
    assert_ne!(found.unwrap(), 0);
    assert_eq!(callers.get(), [owner.thread().id()]);
}

#[test]
fn closing_a_pipe_calls_no_waker_and_the_next_turn_does() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, client) = pair(&poller);
    let other = pair(&poller); // the event that it is writable is in the queue
    let callers = Callers::waiting_for(&other.1);
    drop(registration);
    poller.close_pipe(pipe, false);
    assert!(is_writable(&other.1), "the event was taken in");
    expect_wake_in_next_turn(&poller, &callers);
    assert_eq!(read_to_end(client), 0);
}

#[test]
fn wakers_that_are_left_are_called_by_a_thread_that_serves_the_owner() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, _client) = pair(&poller);
    let other = pair(&poller);
    let callers = Callers::waiting_for(&other.1);
    drop(registration);
    poller.close_pipe(pipe, false);
    assert_eq!(callers.get(), []);
    assert_ne!(poller.try_turn().unwrap(), 0);
    assert_eq!(callers.get(), [std::thread::current().id()]);
    poller.turn(NOW).unwrap();
    assert_eq!(callers.get().len(), 1, "once");
}

#[test]
fn wakers_that_are_left_are_called_by_the_shutdown() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (pipe, registration, _client) = pair(&poller);
    let other = pair(&poller);
    let callers = Callers::waiting_for(&other.1);
    drop(registration);
    poller.close_pipe(pipe, false);
    assert_eq!(callers.get(), []);
    poller.shutdown();
    assert_eq!(callers.get(), [std::thread::current().id()]);
}

#[test]
fn the_thread_that_closes_pipes_of_a_poller_that_nobody_turns_calls_no_waker() {
    let poller = Arc::new(Poller::new(64).unwrap());
    let (mut pipe, registration, client) = pair(&poller);
    assert_eq!(pipe.write(&[7; MUCH]).unwrap(), MUCH);
    drop(registration);
    poller.close_pipe(pipe, false);
    let other = pair(&poller);
    let callers = Callers::waiting_for(&other.1);
    until("nobody turns", || is_writable(&other.1));
    // The turn that has taken in the event ends before the next one begins.
    let turns = poller.counts().turns;
    until("nobody turns again", || poller.counts().turns > turns + 1);
    expect_wake_in_next_turn(&poller, &callers);
    assert_eq!(read_to_end(client), MUCH);
}
