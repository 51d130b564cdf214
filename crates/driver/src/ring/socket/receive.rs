//! The receiving direction of a stream: the request that is with the kernel, and what was
//! received.
//!
//! ```text
//!            arm              submitted           its last completion
//!   Idle ─────────► Queued ────────────► Armed ─────────────────────────► Idle
//!                      │                   │ too much unread, another        ▲
//!                      │ closed            ▼ mode, closed                    │
//!                      ╰──► Idle       Cancelling ───────────────────────────╯
//! ```
//!
//! There are two modes. [`Multishot`](RecvMode::Multishot) is for short messages:
//! the kernel copies each into a provided buffer. [`Poll`](RecvMode::Poll) is for
//! messages that exceed a buffer, and for when there is no buffer: the kernel only
//! announces that there is something, and the reader calls `recv(2)`.
//!
//! V1. At most one request is with the kernel, so bytes arrive in order.
//! V2. The reader calls `recv(2)` only while the kernel receives nothing for the ring
//!     ([`allows_direct_recv`](RecvOp::allows_direct_recv)). No request is armed meanwhile:
//!     only a waiter causes one, and waiting needs the stream's read lock, which the reader
//!     holds.
//! V3. While there is a waiter, a request is queued or with the kernel.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use io_uring::squeue::Entry;
use io_uring::{opcode, types};

use super::pool::{BUFFER_GROUP, BufferPool, UnreadBuffers};
use super::request::Requests;
use super::waiters::StreamWaiters;
use crate::ring::completion::Completion;
use crate::ring::user_data::{OpKind, SocketKey};

/// Unread buffers of one socket at which its multishot receive is cancelled.
const MAX_UNREAD_BUFFERS: u16 = 8;
/// Short messages in a row after which `Poll` gives way to `Multishot`.
const SHORT_STREAK: u8 = 3;
/// Events after which a `recv(2)` may find the end of the stream or an error: the peer has
/// shut down its side, the connection is broken, or its error queue is not empty.
const HANG_UP: libc::c_short = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;

/// How the kernel receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecvMode {
    /// Into provided buffers, one completion for each message.
    Multishot,
    /// The kernel does not receive: it reports that there are bytes.
    Poll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecvOp {
    Idle,
    Queued(RecvMode),
    Armed(RecvMode),
    Cancelling,
}

impl RecvOp {
    /// Whether the kernel has the request.
    pub(super) fn is_submitted(self) -> bool {
        matches!(self, RecvOp::Armed(_) | RecvOp::Cancelling)
    }

    /// Whether only the reader takes bytes from the socket (V2).
    fn allows_direct_recv(self) -> bool {
        use RecvMode::Poll;
        matches!(
            self,
            RecvOp::Idle | RecvOp::Queued(Poll) | RecvOp::Armed(Poll)
        )
    }
}

/// What a `recv(2)` would find, according to the last report of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InKernel {
    Nothing,
    Bytes,
    /// The end or an error, perhaps after some bytes. It is not reported again.
    HangUp,
}

/// What a read finds after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecvEnd {
    /// The end of the stream, every time.
    Eof,
    /// An error, once.
    Error(i32),
}

/// The result of [`RecvState::take`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TakeResult {
    Bytes(usize),
    Eof,
    Error(i32),
    /// The reader calls `recv(2)`. The report of the kernel is consumed;
    /// [`RecvState::note_direct`] stores what is left.
    Direct(InKernel),
    Nothing,
}

/// The receiving direction, in one cache line: receiving a message mostly touches no other
/// line of its stream.
#[repr(align(64))]
pub(super) struct RecvState {
    op: RecvOp,
    /// How the next request is armed.
    mode: RecvMode,
    in_kernel: InKernel,
    end: Option<RecvEnd>,
    short_messages: u8,
    unread: UnreadBuffers,
    pub(super) waiters: StreamWaiters,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<RecvState>() == 64);

impl RecvState {
    pub(super) fn new() -> Self {
        Self {
            op: RecvOp::Idle,
            mode: RecvMode::Multishot,
            in_kernel: InKernel::Nothing,
            end: None,
            short_messages: 0,
            unread: UnreadBuffers::default(),
            waiters: StreamWaiters::default(),
        }
    }

    pub(super) fn op(&self) -> RecvOp {
        self.op
    }

    pub(super) fn mode(&self) -> RecvMode {
        self.mode
    }

    /// Notes that there may be something to read already, so that the first read tries.
    pub(super) fn expect_bytes(&mut self) {
        self.in_kernel = self.in_kernel.max(InKernel::Bytes);
    }

