//! Files on Linux: the ways of [`op`](super::super::op) that need this system.

use std::ffi::CString;
use std::fs::File as StdFile;
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_driver::local_fs;
pub(crate) use blitzen_driver::local_fs::is_local;
use blitzen_driver::nowait::{self, NoWait, Opened};
use blitzen_driver::ring::file::{
    Allocate, CreateDir, Fsync, HardLink, Holding, Read, ReadVectored, Remove, Rename, SetLen,
    Symlink, Transfer, TransferResult, Write, WriteVectored,
};
use blitzen_driver::ring::{Memory, Op, Operation, Pieces};
use blitzen_io::owned::{IoBuf, IoBufMut, Outcome};
use blitzen_task::JoinHandle;

use super::super::inline;
use super::super::op::{self, FileCall, FileOp, MAX_INLINE_BYTES, PathCall};
use super::super::open::OpenFlags;
use super::super::open_file::{OpenFile, retry_interrupted};
use super::super::write_back::Change;
use crate::runtime::context;

/// Longer transfers are made by a thread of the pool.
const MAX_RING_BYTES: usize = 1024 * 1024;

/// Submits an operation to the ring of this worker; returns it if there is none.
fn submit<T: Operation>(operation: T) -> Result<Op<T>, T> {
    let mut operation = Some(operation);
    let submitted = context::with_current(|handle| {
        let inner = &handle.inner;
        let worker = inner.scheduler().current_worker()?;
        let driver = inner.world().drivers(worker).driver();
        match driver.submit(operation.take()?) {
            Ok(op) => Some(op),
            Err((back, _why)) => {
                operation = Some(back);
                None
            }
        }
    });
    match submitted {
        Ok(Some(op)) => Ok(op),
        _ => match operation {
            Some(operation) => Err(operation),
            None => unreachable!("submitted, or not"),
        },
    }
}

/// Whether the ring of this worker supports an operation.
fn ring_supports(code: u8) -> bool {
    let known = context::with_current(|handle| {
        let inner = &handle.inner;
        let worker = inner.scheduler().current_worker()?;
        let ring = inner.world().drivers(worker).driver().ring().ok()?;
        Some(ring.supports(code))
    });
    matches!(known, Ok(Some(true)))
}

/// An operation on the ring, with the change that ends with it.
struct OnRing<T: Operation>(Op<Holding<T, Change>>);

impl<T: Operation> OnRing<T> {
    fn submit(operation: T, change: Change) -> Result<Self, (T, Change)> {
        let held = change;
        match submit(Holding { operation, held }) {
            Ok(op) => Ok(Self(op)),
            Err(back) => Err((back.operation, back.held)),
        }
    }
}

impl<T: Operation<Output: FromRing>> Future for OnRing<T> {
    type Output = T::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output> {
        Pin::new(&mut self.0).poll(cx).map(FromRing::map_shutdown)
    }
}

/// The output of an operation on a ring.
trait FromRing {
    /// Replaces the error of a ring that was shut down by that of a pool that
    /// was.
    fn map_shutdown(self) -> Self;
}

impl<R> FromRing for io::Result<R> {
    fn map_shutdown(self) -> Self {
        self.map_err(|error| match blitzen_driver::is_shutdown_error(&error) {
            true => op::refused(),
            false => error,
        })
    }
}

impl<B> FromRing for TransferResult<B> {
    fn map_shutdown(self) -> Self {
        (self.0.map_shutdown(), self.1)
    }
}

/// A call that the ring can also make.
struct WithRing<C, O> {
    call: C,
    /// `None` if this ring does not support it, or the call is sure to fail.
    operation: Option<O>,
}

impl<R, C, O> FileOp<io::Result<R>, OnRing<O>> for WithRing<C, O>
where
    R: Send + 'static,
    C: FileOp<io::Result<R>>,
    O: Operation<Output = io::Result<R>>,
{
    fn nowait(self) -> Result<io::Result<R>, Self> {
        let Self { call, operation } = self;
        call.nowait().map_err(|call| Self { call, operation })
    }

    fn inline(self) -> Result<io::Result<R>, Self> {
        let Self { call, operation } = self;
        call.inline().map_err(|call| Self { call, operation })
    }

    fn submit(self, change: Change) -> Result<OnRing<O>, (Self, Change)> {
        let Self { call, operation } = self;
        let back = |operation, change| (Self { call, operation }, change);
        match operation {
            Some(operation) => OnRing::submit(operation, change)
                .map_err(|(operation, change)| back(Some(operation), change)),
            None => Err(back(None, change)),
        }
    }

    fn block(self) -> io::Result<R> {
        self.call.block()
    }

    fn refuse(self, error: io::Error) -> io::Result<R> {
        Err(error)
    }

    fn changed_file(&self) -> Option<&OpenFile> {
        self.call.changed_file()
    }
}

