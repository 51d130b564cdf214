//! A ring of events that its writer overwrites and anybody may copy, without a lock.
//!
//! ```text
//!            head - N                head
//!               │ ◄── the newest ──► │
//!   overwritten ▼                    ▼ next
//! ```
//!
//! E1. Only the owner of the [`EventWriter`] stores, and `head` counts the events that are
//!     whole.
//! E2. An event is stored before `head` counts it, and after `head` counted the event that was
//!     in its slot before. All of these stores release.
//! E3. So a reader that loads, with Acquire, a word of the event `i + N` from the slot of `i`
//!     loads a `head` of at least `i + N` afterwards, and knows that it must drop `i`.

use std::sync::Arc;

use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::event::{Event, event_time};

/// The size of an event in bytes.
pub const EVENT_SIZE: usize = 16;

#[derive(Default)]
struct EventSlot([AtomicU64; 2]);

struct EventRing {
    /// How many events were written.
    head: AtomicU64,
    slots: Box<[EventSlot]>,
}

/// Creates a ring of at least two events. Its memory is used from the first event on.
///
/// ```
/// use blitzen_observe::{Event, event_ring};
///
/// let (mut writer, reader) = event_ring(64);
/// writer.push(5, Event::Park);
/// let mut events = Vec::new();
/// let read = reader.read(0, || 10, &mut events);
/// assert_eq!((events, read.lost), (vec![(5, Event::Park)], 0));
/// ```
pub fn event_ring(events: usize) -> (EventWriter, EventReader) {
    let ring = Arc::new(EventRing {
        head: AtomicU64::new(0),
        slots: zeroed_slots(events.max(2).next_power_of_two()),
    });
    (EventWriter(ring.clone()), EventReader(ring))
}

#[cfg(blitzen_loom)]
fn zeroed_slots(count: usize) -> Box<[EventSlot]> {
    (0..count).map(|_| EventSlot::default()).collect()
}

/// Slots in memory that the system provides when it is first written.
#[cfg(not(blitzen_loom))]
fn zeroed_slots(count: usize) -> Box<[EventSlot]> {
    let slots = Box::<[EventSlot]>::new_zeroed_slice(count);
    // SAFETY: all zeros is a value of an atomic integer.
    unsafe { slots.assume_init() }
}

impl EventRing {
    fn slot(&self, index: u64) -> &EventSlot {
        // The length is a power of two.
        &self.slots[index as usize & (self.slots.len() - 1)]
    }
}

/// Writes into a ring of events.
pub struct EventWriter(Arc<EventRing>);

impl EventWriter {
    /// Writes an event, over the oldest one if the ring is full.
    ///
    /// ```
    /// use blitzen_observe::{Event, event_ring};
    ///
    /// let (mut writer, reader) = event_ring(4);
    /// (0..10).for_each(|id| writer.push(id, Event::PollStart { id }));
    /// let mut events = Vec::new();
    /// assert_eq!(reader.read(0, || 10, &mut events).lost, 7);
    /// assert_eq!(events.len(), 3, "the oldest slot may be overwritten at any moment");
    /// ```
    #[inline]
    pub fn push(&mut self, at_ns: u64, event: Event) {
        self.push_words(event.pack(at_ns));
    }

    #[inline]
    fn push_words(&mut self, [first, second]: [u64; 2]) {
        let ring = &*self.0;
        // Relaxed: E1, it is our own.
        let head = ring.head.load(Relaxed);
        let EventSlot([first_word, second_word]) = ring.slot(head);
        // Release, met by the Acquire loads of the slot in `copy_words`: E3.
        first_word.store(first, Release);
        second_word.store(second, Release);
        // Release, met by the Acquire of `head` in `copy_words`: E2.
        ring.head.store(head.wrapping_add(1), Release);
    }
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}

/// Copies the events of a ring.
#[derive(Clone)]
pub struct EventReader(Arc<EventRing>);

/// What a reader has copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsRead {
    /// Where to read on.
    pub next: u64,
    /// How many events were overwritten before they could be copied.
    pub lost: u64,
}

impl EventReader {
    /// Copies the events from number `from` on to `out`, with the time of each. `now_ns` is asked
    /// for when they were copied: none of them is younger.
    ///
    /// ```
    /// use blitzen_observe::{Event, event_ring};
    ///
    /// let (mut writer, reader) = event_ring(4);
    /// writer.push(5, Event::Park);
    /// writer.push(7, Event::Unpark);
    /// let mut events = Vec::new();
    /// let read = reader.read(1, || 10, &mut events);
    /// assert_eq!((events, read.next), (vec![(7, Event::Unpark)], 2));
    /// ```
    pub fn read(
        &self,
        from: u64,
        now_ns: impl FnOnce() -> u64,
        out: &mut Vec<(u64, Event)>,
    ) -> EventsRead {
        let (copied, read) = self.copy_words(from);
        let now_ns = now_ns();
        out.extend(copied.into_iter().filter_map(|words| {
            // SAFETY: E3: whole, and from `push`.
            let event = unsafe { Event::unpack(words) }?;
            Some((event_time(words[0], now_ns), event))
        }));
        read
    }

