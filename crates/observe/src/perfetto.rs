//! Events as a trace for Perfetto: a track for each worker with a slice for each poll, flows
//! from wakes to polls, and a counter of the worker's queue. Jobs of the blocking pool are slices
//! on as many tracks as jobs have run at a time.
//!
//! The format is a sequence of protobuf packets, `perfetto.protos.Trace`. All packets are of
//! one sequence, in which a name is written out where it first occurs.

use std::collections::HashMap;
use std::panic::Location;

use blitzen_util::wait::WaitKind;
use blitzen_util::wake_cause::WakeCause;

use crate::event::{Event, EventWait, PollResult};
use crate::event_sink::{EventSink, EventTrack};
use crate::protobuf::Message;

/// The numbers of the fields that are written, by message.
mod field {
    pub(super) mod trace {
        pub(crate) const PACKET: u32 = 1;
    }
    pub(super) mod packet {
        pub(crate) const TIMESTAMP: u32 = 8;
        pub(crate) const SEQUENCE_ID: u32 = 10;
        pub(crate) const TRACK_EVENT: u32 = 11;
        pub(crate) const INTERNED_DATA: u32 = 12;
        pub(crate) const SEQUENCE_FLAGS: u32 = 13;
        pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    }
    pub(super) mod track_descriptor {
        pub(crate) const UUID: u32 = 1;
        pub(crate) const NAME: u32 = 2;
        pub(crate) const PROCESS: u32 = 3;
        pub(crate) const PARENT_UUID: u32 = 5;
        pub(crate) const COUNTER: u32 = 8;
    }
    pub(super) mod process {
        pub(crate) const PID: u32 = 1;
        pub(crate) const NAME: u32 = 6;
    }
    pub(super) mod track_event {
        pub(crate) const DEBUG_ANNOTATIONS: u32 = 4;
        pub(crate) const TYPE: u32 = 9;
        pub(crate) const NAME_IID: u32 = 10;
        pub(crate) const TRACK_UUID: u32 = 11;
        pub(crate) const COUNTER_VALUE: u32 = 30;
        pub(crate) const FLOW_IDS: u32 = 47;
        pub(crate) const TERMINATING_FLOW_IDS: u32 = 48;
    }
    pub(super) mod annotation {
        pub(crate) const UINT_VALUE: u32 = 3;
        pub(crate) const STRING_VALUE: u32 = 6;
        pub(crate) const NAME: u32 = 10;
    }
    pub(super) mod interned_data {
        pub(crate) const EVENT_NAMES: u32 = 2;
    }
    pub(super) mod event_name {
        pub(crate) const IID: u32 = 1;
        pub(crate) const NAME: u32 = 2;
    }
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

const PROCESS_UUID: u64 = 1;
const FIRST_TRACK_UUID: u64 = 16;

/// The longest name that is written, in bytes.
const MAX_NAME: usize = 256;
/// How many tasks are remembered at the most, for their names and flows.
const MAX_TASKS: usize = 1 << 20;

/// Turns events into a trace for Perfetto.
///
/// ```
/// use blitzen_observe::{Event, EventSink, PerfettoTrace};
///
/// let mut trace = PerfettoTrace::new(1, "server");
/// let worker = trace.add_track("worker 0");
/// trace.add(worker, 10, Event::Park);
/// assert!(!trace.take_bytes().is_empty());
/// ```
#[derive(Debug)]
pub struct PerfettoTrace {
    out: Message,
    tracks: Vec<TrackState>,
    /// The number of each name that was written.
    names: HashMap<String, u64>,
    /// The number of the name of each task.
    tasks: HashMap<u64, u64>,
    /// The flow from the last wake of a task that was not polled since.
    flows: HashMap<u64, u64>,
    next_flow: u64,
    was_started: bool,
    /// The tracks of jobs, each with the job that runs there.
    lanes: Vec<(EventTrack, Option<u64>)>,
}

#[derive(Debug, Default)]
struct TrackState {
    name: String,
    is_described: bool,
    has_queue: bool,
    has_jobs: bool,
    open: Vec<OpenSlice>,
    /// The task that was spawned last, and its name as far as it is known.
    spawned: Option<(u64, Vec<u8>)>,
}

/// A slice that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenSlice {
    Poll { id: u64 },
    Span,
    Park,
    Job,
}

