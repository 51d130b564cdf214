//! The scope that code runs in, and what it inherits.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_task::context::{FrameValue, find, with_frame};
use blitzen_task::scope::Member;
use pin_project_lite::pin_project;

use super::scope_core::{self, Node, ScopeCore};
use crate::time::Instant;

/// Where code runs.
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
    let member = || value.downcast_ref::<Member<ScopeCore>>().map(Member::node);
    value.downcast_ref::<Arc<Node>>().or_else(member)
}

/// Where the calling code runs.
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

/// Whether an abort of the task waits for a shield around the calling code.
pub(super) fn is_inside_shield() -> bool {
    let shield = |value: FrameValue<'_>| matches!(value, FrameValue::Shield).then_some(());
    find(shield).is_some()
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
