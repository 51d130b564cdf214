//! Tasks that stay on the thread that polls them first: a queue of that thread, and an inbox
//! into which others put the tasks that they wake.
//!
//! A worker moves between threads, so a task that must not move cannot belong to a worker. It
//! belongs to the run loop of a thread, its *host*. Before its first poll it is a task like any
//! other, and may be stolen.
//!
//! ```text
//!   unpinned: ring, injection queue ──first poll──► pinned: queue of that thread
//! ```
//!
//! While the thread has a worker, the worker's loop takes tasks from both in turn. If the worker has
//! no other tasks than the newest one, pinned tasks and newest ones follow each other without going
//! back to that loop ([`Schedule::next_in_row`]). A thread that has lost its worker, or whose worker
//! has left, goes on with its own tasks until they have ended ([`ThreadHost::finish`]). A
//! current-thread scheduler has a thread for them that does nothing else ([`PinnedThread`]): its
//! driver may be another thread every time, which may end any time.
//!
//! P1. A pinned task is polled, cancelled and dropped by the thread of its queue only. The shutdown
//!     leaves it alone (`task/src/state.rs`, S6): threads with pinned tasks ask these to end.
//! P2. The thread looks into the [inbox](crate::inbox) before each wait, and whoever puts a task
//!     there ends the wait: by an interrupt of the worker that the thread has, or had, or by a
//!     waker. Both are kept for a thread that does not wait yet.
//! P3. The queue counts its pinned tasks that are not complete, and a host does not leave before
//!     there is none. So when its thread's locals are destroyed, no pinned task is left that could
//!     use them; and a task that is not complete may use its queue without counting references.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::marker::PhantomData;
use std::ptr::{self, null, null_mut};
use std::sync::{Arc, Weak};
use std::task::Waker;

use blitzen_task::{Header, IdleWait, OwnedTasks, Payload, RunOutcome, Runnable, Schedule};
use blitzen_util::coop;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicPtr, AtomicUsize};
use blitzen_util::thread_local_const;

use crate::context_depth::context_depth;
use crate::current;
use crate::inbox::Inbox;
use crate::scheduler::Scheduler;
use crate::task_queue::TaskQueue;
use crate::task_shard::TaskShardRef;
use crate::worker::{Worker, run_without_worker};

thread_local_const! {
    /// The innermost run loop of this thread that can have pinned tasks.
    static HOST: Cell<*const ThreadHost> = Cell::new(null());
    /// Its queue, once it has one.
    static QUEUE: Cell<*const ThreadQueue> = Cell::new(null());
}

/// The pinned tasks of one thread.
pub(crate) struct ThreadQueue {
    this: Weak<ThreadQueue>,
    scheduler: Arc<Scheduler>,
    /// How many runtimes the thread has entered when it polls a task in its run loop.
    depth: Cell<usize>,
    /// Reached by the thread only.
    local: UnsafeCell<TaskQueue>,
    /// Whether the last turn was this queue's, and the next one is that of the worker's own.
    was_last: Cell<bool>,
    inbox: Inbox<Runnable, Wakeup>,
    /// P3.
    pinned: PinnedCount,
}

// SAFETY: `local`, `was_last` and `depth` are reached by the queue's thread only; tasks may be sent.
unsafe impl Sync for ThreadQueue {}
// SAFETY: as above: whoever drops it last finds `local` empty (P3).
unsafe impl Send for ThreadQueue {}

/// What ends the wait of a queue's thread (P2).
#[derive(Clone)]
enum Wakeup {
    /// An interrupt of this worker.
    Worker(usize),
    Waker(Waker),
}

