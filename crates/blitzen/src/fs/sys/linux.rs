//! Files on Linux: at once if everything is in memory, else on the worker's
//! ring, else, where there is none, on the pool.

use std::ffi::CString;
use std::fs::File as StdFile;
use std::future::Future;
use std::io::{self, IoSlice, Seek};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use blitzen_driver::nowait;
pub(crate) use blitzen_driver::nowait::NoWait;
use blitzen_driver::ring::file::{
    Allocate, Transfer, HardLink, CreateDir, Read, ReadVectored, Remove, Rename, SetLen, Symlink, Sync,
    TransferResult, Write, WriteVectored,
};
use blitzen_driver::ring::{Memory, Op, Operation, Pieces};
use blitzen_driver::local_fs;
pub(crate) use blitzen_driver::local_fs::{is_local, is_local_file};
use blitzen_io::owned::{IoBuf, IoBufMut, Outcome};
use blitzen_util::shim::Mutex;

use super::super::engine::{self, MOST_AT_ONCE};
use super::super::open::Flags;
use super::super::inline::{self, InlineBackoff, run_inline};
use crate::runtime::context;

/// More than this is read and written by a thread that has nothing else to do.
const MOST_IN_RING: usize = 1024 * 1024;

/// Hands an operation to the ring of this worker, or back if there is none.
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

/// Whether the ring of this worker knows an operation.
fn ring_supports(code: u8) -> bool {
    let known = context::with_current(|handle| {
        let inner = &handle.inner;
        let worker = inner.scheduler().current_worker()?;
        let ring = inner.world().drivers(worker).driver().ring().ok()?;
        Some(ring.supports(code))
    });
    matches!(known, Ok(Some(true)))
}

/// Something done with names: on the spot, on the ring, or else by a job.
async fn by_name<T: Operation<Output = io::Result<R>>, R: Send + 'static>(
    is_local: bool,
    operation: T,
    job: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    crate::task::consume_budget().await;
    if !is_local {
        return perform(operation, job).await;
    }
    match run_inline(&inline::PATHS, job) {
        Ok(done) => done,
        Err(job) => perform(operation, job).await,
    }
}

/// An operation on the ring, or else a job that does the same.
async fn perform<T: Operation<Output = io::Result<R>>, R: Send + 'static>(
    operation: T,
    job: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    match submit(operation) {
        Ok(op) => told(op.await),
        Err(_) => engine::job(job).await,
    }
}

/// A ring that was shut down has the words of a job that was refused.
fn told<R>(result: io::Result<R>) -> io::Result<R> {
    result.map_err(|error| match blitzen_driver::is_gone(&error) {
        true => engine::failed(),
        false => error,
    })
}

fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "file name contained an unexpected NUL byte",
        )
    })
}

/// Reads where the file stands, if that needs no waiting.
pub(crate) fn read_nowait(file: &StdFile, room: &mut [MaybeUninit<u8>]) -> NoWait<usize> {
    nowait::read_nowait(file, room, None)
}

/// Writes where the file stands, if that needs no waiting.
pub(crate) fn write_nowait(file: &StdFile, pieces: &[IoSlice<'_>]) -> NoWait<usize> {
    nowait::write_nowait(file, pieces, None)
}

/// Bytes on their way into the cache; what comes of it is of no interest.
pub(crate) struct ReadAhead(Op<Read<Arc<StdFile>, Vec<u8>>>);

impl Future for ReadAhead {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _outcome = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(())
    }
}

/// Brings the bytes where the file stands into the cache, if there is a ring
/// and the file stands anywhere.
pub(crate) fn read_ahead(file: &Arc<StdFile>, len: usize) -> Option<ReadAhead> {
    let offset = (&**file).stream_position().ok()?;
    let room = Memory::room(Vec::with_capacity(len));
    submit(Read::new(file.clone(), room, offset)).ok().map(ReadAhead)
}

/// Opens a file, if that needs no waiting, or is likely not to.
///
/// Otherwise not on the ring but by a job: whoever opens a named pipe waits for
/// the other end, perhaps for ever, and the kernel has few threads for a ring.
pub(crate) fn open_here(path: &Path, flags: &Flags) -> Option<io::Result<StdFile>> {
    let (is_local, path) = (is_local(path), c_string(path).ok()?);
    let (mode, flags) = (flags.mode(), flags.for_open()?);
    let open = || {
        let opened = local_fs::open_regular(&path, flags, mode)?;
        local_fs::clear_nonblock(&opened.file, flags);
        Some(StdFile::from(opened.file))
    };
    if is_local && let Ok(Some(opened)) = run_inline(&inline::PATHS, open) {
        return Some(Ok(opened));
    }
    match nowait::open_cached(&path, flags) {
        NoWait::Done(opened) => Some(opened.map(|opened| opened.file.into())),
        NoWait::WouldBlock | NoWait::Unsupported => None,
    }
}

