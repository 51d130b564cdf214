//! What turns events into bytes.

use std::panic::Location;

use crate::event::Event;

/// The events of one source: a worker, the blocking pool, or threads that are neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventTrack(pub(crate) usize);

/// Turns events into the bytes of a format.
///
/// The events of one track come in order. Those of several tracks come in the order of their times,
/// so that a wake comes before the poll that it causes.
pub trait EventSink {
    /// Adds a track that is shown even if it has no events.
    fn add_track(&mut self, name: &str) -> EventTrack;

    /// Adds a track that is shown if it has events. Jobs of the blocking pool may have tracks of
    /// their own instead.
    fn add_optional_track(&mut self, name: &str) -> EventTrack;

    /// Says what the task with the number `id` is called, and where it was spawned.
    fn name_task(&mut self, id: u64, name: Option<&str>, location: &Location<'_>);

    /// Adds an event.
    fn add(&mut self, track: EventTrack, at_ns: u64, event: Event);

    /// Says that events of a track were overwritten before they could be read.
    fn add_lost(&mut self, track: EventTrack, at_ns: u64, events: u64);

    /// Ends what has begun, at the end of the trace.
    fn finish(&mut self, at_ns: u64);

    /// Takes the bytes that were written since the last call. All of them, one after the other,
    /// are the trace.
    fn take_bytes(&mut self) -> Vec<u8>;
}
