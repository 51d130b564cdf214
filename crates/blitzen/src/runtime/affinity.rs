//! Which cores a thread may run on.
//!
//! The system has a new thread run where the thread that starts it may run. Threads of the
//! blocking pool and the like are started by whatever needs one, and stay for others: so a thread
//! that is started from a bound one gets back what that one had before ([`spawn_unbound`]).

use std::io;
use std::thread;

/// A core that the process may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Core(usize);

/// Checks that the process may run on each of `cores`.
///
/// # Errors
/// Returns `InvalidInput` for a core that the process may not run on, and `Unsupported` where
/// threads cannot be bound to cores.
pub(crate) fn check(cores: &[usize]) -> io::Result<Vec<Core>> {
    if cores.is_empty() {
        return Ok(Vec::new());
    }
    let allowed = allowed_cores()?;
    let check = |&core: &usize| match allowed.contains(&Core(core)) {
        true => Ok(Core(core)),
        false => {
            let allowed: Vec<usize> = allowed.iter().map(|core| core.0).collect();
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("core {core} is not among those that this process may run on: {allowed:?}"),
            ))
        }
    };
    cores.iter().map(check).collect()
}

/// The cores that the calling thread may run on, or might if it were not bound.
///
/// # Errors
/// Returns `Unsupported` where threads cannot be bound to cores.
pub(crate) fn allowed_cores() -> io::Result<Vec<Core>> {
    Ok(sys::allowed_cores()?.into_iter().map(Core).collect())
}

/// Binds the calling thread to a core.
pub(crate) fn pin_thread(core: Core) {
    // The core was there when it was checked. Without it the thread runs anywhere.
    let _ = sys::pin_thread(core.0);
}

/// Starts a thread that is not bound, whether or not the calling thread is.
pub(crate) fn spawn_unbound(
    builder: thread::Builder,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let before = sys::cores_before();
    builder.spawn(move || {
        sys::restore(before);
        main();
    })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod sys {
    use std::cell::Cell;
    use std::io;
    use std::mem::zeroed;

    /// As many cores as a set of the C library has room for.
    const MAX_CORES: usize = libc::CPU_SETSIZE as usize;

    thread_local! {
        /// Where a bound thread could run before.
        static BEFORE: Cell<Option<libc::cpu_set_t>> = const { Cell::new(None) };
    }

    /// Where the calling thread could run before it was bound; `None` if it is not.
    pub(super) fn cores_before() -> Option<libc::cpu_set_t> {
        BEFORE.try_with(Cell::get).unwrap_or(None)
    }

    /// Lets the calling thread, which is new, run there.
    pub(super) fn restore(cores: Option<libc::cpu_set_t>) {
        if let Some(cores) = cores {
            // If the system refuses it, the thread stays bound, and does its work there.
            let _ = set_cores(&cores);
        }
    }

    fn cores_now() -> io::Result<libc::cpu_set_t> {
        // SAFETY: a set of bits; all clear is a valid one.
        let mut set: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: a set of that size, which the kernel fills; 0 is the calling thread.
        match unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } {
            0 => Ok(set),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set_cores(set: &libc::cpu_set_t) -> io::Result<()> {
        // SAFETY: a set of that size, which the kernel reads; 0 is the calling thread.
        match unsafe { libc::sched_setaffinity(0, size_of_val(set), set) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn allowed_cores() -> io::Result<Vec<usize>> {
        let set = match cores_before() {
            Some(before) => before,
            None => cores_now()?,
        };
        // SAFETY: the core is within the set.
        let is_set = |&core: &usize| unsafe { libc::CPU_ISSET(core, &set) };
        Ok((0..MAX_CORES).filter(is_set).collect())
    }

    pub(super) fn pin_thread(core: usize) -> io::Result<()> {
        let before = cores_now()?;
        // SAFETY: a set of bits; all clear is a valid one.
        let mut set: libc::cpu_set_t = unsafe { zeroed() };
        assert!(core < MAX_CORES, "it was among the allowed ones");
        // SAFETY: the core is within the set.
        unsafe { libc::CPU_SET(core, &mut set) };
        set_cores(&set)?;
        BEFORE.set(Some(before));
        Ok(())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod sys {
    use std::io;

    pub(super) fn cores_before() {}

    pub(super) fn restore((): ()) {}

    pub(super) fn allowed_cores() -> io::Result<Vec<usize>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "threads cannot be bound to cores on this system",
        ))
    }

    pub(super) fn pin_thread(_: usize) -> io::Result<()> {
        Ok(())
    }
}
