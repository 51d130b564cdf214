//! The sockets of one ring: bookkeeping behind the ring's lock, which turns calls
//! into requests and completions into bytes, wakes and closed descriptors.
//!
//! S1. A socket's slot, and the bytes that are being sent, live until the last
//!     completion of all requests for that socket, whether or not it has been closed
//!     by then. Its descriptor stays open as long as the kernel uses it. So a
//!     completion always names a live slot.
//! S2. Received bytes are never discarded while the socket is open.
//! S3. Buffered bytes are sent, unless the connection fails.
//! S4. `busy` counts the requests that are queued, or with the kernel.

use std::io::IoSlice;
use std::mem::{MaybeUninit, take};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::task::Waker;

use blitzen_util::prefetch::prefetch;
use io_uring::squeue::Entry;

use super::deferred::Deferred;
use super::owned::OwnedSend;
use super::pool::BufferPool;
use super::receive::{InKernel, RecvMode, RecvOp, RecvState, TakeResult};
use super::request::{Request, Requests, cancel_entry};
use super::send::{FlushStep, SendState, Sent, SpareBuffers, WriteContext, WriteStep};
use super::stream::{LeftRing, OnRing};
use super::waiters::{StreamWaiters, WaitAs};
use crate::ring::Filled;
use crate::ring::completion::Completion;
use crate::ring::user_data::{MAX_INDEX, OpKind, SocketKey, UserData};
use crate::shutdown_error;

/// Keeps a descriptor open.
pub(super) type KeepOpen = Arc<dyn Send + Sync>;

/// One of a stream's two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamDirection {
    Recv,
    Send,
}

/// Whether a socket is served by the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    OnRing,
    /// It moves to readiness: no request is begun any more, and received bytes can
    /// still be read.
    Leaving,
    /// Its stream was dropped.
    Closed,
}

struct Socket {
    receiver: RecvState,
    sender: SendState,
    phase: Phase,
    fd: RawFd,
    /// `None` once it is closed.
    keep_open: Option<KeepOpen>,
}

impl Socket {
    /// Requests that are queued, or with the kernel.
    fn requests(&self) -> usize {
        usize::from(self.receiver.op() != RecvOp::Idle) + self.sender.requests()
    }
}

struct SocketSlot {
    generation: u32,
    socket: Option<Box<Socket>>,
}

/// The result of [`SocketTable::recv`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecvStep {
    Bytes(usize),
    Eof,
    Error(i32),
    /// The reader calls `recv(2)`, and reads ahead if messages are `large`.
    Direct {
        announced: InKernel,
        large: bool,
    },
    /// There is nothing, and no waker was given to wait with.
    Nothing,
    /// There is nothing, and the waker will be woken.
    Waits,
    /// The socket moves to readiness.
    Leaving,
    /// There is nothing, and the ring was shut.
    Shut,
}

/// The result of [`SocketTable::wait_to_send`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendStep {
    /// The waker will be woken.
    Waits,
    /// There is nothing to wait for: try again.
    Retry,
    Leaving,
    Shut,
}

/// All sockets of one ring; behind its lock.
#[derive(Default)]
pub(in crate::ring) struct SocketTable {
    slots: Vec<SocketSlot>,
    free: Vec<u32>,
    requests: Requests,
    pool: Option<BufferPool>,
    spare: SpareBuffers,
    open: usize,
    busy: usize,
    /// The number of submissions that had writes.
    turn: u32,
    /// The number of writes since the last of them.
    writes: u32,
    /// Whether there were several writes before the last of them.
    is_batching: bool,
    /// Whether the kernel does not support multishot receives.
    only_poll: bool,
    shut: bool,
}

impl SocketTable {
    /// Returns the number of sockets.
    pub(in crate::ring) fn open(&self) -> usize {
        self.open
    }

    /// Requests that are queued, or with the kernel (S4).
    pub(in crate::ring) fn busy(&self) -> usize {
        self.busy
    }

