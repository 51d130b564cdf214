//! Random programs that use runtimes as nobody should: they nest them, enter foreign
//! handles, block in tasks, wakers and hooks, panic in every place, and end runtimes
//! inside others. Whatever they do, every future is dropped exactly once, every runtime
//! still works afterwards, and ends.
//!
//! A failure prints its seed; `BLITZEN_SEED=… cargo test --test engine_random` runs that
//! program alone, and `BLITZEN_SEEDS=…` more of them.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use blitzen::runtime::{Builder, Handle, LocalRuntime, Runtime};
use blitzen::task::{JoinHandle, block_in_place, shield, spawn_blocking, yield_now};
use blitzen::time::sleep;
use blitzen_util::rng::Rng;

const PROGRAMS: u64 = 60;
const FOREVER: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_micros(300);

/// What the programs panic with: not reported, since there are thousands.
struct Meant;

fn panic_as_meant() -> ! {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Meant>() {
                report(info);
            }
        }));
    });
    panic_any(Meant);
}

/// Counts futures that were made, and those that were dropped.
#[derive(Clone, Default)]
struct Ledger(Arc<[AtomicUsize; 2]>);

struct Counted(Ledger);

impl Ledger {
    fn count(&self) -> Counted {
        self.0[0].fetch_add(1, SeqCst);
        Counted(self.clone())
    }

    fn read(&self) -> [usize; 2] {
        [0, 1].map(|index| self.0[index].load(SeqCst))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0[1].fetch_add(1, SeqCst);
    }
}

/// What all parts of a program share.
#[derive(Clone)]
struct World {
    handles: Arc<[Handle]>,
    futures: Ledger,
    /// Tasks that anybody may abort.
    tasks: Arc<Mutex<Vec<JoinHandle<()>>>>,
    /// Steps that are left for the whole program.
    steps: Arc<AtomicUsize>,
}

impl World {
    fn any_handle(&self, rng: &mut Rng) -> &Handle {
        &self.handles[rng.below(self.handles.len() as u32) as usize]
    }

    fn take_step(&self) -> bool {
        self.steps
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .is_ok()
    }

    fn spawn(&self, rng: &mut Rng, depth: u32) {
        let task = program(self.clone(), Rng::new(rng.next_u32().into()), depth + 1);
        let task = self.any_handle(rng).spawn(task);
        match rng.below(3) {
            0 => drop(task),
            _ => self.tasks.lock().unwrap().push(task),
        }
    }

    fn abort_one(&self, rng: &mut Rng) {
        let mut tasks = self.tasks.lock().unwrap();
        if !tasks.is_empty() {
            let index = rng.below(tasks.len() as u32) as usize;
            let task = tasks.swap_remove(index);
            drop(tasks);
            task.abort();
        }
    }
}

/// Code that blocks, in whatever place.
fn block(world: &World, rng: &mut Rng) {
    match rng.below(6) {
        0 => thread::sleep(SHORT),
        1 => thread::yield_now(),
        2 => panic_as_meant(),
        3 => {
            let handle = world.any_handle(rng).clone();
            // A runtime that nobody drives would never end a sleep.
            handle.block_on(async { yield_now().await });
        }
        4 => {
            let inner = Builder::new_current_thread().enable_all().build().unwrap();
            let future = world.futures.count();
            inner.spawn(async move {
                let _future = future;
                pending::<()>().await
            });
            inner.block_on(async { sleep(SHORT).await });
        }
        _ => {
            let _entered = world.any_handle(rng).enter();
            block_in_place(thread::yield_now);
        }
    }
}

/// A waker that does harm before it wakes.
struct Hostile {
    inner: Waker,
    way: u32,
}

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        self.inner.wake_by_ref();
        match self.way {
            0 => panic_as_meant(),
            1 => block_in_place(thread::yield_now),
            _ => drop(catch_unwind(|| {
                let inner = Builder::new_current_thread().build().unwrap();
                inner.shutdown_background();
            })),
        }
    }
}

async fn with_hostile_waker(future: impl Future<Output = ()>, way: u32) {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        let inner = cx.waker().clone();
        let waker = Waker::from(Arc::new(Hostile { inner, way }));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await;
}

fn end_a_runtime_here(world: &World, rng: &mut Rng) {
    let future = world.futures.count();
    let held = async move {
        let _future = future;
        pending::<()>().await
    };
    let inner = match rng.below(2) {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap(),
    };
    inner.spawn(held);
    match rng.below(3) {
        0 => inner.shutdown_background(),
        1 => inner.shutdown_timeout(Duration::ZERO),
        // Refused with a panic in a task, after it was shut down.
        _ => drop(catch_unwind(AssertUnwindSafe(|| drop(inner)))),
    }
}

fn program(world: World, rng: Rng, depth: u32) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let counted = world.futures.count();
    Box::pin(async move {
        let _counted = counted;
        steps(world, rng, depth).await;
    })
}

