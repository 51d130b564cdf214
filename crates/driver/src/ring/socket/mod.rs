//! Streams by completion: the kernel receives and sends their bytes through the ring.
//!
//! | file | what it is |
//! |---|---|
//! | `stream` | a connection, as a task uses it: reading and writing |
//! | `stream::leave` | moving to readiness |
//! | `prefix` | bytes that were read ahead |
//! | `owned` | sending from a buffer that the operation owns |
//! | `table` | the sockets of a ring: pure bookkeeping, behind its lock |
//! | `receive`, `send` | the two directions of one socket |
//! | `request` | requests that wait to be submitted |
//! | `waiters` | the tasks that wait for a direction |
//! | `pool` | the provided buffers |
//! | `deferred` | what is left to do after the locks are released |
//! | `model` | models of all this over a simulated kernel |
//!
//! A stream is served by one ring until it leaves the ring for good. The task that
//! uses it may run anywhere. A read takes bytes that the ring has received. Small
//! writes of the ring's owner are submitted with everything else; large ones, and
//! those of other threads, call `send(2)` directly.

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
pub(super) use table::SocketTable;

use std::io;
use std::time::Duration;

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use super::{Ring, RingState};
use pool::{BUFFER_GROUP, BufferPool};

/// Copies of what a ring's table counts, to be read without the lock.
#[derive(Debug, Default)]
pub(super) struct SocketCounts {
    open: AtomicUsize,
    busy: AtomicUsize,
    queued: AtomicUsize,
}

impl SocketCounts {
    pub(super) fn update(&self, table: &SocketTable) {
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
        // A thread that is ending has no address.
        ADDRESS
            .try_with(|byte| &raw const *byte as usize)
            .unwrap_or(0)
    }

    /// Notes that the calling thread turns the ring.
    pub(super) fn set_current(&self) {
        // Relaxed, here and below: a thread only compares with the address that it
        // has stored itself.
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
    /// Returns the number of streams on the ring. Takes no lock.
    pub fn sockets(&self) -> usize {
        self.sockets.open.load(Relaxed)
    }

    /// Returns the number of provided buffers that hold unread bytes.
    pub fn buffers_held(&self) -> usize {
        self.state.lock().sockets.buffers_held()
    }

    /// Whether completions can come, so that the owner has to sleep in the ring.
    pub fn is_needed(&self) -> bool {
        self.in_flight() > 0 || self.sockets() > 0 || self.sockets.busy.load(Relaxed) > 0
    }

    /// Whether requests are queued or with the kernel.
    pub fn has_kernel_work(&self) -> bool {
        self.in_flight() > 0 || self.sockets.busy.load(Relaxed) > 0
    }

    /// Whether the calling thread turns this ring, and will turn it again.
    fn is_owned_by_current_thread(&self) -> bool {
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

    /// Calls `visit` with the lock held. If it has queued a request, an owner that
    /// sleeps is woken (R3). Deferred work is done by the caller after it has
    /// released all its locks (R4).
    #[inline(always)]
    fn visit_sockets<R>(&self, visit: impl FnOnce(&mut RingState) -> R) -> R {
        let mut state = self.state.lock();
        let before = state.sockets.queued();
        let result = visit(&mut state);
        let has_more = state.sockets.queued() > before;
        self.update_counts(&state);
        drop(state);
        if has_more {
            self.wake_sleeper();
        }
        result
    }

    /// Registers the provided buffers, if that has not been done.
    fn provide_buffers(&self, state: &mut RingState) -> io::Result<()> {
        if state.sockets.has_pool() {
            return Ok(());
        }
        let mut pool = BufferPool::new(self.buffers);
        let (address, count) = pool.address();
        // SAFETY: the pool is kept as long as the ring; it is leaked if the kernel is
        // still receiving then.
        unsafe { self.queues.provide(address, count, BUFFER_GROUP) }.map_err(|error| {
            let text = format!("this kernel's io_uring picks no buffers: {error}");
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?;
        pool.grow();
        state.sockets.set_pool(pool);
        Ok(())
    }

    /// Submits what is queued and takes completions in, on any thread; or wakes the
    /// owner to do so, if it is in the kernel. Returns false if the kernel lets only
    /// the owner enter, and that is another thread.
    fn submit_now(&self) -> bool {
        let mut state = self.state.lock();
        if state.entered {
            drop(state);
            self.interrupt();
            return self.queues.allows_any_thread();
        }
        let allows_current_thread = self.queues.allows_current_thread();
        if allows_current_thread && self.submit_for_owner(&mut state).is_ok() {
            // SAFETY: R1, R2: under the lock, and the owner is not in the kernel.
            if unsafe { self.queues.needs_enter() } {
                let _ = self.queues.enter(None);
            }
            self.fetch_for_owner();
        }
        let reaped = self.reap(&mut state);
        drop(state);
        self.finish_for_owner(reaped);
        allows_current_thread
    }

    /// [Submits](Self::submit_now) what is queued if no thread turns the ring.
    fn submit_if_unowned(&self) {
        if self.owner.is_none() && self.sockets.queued.load(Relaxed) > 0 {
            self.submit_now();
        }
    }
}
