//! Sockets by completion: the half of `net` that needs an io_uring.
//!
//! | file | what it is |
//! |---|---|
//! | `stream` | a stream |
//! | `absent` | the same where there is no io_uring: none can be created |

mod stream;

pub(crate) use stream::CompletionStream;

use std::io;
use std::os::fd::AsFd;

use mio::event::Source;

use crate::runtime::Inner;
use crate::runtime::io::drivers_for_new_source;

/// A socket that a ring can serve.
pub(crate) trait RingSocket: Source + AsFd + Send + Sync + 'static {}

impl<S: Source + AsFd + Send + Sync + 'static> RingSocket for S {}

/// Proof that a runtime has a ring.
pub(crate) struct RingAvailable(());

/// Checks that the runtime has a ring for completion.
///
/// # Errors
/// Returns an error of kind [`Unsupported`](io::ErrorKind::Unsupported) if it
/// has none.
pub(crate) fn require_ring(runtime: &Inner) -> io::Result<RingAvailable> {
    let Err(error) = drivers_for_new_source(runtime).driver().ring() else {
        return Ok(RingAvailable(()));
    };
    if error.kind() != io::ErrorKind::Unsupported {
        return Err(error);
    }
    let text = format!(
        "sockets by completion were asked for, but {error} (`SocketMode::PreferCompletion`, or \
         BLITZEN_SOCKETS=prefer-completion, goes on by readiness)"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}
