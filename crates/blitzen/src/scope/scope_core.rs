//! What a scope knows beside its members: times, token, limit, and what to do with failures.
//!
//! A scope has a *parent* and a scope *around* it, which are usually the same. The parent's
//! cancellation is its own too; a scope opened under a shield has no parent. The scope around it
//! adopts it if it is dropped before it is empty.
//!
//! Nothing is registered with the parent. A scope asks its ancestors whether they were cancelled. A
//! token is made when somebody first waits for the cancellation. Members are aborted from the
//! outside in: a parent aborts its children and drops its body, which aborts or drops the scopes
//! inside.

use std::any::Any;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use blitzen_sync::{CancelToken, Notify};
use blitzen_task::Payload;
use blitzen_task::scope::{ScopeNode, ScopeOwner, ScopePhase};
use blitzen_util::quiet::quietly;

use super::context;
use super::error::Stopped;
use super::inherited::Bindings;
use crate::dispatch::Dispatcher;
use crate::runtime::Handle;
use crate::time::Instant;

/// The members of a scope, and all else it knows.
pub(crate) type Node = ScopeNode<ScopeCore>;

/// The first reason for a scope to be cancelled.
pub(crate) enum Cause {
    /// Cancelled, or a deadline.
    Stopped(Stopped),
    /// The body returned an error, which the scope's future has.
    Body,
    /// A child returned an error: the scope's `E`.
    Error(Box<dyn Any + Send>),
    /// A child or the body panicked.
    Panic(Payload),
    /// Only daemons were left.
    Finished,
}

/// How a child failed, whatever the error's type.
pub(super) enum AnyFailure {
    Error(Box<dyn Any + Send>),
    Panic(Payload),
}

pub(super) type Supervisor = Box<dyn Fn(AnyFailure) + Send + Sync>;

/// What a builder sets. Most scopes have none.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) name: Option<Box<str>>,
    pub(super) deadline: Option<Instant>,
    pub(super) grace: Option<Duration>,
    pub(super) limit: Option<usize>,
    /// Notified when a child leaves, if there is a limit.
    pub(super) room: Notify,
    pub(super) supervisor: Option<Supervisor>,
    pub(super) dispatcher: Option<Dispatcher>,
    /// Whether a thread waits for the children, which borrow from it.
    pub(super) is_borrowing: bool,
}

/// What a scope knows beside its members.
pub(crate) struct ScopeCore {
    /// Where its children and its timer run; `None` if it was first polled outside a runtime, and has
    /// no dispatcher.
    runtime: Option<Handle>,
    around: Option<Arc<Node>>,
    /// Opened under a shield: it has no parent.
    is_shielded: bool,
    /// The deadline of the shield that it was opened under.
    shield_deadline: Option<Instant>,
    settings: Option<Box<Settings>>,
    /// Where its children run: its own, or that of the scope around it.
    dispatcher: Option<Dispatcher>,
    /// Failures that came after the scope was cancelled.
    later_failures: AtomicUsize,
    /// Whether there is anything in `times`.
    is_timed: AtomicBool,
    times: Mutex<Times>,
    /// For those who wait for the cancellation; made when it is first needed.
    token: OnceLock<CancelToken>,
}

#[derive(Clone, Copy, Default)]
struct Times {
    deadline: Option<Instant>,
    /// When members that have not ended are aborted, once the scope was cancelled.
    end_of_grace: Option<Instant>,
}

impl ScopeCore {
    /// A scope opened here.
    pub(super) fn open(mut settings: Option<Box<Settings>>) -> Self {
        let own = settings
            .as_mut()
            .and_then(|settings| settings.dispatcher.take());
        let mut core = Self::new(settings);
        core.dispatcher = own;
        core.enter_here();
        let dispatcher = core.dispatcher.as_ref();
        let of_dispatcher = || dispatcher.map(|dispatcher| dispatcher.runtime().clone());
        core.runtime = Handle::try_current().ok().or_else(of_dispatcher);
        core
    }

    /// Notes what a scope is inside of that is opened here. As yet it is inside nothing.
    pub(super) fn enter_here(&mut self) {
        let here = context::here();
        if here.is_shielded {
            self.is_shielded = true;
            self.shield_deadline = context::deadline();
        }
        if let Some(around) = here.scope {
            if self.dispatcher.is_none() {
                self.dispatcher = around.owner().dispatcher.clone();
            }
            self.around = Some(around);
        }
    }

