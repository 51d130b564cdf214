//! A kernel of our own making, for models: what is submitted is done at once,
//! or when something has come for it, and its completion is posted when a thread enters.
//!
//! Its sockets are the system's, used without waiting. Whoever plays a peer
//! calls [`Port::network`] after it has written.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::{Condvar, Mutex};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::BufRingEntry;

use super::setup::{Features, Refusal, RingConfig};
use super::user_data::UserData;
use crate::Poller;

/// Completions that are looked at together.
pub(super) const REAPED_AT_ONCE: usize = 1;

/// Entries that fit into the submission queue.
const ENTRIES: usize = 2;

/// A completion: what was given to the kernel to keep, the result, and flags.
pub(super) struct Cqe((u64, i32, u32));

impl Cqe {
    pub(super) fn user_data(&self) -> u64 {
        self.0.0
    }

    pub(super) fn result(&self) -> i32 {
        self.0.1
    }

    pub(super) fn flags(&self) -> u32 {
        self.0.2
    }
}

/// The ring's end of the model.
pub(super) struct Port {
    /// Touched with everything that P1 is about: loom finds who breaks it.
    queues: UnsafeCell<()>,
    kernel: Mutex<Kernel>,
    heard: Condvar,
}

/// What the kernel does for each operation, with the memory it was given.
pub(super) type Work = Box<dyn Fn() + Send>;

/// A request, as the kernel reads it.
#[derive(Clone, Copy)]
struct Request {
    code: u8,
    /// A receive goes on after the first message.
    many: bool,
    fd: i32,
    address: u64,
    len: u32,
    /// Flags of a message, or the events of a poll.
    flags: u32,
    token: u64,
}

impl Request {
    fn read(entry: &Entry) -> Self {
        // SAFETY: an entry is 64 bytes of numbers.
        let bytes: &[u8; 64] = unsafe { &*(&raw const *entry).cast() };
        let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self {
            code: bytes[0],
            many: bytes[2] & MANY != 0,
            fd: number(4).cast_signed(),
            address: u64::from(number(16)) | u64::from(number(20)) << 32,
            len: number(24),
            flags: number(28),
            token: entry.get_user_data(),
        }
    }
}

/// An answer: what was given to keep, the result, and its flags.
type Answer = (u64, i32, u32);

/// The buffers to pick from, in turn.
struct Buffers {
    entries: *const BufRingEntry,
    mask: u16,
    head: u16,
}

impl Buffers {
    fn left(&self) -> u16 {
        // SAFETY: the pool keeps the entries.
        let tail = unsafe { *BufRingEntry::tail(self.entries) };
        tail.wrapping_sub(self.head)
    }

    /// The address of the next one, its size and its name.
    fn pick(&mut self) -> Option<(u64, u32, u16)> {
        if self.left() == 0 {
            return None;
        }
        // SAFETY: within the entries, and published.
        let entry = unsafe { &*self.entries.add(usize::from(self.head & self.mask)) };
        self.head = self.head.wrapping_add(1);
        Some((entry.addr(), entry.len(), entry.bid()))
    }
}

#[derive(Default)]
struct Kernel {
    submitted: Vec<Request>,
    /// Requests for which nothing has come.
    armed: Vec<Request>,
    store: Vec<Answer>,
    completed: VecDeque<Answer>,
    is_woken: bool,
    work: Option<Work>,
    buffers: Option<Buffers>,
    /// So many sends take one byte only.
    short_sends: usize,
}

impl Kernel {
    fn come_by(&mut self) {
        self.completed.extend(self.store.drain(..));
        if std::mem::take(&mut self.is_woken) {
            self.completed.push_back((UserData::Poller.bits(), 0, 0));
        }
    }

    fn begin(&mut self, request: Request) {
        if request.token == UserData::Cancel.bits() {
            // An operation is done at once, and a cancellation comes too late.
            let is_meant = |armed: &Request| armed.token == request.address;
            if let Some(at) = self.armed.iter().position(is_meant) {
                let request = self.armed.remove(at);
                self.store.push((request.token, -libc::ECANCELED, 0));
            }
        } else if request.token == UserData::Poller.bits() {
            // It ends with the next wakeup.
        } else if request.code == opcode::Send::CODE {
            self.send(request);
        } else if matches!(UserData::from_bits(request.token), UserData::Socket(..)) {
            self.armed.push(request);
            self.try_armed();
        } else {
            if let Some(work) = &self.work {
                work();
            }
            self.store.push((request.token, 0, 0));
        }
    }

    fn send(&mut self, request: Request) {
        let len = match self.short_sends {
            0 => request.len as usize,
            _ => {
                self.short_sends -= 1;
                1
            }
        };
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: K1, S1: the memory is the kernel's until its last word.
        let sent = unsafe { libc::send(request.fd, request.address as *const _, len, flags) };
        self.store.push((request.token, answer(sent), 0));
    }

    /// Serves those for whom something has come.
    fn try_armed(&mut self) {
        for request in std::mem::take(&mut self.armed) {
            let stays = match request.code {
                code if code == opcode::PollAdd::CODE => !self.poll(request),
                _ => self.receive(request),
            };
            if stays {
                self.armed.push(request);
            }
        }
    }

    /// Whether the socket was ready.
    fn poll(&mut self, request: Request) -> bool {
        let mut poll = libc::pollfd {
            fd: request.fd,
            events: request.flags as i16,
            revents: 0,
        };
        // SAFETY: one structure, as is said.
        unsafe { libc::poll(&mut poll, 1, 0) };
        if poll.revents != 0 {
            self.store.push((request.token, i32::from(poll.revents), 0));
        }
        poll.revents != 0
    }

