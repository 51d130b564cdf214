//! The socket of a listener, and the mode of the streams that it accepts.
//!
//! Listeners always wait for readiness: a multishot accept is no faster, and its
//! connections would have to be queued and bounded. So a dropped listener is closed
//! at once, and its descriptor can be exposed at any time. Only accepted streams
//! use completion.

use std::fmt;
use std::io;
use std::ops::Deref;

use mio::event::Source;

use super::completion::require_ring;
use super::mode::SocketMode;
use crate::io::{Evented, Interest, PollEvented, Ready};
use crate::runtime::Inner;
use crate::runtime::io::current;

/// A listening socket.
pub(crate) struct ListenerIo<S: Source> {
    evented: PollEvented<S>,
    /// `Readiness` or `Completion`: what accepted streams get.
    mode: SocketMode,
}

impl<S: Source> ListenerIo<S> {
    /// Registers `socket`, in the mode of the current runtime.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub(crate) fn new(socket: S) -> io::Result<Self>
    where
        S: Evented,
    {
        let runtime = current();
        let mode = available_mode(runtime.world().socket_mode(), &runtime)?;
        let evented = PollEvented::new(socket, Interest::READABLE, Ready::EMPTY)?;
        Ok(Self { evented, mode })
    }

    pub(crate) fn evented(&self) -> &PollEvented<S> {
        &self.evented
    }

    pub(crate) fn mode(&self) -> SocketMode {
        self.mode
    }

    /// Sets the mode of the streams that are accepted from now on.
    pub(crate) fn set_mode(&mut self, mode: SocketMode, runtime: &Inner) -> io::Result<()> {
        self.mode = available_mode(mode, runtime)?;
        Ok(())
    }

    /// Takes the socket out of the runtime.
    pub(crate) fn into_inner(self) -> io::Result<S> {
        self.evented.into_inner()
    }
}

/// Replaces `PreferCompletion` by the mode that is available.
fn available_mode(mode: SocketMode, runtime: &Inner) -> io::Result<SocketMode> {
    if mode == SocketMode::Readiness {
        return Ok(mode);
    }
    match require_ring(runtime) {
        Ok(_available) => Ok(SocketMode::Completion),
        Err(_) if mode == SocketMode::PreferCompletion => Ok(SocketMode::Readiness),
        Err(error) => Err(error),
    }
}

impl<S: Source> Deref for ListenerIo<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.evented
    }
}

impl<S: Source + fmt::Debug> fmt::Debug for ListenerIo<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.evented.fmt(f)
    }
}