    /// Undoes [`enter_here`](Self::enter_here) and returns true, if the scope is otherwise as a
    /// new one without settings in the runtime that is current.
    pub(super) fn make_new(&mut self) -> bool {
        let is_new = self.settings.is_none()
            && !*self.is_timed.get_mut()
            && self.token.get().is_none()
            && self.runtime.as_ref().is_some_and(Handle::is_current);
        if is_new {
            self.is_shielded = false;
            self.shield_deadline = None;
            if self.around.is_some() {
                self.dispatcher = None;
                self.around = None;
            }
        }
        is_new
    }

    /// A scope that is inside no other.
    pub(super) fn root(settings: Settings) -> Self {
        Self::new(Some(Box::new(settings)))
    }

    fn new(settings: Option<Box<Settings>>) -> Self {
        let times = Times {
            deadline: settings.as_ref().and_then(|settings| settings.deadline),
            end_of_grace: None,
        };
        Self {
            runtime: None,
            around: None,
            is_shielded: false,
            shield_deadline: None,
            settings,
            dispatcher: None,
            later_failures: AtomicUsize::new(0),
            is_timed: AtomicBool::new(times.deadline.is_some()),
            times: Mutex::new(times),
            token: OnceLock::new(),
        }
    }

    fn settings(&self) -> Option<&Settings> {
        self.settings.as_deref()
    }

    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.runtime.as_ref()
    }

    /// Where its children run, if that is not where all tasks do.
    pub(super) fn dispatcher(&self) -> Option<&Dispatcher> {
        self.dispatcher.as_ref()
    }

    /// The scope that adopts this one, if it has not ended itself.
    pub(super) fn around(&self) -> Option<&Arc<Node>> {
        self.around.as_ref()
    }

    /// The scope whose cancellation is this one's too.
    pub(super) fn parent(&self) -> Option<&Arc<Node>> {
        self.around.as_ref().filter(|_| !self.is_shielded)
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.settings()?.name.as_deref()
    }

    fn grace(&self) -> Option<Duration> {
        self.settings()?.grace
    }

    pub(super) fn has_grace(&self) -> bool {
        self.grace().is_some()
    }

    /// How many children it may have at a time, and what is notified when one leaves.
    pub(super) fn limit(&self) -> Option<(usize, &Notify)> {
        let settings = self.settings()?;
        Some((settings.limit?, &settings.room))
    }

    fn supervisor(&self) -> Option<&Supervisor> {
        self.settings()?.supervisor.as_ref()
    }

    pub(super) fn later_failures(&self) -> usize {
        self.later_failures.load(Relaxed)
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn set_times(&self, set: impl FnOnce(&mut Times)) {
        set(&mut self.times());
        // Release, met by the Acquire in `is_timed`.
        self.is_timed.store(true, Release);
    }

    /// Whether it has, or had, a deadline or a grace that is running.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.is_timed.load(Acquire)
    }

    pub(super) fn set_deadline(&self, deadline: Instant) {
        self.set_times(|times| times.deadline = Some(deadline));
    }

    /// When the next thing happens to a scope in `phase`.
    pub(super) fn next_time(&self, phase: ScopePhase) -> Option<Instant> {
        if !self.is_timed() {
            return None;
        }
        match phase {
            ScopePhase::Open => self.times().deadline,
            ScopePhase::Cancelling => self.times().end_of_grace,
            ScopePhase::Forced => None,
        }
    }
}

impl ScopeOwner for ScopeCore {
    type Cause = Cause;
    type Inherited = Bindings;

    fn finished() -> Cause {
        Cause::Finished
    }

    fn cancelled(node: &Arc<Node>) {
        let core = node.owner();
        let end = end_of_grace(node);
        if end.is_some() {
            // Before the token: scopes inside are woken by it, and end no later.
            core.set_times(|times| times.end_of_grace = end);
        }
        if let Some(token) = core.token.get() {
            quietly(|| token.cancel()); // wakers
        }
        match end {
            None => node.force(),
            Some(_) => node.wake_owner(), // it has a timer to set
        }
    }

    fn is_borrowing(&self) -> bool {
        self.settings()
            .is_some_and(|settings| settings.is_borrowing)
    }

    fn is_limited(&self) -> bool {
        self.limit().is_some()
    }

    #[inline]
    fn left(&self) {
        if let Some((_, room)) = self.limit() {
            quietly(|| room.notify_waiters());
        }
    }

    fn panicked(node: &Arc<Node>, payload: Payload) {
        fail(node, AnyFailure::Panic(payload));
    }
}

