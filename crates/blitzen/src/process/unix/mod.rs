//! Processes of Unix.

mod exit;
mod pidfd;
mod reaper;

use std::io;
use std::os::fd::OwnedFd;

pub(crate) use crate::net::unix::pipe::{Receiver, Sender};
pub(crate) use exit::Exit;
pub(crate) use reaper::abandon;

/// One of our ends of a child's pipe.
pub(crate) trait End: Sized {
    fn from_fd(fd: OwnedFd) -> io::Result<Self>;
}

impl End for Sender {
    #[track_caller]
    fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(fd)
    }
}

impl End for Receiver {
    #[track_caller]
    fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(fd)
    }
}

/// Registers a pipe of std's with the current runtime.
#[track_caller]
pub(crate) fn from_std<E: End>(stream: impl Into<OwnedFd>) -> io::Result<E> {
    E::from_fd(stream.into())
}
