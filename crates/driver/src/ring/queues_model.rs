//! A simulated kernel, for models: a request is carried out at once, or when its socket
//! is ready, and its completion is posted when a thread enters.
//!
//! Its sockets are real ones, used without waiting. Code that acts as a peer calls
//! [`RingQueues::network`] after it has written.

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

/// How many completions are taken from the queue at a time.
pub(super) const REAPED_AT_ONCE: usize = 1;

/// Entries that fit into the submission queue.
const ENTRIES: usize = 2;

/// A completion: the user data of its request, the result, and flags.
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

/// The queues, over the simulated kernel.
pub(super) struct RingQueues {
    /// Accessed with everything that P1 guards, so that loom finds a violation.
    queues: UnsafeCell<()>,
    kernel: Mutex<Kernel>,
    notified: Condvar,
}

/// What the kernel does for each operation, with the memory it was given.
pub(super) type Work = Box<dyn Fn() + Send>;

/// A request, as the kernel reads it.
#[derive(Clone, Copy)]
struct KernelRequest {
    code: u8,
    /// Whether a receive is multishot.
    many: bool,
    fd: i32,
    address: u64,
    len: u32,
    /// Flags of a message, or the events of a poll.
    flags: u32,
    token: u64,
}

impl KernelRequest {
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
type RawCompletion = (u64, i32, u32);

/// The provided buffers, which the kernel picks in order.
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

    /// Returns the address, the size and the id of the next buffer.
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
    submitted: Vec<KernelRequest>,
    /// Requests whose socket is not ready.
    armed: Vec<KernelRequest>,
    unposted: Vec<RawCompletion>,
    completed: VecDeque<RawCompletion>,
    is_woken: bool,
    work: Option<Work>,
    buffers: Option<Buffers>,
    /// How many of the next sends take only one byte.
    short_sends: usize,
}

impl Kernel {
    fn post_completions(&mut self) {
        self.completed.extend(self.unposted.drain(..));
        if std::mem::take(&mut self.is_woken) {
            self.completed.push_back((UserData::Poller.bits(), 0, 0));
        }
    }

    fn begin(&mut self, request: KernelRequest) {
        if request.token == UserData::Cancel.bits() {
            // Operations are carried out at once, so only an armed request of a socket
            // can be cancelled.
            let is_meant = |armed: &KernelRequest| armed.token == request.address;
            if let Some(at) = self.armed.iter().position(is_meant) {
                let request = self.armed.remove(at);
                self.unposted.push((request.token, -libc::ECANCELED, 0));
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
            self.unposted.push((request.token, 0, 0));
        }
    }

    fn send(&mut self, request: KernelRequest) {
        let len = match self.short_sends {
            0 => request.len as usize,
            _ => {
                self.short_sends -= 1;
                1
            }
        };
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: K1, S1: the memory is the kernel's until the last completion.
        let sent = unsafe { libc::send(request.fd, request.address as *const _, len, flags) };
        self.unposted.push((request.token, cqe_result(sent), 0));
    }

    /// Carries out the armed requests whose socket is ready.
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

    /// Returns whether the socket was ready.
    fn poll(&mut self, request: KernelRequest) -> bool {
        let mut poll = libc::pollfd {
            fd: request.fd,
            events: request.flags as i16,
            revents: 0,
        };
        // SAFETY: one structure, as the count says.
        unsafe { libc::poll(&mut poll, 1, 0) };
        if poll.revents != 0 {
            self.unposted
                .push((request.token, i32::from(poll.revents), 0));
        }
        poll.revents != 0
    }

    /// Receives what there is; returns whether the request stays armed.
    fn receive(&mut self, request: KernelRequest) -> bool {
        loop {
            let mut byte = 0_u8;
            let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
            // SAFETY: room for one byte.
            let there = unsafe { libc::recv(request.fd, (&raw mut byte).cast(), 1, flags) };
            match cqe_result(there) {
                error if error == -libc::EAGAIN => return true,
                end_or_error @ ..=0 => {
                    self.unposted.push((request.token, end_or_error, 0));
                    return false;
                }
                _ => {}
            }
            let picked = self.buffers.as_mut().and_then(Buffers::pick);
            let Some((address, len, name)) = picked else {
                self.unposted.push((request.token, -libc::ENOBUFS, 0));
                return false;
            };
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: the pool's P1: the buffer is the kernel's.
            let came = unsafe { libc::recv(request.fd, address as *mut _, len as usize, flags) };
            let more = if request.many { MORE } else { 0 };
            let flags = BUFFER | more | u32::from(name) << 16;
            self.unposted.push((request.token, cqe_result(came), flags));
            if !request.many {
                return false;
            }
        }
    }
}

// Flags of the kernel: a multishot receive; a completion that names a buffer, and one
// that another will follow.
const MANY: u8 = 1 << 1;
const BUFFER: u32 = 1 << 0;
const MORE: u32 = 1 << 1;

fn cqe_result(result: isize) -> i32 {
    match result {
        -1 => -io::Error::last_os_error().raw_os_error().unwrap_or(0),
        count => count as i32,
    }
}

// SAFETY: loom checks the accesses to the cell.
unsafe impl Send for RingQueues {}
// SAFETY: as above.
unsafe impl Sync for RingQueues {}

impl RingQueues {
    pub(super) fn open(_: &RingConfig) -> Result<(Self, Features), Refusal> {
        let queues = Self {
            queues: UnsafeCell::new(()),
            kernel: Mutex::new(Kernel::default()),
            notified: Condvar::new(),
        };
        Ok((queues, Features::none()))
    }

