//! The client: many connections on one thread, by bare epoll.
//!
//! Each connection keeps `depth` requests on their way and sends the next one when an
//! answer is there. Its calls are such as no server makes, so that a trace of the
//! process can tell them apart: see [`CLIENT_CALLS`](super::CLIENT_CALLS).

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use super::cores::{Side, others_cpu_ns, pin};
use crate::probe::{Cost, Region};
use crate::stats::quantile;

/// What is asked, and when the answer is complete.
#[derive(Clone)]
pub(super) struct Talk {
    pub(super) request: Vec<u8>,
    /// The length of the answer that `bytes` begin with, once it is all there.
    pub(super) answer_len: fn(request: &[u8], bytes: &[u8]) -> Option<usize>,
    pub(super) depth: usize,
}

impl Talk {
    /// The answer is the question.
    pub(super) fn echo(len: usize, depth: usize) -> Talk {
        Talk {
            request: (0..len).map(|byte| byte as u8).collect(),
            answer_len: |request, bytes| (bytes.len() >= request.len()).then_some(request.len()),
            depth,
        }
    }
}

/// What a run came to.
pub(super) struct Run {
    /// The server's.
    pub(super) cost: Cost,
    latencies_ns: Vec<f64>,
}

impl Run {
    pub(super) fn latency_ns(&self, share: f64) -> f64 {
        quantile(&self.latencies_ns, share)
    }
}

/// Connections made at once, each tried before the next ones are made: no listener
/// lets thousands wait.
const BATCH: usize = 64;

const EVENTS: usize = 256;

pub(super) struct Client {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// As many requests as a connection may have on their way.
    requests: Vec<u8>,
    request_len: usize,
    answer_len: usize,
    room: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    /// Bytes of an answer that is not all there.
    got: usize,
    /// Bytes of requests that found no room.
    unsent: usize,
    sent_at: VecDeque<Instant>,
}

impl Client {
    /// Connects, and sees one answer on each connection.
    pub(super) fn connect(address: SocketAddr, count: usize, talk: &Talk) -> Client {
        allow_descriptors(2 * count as u64 + 100); // both ends are in this process
        let mut answer_len = None;
        let mut streams: Vec<TcpStream> = Vec::with_capacity(count);
        while streams.len() < count {
            let first = streams.len();
            for _ in 0..BATCH.min(count - first) {
                let stream = TcpStream::connect(address).expect("the server listens");
                stream.set_nodelay(true).expect("a socket has options");
                streams.push(stream);
            }
            for stream in &mut streams[first..] {
                stream
                    .write_all(&talk.request)
                    .expect("the server is there");
            }
            for stream in &mut streams[first..] {
                let len = first_answer(stream, talk);
                assert_eq!(*answer_len.get_or_insert(len), len, "all answers are alike");
            }
        }
        // SAFETY: no memory is passed; the descriptor is checked below.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0, "{}", io::Error::last_os_error());
        let client = Client {
            // SAFETY: it was just made, for us.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            connections: streams
                .into_iter()
                .map(|stream| Connection {
                    stream,
                    got: 0,
                    unsent: 0,
                    sent_at: VecDeque::with_capacity(talk.depth),
                })
                .collect(),
            requests: talk.request.repeat(talk.depth),
            request_len: talk.request.len(),
            answer_len: answer_len.expect("there is a connection"),
            room: vec![0; 64 * 1024],
        };
        client.watch_all();
        client
    }

