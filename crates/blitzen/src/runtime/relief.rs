//! Threads that go on with a worker whose own thread blocks.
//!
//! A thread that has lost its worker, or comes to a worker whose thread is back,
//! waits for a while for the next worker that needs relief, as an idle M does in
//! Go. So code that blocks in place again and again starts no new threads.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use blitzen_sched::Relief;
use blitzen_util::park::{Parker, Wakeup};

/// How long a thread waits for work before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Threads that wait for a worker to relieve.
pub(crate) struct ReliefThreads {
    state: Mutex<ReliefState>,
    /// More than this do not wait.
    max_idle: usize,
}

struct ReliefState {
    idle: Vec<Arc<IdleReliefThread>>,
    is_closed: bool,
}

struct IdleReliefThread {
    relief: Mutex<Option<Relief>>,
    parker: Parker,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|error| error.into_inner())
}

impl ReliefThreads {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            state: Mutex::new(ReliefState {
                idle: Vec::new(),
                is_closed: false,
            }),
            max_idle: workers,
        }
    }

    /// Gives `relief` to a thread that waits; returns it if there is none.
    pub(crate) fn send(&self, relief: Relief) -> Result<(), Relief> {
        let Some(thread) = lock(&self.state).idle.pop() else {
            return Err(relief);
        };
        *lock(&thread.relief) = Some(relief);
        thread.parker.unpark();
        Ok(())
    }

    /// Waits on the calling thread for a worker to relieve; `None` if there is none
    /// for a while, or the runtime shuts down.
    pub(crate) fn wait(&self) -> Option<Relief> {
        let thread = Arc::new(IdleReliefThread {
            relief: Mutex::new(None),
            parker: Parker::new(),
        });
        {
            let mut state = lock(&self.state);
            if state.is_closed || state.idle.len() >= self.max_idle {
                return None;
            }
            state.idle.push(thread.clone());
        }
        if thread.parker.park_timeout(KEEP_ALIVE) == Wakeup::TimedOut {
            let mut state = lock(&self.state);
            if let Some(index) = state.idle.iter().position(|one| Arc::ptr_eq(one, &thread)) {
                state.idle.remove(index);
                return None;
            }
            drop(state);
            thread.parker.park(); // it was just taken: the token comes
        }
        lock(&thread.relief).take()
    }

    /// Ends the threads that wait, and those that would.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        for thread in idle {
            thread.parker.unpark();
        }
    }
}
