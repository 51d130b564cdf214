//! Answers other than events.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first line of a connection.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Greeting {
    /// The name of the protocol.
    pub protocol: String,
    /// Its version.
    pub version: u32,
    /// The number of the process.
    pub pid: u32,
    /// The name of the program.
    pub program: String,
    /// The name of the runtime, if it has one.
    pub runtime: Option<String>,
}

/// The answer to `stats`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The time since the runtime was made.
    pub now_ns: u64,
    /// `multi_thread` or `current_thread`.
    pub flavor: String,
    /// The mode of the recorder.
    pub trace: String,
    /// Tasks that have not ended.
    pub alive_tasks: u64,
    /// Tasks that were spawned.
    pub spawned_tasks: u64,
    /// Tasks in the injection queue.
    pub global_queue_depth: u64,
    /// Threads of the blocking pool.
    pub blocking_threads: u64,
    /// Those of them that wait for work.
    pub idle_blocking_threads: u64,
    /// Jobs that wait for one.
    pub blocking_queue_depth: u64,
    /// The workers, by their index.
    pub workers: Vec<Worker>,
}

/// A worker, in `stats`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// `running`, `parked`, or `blocking` if its thread is in `block_in_place`.
    pub state: String,
    /// The task that it polls.
    pub task: Option<u64>,
    /// Tasks in its queue.
    pub queue_depth: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Tasks that it has stolen from others.
    pub tasks_stolen: u64,
    /// Times it parked.
    pub park_events: u64,
    /// How long it was not parked.
    pub busy_ns: u64,
    /// The time of all polls.
    pub poll_ns: u64,
    /// An upper bound of the longest poll.
    pub max_poll_ns: u64,
}

/// The answer to `dump`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Dump {
    /// Every live task.
    pub tasks: Vec<Task>,
    /// Tasks that wait for each other.
    pub deadlocks: Vec<Deadlock>,
    /// How many stacks have no frames, because there was no time to look up their names.
    pub unresolved_stacks: u64,
}

/// Tasks that wait for each other's locks, or for each other's end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Deadlock {
    /// `deadlock`, `futurelock` or `self-join`; empty if the program does not say it.
    pub kind: String,
    /// The tasks, each of which waits for the next one.
    pub tasks: Vec<u64>,
}

/// A task, in the answers to `tasks` and `dump`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Task {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: Option<String>,
    /// Where it was spawned: file, line and column.
    pub spawned_at: String,
    /// The type of its future.
    pub future: String,
    /// The size of its future, in bytes.
    pub size: u64,
    /// `idle`, `scheduled`, `running` or `complete`.
    pub status: String,
    /// Whether it was aborted.
    pub cancelled: bool,
    /// How many wakers and `AbortHandle`s it has.
    pub wakers: u64,
    /// What it waits for, if that is known.
    pub wait: Option<Wait>,
    /// Where it waits.
    #[serde(skip_serializing)]
    pub stacks: Vec<Stack>,
}

/// What a task waits for.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Wait {
    /// The kind of thing.
    pub kind: String,
    /// A text, or the number of a task.
    pub resource: Value,
    /// The task that holds the lock.
    pub owner: Option<u64>,
    /// For how long it has waited.
    pub seconds: Option<u64>,
    /// When the timer is due.
    pub due_in_seconds: Option<f64>,
}

/// The calls that lead to where a task waits, in `dump`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stack {
    /// The kind of thing that is waited for.
    pub kind: String,
    /// The calls, innermost first.
    pub frames: Vec<String>,
}

/// A finding, in the answer to `lints`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Lint {
    /// Its kind.
    pub kind: String,
    /// The task, if it is about one.
    pub task: Option<u64>,
    /// How long ago it was found.
    pub age_seconds: u64,
    /// The report.
    pub text: String,
}

impl Task {
    /// Returns its name, or the line that spawned it.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.spawned_at)
    }
}

impl Wait {
    /// Returns the thing that is waited for, without the time.
    pub fn thing(&self) -> String {
        match &self.resource {
            Value::Number(task) if self.kind == "join" => format!("join of task {task}"),
            Value::String(address) => match self.owner {
                Some(owner) => format!("{} {address} held by task {owner}", self.kind),
                None => format!("{} {address}", self.kind),
            },
            _ => self.kind.clone(),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.thing())?;
        if let Some(due_in) = self.due_in_seconds {
            write!(f, " due in {due_in:.1} s")?;
        }
        if let Some(seconds) = self.seconds {
            write!(f, " for {seconds} s")?;
        }
        Ok(())
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(f, " {}", self.status)?;
        if let Some(wait) = &self.wait {
            write!(f, ": {wait}")?;
        }
        if self.cancelled {
            f.write_str(", cancelled")?;
        }
        let (size, future) = (self.size, &self.future);
        write!(
            f,
            " (spawned at {}, {size} bytes, {future})",
            self.spawned_at
        )
    }
}
