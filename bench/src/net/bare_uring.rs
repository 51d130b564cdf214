//! An echo server that is nothing but an io_uring: what the kernel takes for a request
//! at the least, by completion. Not a runtime: no tasks, no timers, no second worker.
//!
//! Receives are multishot into provided buffers, an answer goes out from the buffer the
//! question came into, and all answers of a turn are submitted together.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering::Release};
use std::sync::mpsc;

use io_uring::squeue::Entry;
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode};

use crate::kit::Signal;

const BUFFER_LEN: usize = 2048;
const GROUP: u16 = 0;

/// What a completion is of; the descriptor or the buffer is in the lower half.
const ACCEPT: u64 = 1 << 32;
const RECEIVE: u64 = 2 << 32;
const SEND: u64 = 3 << 32;

/// Serves until a connection comes to say that it is over.
pub(super) fn serve(connections: usize, address: &mpsc::Sender<SocketAddr>, stop: &Signal) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let bound = listener.local_addr().expect("it was bound");
    let mut server = Echo::new(connections, &listener);
    address.send(bound).expect("somebody waits for it");
    while !(server.turn() && stop.take()) {}
}

struct Echo {
    ring: IoUring,
    buffers: Buffers,
    pending: VecDeque<Entry>,
    connections: Vec<OwnedFd>,
}

impl Echo {
    fn new(connections: usize, listener: &TcpListener) -> Echo {
        let ring = IoUring::builder()
            .setup_cqsize(1 << 15)
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .build(1024)
            .expect("this kernel has io_uring");
        // Two for each: one that is filled, and one that goes out. The fewer there are,
        // the more of them stay in the processor's cache.
        let count = (2 * connections).next_power_of_two().clamp(64, 1 << 15);
        let buffers = Buffers::new(&ring, count as u16);
        let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()));
        Echo {
            ring,
            buffers,
            pending: VecDeque::from([accept.build().user_data(ACCEPT)]),
            connections: Vec::new(),
        }
    }

    /// Submits everything, waits for something, and answers what has come; whether a
    /// connection has.
    fn turn(&mut self) -> bool {
        while let Some(entry) = self.pending.front() {
            // SAFETY: an entry points to a buffer at the most, and buffers outlive
            // the ring.
            if unsafe { self.ring.submission().push(entry) }.is_err() {
                self.ring.submit().expect("the kernel takes entries");
                continue;
            }
            self.pending.pop_front();
        }
        self.ring.submit_and_wait(1).expect("the kernel waits");
        let mut has_connected = false;
        for completion in self.ring.completion() {
            let (result, flags) = (completion.result(), completion.flags());
            let of = completion.user_data() as u32;
            match completion.user_data() & !u64::from(u32::MAX) {
                ACCEPT => {
                    has_connected = true;
                    let fd = u32::try_from(result).expect("descriptors are left") as RawFd;
                    // SAFETY: the kernel has just opened it for us.
                    self.connections.push(unsafe { OwnedFd::from_raw_fd(fd) });
                    set_nodelay(fd);
                    self.pending.push_back(receive(fd));
                }
                RECEIVE => {
                    let fd = of as RawFd;
                    let buffer = cqueue::buffer_select(flags);
                    if let (Some(id), 1..) = (buffer, result) {
                        let bytes = self.buffers.bytes(id);
                        let send = opcode::Send::new(Fd(fd), bytes, result as u32)
                            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
                            .build();
                        let user_data = SEND | u64::from(id);
                        self.pending.push_back(send.user_data(user_data));
                    }
                    // Otherwise the client is gone.
                    if !cqueue::more(flags) && (result > 0 || result == -libc::ENOBUFS) {
                        self.pending.push_back(receive(fd));
                    }
                }
                _ => self.buffers.provide(of as u16), // sent
            }
        }
        has_connected
    }
}

fn receive(fd: RawFd) -> Entry {
    let receive = opcode::RecvMulti::new(Fd(fd), GROUP).build();
    receive.user_data(RECEIVE | fd as u64)
}

fn set_nodelay(fd: RawFd) {
    let yes: libc::c_int = 1;
    let (start, len) = ((&raw const yes).cast(), size_of_val(&yes) as u32);
    // SAFETY: a number, and its size. A client that is gone has no use for it.
    unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, start, len) };
}

/// What the kernel receives into. Never freed: the kernel may be late to let go.
struct Buffers {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    tail: u16,
}

impl Buffers {
    fn new(ring: &IoUring, count: u16) -> Buffers {
        let pages = |len: usize| {
            let (protection, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            // SAFETY: new pages, at a place of the kernel's choice.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED, "there is memory");
            start
        };
        let mut buffers = Buffers {
            entries: pages(usize::from(count) * size_of::<BufRingEntry>()).cast(),
            memory: pages(usize::from(count) * BUFFER_LEN).cast(),
            count,
            tail: 0,
        };
        let submitter = ring.submitter();
        // SAFETY: pages of that many entries, which stay.
        unsafe { submitter.register_buf_ring_with_flags(buffers.entries as u64, count, GROUP, 0) }
            .expect("this kernel picks buffers");
        (0..count).for_each(|id| buffers.provide(id));
        buffers
    }

    fn bytes(&self, id: u16) -> *mut u8 {
        // SAFETY: there are that many buffers.
        unsafe { self.memory.add(usize::from(id) * BUFFER_LEN) }
    }

    /// A buffer is the kernel's again.
    fn provide(&mut self, id: u16) {
        let address = self.bytes(id) as u64;
        // SAFETY: masked, so within the entries; the kernel has no more of them than
        // there are buffers, so it has read what was in that place.
        unsafe {
            let entry = self.entries.add(usize::from(self.tail & (self.count - 1)));
            (*entry).set_addr(address);
            (*entry).set_len(BUFFER_LEN as u32);
            (*entry).set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: in the first entry, aligned, and looked at by the kernel only.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries).cast_mut()) };
        // Release, met by the kernel's acquire: it sees the entry.
        tail.store(self.tail, Release);
    }
}
