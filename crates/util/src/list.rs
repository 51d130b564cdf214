//! An intrusive doubly linked list: the links live in the nodes, so that
//! queueing allocates nothing and leaving the queue from the middle is O(1).
//!
//! ```text
//!   head ──► node ⇄ node ⇄ node ◄── tail
//! ```
//!
//! L1. A node is in at most one list, and only that list reads or writes its links;
//!     code that may access the list may access them.
//! L2. A node in a list stays where it is in memory, and alive.
//! L3. The first node has no `prev` and is `head`, the last has no `next` and
//!     is `tail`; a node outside any list has neither.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;

/// The links of a node.
pub struct Links<T> {
    ends: UnsafeCell<Ends<T>>,
    /// A node in a list must not move (L2).
    _pinned: PhantomPinned,
}

struct Ends<T> {
    prev: Option<NonNull<T>>,
    next: Option<NonNull<T>>,
}

impl<T> Links<T> {
    /// Links of a node that is in no list.
    pub const fn new() -> Self {
        Self {
            ends: UnsafeCell::new(Ends {
                prev: None,
                next: None,
            }),
            _pinned: PhantomPinned,
        }
    }
}

impl<T> Default for Links<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Links<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Links")
    }
}

/// A type with [`Links`] inside.
///
/// # Safety
/// `links` returns a pointer to the same field of the same node each time,
/// computed without making a reference to the whole node.
pub unsafe trait Linked: Sized {
    /// The node's links.
    ///
    /// # Safety
    /// `node` points to a live node.
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>>;
}

/// A queue of nodes it does not own.
pub struct List<T: Linked> {
    head: Option<NonNull<T>>,
    tail: Option<NonNull<T>>,
    _nodes: PhantomData<*const T>,
}

// SAFETY: the list is two pointers. It accesses nodes only through `&mut List`; a
// caller that dereferences a pointer it returns upholds the contract for that.
unsafe impl<T: Linked + Send> Send for List<T> {}
// SAFETY: as above; `&List` reads only the two pointers.
unsafe impl<T: Linked + Send> Sync for List<T> {}