/// What a packet says besides, by name.
type Notes<'a> = &'a [(&'a str, Note<'a>)];

#[derive(Clone, Copy)]
enum Note<'a> {
    Number(u64),
    Text(&'a str),
}

/// What a packet says of a moment on a track.
#[derive(Default)]
struct Moment<'a> {
    kind: u64,
    name: Option<&'a str>,
    flow: Option<u64>,
    terminating_flow: Option<u64>,
    notes: Notes<'a>,
}

impl PerfettoTrace {
    /// Creates a trace of one process.
    ///
    /// ```
    /// use blitzen_observe::{EventSink, PerfettoTrace};
    ///
    /// let mut trace = PerfettoTrace::new(1, "server");
    /// assert!(!trace.take_bytes().is_empty());
    /// ```
    pub fn new(pid: u32, process: &str) -> Self {
        let mut trace = Self {
            out: Message::default(),
            tracks: Vec::new(),
            names: HashMap::new(),
            tasks: HashMap::new(),
            flows: HashMap::new(),
            next_flow: 1,
            was_started: false,
            lanes: Vec::new(),
        };
        trace.describe(|track| {
            track.integer(field::track_descriptor::UUID, PROCESS_UUID);
            track.message(field::track_descriptor::PROCESS, |message| {
                message
                    .integer(field::process::PID, pid.into())
                    .string(field::process::NAME, shorten(process));
            });
        });
        trace
    }

    fn push_track(&mut self, name: &str) -> EventTrack {
        self.tracks.push(TrackState {
            name: shorten(name).to_owned(),
            ..TrackState::default()
        });
        EventTrack(self.tracks.len() - 1)
    }

    fn describe_track(&mut self, track: EventTrack) {
        let state = &mut self.tracks[track.0];
        if std::mem::replace(&mut state.is_described, true) {
            return;
        }
        let name = state.name.clone();
        self.describe(|message| describe_as(message, uuid(track), &name));
    }

    /// The counter of a worker's queue.
    fn describe_queue(&mut self, track: EventTrack) {
        let state = &mut self.tracks[track.0];
        if std::mem::replace(&mut state.has_queue, true) {
            return;
        }
        let name = format!("queue of {}", state.name);
        self.describe(|message| {
            describe_as(message, queue_uuid(track), &name);
            message.message(field::track_descriptor::COUNTER, |_| {});
        });
    }

    fn set_label(&mut self, id: u64, label: &str) {
        let name = self.intern(label);
        forget_if_too_many(&mut self.tasks);
        self.tasks.insert(id, name);
    }

    fn label(&mut self, id: u64) -> u64 {
        let name = self.tasks.get(&id).copied();
        name.unwrap_or_else(|| self.intern("task"))
    }

    /// A wake or a spawn: the poll that follows is its effect.
    fn begin_flow(&mut self, track: EventTrack, at_ns: u64, name: &str, id: u64, by: WakeCause) {
        let flow = self.next_flow;
        self.next_flow += 1;
        forget_if_too_many(&mut self.flows);
        self.flows.insert(id, flow);
        let notes = [("task", Note::Number(id)), ("by", Note::Text(by.name()))];
        let known = match by {
            WakeCause::Unknown => 1,
            _ => notes.len(),
        };
        let moment = Moment {
            kind: INSTANT,
            name: Some(name),
            flow: Some(flow),
            notes: &notes[..known],
            ..Moment::default()
        };
        self.moment(track, at_ns, &moment);
    }