    /// Takes received bytes.
    #[inline]
    pub(super) fn take(
        &mut self,
        pool: &mut BufferPool,
        room: &mut [MaybeUninit<u8>],
    ) -> TakeResult {
        let count = pool.read(&mut self.unread, room);
        if count > 0 {
            return TakeResult::Bytes(count);
        }
        match self.end {
            Some(RecvEnd::Eof) => return TakeResult::Eof,
            Some(RecvEnd::Error(error)) => {
                self.end = None;
                return TakeResult::Error(error);
            }
            None => {}
        }
        match self.in_kernel {
            announced @ (InKernel::Bytes | InKernel::HangUp) if self.op.allows_direct_recv() => {
                self.in_kernel = InKernel::Nothing;
                TakeResult::Direct(announced)
            }
            _ => TakeResult::Nothing,
        }
    }

    /// Notes that a `recv(2)` has returned `count` bytes, and that `left` is still there. A
    /// report that came meanwhile counts too.
    pub(super) fn note_direct(&mut self, count: usize, left: InKernel, buffer_size: usize) {
        self.in_kernel = self.in_kernel.max(left);
        match count {
            0 => {}
            count if count < buffer_size => {
                self.short_messages = self.short_messages.saturating_add(1);
                if self.short_messages >= SHORT_STREAK {
                    self.mode = RecvMode::Multishot;
                }
            }
            _ => self.expect_large(),
        }
    }

    fn expect_large(&mut self) {
        self.mode = RecvMode::Poll;
        self.short_messages = 0;
    }

    /// Keeps an error that `recv(2)` has returned after some bytes, for the next read.
    pub(super) fn keep_error(&mut self, error: i32) {
        self.end = Some(RecvEnd::Error(error));
    }

    /// Queues a request if there is none (V3). With `only_poll`, in the mode `Poll`.
    pub(super) fn arm(&mut self, key: SocketKey, only_poll: bool, requests: &mut Requests) {
        if only_poll {
            self.mode = RecvMode::Poll;
        }
        match self.op {
            RecvOp::Idle => {
                self.op = RecvOp::Queued(self.mode);
                requests.submit(key, OpKind::Recv);
            }
            // Messages have become short again.
            RecvOp::Armed(RecvMode::Poll) if self.mode == RecvMode::Multishot => {
                self.cancel(key, requests);
            }
            _ => {}
        }
    }

    fn cancel(&mut self, key: SocketKey, requests: &mut Requests) {
        self.op = RecvOp::Cancelling;
        requests.cancel(key, OpKind::Recv);
    }

    /// Withdraws a queued request, or asks the kernel to end it.
    pub(super) fn stop(&mut self, key: SocketKey, requests: &mut Requests) {
        match self.op {
            RecvOp::Queued(_) => self.op = RecvOp::Idle,
            RecvOp::Armed(_) => self.cancel(key, requests),
            RecvOp::Idle | RecvOp::Cancelling => {}
        }
    }

    /// Gives the unread buffers back.
    pub(super) fn discard(&mut self, pool: &mut BufferPool) {
        pool.discard(&mut self.unread);
    }

    /// The sum of the unread bytes.
    pub(super) fn unread(&self, pool: &BufferPool) -> usize {
        pool.unread_bytes(&self.unread)
    }

    /// Returns the entry of the queued request, unless it was withdrawn.
    pub(super) fn entry(&self, fd: RawFd) -> Option<Entry> {
        let fd = types::Fd(fd);
        match self.op {
            RecvOp::Queued(RecvMode::Multishot) => {
                Some(opcode::RecvMulti::new(fd, BUFFER_GROUP).build())
            }
            RecvOp::Queued(RecvMode::Poll) => {
                let events = (libc::POLLIN | HANG_UP) as u32;
                Some(opcode::PollAdd::new(fd, events).multi(true).build())
            }
            _ => None,
        }
    }

    /// Notes that the request was submitted.
    pub(super) fn submitted(&mut self) {
        if let RecvOp::Queued(mode) = self.op {
            self.op = RecvOp::Armed(mode);
        }
    }