/// Writes a whole file on the spot, if that is likely to take no waiting.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Option<io::Result<()>> {
    if !is_local(path) {
        return None;
    }
    let path = c_string(path).ok()?;
    let write = || {
        let making = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let opened = local_fs::open_regular(&path, making, 0o666)?;
        Some(io::Write::write_all(&mut StdFile::from(opened.file), contents))
    };
    run_inline(&inline::PATHS, write).ok().flatten()
}

/// Whether there is something at a path, if that is known.
pub(crate) fn exists_cached(path: &Path) -> Option<io::Result<bool>> {
    let path = c_string(path).ok()?;
    match nowait::find_cached(&path, false) {
        NoWait::Done(Ok(_)) => Some(Ok(true)),
        NoWait::Done(Err(error)) if error.kind() == io::ErrorKind::NotFound => Some(Ok(false)),
        NoWait::Done(Err(error)) => Some(Err(error)),
        NoWait::WouldBlock | NoWait::Unsupported => None,
    }
}

/// The whole of a file, if it can be opened at once; `None` if it cannot.
pub(crate) async fn read_whole(path: &Path) -> Option<io::Result<Vec<u8>>> {
    let (is_local, path) = (is_local(path), c_string(path).ok()?);
    if is_local
        && let Ok(Some(opened)) =
            run_inline(&inline::PATHS, || local_fs::open_regular(&path, libc::O_RDONLY, 0))
    {
        let len = usize::try_from(opened.len).unwrap_or(0);
        return Some(read_to_end(Arc::new(opened.file.into()), len).await);
    }
    match nowait::open_cached(&path, libc::O_RDONLY) {
        NoWait::Done(Ok(opened)) => {
            let len = usize::try_from(opened.len).unwrap_or(0);
            Some(read_to_end(Arc::new(opened.file.into()), len).await)
        }
        NoWait::Done(Err(error)) => Some(Err(error)),
        NoWait::WouldBlock | NoWait::Unsupported => None,
    }
}

async fn read_to_end(file: Arc<StdFile>, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len.saturating_add(1))?;
    loop {
        if bytes.len() == bytes.capacity() {
            bytes.try_reserve(bytes.len().max(32))?;
        }
        let offset = bytes.len();
        let room = bytes.spare_capacity_mut();
        let most = room.len().min(MOST_AT_ONCE);
        let read = match nowait::read_nowait(&*file, &mut room[..most], Some(offset as u64)) {
            NoWait::Done(read) => {
                let read = read?;
                // SAFETY: the kernel has just written them.
                unsafe { bytes.set_len(offset + read) };
                read
            }
            NoWait::WouldBlock => {
                let room = Memory::room_up_to(bytes, most);
                let read = Read::new(file.clone(), room, offset as u64);
                let (read, back) = match submit(read) {
                    Ok(op) => op.await,
                    Err(read) => return rest_by_job(file, read.into_keeper()).await,
                };
                bytes = back;
                told(read)?
            }
            NoWait::Unsupported => return rest_by_job(file, bytes).await,
        };
        // What is less than was asked for, and as much as the file had, is all.
        if read == 0 || read < most && bytes.len() == len {
            return Ok(bytes);
        }
        if read >= MOST_AT_ONCE / 2 {
            crate::task::yield_now().await; // others wait as well
        }
    }
}

#[cold]
async fn rest_by_job(file: Arc<StdFile>, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    engine::job(move || {
        let mut file = &*file;
        file.seek(io::SeekFrom::Start(bytes.len() as u64))?;
        io::Read::read_to_end(&mut file, &mut bytes)?;
        Ok(bytes)
    })
    .await
}

