//! Basic building blocks of every layer of blitzen: no tasks, descriptors or clocks.
//!
//! | module | what it is |
//! |---|---|
//! | [`asymmetric_fence`] | two fences, one of which pays for both |
//! | [`backoff`] | how many attempts to skip after failures |
//! | [`shim`] | std or loom: atomics, cells, locks, threads |
//! | [`field`] | named bit ranges of a packed word |
//! | [`pad`] | cache-line padding |
//! | [`pages`] | memory straight from the system |
//! | [`thread_shard`] | a number for every thread, to choose among shards by |
//! | [`kernel_thread`] | the calling thread as the kernel calls it |
//! | [`list`] | intrusive doubly linked list |
//! | [`lock`] | locks of a word or two, for short critical sections |
//! | [`wake_batch`] | wakers gathered under a lock, fired after it |
//! | [`wake_cause`] | why the calling thread wakes tasks |
//! | [`wake_set`] | which of many members were woken |
//! | [`woken_flag`] | whether a future was woken since its last poll |
//! | [`prefetch`] | the processor's prefetch hint |
//! | [`quiet`] | running foreign code whose panics must not spread |
//! | [`rng`] | xorshift, unbiased range |
//! | [`sample_slot`] | a place that a signal handler fills for whoever asks |
//! | [`flags`] | flags that a signal handler may raise |
//! | [`futex`] | wait and wake on a word |
//! | [`park`] | one-token thread parker |
//! | [`spin`] | spinning for a short time before going to sleep |
//! | [`block_on`] | run one future on the calling thread |
//! | [`coop`] | the cooperative budget of the task being polled |
//! | [`delay`] | sleeping, with the timers that a runtime has installed |
//! | [`entered`] | whether this thread is driving tasks, and so must not block |
//! | [`wait`] | what the task being polled waits for |
//!
//! The crate is an implementation detail: its interface may change with any release.

#[cfg(not(target_has_atomic = "64"))]
compile_error!(
    "blitzen needs 64-bit atomics, which this target does not have: packed words of 64 bits \
     (the state of a task, run queues, readiness) change in one step"
);

pub mod asymmetric_fence;
pub mod backoff;
pub mod block_on;
pub mod coop;
pub mod delay;
pub mod entered;
pub mod field;
pub mod flags;
pub mod futex;
pub mod kernel_thread;
pub mod list;
pub mod lock;
pub mod lock_owner;
pub mod pad;
pub mod pages;
pub mod park;
pub mod prefetch;
pub mod quiet;
pub mod rng;
pub mod sample_slot;
pub mod shim;
pub mod spin;
mod spin_policy;
pub mod thread_shard;
pub mod wait;
pub mod wake_batch;
pub mod wake_cause;
pub mod wake_set;
pub mod woken_flag;

#[cfg(blitzen_loom)]
#[doc(hidden)]
pub use loom;
