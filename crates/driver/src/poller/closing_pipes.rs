//! Named pipes that are being closed: Windows still has operations of theirs.
//!
//! mio keeps a read under way on a pipe that has a peer, and a write may be under way, too. Windows
//! uses mio's memory until such an operation has ended. mio keeps the memory, and with it the
//! handle, until a poll has taken in the end: only then does the peer see that the pipe is closed.
//! So a pipe that is dropped is kept in a list, and the poller is turned until the list is empty.
//!
//! ```text
//!   close ──► Connecting ──► a client has come ──► Ending ──► read and write have ended: closed
//!     │           └──► cancelled: closed             ▲
//!     └──────────────── has a peer ──────────────────┘
//! ```
//!
//! C1. A pipe in the list has a token that no source has. When mio registers a pipe anew, it
//!     begins a read unless there is one, and reports the pipe as writable: at once if no write
//!     is under way, and otherwise when the write has ended. It does neither while the pipe still
//!     waits for its first client.
//! C2. Before mio's pipe is dropped, all that was read is taken out. Then a read is under way, which
//!     the drop cancels, or could not begin. mio reports either as readable, and it does so last,
//!     unless a write is under way.
//! C3. The list changes under the lock of the turn, when no event of an earlier poll is left: mio's
//!     pipes do not change meanwhile, and an event that comes later is one of C1 and C2.
//! C4. A wait for a client is cancelled by an operation on the whole handle, which ends a write as
//!     well. There is none: a pipe has no peer then.
//! C5. mio reports a pipe that may not be read as writable before it has a peer. Then the wait for
//!     a client goes on, or begins anew, when mio is asked for the peer.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::windows::io::AsRawHandle;
use std::ptr;
use std::sync::Arc;

use blitzen_util::shim::MutexGuard;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use mio::event::Source;
use mio::windows::NamedPipe;
use mio::{Interest, Registry, Token};
use windows_sys::Win32::Foundation::{ERROR_BAD_PIPE, ERROR_PIPE_LISTENING};
use windows_sys::Win32::System::IO::CancelIoEx;
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

use super::slots::{MAX_NUMBERS, NUMBER_BITS};
use super::{Poller, Turn, TurnedBy, pipe_reaper};
use crate::Ready;

/// The highest number of a pipe. mio's tokens of pipes have a bit less than other tokens.
const MAX_ID: usize = usize::MAX >> NUMBER_BITS >> 1;

/// How often closing a pipe polls. A wait for a client ends in the first poll, and the read that it
/// has begun in the second. An operation that has not ended by then is left to others.
const POLLS_OF_CLOSE: usize = 3;

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
    /// The wait for a client was cancelled, and has not ended. `has_peer` is what mio says (C5).
    Connecting { pipe: NamedPipe, has_peer: bool },
    /// mio's pipe is dropped; `awaited` is what mio has not reported yet (C1, C2).
    Ending { awaited: Ready },
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
    fn add(
        &mut self,
        registry: &Registry,
        mut pipe: NamedPipe,
        may_connect: bool,
    ) -> Option<usize> {
        let id = self.free_id()?;
        if may_connect {
            // An earlier wait has left it; `advance` looks for that of this one.
            let _ = pipe.take_error();
        }
        register_anew(registry, &mut pipe, id)?;
        let closing = if may_connect {
            cancel_all(&pipe); // C4
            let has_peer = false;
            Closing::Connecting { pipe, has_peer }
        } else if has_no_peer(&pipe) && is_listening(&pipe.disconnect()) {
            return None; // C1: nothing is under way
        } else {
            // A client may have come since the first time, or it was just disconnected.
            register_anew(registry, &mut pipe, id)?;
            drop_connected(pipe);
            let awaited = Ready::READABLE | Ready::WRITABLE;
            Closing::Ending { awaited }
        };
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
            Some(Closing::Connecting { has_peer, .. }) => *has_peer |= ready.is_writable(),
            Some(Closing::Ending { awaited }) => *awaited = *awaited - ready,
            None => {}
        }
        self.is_due = true;
        true
    }

    /// Goes on with pipes whose operations have ended. No event of an earlier poll may be left
    /// (C3).
    pub(super) fn advance(&mut self) {
        if !self.is_due {
            return;
        }
        self.pipes.retain(|_, closing| closing.advance());
        // mio reports no event for a wait that was cancelled.
        let has_no_event = |closing: &Closing| matches!(closing, Closing::Connecting { .. });
        self.is_due = self.pipes.values().any(has_no_event);
    }

    fn contains(&self, id: usize) -> bool {
        self.pipes.contains_key(&id)
    }

    pub(super) fn count(&self) -> usize {
        self.pipes.len()
    }
}