impl ThreadQueue {
    fn new(
        scheduler: Arc<Scheduler>,
        depth: usize,
        wakeup: Wakeup,
        pinned: PinnedCount,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            scheduler,
            depth: Cell::new(depth),
            local: UnsafeCell::new(TaskQueue::new()),
            was_last: Cell::new(false),
            inbox: Inbox::new(wakeup),
            pinned,
        })
    }

    /// Whether the calling thread runs this queue's host, and no other inside it.
    #[inline]
    fn is_here(&self) -> bool {
        QUEUE
            .try_with(Cell::get)
            .is_ok_and(|here| ptr::eq(here, self))
    }

    /// Queues a task.
    #[inline]
    fn push(&self, task: Runnable) {
        match self.is_here() {
            // SAFETY: this thread's own, and borrowed only for this call.
            true => unsafe { &mut *self.local.get() }.push(task),
            false => self.send(task),
        }
    }

    /// Queues a task from another thread.
    #[cold]
    fn send(&self, task: Runnable) {
        // The task may end, and its reference with it, as soon as it is in the inbox.
        let queue = self.to_arc();
        queue.end_wait(queue.inbox.push(task));
    }

    fn to_arc(&self) -> Arc<Self> {
        self.this
            .upgrade()
            .expect("who uses a queue keeps it alive")
    }

    /// Ends the wait of the thread.
    pub(crate) fn notify(&self) {
        self.end_wait(self.inbox.wakeup());
    }

    fn end_wait(&self, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Worker(worker) => self.scheduler.world().interrupt(worker),
            Wakeup::Waker(waker) => waker.wake(),
        }
    }

    /// Takes the oldest task.
    ///
    /// # Safety
    /// This is the queue's thread.
    #[inline]
    unsafe fn pop(&self) -> Option<Runnable> {
        // SAFETY: this thread's own, and borrowed only for this call.
        let local = unsafe { &mut *self.local.get() };
        self.inbox.take_all(|task| local.push(task));
        local.pop()
    }

    /// Takes the oldest task or the newest one of the thread's `worker`, in turn if there are both.
    ///
    /// # Safety
    /// This is the queue's thread.
    #[inline]
    unsafe fn pop_beside_newest(&self, worker: &Worker) -> Option<Runnable> {
        // SAFETY: this thread's.
        let is_newest_due = || self.was_last.get() || !unsafe { self.has_work() };
        let newest = match worker.has_newest() && is_newest_due() {
            true => worker.pop_newest(),
            false => None,
        };
        self.was_last.set(newest.is_none());
        // SAFETY: as above.
        newest.or_else(|| unsafe { self.pop() })
    }

    /// Whether the thread has something to run here.
    ///
    /// # Safety
    /// This is the queue's thread.
    #[inline]
    unsafe fn has_work(&self) -> bool {
        // SAFETY: this thread's own.
        let local = unsafe { &*self.local.get() };
        !local.is_empty() || self.inbox.has_items()
    }

    /// How many pinned tasks are not complete.
    pub(crate) fn pinned_tasks(&self) -> usize {
        self.pinned.get()
    }
}

/// How many pinned tasks of a thread are not complete (P3).
///
/// Relaxed everywhere: whoever uses the queue of a thread that may leave counts a reference to it,
/// and what tasks have done on other threads than theirs is ordered by their state words.
enum PinnedCount {
    /// Written by the thread only.
    Own(AtomicUsize),
    /// Other threads pin tasks to it, until it is [`CLOSED`](Self::CLOSED).
    Shared(AtomicUsize),
}

impl PinnedCount {
    const CLOSED: usize = usize::MAX;

    fn get(&self) -> usize {
        let (Self::Own(count) | Self::Shared(count)) = self;
        match count.load(Relaxed) {
            Self::CLOSED => 0,
            count => count,
        }
    }

    /// Counts a task; returns false if the thread takes none any more.
    #[inline]
    fn add(&self) -> bool {
        match self {
            Self::Own(count) => {
                count.store(count.load(Relaxed) + 1, Relaxed);
                true
            }
            Self::Shared(count) => {
                let one_more = |count| (count != Self::CLOSED).then(|| count + 1);
                count.fetch_update(Relaxed, Relaxed, one_more).is_ok()
            }
        }
    }

    /// Counts a task, which the thread itself pins, if no other does.
    #[inline]
    fn add_own(&self) -> bool {
        matches!(self, Self::Own(_)) && self.add()
    }

