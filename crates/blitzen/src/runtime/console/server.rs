//! The thread that serves the clients of a console.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Weak};

use blitzen_observe::TraceMode;
use socket2::SockRef;

use super::answers::{Answer, ClientState, answer, greeting};
use super::socket::may_ask;
use crate::runtime::Handle;
use crate::runtime::inner::Inner;
use crate::runtime::lint::RecentLints;
use crate::signal::unix::WakePipe;

/// How many clients are served at the same time.
const MAX_CLIENTS: usize = 8;
/// The longest request, in bytes.
const MAX_REQUEST: usize = 256;
/// How long no connections are accepted after the system has refused one, in milliseconds.
const ACCEPT_PAUSE_MS: i32 = 100;

pub(super) struct Server {
    listener: UnixListener,
    /// Readable when the runtime has ended.
    pipe: Arc<WakePipe>,
    runtime: Weak<Inner>,
    lints: Arc<RecentLints>,
    clients: Vec<Client>,
    /// What the clients together want to be recorded (C5).
    held_trace: TraceMode,
    /// Whether the system has just refused a connection.
    is_paused: bool,
}

struct Client {
    stream: UnixStream,
    /// What it has sent, and was not answered.
    input: Vec<u8>,
    /// What it is sent, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    state: ClientState,
    /// Whether it is dropped when it has been sent everything.
    is_leaving: bool,
}

impl Server {
    pub(super) fn new(
        listener: UnixListener,
        pipe: Arc<WakePipe>,
        runtime: &Arc<Inner>,
        lints: Arc<RecentLints>,
    ) -> Self {
        Self {
            listener,
            pipe,
            runtime: Arc::downgrade(runtime),
            lints,
            clients: Vec::new(),
            held_trace: TraceMode::Off,
            is_paused: false,
        }
    }

    /// The main function of the thread.
    pub(super) fn run(mut self) {
        loop {
            let ready = self.wait();
            if ready.has_ended {
                return;
            }
            if ready.has_connection {
                self.accept();
            }
            self.clients.retain_mut(|client| {
                // A client that fails is one that has gone.
                client.serve(&self.runtime, &self.lints).is_ok()
            });
            // Before the answers are sent, which is in the next round.
            self.hold_trace();
        }
    }

    /// Has recorded what the clients that are left want (C5).
    fn hold_trace(&mut self) {
        let wanted = self.clients.iter().map(|client| client.state.held_trace);
        let wanted = wanted.max().unwrap_or_default();
        if std::mem::replace(&mut self.held_trace, wanted) != wanted
            && let Some(runtime) = self.runtime.upgrade()
        {
            runtime.scheduler().observation().hold_trace(wanted);
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) -> ConsoleReady {
        let entry = |fd: RawFd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let is_paused = std::mem::take(&mut self.is_paused);
        let listens = if is_paused { 0 } else { libc::POLLIN };
        let mut entries = vec![
            entry(self.pipe.receiver().as_raw_fd(), libc::POLLIN),
            entry(self.listener.as_raw_fd(), listens),
        ];
        entries.extend(self.clients.iter().map(|client| {
            let events = match client.is_answered() {
                true => libc::POLLIN,
                false => libc::POLLOUT,
            };
            entry(client.stream.as_raw_fd(), events)
        }));
        let limit = if is_paused { ACCEPT_PAUSE_MS } else { -1 };
        // Interrupted by a signal it has found nothing.
        // SAFETY: the pointer is to so many entries, whose descriptors are open.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, limit) };
        ConsoleReady {
            has_ended: entries[0].revents != 0,
            has_connection: entries[1].revents != 0,
        }
    }

    fn accept(&mut self) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                let is_passing = matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                );
                self.is_paused = !is_passing; // out of descriptors, most likely
                return;
            }
        };
        if !may_ask(&stream) || stream.set_nonblocking(true).is_err() {
            return; // C2
        }
        #[cfg(target_vendor = "apple")]
        let _ = SockRef::from(&stream).set_nosigpipe(true);
        let Some(runtime) = self.runtime.upgrade() else {
            return;
        };
        let mut client = Client {
            stream,
            input: Vec::new(),
            output: greeting(&runtime).into_bytes(),
            sent: 0,
            state: ClientState::default(),
            is_leaving: false,
        };
        if self.clients.len() == MAX_CLIENTS {
            client.refuse("there are too many clients");
            // What it does not take at once is lost.
            let _ = client.send();
        } else {
            self.clients.push(client);
        }
    }
}

struct ConsoleReady {
    has_ended: bool,
    has_connection: bool,
}

impl Client {
    /// Sends as far as that goes without waiting; if everything was sent, answers one request. The
    /// next one has its turn after those of the other clients (C3).
    ///
    /// # Errors
    /// The connection has ended, or is to end.
    fn serve(&mut self, runtime: &Weak<Inner>, lints: &RecentLints) -> io::Result<()> {
        self.send()?;
        if !self.is_answered() {
            return Ok(());
        }
        if self.is_leaving {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let Some(request) = self.next_request()? else {
            return Ok(());
        };
        match (runtime.upgrade(), request) {
            (None, _) => self.refuse("the runtime has ended"),
            (_, ConsoleRequest::TooLong) => self.refuse("the request is too long"),
            (Some(inner), ConsoleRequest::Line(line)) => {
                let answer = answer(&Handle { inner }, lints, &mut self.state, &line);
                self.push(answer);
            }
        }
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.sent == self.output.len()
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.is_answered() {
            let sent =
                SockRef::from(&self.stream).send_with_flags(&self.output[self.sent..], SEND_FLAGS);
            match sent {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // The memory of a large answer is not kept.
        self.output = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// The next line that was sent, if it is complete.
    fn next_request(&mut self) -> io::Result<Option<ConsoleRequest>> {
        loop {
            if let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
                let line = self.input.drain(..=end).collect::<Vec<u8>>();
                return Ok(Some(ConsoleRequest::Line(line)));
            }
            if self.input.len() >= MAX_REQUEST {
                return Ok(Some(ConsoleRequest::TooLong));
            }
            let mut bytes = [0; MAX_REQUEST];
            let room = MAX_REQUEST - self.input.len();
            match self.stream.read(&mut bytes[..room]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.input.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn push(&mut self, answer: Answer) {
        let (word, bytes) = match answer {
            Ok(bytes) => ("ok", bytes),
            Err(text) => ("error", text.into_bytes()),
        };
        self.output
            .extend(format!("{word} {}\n", bytes.len()).into_bytes());
        self.output.extend(bytes);
    }

    /// Says why it is not served any more.
    fn refuse(&mut self, why: &str) {
        self.push(Err(why.to_owned()));
        self.is_leaving = true;
    }
}

enum ConsoleRequest {
    Line(Vec<u8>),
    TooLong,
}

/// A client that has gone must not end the process by SIGPIPE.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: libc::c_int = 0; // an option of the socket says it
