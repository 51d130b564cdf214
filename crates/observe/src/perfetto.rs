//! Events as a trace for Perfetto: a track for each worker with a slice for each poll, flows
//! from wakes to polls, and a counter of the worker's queue.
//!
//! The format is a sequence of protobuf packets, `perfetto.protos.Trace`. All packets are of
//! one sequence, in which a name is written out where it first occurs.

use std::collections::HashMap;
use std::panic::Location;

use crate::event::{Event, PollResult};
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
/// use blitzen_observe::{Event, PerfettoTrace};
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
}

/// A track of a trace.
#[derive(Clone, Copy, Debug)]
pub struct PerfettoTrack(usize);

#[derive(Debug, Default)]
struct TrackState {
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
}

/// What a packet says of a moment on a track.
#[derive(Default)]
struct Moment<'a> {
    kind: u64,
    name: Option<&'a str>,
    flow: Option<u64>,
    terminating_flow: Option<u64>,
    notes: &'a [(&'a str, u64)],
}

impl PerfettoTrace {
    /// Creates a trace of one process.
    ///
    /// ```
    /// let mut trace = blitzen_observe::PerfettoTrace::new(1, "server");
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

    /// Adds a track, and the counter of a queue beside it.
    ///
    /// ```
    /// let mut trace = blitzen_observe::PerfettoTrace::new(1, "server");
    /// let worker = trace.add_track("worker 0");
    /// # let _ = worker;
    /// ```
    pub fn add_track(&mut self, name: &str) -> PerfettoTrack {
        let track = PerfettoTrack(self.tracks.len());
        self.tracks.push(TrackState::default());
        let descriptor = |message: &mut Message, uuid, name: &str| {
            message
                .integer(field::track_descriptor::UUID, uuid)
                .integer(field::track_descriptor::PARENT_UUID, PROCESS_UUID)
                .string(field::track_descriptor::NAME, shorten(name));
        };
        self.describe(|message| descriptor(message, track.uuid(), name));
        self.describe(|message| {
            descriptor(message, track.queue_uuid(), &format!("queue of {name}"));
            message.message(field::track_descriptor::COUNTER, |_| {});
        });
        track
    }

    /// Says what the task with the number `id` is called, and where it was spawned.
    ///
    /// ```
    /// use std::panic::Location;
    ///
    /// let mut trace = blitzen_observe::PerfettoTrace::new(1, "server");
    /// trace.name_task(7, Some("acceptor"), Location::caller());
    /// ```
    pub fn name_task(&mut self, id: u64, name: Option<&str>, location: &Location<'_>) {
        let label = match name {
            Some(name) => name.to_owned(),
            None => format!("{}:{}", location.file(), location.line()),
        };
        self.set_label(id, &label);
    }

    fn set_label(&mut self, id: u64, label: &str) {
        let name = self.intern(label);
        forget_if_too_many(&mut self.tasks);
        self.tasks.insert(id, name);
    }

    /// Adds an event. Those of one track come in order. Where a wake comes before the poll that
    /// it causes, on whichever track, it is shown as its cause.
    ///
    /// ```
    /// use blitzen_observe::{Event, PerfettoTrace, PollResult};
    ///
    /// let mut trace = PerfettoTrace::new(1, "server");
    /// let worker = trace.add_track("worker 0");
    /// trace.add(worker, 10, Event::Wake { id: 7 });
    /// trace.add(worker, 20, Event::PollStart { id: 7 });
    /// trace.add(worker, 30, Event::PollEnd { result: PollResult::Idle, queued: 0 });
    /// ```
    pub fn add(&mut self, track: PerfettoTrack, at_ns: u64, event: Event) {
        match event {
            Event::Spawn { id } => {
                self.tracks[track.0].spawned = Some((id, Vec::new()));
                self.begin_flow(track, at_ns, "spawn", id);
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
            Event::Wake { id } => self.begin_flow(track, at_ns, "wake", id),
            Event::PollStart { id } => {
                self.close(track, at_ns);
                let terminating_flow = self.flows.remove(&id);
                let name = self.tasks.get(&id).copied();
                let name = name.unwrap_or_else(|| self.intern("task"));
                self.begin_poll(track, at_ns, id, name, terminating_flow);
            }
            Event::PollEnd { result, queued } => self.end_poll(track, at_ns, result, queued),
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
                let notes = [("victim", victim), ("tasks", count.into())];
                self.instant(track, at_ns, "steal", &notes);
            }
            Event::Overflow => self.instant(track, at_ns, "overflow", &[]),
            Event::Skipped { polls } => {
                self.instant(track, at_ns, "not recorded", &[("polls", polls)]);
            }
            Event::SpanEnter { name } => self.begin_slice(track, at_ns, name, OpenSlice::Span),
            Event::SpanExit => {
                if self.tracks[track.0].open.last() == Some(&OpenSlice::Span) {
                    self.end_slice(track, at_ns);
                }
            }
        }
    }

    /// Says that events of a track were overwritten before they could be read.
    ///
    /// ```
    /// let mut trace = blitzen_observe::PerfettoTrace::new(1, "server");
    /// let worker = trace.add_track("worker 0");
    /// trace.add_lost(worker, 10, 5_000);
    /// ```
    pub fn add_lost(&mut self, track: PerfettoTrack, at_ns: u64, events: u64) {
        self.close(track, at_ns);
        self.instant(track, at_ns, "events lost", &[("events", events)]);
    }