/// Returns the path with a final zero; `None` if it contains a zero: then std
/// returns the error.
fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// Reads at the position.
pub(crate) fn read_blocking(file: &StdFile, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    retry_interrupted(|| {
        // SAFETY: an open descriptor, and room for as many bytes as said.
        let read = unsafe { libc::read(file.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    })
}

/// Reads at an offset, and leaves the position alone.
pub(crate) fn read_blocking_at(file: &OpenFile, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let read = || retry_interrupted(|| file.std.read_at(room, offset));
    file.keeper.keep(file, read)
}

/// A read-ahead into the page cache, whose result is discarded.
pub(crate) enum ReadAhead {
    Ring(Op<Read<Arc<OpenFile>, Vec<u8>>>),
    Pool(JoinHandle<()>),
}

impl Future for ReadAhead {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            Self::Ring(op) => drop(ready!(Pin::new(op).poll(cx))),
            Self::Pool(job) => drop(ready!(Pin::new(job).poll(cx))),
        }
        Poll::Ready(())
    }
}

/// Reads the next `len` bytes of a file into the page cache; returns `None` if
/// the file does not use it, or does not support `RWF_NOWAIT` to read them from
/// there.
pub(crate) fn read_ahead(file: &Arc<OpenFile>, len: usize) -> Option<ReadAhead> {
    let is_local = file.is_local();
    if !is_local && file.nowait_reads.is_missing() {
        return None;
    }
    let offset = file.position()?;
    let memory = Memory::room(Vec::with_capacity(len));
    match submit(Read::new(file.clone(), memory, offset)) {
        Ok(op) => Some(ReadAhead::Ring(op)),
        Err(read) if is_local => {
            let job = move || drop(read.block());
            Some(ReadAhead::Pool(op::spawn_on_pool(job, false)))
        }
        Err(_) => None,
    }
}

/// Opens a file if that need not wait, or is likely not to.
pub(crate) fn open_here(path: &Path, flags: &OpenFlags) -> Option<io::Result<StdFile>> {
    let (mode, flags) = (flags.mode(), flags.for_open()?);
    let opened = open(path, flags, mode)?;
    Some(opened.map(|opened| opened.into_file(flags).into()))
}

fn open(path: &Path, flags: i32, mode: libc::mode_t) -> Option<io::Result<Opened>> {
    let (is_local, path) = (is_local(path), c_string(path)?);
    let inline = || inline::run(&inline::PATHS, (), |()| local_fs::open_regular(&path, flags, mode));
    if is_local && let Ok(NoWait::Done(opened)) = inline() {
        return Some(opened);
    }
    match nowait::open_cached(&path, flags) {
        NoWait::Done(opened) => Some(opened),
        NoWait::WouldBlock | NoWait::Unsupported => None,
    }
}

/// Writes a whole file inline, if that is likely to be short.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Option<io::Result<()>> {
    if !is_local(path) {
        return None;
    }
    let path = c_string(path)?;
    let write = |()| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        match local_fs::open_regular(&path, flags, 0o666) {
            NoWait::Done(opened) => Some(opened.and_then(|opened| {
                io::Write::write_all(&mut StdFile::from(opened.file), contents)
            })),
            NoWait::WouldBlock | NoWait::Unsupported => None,
        }
    };
    inline::run(&inline::PATHS, (), write).ok().flatten()
}

/// Whether there is something at a path, if the kernel knows without waiting.
pub(crate) fn exists_cached(path: &Path) -> Option<io::Result<bool>> {
    match nowait::find_cached(&c_string(path)?, false) {
        NoWait::Done(Ok(_)) => Some(Ok(true)),
        NoWait::Done(Err(error)) if error.kind() == io::ErrorKind::NotFound => Some(Ok(false)),
        NoWait::Done(Err(error)) => Some(Err(error)),
        NoWait::WouldBlock | NoWait::Unsupported => None,
    }
}