    /// Uncounts a task that is complete.
    #[inline]
    fn remove(&self) {
        match self {
            Self::Own(count) => count.store(count.load(Relaxed) - 1, Relaxed),
            Self::Shared(count) => {
                count.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Takes no more tasks if there is none; returns whether that is so.
    fn close_if_zero(&self) -> bool {
        match self {
            Self::Own(count) => count.load(Relaxed) == 0,
            Self::Shared(count) => count
                .compare_exchange(0, Self::CLOSED, Relaxed, Relaxed)
                .is_ok(),
        }
    }
}

/// The queue of the innermost host of this thread.
#[inline(always)]
fn here<'a>() -> Option<&'a ThreadQueue> {
    // SAFETY: a host outlives its loop, and clears the pointer when it leaves.
    unsafe { QUEUE.with(Cell::get).as_ref() }
}

/// The same, if it belongs to `scheduler`. A runtime that is driven in the middle of another one's
/// poll does not run that one's tasks.
#[inline(always)]
fn here_of<'a>(scheduler: &Arc<Scheduler>) -> Option<&'a ThreadQueue> {
    match here() {
        Some(queue) if Arc::ptr_eq(&queue.scheduler, scheduler) => Some(queue),
        _ => None,
    }
}

/// Whether the innermost host of this thread has pinned tasks, or has had some.
#[inline(always)]
pub(crate) fn is_here() -> bool {
    here().is_some()
}

/// Takes a pinned task of this thread and of `scheduler`, every second time that it is called: the
/// worker's own queue has its turn in between.
#[inline(always)]
pub(crate) fn pop_in_turn(scheduler: &Arc<Scheduler>) -> Option<Runnable> {
    let queue = here_of(scheduler)?;
    let is_turn = !queue.was_last.get();
    queue.was_last.set(is_turn);
    match is_turn {
        // SAFETY: this thread's.
        true => unsafe { queue.pop() },
        false => None,
    }
}

/// Takes a pinned task of this thread and of `scheduler`.
#[inline(always)]
pub(crate) fn pop(scheduler: &Arc<Scheduler>) -> Option<Runnable> {
    // SAFETY: this thread's.
    here_of(scheduler).and_then(|queue| unsafe { queue.pop() })
}

/// Whether the calling thread has pinned tasks.
pub(crate) fn has_tasks() -> bool {
    here().is_some_and(|queue| queue.pinned_tasks() > 0)
}

/// Whether a pinned task of this thread and of `scheduler` waits to run.
#[inline]
pub(crate) fn has_work(scheduler: &Arc<Scheduler>) -> bool {
    // SAFETY: this thread's.
    here_of(scheduler).is_some_and(|queue| unsafe { queue.has_work() })
}

/// A run loop that can have pinned tasks.
pub(crate) struct ThreadHost {
    scheduler: Arc<Scheduler>,
    worker: usize,
    depth: usize,
    queue: OnceCell<Arc<ThreadQueue>>,
}

impl ThreadHost {
    /// The host of a thread that runs a worker, and has entered `depth` runtimes when it polls a
    /// task.
    pub(crate) fn new(scheduler: Arc<Scheduler>, worker: usize, depth: usize) -> Self {
        Self {
            scheduler,
            worker,
            depth,
            queue: OnceCell::new(),
        }
    }

    /// Makes this the host of the calling thread until the guard is dropped.
    pub(crate) fn enter(&self) -> Hosting<'_> {
        let queue = self.queue.get().map_or(null(), Arc::as_ptr);
        Hosting {
            host: self,
            before: (
                HOST.with(|host| host.replace(self)),
                QUEUE.with(|here| here.replace(queue)),
            ),
        }
    }

    /// The host of the calling thread, if its worker polls a task of `scheduler`.
    fn of_poll<'a>(scheduler: &Arc<Scheduler>) -> Option<&'a Self> {
        // SAFETY: a host outlives its loop, and clears the pointer when it leaves; the caller
        // is in a poll of that loop.
        let host = unsafe { HOST.with(Cell::get).as_ref() }?;
        let has_worker = current::with_worker_of(scheduler, |worker| worker.is_some());
        (has_worker && Arc::ptr_eq(&host.scheduler, scheduler)).then_some(host)
    }

    /// The queue of this host, which is the calling thread's.
    fn queue(&self) -> &Arc<ThreadQueue> {
        self.queue.get_or_init(|| {
            let wakeup = Wakeup::Worker(self.worker);
            let pinned = PinnedCount::Own(AtomicUsize::new(0));
            let queue = ThreadQueue::new(self.scheduler.clone(), self.depth, wakeup, pinned);
            QUEUE.with(|here| here.set(Arc::as_ptr(&queue)));
            self.scheduler.thread_queues.lock().push(queue.clone());
            queue
        })
    }

    /// Runs the pinned tasks of this thread, which has no worker any more, until they have
    /// ended (P3). If the scheduler has closed, asks them to.
    pub(crate) fn finish(&self) {
        let Some(queue) = self.queue.get() else {
            return;
        };
        let world = self.scheduler.world();
        world.serve_pinned(&mut |waker, park| serve(queue, waker, park, || true));
        forget_queue(queue);
    }
}

/// Makes a host current; restores the one before on drop.
pub(crate) struct Hosting<'a> {
    host: &'a ThreadHost,
    before: (*const ThreadHost, *const ThreadQueue),
}

impl Hosting<'_> {
    pub(crate) fn finish(self) {
        self.host.finish();
    }
}

