//! Memory of finished tasks, kept by the thread that freed it for the next
//! task of the same size it spawns.
//!
//! A1. A block in the cache of class `c` was allocated with `layout(c)`.
//! A2. A thread keeps at most [`BLOCKS`] blocks of a class and [`BYTES`] bytes
//!     of them, so that a burst does not pin memory for good.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;

/// Common allocators round to 16 bytes less a word of their own.
const STEP: usize = 16;
const ROUND_DOWN: usize = 8;

/// Classes of up to `16 * CLASSES - 8` bytes; larger tasks are not kept.
const CLASSES: usize = 80;

const BLOCKS: usize = 256;
const BYTES: usize = 64 * 1024;

/// Off under a sanitizer, which cannot see the use of a freed task whose memory
/// went to the cache instead of the system.
const RECYCLES: bool = cfg!(not(blitzen_no_recycle));

/// The class of a layout; `None` where the cache does not serve it.
const fn class_of(layout: Layout) -> Option<usize> {
    let class = (layout.size() + ROUND_DOWN).div_ceil(STEP);
    match RECYCLES && layout.align() <= STEP && class < CLASSES {
        true => Some(class),
        false => None,
    }
}

/// What every block of a class is allocated with (A1).
const fn layout_of(class: usize) -> Layout {
    match Layout::from_size_align(class * STEP - ROUND_DOWN, STEP) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// The most blocks of a class that are kept (A2).
const fn limit_of(class: usize) -> usize {
    let fitting = BYTES / (class * STEP);
    match fitting < BLOCKS {
        true => fitting,
        false => BLOCKS,
    }
}

/// The free blocks of a class.
struct Stack {
    top: Option<NonNull<Block>>,
    len: usize,
}

/// A free block, linked through its own first word.
struct Block {
    below: Option<NonNull<Block>>,
}

struct Cache([Stack; CLASSES]);

impl Cache {
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        let stack = &mut self.0[class];
        let block = stack.top?;
        // SAFETY: a block on the stack is ours and begins with a `Block`.
        stack.top = unsafe { block.as_ref() }.below;
        stack.len -= 1;
        Some(block.cast())
    }

    /// Keeps a block; false if there are enough.
    fn keep(&mut self, class: usize, block: NonNull<u8>) -> bool {
        let stack = &mut self.0[class];
        if stack.len >= limit_of(class) {
            return false;
        }
        let block = block.cast::<Block>();
        // SAFETY: the block was given up by its user, and is at least a word
        // long and aligned to 16.
        unsafe { block.write(Block { below: stack.top }) };
        stack.top = Some(block);
        stack.len += 1;
        true
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            while let Some(block) = self.take(class) {
                // SAFETY: A1.
                unsafe { dealloc(block.as_ptr(), layout_of(class)) };
            }
        }
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = const {
        RefCell::new(Cache([const { Stack { top: None, len: 0 } }; CLASSES]))
    };
}

/// Memory for a task of this layout.
#[inline]
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    let Some(class) = class_of(layout) else {
        return from_system(layout);
    };
    // A thread that is ending has lost its cache, and allocates from the
    // system.
    match CACHE.try_with(|cache| cache.borrow_mut().take(class)) {
        Ok(Some(block)) => block,
        _ => from_system(layout_of(class)),
    }
}

#[cold]
fn from_system(layout: Layout) -> NonNull<u8> {
    // SAFETY: a task's layout is never empty: it has a header.
    match NonNull::new(unsafe { alloc(layout) }) {
        Some(block) => block,
        None => handle_alloc_error(layout),
    }
}

/// Gives back memory from [`allocate`].
///
/// # Safety
/// `block` came from [`allocate`] with the same layout, and is not used again.
#[inline]
pub(crate) unsafe fn release(block: NonNull<u8>, layout: Layout) {
    let class = class_of(layout);
    let kept = class.is_some_and(|class| {
        CACHE
            .try_with(|cache| cache.borrow_mut().keep(class, block))
            .unwrap_or(false)
    });
    if !kept {
        // SAFETY: allocated with its class's layout, or its own if it has none.
        unsafe { dealloc(block.as_ptr(), class.map_or(layout, layout_of)) };
    }
}

#[cfg(all(test, not(any(blitzen_loom, blitzen_no_recycle))))]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_large_enough_for_its_layouts() {
        for size in 1..2000 {
            let layout = Layout::from_size_align(size, 8).unwrap();
            match class_of(layout) {
                Some(class) => assert!(layout_of(class).size() >= size),
                None => assert!(size > CLASSES * STEP - 2 * STEP, "{size} is not kept"),
            }
        }
    }

    #[test]
    fn a_freed_block_is_used_again_on_the_same_thread() {
        let layout = Layout::from_size_align(200, 8).unwrap();
        let first = allocate(layout);
        // SAFETY: from `allocate`, and not used again.
        unsafe { release(first, layout) };
        let second = allocate(layout);
        assert_eq!(first, second);
        // SAFETY: as above.
        unsafe { release(second, layout) };
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        let blocks: Vec<_> = (0..10 * BLOCKS).map(|_| allocate(layout)).collect();
        for block in blocks {
            // SAFETY: from `allocate`, and not used again.
            unsafe { release(block, layout) };
        }
        let class = class_of(layout).unwrap();
        let kept = CACHE.with(|cache| cache.borrow().0[class].len);
        assert!(kept <= BLOCKS && kept * class * STEP <= BYTES, "{kept}");
    }

    #[test]
    fn odd_layouts_go_to_the_system_and_back() {
        for layout in [
            Layout::from_size_align(64, 64).unwrap(),
            Layout::from_size_align(100_000, 8).unwrap(),
        ] {
            let block = allocate(layout);
            assert_eq!(block.as_ptr() as usize % layout.align(), 0);
            // SAFETY: from `allocate`, and not used again.
            unsafe { release(block, layout) };
        }
    }
}
