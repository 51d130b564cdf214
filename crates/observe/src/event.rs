//! The events of a recorder: sixteen bytes each.
//!
//! ```text
//!  first word:  kind 6 │ detail 10 │ time 48     second word: a number or an address
//! ```
//!
//! The time is in nanoseconds since the runtime was made, and wraps after 78 hours. A reader knows
//! the present time, and from that the full time of every event that is not older.

use std::fmt;
use std::panic::Location;
use std::ptr::with_exposed_provenance;

use blitzen_util::field::Field;
use blitzen_util::wait::WaitKind;
use blitzen_util::wake_cause::WakeCause;

use crate::lint_kind::LintKind;

const KIND: Field = Field::new(58, 6);
const DETAIL: Field = Field::new(48, 10);
const TIME: Field = Field::new(0, 48);

/// The detail of the end of a poll.
const RESULT: Field = Field::new(0, 2);
const WAIT_KIND: Field = Field::new(2, 6);
/// Its second word.
const QUEUED: Field = Field::new(48, 16);
const WAIT_IDENTITY: Field = Field::new(0, 48);

/// How many bytes of a name fit into one event.
const NAME_CHUNK: usize = 8;
/// How many bytes of a name are recorded at the most.
const MAX_NAME: usize = 4 * NAME_CHUNK;

/// The result of a poll, as an event has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollResult {
    /// The task waits to be woken.
    Idle,
    /// It has ended.
    Complete,
    /// It was woken during the poll.
    Woken,
    /// It yielded.
    Yielded,
}

impl PollResult {
    const ALL: [Self; 4] = [Self::Idle, Self::Complete, Self::Woken, Self::Yielded];
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventWait {
    /// The kind of thing.
    pub kind: WaitKind,
    /// A number of 48 bits that tells it from others of its kind: an address, a task, a deadline.
    pub identity: u64,
}

impl fmt::Display for EventWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.identity) {
            (WaitKind::Several, _) => f.write_str("several things"),
            (WaitKind::Join, id) => write!(f, "join of task {id}"),
            (WaitKind::Timer, _) | (_, 0) => f.write_str(self.kind.name()),
            (kind, address) => write!(f, "{kind} {address:#x}"),
        }
    }
}

/// Something that happened on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task was spawned.
    Spawn {
        /// The task.
        id: u64,
    },
    /// The line that the task of the last `Spawn` was spawned at.
    Site {
        /// The line.
        location: &'static Location<'static>,
    },
    /// A part of the name of the task of the last `Spawn`.
    Name {
        /// Its bytes; those after `len` mean nothing.
        bytes: [u8; NAME_CHUNK],
        /// How many bytes there are.
        len: u8,
    },
    /// A poll begins.
    PollStart {
        /// The task.
        id: u64,
    },
    /// A poll begins inside another one of the same worker: a dispatcher polls a task.
    NestedPollStart {
        /// The task.
        id: u64,
    },
    /// The poll ends that began last.
    PollEnd {
        /// How.
        result: PollResult,
        /// Tasks in the worker's queue, up to 65,535.
        queued: u16,
        /// What the task waits for, if it is idle.
        wait: EventWait,
    },
    /// A task was woken.
    Wake {
        /// The task.
        id: u64,
        /// By what.
        cause: WakeCause,
    },
    /// The worker parks.
    Park,
    /// It was unparked.
    Unpark,
    /// It has stolen tasks.
    Steal {
        /// From which worker.
        victim: u64,
        /// How many, up to 1023.
        count: u16,
    },
    /// Its queue was full, and half of it went to the injection queue.
    Overflow,
    /// Another thread goes on with the worker; the poll that the event falls into goes on
    /// without it.
    HandOff,
    /// Polls that were not recorded.
    Skipped {
        /// How many.
        polls: u64,
    },
    /// A thread that is no worker begins to run code of the blocking pool, or to poll a task for a
    /// dispatcher.
    JobStart {
        /// The task, or the one that the code is.
        id: u64,
    },
    /// That has ended.
    JobEnd {
        /// The task.
        id: u64,
        /// Whether the task is complete.
        is_complete: bool,
    },
    /// A span of the user's begins.
    SpanEnter {
        /// Its name.
        name: &'static &'static str,
    },
    /// The span ends.
    SpanExit,
    /// The thread that looks for lints has found one.
    Lint {
        /// What it is about.
        kind: LintKind,
        /// The task, or zero.
        id: u64,
    },
}

