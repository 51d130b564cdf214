//! Writes the list of tasks to standard error when a signal arrives, from a thread of its own.
//!
//! ```text
//!   handler:  wake the pipe
//!   thread:   wait for the pipe, drain it, list the tasks, write them
//!   end:      unregister the handler, close, wake the pipe
//! ```
//!
//! D1. The handler only writes a byte to the pipe, which is async-signal-safe.
//! D2. Thread and handler share the pipe. The registry of handlers drops its share after the last
//!     call, so no handler writes to a descriptor that was closed and is used for something else.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};
use std::thread;

use blitzen_util::quiet::quietly;
use signal_hook_registry::SigId;

use super::TaskList;
use crate::runtime::inner::Inner;
use crate::signal::unix::{SignalKind, WakePipe};

/// The handlers, and how to end the thread.
pub(crate) struct DumpOnSignal {
    handlers: Vec<SigId>,
    shared: Arc<DumpShared>,
}

struct DumpShared {
    pipe: WakePipe,
    is_closed: AtomicBool,
}

impl DumpOnSignal {
    /// Starts the thread, if there is a signal to listen for.
    ///
    /// # Errors
    /// `InvalidInput` for a signal that cannot be handled, and those of `sigaction(2)`,
    /// `socketpair(2)` and of starting a thread.
    pub(crate) fn start(signals: &[SignalKind], runtime: &Arc<Inner>) -> io::Result<Option<Self>> {
        if signals.is_empty() {
            return Ok(None);
        }
        let shared = Arc::new(DumpShared {
            pipe: WakePipe::new()?,
            is_closed: AtomicBool::new(false),
        });
        let mut started = Self {
            handlers: Vec::new(),
            shared: shared.clone(),
        };
        for signal in signals {
            let signal = signal.as_raw_value();
            if signal_hook_registry::FORBIDDEN.contains(&signal) {
                let error = format!("signal {signal} cannot be handled");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
            }
            let shared = shared.clone();
            // SAFETY: D1.
            let handler =
                unsafe { signal_hook_registry::register(signal, move || shared.pipe.wake()) }?;
            started.handlers.push(handler);
        }
        let runtime = Arc::downgrade(runtime);
        let thread = thread::Builder::new().name("blitzen-dump".into());
        // Nobody waits for its end: standard error may block it.
        drop(thread.spawn(move || dump_on_each_wake(&shared, &runtime))?);
        Ok(Some(started))
    }

    /// Ends the thread when it has written what it is writing.
    pub(crate) fn stop(&self) {
        for &handler in &self.handlers {
            signal_hook_registry::unregister(handler);
        }
        // Release, met by the Acquire of the thread, which the pipe wakes.
        self.shared.is_closed.store(true, Release);
        self.shared.pipe.wake();
    }
}

impl Drop for DumpOnSignal {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The main function of the thread.
fn dump_on_each_wake(shared: &DumpShared, runtime: &Weak<Inner>) {
    loop {
        wait_until_readable(&shared.pipe);
        shared.pipe.drain();
        if shared.is_closed.load(Acquire) {
            return;
        }
        let Some(runtime) = runtime.upgrade() else {
            return;
        };
        let name = runtime.name().unwrap_or("without a name").to_owned();
        let tasks = TaskList::new(runtime.scheduler(), runtime.world().clock());
        drop(runtime);
        // There is nobody to tell that standard error is gone.
        quietly(|| {
            let text = format!("blitzen: runtime {name}: {tasks}");
            let _ = io::stderr().write_all(text.as_bytes());
        });
    }
}

fn wait_until_readable(pipe: &WakePipe) {
    let mut entry = libc::pollfd {
        fd: pipe.receiver().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // Again if a signal has interrupted the call: its handler may have woken another pipe.
    // SAFETY: the pointer is to one entry, and the descriptor is open.
    while unsafe { libc::poll(&mut entry, 1, -1) } < 1 {}
}