    /// Begins a slice for a poll or a job of a task.
    fn begin_run(&mut self, track: EventTrack, at_ns: u64, id: u64, slice: OpenSlice) {
        let moment = Moment {
            kind: SLICE_BEGIN,
            terminating_flow: self.flows.remove(&id),
            notes: &[("task", Note::Number(id))],
            ..Moment::default()
        };
        let name = self.label(id);
        self.tracks[track.0].open.push(slice);
        self.packet(track, at_ns, &moment, Some(name));
    }

    fn end_poll(&mut self, track: EventTrack, at_ns: u64, result: PollResult, wait: EventWait) {
        let id = loop {
            match self.tracks[track.0].open.last() {
                Some(OpenSlice::Poll { id }) => break *id,
                // A span that was not recorded to its end may be open in it.
                Some(_) => self.end_slice(track, at_ns, &[]),
                None => return,
            }
        };
        let result_name = match result {
            PollResult::Idle => "idle",
            PollResult::Complete => "complete",
            PollResult::Woken => "woken",
            PollResult::Yielded => "yielded",
        };
        let waits_for = wait.to_string();
        let notes = [
            ("result", Note::Text(result_name)),
            ("waits for", Note::Text(&waits_for)),
        ];
        let known = match (result, wait.kind) {
            (PollResult::Idle, kind) if kind != WaitKind::Unknown => notes.len(),
            _ => 1,
        };
        self.end_slice(track, at_ns, &notes[..known]);
        if result == PollResult::Complete {
            self.tasks.remove(&id);
        }
    }

    fn count_queue(&mut self, track: EventTrack, at_ns: u64, queued: u16) {
        self.describe_queue(track);
        self.write_packet(at_ns, |packet| {
            packet.message(field::packet::TRACK_EVENT, |event| {
                event
                    .integer(field::track_event::TYPE, COUNTER)
                    .integer(field::track_event::TRACK_UUID, queue_uuid(track))
                    .integer(field::track_event::COUNTER_VALUE, queued.into());
            });
        });
    }

    /// Begins a job on the first track on which none runs.
    fn begin_job(&mut self, at_ns: u64, id: u64) {
        let free = self.lanes.iter().position(|(_, job)| job.is_none());
        let lane = free.unwrap_or_else(|| {
            let track = self.push_track(&format!("blocking {}", self.lanes.len()));
            self.lanes.push((track, None));
            self.lanes.len() - 1
        });
        self.lanes[lane].1 = Some(id);
        self.begin_run(self.lanes[lane].0, at_ns, id, OpenSlice::Job);
    }

    fn end_job(&mut self, at_ns: u64, id: u64, is_complete: bool) {
        let mut lanes = self.lanes.iter_mut();
        if let Some((track, job)) = lanes.find(|(_, job)| *job == Some(id)) {
            *job = None;
            let track = *track;
            self.close(track, at_ns);
        }
        if is_complete {
            self.tasks.remove(&id);
        }
    }

    /// Ends all jobs: the end of some may be lost.
    fn end_jobs(&mut self, at_ns: u64) {
        let running: Vec<u64> = self.lanes.iter().filter_map(|(_, job)| *job).collect();
        for id in running {
            self.end_job(at_ns, id, false);
        }
    }

    fn begin_slice(&mut self, track: EventTrack, at_ns: u64, name: &str, slice: OpenSlice) {
        self.tracks[track.0].open.push(slice);
        let moment = Moment {
            kind: SLICE_BEGIN,
            name: Some(name),
            ..Moment::default()
        };
        self.moment(track, at_ns, &moment);
    }

    /// Ends all that is open on a track. More than one slice is open if the poll was not
    /// recorded to its end.
    fn close(&mut self, track: EventTrack, at_ns: u64) {
        while !self.tracks[track.0].open.is_empty() {
            self.end_slice(track, at_ns, &[]);
        }
    }

    fn end_slice(&mut self, track: EventTrack, at_ns: u64, notes: Notes<'_>) {
        self.tracks[track.0].open.pop();
        let moment = Moment {
            kind: SLICE_END,
            notes,
            ..Moment::default()
        };
        self.moment(track, at_ns, &moment);
    }

