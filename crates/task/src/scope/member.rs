//! A task as a member of a scope.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8};

use blitzen_util::list::{Linked, Links};
use blitzen_util::shim::cell::UnsafeCell;

use super::{ScopeNode, ScopeOwner};
use crate::context::TaskContext;
use crate::error::Payload;
use crate::header::{Header, Schedule};
use crate::raw::{RunOutcome, Runnable};
use crate::route::Route;

/// Whether a scope waits for a member by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// The scope waits for it.
    Child,
    /// It is cancelled when all others have left.
    Daemon,
}

/// A task in a scope, or about to join it.
pub struct Member<X: ScopeOwner> {
    /// Not counted: whoever makes the member join has a reference until it has joined, and the scope
    /// itself has one until it has left.
    node: ManuallyDrop<Arc<ScopeNode<X>>>,
    inherited: X::Inherited,
    pub(super) kind: MemberKind,
    /// The index of its list, or [`NOT_JOINED`]. Written before the task is queued for the first
    /// time, and read when it has ended: so every access is `Relaxed`.
    list: AtomicU8,
    /// Its task's future is gone: from now on only the end of the task uses `node`. Set before the
    /// task is seen to be complete, so every access is `Relaxed`.
    is_leaving: AtomicBool,
    /// Guarded by the lock of its list, as is `task`.
    links: Links<Member<X>>,
    /// Its task, once it has joined.
    pub(super) task: UnsafeCell<Option<NonNull<Header>>>,
}

const NOT_JOINED: u8 = u8::MAX;

// SAFETY: what is not so by itself, `links` and `task`, is accessed under the lock of its list.
unsafe impl<X: ScopeOwner> Send for Member<X> {}
// SAFETY: as above.
unsafe impl<X: ScopeOwner> Sync for Member<X> {}

// SAFETY: the address of the field, without a reference to the member.
unsafe impl<X: ScopeOwner> Linked for Member<X> {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live member.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl<X: ScopeOwner> Member<X> {
    /// The member that `task` is, if it is one of a scope of `X`.
    pub fn of(task: &Runnable) -> Option<&Self> {
        task.context()?.downcast_ref()
    }

    /// Its scope; `None` once it leaves, when its future is gone.
    #[inline]
    pub fn node(&self) -> Option<&Arc<ScopeNode<X>>> {
        (!self.is_leaving.load(Relaxed)).then_some(&*self.node)
    }

    /// What it inherits from the code that spawned it.
    pub fn inherited(&self) -> &X::Inherited {
        &self.inherited
    }

    /// Joins the scope with `task`, whose member this is; false if the scope has ended. A
    /// task that joins a scope whose members were aborted is aborted too.
    pub fn join(&self, task: &Runnable) -> bool {
        self.node.join(self, task)
    }

    /// Notes that it joins with `task`, in the list with this index, whose lock the caller has.
    pub(super) fn set_joined(&self, index: u8, task: &Runnable) {
        self.list.store(index, Relaxed);
        self.task
            // SAFETY: the task's own member, under the lock.
            .with_mut(|slot| unsafe { *slot = Some(task.as_ptr()) });
    }

    /// The index of its list, if it has joined.
    pub(super) fn list_index(&self) -> Option<u8> {
        Some(self.list.load(Relaxed)).filter(|&index| index != NOT_JOINED)
    }
}

/// A scheduler whose task is a member of a scope: the task leaves the scope when it has
/// ended.
pub struct ScopedSchedule<S, X: ScopeOwner> {
    base: S,
    member: Member<X>,
}

impl<S: Schedule, X: ScopeOwner> ScopedSchedule<S, X> {
    /// For a task that is scheduled by `base` and is to [join](Member::join) `node`.
    ///
    /// # Safety
    /// The caller keeps `node` alive until the task has joined it, or its future was dropped.
    #[inline]
    pub unsafe fn new(
        base: S,
        node: &Arc<ScopeNode<X>>,
        kind: MemberKind,
        inherited: X::Inherited,
    ) -> Self {
        let member = Member {
            // SAFETY: a copy of a pointer, which is never dropped.
            node: unsafe { ptr::read(ptr::from_ref(node).cast()) },
            inherited,
            kind,
            list: AtomicU8::new(NOT_JOINED),
            is_leaving: AtomicBool::new(false),
            links: Links::new(),
            task: UnsafeCell::new(None),
        };
        Self { base, member }
    }
}

impl<S: Schedule, X: ScopeOwner> Schedule for ScopedSchedule<S, X> {
    #[inline]
    fn schedule(&self, task: Runnable) {
        self.base.schedule(task);
    }

    fn dispatch(&self, task: Runnable, route: Route) {
        self.base.dispatch(task, route);
    }

    #[inline]
    fn own_route(&self) -> Route {
        self.base.own_route()
    }

    fn route_owner(&self) -> *const () {
        self.base.route_owner()
    }

    #[inline]
    fn completing(&self) {
        self.member.is_leaving.store(true, Relaxed);
        self.base.completing();
    }

    #[inline]
    fn release(&self, task: &Header) {
        self.base.release(task);
        // Last: what the future borrowed may be gone once the scope is empty.
        // SAFETY: its own scope, which it leaves once.
        unsafe { self.member.node.leave_member(&self.member) };
    }

    /// The panic belongs to the scope; the join handle only learns that there was one.
    fn panicked(&self, payload: &mut Payload) {
        let payload = std::mem::replace(payload, Box::new(()));
        X::panicked(&self.member.node, payload);
    }

    fn context(&self) -> Option<&TaskContext> {
        Some(&self.member)
    }

    fn is_borrowing(&self) -> bool {
        self.member.node.owner().is_borrowing()
    }

    #[inline(always)]
    fn may_poll_here(&self, task: &Header) -> bool {
        self.base.may_poll_here(task)
    }

    #[inline(always)]
    fn requeue(&self, task: Runnable, yielded: bool) -> RunOutcome {
        self.base.requeue(task, yielded)
    }
}
