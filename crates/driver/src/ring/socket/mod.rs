//! Sockets whose bytes the kernel brings and takes by itself.
//!
//! | file | what it is |
//! |---|---|
//! | `pool` | buffers from which the kernel picks |
//! | `flood` | whether more comes than can be dealt with |
//! | `table` | the sockets of a ring: pure bookkeeping, behind its lock |
//! | `stream` | a connection, as a task has it |
//! | `listener` | a socket that accepts, as a task has it |
//! | `lend` | sending from a buffer that is owned by the operation |
//! | `model` | all of it, between threads, with a kernel of our own making |
//!
//! A socket has a home: the ring that it was opened in, where it stays. The
//! task that uses it may run anywhere. Reading takes what the ring has brought;
//! small writes of the ring's owner go out with everything else it submits;
//! what is large, or comes from another thread, goes to the system directly.

mod flood;
mod lend;
mod listener;
#[cfg(all(test, blitzen_loom))]
mod model;
pub(super) mod pool;
mod stream;
pub(super) mod table;

pub use listener::Listener;
pub use pool::BufferConfig;
pub use stream::{Buffered, Refused, Stream};

use std::io;
use std::time::Duration;

use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;
use blitzen_util::shim::{MutexGuard, thread};

use super::{Core, Harvest, Ring};
use pool::{GROUP, Pool};
use table::{Aftermath, Key, Table};

/// What a ring's table counts, for looks without the lock.
#[derive(Debug, Default)]
pub(super) struct Counts {
    open: AtomicUsize,
    busy: AtomicUsize,
    queued: AtomicUsize,
}

impl Counts {
    pub(super) fn note(&self, table: &Table) {
        self.open.store(table.open(), Relaxed);
        self.busy.store(table.busy(), Relaxed);
        self.queued.store(table.queued(), Relaxed);
    }
}

/// The thread that turns a ring, by a mark of its own; zero for none.
#[derive(Debug, Default)]
pub(super) struct Owner(AtomicUsize);

impl Owner {
    fn mark() -> usize {
        blitzen_util::thread_local_const!(
            static MARK: u8 = 0;
        );
        // On a thread that is ending, nobody's.
        MARK.try_with(|mark| &raw const *mark as usize).unwrap_or(0)
    }

    /// The calling thread is.
    pub(super) fn is_here(&self) {
        // Relaxed, here and below: a thread asks only whether it has written
        // its own mark, or another one since.
        let mark = Self::mark();
        if self.0.load(Relaxed) != mark {
            self.0.store(mark, Relaxed);
        }
    }
}

/// Only the thread of the socket's runtime can do it, and it does not run that.
fn not_run() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "the kernel works on this socket for a runtime that stays on its thread, and which is \
         not running now: do this on that thread, or while it runs",
    )
}

impl Ring {
    /// Sockets that somebody holds. A look without a lock.
    pub fn sockets(&self) -> usize {
        self.sockets.open.load(Relaxed)
    }

    /// Buffers that hold something which has come and was not read.
    pub fn buffers_held(&self) -> usize {
        self.core.lock().sockets.held_buffers()
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
        let mark = Owner::mark();
        mark != 0 && self.owner.0.load(Relaxed) == mark
    }

    /// The owner goes, and may not come back: what is queued goes out now.
    ///
    /// # Errors
    /// What the kernel says of the ring itself.
    pub fn leave_it(&self) -> io::Result<()> {
        self.owner.0.store(0, Relaxed);
        while self.sockets.queued.load(Relaxed) > 0 {
            self.turn(Some(Duration::ZERO))?;
            self.owner.0.store(0, Relaxed);
        }
        self.tell_onlookers(&self.core.lock());
        Ok(())
    }

    /// Does something with the sockets, under the lock; an owner asleep is
    /// woken if that has left something for the kernel (R3).
    #[inline(always)]
    fn with_sockets<R>(&self, visit: impl FnOnce(&mut Core, &mut Aftermath) -> R) -> R {
        let mut after = Aftermath::default();
        let result = self.visit_sockets(|core| visit(core, &mut after));
        after.finish();
        result
    }

