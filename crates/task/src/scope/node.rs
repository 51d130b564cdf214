//! The members of one scope.
//!
//! ```text
//!            begin_cancel          force
//!     OPEN ───────────────► CANCELLING ───────► FORCED        and, whatever the phase:
//!                                                             no member left: it has ended
//! ```
//!
//! P1. The body is a member, and leaves like one. Nobody joins a scope without members that it
//!     waits for: so a scope that has ended stays so.
//! P2. The phase leaves `OPEN` once: there is one cause.
//! P3. A task or scope that joins when the phase is `FORCED` is aborted by the thread that
//!     made it join; all others are in a list, and the thread that forces aborts them.
//! P4. A scope that is dropped before it is empty is *adopted*: it is one member of the
//!     scope around it until it has ended.
//!
//! Everything is under one lock, which a child takes when it is spawned and when it has
//! ended. No foreign code runs under it: wakers are cloned, called and dropped outside, and
//! tasks are aborted outside, since that queues them.

use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use blitzen_util::list::{Linked, Links, List};
use blitzen_util::quiet::quietly;
use blitzen_util::shim::atomic::AtomicU8;
use blitzen_util::shim::atomic::Ordering::{Acquire, Release};
use blitzen_util::shim::{Mutex, MutexGuard};

use super::ScopeOwner;
use super::member::{Member, MemberKind};
use crate::join::AbortHandle;
use crate::raw::Runnable;

/// How many members are aborted before the lock is taken again.
const ABORT_BATCH: usize = 32;

/// How far a scope has been cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ScopePhase {
    /// It was not.
    Open,
    /// Members are asked to end.
    Cancelling,
    /// Members were aborted.
    Forced,
}

/// A snapshot of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeView {
    /// How far it has been cancelled.
    pub phase: ScopePhase,
    /// How many members are left, with the body and daemons.
    pub members: usize,
}

/// The members of one scope, and the waker of whoever waits for their end.
pub struct ScopeNode<X: ScopeOwner> {
    state: Mutex<NodeState<X>>,
    /// A copy of the phase that is read without the lock.
    phase: AtomicU8,
    /// The links of a scope that was adopted; guarded by the lock of the scope around it.
    links: Links<ScopeNode<X>>,
    owner: X,
}

struct NodeState<X: ScopeOwner> {
    phase: ScopePhase,
    /// Why it was cancelled.
    cause: Option<X::Cause>,
    /// Members that it waits for: the body, children, adopted scopes.
    live: usize,
    has_body: bool,
    daemons: usize,
    /// The children and daemons that have not been aborted.
    tasks: List<Member<X>>,
    daemon_tasks: List<Member<X>>,
    /// The adopted scopes that have not been forced.
    adopted: List<ScopeNode<X>>,
    /// The scope around it, of which it is a member (P4).
    adopted_by: Option<Arc<ScopeNode<X>>>,
    /// The waker of whoever waits for the end, or runs the body.
    waker: Option<Waker>,
}

// SAFETY: the lists are accessed under the lock, and their nodes are made for any thread.
unsafe impl<X: ScopeOwner> Send for NodeState<X> {}
// SAFETY: `links` is accessed under a lock.
unsafe impl<X: ScopeOwner> Send for ScopeNode<X> {}
// SAFETY: as above.
unsafe impl<X: ScopeOwner> Sync for ScopeNode<X> {}

// SAFETY: the address of the field, without a reference to the node.
unsafe impl<X: ScopeOwner> Linked for ScopeNode<X> {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live node.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

/// A member that leaves.
enum Leaver<'a, X: ScopeOwner> {
    Body,
    Task(&'a Member<X>),
    Adopted(&'a Arc<ScopeNode<X>>),
}

impl<X: ScopeOwner> NodeState<X> {
    fn view(&self) -> ScopeView {
        ScopeView {
            phase: self.phase,
            members: self.live + self.daemons,
        }
    }

    fn has_ended(&self) -> bool {
        self.live + self.daemons == 0
    }
}

impl<X: ScopeOwner> ScopeNode<X> {
    /// A scope whose only member is its body.
    pub fn new(owner: X) -> Self {
        Self {
            state: Mutex::new(NodeState {
                phase: ScopePhase::Open,
                cause: None,
                live: 1,
                has_body: true,
                daemons: 0,
                tasks: List::new(),
                daemon_tasks: List::new(),
                adopted: List::new(),
                adopted_by: None,
                waker: None,
            }),
            phase: AtomicU8::new(ScopePhase::Open as u8),
            links: Links::new(),
            owner,
        }
    }

    /// The part that belongs to the crate that made the scope.
    pub fn owner(&self) -> &X {
        &self.owner
    }

    /// The same, mutable.
    pub fn owner_mut(&mut self) -> &mut X {
        &mut self.owner
    }

    fn lock(&self) -> MutexGuard<'_, NodeState<X>> {
        self.state.lock()
    }

    /// Whether it was cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        // Acquire, met by `set_phase`: what came before the cancellation is seen.
        self.phase.load(Acquire) != ScopePhase::Open as u8
    }

