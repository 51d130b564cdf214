//! Marks of the calling thread: which schedulers and pools it works for.
//!
//! Foreign code that a marked thread calls may lead to another scheduler or pool, which
//! marks the thread too: a thread has all of these marks at once.

use std::cell::RefCell;

use blitzen_util::thread_local_const;

/// What a thread can be marked as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It starts the workers of a scheduler, or names a thread of a pool.
    Starting,
    /// A scheduler's shutdown counts it, or it is a thread of a pool.
    Working,
}

thread_local_const! {
    /// The marks of the thread, the newest last. None on a thread that is being destroyed.
    static MARKS: RefCell<Vec<(Role, *const ())>> = RefCell::new(Vec::new());
}

/// Marks the calling thread until it is dropped.
#[must_use]
pub struct ThreadMark {
    role: Role,
    owner: *const (),
}

impl ThreadMark {
    /// Marks the calling thread as working for `owner`.
    pub(crate) fn set<T>(role: Role, owner: &T) -> Self {
        let owner = std::ptr::from_ref(owner).cast();
        let _ = MARKS.try_with(|marks| marks.borrow_mut().push((role, owner)));
        Self { role, owner }
    }

    /// Whether the calling thread is marked as working for `owner`.
    pub(crate) fn is_set<T>(role: Role, owner: &T) -> bool {
        let mark = (role, std::ptr::from_ref(owner).cast());
        let is_set = MARKS.try_with(|marks| marks.borrow().contains(&mark));
        is_set.unwrap_or(false)
    }
}

impl Drop for ThreadMark {
    fn drop(&mut self) {
        let mark = (self.role, self.owner);
        let _ = MARKS.try_with(|marks| {
            let mut marks = marks.borrow_mut();
            if let Some(index) = marks.iter().rposition(|one| *one == mark) {
                marks.remove(index);
            }
        });
    }
}
