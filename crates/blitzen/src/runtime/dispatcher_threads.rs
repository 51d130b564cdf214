//! The threads of a dispatcher that has some of its own: a scheduler without drivers, inside
//! the runtime.
//!
//! Its tasks are those of the runtime's scheduler. Their timers and sockets are served by the
//! runtime's workers. The runtime's shutdown waits until all of its threads have left, and the
//! thread that has closed it.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blitzen_sched::{
    Config, DispatcherCore, Monitor, Present, Scheduler, TaskInfo, Worker, World, count_thread,
    end_blocking,
};
use blitzen_task::Runnable;
use blitzen_util::entered;

use super::Budget;
use super::affinity::{self, Core};
use super::block_on_parker::BlockOnParker;
use super::context;
use super::inner::Inner;
use super::task_hooks;
use super::world::RealWorld;

/// The first number for the seeds of such threads: the runtime's workers have lower ones.
const FIRST_SEED: u64 = 1 << 32;

/// What a dispatcher with threads of its own is built from.
pub(crate) struct DispatcherThreads {
    pub(crate) threads: usize,
    pub(crate) name: Option<String>,
    /// The cores of the threads, in turn; any if there are none.
    pub(crate) cores: Vec<Core>,
    pub(crate) budget: Option<Budget>,
}

/// Starts the threads, and makes the dispatcher.
pub(crate) fn start_dispatcher_threads(
    runtime: &Inner,
    options: DispatcherThreads,
) -> io::Result<Arc<DispatcherCore>> {
    let world = runtime.world();
    let mut config = Config::new(options.threads);
    config.budget = options.budget.unwrap_or(runtime.scheduler().budget());
    config.observe.hooks = runtime.scheduler().observes_polls();
    let name = options.name.clone();
    let present = runtime.scheduler().try_join();
    let present = present.ok_or_else(|| io::Error::other("the runtime was shut down"))?;
    let workers = Scheduler::new(
        config,
        Box::new(ThreadsWorld {
            world: world.clone(),
            scheduler: runtime.scheduler().clone(),
            present: Mutex::new(Some(present)),
            parkers: (0..options.threads)
                .map(|_| Arc::new(BlockOnParker::new()))
                .collect(),
            next_name: AtomicUsize::new(0),
            options,
        }),
    );
    let started = DispatcherCore::threads(runtime.scheduler(), name, workers.clone())
        .map_err(io::Error::other)
        .and_then(|core| workers.start().map(|()| core));
    if started.is_err() {
        workers.close(); // no thread is left behind
    }
    started
}

/// The world of such threads.
struct ThreadsWorld {
    world: Arc<RealWorld>,
    /// The scheduler of the runtime.
    scheduler: Arc<Scheduler>,
    /// Until all threads have left, the runtime's shutdown waits.
    present: Mutex<Option<Present>>,
    parkers: Box<[Arc<BlockOnParker>]>,
    next_name: AtomicUsize,
    options: DispatcherThreads,
}

impl World for ThreadsWorld {
    fn turn(&self, worker: usize, max_wait: Option<Duration>) {
        if max_wait != Some(Duration::ZERO) {
            self.parkers[worker].park_at_most(&self.world, max_wait);
        }
    }

    fn serve(&self, _: usize) {}

    fn interrupt(&self, worker: usize) {
        self.parkers[worker].unpark();
    }

    fn now_ns(&self) -> u64 {
        self.world.elapsed_ns()
    }

    fn seed(&self, worker: usize) -> u64 {
        self.world.derive_seed(FIRST_SEED + worker as u64)
    }

    fn thread_name(&self) -> Option<String> {
        let number = self.next_name.fetch_add(1, Relaxed);
        let name = self.options.name.as_deref().unwrap_or("blitzen-dispatcher");
        let name = match self.options.threads {
            1 => name.to_owned(),
            _ => format!("{name}-{number}"),
        };
        (!name.contains('\0')).then_some(name) // std panics for such a name
    }

    fn start(&self, worker: Worker, name: Option<String>) -> io::Result<()> {
        let (world, scheduler) = (self.world.clone(), self.scheduler.clone());
        let parker = self.parkers[worker.index()].clone();
        let cores = &self.options.cores;
        let core = (!cores.is_empty()).then(|| cores[worker.index() % cores.len()]);
        let mark = {
            let scheduler = scheduler.clone();
            move || Some(scheduler.mark_thread())
        };
        // Until the thread counts itself: a paused clock waits for it.
        self.world.quiescence().begin_blocking();
        let started = self.world.start_inside(name, mark, move || {
            let mark = scheduler.mark_thread();
            if let Some(core) = core {
                affinity::pin_thread(core);
            }
            let _counted = count_thread(&*world, parker);
            end_blocking(&*world);
            let _deferring = context::defer_here();
            let _entered = entered::enter();
            worker.run();
            drop(mark); // the shutdown does not wait for what follows
        });
        match started {
            Ok(thread) => {
                self.world.keep_thread(thread);
                Ok(())
            }
            Err(error) => {
                end_blocking(&*self.world);
                Err(error)
            }
        }
    }

    fn start_monitor(&self, monitor: Monitor) -> io::Result<()> {
        self.world.start_monitor(monitor)
    }

    fn restore_context(&self, depth: usize) {
        self.world.restore_context(depth);
    }

    fn stopped(&self) {
        let present = self.present.lock();
        let mut present = present.unwrap_or_else(PoisonError::into_inner).take();
        // Futures may be dropped with it.
        let mut leave = || drop(present.take());
        self.scheduler.world().run_inside(&mut leave);
    }

    fn discard(&self, task: Runnable) {
        self.scheduler.schedule(task);
    }

    fn refuse(&self, task: Runnable) -> Option<Runnable> {
        self.scheduler.schedule(task);
        None
    }

    fn before_poll(&self, task: &TaskInfo) {
        task_hooks::call(&self.world.task_hooks().before_poll, task);
    }

    fn after_poll(&self, task: &TaskInfo) {
        task_hooks::call(&self.world.task_hooks().after_poll, task);
    }
}
