//! The blocking pool: threads for work that blocks, started on demand, ended when
//! idle.
//!
//! B1. For a job in the queue there is a thread that will take it: one that was
//!     unparked or started for it (`coming`), or one that runs a job, and looks into
//!     the queue before it parks.
//! B2. A thread that was `coming` and has taken its job summons another if there are
//!     more: so a burst of jobs costs its submitter one unpark, and jobs that wait for
//!     each other still all get a thread.
//!
//! ```text
//!   submit      queue the job        fence   load coming
//!   arrive      clear coming         fence   look into the queue
//! ```
//!
//! One fence is first. If `submit`'s, the thread that arrives sees the job; otherwise `submit`
//! sees no thread coming, and summons (unparks or starts) one. It looks for an idle one under
//! the lock of the idle list. If a thread enters the list later, it looks into the queue
//! after that, and the lock has it see the job.
//!
//! An idle thread sleeps without a timeout: to wake one whose sleep has a timeout
//! takes the kernel several times as long, since it has a timer to cancel first. The
//! *reaper* measures the keep-alive of all of them, on a thread of its own.
//!
//! B3. While a thread is idle without a timeout the reaper runs, and looks again
//!     before any of them has been idle for longer than the keep-alive. A thread that
//!     becomes idle starts it; it ends when it finds no thread idle.

mod idle;
mod queue;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use blitzen_util::pad::Padded;
use blitzen_util::park::Wakeup;
use blitzen_util::quiet::quietly;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicBool, AtomicUsize, fence};
use blitzen_util::shim::hint;
use blitzen_util::shim::{Condvar, Mutex, MutexGuard};
use blitzen_util::spin::{Spin, SpinPermit};
use blitzen_util::wake_cause::{self, WakeCause};

use crate::context_depth::{context_depth, set_context_depth};
use crate::thread_mark::{Role, ThreadMark};
use idle::{IdleList, IdleParker, IdleThread};
pub use queue::Job;
use queue::{JobQueue, Queued};

/// Looks at a job before a thread is started for it: about a microsecond.
#[cfg(not(blitzen_loom))]
const SPINS_BEFORE_STARTING: u32 = 20;
#[cfg(blitzen_loom)]
const SPINS_BEFORE_STARTING: u32 = 1;

/// A reaper is started at most once in a keep-alive. With a shorter one than this
/// it would cost more than it saves.
const SHORTEST_REAPED_KEEP_ALIVE: Duration = Duration::from_millis(100);

/// Where the pool's threads come from.
pub trait SpawnThread: Send + Sync + 'static {
    /// Returns a name for a thread, which may come from a user's function: no lock is
    /// held meanwhile.
    fn thread_name(&self) -> Option<String> {
        None
    }

    /// Starts a thread that calls [`Pool::work`] with `thread`. The pool joins it
    /// through what this returns. Calls no foreign code.
    fn spawn_thread(
        &self,
        pool: Arc<Pool>,
        thread: PoolThread,
        name: Option<String>,
    ) -> io::Result<ThreadJoiner>;

    /// Starts a thread that calls [`Pool::run_reaper`]. Without one, idle threads of
    /// the pool sleep with a timeout.
    fn spawn_reaper(&self, pool: Arc<Pool>) -> io::Result<ThreadJoiner>;

    /// Called when a job has run to its end, and has woken its waiter.
    fn job_ended(&self) {}

    /// Makes the pool's runtime the current one of the calling thread again, and notes
    /// that the thread has entered `depth` runtimes.
    fn restore_context(&self, depth: usize) {
        set_context_depth(depth);
    }
}

/// Waits for the end of a thread.
pub type ThreadJoiner = Box<dyn FnOnce() + Send>;

/// The number of a thread of the pool.
#[derive(Debug)]
pub struct PoolThread(usize);

/// Why a job was not taken.
pub enum Refused {
    /// The pool has closed.
    Closed(Job),
    /// There is no thread, and the system gives none; the job is dropped.
    NoThread(io::Error),
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(_) => f.write_str("Closed"),
            Self::NoThread(error) => f.debug_tuple("NoThread").field(error).finish(),
        }
    }
}

