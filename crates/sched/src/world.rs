//! What a scheduler needs of the outside world, said once.

use std::io;
use std::time::Duration;

use crate::monitor::Monitor;
use crate::scheduler::Relief;
use crate::worker::Worker;

/// Drivers, clock, randomness and threads, as a scheduler sees them.
///
/// Real time and a seeded simulation are two implementations of this; the
/// scheduler does not know which one it has.
pub trait World: Send + Sync + 'static {
    /// Fires the due timers and completions of a worker, waiting for them at
    /// most `max_wait`, or without end. Only the thread of that worker calls
    /// this. Returns at once if [`interrupt`](Self::interrupt) was called since
    /// the last turn that waited.
    fn turn(&self, worker: usize, max_wait: Option<Duration>);

    /// Like [`turn`](Self::turn), for a worker that has nothing to do. As long as
    /// the turn looks around before it sleeps, if it does, `is_over` is asked
    /// whether there is something after all.
    fn turn_until(&self, worker: usize, max_wait: Option<Duration>, is_over: &dyn Fn() -> bool) {
        let _ = is_over;
        self.turn(worker, max_wait);
    }

    /// Fires what is due on a worker that is stuck in a poll, without waiting.
    /// Any thread may call this.
    fn serve(&self, worker: usize);

    /// Makes the worker's turn that waits, or its next one, return at once.
    fn interrupt(&self, worker: usize);

    /// Nanoseconds since some moment in the past.
    fn now_ns(&self) -> u64;

    /// Where the random sequence of a worker begins.
    fn seed(&self, worker: usize) -> u64;

    /// Gives a worker a thread, which calls [`Worker::run`].
    fn start(&self, worker: Worker) -> io::Result<()>;

    /// Gives the monitor a thread, which calls [`Monitor::run`]. Where workers
    /// take turns on one thread, nobody needs watching.
    fn start_monitor(&self, _watchman: Monitor) -> io::Result<()> {
        Ok(())
    }

    /// A worker's thread does not come back from its errand: sends another one,
    /// which goes on with the worker if [`Relief::fill`] says so.
    fn relieve(&self, _vacancy: Relief) {}

    /// The worker is about to sleep, and may still be given work by this call.
    fn before_park(&self, _worker: usize) {}

    /// The worker has woken.
    fn after_unpark(&self, _worker: usize) {}

    /// The worker leaves for good; called by its thread, after its last task.
    fn left(&self, _worker: usize) {}

    /// A task panicked.
    fn task_panicked(&self) {}

    /// A worker that is run beside a future is between two polls: the place to
    /// panic if that is what the runtime does when a task has.
    fn between_polls(&self) {}
}
