//! Threads for work that blocks: hired on demand, sent home when idle.
//!
//! B1. A job in a queue has a thread coming for it: one that is on its way
//!     (`coming`), or one at work, which looks into the queues before it rests.
//! B2. Whoever was on the way and has taken its job sees to it that somebody
//!     else comes if there is more: so a burst of jobs costs its sender one
//!     wake, and jobs that wait for each other still all get a thread.
//!
//! ```text
//!   submit   queue the job        fence   load coming
//!   arrive   clear coming         fence   look into the queues
//!   rest     enter the idle list  fence   look into the queues
//! ```
//!
//! One fence is first. If `submit`'s, the thread that arrives or rests sees the
//! job; otherwise `submit` sees nobody coming, and summons somebody.
//!
//! A thread that rests sleeps without an end: to wake one whose sleep has an end
//! takes the system several times as long, since it has a timer to take back
//! first. The *reaper* keeps the time for all of them, on a thread of its own.
//!
//! B3. While somebody rests without an end the reaper is there, and looks
//!     again before any of them has rested for longer than the keep-alive.
//!     Whoever lies down sees to it that there is one, which goes when it finds
//!     nobody resting.
//! B4. Who is taken off the idle list is woken, once, by the one who took it
//!     off: for a job, or to go home. It looks into the queues before it goes.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use blitzen_task::Runnable;
use blitzen_util::pad::Padded;
use blitzen_util::park::{Parker, Wakeup};
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::atomic::{AtomicBool, AtomicUsize, fence};
use blitzen_util::shim::hint;
use blitzen_util::shim::{Condvar, Mutex, MutexGuard};
use blitzen_util::spin::{Spin, SpinPermit};
use blitzen_util::thread_shard::thread_shard;

/// Queues, so that senders on different threads need not share a lock.
#[cfg(not(blitzen_loom))]
const SHARDS: usize = 8;
#[cfg(blitzen_loom)]
const SHARDS: usize = 1;

/// Looks at a job before a thread is hired for it: about a microsecond.
#[cfg(not(blitzen_loom))]
const SPINS_BEFORE_SPAWNING: u32 = 20;
#[cfg(blitzen_loom)]
const SPINS_BEFORE_SPAWNING: u32 = 1;

/// A reaper is hired once in a keep-alive at the most. If that is often, it costs
/// more than it saves.
const SHORTEST_REAPED_KEEP_ALIVE: Duration = Duration::from_millis(100);

/// Where threads come from.
pub trait SpawnThread: Send + Sync + 'static {
    /// Starts a thread that calls [`Pool::work`] with `member`; the pool wants
    /// to be able to join it.
    fn spawn_thread(&self, pool: Arc<Pool>, member: PoolThread) -> io::Result<ThreadJoiner>;

    /// Starts a thread that calls [`Pool::run_reaper`]. Without one, the threads
    /// of the pool keep the time themselves.
    fn spawn_reaper(&self, pool: Arc<Pool>) -> io::Result<ThreadJoiner>;

    /// A job has run to its end, and whoever waits for it is woken.
    fn job_ended(&self) {}
}

/// Waits for the end of a thread.
pub type ThreadJoiner = Box<dyn FnOnce() + Send>;

/// The number of a thread of the pool.
#[derive(Debug)]
pub struct PoolThread(usize);

/// Work that blocks.
#[derive(Debug)]
pub struct Job {
    /// A task whose first poll does all of it.
    pub task: Runnable,
    /// It runs even if the pool closes first.
    pub mandatory: bool,
}

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
    threads_source: Box<dyn SpawnThread>,
    most_threads: usize,
    keep_alive: Duration,
    shards: Box<[Padded<Shard>]>,
    /// A thread has been woken or hired, and has not taken a job yet.
    coming: Padded<AtomicBool>,
    /// For those that rest: one of them may look around before it sleeps. And who
    /// did so last: of those that rest the quickest to wake.
    spin: SpinPermit,
    awake: AtomicUsize,
    control: Mutex<Control>,
    nobody_left: Condvar,
    /// The pool has closed: for the reaper.
    on_closed: Condvar,
    /// Of `control`, for those who only want to know.
    threads: AtomicUsize,
    idle: AtomicUsize,
}

struct Shard {
    queue: Mutex<Queue>,
    len: AtomicUsize,
}

struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