    /// Copies the words of every event from number `from` on that is whole.
    fn copy_words(&self, from: u64) -> (Vec<[u64; 2]>, EventsRead) {
        let ring = &*self.0;
        let capacity = ring.slots.len() as u64;
        // Acquire, met by the last Release in `push_words`: the events counted are seen.
        let end = ring.head.load(Acquire);
        // The slot before may be in the middle of being overwritten.
        let oldest = (end + 1).saturating_sub(capacity);
        let start = from.clamp(oldest.min(end), end);
        let mut copied: Vec<_> = (start..end)
            .map(|index| {
                let EventSlot([first, second]) = ring.slot(index);
                // Acquire, met by the Release stores of the slot in `push_words`: E3.
                [first.load(Acquire), second.load(Acquire)]
            })
            .collect();
        // Relaxed: what was acquired above orders it.
        let head = ring.head.load(Relaxed);
        let whole_from = (head + 1).saturating_sub(capacity).clamp(start, end);
        // Those before it may have been overwritten while they were copied.
        copied.drain(..(whole_from - start) as usize);
        let read = EventsRead {
            next: end,
            lost: whole_from - from.min(whole_from),
        };
        (copied, read)
    }
}

impl std::fmt::Debug for EventReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventReader").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    fn hash(index: u64) -> [u64; 2] {
        let first = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [first, (first ^ index).rotate_left(23)]
    }

    fn index_of(words: [u64; 2]) -> u64 {
        // The inverse of the multiplication above, modulo 2^64.
        let index = words[0].wrapping_mul(0xf1de_83e1_9937_733d);
        assert_eq!(hash(index), words, "a torn event");
        index
    }

    #[test]
    fn a_reader_goes_on_where_it_stopped_and_counts_what_it_has_missed() {
        let (mut writer, reader) = event_ring(8);
        let read = |from| {
            let (copied, read) = reader.copy_words(from);
            let indices: Vec<_> = copied.into_iter().map(index_of).collect();
            (indices, read.next, read.lost)
        };
        assert_eq!(read(0), (vec![], 0, 0));
        (0..3).for_each(|index| writer.push_words(hash(index)));
        assert_eq!(read(0), (vec![0, 1, 2], 3, 0));
        assert_eq!(read(3), (vec![], 3, 0));
        (3..10).for_each(|index| writer.push_words(hash(index)));
        assert_eq!(read(3), ((3..10).collect(), 10, 0));
        (10..30).for_each(|index| writer.push_words(hash(index)));
        assert_eq!(read(10), ((23..30).collect(), 30, 13));
    }

    #[test]
    fn events_copied_while_they_are_overwritten_are_whole_and_in_order() {
        const EVENTS: u64 = if cfg!(miri) { 2_000 } else { 3_000_000 };
        let (mut writer, reader) = event_ring(64);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut next, mut seen, mut lost) = (0, 0, 0);
                        // Once more after the end.
                        let mut is_over = false;
                        while !is_over {
                            is_over = done.load(Acquire);
                            let (copied, read) = reader.copy_words(next);
                            let first = read.next - copied.len() as u64;
                            for (index, words) in (first..).zip(&copied) {
                                assert_eq!(index_of(*words), index);
                            }
                            seen += copied.len() as u64;
                            (next, lost) = (read.next, lost + read.lost);
                        }
                        assert_eq!((next, seen + lost), (EVENTS, EVENTS));
                        seen
                    })
                })
                .collect();
            (0..EVENTS).for_each(|index| writer.push_words(hash(index)));
            done.store(true, Release);
            for reader in readers {
                assert!(reader.join().unwrap() >= 63);
            }
        });
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::thread;

    #[test]
    fn a_copy_never_has_a_torn_or_overwritten_event() {
        loom::model(|| {
            let (mut writer, reader) = event_ring(2);
            writer.push_words([1, 1]);
            // The reader is the spawned thread, so that loom tries all that it may see.
            let reading = thread::spawn(move || reader.copy_words(0));
            (2..=4).for_each(|number| writer.push_words([number, number]));
            let (copied, read) = reading.join().unwrap();
            // Two slots: the oldest is never sure.
            assert!(copied.len() <= 1);
            for [first, second] in copied {
                assert_eq!(first, second, "torn");
                assert_eq!(first, read.next, "the event after `next - 1` others");
            }
        });
    }
}
