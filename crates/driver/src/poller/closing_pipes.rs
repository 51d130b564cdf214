//! Named pipes that are being closed: Windows still has operations of theirs.
//!
//! mio keeps a read under way on a pipe that has a peer, and a write may be under way, too. Windows
//! uses mio's memory until such an operation has ended. mio keeps the memory, and with it the
//! handle, until a poll has taken in the end: only then does the peer see that the pipe is closed.
//! So a pipe that is dropped is kept in a list, and the poller is turned until the list is empty.
//!
//! ```text
//!   close ──► Connecting ──► the wait has ended ──► Asked ──► Ending ──► read and write have ended:
//!     │                                               ▲                  closed
//!     └────────────────── does not wait ──────────────┘
//! ```
//!
//! A pipe that waits for its first client, and no longer connects, is closed at once.
//!
//! C1. A pipe that is asked about has a token that no source has. mio is asked by registering it
//!     anew: it begins a read unless there is one, and posts that the pipe is writable, unless it
//!     has a write. It reports the end of a write that is under way in the same manner. If it keeps
//!     the error of a write that has failed, it reports nothing.
//! C2. The port hands out events in the order of their posting. Once it has handed out an event of the
//!     waker that was posted later than those of C1, and mio has not reported the pipe as writable,
//!     mio has a write or an error of one: an empty write tells which, and takes the error out. At
//!     any other time it could reach the peer, as a message.
//! C3. Before mio's pipe is dropped, all that was read is taken out. Then a read is under way, which
//!     the drop cancels, or could not begin. mio reports either as readable, and it does so last,
//!     unless a write is under way.
//! C4. The list changes under the lock of the turn, when no event of an earlier poll is left: mio's
//!     pipes do not change meanwhile, and an event that comes later is one of C1 and C3.
//! C5. A wait for a client is cancelled by an operation on the whole handle, which ends a write as
//!     well. So it is not cancelled once there is a peer: then it has ended. Only a pipe that may be
//!     read shows whether it has one.
//! C6. mio reports no event for a wait that was cancelled, but keeps its error. If it keeps none, it
//!     is asked for the peer: it has one, or the wait goes on or begins anew. After a cancelled wait
//!     it is not asked, which would begin another.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::windows::io::AsRawHandle;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use blitzen_util::shim::MutexGuard;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use mio::event::Source;
use mio::windows::NamedPipe;
use mio::{Interest, Registry, Token};
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_PIPE_LISTENING_STATE, FILE_PIPE_LOCAL_INFORMATION, FilePipeLocalInformation,
    NtQueryInformationFile,
};
use windows_sys::Win32::Foundation::{ERROR_BAD_PIPE, ERROR_PIPE_LISTENING};
use windows_sys::Win32::System::IO::{CancelIoEx, IO_STATUS_BLOCK};
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

use super::slots::{MAX_GENERATION, MAX_NUMBERS, NUMBER_BITS};
use super::{Poller, Turn, TurnedBy, Waker, pipe_reaper};
use crate::Ready;
use crate::wake_list::contain_panic;

/// The highest number of a pipe: a token has it in place of a generation.
const MAX_ID: usize = MAX_GENERATION;

/// How often closing a pipe polls. A wait for a client ends in the first poll, mio has answered after
/// the third at the latest, and the read that is cancelled then ends in the fourth. An operation that
/// has not ended by then is left to others.
const POLLS_OF_CLOSE: usize = 4;

/// The timeout of a wait that would have none, while pipes are being closed. How long it is does not
/// matter.
const LONG: Duration = Duration::from_secs(3600);

/// The pipes of one poller that are being closed.
#[derive(Debug)]
pub(super) struct ClosingPipes {
    pipes: BTreeMap<usize, Closing>,
    next_id: usize,
    /// Whether `advance` may find something to do.
    is_due: bool,
}

#[derive(Debug)]
enum Closing {
    /// The wait for a client has not ended.
    Connecting(NamedPipe),
    /// mio is asked whether it has a write (C1). `mark` is that of the waker's event (C2).
    Asked {
        pipe: NamedPipe,
        is_writable: bool,
        mark: Option<u64>,
    },
    /// mio's pipe is dropped; `awaited` is what mio has not reported yet (C1, C3).
    Ending { awaited: Ready },
    Closed,
}

