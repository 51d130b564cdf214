//! Sockets by completion: the half of `net` that needs an io_uring.
//!
//! | file | what it is |
//! |---|---|
//! | `line` | a stream |
//! | `door` | a listener |
//! | `absent` | both, where there is no io_uring: nobody can have one |

mod door;
mod line;

pub(crate) use door::Door;
pub(crate) use line::Line;

use std::os::fd::AsFd;

use mio::event::Source;

/// A socket that a ring can work on.
pub(crate) trait Wired: Source + AsFd + Send + Sync + 'static {}

impl<S: Source + AsFd + Send + Sync + 'static> Wired for S {}

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