    fn watch_all(&self) {
        for (index, connection) in self.connections.iter().enumerate() {
            let stream = &connection.stream;
            stream.set_nonblocking(true).expect("a socket has modes");
            let mut event = libc::epoll_event {
                events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32,
                u64: index as u64,
            };
            let (epoll, fd) = (self.epoll.as_raw_fd(), stream.as_raw_fd());
            // SAFETY: both descriptors are open, the event outlives the call.
            let failed = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) };
            assert_eq!(failed, 0, "{}", io::Error::last_os_error());
        }
    }

    /// Makes `n` requests and waits for the answers, on the client's processor.
    pub(super) fn run(&mut self, n: u64) -> Run {
        thread::scope(|scope| {
            let running = scope.spawn(|| {
                pin(Side::Client);
                self.run_here(n)
            });
            running.join().expect("the client does not panic")
        })
    }

    fn run_here(&mut self, n: u64) -> Run {
        let mut latencies_ns = Vec::with_capacity(n as usize);
        let mut to_ask = n;
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let epoll = self.epoll.as_raw_fd();
        let cpu_ns = others_cpu_ns();
        let region = Region::begin();
        let depth = self.requests.len() / self.request_len;
        for index in 0..self.connections.len() {
            self.ask(index, depth, &mut to_ask);
        }
        while (latencies_ns.len() as u64) < n {
            // SAFETY: the list has room for that many events; no signal mask.
            let count = unsafe {
                libc::epoll_pwait(
                    epoll,
                    events.as_mut_ptr(),
                    EVENTS as libc::c_int,
                    -1,
                    std::ptr::null(),
                )
            };
            for event in &events[..usize::try_from(count).unwrap_or(0)] {
                let index = event.u64 as usize;
                let answers = self.hear(index, &mut latencies_ns);
                self.ask(index, answers, &mut to_ask);
            }
        }
        let cost = region.end(latencies_ns.len() as u64);
        Run {
            cost: cost.with_cpu(others_cpu_ns() - cpu_ns),
            latencies_ns,
        }
    }

    /// Takes what has come; how many answers that completed.
    fn hear(&mut self, index: usize, latencies_ns: &mut Vec<f64>) -> usize {
        let connection = &mut self.connections[index];
        let mut answers = 0;
        loop {
            let Some(count) = receive(&connection.stream, &mut self.room) else {
                return answers;
            };
            connection.got += count;
            let now = Instant::now();
            while connection.got >= self.answer_len {
                connection.got -= self.answer_len;
                let sent_at = connection.sent_at.pop_front().expect("somebody asked");
                latencies_ns.push(now.duration_since(sent_at).as_nanos() as f64);
                answers += 1;
            }
            if count < self.room.len() {
                return answers;
            }
        }
    }

    /// Sends up to `count` more requests, and what was left of earlier ones.
    fn ask(&mut self, index: usize, count: usize, to_ask: &mut u64) {
        let connection = &mut self.connections[index];
        let count = (count as u64).min(*to_ask);
        *to_ask -= count;
        if count > 0 {
            let now = Instant::now();
            connection.sent_at.extend((0..count).map(|_| now));
            connection.unsent += count as usize * self.request_len;
        }
        while connection.unsent > 0 {
            // Whatever is left ends where a request ends.
            let left = &self.requests[self.requests.len() - connection.unsent..];
            match send(&connection.stream, left) {
                Some(sent) => connection.unsent -= sent,
                None => return,
            }
        }
    }
}

impl Drop for Client {
    /// Resets the connections: closed in order, thousands of them would go on
    /// occupying their ports for a minute.
    fn drop(&mut self) {
        for connection in &self.connections {
            reset_when_closed(&connection.stream);
        }
    }
}

/// Lets closing the socket reset the connection.
pub(super) fn reset_when_closed(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the option is of that type and size, and the descriptor is open.
    let failed = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        )
    };
    assert_eq!(failed, 0, "a socket has options");
}

/// Lets this process have as many descriptors as the system allows it.
pub(super) fn allow_descriptors(needed: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit to write to.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(failed, 0, "a process has limits");
    assert!(
        limit.rlim_max >= needed,
        "the row needs {needed} descriptors, and `ulimit -Hn` allows {}",
        limit.rlim_max
    );
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the limit is valid, and not above the one it was given.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!(failed, 0, "a limit may be raised to its bound");
}

/// Waits for the first answer on a connection.
fn first_answer(stream: &mut TcpStream, talk: &Talk) -> usize {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket has options");
    let mut bytes = Vec::new();
    loop {
        if let Some(len) = (talk.answer_len)(&talk.request, &bytes) {
            assert_eq!(len, bytes.len(), "one question, one answer");
            return len;
        }
        let mut room = [0; 4096];
        let count = stream.read(&mut room).expect("the server answers");
        assert_ne!(count, 0, "the server stays");
        bytes.extend_from_slice(&room[..count]);
    }
}

/// How many bytes came; `None` if there were none.
fn receive(stream: &TcpStream, room: &mut [u8]) -> Option<usize> {
    let part = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: the part is ours to write to; offset -1 means that there is none.
    let count = unsafe { libc::preadv2(stream.as_raw_fd(), &part, 1, -1, 0) };
    let count = moved(count)?;
    assert_ne!(count, 0, "the server stays");
    Some(count)
}

/// How many bytes went; `None` if there was no room.
fn send(stream: &TcpStream, bytes: &[u8]) -> Option<usize> {
    let part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the part is only read from; offset -1 means that there is none.
    moved(unsafe { libc::pwritev2(stream.as_raw_fd(), &part, 1, -1, 0) })
}

fn moved(count: isize) -> Option<usize> {
    match usize::try_from(count) {
        Ok(count) => Some(count),
        Err(_) => {
            let error = io::Error::last_os_error();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
            None
        }
    }
}
