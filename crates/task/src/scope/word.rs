//! Whether a scope has members, and how far it was cancelled, in one word.
//!
//! ```text
//!   63 …………………… 6 │       5        │    4    │    3    │  2   │ 1 0
//!       units      │ self-reference │ awaited │ daemons │ body │ phase
//! ```
//!
//! What a scope waits for is counted in *units*: the body is one, each adopted scope, and each list
//! of children that is not empty. So a child that comes and goes while its list has others does
//! not touch this word.
//!
//! N1. `units` leaves 0 never again: what ends a scope ends it for good.
//! N2. The phase changes only under the lock of the scope, and the first change only while the
//!     scope has not ended.
//! N3. `awaited` is set before a waker, or a scope that has adopted this one, counts on being told
//!     of the end; the thread that ends the scope looks for them if it is set.
//! N4. `self-reference` is set when the first task joins, and stays. The thread that sets it gives the
//!     scope a reference to itself, and the thread that ends the scope drops that.

use blitzen_util::shim::atomic::AtomicU64;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire};

const PHASE: u64 = 0b11;
const BODY: u64 = 1 << 2;
const DAEMONS: u64 = 1 << 3;
const AWAITED: u64 = 1 << 4;
const SELF_REFERENCE: u64 = 1 << 5;
const UNIT: u64 = 1 << 6;
/// The word of a scope whose only member is its body.
const NEW: u64 = UNIT | BODY;

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

impl ScopePhase {
    /// Later phases have all bits of the earlier ones.
    fn bits(self) -> u64 {
        match self {
            Self::Open => 0b00,
            Self::Cancelling => 0b01,
            Self::Forced => 0b11,
        }
    }
}

/// A snapshot of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeView(u64);

impl ScopeView {
    /// How far it has been cancelled.
    #[inline]
    pub fn phase(self) -> ScopePhase {
        match self.0 & PHASE {
            0b00 => ScopePhase::Open,
            0b01 => ScopePhase::Cancelling,
            _ => ScopePhase::Forced,
        }
    }

    /// Whether no member is left.
    #[inline]
    pub fn has_ended(self) -> bool {
        self.0 & DAEMONS == 0 && self.units() == 0
    }

    /// Whether it is as when it was made: not cancelled, awaited by nobody, with no member but
    /// the body.
    #[inline]
    pub fn is_new(self) -> bool {
        self.0 == NEW
    }

    /// Whether members other than the body are left.
    #[inline]
    pub fn has_others(self) -> bool {
        self.0 & DAEMONS != 0 || self.units() > u64::from(self.0 & BODY != 0)
    }

    /// Whether only daemons are left.
    pub(super) fn has_only_daemons(self) -> bool {
        self.0 & DAEMONS != 0 && self.units() == 0
    }

    /// Whether somebody waits for the end (N3).
    pub(super) fn is_awaited(self) -> bool {
        self.0 & AWAITED != 0
    }

    /// Whether it has a reference to itself (N4).
    pub(super) fn has_self_reference(self) -> bool {
        self.0 & SELF_REFERENCE != 0
    }

    fn units(self) -> u64 {
        self.0 / UNIT
    }
}

/// The word.
pub(super) struct NodeWord(AtomicU64);

