//! An async I/O runtime with the shape of Tokio.

pub mod fs;
pub mod future;
pub mod io;
#[doc(hidden)]
pub mod macros;
pub mod net;
pub mod process;
pub mod runtime;
pub mod shutdown;
pub mod signal;
pub mod task;
pub mod time;

#[doc(inline)]
pub use blitzen_sync as sync;
#[doc(inline)]
pub use blitzen_sync::channel;

pub use blitzen_macros::{main, test};
#[doc(inline)]
pub use task::spawn;
