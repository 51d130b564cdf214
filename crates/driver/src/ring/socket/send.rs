//! The sending direction of a stream: bytes that were copied into a buffer, and
//! buffers that operations own.
//!
//! ```text
//!              a small write             submitted          its last completion
//!   Idle ──────────────────────► Queued ──────────► InFlight ──────────────► Idle
//!     │                            │ ▲                  │  ▲
//!     │ an owned buffer            │ ╰──── more bytes ──┤  │ submitted
//!     │                            │  were buffered     ▼  │
//!     ╰────────────────────────────┼─────────────────► Resume    cut short
//!                                  ╰──► Idle
//!                            the writer sends them itself
//! ```
//!
//! T1. At most one send is with the kernel, so bytes go out in order.
//! T2. Bytes are buffered only if the socket was measured to have room for them. So
//!     the kernel takes them at once, and neither a flush nor a shutdown has to wait
//!     for a peer.
//! T3. A send that is cut short, also by the end of the thread that submitted it,
//!     is resumed with the rest.

use std::io::IoSlice;
use std::mem::{replace, take};
use std::os::fd::RawFd;
use std::sync::Arc;

use io_uring::squeue::Entry;
use io_uring::{opcode, types};

use super::owned::OwnedSend;
use super::request::Requests;
use super::waiters::StreamWaiters;
use crate::ring::completion::Completion;
use crate::ring::user_data::{OpKind, SocketKey};

/// The most bytes that wait for the next submission.
const MAX_PENDING: usize = 16 * 1024;
/// The largest write that is buffered.
const MAX_SMALL: usize = 2048;
/// The largest write that is buffered if several writes of the stream are sent
/// together, which saves more than the copy costs.
const MAX_BATCHED: usize = 8192;
/// How much of a socket's room a send may take in addition to its bytes.
const SEND_OVERHEAD: u32 = 2048;

/// The bytes of one send.
enum Payload {
    Copied(Vec<u8>),
    Owned {
        buffer: Arc<dyn OwnedSend>,
        zero_copy: bool,
    },
}

/// A send that was submitted, or is about to be.
pub(super) struct Outgoing {
    payload: Payload,
    sent: usize,
    /// Whether the kernel may wait for room: the socket had none before, or the
    /// buffer is owned.
    may_wait: bool,
    /// The result, if another completion will follow when the kernel no longer needs
    /// the memory.
    early_result: Option<i32>,
}

impl Outgoing {
    fn rest(&self) -> (*const u8, usize) {
        let (start, len) = match &self.payload {
            Payload::Copied(bytes) => (bytes.as_ptr(), bytes.len()),
            Payload::Owned { buffer, .. } => buffer.bytes(),
        };
        (start.wrapping_add(self.sent), len - self.sent)
    }

    fn is_owned(&self) -> bool {
        matches!(self.payload, Payload::Owned { .. })
    }

    /// Whether the rest has to be submitted after this `result` (T3). When the ring
    /// is `shut`, the rest of a cancelled send is not.
    fn is_cut_short(&self, result: i32, shut: bool) -> bool {
        match result {
            count @ 0.. => self.rest().1 > count as usize && !(shut && self.is_owned()),
            error => match -error {
                libc::EAGAIN | libc::EINTR => true,
                libc::ECANCELED => !shut,
                _ => false,
            },
        }
    }
}

#[derive(Default)]
pub(super) enum SendOp {
    #[default]
    Idle,
    /// `pending` is sent with the next submission.
    Queued,
    /// To be submitted, from where it was cut short.
    Resume(Outgoing),
    InFlight(Outgoing),
}

/// Whether the direction has been shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HalfClose {
    Open,
    /// `shutdown(2)` follows the last byte.
    WhenSent,
    Done,
}

/// The state of the request that reports room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WritableOp {
    Idle,
    Queued,
    Armed,
    Cancelling,
}

