//! A scheduler whose world has fewer threads to give than it asks for.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use blitzen_sched::{Config, Monitor, Scheduler, Worker, World};
use blitzen_task::SpawnMeta;
use blitzen_task::glue::next_id;
use blitzen_util::park::Parker;

/// Far more than anything here takes, on the busiest machine.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Whether it was so at some moment: it need not stay so.
fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + LONGEST_WAIT;
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        thread::yield_now();
    }
    false
}

/// Two workers, parkers for drivers, and no monitor.
struct Poor {
    parkers: [Parker; 2],
    threads: usize,
    /// Which workers somebody has served.
    served: [AtomicBool; 2],
    began: Instant,
}

struct Shared(Arc<Poor>);

impl World for Shared {
    fn turn(&self, worker: usize, max_wait: Option<Duration>) {
        let parker = &self.0.parkers[worker];
        match max_wait {
            None => parker.park(),
            Some(Duration::ZERO) => {}
            Some(limit) => {
                parker.park_timeout(limit);
            }
        }
    }

    fn serve(&self, worker: usize) {
        self.0.served[worker].store(true, Relaxed);
    }

    fn interrupt(&self, worker: usize) {
        self.0.parkers[worker].unpark();
    }

    fn now_ns(&self) -> u64 {
        self.0.began.elapsed().as_nanos() as u64
    }

    fn seed(&self, worker: usize) -> u64 {
        worker as u64
    }

    fn start(&self, worker: Worker, _: Option<String>) -> io::Result<()> {
        if worker.index() >= self.0.threads {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        thread::Builder::new().spawn(move || worker.run()).map(drop)
    }

    fn start_monitor(&self, _: Monitor) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn start(threads: usize) -> (Arc<Scheduler>, Arc<Poor>) {
    let poor = Arc::new(Poor {
        parkers: [Parker::new(), Parker::new()],
        threads,
        served: [AtomicBool::new(false), AtomicBool::new(false)],
        began: Instant::now(),
    });
    let scheduler = Scheduler::new(Config::new(2), Box::new(Shared(poor.clone())));
    scheduler.start().unwrap();
    (scheduler, poor)
}

fn spawn(scheduler: &Arc<Scheduler>, future: impl Future<Output = ()> + Send + 'static) {
    drop(scheduler.spawn(future, next_id(), SpawnMeta::caller()));
}

fn stop(scheduler: &Scheduler) {
    scheduler.close();
    assert!(scheduler.wait_stopped(Some(LONGEST_WAIT)));
}

#[test]
fn a_task_behind_one_that_blocks_runs_without_a_monitor() {
    let (scheduler, _) = start(2);
    let waker = Arc::new(Mutex::new(None::<Waker>));
    let ran = Arc::new(AtomicBool::new(false));
    spawn(&scheduler, {
        let (waker, ran) = (waker.clone(), ran.clone());
        let mut is_first = true;
        poll_fn(move |cx| {
            if std::mem::take(&mut is_first) {
                *waker.lock().unwrap() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            ran.store(true, Relaxed);
            Poll::Ready(())
        })
    });
    assert!(wait_until(|| waker.lock().unwrap().is_some()));
    // The other worker has gone to sleep by the time the task is woken, or soon.
    assert!(wait_until(|| {
        let stats = scheduler.stats();
        let mut workers = stats.workers.iter();
        workers.all(|worker| worker.park_events > worker.unpark_events)
    }));
    let (answer, told) = std::sync::mpsc::channel();
    spawn(&scheduler, async move {
        // A wake into the worker's own slot tells nobody.
        waker.lock().unwrap().take().unwrap().wake();
        answer.send(wait_until(|| ran.load(Relaxed))).unwrap();
    });
    assert!(told.recv().unwrap(), "it waits behind the one that blocks");
    stop(&scheduler);
}

#[test]
fn what_belongs_to_a_worker_without_a_thread_is_served_by_one_that_is_idle() {
    let (scheduler, poor) = start(1);
    assert!(wait_until(|| poor.served[1].load(Relaxed)));
    stop(&scheduler);
}
