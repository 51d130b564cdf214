//! File operations for the ring.
//!
//! Every operation owns its file (or a reference to it, such as an
//! `Arc<File>`), its path and its memory, from submission to its last
//! completion: a descriptor closed and used again in between would name another
//! file.
//!
//! Transfers can be made without a ring as well: without waiting, if the kernel
//! can ([`Transfer::nowait`]), or on a thread that may wait
//! ([`Transfer::block`]).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};

use super::memory::{Memory, Pieces};
use super::op::Operation;
use crate::is_shutdown_error;
use crate::nowait::{self, NoWait, readv_nowait, writev_nowait};

/// The descriptor of an open file, as the ring wants it.
trait AsRingFd: AsFd + Send + 'static {
    fn fd(&self) -> types::Fd {
        types::Fd(self.as_fd().as_raw_fd())
    }
}

impl<F: AsFd + Send + 'static> AsRingFd for F {}

const CWD: types::Fd = types::Fd(libc::AT_FDCWD);

/// How many bytes a transfer has moved, with the owner of the memory.
pub type TransferResult<K> = (io::Result<usize>, K);

/// A read or a write, which can be made without a ring as well.
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
#[allow(clippy::len_without_is_empty)] // nothing is asked of an empty one
pub trait Transfer<K>: Operation<Output = TransferResult<K>> {
    /// Whether it writes to the file.
    const WRITES: bool;

    /// Makes the transfer if it need not wait. If it is done,
    /// [`finish`](Operation::finish) it with the result.
    fn nowait(&mut self) -> NoWait<u32>;

    /// Makes the transfer on a thread that may wait.
    fn block(self) -> TransferResult<K>;

    /// Returns how many bytes it may move.
    fn len(&self) -> usize;

    /// Gives up the transfer, and returns the owner of the memory.
    fn into_keeper(self) -> K;
}

/// An operation, and something that is kept until it is over.
///
/// ```
/// use blitzen_driver::ring::file::{Holding, Sync};
///
/// let sync = Sync::all(std::fs::File::open("/dev/null")?);
/// let sync = Holding { operation: sync, held: "dropped after the last completion" };
/// # drop(sync);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Holding<T, X> {
    /// The operation.
    pub operation: T,
    /// What is kept.
    pub held: X,
}

// SAFETY: as for `T`, which makes the entry and alone is moved with it.
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

/// The offset, unless the file's own position is meant.
fn at(offset: u64) -> Option<u64> {
    (offset != u64::MAX).then_some(offset)
}

