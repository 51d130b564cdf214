//! Dispatchers of every kind in a world of its own: one thread, and every choice drawn from one
//! seed. Workers, threads of a dispatcher, the blocking pool and a foreign executor take turns.

mod simulated_common;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use blitzen_sched::{Config, DispatcherCore, PollJob, Scheduler, Shares, Step};
use blitzen_task::glue::next_id;
use blitzen_task::{JoinHandle, RoutableTask, Route, SpawnMeta, current};
use blitzen_util::rng::Rng;
use simulated_common::{Simulated, yield_now};

/// Who polls a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Worker,
    OwnThread,
    Pool,
    Foreign,
}

thread_local! {
    /// Whose turn it is.
    static TURN: Cell<Option<Place>> = const { Cell::new(None) };
}

/// A dispatcher, and who may poll its tasks.
struct Kind {
    core: Option<Arc<DispatcherCore>>,
    places: &'static [Place],
}

impl Kind {
    fn new(core: Arc<DispatcherCore>, places: &'static [Place]) -> Self {
        let core = Some(core);
        Self { core, places }
    }

    fn route(&self) -> Route {
        self.core
            .as_ref()
            .map_or(Route::DEFAULT, |core| core.route())
    }
}

/// What all tasks of a run share.
struct Program {
    seed: u64,
    scheduler: Arc<Scheduler>,
    kinds: Vec<Kind>,
    /// Task, step, route, and who polled.
    log: Mutex<Vec<(u64, u32, u16, Place)>>,
    spawned: AtomicU64,
    ended: AtomicUsize,
}

const TASKS: u64 = 120;
const STEPS: u32 = 12;

impl Program {
    fn spawn_task(self: &Arc<Self>, rng: &mut Rng) {
        let number = self.spawned.fetch_add(1, Relaxed);
        if number >= TASKS {
            return;
        }
        let kind = rng.below(self.kinds.len() as u32) as usize;
        let future: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(steps(self.clone(), number, kind));
        drop(self.spawn_on(kind, future));
    }

    fn spawn_on(
        &self,
        kind: usize,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let (id, meta) = (next_id(), SpawnMeta::caller());
        let (handle, refused) = match &self.kinds[kind].core {
            None => self.scheduler.spawn(future, id, meta),
            Some(core) => self.scheduler.spawn_on(core, future, id, meta),
        };
        assert!(refused.is_none());
        handle
    }

    /// Writes down a step of a task that should be polled by a dispatcher of this kind.
    fn note(&self, task: u64, step: u32, kind: usize) {
        let expected = &self.kinds[kind];
        let (here, place) = (current::route(), TURN.get().unwrap());
        assert_eq!(here, expected.route(), "task {task}, step {step}");
        assert!(
            expected.places.contains(&place),
            "task {task}, step {step}: {place:?} polls for dispatcher {kind}"
        );
        let mut log = self.log.lock().unwrap();
        log.push((task, step, here.index() as u16, place));
    }
}