    /// Whether its members were aborted.
    #[inline]
    pub fn is_forced(&self) -> bool {
        self.phase.load(Acquire) == ScopePhase::Forced as u8
    }

    /// A snapshot. What the thread did before is seen by a thread that cancels the scope later.
    pub fn view(&self) -> ScopeView {
        self.lock().view()
    }

    /// How many children and adopted scopes it has.
    pub fn children(&self) -> usize {
        let state = self.lock();
        state.live - usize::from(state.has_body)
    }

    fn set_phase(&self, state: &mut NodeState<X>, phase: ScopePhase) {
        state.phase = phase;
        // Release, met by the Acquire in `is_cancelled`.
        self.phase.store(phase as u8, Release);
    }

    /// [`Member::join`].
    pub(super) fn join(&self, member: &Member<X>, task: &Runnable) -> bool {
        let mut state = self.lock();
        if state.live == 0 {
            return false; // P1
        }
        member
            .task
            // SAFETY: the task's own member, under the lock.
            .with_mut(|slot| unsafe { *slot = Some(task.as_ptr()) });
        match member.kind {
            MemberKind::Child => state.live += 1,
            MemberKind::Daemon => state.daemons += 1,
        }
        if state.phase == ScopePhase::Forced {
            drop(state);
            AbortHandle::of(task).abort(); // P3
            return true;
        }
        // SAFETY: new, so in no list. It is part of its task, which leaves the list before
        // its memory is freed: see `leave_member`.
        unsafe { list_of(&mut state, member.kind).push_back(NonNull::from(member)) };
        true
    }

    /// Uncounts a task that has ended, if it had joined.
    pub(super) fn leave_member(self: &Arc<Self>, member: &Member<X>) {
        self.leave(Leaver::Task(member));
    }

    /// Uncounts the body, which has ended.
    pub fn leave_body(self: &Arc<Self>) {
        self.leave(Leaver::Body);
    }

    fn leave(self: &Arc<Self>, leaver: Leaver<'_, X>) {
        let Some(mut enclosing) = self.leave_one(leaver) else {
            return;
        };
        // A chain of adopted scopes can end all at once: no recursion.
        let mut ended = self.clone();
        while let Some(next) = enclosing.leave_one(Leaver::Adopted(&ended)) {
            ended = mem::replace(&mut enclosing, next);
        }
    }

    /// Uncounts a member; returns the scope that has to be left next, if this one was adopted
    /// and has ended.
    fn leave_one(self: &Arc<Self>, leaver: Leaver<'_, X>) -> Option<Arc<Self>> {
        let mut state = self.lock();
        match leaver {
            Leaver::Body => {
                state.live -= 1;
                state.has_body = false;
            }
            Leaver::Task(member) => {
                // SAFETY: under the lock.
                if member.task.with(|task| unsafe { (*task).is_none() }) {
                    return None; // it was refused
                }
                // SAFETY: alive while it is borrowed, in this list or in none (P3).
                unsafe { list_of(&mut state, member.kind).remove(NonNull::from(member)) };
                match member.kind {
                    MemberKind::Child => state.live -= 1,
                    MemberKind::Daemon => state.daemons -= 1,
                }
            }
            Leaver::Adopted(scope) => {
                // SAFETY: alive while it is borrowed, in this list or in none (P3).
                unsafe { state.adopted.remove(as_node_ptr(scope)) };
                state.live -= 1;
            }
        }
        let is_for_daemons =
            state.live == 0 && state.daemons > 0 && state.phase == ScopePhase::Open;
        let has_ended = state.has_ended();
        let waker = has_ended.then(|| state.waker.take()).flatten();
        let adopted_by = has_ended.then(|| state.adopted_by.take()).flatten();
        drop(state);
        self.owner.left();
        if is_for_daemons {
            // Another cause may have come first.
            let _ = self.begin_cancel(X::finished());
        }
        wake(waker);
        adopted_by
    }

