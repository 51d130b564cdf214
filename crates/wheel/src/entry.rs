//! A node of the wheel: its links, the wheel's own data, and a value of the caller.
//!
//! E1. An entry in a wheel is alive and stays at its address: the contract of `insert`.
//! E2. Links and meta are touched only by the holder of `&mut` of the wheel that the entry is in,
//!     or, while it is in none, by a caller that may insert it.
//! E3. `slot` is `Some` exactly while the entry is in a list, and then it names that list.

use crate::level::SlotIndex;
use blitzen_util::list::{Linked, Links};
use blitzen_util::prefetch::prefetch;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::offset_of;
use std::pin::Pin;
use std::ptr::NonNull;

/// A timer that a [`Wheel`](crate::Wheel) can hold, with a value for the code that fires it.
///
/// It lives in the future that waits; the wheel only points to it. So it must be pinned, and must
/// leave the wheel before it is dropped. No `&mut WheelEntry` may be made while it is in a wheel:
/// a value that changes needs interior mutability, which the lock around the wheel can guard.
///
/// ```
/// use blitzen_wheel::WheelEntry;
/// use std::cell::Cell;
///
/// let entry = WheelEntry::new(Cell::new(0));
/// entry.value().set(1);
/// assert_eq!(entry.value().get(), 1);
/// ```
pub struct WheelEntry<T> {
    /// Not `Unpin`: a wheel points here.
    links: Links<WheelEntry<T>>,
    meta: UnsafeCell<EntryMeta>,
    value: T,
}

/// What the wheel stores in an entry.
pub(crate) struct EntryMeta {
    pub(crate) deadline_tick: u64,
    pub(crate) slot: Option<SlotIndex>,
    /// How far away in memory a later entry of the same slot is, or was.
    ahead: Distance,
}

pub(crate) type EntryPtr<T> = NonNull<WheelEntry<T>>;

/// The distance between two entries in words, cut off to half a word: a hint, of which nothing but
/// a prefetch may be made.
#[derive(Clone, Copy)]
struct Distance(i32);

impl Distance {
    const UNIT: usize = align_of::<u64>();

    #[inline]
    fn between<T>(from: EntryPtr<T>, to: EntryPtr<T>) -> Self {
        let bytes = to.as_ptr().addr().wrapping_sub(from.as_ptr().addr());
        Self((bytes.cast_signed() / Self::UNIT.cast_signed()) as i32)
    }

    #[inline]
    fn prefetch<T>(self, from: EntryPtr<T>) {
        let bytes = self.0 as isize * Self::UNIT.cast_signed();
        let entry = from.as_ptr().cast::<u8>().wrapping_offset(bytes);
        // They may lie in two cache lines.
        prefetch(entry.wrapping_add(offset_of!(WheelEntry<T>, links)));
        prefetch(entry.wrapping_add(offset_of!(WheelEntry<T>, meta)));
    }
}

// SAFETY: the field's address, without a reference to the node.
unsafe impl<T> Linked for WheelEntry<T> {
    #[inline]
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live node, hence not null.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

// SAFETY: what is not `T` is touched only under E2, that is by one thread at a time.
unsafe impl<T: Send> Send for WheelEntry<T> {}

// SAFETY: a shared `WheelEntry` gives out `&T` and nothing else; links and meta are out of reach of safe
// code, and E2 rules the rest.
unsafe impl<T: Sync> Sync for WheelEntry<T> {}

impl<T> WheelEntry<T> {
    /// Creates a timer that is in no wheel.
    ///
    /// ```
    /// let entry = blitzen_wheel::WheelEntry::new("tea");
    /// assert_eq!(*entry.value(), "tea");
    /// ```
    pub const fn new(value: T) -> WheelEntry<T> {
        WheelEntry {
            links: Links::new(),
            meta: UnsafeCell::new(EntryMeta {
                deadline_tick: 0,
                slot: None,
                ahead: Distance(0),
            }),
            value,
        }
    }

    /// Returns the value.
    ///
    /// ```
    /// assert_eq!(*blitzen_wheel::WheelEntry::new(7).value(), 7);
    /// ```
    #[inline]
    pub fn value(&self) -> &T {
        &self.value
    }

    #[inline]
    pub(crate) fn link(self: Pin<&Self>) -> EntryPtr<T> {
        NonNull::from(self.get_ref())
    }

    /// Returns what the wheel stores in an entry.
    ///
    /// # Safety
    /// The entry is alive, E2 allows the caller to touch it, and the caller holds no other
    /// reference to the same meta.
    #[inline]
    pub(crate) unsafe fn meta<'a>(link: EntryPtr<T>) -> &'a mut EntryMeta {
        // By way of raw pointers: a reference to the whole entry would cover the value, which
        // is not ours.
        // SAFETY: the entry is alive, and nobody else refers to the meta.
        unsafe { &mut *UnsafeCell::raw_get(&raw const (*link.as_ptr()).meta) }
    }
}

impl EntryMeta {
    /// Notes that `later` will be wanted soon after `link`, to which this belongs.
    #[inline]
    pub(crate) fn set_ahead<T>(&mut self, link: EntryPtr<T>, later: EntryPtr<T>) {
        self.ahead = Distance::between(link, later);
    }

    /// Starts to load the entry that will be wanted some entries after `link`, to which this
    /// belongs. It may be gone; nothing is read.
    #[inline]
    pub(crate) fn prefetch_ahead<T>(&self, link: EntryPtr<T>) {
        self.ahead.prefetch(link);
    }
}

impl<T: fmt::Debug> fmt::Debug for WheelEntry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WheelEntry")
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for WheelEntry<T> {
    fn drop(&mut self) {
        debug_assert!(
            self.meta.get_mut().slot.is_none(),
            "an entry was dropped in a wheel: remove it first"
        );
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_sendable_as_its_value() {
        fn both<T: Send + Sync>(_: &T) {}
        both(&WheelEntry::new(1));
        assert!(format!("{:?}", WheelEntry::new(1)).contains("value: 1"));
    }
}
