//! Sending from a buffer that the operation owns.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use io_uring::squeue::Entry;
use io_uring::{opcode, types};

use super::stream::Stream;
use super::table::{Aftermath, Key};
use crate::gone;
use crate::ring::file::TransferResult;
use crate::ring::{Memory, Operation, Ring};

/// A buffer on its way out. Nothing else of its socket goes out meanwhile.
struct Lent<K> {
    ring: Arc<Ring>,
    key: Key,
    fd: i32,
    memory: Option<Memory<K>>,
    zero_copy: bool,
}

// SAFETY: the memory is owned; the descriptor stays open while the table says
// that a buffer is lent, which it does until this is dropped.
unsafe impl<K: Send + 'static> Operation for Lent<K> {
    type Output = TransferResult<K>;

    fn entry(&mut self) -> Entry {
        let (start, len) = match &self.memory {
            Some(memory) => (memory.start().cast_const(), memory.len_u32()),
            None => unreachable!("taken at the end"),
        };
        // All of it, or the stream would be cut if nobody waited for the rest.
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        match self.zero_copy {
            true => opcode::SendZc::new(types::Fd(self.fd), start, len)
                .flags(flags)
                .build(),
            false => opcode::Send::new(types::Fd(self.fd), start, len)
                .flags(flags)
                .build(),
        }
    }

    fn finish(mut self, result: io::Result<u32>) -> TransferResult<K> {
        match self.memory.take() {
            Some(memory) => (result.map(|count| count as usize), memory.into_keeper()),
            None => unreachable!("taken at the end, which comes once"),
        }
    }
}

impl<K> Drop for Lent<K> {
    fn drop(&mut self) {
        self.ring
            .with_sockets(|core, after: &mut Aftermath| core.sockets.give_back(self.key, after));
    }
}

impl Stream {
    /// Sends a buffer from where it is, after what was taken over before, and
    /// gives it back. With `zero_copy` the system copies nothing, if it can,
    /// and the buffer comes back when the network is through with it.
    ///
    /// # Errors
    /// What the system says, and [`gone`] if the ring was shut.
    ///
    /// # Cancel safety
    /// A future that has not got its turn has sent nothing. Later, the buffer
    /// stays with the system until all of it is sent.
    pub async fn send_owned<K: Send + 'static>(
        &self,
        memory: Memory<K>,
        zero_copy: bool,
    ) -> TransferResult<K> {
        let ring = self.ring();
        let zero_copy = zero_copy && ring.supports(opcode::SendZc::CODE);
        loop {
            if let Err(error) = poll_fn(|cx| self.poll_sent(cx)).await {
                return (Err(error), memory.into_keeper());
            }
            let lent = ring.with_sockets(|core, _| match core.sockets.is_shut() {
                true => Err(gone()),
                false => Ok(core.sockets.lend(self.key())),
            });
            match lent {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return (Err(error), memory.into_keeper()),
            }
        }
        let lent = Lent {
            ring: ring.clone(),
            key: self.key(),
            fd: self.fd(),
            memory: Some(memory),
            zero_copy,
        };
        Sure(Some(ring.submit(lent))).await
    }
}

/// An operation that goes on to its end if its future is dropped.
struct Sure<T: Operation>(Option<crate::ring::Op<T>>);

impl<T: Operation> Future for Sure<T> {
    type Output = T::Output;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<T::Output> {
        match &mut self.0 {
            Some(op) => {
                let output = std::task::ready!(std::pin::Pin::new(op).poll(cx));
                self.0 = None;
                std::task::Poll::Ready(output)
            }
            None => panic!("polled after the operation's end"),
        }
    }
}

impl<T: Operation> Drop for Sure<T> {
    fn drop(&mut self) {
        if let Some(op) = self.0.take() {
            op.detach();
        }
    }
}
