//! Groups get processor time in proportion to their shares: measured in virtual time, which
//! only polls move.

mod simulated_common;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use blitzen_sched::{Config, DispatcherCore, Scheduler, Shares, Step, block_in_place};
use blitzen_task::SpawnMeta;
use blitzen_task::glue::next_id;
use simulated_common::{Simulated, step_until_left};

struct Simulation {
    /// Its time passes only while tasks are polled.
    world: Arc<Simulated>,
    scheduler: Arc<Scheduler>,
}

impl Simulation {
    fn new(workers: usize) -> Self {
        let world = Simulated::new(0, 0, ());
        let scheduler = Scheduler::new(Config::new(workers), world.world(()));
        Self { world, scheduler }
    }

    fn group(&self, shares: u32) -> Arc<DispatcherCore> {
        DispatcherCore::group(&self.scheduler, None, Shares(shares), None).unwrap()
    }

    /// Spawns a task in a group whose every poll takes `poll_ns`; it never waits, or waits
    /// for a wake each time.
    fn spawn_busy(&self, group: &Arc<DispatcherCore>, poll_ns: u64) {
        let world = self.world.clone();
        let future = poll_fn(move |cx| {
            world.now_ns.fetch_add(poll_ns, Relaxed);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let (_, refused) = self
            .scheduler
            .spawn_on(group, future, next_id(), SpawnMeta::caller());
        assert!(refused.is_none());
    }

    /// Lets the workers take turns until `until_ns`.
    fn run(&self, until_ns: u64) {
        while self.world.now_ns.load(Relaxed) < until_ns {
            self.step();
        }
    }

    /// Lets each worker have a turn.
    fn step(&self) {
        let workers = self.world.take_workers();
        assert!(!workers.is_empty());
        let workers = workers.into_iter().map(|worker| {
            let (worker, step) = worker.step();
            assert_ne!(step, Step::Left);
            ((), worker.expect("it has not left"))
        });
        let workers = workers.collect();
        self.world.waiting.lock().unwrap().workers = workers;
    }

    /// Shuts the scheduler down, and drops its tasks.
    fn close(self) {
        self.scheduler.close();
        self.world
            .take_workers()
            .into_iter()
            .for_each(step_until_left);
        assert_eq!(self.scheduler.alive_tasks(), 0);
    }
}

fn assert_ratio(one: u64, other: u64, expected: f64, what: &str) {
    let ratio = one as f64 / other as f64;
    let range = expected * 0.95..=expected * 1.05;
    assert!(range.contains(&ratio), "{ratio}, not {expected}: {what}");
}

const RUN_NS: u64 = 100_000_000;

#[test]
fn three_shares_get_three_times_the_time_of_one() {
    for workers in [1, 3] {
        for [one_ns, other_ns] in [[10_000, 10_000], [100_000, 3_000], [2_000, 250_000]] {
            for tasks in [1, 10] {
                let simulation = Simulation::new(workers);
                let (three, one) = (simulation.group(300), simulation.group(100));
                for _ in 0..tasks * workers {
                    simulation.spawn_busy(&three, one_ns);
                    simulation.spawn_busy(&one, other_ns);
                }
                simulation.run(RUN_NS);
                let (busy, other) = (three.stats(), one.stats());
                let what = format!("{workers} workers, {tasks} tasks, {one_ns}, {other_ns}");
                assert_ratio(busy.busy_ns, other.busy_ns, 3.0, &what);
                assert!(busy.polls > 0 && busy.queued + busy.running > 0);
                drop((three, one));
                simulation.close();
            }
        }
    }
}

#[test]
fn a_group_that_comes_late_gets_its_share_from_then_on_and_no_more() {
    let simulation = Simulation::new(1);
    let (early, late) = (simulation.group(100), simulation.group(100));
    simulation.spawn_busy(&early, 10_000);
    simulation.run(RUN_NS);
    simulation.spawn_busy(&late, 10_000);
    let before = early.stats().busy_ns;
    simulation.run(2 * RUN_NS);
    let since = early.stats().busy_ns - before;
    assert_ratio(
        since,
        late.stats().busy_ns,
        1.0,
        "since the second one came",
    );
    drop((early, late));
    simulation.close();
}

#[test]
fn polls_that_take_no_time_do_not_keep_the_others_out() {
    let simulation = Simulation::new(1);
    let (yields, works) = (simulation.group(100), simulation.group(100));
    simulation.spawn_busy(&yields, 0);
    simulation.spawn_busy(&works, 10_000);
    simulation.run(RUN_NS);
    assert!(works.stats().polls >= RUN_NS / 10_000);
    // A poll is charged a microsecond at least.
    assert_ratio(yields.stats().polls, works.stats().polls, 10.0, "polls");
    drop((yields, works));
    simulation.close();
}

#[test]
fn what_one_group_does_not_use_goes_to_the_others() {
    let simulation = Simulation::new(1);
    let groups = [1, 2, 1000].map(|shares| simulation.group(shares));
    simulation.spawn_busy(&groups[0], 10_000);
    simulation.spawn_busy(&groups[1], 10_000);
    simulation.run(RUN_NS);
    let busy = groups.each_ref().map(|group| group.stats().busy_ns);
    assert_ratio(busy[1], busy[0], 2.0, "the third one has nothing to do");
    assert_eq!(busy[2], 0);
    assert!(busy[0] + busy[1] >= RUN_NS * 99 / 100, "nothing is wasted");
    drop(groups);
    simulation.close();
}

#[test]
fn a_task_that_blocks_in_place_holds_up_no_task_of_a_group() {
    let simulation = Simulation::new(1);
    let group = simulation.group(100);
    let scheduler = simulation.scheduler.clone();
    let (ended, runners) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let spawn = {
        let (group, ended) = (group.clone(), ended.clone());
        move |scheduler: &Arc<Scheduler>| {
            let ended = ended.clone();
            let other = async move {
                ended.fetch_add(1, Relaxed);
            };
            let (_, refused) = scheduler.spawn_on(&group, other, next_id(), SpawnMeta::caller());
            assert!(refused.is_none());
        }
    };
    let blocks = {
        let (ended, runners) = (ended.clone(), runners.clone());
        async move {
            block_in_place(|| {
                spawn(&scheduler);
                // The thread has no worker here, so what it spawns is in the injection queue.
                runners.store(scheduler.global_queue_depth() as u64, Relaxed);
            });
            ended.fetch_add(1, Relaxed);
        }
    };
    let (_, refused) =
        simulation
            .scheduler
            .spawn_on(&group, blocks, next_id(), SpawnMeta::caller());
    assert!(refused.is_none());
    for _ in 0..100 {
        simulation.step();
    }
    assert_eq!(runners.load(Relaxed), 1, "for the other task");
    assert_eq!(ended.load(Relaxed), 2);
    drop(group);
    simulation.close();
}
