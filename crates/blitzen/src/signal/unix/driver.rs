//! A runtime's eye on the hub's pipe.
//!
//! ```text
//!   driver ──► wake ──► dispatch ──► wait for the next event
//! ```
//!
//! W1. A runtime has one, as long as it has a listener; no task is needed.
//! W2. The waker in the driver's slot does not keep the watch alive: the watch
//!     owns the slot.
//! W3. Who waits looks whether its watch is over after it has left its waker;
//!     a watch stirs those who wait after it has said so.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};

use blitzen_util::coop;

use super::hub::{Hub, hub};
use crate::io::{Evented, Interest, Ready};
use crate::runtime::{Handle, Id};

/// What makes a runtime dispatch signals.
#[derive(Debug)]
pub(crate) struct Watch {
    hub: &'static Hub,
    pipe: Evented<mio::net::UnixStream>,
    runtime: Id,
    /// Whether the runtime is gone.
    is_over: AtomicBool,
}

type Watches = HashMap<Id, Weak<Watch>>;

/// The watches there are. A runtime that has none may still have an entry, of
/// one that is just being dropped.
fn watches() -> MutexGuard<'static, Option<Watches>> {
    static WATCHES: Mutex<Option<Watches>> = Mutex::new(None);
    WATCHES.lock().unwrap_or_else(|e| e.into_inner())
}

impl Watch {
    /// The watch of the current runtime.
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub(crate) fn current() -> io::Result<Arc<Watch>> {
        let runtime = Handle::current().id();
        let known = watches()
            .as_ref()
            .and_then(|known| known.get(&runtime)?.upgrade());
        if let Some(watch) = known
            && !watch.is_over()
        {
            return Ok(watch);
        }
        // A second one that is made meanwhile does no harm (H2 of the hub).
        let hub = hub()?;
        let pipe = mio::net::UnixStream::from_std(hub.receiver().try_clone()?);
        let watch = Arc::new(Watch {
            hub,
            pipe: Evented::new(pipe, Interest::READABLE, Ready::EMPTY)?,
            runtime,
            is_over: AtomicBool::new(false),
        });
        watches()
            .get_or_insert_default()
            .insert(runtime, Arc::downgrade(&watch));
        watch.turn();
        Ok(watch)
    }

    /// Whether the runtime is gone, so that nothing is dispatched any more.
    pub(crate) fn is_over(&self) -> bool {
        // Acquire: the partner is the Release in `turn`.
        self.is_over.load(Acquire)
    }

    /// Dispatches what there is, and waits for more.
    fn turn(self: &Arc<Self>) {
        let waker = Waker::from(Arc::new(Eye(Arc::downgrade(self)))); // W2
        let mut cx = Context::from_waker(&waker);
        let registration = self.pipe.registration();
        // This may run within the poll of a task whose budget is spent.
        coop::with_unconstrained(|| {
            loop {
                match registration.poll_read_ready(&mut cx) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(event)) => {
                        self.hub.dispatch();
                        registration.clear_refuted(event);
                    }
                    Poll::Ready(Err(_gone)) => {
                        // Release: who sees it knows that the runtime is gone. W3.
                        self.is_over.store(true, Release);
                        self.hub.stir();
                        return;
                    }
                }
            }
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watches) = watches().as_mut()
            && watches
                .get(&self.runtime)
                .is_some_and(|known| known.strong_count() == 0)
        {
            watches.remove(&self.runtime);
        }
    }
}

/// The waker in the driver's slot.
struct Eye(Weak<Watch>);

impl Wake for Eye {
    fn wake(self: Arc<Self>) {
        if let Some(watch) = self.0.upgrade() {
            watch.turn();
        }
    }
}
