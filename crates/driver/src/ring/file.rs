//! File operations for the ring.
//!
//! Every operation owns its file (or a reference to it, such as an
//! `Arc<File>`), its path and its memory, from submission to its last
//! completion: a descriptor closed and used again in between would name another
//! file.
//!
//! Transfers can be made without a ring as well: without waiting, if the kernel can
//! ([`Transfer::nowait`]), or on a thread that may block ([`Transfer::block`]).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};

use super::memory::{Memory, Pieces};
use super::op::Operation;
use crate::is_shutdown_error;
use crate::nowait::{self, NoWait, readv_nowait, writev_nowait};

/// The descriptor of an open file, as an entry takes it.
trait AsRingFd: AsFd + Send + 'static {
    fn fd(&self) -> types::Fd {
        types::Fd(self.as_fd().as_raw_fd())
    }
}

impl<F: AsFd + Send + 'static> AsRingFd for F {}

const CWD: types::Fd = types::Fd(libc::AT_FDCWD);

/// The number of bytes that were transferred, and the buffer.
pub type TransferResult<B> = (io::Result<usize>, B);

/// A read or a write, which can also be made without a ring.
///
/// ```
/// use blitzen_driver::ring::Memory;
/// use blitzen_driver::ring::file::{Read, Transfer};
///
/// let file = std::fs::File::open("/dev/null")?;
/// let read = Read::new(file, Memory::room(Vec::with_capacity(4096)), 0);
/// assert_eq!(read.len(), 4096);
/// assert_eq!(read.block().0?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(clippy::len_without_is_empty)] // an empty transfer is not submitted
pub trait Transfer<B>: Operation<Output = TransferResult<B>> {
    /// Whether it writes to the file.
    const WRITES: bool;

    /// Makes the transfer if it need not wait. If the result is `Done`, the caller
    /// passes it to [`finish`](Operation::finish).
    fn nowait(&mut self) -> NoWait<u32>;

    /// Makes the transfer on a thread that may block.
    fn block(self) -> TransferResult<B>;

    /// Returns the most bytes that it transfers.
    fn len(&self) -> usize;

    /// Returns the buffer without making the transfer.
    fn into_buffer(self) -> B;
}

/// An operation, and a value that is kept until it has ended.
///
/// ```
/// use blitzen_driver::ring::file::{Fsync, Holding};
///
/// let sync = Fsync::all(std::fs::File::open("/dev/null")?);
/// let sync = Holding { operation: sync, held: "dropped after the last completion" };
/// # drop(sync);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Holding<T, X> {
    /// The operation.
    pub operation: T,
    /// The value.
    pub held: X,
}

// SAFETY: the entry is that of `T`, whose contract holds when it is moved.
unsafe impl<T: Operation, X: Send + 'static> Operation for Holding<T, X> {
    type Output = T::Output;
    const REPEATABLE: bool = T::REPEATABLE;

    fn entry(&mut self) -> Entry {
        self.operation.entry()
    }

    fn finish(self, result: io::Result<u32>) -> T::Output {
        self.operation.finish(result)
    }
}

/// Returns the offset, or `None` for the file's own position.
fn at(offset: u64) -> Option<u64> {
    (offset != u64::MAX).then_some(offset)
}