/// Reads a whole file; `None` if opening it may have to wait.
pub(crate) async fn read_whole(path: &Path) -> Option<io::Result<Vec<u8>>> {
    match open(path, libc::O_RDONLY, 0)? {
        Ok(Opened { file, len, .. }) => {
            let file = Arc::new(OpenFile::new(file.into()));
            let len = usize::try_from(len).unwrap_or(0);
            Some(read_to_end(&file, len).await)
        }
        Err(error) => Some(Err(error)),
    }
}

async fn read_to_end(file: &Arc<OpenFile>, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len.saturating_add(1))?;
    loop {
        if bytes.len() == bytes.capacity() {
            bytes.try_reserve(bytes.len().max(32))?;
        }
        let offset = bytes.len() as u64;
        let memory = Memory::room_up_to(bytes, MAX_INLINE_BYTES);
        let asked = memory.len();
        let read = Read::new(file.clone(), memory, offset);
        let (read, back) = op::run(FileTransfer::new(file, read)).await;
        let read = read?;
        bytes = back;
        // A short read that reaches the length of the file is the end.
        if read == 0 || read < asked && bytes.len() == len {
            return Ok(bytes);
        }
        if read >= MAX_INLINE_BYTES / 2 {
            crate::task::yield_now().await; // other tasks wait too
        }
    }
}

/// Reads or writes at an offset.
struct FileTransfer<T> {
    file: Arc<OpenFile>,
    transfer: T,
}

impl<T> FileTransfer<T> {
    fn new(file: &Arc<OpenFile>, transfer: T) -> Self {
        let file = file.clone();
        Self { file, transfer }
    }
}

impl<T, B> FileOp<TransferResult<B>, OnRing<T>> for FileTransfer<T>
where
    T: Transfer<B>,
    B: Send + 'static,
{
    fn nowait(mut self) -> Result<TransferResult<B>, Self> {
        if self.transfer.len() > MAX_RING_BYTES {
            return Err(self);
        }
        let support = match T::WRITES {
            true => &self.file.nowait_writes,
            false => &self.file.nowait_reads,
        };
        match support.attempt(|| self.transfer.nowait()) {
            NoWait::Done(done) => Ok(self.transfer.finish(done)),
            NoWait::WouldBlock | NoWait::Unsupported => Err(self),
        }
    }

    fn inline(self) -> Result<TransferResult<B>, Self> {
        let support = match T::WRITES {
            true => &self.file.nowait_writes,
            false => &self.file.nowait_reads,
        };
        // A file that supports `RWF_NOWAIT` has just returned that it would have
        // to wait.
        let is_likely_short = support.is_missing() && self.transfer.len() <= MAX_INLINE_BYTES;
        if !is_likely_short || !self.file.is_local() {
            return Err(self);
        }
        let Self { file, transfer } = self;
        inline::run(&file.inline, transfer, T::block)
            .map_err(|transfer| Self { file: file.clone(), transfer })
    }

    fn submit(self, change: Change) -> Result<OnRing<T>, (Self, Change)> {
        if self.transfer.len() > MAX_RING_BYTES {
            return Err((self, change));
        }
        let Self { file, transfer } = self;
        OnRing::submit(transfer, change)
            .map_err(|(transfer, change)| (Self { file, transfer }, change))
    }

    fn block(self) -> TransferResult<B> {
        self.transfer.block()
    }

    fn refuse(self, error: io::Error) -> TransferResult<B> {
        (Err(error), self.transfer.into_buffer())
    }

    fn changed_file(&self) -> Option<&OpenFile> {
        T::WRITES.then_some(&*self.file)
    }
}

fn room<B: IoBufMut>(buf: B) -> Memory<B> {
    let span = |buf: &mut B| (buf.stable_mut_ptr(), buf.total_len());
    // SAFETY: O1 to O3 of the buffer; and what was read is initialised.
    unsafe { Memory::new(buf, span, |buf, len| buf.set_init(len)) }
}

fn bytes<B: IoBuf>(buf: B) -> Memory<B> {
    let span = |buf: &mut B| (buf.stable_ptr().cast_mut(), buf.init_len());
    // SAFETY: O1 and O2 of the buffer; it is only read.
    unsafe { Memory::new(buf, span, |_, _| {}) }
}

/// Reads at an offset.
pub(crate) async fn read_at<B: IoBufMut + Send>(
    file: &Arc<OpenFile>,
    buf: B,
    offset: u64,
) -> Outcome<B> {
    let read = Read::new(file.clone(), room(buf), offset);
    op::run(FileTransfer::new(file, read)).await
}