impl ClosingPipes {
    pub(super) fn new() -> Self {
        Self {
            pipes: BTreeMap::new(),
            next_id: 0,
            is_due: false,
        }
    }

    /// Begins to close `pipe`. Returns its number, unless that is already done.
    fn add(&mut self, registry: &Registry, pipe: NamedPipe, may_connect: bool) -> Option<usize> {
        let id = self.free_id()?;
        let closing = match may_connect {
            true => {
                // An earlier wait has left it; C6 needs that of this one.
                let _ = pipe.take_error();
                Closing::connecting(pipe, registry, id)
            }
            false => Closing::ask(pipe, registry, id),
        };
        if matches!(closing, Closing::Closed) {
            return None;
        }
        self.pipes.insert(id, closing);
        self.is_due = true;
        Some(id)
    }

    fn free_id(&mut self) -> Option<usize> {
        if self.pipes.len() > MAX_ID {
            return None;
        }
        loop {
            let id = self.next_id;
            self.next_id = (id + 1) & MAX_ID;
            if !self.pipes.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// Takes in an event; returns false if it is not one of these pipes.
    pub(super) fn post(&mut self, token: usize, ready: Ready) -> bool {
        let Some(id) = id_of(token) else {
            return false;
        };
        match self.pipes.get_mut(&id) {
            Some(Closing::Asked { is_writable, .. }) => *is_writable |= ready.is_writable(),
            Some(Closing::Ending { awaited }) => *awaited = *awaited - ready,
            _ => {}
        }
        self.is_due = true;
        true
    }

    /// Goes on with pipes whose operations have ended. No event of an earlier poll may be left
    /// (C4).
    pub(super) fn advance(&mut self, registry: &Registry, waker: &Waker) {
        if !self.is_due {
            return;
        }
        self.pipes.retain(|&id, closing| {
            let before = std::mem::replace(closing, Closing::Closed);
            *closing = before.advance(registry, waker, id);
            !matches!(closing, Closing::Closed)
        });
        // The others may go on without an event of theirs (C2, C6).
        let is_due = |closing: &Closing| !matches!(closing, Closing::Ending { .. });
        self.is_due = self.pipes.values().any(is_due);
    }

    /// The timeout of a wait that should have `timeout`. Without any, mio waits on after the end of
    /// an operation for which it has no event (C6), and nobody else can turn the poller.
    pub(super) fn timeout_of_wait(&self, timeout: Option<Duration>) -> Option<Duration> {
        match self.pipes.is_empty() {
            true => timeout,
            false => timeout.or(Some(LONG)),
        }
    }

    fn contains(&self, id: usize) -> bool {
        self.pipes.contains_key(&id)
    }

    pub(super) fn count(&self) -> usize {
        self.pipes.len()
    }
}

impl Closing {
    /// What becomes of it after a poll.
    fn advance(self, registry: &Registry, waker: &Waker, id: usize) -> Self {
        match self {
            // The owner may sleep until the next event, so the waker's is posted at once.
            Self::Connecting(pipe) => Self::connecting(pipe, registry, id).marked(waker),
            Self::Asked {
                pipe,
                is_writable: true,
                ..
            } => Self::end(pipe, Ready::EMPTY),
            Self::Asked { mark: None, .. } => self.marked(waker),
            Self::Asked {
                mut pipe,
                mark: Some(mark),
                ..
            } if waker.has_passed(mark) => match would_block(&pipe.write(&[])) {
                true => Self::end(pipe, Ready::WRITABLE), // C2
                false => Self::end(pipe, Ready::EMPTY),
            },
            Self::Ending { awaited } if awaited.is_empty() => Self::Closed,
            unchanged => unchanged,
        }
    }

    /// Posts the waker's event for a pipe that mio is asked about (C2).
    fn marked(mut self, waker: &Waker) -> Self {
        if let Self::Asked { mark, .. } = &mut self {
            *mark = Some(waker.mark());
        }
        self
    }

    /// A pipe that may wait for a client.
    fn connecting(pipe: NamedPipe, registry: &Registry, id: usize) -> Self {
        let was_cancelled = !matches!(pipe.take_error(), Ok(None));
        if was_cancelled || !would_block(&pipe.connect()) {
            return Self::ask(pipe, registry, id);
        }
        if peek(&pipe).is_err() {
            cancel_all(&pipe); // C5
        }
        Self::Connecting(pipe)
    }

    /// Asks mio about a pipe that does not wait for a client (C1).
    fn ask(mut pipe: NamedPipe, registry: &Registry, id: usize) -> Self {
        if is_listening(&pipe) {
            return Self::Closed; // nothing is under way
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        match pipe.reregister(registry, Token(token_of(id)), both) {
            Ok(()) => Self::Asked {
                pipe,
                is_writable: false,
                mark: None,
            },
            // It was never registered: nothing is under way.
            Err(_) => Self::Closed,
        }
    }

    /// Drops mio's pipe (C3). `awaited` is what is known to come beside the end of the read.
    fn end(mut pipe: NamedPipe, awaited: Ready) -> Self {
        let mut room = [0; 4096];
        // mio begins a read when the last byte is taken; its end is not taken in meanwhile (C4).
        while pipe.read(&mut room).is_ok_and(|count| count == room.len()) {}
        Self::Ending {
            awaited: awaited | Ready::READABLE,
        }
    }
}

fn token_of(id: usize) -> usize {
    id << NUMBER_BITS | MAX_NUMBERS // no source has this number
}

fn id_of(token: usize) -> Option<usize> {
    let id = token >> NUMBER_BITS;
    (token & MAX_NUMBERS == MAX_NUMBERS && id <= MAX_ID).then_some(id)
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn cancel_all(pipe: &NamedPipe) {
    // SAFETY: the handle is open; without an operation, all are meant. It fails if there are none.
    let _ = unsafe { CancelIoEx(pipe.as_raw_handle(), ptr::null()) };
}

/// Succeeds if the pipe has a peer and may be read.
fn peek(pipe: &NamedPipe) -> io::Result<()> {
    let (buffer, none) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the handle is open, and what is null is not written.
    match unsafe { PeekNamedPipe(pipe.as_raw_handle(), buffer, 0, none, none, none) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether the pipe may be read, and is a server's which its first client may open.
fn is_listening(pipe: &NamedPipe) -> bool {
    let state = state(pipe);
    #[cfg(test)]
    fault::let_client_come();
    match state {
        Some(state) => state == FILE_PIPE_LISTENING_STATE,
        None => has_no_peer(pipe) && refuses_to_disconnect(pipe),
    }
}

/// The state of the pipe, unless the handle may only be written, or lacks the right to read attributes.
/// No function of the Windows API returns it, and finds out without any effect on a client that comes
/// meanwhile.
fn state(pipe: &NamedPipe) -> Option<u32> {
    let mut pipe_information = FILE_PIPE_LOCAL_INFORMATION::default();
    let mut status = IO_STATUS_BLOCK::default();
    // SAFETY: the handle is open. Both structures outlive the call, which does not return before it
    // has written them, and the length is that of the first.
    let result = unsafe {
        NtQueryInformationFile(
            pipe.as_raw_handle(),
            &mut status,
            (&raw mut pipe_information).cast(),
            size_of::<FILE_PIPE_LOCAL_INFORMATION>() as u32,
            FilePipeLocalInformation,
        )
    };
    (result == 0).then_some(pipe_information.NamedPipeState)
}

/// Whether the pipe is a server's which waits for its first client, or has disconnected one.
fn has_no_peer(pipe: &NamedPipe) -> bool {
    peek(pipe).is_err_and(|error| is_error(&error, ERROR_BAD_PIPE))
}

/// Whether a pipe that had no peer cannot be disconnected, since it waits for its first client. A
/// client that has just come is disconnected. Some systems disconnect a pipe that waits: then mio
/// cannot begin a read, and reports that.
fn refuses_to_disconnect(pipe: &NamedPipe) -> bool {
    let disconnected = pipe.disconnect();
    disconnected.is_err_and(|error| is_error(&error, ERROR_PIPE_LISTENING))
}

fn is_error(error: &io::Error, code: u32) -> bool {
    error.raw_os_error() == Some(code.cast_signed())
}

impl Poller {
    /// Closes a named pipe that is registered with this poller. Its read is cancelled, and so is its
    /// wait for a client if `may_connect` says that there may be one. A write that is under way is
    /// completed first, unless `may_connect` is wrongly true and the pipe may not be read.
    ///
    /// Usually the pipe is closed when this returns. Otherwise it is closed once Windows has finished,
    /// even if nobody turns this poller. Events of other sources may be taken in, but their wakers are
    /// called by the next turn of the poller, not by this.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use blitzen_driver::{Interest, Poller, Ready};
    /// let poller = Arc::new(Poller::new(16)?);
    /// let mut pipe = mio::windows::NamedPipe::new(r"\\.\pipe\example")?;
    /// let registration = poller.register(&mut pipe, Interest::READABLE, Ready::EMPTY)?;
    /// drop(registration);
    /// poller.close_pipe(pipe, false);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn close_pipe(self: &Arc<Self>, pipe: NamedPipe, may_connect: bool) {
        let mut turn = self.lock_turn();
        let registry = self.selector.registry();
        let added = turn.closing.add(registry, pipe, may_connect);
        let count = turn.closing.count();
        self.counters.closing.store(count, Relaxed);
        drop(turn);
        let Some(id) = added else {
            return;
        };
        for _ in 0..POLLS_OF_CLOSE {
            let mut has_polled = false;
            // mio panics after some errors, and this may run in a destructor.
            contain_panic(|| has_polled = self.poll().is_ok());
            if !self.is_closing(id) {
                return;
            }
            if !has_polled {
                break;
            }
        }
        pipe_reaper::watch(self);
    }

    /// Whether the pipe with number `id` is still being closed, as far as can be told at once.
    fn is_closing(&self, id: usize) -> bool {
        let is_listed = |turn: MutexGuard<'_, Turn>| turn.closing.contains(id);
        self.closing_pipes() > 0 && self.turn.try_lock().is_none_or(is_listed)
    }

    /// Returns how many named pipes are being closed: Windows has not finished with them.
    ///
    /// ```
    /// let poller = blitzen_driver::Poller::new(16)?;
    /// assert_eq!(poller.closing_pipes(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn closing_pipes(&self) -> usize {
        // Relaxed: it says only whether somebody has to look again.
        self.counters.closing.load(Relaxed)
    }

    /// Turns the poller if nobody else does, and pipes are being closed. Returns how many are left.
    pub(super) fn reap_pipes(&self) -> io::Result<usize> {
        if self.closing_pipes() > 0
            && let Some(turn) = self.turn.try_lock()
        {
            self.run_for_pipes(turn)?;
        }
        Ok(self.closing_pipes())
    }

    /// A turn that really polls, after events of an earlier poll that are left.
    fn poll(&self) -> io::Result<()> {
        loop {
            let turn = self.lock_turn();
            let polls = !turn.events.are_left();
            self.run_for_pipes(turn)?;
            if polls {
                return Ok(());
            }
        }
    }

    /// A turn that calls no wakers (P4 of `poller/mod.rs`).
    fn run_for_pipes(&self, turn: MutexGuard<'_, Turn>) -> io::Result<()> {
        #[cfg(test)]
        fault::strike(self)?;
        self.run(turn, TurnedBy::PipeCloser).map(drop)
    }
}

/// What tests make of the next turns for pipes, and of the moment before a pipe is closed.
#[cfg(test)]
pub(super) mod fault {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::fs::File;
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Fault {
        Error,
        Panic,
    }

    /// The faults to come, each with the address of its poller.
    static FAULTS: Mutex<VecDeque<(usize, Fault)>> = Mutex::new(VecDeque::new());

    fn address(poller: &Poller) -> usize {
        ptr::from_ref(poller).addr()
    }

    pub(crate) fn add(poller: &Poller, faults: &[Fault]) {
        let faults = faults.iter().map(|&fault| (address(poller), fault));
        FAULTS.lock().unwrap().extend(faults);
    }

    pub(crate) fn is_left(poller: &Poller) -> bool {
        let is_of = |&(of, _): &(usize, Fault)| of == address(poller);
        FAULTS.lock().unwrap().iter().any(is_of)
    }

    pub(super) fn strike(poller: &Poller) -> io::Result<()> {
        let mut faults = FAULTS.lock().unwrap();
        let next = faults.iter().position(|&(of, _)| of == address(poller));
        let fault = next.and_then(|index| faults.remove(index));
        drop(faults);
        match fault {
            None => Ok(()),
            Some((_, Fault::Error)) => Err(io::ErrorKind::Other.into()),
            Some((_, Fault::Panic)) => panic!("as the test asked"),
        }
    }

    thread_local! {
        static LATE_CLIENT: RefCell<LateClient> = const { RefCell::new(LateClient::None) };
    }

    enum LateClient {
        None,
        Awaited(String),
        Open(File),
    }

    /// Has a client open the pipe of that name once this thread has seen that the pipe has none.
    pub(super) fn expect_client(name: &str) {
        LATE_CLIENT.set(LateClient::Awaited(name.to_owned()));
    }

    pub(super) fn let_client_come() {
        if let LateClient::Awaited(name) = LATE_CLIENT.replace(LateClient::None) {
            let client = File::options().read(true).write(true).open(name).unwrap();
            LATE_CLIENT.set(LateClient::Open(client));
        }
    }

    pub(super) fn late_client() -> File {
        match LATE_CLIENT.replace(LateClient::None) {
            LateClient::Open(client) => client,
            _ => panic!("nobody has looked whether there is a client"),
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use std::os::windows::io::FromRawHandle;
    use std::time::Instant;

    use windows_sys::Win32::Foundation::DuplicateHandle;
    use windows_sys::Win32::Storage::FileSystem::{FILE_READ_DATA, FILE_WRITE_DATA, SYNCHRONIZE};
    use windows_sys::Win32::System::Threading::GetCurrentProcess;

    use super::*;

    fn new_server(purpose: &str) -> (NamedPipe, String) {
        let name = format!(r"\\.\pipe\blitzen-closing-{}-{purpose}", std::process::id());
        (NamedPipe::new(&name).unwrap(), name)
    }

    fn close(poller: &Arc<Poller>, mut pipe: NamedPipe) {
        let both = crate::Interest::READABLE | crate::Interest::WRITABLE;
        let registration = poller.register(&mut pipe, both, Ready::EMPTY).unwrap();
        drop(registration);
        poller.close_pipe(pipe, false);
    }

    #[test]
    fn a_client_that_comes_while_the_pipe_is_closed_reads_the_end() {
        let poller = Arc::new(Poller::new(16).unwrap());
        let (pipe, name) = new_server("late");
        fault::expect_client(&name);
        close(&poller, pipe);
        assert_eq!(fault::late_client().read(&mut [0]).unwrap(), 0);
    }

    /// The same pipe, by a handle that may not read attributes.
    fn without_attributes(pipe: NamedPipe) -> NamedPipe {
        let mut duplicate = ptr::null_mut();
        // SAFETY: the handles are open, and `duplicate` outlives the call.
        let is_done = unsafe {
            let process = GetCurrentProcess();
            let access = FILE_READ_DATA | FILE_WRITE_DATA | SYNCHRONIZE;
            let from = pipe.as_raw_handle();
            DuplicateHandle(process, from, process, &mut duplicate, access, 0, 0)
        };
        assert_ne!(is_done, 0);
        // SAFETY: just made, and nobody else's.
        unsafe { NamedPipe::from_raw_handle(duplicate) }
    }

    #[test]
    fn a_pipe_that_may_not_be_asked_for_its_state_is_closed() {
        let poller = Arc::new(Poller::new(16).unwrap());
        for has_client in [false, true] {
            let (pipe, name) = new_server(if has_client { "client" } else { "none" });
            let pipe = without_attributes(pipe);
            assert_eq!(state(&pipe), None);
            let open = || std::fs::File::options().read(true).write(true).open(&name);
            let client = has_client.then(|| open().unwrap());
            close(&poller, pipe);
            let end = Instant::now() + Duration::from_secs(20);
            while poller.closing_pipes() > 0 {
                assert!(Instant::now() < end, "something is left");
                std::thread::yield_now();
            }
            if let Some(mut client) = client {
                assert_eq!(client.read(&mut [0]).unwrap(), 0);
            }
            assert!(open().is_err(), "closed");
        }
    }
}
