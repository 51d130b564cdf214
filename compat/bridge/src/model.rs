//! The tasks and locks of a program, from its lists and events.
//!
//! M1. Events are taken in by their times, whatever the track. A track is read a moment before
//!     the next one, so an event waits until all tracks have been read after it.
//! M2. What events say is exact. A list adds what no event says, is the state of a task if events
//!     leave that open, and ends what it does not have twice in a row. So events that were lost
//!     cost counts and times, and nothing else after a second.
//! M3. What is kept is bounded: as many tasks as [`MAX_TASKS`], and those that have ended for
//!     [`RETENTION_NS`]. Events of other tasks count as lost.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use blitzen_console_protocol::{EventKind, Events, PollEnd, Stats, Task};

use crate::locks::Locks;
use crate::task::{TaskKind, TaskRecord};

/// How many tasks are remembered at the most.
const MAX_TASKS: usize = 100_000;
/// How long tasks are remembered that have ended.
const RETENTION_NS: u64 = 60_000_000_000;

pub(crate) struct Model {
    /// The time at which the program's clock was zero.
    epoch: SystemTime,
    /// The time of the last list.
    pub(crate) now_ns: u64,
    pub(crate) tasks: HashMap<u64, TaskRecord>,
    pub(crate) locks: Locks,
    /// Events that were overwritten before they could be read, or had no room.
    pub(crate) lost_events: u64,
    /// Since when no event was lost.
    known_ns: u64,
    /// The number of the publication that is being prepared.
    pub(crate) publication: u64,
    tracks: Vec<Track>,
    /// What waits to be taken in (M1), by its time.
    waiting: Vec<Waiting>,
    /// All events up to here have been read.
    read_ns: u64,
    /// When the jobs began that go on.
    jobs: HashMap<u64, u64>,
}

#[derive(Default)]
struct Track {
    name: String,
    /// The polls that go on, each inside the one before: the task, and when it began.
    polls: Vec<(u64, u64)>,
    /// The task that was spawned last, and its name as far as it is known.
    spawned: Option<(u64, Vec<u8>)>,
}

/// Something that waits to be taken in.
struct Waiting {
    track: usize,
    at_ns: u64,
    change: Change,
}

enum Change {
    Event(EventKind),
    /// The events of the track up to another time are lost.
    Lost {
        until_ns: u64,
    },
}

impl Model {
    /// What there is when the recorder has just been switched on. `events` and `list` were asked
    /// for after `stats`, in this order.
    pub(crate) fn attach(stats: &Stats, events: Events, list: Vec<Task>) -> Self {
        let now_ns = stats.now_ns;
        let now = SystemTime::now();
        let mut model = Self {
            epoch: now.checked_sub(Duration::from_nanos(now_ns)).unwrap_or(now),
            now_ns,
            tasks: HashMap::new(),
            locks: Locks::default(),
            lost_events: 0,
            known_ns: 0,
            publication: 1,
            tracks: Vec::new(),
            waiting: Vec::new(),
            read_ns: 0,
            jobs: HashMap::new(),
        };
        model.add_events(events);
        model.lost_events = 0; // what is older
        model.waiting.retain(|waiting| waiting.at_ns > now_ns);
        // What each task did first, from then on.
        let mut first: HashMap<u64, &EventKind> = HashMap::new();
        for waiting in &model.waiting {
            if let Change::Event(kind) = &waiting.change
                && let Some(id) = kind.id()
            {
                first.entry(id).or_insert(kind);
            }
        }
        for task in list.iter().take(MAX_TASKS) {
            let mut record = TaskRecord::new(now_ns);
            match (first.get(&task.id), task.status.as_str()) {
                (Some(EventKind::Wake { .. }), _) | (None, "idle") => {
                    record.assume_poll(now_ns); // before it could wait
                }
                (None, "running") => record.start_poll(now_ns, now_ns),
                (Some(EventKind::Poll { .. }), _) | (None, _) => record.queue(now_ns),
                (Some(_), _) => {} // the event says it
            }
            model.tasks.insert(task.id, record);
        }
        for (worker, id) in stats.workers.iter().map(|worker| worker.task).enumerate() {
            let open_ns = id.and_then(|id| model.tasks.get(&id)?.open_ns);
            if let (Some(id), Some(open_ns)) = (id, open_ns) {
                let track = model.track(&format!("worker {worker}"));
                model.tracks[track].polls.push((id, open_ns));
            }
        }
        model.add_list(stats, list);
        model
    }

