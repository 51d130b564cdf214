//! The reaper: a thread that waits for children whose `Child` was dropped.
//!
//! It needs no runtime, so that orphans are reaped also after theirs has shut
//! down. It ends with the last orphan.
//!
//! O1. An orphan is in the queue or in the thread's list until it has been
//!     waited for.
//! O2. The thread ends under the lock, when both lists are empty: the next
//!     orphan starts another thread.
//! O3. Before the thread sleeps it has called `try_wait` for every orphan after
//!     it had registered for its exit: `poll(2)` itself watches the pidfds, and
//!     a SIGCHLD listener wakes the thread through its `ReaperWaker`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};
use std::thread;

use super::pidfd::Pidfd;
use crate::signal::unix::{ChildSignals, WakePipe, registry};

/// Waits for a child: now if it has exited, otherwise on the reaper's thread.
pub(crate) fn reap_in_background(mut child: Child) {
    // An error says that other code has waited for it.
    if let Ok(None) = child.try_wait() {
        push_orphan(child);
    }
}

/// The orphans that the thread has not taken yet.
struct OrphanQueue {
    children: Vec<Child>,
    /// Wakes the thread, if there is one.
    waker: Option<Arc<ReaperWaker>>,
}

fn orphan_queue() -> MutexGuard<'static, OrphanQueue> {
    static QUEUE: Mutex<OrphanQueue> = Mutex::new(OrphanQueue {
        children: Vec::new(),
        waker: None,
    });
    QUEUE.lock().unwrap_or_else(|e| e.into_inner())
}

fn push_orphan(child: Child) {
    let mut queue = orphan_queue();
    queue.children.push(child);
    match &queue.waker {
        Some(waker) => waker.0.wake(),
        // It stays in the queue if the system refuses a descriptor or a thread.
        None => queue.waker = start().ok(),
    }
}

/// Starts the thread if it could not be started when an orphan was queued.
pub(crate) fn start_if_needed() {
    let mut queue = orphan_queue();
    if queue.waker.is_none() && !queue.children.is_empty() {
        queue.waker = start().ok();
    }
}

fn start() -> io::Result<Arc<ReaperWaker>> {
    let waker = Arc::new(ReaperWaker(WakePipe::new()?));
    thread::Builder::new()
        .name("blitzen-reaper".into())
        .spawn({
            let waker = waker.clone();
            move || Reaper::new(waker).run()
        })?;
    Ok(waker)
}

/// Wakes the thread from `poll(2)`.
struct ReaperWaker(WakePipe);

impl Wake for ReaperWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

struct Orphan {
    child: Child,
    /// Without one, SIGCHLD reports the exit.
    pidfd: Option<Pidfd>,
}

impl Orphan {
    /// Waits for the child if it has exited; returns whether that is done.
    fn try_reap(&mut self) -> bool {
        // An error says that other code has waited for it.
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// The thread's state.
struct Reaper {
    waker: Arc<ReaperWaker>,
    orphans: Vec<Orphan>,
    /// Set when the first orphan without a pidfd comes.
    signals: Option<ChildSignals>,
}

impl Reaper {
    fn new(waker: Arc<ReaperWaker>) -> Self {
        Self {
            waker,
            orphans: Vec::new(),
            signals: None,
        }
    }

    fn run(mut self) {
        loop {
            self.waker.0.drain();
            {
                let mut queue = orphan_queue();
                let queued = queue.children.drain(..).map(|child| Orphan {
                    pidfd: Pidfd::open(&child),
                    child,
                });
                self.orphans.extend(queued);
                if self.orphans.is_empty() {
                    queue.waker = None; // O2
                    return;
                }
            }
            self.listen(); // O3
            self.orphans.retain_mut(|orphan| !orphan.try_reap());
            if !self.orphans.is_empty() {
                self.sleep();
            }
        }
    }

    /// Listens for SIGCHLD if an orphan has no pidfd.
    fn listen(&mut self) {
        if self.signals.is_none() && self.orphans.iter().any(|orphan| orphan.pidfd.is_none()) {
            // If that fails, they are tried whenever the thread wakes.
            self.signals = ChildSignals::new().ok();
        }
        if let Some(signals) = &mut self.signals {
            let waker = Waker::from(self.waker.clone());
            let mut cx = Context::from_waker(&waker);
            while signals.poll(&mut cx).is_ready() {}
        }
    }

    /// Waits until the thread is woken, a signal arrives, or a child exits.
    fn sleep(&mut self) {
        let registry = self.signals.as_ref().and_then(|_| registry().ok());
        // Orphans without a pidfd get no entry: the system allows no more entries
        // than descriptors.
        let polled = {
            let pidfds = self
                .orphans
                .iter()
                .filter_map(|orphan| orphan.pidfd.as_ref());
            let mut polled: Vec<_> = [
                Some(self.waker.0.receiver().as_fd()),
                registry.map(|registry| registry.receiver().as_fd()),
            ]
            .into_iter()
            .chain(pidfds.map(|pidfd| Some(pidfd.as_fd())))
            .map(pollfd)
            .collect();
            poll(&mut polled);
            polled
        };
        let (fixed, pidfds) = polled.split_at(2);
        if let Some(registry) = registry
            && fixed[1].revents != 0
        {
            registry.dispatch(); // there may be no runtime that does
        }
        let with_pidfd = self.orphans.iter_mut();
        let with_pidfd = with_pidfd.filter(|orphan| orphan.pidfd.is_some());
        for (orphan, polled) in with_pidfd.zip(pidfds) {
            if polled.revents != 0 && !orphan.try_reap() {
                // It is traced: the pidfd would stay readable, and SIGCHLD reports
                // when the tracer detaches.
                orphan.pidfd = None;
            }
        }
    }
}

fn pollfd(fd: Option<BorrowedFd<'_>>) -> libc::pollfd {
    libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()), // negative: ignored
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits without a limit. A signal may interrupt it.
fn poll(entries: &mut [libc::pollfd]) {
    // SAFETY: the pointer and the length are those of the slice.
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
    fn the_sleeping_reaper_dispatches_signals_although_no_runtime_does() {
        let mut reaper = Reaper::new(Arc::new(ReaperWaker(WakePipe::new().unwrap())));
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        reaper.orphans.push(Orphan { child, pidfd: None });
        reaper.listen();
        // SAFETY: the signal is handled since `listen`.
        assert_eq!(unsafe { libc::raise(libc::SIGCHLD) }, 0);
        reaper.sleep();
        let signals = reaper.signals.as_mut().unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        // Otherwise the pipe would stay readable, and `sleep` would return at once.
        assert!(signals.poll(&mut cx).is_ready());

        let mut orphan = reaper.orphans.pop().unwrap();
        orphan.child.kill().unwrap();
        orphan.child.wait().unwrap();
    }
}
