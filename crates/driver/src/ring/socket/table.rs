//! The sockets of one ring: what the kernel is doing for each, what has come,
//! and what is to go out.
//!
//! ```text
//!             wait             sent              the kernel's last word
//!   Idle ───────────► Queued ────────► Armed ──────────────────────────► Idle
//!                        ▲               │ too much unread, or closed      ▲
//!        a buffer is back│               ▼                                 │
//!                     Starved         Ending ──────────────────────────────╯
//! ```
//!
//! S1. A socket's place, its descriptor and the bytes on their way out live
//!     until the kernel has said its last word on everything it was asked for
//!     that socket, whether or not the socket has been closed by then.
//! S2. At most one receive, one send and one wait for room of a socket are
//!     with the kernel. So bytes come and go in order.
//! S3. What has been taken in is never given up while the socket is open.
//! S4. Bytes taken over to be sent are sent, unless the connection fails.
//! S5. `busy` counts what is queued for the kernel or with it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::{MaybeUninit, take};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::Waker;

use blitzen_util::prefetch::prefetch;
use io_uring::squeue::{Entry, Flags};
use io_uring::{cqueue, opcode, types};

use super::flood::Flood;
use super::pool::{GROUP, Pieces, Pool};
use crate::wakes::Wakes;

/// Unread buffers of one socket before its receive is stopped.
const MOST_UNREAD: u16 = 8;
/// Connections nobody has asked for before a listener's accept is stopped.
const MOST_WAITING: usize = 64;
/// Short messages in a row, none of them left lying, before a socket's receive
/// stays armed.
const STREAK: u8 = 3;
/// The most bytes that are gathered behind a send under way.
const MOST_GATHERED: usize = 16 * 1024;
/// Memory for sends that is kept for the next ones.
const MOST_SPARE: usize = 256;
/// More than that is given back instead.
const LARGE_SPARE: usize = MOST_GATHERED;
/// Writes up to here are taken over.
const SMALL: usize = 2048;
/// And up to here if several of the socket go out together, which saves more
/// than the copy costs.
const MEDIUM: usize = 8192;
/// What a send may cost of a socket's room beside its bytes.
const SEND_COST: u32 = 2048;
/// The peer has ended its side, or the connection is broken.
const ENDING: libc::c_short = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
/// Not in the `io-uring` crate: wait for the socket before trying.
const POLL_FIRST: u16 = 1;

/// Keeps a descriptor open.
pub(super) type Keeper = Arc<dyn Send + Sync>;

/// Names a socket of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

/// What the kernel was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum Task {
    /// To receive, or to accept.
    Receive = 0,
    Send = 1,
    /// To say when there is room to send.
    Room = 2,
}

/// What the kernel keeps of a request for a socket. Bit 31 tells it from an
/// operation's token, and the highest two are never both set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) struct Mark(u64);

const IS_MARK: u64 = 1 << 31;
const GENERATION_MASK: u32 = (1 << 30) - 1;

impl Mark {
    fn new(index: u32, generation: u32, task: Task) -> Self {
        Self(u64::from(index) | IS_MARK | u64::from(generation) << 32 | (task as u64) << 62)
    }

    /// Unless the bits are those of an operation.
    pub(in crate::ring) fn from_bits(bits: u64) -> Option<Self> {
        (bits & IS_MARK != 0).then_some(Self(bits))
    }

    fn index(self) -> usize {
        (self.0 & (IS_MARK - 1)) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & GENERATION_MASK
    }

    fn task(self) -> Task {
        match self.0 >> 62 {
            0 => Task::Receive,
            1 => Task::Send,
            _ => Task::Room,
        }
    }
}

/// A word from the kernel.
pub(in crate::ring) struct Word {
    pub(in crate::ring) mark: Mark,
    pub(in crate::ring) result: i32,
    pub(in crate::ring) flags: u32,
}

/// What is left to do after the lock.
#[derive(Default)]
pub(in crate::ring) struct Aftermath {
    pub(in crate::ring) wakes: Wakes,
    /// Mostly nothing.
    rest: Vec<Leftover>,
}

/// Something to be dropped after the lock, and after the wakes.
enum Leftover {
    Waker(#[allow(dead_code)] Waker),
    Keeper(#[allow(dead_code)] Keeper),
    Connection(#[allow(dead_code)] OwnedFd),
    /// The peer is told first that nothing follows.
    End(#[allow(dead_code)] Keeper, RawFd),
}

impl Aftermath {
    pub(in crate::ring) fn is_empty(&self) -> bool {
        self.wakes.is_empty() && self.rest.is_empty()
    }

    #[inline]
    pub(in crate::ring) fn finish(mut self) {
        if !self.rest.is_empty() {
            self.say_ends();
        }
        if !self.wakes.is_empty() {
            self.wakes.fire();
        }
    }

    fn drop_later(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.rest.push(Leftover::Waker(waker));
        }
    }

    #[cold]
    fn say_ends(&mut self) {
        for leftover in &self.rest {
            if let Leftover::End(_open, fd) = leftover {
                // SAFETY: the keeper has it open. A connection that is gone
                // needs no end.
                unsafe { libc::shutdown(*fd, libc::SHUT_WR) };
            }
        }
    }
}

/// Who waits for one direction of a socket.
#[derive(Default)]
struct Waiters {
    /// Of those that read or write, the one that called last.
    last: Option<Waker>,
    /// Seldom anybody.
    others: Option<Box<Others>>,
}

#[derive(Default)]
struct Others(Vec<Waker>);

impl Waiters {
    fn set_last(&mut self, waker: Waker, after: &mut Aftermath) {
        after.drop_later(self.last.replace(waker));
    }

    fn add(&mut self, waker: Waker, after: &mut Aftermath) {
        let Others(others) = &mut **self.others.get_or_insert_default();
        match others.iter().any(|other| other.will_wake(&waker)) {
            true => after.drop_later(Some(waker)),
            false => others.push(waker),
        }
    }

    fn is_empty(&self) -> bool {
        self.last.is_none()
            && self
                .others
                .as_ref()
                .is_none_or(|others| others.0.is_empty())
    }

    fn wake(&mut self, after: &mut Aftermath) {
        if let Some(waker) = self.last.take() {
            after.wakes.push(waker);
        }
        for waker in self.others.iter_mut().flat_map(|others| others.0.drain(..)) {
            after.wakes.push(waker);
        }
    }

    fn forget(&mut self, after: &mut Aftermath) {
        after.drop_later(self.last.take());
        let others = self.others.take().map_or(Vec::new(), |others| others.0);
        after.rest.extend(others.into_iter().map(Leftover::Waker));
    }
}

/// Where a receive, or an accept, stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Idle,
    /// On its way to the kernel.
    Queued(How),
    Armed(How),
    /// The kernel has been asked to stop.
    Ending,
    /// There was no buffer.
    Starved,
}

/// What the kernel was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// One message, or to say once that there is room.
    Once,
    /// All that come.
    Always,
    /// To say whenever there is something; it is read from the socket itself.
    Tell,
}

impl Arm {
    /// Whether the kernel has it.
    fn is_out(self) -> bool {
        matches!(self, Arm::Armed(_) | Arm::Ending)
    }