impl<T: Linked> List<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Self {
            head: None,
            tail: None,
            _nodes: PhantomData,
        }
    }

    /// Whether no node is in the list.
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The first node.
    pub fn front(&self) -> Option<NonNull<T>> {
        self.head
    }

    /// The last node.
    pub fn back(&self) -> Option<NonNull<T>> {
        self.tail
    }

    /// Returns the node after this one. With [`front`](Self::front) it walks through
    /// the list; to remove `node` on the way, call this first.
    ///
    /// # Safety
    /// `node` is in this list.
    pub unsafe fn after(&self, node: NonNull<T>) -> Option<NonNull<T>> {
        // SAFETY: L1 and L2 hold for every node of the list.
        unsafe { with_ends(node, |ends| ends.next) }
    }

    /// Adds a node at the end.
    ///
    /// # Safety
    /// `node` is alive and in no list, and until it has left this one it
    /// neither moves nor is freed (L1, L2).
    pub unsafe fn push_back(&mut self, node: NonNull<T>) {
        debug_assert!(!self.is_at_an_end(node), "the node is in the list already");
        // SAFETY: the caller's `node` and, by L2, `tail` are alive; by L1 their
        // links are ours.
        unsafe {
            set_ends(node, self.tail, None);
            match self.tail {
                Some(tail) => set_next(tail, Some(node)),
                None => self.head = Some(node),
            }
        }
        self.tail = Some(node);
    }

    /// Takes the first node out.
    pub fn pop_front(&mut self) -> Option<NonNull<T>> {
        let node = self.head?;
        // SAFETY: L1 and L2 hold for every node of the list.
        unsafe { self.unlink(node) };
        Some(node)
    }

    /// Takes the last node out.
    pub fn pop_back(&mut self) -> Option<NonNull<T>> {
        let node = self.tail?;
        // SAFETY: L1 and L2 hold for every node of the list.
        unsafe { self.unlink(node) };
        Some(node)
    }

    /// Takes a node out from any position; returns false if it is in no list.
    ///
    /// # Safety
    /// `node` is alive, and in this list or in none.
    pub unsafe fn remove(&mut self, node: NonNull<T>) -> bool {
        // SAFETY: the caller guarantees that it is alive.
        if !unsafe { self.contains(node) } {
            return false;
        }
        // SAFETY: the caller guarantees that it is in this list or in none, so it is in this one.
        unsafe { self.unlink(node) };
        true
    }

    /// Whether a node is in the list.
    ///
    /// # Safety
    /// `node` is alive, and in this list or in none.
    pub unsafe fn contains(&self, node: NonNull<T>) -> bool {
        // SAFETY: the caller guarantees that it is alive; by L1 its links are ours, or
        // nobody's.
        let linked = unsafe { with_ends(node, |ends| ends.prev.is_some()) };
        linked || self.head == Some(node) // L3
    }

    /// Calls `visit` with every node, first to last. `visit` must not change the list.
    pub fn for_each(&self, mut visit: impl FnMut(NonNull<T>)) {
        let mut at = self.head;
        while let Some(node) = at {
            // SAFETY: L1 and L2 hold for every node of the list.
            at = unsafe { with_ends(node, |ends| ends.next) };
            visit(node);
        }
    }

    /// Returns a list with all nodes, and leaves this one empty.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Moves all nodes of `other` to the end of this list.
    pub fn append(&mut self, other: &mut Self) {
        let (Some(head), Some(tail)) = (other.head.take(), other.tail.take()) else {
            return;
        };
        match self.tail {
            // SAFETY: L2 for both nodes; both lists are ours to touch.
            Some(last) => unsafe {
                set_next(last, Some(head));
                set_prev(head, Some(last));
            },
            None => self.head = Some(head),
        }
        self.tail = Some(tail);
    }

    /// # Safety
    /// `node` is in this list.
    unsafe fn unlink(&mut self, node: NonNull<T>) {
        // SAFETY: L2 keeps the node and its neighbours alive, L1 makes their
        // links ours.
        unsafe {
            let (prev, next) = with_ends(node, |ends| (ends.prev.take(), ends.next.take()));
            match prev {
                Some(prev) => set_next(prev, next),
                None => self.head = next,
            }
            match next {
                Some(next) => set_prev(next, prev),
                None => self.tail = prev,
            }
        }
    }

    fn is_at_an_end(&self, node: NonNull<T>) -> bool {
        self.head == Some(node) || self.tail == Some(node)
    }
}

impl<T: Linked> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("empty", &self.is_empty())
            .finish()
    }
}

/// # Safety
/// `node` is alive and its links are the caller's to touch (L1).
unsafe fn with_ends<T: Linked, R>(node: NonNull<T>, visit: impl FnOnce(&mut Ends<T>) -> R) -> R {
    // SAFETY: the caller guarantees that it is alive.
    let links = unsafe { T::links(node) };
    // SAFETY: L1 excludes a second reference, and `visit` cannot reach the
    // links in any other way.
    visit(unsafe { &mut *links.as_ref().ends.get() })
}

/// # Safety
/// As for [`with_ends`].
unsafe fn set_ends<T: Linked>(
    node: NonNull<T>,
    prev: Option<NonNull<T>>,
    next: Option<NonNull<T>>,
) {
    // SAFETY: the caller upholds the same contract.
    unsafe { with_ends(node, |ends| *ends = Ends { prev, next }) }
}

/// # Safety
/// As for [`with_ends`].
unsafe fn set_prev<T: Linked>(node: NonNull<T>, prev: Option<NonNull<T>>) {
    // SAFETY: the caller upholds the same contract.
    unsafe { with_ends(node, |ends| ends.prev = prev) }
}

