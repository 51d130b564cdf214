//! Waiting in epoll directly: the timeout of mio is in whole milliseconds, which
//! is too coarse for a worker's next timer.
//!
//! mio still registers the sources; only the wait is made here.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Token};

use crate::Ready;

/// A source that is read and written, with what the selector needs to watch it.
///
/// ```
/// let (mut ours, _theirs) = mio::net::UnixStream::pair()?;
/// fn stream(_: &mut impl blitzen_driver::Stream) {}
/// stream(&mut ours);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Stream: Source + AsFd {}

impl<S: Source + AsFd> Stream for S {}

/// A descriptor without a type of mio's. epoll goes on reporting what happens to it.
#[derive(Debug)]
pub(crate) struct BareDescriptor;

impl BareDescriptor {
    pub(crate) fn none() -> Self {
        Self
    }

    pub(crate) fn new(_descriptor: RawFd, _interest: Interest) -> Self {
        Self
    }
}

/// The kernel's queue of events.
#[derive(Debug)]
pub(in crate::poller) struct Selector {
    poll: mio::Poll,
}

impl Selector {
    pub(in crate::poller) fn new() -> io::Result<Self> {
        Ok(Self {
            poll: mio::Poll::new()?,
        })
    }

    pub(in crate::poller) fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    /// Registers a stream for reading only, since a new stream is writable, and
    /// an event that says so would wake nobody. Returns the descriptor, for
    /// [`watch_both`](Self::watch_both) when writability matters.
    pub(in crate::poller) fn add_stream(
        &self,
        stream: &mut impl Stream,
        token: Token,
    ) -> io::Result<Option<RawFd>> {
        let descriptor = stream.as_fd().as_raw_fd();
        self.registry()
            .register(stream, token, Interest::READABLE)?;
        Ok(Some(descriptor))
    }

    /// Registers a stream for both directions. An event reports what it is ready
    /// for now.
    pub(in crate::poller) fn watch_both(&self, descriptor: RawFd, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        self.registry()
            .reregister(&mut SourceFd(&descriptor), token, both)
    }

    /// Removes a source.
    pub(in crate::poller) fn remove(&self, source: &mut impl Source) -> io::Result<()> {
        self.registry().deregister(source)
    }

    /// There is nothing to do: it is watched until it is removed.
    #[inline(always)]
    pub(in crate::poller) fn watch_again(
        &self,
        _bare: &BareDescriptor,
        _token: Token,
    ) -> io::Result<()> {
        Ok(())
    }

    /// Waits for up to `limit` events, at most for `timeout`.
    pub(in crate::poller) fn wait(
        &self,
        events: &mut Events,
        limit: usize,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        events.list.clear();
        let limit = limit.min(events.list.capacity());
        let fd = self.poll.as_raw_fd();
        let count = match timeout {
            Some(time) if !time.is_zero() && events.is_precise => {
                let waited = wait_precisely(fd, events, limit, time);
                match waited {
                    Err(error) if is_missing(&error) => {
                        events.is_precise = false;
                        wait_in_ms(fd, events, limit, timeout)?
                    }
                    waited => waited?,
                }
            }
            _ => wait_in_ms(fd, events, limit, timeout)?,
        };
        // SAFETY: the kernel has filled `count` entries, no more than `limit`,
        // which is within the capacity.
        unsafe { events.list.set_len(count) };
        Ok(())
    }
}

/// Whether the call is missing in this kernel, or refused by a sandbox.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

