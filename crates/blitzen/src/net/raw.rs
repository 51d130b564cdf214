//! Receiving into uninitialized memory.

use std::io;
use std::mem::MaybeUninit;

use bytes::BufMut;
use mio::event::Source;
use socket2::{SockAddr, SockRef};

use crate::io::{PollEvented, fill_buf_mut};

/// A mio socket that can receive.
pub(crate) trait MioSocket: Source {
    /// Calls `operation` with the system's socket. On Windows mio must see a
    /// `WouldBlock`, to ask for the next event.
    fn with<R>(&self, operation: impl FnOnce(SockRef<'_>) -> io::Result<R>) -> io::Result<R>;
}

macro_rules! mio_socket {
    ($socket:ty) => {
        impl MioSocket for $socket {
            #[inline]
            fn with<R>(
                &self,
                operation: impl FnOnce(SockRef<'_>) -> io::Result<R>,
            ) -> io::Result<R> {
                self.try_io(|| operation(SockRef::from(self)))
            }
        }
    };
}

mio_socket!(mio::net::TcpStream);
mio_socket!(mio::net::UdpSocket);
#[cfg(unix)]
mio_socket!(mio::net::UnixStream);
#[cfg(unix)]
mio_socket!(mio::net::UnixDatagram);

/// A system call that receives: it returns the number of bytes written, and
/// perhaps the sender.
type Receive<R> = fn(&SockRef<'_>, &mut [MaybeUninit<u8>]) -> io::Result<(usize, R)>;

#[inline]
fn receive<S: MioSocket, B: BufMut + ?Sized, R>(
    socket: &S,
    buf: &mut B,
    receive: Receive<R>,
) -> io::Result<(usize, R)> {
    // SAFETY: the functions below return the count of the system call, which
    // has written that many bytes.
    unsafe { fill_buf_mut(buf, |room| socket.with(|raw| receive(&raw, room))) }
}

impl<S: MioSocket> PollEvented<S> {
    #[inline]
    pub(crate) fn recv<B: BufMut + ?Sized>(&self, buf: &mut B) -> io::Result<usize> {
        let (count, ()) = receive(&**self, buf, |raw, room| Ok((raw.recv(room)?, ())))?;
        Ok(count)
    }

    pub(crate) fn peek<B: BufMut + ?Sized>(&self, buf: &mut B) -> io::Result<usize> {
        let (count, ()) = receive(&**self, buf, |raw, room| Ok((raw.peek(room)?, ())))?;
        Ok(count)
    }

    pub(crate) fn recv_from<B: BufMut + ?Sized>(
        &self,
        buf: &mut B,
    ) -> io::Result<(usize, SockAddr)> {
        receive(&**self, buf, |raw, room| raw.recv_from(room))
    }

    pub(crate) fn peek_from<B: BufMut + ?Sized>(
        &self,
        buf: &mut B,
    ) -> io::Result<(usize, SockAddr)> {
        receive(&**self, buf, |raw, room| raw.peek_from(room))
    }
}
