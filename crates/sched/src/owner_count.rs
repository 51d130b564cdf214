//! A reference count inside the object that it keeps alive, in addition to that of its
//! `Arc`. An object can have many of them, so that threads need not share one.
//!
//! O1. While the count is not zero it holds one strong reference to the owner, of
//!     which it is a part.
//! O2. Once zero the count stays zero.

use std::sync::Arc;

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::{AcqRel, Relaxed};
use blitzen_util::shim::cell::UnsafeCell;

/// The count, and the strong reference of O1.
pub(crate) struct OwnerCount<T> {
    count: AtomicUsize,
    /// Written before the owner is shared, and taken by the thread that lowers the
    /// count to zero.
    owner: UnsafeCell<Option<Arc<T>>>,
}

// SAFETY: the cell is written before the count is shared and by the last of all
// references (O1).
unsafe impl<T: Send + Sync> Send for OwnerCount<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for OwnerCount<T> {}

impl<T> OwnerCount<T> {
    /// Creates a count of one, whose owner is still to be set.
    pub(crate) fn new() -> Self {
        Self {
            count: AtomicUsize::new(1),
            owner: UnsafeCell::new(None),
        }
    }

    /// Sets the owner, which this count is a part of.
    ///
    /// # Safety
    /// Called once, before any thread uses the count.
    pub(crate) unsafe fn set_owner(&self, owner: Arc<T>) {
        self.owner
            // SAFETY: no other thread uses it yet, as the caller guarantees.
            .with_mut(|slot| unsafe { *slot = Some(owner) });
    }

    /// Adds a reference; returns false after the last was given up (O2).
    #[inline]
    pub(crate) fn acquire(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count != 0 {
            // Relaxed: the caller holds the owner in some other way.
            match self
                .count
                .compare_exchange_weak(count, count + 1, Relaxed, Relaxed)
            {
                Ok(_) => return true,
                Err(newer) => count = newer,
            }
        }
        false
    }

    /// The owner.
    ///
    /// # Safety
    /// The caller has a reference that is counted here.
    #[inline]
    pub(crate) unsafe fn owner(&self) -> &Arc<T> {
        self.owner.with(|slot| {
            // SAFETY: written before any reference was given, and taken after the
            // last was released.
            match unsafe { &*slot } {
                Some(owner) => owner,
                None => unreachable!("O1"),
            }
        })
    }

    /// Gives up a reference. The last one drops the reference to the owner, which may
    /// free the owner and this count with it.
    ///
    /// # Safety
    /// The caller has a reference that is counted here, and does not use it again.
    #[inline]
    pub(crate) unsafe fn release(&self) {
        // AcqRel, met by itself: the thread that drops the owner sees all that others
        // did with it.
        if self.count.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: O2: no other thread uses it any more.
            let owner = self.owner.with_mut(|slot| unsafe { (*slot).take() });
            drop(owner);
        }
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use blitzen_util::shim::thread;
    use std::sync::atomic::AtomicUsize as PlainUsize;

    struct Owner {
        references: OwnerCount<Owner>,
        /// What each thread does with the owner, without a lock.
        done: [UnsafeCell<u32>; 2],
        drops: Arc<PlainUsize>,
    }

    // SAFETY: each thread touches its own cell, as the model checks.
    unsafe impl Send for Owner {}
    // SAFETY: as above.
    unsafe impl Sync for Owner {}

    impl Drop for Owner {
        fn drop(&mut self) {
            for done in &self.done {
                // SAFETY: the last reference was given up; loom checks that this is ordered.
                assert_eq!(done.with_mut(|done| unsafe { *done }), 1);
            }
            self.drops.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn whoever_gives_up_the_last_reference_sees_what_all_others_did() {
        loom::model(|| {
            let drops = Arc::new(PlainUsize::new(0));
            let owner = Arc::new(Owner {
                references: OwnerCount::new(),
                done: [UnsafeCell::new(0), UnsafeCell::new(0)],
                drops: drops.clone(),
            });
            // SAFETY: new.
            unsafe { owner.references.set_owner(owner.clone()) };
            assert!(owner.references.acquire());
            let owner: *const Owner = Arc::as_ptr(&{ owner }); // lives by its count
            let address = owner as usize;
            let threads = [0, 1].map(|index| {
                thread::spawn(move || {
                    // SAFETY: one of the two references is this thread's.
                    unsafe {
                        let owner = &*(address as *const Owner);
                        owner.done[index].with_mut(|done| *done = 1);
                        owner.references.release();
                    }
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(drops.load(Relaxed), 1);
        });
    }

    #[test]
    fn a_reference_is_added_before_the_last_is_gone_or_not_at_all() {
        loom::model(|| {
            let drops = Arc::new(PlainUsize::new(0));
            let owner = Arc::new(Owner {
                references: OwnerCount::new(),
                done: [UnsafeCell::new(1), UnsafeCell::new(1)],
                drops: drops.clone(),
            });
            // SAFETY: new.
            unsafe { owner.references.set_owner(owner.clone()) };
            let last = thread::spawn({
                let owner = owner.clone();
                // SAFETY: the first reference, given up once.
                move || unsafe { owner.references.release() }
            });
            if owner.references.acquire() {
                // SAFETY: just added.
                unsafe {
                    assert_eq!(owner.references.owner().drops.load(Relaxed), 0);
                    owner.references.release();
                }
            }
            last.join().unwrap();
            assert!(!owner.references.acquire(), "O2");
            drop(owner);
            assert_eq!(drops.load(Relaxed), 1);
        });
    }
}
