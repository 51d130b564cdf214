//! Files where the system offers no more than calls that wait: on the pool.

use std::fs::File as StdFile;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_io::owned::{IoBuf, IoBufMut, Outcome};
use blitzen_util::shim::Mutex;

use super::super::engine;
use super::super::open::Flags;
use super::super::inline::InlineBackoff;

/// What can be done at once: here nobody can tell.
pub(crate) enum NoWait<T> {
    #[allow(dead_code)] // elsewhere
    Done(io::Result<T>),
    #[allow(dead_code)] // elsewhere
    WouldBlock,
    Unsupported,
}

pub(crate) fn read_nowait(_: &StdFile, _: &mut [MaybeUninit<u8>]) -> NoWait<usize> {
    NoWait::Unsupported
}

pub(crate) fn write_nowait(_: &StdFile, _: &[IoSlice<'_>]) -> NoWait<usize> {
    NoWait::Unsupported
}

/// Never made here.
pub(crate) enum ReadAhead {}

impl Future for ReadAhead {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }
}

pub(crate) fn read_ahead(_: &Arc<StdFile>, _: usize) -> Option<ReadAhead> {
    None
}

pub(crate) fn open_here(_: &Path, _: &Flags) -> Option<io::Result<StdFile>> {
    None
}

/// Whether the system may be asked at once: it cannot.
pub(crate) struct NoWaitBackoff;

impl NoWaitBackoff {
    pub(crate) const fn new() -> Self {
        Self
    }
}

pub(crate) fn exists_cached(_: &Path) -> Option<io::Result<bool>> {
    None
}

pub(crate) fn write_whole(_: &Path, _: &[u8]) -> Option<io::Result<()>> {
    None
}

/// What nobody can tell is not.
pub(crate) fn is_local(_: &Path) -> bool {
    false
}

pub(crate) fn is_local_file(_: &StdFile) -> bool {
    false
}

pub(crate) async fn read_whole(_: &Path) -> Option<io::Result<Vec<u8>>> {
    None
}

#[cfg(unix)]
fn read_once(file: &StdFile, room: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, room, offset)
}

#[cfg(windows)]
fn read_once(file: &StdFile, room: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, room, offset)
}

