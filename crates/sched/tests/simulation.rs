//! The scheduler in a world of its own: one thread, a clock that only the
//! simulation moves, and every choice drawn from one seed.

mod simulated_common;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use blitzen_observe::{Event, EventSink, PerfettoTrace, TraceMode};
use blitzen_sched::{Config, Scheduler, Step};
use blitzen_task::glue::next_id;
use blitzen_task::{JoinHandle, SpawnMeta};
use blitzen_util::rng::Rng;
use simulated_common::{Simulated, step_until_left, yield_now};

type Log = Arc<Mutex<Vec<(usize, usize, u32)>>>;

fn spawn(
    scheduler: &Arc<Scheduler>,
    future: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let (handle, refused) = scheduler.spawn(future, next_id(), SpawnMeta::caller());
    assert!(refused.is_none());
    handle
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

/// What happened in a run.
struct Run {
    log: Vec<(usize, usize, u32)>,
    /// What was recorded, as a file for Perfetto.
    trace: Vec<u8>,
}

/// Runs the program from a seed.
fn run(seed: u64) -> Run {
    let world = Simulated::new(seed, 1_000, ());
    let mut config = Config::new(3);
    config.observe.trace = TraceMode::Full;
    let scheduler = Scheduler::new(config, world.world(()));
    let log = Log::default();
    let root = spawn(&scheduler, program(scheduler.clone(), log.clone(), 0));
    let mut rng = Rng::new(seed);
    let mut workers = world.take_workers();
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
    workers.into_iter().for_each(step_until_left);
    assert!(scheduler.wait_stopped(Some(Duration::ZERO)));
    drop(root);
    Run {
        log: std::mem::take(&mut *log.lock().unwrap()),
        trace: trace_of(&scheduler),
    }
}

/// What was recorded. The tasks of each run have other numbers: here they are counted from zero, in
/// the order in which they appear.
fn trace_of(scheduler: &Scheduler) -> Vec<u8> {
    let mut events = Vec::new();
    for (track, reader) in scheduler.observation().event_readers().iter().enumerate() {
        let mut read = Vec::new();
        let lost = reader
            .read(0, || scheduler.world().now_ns(), &mut read)
            .lost;
        assert_eq!(lost, 0);
        let read = read.into_iter();
        events.extend(read.map(|(at_ns, event)| (at_ns, track, event)));
    }
    events.sort_by_key(|(at_ns, ..)| *at_ns);
    let mut numbers = HashMap::new();
    let mut number = |id| {
        let next = numbers.len() as u64;
        *numbers.entry(id).or_insert(next)
    };
    let mut trace = PerfettoTrace::new(1, "simulation");
    let tracks = [(); 16].map(|()| trace.add_track("track"));
    for (at_ns, track, event) in events {
        let event = match event {
            Event::Spawn { id } => Event::Spawn { id: number(id) },
            Event::PollStart { id } => Event::PollStart { id: number(id) },
            Event::NestedPollStart { id } => Event::NestedPollStart { id: number(id) },
            Event::Wake { id, cause } => Event::Wake {
                id: number(id),
                cause,
            },
            other => other,
        };
        trace.add(tracks[track], at_ns, event);
    }
    trace.finish(scheduler.world().now_ns());
    trace.take_bytes()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 7, 1234] {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.log.len(), 81 * 5, "every task noted every step");
        assert_eq!(first.log, second.log);
        assert!(first.trace.len() > 10_000, "{}", first.trace.len());
        assert!(first.trace == second.trace, "the traces differ");
    }
}

#[test]
fn another_seed_gives_another_run() {
    let (first, second) = (run(1), run(2));
    assert_ne!(first.log, second.log);
    assert!(first.trace != second.trace);
}

#[test]
fn a_run_uses_all_workers() {
    let mut workers: Vec<_> = run(3).log.iter().map(|(_, worker, _)| *worker).collect();
    workers.sort();
    workers.dedup();
    assert_eq!(workers, [0, 1, 2]);
}