struct Control {
    threads: usize,
    next_member: usize,
    /// Those that rest, the last to come first to be summoned, and last to be
    /// sent home.
    idle: Vec<Resting>,
    joiners: HashMap<usize, ThreadJoiner>,
    /// Of the reaper, while there is one.
    reaper: Option<ThreadJoiner>,
    /// Of a thread that went task_shard: the next one to go joins it.
    leaving: Option<ThreadJoiner>,
    closed: bool,
}

impl Control {
    /// Takes somebody off the idle list: who may not have fallen asleep yet, or
    /// else the last to lie down.
    fn pick(&mut self, awake: usize) -> Option<Resting> {
        let last = self.idle.len().checked_sub(1)?;
        let index = self.idle.iter().rposition(|one| one.member == awake);
        Some(self.idle.remove(index.unwrap_or(last)))
    }
}

/// A thread that rests.
struct Resting {
    member: usize,
    bed: Arc<Bed>,
    /// When it has rested for long enough, if ever.
    end: Option<Instant>,
}

/// Where a thread rests, and what it is woken for (B4).
struct Bed {
    parker: Parker,
    dismissed: AtomicBool,
    spin: Spin,
}

impl Bed {
    fn summon(&self) {
        self.parker.unpark();
    }

    fn dismiss(&self) {
        self.dismissed.store(true, Relaxed); // published by the token
        self.parker.unpark();
    }
}

impl Pool {
    /// A pool without threads.
    pub fn new(
        threads_source: Box<dyn SpawnThread>,
        most_threads: usize,
        keep_alive: Duration,
    ) -> Arc<Self> {
        let shard = |_| {
            Padded(Shard {
                queue: Mutex::new(Queue {
                    jobs: VecDeque::new(),
                    closed: false,
                }),
                len: AtomicUsize::new(0),
            })
        };
        Arc::new(Self {
            threads_source,
            most_threads,
            keep_alive,
            shards: (0..SHARDS).map(shard).collect(),
            coming: Padded(AtomicBool::new(false)),
            spin: SpinPermit::new(),
            awake: AtomicUsize::new(0),
            control: Mutex::new(Control {
                threads: 0,
                next_member: 0,
                idle: Vec::new(),
                joiners: HashMap::new(),
                reaper: None,
                leaving: None,
                closed: false,
            }),
            nobody_left: Condvar::new(),
            on_closed: Condvar::new(),
            threads: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
        })
    }

    /// Threads of the pool.
    pub fn threads(&self) -> usize {
        self.threads.load(Relaxed)
    }

    /// Threads without work.
    pub fn idle_threads(&self) -> usize {
        self.idle.load(Relaxed)
    }

