//! Creating a ring, or explaining why there is none.

use std::error::Error;
use std::{fmt, io};

use io_uring::{IoUring, Probe};

use super::socket::BufferConfig;

/// Which threads may enter a ring, and when its completions are posted.
///
/// A ring with neither of the two flags is never used: there every completion
/// interrupts its owner, which halves the speed of a worker that makes system calls of
/// its own.
///
/// ```
/// use blitzen_driver::ring::{Flavour, RingConfig};
///
/// let config = RingConfig { flavour: Flavour::Pinned, ..RingConfig::default() };
/// # assert_eq!(config.flavour, Flavour::Pinned);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// Completions are posted whenever the owner enters the kernel for any reason, and
    /// other threads can have them posted while it does not:
    /// [`Ring::rescue`](super::Ring::rescue).
    #[default]
    Shared,
    /// Completions are posted only when the owner enters the ring. The owner is one
    /// thread for good, the first that turns the ring; no other thread can rescue it.
    Pinned,
}

/// What a ring is made of.
///
/// ```
/// use blitzen_driver::ring::RingConfig;
///
/// let config = RingConfig::default();
/// assert!(config.completions > config.entries);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RingConfig {
    /// The size of the submission queue. More operations may be in flight.
    pub entries: u32,
    /// The size of the completion queue. If it overflows, fetching the rest costs a
    /// system call.
    pub completions: u32,
    /// Which threads may enter the ring.
    pub flavour: Flavour,
    /// The provided buffers of sockets, created with the first socket.
    pub buffers: BufferConfig,
}

impl Default for RingConfig {
    fn default() -> Self {
        Self {
            entries: 256,
            completions: 16384,
            flavour: Flavour::Shared,
            buffers: BufferConfig::default(),
        }
    }
}

/// Why the system has no ring for us. Everything works without one, only slower.
///
/// ```
/// use blitzen_driver::ring::Refusal;
///
/// let refusal = Refusal::from_error(std::io::Error::from_raw_os_error(libc::EPERM));
/// assert!(matches!(refusal, Refusal::Forbidden(_)));
/// println!("files go to the blocking pool: {refusal}");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The kernel has no io_uring.
    Missing(io::Error),
    /// A sandbox or the administrator forbids it.
    Forbidden(io::Error),
    /// There is no memory for it, or the limit on locked memory is too low.
    NoMemory(io::Error),
    /// The kernel's io_uring lacks something that is needed.
    TooOld(io::Error),
    /// Anything else, such as too many open descriptors.
    Other(io::Error),
}

impl Refusal {
    /// Classifies the error of `io_uring_setup(2)`.
    pub fn from_error(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Self::Missing(error),
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden(error),
            Some(libc::ENOMEM) => Self::NoMemory(error),
            Some(libc::EINVAL) => Self::TooOld(error),
            _ => Self::Other(error),
        }
    }

    /// Whether another attempt may succeed later: the process was probably out of
    /// descriptors.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Other(_))
    }

    fn cause(&self) -> &io::Error {
        match self {
            Self::Missing(error)
            | Self::Forbidden(error)
            | Self::NoMemory(error)
            | Self::TooOld(error)
            | Self::Other(error) => error,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Missing(_) => "this kernel has no io_uring",
            Self::Forbidden(_) => "io_uring is forbidden here",
            Self::NoMemory(_) => "there is no memory for an io_uring",
            Self::TooOld(_) => {
                "this kernel's io_uring is too old (5.19 is needed, for a pinned ring 6.1)"
            }
            Self::Other(_) => "the system refused an io_uring",
        };
        write!(f, "{what}: {}", self.cause())
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause())
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        io::Error::new(io::ErrorKind::Unsupported, refusal)
    }
}

/// Operations that every ring must support. All are older than the flags that are
/// requested, so only a modified kernel lacks one.
#[cfg_attr(blitzen_loom, allow(dead_code))]
const REQUIRED: [u8; 7] = [
    io_uring::opcode::AsyncCancel::CODE,
    io_uring::opcode::PollAdd::CODE,
    io_uring::opcode::Read::CODE,
    io_uring::opcode::Write::CODE,
    io_uring::opcode::Fsync::CODE,
    io_uring::opcode::OpenAt::CODE,
    io_uring::opcode::Close::CODE,
];

/// The operations that the kernel supports.
pub(super) struct Features(Probe);

impl Features {
    /// The features of the simulated kernel: none.
    #[cfg(blitzen_loom)]
    pub(super) fn none() -> Self {
        Self(Probe::new())
    }

    pub(super) fn supports(&self, code: u8) -> bool {
        self.0.is_supported(code)
    }
}

/// Creates a ring, and finds out what it supports.
#[cfg_attr(blitzen_loom, allow(dead_code))]
pub(super) fn build(config: &RingConfig) -> Result<(IoUring, Features), Refusal> {
    let mut builder = IoUring::builder();
    builder
        .setup_clamp()
        .setup_submit_all() // one bad entry does not hold up the others
        .setup_taskrun_flag()
        .setup_cqsize(config.completions.max(config.entries));
    match config.flavour {
        Flavour::Shared => builder.setup_coop_taskrun(),
        Flavour::Pinned => builder
            .setup_defer_taskrun()
            .setup_single_issuer()
            .setup_r_disabled(), // until its owner comes
    };
    let uring = builder.build(config.entries).map_err(Refusal::from_error)?;
    let lacks = |what: &str| Refusal::TooOld(io::Error::other(format!("it lacks {what}")));
    let params = uring.params();
    if !params.is_feature_nodrop() || !params.is_feature_ext_arg() {
        return Err(lacks("completions that are never dropped, or timeouts"));
    }
    if !params.is_feature_submit_stable() {
        return Err(lacks("arguments that may go away after submission"));
    }
    let mut probe = Probe::new();
    uring
        .submitter()
        .register_probe(&mut probe)
        .map_err(Refusal::from_error)?;
    match REQUIRED.iter().find(|&&code| !probe.is_supported(code)) {
        Some(code) => Err(lacks(&format!("operation {code}"))),
        None => Ok((uring, Features(probe))),
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_named_and_carries_its_cause() {
        let cases = [
            (libc::ENOSYS, "has no io_uring"),
            (libc::EPERM, "forbidden"),
            (libc::EACCES, "forbidden"),
            (libc::ENOMEM, "no memory"),
            (libc::EINVAL, "too old"),
            (libc::EMFILE, "refused"),
        ];
        for (code, words) in cases {
            let refusal = Refusal::from_error(io::Error::from_raw_os_error(code));
            assert!(refusal.to_string().contains(words), "{refusal}");
            let error = io::Error::from(refusal);
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
    }
}