    /// The time of a moment of the program.
    pub(crate) fn time(&self, ns: u64) -> SystemTime {
        self.epoch + Duration::from_nanos(ns)
    }

    /// Takes in events; returns whether some were lost, because they were read too late.
    pub(crate) fn add_events(&mut self, events: Events) -> bool {
        let mut lost_events = 0;
        for answer in events.tracks {
            let track = self.track(&answer.name);
            if answer.lost > 0 {
                lost_events += answer.lost;
                let first = answer.events.first();
                let until_ns = first.map_or(events.now_ns, |event| event.at_ns);
                self.waiting.push(Waiting {
                    track,
                    at_ns: self.read_ns,
                    change: Change::Lost { until_ns },
                });
            }
            let events = answer.events.into_iter().map(|event| Waiting {
                track,
                at_ns: event.at_ns,
                change: Change::Event(event.kind),
            });
            self.waiting.extend(events);
        }
        self.lost_events += lost_events;
        // Stable: events of one track and moment stay in their order.
        self.waiting.sort_by_key(|waiting| waiting.at_ns);
        let until_ns = std::mem::replace(&mut self.read_ns, events.now_ns);
        let ready = self
            .waiting
            .partition_point(|waiting| waiting.at_ns <= until_ns);
        let later = self.waiting.split_off(ready);
        for waiting in std::mem::replace(&mut self.waiting, later) {
            let (track, at_ns) = (waiting.track, waiting.at_ns);
            match waiting.change {
                Change::Event(kind) => self.apply(track, at_ns, kind),
                Change::Lost { until_ns } => self.lose_track(track, until_ns),
            }
        }
        lost_events > 0
    }

    fn track(&mut self, name: &str) -> usize {
        let known = self.tracks.iter().position(|track| track.name == name);
        known.unwrap_or_else(|| {
            self.tracks.push(Track {
                name: name.to_owned(),
                ..Track::default()
            });
            self.tracks.len() - 1
        })
    }

    /// Events were lost, and among them the ends of polls: the worker has done something since.
    fn lose_track(&mut self, track: usize, until_ns: u64) {
        self.known_ns = self.known_ns.max(until_ns);
        let state = &mut self.tracks[track];
        state.spawned = None;
        let mut polls = std::mem::take(&mut state.polls);
        if state.name == "blocking pool" {
            polls.extend(self.jobs.drain());
        }
        for (id, start_ns) in polls {
            self.change(id, start_ns, |task| task.lose_poll(start_ns));
        }
    }

    /// A task that an event or a list names; `None` if there is no room.
    fn task(&mut self, id: u64, at_ns: u64) -> Option<&mut TaskRecord> {
        if self.tasks.len() >= MAX_TASKS && !self.tasks.contains_key(&id) {
            return None;
        }
        let record = self.tasks.entry(id);
        Some(record.or_insert_with(|| TaskRecord::new(at_ns)))
    }

    /// Has an event change its task.
    fn change(&mut self, id: u64, at_ns: u64, change: impl FnOnce(&mut TaskRecord)) {
        let publication = self.publication;
        match self.task(id, at_ns) {
            Some(task) => {
                task.changed = publication;
                change(task);
            }
            None => self.lost_events += 1,
        }
    }