    /// Jobs that wait for a thread.
    pub fn queued(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.len.load(Relaxed))
            .sum()
    }

    /// Takes a job.
    pub fn submit(self: &Arc<Self>, job: Job) -> Result<(), Refused> {
        let shard = &self.shards[thread_shard() % SHARDS];
        let mut queue = shard.queue.lock();
        if queue.closed {
            return Err(Refused::Closed(job));
        }
        queue.jobs.push_back(job);
        shard.len.store(queue.jobs.len(), Relaxed);
        drop(queue);
        fence(SeqCst);
        match self.coming.load(Relaxed) || self.is_soon_taken(shard) {
            true => Ok(()), // B2, or taken by somebody at work
            false => self.summon().map_err(Refused::NoThread),
        }
    }

    /// Before a thread is hired, which takes long, looks for a microsecond whether
    /// one of those at work has just finished, and takes the jobs of a shard.
    fn is_soon_taken(&self, shard: &Shard) -> bool {
        let threads = self.threads.load(Relaxed);
        let would_hire = self.idle.load(Relaxed) == 0 && threads < self.most_threads;
        threads > 0
            && would_hire
            && (0..SPINS_BEFORE_SPAWNING).any(|_| {
                hint::spin_loop();
                shard.len.load(Relaxed) == 0
            })
    }

    /// Has a thread come for what is queued: an idle one, or a new one. With
    /// all of them at work, the first to finish takes it (B1).
    fn summon(self: &Arc<Self>) -> io::Result<()> {
        let mut control = self.control.lock();
        if self.coming.load(Relaxed) || control.closed {
            return Ok(());
        }
        if let Some(resting) = control.pick(self.awake.load(Relaxed)) {
            self.idle.store(control.idle.len(), Relaxed);
            self.coming.store(true, Relaxed);
            drop(control);
            resting.bed.summon();
            return Ok(());
        }
        if control.threads == self.most_threads {
            return Ok(());
        }
        control.threads += 1;
        self.threads.store(control.threads, Relaxed);
        control.next_member += 1;
        let number = control.next_member;
        self.coming.store(true, Relaxed);
        // Under the lock, so that the thread, when it leaves, finds its joiner.
        match self
            .threads_source
            .spawn_thread(self.clone(), PoolThread(number))
        {
            Ok(joiner) => {
                control.joiners.insert(number, joiner);
                Ok(())
            }
            Err(error) => {
                control.threads -= 1;
                self.threads.store(control.threads, Relaxed);
                self.coming.store(false, Relaxed);
                if control.threads > 0 {
                    return Ok(()); // B1: those at work come to it
                }
                drop(control);
                // Nobody ever will: whoever waits is told by the cancellation.
                drop(self.drain(|_| true));
                Err(error)
            }
        }
    }

    /// A thread of the pool: works until there was nothing to do for a while,
    /// or the pool closes.
    pub fn work(self: &Arc<Self>, member: PoolThread) {
        let bed = Arc::new(Bed {
            parker: Parker::new(),
            dismissed: AtomicBool::new(false),
            spin: Spin::new(Some(self.spin.clone())),
        });
        let mut just_came = true;
        loop {
            let job = self.take();
            if std::mem::take(&mut just_came) {
                self.coming.store(false, Relaxed);
                fence(SeqCst);
                if self.queued() > 0 {
                    // B2. Without a thread to be had, this one stays at work.
                    let _ = self.summon();
                }
            }
            match job {
                Some(job) => {
                    drop(job.task.run());
                    self.threads_source.job_ended();
                }
                None => match self.rest(&member, &bed) {
                    Rested::Summoned => just_came = true,
                    Rested::Anyway => {}
                    Rested::GoHome => return,
                },
            }
        }
    }

    fn take(&self) -> Option<Job> {
        let start = thread_shard();
        for offset in 0..SHARDS {
            let shard = &self.shards[(start + offset) % SHARDS];
            if shard.len.load(Relaxed) == 0 {
                continue;
            }
            let mut queue = shard.queue.lock();
            let job = queue.jobs.pop_front();
            shard.len.store(queue.jobs.len(), Relaxed);
            if job.is_some() {
                return job;
            }
        }
        None
    }

    fn rest(self: &Arc<Self>, member: &PoolThread, bed: &Arc<Bed>) -> Rested {
        let mut control = self.control.lock();
        if control.closed {
            return self.leave_or_stay(control, member);
        }
        let mut begun = bed.spin.begin();
        let end = Instant::now().checked_add(self.keep_alive);
        control.idle.push(Resting {
            member: member.0,
            bed: bed.clone(),
            end,
        });
        self.idle.store(control.idle.len(), Relaxed);
        let limit = match end.is_none() || self.ensure_reaper(&mut control) {
            true => Duration::MAX,
            false => self.keep_alive,
        };
        drop(control);
        fence(SeqCst);
        let wakeup = match self.queued() {
            0 => {
                bed.spin.spin(&mut begun, Some(limit), || {
                    if self.awake.load(Relaxed) != member.0 {
                        self.awake.store(member.0, Relaxed);
                    }
                    bed.parker.has_token().then_some(())
                });
                bed.parker.park_timeout(limit)
            }
            _ => bed.parker.park_timeout(Duration::ZERO),
        };
        if wakeup == Wakeup::TimedOut {
            let mut control = self.control.lock();
            let resting = |one: &Resting| one.member == member.0;
            if let Some(index) = control.idle.iter().position(resting) {
                control.idle.remove(index);
                self.idle.store(control.idle.len(), Relaxed);
                return self.leave_or_stay(control, member);
            }
            drop(control);
            bed.parker.park(); // B4: the token comes
        }
        match bed.dismissed.load(Relaxed) {
            true => {
                bed.dismissed.store(false, Relaxed);
                self.leave_or_stay(self.control.lock(), member)
            }
            false => {
                bed.spin.end(begun, 1);
                Rested::Summoned
            }
        }
    }

    /// A thread that nobody has summoned goes home, unless there is work: who
    /// has queued it may have found nobody to come for it but this one.
    fn leave_or_stay(&self, control: MutexGuard<'_, Control>, member: &PoolThread) -> Rested {
        match self.queued() {
            0 => self.go_home(control, member),
            _ => Rested::Anyway,
        }
    }

    /// Sees to it that somebody keeps the time for those that rest (B3); false
    /// if they have to do it themselves.
    fn ensure_reaper(self: &Arc<Self>, control: &mut Control) -> bool {
        if control.reaper.is_none() && self.keep_alive >= SHORTEST_REAPED_KEEP_ALIVE {
            // Under the lock, so that the reaper, when it leaves, finds its
            // joiner. Where the system gives no thread, a wake takes longer.
            control.reaper = self.threads_source.spawn_reaper(self.clone()).ok();
        }
        control.reaper.is_some()
    }

    /// The reaper's thread: sends those home that have rested for long enough,
    /// until nobody rests or the pool closes.
    pub fn run_reaper(&self) {
        let mut control = self.control.lock();
        while !control.closed {
            let now = Instant::now();
            let Some(next) = self.dismiss(&mut control, now) else {
                // B3: who rests next hires another.
                let own = control.reaper.take();
                let previous = std::mem::replace(&mut control.leaving, own);
                drop(control);
                previous.into_iter().for_each(|join| join());
                return;
            };
            let left = next.saturating_duration_since(now);
            control = self.on_closed.wait_timeout(control, left).0;
        }
    }

    /// Sends those home that have rested for long enough at `now`; tells when
    /// the next one will have, if anybody is left.
    fn dismiss(&self, control: &mut Control, now: Instant) -> Option<Instant> {
        let is_over = |resting: &Resting| resting.end.is_some_and(|end| end <= now);
        // The list is in the order in which they lay down.
        let due = control.idle.partition_point(is_over);
        for resting in control.idle.drain(..due) {
            resting.bed.dismiss();
        }
        self.idle.store(control.idle.len(), Relaxed);
        control.idle.first().and_then(|resting| resting.end)
    }

    fn go_home(&self, mut control: MutexGuard<'_, Control>, member: &PoolThread) -> Rested {
        control.threads -= 1;
        self.threads.store(control.threads, Relaxed);
        let own = control.joiners.remove(&member.0);
        let previous = match control.closed {
            // Whoever closes the pool joins everybody.
            true => {
                if let Some(own) = own {
                    control.joiners.insert(member.0, own);
                }
                None
            }
            false => std::mem::replace(&mut control.leaving, own),
        };
        if control.threads == 0 {
            self.nobody_left.notify_all();
        }
        drop(control);
        if let Some(join) = previous {
            join();
        }
        Rested::GoHome
    }

    /// Takes the jobs that `wanted` picks out of the queues.
    fn drain(&self, mut wanted: impl FnMut(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut queue = shard.queue.lock();
            let jobs = std::mem::take(&mut queue.jobs);
            let (out, stay) = jobs.into_iter().partition::<Vec<_>, _>(&mut wanted);
            taken.extend(out);
            queue.jobs = stay.into();
            shard.len.store(queue.jobs.len(), Relaxed);
        }
        taken
    }

    /// Takes no more jobs. What is queued is dropped, which cancels its tasks,
    /// except what must run, and what a thread is already coming for. Returns how
    /// many were dropped.
    pub fn close(self: &Arc<Self>) -> usize {
        for shard in &self.shards {
            shard.queue.lock().closed = true;
        }
        // If it has come meanwhile, it runs one more.
        let mut spared = self.coming.load(Relaxed);
        let dropped = self.drain(|job| !(job.mandatory || std::mem::take(&mut spared)));
        let mut control = self.control.lock();
        let first = !std::mem::replace(&mut control.closed, true);
        let idle = std::mem::take(&mut control.idle);
        self.idle.store(0, Relaxed);
        let nobody = control.threads == 0;
        drop(control);
        if first {
            idle.iter().for_each(|resting| resting.bed.summon());
            self.on_closed.notify_all();
        }
        if nobody {
            // What must run, and has no thread to run on, runs here.
            for job in self.drain(|_| true) {
                drop(job.task.run());
            }
        }
        dropped.len()
    }

    /// Waits until every thread has gone home, `timeout` at the most; returns
    /// how many have not. The pool is closed.
    pub fn wait(&self, timeout: Option<Duration>) -> usize {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut control = self.control.lock();
        while control.threads > 0 {
            control = match deadline {
                None => self.nobody_left.wait(control),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return control.threads;
                    }
                    self.nobody_left.wait_timeout(control, left).0
                }
            };
        }
        let joiners = std::mem::take(&mut control.joiners);
        let others = [control.leaving.take(), control.reaper.take()];
        drop(control);
        let joiners = joiners.into_values().chain(others.into_iter().flatten());
        joiners.for_each(|join| join());
        0
    }
}

