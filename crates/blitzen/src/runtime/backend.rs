//! The choice between epoll and io_uring for a runtime.

use std::io;

use blitzen_driver::DriverConfig;
#[cfg(blitzen_ring)]
use blitzen_driver::Poller;
#[cfg(blitzen_ring)]
use blitzen_driver::ring::{Flavour, Ring, RingConfig};

/// The environment variable that decides if the builder does not.
const VARIABLE: &str = "BLITZEN_IO";

/// The interface of the kernel that a runtime uses.
///
/// [`Builder::io_backend`](super::Builder::io_backend) takes it.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, IoBackend};
///
/// let runtime = Builder::new_multi_thread().io_backend(IoBackend::Epoll).build().unwrap();
/// # drop(runtime);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoBackend {
    /// io_uring where the system offers it, and [`Epoll`](Self::Epoll) where it is missing, too
    /// old or forbidden. This is the default.
    #[default]
    Auto,
    /// No io_uring: readiness for sockets (epoll, or its counterpart on other systems), and the
    /// blocking pool for files.
    Epoll,
    /// io_uring. Building the runtime fails where the system does not offer it.
    Uring,
}

impl IoBackend {
    /// Reads the backend from the environment.
    pub(super) fn from_environment() -> io::Result<Self> {
        match std::env::var(VARIABLE) {
            Err(std::env::VarError::NotPresent) => Ok(Self::default()),
            Ok(text) => Self::parse(&text).ok_or_else(|| unknown(&text)),
            Err(std::env::VarError::NotUnicode(text)) => Err(unknown(&text.to_string_lossy())),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "auto" => Some(Self::Auto),
            "epoll" => Some(Self::Epoll),
            "uring" => Some(Self::Uring),
            _ => None,
        }
    }

    /// Sets the rings of a runtime; `stays` if it never leaves its thread.
    #[cfg(blitzen_ring)]
    pub(super) fn apply(self, config: &mut DriverConfig, stays: bool) -> io::Result<()> {
        let ring = ring_config(stays);
        if self == Self::Uring {
            try_ring(&ring)?;
        }
        config.ring = (self != Self::Epoll).then_some(ring);
        Ok(())
    }

    /// Replaces `Auto` by what the system offers now; `stays` as for [`apply`](Self::apply).
    #[cfg(blitzen_ring)]
    pub(super) fn resolve(self, stays: bool) -> Self {
        match self {
            Self::Auto => match try_ring(&ring_config(stays)) {
                Ok(()) => Self::Uring,
                Err(_) => Self::Epoll,
            },
            chosen => chosen,
        }
    }

    #[cfg(not(blitzen_ring))]
    pub(super) fn resolve(self, _stays: bool) -> Self {
        Self::Epoll
    }

    #[cfg(not(blitzen_ring))]
    pub(super) fn apply(self, _: &mut DriverConfig, _stays: bool) -> io::Result<()> {
        match self {
            Self::Auto | Self::Epoll => Ok(()),
            Self::Uring => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring needs Linux on a 64-bit processor that the `io-uring` crate knows",
            )),
        }
    }
}

#[cfg(blitzen_ring)]
fn ring_config(stays: bool) -> RingConfig {
    RingConfig {
        flavour: match stays {
            true => Flavour::Pinned,
            // A worker's thread may change, and others do its work when it is stuck.
            false => Flavour::Shared,
        },
        ..RingConfig::default()
    }
}

/// Creates a ring and drops it.
#[cfg(blitzen_ring)]
fn try_ring(config: &RingConfig) -> io::Result<()> {
    Ring::new(config, Poller::new(1)?.into())?;
    Ok(())
}

fn unknown(text: &str) -> io::Error {
    let text = format!("{VARIABLE} must be `auto`, `epoll` or `uring`, not `{text}`");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_backend_has_a_name_and_others_are_refused() {
        assert_eq!(IoBackend::parse("epoll"), Some(IoBackend::Epoll));
        assert_eq!(IoBackend::parse("uring"), Some(IoBackend::Uring));
        assert_eq!(IoBackend::parse("auto"), Some(IoBackend::Auto));
        assert_eq!(IoBackend::parse("io_uring"), None);
        assert!(unknown("kqueue").to_string().contains("`kqueue`"));
    }
}