    /// Whether the request stays armed.
    fn receive(&mut self, request: Request) -> bool {
        loop {
            let mut byte = 0_u8;
            let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
            // SAFETY: room for one byte.
            let there = unsafe { libc::recv(request.fd, (&raw mut byte).cast(), 1, flags) };
            match answer(there) {
                error if error == -libc::EAGAIN => return true,
                end_or_error @ ..=0 => {
                    self.store.push((request.token, end_or_error, 0));
                    return false;
                }
                _ => {}
            }
            let picked = self.buffers.as_mut().and_then(Buffers::pick);
            let Some((address, len, name)) = picked else {
                self.store.push((request.token, -libc::ENOBUFS, 0));
                return false;
            };
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: the pool's P1: the buffer is the kernel's.
            let came = unsafe { libc::recv(request.fd, address as *mut _, len as usize, flags) };
            let more = if request.many { MORE } else { 0 };
            let flags = BUFFER | more | u32::from(name) << 16;
            self.store.push((request.token, answer(came), flags));
            if !request.many {
                return false;
            }
        }
    }
}

// The kernel's own numbers: a request for all messages that come; an answer that
// names a buffer, and one that is not the last.
const MANY: u8 = 1 << 1;
const BUFFER: u32 = 1 << 0;
const MORE: u32 = 1 << 1;

fn answer(result: isize) -> i32 {
    match result {
        -1 => -io::Error::last_os_error().raw_os_error().unwrap_or(0),
        count => count as i32,
    }
}

// SAFETY: the cell is there to be misused, and for loom to find out.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

impl Port {
    pub(super) fn open(_: &RingConfig) -> Result<(Self, Features), Refusal> {
        let port = Self {
            queues: UnsafeCell::new(()),
            kernel: Mutex::new(Kernel::default()),
            heard: Condvar::new(),
        };
        Ok((port, Features::none()))
    }

    pub(super) fn obeys_us(&self) -> bool {
        true
    }

    pub(super) fn obeys_everybody(&self) -> bool {
        true
    }

    pub(super) unsafe fn provide(&self, address: u64, count: u16, _: u16) -> io::Result<()> {
        self.kernel.lock().buffers = Some(Buffers {
            entries: address as *const BufRingEntry,
            mask: count - 1,
            head: 0,
        });
        Ok(())
    }

    /// Buffers that the kernel could pick.
    pub(super) fn buffers_left(&self) -> u16 {
        let kernel = self.kernel.lock();
        kernel.buffers.as_ref().map_or(0, Buffers::left)
    }

    /// Says what the kernel does for each operation.
    pub(super) fn set_work(&self, work: Work) {
        self.kernel.lock().work = Some(work);
    }

    /// The next `count` sends take one byte only.
    pub(super) fn cut_sends(&self, count: usize) {
        self.kernel.lock().short_sends = count;
    }

    /// Something may have come for the sockets.
    pub(super) fn network(&self) {
        let mut kernel = self.kernel.lock();
        let before = kernel.store.len();
        kernel.try_armed();
        if kernel.store.len() > before {
            self.heard.notify_one();
        }
    }

    /// Touches the queues (P1).
    fn touch<R>(&self, act: impl FnOnce() -> R) -> R {
        self.queues.with_mut(|_| act())
    }

    pub(super) unsafe fn push(&self, entry: &Entry) -> bool {
        self.touch(|| {
            let mut kernel = self.kernel.lock();
            let fits = kernel.submitted.len() < ENTRIES;
            if fits {
                kernel.submitted.push(Request::read(entry));
            }
            fits
        })
    }

    pub(super) unsafe fn needs_enter(&self) -> bool {
        self.touch(|| {
            let kernel = self.kernel.lock();
            !kernel.submitted.is_empty() || !kernel.store.is_empty()
        })
    }

    pub(super) unsafe fn waits_for_submitter(&self) -> bool {
        self.touch(|| !self.kernel.lock().store.is_empty())
    }

    pub(super) unsafe fn has_completions(&self) -> bool {
        self.touch(|| !self.kernel.lock().completed.is_empty())
    }

    pub(super) unsafe fn reap(&self, mut visit: impl FnMut(&[Cqe]) -> bool) {
        self.touch(|| {
            loop {
                let Some(word) = self.kernel.lock().completed.pop_front() else {
                    break;
                };
                if !visit(&[Cqe(word)]) {
                    break;
                }
            }
        });
    }

    pub(super) fn enter(&self, wait: Option<Option<Duration>>) -> io::Result<()> {
        self.touch(|| {
            let mut kernel = self.kernel.lock();
            kernel.come_by();
            for request in std::mem::take(&mut kernel.submitted) {
                kernel.begin(request);
            }
            if wait.is_none() {
                return Ok(());
            }
            kernel.come_by();
            while kernel.completed.is_empty() {
                kernel = self.heard.wait(kernel);
                kernel.come_by();
            }
            Ok(())
        })
    }

    pub(super) fn interrupt_submitters(&self) {
        self.kernel.lock().come_by();
        self.heard.notify_one();
    }

    /// No descriptor.
    pub(super) fn as_raw_fd(&self) -> i32 {
        -1
    }

    pub(super) fn wake(&self, _: &Poller) {
        self.kernel.lock().is_woken = true;
        self.heard.notify_one();
    }
}