    /// Whether nobody but the reader takes bytes from the socket.
    fn is_hands_off(self) -> bool {
        matches!(
            self,
            Arm::Idle | Arm::Queued(How::Tell) | Arm::Armed(How::Tell)
        )
    }
}

/// What comes after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Nothing, for good.
    Closed,
    /// An error, once.
    Error(i32),
}

/// What comes in. One cache line, of which most messages need no other.
#[repr(align(64))]
struct Incoming {
    arm: Arm,
    /// So many want the socket for themselves: nothing is armed meanwhile.
    aside: u32,
    /// Bytes that were copied out of the pool, or read beyond what was asked
    /// for, older than its pieces; some, if it is there.
    spill: Option<Box<Spill>>,
    pieces: Pieces,
    end: Option<End>,
    /// The kernel has more, as far as is known.
    bulk: bool,
    /// How often it has said so.
    told: Told,
    /// It has said that the end, or an error, comes next: that it does not say
    /// again.
    ending: bool,
    /// Messages are larger than a buffer.
    large: bool,
    /// Short messages in a row; zero before the first one.
    streak: u8,
    waiters: Waiters,
}

const _: () = assert!(size_of::<Incoming>() == 64);

/// Bytes that are the socket's own.
#[derive(Default)]
struct Spill {
    bytes: Vec<u8>,
    /// So many of them have been read.
    start: usize,
}

impl Spill {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Incoming {
    fn has_news(&self) -> bool {
        self.spill.is_some() || !self.pieces.is_empty() || self.end.is_some()
    }

    /// Reads what is the socket's own.
    fn read_spill(&mut self, room: &mut [MaybeUninit<u8>]) -> usize {
        let Some(spill) = self.spill.as_deref_mut() else {
            return 0;
        };
        let rest = spill.rest();
        let count = rest.len().min(room.len());
        room[..count].write_copy_of_slice(&rest[..count]);
        spill.start += count;
        if spill.rest().is_empty() {
            self.spill = None;
        }
        count
    }

    /// Where bytes are, if they are not here.
    fn found_nothing(&self) -> Found {
        match self.arm.is_hands_off() {
            true if self.bulk => Found::Perhaps {
                told: self.told,
                much: self.large,
            },
            true => Found::Unarmed,
            false => Found::Nothing,
        }
    }
}

/// Where a send stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    None,
    Queued,
    /// With the kernel, which answers at once, or which may wait for room.
    Out,
}

/// What goes out.
struct Outgoing {
    flight: Flight,
    /// The bytes under way, `sent` of which are with the peer.
    flying: Vec<u8>,
    sent: u32,
    /// The kernel may wait for room: it has refused to do otherwise.
    patient: bool,
    /// The bytes that follow.
    gathered: Vec<u8>,
    /// So much room is known to be there.
    credit: u32,
    /// A buffer that is not ours is under way.
    lent: bool,
    /// The turn of the last write.
    turn: u32,
    /// There was another one in that turn.
    again: bool,
    /// There were several in the turn before that one.
    gathers: bool,
    error: Option<i32>,
    /// Nothing follows.
    ended: bool,
    /// Say so to the peer when everything is out.
    then_end: bool,
    room: Arm,
    waiters: Waiters,
}

impl Outgoing {
    /// Remembers whether there are several writes in a turn.
    fn note_write(&mut self, turn: u32) {
        match self.turn == turn {
            true => self.again = true,
            false => {
                self.gathers = take(&mut self.again);
                self.turn = turn;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.flight == Flight::None && !self.lent
    }
}

struct Stream {
    fd: RawFd,
    keeper: Keeper,
    /// Somebody holds it.
    open: bool,
    receive: Incoming,
    send: Outgoing,
}

struct Listener {
    fd: RawFd,
    keeper: Keeper,
    open: bool,
    arm: Arm,
    /// As a stream's.
    aside: u32,
    waiting: VecDeque<OwnedFd>,
    error: Option<i32>,
    waiters: Waiters,
}

enum Place {
    Free,
    Stream(Box<Stream>),
    Listener(Box<Listener>),
}

struct Slot {
    generation: u32,
    place: Place,
}

/// How often the kernel has said that it has something: whoever then finds
/// nothing says what it had heard by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told(u32);

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// So many bytes; and the system has more, if it has said so.
    Bytes(usize, Option<Told>),
    End,
    Error(i32),
    /// Nothing here, but the system may have some, for the reader to take;
    /// `much`, if messages are large.
    Perhaps {
        told: Told,
        much: bool,
    },
    /// Nothing here, as far as is known, and what comes is for the reader to
    /// take.
    Unarmed,
    Nothing,
}

/// What a read came to that waits if it finds nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Found(Found),
    /// The waker will be woken.
    Waits,
    /// Nothing comes any more.
    Shut,
}

/// What to do with bytes that are to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They were taken over.
    Taken,
    /// An earlier send failed with this.
    Failed(i32),
    /// They may go to the system straight away.
    Direct,
    /// They could be taken over if it were known that there is room.
    Measure,
    /// Not before what is under way, which would be out by now if the kernel
    /// had been told.
    Push,
    /// Not before what is under way.
    Wait,
}

/// Whether all requests fitted into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum Filled {
    Everything,
    QueueIsFull,
}

/// All sockets of one ring; behind its lock.
#[derive(Default)]
pub(in crate::ring) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: VecDeque<(u32, Task, Wish)>,
    starved: VecDeque<u32>,
    pool: Option<Pool>,
    spare: Vec<Vec<u8>>,
    open: usize,
    busy: usize,
    /// How often the kernel was told of everything.
    turn: u32,
    /// How much was written since it last was.
    writes: u32,
    /// There were several writes in the turn before.
    is_busy: bool,
    /// The kernel cannot receive many messages with one request.
    only_single: bool,
    flood: Flood,
    shut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Begin,
    Cancel,
}

impl Table {
    /// Sockets that somebody holds.
    pub(in crate::ring) fn open(&self) -> usize {
        self.open
    }

    /// Requests that are queued or with the kernel (S5).
    pub(in crate::ring) fn busy(&self) -> usize {
        self.busy
    }

    /// Requests that the kernel has not been told of.
    pub(in crate::ring) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    pub(super) fn set_pool(&mut self, pool: Pool) {
        self.pool = Some(pool);
    }

    pub(super) fn is_shut(&self) -> bool {
        self.shut
    }