    /// Requests that wait to be submitted.
    pub(in crate::ring) fn queued(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    pub(super) fn set_pool(&mut self, pool: BufferPool) {
        self.pool = Some(pool);
    }

    pub(super) fn is_shut(&self) -> bool {
        self.shut
    }

    pub(super) fn buffers_held(&self) -> usize {
        self.pool.as_ref().map_or(0, BufferPool::held)
    }

    pub(super) fn insert(&mut self, fd: RawFd, keep_open: KeepOpen) -> SocketKey {
        self.open += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.slots.len();
            assert!(index < MAX_INDEX, "too many sockets on one ring");
            let (generation, socket) = (0, None);
            self.slots.push(SocketSlot { generation, socket });
            self.free.reserve(self.slots.len()); // closing one never allocates
            index as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.socket = Some(Box::new(Socket {
            receiver: RecvState::new(),
            sender: SendState::new(),
            phase: Phase::OnRing,
            fd,
            keep_open: Some(keep_open),
        }));
        SocketKey {
            index,
            generation: slot.generation,
        }
    }

    fn socket(&self, key: SocketKey) -> &Socket {
        match &self.slots[key.index as usize] {
            SocketSlot {
                generation,
                socket: Some(socket),
            } if *generation == key.generation => socket,
            _ => unreachable!("S1: {key:?} names a live socket"),
        }
    }

    fn socket_mut(&mut self, key: SocketKey) -> &mut Socket {
        match &mut self.slots[key.index as usize] {
            SocketSlot {
                generation,
                socket: Some(socket),
            } if *generation == key.generation => socket,
            _ => unreachable!("S1: {key:?} names a live socket"),
        }
    }

    /// Calls `act` with a socket, and updates the number of requests (S4).
    #[inline(always)]
    fn update<R>(
        &mut self,
        key: SocketKey,
        act: impl FnOnce(&mut Socket, &mut TableParts<'_>) -> R,
    ) -> R {
        let slot = &mut self.slots[key.index as usize];
        let (true, Some(socket)) = (slot.generation == key.generation, &mut slot.socket) else {
            unreachable!("S1: {key:?} names a live socket");
        };
        let (Some(pool), before) = (&mut self.pool, socket.requests()) else {
            unreachable!("a socket comes after the pool");
        };
        let mut parts = TableParts {
            pool,
            requests: &mut self.requests,
            spare: &mut self.spare,
            only_poll: &mut self.only_poll,
            shut: self.shut,
        };
        let result = act(socket, &mut parts);
        self.busy = self.busy + socket.requests() - before;
        result
    }

    pub(super) fn waiters(
        &mut self,
        key: SocketKey,
        direction: StreamDirection,
    ) -> &mut StreamWaiters {
        let socket = self.socket_mut(key);
        match direction {
            StreamDirection::Recv => &mut socket.receiver.waiters,
            StreamDirection::Send => &mut socket.sender.waiters,
        }
    }

    // Receiving.

    /// Notes that there may be something to read already.
    pub(super) fn expect_bytes(&mut self, key: SocketKey) {
        self.socket_mut(key).receiver.expect_bytes();
    }

    /// Takes received bytes into `room`. If there are none, and a waker is given,
    /// waits.
    #[inline]
    pub(super) fn recv(
        &mut self,
        key: SocketKey,
        room: &mut [MaybeUninit<u8>],
        waiter: WaitAs<'_>,
        waker: &mut Option<Waker>,
        deferred: &mut Deferred,
    ) -> RecvStep {
        self.update(key, |socket, parts| {
            let receiver = &mut socket.receiver;
            match receiver.take(parts.pool, room) {
                TakeResult::Bytes(count) => return RecvStep::Bytes(count),
                TakeResult::Eof => return RecvStep::Eof,
                TakeResult::Error(error) => return RecvStep::Error(error),
                TakeResult::Direct(announced) if socket.phase == Phase::OnRing => {
                    let large = receiver.mode() == RecvMode::Poll;
                    return RecvStep::Direct { announced, large };
                }
                TakeResult::Direct(_) | TakeResult::Nothing => {}
            }
            if socket.phase == Phase::Leaving {
                return RecvStep::Leaving;
            }
            if parts.shut {
                return RecvStep::Shut;
            }
            let Some(waker) = waker.take() else {
                return RecvStep::Nothing;
            };
            receiver.waiters.add(waiter, waker, deferred);
            receiver.arm(key, *parts.only_poll, parts.requests);
            RecvStep::Waits
        })
    }

    /// Notes that a `recv(2)` has returned `count` bytes, and that `left` is still
    /// there.
    pub(super) fn note_direct(&mut self, key: SocketKey, count: usize, left: InKernel) {
        self.update(key, |socket, parts| {
            let size = parts.pool.buffer_size() as usize;
            socket.receiver.note_direct(count, left, size);
        });
    }

    /// Keeps an error for the next read.
    pub(super) fn keep_recv_error(&mut self, key: SocketKey, error: i32) {
        self.socket_mut(key).receiver.keep_error(error);
    }

    /// Returns the number of unread bytes in buffers of the pool.
    pub(super) fn unread(&self, key: SocketKey) -> usize {
        let receiver = &self.socket(key).receiver;
        self.pool.as_ref().map_or(0, |pool| receiver.unread(pool))
    }

    // Sending.

    pub(super) fn write(
        &mut self,
        key: SocketKey,
        parts: &[IoSlice<'_>],
        by_owner: bool,
    ) -> Result<WriteStep, LeftRing> {
        self.writes += 1;
        let context = WriteContext {
            by_owner: by_owner && !self.shut,
            is_first: self.writes == 1 && !self.is_batching,
            turn: self.turn,
        };
        self.update(key, |socket, table| match socket.phase {
            Phase::Leaving => Err(LeftRing),
            _ => {
                let (spare, requests) = (&mut *table.spare, &mut *table.requests);
                Ok(socket.sender.write(key, parts, context, spare, requests))
            }
        })
    }

    pub(super) fn set_credit(&mut self, key: SocketKey, room: u32, len: usize) -> bool {
        self.socket_mut(key).sender.set_credit(room, len)
    }

    /// Whether buffered bytes wait for the next submission.
    pub(super) fn is_queued(&self, key: SocketKey) -> bool {
        self.socket(key).sender.is_queued() && !self.shut
    }

    pub(super) fn flush(&mut self, key: SocketKey) -> FlushStep {
        self.update(key, |socket, _| socket.sender.flush())
    }

    /// Takes back memory of pending bytes that a writer has sent.
    pub(super) fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.put(bytes);
    }

    /// Has the kernel send the rest of what was pending.
    pub(super) fn resume_pending(&mut self, key: SocketKey, bytes: Vec<u8>, sent: usize) {
        self.update(key, |socket, table| {
            let requests = &mut *table.requests;
            socket.sender.resume_pending(key, bytes, sent, requests);
        });
    }

    pub(super) fn keep_send_error(&mut self, key: SocketKey, error: i32) {
        self.socket_mut(key).sender.keep_error(error);
    }

    pub(super) fn take_send_error(&mut self, key: SocketKey) -> Option<i32> {
        self.socket_mut(key).sender.take_error()
    }

    pub(super) fn begin_owned(
        &mut self,
        key: SocketKey,
        buffer: Arc<dyn OwnedSend>,
        zero_copy: bool,
    ) -> OnRing<()> {
        self.update(key, |socket, table| {
            if socket.phase == Phase::Leaving {
                return Err(LeftRing);
            }
            if table.shut {
                return Ok(Err(shutdown_error()));
            }
            let requests = &mut *table.requests;
            socket.sender.begin_owned(key, buffer, zero_copy, requests);
            Ok(Ok(()))
        })
    }

    /// Waits until the send that is in flight has ended and, with `for_room`, until
    /// the socket has room.
    pub(super) fn wait_to_send(
        &mut self,
        key: SocketKey,
        for_room: bool,
        waiter: WaitAs<'_>,
        waker: &mut Option<Waker>,
        deferred: &mut Deferred,
    ) -> SendStep {
        self.update(key, |socket, table| {
            let sender = &mut socket.sender;
            if sender.is_idle() && !for_room {
                return SendStep::Retry;
            }
            if socket.phase == Phase::Leaving && for_room {
                return SendStep::Leaving;
            }
            if table.shut && for_room {
                return SendStep::Shut;
            }
            if let Some(waker) = waker.take() {
                sender.waiters.add(waiter, waker, deferred);
            }
            if for_room {
                sender.arm_writable(key, table.requests);
            }
            SendStep::Waits
        })
    }

    /// Ends writing; returns true if `shutdown(2)` may be called now.
    pub(super) fn half_close(&mut self, key: SocketKey) -> bool {
        self.socket_mut(key).sender.half_close()
    }

    // Leaving.

    /// Whether a socket that leaves has no request of a direction with the kernel.
    pub(super) fn is_drained(&self, key: SocketKey, direction: StreamDirection) -> bool {
        let socket = self.socket(key);
        let is_idle = match direction {
            StreamDirection::Recv => socket.receiver.op() == RecvOp::Idle,
            StreamDirection::Send => socket.sender.is_idle(),
        };
        // Before the socket leaves, a request may still be begun.
        is_idle && socket.phase != Phase::OnRing
    }

    /// Begins no more requests for the socket, and wakes its waiters to continue by
    /// readiness.
    pub(super) fn leave(&mut self, key: SocketKey, deferred: &mut Deferred) {
        let left = self.update(key, |socket, table| {
            let is_first = socket.phase == Phase::OnRing;
            socket.phase = Phase::Leaving;
            socket.receiver.stop(key, table.requests);
            socket.sender.stop_writable(key, table.requests);
            socket.receiver.waiters.wake_all(deferred);
            socket.sender.waiters.wake_all(deferred);
            is_first
        });
        self.open -= usize::from(left);
    }

    /// Closes a socket whose stream was dropped: cancels its requests, except sends.
    pub(super) fn close(&mut self, key: SocketKey, deferred: &mut Deferred) {
        let was_on_ring = self.update(key, |socket, table| {
            let was_on_ring = socket.phase == Phase::OnRing;
            socket.phase = Phase::Closed;
            socket.receiver.stop(key, table.requests);
            socket.receiver.discard(table.pool);
            socket.receiver.waiters.clear(deferred);
            socket.sender.stop_writable(key, table.requests);
            socket.sender.waiters.clear(deferred);
            was_on_ring
        });
        self.open -= usize::from(was_on_ring);
        self.release_if_settled(key, deferred);
    }

    /// Frees a closed socket when no request of it is left (S1), and closes its
    /// descriptor when the kernel only still uses memory.
    fn release_if_settled(&mut self, key: SocketKey, deferred: &mut Deferred) {
        let slot = &mut self.slots[key.index as usize];
        let Some(socket) = &mut slot.socket else {
            return;
        };
        if socket.phase != Phase::Closed || socket.receiver.op().is_submitted() {
            return;
        }
        if socket.sender.has_released_fd(self.shut)
            && let Some(keep_open) = socket.keep_open.take()
        {
            deferred.drop_socket(keep_open);
        }
        if socket.sender.is_settled() {
            slot.socket = None;
            slot.generation = key.next_generation();
            self.free.push(key.index);
        }
    }

    fn keys(&self) -> Vec<SocketKey> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.socket.is_some())
            .map(|(index, slot)| SocketKey {
                index: index as u32,
                generation: slot.generation,
            })
            .collect()
    }