    /// Takes in a completion. With `keeps` false nobody will read the bytes. Returns false
    /// if the kernel does not support multishot receives.
    #[must_use]
    pub(super) fn complete(
        &mut self,
        completion: &Completion,
        pool: &mut BufferPool,
        keeps: bool,
    ) -> bool {
        let was = self.op;
        if !completion.has_more() {
            self.op = RecvOp::Idle;
        }
        let buffer = completion.buffer();
        if let Some(id) = buffer {
            match completion.result > 0 && keeps {
                true => pool.hold(&mut self.unread, id, completion.result as u32),
                false => pool.give_back(id),
            }
        }
        match completion.result {
            events @ 1.. if buffer.is_none() => {
                let hung_up = events & i32::from(HANG_UP) != 0;
                let announced = if hung_up {
                    InKernel::HangUp
                } else {
                    InKernel::Bytes
                };
                self.in_kernel = self.in_kernel.max(announced);
            }
            len @ 1.. => {
                if len as u32 == pool.buffer_size() {
                    self.expect_large();
                    self.in_kernel = InKernel::Bytes; // most likely
                }
            }
            0 => self.end = Some(RecvEnd::Eof),
            error => match -error {
                // All buffers hold unread bytes: this socket is read directly, so that no
                // reader depends on another.
                libc::ENOBUFS => {
                    if !pool.grow() {
                        self.expect_large();
                    }
                }
                // A kernel without this mode; by now the receive may be about to be cancelled.
                libc::EINVAL if was != RecvOp::Armed(RecvMode::Poll) => {
                    self.expect_large();
                    return false;
                }
                // Cancelled, or the thread that had submitted it has ended.
                libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
                error => self.end = Some(RecvEnd::Error(error)),
            },
        }
        true
    }

    /// Whether a read would find bytes, the end or an error.
    pub(super) fn has_input(&self) -> bool {
        let is_announced = self.in_kernel != InKernel::Nothing && self.op.allows_direct_recv();
        !self.unread.is_empty() || self.end.is_some() || is_announced
    }