/// A transfer: at once, on the ring, or by a job.
async fn transfer<T: Transfer<K>, K: Send + 'static>(
    mut operation: T,
    nowait_backoff: &NoWaitBackoff,
) -> TransferResult<K> {
    if let Err(error) = engine::enter() {
        return (Err(error), operation.into_keeper());
    }
    crate::task::consume_budget().await;
    if operation.len() > MOST_IN_RING {
        return transfer_by_job(operation).await;
    }
    if nowait_backoff.is_worth_a_try()
        && let NoWait::Done(done) = operation.now()
    {
        nowait_backoff.note(false);
        return operation.finish(done);
    }
    nowait_backoff.note(true);
    match submit(operation) {
        Ok(op) => {
            let (done, back) = op.await;
            (told(done), back)
        }
        Err(operation) => transfer_by_job(operation).await,
    }
}

#[cold]
async fn transfer_by_job<T: Transfer<K>, K: Send + 'static>(operation: T) -> TransferResult<K> {
    // Shared, to get it back from a job that is refused.
    let slot = Arc::new(Mutex::new(Some(operation)));
    let theirs = slot.clone();
    let job = move || {
        let operation = theirs.lock().take();
        operation.map(Transfer::wait)
    };
    if let Ok(Some(outcome)) = engine::start(job, false).await {
        return outcome;
    }
    match slot.lock().take() {
        Some(operation) => (Err(engine::failed()), operation.into_keeper()),
        None => unreachable!("a job that has taken it returns it"),
    }
}

fn room<B: IoBufMut>(mut buf: B) -> Memory<B> {
    let (start, len) = (buf.stable_mut_ptr(), buf.total_len());
    // SAFETY: O1 to O3 of the buffer; and what was read is initialised.
    unsafe { Memory::new(buf, start, len, |buf, len| buf.set_init(len)) }
}

fn bytes<B: IoBuf>(buf: B) -> Memory<B> {
    let (start, len) = (buf.stable_ptr().cast_mut(), buf.init_len());
    // SAFETY: O1 and O2 of the buffer; it is only read.
    unsafe { Memory::new(buf, start, len, |_, _| {}) }
}

/// Whether the kernel may be asked at once: not where it had to wait again and
/// again, except now and then.
pub(crate) struct NoWaitBackoff {
    /// How often in a row it had to wait.
    waits: AtomicU8,
}

/// In a row, before the ring is asked at once.
const FEW: u8 = 4;
/// Of so many, one is tried nevertheless.
const ONE_OF: u8 = 16;

impl NoWaitBackoff {
    pub(crate) const fn new() -> Self {
        Self {
            waits: AtomicU8::new(0),
        }
    }

    fn is_worth_a_try(&self) -> bool {
        // Relaxed, here and below: a guess.
        let waits = self.waits.load(Relaxed);
        waits < FEW || waits.is_multiple_of(ONE_OF)
    }

    fn note(&self, had_to_wait: bool) {
        let waits = self.waits.load(Relaxed);
        match had_to_wait {
            // Round and round, without the few at the beginning.
            true => self.waits.store(waits.checked_add(1).unwrap_or(FEW), Relaxed),
            false if waits > 0 => self.waits.store(0, Relaxed),
            false => {}
        }
    }
}

/// Reads at an offset.
pub(crate) async fn read_at<B: IoBufMut + Send>(
    file: Arc<StdFile>,
    buf: B,
    offset: u64,
    nowait_backoff: &NoWaitBackoff,
) -> Outcome<B> {
    transfer(Read::new(file, room(buf), offset), nowait_backoff).await
}

/// Writes at an offset.
pub(crate) async fn write_at<B: IoBuf + Send>(
    file: Arc<StdFile>,
    buf: B,
    offset: u64,
    nowait_backoff: &NoWaitBackoff,
) -> Outcome<B> {
    transfer(Write::new(file, bytes(buf), offset), nowait_backoff).await
}

/// Reads at an offset, into one buffer after another.
pub(crate) async fn read_vectored_at<B: IoBufMut + Send>(
    file: Arc<StdFile>,
    mut bufs: Vec<B>,
    offset: u64,
    nowait_backoff: &NoWaitBackoff,
) -> Outcome<Vec<B>> {
    let list = bufs
        .iter_mut()
        .take(libc::UIO_MAXIOV as usize)
        .map(|buf| libc::iovec {
            iov_base: buf.stable_mut_ptr().cast(),
            iov_len: buf.total_len(),
        })
        .collect();
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
    transfer(ReadVectored::new(file, pieces, offset), nowait_backoff).await
}

