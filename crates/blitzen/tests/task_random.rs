//! Random programs of hostile users of the task API.
//!
//! Each program is made from a seed. Whatever it does, every future and every output is dropped
//! exactly once, and every join handle that is awaited has one outcome, which is explained by
//! what the program did. A failure prints its seed; `BLITZEN_SEED=n` runs that program alone.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime};
use blitzen::task::{
    self, AbortHandle, JoinError, JoinHandle, JoinSet, LocalSet, shield, spawn_local, yield_now,
};

/// Far more than a program takes on the busiest machine: only one that hangs gets there.
const DEADLINE: Duration = Duration::from_secs(120);
const PROGRAMS: u64 = 1_000;
const FUTURES_PER_PROGRAM: usize = 150;
const MAX_DEPTH: u32 = 4;

#[test]
fn random_programs_drop_everything_once_and_join_everything_once() {
    silence_planned_panics();
    match std::env::var("BLITZEN_SEED") {
        Ok(seed) => run_program(seed.parse().expect("BLITZEN_SEED is a number")),
        Err(_) => (1..=PROGRAMS).for_each(run_program),
    }
}

/// What the programs panic with on purpose.
struct Planned;

fn silence_planned_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Planned>() {
            report(info);
        }
    }));
}

fn run_program(seed: u64) {
    let (done, ended) = mpsc::channel();
    let program = thread::spawn(move || {
        Program::run(seed);
        let _ = done.send(());
    });
    let ended = ended.recv_timeout(DEADLINE);
    if ended == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("the program with BLITZEN_SEED={seed} hangs");
    }
    if let Err(payload) = program.join() {
        eprintln!("the program with BLITZEN_SEED={seed} failed");
        resume_unwind(payload);
    }
}

#[derive(Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds should not begin alike.
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..4).for_each(|_| _ = random.next());
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// What a program has made, and has kept for later.
#[derive(Default)]
struct Program {
    /// How often each future and output was dropped.
    drops: Mutex<Vec<Arc<AtomicUsize>>>,
    futures: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
    aborts: Mutex<Vec<AbortHandle>>,
    handles: Mutex<Vec<JoinHandle<Output>>>,
}

/// Something that must be dropped once.
struct Tracked(Arc<AtomicUsize>);

impl Drop for Tracked {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Panics when dropped, unless a panic is on its way.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic_any(Planned);
        }
    }
}

struct Output {
    _bomb: Option<Bomb>,
    _tracked: Tracked,
}

/// A waker that panics when it is called.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic_any(Planned);
    }
}

type Body = Pin<Box<dyn Future<Output = Output> + Send>>;

impl Program {
    fn run(seed: u64) {
        let program = Arc::new(Self::default());
        let mut random = Random::new(seed);
        let runtime = match random.below(4) {
            0 => Builder::new_current_thread().enable_all().build(),
            workers => Builder::new_multi_thread()
                .worker_threads(workers)
                .enable_all()
                .build(),
        };
        let runtime = runtime.unwrap();
        let main = program.body(random.next(), 0);
        planned(|| drop(runtime.block_on(main)));
        let (early, late) = program.take_wakers(&mut random);
        early.into_iter().for_each(Waker::wake);
        match random.below(3) {
            0 => program.shut_down_from_a_task(runtime),
            _ => drop(runtime),
        }
        late.into_iter().for_each(Waker::wake);
        for handle in std::mem::take(&mut *program.handles.lock().unwrap()) {
            assert!(handle.is_finished(), "the runtime is gone");
            drop(handle);
        }
        program.aborts.lock().unwrap().clear();
        program.check();
    }

    /// Drops the runtime on a thread that also holds handles to it.
    fn shut_down_from_a_task(&self, runtime: Runtime) {
        let handle = runtime.handle().clone();
        let waiting = thread::spawn(move || {
            let refused = handle.spawn(async {});
            let _ = handle.block_on(refused);
        });
        drop(runtime);
        waiting.join().unwrap();
    }