impl Drop for ScopeCore {
    /// A handle that was kept may be the last of a long chain of scopes: no recursion.
    fn drop(&mut self) {
        let mut around = self.around.take();
        while let Some(mut node) = around.and_then(Arc::into_inner) {
            around = node.owner_mut().around.take();
        }
    }
}

/// When the next thing happens to a scope.
pub(super) enum NextTime {
    Never,
    Now,
    At(Instant),
}

/// When the next thing happens to a scope in `phase`.
#[inline]
pub(super) fn next_time(node: &Arc<Node>, phase: ScopePhase) -> NextTime {
    match phase {
        ScopePhase::Open => match node.owner().next_time(phase) {
            Some(deadline) => NextTime::At(deadline),
            None => NextTime::Never,
        },
        ScopePhase::Cancelling => match end_of_grace(node) {
            Some(end) => NextTime::At(end),
            None => NextTime::Now,
        },
        ScopePhase::Forced => NextTime::Never,
    }
}

/// When the members of a scope that was cancelled are aborted: after its own grace, or that of an
/// ancestor, which may be cancelled later and end earlier; `None`: now.
fn end_of_grace(node: &Arc<Node>) -> Option<Instant> {
    let mut end = end_of_own_grace(node)?;
    for ancestor in ancestors(node) {
        match ancestor.view().phase() {
            ScopePhase::Open => {}
            ScopePhase::Cancelling => end = end.min(end_of_own_grace(ancestor)?),
            ScopePhase::Forced => return None,
        }
    }
    Some(end)
}

/// When the grace of a scope that was cancelled ends; `None` if it has none.
fn end_of_own_grace(node: &Arc<Node>) -> Option<Instant> {
    let core = node.owner();
    let grace = core.grace().filter(|grace| !grace.is_zero())?;
    let stored = core.next_time(ScopePhase::Cancelling);
    // If it is not stored yet, the scope is being cancelled at this moment.
    Some(stored.unwrap_or_else(|| Instant::after(grace)))
}

/// The scopes whose cancellation is that of `node` too, the innermost first.
fn ancestors(node: &Arc<Node>) -> impl Iterator<Item = &Arc<Node>> {
    std::iter::successors(node.owner().parent(), |node| node.owner().parent())
}

/// Whether the scope or an ancestor was cancelled.
pub(super) fn is_cancelled(node: &Arc<Node>) -> bool {
    node.is_cancelled() || ancestors(node).any(|ancestor| ancestor.is_cancelled())
}

/// The earliest deadline of the scope and its ancestors.
pub(super) fn deadline(node: &Arc<Node>) -> Option<Instant> {
    std::iter::once(node)
        .chain(ancestors(node))
        .flat_map(|node| {
            let core = node.owner();
            [core.next_time(ScopePhase::Open), core.shield_deadline]
        })
        .flatten()
        .min()
}

/// The token that is cancelled with the scope.
pub(super) fn token(node: &Arc<Node>) -> CancelToken {
    let mut without = Vec::new();
    let mut token = None;
    for node in std::iter::once(node).chain(ancestors(node)) {
        token = node.owner().token.get().cloned();
        if token.is_some() {
            break;
        }
        without.push(node);
    }
    for node in without.into_iter().rev() {
        let made = node.owner().token.get_or_init(|| match &token {
            Some(parent) => parent.child_token(),
            None => CancelToken::new(),
        });
        // After it was stored, and in order: a thread that cancels either sees the token, or
        // has set the phase that is seen here.
        if node.view_in_order().phase() != ScopePhase::Open {
            made.cancel();
        }
        token = Some(made.clone());
    }
    token.unwrap_or_default()
}

/// A member of the scope has failed.
pub(super) fn fail(node: &Arc<Node>, failure: AnyFailure) {
    let core = node.owner();
    if let Some(supervisor) = core.supervisor() {
        return quietly(|| supervisor(failure));
    }
    cancel_or_count(
        node,
        match failure {
            AnyFailure::Error(error) => Cause::Error(error),
            AnyFailure::Panic(payload) => Cause::Panic(payload),
        },
    );
}

/// Cancels the scope for a failure, or counts the failure if the scope was cancelled before.
pub(super) fn cancel_or_count(node: &Arc<Node>, failure: Cause) {
    if let Err(later) = node.begin_cancel(failure) {
        node.owner().later_failures.fetch_add(1, Relaxed);
        quietly(|| drop(later));
    }
}
