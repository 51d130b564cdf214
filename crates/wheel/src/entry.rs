//! A timer: what waits in a list, its links, and what the wheel notes on it.
//!
//! E1. An entry in a wheel is alive and stays where it is: `insert`'s caller promised.
//! E2. Links and note are touched only by whoever holds `&mut` of the wheel that the entry is
//!     in, or, while it is in none, by whoever may insert it.
//! E3. `place` is `Some` exactly while the entry is in a list, and then it names that list.

use crate::level::Place;
use blitzen_util::list::{Linked, Links};
use std::cell::UnsafeCell;
use std::fmt;
use std::pin::Pin;
use std::ptr::NonNull;

/// A timer that a [`Wheel`](crate::Wheel) can hold, with a value for whoever fires it.
///
/// It lives where the waiting is done, in the future itself as a rule; the wheel only points
/// to it. So it must be pinned, and must leave the wheel before it is dropped. No `&mut Entry`
/// may be made while it is in a wheel: the value, if it changes, needs interior mutability, and
/// the lock around the wheel can guard it as well.
///
/// ```
/// use blitzen_wheel::Entry;
/// use std::cell::Cell;
///
/// let entry = Entry::new(Cell::new(0));
/// entry.value().set(1);
/// assert_eq!(entry.value().get(), 1);
/// ```
pub struct Entry<T> {
    /// Not `Unpin`: a wheel points here.
    links: Links<Entry<T>>,
    note: UnsafeCell<Note>,
    value: T,
}

/// What the wheel notes on an entry.
pub(crate) struct Note {
    pub(crate) deadline_tick: u64,
    pub(crate) place: Option<Place>,
}

pub(crate) type Link<T> = NonNull<Entry<T>>;

// SAFETY: the field's address, without a reference to the node.
unsafe impl<T> Linked for Entry<T> {
    #[inline]
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live node, hence not null.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

// SAFETY: what is not `T` is touched only under E2, that is by one thread at a time.
unsafe impl<T: Send> Send for Entry<T> {}

// SAFETY: a shared `Entry` gives out `&T` and nothing else; links and note are out of reach of safe
// code, and E2 rules the rest.
unsafe impl<T: Sync> Sync for Entry<T> {}

impl<T> Entry<T> {
    /// A timer that is in no wheel.
    ///
    /// ```
    /// let entry = blitzen_wheel::Entry::new("tea");
    /// assert_eq!(*entry.value(), "tea");
    /// ```
    pub const fn new(value: T) -> Entry<T> {
        Entry {
            links: Links::new(),
            note: UnsafeCell::new(Note {
                deadline_tick: 0,
                place: None,
            }),
            value,
        }
    }

    /// What this timer carries.
    ///
    /// ```
    /// assert_eq!(*blitzen_wheel::Entry::new(7).value(), 7);
    /// ```
    #[inline]
    pub fn value(&self) -> &T {
        &self.value
    }

    #[inline]
    pub(crate) fn link(self: Pin<&Self>) -> Link<T> {
        NonNull::from(self.get_ref())
    }

    /// The wheel's note on an entry.
    ///
    /// # Safety
    /// The entry is alive, E2 allows the caller to touch it, and the caller holds no other
    /// reference to the same note.
    #[inline]
    pub(crate) unsafe fn note<'a>(link: Link<T>) -> &'a mut Note {
        // By way of raw pointers: a reference to the whole entry would cover the value, which
        // is not ours.
        // SAFETY: the entry is alive, and nobody else refers to the note.
        unsafe { &mut *UnsafeCell::raw_get(&raw const (*link.as_ptr()).note) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        debug_assert!(
            self.note.get_mut().place.is_none(),
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
        both(&Entry::new(1));
        assert!(format!("{:?}", Entry::new(1)).contains("value: 1"));
    }
}