/// Writes at an offset.
pub(crate) async fn write_at<B: IoBuf + Send>(
    file: &Arc<OpenFile>,
    buf: B,
    offset: u64,
) -> Outcome<B> {
    let write = Write::new(file.clone(), bytes(buf), offset);
    op::run(FileTransfer::new(file, write)).await
}

/// The most buffers of one system call.
const MAX_PIECES: usize = libc::UIO_MAXIOV as usize;

/// Reads at an offset, into one buffer after another.
pub(crate) async fn read_vectored_at<B: IoBufMut + Send>(
    file: &Arc<OpenFile>,
    bufs: Vec<B>,
    offset: u64,
) -> Outcome<Vec<B>> {
    let piece = |buf: &mut B| libc::iovec {
        iov_base: buf.stable_mut_ptr().cast(),
        iov_len: buf.total_len(),
    };
    let list = |bufs: &mut Vec<B>| bufs.iter_mut().take(MAX_PIECES).map(piece).collect();
    let written = |bufs: &mut Vec<B>, mut more: usize| {
        for buf in bufs {
            let here = more.min(buf.total_len());
            // SAFETY: the kernel fills one after the other.
            unsafe { buf.set_init(here) };
            more -= here;
        }
    };
    // SAFETY: O1 to O3 of each buffer; moving the vector leaves them as they are.
    let pieces = unsafe { Pieces::new(bufs, list, written) };
    let read = ReadVectored::new(file.clone(), pieces, offset);
    op::run(FileTransfer::new(file, read)).await
}

/// Writes at an offset, from one buffer after another.
pub(crate) async fn write_vectored_at<B: IoBuf + Send>(
    file: &Arc<OpenFile>,
    bufs: Vec<B>,
    offset: u64,
) -> Outcome<Vec<B>> {
    let piece = |buf: &mut B| libc::iovec {
        iov_base: buf.stable_ptr().cast_mut().cast(),
        iov_len: buf.init_len(),
    };
    let list = |bufs: &mut Vec<B>| bufs.iter_mut().take(MAX_PIECES).map(piece).collect();
    // SAFETY: O1 and O2 of each buffer; they are only read.
    let pieces = unsafe { Pieces::new(bufs, list, |_, _| {}) };
    let write = WriteVectored::new(file.clone(), pieces, offset);
    op::run(FileTransfer::new(file, write)).await
}

pub(crate) async fn sync_all(file: &Arc<OpenFile>) -> io::Result<()> {
    let call = FileCall::sync(file, StdFile::sync_all);
    let operation = Some(Fsync::all(file.clone()));
    op::run(WithRing { call, operation }).await
}

pub(crate) async fn sync_data(file: &Arc<OpenFile>) -> io::Result<()> {
    let call = FileCall::sync(file, StdFile::sync_data);
    let operation = Some(Fsync::data(file.clone()));
    op::run(WithRing { call, operation }).await
}

/// Truncates a file, or extends it with zeroes.
pub(crate) async fn set_len(file: &Arc<OpenFile>, len: u64) -> io::Result<()> {
    let call = FileCall::change(file, move |std: &StdFile| std.set_len(len));
    let can_ring = i64::try_from(len).is_ok() && ring_supports(SetLen::<StdFile>::CODE);
    let operation = can_ring.then(|| SetLen::new(file.clone(), len));
    op::run(WithRing { call, operation }).await
}

