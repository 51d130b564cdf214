//! A poller whose owner is a thread that does nothing but turn it.

#![allow(dead_code)] // each test file uses its own part

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;

use blitzen_driver::{Interest, Poller, Ready, Registration};
use mio::net::{TcpListener, TcpStream};

/// Turns a poller until it is dropped.
pub(crate) struct Owner {
    pub(crate) poller: Arc<Poller>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    pub(crate) fn start() -> Self {
        let poller = Arc::new(Poller::new(1024).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (poller, stop) = (poller.clone(), stop.clone());
            move || {
                while !stop.load(SeqCst) {
                    poller.turn(None).unwrap();
                }
            }
        });
        Self {
            poller,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.poller.interrupt();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self::default());
        (count.clone(), count.into())
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

pub(crate) const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// One end of a connection inside this machine.
#[cfg(unix)]
pub(crate) type LocalStream = mio::net::UnixStream;
#[cfg(windows)]
pub(crate) type LocalStream = TcpStream;

/// The standard library's type for a [`LocalStream`].
#[cfg(unix)]
pub(crate) type StdStream = std::os::unix::net::UnixStream;
#[cfg(windows)]
pub(crate) type StdStream = std::net::TcpStream;

/// The same stream, whose operations block.
pub(crate) fn blocking(stream: LocalStream) -> StdStream {
    let stream = StdStream::from(stream);
    stream.set_nonblocking(false).unwrap();
    stream
}

/// A connected pair, not registered.
#[cfg(unix)]
pub(crate) fn connected() -> (LocalStream, LocalStream) {
    LocalStream::pair().unwrap()
}

/// A connected pair, not registered.
#[cfg(windows)]
pub(crate) fn connected() -> (LocalStream, LocalStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    let nonblocking = |stream: std::net::TcpStream| {
        stream.set_nonblocking(true).unwrap();
        TcpStream::from_std(stream)
    };
    (nonblocking(ours), nonblocking(theirs))
}

/// A connected pair, the first one registered.
pub(crate) fn pair(poller: &Arc<Poller>) -> (LocalStream, Registration, LocalStream) {
    let (mut ours, theirs) = connected();
    let registration = poller.register(&mut ours, BOTH, Ready::EMPTY).unwrap();
    (ours, registration, theirs)
}

/// Turns until `io` is ready for something of `interest`: on Windows an event takes its time.
pub(crate) fn turn_until_ready(poller: &Poller, io: &Registration, interest: Interest) {
    while io.ready_now(interest).ready().is_empty() {
        poller.turn(None).unwrap();
    }
}

/// A registered listener on the loopback.
pub(crate) fn listen(poller: &Arc<Poller>) -> (TcpListener, Registration) {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let registration = poller
        .register(&mut listener, Interest::READABLE, Ready::EMPTY)
        .unwrap();
    (listener, registration)
}

/// A connection that waits until it stands.
pub(crate) async fn connect(
    poller: &Arc<Poller>,
    listener: &TcpListener,
) -> io::Result<(TcpStream, Registration)> {
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    let registration = poller.register(&mut stream, BOTH, Ready::EMPTY)?;
    registration.readiness(Interest::WRITABLE).await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok((stream, registration)),
    }
}