/// What to do with bytes that are to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteStep {
    /// They were buffered.
    Buffered,
    /// An earlier send has failed with this.
    Failed(i32),
    /// The writer sends them itself, after these, which were pending.
    Direct(Vec<u8>),
    /// They can be buffered if the socket has room: the caller measures it.
    Measure,
    /// They have to wait for the send that is in flight.
    Busy,
}

/// What a flush has to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FlushStep {
    /// The kernel has everything.
    Done,
    Failed(i32),
    /// The caller sends these.
    Direct(Vec<u8>),
    /// A send is in flight.
    Busy,
}

/// What is left to do after a completion of a send.
pub(super) enum Sent {
    /// There is more to send.
    Continues,
    /// Everything is sent; with `half_close`, `shutdown(2)` follows.
    Idle { half_close: bool },
}

/// How often a stream writes between two submissions.
#[derive(Default)]
struct WriteRate {
    turn: u32,
    /// There was another write in `turn`.
    is_repeated: bool,
    /// There were several in the turn before that one.
    is_batch: bool,
}

impl WriteRate {
    fn note(&mut self, turn: u32) {
        match self.turn == turn {
            true => self.is_repeated = true,
            false => {
                self.is_batch = take(&mut self.is_repeated);
                self.turn = turn;
            }
        }
    }
}

/// The circumstances of a write.
#[derive(Clone, Copy)]
pub(super) struct WriteContext {
    /// Whether the caller turns the ring, and so will submit soon.
    pub(super) by_owner: bool,
    /// Whether this is the first write of all sockets since the last submission,
    /// which had at most one: there may be no other, so waiting gains nothing.
    pub(super) is_first: bool,
    /// Counts submissions.
    pub(super) turn: u32,
}

pub(super) struct SendState {
    op: SendOp,
    /// Buffered bytes, which follow what is in flight.
    pending: Vec<u8>,
    /// How much room the socket is known to have (T2).
    credit: u32,
    error: Option<i32>,
    half_close: HalfClose,
    writable: WritableOp,
    rate: WriteRate,
    pub(super) waiters: StreamWaiters,
}

