//! The members of a scope, and what happens when the last one has left.
//!
//! A [`ScopeNode`] counts and links the members of one scope. A [`Member`] is part of its
//! task's memory, inside the task's scheduler ([`ScopedSchedule`]), so that a child of a scope
//! costs no allocation. Everything else about a scope (errors, deadlines, tokens) belongs to its
//! [`ScopeOwner`].

mod member;
mod member_list;
mod node;
mod word;

pub use member::{Member, MemberKind, ScopedSchedule};
pub use node::ScopeNode;
pub use word::{ScopePhase, ScopeView};

use std::sync::Arc;

use crate::error::Payload;

/// The part of a scope that belongs to the crate that made it. None of these functions is called
/// under a lock.
pub trait ScopeOwner: Send + Sync + Sized + 'static {
    /// Why a scope was cancelled.
    type Cause: Send + 'static;
    /// What a member inherits from the code that spawned it.
    type Inherited: Send + Sync + 'static;

    /// The cause that cancels daemons when all others have left.
    fn finished() -> Self::Cause;

    /// The scope was cancelled, for the first time.
    fn cancelled(node: &Arc<ScopeNode<Self>>);

    /// Whether a thread waits for the members, which [borrow](crate::Schedule::is_borrowing)
    /// from it.
    fn is_borrowing(&self) -> bool {
        false
    }

    /// Whether its children are counted often: then all of them are in one list.
    fn is_limited(&self) -> bool {
        false
    }

    /// A member has left the scope.
    #[inline]
    fn left(&self) {}

    /// A member has panicked.
    fn panicked(node: &Arc<ScopeNode<Self>>, payload: Payload);
}
