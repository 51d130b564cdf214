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
//! P5. From its first task on until it has ended, a scope has a reference to itself. So its tasks need
//!     none, and those who spawn and those who end tasks share no count. A task that leaves may be the
//!     last but one of its list: then it must not touch the scope after the list is unlocked.
//!
//! A child takes the lock of its list when it is spawned and when it has ended
//! ([`member_list`](super::member_list)), and the first and last of a list change the word of the scope
//! ([`word`](super::word)). Everything else is under one lock. No foreign code runs under a lock:
//! wakers are cloned, called and dropped outside, and tasks are aborted outside, since that
//! queues them.

use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

use blitzen_util::list::{Linked, Links, List};
use blitzen_util::lock::{self, Lock, LockGuard};
use blitzen_util::quiet::quietly;

use super::ScopeOwner;
use super::member::{Member, MemberKind};
use super::member_list::{MemberList, MemberLists};
use super::word::{NodeWord, ScopePhase, ScopeView};
use crate::join::AbortHandle;
use crate::raw::Runnable;

/// How many members are aborted before the lock is taken again.
const ABORT_BATCH: usize = 32;

/// The members of one scope, and the waker of whoever waits for their end.
pub struct ScopeNode<X: ScopeOwner> {
    word: NodeWord,
    children: MemberLists<X>,
    daemons: MemberList<X>,
    state: Lock<NodeState<X>>,
    /// The links of a scope that was adopted; guarded by the lock of the scope around it.
    links: Links<ScopeNode<X>>,
    owner: X,
}

struct NodeState<X: ScopeOwner> {
    /// Why it was cancelled.
    cause: Option<X::Cause>,
    /// The adopted scopes that have not been forced.
    adopted: List<ScopeNode<X>>,
    /// How many scopes are adopted, with those that were forced.
    adopted_len: usize,
    /// The scope around it, of which it is a member (P4).
    adopted_by: Option<Arc<ScopeNode<X>>>,
    /// The waker of whoever waits for the end, or runs the body.
    waker: Option<Waker>,
}

// SAFETY: the list is accessed under the lock, and its nodes are made for any thread.
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

impl<X: ScopeOwner> ScopeNode<X> {
    /// A scope whose only member is its body.
    pub fn new(owner: X) -> Self {
        Self {
            word: NodeWord::new(),
            children: MemberLists::new(),
            daemons: MemberList::new(),
            state: Lock::new(NodeState {
                cause: None,
                adopted: List::new(),
                adopted_len: 0,
                adopted_by: None,
                waker: None,
            }),
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

    fn lock(&self) -> LockGuard<'_, NodeState<X>> {
        self.state.lock()
    }

    /// Whether it was cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.view().phase() != ScopePhase::Open
    }

    /// Whether its members were aborted.
    #[inline]
    pub fn is_forced(&self) -> bool {
        self.view().phase() == ScopePhase::Forced
    }

    /// A snapshot.
    #[inline]
    pub fn view(&self) -> ScopeView {
        self.word.view()
    }

    /// A snapshot. What the thread did before is seen by a thread that cancels the scope later.
    pub fn view_in_order(&self) -> ScopeView {
        self.word.view_in_order()
    }

    /// Makes it as new, for another scope; returns false if it cannot be used again: it was cancelled,
    /// has not ended, or has the lists for many children.
    pub fn renew(&mut self) -> bool {
        let view = self.view();
        let is_over = view.is_new() || view.has_ended();
        let renews = is_over && view.phase() == ScopePhase::Open && !self.children.has_others();
        if renews {
            self.word = NodeWord::new();
        }
        renews
    }

    /// How many children and adopted scopes it has.
    pub fn children(&self) -> usize {
        let tasks: usize = self.children.iter().map(|list| list.lock().len()).sum();
        tasks + self.lock().adopted_len
    }

    /// [`Member::join`].
    pub(super) fn join(self: &Arc<Self>, member: &Member<X>, task: &Runnable) -> bool {
        let is_daemon = member.kind == MemberKind::Daemon;
        let index = match is_daemon {
            true => 0,
            false => self.children.index_for(task.header().id()),
        };
        let mut list = self.list(member.kind, index).lock();
        if is_daemon || list.len() == 0 {
            let before = match is_daemon {
                true => self.word.add_daemons(),
                false => self.word.add_children(), // L1
            };
            match before {
                None => return false, // P1
                Some(view) if view.has_self_reference() => {}
                Some(_) => mem::forget(self.clone()), // P5
            }
        }
        member.set_joined(index, task);
        // SAFETY: new, so in no list. It is part of its task, which leaves the list before
        // its memory is freed: see `leave_member`.
        let is_listed = unsafe { list.add(member) };
        if index == 0 && !is_daemon && !self.owner.is_limited() {
            self.children.grow(&list);
        }
        drop(list);
        if !is_listed {
            AbortHandle::of(task).abort(); // P3
        }
        true
    }