    /// Begins no more requests, and cancels all but sends of buffered bytes (S3).
    pub(in crate::ring) fn shut(&mut self, deferred: &mut Deferred) {
        self.shut = true;
        for key in self.keys() {
            self.update(key, |socket, table| {
                socket.receiver.stop(key, table.requests);
                socket.sender.stop_writable(key, table.requests);
                if let Some(owned) = socket.sender.cancel_owned(key, table.requests) {
                    deferred.drop_owned(owned);
                }
                socket.receiver.waiters.wake_all(deferred);
                socket.sender.waiters.wake_all(deferred);
            });
            self.release_if_settled(key, deferred);
        }
    }

    /// Cancels also sends of buffered bytes, of sockets that have no room.
    pub(in crate::ring) fn cancel_sends(&mut self) {
        for key in self.keys() {
            self.update(key, |socket, table| {
                socket.sender.cancel_waiting(key, table.requests);
            });
        }
    }

    /// Whether the kernel only still uses the memory of sends whose bytes the
    /// network needs.
    pub(in crate::ring) fn only_reads_buffers(&self) -> bool {
        let mut sockets = self.slots.iter().filter_map(|slot| slot.socket.as_deref());
        sockets.all(|socket| {
            let is_receiving = socket.receiver.op() != RecvOp::Idle;
            !is_receiving && socket.sender.has_released_fd(self.shut)
        })
    }

