//! The wheel: five levels of 64 slots, and a list for what lies beyond.
//!
//! ```text
//!            ┌──────── 64 slots ────────┐
//!   level 0  │   1 tick each            │  → 64 ticks
//!   level 1  │   64 ticks each          │  → 4,096
//!   level 2  │   4,096                  │  → 262,144
//!   level 3  │   262,144                │  → 16,777,216
//!   level 4  │   16,777,216             │  → 1,073,741,824: at 1 ms, 12.4 days
//!   overflow │   one list               │  → the rest
//! ```
//!
//! As time goes on, the first slot in use comes down a level or more (a *cascade*) until its
//! timers stand in level 0, and from there they are handed out. Where a tick belongs, and why
//! the first slot is always the lowest bit of the lowest level in use, is explained in
//! [`level`](crate::level): P1 to P4.
//!
//! W1. No deadline in the wheel is before `elapsed`. One that would be counts as `elapsed`.
//! W2. An entry's deadline is not before the first tick of its slot. It may lie *behind* the
//!     slot, if it was [`reset`](Wheel::reset) to a later tick: it moves on when the slot is
//!     next looked at.
//! W3. A slot's `earliest` lies within the slot, and no entry of the slot is due before it. If
//!     `is_attained`, some entry is due at that very tick.
//! W4. Of all that is in the wheel, nothing is due before the `earliest` of the first slot
//!     (by P3 and W2).
//!
//! W5. `behind` is an entry of the slot or nothing, and fewer than [`AHEAD`] entries follow it, at most
//!     `added_since`.
//!
//! `elapsed` may therefore move up to the `earliest` of the first slot and no further; and,
//! without breaking P4, if that slot is emptied on reaching its first tick.

use crate::entry::{EntryPtr, WheelEntry};
use crate::level::{Occupancy, SLOT_COUNT, SlotIndex};
use blitzen_util::list::List;
use std::fmt;
use std::pin::Pin;
use std::ptr::NonNull;

/// A hierarchical timer wheel, which takes the present tick as an argument.
///
/// It points to [`WheelEntry`]s that live elsewhere. See the [crate's page](crate) for how a runtime
/// puts it to use.
///
/// # Costs
///
/// | | |
/// |---|---|
/// | [`insert`](Wheel::insert), [`remove`](Wheel::remove) | constant: some bit arithmetic and a list operation |
/// | [`reset`](Wheel::reset) to a later tick | constant: two words written, nothing moves until its old tick comes up |
/// | [`reset`](Wheel::reset) to an earlier tick | that of a `remove` and an `insert`, or less |
/// | [`poll`](Wheel::poll) | constant when nothing is due. A timer is moved at most once per level before it comes out, and once more per reset. A jump of any length costs what the occupied slots on its way cost, not its ticks |
/// | [`next_expiry`](Wheel::next_expiry) | constant, plus moves already paid for by resets |
///
/// Timers beyond the levels, that is more than 64⁵ ticks ahead or across a multiple of 64⁵,
/// wait in one list. It is searched once per stretch of 64⁵ ticks in which one of them is
/// due.
pub struct Wheel<T> {
    /// The tick reached.
    elapsed: u64,
    len: usize,
    occupied: Occupancy,
    slots: [WheelSlot<T>; SLOT_COUNT],
}

struct WheelSlot<T> {
    entries: List<WheelEntry<T>>,
    /// W3. Without meaning while the slot is empty.
    earliest: u64,
    is_attained: bool,
    /// W5. How many entries were added after `behind`; some may have left.
    added_since: u8,
    /// W5. The next entry to note which one comes that much later.
    behind: Option<EntryPtr<T>>,
}

/// How many entries ahead a cascade prefetches. Of a million timers none is in the cache, and each
/// entry names only the next one.
const AHEAD: u8 = 8;

/// How many timers `next_expiry` compares, at most, to find the earliest of a slot that lost
/// it. Beyond, a parked worker wakes once for nothing, and that cascades the slot.
const COMPARED: usize = 64;