impl SendState {
    pub(super) fn new() -> Self {
        Self {
            op: SendOp::Idle,
            pending: Vec::new(),
            credit: 0,
            error: None,
            half_close: HalfClose::Open,
            writable: WritableOp::Idle,
            rate: WriteRate::default(),
            waiters: StreamWaiters::default(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.op, SendOp::Idle)
    }

    /// Whether buffered bytes wait for the next submission.
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.op, SendOp::Queued)
    }

    /// Requests that are queued, or with the kernel.
    pub(super) fn requests(&self) -> usize {
        usize::from(!self.is_idle()) + usize::from(self.writable != WritableOp::Idle)
    }

    /// Whether no request of this direction is with the kernel.
    pub(super) fn is_settled(&self) -> bool {
        use WritableOp::{Armed, Cancelling};
        self.is_idle() && !matches!(self.writable, Armed | Cancelling)
    }

    /// Whether the kernel no longer needs the descriptor: it has no request, or only
    /// the memory of a buffer that the network still needs.
    pub(super) fn has_released_fd(&self, shut: bool) -> bool {
        match &self.op {
            SendOp::InFlight(outgoing) => outgoing
                .early_result
                .is_some_and(|result| !outgoing.is_cut_short(result, shut)),
            _ => self.is_settled(),
        }
    }

    pub(super) fn take_error(&mut self) -> Option<i32> {
        self.error.take()
    }

    /// Buffers `parts`, or returns what else to do with them. The caller holds the
    /// stream's write lock.
    pub(super) fn write(
        &mut self,
        key: SocketKey,
        parts: &[IoSlice<'_>],
        context: WriteContext,
        spare: &mut SpareBuffers,
        requests: &mut Requests,
    ) -> WriteStep {
        if let Some(error) = self.error.take() {
            return WriteStep::Failed(error);
        }
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.rate.note(context.turn);
        let is_queued = match &self.op {
            SendOp::Idle => false,
            SendOp::Queued => true,
            SendOp::InFlight(outgoing) if !outgoing.may_wait => true,
            SendOp::Resume(_) | SendOp::InFlight(_) => return WriteStep::Busy,
        };
        let max = match self.rate.is_batch || is_queued {
            true => MAX_BATCHED,
            false => MAX_SMALL,
        };
        let is_small = len <= max && self.pending.len() + len <= MAX_PENDING;
        let goes_direct = context.is_first && self.is_idle();
        let may_take =
            context.by_owner && is_small && !goes_direct && self.half_close == HalfClose::Open;
        if may_take && cost(len) <= self.credit {
            self.credit -= cost(len);
            if self.pending.capacity() == 0 {
                self.pending = spare.take();
            }
            for part in parts {
                self.pending.extend_from_slice(part);
            }
            if self.is_idle() {
                self.op = SendOp::Queued;
                requests.submit(key, OpKind::Send);
            }
            return WriteStep::Buffered;
        }
        match self.op {
            SendOp::Idle if may_take && self.writable == WritableOp::Idle => WriteStep::Measure,
            SendOp::Idle | SendOp::Queued => {
                self.credit = self.credit.saturating_sub(cost(len));
                WriteStep::Direct(self.take_pending())
            }
            _ => WriteStep::Busy,
        }
    }

    /// Notes how much room was measured; returns whether it is enough for `len`
    /// bytes.
    pub(super) fn set_credit(&mut self, room: u32, len: usize) -> bool {
        self.credit = room;
        cost(len) <= room
    }

    /// Takes the buffered bytes. The caller holds the write lock.
    fn take_pending(&mut self) -> Vec<u8> {
        self.op = SendOp::Idle;
        take(&mut self.pending)
    }

    /// Returns what a flush has to do.
    pub(super) fn flush(&mut self) -> FlushStep {
        if let Some(error) = self.error.take() {
            return FlushStep::Failed(error);
        }
        match self.op {
            SendOp::Idle => FlushStep::Done,
            SendOp::Queued => FlushStep::Direct(self.take_pending()),
            SendOp::Resume(_) | SendOp::InFlight(_) => FlushStep::Busy,
        }
    }

    /// Queues the rest of what was pending, for which the socket had no room: the
    /// kernel sends it when there is.
    pub(super) fn resume_pending(
        &mut self,
        key: SocketKey,
        bytes: Vec<u8>,
        sent: usize,
        requests: &mut Requests,
    ) {
        self.credit = 0;
        self.op = SendOp::Resume(Outgoing {
            payload: Payload::Copied(bytes),
            sent,
            may_wait: true,
            early_result: None,
        });
        requests.submit(key, OpKind::Send);
    }

    /// Sends an owned buffer; the direction is idle.
    pub(super) fn begin_owned(
        &mut self,
        key: SocketKey,
        buffer: Arc<dyn OwnedSend>,
        zero_copy: bool,
        requests: &mut Requests,
    ) {
        self.credit = 0;
        self.op = SendOp::Resume(Outgoing {
            payload: Payload::Owned { buffer, zero_copy },
            sent: 0,
            may_wait: true,
            early_result: None,
        });
        requests.submit(key, OpKind::Send);
    }

    /// Keeps an error that a direct send of pending bytes has returned, for the next
    /// operation.
    pub(super) fn keep_error(&mut self, error: i32) {
        self.error = Some(error);
    }

    /// Ends writing. Returns true if `shutdown(2)` may be called now; otherwise it
    /// follows the last byte.
    pub(super) fn half_close(&mut self) -> bool {
        let is_idle = self.is_idle();
        self.half_close = match is_idle {
            true => HalfClose::Done,
            false => HalfClose::WhenSent,
        };
        is_idle
    }

    /// Queues a request that reports room, if there is none.
    pub(super) fn arm_writable(&mut self, key: SocketKey, requests: &mut Requests) {
        if self.is_idle() && self.writable == WritableOp::Idle {
            self.writable = WritableOp::Queued;
            requests.submit(key, OpKind::Writable);
        }
    }

    /// Withdraws or cancels the wait for room.
    pub(super) fn stop_writable(&mut self, key: SocketKey, requests: &mut Requests) {
        match self.writable {
            WritableOp::Queued => self.writable = WritableOp::Idle,
            WritableOp::Armed => {
                self.writable = WritableOp::Cancelling;
                requests.cancel(key, OpKind::Writable);
            }
            WritableOp::Idle | WritableOp::Cancelling => {}
        }
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.op, SendOp::InFlight(_))
    }

    /// Cancels the send of an owned buffer, which may wait for the peer. Returns the
    /// buffer if it was not submitted yet.
    pub(super) fn cancel_owned(
        &mut self,
        key: SocketKey,
        requests: &mut Requests,
    ) -> Option<Arc<dyn OwnedSend>> {
        match take(&mut self.op) {
            SendOp::Resume(outgoing) if outgoing.is_owned() => {
                self.finish(outgoing, -libc::ECANCELED, &mut SpareBuffers::default())
            }
            op => {
                if matches!(&op, SendOp::InFlight(outgoing) if outgoing.is_owned()) {
                    requests.cancel(key, OpKind::Send);
                }
                self.op = op;
                None
            }
        }
    }

    /// Cancels a send that waits for room.
    pub(super) fn cancel_waiting(&mut self, key: SocketKey, requests: &mut Requests) {
        if matches!(&self.op, SendOp::InFlight(outgoing) if outgoing.may_wait) {
            requests.cancel(key, OpKind::Send);
        }
    }

    /// Returns the entry of the queued send, unless it was withdrawn.
    pub(super) fn entry(&mut self, fd: RawFd) -> Option<Entry> {
        if let SendOp::Queued = self.op {
            self.op = SendOp::Resume(Outgoing {
                payload: Payload::Copied(take(&mut self.pending)),
                sent: 0,
                may_wait: false,
                early_result: None,
            });
        }
        let SendOp::Resume(outgoing) = &self.op else {
            return None;
        };
        let (start, len) = outgoing.rest();
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let wait = match outgoing.may_wait {
            true => libc::MSG_WAITALL,
            false => libc::MSG_WAITALL | libc::MSG_DONTWAIT,
        };
        let (fd, flags) = (types::Fd(fd), wait | libc::MSG_NOSIGNAL);
        Some(match outgoing.payload {
            Payload::Owned {
                zero_copy: true, ..
            } => opcode::SendZc::new(fd, start, len).flags(flags).build(),
            _ => opcode::Send::new(fd, start, len).flags(flags).build(),
        })
    }

    /// Notes that the send was submitted. Returns true if it completes at once.
    pub(super) fn submitted(&mut self) -> bool {
        match take(&mut self.op) {
            SendOp::Resume(outgoing) => {
                let is_immediate = !outgoing.may_wait;
                self.op = SendOp::InFlight(outgoing);
                is_immediate
            }
            op => {
                self.op = op;
                false
            }
        }
    }

    /// Takes in a completion of the send. With `shut` a cancelled one is not
    /// resumed.
    pub(super) fn complete(
        &mut self,
        key: SocketKey,
        completion: &Completion,
        shut: bool,
        spare: &mut SpareBuffers,
        requests: &mut Requests,
    ) -> (Sent, Option<Arc<dyn OwnedSend>>) {
        let SendOp::InFlight(mut outgoing) = replace(&mut self.op, SendOp::Idle) else {
            unreachable!("T1: a send was in flight");
        };
        // The first completion has the result. A later one only says that the kernel
        // no longer needs the memory.
        let result = *outgoing.early_result.get_or_insert(completion.result);
        if completion.has_more() {
            self.op = SendOp::InFlight(outgoing);
            return (Sent::Continues, None);
        }
        outgoing.early_result = None;
        let is_cut_short = outgoing.is_cut_short(result, shut);
        outgoing.sent += result.max(0) as usize;
        if is_cut_short {
            outgoing.may_wait = true;
            self.op = SendOp::Resume(outgoing);
            requests.submit(key, OpKind::Send);
            return (Sent::Continues, None);
        }
        let owned = self.finish(outgoing, result.min(0), spare);
        if !self.pending.is_empty() {
            self.op = SendOp::Queued;
            requests.submit(key, OpKind::Send);
            return (Sent::Continues, owned);
        }
        let half_close = self.half_close == HalfClose::WhenSent;
        if half_close {
            self.half_close = HalfClose::Done;
        }
        (Sent::Idle { half_close }, owned)
    }

    /// Ends a send; `error` is zero if it succeeded.
    fn finish(
        &mut self,
        outgoing: Outgoing,
        error: i32,
        spare: &mut SpareBuffers,
    ) -> Option<Arc<dyn OwnedSend>> {
        if error < 0 {
            self.pending.clear(); // what was to follow fails with it
        }
        match outgoing.payload {
            Payload::Copied(bytes) => {
                if error < 0 {
                    self.error = Some(-error);
                }
                spare.put(bytes);
                None
            }
            Payload::Owned { buffer, .. } => {
                let result = match error {
                    0 => Ok(outgoing.sent),
                    error if outgoing.sent == 0 => Err(-error),
                    error => {
                        self.error = Some(-error); // for the next operation
                        Ok(outgoing.sent)
                    }
                };
                buffer.finish(result);
                Some(buffer)
            }
        }
    }

    /// Returns the entry of the request that reports room, unless it was withdrawn.
    pub(super) fn writable_entry(&self, fd: RawFd) -> Option<Entry> {
        let poll = opcode::PollAdd::new(types::Fd(fd), libc::POLLOUT as u32);
        (self.writable == WritableOp::Queued).then(|| poll.build())
    }

    pub(super) fn writable_submitted(&mut self) {
        if self.writable == WritableOp::Queued {
            self.writable = WritableOp::Armed;
        }
    }

    /// Notes a completion of that request. Its result does not matter: the next
    /// attempt finds out.
    pub(super) fn writable_completed(&mut self) {
        self.writable = WritableOp::Idle;
    }

    pub(super) fn is_cancelling_writable(&self) -> bool {
        self.writable == WritableOp::Cancelling
    }
}

