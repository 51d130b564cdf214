//! The pipe reaper: a thread that turns pollers which have named pipes to close and which nobody
//! else may turn, such as those of a current-thread runtime that is left alone, or of one that was
//! dropped while a write was under way.
//!
//! Only a poll shows that Windows has finished with a pipe, and a thread that waited in the poll would
//! keep the owner out. So the thread looks again and again, at longer and longer intervals. It
//! leaves a poller alone that another thread turns.
//!
//! E1. A poller is in the list, or with the thread, until its pipes are closed, or turning it has
//!     failed too often: it outlives its runtime.
//! E2. The thread ends under the lock, when the list is empty: the next poller starts another one.
//!     Nothing else ends it: a panic of mio counts as a failure of that poller.
//! E3. Turning a poller, which calls no wakers (P4 of `poller/mod.rs`), and dropping one happen
//!     outside the lock.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Poller;
use crate::wake_list::contain_panic;

/// The first interval. A cancelled operation has ended by then, unless the machine is very busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest interval, for writes whose peer does not read: some ten turns a second cost nothing
/// that could be measured, and the peer sees the end of the pipe this much late.
const LONGEST: Duration = Duration::from_millis(100);

/// How long the thread stays when it has nothing to do: starting another costs more than a pipe.
const LINGER: Duration = Duration::from_secs(1);

/// How many times in a row turning a poller may fail, which takes some five seconds: mio returns an
/// error of a single socket, too. If the port itself has failed, nothing more comes from it.
const MAX_FAILURES: u32 = 50;

struct Watched {
    pollers: Vec<WatchedPoller>,
    /// Whether a poller was added since the thread has looked.
    has_news: bool,
    has_thread: bool,
}

struct WatchedPoller {
    poller: Arc<Poller>,
    /// How many of its last turns have failed.
    failures: u32,
    /// It is not turned before, since its last turn has failed.
    not_before: Option<Instant>,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    pollers: Vec::new(),
    has_news: false,
    has_thread: false,
});

/// Ends a sleep of the thread.
static CHANGED: Condvar = Condvar::new();

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the reaper turn `poller` until its pipes are closed.
pub(super) fn watch(poller: &Arc<Poller>) {
    let mut watched = watched();
    watched.add(WatchedPoller::new(poller.clone()));
    watched.has_news = true;
    if watched.has_thread {
        CHANGED.notify_one();
        return;
    }
    let thread = thread::Builder::new().name("blitzen-pipe-reaper".into());
    // If the system refuses a thread, the next pipe asks for one again.
    watched.has_thread = thread.spawn(run).is_ok();
}

impl Watched {
    fn add(&mut self, new: WatchedPoller) {
        let is_same = |other: &&mut WatchedPoller| Arc::ptr_eq(&other.poller, &new.poller);
        match self.pollers.iter_mut().find(is_same) {
            Some(same) => same.failures = same.failures.min(new.failures),
            None => self.pollers.push(new),
        }
    }
}

impl WatchedPoller {
    fn new(poller: Arc<Poller>) -> Self {
        Self {
            poller,
            failures: 0,
            not_before: None,
        }
    }

    /// Turns the poller, unless it has to rest. Returns whether it is to be turned again.
    fn reap(&mut self) -> bool {
        let now = Instant::now();
        if self.not_before.is_some_and(|time| now < time) {
            return true;
        }
        let mut left = None;
        contain_panic(|| left = self.poller.reap_pipes().ok());
        self.note(left, now)
    }

    /// Notes how many pipes a turn has left, or that it has failed. Returns whether there is to be
    /// another one.
    fn note(&mut self, left: Option<usize>, now: Instant) -> bool {
        match left {
            Some(count) => {
                (self.failures, self.not_before) = (0, None);
                count > 0
            }
            None => {
                self.failures += 1;
                self.not_before = Some(now + LONGEST);
                self.failures < MAX_FAILURES
            }
        }
    }
}