    pub(super) fn held_buffers(&self) -> usize {
        self.pool.as_ref().map_or(0, Pool::held)
    }

    pub(super) fn add_stream(&mut self, fd: RawFd, keeper: Keeper) -> Key {
        self.insert(Place::Stream(Box::new(Stream {
            fd,
            keeper,
            open: true,
            receive: Incoming {
                arm: Arm::Idle,
                aside: 0,
                spill: None,
                pieces: Pieces::default(),
                end: None,
                bulk: false,
                told: Told::default(),
                ending: false,
                large: false,
                streak: 0,
                waiters: Waiters::default(),
            },
            send: Outgoing {
                flight: Flight::None,
                flying: Vec::new(),
                sent: 0,
                patient: false,
                gathered: Vec::new(),
                credit: 0,
                lent: false,
                turn: 0,
                again: false,
                gathers: false,
                error: None,
                ended: false,
                then_end: false,
                room: Arm::Idle,
                waiters: Waiters::default(),
            },
        })))
    }

    pub(super) fn add_listener(&mut self, fd: RawFd, keeper: Keeper) -> Key {
        self.insert(Place::Listener(Box::new(Listener {
            fd,
            keeper,
            open: true,
            arm: Arm::Idle,
            aside: 0,
            waiting: VecDeque::new(),
            error: None,
            waiters: Waiters::default(),
        })))
    }

