//! A timer, and the list that strings timers together: every pointer of this crate.
//!
//! E1. A linked entry is alive and stays where it is: `insert`'s caller promised.
//! E2. A node is touched only by whoever holds `&mut` of the wheel that its entry is in, or,
//!     while it is in none, by whoever may insert it.
//! E3. `place` is `Some` exactly while the entry is linked, and then it names its list.

use crate::level::Place;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomPinned;
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
    node: UnsafeCell<Node<T>>,
    value: T,
    /// The wheel points here: an `Entry` must not move, nor be assumed unaliased.
    _pinned: PhantomPinned,
}

/// What the wheel knows about an entry.
pub(crate) struct Node<T> {
    prev: Option<Link<T>>,
    next: Option<Link<T>>,
    pub(crate) deadline_tick: u64,
    pub(crate) place: Option<Place>,
}

pub(crate) type Link<T> = NonNull<Entry<T>>;

/// Entries in the order in which they came.
pub(crate) struct List<T> {
    head: Option<Link<T>>,
    tail: Option<Link<T>>,
}

// SAFETY: what is not `T` is touched only under E2, that is by one thread at a time.
unsafe impl<T: Send> Send for Entry<T> {}

// SAFETY: a shared `Entry` gives out `&T` and nothing else; the node is out of reach of safe
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
            node: UnsafeCell::new(Node {
                prev: None,
                next: None,
                deadline_tick: 0,
                place: None,
            }),
            value,
            _pinned: PhantomPinned,
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

    /// The wheel's part of an entry.
    ///
    /// # Safety
    /// The entry is alive, E2 allows the caller to touch it, and the caller holds no other
    /// reference to the same node.
    #[inline]
    pub(crate) unsafe fn node<'a>(link: Link<T>) -> &'a mut Node<T> {
        // By way of raw pointers: a reference to the whole entry would cover the value, which
        // is not ours.
        // SAFETY: the entry is alive, and nobody else refers to the node.
        unsafe { &mut *UnsafeCell::raw_get(&raw const (*link.as_ptr()).node) }
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
            self.node.get_mut().place.is_none(),
            "an entry was dropped in a wheel: remove it first"
        );
    }
}

impl<T> List<T> {
    pub(crate) const fn new() -> List<T> {
        List {
            head: None,
            tail: None,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The entry that came first.
    #[inline]
    pub(crate) fn front(&self) -> Option<Link<T>> {
        self.head
    }

    /// The entry that came after `link`.
    ///
    /// # Safety
    /// `link` is in this list.
    #[inline]
    pub(crate) unsafe fn after(&self, link: Link<T>) -> Option<Link<T>> {
        // SAFETY: E1, and E2 through this list.
        unsafe { Entry::node(link) }.next
    }

    /// Links an entry.
    ///
    /// # Safety
    /// The entry is in no list, E2 allows the caller to touch it, and from now on E1 holds.
    #[inline]
    pub(crate) unsafe fn push_back(&mut self, link: Link<T>, place: Place) {
        let tail = self.tail.replace(link);
        // SAFETY: alive, ours to touch, and the only reference to this node.
        let node = unsafe { Entry::node(link) };
        node.prev = tail;
        node.next = None;
        node.place = Some(place);
        match tail {
            // SAFETY: E1, E2; another entry than `link`, which was in no list.
            Some(tail) => unsafe { Entry::node(tail) }.next = Some(link),
            None => self.head = Some(link),
        }
    }

    /// Unlinks an entry, and hands back its node.
    ///
    /// # Safety
    /// `link` is in this list. The node is not used after the next call that touches it.
    #[inline]
    pub(crate) unsafe fn unlink<'a>(&mut self, link: Link<T>) -> &'a mut Node<T> {
        // SAFETY: E1, E2; the neighbours below are other entries.
        let node = unsafe { Entry::node(link) };
        match node.prev {
            // SAFETY: E1, E2.
            Some(prev) => unsafe { Entry::node(prev) }.next = node.next,
            None => self.head = node.next,
        }
        match node.next {
            // SAFETY: E1, E2.
            Some(next) => unsafe { Entry::node(next) }.prev = node.prev,
            None => self.tail = node.prev,
        }
        node.place = None;
        node
    }

    /// Unlinks the entry that came first.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Link<T>> {
        let link = self.head?;
        // SAFETY: the head is in the list.
        unsafe { self.unlink(link) };
        Some(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn drain(list: &mut List<u32>) -> Vec<u32> {
        std::iter::from_fn(|| list.pop_front())
            // SAFETY: the entries outlive the list in every test below.
            .map(|link| *unsafe { link.as_ref() }.value())
            .collect()
    }

    #[test]
    fn a_list_keeps_the_order_whichever_entry_leaves() {
        for leaving in 0..4 {
            let entries = [0, 1, 2, 3].map(|n| Box::pin(Entry::new(n)));
            let mut list = List::new();
            for entry in &entries {
                // SAFETY: in no list, and drained below.
                unsafe { list.push_back(entry.as_ref().link(), Place::OVERFLOW) };
            }
            // SAFETY: linked just now.
            let node = unsafe { list.unlink(entries[leaving as usize].as_ref().link()) };
            assert_eq!(node.place, None);
            let left: Vec<u32> = (0..4).filter(|n| *n != leaving).collect();
            assert_eq!(drain(&mut list), left);
            assert!(list.is_empty());
        }
    }

    #[test]
    fn an_entry_may_come_back() {
        let entry = pin!(Entry::new(1));
        let mut list = List::new();
        for _ in 0..3 {
            // SAFETY: in no list, and drained at once.
            unsafe { list.push_back(entry.as_ref().link(), Place::OVERFLOW) };
            assert_eq!(drain(&mut list), [1]);
        }
    }

    #[test]
    fn an_entry_is_as_sendable_as_its_value() {
        fn both<T: Send + Sync>(_: &T) {}
        both(&Entry::new(1));
        assert!(format!("{:?}", Entry::new(1)).contains("value: 1"));
    }
}
