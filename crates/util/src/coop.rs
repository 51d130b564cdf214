//! The cooperative budget of the task being polled.
//!
//! Each poll of a task starts with [`BUDGET`] units. Every operation that
//! could go on for ever without waiting (a lock, a channel, a socket) spends
//! one. When none are left, the operation returns `Pending` and arranges for the
//! task to be polled again later, so that one busy task cannot keep its worker from
//! the others.
//!
//! ```
//! use std::task::{Context, Poll, Waker};
//! use blitzen_util::coop;
//!
//! fn poll_recv(cx: &mut Context<'_>, queue: &mut Vec<u32>) -> Poll<u32> {
//!     let Poll::Ready(spent) = coop::poll_proceed(cx) else {
//!         return Poll::Pending; // the task will be woken
//!     };
//!     match queue.pop() {
//!         Some(value) => {
//!             spent.made_progress();
//!             Poll::Ready(value)
//!         }
//!         None => Poll::Pending, // the unit is given back
//!     }
//! }
//! # let mut cx = Context::from_waker(Waker::noop());
//! # assert_eq!(poll_recv(&mut cx, &mut vec![1]), Poll::Ready(1));
//! ```
//!
//! Outside a task there is no limit.
//!
//! A trace ([`with_trace`]) refuses every operation, to learn which ones a future arrives at.
//!
//! A [`Budget`] can be larger than what is counted here at a time, and can have a time limit. Then
//! units are handed out in portions, and the clock is read for each portion: operations that find
//! units left never read it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::wait::{self, WaitKind};

/// Operations a task may do in one poll before it has to yield.
pub const BUDGET: u8 = 128;

/// What [`LEFT`] holds when no unit is left: one as long as no operation was refused, zero
/// after the first one was.
const SPENT_UP: u8 = 1;
const REFUSED: u8 = 0;

/// A full budget, as [`LEFT`] holds it.
const FULL: u8 = BUDGET + SPENT_UP;

/// No limit: outside a task, or inside `unconstrained`.
const UNLIMITED: u8 = u8::MAX;

/// The most units that a poll gets at once.
const PORTION: u8 = UNLIMITED - SPENT_UP - 1;
/// The same with a time limit: the clock is read for each portion.
const TIMED_PORTION: u8 = 4;

/// What a task may do in one poll before it has to yield.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::runtime::{Budget, Builder};
///
/// let budget = Budget::new(256, Some(Duration::from_micros(100)));
/// let runtime = Builder::new_multi_thread().budget(budget).build().unwrap();
/// # drop(runtime);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    operations: u32,
    time: Option<Duration>,
}

impl Budget {
    /// Creates a budget of `operations` operations, and of `time` if it is given.
    ///
    /// It has at least one operation.
    /// The time is looked at every few operations. It is real time, also while the clock of the
    /// runtime is paused.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Budget;
    ///
    /// assert_eq!(Budget::new(0, None).operations(), 1);
    /// ```
    pub fn new(operations: u32, time: Option<Duration>) -> Self {
        let operations = operations.max(1);
        Self { operations, time }
    }

    /// Returns how many operations it has.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Budget;
    ///
    /// assert_eq!(Budget::default().operations(), 128);
    /// ```
    pub fn operations(self) -> u32 {
        self.operations
    }

    /// Returns its time limit, if it has one.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Budget;
    ///
    /// assert_eq!(Budget::default().time(), None);
    /// ```
    pub fn time(self) -> Option<Duration> {
        self.time
    }

    fn begin(self) -> BudgetState {
        let mut reserve = Reserve {
            units: self.operations,
            deadline: self.time.map(|time| Instant::now().checked_add(time)),
        };
        BudgetState {
            left: reserve.take() + SPENT_UP,
            reserve,
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            operations: BUDGET.into(),
            time: None,
        }
    }
}

