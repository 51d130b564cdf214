//! The shutdown of a scheduler.
//!
//! X1. The injection queue and the lists of live tasks close: tasks that were queued are
//!     cancelled, tasks that are woken from now on are late ([`LateTasks`]), and new tasks are
//!     refused.
//! X2. Each worker, when it notices, cancels what is in its own queue and every
//!     task that waits to be woken, and leaves.
//! X3. When the last one leaves, no task runs and every queue is empty, so that no
//!     runnable is left: it cancels every task that is still alive.
//!
//! X4. Pinned tasks (`thread_queue.rs`) are left to their threads. A thread that has some asks all
//!     of them to end when its worker has left, and leaves when its own have. So none is left for X3.
//!
//! A thread that runs a worker may shut its own scheduler down, from a blocking section
//! or a waker. It does not wait for itself: then X3 happens when it leaves.
//!
//! A worker that is stuck in a poll delays only the tasks in its own queue. With a deadline, the
//! caller does not wait for it, and X3 happens when it comes back. Late tasks that nobody waits
//! for are cancelled then.
//!
//! [`LateTasks`]: crate::late_tasks::LateTasks

use std::sync::Arc;
use std::time::Duration;

use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use blitzen_util::shim::atomic::{AtomicBool, AtomicUsize};
use blitzen_util::shim::{Condvar, Mutex};

use crate::scheduler::Scheduler;
use crate::thread_mark::{Role, ThreadMark};
use crate::thread_queue;

/// How many threads have not left yet.
pub(crate) struct Presence {
    closed: AtomicBool,
    /// Workers, threads whose worker was handed off, and one for the thread that closes
    /// the scheduler.
    count: AtomicUsize,
    stopped: Mutex<bool>,
    on_stopped: Condvar,
}

impl Presence {
    pub(crate) fn new() -> Self {
        Self {
            closed: AtomicBool::new(false),
            count: AtomicUsize::new(1),
            stopped: Mutex::new(false),
            on_stopped: Condvar::new(),
        }
    }

    fn join(&self) {
        // Relaxed: the caller is present itself.
        self.count.fetch_add(1, Relaxed);
    }

    /// Returns how many threads are left.
    #[must_use]
    fn leave(&self) -> usize {
        // AcqRel, met by the others' own: the last sees every queue as they left it.
        self.count.fetch_sub(1, AcqRel) - 1
    }