// SAFETY: a wheel owns no `T`. It reads and writes the links and metas of its entries, which E2
// allows to the holder of the wheel, on any thread.
unsafe impl<T: Send> Send for Wheel<T> {}
// SAFETY: a shared wheel only reads numbers of its own.
unsafe impl<T: Send> Sync for Wheel<T> {}

impl<T> Wheel<T> {
    /// Creates an empty wheel, at tick 0.
    ///
    /// It is some twelve kibibytes of slots, in place: box it, or put it where it will stay.
    ///
    /// ```
    /// use blitzen_wheel::Wheel;
    ///
    /// let mut wheel = Wheel::<()>::new();
    /// assert!(wheel.is_empty());
    /// assert_eq!(wheel.next_expiry(), None);
    /// ```
    pub const fn new() -> Wheel<T> {
        Wheel {
            elapsed: 0,
            len: 0,
            occupied: Occupancy::new(),
            slots: [const { WheelSlot::new() }; SLOT_COUNT],
        }
    }

    /// Returns the tick that the wheel has reached: the latest it was [polled](Wheel::poll) for, or
    /// that of a timer in between while there are more to take out.
    ///
    /// ```
    /// use blitzen_wheel::Wheel;
    ///
    /// let mut wheel = Wheel::<()>::new();
    /// assert!(wheel.poll(1_000).is_none());
    /// assert_eq!(wheel.elapsed(), 1_000);
    /// ```
    #[inline]
    pub fn elapsed(&self) -> u64 {
        self.elapsed
    }

    /// Returns how many timers are in the wheel.
    ///
    /// ```
    /// assert_eq!(blitzen_wheel::Wheel::<()>::new().len(), 0);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no timer is in the wheel.
    ///
    /// ```
    /// assert!(blitzen_wheel::Wheel::<()>::new().is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms a timer: a [`poll`](Wheel::poll) for `deadline_tick` or later hands it out.
    ///
    /// A deadline that has passed is due at once, at the tick reached.
    ///
    /// # Safety
    /// The entry is in no wheel, no other thread inserts it meanwhile, and it leaves this wheel
    /// (through `poll` or [`remove`](Wheel::remove), or because the wheel is dropped) before it
    /// is dropped itself.
    ///
    /// # Examples
    /// ```
    /// use blitzen_wheel::{WheelEntry, Wheel};
    /// use std::pin::pin;
    ///
    /// let mut wheel = Wheel::new();
    /// let entry = pin!(WheelEntry::new(()));
    /// // SAFETY: in no wheel, and polled out below.
    /// unsafe { wheel.insert(entry.as_ref(), 10) };
    /// assert!(wheel.poll(9).is_none());
    /// assert!(wheel.poll(10).is_some());
    /// ```
    #[inline]
    pub unsafe fn insert(&mut self, entry: Pin<&WheelEntry<T>>, deadline_tick: u64) {
        self.len += 1;
        // SAFETY: in no wheel, hence in no list; the caller keeps it alive (E1).
        unsafe { self.link(entry.link(), deadline_tick.max(self.elapsed)) }
    }

    /// Moves a timer to another tick, earlier or later; arms it, if it is in no wheel.
    ///
    /// To put a timer off costs next to nothing: it keeps its slot, and moves on when that
    /// comes up. Timers that are put off again and again, and hardly ever fire, never move.
    ///
    /// # Safety
    /// The entry is in this wheel, or else as for [`insert`](Wheel::insert).
    ///
    /// # Examples
    /// ```
    /// use blitzen_wheel::{WheelEntry, Wheel};
    /// use std::pin::pin;
    ///
    /// let mut wheel = Wheel::new();
    /// let entry = pin!(WheelEntry::new(()));
    /// // SAFETY: in no wheel, then in this one, and polled out below.
    /// unsafe {
    ///     wheel.insert(entry.as_ref(), 10);
    ///     wheel.reset(entry.as_ref(), 30);
    /// }
    /// assert!(wheel.poll(29).is_none());
    /// assert!(wheel.poll(30).is_some());
    /// ```
    #[inline]
    pub unsafe fn reset(&mut self, entry: Pin<&WheelEntry<T>>, deadline_tick: u64) {
        let link = entry.link();
        // SAFETY: alive, and ours to touch: it is in this wheel or in none.
        let meta = unsafe { WheelEntry::meta(link) };
        let Some(slot_index) = meta.slot else {
            // SAFETY: it is in no wheel; the caller guarantees the rest.
            return unsafe { self.insert(entry, deadline_tick) };
        };
        let deadline_tick = deadline_tick.max(self.elapsed);
        let slot = &mut self.slots[slot_index.get()];
        if deadline_tick < slot_index.start(slot.earliest) {
            // SAFETY: by E3 it is in `slot_index`, and afterwards in no list.
            unsafe {
                self.unlink(link, slot_index);
                self.link(link, deadline_tick);
            }
            return;
        }
        // W2 holds. It may be behind the slot now.
        let was_tick = std::mem::replace(&mut meta.deadline_tick, deadline_tick);
        if deadline_tick <= slot.earliest {
            slot.earliest = deadline_tick;
            slot.is_attained = true;
        } else if was_tick == slot.earliest {
            slot.is_attained = false;
        }
    }