fn run() {
    let mut interval = SHORTEST;
    loop {
        let pollers = {
            let watched = watched();
            let sleep = match watched.pollers.is_empty() {
                true => LINGER,
                false => interval,
            };
            let is_idle = |watched: &mut Watched| !watched.has_news;
            let slept = CHANGED.wait_timeout_while(watched, sleep, is_idle);
            let (mut watched, _) = slept.unwrap_or_else(PoisonError::into_inner);
            if watched.pollers.is_empty() {
                watched.has_thread = false; // E2
                return;
            }
            interval = match std::mem::take(&mut watched.has_news) {
                true => SHORTEST,
                false => LONGEST.min(interval * 2),
            };
            std::mem::take(&mut watched.pollers)
        };
        for mut poller in pollers {
            match poller.reap() {
                true => watched().add(poller),
                false => contain_panic(|| drop(poller)), // E2
            }
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, channel};

    use mio::windows::NamedPipe;

    use super::*;
    use crate::poller::closing_pipes::fault::{self, Fault};
    use crate::{Interest, Ready};

    const FOREVER: Duration = Duration::from_secs(20);

    /// More than a pipe's buffer holds.
    const MUCH: usize = 1 << 20;

    fn new_poller() -> Arc<Poller> {
        Arc::new(Poller::new(64).unwrap())
    }

    /// Closes a pipe, after a write of so many bytes has begun. Returns its other end.
    fn close_pipe(poller: &Arc<Poller>, written: usize) -> File {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (process, own) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
        let name = format!(r"\\.\pipe\blitzen-reaper-{process}-{own}");
        let mut pipe = NamedPipe::new(&name).unwrap();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registration = poller.register(&mut pipe, both, Ready::EMPTY).unwrap();
        let client = File::options().read(true).write(true).open(&name).unwrap();
        pipe.connect().unwrap();
        if written > 0 {
            assert_eq!(pipe.write(&vec![7; written]).unwrap(), written);
        }
        drop(registration);
        poller.close_pipe(pipe, false);
        client
    }

    /// Has a thread read until the end, which comes only when the other end is closed.
    fn read_to_end(mut client: File) -> Receiver<usize> {
        let (sender, count) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = client.read_to_end(&mut bytes);
            let _ = sender.send(bytes.len());
        });
        count
    }

    #[test]
    fn a_panic_in_the_turn_of_one_poller_keeps_no_pipe_open() {
        let (panics, other) = (new_poller(), new_poller());
        let first = close_pipe(&panics, MUCH);
        fault::add(&panics, &[Fault::Panic]);
        let end = Instant::now() + FOREVER;
        while fault::is_left(&panics) {
            assert!(Instant::now() < end, "nobody turns it");
            thread::yield_now();
        }
        let second = read_to_end(close_pipe(&other, MUCH));
        assert_eq!(second.recv_timeout(FOREVER), Ok(MUCH), "of another poller");
        let first = read_to_end(first);
        assert_eq!(first.recv_timeout(FOREVER), Ok(MUCH), "of the same poller");
    }

    #[test]
    fn a_pipe_whose_closing_fails_is_left_to_the_reaper() {
        for faults in [&[Fault::Error][..], &[Fault::Panic], &[Fault::Error; 3]] {
            let poller = new_poller();
            fault::add(&poller, faults);
            let client = read_to_end(close_pipe(&poller, 0));
            assert_eq!(client.recv_timeout(FOREVER), Ok(0), "{faults:?}");
        }
    }

    #[test]
    fn a_poller_that_fails_is_turned_seldom_and_not_for_ever() {
        let mut watched = WatchedPoller::new(new_poller());
        let now = Instant::now();
        for _ in 1..MAX_FAILURES {
            assert!(watched.note(None, now));
            assert_eq!(watched.not_before, Some(now + LONGEST));
        }
        assert!(watched.note(Some(1), now), "a pipe is left");
        assert_eq!(watched.not_before, None);
        for _ in 1..MAX_FAILURES {
            assert!(watched.note(None, now));
        }
        assert!(!watched.note(None, now));
        assert!(!watched.note(Some(0), now), "all are closed");
    }
}
