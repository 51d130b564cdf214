//! Children that nobody waits for any more: a thread does, as long as there are
//! any.
//!
//! No runtime is needed for it, so that children are collected also when theirs
//! is gone. The thread ends with the last of them.
//!
//! O1. A child is in the list of arrivals or in the thread's, until it has been
//!     waited for.
//! O2. The thread leaves under the lock, when both lists are empty: who comes
//!     later starts another.
//! O3. Who goes to sleep has looked at every child after it had asked to be
//!     told: a pidfd is asked by the sleeping itself, SIGCHLD through a listener
//!     that rings the bell.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};
use std::thread;

use super::pidfd::Pidfd;
use crate::signal::unix::{ChildSignals, hub};

/// Sees to it that a child is waited for. It may be over already.
pub(crate) fn abandon(mut child: Child) {
    // An error is that somebody else has waited for it.
    if let Ok(None) = child.try_wait() {
        adopt(child);
    }
}

#[derive(Default)]
struct Home {
    arrivals: Vec<Child>,
    /// Wakes the thread, if there is one.
    bell: Option<Arc<Bell>>,
}

fn home() -> MutexGuard<'static, Home> {
    static HOME: Mutex<Home> = Mutex::new(Home {
        arrivals: Vec::new(),
        bell: None,
    });
    HOME.lock().unwrap_or_else(|e| e.into_inner())
}

fn adopt(child: Child) {
    let mut home = home();
    home.arrivals.push(child);
    match &home.bell {
        Some(bell) => bell.ring(),
        // Without descriptors or threads to be had it stays an arrival.
        None => home.bell = start().ok(),
    }
}

/// Takes care of arrivals for whom there was no thread to be had.
pub(crate) fn tend() {
    let mut home = home();
    if home.bell.is_none() && !home.arrivals.is_empty() {
        home.bell = start().ok();
    }
}

fn start() -> io::Result<Arc<Bell>> {
    let bell = Arc::new(Bell::new()?);
    thread::Builder::new()
        .name("blitzen-reaper".into())
        .spawn({
            let bell = bell.clone();
            move || Reaper::new(bell).run()
        })?;
    Ok(bell)
}

/// Wakes the thread.
struct Bell {
    sender: UnixStream,
    receiver: UnixStream,
}

impl Bell {
    fn new() -> io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { sender, receiver })
    }

    fn ring(&self) {
        // Full is as good as rung.
        let _ = (&self.sender).write(&[0]);
    }

    fn silence(&self) {
        let mut bytes = [0; 256];
        while (&self.receiver)
            .read(&mut bytes)
            .is_ok_and(|count| count == bytes.len())
        {}
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

struct Orphan {
    child: Child,
    /// Without one it is SIGCHLD that tells.
    pidfd: Option<Pidfd>,
}

impl Orphan {
    fn is_over(&mut self) -> bool {
        // An error is that somebody else has waited for it.
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// What the thread has.
struct Reaper {
    bell: Arc<Bell>,
    orphans: Vec<Orphan>,
    /// Once there was a child without a pidfd.
    signals: Option<ChildSignals>,
}

impl Reaper {
    fn new(bell: Arc<Bell>) -> Self {
        Self {
            bell,
            orphans: Vec::new(),
            signals: None,
        }
    }

    fn run(mut self) {
        loop {
            self.bell.silence();
            {
                let mut home = home();
                let arrivals = home.arrivals.drain(..).map(|child| Orphan {
                    pidfd: Pidfd::of(&child),
                    child,
                });
                self.orphans.extend(arrivals);
                if self.orphans.is_empty() {
                    home.bell = None; // O2
                    return;
                }
            }
            self.listen(); // O3
            self.orphans.retain_mut(|orphan| !orphan.is_over());
            if !self.orphans.is_empty() {
                self.sleep();
            }
        }
    }

    /// Asks to be told of SIGCHLDs, if somebody needs them.
    fn listen(&mut self) {
        if self.signals.is_none() && self.orphans.iter().any(|orphan| orphan.pidfd.is_none()) {
            // Without it they are looked at when anything else happens.
            self.signals = ChildSignals::new().ok();
        }
        if let Some(signals) = &mut self.signals {
            let waker = Waker::from(self.bell.clone());
            let mut cx = Context::from_waker(&waker);
            while signals.poll(&mut cx).is_ready() {}
        }
    }

    /// Waits until the bell rings, a signal comes, or a child ends.
    fn sleep(&mut self) {
        let hub = self.signals.as_ref().and_then(|_| hub().ok());
        // No entries for those without: the system allows no more entries than
        // descriptors.
        let told = {
            let pidfds = self
                .orphans
                .iter()
                .filter_map(|orphan| orphan.pidfd.as_ref());
            let mut polled: Vec<_> = [
                Some(self.bell.receiver.as_fd()),
                hub.map(|hub| hub.receiver().as_fd()),
            ]
            .into_iter()
            .chain(pidfds.map(|pidfd| Some(pidfd.as_fd())))
            .map(entry)
            .collect();
            poll(&mut polled);
            polled
        };
        let (fixed, pidfds) = told.split_at(2);
        if let Some(hub) = hub
            && fixed[1].revents != 0
        {
            hub.dispatch(); // no runtime may be left to do it
        }
        let with_pidfd = self.orphans.iter_mut();
        let with_pidfd = with_pidfd.filter(|orphan| orphan.pidfd.is_some());
        for (orphan, told) in with_pidfd.zip(pidfds) {
            if told.revents != 0 && !orphan.is_over() {
                // Somebody traces it: the pidfd would be readable for ever, and
                // SIGCHLD tells when the tracer lets go.
                orphan.pidfd = None;
            }
        }
    }
}

fn entry(fd: Option<BorrowedFd<'_>>) -> libc::pollfd {
    libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()), // negative: passed over
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits, without a limit. A signal may end it early.
fn poll(entries: &mut [libc::pollfd]) {
    // SAFETY: as many entries as it is told. The descriptors are open, or
    // negative; were one not, it would be reported as such.
    if unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, -1) } == -1 {
        for entry in entries {
            entry.revents = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn who_sleeps_hands_signals_on_although_no_runtime_does() {
        let mut reaper = Reaper::new(Arc::new(Bell::new().unwrap()));
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        reaper.orphans.push(Orphan { child, pidfd: None });
        reaper.listen();
        // SAFETY: the signal is handled since `listen`.
        assert_eq!(unsafe { libc::raise(libc::SIGCHLD) }, 0);
        reaper.sleep();
        let signals = reaper.signals.as_mut().unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        // Otherwise the pipe would stay readable, and no sleep be one.
        assert!(signals.poll(&mut cx).is_ready());

        let mut orphan = reaper.orphans.pop().unwrap();
        orphan.child.kill().unwrap();
        orphan.child.wait().unwrap();
    }
}
