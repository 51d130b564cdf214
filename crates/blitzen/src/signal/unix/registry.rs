//! The signals of the process: from a handler to the listeners.
//!
//! ```text
//!   handler:   raise the flag ──► write a byte into the pipe, if none is pending
//!   dispatch:  empty the pipe ──► take the flags ──► increment the count of each
//! ```
//!
//! H1. A handler touches nothing but atomics and the pipe.
//! H2. Any thread may dispatch, several at once too. Every runtime with a
//!     listener watches the pipe ([`driver`](super::driver)), so that the
//!     listeners of one do not depend on another.
//! H3. A signal is counted when it is dispatched, not when it arrives: a
//!     listener created in between sees it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock};

use blitzen_util::flags::Flags;

use super::wake_pipe::WakePipe;
use crate::signal::event_count::{EventCount, EventListener};

/// The signals of the process.
#[derive(Debug)]
pub(crate) struct SignalRegistry {
    pipe: WakePipe,
    flags: Flags,
    entries: Box<[SignalEntry]>,
}

/// One signal.
#[derive(Debug)]
struct SignalEntry {
    events: EventCount,
    /// Whether the handler is installed.
    installed: Mutex<bool>,
}

/// Returns the highest signal number plus one.
fn signal_count() -> usize {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
    return libc::SIGRTMAX() as usize + 1;
    // More than any of the others has.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "illumos")))]
    return 129;
}

/// Returns the registry of the process, which the first call creates.
///
/// # Errors
/// Those of `socketpair(2)` and `fcntl(2)`.
pub(crate) fn registry() -> io::Result<&'static SignalRegistry> {
    static REGISTRY: OnceLock<SignalRegistry> = OnceLock::new();
    if let Some(registry) = REGISTRY.get() {
        return Ok(registry);
    }
    let pipe = WakePipe::new()?;
    let entry = |_| SignalEntry {
        events: EventCount::new(),
        installed: Mutex::new(false),
    };
    // Of several created at once, one stays.
    Ok(REGISTRY.get_or_init(|| SignalRegistry {
        pipe,
        flags: Flags::new(signal_count()),
        entries: (0..signal_count()).map(entry).collect(),
    }))
}

impl SignalRegistry {
    /// Creates a listener for `signal`, and installs its handler if that has not
    /// been done.
    ///
    /// # Errors
    /// `InvalidInput` if it is no signal, or one that cannot be caught; those of
    /// `sigaction(2)`.
    pub(crate) fn listen(&'static self, signal: i32) -> io::Result<EventListener> {
        let entry = usize::try_from(signal)
            .ok()
            .and_then(|index| self.entries.get(index))
            .filter(|_| !signal_hook_registry::FORBIDDEN.contains(&signal));
        let Some(entry) = entry else {
            let error = format!("signal {signal} cannot be caught");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        };
        let mut installed = entry.installed.lock().unwrap_or_else(|e| e.into_inner());
        if !*installed {
            self.install(signal)?;
            *installed = true;
        }
        drop(installed);
        Ok(entry.events.listen())
    }

    fn install(&'static self, signal: i32) -> io::Result<()> {
        let handler = move || {
            // The pipe is never full: one byte between two dispatches.
            if self.flags.raise(signal as usize) {
                self.pipe.wake();
            }
        };
        // SAFETY: H1: two atomic steps and one `write`, which handlers may do.
        unsafe { signal_hook_registry::register(signal, handler) }?;
        Ok(())
    }

    /// Returns the pipe's end that is readable while there is something to dispatch.
    pub(crate) fn receiver(&self) -> &UnixStream {
        self.pipe.receiver()
    }

    /// Counts the signals that have arrived, and wakes their listeners.
    pub(crate) fn dispatch(&self) {
        self.pipe.drain();
        self.flags
            .collect(|signal| self.entries[signal].events.increment());
    }

    /// Wakes the listeners of every signal, so that they look again.
    pub(crate) fn wake_listeners(&self) {
        for entry in &self.entries {
            entry.events.wake_listeners();
        }
    }
}
