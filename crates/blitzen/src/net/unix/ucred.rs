//! The credentials of the process at the other end of a Unix domain socket.

use std::io;
use std::os::fd::AsRawFd;

use super::{gid_t, pid_t, uid_t};

/// The credentials of a peer process, as they were when it connected or began
/// to listen.
///
/// # Examples
///
#[doc = unix_pair!("socket", "peer")]
/// let credentials = socket.peer_cred()?;
/// assert_eq!(credentials, peer.peer_cred()?); // both ends are ours
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<pid_t>,
    uid: uid_t,
    gid: gid_t,
}

impl UCred {
    /// Returns the number of the process, or `None` if the system does not tell.
    ///
    /// # Examples
    ///
    #[doc = unix_pair!("socket", "peer")]
    /// if let Some(pid) = socket.peer_cred()?.pid() {
    ///     assert_eq!(pid, std::process::id() as i32);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }

    /// Returns the effective user of the process.
    ///
    /// # Examples
    ///
    #[doc = unix_pair!("socket", "peer")]
    /// assert_eq!(socket.peer_cred()?.uid(), peer.peer_cred()?.uid());
    /// # Ok(()) }
    /// ```
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// Returns the effective group of the process.
    ///
    /// # Examples
    ///
    #[doc = unix_pair!("socket", "peer")]
    /// assert_eq!(socket.peer_cred()?.gid(), peer.peer_cred()?.gid());
    /// # Ok(()) }
    /// ```
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// Asks the system about the other end of `socket`.
    pub(crate) fn from_peer(socket: &impl AsRawFd) -> io::Result<Self> {
        sys::peer_credentials(socket.as_raw_fd())
    }
}

/// Linux and its relatives: a socket option.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod sys {
    use std::io;
    use std::os::fd::RawFd;

    use super::UCred;

    pub(super) fn peer_credentials(fd: RawFd) -> io::Result<UCred> {
        // SAFETY: `SO_PEERCRED` is a `ucred`: three integers.
        let found: libc::ucred =
            unsafe { super::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED) }?;
        Ok(UCred {
            pid: Some(found.pid),
            uid: found.uid,
            gid: found.gid,
        })
    }
}

/// illumos and Solaris: an object of the C library.
#[cfg(any(target_os = "illumos", target_os = "solaris"))]
mod sys {
    use std::io;
    use std::os::fd::RawFd;
    use std::ptr;

    use super::UCred;

    /// Frees the credentials however `peer_credentials` ends.
    struct Credentials(*mut libc::ucred_t);

    impl Drop for Credentials {
        fn drop(&mut self) {
            // SAFETY: made by `getpeerucred`, and freed once.
            unsafe { libc::ucred_free(self.0) };
        }
    }

    pub(super) fn peer_credentials(fd: RawFd) -> io::Result<UCred> {
        let mut found = ptr::null_mut();
        // SAFETY: a null pointer asks for a new object, which is stored in `found`.
        if unsafe { libc::getpeerucred(fd, &mut found) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let found = Credentials(found);
        // SAFETY: the object lives until `found` is dropped.
        let (pid, uid, gid) = unsafe {
            (
                libc::ucred_getpid(found.0),
                libc::ucred_geteuid(found.0),
                libc::ucred_getegid(found.0),
            )
        };
        // What the object does not hold is reported as -1.
        if uid == libc::uid_t::MAX || gid == libc::gid_t::MAX {
            return Err(io::Error::last_os_error());
        }
        let pid = (pid != -1).then_some(pid);
        Ok(UCred { pid, uid, gid })
    }
}

/// The BSDs and Apple's systems: `getpeereid(3)`.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "illumos",
    target_os = "solaris",
)))]
mod sys {
    use std::io;
    use std::os::fd::RawFd;

    use super::UCred;
    use crate::net::unix::pid_t;

    pub(super) fn peer_credentials(fd: RawFd) -> io::Result<UCred> {
        let (mut uid, mut gid) = (0, 0);
        // SAFETY: both pointers are to integers of the right type.
        if unsafe { libc::getpeereid(fd, &mut uid, &mut gid) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let pid = peer_pid(fd)?;
        Ok(UCred { pid, uid, gid })
    }

    #[cfg(target_vendor = "apple")]
    fn peer_pid(fd: RawFd) -> io::Result<Option<pid_t>> {
        // SAFETY: `LOCAL_PEERPID` is an integer.
        unsafe { super::getsockopt(fd, libc::SOL_LOCAL, libc::LOCAL_PEERPID) }.map(Some)
    }

    #[cfg(not(target_vendor = "apple"))]
    fn peer_pid(_: RawFd) -> io::Result<Option<pid_t>> {
        Ok(None)
    }
}

/// Reads a socket option whose value is a plain structure.
///
/// # Safety
/// Any pattern of bits must be a value of `T`, and `T` must be the type of this
/// option.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
unsafe fn getsockopt<T>(
    fd: std::os::fd::RawFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = std::mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has room for `len` bytes.
    let status = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut len) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, then written by the system, and any bits are a `T`.
    Ok(unsafe { value.assume_init() })
}
