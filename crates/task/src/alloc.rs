//! Memory of finished tasks, kept by the thread that freed it for the next
//! task of the same size it spawns, or for that of another thread.
//!
//! ```text
//!   allocate ◄── loaded ◄── spare ◄──┐            one thread, one class
//!   release  ──► loaded ──► spare ──►│ depot      all threads, one class
//! ```
//!
//! Where one thread spawns tasks and another one ends them, the memory goes back in whole stacks,
//! and neither meets the other at the allocator's lock for each block.
//!
//! A1. A block in a stack of class `c` was allocated with `layout_of(c)`.
//! A2. A thread keeps at most two stacks of a class, which have at most [`BLOCKS`] blocks and
//!     [`BYTES`] bytes, and the depot [`STACKS`] full ones, so that a burst does not pin memory for
//!     good.
//! A3. A stack in the depot is full, and so is `spare` unless it is empty.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Common allocators round to 16 bytes less a word of their own.
const STEP: usize = 16;
const ROUND_DOWN: usize = 8;

/// Classes of up to `16 * CLASSES - 8` bytes; larger tasks are not kept.
const CLASSES: usize = 80;

const BLOCKS: usize = 256;
const BYTES: usize = 64 * 1024;
const STACKS: usize = 16;

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

/// How many blocks of a class a full stack has (A2).
const fn full_len(class: usize) -> usize {
    let fitting = BYTES / (class * STEP);
    let kept = match fitting < BLOCKS {
        true => fitting,
        false => BLOCKS,
    };
    kept / 2
}

/// Free blocks of a class.
struct Stack {
    top: Option<NonNull<Block>>,
    len: usize,
}

/// A free block, linked through its own first word.
struct Block {
    below: Option<NonNull<Block>>,
}

// SAFETY: it owns its blocks, which are memory and nothing else.
unsafe impl Send for Stack {}

impl Stack {
    const EMPTY: Self = Self { top: None, len: 0 };

    #[inline]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = self.top?;
        // SAFETY: a block on the stack is ours and begins with a `Block`.
        self.top = unsafe { block.as_ref() }.below;
        self.len -= 1;
        Some(block.cast())
    }

    /// Adds a block, which nobody uses.
    ///
    /// # Safety
    /// The block was given up by its user, and A1 holds for it.
    #[inline]
    unsafe fn push(&mut self, block: NonNull<u8>) {
        let block = block.cast::<Block>();
        // SAFETY: nobody uses it; it is at least a word long and aligned to 16.
        unsafe { block.write(Block { below: self.top }) };
        self.top = Some(block);
        self.len += 1;
    }
}

/// The full stacks of a class that no thread has.
struct Depot {
    /// How many there are. Written under the lock, so exact there; without it, a hint.
    len: AtomicUsize,
    stacks: Mutex<[Stack; STACKS]>,
}

static DEPOTS: [Depot; CLASSES] = [const {
    Depot {
        len: AtomicUsize::new(0),
        stacks: Mutex::new([Stack::EMPTY; STACKS]),
    }
}; CLASSES];

impl Depot {
    /// Nothing panics or allocates under the lock.
    fn lock(&self) -> MutexGuard<'_, [Stack; STACKS]> {
        self.stacks.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Takes a stack; an empty one if there is none.
    fn take(&self) -> Stack {
        if self.len() == 0 {
            return Stack::EMPTY;
        }
        let mut stacks = self.lock();
        match self.len().checked_sub(1) {
            None => Stack::EMPTY,
            Some(last) => {
                self.len.store(last, Relaxed);
                mem::replace(&mut stacks[last], Stack::EMPTY)
            }
        }
    }

    /// Takes over the blocks of a full stack; false if there are enough.
    fn keep(&self, stack: &mut Stack) -> bool {
        if self.len() == STACKS {
            return false;
        }
        let mut stacks = self.lock();
        let len = self.len();
        let Some(place) = stacks.get_mut(len) else {
            return false;
        };
        mem::swap(place, stack);
        self.len.store(len + 1, Relaxed);
        true
    }
}

/// What a thread has of a class.
struct ThreadStacks {
    loaded: Stack,
    spare: Stack,
}

