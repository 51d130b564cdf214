//! What is left to do after the locks of a ring and its streams are released.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::task::Waker;

use super::owned::OwnedSend;
use super::table::KeepOpen;
use crate::wake_list::{WakeList, contain_panic};

/// Wakers to be woken and values to be dropped after the lock: both run foreign
/// code, which may come back to the ring.
#[derive(Default)]
pub(in crate::ring) struct Deferred {
    pub(in crate::ring) wakes: WakeList,
    /// Mostly empty.
    drops: Vec<Dropped>,
}

enum Dropped {
    Waker(#[allow(dead_code)] Waker),
    Socket(#[allow(dead_code)] KeepOpen),
    Owned(#[allow(dead_code)] Arc<dyn OwnedSend>),
    /// A socket whose sending direction is shut down before it is dropped.
    HalfClosed(#[allow(dead_code)] KeepOpen, RawFd),
}

impl Deferred {
    pub(in crate::ring) fn is_empty(&self) -> bool {
        self.wakes.is_empty() && self.drops.is_empty()
    }

    pub(super) fn drop_waker(&mut self, waker: Option<Waker>) {
        self.drops.extend(waker.map(Dropped::Waker));
    }

    pub(super) fn drop_socket(&mut self, socket: KeepOpen) {
        self.drops.push(Dropped::Socket(socket));
    }

    pub(super) fn drop_owned(&mut self, owned: Arc<dyn OwnedSend>) {
        self.drops.push(Dropped::Owned(owned));
    }

    pub(super) fn half_close(&mut self, socket: KeepOpen, fd: RawFd) {
        self.drops.push(Dropped::HalfClosed(socket, fd));
    }

    /// Does all of it. A panic of a waker or of a value that is dropped ends
    /// neither the caller nor the rest.
    #[inline]
    pub(in crate::ring) fn finish(mut self) {
        if !self.drops.is_empty() {
            self.half_close_sockets();
        }
        if !self.wakes.is_empty() {
            self.wakes.wake_all();
        }
        if !self.drops.is_empty() {
            self.drop_all();
        }
    }

    #[cold]
    fn half_close_sockets(&mut self) {
        for dropped in &self.drops {
            if let Dropped::HalfClosed(_open, fd) = dropped {
                // SAFETY: the value beside it keeps the descriptor open. An
                // error means that the connection has failed, and is ignored.
                unsafe { libc::shutdown(*fd, libc::SHUT_WR) };
            }
        }
    }

    #[cold]
    fn drop_all(&mut self) {
        while let Some(dropped) = self.drops.pop() {
            contain_panic(|| drop(dropped));
        }
    }
}
