//! Sockets by completion where there is no io_uring: none can be created.

use std::convert::Infallible;
use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_driver::Stream;
use blitzen_io::owned::{IoBuf, IoBufMut};
use bytes::BufMut;

use crate::io::{Evented, Interest, ReadBuf, Ready};
use crate::runtime::Inner;

/// A socket that a ring could serve.
pub(crate) trait RingSocket: Evented + Stream + Send + Sync + 'static {}

impl<S: Evented + Stream + Send + Sync + 'static> RingSocket for S {}

/// A stream that cannot be created.
pub(crate) struct CompletionStream<S>(Infallible, PhantomData<S>);

/// Proof that a runtime has a ring: none has.
pub(crate) enum RingAvailable {}

/// Refuses: there is no ring on this system.
pub(crate) fn require_ring(_: &Inner) -> io::Result<RingAvailable> {
    let text = "sockets by completion were asked for, but this system has no io_uring \
                (`SocketMode::PreferCompletion`, or BLITZEN_SOCKETS=prefer-completion, goes on \
                by readiness)";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

impl<S> CompletionStream<S> {
    pub(crate) fn new(_: S, _: Ready, _: &Arc<Inner>, available: RingAvailable) -> Self {
        match available {}
    }

    pub(crate) fn socket(&self) -> &S {
        match self.0 {}
    }

    pub(crate) fn has_moved(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn move_to_readiness(&self) -> io::Result<()> {
        match self.0 {}
    }

    #[cfg(unix)]
    pub(crate) fn expose(&self) -> &S {
        match self.0 {}
    }

    pub(crate) fn into_socket(self: Box<Self>) -> Result<S, (Option<Box<Self>>, io::Error)> {
        match self.0 {}
    }

    pub(crate) fn poll_read(
        &self,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
        _: bool,
    ) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    pub(crate) fn poll_peek<B: BufMut + ?Sized>(
        &self,
        _: &mut Context<'_>,
        _: &mut B,
    ) -> Poll<io::Result<usize>> {
        match self.0 {}
    }

    pub(crate) async fn peek(&self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(crate) fn try_read<B: BufMut + ?Sized>(&self, _: &mut B) -> io::Result<usize> {
        match self.0 {}
    }

    pub(crate) fn try_read_vectored(&self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(crate) fn poll_write(
        &self,
        _: &mut Context<'_>,
        _: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.0 {}
    }

    pub(crate) fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(crate) fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    pub(crate) fn poll_shutdown(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn take_send_error(&self) -> Option<io::Error> {
        match self.0 {}
    }

    pub(crate) async fn ready(&self, _: Interest) -> io::Result<Ready> {
        match self.0 {}
    }

    pub(crate) fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    pub(crate) fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    pub(crate) fn attempt<R>(
        &self,
        _: Interest,
        _: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match self.0 {}
    }

    pub(crate) async fn attempts<R>(
        &self,
        _: Interest,
        _: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        match self.0 {}
    }

    pub(crate) async fn read_owned<B: IoBufMut>(&self, _: B) -> (io::Result<usize>, B) {
        match self.0 {}
    }

    pub(crate) async fn write_owned<B: IoBuf + Send>(
        &self,
        _: B,
        _: bool,
    ) -> (io::Result<usize>, B) {
        match self.0 {}
    }
}