#[test]
fn a_steal_is_counted_once_with_its_tasks() {
    let world = Simulated::new(1, 1_000, ());
    let scheduler = Scheduler::new(Config::new(2), world.world(()));
    let root = {
        let inside = scheduler.clone();
        spawn(&scheduler, async move {
            // The newest is in the LIFO slot, the other in the queue.
            (0..2).for_each(|_| drop(spawn(&inside, async {})));
        })
    };
    let mut workers = world.take_workers().into_iter();
    let (busy, idle) = (workers.next().unwrap(), workers.next().unwrap());
    let (victim, thief) = (busy.index(), idle.index());
    let (busy, step) = busy.step();
    assert!(matches!(step, Step::Ran) && root.is_finished());
    let mut idle = Some(idle);
    // First from the queue; then the newest, since the queue is empty.
    for (attempts, steals) in [(1, 1), (3, 2)] {
        let (worker, step) = idle.take().unwrap().step();
        assert!(matches!(step, Step::Ran));
        let stats = scheduler.counters(thief).read();
        assert_eq!(
            (stats.steal_attempts, stats.steal_successes),
            (attempts, steals)
        );
        assert_eq!((stats.tasks_stolen, stats.polls), (steals, steals));
        idle = worker;
    }
    let (idle, step) = idle.unwrap().step();
    assert!(matches!(step, Step::Idle));
    let stats = scheduler.counters(thief).read();
    assert!(stats.steal_attempts > 3, "there was nothing to steal");
    assert_eq!((stats.steal_successes, stats.tasks_stolen), (2, 2));
    assert_eq!(scheduler.counters(victim).read().steal_attempts, 0);
    scheduler.close();
    busy.into_iter().chain(idle).for_each(step_until_left);
}

#[test]
fn the_times_of_polls_are_those_of_the_clock() {
    // How long each poll of a task takes.
    let programs: [&[u64]; 2] = [&[7_000_000], &[2_000, 7_000_000, 5_000]];
    for polls_ns in programs {
        let world = Simulated::new(1, 0, ());
        let scheduler = Scheduler::new(Config::new(1), world.world(()));
        let inside = world.clone();
        spawn(&scheduler, async move {
            for (poll, ns) in polls_ns.iter().enumerate() {
                if poll > 0 {
                    yield_now().await;
                }
                inside.now_ns.fetch_add(*ns, Relaxed);
            }
        });
        let mut worker = world.take_workers().pop().unwrap();
        for _ in polls_ns {
            let (stepped, step) = worker.step();
            assert!(matches!(step, Step::Ran));
            worker = stepped.unwrap();
        }
        scheduler.close();
        step_until_left(worker);
        let stats = scheduler.counters(0).read();
        let (all_ns, longest_ns) = (polls_ns.iter().sum(), *polls_ns.iter().max().unwrap());
        let polls = polls_ns.len() as u64;
        assert_eq!((stats.sampled_runs, stats.sampled_run_ns), (polls, all_ns));
        let average = Duration::from_nanos(all_ns / polls);
        assert_eq!(stats.average_run(), average);
        assert_eq!(stats.busy_ns, all_ns + 1, "it was busy, and rounded up");
        // Short polls around the longest one may be in its group.
        assert!(
            (longest_ns..=all_ns).contains(&stats.max_run_ns),
            "{stats:?}"
        );
    }
}

#[test]
fn a_task_from_the_injection_queue_is_polled_after_it_was_queued() {
    let world = Simulated::new(1, 1, ());
    let mut config = Config::new(1);
    config.observe.trace = TraceMode::Full;
    let scheduler = Scheduler::new(config, world.world(()));
    let first = spawn(&scheduler, async {});
    let worker = world.take_workers().pop().unwrap();
    let worker = worker.step().0.unwrap();
    // After the poll of the first, right after which the worker polls it.
    let second = spawn(&scheduler, async {});
    let worker = worker.step().0.unwrap();
    assert!(first.is_finished() && second.is_finished());
    let mut events = Vec::new();
    for reader in scheduler.observation().event_readers() {
        reader.read(0, || scheduler.world().now_ns(), &mut events);
    }
    let second = blitzen_task::glue::id_number(second.id());
    let time = |wanted: Event| events.iter().find(|(_, event)| *event == wanted).unwrap().0;
    let (spawned, polled) = (
        time(Event::Spawn { id: second }),
        time(Event::PollStart { id: second }),
    );
    assert!(spawned < polled, "{spawned} {polled}");
    scheduler.close();
    step_until_left(worker);
}
