//! Millions of tasks that spawn, wake, abort, panic and are shut down at
//! random: every one is dropped, none is lost. Seeded, and bounded in time.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use blitzen::channel::{mpsc, oneshot};
use blitzen::runtime::Builder;
use blitzen_util::rng::Rng;

/// Rounds end when this has passed, or the tasks were spawned: whichever is first.
const TIME: Duration = Duration::from_secs(10);
const TASKS: u64 = 2_000_000;

/// Counts the tasks that are not gone.
struct Alive(Arc<AtomicU64>);

impl Alive {
    fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// What all tasks of a run share.
#[derive(Clone)]
struct Run {
    alive: Arc<AtomicU64>,
    spawned: Arc<AtomicU64>,
    /// No new subtrees from here on.
    winding_up: Arc<AtomicBool>,
}

fn begin(run: &Run, seed: u64, depth: u32) -> blitzen::task::JoinHandle<()> {
    run.spawned.fetch_add(1, Relaxed);
    let future = live(run.clone(), Alive::new(&run.alive), seed, depth);
    // Boxed where the future contains itself.
    let future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
    blitzen::spawn(future)
}

async fn live(run: Run, alive: Alive, seed: u64, depth: u32) {
    let _alive = alive;
    let mut rng = Rng::new(seed);
    for step in 0..rng.below(6) {
        let child_seed = Rng::derive(seed, step.into());
        let may_branch = depth > 0 && !run.winding_up.load(Relaxed);
        match rng.below(9) {
            0 => blitzen::task::yield_now().await,
            1 if may_branch => drop(begin(&run, child_seed, depth - 1)),
            2 if may_branch => {
                let _ = begin(&run, child_seed, depth - 1).await;
            }
            3 if may_branch => {
                let child = begin(&run, child_seed, depth - 1);
                if rng.below(2) == 0 {
                    blitzen::task::yield_now().await;
                }
                child.abort();
                if rng.below(2) == 0 {
                    let _ = child.await;
                }
            }
            4 if may_branch => {
                let (send, receive) = oneshot::channel();
                let alive = Alive::new(&run.alive);
                blitzen::spawn(async move {
                    let _alive = alive;
                    let _ = send.send(());
                });
                assert!(receive.await.is_ok());
            }
            5 if may_branch => {
                let (send, mut receive) = mpsc::channel(1);
                let alive = Alive::new(&run.alive);
                let sender = blitzen::spawn(async move {
                    let _alive = alive;
                    for n in 0..3 {
                        if send.send(n).await.is_err() {
                            return;
                        }
                    }
                });
                let mut sum = 0;
                while let Some(n) = receive.recv().await {
                    sum += n;
                }
                assert_eq!(sum, 3);
                sender.await.unwrap();
            }
            6 => blitzen::task::shield(blitzen::task::yield_now()).await,
            7 if rng.below(50) == 0 => panic!("as the dice said"),
            8 if rng.below(50) == 0 => {
                // Only the end of the runtime ends this one.
                let alive = Alive::new(&run.alive);
                blitzen::spawn(async move {
                    let _alive = alive;
                    pending::<()>().await
                });
            }
            _ => {}
        }
    }
}

fn storm(workers: Option<usize>, seed: u64, time: Duration, tasks: u64) -> u64 {
    let end = Instant::now() + time;
    let mut rng = Rng::new(seed);
    let mut total = 0;
    while Instant::now() < end && total < tasks {
        let runtime = match workers {
            Some(workers) => Builder::new_multi_thread()
                .worker_threads(workers)
                .seed(seed)
                .build(),
            None => Builder::new_current_thread().seed(seed).build(),
        }
        .unwrap();
        let run = Run {
            alive: Arc::default(),
            spawned: Arc::default(),
            winding_up: Arc::default(),
        };
        // Some rounds end in the middle, some wind up first.
        let quota = 1_000 + u64::from(rng.below(60_000));
        let wind_up = rng.below(2) == 0;
        runtime.block_on(async {
            while run.spawned.load(Relaxed) < quota && Instant::now() < end {
                let tree = begin(&run, u64::from(rng.next_u32()), 6);
                if rng.below(4) == 0 {
                    let _ = tree.await;
                }
            }
            if wind_up {
                run.winding_up.store(true, Relaxed);
                for _ in 0..100 {
                    blitzen::task::yield_now().await;
                }
            }
        });
        total += run.spawned.load(Relaxed);
        drop(runtime);
        assert_eq!(run.alive.load(Relaxed), 0, "seed {seed}: tasks were lost");
    }
    total
}

/// The panics of the tasks are part of the plan; other tests run elsewhere.
fn hush() {
    std::panic::set_hook(Box::new(|info| {
        let planned = info.payload().downcast_ref::<&str>() == Some(&"as the dice said");
        if !planned {
            eprintln!("{info}");
        }
    }));
}

#[test]
fn millions_of_tasks_are_all_accounted_for() {
    hush();
    let mut total = 0;
    for (index, workers) in [Some(1), Some(2), Some(4), None].into_iter().enumerate() {
        total += storm(workers, 77 + index as u64, TIME / 4, TASKS / 4);
    }
    println!("{total} tasks");
    assert!(total > 1_000);
}