impl NodeWord {
    /// The word of a scope whose only member is its body.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NEW))
    }

    #[inline]
    pub(super) fn view(&self) -> ScopeView {
        // Acquire, met by the Release of each change below: what members did before they left,
        // and what came before a cancellation, is seen.
        ScopeView(self.0.load(Acquire))
    }

    /// Like [`view`](Self::view). A thread that changes the word later sees what the calling
    /// thread did before.
    pub(super) fn view_in_order(&self) -> ScopeView {
        ScopeView(self.0.fetch_or(0, AcqRel))
    }

    /// Changes the word by `change` unless that returns `None`; returns what it was before. Acquire
    /// and Release, as in all changes: they meet each other and `view`.
    fn update(&self, change: impl Fn(ScopeView) -> Option<u64>) -> Option<ScopeView> {
        let changed = |word| change(ScopeView(word));
        self.0
            .fetch_update(AcqRel, Acquire, changed)
            .ok()
            .map(ScopeView)
    }

    /// Counts an adopted scope; `None` if there is no unit (N1).
    pub(super) fn add_adopted(&self) -> Option<ScopeView> {
        self.update(|view| (view.units() > 0).then_some(view.0 + UNIT))
    }

    /// Counts a list of children, which was empty; `None` if there is no unit (N1).
    pub(super) fn add_children(&self) -> Option<ScopeView> {
        self.update(|view| (view.units() > 0).then_some((view.0 + UNIT) | SELF_REFERENCE))
    }

    /// Notes that there are daemons; `None` if there is no unit (N1).
    pub(super) fn add_daemons(&self) -> Option<ScopeView> {
        self.update(|view| (view.units() > 0).then_some(view.0 | DAEMONS | SELF_REFERENCE))
    }

    /// Uncounts a unit if there are others; returns whether that is so.
    #[inline]
    pub(super) fn remove_unit_of_several(&self) -> bool {
        self.update(|view| (view.units() > 1).then_some(view.0 - UNIT))
            .is_some()
    }

    pub(super) fn remove_unit(&self) -> ScopeView {
        ScopeView(self.0.fetch_sub(UNIT, AcqRel) - UNIT)
    }

    pub(super) fn remove_body(&self) -> ScopeView {
        let body = UNIT | BODY;
        ScopeView(self.0.fetch_sub(body, AcqRel) - body)
    }

    pub(super) fn remove_daemons(&self) -> ScopeView {
        ScopeView(self.0.fetch_and(!DAEMONS, AcqRel) & !DAEMONS)
    }

    /// Leaves the phase `Open`; false if it had been left before, or the scope has ended (N2).
    pub(super) fn cancel(&self) -> bool {
        let cancelling = ScopePhase::Cancelling.bits();
        self.update(|view| {
            let is_open = view.phase() == ScopePhase::Open && !view.has_ended();
            is_open.then_some(view.0 | cancelling)
        })
        .is_some()
    }

    pub(super) fn force(&self) -> ScopeView {
        ScopeView(self.0.fetch_or(ScopePhase::Forced.bits(), AcqRel))
    }

    /// Notes that somebody waits for the end (N3); returns whether the end is still to come.
    pub(super) fn set_awaited(&self) -> ScopeView {
        let view = self.view();
        match view.is_awaited() {
            true => view,
            false => ScopeView(self.0.fetch_or(AWAITED, AcqRel)),
        }
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::atomic::AtomicBool;
    use blitzen_util::shim::atomic::Ordering::Relaxed;
    use blitzen_util::shim::{AccessCheck, Arc, thread};

    /// Does something and then `change`s the word; `sees` says whether another thread sees the change.
    fn check(prepare: fn(&NodeWord), change: fn(&NodeWord), sees: fn(&NodeWord) -> bool) {
        let shared = Arc::new((NodeWord::new(), AccessCheck::new()));
        prepare(&shared.0);
        // The observer is the spawned thread, so that loom tries all that it may see.
        let observer = thread::spawn({
            let shared = shared.clone();
            move || {
                if sees(&shared.0) {
                    shared.1.read();
                }
            }
        });
        shared.1.write();
        change(&shared.0);
        observer.join().unwrap();
    }

    fn nothing(_: &NodeWord) {}

    fn has_ended(word: &NodeWord) -> bool {
        word.view().has_ended()
    }

    fn only_daemons_are_left(word: &NodeWord) {
        assert!(word.add_daemons().is_some());
        let _ = word.remove_body();
    }

    #[test]
    fn whoever_sees_the_end_sees_what_the_last_member_did() {
        loom::model(|| check(nothing, |word| _ = word.remove_body(), has_ended));
        let body_is_gone = |word: &NodeWord| {
            assert!(word.add_adopted().is_some());
            let _ = word.remove_body();
        };
        loom::model(move || check(body_is_gone, |word| _ = word.remove_unit(), has_ended));
        loom::model(|| {
            check(
                only_daemons_are_left,
                |word| _ = word.remove_daemons(),
                has_ended,
            )
        });
        // The end may come between the two steps of `set_awaited`.
        let sees = |word: &NodeWord| word.set_awaited().has_ended();
        loom::model(move || check(nothing, |word| _ = word.remove_body(), sees));
    }

    #[test]
    fn a_member_that_comes_too_late_sees_what_the_last_one_did() {
        loom::model(|| {
            check(
                nothing,
                |word| _ = word.remove_body(),
                |word| word.add_adopted().is_none(),
            )
        });
    }

    #[test]
    fn whoever_sees_a_cancellation_sees_what_came_before_it() {
        let is_cancelled = |word: &NodeWord| word.view().phase() != ScopePhase::Open;
        loom::model(move || check(nothing, |word| assert!(word.cancel()), is_cancelled));
        loom::model(move || check(nothing, |word| _ = word.force(), is_cancelled));
        let sees = |word: &NodeWord| word.view_in_order().phase() != ScopePhase::Open;
        loom::model(move || check(nothing, |word| assert!(word.cancel()), sees));
    }

    #[test]
    fn whoever_ends_the_scope_sees_what_came_before_it_was_awaited() {
        let sees = |word: &NodeWord| word.remove_body().is_awaited();
        loom::model(move || check(nothing, |word| _ = word.set_awaited(), sees));
        let sees = |word: &NodeWord| word.remove_daemons().is_awaited();
        loom::model(move || check(only_daemons_are_left, |word| _ = word.set_awaited(), sees));
    }

    #[test]
    fn the_last_member_sees_what_those_before_it_did() {
        let two = |word: &NodeWord| assert!(word.add_adopted().is_some());
        let is_last = |word: &NodeWord| word.remove_body().has_ended();
        loom::model(move || check(two, |word| _ = word.remove_unit(), is_last));
        loom::model(move || check(two, |word| _ = word.remove_unit_of_several(), is_last));
        let is_last = |word: &NodeWord| word.remove_unit().has_ended();
        loom::model(move || check(two, |word| _ = word.remove_body(), is_last));
    }

    #[test]
    fn a_change_after_a_view_in_order_sees_what_came_before_the_view() {
        loom::model(|| {
            change_against_view_in_order(|word| _ = word.remove_body(), ScopeView::has_ended)
        });
        loom::model(|| {
            let is_cancelled = |view: ScopeView| view.phase() != ScopePhase::Open;
            change_against_view_in_order(|word| assert!(word.cancel()), is_cancelled)
        });
    }

    /// Whether `change` sees what came before the view, or `is_changed` says that it came first.
    fn change_against_view_in_order(change: fn(&NodeWord), is_changed: fn(ScopeView) -> bool) {
        let shared = Arc::new((NodeWord::new(), AtomicBool::new(false)));
        let viewer = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.store(true, Relaxed);
                is_changed(shared.0.view_in_order())
            }
        });
        change(&shared.0);
        let is_seen = shared.1.load(Relaxed);
        let was_first = viewer.join().unwrap();
        assert!(is_seen || was_first, "one of the two was first");
    }
}
