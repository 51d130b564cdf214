//! What a scheduler needs of the outside world, in one trait.

use std::io;
use std::panic::Location;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use blitzen_task::{Header, Id, Runnable};
use blitzen_util::park::Parker;

use crate::blocking_section::Relief;
use crate::monitor::Monitor;
use crate::thread_queue::PinnedThread;
use crate::worker::Worker;

/// What identifies a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskInfo {
    /// Its id.
    pub id: Id,
    /// The line that spawned it.
    pub spawned_at: &'static Location<'static>,
    /// How long it has waited for the poll that begins, if that is measured.
    pub schedule_delay: Option<Duration>,
}

impl TaskInfo {
    pub(crate) fn new(task: &Header) -> Self {
        Self {
            id: task.id(),
            spawned_at: task.spawn_meta().location(),
            schedule_delay: None,
        }
    }
}

/// Drivers, clock, randomness and threads, as a scheduler sees them.
///
/// Real time and a seeded simulation are two implementations of this; the
/// scheduler does not know which one it has.
pub trait World: Send + Sync + 'static {
    /// Turns the drivers of a worker: fires its due timers and completions, waiting
    /// for them at most `max_wait`, or without a timeout. Only the thread of that
    /// worker calls this. Returns at once if [`interrupt`](Self::interrupt) was
    /// called since the last turn that waited.
    fn turn(&self, worker: usize, max_wait: Option<Duration>);

    /// Like [`turn`](Self::turn), for a worker that has nothing to do. If the
    /// drivers spin before they sleep, `end_spin` is called again and again, and
    /// ends the spinning, and the turn, by returning true.
    fn turn_until(&self, worker: usize, max_wait: Option<Duration>, end_spin: &dyn Fn() -> bool) {
        let _ = end_spin;
        self.turn(worker, max_wait);
    }

    /// Fires what is due on a worker that is stuck in a poll, without waiting: neither for
    /// events, nor for a thread that fires the same. Any thread may call this.
    fn serve(&self, worker: usize);

    /// Ends the turn that the worker waits in, or its next one.
    fn interrupt(&self, worker: usize);

    /// Returns the nanoseconds since some moment in the past.
    fn now_ns(&self) -> u64;

    /// Returns whether the processor has a counter that is as steady as [`now_ns`](Self::now_ns).
    fn has_steady_counter(&self) -> bool {
        false
    }

    /// Returns how often the calling thread, a worker's, had to leave its processor to another
    /// thread although it wanted to go on; zero where that is unknown.
    fn preemptions(&self) -> u64 {
        0
    }

    /// Returns the seed of a worker's random sequence.
    fn seed(&self, worker: usize) -> u64;

    /// Returns a name for a worker's thread, which may come from a user's function:
    /// no lock is held meanwhile.
    fn thread_name(&self) -> Option<String> {
        None
    }

    /// Starts a thread for a worker, which calls [`Worker::run`]. Calls no foreign
    /// code.
    fn start(&self, worker: Worker, thread_name: Option<String>) -> io::Result<()>;

    /// Starts a thread for the monitor, which calls [`Monitor::run`]; also for one
    /// that goes on as the monitor while another calls foreign code. Where workers
    /// take turns on one thread there is nothing to monitor.
    fn start_monitor(&self, _monitor: Monitor) -> io::Result<()> {
        Ok(())
    }

    /// Starts a thread for the pinned tasks of a current-thread scheduler, which calls
    /// [`PinnedThread::run`]. Calls no foreign code.
    fn start_pinned(&self, _thread: PinnedThread) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Calls `serve`, which runs the pinned tasks of the calling thread. The thread has no worker,
    /// and waits by the second argument until the first one is woken.
    fn serve_pinned(&self, serve: &mut dyn FnMut(Waker, &mut dyn FnMut())) {
        let parker = Arc::new(Parker::new());
        serve(Waker::from(parker.clone()), &mut || parker.park());
    }

    /// Has another thread call [`Relief::run`]. If there is none, the worker waits
    /// for its own thread.
    fn relieve(&self, _relief: Relief) {}

    /// Called by a thread that has lost its worker to a relief thread, and will end.
    fn handed_off(&self) {}

    /// Makes the scheduler's runtime the current one of the calling thread, a worker's
    /// or the monitor's, and notes that the thread has entered `depth` runtimes.
    fn restore_context(&self, depth: usize) {
        crate::set_context_depth(depth);
    }

    /// Calls `run`, which polls tasks, inside the scheduler's runtime, and then makes the one
    /// before current again. The thread may be outside of it.
    fn run_inside(&self, run: &mut dyn FnMut()) {
        run();
    }

    /// Called by a thread that begins to run a worker. Calls no foreign code.
    fn note_thread(&self) {}

    /// Called when the worker is about to park. May still queue work for it. Returns for how long
    /// the worker may sleep, if not until there is work: then it parks again.
    fn before_park(&self, _worker: usize) -> Option<Duration> {
        None
    }

    /// Called when the worker was unparked.
    fn after_unpark(&self, _worker: usize) {}

    /// Called by the worker's thread after its last task, when the worker leaves.
    fn left(&self, _worker: usize) {}

    /// Called when the last thread has left, after the shutdown.
    fn stopped(&self) {}

    /// Takes a task that is queued when the scheduler shuts down. Dropping it cancels it.
    fn discard(&self, task: Runnable) {
        drop(task);
    }

    /// Takes a task that is woken after the shutdown has begun; or returns it, and the scheduler
    /// cancels it.
    fn refuse(&self, task: Runnable) -> Option<Runnable> {
        Some(task)
    }

    /// Has a thread of the blocking pool call `job`, which polls tasks.
    fn run_on_pool(&self, job: Box<dyn FnOnce() + Send>) {
        drop(job);
    }

    /// Notes that another executor was given a task to poll.
    fn begin_external(&self) {}

    /// Notes that another executor has polled a task, or has dropped it.
    fn end_external(&self) {}

    /// Called before a task is polled, if [`ObserveConfig::hooks`](crate::ObserveConfig) is set.
    fn before_poll(&self, _task: &TaskInfo) {}

    /// Called after that poll.
    fn after_poll(&self, _task: &TaskInfo) {}

    /// Called when a task has ended, if [`Config::observe_ends`](crate::Config) is set.
    fn task_ended(&self, _task: &TaskInfo) {}

    /// Called when a task has panicked. Returns whether the scheduler is to refuse tasks from
    /// now on.
    fn task_panicked(&self) -> bool {
        false
    }

    /// Called by the worker of a current-thread scheduler between two polls. A
    /// runtime that is to panic when a task has panicked does so here.
    fn between_polls(&self) {}
}
