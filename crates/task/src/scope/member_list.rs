//! The children of a scope, in one list, or in several once there are many: so that threads that
//! spawn children and threads that end others seldom meet at a lock.
//!
//! L1. A list that is not empty is one unit of its scope. The unit of a list that has just become empty
//!     is the last thing that its last child touches.
//! L2. A list that was forced takes no task: who makes a task join aborts it. The others are made
//!     under the lock of the first one, and only while that is not forced.

use std::ptr::NonNull;
use std::sync::OnceLock;

use blitzen_util::list::List;
use blitzen_util::lock::{Lock, LockGuard};
use blitzen_util::pad::Padded;
use blitzen_util::shim::MODEL;

use super::ScopeOwner;
use super::member::Member;
use crate::id::Id;

/// The first list alone has up to so many children.
const FEW: usize = if MODEL { 1 } else { 32 };
/// How many lists there are for many children, beside the first one.
const LISTS: usize = if MODEL { 1 } else { 8 };
/// How many children in a row are in the same list: about as many as a thief steals.
const CHILDREN_IN_A_ROW: u64 = 64;

/// One list of members.
pub(super) struct MemberList<X: ScopeOwner>(Lock<MemberListState<X>>);

pub(super) struct MemberListState<X: ScopeOwner> {
    /// Those that have not been aborted.
    tasks: List<Member<X>>,
    /// How many there are, with those that were aborted.
    len: usize,
    /// Its tasks were aborted, or are just being aborted (L2).
    is_forced: bool,
}

// SAFETY: the list is accessed under the lock, and its members are made for any thread.
unsafe impl<X: ScopeOwner> Send for MemberListState<X> {}

impl<X: ScopeOwner> MemberList<X> {
    pub(super) fn new() -> Self {
        Self(Lock::new(MemberListState {
            tasks: List::new(),
            len: 0,
            is_forced: false,
        }))
    }

    #[inline]
    pub(super) fn lock(&self) -> LockGuard<'_, MemberListState<X>> {
        self.0.lock()
    }
}

impl<X: ScopeOwner> MemberListState<X> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Counts a member, and adds it to the list unless it is to be aborted (L2); returns false
    /// then.
    ///
    /// # Safety
    /// The member is in no list. It is part of its task, which leaves this list before its memory
    /// is freed.
    pub(super) unsafe fn add(&mut self, member: &Member<X>) -> bool {
        self.len += 1;
        if !self.is_forced {
            // SAFETY: the caller upholds the same contract.
            unsafe { self.tasks.push_back(NonNull::from(member)) };
        }
        !self.is_forced
    }

    /// Uncounts a member, and takes it out; returns whether it was the last.
    ///
    /// # Safety
    /// The member was [added](Self::add) to this list.
    pub(super) unsafe fn remove(&mut self, member: &Member<X>) -> bool {
        // SAFETY: alive while it is borrowed, and in this list or in none.
        unsafe { self.tasks.remove(NonNull::from(member)) };
        self.len -= 1;
        self.len == 0
    }

    /// Takes a member out that is to be aborted. From now on the list takes no other (L2).
    pub(super) fn pop_forced(&mut self) -> Option<NonNull<Member<X>>> {
        self.is_forced = true;
        self.tasks.pop_front()
    }
}

/// The lists of the children of one scope.
pub(super) struct MemberLists<X: ScopeOwner> {
    first: MemberList<X>,
    /// Made when there are many children.
    others: OnceLock<Box<[Padded<MemberList<X>>; LISTS]>>,
}

impl<X: ScopeOwner> MemberLists<X> {
    pub(super) fn new() -> Self {
        Self {
            first: MemberList::new(),
            others: OnceLock::new(),
        }
    }

    /// Whether the others were made.
    pub(super) fn has_others(&self) -> bool {
        self.others.get().is_some()
    }

    /// The index of the list for a new child.
    #[inline]
    pub(super) fn index_for(&self, id: Id) -> u8 {
        match self.others.get() {
            None => 0,
            Some(_) => (1 + id.as_u64() / CHILDREN_IN_A_ROW % LISTS as u64) as u8,
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u8) -> &MemberList<X> {
        match (index, self.others.get()) {
            (0, _) => &self.first,
            (_, Some(others)) => &others[usize::from(index) - 1].0,
            (_, None) => unreachable!("whoever joined there has seen the others"),
        }
    }

    /// Makes the other lists if `first`, the first one, has too many children.
    #[inline]
    pub(super) fn grow(&self, first: &MemberListState<X>) {
        if first.len > FEW && !first.is_forced {
            self.make_others();
        }
    }

    #[cold]
    fn make_others(&self) {
        self.others
            .get_or_init(|| Box::new(std::array::from_fn(|_| Padded(MemberList::new()))));
    }

    /// All lists. If the first one has been forced, there will be no others.
    pub(super) fn iter(&self) -> impl Iterator<Item = &MemberList<X>> {
        let others = || {
            self.others
                .get()
                .into_iter()
                .flat_map(|others| others.iter())
        };
        let rest = std::iter::once_with(others).flatten().map(|list| &list.0);
        std::iter::once(&self.first).chain(rest)
    }
}
