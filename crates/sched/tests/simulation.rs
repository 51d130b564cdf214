//! The scheduler in a world of its own: one thread, a clock that only the
//! simulation moves, and every choice drawn from one seed.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use blitzen_sched::{Config, Scheduler, Step, Worker, World};
use blitzen_task::glue::next_id;
use blitzen_task::{JoinHandle, SpawnMeta, current};
use blitzen_util::rng::Rng;

/// A world without threads: its workers take turns.
struct Simulated {
    seed: u64,
    now_ns: AtomicU64,
    #[allow(clippy::vec_box)] // a worker is handed around in its box
    workers: Mutex<Vec<Box<Worker>>>,
}

struct Shared(Arc<Simulated>);

impl World for Shared {
    fn turn(&self, _worker: usize, max_wait: Option<Duration>) {
        assert_eq!(max_wait, Some(Duration::ZERO), "nobody sleeps here");
    }

    fn serve(&self, _worker: usize) {}

    fn interrupt(&self, _worker: usize) {}

    fn now_ns(&self) -> u64 {
        self.0.now_ns.fetch_add(1_000, Relaxed)
    }

    fn seed(&self, worker: usize) -> u64 {
        Rng::derive(self.0.seed, worker as u64)
    }

    fn start(&self, worker: Worker, _: Option<String>) -> io::Result<()> {
        self.0.workers.lock().unwrap().push(Box::new(worker));
        Ok(())
    }
}

type Log = Arc<Mutex<Vec<(usize, usize, u32)>>>;

fn spawn(
    scheduler: &Arc<Scheduler>,
    future: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let (handle, refused) = scheduler.spawn(future, next_id(), SpawnMeta::caller());
    assert!(refused.is_none());
    handle
}

async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        assert!(current::yield_if_own(cx.waker()));
        Poll::Pending
    })
    .await;
}

/// Tasks that spawn, yield, and wake each other, writing down what runs where.
fn program(
    scheduler: Arc<Scheduler>,
    log: Log,
    task: usize,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(steps(scheduler, log, task))
}

async fn steps(scheduler: Arc<Scheduler>, log: Log, task: usize) {
    let note = |step| {
        let worker = blitzen_sched::current_index().unwrap();
        log.lock().unwrap().push((task, worker, step));
    };
    note(0);
    if task < 40 {
        for child in [2 * task + 1, 2 * task + 2] {
            spawn(&scheduler, program(scheduler.clone(), log.clone(), child));
        }
    }
    for step in 1..4 {
        yield_now().await;
        note(step);
    }
    // A pair that hands a wake to and fro.
    let slot = Arc::new(Mutex::new(None::<Waker>));
    let partner = spawn(&scheduler, {
        let slot = slot.clone();
        async move {
            yield_now().await;
            if let Some(waker) = slot.lock().unwrap().take() {
                waker.wake();
            }
        }
    });
    let mut first = true;
    poll_fn(|cx| {
        if std::mem::take(&mut first) && !partner.is_finished() {
            *slot.lock().unwrap() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
    note(9);
}

/// Runs the program from a seed; what happened, in order.
fn run(seed: u64) -> Vec<(usize, usize, u32)> {
    let world = Arc::new(Simulated {
        seed,
        now_ns: AtomicU64::new(0),
        workers: Mutex::new(Vec::new()),
    });
    let scheduler = Scheduler::new(Config::new(3), Box::new(Shared(world.clone())));
    let log = Log::default();
    let root = spawn(&scheduler, program(scheduler.clone(), log.clone(), 0));
    let mut rng = Rng::new(seed);
    let mut workers = std::mem::take(&mut *world.workers.lock().unwrap());
    let mut idle_in_a_row = 0;
    while idle_in_a_row < 100 {
        let index = rng.below(workers.len() as u32) as usize;
        let (worker, step) = workers.swap_remove(index).step();
        idle_in_a_row = match step {
            Step::Ran => 0,
            Step::Idle => idle_in_a_row + 1,
            Step::Left => panic!("nobody closed the scheduler"),
        };
        workers.push(worker.unwrap());
    }
    assert!(root.is_finished());
    assert_eq!(scheduler.alive_tasks(), 0);
    scheduler.close();
    for worker in workers {
        let mut worker = Some(worker);
        while let Some(present) = worker {
            worker = present.step().0;
        }
    }
    assert!(scheduler.wait_stopped(Some(Duration::ZERO)));
    drop(root);
    std::mem::take(&mut *log.lock().unwrap())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 7, 1234] {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.len(), 81 * 5, "every task noted every step");
        assert_eq!(first, second);
    }
}

#[test]
fn another_seed_gives_another_run() {
    assert_ne!(run(1), run(2));
}

#[test]
fn a_run_uses_all_workers() {
    let mut workers: Vec<_> = run(3).iter().map(|(_, worker, _)| *worker).collect();
    workers.sort();
    workers.dedup();
    assert_eq!(workers, [0, 1, 2]);
}