/// How much of a socket's room a send of `len` bytes takes at most.
fn cost(len: usize) -> u32 {
    (len as u32).saturating_add(SEND_OVERHEAD)
}

/// Empty buffers that are kept for the next pending bytes.
#[derive(Debug, Default)]
pub(super) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// Buffers beyond this number are freed.
    const MAX: usize = 256;

    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(super) fn put(&mut self, mut bytes: Vec<u8>) {
        if self.0.len() < Self::MAX && (1..=MAX_PENDING).contains(&bytes.capacity()) {
            bytes.clear();
            self.0.push(bytes);
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const KEY: SocketKey = SocketKey {
        index: 0,
        generation: 0,
    };
    const ROOM: u32 = 1 << 20;

    /// A sender, and everything around it.
    #[derive(Default)]
    struct Fixture {
        sender: Option<SendState>,
        spare: SpareBuffers,
        requests: Requests,
        turn: u32,
    }

    impl Fixture {
        /// Creates a sender whose socket has room.
        fn new() -> Self {
            let mut sender = SendState::new();
            assert!(sender.set_credit(ROOM, 1));
            Self {
                sender: Some(sender),
                ..Self::default()
            }
        }

        fn sender(&mut self) -> &mut SendState {
            self.sender.as_mut().expect("made with one")
        }

        fn write(&mut self, bytes: &[u8], is_first: bool) -> WriteStep {
            let context = WriteContext {
                by_owner: true,
                is_first,
                turn: self.turn,
            };
            let Self {
                sender,
                spare,
                requests,
                ..
            } = self;
            let sender = sender.as_mut().expect("made with one");
            sender.write(KEY, &[IoSlice::new(bytes)], context, spare, requests)
        }

        /// Submits, and returns the number of bytes that are sent, if any.
        fn submit(&mut self) -> Option<usize> {
            self.turn += 1;
            self.sender().entry(-1)?;
            self.sender().submitted();
            match &self.sender().op {
                SendOp::InFlight(outgoing) => Some(outgoing.rest().1),
                _ => None,
            }
        }

        fn complete(&mut self, result: i32, flags: u32, shut: bool) -> Sent {
            let completion = Completion { result, flags };
            let Self {
                sender,
                spare,
                requests,
                ..
            } = self;
            let sender = sender.as_mut().expect("made with one");
            sender.complete(KEY, &completion, shut, spare, requests).0
        }
    }

    fn is_idle(sent: &Sent) -> bool {
        matches!(sent, Sent::Idle { half_close: false })
    }

    #[test]
    fn the_first_write_goes_directly_and_others_are_gathered() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.write(b"first", true), WriteStep::Direct(Vec::new()));
        assert_eq!(fixture.write(b"se", false), WriteStep::Buffered);
        assert_eq!(fixture.write(b"cond", false), WriteStep::Buffered);
        assert_eq!(fixture.submit(), Some(6));
        // More bytes follow what is in flight.
        assert_eq!(fixture.write(b"third", false), WriteStep::Buffered);
        assert!(matches!(fixture.complete(6, 0, false), Sent::Continues));
        assert_eq!(fixture.submit(), Some(5));
        assert!(is_idle(&fixture.complete(5, 0, false)));
        assert_eq!(fixture.submit(), None);
    }

    #[test]
    fn larger_writes_are_gathered_where_there_were_several_in_a_turn() {
        let mut fixture = Fixture::new();
        let bytes = [0; MAX_SMALL + 1];
        let mut write_turn = |times: usize| {
            let steps: Vec<_> = (0..times)
                .map(|_| {
                    fixture.sender().set_credit(ROOM, 1);
                    fixture.write(&bytes, false) == WriteStep::Buffered
                })
                .collect();
            if let Some(len) = fixture.submit() {
                assert!(is_idle(&fixture.complete(len as i32, 0, false)));
            }
            steps
        };
        assert_eq!(write_turn(2), [false, false]);
        assert_eq!(write_turn(3), [true, true, true]);
        assert_eq!(write_turn(1), [true]);
        assert_eq!(write_turn(1), [false]);
    }

    #[test]
    fn nothing_is_buffered_without_room() {
        let mut fixture = Fixture::new();
        fixture.sender().set_credit(0, 1);
        assert_eq!(fixture.write(b"x", false), WriteStep::Measure);
        fixture.sender().set_credit(ROOM, 1);
        assert_eq!(fixture.write(b"x", false), WriteStep::Buffered);
        fixture.sender().set_credit(0, 1);
        // What is pending goes first.
        let pending = b"x".to_vec();
        assert_eq!(fixture.write(b"y", false), WriteStep::Direct(pending));
        assert_eq!(fixture.submit(), None, "the writer has it");
    }

    #[test]
    fn a_flush_takes_what_is_pending_and_waits_for_what_is_in_flight() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.sender().flush(), FlushStep::Done);
        fixture.write(b"abc", false);
        assert_eq!(fixture.sender().flush(), FlushStep::Direct(b"abc".to_vec()));
        assert_eq!(fixture.sender().flush(), FlushStep::Done);
        fixture.write(b"abc", false);
        fixture.submit();
        assert_eq!(fixture.sender().flush(), FlushStep::Busy);
        fixture.complete(-libc::ECONNRESET, 0, false);
        assert_eq!(
            fixture.sender().flush(),
            FlushStep::Failed(libc::ECONNRESET)
        );
        assert_eq!(fixture.sender().flush(), FlushStep::Done);
    }

    #[test]
    fn a_send_that_is_cut_short_is_resumed_with_the_rest() {
        for result in [2, -libc::EAGAIN, -libc::ECANCELED] {
            let mut fixture = Fixture::new();
            fixture.write(b"abcdef", false);
            fixture.submit();
            assert!(matches!(
                fixture.complete(result, 0, false),
                Sent::Continues
            ));
            assert_eq!(fixture.write(b"x", false), WriteStep::Busy);
            assert_eq!(fixture.submit(), Some(6 - result.max(0) as usize));
        }
    }

    #[test]
    fn the_end_follows_the_last_byte() {
        let mut fixture = Fixture::new();
        fixture.write(b"abc", false);
        fixture.submit();
        assert!(!fixture.sender().half_close());
        let sent = fixture.complete(3, 0, false);
        assert!(matches!(sent, Sent::Idle { half_close: true }));
        assert!(fixture.sender().half_close(), "nothing is in the way");
    }

    /// An owned buffer, and how its send ended.
    struct Owned(Vec<u8>, Mutex<Option<Result<usize, i32>>>);

    impl OwnedSend for Owned {
        fn bytes(&self) -> (*const u8, usize) {
            (self.0.as_ptr(), self.0.len())
        }

        fn finish(&self, result: Result<usize, i32>) {
            let before = self.1.lock().unwrap().replace(result);
            assert!(before.is_none(), "finished once");
        }
    }

    fn owned(fixture: &mut Fixture, zero_copy: bool) -> Arc<Owned> {
        let buffer = Arc::new(Owned(b"owned".to_vec(), Mutex::new(None)));
        let Fixture {
            sender, requests, ..
        } = fixture;
        let sender = sender.as_mut().expect("made with one");
        sender.begin_owned(KEY, buffer.clone(), zero_copy, requests);
        buffer
    }

    #[test]
    fn an_owned_buffer_is_the_kernels_until_its_last_completion() {
        let mut fixture = Fixture::new();
        let buffer = owned(&mut fixture, true);
        assert_eq!(fixture.write(b"x", false), WriteStep::Busy);
        assert_eq!(fixture.submit(), Some(5));
        assert!(!fixture.sender().has_released_fd(false));
        assert!(matches!(
            fixture.complete(5, 1 << 1, false),
            Sent::Continues
        ));
        assert!(
            fixture.sender().has_released_fd(false),
            "but not with the memory"
        );
        assert!(buffer.1.lock().unwrap().is_none());
        assert!(is_idle(&fixture.complete(0, 1 << 3, false)));
        assert_eq!(*buffer.1.lock().unwrap(), Some(Ok(5)));
    }

    #[test]
    fn an_owned_buffer_is_resumed_unless_the_ring_is_shut() {
        let mut fixture = Fixture::new();
        let buffer = owned(&mut fixture, false);
        fixture.submit();
        assert!(matches!(
            fixture.complete(-libc::ECANCELED, 0, false),
            Sent::Continues
        ));
        assert_eq!(fixture.submit(), Some(5));
        assert!(matches!(fixture.complete(2, 0, false), Sent::Continues));
        assert_eq!(fixture.submit(), Some(3));
        assert!(is_idle(&fixture.complete(-libc::ECANCELED, 0, true)));
        assert_eq!(*buffer.1.lock().unwrap(), Some(Ok(2)));
        assert_eq!(fixture.sender().take_error(), Some(libc::ECANCELED));
    }
}
