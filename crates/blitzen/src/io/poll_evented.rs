//! A source of events and its registration: what sockets and pipes are made of.
//!
//! E1. The source is there until [`into_inner`](PollEvented::into_inner) or `drop`
//!     takes it.
//! E2. It leaves the selector before it is closed or handed out: a duplicate of
//!     the descriptor may live on elsewhere.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use blitzen_driver::{Interest, Ready, Registration, Stream};
use mio::event::Source;

use crate::runtime::Inner;
use crate::runtime::io::{current, drivers_for_new_source, register};

/// What a socket that is read and written waits for.
pub(crate) const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// A source that is registered with the runtime it was made in.
pub(crate) struct PollEvented<S: Source> {
    /// `None` only on the way out (E1).
    source: Option<S>,
    registration: Registration,
}

impl<S: Source> UnwindSafe for PollEvented<S> {}
impl<S: Source> RefUnwindSafe for PollEvented<S> {}

impl<S: Source> PollEvented<S> {
    /// Registers a source, which counts as `initially` ready until tried.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub(crate) fn new(mut source: S, interest: Interest, initially: Ready) -> io::Result<Self> {
        let registration = register(&mut source, interest, initially)?;
        Ok(Self {
            source: Some(source),
            registration,
        })
    }

    /// Registers what is read and written: see
    /// [`Driver::register_stream`](blitzen_driver::Driver::register_stream).
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub(crate) fn stream(mut source: S, initially: Ready) -> io::Result<Self>
    where
        S: Stream,
    {
        let runtime = current();
        let driver = drivers_for_new_source(&runtime).driver();
        let registration = driver.register_stream(&mut source, initially)?;
        Ok(Self {
            source: Some(source),
            registration,
        })
    }

    /// The same as [`new`](Self::new), with a runtime that has I/O and need not be the current one.
    pub(crate) fn new_in(
        mut source: S,
        interest: Interest,
        initially: Ready,
        runtime: &Inner,
    ) -> io::Result<Self> {
        let driver = drivers_for_new_source(runtime).driver();
        let registration = driver.register(&mut source, interest, initially)?;
        Ok(Self {
            source: Some(source),
            registration,
        })
    }

    /// What is known of the source, and ways to wait for more.
    #[inline]
    pub(crate) fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Gives the source back, as it was before.
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
            // E2. It fails if somebody has closed the descriptor behind our
            // back; then there is nothing left to take away.
            let _ = self.registration.deregister(&mut source);
        }
    }
}

impl<S: Source + fmt::Debug> fmt::Debug for PollEvented<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
