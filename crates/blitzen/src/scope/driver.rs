//! The timer of a scope, and the wait for its end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_sync::cancel::CancelledOwned;
use blitzen_task::SpawnMeta;
use blitzen_task::glue::next_id;
use blitzen_task::scope::{ScopePhase, ScopeView};
use blitzen_util::quiet::quietly;

use super::error::Stopped;
use super::kept_node;
use super::scope_core::{self, Cause, NextTime, Node, Settings};
use crate::runtime::context as runtime_context;
use crate::time::{Instant, Sleep, sleep_until};

/// A scope and its timer.
pub(super) struct Driver {
    pub(super) node: Arc<Node>,
    timer: Option<Pin<Box<Sleep>>>,
    /// A scope with a grace of its own has to know when its parent is cancelled.
    parent_cancelled: Option<Pin<Box<CancelledOwned>>>,
}

impl Driver {
    /// Opens a scope.
    pub(super) fn open(settings: Option<Box<Settings>>) -> Self {
        let node = kept_node::open(settings);
        let parent = node.owner().parent().filter(|_| node.owner().has_grace());
        let parent_cancelled =
            parent.map(|parent| Box::pin(scope_core::token(parent).cancelled_owned()));
        Self {
            node,
            timer: None,
            parent_cancelled,
        }
    }

    /// Ends the scope of `this`, whose body has ended, if it was not cancelled and nobody else knows
    /// of it any more; returns whether that is so.
    #[inline]
    pub(super) fn end_if_alone(this: &mut Option<Self>) -> bool {
        let is_alone = this.as_ref().is_some_and(|driver| {
            kept_node::is_exclusive(&driver.node) && driver.node.view().is_new()
        });
        if is_alone && let Some(driver) = this.take() {
            // SAFETY: it is exclusive.
            unsafe { kept_node::keep(driver.node) };
        }
        is_alone
    }

    /// Ends with the scope, which has ended; returns why it was cancelled.
    pub(super) fn end(self) -> Option<Cause> {
        let cause = self.node.take_cause();
        if kept_node::is_exclusive(&self.node) {
            // SAFETY: it is.
            unsafe { kept_node::keep(self.node) };
        }
        cause
    }

    /// Cancels the scope, unless it was.
    pub(super) fn cancel(&self, cause: Cause) {
        if let Err(later) = self.node.begin_cancel(cause) {
            quietly(|| drop(later));
        }
    }

    /// Cancels or forces the scope if it is time to, and otherwise sets the timer.
    #[inline]
    pub(super) fn poll_times(&mut self, cx: &mut Context<'_>) {
        if self.parent_cancelled.is_some() || self.node.owner().is_timed() {
            self.poll_times_set(cx);
        }
    }

    fn poll_times_set(&mut self, cx: &mut Context<'_>) {
        if let Some(cancelled) = &mut self.parent_cancelled
            && cancelled.as_mut().poll(cx).is_ready()
        {
            self.parent_cancelled = None;
            self.cancel(Cause::Stopped(Stopped::Cancelled));
        }
        loop {
            let phase = self.node.view().phase();
            match scope_core::next_time(&self.node, phase) {
                NextTime::Never => {
                    self.timer = None;
                    return;
                }
                NextTime::At(time) if self.poll_timer(time, cx).is_pending() => return,
                NextTime::At(_) | NextTime::Now => {}
            }
            match phase {
                ScopePhase::Open => self.cancel(Cause::Stopped(Stopped::Deadline)),
                ScopePhase::Cancelling | ScopePhase::Forced => self.node.force(),
            }
        }
    }

    fn poll_timer(&mut self, time: Instant, cx: &mut Context<'_>) -> Poll<()> {
        // The scope may be polled where no runtime is entered, or another.
        let runtime = self.node.owner().runtime();
        let _entered = runtime.and_then(runtime_context::try_enter);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(time)));
        if timer.deadline() != time {
            timer.as_mut().reset(time);
        }
        timer.as_mut().poll(cx)
    }

    /// Has the scope and its timer wake `cx` when something happens. Returns a snapshot of the
    /// scope.
    pub(super) fn poll_view(&mut self, cx: &mut Context<'_>) -> ScopeView {
        loop {
            let view = self.node.register(cx.waker());
            if view.has_ended() {
                return view;
            }
            let timer = self.timer.as_ref();
            let is_set = match scope_core::next_time(&self.node, view.phase()) {
                NextTime::Never => true,
                NextTime::At(time) => timer.is_some_and(|timer| timer.deadline() <= time),
                NextTime::Now => false,
            };
            if is_set {
                return view;
            }
            self.poll_times_set(cx);
        }
    }

    /// Makes a scope around this one wait for its members: its future is dropped, and it was
    /// cancelled.
    pub(super) fn hand_over(self) {
        self.node.unregister();
        let mut around = self.node.owner().around();
        while let Some(scope) = around
            && !self.node.view().has_ended()
            && !self.node.adopt_into(scope)
        {
            around = scope.owner().around();
        }
        let view = self.node.view();
        if !view.has_ended() && view.phase() != ScopePhase::Forced {
            // Nobody polls it any more, so a task ends its grace.
            let runtime = self.node.owner().runtime().cloned();
            if let Some(runtime) = runtime {
                let meta = SpawnMeta::caller().named("scope");
                quietly(|| drop(runtime.inner.spawn(EndGrace(self), next_id(), meta)));
            }
        }
    }
}

/// Ends the grace of a scope whose future was dropped.
struct EndGrace(Driver);

impl Future for EndGrace {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_times(cx);
        match self.0.poll_view(cx).has_ended() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}
