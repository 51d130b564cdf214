//! Events as lines of text.

use std::fmt::Write;
use std::panic::Location;

use blitzen_util::wait::WaitKind;
use blitzen_util::wake_cause::WakeCause;

use crate::event::{Event, PollResult};
use crate::event_sink::{EventSink, EventTrack};

/// Turns events into lines of text: the time in seconds, the track, and what happened.
///
/// ```
/// use blitzen_observe::{Event, EventSink, EventText};
///
/// let mut text = EventText::new("blitzen: ");
/// let worker = text.add_track("worker 0");
/// text.add(worker, 1_500_000_000, Event::PollStart { id: 7 });
/// assert_eq!(text.take_bytes(), b"blitzen: 1.500000 worker 0: poll task 7\n");
/// ```
#[derive(Debug)]
pub struct EventText {
    prefix: &'static str,
    out: String,
    tracks: Vec<TextTrack>,
    /// A spawn that waits for its line and its name, which follow at once.
    spawned: Option<Spawned>,
}

#[derive(Debug, Default)]
struct TextTrack {
    name: String,
    /// The tasks that are polled, each inside the poll of the one before.
    polled: Vec<u64>,
}

#[derive(Debug)]
struct Spawned {
    track: EventTrack,
    at_ns: u64,
    id: u64,
    location: Option<&'static Location<'static>>,
    name: Vec<u8>,
}

impl EventText {
    /// Creates a text whose lines begin with `prefix`.
    ///
    /// ```
    /// use blitzen_observe::{EventSink, EventText};
    ///
    /// assert!(EventText::new("").take_bytes().is_empty());
    /// ```
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            out: String::new(),
            tracks: Vec::new(),
            spawned: None,
        }
    }

    fn line(&mut self, track: EventTrack, at_ns: u64, text: &str) {
        let (prefix, name) = (self.prefix, &self.tracks[track.0].name);
        let seconds = at_ns / 1_000_000_000;
        let micros = at_ns / 1_000 % 1_000_000;
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "{prefix}{seconds}.{micros:06} {name}: {text}");
    }

    /// Writes the line of a spawn whose line and name are there.
    fn end_spawn(&mut self) {
        let Some(spawned) = self.spawned.take() else {
            return;
        };
        let mut text = format!("spawn task {}", spawned.id);
        if !spawned.name.is_empty() {
            let _ = write!(text, " {:?}", String::from_utf8_lossy(&spawned.name));
        }
        if let Some(location) = spawned.location {
            let _ = write!(text, " at {}:{}", location.file(), location.line());
        }
        self.line(spawned.track, spawned.at_ns, &text);
    }

    fn end_poll(&mut self, track: EventTrack) -> String {
        match self.tracks[track.0].polled.pop() {
            Some(id) => format!("task {id}"),
            None => "a task".to_owned(),
        }
    }
}

impl EventSink for EventText {
    fn add_track(&mut self, name: &str) -> EventTrack {
        self.tracks.push(TextTrack {
            name: name.to_owned(),
            ..TextTrack::default()
        });
        EventTrack(self.tracks.len() - 1)
    }

    fn add_optional_track(&mut self, name: &str) -> EventTrack {
        self.add_track(name)
    }

