//! What stands for a task where bare threads do the work: as large, and made and freed in the same
//! way.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel};

pub(crate) struct Block {
    mark: AtomicU64,
    _rest: [u64; 13],
}

impl Block {
    pub(crate) fn new() -> Box<Block> {
        Box::new(Block {
            mark: AtomicU64::new(1),
            _rest: [0; 13],
        })
    }

    /// Changes it, as waking or ending a task does. Returns how often it was changed before,
    /// making it included.
    pub(crate) fn mark(&self) -> u64 {
        self.mark.fetch_add(1, AcqRel)
    }
}