    fn apply(&mut self, track: usize, at_ns: u64, kind: EventKind) {
        let known_ns = self.known_ns;
        match kind {
            EventKind::Spawn { id } => {
                self.tracks[track].spawned = Some((id, Vec::new()));
                self.change(id, at_ns, |task| {
                    task.created_ns = at_ns;
                    task.queue(at_ns);
                });
            }
            EventKind::Site(location) => {
                if let Some((id, _)) = self.tracks[track].spawned {
                    self.change(id, at_ns, |task| task.spawned_at = location);
                }
            }
            EventKind::Name(bytes) => {
                if let Some((id, name)) = &mut self.tracks[track].spawned {
                    name.extend(bytes);
                    let (id, name) = (*id, String::from_utf8_lossy(name).into_owned());
                    // A list may have had it, and in full.
                    self.change(id, at_ns, |task| match task.future {
                        Some(_) => {}
                        None => task.name = Some(name),
                    });
                }
            }
            EventKind::Wake { id } => self.change(id, at_ns, |task| {
                task.wakes += 1;
                task.queue(at_ns);
            }),
            EventKind::Poll { id, is_nested } => {
                if !is_nested {
                    self.end_polls(track, at_ns);
                }
                self.tracks[track].polls.push((id, at_ns));
                self.change(id, at_ns, |task| {
                    task.kind = TaskKind::Task;
                    task.start_poll(at_ns, known_ns);
                });
            }
            EventKind::PollEnd(end) => {
                if let Some((id, start_ns)) = self.tracks[track].polls.pop() {
                    self.change(id, at_ns, |task| {
                        task.end_poll(start_ns, at_ns);
                        match end {
                            PollEnd::Idle => {}
                            PollEnd::Again => task.requeue(at_ns),
                            PollEnd::Complete => task.end(at_ns),
                        }
                    });
                }
            }
            EventKind::Job { id } => {
                self.jobs.insert(id, at_ns);
                self.change(id, at_ns, |task| task.start_poll(at_ns, known_ns));
            }
            EventKind::JobEnd { id, is_complete } => {
                let start_ns = self.jobs.remove(&id);
                self.change(id, at_ns, |task| {
                    if let Some(start_ns) = start_ns {
                        task.end_poll(start_ns, at_ns);
                    }
                    match is_complete {
                        true => task.end(at_ns),
                        false => task.kind = TaskKind::Task,
                    }
                });
            }
            EventKind::Park => self.end_polls(track, at_ns),
            // The polls go on elsewhere; a list says when they have ended (M2).
            EventKind::HandOff => self.tracks[track].polls.clear(),
            EventKind::Skipped | EventKind::Other => {}
        }
    }

    /// Ends polls whose ends were not recorded: their worker does something else.
    fn end_polls(&mut self, track: usize, at_ns: u64) {
        for (id, start_ns) in std::mem::take(&mut self.tracks[track].polls) {
            self.change(id, at_ns, |task| task.end_poll(start_ns, at_ns));
        }
    }

    /// Takes in a list of tasks, which was asked for after `stats`, and ends a publication.
    pub(crate) fn add_list(&mut self, stats: &Stats, list: Vec<Task>) {
        let now_ns = stats.now_ns;
        self.now_ns = now_ns;
        self.locks.add_list(&list, now_ns, self.publication);
        let polls = self.tracks.iter().flat_map(|track| &track.polls);
        let polled: HashSet<u64> = polls
            .map(|(id, _)| *id)
            .chain(self.jobs.keys().copied())
            .collect();
        let listed: HashSet<u64> = list.iter().map(|task| task.id).collect();
        for task in list {
            self.add_listed(task, now_ns, &polled);
        }
        let publication = self.publication;
        for (id, task) in &mut self.tasks {
            task.shown.get_or_insert(publication);
            if task.ended_ns.is_some() {
                continue;
            }
            let is_queued = task.kind == TaskKind::Blocking && stats.blocking_queue_depth > 0;
            let is_missing = !listed.contains(id) && !polled.contains(id) && !is_queued;
            if std::mem::replace(&mut task.is_missing, is_missing) && is_missing {
                task.end(now_ns);
                task.changed = publication;
            }
        }
        let forgotten_ns = now_ns.saturating_sub(RETENTION_NS);
        self.tasks.retain(|_, task| {
            task.ended_ns
                .is_none_or(|ended_ns| ended_ns >= forgotten_ns)
        });
        self.locks.forget_before(forgotten_ns);
        self.publication += 1;
    }