#[cfg(unix)]
fn write_once(file: &StdFile, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_once(file: &StdFile, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

/// Again if a signal comes in between.
fn undisturbed(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn read_into<B: IoBufMut>(file: &StdFile, buf: &mut B, offset: u64) -> io::Result<usize> {
    let (init, total) = (buf.init_len(), buf.total_len());
    let start = buf.stable_mut_ptr();
    // SAFETY: O3 of the buffer. What is not initialised yet is zeroed, since
    // these calls want bytes.
    let room = unsafe {
        start.add(init).write_bytes(0, total - init);
        std::slice::from_raw_parts_mut(start, total)
    };
    let read = undisturbed(|| read_once(file, room, offset))?;
    // SAFETY: just read.
    unsafe { buf.set_init(read) };
    Ok(read)
}

/// A transfer on what `keeper` keeps, which comes back in any case.
async fn transfer<K: Send + 'static>(
    keeper: K,
    act: impl FnOnce(&mut K) -> io::Result<usize> + Send + 'static,
) -> Outcome<K> {
    if let Err(error) = engine::enter() {
        return (Err(error), keeper);
    }
    // Shared, to get it back from a job that is refused.
    let slot = Arc::new(Mutex::new(Some(keeper)));
    let theirs = slot.clone();
    let job = move || {
        let mut keeper = theirs.lock().take()?;
        Some((act(&mut keeper), keeper))
    };
    if let Ok(Some(outcome)) = engine::start(job, false).await {
        return outcome;
    }
    match slot.lock().take() {
        Some(keeper) => (Err(engine::failed()), keeper),
        None => unreachable!("a job that has taken it returns it"),
    }
}

pub(crate) async fn read_at<B: IoBufMut + Send>(
    file: Arc<StdFile>,
    buf: B,
    offset: u64,
    _: &NoWaitBackoff,
) -> Outcome<B> {
    transfer(buf, move |buf| read_into(&file, buf, offset)).await
}

pub(crate) async fn write_at<B: IoBuf + Send>(
    file: Arc<StdFile>,
    buf: B,
    offset: u64,
    _: &NoWaitBackoff,
) -> Outcome<B> {
    let act = move |buf: &mut B| undisturbed(|| write_once(&file, buf.as_init(), offset));
    transfer(buf, act).await
}

pub(crate) async fn read_vectored_at<B: IoBufMut + Send>(
    file: Arc<StdFile>,
    bufs: Vec<B>,
    offset: u64,
    _: &NoWaitBackoff,
) -> Outcome<Vec<B>> {
    let act = move |bufs: &mut Vec<B>| {
        let mut done = 0;
        for buf in bufs {
            let read = read_into(&file, buf, offset + done as u64);
            match read {
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break, // the next read will tell
            }
            if read.is_ok_and(|read| read < buf.total_len()) {
                break;
            }
        }
        Ok(done)
    };
    transfer(bufs, act).await
}

pub(crate) async fn write_vectored_at<B: IoBuf + Send>(
    file: Arc<StdFile>,
    bufs: Vec<B>,
    offset: u64,
    _: &NoWaitBackoff,
) -> Outcome<Vec<B>> {
    let act = move |bufs: &mut Vec<B>| {
        let mut done = 0;
        for buf in bufs {
            let bytes = buf.as_init();
            match undisturbed(|| write_once(&file, bytes, offset + done as u64)) {
                Ok(written) => {
                    done += written;
                    if written < bytes.len() {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break, // the next write will tell
            }
        }
        Ok(done)
    };
    transfer(bufs, act).await
}

pub(crate) async fn sync_all(file: &Arc<StdFile>) -> io::Result<()> {
    let file = file.clone();
    engine::job(move || file.sync_all()).await
}

pub(crate) async fn sync_data(file: &Arc<StdFile>) -> io::Result<()> {
    let file = file.clone();
    engine::job(move || file.sync_data()).await
}

pub(crate) async fn set_len(
    file: &Arc<StdFile>,
    len: u64,
    _: Option<&InlineBackoff>,
) -> io::Result<()> {
    let file = file.clone();
    engine::job(move || file.set_len(len)).await
}

/// Sets room aside, so that later writes there do not run out of it.
#[cfg(target_os = "freebsd")]
pub(crate) async fn allocate(file: &Arc<StdFile>, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let file = file.clone();
    let job = move || {
        let range = (libc::off_t::try_from(offset), libc::off_t::try_from(len));
        let (Ok(offset), Ok(len)) = range else {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        };
        // SAFETY: a descriptor that is open, and numbers.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, len) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    };
    engine::job(job).await
}

pub(crate) async fn remove_file(path: PathBuf) -> io::Result<()> {
    engine::job(|| std::fs::remove_file(path)).await
}

pub(crate) async fn remove_dir(path: PathBuf) -> io::Result<()> {
    engine::job(|| std::fs::remove_dir(path)).await
}

pub(crate) async fn create_dir(path: PathBuf) -> io::Result<()> {
    engine::job(|| std::fs::create_dir(path)).await
}

pub(crate) async fn rename(from: PathBuf, to: PathBuf) -> io::Result<()> {
    engine::job(|| std::fs::rename(from, to)).await
}

pub(crate) async fn hard_link(original: PathBuf, link: PathBuf) -> io::Result<()> {
    engine::job(|| std::fs::hard_link(original, link)).await
}

#[cfg(unix)]
pub(crate) async fn symlink(original: PathBuf, link: PathBuf) -> io::Result<()> {
    engine::job(|| std::os::unix::fs::symlink(original, link)).await
}
