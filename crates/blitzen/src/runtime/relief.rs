//! Threads that go on with a worker whose own thread blocks.
//!
//! A thread that has lost its worker, or comes to a worker whose thread is back,
//! waits for a while for the next worker that needs relief, as an idle M does in
//! Go. So code that blocks in place again and again starts no new threads.
//!
//! L1. At most `max_threads` relief threads exist at a time, besides the threads that the
//!     workers were started on. So if that many threads block, the next worker whose thread
//!     blocks waits: for that thread, or for the first relief thread that is free. When the
//!     runtime shuts down, each worker that waits gets a thread of its own, on which it
//!     leaves at once: its own thread may be waiting for a timer or a socket of the worker,
//!     which nobody serves any more.
//!     A relief thread that has lost its worker again and has coroutines, which it runs until they
//!     have ended, is not counted meanwhile: they may live as long as the runtime. It is counted
//!     again afterwards, or ends if there are enough.
//! L2. Of the threads that wait, at most one for each worker stays, and only for the
//!     keep-alive.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use blitzen_sched::Relief;
use blitzen_util::park::{Parker, Wakeup};

/// The relief threads of a runtime.
pub(crate) struct ReliefThreads {
    state: Mutex<ReliefState>,
    max_threads: usize,
    /// How long a thread waits for work before it ends.
    keep_alive: Duration,
}

struct ReliefState {
    /// How many relief threads there are (L1).
    threads: usize,
    /// Threads that wait for a worker.
    idle: Vec<Arc<IdleReliefThread>>,
    /// For each worker: the relief that no thread was free for.
    waiting: Box<[Option<Relief>]>,
    is_closed: bool,
}

impl ReliefState {
    /// Notes that a thread ends.
    fn end(&mut self, kind: ReliefThreadKind) {
        match kind {
            ReliefThreadKind::Counted => self.threads -= 1,
            ReliefThreadKind::Worker => {}
        }
    }
}

struct IdleReliefThread {
    relief: Mutex<Option<Relief>>,
    parker: Parker,
}

/// Whether a thread that relieves workers counts as a relief thread (L1).
#[derive(Clone, Copy)]
pub(crate) enum ReliefThreadKind {
    /// A relief thread.
    Counted,
    /// A thread that a worker was started on, and that has lost it.
    Worker,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|error| error.into_inner())
}

impl ReliefThreads {
    pub(crate) fn new(workers: usize, max_threads: usize, keep_alive: Duration) -> Self {
        Self {
            state: Mutex::new(ReliefState {
                threads: 0,
                idle: Vec::new(),
                waiting: (0..workers).map(|_| None).collect(),
                is_closed: false,
            }),
            max_threads,
            keep_alive,
        }
    }

    /// Gives `relief` to a thread that waits for one, or, if there are too many already, to
    /// the first that is free. Otherwise returns it: a thread is to be started for it, which
    /// counts from now on, and calls [`wait`](Self::wait) until it gets `None`.
    pub(crate) fn send(&self, relief: Relief) -> Option<Relief> {
        let mut state = lock(&self.state);
        if let Some(thread) = state.idle.pop() {
            drop(state);
            *lock(&thread.relief) = Some(relief);
            thread.parker.unpark();
            return None;
        }
        if state.threads < self.max_threads || state.is_closed {
            state.threads += 1;
            return Some(relief);
        }
        // A relief that is no longer needed must not replace one that is.
        let outdated = match relief.is_needed() {
            true => state.waiting[relief.worker()].replace(relief),
            false => Some(relief),
        };
        drop(state);
        drop(outdated);
        None
    }

    /// The system has refused the thread that [`send`](Self::send) asked for.
    pub(crate) fn not_started(&self) {
        lock(&self.state).end(ReliefThreadKind::Counted);
    }

    /// Uncounts a relief thread that has coroutines to run and no worker (L1). Returns a relief that
    /// can have a thread now: it is to be sent again.
    pub(crate) fn uncount(&self) -> Option<Relief> {
        let mut state = lock(&self.state);
        state.end(ReliefThreadKind::Counted);
        state.waiting.iter_mut().find_map(Option::take)
    }

    /// Counts such a thread again; returns false if there are too many, and it has to end.
    #[must_use]
    pub(crate) fn recount(&self) -> bool {
        let mut state = lock(&self.state);
        let has_room = state.threads < self.max_threads;
        state.threads += usize::from(has_room);
        has_room
    }

    /// Waits on the calling thread for a worker to relieve; `None` if there is none
    /// for a while, or the runtime shuts down: then the thread ends.
    pub(crate) fn wait(&self, kind: ReliefThreadKind) -> Option<Relief> {
        let thread = Arc::new(IdleReliefThread {
            relief: Mutex::new(None),
            parker: Parker::new(),
        });
        {
            let mut state = lock(&self.state);
            if let Some(relief) = state.waiting.iter_mut().find_map(Option::take) {
                return Some(relief);
            }
            if state.is_closed || state.idle.len() >= state.waiting.len() {
                state.end(kind); // L2
                return None;
            }
            state.idle.push(thread.clone());
        }
        if thread.parker.park_timeout(self.keep_alive) == Wakeup::TimedOut {
            let mut state = lock(&self.state);
            if let Some(index) = state.idle.iter().position(|one| Arc::ptr_eq(one, &thread)) {
                state.idle.remove(index);
                state.end(kind);
                return None;
            }
            drop(state);
            thread.parker.park(); // it was just taken: the token comes
        }
        let relief = lock(&thread.relief).take();
        if relief.is_none() {
            lock(&self.state).end(kind); // the runtime shuts down
        }
        relief
    }

    /// Ends the threads that wait, and those that would. From now on no relief waits for a
    /// thread that is free.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let idle = std::mem::take(&mut state.idle);
        let waiting: Vec<_> = state.waiting.iter_mut().map(Option::take).collect();
        drop(state);
        for thread in idle {
            thread.parker.unpark();
        }
        drop(waiting); // after the lock: a relief keeps the scheduler in memory
    }
}
