//! Descriptors and wakers, never a task: the I/O engine of blitzen.
//!
//! | module | what it is |
//! |---|---|
//! | `driver` | everything one worker waits for |
//! | `park` | where it is parked meanwhile, and the token that unparks it |
//! | `poller` | one worker's sockets: waits for events and hands them out |
//! | `readiness` | the readiness of one source, and the tasks that wait for it |
//! | `nowait` | file operations that the kernel can do without waiting (Linux) |
//! | `local_fs` | which paths are on a local file system (Linux) |
//! | `registration` | a source in a poller: readiness, waits, attempts |
//! | `ring` | one worker's io_uring (Linux): operations that own their buffers |
//! | `ready`, `interest` | the sets of what can happen and what is wanted |
//! | `wake_list` | wakers that are woken after a lock is released |
//!
//! The crate is an implementation detail: its interface may change with any release.

mod driver;
mod interest;
#[cfg(target_os = "linux")]
pub mod local_fs;
#[cfg(target_os = "linux")]
pub mod nowait;
mod park;
mod poller;
mod readiness;
mod ready;
mod registration;
#[cfg(blitzen_ring)]
pub mod ring;
#[cfg(all(test, target_os = "linux", not(blitzen_loom)))]
mod scratch;
mod shutdown_error;
mod wake_list;
#[cfg(all(test, blitzen_loom))]
mod waker_event;

pub use driver::{Driver, DriverConfig, SpinPermit};
pub use interest::Interest;
pub use poller::{Poller, PollerCounts, Stream};
pub use readiness::ReadyEvent;
pub use ready::Ready;
pub use registration::Registration;
pub use shutdown_error::{is_shutdown_error, shutdown_error};
