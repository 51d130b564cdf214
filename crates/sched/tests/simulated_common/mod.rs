//! A world without threads: a test gives workers and jobs their turns, one at a time, and its clock
//! moves only when it is read or when the test says so.
#![allow(dead_code)] // each test uses some of it

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use blitzen_sched::{Worker, World};
use blitzen_task::current;
use blitzen_util::rng::Rng;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// What waits for a turn, and where each of it runs: at a place of type `P`.
pub(crate) struct Waiting<P> {
    #[allow(clippy::vec_box)] // a worker is handed around in its box
    pub(crate) workers: Vec<(P, Box<Worker>)>,
    pub(crate) jobs: Vec<(P, Job)>,
}

pub(crate) struct Simulated<P = ()> {
    seed: u64,
    /// The time that reading the clock takes.
    read_ns: u64,
    /// Where jobs of the blocking pool run.
    pool: P,
    pub(crate) now_ns: AtomicU64,
    pub(crate) waiting: Mutex<Waiting<P>>,
}

/// The world of one scheduler, whose workers run at the place.
struct SimulatedWorld<P>(Arc<Simulated<P>>, P);

impl<P: Copy + Send + Sync + 'static> Simulated<P> {
    pub(crate) fn new(seed: u64, read_ns: u64, pool: P) -> Arc<Self> {
        Arc::new(Self {
            seed,
            read_ns,
            pool,
            now_ns: AtomicU64::new(0),
            waiting: Mutex::new(Waiting {
                workers: Vec::new(),
                jobs: Vec::new(),
            }),
        })
    }

    /// The world of a scheduler whose workers run at `place`.
    pub(crate) fn world(self: &Arc<Self>, place: P) -> Box<dyn World> {
        Box::new(SimulatedWorld(self.clone(), place))
    }

    /// Takes all workers that wait for a turn.
    #[allow(clippy::vec_box)]
    pub(crate) fn take_workers(&self) -> Vec<Box<Worker>> {
        let workers = std::mem::take(&mut self.waiting.lock().unwrap().workers);
        workers.into_iter().map(|(_, worker)| worker).collect()
    }
}

impl<P: Copy + Send + Sync + 'static> World for SimulatedWorld<P> {
    fn turn(&self, _worker: usize, max_wait: Option<Duration>) {
        assert_eq!(max_wait, Some(Duration::ZERO), "nobody sleeps here");
    }

    fn serve(&self, _worker: usize) {}

    fn interrupt(&self, _worker: usize) {}

    fn now_ns(&self) -> u64 {
        self.0.now_ns.fetch_add(self.0.read_ns, Relaxed)
    }

    fn seed(&self, worker: usize) -> u64 {
        Rng::derive(self.0.seed, worker as u64)
    }

    fn start(&self, worker: Worker, _: Option<String>) -> io::Result<()> {
        let mut waiting = self.0.waiting.lock().unwrap();
        waiting.workers.push((self.1, Box::new(worker)));
        Ok(())
    }

    fn run_on_pool(&self, job: Job) {
        let mut waiting = self.0.waiting.lock().unwrap();
        waiting.jobs.push((self.0.pool, job));
    }
}

/// Gives a worker turns until it has left its scheduler, which has closed.
pub(crate) fn step_until_left(worker: Box<Worker>) {
    let mut worker = Some(worker);
    while let Some(present) = worker {
        worker = present.step().0;
    }
}

pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        assert!(current::yield_if_own(cx.waker()));
        Poll::Pending
    })
    .await;
}
