//! Free blocks of a class, linked through their own first words.

use std::ptr::NonNull;

/// Free blocks of a class, of which somebody is the only owner.
pub(super) struct Stack {
    top: Option<NonNull<Block>>,
    len: usize,
}

/// A free block. The smallest are larger than this.
struct Block {
    below: Option<NonNull<Block>>,
    /// Of the topmost block of a stack in a list of stacks: that of the next one.
    next: Option<NonNull<Block>>,
}

// SAFETY: it owns its blocks, which are memory and nothing else.
unsafe impl Send for Stack {}

impl Stack {
    pub(super) const EMPTY: Self = Self { top: None, len: 0 };

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = self.top?;
        // SAFETY: a block on the stack is the stack's, and `push` has written this field. The other one
        // may hold anything, so there is no reference to the block.
        self.top = unsafe { (&raw const (*block.as_ptr()).below).read() };
        self.len -= 1;
        Some(block.cast())
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The block is the caller's, who does not use it again, and of the stack's class.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, block: NonNull<u8>) {
        let block = block.cast::<Block>();
        // SAFETY: the caller's; large enough, and aligned to 16.
        unsafe { (&raw mut (*block.as_ptr()).below).write(self.top) };
        self.top = Some(block);
        self.len += 1;
    }
}

/// A list of stacks that are full, the newest first.
pub(super) struct StackList(Option<NonNull<Block>>);

// SAFETY: it owns the blocks of its stacks.
unsafe impl Send for StackList {}

impl StackList {
    pub(super) const EMPTY: Self = Self(None);

    /// Adds a full stack.
    pub(super) fn push(&mut self, stack: Stack) {
        let Some(top) = stack.top else { return };
        // SAFETY: the block is the stack's, which is the list's from here on.
        unsafe { (&raw mut (*top.as_ptr()).next).write(self.0) };
        self.0 = Some(top);
    }

    /// Takes the newest stack; `len` is that of a full one.
    pub(super) fn pop(&mut self, len: usize) -> Option<Stack> {
        let top = self.0?;
        // SAFETY: the topmost block of a stack in the list, written in `push`.
        self.0 = unsafe { (&raw const (*top.as_ptr()).next).read() };
        let top = Some(top);
        Some(Stack { top, len })
    }
}