    fn check(&self) {
        let drops = self.drops.lock().unwrap();
        for (index, dropped) in drops.iter().enumerate() {
            let dropped = dropped.load(SeqCst);
            assert_eq!(dropped, 1, "number {index} of {}", drops.len());
        }
    }

    fn track(&self) -> Tracked {
        let drops = Arc::new(AtomicUsize::new(0));
        self.drops.lock().unwrap().push(drops.clone());
        Tracked(drops)
    }

    fn take_wakers(&self, random: &mut Random) -> (Vec<Waker>, Vec<Waker>) {
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        wakers.into_iter().partition(|_| random.one_in(2))
    }

    fn has_room(&self) -> bool {
        self.futures.load(SeqCst) < FUTURES_PER_PROGRAM
    }

    /// A future that does a few random things.
    fn body(self: &Arc<Self>, seed: u64, depth: u32) -> Body {
        self.futures.fetch_add(1, SeqCst);
        let program = self.clone();
        let tracked = self.track();
        Box::pin(async move {
            let _tracked = tracked;
            let mut random = Random::new(seed);
            let bomb = random.one_in(15).then_some(Bomb);
            let steps = if depth == 0 { 12 } else { 6 };
            for _ in 0..random.below(steps + 1) {
                if depth < MAX_DEPTH && program.has_room() {
                    program.spawn_something(&mut random, depth).await;
                }
                program.do_something(&mut random).await;
            }
            // Before there is an output: the compiler forgets that of a function whose locals
            // panic when they are dropped behind it.
            drop(bomb);
            Output {
                _bomb: random.one_in(15).then_some(Bomb),
                _tracked: program.track(),
            }
        })
    }

    /// Spawns a child, and remembers how to abort it.
    fn spawn(self: &Arc<Self>, random: &mut Random, depth: u32) -> JoinHandle<Output> {
        let handle = task::spawn(self.body(random.next(), depth + 1));
        self.aborts.lock().unwrap().push(handle.abort_handle());
        handle
    }

    async fn spawn_something(self: &Arc<Self>, random: &mut Random, depth: u32) {
        let random_child = |random: &mut Random| self.spawn(random, depth);
        match random.below(10) {
            0 => drop(random_child(random)),
            1 => explain(random_child(random).await),
            2 => {
                let child = random_child(random);
                child.abort();
                explain(child.await);
            }
            3 => {
                let child = random_child(random);
                shield(shield(async { explain(child.await) })).await;
            }
            4 => {
                let mut child = random_child(random);
                let mut joined = join_with_panicking_waker(&mut child);
                yield_now().await;
                joined = joined || join_with_panicking_waker(&mut child);
                if !joined && random.one_in(2) {
                    explain(child.await);
                }
            }
            5 => {
                let child = random_child(random);
                self.handles.lock().unwrap().push(child);
            }
            6 => {
                let kept = self.handles.lock().unwrap().pop();
                if let Some(kept) = kept {
                    kept.abort();
                    drop(kept);
                }
            }
            7 => self.use_join_set(random, depth).await,
            8 => self.use_another_runtime(random, depth).await,
            _ => self.use_local_set(random, depth).await,
        }
    }

    async fn use_join_set(self: &Arc<Self>, random: &mut Random, depth: u32) {
        let mut tasks = JoinSet::new();
        for _ in 0..random.below(5) {
            tasks.spawn(self.body(random.next(), depth + 1));
        }
        let len = tasks.len();
        match random.below(5) {
            0 => drop(tasks),
            1 => tasks.detach_all(),
            2 => tasks.shutdown().await,
            3 => {
                tasks.abort_all();
                let mut joined = 0;
                while let Some(ended) = tasks.join_next().await {
                    explain(ended);
                    joined += 1;
                }
                assert_eq!(joined, len);
            }
            _ => {
                let waker = Waker::from(Arc::new(PanickingWaker));
                let polled = tasks.poll_join_next(&mut Context::from_waker(&waker));
                let mut joined = matches!(polled, Poll::Ready(Some(_))) as usize;
                planned(|| drop(polled));
                while let Some(ended) = tasks.join_next_with_id().await {
                    explain(ended.map(|(_, output)| output));
                    joined += 1;
                }
                assert_eq!(joined, len);
            }
        }
    }

