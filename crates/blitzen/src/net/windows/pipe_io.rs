//! One end of a named pipe: reads, writes and the wait for a client, and how it is closed.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::ops::Deref;
use std::os::windows::io::{FromRawHandle, RawHandle};

use blitzen_util::shim::Mutex;
use bytes::BufMut;
use mio::windows::NamedPipe;

use crate::io::{BOTH, Interest, PollEvented, Ready, fill_buf_mut};

pub(super) struct PipeIo {
    evented: PollEvented<NamedPipe>,
    /// It changes together with the operation that shows it, under the lock: otherwise one that
    /// comes later could be noted before.
    peer: Mutex<Peer>,
}

/// What is known of the other end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// No wait for a client was started since the pipe was made or disconnected.
    Unknown,
    /// A wait for a client may be under way.
    Awaited,
    /// There is one.
    Connected,
}

impl PipeIo {
    /// Registers `handle` with the runtime.
    ///
    /// # Safety
    /// `handle` must be open, and owned by nobody else.
    #[track_caller]
    pub(super) unsafe fn from_raw_handle(handle: RawHandle) -> io::Result<Self> {
        // SAFETY: the caller hands over an open handle that nobody else owns.
        let pipe = unsafe { NamedPipe::from_raw_handle(handle) };
        Ok(Self {
            evented: PollEvented::new(pipe, BOTH, Ready::EMPTY)?,
            peer: Mutex::new(Peer::Unknown),
        })
    }

    fn pipe(&self) -> &NamedPipe {
        &self.evented
    }

    /// Starts to wait for a client, or finds the one that has come.
    pub(super) fn connect(&self) -> io::Result<()> {
        let mut peer = self.peer.lock();
        let connected = self.pipe().connect();
        match &connected {
            Ok(()) => *peer = Peer::Connected,
            // After a write that has succeeded, mio has not taken in the end of the wait yet.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && *peer == Peer::Unknown => {
                *peer = Peer::Awaited;
            }
            Err(_) => {} // a wait that was under way still is
        }
        connected
    }

    /// Disconnects the client.
    pub(super) fn disconnect(&self) -> io::Result<()> {
        let mut peer = self.peer.lock();
        self.pipe().disconnect()?;
        if *peer == Peer::Connected {
            *peer = Peer::Unknown;
        }
        Ok(()) // a wait that was under way may still be
    }

    /// Appends what one read returns to `buf`.
    pub(super) fn read_buf<B: BufMut + ?Sized>(&self, buf: &mut B) -> io::Result<usize> {
        let read = |room: &mut [std::mem::MaybeUninit<u8>]| {
            for byte in &mut *room {
                byte.write(0);
            }
            // SAFETY: every byte was just written.
            let room = unsafe { room.assume_init_mut() };
            Ok((self.pipe().read(room)?, ()))
        };
        // SAFETY: a read returns the number of bytes that it has written.
        let (count, ()) = unsafe { fill_buf_mut(buf, read) }?;
        Ok(count)
    }

    pub(super) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        self.with_client(|mut pipe| pipe.write(buf))
    }

    pub(super) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.with_client(|mut pipe| pipe.write_vectored(bufs))
    }

    /// Calls `write`, which does not succeed without a client.
    fn with_client(
        &self,
        write: impl FnOnce(&NamedPipe) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut peer = self.peer.lock();
        let count = write(self.pipe())?;
        *peer = Peer::Connected;
        Ok(count)
    }

    pub(super) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.attempt(Interest::READABLE, || self.pipe().read(buf))
    }

    pub(super) fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.attempt(Interest::READABLE, || self.pipe().read_vectored(bufs))
    }

    pub(super) fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.attempt(Interest::READABLE, || self.read_buf(buf))
    }

    pub(super) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.attempt(Interest::WRITABLE, || self.write(buf))
    }

    pub(super) fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.attempt(Interest::WRITABLE, || self.write_vectored(bufs))
    }
}

impl Deref for PipeIo {
    type Target = PollEvented<NamedPipe>;

    fn deref(&self) -> &Self::Target {
        &self.evented
    }
}

impl Drop for PipeIo {
    fn drop(&mut self) {
        let pipe = self.evented.take_registered();
        let poller = self.evented.registration().poller();
        poller.close_pipe(pipe, *self.peer.get_mut() == Peer::Awaited);
    }
}

impl fmt::Debug for PipeIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.evented.fmt(f)
    }
}