    fn insert(&mut self, place: Place) -> Key {
        self.open += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.slots.len() as u32;
            assert!(u64::from(index) < IS_MARK, "two thousand million sockets");
            self.slots.push(Slot {
                generation: 0,
                place: Place::Free,
            });
            self.free.reserve(self.slots.len()); // closing one never allocates
            index
        });
        let slot = &mut self.slots[index as usize];
        slot.place = place;
        Key {
            index,
            generation: slot.generation,
        }
    }

    fn stream(&mut self, key: Key) -> &mut Stream {
        match &mut self.slots[key.index as usize] {
            Slot {
                generation,
                place: Place::Stream(stream),
            } if *generation == key.generation => stream,
            _ => unreachable!("S1: a key names an open socket"),
        }
    }

    fn listener(&mut self, key: Key) -> &mut Listener {
        match &mut self.slots[key.index as usize] {
            Slot {
                generation,
                place: Place::Listener(listener),
            } if *generation == key.generation => listener,
            _ => unreachable!("S1: a key names an open socket"),
        }
    }

    // Reading.

    /// Reads what has come into `room`.
    #[inline(always)] // its answer is not to be built in memory
    pub(super) fn read(&mut self, key: Key, room: &mut [MaybeUninit<u8>]) -> Found {
        let Place::Stream(stream) = &mut self.slots[key.index as usize].place else {
            unreachable!("S1: a key names an open socket")
        };
        let receive = &mut stream.receive;
        let mut filled = match receive.spill.is_some() {
            true => receive.read_spill(room),
            false => 0,
        };
        if let Some(pool) = &mut self.pool {
            while filled < room.len()
                && pool.read(&mut receive.pieces, |bytes| {
                    let count = bytes.len().min(room.len() - filled);
                    room[filled..][..count].write_copy_of_slice(&bytes[..count]);
                    filled += count;
                    count
                })
            {}
        }
        if filled > 0 {
            let more = receive.bulk && receive.arm.is_hands_off() && !receive.has_news();
            let more = more.then_some(receive.told);
            self.feed_starved();
            return Found::Bytes(filled, more);
        }
        match receive.end {
            Some(End::Closed) => Found::End,
            Some(End::Error(error)) => {
                receive.end = None;
                Found::Error(error)
            }
            None => receive.found_nothing(),
        }
    }

    /// The bytes that have come and were not read.
    pub(super) fn unread(&mut self, key: Key) -> usize {
        let receive = &self.stream(key).receive;
        let spill = receive.spill.as_ref().map_or(0, |spill| spill.rest().len());
        let pieces = receive.pieces;
        spill + self.pool.as_ref().map_or(0, |pool| pool.unread(&pieces))
    }

    /// Copies the oldest unread bytes without taking them.
    pub(super) fn peek(&mut self, key: Key, room: &mut [MaybeUninit<u8>]) -> Found {
        let stream = self.stream(key);
        if stream.receive.spill.is_none() && !stream.receive.pieces.is_empty() {
            self.spill(key.index);
        }
        let receive = &mut self.stream(key).receive;
        let spill = receive.spill.as_ref().map_or(&[][..], |spill| spill.rest());
        let filled = spill.len().min(room.len());
        room[..filled].write_copy_of_slice(&spill[..filled]);
        match receive.end {
            _ if filled > 0 => Found::Bytes(filled, None),
            Some(End::Closed) => Found::End,
            Some(End::Error(error)) => {
                receive.end = None;
                Found::Error(error)
            }
            None => receive.found_nothing(),
        }
    }

    /// There may be something to read already.
    pub(super) fn expect(&mut self, key: Key) {
        self.stream(key).receive.bulk = true;
    }

    /// The system had `count` bytes and has no more, unless it has said so since
    /// `told`; of the message they belong to it had given `before`.
    pub(super) fn calm(&mut self, key: Key, count: usize, before: usize, told: Told) {
        let size = self.pool.as_ref().map_or(0, Pool::size) as usize;
        let receive = &mut self.stream(key).receive;
        if receive.told == told {
            receive.bulk = receive.ending;
        }
        if count > 0 {
            receive.streak = match count + before < size {
                true => receive.streak.saturating_add(1),
                false => 1,
            };
            receive.large &= receive.streak < STREAK;
        }
    }

    /// Bytes that were read beyond what was asked for. They come after what is
    /// here: nothing has, since the system was found to have them.
    pub(super) fn keep(&mut self, key: Key, bytes: &[u8], after: &mut Aftermath) {
        let receive = &mut self.stream(key).receive;
        let spill = receive.spill.get_or_insert_default();
        spill.bytes.extend_from_slice(bytes);
        receive.waiters.wake(after); // who did not find them
    }

    /// Something that the system said while nothing was armed.
    pub(super) fn note_error(&mut self, key: Key, error: i32) {
        self.stream(key).receive.end = Some(End::Error(error));
    }

    /// Reads what has come into `room`; if there is nothing, and a waker is
    /// there for it, waits.
    #[inline(always)] // as above
    pub(super) fn read_or_wait(
        &mut self,
        key: Key,
        room: &mut [MaybeUninit<u8>],
        waker: &mut Option<Waker>,
        after: &mut Aftermath,
    ) -> Looked {
        match self.read(key, room) {
            Found::Nothing | Found::Unarmed if waker.is_some() && self.shut => Looked::Shut,
            found @ (Found::Nothing | Found::Unarmed) => {
                let waits = waker
                    .take()
                    .map(|waker| self.wait_to_read(key, waker, after));
                match waits {
                    Some(true) => Looked::Waits,
                    _ => Looked::Found(found),
                }
            }
            found => Looked::Found(found),
        }
    }

    /// Waits for something to read; false if there is something now.
    #[inline]
    pub(super) fn wait_to_read(&mut self, key: Key, waker: Waker, after: &mut Aftermath) -> bool {
        let is_flood = self.flood.is_high();
        let receive = &mut self.stream(key).receive;
        let is_told = receive.bulk && receive.arm == Arm::Armed(How::Tell);
        if receive.has_news() || is_told {
            after.drop_later(Some(waker));
            return false;
        }
        receive.waiters.set_last(waker, after);
        match receive.arm {
            Arm::Idle if receive.aside == 0 => self.arm(key.index),
            // Small ones come again, for which there is a better way.
            Arm::Armed(How::Tell) if !receive.large && !is_flood => {
                receive.arm = Arm::Ending;
                let task = (key.index, Task::Receive, Wish::Cancel);
                self.queue.push_back(task);
            }
            _ => {}
        }
        true
    }

    /// For one that wants to know when there is something, without reading:
    /// `Some(true)` now, `Some(false)` later, for something is armed and
    /// `waker` will hear of it, `None` if nothing is, that would bring bytes.
    pub(super) fn watch(&mut self, key: Key, waker: Waker, after: &mut Aftermath) -> Option<bool> {
        let receive = &mut self.stream(key).receive;
        if receive.has_news() || receive.arm.is_hands_off() {
            after.drop_later(Some(waker));
            return receive.has_news().then_some(true);
        }
        receive.waiters.add(waker, after);
        Some(false)
    }

    /// Queues a receive for a socket that has none.
    fn arm(&mut self, index: u32) {
        let single = self.only_single;
        if let Place::Stream(stream) = &mut self.slots[index as usize].place {
            let how = match stream.receive.streak >= STREAK && !single {
                _ if stream.receive.large || self.flood.is_high() => How::Tell,
                true => How::Always,
                false => How::Once,
            };
            stream.receive.arm = Arm::Queued(how);
            self.busy += 1;
            self.queue.push_back((index, Task::Receive, Wish::Begin));
        }
    }

    /// Buffers have come back: those that found none may try again.
    fn feed_starved(&mut self) {
        while let Some(index) = self.starved.pop_front() {
            if let Place::Stream(stream) = &mut self.slots[index as usize].place
                && stream.receive.arm == Arm::Starved
            {
                stream.receive.arm = Arm::Idle;
                self.arm(index);
            }
        }
    }

    /// Copies what a socket has unread out of the pool.
    fn spill(&mut self, index: u32) {
        if let (Place::Stream(stream), Some(pool)) =
            (&mut self.slots[index as usize].place, &mut self.pool)
        {
            let Incoming { pieces, spill, .. } = &mut stream.receive;
            if !pieces.is_empty() {
                let spill = spill.get_or_insert_default();
                pool.drain(pieces, |bytes| spill.bytes.extend_from_slice(bytes));
            }
        }
    }

    /// The pool has run dry: there must be buffers again, or whoever does not
    /// read would hold up all others.
    fn refill(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        if !self.pool.as_mut().is_some_and(Pool::grow) {
            for index in 0..self.slots.len() as u32 {
                self.spill(index);
            }
        }
        self.feed_starved();
    }

    // Writing.

    /// Looks for a way for bytes that are to be sent, and takes them over if
    /// that is possible. They can wait for the owner's next turn only if
    /// `owner` is the caller.
    ///
    /// Small ones are taken over; larger ones if the socket had several of them
    /// in the last turn in which it had any.
    pub(super) fn write(&mut self, key: Key, parts: &[IoSlice<'_>], owner: bool) -> Way {
        let Place::Stream(stream) = &mut self.slots[key.index as usize].place else {
            unreachable!("S1: a key names an open socket")
        };
        let send = &mut stream.send;
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if let Some(error) = send.error.take() {
            return Way::Failed(error);
        }
        if send.lent {
            return Way::Wait;
        }
        // The first write of a turn goes out at once, unless there were several
        // in the last one: there may be no other, and its task may have
        // something to wait for.
        self.writes += 1;
        send.note_write(self.turn);
        let most = match send.gathers || send.flight == Flight::Queued {
            true => MEDIUM,
            false => SMALL,
        };
        let owner = owner && len <= most;
        let is_first = self.writes == 1 && !self.is_busy && send.flight == Flight::None;
        let may_wait = owner && !is_first && !self.shut && !send.ended;
        let fits = send.gathered.len() + len <= MOST_GATHERED;
        if may_wait && fits && cost(len) <= send.credit {
            send.credit -= cost(len);
            if send.gathered.capacity() == 0 {
                send.gathered = self.spare.pop().unwrap_or_default();
            }
            for part in parts {
                send.gathered.extend_from_slice(part);
            }
            if send.flight == Flight::None {
                send.flight = Flight::Queued;
                self.busy += 1;
                self.queue.push_back((key.index, Task::Send, Wish::Begin));
            }
            return Way::Taken;
        }
        if send.flight != Flight::None {
            return match send.patient {
                true => Way::Wait,
                false => Way::Push,
            };
        }
        if may_wait && fits && send.room == Arm::Idle {
            return Way::Measure;
        }
        send.credit = send.credit.saturating_sub(cost(len));
        Way::Direct
    }

    /// So much room was found; whether it is enough for `len` bytes.
    pub(super) fn credit(&mut self, key: Key, room: u32, len: usize) -> bool {
        let send = &mut self.stream(key).send;
        if send.flight != Flight::None {
            return true; // somebody was faster: look again
        }
        send.credit = room;
        cost(len) <= room
    }

    /// Waits until what is under way is out and, with `room`, the system has
    /// room; false if nothing is under way and room was not asked for.
    pub(super) fn wait_to_write(
        &mut self,
        key: Key,
        waker: Waker,
        room: bool,
        after: &mut Aftermath,
    ) -> bool {
        let send = &mut self.stream(key).send;
        if send.is_idle() && !room {
            after.drop_later(Some(waker));
            return false;
        }
        send.waiters.set_last(waker, after);
        if send.is_idle() && send.room == Arm::Idle {
            send.room = Arm::Queued(How::Once);
            self.busy += 1;
            self.queue.push_back((key.index, Task::Room, Wish::Begin));
        }
        true
    }

    /// As [`watch`](Self::watch): whether something is under way that takes its
    /// time, of whose end `waker` will hear.
    pub(super) fn watch_sent(&mut self, key: Key, waker: Waker, after: &mut Aftermath) -> bool {
        let send = &mut self.stream(key).send;
        if !send.lent && !send.patient {
            after.drop_later(Some(waker));
            return false;
        }
        send.waiters.add(waker, after);
        true
    }

    pub(super) fn lacks_room(&mut self, key: Key) -> bool {
        self.stream(key).send.room != Arm::Idle
    }

    pub(super) fn is_sent(&mut self, key: Key) -> bool {
        self.stream(key).send.is_idle()
    }

    pub(super) fn take_error(&mut self, key: Key) -> Option<i32> {
        self.stream(key).send.error.take()
    }

    /// Nothing more will be written: true if the peer may be told now,
    /// otherwise it will be.
    pub(super) fn end(&mut self, key: Key) -> bool {
        let send = &mut self.stream(key).send;
        send.ended = true;
        send.then_end = !send.is_idle();
        !send.then_end
    }

    /// A buffer of somebody else's goes out: nothing else may, until
    /// [`give_back`](Self::give_back).
    pub(super) fn lend(&mut self, key: Key) -> bool {
        let send = &mut self.stream(key).send;
        if !send.is_idle() {
            return false;
        }
        send.lent = true;
        send.credit = 0;
        self.busy += 1;
        true
    }

    /// That buffer is through.
    pub(super) fn give_back(&mut self, key: Key, after: &mut Aftermath) {
        self.busy -= 1;
        let stream = self.stream(key);
        stream.send.lent = false;
        stream.send.waiters.wake(after);
        if take(&mut stream.send.then_end) {
            after
                .rest
                .push(Leftover::End(stream.keeper.clone(), stream.fd));
        }
        self.release_if_done(key.index, after);
    }

    // Accepting.

    /// A connection, an error, or neither.
    pub(super) fn accept(&mut self, key: Key) -> Option<Result<OwnedFd, i32>> {
        let listener = self.listener(key);
        match listener.waiting.pop_front() {
            Some(connection) => Some(Ok(connection)),
            None => listener.error.take().map(Err),
        }
    }

    /// Waits for a connection; false if there is one, or an error.
    pub(super) fn wait_to_accept(&mut self, key: Key, waker: Waker, after: &mut Aftermath) -> bool {
        let listener = self.listener(key);
        if !listener.waiting.is_empty() || listener.error.is_some() {
            after.drop_later(Some(waker));
            return false;
        }
        listener.waiters.add(waker, after);
        if listener.arm == Arm::Idle && listener.aside == 0 {
            listener.arm = Arm::Queued(How::Always);
            self.busy += 1;
            self.queue
                .push_back((key.index, Task::Receive, Wish::Begin));
        }
        true
    }

    /// Connections that nobody has asked for.
    pub(super) fn waiting(&mut self, key: Key) -> usize {
        self.listener(key).waiting.len()
    }

    // Ending.

    /// Others want the socket: from now on nothing is armed, whoever waits,
    /// until [`resume`](Self::resume).
    pub(super) fn set_aside(&mut self, key: Key) {
        *self.aside(key) += 1;
    }

    /// They have had it, or do not want it any more: whoever waits may ask for
    /// something again.
    pub(super) fn resume(&mut self, key: Key, after: &mut Aftermath) {
        *self.aside(key) -= 1;
        match &mut self.slots[key.index as usize].place {
            Place::Stream(stream) if stream.receive.arm == Arm::Idle => {
                stream.receive.waiters.wake(after);
            }
            Place::Listener(listener) if listener.arm == Arm::Idle => {
                listener.waiters.wake(after);
            }
            // The kernel's last word finds them.
            _ => {}
        }
    }

    fn aside(&mut self, key: Key) -> &mut u32 {
        match &mut self.slots[key.index as usize].place {
            Place::Stream(stream) => &mut stream.receive.aside,
            Place::Listener(listener) => &mut listener.aside,
            Place::Free => unreachable!("S1: a key names an open socket"),
        }
    }

    /// Stops what is armed for a socket that stays open; true if nothing is,
    /// any more.
    pub(super) fn disarm(&mut self, key: Key) -> bool {
        self.stop(key.index);
        match &self.slots[key.index as usize].place {
            Place::Stream(stream) => {
                !stream.receive.arm.is_out() && !stream.send.room.is_out() && stream.send.is_idle()
            }
            Place::Listener(listener) => !listener.arm.is_out(),
            Place::Free => true,
        }
    }

    /// Nobody holds the socket any more. What was to be sent is sent.
    pub(super) fn close(&mut self, key: Key, after: &mut Aftermath) {
        self.open -= 1;
        self.stop(key.index);
        match &mut self.slots[key.index as usize].place {
            Place::Stream(stream) => {
                stream.open = false;
                stream.receive.waiters.forget(after);
                stream.send.waiters.forget(after);
                stream.receive.spill = None;
                if let Some(pool) = &mut self.pool {
                    pool.drain(&mut stream.receive.pieces, |_| {});
                }
            }
            Place::Listener(listener) => {
                listener.open = false;
                listener.waiters.forget(after);
                let waiting = listener.waiting.drain(..);
                after.rest.extend(waiting.map(Leftover::Connection));
            }
            Place::Free => unreachable!("S1: a key names an open socket"),
        }
        self.release_if_done(key.index, after);
        self.feed_starved();
    }

    /// Withdraws what is queued to come in, and asks the kernel to stop what
    /// it has.
    fn stop(&mut self, index: u32) {
        let arms = match &mut self.slots[index as usize].place {
            Place::Stream(stream) => [
                Some((Task::Receive, &mut stream.receive.arm)),
                Some((Task::Room, &mut stream.send.room)),
            ],
            Place::Listener(listener) => [Some((Task::Receive, &mut listener.arm)), None],
            Place::Free => return,
        };
        for (task, arm) in arms.into_iter().flatten() {
            match *arm {
                Arm::Queued(_) => {
                    *arm = Arm::Idle;
                    self.busy -= 1;
                }
                Arm::Armed(_) => {
                    *arm = Arm::Ending;
                    self.queue.push_back((index, task, Wish::Cancel));
                }
                Arm::Starved => *arm = Arm::Idle,
                Arm::Idle | Arm::Ending => {}
            }
        }
    }

    /// Refuses to begin anything, and stops everything but sends.
    pub(in crate::ring) fn shut(&mut self, after: &mut Aftermath) {
        self.shut = true;
        for index in 0..self.slots.len() as u32 {
            self.stop(index);
            match &mut self.slots[index as usize].place {
                Place::Stream(stream) => {
                    stream.receive.waiters.wake(after);
                    stream.send.waiters.wake(after);
                }
                Place::Listener(listener) => listener.waiters.wake(after),
                Place::Free => {}
            }
        }
    }

    /// S1: a closed socket of which the kernel has nothing any more goes.
    fn release_if_done(&mut self, index: u32, after: &mut Aftermath) {
        let slot = &mut self.slots[index as usize];
        let done = match &slot.place {
            Place::Free => false,
            Place::Stream(stream) => {
                !stream.open
                    && !stream.receive.arm.is_out()
                    && !stream.send.room.is_out()
                    && stream.send.is_idle()
            }
            Place::Listener(listener) => !listener.open && !listener.arm.is_out(),
        };
        if !done {
            return;
        }
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        match std::mem::replace(&mut slot.place, Place::Free) {
            Place::Stream(stream) => {
                after.rest.push(Leftover::Keeper(stream.keeper));
            }
            Place::Listener(listener) => after.rest.push(Leftover::Keeper(listener.keeper)),
            Place::Free => unreachable!("looked at just now"),
        }
        self.free.push(index);
    }

    // The kernel's side.

    /// Tells the kernel what is queued, through `push`, which refuses when the
    /// queue is full. Says with `prompt` that there are some which it answers at
    /// once.
    pub(in crate::ring) fn fill(
        &mut self,
        mut push: impl FnMut(&Entry) -> bool,
        prompt: &mut bool,
    ) -> Filled {
        while let Some(&(index, task, wish)) = self.queue.front() {
            if let Some(entry) = self.entry(index, task, wish) {
                if !push(&entry) {
                    return Filled::QueueIsFull;
                }
                *prompt |= self.pushed(index, task, wish);
            }
            self.queue.pop_front();
        }
        if self.writes > 0 {
            self.turn = self.turn.wrapping_add(1);
            self.is_busy = self.writes > 1;
            self.writes = 0;
        }
        Filled::Everything
    }

    /// The request, unless it was withdrawn.
    fn entry(&mut self, index: u32, task: Task, wish: Wish) -> Option<Entry> {
        let slot = &mut self.slots[index as usize];
        let mark = Mark::new(index, slot.generation, task).0;
        if wish == Wish::Cancel {
            let is_ending = match &slot.place {
                Place::Stream(stream) => match task {
                    Task::Receive => stream.receive.arm == Arm::Ending,
                    _ => stream.send.room == Arm::Ending,
                },
                Place::Listener(listener) => listener.arm == Arm::Ending,
                Place::Free => false,
            };
            let cancel = opcode::AsyncCancel::new(mark).build();
            return is_ending.then(|| cancel.user_data(crate::ring::slab::Token::CANCEL.bits()));
        }
        let entry = match (&mut slot.place, task) {
            (Place::Stream(stream), Task::Receive) => match stream.receive.arm {
                Arm::Queued(How::Tell) => {
                    opcode::PollAdd::new(types::Fd(stream.fd), (libc::POLLIN | ENDING) as u32)
                        .multi(true)
                        .build()
                }
                Arm::Queued(How::Always) => {
                    opcode::RecvMulti::new(types::Fd(stream.fd), GROUP).build()
                }
                Arm::Queued(How::Once) => {
                    let size = self.pool.as_ref().map_or(0, Pool::size);
                    let first = match stream.receive.streak {
                        0 => 0,
                        _ => POLL_FIRST, // it has just been emptied
                    };
                    opcode::Recv::new(types::Fd(stream.fd), std::ptr::null_mut(), size)
                        .buf_group(GROUP)
                        .ioprio(first)
                        .build()
                        .flags(Flags::BUFFER_SELECT)
                }
                _ => return None,
            },
            (Place::Stream(stream), Task::Send) => {
                let send = &mut stream.send;
                if send.flight != Flight::Queued {
                    return None;
                }
                if send.flying.is_empty() {
                    std::mem::swap(&mut send.flying, &mut send.gathered);
                    send.sent = 0;
                }
                let rest = &send.flying[send.sent as usize..];
                let wait = match send.patient {
                    true => libc::MSG_WAITALL,
                    false => libc::MSG_WAITALL | libc::MSG_DONTWAIT,
                };
                opcode::Send::new(types::Fd(stream.fd), rest.as_ptr(), rest.len() as u32)
                    .flags(wait | libc::MSG_NOSIGNAL)
                    .build()
            }
            (Place::Stream(stream), Task::Room) => match stream.send.room {
                Arm::Queued(_) => {
                    opcode::PollAdd::new(types::Fd(stream.fd), libc::POLLOUT as u32).build()
                }
                _ => return None,
            },
            (Place::Listener(listener), Task::Receive) => match listener.arm {
                Arm::Queued(_) => opcode::AcceptMulti::new(types::Fd(listener.fd))
                    .flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
                    .build(),
                _ => return None,
            },
            _ => return None,
        };
        Some(entry.user_data(mark))
    }

    /// The request is with the kernel; true if it is answered at once.
    fn pushed(&mut self, index: u32, task: Task, wish: Wish) -> bool {
        if wish == Wish::Cancel {
            return false;
        }
        let armed = |arm: &mut Arm| {
            if let Arm::Queued(how) = *arm {
                *arm = Arm::Armed(how);
            }
        };
        match (&mut self.slots[index as usize].place, task) {
            (Place::Stream(stream), Task::Receive) => armed(&mut stream.receive.arm),
            (Place::Stream(stream), Task::Room) => armed(&mut stream.send.room),
            (Place::Stream(stream), Task::Send) => {
                let send = &mut stream.send;
                send.flight = Flight::Out;
                return !send.patient;
            }
            (Place::Listener(listener), _) => armed(&mut listener.arm),
            (Place::Free, _) => {}
        }
        false
    }

    /// A word will be taken in soon: brings near what that needs. The mark may
    /// be anything.
    pub(in crate::ring) fn approach(&self, mark: Mark) {
        if let Some(slot) = self.slots.get(mark.index())
            && let Place::Stream(stream) = &slot.place
        {
            match mark.task() {
                Task::Receive => prefetch(&raw const stream.receive),
                Task::Send | Task::Room => {
                    prefetch(&raw const stream.send.flight);
                    prefetch(&raw const stream.send.waiters);
                }
            }
        }
    }

    /// Takes in a word from the kernel; true if somebody hears of it.
    pub(in crate::ring) fn complete(&mut self, word: &Word, after: &mut Aftermath) -> bool {
        let index = word.mark.index();
        let slot = &self.slots[index];
        assert!(
            slot.generation == word.mark.generation(),
            "S1: the kernel names a live socket"
        );
        let index = index as u32;
        let wakes = after.wakes.len();
        match (&slot.place, word.mark.task()) {
            (Place::Stream(_), Task::Receive) => self.received(index, word, after),
            (Place::Stream(_), Task::Send) => self.sent(index, word, after),
            (Place::Stream(_), Task::Room) => self.has_room(index, word, after),
            (Place::Listener(_), _) => self.accepted(index, word, after),
            (Place::Free, _) => unreachable!("S1: the kernel names a live socket"),
        }
        self.release_if_done(index, after);
        after.wakes.len() > wakes
    }

    /// All words of this time were taken in, and so many are `left`.
    pub(in crate::ring) fn completed(&mut self, left: usize) {
        self.flood.note(left);
        self.refill();
    }

    fn received(&mut self, index: u32, word: &Word, after: &mut Aftermath) {
        let (Place::Stream(stream), Some(pool)) =
            (&mut self.slots[index as usize].place, &mut self.pool)
        else {
            unreachable!("something was received, into a buffer of the pool")
        };
        let receive = &mut stream.receive;
        let before = receive.arm;
        if !cqueue::more(word.flags) {
            receive.arm = Arm::Idle;
            self.busy -= 1;
        }
        let buffer = cqueue::buffer_select(word.flags);
        if let Some(id) = buffer {
            match word.result > 0 && stream.open {
                true => pool.hold(&mut receive.pieces, id, word.result as u32),
                false => pool.give_back(id),
            }
        }
        match word.result {
            1.. if buffer.is_none() => {
                receive.bulk = true; // to be read from the socket
                receive.told.0 = receive.told.0.wrapping_add(1);
                receive.ending |= word.result & i32::from(ENDING) != 0;
                receive.waiters.wake(after);
            }
            1.. => {
                let full = word.result as u32 == pool.size();
                receive.bulk = full || cqueue::sock_nonempty(word.flags);
                receive.large |= full;
                receive.streak = match full || receive.pieces.count() >= MOST_UNREAD {
                    false => receive.streak.saturating_add(1),
                    true => 1,
                };
            }
            0 => receive.end = Some(End::Closed),
            error => match -error {
                libc::ENOBUFS if before != Arm::Ending && stream.open && !self.shut => {
                    receive.arm = Arm::Starved;
                    self.starved.push_back(index);
                }
                libc::EINVAL if before == Arm::Armed(How::Always) => self.only_single = true,
                // Asked for, or the thread that had armed it has ended.
                libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
                error => receive.end = Some(End::Error(error)),
            },
        }
        if receive.has_news() {
            receive.waiters.wake(after);
        }
        let Place::Stream(stream) = &mut self.slots[index as usize].place else {
            unreachable!("it was one just now")
        };
        let receive = &mut stream.receive;
        match receive.arm {
            // Too much that nobody reads; or too much for this way of reading.
            Arm::Armed(How::Always) if receive.streak <= 1 || self.flood.is_high() => {
                receive.arm = Arm::Ending;
                self.queue.push_back((index, Task::Receive, Wish::Cancel));
            }
            Arm::Idle if receive.aside > 0 => {}
            // Whoever waits has to be served.
            Arm::Idle if !receive.waiters.is_empty() && stream.open && !self.shut => {
                self.arm(index);
            }
            _ => {}
        }
    }

    fn sent(&mut self, index: u32, word: &Word, after: &mut Aftermath) {
        let Place::Stream(stream) = &mut self.slots[index as usize].place else {
            unreachable!("something was sent")
        };
        let send = &mut stream.send;
        let again = match word.result {
            count @ 0.. => {
                send.sent += count as u32;
                (send.sent as usize) < send.flying.len()
            }
            error => match -error {
                libc::EAGAIN | libc::EINTR => true,
                libc::ECANCELED if !self.shut => true,
                error => {
                    // What was to follow fails with it.
                    send.error = Some(error);
                    send.gathered.clear();
                    false
                }
            },
        };
        if again {
            send.patient = true;
        } else {
            send.patient = false;
            let bytes = take(&mut send.flying);
            if self.spare.len() < MOST_SPARE && bytes.capacity() <= LARGE_SPARE {
                self.spare.push(emptied(bytes));
            }
        }
        if again || !send.gathered.is_empty() {
            send.flight = Flight::Queued;
            self.queue.push_back((index, Task::Send, Wish::Begin));
            return;
        }
        send.flight = Flight::None;
        self.busy -= 1;
        send.waiters.wake(after);
        if take(&mut send.then_end) {
            after
                .rest
                .push(Leftover::End(stream.keeper.clone(), stream.fd));
        }
    }

    fn has_room(&mut self, index: u32, word: &Word, after: &mut Aftermath) {
        let Place::Stream(stream) = &mut self.slots[index as usize].place else {
            unreachable!("somebody has waited for room")
        };
        if cqueue::more(word.flags) {
            return;
        }
        // Whatever it says: a try tells more.
        stream.send.room = Arm::Idle;
        self.busy -= 1;
        stream.send.waiters.wake(after);
    }

    fn accepted(&mut self, index: u32, word: &Word, after: &mut Aftermath) {
        let Place::Listener(listener) = &mut self.slots[index as usize].place else {
            unreachable!("a connection was accepted")
        };
        if !cqueue::more(word.flags) {
            listener.arm = Arm::Idle;
            self.busy -= 1;
        }
        match word.result {
            fd @ 0.. => {
                // SAFETY: the kernel has just opened it for us.
                let connection = unsafe { OwnedFd::from_raw_fd(fd) };
                match listener.open {
                    true => listener.waiting.push_back(connection),
                    false => after.rest.push(Leftover::Connection(connection)),
                }
                listener.waiters.wake(after);
            }
            error => match -error {
                libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
                error => {
                    listener.error = Some(error);
                    listener.waiters.wake(after);
                }
            },
        }
        match listener.arm {
            Arm::Armed(_) if listener.waiting.len() >= MOST_WAITING => {
                listener.arm = Arm::Ending;
                self.queue.push_back((index, Task::Receive, Wish::Cancel));
            }
            Arm::Idle if listener.aside > 0 => {}
            Arm::Idle if !listener.waiters.is_empty() && listener.open && !self.shut => {
                listener.arm = Arm::Queued(How::Always);
                self.busy += 1;
                self.queue.push_back((index, Task::Receive, Wish::Begin));
            }
            _ => {}
        }
    }
}

