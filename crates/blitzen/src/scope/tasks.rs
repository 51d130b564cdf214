//! Tasks that are members of a scope.

use std::future::Future;
use std::sync::Arc;

use blitzen_task::glue::next_id;
use blitzen_task::scope::{Member, MemberKind, ScopedSchedule};
use blitzen_task::{JoinHandle, SpawnMeta};

use super::inherited::Bindings;
use super::scope_core::{Node, ScopeCore};
use crate::runtime::Handle;

/// Spawns a member of the scope; `None` if the scope has ended, or the runtime was shut down.
pub(super) fn spawn<F>(
    runtime: &Handle,
    future: F,
    node: &Arc<Node>,
    kind: MemberKind,
    meta: SpawnMeta,
) -> Option<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let inner = &runtime.inner;
    let id = next_id();
    let meta = inner.announce::<F>("task", id, meta);
    let (node, inherited) = (node.clone(), Bindings::here());
    let mut has_joined = false;
    // SAFETY: the future and its output are `Send`, and a `ScopedSchedule` hands on all calls.
    let (handle, refused) = unsafe {
        inner.scheduler().spawn_with(
            future,
            id,
            meta,
            |shard| ScopedSchedule::new(shard, node, kind, inherited),
            |task| {
                let member = Member::<ScopeCore>::of(task);
                has_joined = member.is_some_and(|member| member.join(task));
                has_joined
            },
        )
    };
    drop(refused); // which drops the future
    has_joined.then_some(handle)
}