/// Has the next poll of the task on another route.
async fn move_to(program: &Program, route: Route) {
    let mut has_asked = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut has_asked, true) {
            return Poll::Ready(());
        }
        let task = RoutableTask::current(Arc::as_ptr(&program.scheduler).cast());
        task.expect("it can move").request_route(route);
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for another task, on a dispatcher of any kind, to wake this one.
async fn wait_for_another(program: &Arc<Program>, kind: usize) {
    let slot = Arc::new(Mutex::new((false, None::<Waker>)));
    drop(program.spawn_on(kind, {
        let slot = slot.clone();
        async move {
            yield_now().await;
            let mut slot = slot.lock().unwrap();
            slot.0 = true;
            if let Some(waker) = slot.1.take() {
                waker.wake();
            }
        }
    }));
    poll_fn(|cx| {
        let mut slot = slot.lock().unwrap();
        match slot.0 {
            true => Poll::Ready(()),
            false => {
                slot.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await;
}

/// A task that yields, waits, moves and spawns by chance.
async fn steps(program: Arc<Program>, task: u64, own: usize) {
    let mut rng = Rng::new(Rng::derive(program.seed, 1_000 + task));
    program.note(task, 0, own);
    for step in 1..=STEPS {
        let other = rng.below(program.kinds.len() as u32) as usize;
        match rng.below(4) {
            0 => {
                yield_now().await;
                program.note(task, step, own);
            }
            1 => {
                wait_for_another(&program, other).await;
                program.note(task, step, own);
            }
            2 => {
                let route = program.kinds[other].route();
                move_to(&program, route).await;
                program.note(task, step, other);
                yield_now().await; // and back
                program.note(task, step, own);
            }
            _ => {
                program.spawn_task(&mut rng);
                program.spawn_task(&mut rng);
                yield_now().await;
                program.note(task, step, own);
            }
        }
    }
    program.ended.fetch_add(1, Relaxed);
}

/// One dispatcher of each kind.
fn every_kind(scheduler: &Arc<Scheduler>, world: &Arc<Simulated<Place>>) -> Vec<Kind> {
    use Place::{Foreign, OwnThread, Pool, Worker};
    let limited = |base: Option<&Arc<DispatcherCore>>, limit| {
        DispatcherCore::limited(scheduler, base, limit, None, None).unwrap()
    };
    let own = Scheduler::new(Config::new(2), world.world(OwnThread));
    own.start().unwrap();
    let own = DispatcherCore::threads(scheduler, None, own).unwrap();
    let io = DispatcherCore::elastic(scheduler, "io", 4).unwrap();
    let jobs = world.clone();
    let execute = Box::new(move |job: PollJob| {
        let mut waiting = jobs.waiting.lock().unwrap();
        waiting.jobs.push((Foreign, Box::new(move || job.run())));
    });
    let foreign = DispatcherCore::foreign(scheduler, execute).unwrap();
    let group = |shares| DispatcherCore::group(scheduler, None, Shares(shares), None).unwrap();
    let default = Kind {
        core: None,
        places: &[Worker],
    };
    let view = limited(None, 2);
    vec![
        default,
        Kind::new(limited(Some(&view), 1), &[Worker]),
        Kind::new(view, &[Worker]),
        Kind::new(limited(Some(&own), 1), &[OwnThread]),
        Kind::new(own, &[OwnThread]),
        Kind::new(limited(Some(&io), 8), &[Worker, Pool]),
        Kind::new(io, &[Worker, Pool]),
        Kind::new(limited(Some(&foreign), 3), &[Foreign]),
        Kind::new(foreign, &[Foreign]),
        Kind::new(group(300), &[Worker]),
        Kind::new(group(100), &[Worker]),
    ]
}

/// Lets one of those that wait have its turn; returns whether it has done something.
fn take_turn(world: &Simulated<Place>, rng: &mut Rng) -> bool {
    let mut waiting = world.waiting.lock().unwrap();
    let workers = waiting.workers.len();
    let all = workers + waiting.jobs.len();
    let index = rng.below(all as u32) as usize;
    if index < workers {
        let (place, worker) = waiting.workers.swap_remove(index);
        drop(waiting);
        TURN.set(Some(place));
        let (worker, step) = worker.step();
        let back = worker.map(|worker| (place, worker));
        world.waiting.lock().unwrap().workers.extend(back);
        step == Step::Ran
    } else {
        let (place, job) = waiting.jobs.swap_remove(index - workers);
        drop(waiting);
        TURN.set(Some(place));
        job();
        true
    }
}

/// Runs the program from a seed; returns what happened, in order.
fn run(seed: u64) -> Vec<(u64, u32, u16, Place)> {
    let world = Simulated::new(seed, 1_000, Place::Pool);
    let scheduler = Scheduler::new(Config::new(3), world.world(Place::Worker));
    let program = Arc::new(Program {
        seed,
        kinds: every_kind(&scheduler, &world),
        scheduler: scheduler.clone(),
        log: Mutex::default(),
        spawned: AtomicU64::new(0),
        ended: AtomicUsize::new(0),
    });
    let mut rng = Rng::new(seed);
    TURN.set(Some(Place::Worker));
    for _ in 0..10 {
        program.spawn_task(&mut rng);
    }
    let mut idle_in_a_row = 0;
    while idle_in_a_row < 300 {
        idle_in_a_row = match take_turn(&world, &mut rng) {
            true => 0,
            false => idle_in_a_row + 1,
        };
    }
    let spawned = program.spawned.load(Relaxed).min(TASKS);
    assert_eq!(program.ended.load(Relaxed) as u64, spawned, "none is lost");
    scheduler.close();
    while !world.waiting.lock().unwrap().workers.is_empty() {
        take_turn(&world, &mut rng);
    }
    assert_eq!(scheduler.alive_tasks(), 0);
    assert!(scheduler.wait_stopped(Some(Duration::ZERO)));
    std::mem::take(&mut *program.log.lock().unwrap())
}

#[test]
fn tasks_on_every_route_are_polled_where_they_belong_and_none_is_lost() {
    for seed in 0..40 {
        run(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_on_every_route() {
    for seed in [1, 7, 1234] {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1), run(2));
}

#[test]
fn everybody_polls_tasks_in_a_run() {
    let log = run(5);
    let polls = |place| log.iter().filter(|entry| entry.3 == place).count();
    for place in [Place::Worker, Place::OwnThread, Place::Pool, Place::Foreign] {
        assert!(polls(place) > 0, "{place:?}");
    }
}
