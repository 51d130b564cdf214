//! Tasks that are members of a scope.

use std::future::Future;
use std::sync::Arc;

use blitzen_task::glue::next_id;
use blitzen_task::scope::{Member, MemberKind, ScopedSchedule};
use blitzen_task::{JoinHandle, Runnable, SpawnMeta};

use super::inherited::Bindings;
use super::scope_core::{Node, ScopeCore};
use crate::dispatch::{Dispatcher, DispatcherKind};
use crate::runtime::Handle;

/// Where a member is spawned.
#[derive(Clone, Copy)]
pub(super) enum SpawnPlace<'a> {
    Runtime(&'a Handle),
    Dispatcher(&'a Dispatcher),
}

impl SpawnPlace<'_> {
    fn runtime(&self) -> &Handle {
        match self {
            Self::Runtime(runtime) => runtime,
            Self::Dispatcher(dispatcher) => dispatcher.runtime(),
        }
    }
}

/// Spawns a member of the scope; `None` if the scope has ended, or the runtime was shut down.
pub(super) fn spawn<F>(
    place: SpawnPlace<'_>,
    future: F,
    node: &Arc<Node>,
    kind: MemberKind,
    meta: SpawnMeta,
) -> Option<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let inner = &place.runtime().inner;
    let (scheduler, id) = (inner.scheduler(), next_id());
    let meta = inner.announce::<F>("task", id, meta);
    let inherited = Bindings::here();
    let mut has_joined = false;
    let admit = |task: &Runnable| {
        let member = Member::<ScopeCore>::of(task);
        has_joined = member.is_some_and(|member| member.join(task));
        has_joined
    };
    let kind_of_place = match place {
        SpawnPlace::Runtime(_) => &DispatcherKind::Default,
        SpawnPlace::Dispatcher(dispatcher) => dispatcher.kind(),
    };
    // SAFETY: the future and its output are `Send`, and a `ScopedSchedule` hands on all calls. The
    // task joins here, or its future is dropped here, and `node` is borrowed until then.
    let (handle, refused) = unsafe {
        match kind_of_place {
            DispatcherKind::Default => {
                let scoped = |base| ScopedSchedule::new(base, node, kind, inherited);
                scheduler.spawn_with(future, id, meta, scoped, admit)
            }
            DispatcherKind::Unconfined => {
                let scoped = |base| ScopedSchedule::new(base, node, kind, inherited);
                scheduler.spawn_inline_with(future, id, meta, scoped, admit)
            }
            DispatcherKind::Routed(core) => {
                let scoped = |base| ScopedSchedule::new(base, node, kind, inherited);
                scheduler.spawn_on_with(core, future, id, meta, scoped, admit)
            }
        }
    };
    drop(refused); // which drops the future
    has_joined.then_some(handle)
}