    /// Takes a timer out, and returns whether it was in the wheel. If not, it was handed out before,
    /// or never armed.
    ///
    /// # Safety
    /// The entry is in this wheel or in none.
    ///
    /// # Examples
    /// ```
    /// use blitzen_wheel::{WheelEntry, Wheel};
    /// use std::pin::pin;
    ///
    /// let mut wheel = Wheel::new();
    /// let entry = pin!(WheelEntry::new(()));
    /// // SAFETY: in no wheel, and removed at once; then in none.
    /// unsafe {
    ///     wheel.insert(entry.as_ref(), 10);
    ///     assert!(wheel.remove(entry.as_ref()));
    ///     assert!(!wheel.remove(entry.as_ref()));
    /// }
    /// assert!(wheel.poll(10).is_none());
    /// ```
    #[inline]
    pub unsafe fn remove(&mut self, entry: Pin<&WheelEntry<T>>) -> bool {
        let link = entry.link();
        // SAFETY: alive, and ours to touch: it is in this wheel or in none.
        let Some(slot_index) = unsafe { WheelEntry::meta(link) }.slot else {
            return false;
        };
        // SAFETY: by E3 it is in `slot_index`.
        unsafe { self.unlink(link, slot_index) };
        self.len -= 1;
        true
    }

    /// Takes out one timer that is due at `now_tick`, or moves the wheel up to there.
    ///
    /// Call it until it returns `None`. Timers come out in the order of their deadlines, those
    /// of one tick in the order in which they were armed (one that was reset may come later
    /// than its peers). Between two calls the wheel may be used at will: what is armed
    /// meanwhile, and due, comes out as well.
    ///
    /// A `now_tick` before the tick reached is taken for the tick reached.
    ///
    /// The entry is alive when it is handed out. For how long, only the caller knows: whatever
    /// keeps it from being dropped, such as the lock around this wheel, must be held while it
    /// is used.
    ///
    /// ```
    /// use blitzen_wheel::{WheelEntry, Wheel};
    ///
    /// let entries = [30, 10, 20].map(|tick| Box::pin(WheelEntry::new(tick)));
    /// let mut wheel = Wheel::new();
    /// for entry in &entries {
    ///     // SAFETY: in no wheel, and polled out below.
    ///     unsafe { wheel.insert(entry.as_ref(), *entry.value()) };
    /// }
    ///
    /// let mut fired = vec![];
    /// while let Some(entry) = wheel.poll(1_000_000) {
    ///     // SAFETY: `entries` are still alive.
    ///     fired.push(*unsafe { entry.as_ref() }.value());
    /// }
    /// assert_eq!(fired, [10, 20, 30]);
    /// ```
    #[inline]
    pub fn poll(&mut self, now_tick: u64) -> Option<NonNull<WheelEntry<T>>> {
        let now_tick = now_tick.max(self.elapsed);
        while let Some(slot_index) = self.occupied.first() {
            let slot = &self.slots[slot_index.get()];
            if slot_index.start(slot.earliest) > now_tick {
                break;
            }
            // W4: nothing is skipped. Nor does it go backwards: W1 for a slot of level 0, P2
            // for any other.
            self.elapsed = slot.earliest.min(now_tick);
            if slot_index.is_one_tick() {
                if let Some(link) = self.take_due(slot_index) {
                    return Some(link);
                }
            } else {
                self.cascade(slot_index);
            }
        }
        self.elapsed = now_tick;
        None
    }

