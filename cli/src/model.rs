//! What a program answers, as values. `docs/console-protocol.md` describes the fields.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Greeting {
    pub(crate) protocol: String,
    pub(crate) version: u32,
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) runtime: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stats {
    pub(crate) now_ns: u64,
    pub(crate) flavor: String,
    pub(crate) trace: String,
    pub(crate) alive_tasks: u64,
    pub(crate) spawned_tasks: u64,
    pub(crate) global_queue_depth: u64,
    pub(crate) blocking_threads: u64,
    pub(crate) idle_blocking_threads: u64,
    pub(crate) blocking_queue_depth: u64,
    pub(crate) workers: Vec<Worker>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Worker {
    pub(crate) state: String,
    pub(crate) task: Option<u64>,
    pub(crate) queue_depth: u64,
    pub(crate) polls: u64,
    pub(crate) tasks_stolen: u64,
    pub(crate) park_events: u64,
    pub(crate) busy_ns: u64,
    pub(crate) poll_ns: u64,
    pub(crate) max_poll_ns: u64,
}

/// The answer to `dump`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Dump {
    pub(crate) tasks: Vec<Task>,
    pub(crate) deadlocks: Vec<Deadlock>,
}

/// Tasks that wait for each other's locks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deadlock {
    pub(crate) tasks: Vec<u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Task {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) spawned_at: String,
    pub(crate) future: String,
    pub(crate) size: u64,
    pub(crate) status: String,
    pub(crate) cancelled: bool,
    pub(crate) wakers: u64,
    pub(crate) wait: Option<Wait>,
    #[serde(skip_serializing)]
    pub(crate) stacks: Vec<Stack>,
}

/// What a task waits for.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Wait {
    pub(crate) kind: String,
    /// A text, or the number of a task.
    pub(crate) resource: Value,
    /// The task that holds the lock.
    pub(crate) owner: Option<u64>,
    pub(crate) seconds: Option<u64>,
    pub(crate) due_in_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stack {
    pub(crate) kind: String,
    pub(crate) frames: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Lint {
    pub(crate) kind: String,
    pub(crate) task: Option<u64>,
    pub(crate) age_seconds: u64,
    pub(crate) text: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Events {
    pub(crate) now_ns: u64,
    pub(crate) tracks: Vec<Track>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Track {
    pub(crate) name: String,
    pub(crate) lost: u64,
    /// Time, kind, and numbers.
    pub(crate) events: Vec<Vec<Value>>,
}

impl Task {
    /// Its name, or the line that spawned it.
    pub(crate) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.spawned_at)
    }
}

impl Wait {
    /// The thing that is waited for, without the time.
    pub(crate) fn thing(&self) -> String {
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
