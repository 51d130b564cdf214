//! Waiting for the end of a child.
//!
//! ```text
//!   Unasked ──► Pidfd ──► over
//!      ▲ │        │ readable, yet not to be had
//!      │ └────────┴──► Sigchld ──► over
//!      └── the runtime is gone ──┘
//! ```
//!
//! X1. Whoever goes to sleep has looked at the child after it had left its
//!     waker: an end in between wakes it.
//! X2. A pidfd tells of the end. If somebody traces the child, its parent gets
//!     it only when the tracer lets go, which SIGCHLD tells.
//! X3. SIGCHLDs are coalesced: one may be for any number of children, and each
//!     looks for itself.

use std::io;
use std::process::{Child, ExitStatus};
use std::task::{Context, Poll};

use super::pidfd::Pidfd;
use crate::io::{Evented, Interest, Ready};
use crate::runtime::{Handle, is_rt_shutdown_err};
use crate::signal::unix::{Signal, SignalKind, signal};

/// How the end of one child is waited for.
#[derive(Debug)]
pub(crate) struct Exit {
    /// Where the child was started.
    home: Handle,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Unasked,
    Pidfd(Evented<Pidfd>),
    Sigchld(Signal),
}

impl Exit {
    pub(crate) fn new(home: Handle) -> Self {
        Self {
            home,
            way: Way::Unasked,
        }
    }

    /// The child's status when it is over.
    pub(crate) fn poll(
        &mut self,
        child: &mut Child,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<ExitStatus>> {
        loop {
            // X1. A pidfd speaks up by itself, and needs no look before that.
            let told = match &mut self.way {
                Way::Unasked => Poll::Ready(Ok(())),
                Way::Pidfd(pidfd) => {
                    let ready = pidfd.registration().poll_read_ready(cx);
                    if ready.is_pending() {
                        return Poll::Pending;
                    }
                    ready.map_ok(drop)
                }
                Way::Sigchld(signal) => signal
                    .poll_recv(cx)
                    .map(|come| come.ok_or_else(blitzen_driver::gone)),
            };
            if let Some(status) = child.try_wait()? {
                return Poll::Ready(Ok(status));
            }
            match (told, &self.way) {
                (Poll::Pending, _) => return Poll::Pending,
                (Poll::Ready(Err(_gone)), _) => self.way = Way::Unasked,
                (Poll::Ready(Ok(())), Way::Unasked) => self.way = self.ask(child)?,
                // X2.
                (Poll::Ready(Ok(())), Way::Pidfd(_)) => self.way = self.sigchld()?,
                (Poll::Ready(Ok(())), Way::Sigchld(_)) => {}
            }
        }
    }

    fn ask(&self, child: &Child) -> io::Result<Way> {
        self.inside(|| {
            if let Some(pidfd) = Pidfd::of(child) {
                match Evented::new(pidfd, Interest::READABLE, Ready::EMPTY) {
                    Err(error) if is_rt_shutdown_err(&error) => return Err(error),
                    Err(_refused) => {} // such as too many of them
                    Ok(pidfd) => return Ok(Way::Pidfd(pidfd)),
                }
            }
            signal(SignalKind::child()).map(Way::Sigchld)
        })
    }

    fn sigchld(&self) -> io::Result<Way> {
        self.inside(|| signal(SignalKind::child()).map(Way::Sigchld))
    }

    /// Does something in the runtime the child was started in, or, if that is
    /// gone, in the caller's.
    fn inside<R>(&self, mut act: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        let at_home = {
            let _home = self.home.enter();
            act()
        };
        match at_home {
            Err(error) if is_rt_shutdown_err(&error) => match Handle::try_current() {
                Ok(_) => act(),
                Err(_) => Err(error),
            },
            done => done,
        }
    }
}
