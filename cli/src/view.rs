//! What is shown, computed from what a program answers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Instant;

use serde::Serialize;

use crate::client::Client;
use crate::timeline::{CELL_NS, Share, Timeline};
use blitzen_console_protocol::{Events, Greeting, Lint, Stats, Task, Worker};

/// To list a million tasks takes the program a second. The time until they are asked for again is
/// this many times as long as the last answer took.
const TASKS_PAUSE: u32 = 10;

/// How many of the busiest tasks are named.
const MAX_BUSIEST: usize = 8;

/// Everything that is shown.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) greeting: Greeting,
    pub(crate) stats: Stats,
    /// The ones before, for what is counted per second.
    before: Option<Stats>,
    pub(crate) tasks: Vec<Task>,
    /// Before then, the tasks are not asked for again.
    next_tasks: Option<Instant>,
    pub(crate) lints: Vec<Lint>,
    pub(crate) timeline: Timeline,
}

/// A worker over the time since the last look.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct WorkerRow {
    pub(crate) state: String,
    pub(crate) task: String,
    pub(crate) queue_depth: u64,
    pub(crate) busy_percent: f64,
    pub(crate) polls_per_second: f64,
    pub(crate) average_poll_us: f64,
    pub(crate) max_poll_ms: f64,
    pub(crate) stolen_per_second: f64,
    pub(crate) parks_per_second: f64,
}

/// Tasks that wait for the same thing.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct WaitRow {
    pub(crate) thing: String,
    pub(crate) tasks: usize,
    pub(crate) longest_seconds: Option<u64>,
    /// One of them.
    pub(crate) example: String,
}

/// The latest moments of a worker: percent in polls, or `null` where that is not known.
#[derive(Serialize)]
pub(crate) struct TimelineRow {
    name: String,
    shares: Vec<Option<u8>>,
}

/// All of it, for the page in the browser.
#[derive(Serialize)]
pub(crate) struct Page<'a> {
    program: &'a Greeting,
    summary: String,
    trace: &'a str,
    workers: Vec<WorkerRow>,
    tasks: &'a [Task],
    alive_tasks: u64,
    waits: Vec<WaitRow>,
    lints: &'a [Lint],
    timeline: Vec<TimelineRow>,
    cell_ms: u64,
    busiest: Vec<(String, f64)>,
}

/// When tasks that were asked for at `start`, and were there at `end`, are asked for again.
fn next_tasks(start: Instant, end: Instant) -> Instant {
    end + end.duration_since(start) * TASKS_PAUSE
}

impl View {
    pub(crate) fn new(greeting: Greeting) -> Self {
        Self {
            greeting,
            ..Self::default()
        }
    }

    /// Asks for everything again; for the tasks only if that is not too often.
    pub(crate) fn refresh(&mut self, client: &mut Client) -> io::Result<()> {
        self.set_stats(client.ask_json("stats")?);
        let start = Instant::now();
        if self.next_tasks.is_none_or(|next| start >= next) {
            self.tasks = client.ask_json("tasks")?;
            self.next_tasks = Some(next_tasks(start, Instant::now()));
        }
        self.lints = client.ask_json("lints")?;
        let events: Events = client.ask_json("events")?;
        let stuck = self.stuck_tasks();
        let stuck = |worker: &str| stuck.get(worker).copied();
        self.timeline.add(&events, stuck);
        Ok(())
    }

    /// The tasks that workers, by name, have polled all the time since the look before.
    fn stuck_tasks(&self) -> HashMap<String, u64> {
        let before = self.before.iter().flat_map(|before| &before.workers);
        let workers = before.zip(&self.stats.workers).enumerate();
        let stuck = workers.filter_map(|(index, (before, now))| {
            let is_stuck = before.task == now.task && before.polls == now.polls;
            Some((format!("worker {index}"), now.task.filter(|_| is_stuck)?))
        });
        stuck.collect()
    }

    pub(crate) fn set_stats(&mut self, stats: Stats) {
        self.before = Some(std::mem::replace(&mut self.stats, stats));
    }

    /// The name of the program and its runtime.
    pub(crate) fn title(&self) -> String {
        let Greeting { program, pid, .. } = &self.greeting;
        match &self.greeting.runtime {
            Some(runtime) => format!("{program} ({pid}), runtime {runtime}"),
            None => format!("{program} ({pid})"),
        }
    }

    pub(crate) fn summary(&self) -> String {
        let stats = &self.stats;
        let spawned = self.per_second(|stats| stats.spawned_tasks);
        format!(
            "{} tasks, {spawned:.0} spawned/s, {} in the global queue; blocking pool: {} of {} \
             threads busy, {} queued; recorder {}",
            stats.alive_tasks,
            stats.global_queue_depth,
            stats
                .blocking_threads
                .saturating_sub(stats.idle_blocking_threads),
            stats.blocking_threads,
            stats.blocking_queue_depth,
            stats.trace,
        )
    }