    /// The same for one that holds another lock, and sees to the aftermath when
    /// it has let go of it (R4).
    #[inline(always)]
    fn visit_sockets<R>(&self, visit: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.lock();
        let before = core.sockets.queued();
        let result = visit(&mut core);
        let more = core.sockets.queued() > before;
        self.count(&core);
        drop(core);
        if more {
            self.wake_sleeper();
        }
        result
    }

    /// Has buffers for what is received.
    fn provide_buffers(&self, core: &mut Core) -> io::Result<()> {
        if core.sockets.has_pool() {
            return Ok(());
        }
        let mut pool = Pool::new(self.buffers);
        let (address, count) = pool.address();
        // SAFETY: the pool is kept until the ring goes, and if anything is
        // still being received then, for ever.
        unsafe { self.port.provide(address, count, GROUP) }.map_err(|error| {
            let text = format!("this kernel's io_uring picks no buffers: {error}");
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?;
        pool.grow();
        core.sockets.set_pool(pool);
        Ok(())
    }

    /// Does what is queued for the sockets right now, whoever asks, or wakes
    /// the owner to do so, if it is in the kernel.
    fn push_on(&self) {
        let mut core = self.core.lock();
        if core.entered {
            drop(core);
            self.interrupt();
        } else {
            let harvest = self.push_on_locked(&mut core);
            drop(core);
            harvest.finish();
        }
    }

    fn push_on_locked(&self, core: &mut Core) -> Harvest {
        // A ring that does not obey us obeys its owner, who will be here.
        if self.port.obeys_us() && self.send_for_owner(core).is_ok() {
            // SAFETY: R1, R2: under the lock, and nobody is in the kernel.
            if unsafe { self.port.has_business() } {
                let _ = self.port.enter(None);
            }
            self.fetch_for_owner();
        }
        let mut harvest = Harvest::default();
        self.reap(core, &mut harvest);
        harvest
    }

    /// Lets others at a socket: nothing is armed any more and everything is
    /// sent, unless something is `left` that they would miss. Returns how much.
    /// Blocks for the moment that this takes; what only the owner can do is waited
    /// for.
    ///
    /// # Errors
    /// [`not_run`] if only the owner can do it and does not turn the ring.
    fn stand_aside(&self, key: Key, left: fn(&mut Table, Key) -> usize) -> io::Result<usize> {
        let mut core = self.core.lock();
        core.sockets.set_aside(key);
        let found = loop {
            let is_aside = core.sockets.disarm(key);
            let left = left(&mut core.sockets, key);
            self.count(&core);
            if is_aside || left > 0 {
                break Ok(left);
            }
            if core.entered {
                self.interrupt(); // before we wait: it comes round, and tells us
                core = self.look_on(core);
            } else if self.port.obeys_us() {
                let harvest = self.push_on_locked(&mut core);
                drop(core);
                harvest.finish();
                thread::yield_now(); // to whoever else is at it
                core = self.core.lock();
            } else if self.owner.0.load(Relaxed) == 0 {
                break Err(not_run());
            } else {
                // It turns the ring again before it sleeps, and says when it
                // leaves instead.
                core = self.look_on(core);
            }
        };
        let mut after = Aftermath::default();
        core.sockets.resume(key, &mut after);
        drop(core);
        after.finish();
        found
    }

    /// Waits for the next time that completions are taken in.
    fn look_on<'a>(&'a self, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        core.onlookers += 1;
        let mut core = self.turned.wait(core);
        core.onlookers -= 1;
        core
    }

    /// The same, for what cannot wait, if nobody turns the ring.
    fn push_on_if_unowned(&self) {
        if self.owner.0.load(Relaxed) == 0 && self.sockets.queued.load(Relaxed) > 0 {
            self.push_on();
        }
    }
}
