//! The answers of a program, as values. `docs/console-protocol.md` describes the fields.

use std::fmt;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Greeting {
    pub(crate) protocol: String,
    pub(crate) version: u32,
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) runtime: Option<String>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Stats {
    pub(crate) now_ns: u64,
    pub(crate) blocking_queue_depth: u64,
    pub(crate) workers: Vec<Worker>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Worker {
    /// The task that it polls.
    pub(crate) task: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListedTask {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) spawned_at: String,
    pub(crate) future: String,
    pub(crate) size: u64,
    pub(crate) status: String,
    pub(crate) wakers: u64,
    pub(crate) wait: Option<Wait>,
}

/// What a task waits for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wait {
    pub(crate) kind: String,
    /// A text, or the number of a task.
    pub(crate) resource: Value,
    /// The task that holds the lock.
    pub(crate) owner: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct Events {
    pub(crate) now_ns: u64,
    pub(crate) tracks: Vec<Track>,
}

#[derive(Deserialize)]
pub(crate) struct Track {
    pub(crate) name: String,
    pub(crate) lost: u64,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at_ns: u64,
    pub(crate) kind: EventKind,
}

/// What has happened, as far as it matters here.
#[derive(Debug, PartialEq)]
pub(crate) enum EventKind {
    Spawn {
        id: u64,
    },
    /// Where the last task of the track was spawned.
    Site(String),
    /// The next bytes of its name.
    Name(Vec<u8>),
    Wake {
        id: u64,
    },
    Poll {
        id: u64,
        is_nested: bool,
    },
    PollEnd(PollEnd),
    Job {
        id: u64,
    },
    JobEnd {
        id: u64,
        is_complete: bool,
    },
    Park,
    HandOff,
    /// The events of the track up to another time are lost; no program sends it.
    Lost {
        until_ns: u64,
    },
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollEnd {
    Idle,
    /// It was woken during its poll, or has yielded.
    Again,
    Complete,
}

impl EventKind {
    /// The task that the event names.
    pub(crate) fn id(&self) -> Option<u64> {
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
            [11,"new",{"x":[1]},"y"],[12,"wake",7,"task"]]"#;
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