    /// Cancels a multishot receive if too many buffers are unread, or messages exceed a
    /// buffer.
    pub(super) fn limit(&mut self, key: SocketKey, requests: &mut Requests) {
        let is_multishot = self.op == RecvOp::Armed(RecvMode::Multishot);
        let is_enough = self.unread.count() >= MAX_UNREAD_BUFFERS || self.mode == RecvMode::Poll;
        if is_multishot && is_enough {
            self.cancel(key, requests);
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::ring::BufferConfig;

    const KEY: SocketKey = SocketKey {
        index: 0,
        generation: 0,
    };
    const MORE: u32 = 1 << 1;
    const BUFFER: u32 = 1 << 0;

    /// A receiver, and everything around it.
    struct Fixture {
        receiver: RecvState,
        pool: BufferPool,
        requests: Requests,
    }

    impl Fixture {
        /// Creates a receiver with `buffers` buffers of eight bytes, and an armed receive.
        fn new(buffers: u16) -> Self {
            let mut pool = BufferPool::new(BufferConfig {
                initial: buffers,
                max: buffers,
                size: 8,
            });
            pool.grow();
            let mut fixture = Self {
                receiver: RecvState::new(),
                pool,
                requests: Requests::default(),
            };
            fixture.arm();
            fixture
        }

        fn arm(&mut self) {
            self.receiver.arm(KEY, false, &mut self.requests);
            self.receiver.submitted();
        }

        fn complete(&mut self, result: i32, flags: u32) {
            let completion = Completion { result, flags };
            assert!(self.receiver.complete(&completion, &mut self.pool, true));
            self.receiver.limit(KEY, &mut self.requests);
        }

        /// A message of `len` bytes arrives in the buffer `id`.
        fn message(&mut self, id: u16, len: i32) {
            self.complete(len, BUFFER | MORE | u32::from(id) << 16);
        }

        fn announce(&mut self, events: libc::c_short) {
            self.complete(i32::from(events), MORE);
        }

        fn take(&mut self, room: usize) -> TakeResult {
            let mut room = vec![MaybeUninit::uninit(); room];
            self.receiver.take(&mut self.pool, &mut room)
        }

        /// The receive is cancelled, and armed again.
        fn rearm(&mut self) {
            assert_eq!(self.receiver.op(), RecvOp::Cancelling);
            self.complete(-libc::ECANCELED, 0);
            self.arm();
        }

        /// Creates a receiver whose messages are large, so that the kernel only reports
        /// them.
        fn polling() -> Self {
            let mut fixture = Self::new(4);
            fixture.message(0, 8);
            assert_eq!(fixture.take(8), TakeResult::Bytes(8));
            fixture.rearm();
            assert_eq!(fixture.receiver.op(), RecvOp::Armed(RecvMode::Poll));
            assert_eq!(fixture.take(8), TakeResult::Direct(InKernel::Bytes));
            assert_eq!(fixture.take(8), TakeResult::Nothing);
            fixture
        }
    }

    #[test]
    fn a_kernel_without_multishot_fails_no_read() {
        for is_cancelled in [false, true] {
            let mut fixture = Fixture::new(4);
            if is_cancelled {
                fixture.receiver.stop(KEY, &mut fixture.requests);
                assert_eq!(fixture.receiver.op(), RecvOp::Cancelling);
            }
            let (result, flags) = (-libc::EINVAL, 0);
            let completion = Completion { result, flags };
            let receiver = &mut fixture.receiver;
            assert!(!receiver.complete(&completion, &mut fixture.pool, true));
            assert_eq!(fixture.take(8), TakeResult::Nothing);
        }
    }

    #[test]
    fn short_messages_come_in_buffers_and_are_bounded() {
        let mut fixture = Fixture::new(16);
        for id in 0..MAX_UNREAD_BUFFERS {
            assert_eq!(fixture.receiver.op(), RecvOp::Armed(RecvMode::Multishot));
            fixture.message(id, 3);
        }
        assert_eq!(fixture.receiver.op(), RecvOp::Cancelling);
        assert_eq!(fixture.receiver.unread(&fixture.pool), 24);
        assert_eq!(fixture.take(100), TakeResult::Bytes(24));
        fixture.rearm();
        assert_eq!(fixture.receiver.op(), RecvOp::Armed(RecvMode::Multishot));
    }

    #[test]
    fn a_report_that_comes_while_a_reader_finds_nothing_is_kept() {
        let mut fixture = Fixture::polling();
        fixture.announce(libc::POLLIN);
        assert_eq!(fixture.take(8), TakeResult::Direct(InKernel::Bytes));
        // The reader finds the socket empty; before it notes that, the kernel reports
        // bytes.
        fixture.announce(libc::POLLIN);
        fixture.receiver.note_direct(0, InKernel::Nothing, 8);
        assert!(fixture.receiver.has_input());
        assert_eq!(fixture.take(8), TakeResult::Direct(InKernel::Bytes));
        assert_eq!(fixture.take(8), TakeResult::Nothing);
    }

    #[test]
    fn the_end_is_reported_once_and_known_until_a_read_has_found_nothing() {
        let mut fixture = Fixture::polling();
        fixture.announce(libc::POLLIN | libc::POLLRDHUP);
        for _ in 0..3 {
            assert_eq!(fixture.take(8), TakeResult::Direct(InKernel::HangUp));
            fixture.receiver.note_direct(4, InKernel::HangUp, 8);
        }
        // An error queue, which `recv(2)` does not empty, is no end.
        assert_eq!(fixture.take(8), TakeResult::Direct(InKernel::HangUp));
        assert_eq!(fixture.take(8), TakeResult::Nothing);
    }

    #[test]
    fn after_some_short_messages_they_come_in_buffers_again() {
        let mut fixture = Fixture::polling();
        for _ in 0..SHORT_STREAK {
            assert_eq!(fixture.receiver.op(), RecvOp::Armed(RecvMode::Poll));
            fixture.announce(libc::POLLIN);
            assert_eq!(fixture.take(8), TakeResult::Direct(InKernel::Bytes));
            fixture.receiver.note_direct(4, InKernel::Nothing, 8);
            fixture.arm();
        }
        fixture.rearm();
        assert_eq!(fixture.receiver.op(), RecvOp::Armed(RecvMode::Multishot));
    }

    #[test]
    fn without_a_buffer_a_socket_is_polled() {
        let mut fixture = Fixture::new(1);
        fixture.complete(-libc::ENOBUFS, 0);
        fixture.arm();
        assert_eq!(fixture.receiver.op(), RecvOp::Armed(RecvMode::Poll));
    }

    #[test]
    fn an_error_comes_once_and_the_end_for_ever_after_the_bytes() {
        let mut fixture = Fixture::new(4);
        fixture.message(0, 2);
        fixture.complete(-libc::ECONNRESET, 0);
        assert_eq!(fixture.take(8), TakeResult::Bytes(2));
        assert_eq!(fixture.take(8), TakeResult::Error(libc::ECONNRESET));
        assert_eq!(fixture.take(8), TakeResult::Nothing);
        fixture.arm();
        fixture.complete(0, 0);
        for _ in 0..3 {
            assert_eq!(fixture.take(8), TakeResult::Eof);
        }
    }

    #[test]
    fn a_request_that_was_not_submitted_is_withdrawn() {
        let mut receiver = RecvState::new();
        let mut requests = Requests::default();
        receiver.arm(KEY, true, &mut requests);
        assert_eq!(receiver.op(), RecvOp::Queued(RecvMode::Poll));
        receiver.stop(KEY, &mut requests);
        assert_eq!(receiver.op(), RecvOp::Idle);
        assert!(receiver.entry(-1).is_none());
    }
}
