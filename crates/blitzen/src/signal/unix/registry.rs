//! From a signal handler to the listeners: one for the process.
//!
//! ```text
//!   handler:   raise the flag ──► a byte into the pipe, if nobody was told yet
//!   dispatch:  empty the pipe ──► take the flags ──► announce each on its board
//! ```
//!
//! H1. A handler touches nothing but atomics and the pipe.
//! H2. Any thread may dispatch, several at once too. Every runtime with a
//!     listener watches the pipe ([`watch`](super::watch)), so that the end of
//!     one does not matter to the listeners of another.
//! H3. A signal is announced when it is dispatched, not when it comes: a
//!     listener made in between is told.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock};

use blitzen_util::flags::Flags;

use crate::signal::board::{Board, Listener};

/// The process's signals.
#[derive(Debug)]
pub(crate) struct Hub {
    sender: UnixStream,
    receiver: UnixStream,
    flags: Flags,
    kinds: Box<[Kind]>,
}

/// What is known of one signal.
#[derive(Debug)]
struct Kind {
    board: Board,
    /// Whether the handler is there.
    installed: Mutex<bool>,
}

/// How many signals there are, with the 0 that is none.
fn count() -> usize {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
    return libc::SIGRTMAX() as usize + 1;
    // More than any of the others has.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "illumos")))]
    return 129;
}

/// The process's hub, which is there from the first call on.
///
/// # Errors
/// What the system says about its pipe.
pub(crate) fn hub() -> io::Result<&'static Hub> {
    static HUB: OnceLock<Hub> = OnceLock::new();
    if let Some(hub) = HUB.get() {
        return Ok(hub);
    }
    let (sender, receiver) = UnixStream::pair()?;
    sender.set_nonblocking(true)?;
    receiver.set_nonblocking(true)?;
    let kind = |_| Kind {
        board: Board::new(),
        installed: Mutex::new(false),
    };
    // Of several that are made at once, one stays.
    Ok(HUB.get_or_init(|| Hub {
        sender,
        receiver,
        flags: Flags::new(count()),
        kinds: (0..count()).map(kind).collect(),
    }))
}

impl Hub {
    /// Somebody who is told of a signal from now on. Installs its handler if
    /// need be.
    ///
    /// # Errors
    /// If it is no signal, or one that cannot be caught; what the system says.
    pub(crate) fn listen(&'static self, signal: i32) -> io::Result<Listener> {
        let kind = usize::try_from(signal)
            .ok()
            .and_then(|index| self.kinds.get(index))
            .filter(|_| !signal_hook_registry::FORBIDDEN.contains(&signal));
        let Some(kind) = kind else {
            let error = format!("signal {signal} cannot be caught");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        };
        let mut installed = kind.installed.lock().unwrap_or_else(|e| e.into_inner());
        if !*installed {
            self.install(signal)?;
            *installed = true;
        }
        drop(installed);
        Ok(kind.board.listen())
    }

    fn install(&'static self, signal: i32) -> io::Result<()> {
        let handler = move || {
            if self.flags.raise(signal as usize) {
                let byte = 0_u8;
                // The pipe is never full (one byte between two collections), and
                // there is nobody here who could be told of an error.
                // SAFETY: the descriptor is the hub's, which is never dropped;
                // `write` may be called in a handler.
                let _ = unsafe {
                    libc::write(self.sender.as_raw_fd(), std::ptr::from_ref(&byte).cast(), 1)
                };
            }
        };
        // SAFETY: H1: two atomic steps and one `write`, which handlers may do.
        unsafe { signal_hook_registry::register(signal, handler) }?;
        Ok(())
    }

    /// The pipe's end that becomes readable when there is something to dispatch.
    pub(crate) fn receiver(&self) -> &UnixStream {
        &self.receiver
    }

    /// Tells the listeners of what has come.
    pub(crate) fn dispatch(&self) {
        let mut bytes = [0; 64];
        // An error is that it is empty, or that another signal has come meanwhile,
        // which then is among the flags.
        while (&self.receiver)
            .read(&mut bytes)
            .is_ok_and(|count| count == bytes.len())
        {}
        self.flags
            .collect(|signal| self.kinds[signal].board.announce());
    }

    /// Lets everybody who waits for any signal look again.
    pub(crate) fn stir(&self) {
        for kind in &self.kinds {
            kind.board.stir();
        }
    }
}