    // The kernel's side.

    /// Moves requests to the submission queue with `push`, which returns false when
    /// the queue is full. Sets `is_immediate` if the kernel completes some of them
    /// at once.
    pub(in crate::ring) fn fill(
        &mut self,
        mut push: impl FnMut(&Entry) -> bool,
        is_immediate: &mut bool,
    ) -> Filled {
        while let Some(request) = self.requests.front() {
            if let Some(entry) = self.entry(request) {
                if !push(&entry) {
                    return Filled::QueueIsFull;
                }
                *is_immediate |= self.submitted(request);
            }
            self.requests.pop_front();
        }
        if self.writes > 0 {
            self.turn = self.turn.wrapping_add(1);
            self.is_batching = self.writes > 1;
            self.writes = 0;
        }
        Filled::Everything
    }

    /// Returns the entry of a request, unless it was withdrawn.
    fn entry(&mut self, request: Request) -> Option<Entry> {
        let (Request::Submit(key, kind) | Request::Cancel(key, kind)) = request;
        let slot = &mut self.slots[key.index as usize];
        let socket = slot
            .socket
            .as_mut()
            .filter(|_| slot.generation == key.generation)?;
        let (receiver, sender) = (&mut socket.receiver, &mut socket.sender);
        let user_data = UserData::Socket(key, kind);
        let entry = match request {
            Request::Cancel(..) => {
                let is_current = match kind {
                    OpKind::Recv => receiver.op() == RecvOp::Cancelling,
                    OpKind::Writable => sender.is_cancelling_writable(),
                    OpKind::Send => sender.is_in_flight(),
                };
                return is_current.then(|| cancel_entry(user_data));
            }
            Request::Submit(..) => match kind {
                OpKind::Recv => receiver.entry(socket.fd),
                OpKind::Send => sender.entry(socket.fd),
                OpKind::Writable => sender.writable_entry(socket.fd),
            },
        };
        entry.map(|entry| entry.user_data(user_data.bits()))
    }

