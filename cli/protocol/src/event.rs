//! What was recorded.

use std::fmt;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The answer to `events`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Events {
    /// The time of the answer, since the runtime was made.
    pub now_ns: u64,
    /// The events of each worker, then those of other threads.
    pub tracks: Vec<Track>,
}

/// The events of a worker, or of other threads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Track {
    /// Its name, such as `worker 0`.
    pub name: String,
    /// How many events were overwritten before they could be sent.
    pub lost: u64,
    /// The events, oldest first.
    pub events: Vec<Event>,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since the runtime was made.
    pub at_ns: u64,
    /// What.
    pub kind: EventKind,
}

/// What has happened, as far as clients look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A task was spawned.
    Spawn {
        /// The task.
        id: u64,
    },
    /// Where the last task of the track was spawned.
    Site(String),
    /// The next bytes of its name.
    Name(Vec<u8>),
    /// A task was woken.
    Wake {
        /// The task.
        id: u64,
    },
    /// A poll has begun.
    Poll {
        /// The task.
        id: u64,
        /// Whether the poll that goes on is around it, and not over.
        is_nested: bool,
    },
    /// The innermost poll has ended.
    PollEnd(PollEnd),
    /// A task, or its code on the blocking pool, runs on a thread without a worker.
    Job {
        /// The task.
        id: u64,
    },
    /// That is over.
    JobEnd {
        /// The task.
        id: u64,
        /// Whether the task has ended too.
        is_complete: bool,
    },
    /// The worker has parked.
    Park,
    /// Another thread goes on with the worker, without the polls that have begun.
    HandOff,
    /// Polls were left out: the recorder samples.
    Skipped,
    /// Something else.
    Other,
}

/// How a poll has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollEnd {
    /// The task waits.
    Idle,
    /// It was woken during its poll, or has yielded.
    Again,
    /// The task has ended.
    Complete,
}

impl EventKind {
    /// Returns the task that the event names.
    pub fn id(&self) -> Option<u64> {
        match *self {
            Self::Spawn { id }
            | Self::Wake { id }
            | Self::Poll { id, .. }
            | Self::Job { id }
            | Self::JobEnd { id, .. } => Some(id),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time, a kind, and numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Event, A::Error> {
        let at_ns = next(&mut seq)?;
        let kind = match next::<&str, A>(&mut seq)? {
            "spawn" => EventKind::Spawn {
                id: next(&mut seq)?,
            },
            "site" => EventKind::Site(next(&mut seq)?),
            "name" => {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                EventKind::Name(bytes)
            }
            "wake" => EventKind::Wake {
                id: next(&mut seq)?,
            },
            "poll" => EventKind::Poll {
                id: next(&mut seq)?,
                is_nested: seq.next_element::<&str>()? == Some("nested"),
            },
            "idle" => EventKind::PollEnd(PollEnd::Idle),
            "woken" | "yielded" => EventKind::PollEnd(PollEnd::Again),
            "complete" => EventKind::PollEnd(PollEnd::Complete),
            "job" => EventKind::Job {
                id: next(&mut seq)?,
            },
            "job-end" => EventKind::JobEnd {
                id: next(&mut seq)?,
                is_complete: next::<u8, A>(&mut seq)? != 0,
            },
            "park" => EventKind::Park,
            "hand-off" => EventKind::HandOff,
            "skipped" => EventKind::Skipped,
            _ => EventKind::Other,
        };
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Event { at_ns, kind })
    }
}

fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(seq: &mut A) -> Result<T, A::Error> {
    let element = seq.next_element()?;
    element.ok_or_else(|| A::Error::custom("an event is too short"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_unknown_ones_are_ignored() {
        let events = r#"[[5,"spawn",7],[5,"site","a.rs:1:2"],[5,"name",97,98],[6,"poll",7,"nested"],
            [7,"poll",7],[8,"idle",0,"mutex",16],[9,"yielded",1],[10,"job-end",7,1],
            [11,"new",{"x":[1]},"y"],[12,"wake",7,"task"],[13,"skipped",9]]"#;
        let events: Vec<Event> = serde_json::from_str(events).unwrap();
        let kinds: Vec<EventKind> = events.into_iter().map(|event| event.kind).collect();
        let id = 7;
        let expected = [
            EventKind::Spawn { id },
            EventKind::Site("a.rs:1:2".to_owned()),
            EventKind::Name(b"ab".to_vec()),
            EventKind::Poll {
                id,
                is_nested: true,
            },
            EventKind::Poll {
                id,
                is_nested: false,
            },
            EventKind::PollEnd(PollEnd::Idle),
            EventKind::PollEnd(PollEnd::Again),
            EventKind::JobEnd {
                id,
                is_complete: true,
            },
            EventKind::Other,
            EventKind::Wake { id },
            EventKind::Skipped,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for text in [
            "[3]",
            r#"["poll",7]"#,
            r#"[3,"poll"]"#,
            r#"[3,"poll","x"]"#,
            "{}",
            "[-1]",
        ] {
            assert!(serde_json::from_str::<Event>(text).is_err(), "{text}");
        }
    }
}