    /// Cancels the scope for `cause`; gives it back if there was one before (P2).
    pub fn begin_cancel(self: &Arc<Self>, cause: X::Cause) -> Result<(), X::Cause> {
        let mut state = self.lock();
        if state.phase != ScopePhase::Open || state.has_ended() {
            return Err(cause);
        }
        self.set_phase(&mut state, ScopePhase::Cancelling);
        state.cause = Some(cause);
        drop(state);
        X::cancelled(self);
        Ok(())
    }

    /// Takes out why it was cancelled.
    pub fn take_cause(&self) -> Option<X::Cause> {
        self.lock().cause.take()
    }

    /// Aborts all members of a scope that was cancelled, and has the body dropped.
    pub fn force(self: &Arc<Self>) {
        let mut scopes = vec![self.clone()];
        while let Some(scope) = scopes.pop() {
            scope.force_one(&mut scopes);
        }
    }

    /// Aborts the members of one scope, and adds its adopted scopes to `scopes`.
    fn force_one(&self, scopes: &mut Vec<Arc<Self>>) {
        let mut state = self.lock();
        debug_assert_ne!(state.phase, ScopePhase::Open, "cancel it first");
        self.set_phase(&mut state, ScopePhase::Forced);
        while let Some(scope) = state.adopted.pop_front() {
            // SAFETY: an adopted scope is kept alive by its members, and leaves this list,
            // under this lock, before the last of them does. The pointer is from `Arc::as_ptr`.
            scopes.push(unsafe {
                Arc::increment_strong_count(scope.as_ptr().cast_const());
                Arc::from_raw(scope.as_ptr().cast_const())
            });
        }
        let waker = state.waker.take();
        drop(state);
        wake(waker);
        let mut batch = Vec::new();
        loop {
            let mut state = self.lock();
            while batch.len() < ABORT_BATCH
                && let Some(member) = pop_task(&mut state)
            {
                // SAFETY: under the lock, and in the list until now: its task has not
                // left, so it is alive, and the member has its address.
                let task = unsafe { member.as_ref().task.with(|task| *task) };
                // SAFETY: as above.
                batch.extend(task.map(|task| unsafe { AbortHandle::from_ptr(task) }));
            }
            drop(state);
            if batch.is_empty() {
                return;
            }
            for task in batch.drain(..) {
                quietly(|| task.abort());
            }
        }
    }

    /// Has `waker` called when the scope has ended or is forced; returns a snapshot. A scope that
    /// has ended keeps no waker.
    pub fn register(&self, waker: &Waker) -> ScopeView {
        let state = self.lock();
        let is_known = |state: &NodeState<X>| {
            let known = state.waker.as_ref();
            state.has_ended() || known.is_some_and(|known| known.will_wake(waker))
        };
        if is_known(&state) {
            return state.view();
        }
        drop(state);
        let waker = waker.clone();
        let mut state = self.lock();
        let view = state.view();
        let old = match state.has_ended() {
            true => Some(waker),
            false => state.waker.replace(waker),
        };
        drop(state);
        quietly(|| drop(old));
        view
    }

    /// Drops the waker of a future that is gone.
    pub fn unregister(&self) {
        let waker = self.lock().waker.take();
        quietly(|| drop(waker));
    }

    /// Wakes whoever waits for the end, or runs the body: something has changed.
    pub fn wake_owner(&self) {
        let waker = self.lock().waker.take();
        wake(waker);
    }

    /// Makes the scope, which is not empty and nobody polls any more, a member of
    /// `enclosing` (P4); false if that has ended.
    pub fn adopt_into(self: &Arc<Self>, enclosing: &Arc<Self>) -> bool {
        let mut around = enclosing.lock();
        if around.live == 0 {
            return false; // P1
        }
        around.live += 1;
        let is_forced = around.phase == ScopePhase::Forced;
        if !is_forced {
            // SAFETY: in no list: a scope is adopted once. Its members keep it alive until
            // `leave_one` has taken it out; until then the caller does.
            unsafe { around.adopted.push_back(as_node_ptr(self)) };
        }
        drop(around);
        let mut state = self.lock();
        let has_ended = state.has_ended();
        if !has_ended {
            state.adopted_by = Some(enclosing.clone());
        }
        drop(state);
        if has_ended {
            enclosing.leave(Leaver::Adopted(self)); // its last member left meanwhile
        } else if is_forced {
            self.force(); // P3
        }
        true
    }
}