impl Drop for Hosting<'_> {
    fn drop(&mut self) {
        HOST.with(|host| host.set(self.before.0));
        QUEUE.with(|here| here.set(self.before.1));
    }
}

/// Runs the pinned tasks of the calling thread until there are none and `may_end` agrees. Waits
/// with `park`, which `waker` ends.
fn serve(
    queue: &Arc<ThreadQueue>,
    waker: Waker,
    park: &mut dyn FnMut(),
    may_end: impl Fn() -> bool,
) {
    queue.inbox.set_wakeup(Wakeup::Waker(waker)); // P2
    let scheduler = &queue.scheduler;
    let depth = context_depth();
    let mut is_aborted = false;
    loop {
        if scheduler.is_closed() {
            if !is_aborted {
                is_aborted = true;
                scheduler.for_each_list(OwnedTasks::close_unwinding); // P1
            }
            // Pinned tasks may wait for these. Futures that are not `Send` are left to their
            // own thread, which waits for this one.
            if !scheduler.config.is_local {
                scheduler.cancel_late();
            }
        }
        // SAFETY: this thread's.
        if let Some(task) = unsafe { queue.pop() } {
            run_without_worker(scheduler, task, depth);
        } else if may_end() && queue.pinned.close_if_zero() {
            return;
        } else {
            park();
        }
    }
}

/// Forgets a queue whose thread leaves. Queue and scheduler refer to each other until then.
fn forget_queue(queue: &Arc<ThreadQueue>) {
    let mut queues = queue.scheduler.thread_queues.lock();
    queues.retain(|one| !Arc::ptr_eq(one, queue));
}

/// A thread that runs the pinned tasks of a current-thread scheduler.
pub struct PinnedThread {
    scheduler: Arc<Scheduler>,
    queue: Arc<ThreadQueue>,
}

impl PinnedThread {
    /// Runs pinned tasks on the calling thread until the scheduler has closed and they have
    /// ended.
    pub fn run(self) {
        let Self { scheduler, queue } = self;
        let counted = scheduler.mark_thread();
        let host = ThreadHost::new(scheduler.clone(), 0, context_depth());
        queue.depth.set(context_depth());
        let _ = host.queue.set(queue.clone());
        let hosting = host.enter();
        scheduler.world().serve_pinned(&mut |waker, park| {
            serve(&queue, waker, park, || scheduler.is_closed());
        });
        drop(hosting);
        forget_queue(&queue);
        drop(counted);
        scheduler.leave();
    }
}

impl Scheduler {
    /// Whether the thread for the pinned tasks of a current-thread scheduler is yet to be
    /// started.
    #[inline]
    pub fn needs_pinned_thread(&self) -> bool {
        !self.has_threads() && self.pinned_thread.get().is_none()
    }

    /// Starts the thread for the pinned tasks of a current-thread scheduler, unless it has
    /// one, or has closed. Other schedulers need none.
    pub fn ensure_pinned_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let _starting = self.start.lock(); // starts before the shutdown, or never
        if !self.needs_pinned_thread() || self.is_closed() {
            return Ok(());
        }
        let wakeup = Wakeup::Waker(Waker::noop().clone());
        let pinned = PinnedCount::Shared(AtomicUsize::new(0));
        let queue = ThreadQueue::new(self.clone(), 0, wakeup, pinned);
        self.join();
        let thread = PinnedThread {
            scheduler: self.clone(),
            queue: queue.clone(),
        };
        if let Err(error) = self.world().start_pinned(thread) {
            self.presence.undo_join();
            return Err(error);
        }
        self.thread_queues.lock().push(queue.clone());
        let _ = self.pinned_thread.set(Arc::downgrade(&queue));
        Ok(())
    }

    /// Ends the waits of all threads that have pinned tasks, since the scheduler has closed.
    pub(crate) fn notify_pinned(&self) {
        let queues = self.thread_queues.lock().clone();
        queues.iter().for_each(|queue| queue.notify());
    }
}