/// Makes a transfer that may block, again if a signal interrupts it. `at_offset` and
/// `at_position` are the numbers of the system calls.
///
/// # Safety
/// As for the two system calls.
unsafe fn transfer_blocking(
    at_offset: libc::c_long,
    at_position: libc::c_long,
    file: BorrowedFd<'_>,
    pieces: &[libc::iovec],
    offset: u64,
) -> io::Result<u32> {
    let (fd, list, count) = (file.as_raw_fd(), pieces.as_ptr(), pieces.len());
    loop {
        let done = match at(offset).map(i64::try_from) {
            // SAFETY: the caller upholds the same contract.
            None => unsafe { libc::syscall(at_position, fd, list, count) },
            Some(Ok(offset)) => {
                let (low, high) = nowait::split(offset);
                // SAFETY: the caller upholds the same contract.
                unsafe { libc::syscall(at_offset, fd, list, count, low, high) }
            }
            Some(Err(_)) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        match u32::try_from(done) {
            Ok(done) => return Ok(done),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Reads at an offset.
///
/// ```
/// use blitzen_driver::ring::{Memory, file::Read};
///
/// let file = std::fs::File::open("/dev/null")?;
/// let read = Read::new(file, Memory::room(Vec::with_capacity(4096)), 0);
/// # drop(read);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Read<F, B> {
    file: F,
    memory: Memory<B>,
    offset: u64,
}

impl<F, B> Read<F, B> {
    /// Reads into `memory` from `offset` on. `u64::MAX` stands for the file's position,
    /// for files without offsets, such as pipes.
    pub fn new(file: F, memory: Memory<B>, offset: u64) -> Self {
        Self {
            file,
            memory,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, B: Send + 'static> Transfer<B> for Read<F, B> {
    const WRITES: bool = false;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { readv_nowait(file, &[self.memory.piece()], offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<B> {
        let done = {
            let (file, pieces) = (self.file.as_fd(), &[self.memory.piece()]);
            // SAFETY: the memory is the operation's.
            unsafe {
                transfer_blocking(libc::SYS_preadv, libc::SYS_readv, file, pieces, self.offset)
            }
        };
        self.finish(done)
    }

    fn len(&self) -> usize {
        self.memory.len()
    }

    fn into_buffer(self) -> B {
        self.memory.into_buffer()
    }
}

// SAFETY: the file and the memory are owned, and stay where they are.
unsafe impl<F: AsFd + Send + 'static, B: Send + 'static> Operation for Read<F, B> {
    type Output = TransferResult<B>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Read::new(self.file.fd(), self.memory.start(), self.memory.len_u32())
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<B> {
        let read = result.map(|n| n as usize);
        let memory = self.memory;
        let buffer = memory.into_written(*read.as_ref().unwrap_or(&0));
        (read, buffer)
    }
}

/// Writes at an offset.
///
/// ```
/// use blitzen_driver::ring::{Memory, file::Write};
///
/// let file = std::fs::File::options().write(true).open("/dev/null")?;
/// let write = Write::new(file, Memory::bytes(b"hello".to_vec()), 0);
/// # drop(write);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Write<F, B> {
    file: F,
    memory: Memory<B>,
    offset: u64,
}

impl<F, B> Write<F, B> {
    /// Writes `memory` at `offset`. `u64::MAX` stands for the file's position, or its
    /// end if it was opened to append.
    pub fn new(file: F, memory: Memory<B>, offset: u64) -> Self {
        Self {
            file,
            memory,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, B: Send + 'static> Transfer<B> for Write<F, B> {
    const WRITES: bool = true;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { writev_nowait(file, &[self.memory.piece()], offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<B> {
        let done = {
            let (file, pieces) = (self.file.as_fd(), &[self.memory.piece()]);
            // SAFETY: the memory is the operation's.
            unsafe {
                transfer_blocking(
                    libc::SYS_pwritev,
                    libc::SYS_writev,
                    file,
                    pieces,
                    self.offset,
                )
            }
        };
        self.finish(done)
    }

    fn len(&self) -> usize {
        self.memory.len()
    }

    fn into_buffer(self) -> B {
        self.memory.into_buffer()
    }
}

// SAFETY: the file and the memory are owned, and stay where they are.
unsafe impl<F: AsFd + Send + 'static, B: Send + 'static> Operation for Write<F, B> {
    type Output = TransferResult<B>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Write::new(self.file.fd(), self.memory.start(), self.memory.len_u32())
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<B> {
        (result.map(|n| n as usize), self.memory.into_buffer())
    }
}

/// Reads at an offset into several pieces of memory.
///
/// ```
/// use blitzen_driver::ring::{Pieces, file::ReadVectored};
///
/// let file = std::fs::File::open("/dev/null")?;
/// let rooms = vec![Vec::with_capacity(16), Vec::with_capacity(4096)];
/// let read = ReadVectored::new(file, Pieces::room(rooms), 0);
/// # drop(read);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadVectored<F, B> {
    file: F,
    pieces: Pieces<B>,
    offset: u64,
}

impl<F, B> ReadVectored<F, B> {
    /// Reads into `pieces`, one after another, from `offset` on.
    pub fn new(file: F, pieces: Pieces<B>, offset: u64) -> Self {
        Self {
            file,
            pieces,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, B: Send + 'static> Transfer<B> for ReadVectored<F, B> {
    const WRITES: bool = false;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { readv_nowait(file, self.pieces.list(), offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<B> {
        let done = {
            let (file, pieces) = (self.file.as_fd(), self.pieces.list());
            // SAFETY: the memory is the operation's.
            unsafe {
                transfer_blocking(libc::SYS_preadv, libc::SYS_readv, file, pieces, self.offset)
            }
        };
        self.finish(done)
    }

    fn len(&self) -> usize {
        self.pieces.len()
    }

    fn into_buffer(self) -> B {
        self.pieces.into_buffer()
    }
}

// SAFETY: the file and the memory are owned, and stay where they are; so does
// the list of pieces, which is on the heap.
unsafe impl<F: AsFd + Send + 'static, B: Send + 'static> Operation for ReadVectored<F, B> {
    type Output = TransferResult<B>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        let list = self.pieces.list();
        opcode::Readv::new(self.file.fd(), list.as_ptr(), list.len() as u32)
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<B> {
        let read = result.map(|n| n as usize);
        let buffer = self.pieces.into_written(*read.as_ref().unwrap_or(&0));
        (read, buffer)
    }
}

/// Writes several pieces of memory at an offset.
///
/// ```
/// use blitzen_driver::ring::{Pieces, file::WriteVectored};
///
/// let file = std::fs::File::options().write(true).open("/dev/null")?;
/// let pieces = Pieces::bytes(vec![b"head".to_vec(), b"body".to_vec()]);
/// let write = WriteVectored::new(file, pieces, 0);
/// # drop(write);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WriteVectored<F, B> {
    file: F,
    pieces: Pieces<B>,
    offset: u64,
}

impl<F, B> WriteVectored<F, B> {
    /// Writes `pieces`, one after another, from `offset` on.
    pub fn new(file: F, pieces: Pieces<B>, offset: u64) -> Self {
        Self {
            file,
            pieces,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, B: Send + 'static> Transfer<B> for WriteVectored<F, B> {
    const WRITES: bool = true;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { writev_nowait(file, self.pieces.list(), offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<B> {
        let done = {
            let (file, pieces) = (self.file.as_fd(), self.pieces.list());
            // SAFETY: the memory is the operation's.
            unsafe {
                transfer_blocking(
                    libc::SYS_pwritev,
                    libc::SYS_writev,
                    file,
                    pieces,
                    self.offset,
                )
            }
        };
        self.finish(done)
    }

    fn len(&self) -> usize {
        self.pieces.len()
    }

    fn into_buffer(self) -> B {
        self.pieces.into_buffer()
    }
}

// SAFETY: as for `ReadVectored`.
unsafe impl<F: AsFd + Send + 'static, B: Send + 'static> Operation for WriteVectored<F, B> {
    type Output = TransferResult<B>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        let list = self.pieces.list();
        opcode::Writev::new(self.file.fd(), list.as_ptr(), list.len() as u32)
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<B> {
        (result.map(|n| n as usize), self.pieces.into_buffer())
    }
}

/// Writes what was written to the file to the disk.
///
/// ```
/// use blitzen_driver::ring::file::Fsync;
///
/// let file = std::fs::File::open("/dev/null")?;
/// let sync = Fsync::data(file);
/// # drop(sync);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Fsync<F> {
    file: F,
    flags: types::FsyncFlags,
}

impl<F> Fsync<F> {
    /// Syncs data and metadata, as `fsync(2)` does.
    pub fn all(file: F) -> Self {
        let flags = types::FsyncFlags::empty();
        Self { file, flags }
    }

    /// Syncs data and the metadata needed to read it, as `fdatasync(2)` does.
    pub fn data(file: F) -> Self {
        let flags = types::FsyncFlags::DATASYNC;
        Self { file, flags }
    }
}

// SAFETY: the file is owned.
unsafe impl<F: AsFd + Send + 'static> Operation for Fsync<F> {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Fsync::new(self.file.fd()).flags(self.flags).build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Allocates or frees disk space of a file, as `fallocate(2)` does.
///
/// ```
/// use blitzen_driver::ring::file::Allocate;
///
/// let file = std::fs::File::open("/dev/null")?;
/// let allocate = Allocate::new(file, libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
/// # drop(allocate);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Allocate<F> {
    file: F,
    mode: i32,
    offset: u64,
    len: u64,
}

impl<F> Allocate<F> {
    /// Allocates or frees `len` bytes from `offset` on.
    pub fn new(file: F, mode: i32, offset: u64, len: u64) -> Self {
        Self {
            file,
            mode,
            offset,
            len,
        }
    }
}

// SAFETY: the file is owned.
unsafe impl<F: AsFd + Send + 'static> Operation for Allocate<F> {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Fallocate::new(self.file.fd(), self.len)
            .offset(self.offset)
            .mode(self.mode)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Sets the length of a file. Kernels before 6.9 lack it: call
/// [`Ring::supports`](super::Ring::supports) with [`SetLen::CODE`] first.
///
/// ```
/// use blitzen_driver::ring::file::SetLen;
///
/// let file = std::fs::File::options().write(true).open("/dev/null")?;
/// let set_len = SetLen::new(file, 4096);
/// # drop(set_len);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SetLen<F> {
    file: F,
    len: u64,
}

impl<F> SetLen<F> {
    /// The kernel's number of the operation.
    pub const CODE: u8 = opcode::Ftruncate::CODE;

    /// Sets the length of `file` to `len` bytes.
    pub fn new(file: F, len: u64) -> Self {
        Self { file, len }
    }
}

// SAFETY: the file is owned.
unsafe impl<F: AsFd + Send + 'static> Operation for SetLen<F> {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Ftruncate::new(self.file.fd(), self.len).build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Opens a file.
///
/// ```
/// use blitzen_driver::ring::file::Open;
///
/// let open = Open::new(c"/dev/null".into(), libc::O_RDONLY, 0);
/// # drop(open);
/// ```
#[derive(Debug)]
pub struct Open {
    path: CString,
    flags: i32,
    mode: libc::mode_t,
}

impl Open {
    /// Opens `path` with the flags of `open(2)`, and `O_CLOEXEC`.
    pub fn new(path: CString, flags: i32, mode: libc::mode_t) -> Self {
        let flags = flags | libc::O_CLOEXEC;
        Self { path, flags, mode }
    }
}

// SAFETY: the path is owned, and on the heap.
unsafe impl Operation for Open {
    type Output = io::Result<OwnedFd>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        // On a thread of the kernel: an attempt without waiting would not wait for the
        // other end of a named pipe, as opening one must.
        opcode::OpenAt::new(CWD, self.path.as_ptr())
            .flags(self.flags)
            .mode(self.mode)
            .build()
            .flags(Flags::ASYNC)
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<OwnedFd> {
        // SAFETY: the kernel has just opened it for us.
        result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }
}

/// Closes a file. [Detach](super::Op::detach) it to close it in the background.
///
/// ```
/// use blitzen_driver::ring::file::Close;
///
/// let close = Close::new(std::fs::File::open("/dev/null")?.into());
/// # drop(close);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Close {
    /// `None` once the entry has been made.
    file: Option<OwnedFd>,
    number: i32,
}

impl Close {
    /// Closes `file`.
    pub fn new(file: OwnedFd) -> Self {
        let number = file.as_raw_fd();
        let file = Some(file);
        Self { file, number }
    }
}

// SAFETY: the operation owns the descriptor, and the entry closes it. Nobody else
// closes it from then on, unless the kernel has not done so.
unsafe impl Operation for Close {
    type Output = io::Result<()>;

    fn entry(&mut self) -> Entry {
        opcode::Close::new(types::Fd(self.number)).build()
    }

    fn finish(mut self, result: io::Result<u32>) -> io::Result<()> {
        // Closed by the kernel; or the ring was shut before the entry was submitted.
        let was_cancelled = |error: &io::Error| {
            error.raw_os_error() == Some(libc::ECANCELED) || is_shutdown_error(error)
        };
        let cancelled = result.as_ref().is_err_and(was_cancelled);
        if !cancelled && let Some(file) = self.file.take() {
            // Closed even if the kernel has returned an error: the number may belong to
            // another file by now.
            let _number = file.into_raw_fd();
        }
        result.map(drop)
    }
}

/// Reads the metadata of a file, as `statx(2)` does.
///
/// ```
/// use blitzen_driver::ring::file::Stat;
///
/// let link_itself = Stat::path(c"/etc/mtab".into(), libc::AT_SYMLINK_NOFOLLOW);
/// let open_file = Stat::file(std::fs::File::open("/dev/null")?);
/// # drop((link_itself, open_file));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Stat<F = OwnedFd> {
    file: Option<F>,
    path: CString,
    flags: i32,
    answer: Box<StatxBuf>,
}

/// Boxed, so that it stays where the kernel writes.
struct StatxBuf(libc::statx);

impl std::fmt::Debug for StatxBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("statx")
    }
}

impl StatxBuf {
    fn empty() -> Box<Self> {
        // SAFETY: a structure of numbers, for which zero is a value.
        Box::new(Self(unsafe { std::mem::zeroed() }))
    }
}

impl Stat {
    /// Reads the metadata of what `path` names; `flags` as for `statx(2)`.
    pub fn path(path: CString, flags: i32) -> Self {
        Self {
            file: None,
            path,
            flags,
            answer: StatxBuf::empty(),
        }
    }
}

impl<F> Stat<F> {
    /// Reads the metadata of an open file.
    pub fn file(file: F) -> Self {
        Self {
            file: Some(file),
            path: CString::default(),
            flags: libc::AT_EMPTY_PATH,
            answer: StatxBuf::empty(),
        }
    }
}

// SAFETY: the file and the path are owned, the path and the answer are on the
// heap.
unsafe impl<F: AsFd + Send + 'static> Operation for Stat<F> {
    type Output = io::Result<libc::statx>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        let file = self.file.as_ref().map_or(CWD, AsRingFd::fd);
        let answer = (&raw mut *self.answer).cast();
        opcode::Statx::new(file, self.path.as_ptr(), answer)
            .flags(self.flags)
            .mask(libc::STATX_BASIC_STATS | libc::STATX_BTIME)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<libc::statx> {
        result.map(|_| self.answer.0)
    }
}

/// Renames a file.
///
/// ```
/// use blitzen_driver::ring::file::Rename;
///
/// let rename = Rename::new(c"draft".into(), c"final".into());
/// # drop(rename);
/// ```
#[derive(Debug)]
pub struct Rename {
    from: CString,
    to: CString,
}

impl Rename {
    /// Renames `from` to `to`, which is replaced if it exists.
    pub fn new(from: CString, to: CString) -> Self {
        Self { from, to }
    }
}

// SAFETY: the paths are owned, and on the heap.
unsafe impl Operation for Rename {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::RenameAt::new(CWD, self.from.as_ptr(), CWD, self.to.as_ptr()).build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Removes a file or an empty directory.
///
/// ```
/// use blitzen_driver::ring::file::Remove;
///
/// let (file, directory) = (Remove::file(c"old".into()), Remove::dir(c"empty".into()));
/// # drop((file, directory));
/// ```
#[derive(Debug)]
pub struct Remove {
    path: CString,
    flags: i32,
}

impl Remove {
    /// Removes a file.
    pub fn file(path: CString) -> Self {
        Self { path, flags: 0 }
    }

    /// Removes an empty directory.
    pub fn dir(path: CString) -> Self {
        let flags = libc::AT_REMOVEDIR;
        Self { path, flags }
    }
}

// SAFETY: the path is owned, and on the heap.
unsafe impl Operation for Remove {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::UnlinkAt::new(CWD, self.path.as_ptr())
            .flags(self.flags)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Creates a directory.
///
/// ```
/// use blitzen_driver::ring::file::CreateDir;
///
/// let make = CreateDir::new(c"new".into(), 0o777);
/// # drop(make);
/// ```
#[derive(Debug)]
pub struct CreateDir {
    path: CString,
    mode: libc::mode_t,
}

impl CreateDir {
    /// Creates a directory with the permissions `mode`, without those in the umask of
    /// the process.
    pub fn new(path: CString, mode: libc::mode_t) -> Self {
        Self { path, mode }
    }
}

// SAFETY: the path is owned, and on the heap.
unsafe impl Operation for CreateDir {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::MkDirAt::new(CWD, self.path.as_ptr())
            .mode(self.mode)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Creates a hard link.
///
/// ```
/// use blitzen_driver::ring::file::HardLink;
///
/// let link = HardLink::new(c"file".into(), c"also".into());
/// # drop(link);
/// ```
#[derive(Debug)]
pub struct HardLink {
    original: CString,
    link: CString,
}

impl HardLink {
    /// Creates the hard link `link` to `original`.
    pub fn new(original: CString, link: CString) -> Self {
        Self { original, link }
    }
}

// SAFETY: the paths are owned, and on the heap.
unsafe impl Operation for HardLink {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::LinkAt::new(CWD, self.original.as_ptr(), CWD, self.link.as_ptr()).build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Creates a symbolic link.
///
/// ```
/// use blitzen_driver::ring::file::Symlink;
///
/// let link = Symlink::new(c"../somewhere".into(), c"there".into());
/// # drop(link);
/// ```
#[derive(Debug)]
pub struct Symlink {
    original: CString,
    link: CString,
}

impl Symlink {
    /// Creates the symbolic link `link` to `original`.
    pub fn new(original: CString, link: CString) -> Self {
        Self { original, link }
    }
}

// SAFETY: the paths are owned, and on the heap.
unsafe impl Operation for Symlink {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::SymlinkAt::new(CWD, self.original.as_ptr(), self.link.as_ptr()).build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}