/// Writes at an offset, from one buffer after another.
pub(crate) async fn write_vectored_at<B: IoBuf + Send>(
    file: Arc<StdFile>,
    bufs: Vec<B>,
    offset: u64,
    nowait_backoff: &NoWaitBackoff,
) -> Outcome<Vec<B>> {
    let list = bufs
        .iter()
        .take(libc::UIO_MAXIOV as usize)
        .map(|buf| libc::iovec {
            iov_base: buf.stable_ptr().cast_mut().cast(),
            iov_len: buf.init_len(),
        })
        .collect();
    // SAFETY: O1 and O2 of each buffer; they are only read.
    let pieces = unsafe { Pieces::new(bufs, list, |_, _| {}) };
    transfer(WriteVectored::new(file, pieces, offset), nowait_backoff).await
}

pub(crate) async fn sync_all(file: &Arc<StdFile>) -> io::Result<()> {
    let by_job = file.clone();
    perform(Sync::all(file.clone()), move || by_job.sync_all()).await
}

pub(crate) async fn sync_data(file: &Arc<StdFile>) -> io::Result<()> {
    let by_job = file.clone();
    perform(Sync::data(file.clone()), move || by_job.sync_data()).await
}

/// Cuts a file, or adds to it; with `backoff` on the spot.
pub(crate) async fn set_len(
    file: &Arc<StdFile>,
    len: u64,
    backoff: Option<&InlineBackoff>,
) -> io::Result<()> {
    crate::task::consume_budget().await;
    if let Some(backoff) = backoff
        && let Ok(set) = run_inline(backoff, || file.set_len(len))
    {
        return set;
    }
    let by_job = file.clone();
    let job = move || by_job.set_len(len);
    if !ring_supports(SetLen::<StdFile>::CODE) || i64::try_from(len).is_err() {
        return engine::job(job).await;
    }
    perform(SetLen::new(file.clone(), len), job).await
}

/// Sets room aside, so that later writes there do not run out of it.
pub(crate) async fn allocate(file: &Arc<StdFile>, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let by_job = file.clone();
    let job = move || {
        let range = (libc::off_t::try_from(offset), libc::off_t::try_from(len));
        let (Ok(offset), Ok(len)) = range else {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        };
        // SAFETY: a descriptor that is open, and numbers.
        match unsafe { libc::fallocate(by_job.as_raw_fd(), 0, offset, len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    perform(Allocate::new(file.clone(), 0, offset, len), job).await
}

pub(crate) async fn remove_file(path: PathBuf) -> io::Result<()> {
    let operation = Remove::file(c_string(&path)?);
    by_name(is_local(&path), operation, || std::fs::remove_file(path)).await
}

pub(crate) async fn remove_dir(path: PathBuf) -> io::Result<()> {
    let operation = Remove::dir(c_string(&path)?);
    by_name(is_local(&path), operation, || std::fs::remove_dir(path)).await
}

pub(crate) async fn create_dir(path: PathBuf) -> io::Result<()> {
    let operation = CreateDir::new(c_string(&path)?, 0o777);
    by_name(is_local(&path), operation, || std::fs::create_dir(path)).await
}

pub(crate) async fn rename(from: PathBuf, to: PathBuf) -> io::Result<()> {
    let operation = Rename::new(c_string(&from)?, c_string(&to)?);
    let is_local = is_local(&from) && is_local(&to);
    by_name(is_local, operation, || std::fs::rename(from, to)).await
}

pub(crate) async fn hard_link(original: PathBuf, link: PathBuf) -> io::Result<()> {
    let operation = HardLink::new(c_string(&original)?, c_string(&link)?);
    let is_local = is_local(&original) && is_local(&link);
    by_name(is_local, operation, || std::fs::hard_link(original, link)).await
}

pub(crate) async fn symlink(original: PathBuf, link: PathBuf) -> io::Result<()> {
    let operation = Symlink::new(c_string(&original)?, c_string(&link)?);
    by_name(is_local(&link), operation, || std::os::unix::fs::symlink(original, link)).await
}

/// The ring in a runtime. Pipes stand for disks, since they can be made to take
/// their time.
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
                // Busy, and never in the kernel: nothing comes in by itself but
                // with a tick of the clock.
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
            // Begun on a thread that ends: the kernel then calls it off (R5).
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
        // Somebody else makes the ring; it is the owner's nevertheless.
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
    fn a_runtime_goes_with_hundreds_of_operations_in_the_kernel() {
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
