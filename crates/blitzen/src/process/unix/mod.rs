//! Child processes on Unix.

mod exit;
mod pidfd;
mod reaper;

use std::io;
use std::os::fd::OwnedFd;

pub(crate) use crate::net::unix::pipe::{Receiver, Sender};
pub(crate) use exit::ExitWait;
pub(crate) use reaper::reap_in_background;

/// The parent's end of a child's pipe.
pub(crate) trait PipeEnd: Sized {
    fn from_fd(fd: OwnedFd) -> io::Result<Self>;
}

impl PipeEnd for Sender {
    #[track_caller]
    fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(fd)
    }
}

impl PipeEnd for Receiver {
    #[track_caller]
    fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(fd)
    }
}

/// Registers a pipe of std's with the current runtime.
#[track_caller]
pub(crate) fn from_std<P: PipeEnd>(stream: impl Into<OwnedFd>) -> io::Result<P> {
    P::from_fd(stream.into())
}
