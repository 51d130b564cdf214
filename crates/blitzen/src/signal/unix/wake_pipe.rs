//! A pipe that wakes a thread from `poll(2)` or from its I/O driver.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Both ends of the pipe. They are closed in children when these call
/// `execve(2)`.
#[derive(Debug)]
pub(crate) struct WakePipe {
    sender: UnixStream,
    receiver: UnixStream,
}

impl WakePipe {
    /// # Errors
    /// Those of `socketpair(2)` and `fcntl(2)`.
    pub(crate) fn new() -> io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { sender, receiver })
    }

    /// Makes the receiver readable. A signal handler may call this.
    pub(crate) fn wake(&self) {
        let byte = 0_u8;
        // There is nobody to report an error to. A full pipe is readable already.
        // SAFETY: one byte of ours, and the descriptor is open as long as `self`
        // lives. `write(2)` may be called in a handler.
        let _ =
            unsafe { libc::write(self.sender.as_raw_fd(), std::ptr::from_ref(&byte).cast(), 1) };
    }

    /// Empties the pipe: the receiver is not readable until the next wake.
    pub(crate) fn drain(&self) {
        let mut bytes = [0; 64];
        // An error says that the pipe is empty, or that a signal has interrupted the
        // call: then what is left goes with the next one.
        while (&self.receiver)
            .read(&mut bytes)
            .is_ok_and(|count| count == bytes.len())
        {}
    }

    /// The end that is readable after a wake.
    pub(crate) fn receiver(&self) -> &UnixStream {
        &self.receiver
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn is_readable(pipe: &WakePipe) -> bool {
        let mut entry = libc::pollfd {
            fd: pipe.receiver().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the pointer is to one entry.
        unsafe { libc::poll(&mut entry, 1, 0) == 1 }
    }

    #[test]
    fn any_number_of_wakes_is_drained_at_once() {
        let pipe = WakePipe::new().unwrap();
        assert!(!is_readable(&pipe));
        for wakes in [1, 63, 64, 65, 1 << 20] {
            for _ in 0..wakes {
                pipe.wake(); // also when the pipe is full
            }
            assert!(is_readable(&pipe));
            pipe.drain();
            assert!(!is_readable(&pipe));
        }
    }
}