    /// Notes that a request was submitted; returns true if it completes at once.
    fn submitted(&mut self, request: Request) -> bool {
        let Request::Submit(key, kind) = request else {
            return false;
        };
        let socket = self.socket_mut(key);
        match kind {
            OpKind::Recv => socket.receiver.submitted(),
            OpKind::Writable => socket.sender.writable_submitted(),
            OpKind::Send => return socket.sender.submitted(),
        }
        false
    }

    /// Prefetches what the completion of a request will need.
    pub(in crate::ring) fn prefetch(&self, key: SocketKey, kind: OpKind) {
        if let Some(slot) = self.slots.get(key.index as usize)
            && let Some(socket) = &slot.socket
        {
            match kind {
                OpKind::Recv => prefetch(&raw const socket.receiver),
                OpKind::Send | OpKind::Writable => prefetch(&raw const socket.sender),
            }
        }
    }

    /// Takes in a completion. Returns true if a task is woken for it.
    pub(in crate::ring) fn complete(
        &mut self,
        key: SocketKey,
        kind: OpKind,
        completion: &Completion,
        deferred: &mut Deferred,
    ) -> bool {
        let wakes = deferred.wakes.len();
        self.update(key, |socket, table| match kind {
            OpKind::Recv => received(key, socket, completion, table, deferred),
            OpKind::Send => sent(key, socket, completion, table, deferred),
            OpKind::Writable if completion.has_more() => {}
            OpKind::Writable => {
                socket.sender.writable_completed();
                socket.sender.waiters.wake_all(deferred);
            }
        });
        self.release_if_settled(key, deferred);
        deferred.wakes.len() > wakes
    }
}

/// The parts of a table apart from its sockets.
struct TableParts<'a> {
    pool: &'a mut BufferPool,
    requests: &'a mut Requests,
    spare: &'a mut SpareBuffers,
    only_poll: &'a mut bool,
    shut: bool,
}

fn received(
    key: SocketKey,
    socket: &mut Socket,
    completion: &Completion,
    table: &mut TableParts<'_>,
    deferred: &mut Deferred,
) {
    let receiver = &mut socket.receiver;
    let keeps = socket.phase != Phase::Closed;
    if !receiver.complete(completion, table.pool, keeps) {
        *table.only_poll = true;
    }
    let is_drained = socket.phase == Phase::Leaving && receiver.op() == RecvOp::Idle;
    if receiver.has_input() || is_drained {
        receiver.waiters.wake_all(deferred);
    }
    match socket.phase {
        Phase::OnRing if !table.shut => {
            receiver.limit(key, table.requests);
            if receiver.op() == RecvOp::Idle && !receiver.waiters.is_empty() {
                receiver.arm(key, *table.only_poll, table.requests);
            }
        }
        _ => {}
    }
}

fn sent(
    key: SocketKey,
    socket: &mut Socket,
    completion: &Completion,
    table: &mut TableParts<'_>,
    deferred: &mut Deferred,
) {
    let sender = &mut socket.sender;
    let (sent, owned) = sender.complete(key, completion, table.shut, table.spare, table.requests);
    if let Some(owned) = owned {
        sender.waiters.wake_all(deferred);
        deferred.drop_owned(owned);
    }
    if let Sent::Idle { half_close } = sent {
        sender.waiters.wake_all(deferred);
        if half_close && let Some(keep_open) = &socket.keep_open {
            deferred.half_close(keep_open.clone(), socket.fd);
        }
    }
}

impl Drop for SocketTable {
    /// Leaks memory that the kernel may still use.
    fn drop(&mut self) {
        if self.busy > 0 {
            if !self.only_reads_buffers() {
                std::mem::forget(self.pool.take()); // something is being received
            }
            std::mem::forget(take(&mut self.slots));
        }
    }
}
