//! An event source and its registration: the base of sockets and pipes.
//!
//! E1. The source is there until [`into_inner`](PollEvented::into_inner),
//!     [`take`](PollEvented::take) or `drop` takes it.
//! E2. It is deregistered before it is closed or returned: a duplicate of the
//!     descriptor may live on elsewhere. A named pipe of Windows is left to its poller instead.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use blitzen_driver::{Interest, Ready, Registration, Stream};
use mio::event::Source;

use crate::runtime::io::{current, drivers_for_new_source, register};

/// The interest of sockets that are read and written.
pub(crate) const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

cfg_select! {
    unix => {
        /// A source with a descriptor.
        pub(crate) trait Evented: Source + std::os::fd::AsFd {}

        impl<S: Source + std::os::fd::AsFd> Evented for S {}
    }
    _ => {
        /// A source.
        pub(crate) trait Evented: Source {}

        impl<S: Source> Evented for S {}
    }
}

/// Returns the error of an operation that would have blocked, and otherwise its result.
///
/// An operation of the user's is tried through mio and a registration as one that returns this: over
/// poll(2) a registration takes a `NotFound` for mio's, which means that the operation would have
/// blocked.
pub(crate) fn settled<R>(result: io::Result<R>) -> io::Result<io::Result<R>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        result => Ok(result),
    }
}

/// An event source and its registration with a runtime.
pub(crate) struct PollEvented<S: Source> {
    /// `None` only while it is dropped or taken (E1).
    source: Option<S>,
    registration: Registration,
}

impl<S: Source> UnwindSafe for PollEvented<S> {}
impl<S: Source> RefUnwindSafe for PollEvented<S> {}

impl<S: Source> PollEvented<S> {
    /// Registers `source`, which counts as `initially` ready until it is tried.
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub(crate) fn new(mut source: S, interest: Interest, initially: Ready) -> io::Result<Self>
    where
        S: Evented,
    {
        let registration = register(&mut source, interest, initially)?;
        Ok(Self::registered(source, registration, interest))
    }

    /// Registers `source` for reading and writing. See
    /// [`Driver::register_stream`](blitzen_driver::Driver::register_stream).
    ///
    /// # Panics
    ///
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub(crate) fn stream(mut source: S, initially: Ready) -> io::Result<Self>
    where
        S: Evented + Stream,
    {
        let runtime = current();
        let driver = drivers_for_new_source(&runtime).driver();
        let registration = driver.register_stream(&mut source, initially)?;
        Ok(Self::registered(source, registration, BOTH))
    }

    #[cfg_attr(not(unix), allow(unused_mut, unused_variables))] // there is no descriptor
    fn registered(source: S, mut registration: Registration, interest: Interest) -> Self
    where
        S: Evented,
    {
        #[cfg(unix)]
        registration.set_bare(std::os::fd::AsRawFd::as_raw_fd(&source.as_fd()), interest);
        Self {
            source: Some(source),
            registration,
        }
    }

    /// Returns the registration, which knows the readiness.
    #[inline]
    pub(crate) fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Takes the source, deregistered, and leaves a shell that is only good for being
    /// dropped or replaced (E1).
    pub(crate) fn take(&mut self) -> S {
        match self.source.take() {
            Some(mut source) => {
                // E2. It fails if somebody else closed the descriptor.
                let _ = self.registration.deregister(&mut source);
                source
            }
            None => unreachable!("E1"),
        }
    }

    /// Takes the source as [`take`](Self::take) does, but leaves it registered with the poller, which
    /// closes it.
    #[cfg(windows)]
    pub(crate) fn take_registered(&mut self) -> S {
        match self.source.take() {
            Some(source) => source,
            None => unreachable!("E1"),
        }
    }

    /// Deregisters the source, and returns it.
    pub(crate) fn into_inner(mut self) -> io::Result<S> {
        match self.source.take() {
            Some(mut source) => {
                self.registration.deregister(&mut source)?; // E2
                Ok(source)
            }
            None => unreachable!("E1"),
        }
    }
}

impl<S: Source> Deref for PollEvented<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        match &self.source {
            Some(source) => source,
            None => unreachable!("E1"),
        }
    }
}

impl<S: Source> Drop for PollEvented<S> {
    fn drop(&mut self) {
        if let Some(mut source) = self.source.take() {
            // E2. It fails if somebody else closed the descriptor. Then
            // there is nothing to deregister.
            let _ = self.registration.deregister(&mut source);
        }
    }
}

impl<S: Source + fmt::Debug> fmt::Debug for PollEvented<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