    fn instant(&mut self, track: EventTrack, at_ns: u64, name: &str, notes: Notes<'_>) {
        let moment = Moment {
            kind: INSTANT,
            name: Some(name),
            notes,
            ..Moment::default()
        };
        self.moment(track, at_ns, &moment);
    }

    fn moment(&mut self, track: EventTrack, at_ns: u64, moment: &Moment<'_>) {
        let name = moment.name.map(|name| self.intern(name));
        self.packet(track, at_ns, moment, name);
    }

    /// The number of a name. It is written out where it is new.
    fn intern(&mut self, name: &str) -> u64 {
        let name = shorten(name);
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), number);
        let name = name.to_owned();
        self.write_state_packet(|packet| {
            packet.message(field::packet::INTERNED_DATA, |data| {
                data.message(field::interned_data::EVENT_NAMES, |event_name| {
                    event_name
                        .integer(field::event_name::IID, number)
                        .string(field::event_name::NAME, &name);
                });
            });
        });
        number
    }

    fn packet(&mut self, track: EventTrack, at_ns: u64, moment: &Moment<'_>, name: Option<u64>) {
        self.describe_track(track);
        self.write_packet(at_ns, |packet| {
            packet.message(field::packet::TRACK_EVENT, |event| {
                event.integer(field::track_event::TYPE, moment.kind);
                event.integer(field::track_event::TRACK_UUID, uuid(track));
                if let Some(name) = name {
                    event.integer(field::track_event::NAME_IID, name);
                }
                for (name, value) in moment.notes {
                    event.message(field::track_event::DEBUG_ANNOTATIONS, |note| {
                        note.string(field::annotation::NAME, name);
                        match value {
                            Note::Number(number) => {
                                note.integer(field::annotation::UINT_VALUE, *number)
                            }
                            Note::Text(text) => note.string(field::annotation::STRING_VALUE, text),
                        };
                    });
                }
                if let Some(flow) = moment.flow {
                    event.fixed64(field::track_event::FLOW_IDS, flow);
                }
                if let Some(flow) = moment.terminating_flow {
                    event.fixed64(field::track_event::TERMINATING_FLOW_IDS, flow);
                }
            });
        });
    }

    fn describe(&mut self, write: impl FnOnce(&mut Message)) {
        self.write_state_packet(|packet| {
            packet.message(field::packet::TRACK_DESCRIPTOR, write);
        });
    }

    fn write_packet(&mut self, at_ns: u64, write: impl FnOnce(&mut Message)) {
        self.write_state_packet(|packet| {
            packet.integer(field::packet::TIMESTAMP, at_ns);
            write(packet);
        });
    }

    fn write_state_packet(&mut self, write: impl FnOnce(&mut Message)) {
        let cleared = match std::mem::replace(&mut self.was_started, true) {
            true => 0,
            false => STATE_CLEARED,
        };
        self.out.message(field::trace::PACKET, |packet| {
            packet
                .integer(field::packet::SEQUENCE_ID, 1)
                .integer(field::packet::SEQUENCE_FLAGS, cleared | NEEDS_STATE);
            write(packet);
        });
    }
}

impl EventSink for PerfettoTrace {
    fn add_track(&mut self, name: &str) -> EventTrack {
        let track = self.push_track(name);
        self.describe_track(track);
        track
    }

    fn add_optional_track(&mut self, name: &str) -> EventTrack {
        self.push_track(name)
    }

    fn name_task(&mut self, id: u64, name: Option<&str>, location: &Location<'_>) {
        let label = match name {
            Some(name) => name.to_owned(),
            None => format!("{}:{}", location.file(), location.line()),
        };
        self.set_label(id, &label);
    }

