//! What a runtime is made of.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Instant;

use blitzen_sched::{CoreSlot, DispatcherCore, Pool, RouteError, Scheduler, Worker};
use blitzen_task::{Id as TaskId, SpawnMeta, span};

#[cfg(unix)]
use super::console::Console;
#[cfg(unix)]
use super::dump::DumpOnSignal;
use super::id::Id;
use super::lint::Observer;
use super::shutdown::ShutdownWait;
use super::trace::TraceRequest;
use super::trace_writer::TraceWriter;
use super::world::RealWorld;
use crate::task::JoinHandle;

/// Tasks that the dispatcher for blocking code lets run at once, if there are not more cores.
const MIN_IO_LIMIT: usize = 64;

/// Who runs the tasks.
pub(crate) enum Flavor {
    /// The caller of `block_on`.
    CurrentThread(CoreSlot<Box<Worker>>),
    /// Threads of the runtime.
    MultiThread,
}

/// The parts of a runtime, shared by all its handles.
pub(crate) struct Inner {
    id: Id,
    name: Option<String>,
    flavor: Flavor,
    scheduler: Arc<Scheduler>,
    pool: Arc<Pool>,
    world: Arc<RealWorld>,
    /// Whether a hook is called for each new task.
    has_spawn_hook: bool,
    /// The dispatcher for tasks that may block; made when it is first asked for.
    io_dispatcher: OnceLock<Arc<DispatcherCore>>,
    /// The thread that it never leaves, and on which `spawn_local` may be called.
    local_thread: Option<ThreadId>,
    /// What writes the recorded events to a file or to standard error, if that was asked for.
    trace_writers: OnceLock<Vec<TraceWriter>>,
    /// The threads that look at it from outside, if they were asked for.
    pub(super) observers: Observers,
}

/// The threads that look at a runtime from outside; set right after it was made.
#[derive(Default)]
pub(crate) struct Observers {
    pub(super) lints: OnceLock<Observer>,
    #[cfg(unix)]
    pub(super) dump_on_signal: OnceLock<DumpOnSignal>,
    #[cfg(unix)]
    pub(super) console: OnceLock<Console>,
}

impl Observers {
    /// Ends them, and waits for that as far as `wait` allows and they call no foreign code.
    pub(super) fn stop(&self, wait: ShutdownWait) {
        if let Some(observer) = self.lints.get() {
            observer.stop(wait);
        }
        #[cfg(unix)]
        if let Some(dump) = self.dump_on_signal.get() {
            dump.stop();
        }
        #[cfg(unix)]
        if let Some(console) = self.console.get() {
            console.stop();
        }
    }
}

impl Inner {
    pub(crate) fn new(
        name: Option<String>,
        flavor: Flavor,
        scheduler: Arc<Scheduler>,
        pool: Arc<Pool>,
        world: Arc<RealWorld>,
        local_thread: Option<ThreadId>,
    ) -> Arc<Self> {
        let inner = Arc::new(Self {
            id: Id::next(),
            has_spawn_hook: world.task_hooks().on_spawn.is_some(),
            name,
            flavor,
            scheduler,
            pool,
            world,
            io_dispatcher: OnceLock::new(),
            local_thread,
            observers: Observers::default(),
            trace_writers: OnceLock::new(),
        });
        inner.world.set_runtime(&inner);
        inner
    }

    /// Writes what is recorded to where `request` says, from now on.
    pub(super) fn start_trace_writers(&self, request: &TraceRequest) {
        let file = request.file.as_deref();
        let file = file.and_then(|path| TraceWriter::to_file(self, path));
        let log = match request.has_log {
            true => TraceWriter::to_stderr(self),
            false => None,
        };
        let _ = self
            .trace_writers
            .set(file.into_iter().chain(log).collect());
    }

    /// Writes what is left.
    pub(super) fn finish_trace_writers(&self, deadline: Option<Instant>) {
        for writer in self.trace_writers.get().into_iter().flatten() {
            writer.finish(deadline);
        }
    }

    pub(crate) fn id(&self) -> Id {
        self.id
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn flavor(&self) -> &Flavor {
        &self.flavor
    }

    pub(crate) fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn world(&self) -> &Arc<RealWorld> {
        &self.world
    }

    /// The dispatcher for tasks that may block.
    pub(crate) fn io_dispatcher(&self) -> Result<Arc<DispatcherCore>, RouteError> {
        if let Some(core) = self.io_dispatcher.get() {
            return Ok(core.clone());
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let limit = cores.max(MIN_IO_LIMIT);
        let core = DispatcherCore::elastic(&self.scheduler, "io", limit)?;
        Ok(self.io_dispatcher.get_or_init(|| core).clone())
    }

    /// Whether `core` is the dispatcher for tasks that may block, which all code of the runtime
    /// shares.
    pub(crate) fn is_io_dispatcher(&self, core: &Arc<DispatcherCore>) -> bool {
        let io = self.io_dispatcher.get();
        io.is_some_and(|io| Arc::ptr_eq(io, core))
    }

    /// Whether it is a local runtime.
    pub(crate) fn is_local(&self) -> bool {
        self.local_thread.is_some()
    }

    /// Whether this thread is the one that a local runtime stays on.
    pub(crate) fn is_local_here(&self) -> bool {
        self.local_thread == Some(thread::current().id())
    }

    /// Whether foreign code is called for each new task: a hook, or the subscriber to its span.
    #[inline]
    pub(crate) fn has_spawn_hook(&self) -> bool {
        self.has_spawn_hook || span::ENABLED
    }

    /// Calls the hook for a new task, if there is one, and adds the task's span to `meta`.
    #[inline]
    pub(crate) fn announce<F>(&self, kind: &'static str, id: TaskId, meta: SpawnMeta) -> SpawnMeta {
        if self.has_spawn_hook {
            self.world.task_hooks().spawned(id, &meta);
        }
        meta.with_task_span::<F>(kind, id)
    }

    /// Spawns a task.
    #[inline]
    pub(crate) fn spawn<F>(&self, future: F, id: TaskId, meta: SpawnMeta) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let meta = self.announce::<F>("task", id, meta);
        let (handle, refused) = self.scheduler.spawn(future, id, meta);
        drop(refused); // which cancels it
        handle
    }

    /// Spawns a task whose future need not be `Send`.
    ///
    /// # Safety
    /// [`is_local_here`](Self::is_local_here).
    pub(crate) unsafe fn spawn_local<F>(
        &self,
        future: F,
        id: TaskId,
        meta: SpawnMeta,
    ) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let meta = self.announce::<F>("local", id, meta);
        // SAFETY: a local runtime is driven, closed and dropped on this thread.
        let (handle, refused) = unsafe { self.scheduler.spawn_unchecked(future, id, meta) };
        drop(refused); // which cancels it
        handle
    }
}
