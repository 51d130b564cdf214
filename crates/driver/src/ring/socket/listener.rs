//! A socket that accepts by way of a ring, as a task has it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use blitzen_util::coop;

use super::table::{Key, Table};
use crate::gone;
use crate::ring::Ring;

/// A socket whose connections are accepted by way of a [`Ring`].
///
/// Made by [`Ring::open_listener`]. Once somebody has waited, connections are
/// accepted before anybody asks for them, up to a limit.
///
/// ```
/// use std::sync::Arc;
/// use std::task::{Context, Poll, Waker};
/// use blitzen_driver::Poller;
/// use blitzen_driver::ring::{Ring, RingConfig};
///
/// let poller = Arc::new(Poller::new(16)?);
/// let Ok(ring) = Ring::new(&RingConfig::default(), poller) else { return Ok(()) };
/// let ring = Arc::new(ring);
/// let socket = Arc::new(std::net::TcpListener::bind("127.0.0.1:0")?);
/// let listener = ring.open_listener(socket.clone())?;
///
/// let client = std::net::TcpStream::connect(socket.local_addr()?)?;
/// let mut cx = Context::from_waker(Waker::noop());
/// let connection = loop {
///     match listener.poll_accept(&mut cx) {
///         Poll::Ready(connection) => break connection?,
///         Poll::Pending => ring.turn(None)?, // the owner's part
///     };
/// };
/// let connection = std::net::TcpStream::from(connection);
/// assert_eq!(connection.peer_addr()?, client.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Listener {
    ring: Arc<Ring>,
    key: Key,
}

impl Ring {
    /// Takes a listening socket in.
    ///
    /// # Errors
    /// [`gone`] after [`cancel_all`](Ring::cancel_all).
    pub fn open_listener<S>(self: &Arc<Self>, socket: Arc<S>) -> io::Result<Listener>
    where
        S: AsFd + Send + Sync + 'static,
    {
        let fd = socket.as_fd().as_raw_fd();
        let key = self.with_sockets(|core, _| match core.sockets.is_shut() {
            true => Err(gone()),
            false => Ok(core.sockets.add_listener(fd, socket)),
        })?;
        let ring = self.clone();
        Ok(Listener { ring, key })
    }
}

impl Listener {
    /// Waits for a connection. Every task that waits is told of one.
    ///
    /// # Errors
    /// What the system says, and [`gone`] if the ring was shut.
    ///
    /// # Cancel safety
    /// A connection that comes when nobody waits is kept for the next call.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<OwnedFd>> {
        let spent = ready!(coop::poll_proceed(cx));
        loop {
            if let Some(result) = self
                .ring
                .with_sockets(|core, _| core.sockets.accept(self.key))
            {
                spent.made_progress();
                return Poll::Ready(result.map_err(io::Error::from_raw_os_error));
            }
            let waker = cx.waker().clone(); // foreign code: before the lock
            let waits = self.ring.with_sockets(|core, after| {
                match core.sockets.is_shut() && core.sockets.waiting(self.key) == 0 {
                    true => Err(gone()),
                    false => Ok(core.sockets.wait_to_accept(self.key, waker, after)),
                }
            });
            match waits {
                Ok(true) => return Poll::Pending,
                Ok(false) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// How many connections were accepted that nobody has asked for.
    pub fn waiting(&self) -> usize {
        self.ring
            .with_sockets(|core, _| core.sockets.waiting(self.key))
    }

    /// Takes the socket out of the ring again. Blocks as
    /// [`Stream::take_out`](super::Stream::take_out) does.
    ///
    /// # Errors
    /// The listener back: if connections were accepted that nobody has asked
    /// for, which would be lost; and with an error, of kind
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy), if the ring obeys only a
    /// thread that does not turn it.
    pub fn take_out(self) -> Result<(), (Self, Option<io::Error>)> {
        match self.ring.stand_aside(self.key, Table::waiting) {
            Ok(0) => Ok(()),
            Ok(_) => Err((self, None)),
            Err(error) => Err((self, Some(error))),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ring
            .with_sockets(|core, after| core.sockets.close(self.key, after));
        self.ring.push_on_if_unowned();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}
