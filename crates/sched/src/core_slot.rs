//! Which of the threads that block on a current-thread runtime drives it.
//!
//! One of them takes the core, that is, the runtime's only worker. The others wait
//! for their own futures, and for the core to become free.
//!
//! S1. A thread that waits is in the queue, or was taken out of it and notified that
//!     the core is free. If it does not take the core then, it notifies the next one.

use std::collections::VecDeque;
use std::sync::Arc;

use blitzen_util::shim::Mutex;

/// A thread that waits for the core.
pub trait CoreWaiter: Send + Sync {
    /// Wakes the thread: the core may be free.
    fn notify_core_free(&self);
}

/// The core of a current-thread runtime, and the threads that wait for it.
pub struct CoreSlot<C> {
    state: Mutex<CoreState<C>>,
}

struct CoreState<C> {
    /// `None` while a thread has it.
    core: Option<C>,
    waiting: VecDeque<Arc<dyn CoreWaiter>>,
}

impl<C> CoreState<C> {
    fn notify_next(&mut self) {
        if self.core.is_some()
            && let Some(next) = self.waiting.pop_front()
        {
            next.notify_core_free();
        }
    }
}

impl<C> CoreSlot<C> {
    /// Creates a slot with a core that is free.
    pub fn new(core: C) -> Self {
        Self {
            state: Mutex::new(CoreState {
                core: Some(core),
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Takes the core, if it is free.
    pub fn take(&self) -> Option<C> {
        self.state.lock().core.take()
    }

    /// Gives the core back, and notifies the first thread that waits for it.
    pub fn put_back(&self, core: C) {
        let mut state = self.state.lock();
        state.core = Some(core);
        state.notify_next();
    }

    /// Returns a guard with which `waiter` can wait for the core.
    pub fn wait(&self, waiter: Arc<dyn CoreWaiter>) -> CoreWait<'_, C> {
        CoreWait { slot: self, waiter }
    }
}

/// The guard of a thread that waits for the core. Dropping it, also because the
/// thread's own future panics, takes the thread out of the queue.
#[must_use]
pub struct CoreWait<'a, C> {
    slot: &'a CoreSlot<C>,
    waiter: Arc<dyn CoreWaiter>,
}

impl<C> CoreWait<'_, C> {
    /// Enters the queue, unless the core is free; returns whether it is.
    pub fn enqueue_unless_free(&self) -> bool {
        let mut state = self.slot.state.lock();
        let is_free = state.core.is_some();
        if !is_free && !state.waiting.iter().any(|other| self.is_own(other)) {
            state.waiting.push_back(self.waiter.clone());
        }
        is_free
    }

    /// Leaves the queue, before the thread does something that may take long. If it has
    /// been notified of a free core, the next thread is notified instead.
    pub fn leave(&self) {
        let mut state = self.slot.state.lock();
        state.waiting.retain(|other| !self.is_own(other));
        state.notify_next(); // S1
    }

    fn is_own(&self, other: &Arc<dyn CoreWaiter>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(&self.waiter))
    }
}

impl<C> Drop for CoreWait<'_, C> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::park::Parker;
    use blitzen_util::shim::thread;

    impl CoreWaiter for Parker {
        fn notify_core_free(&self) {
            self.unpark();
        }
    }

    /// Waits for the core as `block_on` does; hangs if no thread notifies it.
    fn take(slot: &CoreSlot<()>) {
        let parker = Arc::new(Parker::new());
        let wait = slot.wait(parker.clone());
        loop {
            if slot.take().is_some() {
                drop(wait);
                return slot.put_back(());
            }
            if !wait.enqueue_unless_free() {
                parker.park();
            }
        }
    }

    /// One thread has the core, and gives it back while the others do something.
    fn check(
        others: impl Fn(Arc<CoreSlot<()>>) -> Vec<thread::JoinHandle<()>> + Send + Sync + 'static,
    ) {
        loom::model(move || {
            let slot = Arc::new(CoreSlot::new(()));
            slot.take().unwrap();
            let others = others(slot.clone());
            slot.put_back(());
            for other in others {
                other.join().unwrap();
            }
            assert!(slot.state.lock().waiting.is_empty());
        });
    }

    #[test]
    fn two_threads_that_wait_both_get_the_core() {
        check(|slot| {
            let other = slot.clone();
            vec![
                thread::spawn(move || take(&slot)),
                thread::spawn(move || take(&other)),
            ]
        });
    }

    #[test]
    fn a_thread_that_gives_up_notifies_the_next() {
        check(|slot| {
            let other = slot.clone();
            vec![
                thread::spawn(move || take(&slot)),
                thread::spawn(move || {
                    // Its future ends, or panics, while it is in the queue.
                    let wait = other.wait(Arc::new(Parker::new()));
                    let _ = wait.enqueue_unless_free();
                }),
            ]
        });
    }
}