async fn steps(world: World, mut rng: Rng, depth: u32) {
    while world.take_step() {
        match rng.below(16) {
            0..3 if depth < 4 => world.spawn(&mut rng, depth),
            3 => yield_now().await,
            4 => sleep(SHORT).await,
            5 => with_hostile_waker(sleep(SHORT), rng.below(3)).await,
            6 => with_hostile_waker(yield_now(), rng.below(3)).await,
            7 => block_somewhere(&world, &mut rng),
            8 => {
                let (world, mut rng) = (world.clone(), Rng::new(rng.next_u32().into()));
                let ended = spawn_blocking(move || block(&world, &mut rng)).await;
                drop(ended);
            }
            9 => world.abort_one(&mut rng),
            10 => end_a_runtime_here(&world, &mut rng),
            11 => shield(sleep(SHORT)).await,
            12 => {
                let _entered = world.any_handle(&mut rng).enter();
                world.spawn(&mut rng, depth.max(3));
            }
            13 if rng.below(4) == 0 => panic_as_meant(),
            14 if rng.below(4) == 0 => return,
            _ => {
                let task = world.tasks.lock().unwrap().pop();
                if let Some(task) = task {
                    // The other half may wait for this one: not for ever.
                    let _ = blitzen::time::timeout(SHORT, task).await;
                }
            }
        }
    }
}

/// Blocks in place; on a thread that may not, that is refused with a panic.
fn block_somewhere(world: &World, rng: &mut Rng) {
    let _ = catch_unwind(AssertUnwindSafe(|| block_in_place(|| block(world, rng))));
}

fn multi_thread(rng: &mut Rng) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(1 + rng.below(3) as usize)
        .enable_all();
    if rng.below(3) == 0 {
        builder.on_thread_park(|| panic_as_meant());
    }
    if rng.below(3) == 0 {
        builder.on_thread_unpark(|| block_in_place(thread::yield_now));
    }
    if rng.below(4) == 0 {
        builder.on_thread_start(|| panic_as_meant());
        builder.on_thread_stop(|| panic_as_meant());
    }
    builder.build().unwrap()
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let futures = Ledger::default();
    let runtimes: Vec<_> = (0..1 + rng.below(2))
        .map(|_| multi_thread(&mut rng))
        .collect();
    let shared = Builder::new_current_thread().enable_all().build().unwrap();
    let handles = runtimes.iter().map(|runtime| runtime.handle().clone());
    let world = World {
        handles: handles.chain([shared.handle().clone()]).collect(),
        futures: futures.clone(),
        tasks: Arc::default(),
        steps: Arc::new(AtomicUsize::new(300)),
    };
    let drive = |runtime: &Runtime, rng: &mut Rng| {
        let start = program(world.clone(), Rng::new(rng.next_u32().into()), 0);
        let start = AssertUnwindSafe(start);
        let _ = catch_unwind(AssertUnwindSafe(|| runtime.block_on(start.0)));
    };
    for runtime in &runtimes {
        drive(runtime, &mut rng);
    }
    // Two threads drive one current-thread runtime.
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut rng = Rng::new(rng.next_u32().into());
            let (shared, drive) = (&shared, &drive);
            scope.spawn(move || drive(shared, &mut rng));
        }
    });
    let local = LocalRuntime::new().unwrap();
    let start = program(world.clone(), Rng::new(rng.next_u32().into()), 0);
    let _ = catch_unwind(AssertUnwindSafe(|| {
        local.block_on(async { blitzen::task::spawn_local(start).await })
    }));

    // Everything still works, and what is spawned sees its own runtime.
    world.steps.store(0, SeqCst);
    for runtime in runtimes.iter().chain([&shared]) {
        let id = runtime.handle().id();
        let works = async move {
            sleep(SHORT).await;
            Handle::current().id()
        };
        assert_eq!(runtime.block_on(runtime.spawn(works)).unwrap(), id);
    }
    let tasks = std::mem::take(&mut *world.tasks.lock().unwrap());
    drop((world, tasks));
    drop(local);
    drop(shared);
    drop(runtimes);
    // Threads of inner runtimes that ended in the background may still drop theirs.
    for _ in 0..FOREVER.as_millis() {
        let [made, dropped] = futures.read();
        if made == dropped {
            return;
        }
        assert!(dropped < made, "{dropped} of {made} futures were dropped");
        thread::sleep(Duration::from_millis(1));
    }
    panic!("futures were made and dropped: {:?}", futures.read());
}

/// How many programs run: `BLITZEN_SEEDS` if it is set.
fn programs() -> u64 {
    let wanted = std::env::var("BLITZEN_SEEDS").ok();
    wanted.map_or(PROGRAMS, |count| count.parse().unwrap())
}

#[test]
fn hostile_programs_harm_nobody_else() {
    let seeds = match std::env::var("BLITZEN_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..programs()).collect(),
    };
    for seed in seeds {
        let (done, is_done) = mpsc::channel::<()>();
        let program = thread::spawn(move || {
            run(seed);
            drop(done);
        });
        match is_done.recv_timeout(FOREVER) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("BLITZEN_SEED={seed} hangs"),
            _ => assert!(program.join().is_ok(), "BLITZEN_SEED={seed} fails"),
        }
    }
}