    /// Runs a program on a runtime of its own, on a thread of the blocking pool.
    async fn use_another_runtime(self: &Arc<Self>, random: &mut Random, depth: u32) {
        let body = self.body(random.next(), depth + 1);
        let nested = task::spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(body)
        });
        match random.one_in(3) {
            true => drop(nested),
            false => explain(nested.await),
        }
    }

    /// Runs a local set on a thread of the blocking pool, and perhaps drops it half way.
    async fn use_local_set(self: &Arc<Self>, random: &mut Random, depth: u32) {
        let program = self.clone();
        let mut random = random.clone();
        let local = task::spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let set = LocalSet::new();
            let ended = Rc::new(Cell::new(0));
            let _entered = random.one_in(2).then(|| set.enter());
            let mut tasks = Vec::new();
            for _ in 0..random.below(4) {
                let (body, ended) = (program.body(random.next(), depth + 1), ended.clone());
                tasks.push(set.spawn_local(async move {
                    let output = body.await;
                    ended.set(ended.get() + 1);
                    output
                }));
            }
            for task in tasks.iter().filter(|_| random.one_in(4)) {
                program.aborts.lock().unwrap().push(task.abort_handle());
            }
            if random.one_in(3) {
                // Polled a little, then dropped.
                runtime.block_on(set.run_until(async {
                    spawn_local(yield_now());
                    yield_now().await;
                }));
                drop(set);
                assert!(tasks.iter().all(|task| task.is_finished()));
            } else {
                runtime.block_on(set.run_until(async {
                    for task in tasks {
                        explain(task.await);
                    }
                }));
            }
        });
        match local.await {
            Ok(()) => {}
            Err(error) => assert_planned(error),
        }
    }

    async fn do_something(self: &Arc<Self>, random: &mut Random) {
        match random.below(12) {
            0..=2 => yield_now().await,
            3 => shield(yield_now()).await,
            4 => task::consume_budget().await,
            5 => {
                poll_fn(|cx| {
                    self.wakers.lock().unwrap().push(cx.waker().clone());
                    Poll::Ready(())
                })
                .await;
            }
            6 => {
                let waker = self.wakers.lock().unwrap().pop();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            7 => {
                // Perhaps itself.
                let aborts = self.aborts.lock().unwrap();
                if !aborts.is_empty() {
                    aborts[random.below(aborts.len())].abort();
                }
            }
            8 => {
                // Woken while it runs, then waits.
                let mut woken = false;
                poll_fn(|cx| {
                    if std::mem::replace(&mut woken, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
            9 if random.one_in(4) => panic_any(Planned),
            _ => {}
        }
    }
}

/// Runs code that may panic as planned; `None` if it did.
fn planned<R>(code: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Planned>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// Looks at the one outcome of a task, and drops it.
fn explain(outcome: Result<Output, JoinError>) {
    match outcome {
        // Whose drop may panic, as a part of the program.
        Ok(output) => drop(output),
        Err(error) => assert_planned(error),
    }
}

fn assert_planned(error: JoinError) {
    if error.is_cancelled() {
        return;
    }
    let payload = error.into_panic();
    if !payload.is::<Planned>() {
        resume_unwind(payload);
    }
}

/// Leaves a waker that panics with a handle; true if its task has ended, and was joined.
fn join_with_panicking_waker(handle: &mut JoinHandle<Output>) -> bool {
    let waker = Waker::from(Arc::new(PanickingWaker));
    match Pin::new(handle).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(outcome) => {
            planned(|| explain(outcome));
            true
        }
        Poll::Pending => false,
    }
}