/// The units for later portions of a budget.
#[derive(Clone, Copy)]
struct Reserve {
    units: u32,
    /// When they are lost, if the budget has a time limit; never if the clock has no such time.
    deadline: Option<Option<Instant>>,
}

impl Reserve {
    const EMPTY: Self = Self {
        units: 0,
        deadline: None,
    };

    /// Whether there are units, and there is time for them.
    fn is_usable(&self) -> bool {
        let is_late = || match self.deadline {
            Some(Some(end)) => Instant::now() >= end,
            None | Some(None) => false,
        };
        self.units > 0 && !is_late()
    }

    /// Takes the next portion out, without a look at the time.
    fn take(&mut self) -> u8 {
        let most = match self.deadline {
            None => PORTION,
            Some(_) => TIMED_PORTION,
        };
        let portion = self.units.min(most.into());
        self.units -= portion;
        portion as u8
    }
}

/// All that is known of the budget of a poll.
#[derive(Clone, Copy)]
struct BudgetState {
    left: u8,
    reserve: Reserve,
}

impl BudgetState {
    const NO_LIMIT: Self = Self {
        left: UNLIMITED,
        reserve: Reserve::EMPTY,
    };

    /// Makes this the state of the thread; returns what was before. A thread that is going
    /// away has none.
    fn install(self) -> Self {
        let left = LEFT.try_with(|left| left.replace(self.left));
        let reserve = RESERVE.try_with(|reserve| reserve.replace(self.reserve));
        match (left, reserve) {
            (Ok(left), Ok(reserve)) => Self { left, reserve },
            _ => Self::NO_LIMIT,
        }
    }
}

const _: () = assert!(FULL < UNLIMITED);

/// Called when an operation is refused, once in a poll.
static ON_FORCED_YIELD: OnceLock<fn()> = OnceLock::new();

thread_local! {
    /// The units that are left, plus [`SPENT_UP`]; or [`REFUSED`], or [`UNLIMITED`].
    static LEFT: Cell<u8> = const { Cell::new(UNLIMITED) };
    /// What is left when those are used up.
    static RESERVE: Cell<Reserve> = const { Cell::new(Reserve::EMPTY) };
    static DEFER: Cell<Option<fn(&Waker)>> = const { Cell::new(None) };
    /// What a trace calls for each operation; `None` outside a trace.
    static TRACE: Cell<Option<fn(&Waker)>> = const { Cell::new(None) };
}

/// Restores the previous budget on drop.
struct Restore(BudgetState);

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.install();
    }
}

/// Restores the units that were left on drop.
struct RestoreLeft(u8);

impl RestoreLeft {
    /// Replaces the units that are left.
    fn new(left: u8) -> Self {
        let before = LEFT.try_with(|before| before.replace(left));
        Self(before.unwrap_or(UNLIMITED))
    }
}

impl Drop for RestoreLeft {
    fn drop(&mut self) {
        // A thread that is ending has no budget to restore.
        let _ = LEFT.try_with(|left| left.set(self.0));
    }
}

/// Runs `poll` with a full budget.
#[inline]
pub fn with_budget<R>(poll: impl FnOnce() -> R) -> R {
    with_budget_of(Budget::default(), poll)
}

/// Runs `poll` with `budget`.
#[inline]
pub fn with_budget_of<R>(budget: Budget, poll: impl FnOnce() -> R) -> R {
    let has_portions = RESERVE.try_with(|reserve| reserve.get().units != 0);
    if budget != Budget::default() || has_portions.unwrap_or(true) {
        return with_portions_of(budget, poll);
    }
    let _restore = RestoreLeft::new(FULL);
    poll()
}

/// [`with_budget_of`] where one of the budgets, this one or that before, is handed out in portions.
#[inline(never)]
fn with_portions_of<R>(budget: Budget, poll: impl FnOnce() -> R) -> R {
    let _restore = Restore(budget.begin().install());
    poll()
}