/// The scheduler of a task that is pinned with its first poll.
pub(crate) struct PinnedSchedule {
    shard: TaskShardRef,
    /// Null until the thread that polls the task first sets it. From then on it leads to the queue
    /// until the task is complete (P3).
    queue: AtomicPtr<ThreadQueue>,
}

impl PinnedSchedule {
    pub(crate) fn new(shard: TaskShardRef) -> Self {
        Self {
            shard,
            queue: AtomicPtr::new(null_mut()),
        }
    }

    /// The queue that the task is pinned to. For code that keeps the task from being completed by
    /// others.
    #[inline]
    fn queue(&self) -> Option<&ThreadQueue> {
        // Acquire, met by the Release in `set_queue`.
        // SAFETY: the task is not complete, so the queue has counted it, and is there (P3).
        unsafe { self.queue.load(Acquire).as_ref() }
    }

    /// Sets the queue, which has counted the task. For the thread that polls the task first.
    #[inline]
    fn set_queue(&self, queue: &ThreadQueue) {
        // Release, met by the Acquire in `queue`. Nobody else stores: one thread polls the task.
        self.queue.store(ptr::from_ref(queue).cast_mut(), Release);
    }
}

impl Schedule for PinnedSchedule {
    #[inline]
    fn schedule(&self, task: Runnable) {
        match self.queue() {
            Some(queue) => queue.push(task),
            None => self.shard.schedule(task),
        }
    }

    #[inline]
    fn release(&self, task: &Header) {
        self.shard.release(task);
        match self.queue() {
            Some(queue) if queue.is_here() => queue.pinned.remove(),
            Some(queue) => release_elsewhere(queue),
            None => {} // never pinned
        }
    }

    fn panicked(&self, payload: &mut Payload) {
        self.shard.panicked(payload);
    }

    #[inline]
    fn may_poll_here(&self, task: &Header) -> bool {
        match self.queue() {
            Some(queue) => {
                debug_assert!(queue.is_here(), "P1");
                true
            }
            None => self.pin_here() || self.pin(task),
        }
    }

    #[inline]
    fn requeue(&self, task: Runnable, _yielded: bool) -> RunOutcome {
        self.schedule(task);
        RunOutcome::Idle(IdleWait::NONE)
    }

    const UNWINDS: bool = true;
    const HAS_ROWS: bool = true;

    #[inline]
    fn next_in_row(ended: &RunOutcome) -> Option<Runnable> {
        let queue = here()?;
        if context_depth() != queue.depth.get() {
            return None;
        }
        let is_complete = match ended {
            RunOutcome::Complete => true,
            RunOutcome::Idle(_) => false,
            RunOutcome::Woken(_) | RunOutcome::Yielded(_) => return None,
        };
        current::with_worker_of(&queue.scheduler, |worker| {
            let worker = worker.filter(|worker| worker.may_poll_in_row())?;
            // SAFETY: this thread's.
            let task = unsafe { queue.pop_beside_newest(worker) }?;
            coop::start(); // each poll has a budget of its own
            Some(worker.begin_poll_in_row(task, is_complete))
        })
    }
}

/// Uncounts a task that has ended on another thread than that of its queue: it was cancelled when it
/// was pinned.
#[cold]
fn release_elsewhere(queue: &ThreadQueue) {
    let queue = queue.to_arc(); // its thread may leave as soon as nothing is counted
    queue.pinned.remove();
    queue.notify(); // it may wait for the last one
}

impl PinnedSchedule {
    /// Pins a task, which is being polled for the first time, to this thread, if the worker of its
    /// scheduler polls it here and pinned tasks are nothing new to it; returns whether it did.
    #[inline]
    fn pin_here(&self) -> bool {
        let scheduler = self.shard.scheduler();
        let Some(queue) = here_of(scheduler).filter(|_| !scheduler.is_closed()) else {
            return false;
        };
        let has_worker = current::with_worker_of(scheduler, |worker| worker.is_some());
        let is_pinned = has_worker && queue.pinned.add_own();
        if is_pinned {
            self.set_queue(queue);
        }
        is_pinned
    }