struct Cache([ThreadStacks; CLASSES]);

impl Cache {
    #[inline]
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        let stacks = &mut self.0[class];
        if stacks.loaded.len == 0 {
            // A burst comes here with each of its tasks.
            if stacks.spare.len == 0 && DEPOTS[class].len() == 0 {
                return None;
            }
            stacks.reload(class);
        }
        stacks.loaded.pop()
    }

    /// Keeps a block; false if there are enough.
    ///
    /// # Safety
    /// The block was given up by its user, and A1 holds for it.
    #[inline]
    unsafe fn keep(&mut self, class: usize, block: NonNull<u8>) -> bool {
        let stacks = &mut self.0[class];
        if stacks.loaded.len == full_len(class) {
            let is_all_full = stacks.spare.len != 0 && DEPOTS[class].len() == STACKS;
            if is_all_full || !stacks.unload(class) {
                return false;
            }
        }
        // SAFETY: the caller upholds the same contract.
        unsafe { stacks.loaded.push(block) };
        true
    }
}

impl ThreadStacks {
    /// Gets blocks when there is none loaded.
    #[cold]
    fn reload(&mut self, class: usize) {
        mem::swap(&mut self.loaded, &mut self.spare);
        if self.loaded.len == 0 {
            self.loaded = DEPOTS[class].take();
        }
    }

    /// Makes room when what is loaded is full; false if there is none.
    #[cold]
    fn unload(&mut self, class: usize) -> bool {
        let has_room = self.spare.len == 0 || DEPOTS[class].keep(&mut self.spare);
        if has_room {
            mem::swap(&mut self.loaded, &mut self.spare);
        }
        has_room
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for (class, stacks) in self.0.iter_mut().enumerate() {
            for stack in [&mut stacks.loaded, &mut stacks.spare] {
                while let Some(block) = stack.pop() {
                    // SAFETY: A1.
                    unsafe { dealloc(block.as_ptr(), layout_of(class)) };
                }
            }
        }
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = const {
        RefCell::new(Cache([const {
            ThreadStacks {
                loaded: Stack::EMPTY,
                spare: Stack::EMPTY,
            }
        }; CLASSES]))
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
            // SAFETY: as the caller guarantees; a block with a class was allocated for it.
            .try_with(|cache| unsafe { cache.borrow_mut().keep(class, block) })
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
        let class = class_of(layout).unwrap();
        let many = 2 * (STACKS + 1) * BLOCKS;
        let blocks: Vec<_> = (0..many).map(|_| allocate(layout)).collect();
        for block in blocks {
            // SAFETY: from `allocate`, and not used again.
            unsafe { release(block, layout) };
        }
        let kept = CACHE.with(|cache| {
            let stacks = &cache.borrow().0[class];
            stacks.loaded.len + stacks.spare.len
        });
        assert!(kept <= BLOCKS && kept * class * STEP <= BYTES, "{kept}");
        assert_eq!(DEPOTS[class].len(), STACKS);
        let is_full = |stack: &Stack| stack.len == full_len(class);
        assert!(DEPOTS[class].lock().iter().all(is_full), "A3");
    }

    #[test]
    fn what_one_thread_frees_another_one_allocates() {
        // A size that no other test uses.
        let layout = Layout::from_size_align(1000, 8).unwrap();
        let class = class_of(layout).unwrap();
        let blocks: Vec<_> = (0..3 * full_len(class))
            .map(|_| allocate(layout).as_ptr() as usize)
            .collect();
        let freed = blocks.clone();
        let ender = std::thread::spawn(move || {
            for block in freed {
                let block = NonNull::new(block as *mut u8).unwrap();
                // SAFETY: from `allocate`, and not used again.
                unsafe { release(block, layout) };
            }
            assert_eq!(DEPOTS[class].len(), 1, "the rest is its own");
            let again = allocate(layout);
            // SAFETY: as above.
            unsafe { release(again, layout) };
        });
        ender.join().unwrap();
        let again = allocate(layout);
        assert!(blocks.contains(&(again.as_ptr() as usize)));
        assert_eq!(DEPOTS[class].len(), 0);
        // SAFETY: as above.
        unsafe { release(again, layout) };
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
