//! A listener by completion.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, ready};

use blitzen_driver::gone;
use blitzen_driver::ring::socket::Listener;

use super::{Wired, unavailable};
use crate::runtime::Inner;
use crate::runtime::io::drivers_for_new_source;

/// A socket whose connections the kernel accepts before they are asked for.
pub(crate) struct Door<S: Wired> {
    /// Opened in the ring of the worker that first waits.
    listener: OnceLock<Listener>,
    runtime: Weak<Inner>,
    socket: Arc<S>,
}

impl Door<mio::net::TcpListener> {
    pub(crate) fn poll_accept(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(mio::net::TcpStream, SocketAddr)>> {
        let connection = ready!(self.listener()?.poll_accept(cx))?;
        let stream = std::net::TcpStream::from(connection);
        let from = stream.peer_addr()?; // the kernel tells only who asks
        Poll::Ready(Ok((mio::net::TcpStream::from_std(stream), from)))
    }
}

impl<S: Wired> Door<S> {
    /// Takes a socket over; gives it back if the runtime has no ring.
    pub(crate) fn new(socket: S, runtime: &Arc<Inner>) -> Result<Self, (S, io::Error)> {
        match drivers_for_new_source(runtime).driver().ring() {
            Ok(_) => Ok(Self {
                listener: OnceLock::new(),
                runtime: Arc::downgrade(runtime),
                socket: Arc::new(socket),
            }),
            Err(error) => Err((socket, unavailable(error))),
        }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    fn listener(&self) -> io::Result<&Listener> {
        if let Some(listener) = self.listener.get() {
            return Ok(listener);
        }
        let inner = self.runtime.upgrade().ok_or_else(gone)?;
        let listener = drivers_for_new_source(&inner)
            .driver()
            .open_listener(self.socket.clone())?;
        // Another task may have been faster; then this one was never used.
        Ok(self.listener.get_or_init(|| listener))
    }

    /// Takes the socket out of the ring.
    pub(crate) fn detach(&mut self) -> io::Result<()> {
        if let Some(listener) = self.listener.take()
            && let Err((listener, error)) = listener.take_out()
        {
            let error = error.unwrap_or_else(|| has_waiting(listener.waiting()));
            self.listener = OnceLock::from(listener);
            return Err(error);
        }
        Ok(())
    }

    /// Gives the socket back after it was taken out of the ring.
    pub(crate) fn into_socket(self) -> io::Result<S> {
        let socket = self.socket.clone();
        drop(self);
        Arc::into_inner(socket).ok_or_else(|| io::Error::other("the socket is in use"))
    }
}

fn has_waiting(count: usize) -> io::Error {
    io::Error::other(format!(
        "{count} connections that were accepted have not been asked for: they would be lost if \
         the listener were used by others now"
    ))
}