fn list_of<X: ScopeOwner>(state: &mut NodeState<X>, kind: MemberKind) -> &mut List<Member<X>> {
    match kind {
        MemberKind::Child => &mut state.tasks,
        MemberKind::Daemon => &mut state.daemon_tasks,
    }
}

fn pop_task<X: ScopeOwner>(state: &mut NodeState<X>) -> Option<NonNull<Member<X>>> {
    let task = state.tasks.pop_front();
    task.or_else(|| state.daemon_tasks.pop_front())
}

fn as_node_ptr<X: ScopeOwner>(node: &Arc<ScopeNode<X>>) -> NonNull<ScopeNode<X>> {
    // SAFETY: never null.
    unsafe { NonNull::new_unchecked(Arc::as_ptr(node).cast_mut()) }
}

/// Calls a waker, which is foreign code.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        quietly(|| waker.wake());
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::scope::ScopedSchedule;
    use crate::{Header, Id, Payload, RunOutcome, Schedule, SpawnMeta, spawn};
    use blitzen_util::shim::cell::UnsafeCell;
    use blitzen_util::shim::thread;
    use std::future::{Future, pending};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    /// Forces at once, as a scope without grace does.
    struct Owner;

    type Node = ScopeNode<Owner>;

    impl ScopeOwner for Owner {
        type Cause = u32;
        type Inherited = ();

        fn finished() -> u32 {
            0
        }

        fn cancelled(node: &Arc<Node>) {
            node.force();
        }

        fn panicked(_: &Arc<Node>, _: Payload) {}
    }

    /// Tasks of the models are in no queue: those that are woken are cancelled.
    struct NoQueue;

    impl Schedule for NoQueue {
        fn schedule(&self, task: Runnable) {
            drop(task);
        }

        fn release(&self, _: &Header) {}
    }

    fn node() -> Arc<Node> {
        Arc::new(ScopeNode::new(Owner))
    }

    /// Spawns a child, if the scope has not ended.
    fn child(
        node: &Arc<Node>,
        kind: MemberKind,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Option<Runnable> {
        let schedule = ScopedSchedule::new(NoQueue, node.clone(), kind, ());
        let (task, handle) = spawn(future, schedule, Id::next(), SpawnMeta::caller());
        drop(handle);
        let joined = Member::<Owner>::of(&task).unwrap().join(&task);
        joined.then_some(task)
    }

    fn run(task: Runnable) {
        assert!(matches!(
            task.run(),
            RunOutcome::Complete | RunOutcome::Idle
        ));
    }

    struct CountWakes(AtomicUsize);

    impl Wake for CountWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn the_last_child_against_the_end_of_the_body_and_a_late_spawn_ends_the_scope_once() {
        loom::model(|| {
            let node = node();
            let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
            let first = child(&node, MemberKind::Child, async {}).unwrap();
            let waits = node.register(&Waker::from(wakes.clone()));
            assert_eq!(waits.members, 2);
            let runner = thread::spawn(move || run(first));
            let late = thread::spawn({
                let (node, wakes) = (node.clone(), wakes.clone());
                move || match child(&node, MemberKind::Child, async {}) {
                    Some(task) => {
                        let ends = wakes.0.load(Relaxed);
                        assert_eq!(ends, 0, "joined a scope that had ended");
                        run(task);
                    }
                    None => assert_eq!(node.view().members, 0, "refused too early"),
                }
            });
            node.leave_body();
            runner.join().unwrap();
            late.join().unwrap();
            assert_eq!(node.view().members, 0);
            assert_eq!(wakes.0.load(Relaxed), 1, "woken once, at the end");
        });
    }

    #[test]
    fn whoever_waits_sees_the_end_or_is_woken() {
        loom::model(|| {
            let node = node();
            let last = child(&node, MemberKind::Child, async {}).unwrap();
            node.leave_body();
            let runner = thread::spawn(move || run(last));
            let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
            let waits = node.register(&Waker::from(wakes.clone())).members > 0;
            runner.join().unwrap();
            assert_eq!(wakes.0.load(Relaxed), usize::from(waits));
        });
    }

    #[test]
    fn failure_deadline_and_cancel_are_one_cause() {
        loom::model(|| {
            let node = node();
            let others: Vec<_> = [1, 2]
                .map(|cause| {
                    let node = node.clone();
                    thread::spawn(move || node.begin_cancel(cause).is_ok().then_some(cause))
                })
                .into();
            let own = node.begin_cancel(3).is_ok().then_some(3);
            let mut winners: Vec<_> = own.into_iter().collect();
            for other in others {
                winners.extend(other.join().unwrap());
            }
            assert_eq!(winners.len(), 1);
            assert_eq!(node.take_cause(), Some(winners[0]));
        });
    }

    #[test]
    fn a_child_spawned_while_the_scope_is_forced_is_aborted() {
        loom::model(|| {
            let node = node();
            let canceller = thread::spawn({
                let node = node.clone();
                move || node.begin_cancel(1).unwrap()
            });
            let task = child(&node, MemberKind::Child, pending()).unwrap();
            canceller.join().unwrap();
            run(task);
            assert_eq!(node.view().members, 1, "it was aborted, and has left");
        });
    }

    #[test]
    fn a_dropped_scope_against_its_last_child_leaves_the_scope_around_it_once() {
        loom::model(|| {
            let (outer, inner) = (node(), node());
            let last = child(&inner, MemberKind::Child, async {}).unwrap();
            // The inner scope is dropped.
            inner.begin_cancel(1).unwrap();
            inner.leave_body();
            let runner = thread::spawn(move || run(last));
            assert!(inner.adopt_into(&outer));
            drop(inner);
            outer.leave_body();
            let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
            let waits = outer.register(&Waker::from(wakes.clone())).members > 0;
            runner.join().unwrap();
            assert_eq!(outer.view().members, 0);
            assert_eq!(wakes.0.load(Relaxed), usize::from(waits));
        });
    }

    #[test]
    fn a_scope_that_is_forced_while_it_adopts_forces_what_it_adopts() {
        struct Graceful;
        impl ScopeOwner for Graceful {
            type Cause = ();
            type Inherited = ();
            fn finished() {}
            fn cancelled(_: &Arc<ScopeNode<Self>>) {}
            fn panicked(_: &Arc<ScopeNode<Self>>, _: Payload) {}
        }
        loom::model(|| {
            let outer = Arc::new(ScopeNode::new(Graceful));
            let inner = Arc::new(ScopeNode::new(Graceful));
            outer.begin_cancel(()).unwrap();
            inner.begin_cancel(()).unwrap();
            let forcer = thread::spawn({
                let outer = outer.clone();
                move || outer.force()
            });
            assert!(inner.adopt_into(&outer));
            forcer.join().unwrap();
            assert!(inner.is_forced());
            inner.leave_body();
            outer.leave_body();
            assert_eq!(outer.view().members, 0);
        });
    }

    #[test]
    fn daemons_are_aborted_when_the_last_child_has_left() {
        loom::model(|| {
            let node = node();
            let daemon = child(&node, MemberKind::Daemon, pending()).unwrap();
            let last = child(&node, MemberKind::Child, async {}).unwrap();
            let runner = thread::spawn(move || run(last));
            node.leave_body();
            runner.join().unwrap();
            assert!(node.is_forced());
            run(daemon);
            assert_eq!(node.view().members, 0);
        });
    }

    /// A value that the parent's frame lends to a child.
    struct Lent(UnsafeCell<u32>);
    // SAFETY: loom checks every access.
    unsafe impl Send for Lent {}
    // SAFETY: as above.
    unsafe impl Sync for Lent {}

    /// Uses the value when it is dropped with its future.
    struct Borrower(Arc<Lent>);

    impl Drop for Borrower {
        fn drop(&mut self) {
            // SAFETY: loom checks that the parent has not taken it back.
            self.0.0.with_mut(|lent| unsafe { *lent += 1 });
        }
    }

    #[test]
    fn a_borrowing_child_has_let_go_when_its_parent_returns() {
        loom::model(|| {
            let node = node();
            let lent = Arc::new(Lent(UnsafeCell::new(0)));
            let borrower = Borrower(lent.clone());
            let task = child(&node, MemberKind::Child, async move { drop(borrower) }).unwrap();
            node.leave_body();
            let runner = thread::spawn(move || run(task));
            while node.view().members > 0 {
                thread::yield_now();
            }
            // SAFETY: the parent's own again; loom says if it is not.
            assert_eq!(lent.0.with_mut(|lent| unsafe { *lent }), 1);
            runner.join().unwrap();
        });
    }
}