    /// Returns the tick at which the wheel is to be polled next: a worker may park until then.
    ///
    /// It is never later than the first deadline (or the tick reached, if that one is past). It *is*
    /// the first deadline, whatever its level, so that no worker wakes for a cascade; with one
    /// exception. If the earliest timer of a slot above level 0 was taken out or put
    /// off, and more than 64 others remain in the slot, the answer may still be the tick of
    /// that timer. Polling at that tick finds nothing due, and spreads the slot over the lower
    /// levels: this happens at most once per level.
    ///
    /// ```
    /// use blitzen_wheel::{WheelEntry, Wheel};
    /// use std::pin::pin;
    ///
    /// let mut wheel = Wheel::new();
    /// let entry = pin!(WheelEntry::new(()));
    /// // SAFETY: in no wheel; later in this one, and removed below.
    /// unsafe { wheel.insert(entry.as_ref(), 123_456_789) };
    /// assert_eq!(wheel.next_expiry(), Some(123_456_789));
    /// // SAFETY: as above.
    /// unsafe { wheel.reset(entry.as_ref(), 5_000_000_000) };
    /// assert_eq!(wheel.next_expiry(), Some(5_000_000_000));
    /// // SAFETY: as above.
    /// unsafe { wheel.remove(entry.as_ref()) };
    /// assert_eq!(wheel.next_expiry(), None);
    /// ```
    #[inline]
    pub fn next_expiry(&mut self) -> Option<u64> {
        loop {
            let slot_index = self.occupied.first()?;
            let slot = &self.slots[slot_index.get()];
            if slot.is_attained {
                return Some(slot.earliest);
            }
            if let Some(earliest) = self.update_earliest(slot_index) {
                return Some(earliest);
            }
        }
    }

    /// Puts an empty wheel back to tick 0.
    ///
    /// ```
    /// use blitzen_wheel::Wheel;
    ///
    /// let mut wheel = Wheel::<()>::new();
    /// assert!(wheel.poll(1_000).is_none());
    /// wheel.rewind();
    /// assert_eq!(wheel.elapsed(), 0);
    /// ```
    ///
    /// # Panics
    /// If a timer is in it.
    #[track_caller]
    pub fn rewind(&mut self) {
        assert!(self.is_empty(), "{} timers are in the wheel", self.len);
        self.elapsed = 0;
    }

    /// Links an entry where its deadline belongs.
    ///
    /// # Safety
    /// As for [`List::push_back`]; W1.
    #[inline]
    unsafe fn link(&mut self, link: EntryPtr<T>, deadline_tick: u64) {
        let slot_index = SlotIndex::of(self.elapsed, deadline_tick);
        let slot = &mut self.slots[slot_index.get()];
        if slot.entries.is_empty() {
            self.occupied.set(slot_index);
            slot.earliest = deadline_tick;
            slot.is_attained = true;
        } else if deadline_tick <= slot.earliest {
            slot.earliest = deadline_tick;
            slot.is_attained = true;
        }
        // SAFETY: the caller guarantees that it is alive and in no other wheel.
        let meta = unsafe { WheelEntry::meta(link) };
        meta.deadline_tick = deadline_tick;
        meta.slot = Some(slot_index);
        // SAFETY: the caller guarantees it.
        unsafe { slot.push_back(link) };
    }

    /// Unlinks an entry and returns its deadline.
    ///
    /// # Safety
    /// It is in `slot_index`.
    #[inline]
    unsafe fn unlink(&mut self, link: EntryPtr<T>, slot_index: SlotIndex) -> u64 {
        let slot = &mut self.slots[slot_index.get()];
        // SAFETY: it is in this list.
        unsafe { slot.remove(link) };
        // SAFETY: alive, ours to touch, and the only reference.
        let meta = unsafe { WheelEntry::meta(link) };
        meta.slot = None;
        let deadline_tick = meta.deadline_tick;
        if slot.entries.is_empty() {
            self.occupied.clear(slot_index);
        } else if deadline_tick == slot.earliest {
            slot.is_attained = false;
        }
        deadline_tick
    }

