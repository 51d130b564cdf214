//! Who is at the other end of a Unix domain socket.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::{gid_t, pid_t, uid_t};

/// The process at the other end: what it was when it connected or began to
/// listen.
///
/// ```
#[doc = unix_pair!()]
/// let them = socket.peer_cred()?;
/// assert_eq!(them.pid(), Some(std::process::id() as i32));
/// # drop(peer);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<pid_t>,
    uid: uid_t,
    gid: gid_t,
}

impl UCred {
    /// The process; `None` where the system does not tell.
    ///
    /// ```
    #[doc = unix_pair!()]
    /// println!("{:?}", socket.peer_cred()?.pid());
    /// # drop(peer);
    /// # Ok(()) }
    /// ```
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }

    /// The user the process acts as.
    ///
    /// ```
    #[doc = unix_pair!()]
    /// assert_eq!(socket.peer_cred()?.uid(), peer.peer_cred()?.uid());
    /// # Ok(()) }
    /// ```
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// The group the process acts as.
    ///
    /// ```
    #[doc = unix_pair!()]
    /// assert_eq!(socket.peer_cred()?.gid(), peer.peer_cred()?.gid());
    /// # Ok(()) }
    /// ```
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// Asks the system about the other end of a socket.
    pub(super) fn from_peer(socket: &impl AsRawFd) -> io::Result<Self> {
        from_peer(socket.as_raw_fd())
    }
}

/// Reads an option of a socket whose value is a plain structure.
///
/// # Safety
/// Every pattern of bits is a value of `T`, and `T` is what the system writes
/// for this option.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
unsafe fn getsockopt<T>(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = std::mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the value has room for `len` bytes.
    let answer = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut len) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed or written by the system, and any bits will do.
    Ok(unsafe { value.assume_init() })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn from_peer(fd: RawFd) -> io::Result<UCred> {
    // SAFETY: what the system writes for this option, three numbers.
    let found: libc::ucred = unsafe { getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED) }?;
    Ok(UCred {
        pid: Some(found.pid),
        uid: found.uid,
        gid: found.gid,
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn from_peer(fd: RawFd) -> io::Result<UCred> {
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: two places for two numbers.
    if unsafe { libc::getpeereid(fd, &mut uid, &mut gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    #[cfg(target_vendor = "apple")]
    // SAFETY: what the system writes for this option, a number.
    let pid = Some(unsafe { getsockopt::<pid_t>(fd, libc::SOL_LOCAL, libc::LOCAL_PEERPID) }?);
    #[cfg(not(target_vendor = "apple"))]
    let pid = None;
    Ok(UCred { pid, uid, gid })
}