    fn list(&self, kind: MemberKind, index: u8) -> &MemberList<X> {
        match kind {
            MemberKind::Child => self.children.get(index),
            MemberKind::Daemon => &self.daemons,
        }
    }

    /// Uncounts a task that has ended, if it had joined. The scope may be gone then.
    ///
    /// # Safety
    /// `member` is one of this scope, and this is called once for it.
    #[inline]
    pub(super) unsafe fn leave_member(self: &Arc<Self>, member: &Member<X>) {
        let Some(index) = member.list_index() else {
            return; // it was refused
        };
        if member.kind == MemberKind::Daemon {
            // SAFETY: the caller upholds the same contract.
            return unsafe { self.leave_daemon(member) };
        }
        let is_used_later = self.owner.is_limited() || !lock::MAY_BE_FREED_BY_NEXT_HOLDER;
        let kept = is_used_later.then(|| self.clone()); // P5
        let mut list = self.children.get(index).lock();
        // SAFETY: it joined this list.
        let was_last = unsafe { list.remove(member) };
        drop(list);
        if let Some(node) = &kept {
            node.owner.left();
        }
        if was_last && !self.word.remove_unit_of_several() {
            self.leave_last();
        }
    }

    /// Uncounts the last unit.
    #[cold]
    fn leave_last(self: &Arc<Self>) {
        let node = self.clone(); // P5
        let view = node.word.remove_unit();
        node.changed(view);
    }

    /// [`leave_member`](Self::leave_member) of a daemon.
    ///
    /// # Safety
    /// As there.
    #[cold]
    unsafe fn leave_daemon(self: &Arc<Self>, member: &Member<X>) {
        let node = self.clone(); // P5
        let mut list = node.daemons.lock();
        // SAFETY: it joined this list.
        let was_last = unsafe { list.remove(member) };
        let view = was_last.then(|| node.word.remove_daemons());
        drop(list);
        node.owner.left();
        if let Some(view) = view {
            node.changed(view);
        }
    }

    /// Uncounts the body, which has ended.
    pub fn leave_body(self: &Arc<Self>) {
        let view = self.word.remove_body();
        self.owner.left();
        self.changed(view);
    }

    /// Uncounts an adopted scope, which has ended; returns the scope that has to be left next.
    fn leave_adopted(self: &Arc<Self>, scope: &Arc<Self>) -> Option<Arc<Self>> {
        let mut state = self.lock();
        // SAFETY: alive while it is borrowed, in this list or in none (P3).
        unsafe { state.adopted.remove(as_node_ptr(scope)) };
        state.adopted_len -= 1;
        drop(state);
        let view = self.word.remove_unit();
        self.owner.left();
        self.react(view)
    }

    /// Does what is due when a member has left.
    fn changed(self: &Arc<Self>, view: ScopeView) {
        if let Some(enclosing) = self.react(view) {
            self.leave_enclosing(enclosing);
        }
    }

    /// Leaves the scope that has adopted this one, which has ended.
    #[cold]
    fn leave_enclosing(self: &Arc<Self>, mut enclosing: Arc<Self>) {
        // A chain of adopted scopes can end all at once: no recursion.
        let mut ended = self.clone();
        while let Some(next) = enclosing.leave_adopted(&ended) {
            ended = mem::replace(&mut enclosing, next);
        }
    }