/// What ended a rest.
enum Rested {
    /// Somebody asked for the thread: it is the one that is coming.
    Summoned,
    /// There was work after all.
    Anyway,
    /// There was none for long enough.
    GoHome,
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_have_fallen_asleep_yet_is_summoned_first() {
        let resting = |member| Resting {
            member,
            bed: Arc::new(Bed {
                parker: Parker::new(),
                dismissed: AtomicBool::new(false),
                spin: Spin::new(None),
            }),
            end: None,
        };
        let mut control = Control {
            threads: 4,
            next_member: 4,
            idle: [1, 2, 3].map(resting).into(),
            joiners: HashMap::new(),
            reaper: None,
            leaving: None,
            closed: false,
        };
        let mut pick = |awake| control.pick(awake).map(|one| one.member);
        assert_eq!(pick(2), Some(2));
        assert_eq!(pick(2), Some(3), "the last to lie down");
        assert_eq!(pick(4), Some(1), "4 is at work");
        assert_eq!(pick(4), None);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::testing::Tasks;
    use blitzen_util::shim::thread;

    /// Threads of loom, joined by the model.
    struct Threads(Mutex<Vec<thread::JoinHandle<()>>>);

    struct LoomThreads(Arc<Threads>);

    impl SpawnThread for LoomThreads {
        fn spawn_thread(&self, pool: Arc<Pool>, member: PoolThread) -> io::Result<ThreadJoiner> {
            let thread = thread::spawn(move || pool.work(member));
            self.0.0.lock().push(thread);
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
    fn check(most_threads: usize, senders: usize, jobs: usize, together: bool) {
        loom::model(move || {
            // std's counts: who owns the pool is no part of the protocol.
            let threads = Arc::new(Threads(Mutex::new(Vec::new())));
            let threads_source = Box::new(LoomThreads(threads.clone()));
            let pool = Pool::new(threads_source, most_threads, Duration::MAX);
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
    fn a_job_that_finds_the_thread_going_to_rest_runs() {
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
    fn a_job_against_the_end_of_a_rest_runs_and_then_everybody_goes_home() {
        loom::model(|| {
            let threads = Arc::new(Threads(Mutex::new(Vec::new())));
            let keep_alive = Duration::from_secs(1);
            let pool = Pool::new(Box::new(LoomThreads(threads.clone())), 1, keep_alive);
            let done = Arc::new((AtomicUsize::new(0), Parker::new()));
            let late = Instant::now() + 1_000 * keep_alive;
            let reaper = thread::spawn({
                let pool = pool.clone();
                move || {
                    pool.dismiss(&mut pool.control.lock(), late);
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
                pool.dismiss(&mut pool.control.lock(), late);
                thread::yield_now();
            }
            pool.close();
            threads.join();
        });
    }

    /// Counts how it ends.
    struct Errand {
        ends: Arc<[AtomicUsize; 2]>,
        has_run: bool,
    }

    impl Drop for Errand {
        fn drop(&mut self) {
            self.ends[usize::from(self.has_run)].fetch_add(1, Relaxed);
        }
    }

    /// A close against a job on its way in: whatever was accepted runs or is
    /// dropped once, and every thread goes home.
    fn check_close(mandatory: bool) {
        loom::model(move || {
            let threads = Arc::new(Threads(Mutex::new(Vec::new())));
            let pool = Pool::new(Box::new(LoomThreads(threads.clone())), 1, Duration::MAX);
            let ends = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let mut errand = Errand {
                ends: ends.clone(),
                has_run: false,
            };
            let sender = thread::spawn({
                let pool = pool.clone();
                move || {
                    let task = Tasks::job(move || {
                        errand.has_run = true;
                        drop(errand);
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