/// Runs `poll` without a limit.
#[inline]
pub fn with_unconstrained<R>(poll: impl FnOnce() -> R) -> R {
    let _restore = RestoreLeft::new(UNLIMITED);
    poll()
}

/// Runs `poll` as a trace: every operation that would spend a unit calls `on_leaf` instead, which
/// arranges for the waker to be woken later, and returns `Pending`.
pub fn with_trace<R>(on_leaf: fn(&Waker), poll: impl FnOnce() -> R) -> R {
    struct RestoreTrace(Option<fn(&Waker)>);
    impl Drop for RestoreTrace {
        fn drop(&mut self) {
            // A thread that is ending has no trace to restore.
            let _ = TRACE.try_with(|trace| trace.set(self.0));
        }
    }
    let before = TRACE.try_with(|trace| trace.replace(Some(on_leaf)));
    let _restore = RestoreTrace(before.unwrap_or(None));
    // Operations look at the budget first, so that a trace costs nothing while there is none.
    let refusing = BudgetState {
        left: REFUSED,
        reserve: Reserve::EMPTY,
    };
    let _restore_budget = Restore(refusing.install());
    poll()
}

/// Sets a full budget for the polls that follow on this thread, until
/// [`stop`]. A worker does this around each poll, where a guard would cost more
/// than the poll.
#[inline]
pub fn start() {
    LEFT.with(|left| left.set(FULL));
}

/// Removes the limit.
#[inline]
pub fn stop() {
    LEFT.with(|left| left.set(UNLIMITED));
}

/// Whether there is no limit.
#[inline]
pub fn is_unconstrained() -> bool {
    LEFT.try_with(|left| left.get() == UNLIMITED)
        .unwrap_or(true)
}

/// Whether the next operation may proceed.
#[inline]
pub fn has_budget_remaining() -> bool {
    has_unit() || has_reserve()
}

/// Whether [`poll_proceed`] finds a unit without looking for another portion.
#[inline]
pub fn has_unit() -> bool {
    LEFT.try_with(|left| left.get() > SPENT_UP).unwrap_or(true)
}

/// Whether there is another portion of the budget.
#[cold]
fn has_reserve() -> bool {
    RESERVE
        .try_with(|reserve| reserve.get().is_usable())
        .unwrap_or(false)
}

/// Gets the next portion of the budget; returns false if there is none.
#[cold]
fn refill() -> bool {
    let has_more = has_reserve();
    if has_more {
        let portion = RESERVE.with(|reserve| {
            let mut after = reserve.get();
            let portion = after.take();
            reserve.set(after);
            portion
        });
        LEFT.with(|left| left.set(portion + SPENT_UP));
    }
    has_more
}

/// A unit that was spent. It is given back on drop, unless the operation
/// [made progress](Spent::made_progress).
#[derive(Debug)]
#[must_use = "a unit that is dropped at once was not spent"]
pub struct Spent {
    before: u8,
    /// The budget belongs to this thread.
    not_send: PhantomData<*const ()>,
}

impl Spent {
    /// Keeps the unit spent, since the operation made progress.
    #[inline(always)]
    pub fn made_progress(self) {
        std::mem::forget(self);
    }
}

impl Drop for Spent {
    #[inline]
    fn drop(&mut self) {
        if self.before != UNLIMITED {
            let _ = LEFT.try_with(|left| left.set(self.before));
        }
    }
}

/// Spends a unit. If none is left, arranges for the task to be woken later and
/// returns `Pending`.
#[inline]
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<Spent> {
    let mut before = LEFT.try_with(Cell::get).unwrap_or(UNLIMITED);
    while before <= SPENT_UP {
        if !refill() {
            return defer_task(cx);
        }
        before = LEFT.with(Cell::get);
    }
    if before != UNLIMITED {
        LEFT.with(|left| left.set(before - 1));
    }
    Poll::Ready(Spent {
        before,
        not_send: PhantomData,
    })
}