    /// Wakes whoever waits for the end, if this is it; returns the scope that has to be left
    /// then, if this one was adopted. Cancels daemons if only they are left.
    fn react(self: &Arc<Self>, view: ScopeView) -> Option<Arc<Self>> {
        if view.has_only_daemons() && view.phase() == ScopePhase::Open {
            // Another cause may have come first.
            let _ = self.begin_cancel(X::finished());
        }
        if !view.has_ended() {
            return None;
        }
        if view.has_self_reference() {
            // SAFETY: made when the first task joined (P5), and dropped here alone: a scope ends once.
            // The caller has another one.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        }
        if !view.is_awaited() {
            return None;
        }
        let mut state = self.lock();
        let (waker, adopted_by) = (state.waker.take(), state.adopted_by.take());
        drop(state);
        wake(waker);
        adopted_by
    }

    /// Cancels the scope for `cause`; gives it back if there was one before (P2).
    pub fn begin_cancel(self: &Arc<Self>, cause: X::Cause) -> Result<(), X::Cause> {
        let mut state = self.lock();
        if !self.word.cancel() {
            return Err(cause);
        }
        state.cause = Some(cause);
        drop(state);
        X::cancelled(self);
        Ok(())
    }

    /// Takes out why it was cancelled.
    pub fn take_cause(&self) -> Option<X::Cause> {
        match self.is_cancelled() {
            true => self.lock().cause.take(),
            false => None,
        }
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
        let before = self.word.force();
        debug_assert_ne!(before.phase(), ScopePhase::Open, "cancel it first");
        while let Some(scope) = state.adopted.pop_front() {
            // SAFETY: an adopted scope is alive while it is in the list, which it leaves under this
            // lock: see `adopt_into`. The pointer is from `Arc::as_ptr`.
            scopes.push(unsafe {
                Arc::increment_strong_count(scope.as_ptr().cast_const());
                Arc::from_raw(scope.as_ptr().cast_const())
            });
        }
        let waker = state.waker.take();
        drop(state);
        wake(waker);
        let daemons = std::iter::once(&self.daemons);
        self.children.iter().chain(daemons).for_each(abort_all);
    }

    /// Has `waker` called when the scope has ended or is forced; returns a snapshot. A scope that
    /// has ended keeps no waker.
    pub fn register(&self, waker: &Waker) -> ScopeView {
        if self.view().has_ended() {
            return self.view();
        }
        let state = self.lock();
        if let Some(known) = &state.waker
            && known.will_wake(waker)
        {
            return self.view(); // N3 since it was stored
        }
        drop(state);
        let waker = waker.clone();
        let mut state = self.lock();
        let old = state.waker.replace(waker);
        // N3: if the end came before, nobody looks for the waker any more.
        let view = self.word.set_awaited();
        let unused = view.has_ended().then(|| state.waker.take()).flatten();
        drop(state);
        quietly(|| drop((old, unused)));
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
        if enclosing.word.add_adopted().is_none() {
            return false; // P1
        }
        around.adopted_len += 1;
        let is_forced = enclosing.is_forced();
        if !is_forced {
            // SAFETY: in no list: a scope is adopted once. P5 and the scopes that it has adopted keep
            // it alive until it has ended, and who ends it until `leave_adopted` has taken it out.
            unsafe { around.adopted.push_back(as_node_ptr(self)) };
        }
        drop(around);
        let mut state = self.lock();
        state.adopted_by = Some(enclosing.clone());
        let has_ended = self.word.set_awaited().has_ended(); // N3
        let adopted_by = has_ended.then(|| state.adopted_by.take()).flatten();
        drop(state);
        if let Some(enclosing) = adopted_by {
            self.leave_enclosing(enclosing); // its last member left meanwhile
        } else if is_forced {
            self.force(); // P3
        }
        true
    }
}

/// Aborts all tasks of a list.
fn abort_all<X: ScopeOwner>(list: &MemberList<X>) {
    let mut batch = Vec::new();
    loop {
        let mut locked = list.lock();
        while batch.len() < ABORT_BATCH
            && let Some(member) = locked.pop_forced()
        {
            // SAFETY: under the lock, and in the list until now: its task has not
            // left, so it is alive, and the member has its address.
            let task = unsafe { member.as_ref().task.with(|task| *task) };
            // SAFETY: as above.
            batch.extend(task.map(|task| unsafe { AbortHandle::from_ptr(task) }));
        }
        drop(locked);
        if batch.is_empty() {
            return;
        }
        for task in batch.drain(..) {
            quietly(|| task.abort());
        }
    }
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
    use std::cell::Cell;
    use std::future::{Future, pending};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Context, Poll, Wake};

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
    fn child<X: ScopeOwner<Inherited = ()>>(
        node: &Arc<ScopeNode<X>>,
        kind: MemberKind,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Option<Runnable> {
        // SAFETY: `node` is borrowed until the task has joined or was dropped.
        let schedule = unsafe { ScopedSchedule::new(NoQueue, node, kind, ()) };
        let (task, handle) = spawn(future, schedule, Id::next(), SpawnMeta::caller());
        drop(handle);
        let joined = Member::<X>::of(&task).unwrap().join(&task);
        joined.then_some(task)
    }

    fn run(task: Runnable) {
        assert!(matches!(
            task.run(),
            RunOutcome::Complete | RunOutcome::Idle(_)
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
            assert!(waits.has_others());
            let runner = thread::spawn(move || run(first));
            let late = thread::spawn({
                let (node, wakes) = (node.clone(), wakes.clone());
                move || match child(&node, MemberKind::Child, async {}) {
                    Some(task) => {
                        let ends = wakes.0.load(Relaxed);
                        assert_eq!(ends, 0, "joined a scope that had ended");
                        run(task);
                    }
                    None => assert!(node.view().has_ended(), "refused too early"),
                }
            });
            node.leave_body();
            runner.join().unwrap();
            late.join().unwrap();
            assert!(node.view().has_ended());
            assert_eq!(wakes.0.load(Relaxed), 1, "woken once, at the end");
            assert_eq!(Arc::strong_count(&node), 1, "P5");
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
            let waits = !node.register(&Waker::from(wakes.clone())).has_ended();
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
            assert!(!node.view().has_others(), "it was aborted, and has left");
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
            let waits = !outer.register(&Waker::from(wakes.clone())).has_ended();
            runner.join().unwrap();
            assert!(outer.view().has_ended());
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
            assert!(outer.view().has_ended());
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
            assert!(node.view().has_ended());
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

    /// A future that keeps what it borrows until it is dropped: after its last poll, or without
    /// any.
    struct Keeps(#[expect(dead_code, reason = "dropped with the future")] Borrower);

    impl Future for Keeps {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    /// `end` is called with a child that borrows from the calling thread, which waits for the
    /// child and then uses what it had lent. A child that leaves before its future is dropped
    /// makes this fail.
    fn check_borrowing(end: fn(Runnable)) {
        loom::model(move || {
            let node = node();
            let lent = Arc::new(Lent(UnsafeCell::new(0)));
            let borrower = Keeps(Borrower(lent.clone()));
            let task = child(&node, MemberKind::Child, borrower).unwrap();
            node.leave_body();
            let runner = thread::spawn(move || end(task));
            while !node.view().has_ended() {
                thread::yield_now();
            }
            // SAFETY: the parent's own again; loom says if it is not.
            assert_eq!(lent.0.with_mut(|lent| unsafe { *lent }), 1);
            runner.join().unwrap();
        });
    }

    #[test]
    fn a_borrowing_child_has_let_go_when_its_parent_returns() {
        check_borrowing(run);
    }

    #[test]
    fn a_borrowing_child_that_is_cancelled_has_let_go_when_its_parent_returns() {
        check_borrowing(drop);
    }

    #[test]
    fn one_of_many_borrowing_children_has_let_go_when_its_parent_returns() {
        loom::model(|| {
            let node = node();
            let lent = [(); 2].map(|()| Arc::new(Lent(UnsafeCell::new(0))));
            let tasks = lent.each_ref().map(|lent| {
                let borrower = Keeps(Borrower(lent.clone()));
                child(&node, MemberKind::Child, borrower).unwrap()
            });
            node.leave_body();
            let runners = tasks.map(|task| thread::spawn(move || run(task)));
            while !node.view().has_ended() {
                thread::yield_now();
            }
            for lent in lent {
                // SAFETY: as above.
                assert_eq!(lent.0.with_mut(|lent| unsafe { *lent }), 1);
            }
            for runner in runners {
                runner.join().unwrap();
            }
        });
    }

    thread_local! {
        /// Whether the scope of the model is gone. loom runs all threads of a model on one.
        static IS_GONE: Cell<bool> = const { Cell::new(false) };
    }

    /// Notes when its scope is freed, and is told whenever a task leaves.
    struct Watched;

    impl Watched {
        fn node() -> Arc<ScopeNode<Self>> {
            IS_GONE.set(false);
            Arc::new(ScopeNode::new(Self))
        }

        /// Lets the other threads run, and then looks whether the scope is still there.
        fn check() {
            thread::yield_now();
            assert!(
                !IS_GONE.get(),
                "a task that leaves uses a scope that is gone"
            );
        }
    }

    impl ScopeOwner for Watched {
        type Cause = ();
        type Inherited = ();

        fn finished() {
            Self::check();
        }

        fn cancelled(node: &Arc<ScopeNode<Self>>) {
            Self::check();
            node.force();
        }

        fn is_limited(&self) -> bool {
            true
        }

        fn left(&self) {
            Self::check();
        }

        fn panicked(_: &Arc<ScopeNode<Self>>, _: Payload) {}
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            IS_GONE.set(true);
        }
    }

    /// Two members leave a scope that nobody else has.
    fn check_references(kinds: [MemberKind; 2]) {
        loom::model(move || {
            let node = Watched::node();
            let members = kinds.map(|kind| child(&node, kind, async {}).unwrap());
            let runners = members.map(|task| thread::spawn(move || run(task)));
            node.leave_body();
            drop(node);
            for runner in runners {
                runner.join().unwrap();
            }
            assert!(IS_GONE.get(), "it is freed when the last one has left");
        });
    }

    #[test]
    fn a_scope_is_there_until_its_last_child_has_left() {
        check_references([MemberKind::Child, MemberKind::Child]);
    }

    #[test]
    fn a_scope_is_there_while_its_last_child_cancels_the_daemons() {
        check_references([MemberKind::Child, MemberKind::Daemon]);
    }
}
