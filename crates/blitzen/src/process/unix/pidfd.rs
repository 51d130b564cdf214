//! A descriptor that becomes readable when its process ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

/// A process's descriptor.
#[derive(Debug)]
pub(crate) struct Pidfd(OwnedFd);

impl Pidfd {
    /// Of a child that has not been waited for; `None` where there is no such
    /// thing, or none to be had.
    pub(crate) fn of(child: &std::process::Child) -> Option<Self> {
        if is_unwanted() {
            return None;
        }
        open(child.id()).map(Self).ok()
    }
}

/// Whether the environment asks for SIGCHLD.
fn is_unwanted() -> bool {
    static UNWANTED: OnceLock<bool> = OnceLock::new();
    *UNWANTED.get_or_init(|| std::env::var_os("BLITZEN_CHILD").is_some_and(|way| way == "sigchld"))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open(pid: u32) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: takes two numbers, and makes a descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    match fd {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: new, and nobody else's.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd as _) }),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open(_pid: u32) -> io::Result<OwnedFd> {
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