    fn add(&mut self, track: EventTrack, at_ns: u64, event: Event) {
        match event {
            Event::Spawn { id } => {
                self.tracks[track.0].spawned = Some((id, Vec::new()));
                self.begin_flow(track, at_ns, "spawn", id, WakeCause::Unknown);
            }
            Event::Site { location } => {
                if let Some((id, _)) = self.tracks[track.0].spawned {
                    self.name_task(id, None, location);
                }
            }
            Event::Name { bytes, len } => {
                let Some((id, name)) = &mut self.tracks[track.0].spawned else {
                    return;
                };
                name.extend(&bytes[..len.into()]);
                let (id, name) = (*id, String::from_utf8_lossy(name).into_owned());
                self.set_label(id, &name);
            }
            Event::Wake { id, cause } => self.begin_flow(track, at_ns, "wake", id, cause),
            Event::PollStart { id } => {
                self.close(track, at_ns);
                self.begin_run(track, at_ns, id, OpenSlice::Poll { id });
            }
            Event::NestedPollStart { id } => {
                self.begin_run(track, at_ns, id, OpenSlice::Poll { id });
            }
            Event::PollEnd {
                result,
                queued,
                wait,
            } => {
                self.end_poll(track, at_ns, result, wait);
                self.count_queue(track, at_ns, queued);
            }
            Event::Park => {
                self.close(track, at_ns);
                self.begin_slice(track, at_ns, "parked", OpenSlice::Park);
            }
            Event::Unpark | Event::HandOff => {
                self.close(track, at_ns);
                if event == Event::HandOff {
                    self.instant(track, at_ns, "handed off", &[]);
                }
            }
            Event::Steal { victim, count } => {
                let notes = [
                    ("victim", Note::Number(victim)),
                    ("tasks", Note::Number(count.into())),
                ];
                self.instant(track, at_ns, "steal", &notes);
            }
            Event::Overflow => self.instant(track, at_ns, "overflow", &[]),
            Event::Skipped { polls } => {
                let notes = [("polls", Note::Number(polls))];
                self.instant(track, at_ns, "not recorded", &notes);
            }
            Event::JobStart { id } => {
                self.tracks[track.0].has_jobs = true;
                self.begin_job(at_ns, id);
            }
            Event::JobEnd { id, is_complete } => self.end_job(at_ns, id, is_complete),
            Event::SpanEnter { name } => self.begin_slice(track, at_ns, name, OpenSlice::Span),
            Event::SpanExit => {
                if self.tracks[track.0].open.last() == Some(&OpenSlice::Span) {
                    self.end_slice(track, at_ns, &[]);
                }
            }
            Event::Lint { kind, id } => {
                let notes = [("task", Note::Number(id))];
                let known = usize::from(id != 0);
                self.instant(track, at_ns, kind.name(), &notes[..known]);
            }
        }
    }

    fn add_lost(&mut self, track: EventTrack, at_ns: u64, events: u64) {
        if self.tracks[track.0].has_jobs {
            self.end_jobs(at_ns);
        }
        self.close(track, at_ns);
        let notes = [("events", Note::Number(events))];
        self.instant(track, at_ns, "events lost", &notes);
    }

    fn finish(&mut self, at_ns: u64) {
        for track in 0..self.tracks.len() {
            self.close(EventTrack(track), at_ns);
        }
    }

    fn take_bytes(&mut self) -> Vec<u8> {
        self.out.take()
    }
}

fn uuid(track: EventTrack) -> u64 {
    FIRST_TRACK_UUID + 2 * track.0 as u64
}

fn queue_uuid(track: EventTrack) -> u64 {
    uuid(track) + 1
}

fn describe_as(message: &mut Message, uuid: u64, name: &str) {
    message
        .integer(field::track_descriptor::UUID, uuid)
        .integer(field::track_descriptor::PARENT_UUID, PROCESS_UUID)
        .string(field::track_descriptor::NAME, name);
}

/// The beginning of a name that is too long.
fn shorten(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
}

/// Keeps a trace of any length within bounds. Some names or flows are missing then.
fn forget_if_too_many(map: &mut HashMap<u64, u64>) {
    if map.len() >= MAX_TASKS {
        map.clear();
    }
}