/// A transfer that may wait; made again if a signal interrupts it. `at_offset` and
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
            // SAFETY: the caller's.
            None => unsafe { libc::syscall(at_position, fd, list, count) },
            Some(Ok(offset)) => {
                let (low, high) = nowait::split(offset);
                // SAFETY: the caller's.
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
pub struct Read<F, K> {
    file: F,
    memory: Memory<K>,
    offset: u64,
}

impl<F, K> Read<F, K> {
    /// Reads into `memory` from `offset` on. `u64::MAX` is the place where the
    /// file stands, for what has no offsets, such as a pipe.
    pub fn new(file: F, memory: Memory<K>, offset: u64) -> Self {
        Self {
            file,
            memory,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, K: Send + 'static> Transfer<K> for Read<F, K> {
    const WRITES: bool = false;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { readv_nowait(file, &[self.memory.piece()], offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<K> {
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

    fn into_keeper(self) -> K {
        self.memory.into_keeper()
    }
}

// SAFETY: the file and the memory are owned, and stay where they are.
unsafe impl<F: AsFd + Send + 'static, K: Send + 'static> Operation for Read<F, K> {
    type Output = TransferResult<K>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Read::new(self.file.fd(), self.memory.start(), self.memory.len_u32())
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<K> {
        let read = result.map(|n| n as usize);
        let memory = self.memory;
        let keeper = memory.into_written(*read.as_ref().unwrap_or(&0));
        (read, keeper)
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
pub struct Write<F, K> {
    file: F,
    memory: Memory<K>,
    offset: u64,
}

impl<F, K> Write<F, K> {
    /// Writes `memory` from `offset` on. `u64::MAX` is the place where the
    /// file stands, or its end if it was opened to append.
    pub fn new(file: F, memory: Memory<K>, offset: u64) -> Self {
        Self {
            file,
            memory,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, K: Send + 'static> Transfer<K> for Write<F, K> {
    const WRITES: bool = true;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { writev_nowait(file, &[self.memory.piece()], offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<K> {
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

    fn into_keeper(self) -> K {
        self.memory.into_keeper()
    }
}

// SAFETY: the file and the memory are owned, and stay where they are.
unsafe impl<F: AsFd + Send + 'static, K: Send + 'static> Operation for Write<F, K> {
    type Output = TransferResult<K>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Write::new(self.file.fd(), self.memory.start(), self.memory.len_u32())
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<K> {
        (result.map(|n| n as usize), self.memory.into_keeper())
    }
}

/// Reads at an offset into several stretches of memory.
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
pub struct ReadVectored<F, K> {
    file: F,
    pieces: Pieces<K>,
    offset: u64,
}

impl<F, K> ReadVectored<F, K> {
    /// Reads into `pieces`, one after another, from `offset` on.
    pub fn new(file: F, pieces: Pieces<K>, offset: u64) -> Self {
        Self {
            file,
            pieces,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, K: Send + 'static> Transfer<K> for ReadVectored<F, K> {
    const WRITES: bool = false;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { readv_nowait(file, self.pieces.list(), offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<K> {
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

    fn into_keeper(self) -> K {
        self.pieces.into_keeper()
    }
}

// SAFETY: the file and the memory are owned, and stay where they are; so does
// the list of pieces, which is on the heap.
unsafe impl<F: AsFd + Send + 'static, K: Send + 'static> Operation for ReadVectored<F, K> {
    type Output = TransferResult<K>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        let list = self.pieces.list();
        opcode::Readv::new(self.file.fd(), list.as_ptr(), list.len() as u32)
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<K> {
        let read = result.map(|n| n as usize);
        let keeper = self.pieces.into_written(*read.as_ref().unwrap_or(&0));
        (read, keeper)
    }
}

/// Writes several stretches of memory at an offset.
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
pub struct WriteVectored<F, K> {
    file: F,
    pieces: Pieces<K>,
    offset: u64,
}

impl<F, K> WriteVectored<F, K> {
    /// Writes `pieces`, one after another, from `offset` on.
    pub fn new(file: F, pieces: Pieces<K>, offset: u64) -> Self {
        Self {
            file,
            pieces,
            offset,
        }
    }
}

impl<F: AsFd + Send + 'static, K: Send + 'static> Transfer<K> for WriteVectored<F, K> {
    const WRITES: bool = true;

    fn nowait(&mut self) -> NoWait<u32> {
        let (file, offset) = (self.file.as_fd(), at(self.offset));
        // SAFETY: the memory is the operation's.
        unsafe { writev_nowait(file, self.pieces.list(), offset) }.map(|n| n as u32)
    }

    fn block(self) -> TransferResult<K> {
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

    fn into_keeper(self) -> K {
        self.pieces.into_keeper()
    }
}

// SAFETY: as for `ReadVectored`.
unsafe impl<F: AsFd + Send + 'static, K: Send + 'static> Operation for WriteVectored<F, K> {
    type Output = TransferResult<K>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        let list = self.pieces.list();
        opcode::Writev::new(self.file.fd(), list.as_ptr(), list.len() as u32)
            .offset(self.offset)
            .build()
    }

    fn finish(self, result: io::Result<u32>) -> TransferResult<K> {
        (result.map(|n| n as usize), self.pieces.into_keeper())
    }
}

/// Brings what was written to the disk.
///
/// ```
/// use blitzen_driver::ring::file::Sync;
///
/// let file = std::fs::File::open("/dev/null")?;
/// let sync = Sync::data(file);
/// # drop(sync);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Sync<F> {
    file: F,
    flags: types::FsyncFlags,
}

impl<F> Sync<F> {
    /// Data and everything known of the file.
    pub fn all(file: F) -> Self {
        let flags = types::FsyncFlags::empty();
        Self { file, flags }
    }

    /// Data, and only what is needed to find it again.
    pub fn data(file: F) -> Self {
        let flags = types::FsyncFlags::DATASYNC;
        Self { file, flags }
    }
}

// SAFETY: the file is owned.
unsafe impl<F: AsFd + Send + 'static> Operation for Sync<F> {
    type Output = io::Result<()>;
    const REPEATABLE: bool = true;

    fn entry(&mut self) -> Entry {
        opcode::Fsync::new(self.file.fd()).flags(self.flags).build()
    }

    fn finish(self, result: io::Result<u32>) -> io::Result<()> {
        result.map(drop)
    }
}

/// Sets room aside for a file, or gives it back, as `fallocate(2)` does.
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
    /// `len` bytes from `offset` on.
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

/// Makes a file longer or shorter. Kernels before 6.9 do not know it: ask
/// [`Ring::supports`](super::Ring::supports) for [`SetLen::CODE`].
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
    /// The kernel's number for it.
    pub const CODE: u8 = opcode::Ftruncate::CODE;

    /// The file shall have `len` bytes.
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
    /// Opens `path` with the flags of `open(2)`. It will be closed when a
    /// program is executed.
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
        // By a thread of the kernel's: a try in passing would not wait for the
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

/// Closes a file. [Detach](super::Op::detach) it if nobody cares when.
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
    /// `None` once the kernel has been told its number.
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

// SAFETY: the descriptor is the operation's, and the entry closes it: from then
// on nobody else does, unless the kernel says that it has not.
unsafe impl Operation for Close {
    type Output = io::Result<()>;

    fn entry(&mut self) -> Entry {
        opcode::Close::new(types::Fd(self.number)).build()
    }

    fn finish(mut self, result: io::Result<u32>) -> io::Result<()> {
        // By the kernel, or by a ring that was shut before it was sent.
        let was_cancelled = |error: &io::Error| {
            error.raw_os_error() == Some(libc::ECANCELED) || is_shutdown_error(error)
        };
        let cancelled = result.as_ref().is_err_and(was_cancelled);
        if !cancelled && let Some(file) = self.file.take() {
            // Closed, whatever the kernel said about it: the number may be
            // somebody else's by now.
            let _number = file.into_raw_fd();
        }
        result.map(drop)
    }
}

/// Asks what is known of a file.
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
    /// What `path` names; `flags` as for `statx(2)`.
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
    /// An open file.
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

/// Gives a file another name.
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
    /// What is called `from` shall be called `to`, which it replaces.
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
    /// A file.
    pub fn file(path: CString) -> Self {
        Self { path, flags: 0 }
    }

    /// An empty directory.
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

/// Makes a directory.
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
    /// A directory with `mode`, less what the process masks.
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

/// Makes a second name for a file.
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
    /// `link` shall name what `original` names.
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

/// Makes a symbolic link.
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
    /// `link` shall lead to `original`.
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
