//! Streams whose bytes the kernel brings and takes by itself.
//!
//! | file | what it is |
//! |---|---|
//! | `stream` | a connection, as a task has it: reading and writing |
//! | `stream::leave` | its way to readiness |
//! | `prefix` | bytes that were read ahead |
//! | `owned` | sending from a buffer that the operation owns |
//! | `table` | the sockets of a ring: pure bookkeeping, behind its lock |
//! | `receive`, `send` | the two directions of one socket |
//! | `request` | what waits to be submitted |
//! | `waiters` | who waits for a direction |
//! | `pool` | buffers from which the kernel picks |
//! | `deferred` | what is left to do after the locks |
//! | `model` | all of it, between threads, with a kernel of our own making |
//!
//! A stream is served by one ring, until it leaves that for good. The task that
//! uses it may run anywhere. Reading takes what the ring has brought; small writes
//! of the ring's owner go out with everything else it submits; what is large, or
//! comes from another thread, goes to the kernel directly.

mod deferred;
#[cfg(all(test, blitzen_loom))]
mod model;
mod owned;
pub(super) mod pool;
mod prefix;
mod receive;
mod request;
mod send;
mod stream;
mod table;
mod waiters;

pub use pool::BufferConfig;
pub use stream::{DrainStep, LeftRing, OnRing, RingStream};

pub(super) use deferred::Deferred;
pub(super) use request::cancel_entry;
pub(super) use table::Table;

use std::io;
use std::time::Duration;

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use super::{Core, Ring};
use pool::{BUFFER_GROUP, BufferPool};

/// What a ring's table counts, for looks without the lock.
#[derive(Debug, Default)]
pub(super) struct SocketCounts {
    open: AtomicUsize,
    busy: AtomicUsize,
    queued: AtomicUsize,
}

impl SocketCounts {
    pub(super) fn update(&self, table: &Table) {
        self.open.store(table.open(), Relaxed);
        self.busy.store(table.busy(), Relaxed);
        self.queued.store(table.queued(), Relaxed);
    }
}

/// The thread that turns a ring, by the address of a thread-local; zero for none.
#[derive(Debug, Default)]
pub(super) struct OwnerThread(AtomicUsize);

impl OwnerThread {
    fn current() -> usize {
        blitzen_util::thread_local_const!(
            static ADDRESS: u8 = 0;
        );
        // On a thread that is ending, nobody's.
        ADDRESS
            .try_with(|byte| &raw const *byte as usize)
            .unwrap_or(0)
    }

    /// The calling thread turns the ring.
    pub(super) fn set_current(&self) {
        // Relaxed, here and below: a thread asks only whether it has written its
        // own address, or another one since.
        let current = Self::current();
        if self.0.load(Relaxed) != current {
            self.0.store(current, Relaxed);
        }
    }

    fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    fn is_none(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    fn is_current(&self) -> bool {
        let current = Self::current();
        current != 0 && self.0.load(Relaxed) == current
    }
}

impl Ring {
    /// Streams that are served here. A look without a lock.
    pub fn sockets(&self) -> usize {
        self.sockets.open.load(Relaxed)
    }

    /// Provided buffers that hold something unread.
    pub fn buffers_held(&self) -> usize {
        self.core.lock().sockets.buffers_held()
    }

    /// Whether the owner should sleep in here: something can come.
    pub fn is_needed(&self) -> bool {
        self.in_flight() > 0 || self.sockets() > 0 || self.sockets.busy.load(Relaxed) > 0
    }

    /// Whether the kernel is to do something, or does it.
    pub fn is_at_work(&self) -> bool {
        self.in_flight() > 0 || self.sockets.busy.load(Relaxed) > 0
    }

    /// Whether the caller is the thread that turns this ring, and will again.
    fn is_mine(&self) -> bool {
        self.owner.is_current()
    }

    /// Called when the owner leaves its thread and may not come back: submits what is
    /// queued.
    ///
    /// # Errors
    /// Returns an error if the ring itself fails.
    pub fn release_owner(&self) -> io::Result<()> {
        self.owner.clear();
        while self.sockets.queued.load(Relaxed) > 0 {
            self.turn(Some(Duration::ZERO))?;
            self.owner.clear();
        }
        Ok(())
    }

    /// Does something with the sockets, under the lock. An owner that sleeps is
    /// woken if that has left something to submit (R3). What else is left to do,
    /// the caller does after all its locks (R4).
    #[inline(always)]
    fn visit_sockets<R>(&self, visit: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.lock();
        let before = core.sockets.queued();
        let result = visit(&mut core);
        let has_more = core.sockets.queued() > before;
        self.update_counts(&core);
        drop(core);
        if has_more {
            self.wake_sleeper();
        }
        result
    }

    /// Has buffers for what is received.
    fn provide_buffers(&self, core: &mut Core) -> io::Result<()> {
        if core.sockets.has_pool() {
            return Ok(());
        }
        let mut pool = BufferPool::new(self.buffers);
        let (address, count) = pool.address();
        // SAFETY: the pool is kept until the ring goes, and if anything is
        // still being received then, for ever.
        unsafe { self.port.provide(address, count, BUFFER_GROUP) }.map_err(|error| {
            let text = format!("this kernel's io_uring picks no buffers: {error}");
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?;
        pool.grow();
        core.sockets.set_pool(pool);
        Ok(())
    }

    /// Submits what is queued and takes completions in, whoever asks; or wakes the
    /// owner to do so, if it is in the kernel. Returns false if the kernel obeys
    /// only the owner, and that is another thread.
    fn submit_now(&self) -> bool {
        let mut core = self.core.lock();
        if core.entered {
            drop(core);
            self.interrupt();
            return self.port.obeys_everybody();
        }
        let obeys_us = self.port.obeys_us();
        if obeys_us && self.submit_for_owner(&mut core).is_ok() {
            // SAFETY: R1, R2: under the lock, and nobody is in the kernel.
            if unsafe { self.port.needs_enter() } {
                let _ = self.port.enter(None);
            }
            self.fetch_for_owner();
        }
        let reaped = self.reap(&mut core);
        drop(core);
        self.finish_for_owner(reaped);
        obeys_us
    }

    /// [Submits](Self::submit_now) what nobody else would.
    fn submit_if_unowned(&self) {
        if self.owner.is_none() && self.sockets.queued.load(Relaxed) > 0 {
            self.submit_now();
        }
    }
}
