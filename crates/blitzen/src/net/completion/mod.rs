//! Sockets by completion: the half of `net` that needs an io_uring.
//!
//! | file | what it is |
//! |---|---|
//! | `line` | a stream |
//! | `absent` | the same where there is no io_uring: nobody can have one |

mod line;

pub(crate) use line::Line;

use std::os::fd::AsFd;

use mio::event::Source;

use crate::runtime::Inner;
use crate::runtime::io::drivers_for_new_source;

/// A socket that a ring can work on.
pub(crate) trait Wired: Source + AsFd + Send + Sync + 'static {}

impl<S: Source + AsFd + Send + Sync + 'static> Wired for S {}

/// Checks that the runtime has a ring for completion.
///
/// # Errors
/// Of kind [`Unsupported`](std::io::ErrorKind::Unsupported) if it has none.
pub(crate) fn require_ring(runtime: &Inner) -> std::io::Result<()> {
    match drivers_for_new_source(runtime).driver().ring() {
        Ok(_) => Ok(()),
        Err(error) => Err(unavailable(error)),
    }
}

/// Says what can be done about a system without io_uring.
fn unavailable(error: std::io::Error) -> std::io::Error {
    if error.kind() != std::io::ErrorKind::Unsupported {
        return error;
    }
    let text = format!(
        "sockets by completion were asked for, but {error} (`SocketMode::PreferCompletion`, or \
         BLITZEN_SOCKETS=prefer-completion, goes on by readiness)"
    );
    std::io::Error::new(std::io::ErrorKind::Unsupported, text)
}