    pub(super) fn allows_current_thread(&self) -> bool {
        true
    }

    pub(super) fn allows_any_thread(&self) -> bool {
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

    /// Returns the number of buffers that the kernel could pick.
    pub(super) fn buffers_left(&self) -> u16 {
        let kernel = self.kernel.lock();
        kernel.buffers.as_ref().map_or(0, Buffers::left)
    }

    /// Sets what the kernel does for each operation.
    pub(super) fn set_work(&self, work: Work) {
        self.kernel.lock().work = Some(work);
    }

    /// Makes the next `count` sends take only one byte.
    pub(super) fn cut_sends(&self, count: usize) {
        self.kernel.lock().short_sends = count;
    }

    /// Carries out the armed requests of sockets that have become ready.
    pub(super) fn network(&self) {
        let mut kernel = self.kernel.lock();
        let before = kernel.unposted.len();
        kernel.try_armed();
        if kernel.unposted.len() > before {
            self.notified.notify_one();
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
                kernel.submitted.push(KernelRequest::read(entry));
            }
            fits
        })
    }

    pub(super) unsafe fn needs_enter(&self) -> bool {
        self.touch(|| {
            let kernel = self.kernel.lock();
            !kernel.submitted.is_empty() || !kernel.unposted.is_empty()
        })
    }

    pub(super) unsafe fn waits_for_submitter(&self) -> bool {
        self.touch(|| !self.kernel.lock().unposted.is_empty())
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
            kernel.post_completions();
            for request in std::mem::take(&mut kernel.submitted) {
                kernel.begin(request);
            }
            if wait.is_none() {
                return Ok(());
            }
            kernel.post_completions();
            while kernel.completed.is_empty() {
                kernel = self.notified.wait(kernel);
                kernel.post_completions();
            }
            Ok(())
        })
    }

    pub(super) fn interrupt_submitters(&self) {
        self.kernel.lock().post_completions();
        self.notified.notify_one();
    }

    /// No descriptor.
    pub(super) fn as_raw_fd(&self) -> i32 {
        -1
    }

    pub(super) fn wake(&self, _: &Poller) {
        self.kernel.lock().is_woken = true;
        self.notified.notify_one();
    }
}
