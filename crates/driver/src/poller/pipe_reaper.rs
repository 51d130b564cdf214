//! The pipe reaper: a thread that turns pollers which have named pipes to close and which nobody
//! else may turn, such as those of a current-thread runtime that is left alone, or of one that was
//! dropped while a write was under way.
//!
//! Only a poll shows that Windows has finished with a pipe, and a thread that waited in the poll would
//! keep the owner out. So the thread looks again and again, at longer and longer intervals. It
//! leaves a poller alone that another thread turns.
//!
//! E1. A poller is in the list, or with the thread, until its pipes are closed: it outlives its
//!     runtime.
//! E2. The thread ends under the lock, when the list is empty: the next poller starts another one.
//! E3. Turning or dropping a poller runs foreign code, and happens outside the lock.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::Poller;

/// The first interval. A cancelled operation has ended by then, unless the machine is very busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest interval, for writes whose peer does not read: some ten turns a second cost nothing
/// that could be measured, and the peer sees the end of the pipe this much late.
const LONGEST: Duration = Duration::from_millis(100);

/// How long the thread stays when it has nothing to do: starting another costs more than a pipe.
const LINGER: Duration = Duration::from_secs(1);

struct Watched {
    pollers: Vec<Arc<Poller>>,
    /// Whether a poller was added since the thread has looked.
    has_news: bool,
    has_thread: bool,
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
    watched.add(poller.clone());
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
    fn add(&mut self, poller: Arc<Poller>) {
        if !self.pollers.iter().any(|other| Arc::ptr_eq(other, &poller)) {
            self.pollers.push(poller);
        }
    }
}

fn run() {
    let mut interval = SHORTEST;
    loop {
        let mut pollers = {
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
        // An error is one of the port itself: nothing more comes from it.
        pollers.retain(|poller| poller.reap_pipes().is_ok_and(|left| left > 0));
        let mut watched = watched();
        for poller in pollers {
            watched.add(poller);
        }
    }
}
