//! Servers that are nothing but an epoll loop: what the kernel takes for a request at the least, by
//! readiness. Not runtimes: no tasks, no timers, no second worker.
//!
//! A connection is watched edge-triggered. Each event of the echo server is one `recv(2)` and one
//! `send(2)`: a read that does not fill the buffer has left nothing behind.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;

use crate::kit::Signal;

const BUFFER_LEN: usize = 4096;
const EVENTS_PER_WAIT: usize = 1024;

/// The data of the listener's events; those of a connection have its index.
const LISTENER: u64 = u64::MAX;

/// Echoes until a connection comes to say that it is over.
pub(super) fn serve_echo(address: &mpsc::Sender<SocketAddr>, stop: &Signal) {
    let mut buffer = [0; BUFFER_LEN];
    serve(
        address,
        stop,
        |connection| connection,
        |connection| {
            // An error is a client that is gone.
            let _ = answer(&*connection, &mut buffer);
        },
    );
}

/// Serves until a connection comes to say that it is over. `open` makes what is kept of a
/// connection; `react` is called when there is something to read.
pub(super) fn serve<C>(
    address: &mpsc::Sender<SocketAddr>,
    stop: &Signal,
    open: impl FnMut(TcpStream) -> C,
    react: impl FnMut(&mut C),
) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let bound = listener.local_addr().expect("it was bound");
    let mut server = Server::new(listener, open, react);
    address.send(bound).expect("somebody waits for it");
    while !(server.turn() && stop.take()) {}
}

struct Server<C, Open, React> {
    epoll: Epoll,
    events: Vec<libc::epoll_event>,
    listener: TcpListener,
    connections: Vec<C>,
    open: Open,
    react: React,
}

impl<C, Open: FnMut(TcpStream) -> C, React: FnMut(&mut C)> Server<C, Open, React> {
    fn new(listener: TcpListener, open: Open, react: React) -> Self {
        let epoll = Epoll::new();
        listener.set_nonblocking(true).expect("it is a socket");
        epoll.watch(&listener, libc::EPOLLIN, LISTENER);
        Server {
            epoll,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            listener,
            connections: Vec::new(),
            open,
            react,
        }
    }

    /// Waits for something, and answers what has come; returns whether a connection has.
    fn turn(&mut self) -> bool {
        self.epoll.wait(&mut self.events);
        let mut has_connected = false;
        for event in &self.events {
            match event.u64 {
                LISTENER => {
                    has_connected = true;
                    while let Ok((connection, _)) = self.listener.accept() {
                        connection.set_nonblocking(true).expect("it is a socket");
                        connection.set_nodelay(true).expect("it is a socket");
                        let edges = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
                        self.epoll
                            .watch(&connection, edges, self.connections.len() as u64);
                        self.connections.push((self.open)(connection));
                    }
                }
                index => (self.react)(&mut self.connections[index as usize]),
            }
        }
        has_connected
    }
}

/// Sends back what has been received.
fn answer(mut connection: impl Read + Write, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        let len = match connection.read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            read => read?,
        };
        connection.write_all(&buffer[..len])?;
        if len < buffer.len() {
            return Ok(());
        }
    }
}

struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> Epoll {
        // SAFETY: takes a flag only.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0, "descriptors are left");
        // SAFETY: the kernel has just opened it for us.
        Epoll(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn watch(&self, source: &impl AsRawFd, events: libc::c_int, data: u64) {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: data,
        };
        let (epoll, source) = (self.0.as_raw_fd(), source.as_raw_fd());
        // SAFETY: both are open, and the kernel copies the event.
        let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, source, &mut event) };
        assert_eq!(added, 0, "the kernel watches sockets");
    }

    /// Waits for events, which replace those in `events`.
    fn wait(&self, events: &mut Vec<libc::epoll_event>) {
        events.clear();
        let (start, room) = (events.as_mut_ptr(), events.capacity() as libc::c_int);
        // SAFETY: there is room for as many events.
        let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), start, room, -1) };
        // None if a signal has interrupted the wait.
        let found = found.max(0) as usize;
        // SAFETY: the kernel has written so many.
        unsafe { events.set_len(found) };
    }
}