/// Reserves disk space, so that later writes there do not find the disk full.
pub(crate) async fn allocate(file: &Arc<OpenFile>, offset: u64, len: u64) -> io::Result<()> {
    let allocate = move |std: &StdFile| {
        let range = (libc::off_t::try_from(offset), libc::off_t::try_from(len));
        let (Ok(offset), Ok(len)) = range else {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        };
        // SAFETY: a descriptor that is open, and numbers.
        match unsafe { libc::fallocate(std.as_raw_fd(), 0, offset, len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let call = FileCall::change(file, allocate);
    let operation = Some(Allocate::new(file.clone(), 0, offset, len));
    op::run(WithRing { call, operation }).await
}

pub(crate) async fn remove_file(path: &Path) -> io::Result<()> {
    let (owned, operation) = (path.to_owned(), c_string(path).map(Remove::file));
    let call = PathCall::new(path, || std::fs::remove_file(owned));
    op::run(WithRing { call, operation }).await
}

pub(crate) async fn remove_dir(path: &Path) -> io::Result<()> {
    let (owned, operation) = (path.to_owned(), c_string(path).map(Remove::dir));
    let call = PathCall::new(path, || std::fs::remove_dir(owned));
    op::run(WithRing { call, operation }).await
}

pub(crate) async fn create_dir(path: &Path) -> io::Result<()> {
    let operation = c_string(path).map(|path| CreateDir::new(path, 0o777));
    let owned = path.to_owned();
    let call = PathCall::new(path, || std::fs::create_dir(owned));
    op::run(WithRing { call, operation }).await
}

pub(crate) async fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let operation = c_strings(from, to).map(|(from, to)| Rename::new(from, to));
    let owned = (from.to_owned(), to.to_owned());
    let call = PathCall::on_two(from, to, || std::fs::rename(owned.0, owned.1));
    op::run(WithRing { call, operation }).await
}

pub(crate) async fn hard_link(original: &Path, link: &Path) -> io::Result<()> {
    let operation = c_strings(original, link).map(|(original, link)| HardLink::new(original, link));
    let owned = (original.to_owned(), link.to_owned());
    let call = PathCall::on_two(original, link, || std::fs::hard_link(owned.0, owned.1));
    op::run(WithRing { call, operation }).await
}

pub(crate) async fn symlink(original: &Path, link: &Path) -> io::Result<()> {
    let operation = c_strings(original, link).map(|(original, link)| Symlink::new(original, link));
    let owned = (original.to_owned(), link.to_owned());
    let call = PathCall::new(link, || std::os::unix::fs::symlink(owned.0, owned.1));
    op::run(WithRing { call, operation }).await
}

fn c_strings(one: &Path, other: &Path) -> Option<(CString, CString)> {
    Some((c_string(one)?, c_string(other)?))
}

/// The ring in a runtime. Pipes stand in for disks, since a test decides when
/// they are ready.
#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::runtime::{Builder, IoBackend, Runtime, worker_index};
    use std::io::{PipeWriter, Write as _};
    use std::os::fd::OwnedFd;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Long enough that only what never happens runs into it.
    const FOREVER: Duration = Duration::from_secs(30);

    fn with_workers(workers: usize) -> Option<Runtime> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).enable_all();
        let built = builder.io_backend(IoBackend::Uring).build();
        built.inspect_err(|error| eprintln!("not tested: {error}")).ok()
    }

    fn current_thread() -> Option<Runtime> {
        let mut builder = Builder::new_current_thread();
        let built = builder.enable_all().io_backend(IoBackend::Uring).build();
        built.inspect_err(|error| eprintln!("not tested: {error}")).ok()
    }

    type PipeRead = Op<Read<OwnedFd, Vec<u8>>>;

    /// A read that ends when something is written.
    fn pipe_read() -> (PipeRead, PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        let room = Memory::room(Vec::with_capacity(8));
        let read = Read::new(OwnedFd::from(reader), room, u64::MAX);
        (submit(read).expect("there is a ring"), writer)
    }

    #[test]
    fn what_a_blocked_worker_has_not_sent_is_sent_by_another() {
        for workers in [2, 4] {
            let Some(runtime) = with_workers(workers) else {
                return;
            };
            let blocked = runtime.spawn(async {
                for _ in 0..20 {
                    let (read, mut writer) = pipe_read(); // not sent yet
                    let (done, wait) = mpsc::channel();
                    crate::spawn(async move {
                        writer.write_all(b"x").unwrap();
                        done.send(read.await.0.unwrap()).unwrap();
                    });
                    // Blocks the worker until its operation is through.
                    assert_eq!(wait.recv_timeout(FOREVER).unwrap(), 1);
                }
            });
            runtime.block_on(blocked).unwrap();
        }
    }

    #[test]
    fn what_the_kernel_has_done_for_a_blocked_worker_is_taken_in_by_another() {
        let Some(runtime) = with_workers(2) else {
            return;
        };
        let blocked = runtime.spawn(async {
            let mut rounds = 0;
            while rounds < 20 {
                let (mut read, mut writer) = pipe_read();
                let here = worker_index();
                // Goes to the kernel with the next turn.
                std::future::poll_fn(|cx| {
                    assert!(Pin::new(&mut read).poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                crate::time::sleep(Duration::from_millis(1)).await;
                if worker_index() != here {
                    continue; // it was sent by another worker than this
                }
                rounds += 1;
                let (done, wait) = mpsc::channel();
                crate::spawn(async move {
                    done.send(read.await.0.unwrap()).unwrap();
                });
                writer.write_all(b"x").unwrap();
                // Busy, and never in the kernel: completions are posted only at a
                // tick of the clock.
                let end = std::time::Instant::now() + FOREVER;
                while wait.try_recv().is_err() {
                    assert!(std::time::Instant::now() < end, "nobody came");
                }
            }
        });
        runtime.block_on(blocked).unwrap();
    }

    #[test]
    fn a_current_thread_runtime_moves_with_its_operations() {
        let Some(runtime) = current_thread() else {
            return;
        };
        let runtime = Arc::new(runtime);
        for _ in 0..5 {
            let (answer, answered) = mpsc::channel();
            // Begun on a thread that ends: the kernel then cancels it (R5).
            let mut writer = std::thread::spawn({
                let runtime = runtime.clone();
                move || {
                    runtime.block_on(async {
                        let (read, writer) = pipe_read();
                        crate::spawn(async move {
                            let (read, bytes) = read.await;
                            answer.send((read.unwrap(), bytes)).unwrap();
                        });
                        // Sent, and taken by the kernel.
                        crate::time::sleep(Duration::from_millis(2)).await;
                        writer
                    })
                }
            })
            .join()
            .unwrap();
            // Goes on, on another.
            runtime.block_on(async {
                writer.write_all(b"x").unwrap();
                let end = std::time::Instant::now() + FOREVER;
                loop {
                    match answered.try_recv() {
                        Ok(answer) => break assert_eq!(answer, (1, b"x".to_vec())),
                        Err(_) => assert!(std::time::Instant::now() < end, "it was lost"),
                    }
                    crate::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
    }

    #[test]
    fn a_worker_that_moves_to_another_thread_takes_its_operations_along() {
        let Some(runtime) = with_workers(1) else {
            return;
        };
        runtime.block_on(async {
            let task = crate::spawn(async {
                for _ in 0..20 {
                    let (read, mut writer) = pipe_read();
                    let task = crate::spawn(async move { read.await.0.unwrap() });
                    crate::time::sleep(Duration::from_millis(1)).await; // sent
                    // The worker goes on elsewhere, and this thread ends.
                    crate::task::block_in_place(|| ());
                    crate::task::yield_now().await;
                    writer.write_all(b"x").unwrap();
                    assert_eq!(task.await.unwrap(), 1);
                }
            });
            crate::time::timeout(FOREVER, task).await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_local_runtime_has_a_ring_of_its_own() {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().io_backend(IoBackend::Uring);
        let Ok(runtime) = builder.build_local(Default::default()) else {
            return;
        };
        // Another thread creates the ring; it belongs to the owner nevertheless.
        let handle = runtime.handle().clone();
        std::thread::spawn(move || {
            let driver = handle.inner.world().drivers(0).driver();
            assert!(driver.ring().is_ok());
        })
        .join()
        .unwrap();
        let read = runtime.block_on(async {
            let (read, mut writer) = pipe_read();
            let writer = crate::task::spawn_local(async move {
                writer.write_all(b"x").unwrap();
            });
            let (read, _) = read.await;
            writer.await.unwrap();
            read.unwrap()
        });
        assert_eq!(read, 1);
    }

    #[test]
    fn a_runtime_may_be_dropped_with_hundreds_of_operations_in_the_kernel() {
        for runtime in [with_workers(2), current_thread()] {
            let Some(runtime) = runtime else {
                return;
            };
            let (told, tells) = mpsc::channel();
            let _writers = runtime.block_on(async {
                crate::spawn(async move {
                    let mut writers = Vec::new();
                    for _ in 0..200 {
                        let (read, writer) = pipe_read();
                        writers.push(writer);
                        let told = told.clone();
                        crate::spawn(async move {
                            let (read, _) = read.await;
                            // Only if the future lives longer than its runtime.
                            let _ = told.send(read);
                        });
                    }
                    crate::time::sleep(Duration::from_millis(2)).await;
                    writers
                })
                .await
                .unwrap()
            });
            drop(runtime); // hangs, or leaks what it must not, if they do not end
            assert!(tells.try_iter().all(|read| read.is_err()));
        }
    }
}