    /// Pins a task, which is being polled for the first time; returns whether to this thread.
    #[cold]
    fn pin(&self, task: &Header) -> bool {
        let scheduler = self.shard.scheduler();
        let host = ThreadHost::of_poll(scheduler);
        if host.is_none() && scheduler.has_threads() {
            task.stop_unwinding_itself();
            scheduler.rescue.refuse_poll(); // left to a worker
            return false;
        }
        let pinned_thread;
        let queue: Option<&ThreadQueue> = match host {
            Some(host) => Some(host.queue()),
            None => match scheduler.pinned_thread.get() {
                Some(queue) => {
                    pinned_thread = queue.upgrade();
                    pinned_thread.as_deref()
                }
                None => unreachable!("whoever spawns such tasks starts their thread"),
            },
        };
        let Some(queue) = queue.filter(|queue| queue.pinned.add()) else {
            task.close_running(); // the scheduler has closed, and the thread has left
            return false;
        };
        // Another thread may have asked its tasks to end already (`serve`). The list's lock orders
        // the two: if it has not seen that this one unwinds, it has seen the close, and so does
        // this.
        if host.is_none() {
            self.shard.shard().owned.follow_visits();
        }
        if scheduler.is_closed() {
            task.close_running();
        }
        self.set_queue(queue);
        host.is_some()
    }
}

/// Has the pinned task that the calling thread polls go on at once, as if it had yielded and were
/// polled again, if nothing else waits to run on its worker; returns whether it does. The caller
/// looks for a cancellation first.
#[inline]
pub fn yield_in_place() -> bool {
    let goes_on = current::with_worker(|worker| worker.is_some_and(Worker::renew_poll));
    if goes_on && !coop::is_unconstrained() {
        coop::start(); // the next poll has a budget of its own
    }
    goes_on
}

/// Makes the runtime of the pinned task that the calling thread polls the current one, and notes
/// that the thread has entered `depth` runtimes.
pub fn restore_pinned_context(depth: usize) {
    if let Some(queue) = here() {
        queue.scheduler.world().restore_context(depth);
    }
}

/// Whether the calling thread has entered `depth` runtimes when its run loop polls pinned tasks.
pub fn is_pinned_depth(depth: usize) -> bool {
    here().is_some_and(|queue| queue.depth.get() == depth)
}

/// Lets the calling thread run its pinned tasks while it blocks: what it waits for may depend
/// on them.
pub struct ServeWhileBlocked {
    queue: Arc<ThreadQueue>,
    before: Option<Wakeup>,
    /// The queue is this thread's.
    not_send: PhantomData<*const ()>,
}

impl ServeWhileBlocked {
    /// Begins to, if the thread has pinned tasks and no worker. A task that is woken calls
    /// `waker`. Not while the thread panics: other tasks would take that for their own.
    pub fn begin(waker: &Waker) -> Option<Self> {
        let queue = here()?;
        let has_worker = current::with_worker(|worker| worker.is_some());
        if has_worker || std::thread::panicking() || queue.pinned_tasks() == 0 {
            return None;
        }
        let queue = queue.to_arc();
        let before = Some(queue.inbox.set_wakeup(Wakeup::Waker(waker.clone())));
        Some(Self {
            queue,
            before,
            not_send: PhantomData,
        })
    }

    /// Runs one task, if one is woken, inside its runtime.
    pub fn run_one(&self) -> bool {
        // Foreign code in between runs another host of this thread.
        if !self.queue.is_here() {
            return false;
        }
        // SAFETY: this thread's: `begin` was called here, and `self` is not `Send`.
        let mut task = unsafe { self.queue.pop() };
        let has_task = task.is_some();
        if has_task {
            self.queue.scheduler.world().run_inside(&mut || {
                if let Some(task) = task.take() {
                    run_without_worker(&self.queue.scheduler, task, context_depth());
                }
            });
        }
        has_task
    }
}

impl Drop for ServeWhileBlocked {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.queue.inbox.set_wakeup(before);
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::scheduler::Config;
    use crate::testing::StillWorld;
    use blitzen_task::glue::next_id;
    use blitzen_task::{JoinHandle, SpawnMeta};
    use std::future::pending;
    use std::sync::atomic::AtomicUsize as Count;
    use std::task::Wake;

    fn scheduler() -> Arc<Scheduler> {
        Scheduler::new(Config::new(1), Box::new(StillWorld::default()))
    }

