//! Waiting for a child to exit.
//!
//! ```text
//!   Unregistered ──► Pidfd ──► exited
//!      ▲ │             │ readable, but the child cannot be waited for
//!      │ └─────────────┴──► Sigchld ──► exited
//!      └── the runtime has shut down ──┘
//! ```
//!
//! X1. A poll that returns `Pending` has called `try_wait` after it had stored
//!     its waker: an exit in between wakes the task.
//! X2. A pidfd is readable when the child has exited. If the child is traced,
//!     its parent can wait for it only when the tracer detaches, and gets
//!     SIGCHLD then.
//! X3. SIGCHLDs are coalesced: one may stand for any number of children, so
//!     each `ExitWait` calls `try_wait` for its own.

use std::io;
use std::process::{Child, ExitStatus};
use std::task::{Context, Poll};

use super::pidfd::Pidfd;
use super::reaper;
use crate::io::{Interest, PollEvented, Ready};
use crate::runtime::{Handle, is_rt_shutdown_err};
use crate::signal::unix::{Signal, SignalKind, signal};

/// The wait for one child's exit.
#[derive(Debug)]
pub(crate) struct ExitWait {
    /// The runtime in which the child was spawned.
    runtime: Handle,
    source: ExitSource,
}

/// What reports the exit.
#[derive(Debug)]
enum ExitSource {
    Unregistered,
    Pidfd(PollEvented<Pidfd>),
    Sigchld(Signal),
}

impl ExitWait {
    pub(crate) fn new(runtime: Handle) -> Self {
        // Cheap compared with spawning a child, and repeated with each one.
        reaper::start_if_needed();
        Self {
            runtime,
            source: ExitSource::Unregistered,
        }
    }

    /// Returns the child's status when it has exited.
    pub(crate) fn poll(
        &mut self,
        child: &mut Child,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<ExitStatus>> {
        loop {
            // X1. A pidfd is readable also if the child has exited before: there is no
            // need for `try_wait` until it is.
            let event = match &mut self.source {
                ExitSource::Unregistered => Poll::Ready(Ok(())),
                ExitSource::Pidfd(pidfd) => {
                    let ready = pidfd.registration().poll_read_ready(cx);
                    if ready.is_pending() {
                        return Poll::Pending;
                    }
                    ready.map_ok(drop)
                }
                ExitSource::Sigchld(signal) => signal
                    .poll_recv(cx)
                    .map(|received| received.ok_or_else(blitzen_driver::shutdown_error)),
            };
            if let Some(status) = child.try_wait()? {
                return Poll::Ready(Ok(status));
            }
            match (event, &self.source) {
                (Poll::Pending, _) => return Poll::Pending,
                (Poll::Ready(Err(_shut_down)), _) => self.source = ExitSource::Unregistered,
                (Poll::Ready(Ok(())), ExitSource::Unregistered) => {
                    self.source = self.register(child)?
                }
                // X2.
                (Poll::Ready(Ok(())), ExitSource::Pidfd(_)) => self.source = self.sigchld()?,
                (Poll::Ready(Ok(())), ExitSource::Sigchld(_)) => {}
            }
        }
    }

    fn register(&self, child: &Child) -> io::Result<ExitSource> {
        self.in_runtime(|| {
            if let Some(pidfd) = Pidfd::open(child) {
                match PollEvented::new(pidfd, Interest::READABLE, Ready::EMPTY) {
                    Err(error) if is_rt_shutdown_err(&error) => return Err(error),
                    Err(_refused) => {} // such as too many watches
                    Ok(pidfd) => return Ok(ExitSource::Pidfd(pidfd)),
                }
            }
            signal(SignalKind::child()).map(ExitSource::Sigchld)
        })
    }

    fn sigchld(&self) -> io::Result<ExitSource> {
        self.in_runtime(|| signal(SignalKind::child()).map(ExitSource::Sigchld))
    }

    /// Calls `act` in the runtime in which the child was spawned, or, if that has
    /// shut down, in the caller's.
    fn in_runtime<R>(&self, mut act: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        let result = {
            let _entered = self.runtime.enter();
            act()
        };
        match result {
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

    /// One test at a time: each would get the SIGCHLDs of the other's children.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until a child has exited, and does not reap it.
    fn await_exit(child: &Child) {
        // SAFETY: a place for the answer; plain numbers otherwise.
        let answer = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, child.id(), &mut info, flags)
        };
        assert_eq!(answer, 0);
    }

    #[test]
    fn an_exit_before_the_registration_is_seen() {
        let _alone = alone();
        let mut builder = crate::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let mut event = signal(SignalKind::child()).unwrap();
            let mut child = Command::new("true").spawn().unwrap();
            await_exit(&child);
            event.recv().await;
            // A listener created now gets no signal for this child.
            let late = signal(SignalKind::child()).unwrap();
            let mut exit = ExitWait::new(Handle::current());
            exit.source = ExitSource::Sigchld(late);
            let exited = poll_fn(|cx| exit.poll(&mut child, cx));
            let exited = crate::time::timeout(Duration::from_secs(60), exited).await;
            assert!(exited.expect("the exit is seen").unwrap().success());
        });
    }

    #[test]
    fn a_pidfd_that_is_readable_too_early_is_replaced_by_sigchld() {
        let _alone = alone();
        let mut builder = crate::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            // As with a child that is traced: the pidfd is of another, which has
            // ended, and this one has not.
            let mut other = Command::new("true").spawn().unwrap();
            let pidfd = Pidfd::open(&other);
            assert!(other.wait().unwrap().success());
            let Some(pidfd) = pidfd else {
                return; // this system has no pidfds
            };
            let mut child = Command::new("cat")
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut exit = ExitWait::new(Handle::current());
            let early = PollEvented::new(pidfd, Interest::READABLE, Ready::EMPTY).unwrap();
            exit.source = ExitSource::Pidfd(early);
            let mut stdin = child.stdin.take();
            let exited = poll_fn(|cx| {
                let exited = exit.poll(&mut child, cx);
                if matches!(exit.source, ExitSource::Sigchld(_)) {
                    drop(stdin.take()); // it waits for SIGCHLD now, and the child exits
                }
                exited
            });
            let exited = crate::time::timeout(Duration::from_secs(60), exited).await;
            assert!(exited.expect("SIGCHLD wakes the task").unwrap().success());
        });
    }
}
