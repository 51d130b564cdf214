//! Named pipes that are closed while Windows still has operations of theirs: a poller that nobody
//! turns finishes with them.

#![cfg(windows)]

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::windows::io::FromRawHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use blitzen_driver::{Poller, Ready, Registration};
use common::BOTH;
use mio::windows::NamedPipe;
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OVERLAPPED, PIPE_ACCESS_INBOUND, PIPE_ACCESS_OUTBOUND,
};
use windows_sys::Win32::System::Pipes::CreateNamedPipeW;

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

/// Creates the server's end of a pipe in one direction.
fn one_way_server(name: &str, open_mode: u32) -> NamedPipe {
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    let open_mode = open_mode | FILE_FLAG_OVERLAPPED;
    // SAFETY: the name ends with a zero, and there are no attributes.
    let handle = unsafe {
        CreateNamedPipeW(
            name.as_ptr(),
            open_mode,
            0,
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
            let mut pipe = one_way_server(&name, open_mode);
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
            drop(one_way_server(&name, open_mode)); // there may be one instance
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
