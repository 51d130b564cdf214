//! Callbacks of the builder, and how threads are started.

use std::io;
use std::sync::Arc;
use std::thread;

use blitzen_sched::ThreadMark;
use blitzen_util::quiet::quietly;

use super::affinity;

/// A callback of the builder.
pub(crate) type Hook = Option<Arc<dyn Fn() + Send + Sync>>;

/// Calls a callback, if there is one. A panic in it is reported by the panic hook,
/// and ends no thread of the runtime.
pub(crate) fn call(hook: &Hook) {
    if let Some(hook) = hook {
        quietly(|| hook());
    }
}

/// How the threads of a runtime are started, and what is called on them.
#[derive(Clone)]
pub(crate) struct Hooks {
    pub(crate) thread_name: Arc<dyn Fn() -> String + Send + Sync>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) on_start: Hook,
    pub(crate) on_stop: Hook,
    pub(crate) on_park: Hook,
    pub(crate) on_unpark: Hook,
}

impl Hooks {
    /// Returns the name of the next thread, from a user's function. `None` if that panics,
    /// or the system does not accept the name.
    pub(crate) fn thread_name(&self) -> Option<String> {
        // A panic there must not unwind through the code that needs the thread.
        let mut name = None;
        quietly(|| name = Some((self.thread_name)()));
        name.filter(|name| !name.contains('\0')) // std panics for such a name
    }

    /// Starts a thread. Calls no foreign code but on that thread. `mark` marks it while
    /// the start hook runs, which may shut the runtime down.
    pub(crate) fn start_thread(
        &self,
        name: Option<String>,
        mark: impl FnOnce() -> Option<ThreadMark> + Send + 'static,
        main: impl FnOnce() + Send + 'static,
    ) -> io::Result<thread::JoinHandle<()>> {
        let mut builder = thread::Builder::new();
        if let Some(name) = name {
            builder = builder.name(name);
        }
        if let Some(size) = self.stack_size {
            builder = builder.stack_size(size);
        }
        let (on_start, on_stop) = (self.on_start.clone(), self.on_stop.clone());
        affinity::spawn_unbound(builder, move || {
            let marked = mark();
            call(&on_start);
            drop(marked);
            quietly(main); // the panic hook has reported it; the thread ends normally
            call(&on_stop);
        })
    }
}