/// The threads and what waits for them.
pub struct Pool {
    source: Box<dyn SpawnThread>,
    max_threads: usize,
    keep_alive: Duration,
    queue: JobQueue,
    /// Whether a thread has been unparked or started, and has not taken a job yet.
    coming: Padded<AtomicBool>,
    /// For idle threads: one of them may spin before it sleeps.
    spin: SpinPermit,
    /// The thread that was the last to spin: it may still do so, and is then the
    /// quickest to wake.
    last_spinning: AtomicUsize,
    control: Mutex<Control>,
    /// Notified when at most one thread is left, for [`wait`](Self::wait).
    on_few_threads: Condvar,
    /// Notified when the pool closes, for the reaper.
    on_closed: Condvar,
    /// Copies of what `control` knows, to be read without its lock.
    threads: AtomicUsize,
    idle: AtomicUsize,
}

struct Control {
    threads: usize,
    last_number: usize,
    idle: IdleList,
    joiners: HashMap<usize, ThreadJoiner>,
    /// Joins the reaper, while there is one.
    reaper: Option<ThreadJoiner>,
    /// Joins a thread that has ended: the next thread to end calls it.
    ended: Option<ThreadJoiner>,
    closed: bool,
}

/// What a thread does after it was idle.
enum AfterIdle {
    /// It was summoned: it is the thread that is `coming`.
    Arrive,
    /// There was work, although it was not summoned.
    Work,
    End,
}