    fn add_listed(&mut self, listed: Task, now_ns: u64, polled: &HashSet<u64>) {
        let (publication, known_ns) = (self.publication, self.known_ns);
        let Some(task) = self.task(listed.id, now_ns) else {
            return;
        };
        task.kind = TaskKind::Task;
        let has_stopped = listed.status != "running" && !polled.contains(&listed.id);
        if let Some(start_ns) = task.open_ns.filter(|_| has_stopped) {
            task.end_poll(start_ns, now_ns);
            task.changed = publication;
        }
        let was_listed = task.listed;
        task.set_listed(&listed.status, known_ns);
        if task.listed.is_some() || was_listed.is_some() {
            task.changed = publication;
        }
        if task.wakers != listed.wakers {
            task.wakers = listed.wakers;
            task.changed = publication;
        }
        if task.future.is_none() {
            task.name = listed.name;
            task.spawned_at = listed.spawned_at;
            task.future = Some((listed.future, listed.size));
            task.changed = publication;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::ActiveState;

    fn stats(now_ns: u64) -> Stats {
        Stats {
            now_ns,
            ..Stats::default()
        }
    }

    fn events(now_ns: u64, tracks: &[(&str, u64, &str)]) -> Events {
        let tracks: Vec<String> = tracks
            .iter()
            .map(|(name, lost, events)| {
                format!(r#"{{"name":"{name}","lost":{lost},"events":[{events}]}}"#)
            })
            .collect();
        let tracks = tracks.join(",");
        serde_json::from_str(&format!(r#"{{"now_ns":{now_ns},"tracks":[{tracks}]}}"#)).unwrap()
    }

    fn list(tasks: &[(u64, &str)]) -> Vec<Task> {
        let task = |&(id, status): &(u64, &str)| Task {
            id,
            status: status.to_owned(),
            wakers: 1,
            ..Task::default()
        };
        tasks.iter().map(task).collect()
    }

    /// A model of a program that had no tasks at the time 0.
    fn model() -> Model {
        Model::attach(&stats(0), events(0, &[]), Vec::new())
    }

    /// Takes in the events of one worker, and waits until they are read (M1).
    fn add(model: &mut Model, now_ns: u64, text: &str) {
        model.add_events(events(now_ns, &[("worker 0", 0, text)]));
        model.add_events(events(now_ns, &[]));
    }

    #[test]
    fn polls_wakes_and_times_are_those_of_the_events() {
        let mut model = model();
        let text = r#"[10,"spawn",7],[10,"site","a.rs:1:2"],[10,"name",97,98],[10,"name",99],
            [15,"poll",7],[25,"idle",0],[30,"wake",7,"timer"],[50,"poll",7],[60,"woken",0],
            [61,"poll",7],[70,"yielded",0],[74,"poll",7]"#;
        add(&mut model, 80, text);
        let task = &model.tasks[&7];
        assert_eq!((task.created_ns, task.kind), (10, TaskKind::Task));
        assert_eq!(
            (task.name.as_deref(), &*task.spawned_at),
            (Some("abc"), "a.rs:1:2")
        );
        assert_eq!((task.polls, task.busy_ns), (4, 10 + 10 + 9));
        assert_eq!((task.wakes, task.self_wakes), (3, 2));
        assert_eq!(task.scheduled_ns, 5 + 20 + 1 + 4);
        assert_eq!((task.last_start_ns, task.last_end_ns), (Some(74), Some(70)));
        assert_eq!(task.last_queued_ns, Some(70));
        assert_eq!(task.poll_times.histogram().len(), 3);
        assert_eq!(task.scheduled_times.histogram().len(), 4);
        assert_eq!(task.scheduled_times.histogram().max(), 20);
        add(&mut model, 100, r#"[90,"complete",0]"#);
        let task = &model.tasks[&7];
        assert_eq!((task.ended_ns, task.busy_ns), (Some(90), 10 + 10 + 9 + 16));
    }

    #[test]
    fn a_wake_is_taken_in_before_the_poll_that_another_track_has_after_it() {
        let mut model = model();
        add(&mut model, 10, r#"[1,"spawn",7],[2,"poll",7],[3,"idle",0]"#);
        // The wake was recorded after its track had been read.
        model.add_events(events(
            20,
            &[
                ("other threads", 0, ""),
                ("worker 0", 0, r#"[15,"poll",7]"#),
            ],
        ));
        assert_eq!(model.tasks[&7].polls, 1);
        model.add_events(events(
            30,
            &[("other threads", 0, r#"[12,"wake",7,"thread"]"#)],
        ));
        let task = &model.tasks[&7];
        assert_eq!((task.polls, task.wakes), (2, 1));
        assert_eq!(task.scheduled_ns, 1 + 3);
    }

    #[test]
    fn polls_inside_others_end_before_them() {
        let mut model = model();
        let text = r#"[1,"poll",7],[2,"poll",8,"nested"],[5,"complete",0],[9,"idle",0]"#;
        add(&mut model, 10, text);
        assert_eq!(
            (model.tasks[&7].busy_ns, model.tasks[&7].ended_ns),
            (8, None)
        );
        assert_eq!(
            (model.tasks[&8].busy_ns, model.tasks[&8].ended_ns),
            (3, Some(5))
        );
        // An end that was not recorded.
        add(&mut model, 30, r#"[11,"poll",7],[20,"park"],[25,"idle",0]"#);
        assert_eq!(
            (model.tasks[&7].busy_ns, model.tasks[&7].open_ns),
            (8 + 9, None)
        );
    }

    #[test]
    fn a_poll_that_leaves_its_worker_ends_when_a_list_says_so() {
        let mut model = model();
        add(
            &mut model,
            20,
            r#"[10,"spawn",7],[11,"poll",7],[15,"hand-off"],[16,"park"]"#,
        );
        model.add_list(&stats(30), list(&[(7, "running")]));
        assert_eq!(model.tasks[&7].open_ns, Some(11));
        model.add_list(&stats(40), list(&[(7, "idle")]));
        let task = &model.tasks[&7];
        assert_eq!((task.open_ns, task.busy_ns, task.polls), (None, 29, 1));
        assert_eq!(task.changed, model.publication - 1);
    }

    #[test]
    fn a_task_that_is_older_has_been_polled_if_it_waits() {
        let tasks = [
            (1, "idle"),
            (2, "running"),
            (3, "scheduled"),
            (4, "idle"),
            (5, "idle"),
        ];
        let mut stats = stats(100);
        stats.workers.push(blitzen_console_protocol::Worker {
            task: Some(2),
            ..Default::default()
        });
        let text = r#"[50,"poll",1],[60,"idle",0],[101,"wake",4,"task"],[102,"poll",4],[103,"idle",0],
            [104,"spawn",5],[105,"poll",5],[106,"idle",0]"#;
        // Task 2 is polled by worker 0, and all others by worker 1.
        let mut model = Model::attach(&stats, events(110, &[("worker 1", 9, text)]), list(&tasks));
        model.add_events(events(120, &[("worker 0", 0, r#"[115,"complete",0]"#)]));
        model.add_events(events(120, &[]));
        let polls = |id: u64| model.tasks[&id].polls;
        assert_eq!([1, 2, 3, 4, 5].map(polls), [1, 1, 0, 2, 1]);
        assert_eq!(model.tasks[&1].created_ns, 100);
        assert_eq!(
            model.tasks[&1].poll_times.histogram().len(),
            0,
            "nobody knows how long"
        );
        assert_eq!(
            (model.tasks[&2].busy_ns, model.tasks[&2].ended_ns),
            (15, Some(115))
        );
        assert_eq!(model.tasks[&3].last_queued_ns, Some(100));
        assert_eq!(model.tasks[&5].created_ns, 104);
        assert_eq!(model.lost_events, 0, "they were older");
    }

    #[test]
    fn what_two_lists_do_not_have_has_ended() {
        let mut model = model();
        model.add_list(&stats(10), list(&[(7, "idle")]));
        model.add_list(&stats(20), list(&[]));
        assert_eq!(model.tasks[&7].ended_ns, None, "an event may say when");
        model.add_list(&stats(30), list(&[]));
        assert_eq!(model.tasks[&7].ended_ns, Some(30));
        model.add_list(&stats(31 + RETENTION_NS), list(&[]));
        assert!(model.tasks.is_empty());
    }

    #[test]
    fn code_on_the_blocking_pool_is_there_while_it_is_queued_or_runs() {
        let mut model = model();
        add(&mut model, 10, r#"[5,"spawn",7],[6,"spawn",8]"#);
        let mut queued = stats(20);
        queued.blocking_queue_depth = 2;
        model.add_list(&queued, list(&[]));
        model.add_list(&queued, list(&[]));
        let job = r#"[22,"job",7]"#;
        model.add_events(events(25, &[("blocking pool", 0, job)]));
        model.add_events(events(30, &[]));
        model.add_list(&stats(40), list(&[]));
        model.add_list(&stats(50), list(&[]));
        assert_eq!(
            model.tasks[&8].ended_ns,
            Some(50),
            "it was aborted in the queue"
        );
        let task = &model.tasks[&7];
        assert_eq!(
            (task.kind, task.ended_ns, task.open_ns),
            (TaskKind::Blocking, None, Some(22))
        );
        model.add_events(events(60, &[("blocking pool", 0, r#"[55,"job-end",7,1]"#)]));
        model.add_events(events(60, &[]));
        assert_eq!(
            (model.tasks[&7].ended_ns, model.tasks[&7].busy_ns),
            (Some(55), 33)
        );
    }

    #[test]
    fn lost_events_are_counted_and_the_list_makes_good_for_them() {
        let mut model = model();
        add(&mut model, 10, r#"[1,"spawn",7],[2,"poll",7]"#);
        assert!(model.add_events(events(20, &[("worker 0", 5, r#"[19,"idle",0]"#)])));
        assert!(!model.add_events(events(20, &[])));
        let task = &model.tasks[&7];
        assert_eq!((model.lost_events, task.open_ns), (5, None));
        assert_eq!((task.polls, task.busy_ns), (1, 0), "nobody knows how long");
        model.add_list(&stats(30), list(&[(7, "idle")]));
        assert_eq!(model.tasks[&7].listed, None);
        model.add_list(&stats(40), list(&[(7, "scheduled")]));
        assert_eq!(model.tasks[&7].listed, Some(ActiveState::Scheduled));
        add(&mut model, 50, r#"[45,"poll",7]"#);
        model.add_list(&stats(50), list(&[(7, "running")]));
        assert_eq!(model.tasks[&7].listed, None, "the event says it");
    }

    #[test]
    fn time_in_a_queue_is_not_counted_if_polls_may_be_lost() {
        let mut model = model();
        add(
            &mut model,
            10,
            r#"[1,"spawn",7],[4,"poll",7],[5,"woken",0]"#,
        );
        model.add_events(events(
            100,
            &[("worker 0", 5, r#"[90,"poll",7],[91,"woken",0]"#)],
        ));
        model.add_events(events(100, &[]));
        assert_eq!(
            (model.tasks[&7].polls, model.tasks[&7].scheduled_ns),
            (2, 3)
        );
        // A thief polls it, after polls that are lost.
        let tracks = [
            ("worker 0", 5, r#"[190,"unpark"]"#),
            (
                "worker 1",
                0,
                r#"[150,"poll",7],[151,"woken",0],[153,"poll",7],[154,"woken",0]"#,
            ),
        ];
        model.add_events(events(200, &tracks));
        model.add_events(events(200, &[]));
        assert_eq!(
            (model.tasks[&7].polls, model.tasks[&7].scheduled_ns),
            (4, 3)
        );
        assert_eq!(model.tasks[&7].last_queued_ns, Some(154));
        model.add_list(&stats(200), list(&[(7, "idle")]));
        assert_eq!(model.tasks[&7].last_queued_ns, None, "it was polled since");
    }

    #[test]
    fn as_many_tasks_as_there_is_room_for_are_kept() {
        let mut model = model();
        let spawns: Vec<String> = (0..MAX_TASKS + 3)
            .map(|id| format!(r#"[1,"spawn",{id}]"#))
            .collect();
        add(&mut model, 10, &spawns.join(","));
        assert_eq!((model.tasks.len(), model.lost_events), (MAX_TASKS, 3));
    }
}
