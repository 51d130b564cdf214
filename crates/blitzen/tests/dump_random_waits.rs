//! Deadlocks of random programs, against a model of which tasks can go on.
//!
//! Each program is made from a seed: tasks take locks, and then each of them waits for a lock, for
//! the end of a task, for several things, or for none. The model knows all of it, lets everything
//! happen that can, and looks for circles by following every task until it comes back to itself. A
//! failure prints its seed; `BLITZEN_SEED=n` runs that program alone.
//!
//! With 32 bits, a task has no room to note what it waits for.

#![cfg(target_pointer_width = "64")]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use blitzen::runtime::dump::{TaskStatus, note_lock_owners};
use blitzen::runtime::{Builder, Runtime};
use blitzen::sync::{Barrier, Mutex, Notify, RwLock};
use blitzen::task::{Id, JoinHandle};
use blitzen_util::rng::Rng;

/// Far more than a program takes on the busiest machine: only one that hangs gets there.
const DEADLINE: Duration = Duration::from_secs(120);
const PROGRAMS: u64 = 1_000;
const MAX_TASKS: usize = 7;

#[test]
fn the_deadlocks_of_random_programs_are_those_of_the_model() {
    note_lock_owners(true);
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    let run = |seed: u64| {
        let result = catch_unwind(AssertUnwindSafe(|| run_program(&runtime, seed)));
        result.unwrap_or_else(|panic| {
            eprintln!("the program with BLITZEN_SEED={seed} failed");
            resume_unwind(panic)
        })
    };
    let found = match std::env::var("BLITZEN_SEED") {
        Ok(seed) => return drop(run(seed.parse().expect("BLITZEN_SEED is a number"))),
        Err(_) => (1..=PROGRAMS).map(run).collect::<Vec<_>>(),
    };
    // Otherwise the programs show nothing.
    let with_len = |len: usize| {
        found
            .iter()
            .flatten()
            .filter(|&&found| found == len)
            .count()
    };
    assert!(found.iter().any(Vec::is_empty), "some go on");
    for len in 1..=3 {
        assert!(with_len(len) > 2, "{} circles of {len}", with_len(len));
    }
}

/// How a task takes a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// By a guard that borrows the lock: its owner is known.
    Borrowed,
    /// By a guard whose owner is not known.
    Owned,
    Tried,
    Read,
}

/// Who holds a lock at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Nobody,
    /// The thread of the test.
    Outside,
    Task(usize, Hold),
}

/// What a task waits for after it has taken its locks. It ends when it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    Lock(usize),
    /// The end of a task.
    Join(usize),
    Notify,
    /// The first of two locks.
    EitherLock(usize, usize),
    LockOrNotify(usize),
    /// A lock; somebody else has a waker of the task as well.
    LockWithWaker(usize),
    /// A lock, with a waker that is not the task's own.
    NestedLock(usize),
    /// A lock, and in the same poll no more, but something else that never comes.
    GivenUpLock(usize),
}

/// A program, and what has happened in it.
#[derive(Clone, Debug)]
struct Model {
    holders: Vec<Holder>,
    waits: Vec<Wait>,
    has_ended: Vec<bool>,
    is_notified: bool,
    has_foreign_wakers: bool,
}

impl Model {
    fn new(rng: &mut Rng) -> Self {
        let mut below = |bound: usize| rng.below(bound as u32) as usize;
        let tasks = 1 + below(MAX_TASKS);
        let locks = 1 + below(tasks + 1);
        let holders = (0..locks).map(|_| match below(12) {
            0 => Holder::Nobody,
            1 => Holder::Outside,
            2 => Holder::Task(below(tasks), Hold::Owned),
            3 => Holder::Task(below(tasks), Hold::Tried),
            4 => Holder::Task(below(tasks), Hold::Read),
            _ => Holder::Task(below(tasks), Hold::Borrowed),
        });
        let holders = holders.collect();
        let mut is_joined = vec![false; tasks];
        let waits = (0..tasks).map(|_| match below(17) {
            0 => Wait::Nothing,
            1 => Wait::Notify,
            2 => Wait::EitherLock(below(locks), below(locks)),
            3 => Wait::LockOrNotify(below(locks)),
            4 => Wait::LockWithWaker(below(locks)),
            5 => Wait::NestedLock(below(locks)),
            6 => Wait::GivenUpLock(below(locks)),
            7..=10 => {
                let joined = below(tasks);
                // It has one handle.
                match std::mem::replace(&mut is_joined[joined], true) {
                    false => Wait::Join(joined),
                    true => Wait::Lock(below(locks)),
                }
            }
            _ => Wait::Lock(below(locks)),
        });
        Self {
            waits: waits.collect(),
            holders,
            has_ended: vec![false; tasks],
            is_notified: false,
            has_foreign_wakers: true,
        }
    }