impl Pool {
    /// Creates a pool without threads.
    pub fn new(
        source: Box<dyn SpawnThread>,
        max_threads: usize,
        keep_alive: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            source,
            max_threads,
            keep_alive,
            queue: JobQueue::new(),
            coming: Padded(AtomicBool::new(false)),
            spin: SpinPermit::new(),
            last_spinning: AtomicUsize::new(0),
            control: Mutex::new(Control {
                threads: 0,
                last_number: 0,
                idle: IdleList::default(),
                joiners: HashMap::new(),
                reaper: None,
                ended: None,
                closed: false,
            }),
            on_few_threads: Condvar::new(),
            on_closed: Condvar::new(),
            threads: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
        })
    }

    /// How many threads the pool has.
    pub fn threads(&self) -> usize {
        self.threads.load(Relaxed)
    }

    /// How many of them have nothing to do.
    pub fn idle_threads(&self) -> usize {
        self.idle.load(Relaxed)
    }

    /// Whether it has as many threads as it may have, and all of them have something to do.
    pub fn is_full(&self) -> bool {
        self.threads() >= self.max_threads && self.idle_threads() == 0
    }

    /// How many jobs wait for a thread.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Takes a job.
    pub fn submit(self: &Arc<Self>, job: Job) -> Result<(), Refused> {
        let queued = self.queue.push(job).map_err(Refused::Closed)?;
        fence(SeqCst);
        match self.coming.load(Relaxed) || self.spin_until_taken(&queued) {
            true => Ok(()), // B2, or taken by a thread at work
            false => self.summon().map_err(Refused::NoThread),
        }
    }

    /// Before a thread is started, which takes long, looks for a microsecond whether
    /// one of those at work has just finished, and takes the job.
    fn spin_until_taken(&self, queued: &Queued<'_>) -> bool {
        let threads = self.threads.load(Relaxed);
        let would_start = self.idle.load(Relaxed) == 0 && threads < self.max_threads;
        threads > 0
            && would_start
            && (0..SPINS_BEFORE_STARTING).any(|_| {
                hint::spin_loop();
                queued.is_taken()
            })
    }

    /// Unparks an idle thread for what is queued, or starts one. If there may be no more
    /// threads, the first one to finish its job takes it (B1).
    fn summon(self: &Arc<Self>) -> io::Result<()> {
        if self.summon_idle().is_none() || ThreadMark::is_set(Role::Starting, &**self) {
            return Ok(());
        }
        // The name comes from a user's function, which may submit a job and so call this
        // function, or drop the runtime: so no lock is held, and everything is checked
        // again afterwards.
        let naming = ThreadMark::set(Role::Starting, &**self);
        let name = self.source.thread_name();
        drop(naming);
        match self.summon_idle() {
            Some(control) => self.start_thread(control, name),
            None => Ok(()),
        }
    }

    /// Summons an idle thread. Returns the lock if a new thread has to be started
    /// instead.
    fn summon_idle(&self) -> Option<MutexGuard<'_, Control>> {
        let mut control = self.control.lock();
        if self.coming.load(Relaxed) || control.closed {
            return None;
        }
        if let Some(thread) = control.idle.pop(self.last_spinning.load(Relaxed)) {
            self.idle.store(control.idle.len(), Relaxed);
            self.coming.store(true, Relaxed);
            drop(control);
            thread.parker.summon();
            return None;
        }
        (control.threads < self.max_threads).then_some(control)
    }

    fn start_thread(
        self: &Arc<Self>,
        mut control: MutexGuard<'_, Control>,
        name: Option<String>,
    ) -> io::Result<()> {
        self.count_threads(&mut control, 1);
        control.last_number += 1;
        let number = control.last_number;
        self.coming.store(true, Relaxed);
        // Under the lock, so that the thread, when it ends, finds its joiner.
        let thread = PoolThread(number);
        let started = self.source.spawn_thread(self.clone(), thread, name);
        let Err(error) = started.map(|joiner| control.joiners.insert(number, joiner)) else {
            return Ok(());
        };
        self.count_threads(&mut control, -1);
        self.coming.store(false, Relaxed);
        // One that relied on this thread has fenced before: its job is seen by the threads that take
        // the lock of the idle list after this one.
        fence(SeqCst);
        if control.threads > 0 {
            return Ok(()); // B1: the threads that run jobs look into the queue
        }
        drop(control);
        // No thread will ever run them: dropping the jobs cancels them, which wakes
        // their waiters.
        for job in self.queue.drain(|_| true) {
            quietly(|| drop(job));
            quietly(|| self.source.job_ended());
        }
        Err(error)
    }

    fn count_threads(&self, control: &mut Control, change: isize) {
        control.threads = control.threads.wrapping_add_signed(change);
        self.threads.store(control.threads, Relaxed);
    }

    /// The main function of a thread of the pool: works until there was nothing to
    /// do for the keep-alive, or the pool closes.
    pub fn work(self: &Arc<Self>, thread: PoolThread) {
        let _working = self.mark_thread();
        wake_cause::during(WakeCause::Blocking, || self.work_until_idle(&thread));
    }

    fn work_until_idle(self: &Arc<Self>, thread: &PoolThread) {
        let parker = Arc::new(IdleParker::new(Spin::new(Some(self.spin.clone()))));
        // Threads start with different shards of the queue.
        let next_shard = Cell::new(thread.0);
        let mut has_just_come = true;
        loop {
            let job = self.queue.pop(&next_shard);
            if std::mem::take(&mut has_just_come) {
                self.coming.store(false, Relaxed);
                fence(SeqCst);
                if self.queued() > 0 {
                    // B2. Without a thread to be had, this one stays at work.
                    let _ = self.summon();
                }
            }
            match job {
                Some(job) => self.run(job),
                None => match self.wait_idle(thread, &parker) {
                    AfterIdle::Arrive => has_just_come = true,
                    AfterIdle::Work => {}
                    AfterIdle::End => return,
                },
            }
        }
    }

    fn run(&self, job: Job) {
        // The waker of the job's waiter is foreign code: one that panics does not end
        // the thread.
        let depth = context_depth();
        quietly(|| drop(job.task.run()));
        quietly(|| self.source.job_ended());
        if context_depth() != depth {
            self.source.restore_context(depth);
        }
    }

    fn wait_idle(self: &Arc<Self>, thread: &PoolThread, parker: &Arc<IdleParker>) -> AfterIdle {
        let mut control = self.control.lock();
        if control.closed {
            return self.end_or_work(control, thread);
        }
        let mut wait = parker.spin.begin();
        let end = Instant::now().checked_add(self.keep_alive);
        control.idle.push(IdleThread {
            number: thread.0,
            parker: parker.clone(),
            end,
        });
        self.idle.store(control.idle.len(), Relaxed);
        let limit = match end.is_none() || self.ensure_reaper(&mut control) {
            true => Duration::MAX,
            false => self.keep_alive,
        };
        drop(control);
        let wakeup = match self.queued() {
            0 => {
                parker.spin.spin(&mut wait, Some(limit), || {
                    if self.last_spinning.load(Relaxed) != thread.0 {
                        self.last_spinning.store(thread.0, Relaxed);
                    }
                    parker.parker.has_token().then_some(())
                });
                parker.parker.park_timeout(limit)
            }
            _ => parker.parker.park_timeout(Duration::ZERO),
        };
        if wakeup == Wakeup::TimedOut {
            let mut control = self.control.lock();
            if control.idle.remove(thread.0) {
                self.idle.store(control.idle.len(), Relaxed);
                return self.end_or_work(control, thread);
            }
            drop(control);
            parker.parker.park(); // B4: the token comes
        }
        if parker.take_dismissal() {
            return self.end_or_work(self.control.lock(), thread);
        }
        parker.spin.end(wait, 1);
        AfterIdle::Arrive
    }

    /// Ends a thread that was not summoned, unless there is work: the submitter may
    /// have relied on this thread.
    fn end_or_work(&self, control: MutexGuard<'_, Control>, thread: &PoolThread) -> AfterIdle {
        match self.queued() {
            0 => self.end(control, thread),
            _ => AfterIdle::Work,
        }
    }

    fn end(&self, mut control: MutexGuard<'_, Control>, thread: &PoolThread) -> AfterIdle {
        self.count_threads(&mut control, -1);
        let previous = match control.closed {
            true => None, // the thread that closes the pool joins all
            false => {
                let own = control.joiners.remove(&thread.0);
                std::mem::replace(&mut control.ended, own)
            }
        };
        if control.threads <= 1 {
            self.on_few_threads.notify_all();
        }
        drop(control);
        if let Some(join) = previous {
            join();
        }
        AfterIdle::End
    }

    /// Starts the reaper unless it runs (B3); returns false if there is none, so that idle
    /// threads have to sleep with a timeout.
    fn ensure_reaper(self: &Arc<Self>, control: &mut Control) -> bool {
        if control.reaper.is_none() && self.keep_alive >= SHORTEST_REAPED_KEEP_ALIVE {
            // Under the lock, so that the reaper, when it ends, finds its joiner.
            control.reaper = self.source.spawn_reaper(self.clone()).ok();
        }
        control.reaper.is_some()
    }

    /// The main function of the reaper: ends threads that have been idle for the
    /// keep-alive, until none is idle or the pool closes.
    pub fn run_reaper(&self) {
        let mut control = self.control.lock();
        while !control.closed {
            let now = Instant::now();
            let Some(next) = self.dismiss_expired(&mut control, now) else {
                // B3: the next thread to become idle starts another.
                let own = control.reaper.take();
                let previous = std::mem::replace(&mut control.ended, own);
                drop(control);
                previous.into_iter().for_each(|join| join());
                return;
            };
            let left = next.saturating_duration_since(now);
            control = self.on_closed.wait_timeout(control, left).0;
        }
    }

    fn dismiss_expired(&self, control: &mut Control, now: Instant) -> Option<Instant> {
        let next = control.idle.dismiss_expired(now);
        self.idle.store(control.idle.len(), Relaxed);
        next
    }

    /// Closes the pool: it takes no more jobs. What is queued is dropped, which
    /// cancels its tasks, except mandatory jobs, and one that a thread is already
    /// coming for. Returns how many were dropped.
    pub fn close(self: &Arc<Self>) -> usize {
        self.queue.close();
        // If the thread has come meanwhile, it runs one more.
        let mut spared = self.coming.load(Relaxed);
        let dropped = self
            .queue
            .drain(|job| !(job.mandatory || std::mem::take(&mut spared)));
        let mut control = self.control.lock();
        let is_first = !std::mem::replace(&mut control.closed, true);
        let idle = control.idle.take_all();
        self.idle.store(0, Relaxed);
        let has_threads = control.threads > 0;
        drop(control);
        if is_first {
            idle.iter().for_each(|thread| thread.parker.summon());
            self.on_closed.notify_all();
        }
        if !has_threads {
            // Mandatory jobs that have no thread to run on run here.
            for job in self.queue.drain(|_| true) {
                self.run(job);
            }
        }
        dropped.len()
    }

    /// Marks the calling thread as one of this pool: it does not wait for itself if
    /// foreign code shuts the pool down there.
    pub fn mark_thread(&self) -> ThreadMark {
        ThreadMark::set(Role::Working, self)
    }

    /// Waits until every thread has ended, except the calling one if it is of this pool,
    /// for at most `timeout`; returns how many have not. The pool is closed.
    pub fn wait(&self, timeout: Option<Duration>) -> usize {
        let own = usize::from(ThreadMark::is_set(Role::Working, self));
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut control = self.control.lock();
        while control.threads > own {
            control = match deadline {
                None => self.on_few_threads.wait(control),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return control.threads - own;
                    }
                    self.on_few_threads.wait_timeout(control, left).0
                }
            };
        }
        let joiners = std::mem::take(&mut control.joiners);
        let others = [control.ended.take(), control.reaper.take()];
        drop(control);
        let joiners = joiners.into_values().chain(others.into_iter().flatten());
        joiners.for_each(|join| join());
        0
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::Tasks;

    /// A system that has no thread left.
    #[derive(Default)]
    struct NoThreads {
        ended_jobs: Arc<AtomicUsize>,
    }

    impl SpawnThread for NoThreads {
        fn spawn_thread(
            &self,
            _: Arc<Pool>,
            _: PoolThread,
            _: Option<String>,
        ) -> io::Result<ThreadJoiner> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn spawn_reaper(&self, _: Arc<Pool>) -> io::Result<ThreadJoiner> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn job_ended(&self) {
            self.ended_jobs.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_job_that_no_thread_will_run_counts_as_ended() {
        let source = NoThreads::default();
        let ended_jobs = source.ended_jobs.clone();
        let pool = Pool::new(Box::new(source), 1, Duration::from_secs(1));
        let job = Job {
            task: Tasks::job(|| unreachable!("there is no thread")),
            mandatory: false,
        };
        assert!(matches!(pool.submit(job), Err(Refused::NoThread(_))));
        assert_eq!(ended_jobs.load(Relaxed), 1);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::testing::Tasks;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::thread;

    /// Threads of loom, joined by the model.
    struct Threads(Mutex<Vec<thread::JoinHandle<()>>>);

    struct LoomThreads(Arc<Threads>);

    impl SpawnThread for LoomThreads {
        fn spawn_thread(
            &self,
            pool: Arc<Pool>,
            thread: PoolThread,
            _: Option<String>,
        ) -> io::Result<ThreadJoiner> {
            let handle = thread::spawn(move || pool.work(thread));
            self.0.0.lock().push(handle);
            Ok(Box::new(|| ()))
        }

        /// The model keeps the time.
        fn spawn_reaper(&self, _: Arc<Pool>) -> io::Result<ThreadJoiner> {
            Ok(Box::new(|| ()))
        }
    }

    impl Threads {
        fn join(&self) {
            loop {
                let thread = self.0.lock().pop();
                match thread {
                    Some(thread) => thread.join().unwrap(),
                    None => break,
                }
            }
        }
    }

    /// `senders` send `jobs` jobs each; with `together`, no job ends before all
    /// of them have begun.
    fn check(max_threads: usize, senders: usize, jobs: usize, together: bool) {
        loom::model(move || {
            // std's counts: who owns the pool is no part of the protocol.
            let threads = Arc::new(Threads(Mutex::new(Vec::new())));
            let source = Box::new(LoomThreads(threads.clone()));
            let pool = Pool::new(source, max_threads, Duration::MAX);
            let done = Arc::new((AtomicUsize::new(0), Parker::new()));
            let begun = Arc::new((Mutex::new(0), Condvar::new()));
            let send = {
                let (pool, done) = (pool.clone(), done.clone());
                move || {
                    for _ in 0..jobs {
                        let task = Tasks::job({
                            let (done, begun) = (done.clone(), begun.clone());
                            move || {
                                if together {
                                    let mut count = begun.0.lock();
                                    *count += 1;
                                    begun.1.notify_all();
                                    while *count < senders * jobs {
                                        count = begun.1.wait(count);
                                    }
                                }
                                done.0.fetch_add(1, Relaxed);
                                done.1.unpark();
                            }
                        });
                        let job = Job {
                            task,
                            mandatory: true,
                        };
                        pool.submit(job).unwrap();
                    }
                }
            };
            let others: Vec<_> = (1..senders).map(|_| thread::spawn(send.clone())).collect();
            send();
            for other in others {
                other.join().unwrap();
            }
            // Before the pool is closed, which would run what is left: a job that
            // nobody comes for is a deadlock.
            while done.0.load(Relaxed) < senders * jobs {
                done.1.park();
            }
            pool.close();
            threads.join();
            assert_eq!((pool.threads(), pool.queued()), (0, 0));
        });
    }

    #[test]
    fn two_jobs_in_a_row_both_run() {
        check(1, 1, 2, false);
    }

    #[test]
    fn a_job_that_is_submitted_while_the_thread_parks_runs() {
        check(2, 1, 2, false);
    }

    #[test]
    fn two_senders_lose_no_job() {
        check(1, 2, 1, false);
    }

    #[test]
    fn two_jobs_that_wait_for_each_other_both_get_a_thread() {
        check(2, 1, 2, true);
    }

    /// A job that counts itself, and gives a token when it has.
    fn counting(done: &Arc<(AtomicUsize, Parker)>) -> Job {
        let done = done.clone();
        let task = Tasks::job(move || {
            done.0.fetch_add(1, Relaxed);
            done.1.unpark();
        });
        Job {
            task,
            mandatory: true,
        }
    }

    #[test]
    fn a_job_against_the_reaper_runs_and_then_every_thread_ends() {
        loom::model(|| {
            let threads = Arc::new(Threads(Mutex::new(Vec::new())));
            let keep_alive = Duration::from_secs(1);
            let pool = Pool::new(Box::new(LoomThreads(threads.clone())), 1, keep_alive);
            let done = Arc::new((AtomicUsize::new(0), Parker::new()));
            let late = Instant::now() + 1_000 * keep_alive;
            let reaper = thread::spawn({
                let pool = pool.clone();
                move || {
                    pool.dismiss_expired(&mut pool.control.lock(), late);
                }
            });
            for count in 1..=2 {
                pool.submit(counting(&done)).unwrap();
                while done.0.load(Relaxed) < count {
                    done.1.park();
                }
            }
            reaper.join().unwrap();
            while pool.threads() > 0 {
                pool.dismiss_expired(&mut pool.control.lock(), late);
                thread::yield_now();
            }
            pool.close();
            threads.join();
        });
    }

    /// Counts how it ends.
    struct CountEnd {
        ends: Arc<[AtomicUsize; 2]>,
        has_run: bool,
    }

    impl Drop for CountEnd {
        fn drop(&mut self) {
            self.ends[usize::from(self.has_run)].fetch_add(1, Relaxed);
        }
    }

    /// A close against a job on its way in: whatever was accepted runs or is
    /// dropped once, and every thread ends.
    fn check_close(mandatory: bool) {
        loom::model(move || {
            let threads = Arc::new(Threads(Mutex::new(Vec::new())));
            let pool = Pool::new(Box::new(LoomThreads(threads.clone())), 1, Duration::MAX);
            let ends = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let mut end = CountEnd {
                ends: ends.clone(),
                has_run: false,
            };
            let sender = thread::spawn({
                let pool = pool.clone();
                move || {
                    let task = Tasks::job(move || {
                        end.has_run = true;
                        drop(end);
                    });
                    pool.submit(Job { task, mandatory }).is_ok()
                }
            });
            let dropped = pool.close();
            let accepted = sender.join().unwrap();
            threads.join();
            let [lost, ran] = [0, 1].map(|end| ends[end].load(Relaxed));
            assert_eq!(lost + ran, 1);
            assert!(!mandatory || !accepted || ran == 1);
            assert_eq!(lost, dropped + usize::from(!accepted));
            assert_eq!((pool.threads(), pool.queued()), (0, 0));
        });
    }

    #[test]
    fn a_job_against_a_close_runs_or_is_dropped() {
        check_close(false);
    }

    #[test]
    fn a_job_that_must_run_does_so_against_a_close() {
        check_close(true);
    }
}
