//! What makes a runtime dispatch signals: the registry's pipe among its sources.
//!
//! ```text
//!   driver ──► wake ──► dispatch ──► wait for the next event
//! ```
//!
//! W1. A runtime has one as long as it has a listener; no task is needed.
//! W2. The waker that the I/O driver holds does not keep the signal driver
//!     alive: the signal driver owns the registration that holds the waker.
//! W3. A listener stores its waker, then asks whether its driver is shut down. A
//!     driver stores that it is shut down, then wakes the listeners. Both go
//!     through the lock of the event count: if the listener had it first, it is
//!     woken; otherwise it sees what the driver has stored.
//!
//! All else that threads share here is behind that lock or the one of `drivers`, so their
//! order is the whole argument, and a model would only test the locks.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};

use blitzen_util::coop;

use super::registry::{SignalRegistry, registry};
use crate::io::{Interest, PollEvented, Ready};
use crate::runtime::{Handle, Id};

/// Dispatches signals whenever the pipe is readable.
#[derive(Debug)]
pub(crate) struct SignalDriver {
    registry: &'static SignalRegistry,
    pipe: PollEvented<mio::net::UnixStream>,
    runtime: Id,
    /// Whether the runtime has shut down.
    is_shut_down: AtomicBool,
}

type Drivers = HashMap<Id, Weak<SignalDriver>>;

/// The drivers of all runtimes. An entry may be of a driver that is being
/// dropped.
fn drivers() -> MutexGuard<'static, Option<Drivers>> {
    static DRIVERS: Mutex<Option<Drivers>> = Mutex::new(None);
    DRIVERS.lock().unwrap_or_else(|e| e.into_inner())
}

impl SignalDriver {
    /// Returns the driver of the current runtime, and creates it if there is none.
    ///
    /// # Errors
    /// Those of `fcntl(2)` and `epoll_ctl(2)`, and if the runtime has been shut
    /// down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub(crate) fn current() -> io::Result<Arc<SignalDriver>> {
        let runtime = Handle::current().id();
        let known = drivers()
            .as_ref()
            .and_then(|known| known.get(&runtime)?.upgrade());
        if let Some(driver) = known
            && !driver.is_shut_down()
        {
            return Ok(driver);
        }
        // A second one that is created meanwhile does no harm (H2 of the registry).
        let registry = registry()?;
        let pipe = mio::net::UnixStream::from_std(registry.receiver().try_clone()?);
        let driver = Arc::new(SignalDriver {
            registry,
            pipe: PollEvented::new(pipe, Interest::READABLE, Ready::EMPTY)?,
            runtime,
            is_shut_down: AtomicBool::new(false),
        });
        drivers()
            .get_or_insert_default()
            .insert(runtime, Arc::downgrade(&driver));
        driver.dispatch_pending();
        Ok(driver)
    }

    /// Returns whether the runtime has shut down, so that this dispatches no more.
    pub(crate) fn is_shut_down(&self) -> bool {
        // Relaxed: the lock of the event count orders it (W3).
        self.is_shut_down.load(Relaxed)
    }

    /// Dispatches what is pending, and leaves a waker for more.
    fn dispatch_pending(self: &Arc<Self>) {
        let waker = Waker::from(Arc::new(PipeWaker(Arc::downgrade(self)))); // W2
        let mut cx = Context::from_waker(&waker);
        let registration = self.pipe.registration();
        // This may run within the poll of a task whose budget is spent.
        coop::with_unconstrained(|| {
            loop {
                match registration.poll_read_ready(&mut cx) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(event)) => {
                        self.registry.dispatch();
                        registration.clear_refuted(event);
                    }
                    Poll::Ready(Err(_gone)) => {
                        // Relaxed: the lock of the event count orders it (W3).
                        self.is_shut_down.store(true, Relaxed);
                        self.registry.wake_listeners();
                        return;
                    }
                }
            }
        });
    }
}

impl Drop for SignalDriver {
    fn drop(&mut self) {
        if let Some(drivers) = drivers().as_mut()
            && drivers
                .get(&self.runtime)
                .is_some_and(|known| known.strong_count() == 0)
        {
            drivers.remove(&self.runtime);
        }
    }
}

/// The waker that the I/O driver holds.
struct PipeWaker(Weak<SignalDriver>);

impl Wake for PipeWaker {
    fn wake(self: Arc<Self>) {
        if let Some(driver) = self.0.upgrade() {
            driver.dispatch_pending();
        }
    }
}