    /// Ends what has begun, at the end of the trace.
    ///
    /// ```
    /// use blitzen_observe::{Event, PerfettoTrace};
    ///
    /// let mut trace = PerfettoTrace::new(1, "server");
    /// let worker = trace.add_track("worker 0");
    /// trace.add(worker, 10, Event::Park);
    /// trace.finish(20);
    /// ```
    pub fn finish(&mut self, at_ns: u64) {
        for track in 0..self.tracks.len() {
            self.close(PerfettoTrack(track), at_ns);
        }
    }

    /// Takes the bytes that were written since the last call. All of them, one after the
    /// other, are the trace.
    ///
    /// ```
    /// let mut trace = blitzen_observe::PerfettoTrace::new(1, "server");
    /// assert!(!trace.take_bytes().is_empty());
    /// assert!(trace.take_bytes().is_empty());
    /// ```
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// A wake or a spawn: the poll that follows is its effect.
    fn begin_flow(&mut self, track: PerfettoTrack, at_ns: u64, name: &str, id: u64) {
        let flow = self.next_flow;
        self.next_flow += 1;
        forget_if_too_many(&mut self.flows);
        self.flows.insert(id, flow);
        let moment = Moment {
            kind: INSTANT,
            name: Some(name),
            flow: Some(flow),
            notes: &[("task", id)],
            ..Moment::default()
        };
        self.moment(track.uuid(), at_ns, &moment);
    }

    fn begin_poll(
        &mut self,
        track: PerfettoTrack,
        at_ns: u64,
        id: u64,
        name: u64,
        terminating_flow: Option<u64>,
    ) {
        let moment = Moment {
            kind: SLICE_BEGIN,
            terminating_flow,
            notes: &[("task", id)],
            ..Moment::default()
        };
        self.tracks[track.0].open.push(OpenSlice::Poll { id });
        self.packet(track.uuid(), at_ns, &moment, Some(name));
    }

    fn end_poll(&mut self, track: PerfettoTrack, at_ns: u64, result: PollResult, queued: u64) {
        let open = self.tracks[track.0].open.first().copied();
        self.close(track, at_ns);
        if let (PollResult::Complete, Some(OpenSlice::Poll { id })) = (result, open) {
            self.tasks.remove(&id);
        }
        let uuid = track.queue_uuid();
        self.write_packet(at_ns, |packet| {
            packet.message(field::packet::TRACK_EVENT, |event| {
                event
                    .integer(field::track_event::TYPE, COUNTER)
                    .integer(field::track_event::TRACK_UUID, uuid)
                    .integer(field::track_event::COUNTER_VALUE, queued);
            });
        });
    }

    fn begin_slice(&mut self, track: PerfettoTrack, at_ns: u64, name: &str, slice: OpenSlice) {
        self.tracks[track.0].open.push(slice);
        let moment = Moment {
            kind: SLICE_BEGIN,
            name: Some(name),
            ..Moment::default()
        };
        self.moment(track.uuid(), at_ns, &moment);
    }

    /// Ends all that is open on a track. More than one slice is open if the poll was not
    /// recorded to its end.
    fn close(&mut self, track: PerfettoTrack, at_ns: u64) {
        while !self.tracks[track.0].open.is_empty() {
            self.end_slice(track, at_ns);
        }
    }

    fn end_slice(&mut self, track: PerfettoTrack, at_ns: u64) {
        self.tracks[track.0].open.pop();
        let moment = Moment {
            kind: SLICE_END,
            ..Moment::default()
        };
        self.moment(track.uuid(), at_ns, &moment);
    }

    fn instant(&mut self, track: PerfettoTrack, at_ns: u64, name: &str, notes: &[(&str, u64)]) {
        let moment = Moment {
            kind: INSTANT,
            name: Some(name),
            notes,
            ..Moment::default()
        };
        self.moment(track.uuid(), at_ns, &moment);
    }

    fn moment(&mut self, uuid: u64, at_ns: u64, moment: &Moment<'_>) {
        let name = moment.name.map(|name| self.intern(name));
        self.packet(uuid, at_ns, moment, name);
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

    fn packet(&mut self, uuid: u64, at_ns: u64, moment: &Moment<'_>, name: Option<u64>) {
        self.write_packet(at_ns, |packet| {
            packet.message(field::packet::TRACK_EVENT, |event| {
                event.integer(field::track_event::TYPE, moment.kind);
                event.integer(field::track_event::TRACK_UUID, uuid);
                if let Some(name) = name {
                    event.integer(field::track_event::NAME_IID, name);
                }
                for (name, value) in moment.notes {
                    event.message(field::track_event::DEBUG_ANNOTATIONS, |note| {
                        note.string(field::annotation::NAME, name)
                            .integer(field::annotation::UINT_VALUE, *value);
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

impl PerfettoTrack {
    fn uuid(self) -> u64 {
        FIRST_TRACK_UUID + 2 * self.0 as u64
    }

    fn queue_uuid(self) -> u64 {
        self.uuid() + 1
    }
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
