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
use super::reaper;
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
        // A good moment: it comes again, and is nothing beside starting a child.
        reaper::tend();
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

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::process::Command;
    use std::sync::{Mutex, MutexGuard};
    use std::time::Duration;

    /// One test at a time: each would hear of the other's children.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until a child has ended, and leaves it to others to collect.
    fn await_end(child: &Child) {
        // SAFETY: a place for the answer; plain numbers otherwise.
        let answer = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, child.id(), &mut info, flags)
        };
        assert_eq!(answer, 0);
    }

    #[test]
    fn an_end_before_anybody_asked_to_be_told_is_seen() {
        let _alone = alone();
        let mut builder = crate::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let mut told = signal(SignalKind::child()).unwrap();
            let mut child = Command::new("true").spawn().unwrap();
            await_end(&child);
            told.recv().await;
            // Whoever listens from now on hears nothing of this child.
            let late = signal(SignalKind::child()).unwrap();
            let mut exit = Exit::new(Handle::current());
            exit.way = Way::Sigchld(late);
            let end = poll_fn(|cx| exit.poll(&mut child, cx));
            let end = crate::time::timeout(Duration::from_secs(60), end).await;
            assert!(end.expect("it is seen").unwrap().success());
        });
    }

    #[test]
    fn a_pidfd_that_speaks_too_early_is_not_the_last_word() {
        let _alone = alone();
        let mut builder = crate::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            // As with a child that is traced: the pidfd is of another, which has
            // ended, and this one has not.
            let mut other = Command::new("true").spawn().unwrap();
            let pidfd = Pidfd::of(&other);
            assert!(other.wait().unwrap().success());
            let Some(pidfd) = pidfd else {
                return; // there is no such thing here
            };
            let mut child = Command::new("cat")
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut exit = Exit::new(Handle::current());
            let early = Evented::new(pidfd, Interest::READABLE, Ready::EMPTY).unwrap();
            exit.way = Way::Pidfd(early);
            let mut stdin = child.stdin.take();
            let end = poll_fn(|cx| {
                let end = exit.poll(&mut child, cx);
                if matches!(exit.way, Way::Sigchld(_)) {
                    drop(stdin.take()); // it has turned to SIGCHLD, and the child ends
                }
                end
            });
            let end = crate::time::timeout(Duration::from_secs(60), end).await;
            assert!(end.expect("it is told").unwrap().success());
        });
    }
}
