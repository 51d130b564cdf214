//! How many handles of one side keep a channel open.

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A count that never rises from zero again, except by [`add`](Self::add) on behalf
/// of a handle of the other side.
pub(super) struct HandleCount(AtomicUsize);

impl HandleCount {
    pub(super) fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    #[inline]
    pub(super) fn get(&self) -> usize {
        // Acquire, met by the Release in `remove`: what a dropped handle did is
        // visible.
        self.0.load(Acquire)
    }

    /// Cannot overflow: each handle also counts in the `Arc` of its channel, which
    /// aborts long before.
    #[inline]
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Returns false at zero: the channel is closed.
    #[must_use]
    pub(super) fn add_unless_zero(&self) -> bool {
        let mut count = self.0.load(Relaxed);
        while count != 0 {
            // Relaxed: the handle that is counted keeps the channel alive.
            match (self.0).compare_exchange_weak(count, count + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(changed) => count = changed,
            }
        }
        false
    }

    /// Returns true if that was the last one.
    #[must_use]
    #[inline]
    pub(super) fn remove(&self) -> bool {
        // AcqRel: what each handle did happens before what the last one does next.
        self.0.fetch_sub(1, AcqRel) == 1
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::{AccessCheck, Arc, thread};

    #[test]
    fn the_last_handle_sees_what_the_others_did() {
        loom::model(|| {
            let shared = Arc::new((HandleCount::new(2), AccessCheck::new()));
            let other = thread::spawn({
                let shared = shared.clone();
                move || {
                    if shared.0.remove() {
                        shared.1.read();
                    }
                }
            });
            shared.1.write();
            let _ = shared.0.remove();
            other.join().unwrap();
        });
    }
}