    // The line of its spawn has it.
    fn name_task(&mut self, _: u64, _: Option<&str>, _: &Location<'_>) {}

    fn add(&mut self, track: EventTrack, at_ns: u64, event: Event) {
        match (&event, &mut self.spawned) {
            (Event::Site { location }, Some(spawned)) => {
                spawned.location = Some(location);
                return;
            }
            (Event::Name { bytes, len }, Some(spawned)) => {
                spawned.name.extend(&bytes[..(*len).into()]);
                return;
            }
            _ => self.end_spawn(),
        }
        let text = match event {
            Event::Spawn { id } => {
                self.spawned = Some(Spawned {
                    track,
                    at_ns,
                    id,
                    location: None,
                    name: Vec::new(),
                });
                return;
            }
            // Their spawn was overwritten.
            Event::Site { .. } | Event::Name { .. } => return,
            Event::PollStart { id } => {
                self.tracks[track.0].polled = vec![id];
                format!("poll task {id}")
            }
            Event::NestedPollStart { id } => {
                self.tracks[track.0].polled.push(id);
                format!("poll task {id}")
            }
            Event::PollEnd { result, wait, .. } => {
                let task = self.end_poll(track);
                match (result, wait.kind) {
                    (PollResult::Idle, WaitKind::Unknown) => format!("{task} waits"),
                    (PollResult::Idle, _) => format!("{task} waits for {wait}"),
                    (PollResult::Complete, _) => format!("{task} has ended"),
                    (PollResult::Woken, _) => format!("{task} was woken during its poll"),
                    (PollResult::Yielded, _) => format!("{task} yields"),
                }
            }
            Event::Wake { id, cause } => match cause {
                WakeCause::Unknown => format!("wake task {id}"),
                _ => format!("wake task {id}, by {cause}"),
            },
            Event::Park => "park".to_owned(),
            Event::Unpark => "unpark".to_owned(),
            Event::Steal { victim, count } => format!("steal {count} from worker {victim}"),
            Event::Overflow => "overflow".to_owned(),
            Event::HandOff => {
                let task = self.end_poll(track);
                self.tracks[track.0].polled.clear();
                format!("handed off, {task} goes on elsewhere")
            }
            Event::Lint { kind, id: 0 } => kind.to_string(),
            Event::Lint { kind, id } => format!("{kind} of task {id}"),
            Event::Skipped { polls } => format!("{polls} polls not recorded"),
            Event::JobStart { id } => format!("run task {id}"),
            Event::JobEnd { id, is_complete } => match is_complete {
                true => format!("task {id} has ended"),
                false => format!("task {id} stops for now"),
            },
            Event::SpanEnter { name } => format!("enter span {name}"),
            Event::SpanExit => "exit span".to_owned(),
        };
        self.line(track, at_ns, &text);
    }

    fn add_lost(&mut self, track: EventTrack, at_ns: u64, events: u64) {
        self.end_spawn();
        self.tracks[track.0].polled.clear();
        self.line(track, at_ns, &format!("{events} events lost"));
    }

    fn finish(&mut self, _: u64) {
        self.end_spawn();
    }

    fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out).into_bytes()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::event::EventWait;

    #[test]
    fn every_event_is_a_line() {
        let mut text = EventText::new("");
        let worker = text.add_track("worker 0");
        let location = Location::caller();
        text.add(worker, 0, Event::Spawn { id: 1 });
        text.add(worker, 0, Event::Site { location });
        for name in Event::name_events("a \"name\" of length") {
            text.add(worker, 0, name);
        }
        let wait = EventWait {
            kind: WaitKind::Join,
            identity: 4,
        };
        let end = |result| Event::PollEnd {
            result,
            queued: 0,
            wait,
        };
        let cause = WakeCause::Timer;
        for (at_ns, event) in [
            (1_000, Event::PollStart { id: 1 }),
            (2_999, end(PollResult::Idle)),
            (3_000_000_000, Event::Wake { id: 1, cause }),
            (3_000_000_001, Event::PollStart { id: 1 }),
            (3_000_000_002, end(PollResult::Complete)),
        ] {
            text.add(worker, at_ns, event);
        }
        for is_complete in [false, true] {
            text.add(worker, 3_500_000_000, Event::JobStart { id: 2 });
            let end = Event::JobEnd { id: 2, is_complete };
            text.add(worker, 3_500_000_000, end);
        }
        text.add_lost(worker, 4_000_000_000, 5);
        text.finish(5_000_000_000);
        let (file, line) = (location.file(), location.line());
        let expected = format!(
            "0.000000 worker 0: spawn task 1 \"a \\\"name\\\" of length\" at {file}:{line}\n\
             0.000001 worker 0: poll task 1\n\
             0.000002 worker 0: task 1 waits for join of task 4\n\
             3.000000 worker 0: wake task 1, by timer\n\
             3.000000 worker 0: poll task 1\n\
             3.000000 worker 0: task 1 has ended\n\
             3.500000 worker 0: run task 2\n\
             3.500000 worker 0: task 2 stops for now\n\
             3.500000 worker 0: run task 2\n\
             3.500000 worker 0: task 2 has ended\n\
             4.000000 worker 0: 5 events lost\n"
        );
        assert_eq!(String::from_utf8(text.take_bytes()).unwrap(), expected);
    }
}