    /// Seconds since the look before; `None` at the first one.
    fn seconds(&self) -> Option<f64> {
        let before = self.before.as_ref().filter(|before| before.now_ns > 0)?;
        let seconds = self.stats.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
        (seconds > 0.0).then_some(seconds)
    }

    fn per_second(&self, count: impl Fn(&Stats) -> u64) -> f64 {
        match (&self.before, self.seconds()) {
            (Some(before), Some(seconds)) => {
                count(&self.stats).saturating_sub(count(before)) as f64 / seconds
            }
            _ => 0.0,
        }
    }

    pub(crate) fn workers(&self) -> Vec<WorkerRow> {
        let rows = self
            .stats
            .workers
            .iter()
            .enumerate()
            .map(|(index, worker)| {
                let per_second = |count: fn(&Worker) -> u64| {
                    self.per_second(|stats| stats.workers.get(index).map_or(0, count))
                };
                let polls_per_second = per_second(|worker| worker.polls);
                let poll_ns = per_second(|worker| worker.poll_ns);
                WorkerRow {
                    state: worker.state.clone(),
                    task: worker
                        .task
                        .map(|id| self.task_label(id))
                        .unwrap_or_default(),
                    queue_depth: worker.queue_depth,
                    busy_percent: self.busy_percent(index, worker),
                    polls_per_second,
                    average_poll_us: poll_ns / polls_per_second.max(1.0) / 1e3,
                    max_poll_ms: worker.max_poll_ns as f64 / 1e6,
                    stolen_per_second: per_second(|worker| worker.tasks_stolen),
                    parks_per_second: per_second(|worker| worker.park_events),
                }
            });
        rows.collect()
    }

    /// A worker counts its busy time when it parks: one that has not parked was busy all the time.
    fn busy_percent(&self, index: usize, worker: &Worker) -> f64 {
        let before = self
            .before
            .as_ref()
            .and_then(|before| before.workers.get(index));
        let has_not_parked = before.is_some_and(|before| {
            let is_parked = before.state == "parked" || worker.state == "parked";
            !is_parked && before.park_events == worker.park_events
        });
        match has_not_parked {
            true => 100.0,
            false => {
                let busy_ns = |stats: &Stats| stats.workers.get(index).map_or(0, |w| w.busy_ns);
                (self.per_second(busy_ns) / 1e7).min(100.0)
            }
        }
    }

    /// What tasks wait for: that of most tasks first.
    pub(crate) fn waits(&self) -> Vec<WaitRow> {
        let mut rows: BTreeMap<String, WaitRow> = BTreeMap::new();
        for task in &self.tasks {
            let (thing, seconds) = match (&task.wait, task.status.as_str()) {
                (Some(wait), _) => (wait.thing(), wait.seconds),
                (None, "idle") => ("something of the program's own".to_owned(), None),
                (None, _) => continue,
            };
            let row = rows.entry(thing.clone()).or_insert_with(|| WaitRow {
                thing,
                tasks: 0,
                longest_seconds: None,
                example: format!("{} {}", task.id, task.label()),
            });
            row.tasks += 1;
            row.longest_seconds = row.longest_seconds.max(seconds);
        }
        let mut rows: Vec<WaitRow> = rows.into_values().collect();
        rows.sort_by_key(|row| Reverse((row.tasks, row.longest_seconds)));
        rows
    }

    /// The tasks that were polled for the longest time lately.
    pub(crate) fn busiest(&self) -> Vec<(String, f64)> {
        let busiest = self.timeline.busiest().into_iter().take(MAX_BUSIEST);
        busiest
            .map(|(id, percent)| (self.task_label(id), percent))
            .collect()
    }

    fn task_label(&self, id: u64) -> String {
        let task = self.tasks.binary_search_by_key(&id, |task| task.id);
        match task {
            Ok(index) => format!("{id} {}", self.tasks[index].label()),
            Err(_) => id.to_string(),
        }
    }

    /// Everything, with `max_tasks` tasks at the most.
    pub(crate) fn page(&self, max_tasks: usize) -> Page<'_> {
        let timeline = self.timeline.rows().map(|(name, shares)| TimelineRow {
            name: name.to_owned(),
            shares: shares
                .into_iter()
                .map(|share| match share {
                    Share::Busy(percent) => Some(percent),
                    Share::Unknown => None,
                })
                .collect(),
        });
        Page {
            program: &self.greeting,
            summary: self.summary(),
            trace: &self.stats.trace,
            workers: self.workers(),
            tasks: &self.tasks[..self.tasks.len().min(max_tasks)],
            alive_tasks: self.stats.alive_tasks,
            waits: self.waits(),
            lints: &self.lints,
            timeline: timeline.collect(),
            cell_ms: CELL_NS / 1_000_000,
            busiest: self.busiest(),
        }
    }
}