    /// A task that is pinned with its first poll, and holds `held`.
    fn new_task_of<S: Schedule>(
        scheduler: &Scheduler,
        schedule: impl FnOnce(TaskShardRef) -> S,
        held: Arc<()>,
    ) -> (Runnable, JoinHandle<()>) {
        let shard = &scheduler.task_shards[0];
        let schedule = schedule(shard.reference().unwrap());
        let future = async move {
            let _held = held;
            pending().await
        };
        let (task, handle) = blitzen_task::spawn(future, schedule, next_id(), SpawnMeta::caller());
        // SAFETY: new, and its scheduler removes it.
        unsafe { shard.owned.insert(&task) }.unwrap();
        (task, handle)
    }

    #[test]
    fn a_task_that_a_thread_without_a_worker_refuses_to_poll_is_cancelled_as_one_that_never_ran() {
        let (scheduler, held) = (scheduler(), Arc::new(()));
        let (task, handle) = new_task_of(&scheduler, PinnedSchedule::new, held.clone());
        assert!(
            matches!(task.run(), RunOutcome::Idle(_)),
            "it is queued again"
        );
        let mut queued = 0;
        scheduler.inject.fetch(&Cell::new(0), 2, |task| {
            queued += 1;
            task.forget(); // as a scheduler that has closed does
        });
        assert_eq!(queued, 1);
        // SAFETY: its only runnable was forgotten.
        scheduler.for_each_list(|list| unsafe { list.cancel_all() });
        assert_eq!(Arc::strong_count(&held), 1, "its future is dropped");
        assert!(handle.is_finished());
        scheduler.close();
    }

    #[derive(Default)]
    struct Woken(Count);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A queue whose thread waits, and is woken by `woken`.
    fn waiting_queue(scheduler: &Arc<Scheduler>, woken: &Arc<Woken>) -> Arc<ThreadQueue> {
        let wakeup = Wakeup::Waker(woken.clone().into());
        let pinned = PinnedCount::Shared(AtomicUsize::new(0));
        ThreadQueue::new(scheduler.clone(), 0, wakeup, pinned)
    }

    #[test]
    fn a_thread_that_waits_for_its_last_task_is_told_when_that_ends_elsewhere() {
        let (scheduler, woken) = (scheduler(), Arc::new(Woken::default()));
        let queue = waiting_queue(&scheduler, &woken);
        assert!(queue.pinned.add());
        assert!(!queue.pinned.close_if_zero(), "it would wait");
        release_elsewhere(&queue);
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(queue.pinned.close_if_zero(), "and now it leaves");
        scheduler.close();
    }

    /// Closes the scheduler between the start of the first poll and the choice of a thread.
    struct ClosedMeanwhile(PinnedSchedule);

    impl Schedule for ClosedMeanwhile {
        fn schedule(&self, task: Runnable) {
            self.0.schedule(task);
        }

        fn release(&self, task: &Header) {
            self.0.release(task);
        }

        fn may_poll_here(&self, task: &Header) -> bool {
            self.0.shard.scheduler().close();
            self.0.may_poll_here(task)
        }

        fn requeue(&self, task: Runnable, yielded: bool) -> RunOutcome {
            self.0.requeue(task, yielded)
        }

        const UNWINDS: bool = true;
    }

    #[test]
    fn a_task_that_is_to_go_to_another_thread_as_the_scheduler_closes_is_cancelled() {
        let world = Box::new(StillWorld::default());
        let (scheduler, worker) = Scheduler::new_current_thread(Config::new(1), world);
        let (woken, held) = (Arc::new(Woken::default()), Arc::new(()));
        let queue = waiting_queue(&scheduler, &woken);
        scheduler.pinned_thread.set(Arc::downgrade(&queue)).unwrap();
        let schedule = |shard| ClosedMeanwhile(PinnedSchedule::new(shard));
        let (task, handle) = new_task_of(&scheduler, schedule, held.clone());
        assert!(matches!(task.run(), RunOutcome::Complete));
        assert_eq!(Arc::strong_count(&held), 1, "its future is dropped");
        assert!(handle.is_finished());
        assert!(woken.0.load(Relaxed) > 0);
        assert!(queue.pinned.close_if_zero(), "its thread leaves");
        crate::CoreGuard::enter(worker).close();
    }
}
