//! The scope that code runs in, and what it inherits.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_task::context::{FrameValue, find, with_frame};
use blitzen_task::scope::Member;
use pin_project_lite::pin_project;

use super::root::RootScope;
use super::scope_core::{self, Node, ScopeCore};
use crate::time::Instant;

/// The scope that code runs in.
pub(super) struct Here {
    /// The innermost scope: that of the body, or of the child that runs.
    pub(super) scope: Option<Arc<Node>>,
    /// Whether there is a shield inside that scope.
    pub(super) is_shielded: bool,
}

/// The deadline of a shield.
pub(super) struct ShieldDeadline(pub(super) Instant);

/// The scope of a frame or of a task.
fn scope_of(value: &dyn Any) -> Option<&Arc<Node>> {
    let member = || value.downcast_ref::<Member<ScopeCore>>()?.node();
    let root = || value.downcast_ref::<RootScope>().map(RootScope::node);
    let body = value.downcast_ref::<Arc<Node>>();
    body.or_else(member).or_else(root)
}

/// The scope that the calling code runs in.
pub(super) fn here() -> Here {
    let mut is_shielded = false;
    let scope = find(|value| match value {
        FrameValue::Shield => {
            is_shielded = true;
            None
        }
        FrameValue::Value(value) => scope_of(value).cloned(),
    });
    Here { scope, is_shielded }
}

/// The scope whose cancellation concerns the calling code.
pub(super) fn unshielded() -> Option<Arc<Node>> {
    let here = here();
    here.scope.filter(|_| !here.is_shielded)
}

/// What is around a scope in the task that polls it.
#[derive(Clone, Copy, Default)]
pub(super) struct Surroundings {
    /// Whether an abort of the task waits for a shield around the scope.
    pub(super) is_shielded: bool,
    /// If the body of its parent awaits the scope, the outermost such parent reacts to an abort of
    /// the task, and this scope only to its parent: whether that one was cancelled.
    pub(super) is_outermost_cancelled: Option<bool>,
}

/// What is around the calling code, which polls `node`.
pub(super) fn surroundings(node: &Arc<Node>) -> Surroundings {
    let parent_of = |node: &Node| node.owner().parent().map(Arc::as_ptr);
    let mut around = Surroundings::default();
    let mut parent = parent_of(node);
    find(|value| {
        match value {
            FrameValue::Shield => around.is_shielded = true,
            FrameValue::Value(value) => {
                // Not a root scope: no future of that one reacts to an abort.
                if let Some(body) = value.downcast_ref::<Arc<Node>>() {
                    let is_parent = parent == Some(Arc::as_ptr(body));
                    parent = is_parent.then(|| parent_of(body)).flatten();
                    if is_parent {
                        around.is_outermost_cancelled = Some(body.is_cancelled());
                    }
                }
            }
        }
        None::<()>
    });
    around
}

/// The time by which the calling code should have ended.
pub(super) fn deadline() -> Option<Instant> {
    find(|value| match value {
        FrameValue::Shield => Some(None),
        FrameValue::Value(value) => match value.downcast_ref::<ShieldDeadline>() {
            Some(shield) => Some(Some(shield.0)),
            None => scope_of(value).map(scope_core::deadline),
        },
    })
    .flatten()
}

/// Runs `code` as part of the body of the scope.
pub(super) fn inside<R>(node: &Arc<Node>, code: impl FnOnce() -> R) -> R {
    with_frame(FrameValue::Value(node), code)
}

pin_project! {
    /// A future that runs with a value in its context.
    pub(super) struct WithValue<V: 'static, F> {
        value: V,
        #[pin]
        future: Option<F>,
    }

    impl<V: 'static, F> PinnedDrop for WithValue<V, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let value = FrameValue::Value(this.value);
            with_frame(value, || this.future.set(None));
        }
    }
}

impl<V: 'static, F> WithValue<V, F> {
    pub(super) fn new(value: V, future: F) -> Self {
        Self {
            value,
            future: Some(future),
        }
    }
}

impl<V: 'static, F: Future> Future for WithValue<V, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(future) = this.future.as_pin_mut() else {
            unreachable!("only dropping takes it away");
        };
        with_frame(FrameValue::Value(this.value), || future.poll(cx))
    }
}
