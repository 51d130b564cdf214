//! Files and directories.
//!
//! ```
//! use blitzen::fs;
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let path = std::env::temp_dir().join(format!("blitzen-fs-{}", std::process::id()));
//! fs::write(&path, "hello").await?;
//! assert_eq!(fs::read_to_string(&path).await?, "hello");
//! fs::remove_file(&path).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A file that is in memory is read at once. Otherwise the kernel works on behalf
//! of the worker (io_uring); a thread of the blocking pool does what io_uring
//! cannot, and everything where there is no io_uring. Dropping a future does not
//! undo what has begun.
//!
//! In a multi-thread runtime on Linux, operations that are likely to take
//! microseconds (creating, opening, renaming or removing a file, writing some
//! bytes, on a local file system) run on the worker's own thread. If one takes
//! longer, the worker goes on on another thread and only the task waits, as with
//! [`block_in_place`](crate::task::block_in_place).
//!
//! Beside Tokio's operations, [`File`] has positional ones with owned buffers:
//! [`read_at`](File::read_at), [`write_at`](File::write_at) and the like.
//!
//! # Panics
//! All functions and methods that are `async` panic outside a runtime.

mod at;
mod dir;
mod doc;
mod file;
mod inline;
mod op;
mod open;
mod open_file;
mod path;
mod reader;
mod sys;
mod times;
mod write_back;

pub use dir::{
    DirBuilder, DirEntry, ReadDir, create_dir, create_dir_all, read_dir, remove_dir, remove_dir_all,
};
pub use file::File;
pub use open::OpenOptions;
#[cfg(unix)]
pub use path::symlink;
pub use path::{
    canonicalize, copy, hard_link, metadata, read, read_link, read_to_string, remove_file, rename,
    set_permissions, symlink_metadata, try_exists, write,
};
#[cfg(windows)]
pub use path::{symlink_dir, symlink_file};
pub use times::FileTimes;