/// Answers that a program could give, for tests.
#[cfg(test)]
pub(crate) fn sample() -> View {
    let stats = |now_ns: u64, polls: u64, busy_ns: u64| Stats {
        now_ns,
        flavor: "multi_thread".into(),
        trace: "full".into(),
        alive_tasks: 3,
        spawned_tasks: 3,
        blocking_threads: 2,
        idle_blocking_threads: 1,
        workers: vec![
            Worker {
                state: "running".into(),
                task: Some(4),
                queue_depth: 2,
                polls,
                poll_ns: busy_ns,
                busy_ns,
                park_events: polls,
                ..Worker::default()
            },
            Worker {
                state: "parked".into(),
                ..Worker::default()
            },
        ],
        ..Stats::default()
    };
    let tasks = r#"[
        {"id":2,"name":"reader","spawned_at":"src/main.rs:8:5","status":"idle",
         "wait":{"kind":"mutex","resource":"0x10","seconds":7}},
        {"id":3,"spawned_at":"src/main.rs:9:5","status":"idle",
         "wait":{"kind":"mutex","resource":"0x10","seconds":9}},
        {"id":4,"spawned_at":"src/main.rs:10:5","status":"running"}]"#;
    let lints = r#"[{"kind":"lost waker","task":2,"age_seconds":5,"text":"lost waker: a task"}]"#;
    let events = format!(
        r#"{{"now_ns":{},"tracks":[{{"name":"worker 0","events":[[0,"poll",4]]}}]}}"#,
        CELL_NS * 10
    );
    let mut view = View::new(Greeting {
        program: "server".into(),
        pid: 4711,
        ..Greeting::default()
    });
    view.set_stats(stats(1_000_000_000, 100, 200_000_000));
    view.set_stats(stats(2_000_000_000, 1_100, 700_000_000));
    view.tasks = serde_json::from_str(tasks).unwrap();
    view.lints = serde_json::from_str(lints).unwrap();
    let events = serde_json::from_str(&events).unwrap();
    view.timeline.add(&events, |_| None);
    view
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_those_between_the_last_two_looks() {
        let workers = sample().workers();
        assert_eq!(workers[0].polls_per_second, 1_000.0);
        assert_eq!(workers[0].busy_percent, 50.0);
        assert_eq!(workers[0].average_poll_us, 500.0);
        assert_eq!(workers[0].task, "4 src/main.rs:10:5");
        assert_eq!(workers[1].busy_percent, 0.0);
        let mut stuck = sample();
        stuck.set_stats(sample().stats);
        assert_eq!(stuck.workers()[0].busy_percent, 100.0, "it has not parked");
        assert_eq!(stuck.workers()[1].busy_percent, 0.0);
        let first = View {
            stats: sample().stats,
            ..View::default()
        };
        assert_eq!(
            first.workers()[0].polls_per_second,
            0.0,
            "nothing to compare with"
        );
    }

    #[test]
    fn a_task_is_stuck_if_its_worker_has_made_no_other_poll() {
        let mut view = sample();
        assert!(view.stuck_tasks().is_empty());
        view.set_stats(sample().stats);
        assert_eq!(view.stuck_tasks(), HashMap::from([("worker 0".into(), 4)]));
    }

    #[test]
    fn tasks_that_wait_for_the_same_lock_are_one_line() {
        let waits = sample().waits();
        assert_eq!(waits.len(), 1);
        assert_eq!((waits[0].thing.as_str(), waits[0].tasks), ("mutex 0x10", 2));
        assert_eq!(waits[0].longest_seconds, Some(9));
        assert_eq!(waits[0].example, "2 reader");
    }

    #[test]
    fn tasks_that_take_long_to_list_are_asked_for_less_often() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(next_tasks(start, after(2)), after(2 + 20));

        // A program that notes what it is asked for.
        let path = std::env::temp_dir().join(format!("blitzen-view-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let program = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let greeting = r#"{"protocol":"blitzen-console","version":1,"pid":1,"program":"p"}"#;
            writeln!(stream, "{greeting}").unwrap();
            let mut requests = Vec::new();
            for request in BufReader::new(stream.try_clone().unwrap()).lines() {
                let request = request.unwrap();
                let answer = match request.as_str() {
                    "stats" | "events" => "{}",
                    _ => "[]",
                };
                write!(stream, "ok 2\n{answer}").unwrap();
                requests.push(request);
            }
            requests
        });
        let mut client = Client::connect_to(&path, Duration::from_secs(60)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut view = View::new(client.greeting.clone());
        view.refresh(&mut client).unwrap();
        assert!(view.next_tasks.is_some_and(|next| next > start));
        view.next_tasks = Some(after(3_600));
        view.refresh(&mut client).unwrap();
        drop(client);
        let requests = program.join().unwrap();
        let first = ["stats", "tasks", "lints", "events"];
        assert_eq!(requests[..4], first);
        assert_eq!(requests[4..], ["stats", "lints", "events"]);
    }

    #[test]
    fn a_worker_whose_thread_blocks_is_not_idle() {
        let mut view = sample();
        let mut stats = sample().stats;
        stats.workers[0].state = "blocking".into();
        view.set_stats(stats.clone());
        view.set_stats(stats);
        assert_eq!(view.workers()[0].busy_percent, 100.0);
    }
}