impl Closing {
    /// Returns false for a pipe that is closed.
    fn advance(&mut self) -> bool {
        match self {
            Self::Connecting { pipe, has_peer } => {
                let was_cancelled = !matches!(pipe.take_error(), Ok(None));
                if was_cancelled || !std::mem::take(has_peer) {
                    return !was_cancelled;
                }
                if would_block(&pipe.connect()) {
                    cancel_all(pipe); // C5
                    return true;
                }
                let awaited = Ready::READABLE;
                let before = std::mem::replace(self, Self::Ending { awaited });
                if let Self::Connecting { pipe, .. } = before {
                    drop_connected(pipe);
                }
                true
            }
            Self::Ending { awaited } => !awaited.is_empty(),
        }
    }
}

/// Drops a pipe that has a peer (C2).
fn drop_connected(mut pipe: NamedPipe) {
    let mut room = [0; 4096];
    // mio begins a read when the last byte is taken; its end is not taken in meanwhile (C3).
    while pipe.read(&mut room).is_ok_and(|count| count == room.len()) {}
}

fn token_of(id: usize) -> usize {
    id << NUMBER_BITS | MAX_NUMBERS // no source has this number
}

fn id_of(token: usize) -> Option<usize> {
    let id = token >> NUMBER_BITS;
    (token & MAX_NUMBERS == MAX_NUMBERS && id <= MAX_ID).then_some(id)
}

/// Has mio report the pipe's events with the token of `id`. It fails only if somebody else has
/// closed the handle: then there is nothing to wait for.
fn register_anew(registry: &Registry, pipe: &mut NamedPipe, id: usize) -> Option<()> {
    let both = Interest::READABLE | Interest::WRITABLE;
    pipe.reregister(registry, Token(token_of(id)), both).ok()
}

fn would_block(result: &io::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn cancel_all(pipe: &NamedPipe) {
    // SAFETY: the handle is open; without an operation, all are meant. It fails if there are none.
    let _ = unsafe { CancelIoEx(pipe.as_raw_handle(), ptr::null()) };
}

/// Whether the pipe is a server's which waits for its first client, or has disconnected one.
fn has_no_peer(pipe: &NamedPipe) -> bool {
    let (buffer, none) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the handle is open, and what is null is not written.
    let peeked = unsafe { PeekNamedPipe(pipe.as_raw_handle(), buffer, 0, none, none, none) };
    peeked == 0 && is_error(&io::Error::last_os_error(), ERROR_BAD_PIPE)
}

/// Whether a pipe without a peer could not be disconnected, since it waits for its first client.
/// Some systems disconnect it: then mio cannot begin a read, and reports that.
fn is_listening(disconnected: &io::Result<()>) -> bool {
    matches!(disconnected, Err(error) if is_error(error, ERROR_PIPE_LISTENING))
}

fn is_error(error: &io::Error, code: u32) -> bool {
    error.raw_os_error() == Some(code.cast_signed())
}

impl Poller {
    /// Closes a named pipe that is registered with this poller. Its read is cancelled, and so is its
    /// wait for a client if `may_connect` says that there may be one. A write that is under way is
    /// completed first. Usually the pipe is closed when this returns. Otherwise it is closed once
    /// Windows has finished, even if nobody turns this poller.
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
            // An error is one of the port itself: the owner's next turn returns it.
            if self.poll().is_err() || !self.is_closing(id) {
                return;
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
        if self.closing_pipes() > 0 {
            self.try_turn()?;
        }
        Ok(self.closing_pipes())
    }

    /// A turn that really polls, after events of an earlier poll that are left.
    fn poll(&self) -> io::Result<()> {
        loop {
            let turn = self.lock_turn();
            let polls = !turn.events.are_left();
            self.run(turn, TurnedBy::Other)?;
            if polls {
                return Ok(());
            }
        }
    }
}
