//! The runtime of the process, for code that runs outside any other.
//!
//! It exists only with the feature `global`, is built when it is first needed, and is never shut
//! down.

use std::future::Future;

use super::context;
use super::handle::{Handle, TryCurrentError};

/// The runtime of the process, if the calling thread has entered none.
#[cfg(feature = "global")]
pub(crate) fn for_code_outside() -> Option<&'static Handle> {
    use super::{Builder, Runtime};
    use std::sync::OnceLock;

    static GLOBAL: OnceLock<Runtime> = OnceLock::new();
    if context::with_current(|_| ()).is_ok() {
        return None;
    }
    let build = || {
        let mut builder = Builder::new_multi_thread();
        match builder.enable_all().name("global").build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("the global runtime cannot be built: {error}"),
        }
    };
    Some(GLOBAL.get_or_init(build).handle())
}

/// There is none without the feature `global`.
#[cfg(not(feature = "global"))]
#[inline]
pub(crate) fn for_code_outside() -> Option<&'static Handle> {
    None
}

/// The runtime that the calling thread has entered, or that of the process.
///
/// # Panics
/// If there is neither.
#[track_caller]
pub(crate) fn current() -> Handle {
    match for_code_outside() {
        Some(handle) => handle.clone(),
        None => match Handle::try_current() {
            Ok(handle) => handle,
            Err(error) => no_runtime(&error),
        },
    }
}

/// Panics with `error`, and what to do.
#[cold]
#[track_caller]
pub(crate) fn no_runtime(error: &TryCurrentError) -> ! {
    panic!(
        "{error}, build one with `Runtime::new`, or enable the feature `global` of blitzen, which \
         has one for the whole process"
    )
}

/// Runs `future` on the calling thread until it ends, and returns its output.
///
/// It runs in the runtime that the thread has [entered](Handle::enter). On a thread that has
/// entered none it runs in the global runtime, if the crate feature `global` is on: a
/// multi-thread runtime, which is built when it is first needed and never shut down.
///
/// # Examples
///
/// ```
/// let runtime = blitzen::runtime::Runtime::new().unwrap();
/// let _inside = runtime.enter();
/// assert_eq!(blitzen::block_on(async { 1 }), 1);
/// ```
///
/// # Panics
///
/// Panics on a thread that runs tasks, if `future` panics, and outside a runtime without the
/// feature `global`.
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let current = context::with_current(Handle::clone);
    match current.or_else(|error| for_code_outside().cloned().ok_or(error)) {
        Ok(handle) => handle.block_on(future),
        Err(error) => no_runtime(&error),
    }
}