    /// Takes the next timer out of a slot of level 0 whose tick is reached, or empties the slot
    /// of those that were put off.
    #[inline]
    fn take_due(&mut self, slot_index: SlotIndex) -> Option<EntryPtr<T>> {
        while let Some(link) = self.slots[slot_index.get()].entries.front() {
            // SAFETY: it is the front of that slot.
            let deadline_tick = unsafe { self.unlink(link, slot_index) };
            if deadline_tick <= self.elapsed {
                self.len -= 1;
                return Some(link);
            }
            // SAFETY: unlinked just now, still the wheel's, and due after `elapsed`.
            unsafe { self.link(link, deadline_tick) };
        }
        None
    }

    /// Spreads a slot whose first tick is reached over the lower levels.
    #[cold]
    fn cascade(&mut self, slot_index: SlotIndex) {
        let mut entries = self.slots[slot_index.get()].take();
        self.occupied.clear(slot_index);
        while let Some(link) = entries.pop_front() {
            // SAFETY: unlinked just now, still alive and the wheel's.
            let meta = unsafe { WheelEntry::meta(link) };
            meta.prefetch_ahead(link);
            let deadline_tick = meta.deadline_tick;
            // SAFETY: as above; W4 and `elapsed` not beyond `earliest` give W1. An entry of the
            // overflow may go back there: `entries` is not that list any more.
            unsafe { self.link(link, deadline_tick) };
        }
    }

    /// Finds the earliest deadline of a slot whose `earliest` is a bound that no entry may attain, moving
    /// those out of it that were put off beyond it; `None` if that leaves the slot empty.
    #[cold]
    fn update_earliest(&mut self, slot_index: SlotIndex) -> Option<u64> {
        let bound = self.slots[slot_index.get()].earliest;
        let mut earliest = u64::MAX;
        let mut compared = 0;
        let mut cursor = self.slots[slot_index.get()].entries.front();
        while let Some(link) = cursor {
            // SAFETY: still in the list: the loop unlinks nothing but the entry at hand.
            cursor = unsafe { self.slots[slot_index.get()].entries.after(link) };
            // SAFETY: as above, and nobody else refers to the meta.
            let deadline_tick = unsafe { WheelEntry::meta(link) }.deadline_tick;
            if !slot_index.covers(bound, deadline_tick) {
                // SAFETY: it is in this slot; then in none, still the wheel's. W1 by W2.
                unsafe {
                    self.unlink(link, slot_index);
                    self.link(link, deadline_tick);
                }
                continue;
            }
            earliest = earliest.min(deadline_tick);
            compared += 1;
            if earliest == bound {
                break; // nothing can be earlier
            }
            if compared == COMPARED && cursor.is_some() {
                return Some(bound);
            }
        }
        if compared == 0 {
            return None;
        }
        let slot = &mut self.slots[slot_index.get()];
        slot.earliest = earliest;
        slot.is_attained = true;
        Some(earliest)
    }
}