impl Event {
    /// The two words of the event.
    #[inline]
    pub(crate) fn pack(self, at_ns: u64) -> [u64; 2] {
        let (kind, detail, word) = match self {
            Self::Spawn { id } => (1, 0, id),
            Self::Site { location } => (2, 0, address(location)),
            Self::Name { bytes, len } => (3, len.into(), u64::from_le_bytes(bytes)),
            Self::PollStart { id } => (4, 0, id),
            Self::PollEnd {
                result,
                queued,
                wait,
            } => {
                let detail = WAIT_KIND.set(RESULT.set(0, result as u64), wait.kind as u64);
                let identity = wait.identity & WAIT_IDENTITY.max();
                (5, detail, QUEUED.set(identity, queued.into()))
            }
            Self::Wake { id, cause } => (6, cause as u64, id),
            Self::Park => (7, 0, 0),
            Self::Unpark => (8, 0, 0),
            Self::Steal { victim, count } => (9, u64::from(count).min(DETAIL.max()), victim),
            Self::Overflow => (10, 0, 0),
            Self::HandOff => (11, 0, 0),
            Self::Skipped { polls } => (12, 0, polls),
            Self::SpanEnter { name } => (13, 0, address(name)),
            Self::SpanExit => (14, 0, 0),
            Self::JobStart { id } => (15, 0, id),
            Self::JobEnd { id, is_complete } => (16, is_complete.into(), id),
            Self::NestedPollStart { id } => (17, 0, id),
            Self::Lint { kind, id } => (18, kind as u64, id),
        };
        let time = at_ns & TIME.max();
        [KIND.set(DETAIL.set(time, detail), kind), word]
    }

    /// The event that [`pack`](Self::pack) made into these words.
    ///
    /// # Safety
    /// They are of one call of `pack`.
    pub(crate) unsafe fn unpack([first, word]: [u64; 2]) -> Option<Self> {
        let detail = DETAIL.get(first);
        Some(match KIND.get(first) {
            1 => Self::Spawn { id: word },
            2 => Self::Site {
                // SAFETY: the address of a static location, exposed by `pack`.
                location: unsafe { &*with_exposed_provenance(word as usize) },
            },
            3 => Self::Name {
                bytes: word.to_le_bytes(),
                len: (detail as usize).min(NAME_CHUNK) as u8,
            },
            4 => Self::PollStart { id: word },
            5 => Self::PollEnd {
                result: PollResult::ALL[RESULT.get(detail) as usize],
                queued: QUEUED.get(word) as u16,
                wait: EventWait {
                    kind: WaitKind::from_number(WAIT_KIND.get(detail) as u8),
                    identity: WAIT_IDENTITY.get(word),
                },
            },
            6 => Self::Wake {
                id: word,
                cause: WakeCause::from_number(detail),
            },
            7 => Self::Park,
            8 => Self::Unpark,
            9 => Self::Steal {
                victim: word,
                count: detail as u16,
            },
            10 => Self::Overflow,
            11 => Self::HandOff,
            12 => Self::Skipped { polls: word },
            13 => Self::SpanEnter {
                // SAFETY: the address of a static name, exposed by `pack`.
                name: unsafe { &*with_exposed_provenance(word as usize) },
            },
            14 => Self::SpanExit,
            15 => Self::JobStart { id: word },
            16 => Self::JobEnd {
                id: word,
                is_complete: detail != 0,
            },
            17 => Self::NestedPollStart { id: word },
            18 => Self::Lint {
                kind: *LintKind::ALL.get(detail as usize)?,
                id: word,
            },
            _ => return None,
        })
    }

