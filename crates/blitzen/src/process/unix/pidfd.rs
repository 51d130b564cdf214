//! A descriptor that becomes readable when its process exits.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

/// A pidfd, see `pidfd_open(2)`.
#[derive(Debug)]
pub(crate) struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens the pidfd of a child that has not been waited for; `None` where the
    /// system has none, or refuses one.
    pub(crate) fn open(child: &std::process::Child) -> Option<Self> {
        if is_disabled() {
            return None;
        }
        pidfd_open(child.id()).map(Self).ok()
    }
}

/// Returns whether the environment asks for SIGCHLD.
fn is_disabled() -> bool {
    static DISABLED: OnceLock<bool> = OnceLock::new();
    *DISABLED
        .get_or_init(|| std::env::var_os("BLITZEN_CHILD").is_some_and(|value| value == "sigchld"))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: takes two numbers and returns a descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    match fd {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: a new descriptor, which nobody else owns.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd as _) }),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn pidfd_open(_pid: u32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Source for Pidfd {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.0.as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.0.as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.0.as_raw_fd()).deregister(registry)
    }
}