    fn tasks(&self) -> usize {
        self.waits.len()
    }

    fn alive(&self) -> Vec<usize> {
        let tasks = 0..self.tasks();
        tasks.filter(|&task| !self.has_ended[task]).collect()
    }

    /// Whether a lock is free, or will be: who gets it after its first holder gives it back.
    fn is_free(&self, lock: usize) -> bool {
        match self.holders[lock] {
            Holder::Nobody => true,
            Holder::Outside => false,
            Holder::Task(task, _) => self.has_ended[task],
        }
    }

    /// Lets everything happen that can.
    fn settle(&mut self) {
        loop {
            let goes_on = |task: &usize| match self.waits[*task] {
                Wait::Nothing => true,
                Wait::Lock(lock) | Wait::LockWithWaker(lock) | Wait::NestedLock(lock) => {
                    self.is_free(lock)
                }
                Wait::Join(joined) => self.has_ended[joined],
                Wait::Notify => self.is_notified,
                Wait::EitherLock(one, other) => self.is_free(one) || self.is_free(other),
                Wait::LockOrNotify(lock) => self.is_free(lock) || self.is_notified,
                Wait::GivenUpLock(_) => false,
            };
            let Some(task) = self.alive().into_iter().find(goes_on) else {
                return;
            };
            self.has_ended[task] = true;
        }
    }

    /// The only task that can end the wait of a task that has not ended, if that is known.
    fn awaited(&self, task: usize) -> Option<usize> {
        let lock = match self.waits[task] {
            Wait::Join(joined) => return Some(joined),
            Wait::Lock(lock) => lock,
            Wait::LockWithWaker(lock) if !self.has_foreign_wakers => lock,
            _ => return None,
        };
        match self.holders[lock] {
            Holder::Task(owner, Hold::Borrowed) => Some(owner),
            _ => None,
        }
    }

    /// The tasks that wait for each other, in circles of which each begins at its smallest task.
    fn circles(&self) -> BTreeSet<Vec<usize>> {
        let circle_from = |start: usize| {
            let mut path = vec![start];
            while path.len() <= self.tasks() {
                match self.awaited(*path.last()?)? {
                    next if next == start => return Some(path),
                    next => path.push(next),
                }
            }
            None // it leads into a circle of others
        };
        let is_first = |path: &Vec<usize>| path.iter().min() == path.first();
        let circles = self.alive().into_iter().filter_map(circle_from);
        circles.filter(is_first).collect()
    }
}

/// A lock of either kind.
#[derive(Clone)]
enum Lock {
    Mutex(Arc<Mutex<()>>),
    RwLock(Arc<RwLock<()>>),
}

impl Lock {
    /// Locks it, for writing if that matters, and gives it back at once.
    async fn pass(&self) {
        match self {
            Self::Mutex(mutex) => drop(mutex.lock().await),
            Self::RwLock(lock) => drop(lock.write().await),
        }
    }
}

/// What the tasks of a program share.
struct Shared {
    locks: Vec<Lock>,
    /// Of all tasks. An `AbortHandle` would count as a waker.
    handles: OnceLock<Vec<StdMutex<JoinHandle<()>>>>,
    /// Also the test waits for it, after it has set `handles`.
    all_have_locks: Barrier,
    /// How many tasks have begun to wait.
    waiting: AtomicUsize,
    notify: Notify,
    foreign_wakers: StdMutex<Vec<Waker>>,
}

impl Shared {
    fn keep_waker(&self, cx: &Context<'_>) {
        let mut wakers = self.foreign_wakers.lock().unwrap();
        wakers.push(cx.waker().clone());
    }
}

/// A program that runs.
struct Running<'a> {
    runtime: &'a Runtime,
    shared: Arc<Shared>,
    ids: Vec<Id>,
}