/// [`poll_proceed`] for a future that polls another one: a trace goes on to that.
#[inline]
pub fn poll_proceed_to_inner(cx: &mut Context<'_>) -> Poll<Spent> {
    match has_unit() || !is_tracing() {
        true => poll_proceed(cx),
        false => Poll::Ready(Spent {
            before: REFUSED,
            not_send: PhantomData,
        }),
    }
}

/// Spends a unit on an operation that is known to make progress; returns false if the caller has
/// to fall back to [`poll_proceed`], since none is left or the next portion is to be fetched.
#[inline]
pub fn try_spend() -> bool {
    LEFT.try_with(|left| match left.get() {
        UNLIMITED => true,
        REFUSED | SPENT_UP => false,
        units => {
            left.set(units - 1);
            true
        }
    })
    .unwrap_or(true)
}

/// Returns `Pending` if no unit is left, and arranges for the task to be woken
/// later. Spends nothing. It is for futures that poll others: a trace goes on to those.
#[inline]
pub fn poll_budget_available(cx: &mut Context<'_>) -> Poll<()> {
    match has_budget_remaining() || is_tracing() {
        true => Poll::Ready(()),
        false => defer_task(cx),
    }
}

/// Whether this is a trace. Asked only where no unit is left.
#[cold]
fn is_tracing() -> bool {
    TRACE.try_with(|trace| trace.get().is_some()) == Ok(true)
}

#[cold]
fn defer_task<T>(cx: &mut Context<'_>) -> Poll<T> {
    if let Ok(Some(on_leaf)) = TRACE.try_with(Cell::get) {
        on_leaf(cx.waker());
        return Poll::Pending;
    }
    if LEFT.try_with(|left| left.replace(REFUSED)) == Ok(SPENT_UP)
        && let Some(count) = ON_FORCED_YIELD.get()
    {
        count();
    }
    wait::pending(WaitKind::Budget, 0);
    defer(cx.waker());
    Poll::Pending
}

/// Wakes `waker` after other tasks have run, as the runtime of this thread does it
/// ([`set_defer`]); at once if there is none.
pub fn defer(waker: &Waker) {
    match DEFER.try_with(Cell::get) {
        Ok(Some(later)) => later(waker),
        _ => waker.wake_by_ref(),
    }
}

/// Sets the function that is called when a budget is used up and an operation is refused
/// for it, once in a poll. The first one that is set stays.
pub fn set_on_forced_yield(count: fn()) {
    ON_FORCED_YIELD.get_or_init(|| count);
}

