//! The node that a thread keeps for its next scope: most scopes end where they began, and nobody has
//! a handle of them then.
//!
//! K1. Nobody else has the node that is kept. It is as a new one whose runtime is the current one
//!     of the thread: a thread that enters or leaves a runtime [forgets](forget) it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::fence;

use super::scope_core::{Node, ScopeCore, Settings};

thread_local! {
    static KEPT: Cell<Option<Arc<Node>>> = const { Cell::new(None) };
}

/// Takes the node that is kept; `None` also on a thread that is ending.
fn take() -> Option<Arc<Node>> {
    KEPT.try_with(Cell::take).ok().flatten()
}

/// The node of a scope that is opened here.
pub(super) fn open(settings: Option<Box<Settings>>) -> Arc<Node> {
    if settings.is_none()
        && let Some(mut node) = take()
    {
        // SAFETY: K1.
        unsafe { exclusive(&mut node) }.owner_mut().enter_here();
        return node;
    }
    Arc::new(Node::new(ScopeCore::open(settings)))
}

/// Whether nobody else has `node`. Then what others did before they let go of it is seen.
#[inline]
pub(super) fn is_exclusive(node: &Arc<Node>) -> bool {
    // Nobody makes a `Weak` of a node.
    let is_exclusive = Arc::strong_count(node) == 1;
    // Acquire, met by the Release of a reference that is dropped.
    fence(Acquire);
    is_exclusive
}

/// Keeps the node of a scope that has ended, if it can be used again.
///
/// # Safety
/// The node [is exclusive](is_exclusive).
pub(super) unsafe fn keep(mut node: Arc<Node>) {
    // SAFETY: as the caller guarantees.
    let exclusive = unsafe { exclusive(&mut node) };
    if exclusive.renew() && exclusive.owner_mut().make_new() {
        // Dropped outside the cell, on a thread that is ending too.
        drop(KEPT.try_with(|kept| kept.replace(Some(node))));
    }
}

/// Drops the node that is kept: another runtime becomes current. As yet its own one is, so this
/// does not drop the last reference to that.
#[inline]
pub(crate) fn forget() {
    drop(take());
}

/// # Safety
/// The node is exclusive.
unsafe fn exclusive(node: &mut Arc<Node>) -> &mut Node {
    // SAFETY: the only reference, by the caller's word; it is borrowed for as long.
    unsafe { &mut *Arc::as_ptr(node).cast_mut() }
}