    /// The events that say what a task is called, up to 32 bytes.
    pub fn name_events(name: &str) -> impl Iterator<Item = Self> + '_ {
        let mut end = name.len().min(MAX_NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.as_bytes()[..end].chunks(NAME_CHUNK).map(|chunk| {
            let mut bytes = [0; NAME_CHUNK];
            bytes[..chunk.len()].copy_from_slice(chunk);
            Self::Name {
                bytes,
                len: chunk.len() as u8,
            }
        })
    }
}

fn address<T>(value: &'static T) -> u64 {
    (&raw const *value).expose_provenance() as u64
}

/// How far the time of an event may be ahead of the reader's: where processors do not quite agree
/// on the time.
const MAX_AHEAD_NS: u64 = 1_000_000;

/// When an event happened, which is not after `now_ns`: its first word has only the lower bits of
/// the time.
pub(crate) fn event_time(first: u64, now_ns: u64) -> u64 {
    let age = now_ns.wrapping_sub(TIME.get(first)) & TIME.max();
    match TIME.max() - age < MAX_AHEAD_NS {
        true => now_ns,
        false => now_ns.saturating_sub(age),
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_packing() {
        static NAME: &str = "handler";
        let location = Location::caller();
        let events = [
            Event::Spawn { id: u64::MAX },
            Event::Site { location },
            Event::PollStart { id: 7 },
            Event::NestedPollStart { id: 8 },
            Event::Wake {
                id: 7,
                cause: WakeCause::Thread,
            },
            Event::JobStart { id: 8 },
            Event::JobEnd {
                id: u64::MAX,
                is_complete: true,
            },
            Event::Park,
            Event::Unpark,
            Event::Steal {
                victim: 3,
                count: 1023,
            },
            Event::Overflow,
            Event::HandOff,
            Event::Skipped { polls: 5 },
            Event::SpanEnter { name: &NAME },
            Event::SpanExit,
            Event::Lint {
                kind: LintKind::Futurelock,
                id: u64::MAX,
            },
        ];
        let wait = EventWait {
            kind: WaitKind::Several,
            identity: (1 << 48) - 1,
        };
        let ends = PollResult::ALL.map(|result| Event::PollEnd {
            result,
            queued: u16::MAX,
            wait,
        });
        let names: Vec<_> = Event::name_events("a name of some length").collect();
        for event in events.into_iter().chain(ends).chain(names) {
            // SAFETY: from `pack`.
            assert_eq!(unsafe { Event::unpack(event.pack(1)) }, Some(event));
        }
        // SAFETY: no words of `pack`, but of no kind either.
        assert_eq!(unsafe { Event::unpack([0, 0]) }, None);
    }

    #[test]
    fn a_count_that_does_not_fit_is_the_largest() {
        let steal = Event::Steal {
            victim: 1,
            count: 5_000,
        };
        // SAFETY: from `pack`.
        let read = unsafe { Event::unpack(steal.pack(0)) };
        assert_eq!(
            read,
            Some(Event::Steal {
                victim: 1,
                count: 1023
            })
        );
    }

    #[test]
    fn the_full_time_of_an_event_follows_from_the_present_time() {
        for (at_ns, now_ns) in [
            (5, 9),
            (TIME.max() - 1, TIME.max() + 10),
            (3 << 48, (3 << 48) + 7),
            (12, 12),
        ] {
            let [first, _] = Event::Park.pack(at_ns);
            assert_eq!(event_time(first, now_ns), at_ns);
        }
    }

    #[test]
    fn an_event_of_a_processor_that_is_a_little_ahead_is_of_now() {
        let [first, _] = Event::Park.pack(1_000);
        assert_eq!(event_time(first, 990), 990);
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let text = |name: &str| {
            let bytes = Event::name_events(name).flat_map(|event| match event {
                Event::Name { bytes, len } => bytes[..len.into()].to_vec(),
                other => panic!("a name is made of other events: {other:?}"),
            });
            String::from_utf8(bytes.collect()).unwrap()
        };
        assert_eq!(text(""), "");
        assert_eq!(text("short"), "short");
        assert_eq!(text(&"ä".repeat(40)), "ä".repeat(16));
        assert_eq!(
            text(&format!("x{}", "ä".repeat(40))),
            format!("x{}", "ä".repeat(15))
        );
    }
}