impl<T> Default for Wheel<T> {
    /// As [`Wheel::new`].
    fn default() -> Wheel<T> {
        Wheel::new()
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("elapsed", &self.elapsed)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for Wheel<T> {
    /// Lets go of what is still in the wheel: those entries are in none afterwards.
    fn drop(&mut self) {
        while let Some(slot_index) = self.occupied.first() {
            while let Some(link) = self.slots[slot_index.get()].entries.front() {
                // SAFETY: it is the front of that slot.
                unsafe { self.unlink(link, slot_index) };
            }
        }
    }
}

impl<T> WheelSlot<T> {
    const fn new() -> WheelSlot<T> {
        WheelSlot {
            entries: List::new(),
            earliest: 0,
            is_attained: false,
            added_since: 0,
            behind: None,
        }
    }

    /// Adds an entry at the end.
    ///
    /// # Safety
    /// As for [`List::push_back`].
    #[inline]
    unsafe fn push_back(&mut self, link: EntryPtr<T>) {
        // SAFETY: the caller guarantees it.
        unsafe { self.entries.push_back(link) };
        match self.behind {
            None => {
                self.behind = Some(link);
                self.added_since = 0;
            }
            Some(_) if self.added_since < AHEAD - 1 => self.added_since += 1,
            Some(behind) => {
                // SAFETY: in this list (W5), and no reference to its meta is left.
                unsafe {
                    WheelEntry::meta(behind).set_ahead(behind, link);
                    self.behind = self.entries.after(behind);
                }
            }
        }
    }

    /// Takes an entry out.
    ///
    /// # Safety
    /// It is in this slot.
    #[inline]
    unsafe fn remove(&mut self, link: EntryPtr<T>) {
        if self.behind == Some(link) {
            // SAFETY: it is in this list.
            self.behind = unsafe { self.entries.after(link) }; // W5
            self.added_since = self.added_since.saturating_sub(1);
        }
        // SAFETY: it is in this list.
        unsafe { self.entries.remove(link) };
    }

    /// Takes all entries out.
    fn take(&mut self) -> List<WheelEntry<T>> {
        self.behind = None;
        self.entries.take()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// Ticks that the levels cover together.
    const RANGE: u64 = 1 << 30;

    /// A wheel and timers that carry their names. The wheel is dropped first.
    struct Fixture {
        wheel: Box<Wheel<usize>>,
        timers: Vec<Pin<Box<WheelEntry<usize>>>>,
    }

    impl Fixture {
        /// One timer per deadline, armed in this order.
        fn armed(deadlines: &[u64]) -> Fixture {
            let mut fixture = Fixture {
                wheel: Box::default(),
                timers: vec![],
            };
            for tick in deadlines {
                fixture.arm(*tick);
            }
            fixture
        }

        fn arm(&mut self, tick: u64) -> usize {
            let name = self.timers.len();
            self.timers.push(Box::pin(WheelEntry::new(name)));
            // SAFETY: new, and dropped after the wheel.
            unsafe { self.wheel.insert(self.timers[name].as_ref(), tick) };
            name
        }

        fn reset(&mut self, name: usize, tick: u64) {
            // SAFETY: no other wheel knows it, and it is dropped after this one.
            unsafe { self.wheel.reset(self.timers[name].as_ref(), tick) };
        }

        fn remove(&mut self, name: usize) -> bool {
            // SAFETY: no other wheel knows it.
            unsafe { self.wheel.remove(self.timers[name].as_ref()) }
        }

        fn take(&mut self, now: u64) -> Option<usize> {
            let link = self.wheel.poll(now)?;
            // SAFETY: the timers are alive.
            Some(*unsafe { link.as_ref() }.value())
        }

        fn fired(&mut self, now: u64) -> Vec<usize> {
            std::iter::from_fn(|| self.take(now)).collect()
        }

        /// Sleeps until the wheel asks for it, as often as it takes until something fires.
        /// Returns what fired, when, and how often it woke for nothing.
        fn sleep(&mut self) -> (Vec<usize>, u64, usize) {
            let mut in_vain = 0;
            loop {
                let tick = self.wheel.next_expiry().expect("something is armed");
                let fired = self.fired(tick);
                if !fired.is_empty() {
                    return (fired, tick, in_vain);
                }
                in_vain += 1;
            }
        }
    }

    #[test]
    fn a_timer_fires_at_its_tick_and_not_before() {
        let ticks = [
            1,
            63,
            64,
            65,
            4_095,
            4_096,
            RANGE - 1,
            RANGE,
            RANGE + 1,
            10 * RANGE,
            u64::MAX,
        ];
        for start in [0, 1, 62, 4_000, RANGE - 1] {
            for tick in ticks.into_iter().filter(|tick| *tick > start) {
                let mut fixture = Fixture::armed(&[]);
                assert_eq!(fixture.take(start), None);
                fixture.arm(tick);
                assert_eq!(fixture.wheel.next_expiry(), Some(tick));
                assert_eq!(
                    fixture.take(tick - 1),
                    None,
                    "{tick} is early, armed at {start}"
                );
                assert_eq!(
                    fixture.take(tick),
                    Some(0),
                    "{tick} is late, armed at {start}"
                );
                assert!(fixture.wheel.is_empty());
            }
        }
    }

    #[test]
    fn a_timer_fires_however_many_steps_lead_to_it() {
        for step in [1, 7, 64, 100, 4_096, 5_000] {
            if cfg!(miri) && step < 64 {
                continue; // minutes there
            }
            let mut fixture = Fixture::armed(&[0, 63, 64, 1_000, 4_096, 4_097, 20_000]);
            let mut fired = vec![];
            for now in (0..30_000).step_by(step) {
                fired.extend(fixture.fired(now));
            }
            assert_eq!(fired, [0, 1, 2, 3, 4, 5, 6], "in steps of {step}");
        }
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_once() {
        let mut fixture = Fixture::armed(&[]);
        assert_eq!(fixture.take(1_000), None);
        fixture.arm(5);
        assert_eq!(fixture.wheel.next_expiry(), Some(1_000));
        assert_eq!(fixture.take(1_000), Some(0));
    }

    #[test]
    fn time_does_not_run_backwards() {
        let mut fixture = Fixture::armed(&[]);
        assert_eq!(fixture.take(1_000), None);
        fixture.arm(1_001);
        assert_eq!(fixture.take(10), None);
        assert_eq!(fixture.wheel.elapsed(), 1_000);
        fixture.arm(20);
        assert_eq!(fixture.fired(10), [1], "the present is tick 1,000");
        assert_eq!(fixture.fired(1_001), [0]);
    }

    #[test]
    fn one_jump_fires_everything_in_the_order_of_deadlines() {
        let mut fixture =
            Fixture::armed(&[u64::MAX, 3 * RANGE, 5, 70, 3 * RANGE + 1, 5_000, RANGE]);
        assert_eq!(fixture.fired(u64::MAX), [2, 3, 5, 6, 1, 4, 0]);
        assert_eq!(fixture.wheel.next_expiry(), None);
    }

    #[test]
    fn timers_of_one_tick_fire_in_the_order_of_arming() {
        let mut fixture = Fixture::armed(&[5_000, 5_000]);
        assert_eq!(fixture.take(4_000), None);
        fixture.arm(5_000);
        assert_eq!(fixture.take(4_990), None);
        fixture.arm(5_000);
        assert_eq!(fixture.fired(5_000), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_armed_between_two_polls_comes_out_as_well() {
        let mut fixture = Fixture::armed(&[10, 20]);
        assert_eq!(fixture.take(30), Some(0));
        assert_eq!(fixture.wheel.elapsed(), 10);
        fixture.arm(15);
        fixture.arm(31);
        assert_eq!(fixture.fired(30), [2, 1]);
        assert_eq!(fixture.fired(31), [3]);
    }

    #[test]
    fn a_timer_taken_out_does_not_fire() {
        let mut fixture = Fixture::armed(&[10, 10, 10, 5_000, 2 * RANGE]);
        assert!(fixture.remove(1));
        assert!(!fixture.remove(1));
        assert!(fixture.remove(3));
        assert!(fixture.remove(4));
        assert_eq!(fixture.wheel.len(), 2);
        assert_eq!(fixture.fired(u64::MAX), [0, 2]);
        assert!(!fixture.remove(0), "it has fired");
    }

    #[test]
    fn a_reset_timer_fires_at_its_new_tick_only() {
        for from in [10, 100, 5_000, 2 * RANGE] {
            for to in [9, 11, 99, 101, 4_999, 5_001, 2 * RANGE + 1, u64::MAX] {
                let mut fixture = Fixture::armed(&[from]);
                fixture.reset(0, to);
                assert_eq!(fixture.take(to - 1), None, "{from} to {to}");
                assert_eq!(fixture.take(to), Some(0), "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_timer_put_off_keeps_the_order_of_deadlines() {
        let mut fixture = Fixture::armed(&[10, 20, 30]);
        fixture.reset(0, 25);
        assert_eq!(fixture.fired(100), [1, 0, 2]);
    }

    #[test]
    fn to_reset_a_timer_that_fired_arms_it_again() {
        let mut fixture = Fixture::armed(&[10]);
        assert_eq!(fixture.take(10), Some(0));
        fixture.reset(0, 20);
        assert_eq!(fixture.wheel.len(), 1);
        assert_eq!(fixture.take(20), Some(0));
    }

    #[test]
    fn a_parked_worker_wakes_for_timers_and_not_for_cascades() {
        let deadlines = [70, 5_000, 300_000, 20_000_000, RANGE - 1, RANGE + 12_345];
        let mut fixture = Fixture::armed(&deadlines);
        for (name, tick) in deadlines.into_iter().enumerate() {
            assert_eq!(fixture.sleep(), (vec![name], tick, 0));
        }
    }

    #[test]
    fn a_parked_worker_does_not_wake_for_what_was_taken_out_or_put_off() {
        for level in [10, 100, 5_000, 300_000, 20_000_000, 2 * RANGE] {
            let mut fixture = Fixture::armed(&[level, level + 1, level + 2, level + 2]);
            fixture.remove(0);
            fixture.reset(1, 4 * RANGE);
            assert_eq!(fixture.sleep(), (vec![2, 3], level + 2, 0));
            assert_eq!(fixture.sleep(), (vec![1], 4 * RANGE, 0));
        }
    }

    #[test]
    fn a_crowded_slot_that_lost_its_first_timers_wakes_a_parked_worker_once_a_level() {
        // All in one slot of level 3, with more than `COMPARED` left in it.
        let deadlines: Vec<u64> = (300_000..301_000).collect();
        let mut fixture = Fixture::armed(&deadlines);
        for name in 0..900 {
            fixture.remove(name);
        }
        assert_eq!(fixture.wheel.next_expiry(), Some(300_000), "a bound");
        let (fired, tick, in_vain) = fixture.sleep();
        assert_eq!((fired, tick), (vec![900], 300_900));
        assert!(in_vain <= 3, "woken {in_vain} times for nothing");
    }

    #[test]
    fn a_wheel_that_is_dropped_lets_its_entries_go() {
        let timer = Box::pin(WheelEntry::new(()));
        for tick in [1, 5_000, u64::MAX] {
            let mut wheel = Wheel::new();
            // SAFETY: in no wheel, since the one before was dropped.
            unsafe { wheel.insert(timer.as_ref(), tick) };
        }
        let mut last = Wheel::new();
        // SAFETY: in no wheel.
        assert!(!unsafe { last.remove(timer.as_ref()) });
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "remove it first")]
    fn an_entry_dropped_in_a_wheel_is_reported() {
        let mut wheel = std::mem::ManuallyDrop::new(Wheel::new());
        let timer = Box::pin(WheelEntry::new(()));
        // SAFETY: not sound in general, which is the point; the wheel is not used again.
        unsafe { wheel.insert(timer.as_ref(), 1) };
    }

    /// W5, in every slot.
    fn assert_behind_is_right(wheel: &Wheel<u64>) {
        for slot in &wheel.slots {
            let mut after = None;
            slot.entries.for_each(|link| {
                after = match after {
                    _ if slot.behind == Some(link) => Some(0),
                    counted => counted.map(|count: u8| count + 1),
                };
            });
            assert_eq!(after.is_some(), slot.behind.is_some(), "it is in the slot");
            assert!(after.is_none_or(|after| after < AHEAD && after <= slot.added_since));
        }
    }

    #[test]
    fn the_entry_that_a_slot_remembers_leaves_with_it() {
        let entries: Vec<_> = (0..200)
            .map(|name| Box::pin(WheelEntry::new(name)))
            .collect();
        let mut wheel = Wheel::new();
        for (index, entry) in entries.iter().enumerate() {
            // SAFETY: in no wheel, and removed or polled out below.
            unsafe { wheel.insert(entry.as_ref(), 5_000 + index as u64 % 7 * 300) };
            assert_behind_is_right(&wheel);
        }
        // Each of them is the one that its slot remembers at some time.
        for step in [3, 2] {
            for entry in entries.iter().step_by(step) {
                // SAFETY: in this wheel or in none.
                unsafe { wheel.remove(entry.as_ref()) };
                assert_behind_is_right(&wheel);
            }
        }
        while wheel.poll(10_000).is_some() {
            assert_behind_is_right(&wheel);
        }
        assert!(wheel.is_empty());
    }
}