/// # Safety
/// As for [`with_ends`].
unsafe fn set_next<T: Linked>(node: NonNull<T>, next: Option<NonNull<T>>) {
    // SAFETY: the caller upholds the same contract.
    unsafe { with_ends(node, |ends| ends.next = next) }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    struct Node {
        links: Links<Node>,
        value: u32,
    }

    // SAFETY: the field's address, without a reference to the node.
    unsafe impl Linked for Node {
        unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
            // SAFETY: in bounds of a live node.
            unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
        }
    }

    /// Nodes that outlive the test's lists; freed at the end.
    struct Nodes(Vec<NonNull<Node>>);

    impl Nodes {
        fn new(count: u32) -> Self {
            let make = |value| {
                let links = Links::new();
                NonNull::from(Box::leak(Box::new(Node { links, value })))
            };
            Self((0..count).map(make).collect())
        }
    }

    impl Drop for Nodes {
        fn drop(&mut self) {
            for node in &self.0 {
                // SAFETY: made from a box, freed once, lists are gone.
                drop(unsafe { Box::from_raw(node.as_ptr()) });
            }
        }
    }

    fn drain(list: &mut List<Node>) -> Vec<u32> {
        // SAFETY: the nodes are alive.
        std::iter::from_fn(|| list.pop_front().map(|node| unsafe { node.as_ref().value })).collect()
    }

    #[test]
    fn nodes_leave_in_the_order_they_came() {
        let nodes = Nodes::new(3);
        let mut list = List::new();
        for &node in &nodes.0 {
            // SAFETY: alive, in no list.
            unsafe { list.push_back(node) };
        }
        assert_eq!(drain(&mut list), [0, 1, 2]);
        assert!(list.is_empty());
    }

    #[test]
    fn a_node_leaves_from_anywhere_and_only_once() {
        for leaving in 0..3 {
            let nodes = Nodes::new(3);
            let mut list = List::new();
            // SAFETY: alive, in no list; then in this list or none.
            unsafe {
                for &node in &nodes.0 {
                    list.push_back(node);
                }
                assert!(list.remove(nodes.0[leaving]));
                assert!(!list.remove(nodes.0[leaving]));
                list.push_back(nodes.0[leaving]);
            }
            let mut expected: Vec<_> = (0..3).filter(|&n| n != leaving as u32).collect();
            expected.push(leaving as u32);
            assert_eq!(drain(&mut list), expected);
        }
    }

    #[test]
    fn a_walk_may_take_nodes_out_as_it_goes() {
        let nodes = Nodes::new(4);
        let mut list = List::new();
        for &node in &nodes.0 {
            // SAFETY: alive, in no list.
            unsafe { list.push_back(node) };
        }
        let mut cursor = list.front();
        while let Some(node) = cursor {
            // SAFETY: in the list until the next line but one.
            cursor = unsafe { list.after(node) };
            // SAFETY: alive, in this list.
            if unsafe { node.as_ref() }.value % 2 == 0 {
                // SAFETY: in this list.
                unsafe { list.remove(node) };
            }
        }
        assert_eq!(drain(&mut list), [1, 3]);
    }

    #[test]
    fn lists_are_joined_and_taken_whole() {
        let nodes = Nodes::new(4);
        let (mut first, mut second) = (List::new(), List::new());
        // SAFETY: alive, each in one list.
        unsafe {
            first.push_back(nodes.0[0]);
            first.push_back(nodes.0[1]);
            second.push_back(nodes.0[2]);
            second.push_back(nodes.0[3]);
        }
        first.append(&mut second);
        first.append(&mut second); // an empty one adds nothing
        assert!(second.is_empty());
        let mut seen = Vec::new();
        first.for_each(|node| seen.push(node));
        assert_eq!(seen, nodes.0);
        let mut all = first.take();
        assert!(first.is_empty());
        assert_eq!(all.pop_back(), Some(nodes.0[3]));
        assert_eq!(drain(&mut all), [0, 1, 2]);
    }
}
