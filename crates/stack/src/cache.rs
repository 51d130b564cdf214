//! The stacks that a thread keeps for its next fibers, so that starting one costs no system
//! call. The newest is used first: its memory is the warmest.
//!
//! A thread keeps at most [`MAX_CACHED`] stacks. With one more it gives half of them back, with
//! their memory. When it has nothing to do it gives back half of those that it has not
//! needed since the last time ([`trim`]), and looks again while there are more than
//! [`MAX_IDLE`]; with its end it gives back all.

use std::cell::RefCell;
use std::io;

use crate::cached_count::CachedCount;
use crate::slab::Stack;

/// How many stacks a thread keeps, of all sizes. To give one back and to take it again costs
/// microseconds: system calls, page faults, and interrupts of the other processors. A few kilobytes of
/// each are in memory, until the thread has nothing to do.
const MAX_CACHED: usize = 1024;

/// How many stacks a thread may keep that has nothing to do for long.
const MAX_IDLE: usize = 64;

thread_local! {
    static CACHE: RefCell<StackCache> = const {
        RefCell::new(StackCache {
            stacks: Vec::new(),
            unneeded: 0,
            count: None,
        })
    };
}

/// The stacks of one thread.
struct StackCache {
    /// The newest last.
    stacks: Vec<Stack>,
    /// The smallest number of stacks since the last [`trim`].
    unneeded: usize,
    /// How many stacks there are, for others; `None` before the first.
    count: Option<CachedCount>,
}

impl StackCache {
    /// Takes the newest stack of `size` bytes.
    #[inline]
    fn take(&mut self, size: usize) -> Option<Stack> {
        let stack = match self.stacks.last()?.size() == size {
            true => self.stacks.pop()?,
            false => self.take_older(size)?,
        };
        self.unneeded = self.unneeded.min(self.stacks.len());
        self.publish_count();
        Some(stack)
    }

    #[cold]
    fn take_older(&mut self, size: usize) -> Option<Stack> {
        let index = self.stacks.iter().rposition(|stack| stack.size() == size)?;
        Some(self.stacks.remove(index))
    }

    #[inline]
    fn publish_count(&mut self) {
        let count = self.count.get_or_insert_with(CachedCount::register);
        count.set(self.stacks.len());
    }
}

/// Takes a stack of `size` bytes.
pub(crate) fn take(size: usize) -> io::Result<Stack> {
    // A thread that is ending keeps none.
    match CACHE.try_with(|cache| cache.borrow_mut().take(size)) {
        Ok(Some(stack)) => Ok(stack),
        _ => Stack::new(size),
    }
}

/// Keeps a stack that nobody uses any more, or gives it back.
pub(crate) fn put_back(stack: Stack) {
    if cfg!(blitzen_no_recycle) {
        return; // so that a sanitizer sees a use of its old frames
    }
    let _ = CACHE.try_with(|cache| {
        let mut cache = cache.borrow_mut();
        cache.stacks.push(stack);
        if cache.stacks.len() > MAX_CACHED {
            cache.stacks.drain(..MAX_CACHED / 2);
        }
        cache.publish_count();
    });
}

/// Gives back half of the stacks that the calling thread has not needed since the last call: it
/// has nothing to do. Returns whether there are still so many that it should call this again in a
/// while.
pub fn trim() -> bool {
    // Dropped outside of the cell; a thread that is ending has given back all.
    let surplus = CACHE.try_with(|cache| {
        let cache = &mut *cache.borrow_mut();
        if cache.stacks.is_empty() {
            return (Vec::new(), false);
        }
        let surplus: Vec<_> = cache.stacks.drain(..cache.unneeded.div_ceil(2)).collect();
        cache.unneeded = cache.stacks.len();
        cache.publish_count();
        (surplus, cache.stacks.len() > MAX_IDLE)
    });
    surplus.is_ok_and(|(surplus, has_many)| {
        drop(surplus);
        has_many
    })
}

#[cfg(all(test, not(blitzen_no_recycle)))]
mod tests {
    use super::*;

    /// A size that no other test uses.
    const SIZE: usize = 44 * 1024;

    fn cached() -> usize {
        CACHE.with(|cache| cache.borrow().stacks.len())
    }

    #[test]
    fn a_thread_uses_its_newest_stack_again() {
        let first = take(SIZE).unwrap();
        let second = take(SIZE).unwrap();
        let newest = second.base();
        put_back(first);
        put_back(second);
        assert_eq!(take(SIZE).unwrap().base(), newest);
        for _ in 0..10 {
            trim();
        }
        assert_eq!(cached(), 0);
    }

    #[test]
    fn a_thread_keeps_a_bounded_number_of_stacks() {
        let stacks: Vec<_> = (0..MAX_CACHED + 200).map(|_| take(SIZE).unwrap()).collect();
        for stack in stacks {
            put_back(stack);
            assert!(cached() <= MAX_CACHED);
        }
        assert!(cached() >= MAX_CACHED / 2);
    }

    #[test]
    fn a_thread_that_does_nothing_gives_back_all_but_a_few() {
        let stacks: Vec<_> = (0..MAX_CACHED).map(|_| take(SIZE).unwrap()).collect();
        stacks.into_iter().for_each(put_back);
        assert!(trim(), "all were needed just now");
        assert_eq!(cached(), MAX_CACHED);
        let looks = (0..20).take_while(|_| trim()).count();
        assert!(cached() <= MAX_IDLE && looks < 10);
    }

    #[test]
    fn what_a_thread_needs_again_and_again_is_not_given_back() {
        put_back(take(SIZE).unwrap());
        for _ in 0..10 {
            put_back(take(SIZE).unwrap());
            trim();
            assert_eq!(cached(), 1);
        }
        trim();
        assert_eq!(cached(), 0);
    }
}