/// Runs a program; returns how long the circles were that it ever had.
fn run_program(runtime: &Runtime, seed: u64) -> Vec<usize> {
    let rng = &mut Rng::new(seed);
    let mut model = Model::new(rng);
    let locks = (0..model.holders.len()).map(|lock| {
        let must_read = matches!(model.holders[lock], Holder::Task(_, Hold::Read));
        match must_read || rng.below(2) == 0 {
            true => Lock::RwLock(Arc::new(RwLock::new(()))),
            false => Lock::Mutex(Arc::new(Mutex::new(()))),
        }
    });
    let shared = Arc::new(Shared {
        locks: locks.collect(),
        handles: OnceLock::new(),
        all_have_locks: Barrier::new(model.tasks() + 1),
        waiting: AtomicUsize::new(0),
        notify: Notify::new(),
        foreign_wakers: StdMutex::default(),
    });
    // Dropped by hand, when the model says so.
    let mut outside: Vec<Box<dyn Send>> = Vec::new();
    for (lock, holder) in model.holders.iter().enumerate() {
        if *holder == Holder::Outside {
            match &shared.locks[lock] {
                Lock::Mutex(mutex) => outside.push(Box::new(mutex.clone().try_lock_owned())),
                Lock::RwLock(lock) => outside.push(Box::new(lock.clone().try_write_owned())),
            }
        }
    }
    let running = Running::start(runtime, shared, &model);
    let mut lens = BTreeSet::new();
    model.settle();
    running.check(&model, &mut lens);
    while let Some(&task) = model.alive().first() {
        match rng.below(4) {
            0 if model.has_foreign_wakers => {
                model.has_foreign_wakers = false;
                running.shared.foreign_wakers.lock().unwrap().clear();
            }
            1 if !model.is_notified => {
                model.is_notified = true;
                running.shared.notify.notify_waiters();
            }
            2 if !outside.is_empty() => {
                outside.clear();
                for holder in &mut model.holders {
                    if *holder == Holder::Outside {
                        *holder = Holder::Nobody;
                    }
                }
            }
            _ => {
                let alive = model.alive();
                let task = match rng.below(4) {
                    0 => task,
                    _ => alive[rng.below(alive.len() as u32) as usize],
                };
                model.has_ended[task] = true;
                running.abort(task);
            }
        }
        model.settle();
        running.check(&model, &mut lens);
    }
    lens.into_iter().map(|circle| circle.len()).collect()
}

impl<'a> Running<'a> {
    fn start(runtime: &'a Runtime, shared: Arc<Shared>, model: &Model) -> Self {
        let tasks = (0..model.tasks()).map(|task| {
            let held = model.holders.iter().enumerate();
            let held = held.filter_map(|(lock, holder)| match holder {
                Holder::Task(owner, hold) if *owner == task => Some((lock, *hold)),
                _ => None,
            });
            let (held, wait, shared) = (held.collect(), model.waits[task], shared.clone());
            runtime.spawn(async move { hold_and_wait(&shared, held, wait).await })
        });
        let tasks: Vec<_> = tasks.collect();
        let ids = tasks.iter().map(JoinHandle::id).collect();
        let handles = tasks.into_iter().map(StdMutex::new).collect();
        shared.handles.set(handles).unwrap();
        runtime.block_on(shared.all_have_locks.wait());
        Self {
            runtime,
            shared,
            ids,
        }
    }

    fn abort(&self, task: usize) {
        self.shared.handles.get().unwrap()[task]
            .lock()
            .unwrap()
            .abort();
    }

    /// Waits until nothing happens any more, and compares what is left with the model.
    fn check(&self, model: &Model, circles: &mut BTreeSet<Vec<usize>>) {
        let expected = model.circles();
        let started = Instant::now();
        loop {
            let is_settled = self.is_settled(model);
            let found: BTreeSet<_> = self.deadlocks().into_iter().collect();
            if is_settled {
                assert_eq!(found, expected, "{model:?}");
                break;
            }
            // Whatever happens until then, these are for ever.
            assert!(found.is_subset(&expected), "{found:?} {model:?}");
            assert!(started.elapsed() < DEADLINE, "it hangs: {model:?}");
            thread::yield_now();
        }
        circles.extend(expected);
    }