    /// Takes back the last [`join`](Scheduler::join): the system gave no thread.
    pub(crate) fn undo_join(&self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// A thread that a scheduler's shutdown waits for, until this is dropped. Futures may be
/// dropped with it, so the thread should be inside the runtime then.
#[must_use]
pub struct Present(Arc<Scheduler>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Scheduler {
    /// Whether the shutdown has begun.
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Acquire, met by the Release in `close`.
        self.presence.closed.load(Acquire)
    }

    /// Starts the shutdown; [`wait_stopped`](Self::wait_stopped) waits for its end.
    /// Futures are dropped here and on the workers.
    pub fn close(&self) {
        let guard = self.start.lock(); // workers start before this, or never
        // Release, met by the Acquire in `is_closed`: a worker that drops futures sees what the
        // caller did before.
        if self.presence.closed.swap(true, Release) {
            return;
        }
        drop(guard);
        let queued = self.inject.close(); // X1
        self.refuse_tasks();
        self.close_dispatchers();
        for worker in 0..self.workers() {
            self.idle.claim(worker);
            self.world().interrupt(worker);
        }
        self.notify_pinned();
        self.monitor.dismiss();
        for task in queued {
            self.world().discard(task); // which cancels it, or hands it on
        }
        self.leave();
    }

    /// Cancels what is spawned from now on.
    pub(crate) fn refuse_tasks(&self) {
        for task_shard in &self.task_shards {
            task_shard.owned.close();
        }
    }

    /// Counts a thread as one that the shutdown waits for, until the guard is dropped;
    /// `None` after the shutdown has begun.
    pub fn try_join(self: &Arc<Self>) -> Option<Present> {
        let _before_close = self.start.lock();
        // The thread that closes the scheduler is counted until it has.
        (!self.is_closed()).then(|| self.count_present())
    }

    /// Counts a thread as one that the shutdown waits for. The caller knows that another one
    /// is counted meanwhile.
    pub(crate) fn count_present(self: &Arc<Self>) -> Present {
        self.join();
        Present(self.clone())
    }

    /// Whether the shutdown counts the calling thread.
    pub(crate) fn is_counted_here(&self) -> bool {
        ThreadMark::is_set(Role::Working, self)
    }

    /// Counts one more thread that has to leave before the shutdown is over.
    pub(crate) fn join(&self) {
        self.presence.join();
    }

    /// Uncounts a worker, or the thread that closed the scheduler. The last one
    /// cancels every task that is still alive (X3).
    pub(crate) fn leave(&self) {
        match self.presence.leave() {
            0 => {}
            1 => return self.notify_closers(), // the one that is left may be waiting for all others
            _ => return,
        }
        self.late.close();
        for task_shard in &self.task_shards {
            // SAFETY: queues are closed or empty and no thread runs a task (X3).
            // Futures that are not `Send` are gone (`cancel_local`).
            unsafe { task_shard.owned.cancel_all() };
        }
        *self.presence.stopped.lock() = true;
        self.presence.on_stopped.notify_all();
        for task_shard in &self.task_shards {
            task_shard.retire();
        }
        self.world().stopped();
    }

    /// Has those look again that wait for the end of the shutdown.
    pub(crate) fn notify_closers(&self) {
        drop(self.presence.stopped.lock());
        self.presence.on_stopped.notify_all();
    }

    /// Counts the calling thread, which has left or was never counted, until it
    /// [leaves](Self::leave); returns false if X3 has begun.
    pub(crate) fn try_stay(&self) -> bool {
        let one_more = |count| (count > 0).then_some(count + 1);
        // Relaxed: `leave` publishes what the thread does meanwhile.
        let counted = self.presence.count.fetch_update(Relaxed, Relaxed, one_more);
        counted.is_ok()
    }

    /// Drops the futures of all tasks of a scheduler whose futures need not be `Send`. Only the
    /// calling thread polls those, and it has emptied its queue.
    pub(crate) fn cancel_local(&self) {
        self.late.close();
        for task_shard in &self.task_shards {
            // SAFETY: the injection queue has closed, and so no runnable is left. The futures are
            // this thread's.
            unsafe { task_shard.owned.cancel_all() };
        }
    }

    /// Drops the futures of tasks that wait to be woken (X2).
    pub(crate) fn cancel_idle(&self) {
        for task_shard in &self.task_shards {
            // SAFETY: as in `leave`: a future that is not `Send` is on its own thread.
            unsafe { task_shard.owned.cancel_idle() };
        }
    }

    /// Marks the calling thread as one that runs a worker of this scheduler, or is about
    /// to: it does not wait for itself if foreign code shuts the scheduler down there.
    pub fn mark_thread(&self) -> ThreadMark {
        ThreadMark::set(Role::Working, self)
    }

    /// Whether the calling thread must not wait for others of the scheduler: it runs a worker of it,
    /// or did, and has pinned tasks, for which they may be waiting.
    pub fn must_not_wait_here(&self) -> bool {
        self.is_counted_here() && thread_queue::has_tasks()
    }

    /// Waits for the end of the shutdown, or, on a thread that runs a worker of this
    /// scheduler, until all other threads have left; cancels late tasks meanwhile. Returns false if
    /// `timeout` passes first.
    pub fn wait_stopped(&self, timeout: Option<Duration>) -> bool {
        let own = usize::from(self.is_counted_here());
        if self.must_not_wait_here() {
            return *self.presence.stopped.lock();
        }
        // Acquire, met by the AcqRel of those that leave: what they did is over.
        let others_left = || own == 1 && self.presence.count.load(Acquire) <= own;
        let mut stopped = self.presence.stopped.lock();
        let deadline = timeout.map(|timeout| std::time::Instant::now().checked_add(timeout));
        while !*stopped && !others_left() {
            if !self.late.is_empty() {
                drop(stopped);
                self.cancel_late();
                stopped = self.presence.stopped.lock();
                continue;
            }
            let left = match deadline {
                // Without a deadline, or with one that overflows the clock.
                None | Some(None) => None,
                Some(Some(end)) => {
                    let left = end.saturating_duration_since(std::time::Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    Some(left)
                }
            };
            stopped = match left {
                None => self.presence.on_stopped.wait(stopped),
                Some(left) => self.presence.on_stopped.wait_timeout(stopped, left).0,
            };
        }
        true
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::StillWorld;
    use crate::{Config, CoreGuard, FutureWake};
    use blitzen_task::SpawnMeta;
    use blitzen_task::glue::next_id;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::rc::Rc;
    use std::sync::Mutex as StdMutex;
    use std::task::{Poll, Waker};

    #[test]
    fn futures_that_are_not_send_are_dropped_before_another_thread_can_be_the_last_that_leaves() {
        let mut config = Config::new(1);
        config.is_local = true;
        let (scheduler, worker) =
            Scheduler::new_current_thread(config, Box::new(StillWorld::default()));
        scheduler.join(); // a thread with pinned tasks
        let held = Rc::new(());
        let waker = Arc::<StdMutex<Option<Waker>>>::default();
        let future = poll_fn({
            let (held, waker) = (held.clone(), waker.clone());
            move |cx| {
                let _held = &held;
                *waker.lock().unwrap() = Some(cx.waker().clone());
                Poll::<()>::Pending
            }
        });
        // SAFETY: polled and dropped on this thread.
        drop(unsafe { scheduler.spawn_unchecked(future, next_id(), SpawnMeta::caller()) });
        let guard = CoreGuard::enter(worker);
        let until_polled = poll_fn(|cx| match waker.lock().unwrap().is_some() {
            true => Poll::Ready(()),
            false => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        });
        let woken: Arc<Woken> = Arc::default();
        guard.drive(pin!(until_polled), &Waker::from(woken.clone()), &woken.0);
        let worker = guard.leave();
        scheduler.close();
        waker.lock().unwrap().take().unwrap().wake(); // too late
        CoreGuard::enter(worker).close();
        assert_eq!(Rc::strong_count(&held), 1, "it is gone");
        assert!(!scheduler.wait_stopped(Some(Duration::ZERO)));
        scheduler.leave();
        assert!(scheduler.wait_stopped(None));
    }

    #[derive(Default)]
    struct Woken(FutureWake);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            let _ = self.0.wake(); // nobody sleeps
        }
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::{Config, Worker, World};
    use blitzen_task::SpawnMeta;
    use blitzen_task::glue::next_id;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::thread;
    use std::future::Future;
    use std::future::{pending, poll_fn};
    use std::io;
    use std::sync::Weak;
    use std::sync::atomic::AtomicUsize as PlainUsize;
    use std::task::{Poll, Waker};

    /// Threads of loom, parkers for drivers, and a clock that stands still.
    struct Threads {
        parkers: Vec<Parker>,
        threads: Mutex<Vec<thread::JoinHandle<()>>>,
    }

    struct Loom(Arc<Threads>);

    impl World for Loom {
        fn turn(&self, worker: usize, max_wait: Option<Duration>) {
            if max_wait.is_none() {
                self.0.parkers[worker].park();
            }
        }
        fn serve(&self, _: usize) {}
        fn interrupt(&self, worker: usize) {
            self.0.parkers[worker].unpark();
        }
        fn now_ns(&self) -> u64 {
            0
        }
        fn seed(&self, _: usize) -> u64 {
            0
        }
        fn start(&self, worker: Worker, _: Option<String>) -> io::Result<()> {
            let thread = thread::spawn(move || worker.run());
            self.0.threads.lock().push(thread);
            Ok(())
        }
    }

    struct Dropped(Arc<PlainUsize>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Starts a scheduler of one worker, lets `test` use it, closes it, and
    /// checks that nothing is left.
    fn check(
        test: impl Fn(&Arc<Scheduler>, Dropped) -> Option<thread::JoinHandle<()>>
        + Send
        + Sync
        + 'static,
    ) {
        loom::model(move || {
            let threads = Arc::new(Threads {
                parkers: vec![Parker::new()],
                threads: Mutex::new(Vec::new()),
            });
            let world = Box::new(Loom(threads.clone()));
            let scheduler = Scheduler::new(Config::new(1), world);
            let drops = Arc::new(PlainUsize::new(0));
            let other = test(&scheduler, Dropped(drops.clone()));
            scheduler.close();
            other.map(|other| other.join().unwrap());
            // A spawn that came before the close may have started the worker.
            let threads = std::mem::take(&mut *threads.threads.lock());
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(scheduler.wait_stopped(None));
            assert_eq!(drops.load(Relaxed), 1, "the future was dropped once");
            assert_eq!(scheduler.alive_tasks(), 0);
            let gone: Weak<Scheduler> = Arc::downgrade(&scheduler);
            drop(scheduler);
            assert_eq!(gone.strong_count(), 0, "nothing holds the scheduler");
        });
    }

    fn spawn(scheduler: &Arc<Scheduler>, future: impl Future<Output = ()> + Send + 'static) {
        drop(scheduler.spawn(future, next_id(), SpawnMeta::caller()));
    }

    #[test]
    fn the_last_to_leave_sees_what_all_others_did() {
        use blitzen_util::shim::cell::UnsafeCell;

        struct Left {
            presence: Presence,
            queues: [UnsafeCell<u32>; 2],
        }
        // SAFETY: each thread touches its own queue until it leaves; loom checks it.
        unsafe impl Send for Left {}
        // SAFETY: as above.
        unsafe impl Sync for Left {}

        loom::model(|| {
            let left = Arc::new(Left {
                presence: Presence::new(),
                queues: [UnsafeCell::new(1), UnsafeCell::new(1)],
            });
            left.presence.join();
            let leave = |left: &Left, own: usize| {
                // SAFETY: this thread's own.
                left.queues[own].with_mut(|queue| unsafe { *queue = 0 });
                let is_last = left.presence.leave() == 0;
                if is_last {
                    for queue in &left.queues {
                        // SAFETY: everybody has left.
                        assert_eq!(queue.with_mut(|queue| unsafe { *queue }), 0);
                    }
                }
                is_last
            };
            let other = thread::spawn({
                let left = left.clone();
                move || leave(&left, 1)
            });
            let is_last = leave(&left, 0);
            assert!(is_last ^ other.join().unwrap());
        });
    }

    #[test]
    fn a_thread_that_runs_a_worker_waits_for_all_others_but_not_for_itself() {
        loom::model(|| {
            let world = Box::new(Loom(Arc::new(Threads {
                parkers: vec![Parker::new()],
                threads: Mutex::new(Vec::new()),
            })));
            let scheduler = Scheduler::new(Config::new(1), world);
            scheduler.join(); // this thread
            scheduler.join(); // and another
            let has_left = Arc::new(AtomicBool::new(false));
            let other = thread::spawn({
                let (scheduler, has_left) = (scheduler.clone(), has_left.clone());
                move || {
                    has_left.store(true, Relaxed);
                    scheduler.leave();
                }
            });
            let marked = scheduler.mark_thread();
            scheduler.close();
            assert!(scheduler.wait_stopped(None)); // a lost notification is a deadlock
            assert!(has_left.load(Relaxed), "it was waited for");
            drop(marked);
            scheduler.leave();
            assert!(scheduler.wait_stopped(None));
            other.join().unwrap();
        });
    }

    #[test]
    fn a_late_task_ends_although_a_thread_that_has_not_left_waits_for_it() {
        /// Unparks the thread that waits for it.
        struct Unparks(Arc<Parker>);

        impl Drop for Unparks {
            fn drop(&mut self) {
                self.0.unpark();
            }
        }

        loom::model(|| {
            let world = Box::new(Loom(Arc::new(Threads {
                parkers: vec![Parker::new()],
                threads: Mutex::new(Vec::new()),
            })));
            let (scheduler, worker) = Scheduler::new_current_thread(Config::new(1), world);
            scheduler.join(); // the other thread
            let other = thread::spawn({
                let scheduler = scheduler.clone();
                move || {
                    let ended = Arc::new(Parker::new());
                    let held = Unparks(ended.clone());
                    spawn(&scheduler, async move {
                        let _held = held;
                        pending::<()>().await
                    });
                    ended.park(); // for ever, if nobody cancels the task
                    scheduler.leave();
                }
            });
            scheduler.close();
            crate::CoreGuard::enter(worker).close();
            assert!(scheduler.wait_stopped(None));
            other.join().unwrap();
            assert_eq!(scheduler.alive_tasks(), 0);
        });
    }

    #[test]
    fn closing_against_the_first_poll_drops_the_future_once() {
        check(|scheduler, held| {
            spawn(scheduler, async move {
                let _held = held;
                pending::<()>().await
            });
            None
        });
    }

    #[test]
    fn closing_against_a_task_that_spawns_drops_the_child_once() {
        check(|scheduler, held| {
            spawn(scheduler, {
                let scheduler = scheduler.clone();
                async move {
                    spawn(&scheduler, async move {
                        let _held = held;
                        pending::<()>().await
                    });
                }
            });
            None
        });
    }

    #[test]
    fn closing_against_a_wake_from_outside_drops_the_future_once() {
        check(|scheduler, held| {
            let slot = Arc::new(Mutex::new(None::<Waker>));
            spawn(scheduler, {
                let slot = slot.clone();
                async move {
                    let _held = held;
                    poll_fn::<(), _>(|cx| {
                        *slot.lock() = Some(cx.waker().clone());
                        Poll::Pending
                    })
                    .await
                }
            });
            Some(thread::spawn(move || {
                let waker = slot.lock().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }))
        });
    }

    #[test]
    fn closing_against_a_spawn_runs_or_refuses_it() {
        check(|scheduler, held| {
            let scheduler = scheduler.clone();
            Some(thread::spawn(move || {
                spawn(&scheduler, async move {
                    let _held = held;
                });
            }))
        });
    }
}