/// Sets the function that [`defer`] calls on this thread; returns the previous one.
pub fn set_defer(later: Option<fn(&Waker)>) -> Option<fn(&Waker)> {
    DEFER.with(|slot| slot.replace(later))
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn spend() -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match poll_proceed(&mut cx) {
            Poll::Ready(spent) => {
                spent.made_progress();
                true
            }
            Poll::Pending => false,
        }
    }

    #[test]
    fn a_poll_has_a_hundred_and_twenty_eight_units() {
        let done = with_budget(|| (0..1000).filter(|_| spend()).count());
        assert_eq!(done, 128);
    }

    #[test]
    fn a_budget_can_have_another_number_of_units() {
        for units in [1, 3, 4, 5, 128, 252, 253, 254, 255, 256, 1000, 60_000] {
            for time in [None, Some(Duration::from_secs(3600))] {
                let budget = Budget::new(units, time);
                let done = with_budget_of(budget, || (0..units + 300).filter(|_| spend()).count());
                assert_eq!(done, units as usize, "{budget:?}");
                let tried = with_budget_of(budget, || {
                    (0..units + 300).filter(|_| try_spend() || spend()).count()
                });
                assert_eq!(tried, units as usize, "{budget:?}");
            }
        }
        assert_eq!(Budget::new(0, None).operations(), 1);
        let most = Budget::new(u32::MAX, None);
        assert!(with_budget_of(most, || (0..100_000).all(|_| spend())));
    }

    #[test]
    fn a_budget_whose_time_is_up_is_refused_at_the_next_portion() {
        let budget = Budget::new(1000, Some(Duration::ZERO));
        with_budget_of(budget, || {
            assert_eq!(
                (0..1000).filter(|_| spend()).count(),
                usize::from(TIMED_PORTION)
            );
            assert!(!has_budget_remaining() && !try_spend());
        });
        assert!(has_budget_remaining(), "outside there is no limit");
    }

    #[test]
    fn budgets_nest_and_what_was_left_comes_back() {
        let hour = Some(Duration::from_secs(3600));
        with_budget_of(Budget::new(10, hour), || {
            assert_eq!((0..5).filter(|_| spend()).count(), 5);
            with_budget(|| assert_eq!((0..1000).filter(|_| spend()).count(), 128));
            assert_eq!((0..1000).filter(|_| spend()).count(), 5);
        });
    }

    #[test]
    fn a_unit_without_progress_comes_back() {
        let mut cx = Context::from_waker(Waker::noop());
        with_budget(|| {
            for _ in 0..1000 {
                assert!(poll_proceed(&mut cx).is_ready());
            }
        });
    }

    #[test]
    fn outside_a_task_and_when_unconstrained_there_is_no_limit() {
        assert!((0..1000).all(|_| spend()));
        with_budget(|| {
            with_unconstrained(|| assert!((0..1000).all(|_| spend())));
            assert_eq!((0..1000).filter(|_| spend()).count(), 128);
            assert!(!has_budget_remaining() && !try_spend());
        });
        assert!(has_budget_remaining() && try_spend());
    }

    #[test]
    fn a_budget_that_is_used_up_is_counted_once_in_a_poll() {
        thread_local!(static FORCED: Cell<u32> = const { Cell::new(0) });
        set_on_forced_yield(|| FORCED.with(|n| n.set(n.get() + 1)));
        let before = FORCED.with(Cell::get);
        for _ in 0..2 {
            with_budget(|| (0..128).for_each(|_| assert!(spend())));
            with_budget(|| assert_eq!((0..140).filter(|_| spend()).count(), 128));
        }
        assert_eq!(FORCED.with(Cell::get) - before, 2);
    }

    #[test]
    fn the_exhausted_task_is_deferred_the_way_the_runtime_says() {
        thread_local!(static DEFERRED: Cell<u32> = const { Cell::new(0) });
        let before = set_defer(Some(|_| DEFERRED.with(|n| n.set(n.get() + 1))));
        with_budget(|| {
            for _ in 0..130 {
                spend();
            }
        });
        set_defer(before);
        assert_eq!(DEFERRED.with(Cell::get), 2);
    }

    #[test]
    fn a_trace_refuses_every_operation_but_goes_on_to_inner_futures() {
        thread_local!(static LEAVES: Cell<u32> = const { Cell::new(0) });
        let on_leaf: fn(&Waker) = |_| LEAVES.with(|leaves| leaves.set(leaves.get() + 1));
        let mut cx = Context::from_waker(Waker::noop());
        with_budget(|| {
            with_trace(on_leaf, || {
                assert!(!spend() && !spend() && !try_spend());
                assert!(poll_budget_available(&mut cx).is_ready());
                assert!(poll_proceed_to_inner(&mut cx).is_ready());
                assert!(!spend(), "what was spent was given back");
            });
            assert_eq!(LEAVES.with(Cell::get), 3);
            assert_eq!((0..1000).filter(|_| spend()).count(), 128);
            assert!(poll_budget_available(&mut cx).is_pending());
            assert!(poll_proceed_to_inner(&mut cx).is_pending());
        });
        assert_eq!(LEAVES.with(Cell::get), 3);
    }
}