    /// Whether all tasks have ended that should, and all others wait.
    fn is_settled(&self, model: &Model) -> bool {
        if self.shared.waiting.load(SeqCst) < model.tasks() {
            return false;
        }
        let listed = self.runtime.handle().tasks();
        let has_settled = |task: usize| match listed.get(self.ids[task]) {
            Some(listed) => !model.has_ended[task] && listed.status() == TaskStatus::Idle,
            None => {
                assert!(model.has_ended[task], "task {task} has ended: {model:?}");
                true
            }
        };
        (0..model.tasks()).all(has_settled)
    }

    fn deadlocks(&self) -> Vec<Vec<usize>> {
        let found = self.runtime.handle().deadlocks();
        let number = |id: Id| self.ids.iter().position(|other| *other == id).unwrap();
        let tasks = found.iter().map(|deadlock| {
            let tasks = deadlock.tasks().iter().map(|task| number(task.id()));
            tasks.collect()
        });
        tasks.collect()
    }
}

/// A task of a program.
async fn hold_and_wait(shared: &Shared, held: Vec<(usize, Hold)>, wait: Wait) {
    let mut guards: Vec<Box<dyn Send + '_>> = Vec::new();
    for (lock, hold) in held {
        guards.push(match (&shared.locks[lock], hold) {
            (Lock::Mutex(mutex), Hold::Borrowed) => Box::new(mutex.lock().await),
            (Lock::Mutex(mutex), Hold::Owned) => Box::new(mutex.clone().lock_owned().await),
            (Lock::Mutex(mutex), _) => Box::new(mutex.try_lock().unwrap()),
            (Lock::RwLock(lock), Hold::Borrowed) => Box::new(lock.write().await),
            (Lock::RwLock(lock), Hold::Owned) => Box::new(lock.clone().write_owned().await),
            (Lock::RwLock(lock), Hold::Tried) => Box::new(lock.try_write().unwrap()),
            (Lock::RwLock(lock), Hold::Read) => Box::new(lock.read().await),
        });
    }
    shared.all_have_locks.wait().await;
    let notified = shared.notify.notified();
    let pass = |lock: usize| shared.locks[lock].pass();
    // In the poll that begins to wait: a task that is idle after it waits.
    shared.waiting.fetch_add(1, SeqCst);
    match wait {
        Wait::Nothing => {}
        Wait::Lock(lock) => pass(lock).await,
        Wait::Join(joined) => {
            let handle = &shared.handles.get().unwrap()[joined];
            let _ = poll_fn(|cx| Pin::new(&mut *handle.lock().unwrap()).poll(cx)).await;
        }
        Wait::Notify => notified.await,
        Wait::EitherLock(one, other) => blitzen::select! {
            () = pass(one) => {}
            () = pass(other) => {}
        },
        Wait::LockOrNotify(lock) => blitzen::select! {
            () = pass(lock) => {}
            () = notified => {}
        },
        Wait::LockWithWaker(lock) => {
            poll_fn(|cx| {
                shared.keep_waker(cx);
                Poll::Ready(())
            })
            .await;
            pass(lock).await;
        }
        Wait::NestedLock(lock) => Nested::new(pass(lock)).await,
        Wait::GivenUpLock(lock) => {
            let mut given_up = Some(Box::pin(pass(lock)));
            poll_fn(|cx| {
                let _ = given_up.take().map(|mut pass| pass.as_mut().poll(cx));
                shared.keep_waker(cx);
                Poll::Pending
            })
            .await
        }
    }
    drop(guards);
}

/// Polls a future with a waker of its own, as sets of futures do.
struct Nested<F> {
    future: Pin<Box<F>>,
    waker: Arc<NestedWaker>,
}

struct NestedWaker(StdMutex<Option<Waker>>);

impl Wake for NestedWaker {
    fn wake(self: Arc<Self>) {
        if let Some(waker) = &*self.0.lock().unwrap() {
            waker.wake_by_ref();
        }
    }
}

impl<F: Future> Nested<F> {
    fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            waker: Arc::new(NestedWaker(StdMutex::new(None))),
        }
    }
}

impl<F: Future> Future for Nested<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        *self.waker.0.lock().unwrap() = Some(cx.waker().clone());
        let waker = Waker::from(self.waker.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}