fn wait_precisely(
    fd: i32,
    events: &mut Events,
    limit: usize,
    timeout: Duration,
) -> io::Result<usize> {
    // The kernel's own layout, which has 64 bits in every field on every
    // architecture.
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    let spec = Timespec {
        seconds: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        nanoseconds: timeout.subsec_nanos().into(),
    };
    // SAFETY: the buffer has room for `limit` events, `spec` outlives the call,
    // and a null signal mask changes no mask.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            fd,
            events.list.as_mut_ptr(),
            limit as libc::c_int,
            &raw const spec,
            std::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

fn wait_in_ms(
    fd: i32,
    events: &mut Events,
    limit: usize,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let ms = match timeout {
        None => -1,
        // Rounded up: a wait that ended too early would be repeated until its
        // time.
        Some(time) => {
            let ms = time.as_nanos().div_ceil(1_000_000);
            libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
        }
    };
    // SAFETY: the buffer has room for `limit` events.
    let count =
        unsafe { libc::epoll_wait(fd, events.list.as_mut_ptr(), limit as libc::c_int, ms) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The events of a wait.
pub(in crate::poller) struct Events {
    list: Vec<libc::epoll_event>,
    /// Whether the kernel takes a timeout in nanoseconds, as far as is known.
    is_precise: bool,
}

impl Events {
    pub(in crate::poller) fn with_limits(few: usize, many: usize) -> Self {
        Self {
            list: Vec::with_capacity(few.max(many)),
            is_precise: true,
        }
    }

    /// Whether a wait has found more than its limit, and the next one hands it out.
    #[inline(always)]
    pub(in crate::poller) fn are_left(&self) -> bool {
        false
    }

    pub(in crate::poller) fn iter(&self) -> impl Iterator<Item = (usize, Ready)> + '_ {
        self.list
            .iter()
            .map(|event| (event.u64 as usize, ready(event.events)))
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("count", &self.list.len())
            .finish()
    }
}

/// Converts the kernel's event bits.
fn ready(bits: u32) -> Ready {
    const IN: u32 = libc::EPOLLIN as u32;
    const OUT: u32 = libc::EPOLLOUT as u32;
    const PRI: u32 = libc::EPOLLPRI as u32;
    const ERR: u32 = libc::EPOLLERR as u32;
    const HUP: u32 = libc::EPOLLHUP as u32;
    const RDHUP: u32 = libc::EPOLLRDHUP as u32;

    let has = |bit: u32| bits & bit != 0;
    let mut ready = Ready::EMPTY;
    let mut add = |holds: bool, what: Ready| {
        if holds {
            ready |= what;
        }
    };
    // A read returns the error, even of a source that is only written.
    add(has(IN | PRI | ERR), Ready::READABLE);
    add(has(OUT), Ready::WRITABLE);
    add(has(PRI), Ready::PRIORITY);
    add(has(ERR), Ready::ERROR);
    // Both halves are closed, or the peer will send no more.
    add(has(HUP) || (has(IN) && has(RDHUP)), Ready::READ_CLOSED);
    // Both halves are closed, or nobody reads the other end of the pipe.
    add(
        has(HUP) || (has(OUT) && has(ERR)) || bits == ERR,
        Ready::WRITE_CLOSED,
    );
    ready
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_timeout_below_a_millisecond_is_kept_or_rounded_up() {
        let selector = Selector::new().unwrap();
        let mut events = Events::with_limits(1, 1);
        for is_precise in [true, false] {
            events.is_precise = is_precise;
            let timeout = Duration::from_micros(200);
            let start = Instant::now();
            selector.wait(&mut events, 1, Some(timeout)).unwrap();
            assert!(start.elapsed() >= timeout);
            assert_eq!(events.iter().count(), 0);
        }
    }

    #[test]
    fn the_bits_are_read_as_the_kernel_means_them() {
        let hup = libc::EPOLLHUP as u32;
        assert!(ready(hup).is_read_closed() && ready(hup).is_write_closed());
        let rdhup = libc::EPOLLRDHUP as u32;
        assert!(ready(rdhup).is_empty());
        let end = ready(rdhup | libc::EPOLLIN as u32);
        assert!(end.is_read_closed() && end & Ready::READABLE == Ready::READABLE);
        assert!(!end.is_write_closed());
        let broken = ready(libc::EPOLLERR as u32);
        assert!(broken.is_write_closed() && broken.is_error() && broken.is_readable());
        assert!(!broken.is_read_closed());
        let urgent = ready(libc::EPOLLPRI as u32);
        assert!(urgent.is_priority() && urgent.is_readable());
    }
}