impl Drop for Table {
    /// Memory that the kernel may still use is not given back, not even now:
    /// better lost than shared.
    fn drop(&mut self) {
        if self.busy > 0 {
            std::mem::forget(take(&mut self.slots));
            std::mem::forget(self.pool.take());
        }
    }
}

fn emptied(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    bytes
}

/// The most that a send of `len` bytes takes of a socket's room.
fn cost(len: usize) -> u32 {
    (len as u32).saturating_add(SEND_COST)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::ring::BufferConfig;
    use std::ops::{Deref, DerefMut};

    const MORE: u32 = 1 << 1;

    /// There is no kernel that could still use its memory.
    #[derive(Default)]
    struct Alone(Table);

    impl Deref for Alone {
        type Target = Table;

        fn deref(&self) -> &Table {
            &self.0
        }
    }

    impl DerefMut for Alone {
        fn deref_mut(&mut self) -> &mut Table {
            &mut self.0
        }
    }

    impl Drop for Alone {
        fn drop(&mut self) {
            self.0.busy = 0;
        }
    }

    /// A socket of which the kernel says when there is something to read.
    fn told_table() -> (Alone, Key) {
        let mut table = Alone::default();
        table.set_pool(Pool::new(BufferConfig::default()));
        let key = table.add_stream(-1, Arc::new(()));
        table.stream(key).receive.large = true;
        assert!(wait(&mut table, key));
        assert_eq!(table.fill(|_| true, &mut false), Filled::Everything);
        assert_eq!(table.stream(key).receive.arm, Arm::Armed(How::Tell));
        (table, key)
    }

    fn wait(table: &mut Table, key: Key) -> bool {
        table.wait_to_read(key, Waker::noop().clone(), &mut Aftermath::default())
    }

    /// The kernel says that there is something.
    fn tell(table: &mut Table, key: Key, events: libc::c_short) {
        let word = Word {
            mark: Mark::new(key.index, key.generation, Task::Receive),
            result: i32::from(events),
            flags: MORE,
        };
        table.complete(&word, &mut Aftermath::default());
    }

    fn look(table: &mut Table, key: Key) -> Found {
        table.read(key, &mut [MaybeUninit::uninit(); 8])
    }

    #[test]
    fn what_is_told_while_a_reader_finds_nothing_is_not_missed() {
        let (mut table, key) = told_table();
        assert_eq!(look(&mut table, key), Found::Unarmed);
        tell(&mut table, key, libc::POLLIN);
        let Found::Perhaps { told, .. } = look(&mut table, key) else {
            panic!("it was told")
        };
        // It finds the socket empty; before it can say so it is told again.
        tell(&mut table, key, libc::POLLIN);
        table.calm(key, 0, 0, told);
        let Found::Perhaps { told, .. } = look(&mut table, key) else {
            panic!("it was told again")
        };
        table.calm(key, 0, 0, told);
        assert_eq!(look(&mut table, key), Found::Unarmed);
        // And once more, before it waits.
        tell(&mut table, key, libc::POLLIN);
        assert!(!wait(&mut table, key), "there is something now");
    }

    #[test]
    fn the_end_is_told_once_and_known_for_ever() {
        let (mut table, key) = told_table();
        tell(&mut table, key, libc::POLLIN | libc::POLLRDHUP);
        for _ in 0..3 {
            let Found::Perhaps { told, .. } = look(&mut table, key) else {
                panic!("the end is still to be read")
            };
            table.calm(key, 4, 0, told);
            assert!(!wait(&mut table, key));
        }
    }
    #[test]
    fn after_some_small_messages_they_are_brought_again() {
        let (mut table, key) = told_table();
        for streak in 1..=STREAK {
            tell(&mut table, key, libc::POLLIN);
            let Found::Perhaps { told, .. } = look(&mut table, key) else {
                panic!("it was told")
            };
            table.calm(key, 4, 0, told);
            assert!(wait(&mut table, key));
            let is_over = table.stream(key).receive.arm == Arm::Ending;
            assert_eq!(is_over, streak == STREAK);
        }
    }

    #[test]
    fn in_a_flood_small_messages_are_told_of_too() {
        let (mut table, key) = told_table();
        table.stream(key).receive.large = false;
        while !table.flood.is_high() {
            table.completed(10_000);
        }
        assert!(wait(&mut table, key));
        assert_eq!(table.stream(key).receive.arm, Arm::Armed(How::Tell));

        // One that is to have all that come is told from the next one on.
        table.stream(key).receive.arm = Arm::Armed(How::Always);
        table.stream(key).receive.streak = STREAK;
        let word = Word {
            mark: Mark::new(key.index, key.generation, Task::Receive),
            result: -libc::EAGAIN,
            flags: MORE,
        };
        table.complete(&word, &mut Aftermath::default());
        assert_eq!(table.stream(key).receive.arm, Arm::Ending);
    }

    #[test]
    fn what_is_lent_and_what_is_taken_over_exclude_each_other() {
        let (mut table, key) = told_table();
        let parts = [IoSlice::new(b"bytes")];
        // The first of a turn would go out directly.
        assert_eq!(table.write(key, &parts, true), Way::Direct);
        assert!(table.lend(key));
        assert!(!table.lend(key), "one at a time");
        assert_eq!(table.write(key, &parts, true), Way::Wait);
        table.give_back(key, &mut Aftermath::default());

        assert!(table.credit(key, 1 << 20, 5));
        assert_eq!(table.write(key, &parts, true), Way::Taken);
        assert!(!table.lend(key), "it would overtake");
    }

    #[test]
    fn what_was_read_beyond_comes_next_and_wakes_who_did_not_find_it() {
        let (mut table, key) = told_table(); // where somebody waits
        let mut after = Aftermath::default();
        table.keep(key, b"bytes", &mut after);
        assert_eq!(after.wakes.len(), 1);
        assert_eq!(table.unread(key), 5);
        let mut room = [MaybeUninit::uninit(); 3];
        assert_eq!(table.read(key, &mut room), Found::Bytes(3, None));
        assert_eq!(table.read(key, &mut room), Found::Bytes(2, None));
        assert_eq!(look(&mut table, key), Found::Unarmed);
    }

    /// Sends what is queued for the only socket there is.
    fn send_all(table: &mut Table, key: Key) {
        let mut count = 0;
        let push = |_: &Entry| {
            count += 1;
            true
        };
        assert_eq!(table.fill(push, &mut false), Filled::Everything);
        if count > 0 {
            let word = Word {
                mark: Mark::new(key.index, key.generation, Task::Send),
                result: table.stream(key).send.flying.len() as i32,
                flags: 0,
            };
            table.complete(&word, &mut Aftermath::default());
        }
        assert!(table.is_sent(key));
    }

    #[test]
    fn larger_writes_are_gathered_where_there_were_several_in_a_turn() {
        let (mut table, key) = told_table();
        let bytes = [0; SMALL + 1];
        let write = |table: &mut Table, times: usize, expected: Way| {
            for _ in 0..times {
                table.credit(key, 1 << 20, bytes.len());
                let way = table.write(key, &[IoSlice::new(&bytes)], true);
                assert_eq!(way, expected);
            }
            send_all(table, key);
        };
        write(&mut table, 2, Way::Direct);
        write(&mut table, 3, Way::Taken);
        write(&mut table, 1, Way::Taken);
        write(&mut table, 1, Way::Direct);
        // Somebody else keeps the ring busy: a turn of one write is no reason.
        table.is_busy = true;
        write(&mut table, 1, Way::Direct);
        let too_large = [0; MEDIUM + 1];
        write(&mut table, 2, Way::Direct);
        let way = table.write(key, &[IoSlice::new(&too_large)], true);
        assert_eq!(way, Way::Direct);
    }
}
