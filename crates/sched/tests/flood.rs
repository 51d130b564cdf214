//! More events than a worker can deal with: nobody waits longer than others.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use blitzen_sched::{Config, Scheduler, Step, Worker, World};
use blitzen_task::SpawnMeta;
use blitzen_task::glue::next_id;

/// As many events as a look at real drivers brings, at the most.
const EVENTS_PER_TURN: usize = 128;

/// A world in which there are always more events than a turn may bring.
#[derive(Default)]
struct Flooded {
    now_ns: AtomicU64,
    turns: AtomicUsize,
    /// Those for which there is an event, the oldest first.
    events: Mutex<VecDeque<Waker>>,
    worker: Mutex<Option<Box<Worker>>>,
}

struct Shared(Arc<Flooded>);

impl World for Shared {
    fn turn(&self, _worker: usize, _max_wait: Option<Duration>) {
        self.0.turns.fetch_add(1, Relaxed);
        let mut events = self.0.events.lock().unwrap();
        let most = EVENTS_PER_TURN.min(events.len());
        let due: Vec<_> = events.drain(..most).collect();
        drop(events);
        due.into_iter().for_each(Waker::wake);
    }

    fn serve(&self, _worker: usize) {}

    fn interrupt(&self, _worker: usize) {}

    /// Polls that take so long that a worker looks up often.
    fn now_ns(&self) -> u64 {
        self.0.now_ns.fetch_add(1_000_000, Relaxed)
    }

    fn seed(&self, _worker: usize) -> u64 {
        1
    }

    fn start(&self, worker: Worker, _: Option<String>) -> io::Result<()> {
        *self.0.worker.lock().unwrap() = Some(Box::new(worker));
        Ok(())
    }
}

struct Run {
    scheduler: Arc<Scheduler>,
    world: Arc<Flooded>,
}

impl Run {
    fn new() -> Self {
        let world = Arc::new(Flooded::default());
        let mut config = Config::new(1);
        config.event_interval = Some(8);
        let scheduler = Scheduler::new(config, Box::new(Shared(world.clone())));
        Self { scheduler, world }
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (_, refused) = self.scheduler.spawn(future, next_id(), SpawnMeta::caller());
        assert!(refused.is_none());
    }

    /// A worker comes with the first task.
    fn worker(&self) -> Box<Worker> {
        self.world.worker.lock().unwrap().take().unwrap()
    }

    fn polls(&self, count: usize) {
        let mut worker = self.worker();
        for _ in 0..count {
            let (present, step) = worker.step();
            assert_ne!(step, Step::Left);
            worker = present.unwrap();
        }
        *self.world.worker.lock().unwrap() = Some(worker);
    }

    fn end(self) {
        self.scheduler.close();
        let mut worker = Some(self.worker());
        while let Some(present) = worker {
            worker = present.step().0;
        }
        assert!(self.scheduler.wait_stopped(Some(Duration::ZERO)));
    }
}

#[test]
fn those_with_events_are_served_in_turn() {
    const CONNECTIONS: usize = 1000;
    const ROUNDS: usize = 50;
    let run = Run::new();
    let served: Arc<Vec<AtomicUsize>> =
        Arc::new((0..CONNECTIONS).map(|_| AtomicUsize::new(0)).collect());
    for connection in 0..CONNECTIONS {
        let (served, world) = (served.clone(), run.world.clone());
        run.spawn(poll_fn(move |cx| {
            // Answered; the next request is there at once.
            served[connection].fetch_add(1, Relaxed);
            world.events.lock().unwrap().push_back(cx.waker().clone());
            Poll::Pending
        }));
    }
    run.polls(CONNECTIONS * 5); // all have begun
    served.iter().for_each(|count| count.store(0, Relaxed));
    run.polls(CONNECTIONS * ROUNDS);
    let counts = || served.iter().map(|count| count.load(Relaxed));
    let (least, most) = (counts().min().unwrap(), counts().max().unwrap());
    assert!(
        most - least <= 2,
        "one was served {least} times, another {most} times"
    );
    run.world.events.lock().unwrap().clear();
    run.end();
}

#[test]
fn a_queue_that_stays_full_does_not_keep_events_away() {
    let run = Run::new();
    for _ in 0..200 {
        run.spawn(poll_fn(|cx| {
            cx.waker().wake_by_ref(); // runs again, without giving way
            Poll::Pending
        }));
    }
    run.polls(10_000);
    let before = run.world.turns.load(Relaxed);
    run.polls(10_000);
    let turns = run.world.turns.load(Relaxed) - before;
    assert!(turns >= 10_000 / 512, "{turns} looks in 10,000 polls");
    run.end();
}
