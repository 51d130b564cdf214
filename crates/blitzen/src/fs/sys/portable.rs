//! Files without a ring: on the pool.

use std::fs::File as StdFile;
use std::future::Future;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blitzen_io::owned::{IoBuf, IoBufMut, Outcome};
use blitzen_task::JoinHandle;

use super::super::op::{self, FileCall, FileOp, PathCall};
use super::super::open::OpenFlags;
use super::super::open_file::{OpenFile, retry_interrupted};
use super::MOVES_POSITION;

/// Reads at the position.
pub(crate) fn read_blocking(mut file: &StdFile, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    room.fill(MaybeUninit::new(0));
    // SAFETY: just initialised.
    let room = unsafe { &mut *(&raw mut *room as *mut [u8]) };
    retry_interrupted(|| file.read(room))
}

/// Reads at an offset, and leaves the position alone.
pub(crate) fn read_blocking_at(file: &OpenFile, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let read = || retry_interrupted(|| read_once(&file.std, room, offset));
    file.keeper.keep(file, read)
}

/// A read-ahead into the page cache, whose result is discarded.
pub(crate) struct ReadAhead(JoinHandle<()>);

impl Future for ReadAhead {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

/// Reads the next `len` bytes of a local file into the page cache.
pub(crate) fn read_ahead(file: &Arc<OpenFile>, len: usize) -> Option<ReadAhead> {
    if !file.is_local() {
        return None;
    }
    let offset = file.position()?;
    let file = file.clone();
    let job = move || drop(read_blocking_at(&file, &mut vec![0; len], offset));
    Some(ReadAhead(op::spawn_on_pool(job, false)))
}

pub(crate) fn open_here(_: &Path, _: &OpenFlags) -> Option<io::Result<StdFile>> {
    None
}

pub(crate) fn exists_cached(_: &Path) -> Option<io::Result<bool>> {
    None
}

pub(crate) fn write_whole(_: &Path, _: &[u8]) -> Option<io::Result<()>> {
    None
}

/// Returns false: this system cannot tell.
pub(crate) fn is_local(_: &Path) -> bool {
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

fn read_into<B: IoBufMut>(file: &StdFile, buf: &mut B, offset: u64) -> io::Result<usize> {
    let (init, total) = (buf.init_len(), buf.total_len());
    let start = buf.stable_mut_ptr();
    // SAFETY: O3 of the buffer. What is not initialised yet is zeroed, since
    // these calls want bytes.
    let room = unsafe {
        start.add(init).write_bytes(0, total - init);
        std::slice::from_raw_parts_mut(start, total)
    };
    let read = retry_interrupted(|| read_once(file, room, offset))?;
    // SAFETY: just read.
    unsafe { buf.set_init(read) };
    Ok(read)
}

/// A transfer from or to `buffer`, which is returned in any case.
struct FileTransfer<B, F> {
    file: Arc<OpenFile>,
    buffer: B,
    writes: bool,
    act: F,
}

impl<B, F> FileOp<Outcome<B>> for FileTransfer<B, F>
where
    B: Send + 'static,
    F: FnOnce(&StdFile, &mut B) -> io::Result<usize> + Send + 'static,
{
    fn block(mut self) -> Outcome<B> {
        let std = &self.file.std;
        let act = || (self.act)(std, &mut self.buffer);
        (self.file.keeper.keep(&self.file, act), self.buffer)
    }

    fn refuse(self, error: io::Error) -> Outcome<B> {
        (Err(error), self.buffer)
    }

    fn changed_file(&self) -> Option<&OpenFile> {
        (self.writes || MOVES_POSITION).then_some(&*self.file)
    }
}

async fn transfer<B: Send + 'static>(
    file: &Arc<OpenFile>,
    buffer: B,
    writes: bool,
    act: impl FnOnce(&StdFile, &mut B) -> io::Result<usize> + Send + 'static,
) -> Outcome<B> {
    let file = file.clone();
    op::run(FileTransfer { file, buffer, writes, act }).await
}

pub(crate) async fn read_at<B: IoBufMut + Send>(
    file: &Arc<OpenFile>,
    buf: B,
    offset: u64,
) -> Outcome<B> {
    transfer(file, buf, false, move |file, buf| read_into(file, buf, offset)).await
}

pub(crate) async fn write_at<B: IoBuf + Send>(
    file: &Arc<OpenFile>,
    buf: B,
    offset: u64,
) -> Outcome<B> {
    let act = move |file: &StdFile, buf: &mut B| {
        retry_interrupted(|| write_once(file, buf.as_init(), offset))
    };
    transfer(file, buf, true, act).await
}

pub(crate) async fn read_vectored_at<B: IoBufMut + Send>(
    file: &Arc<OpenFile>,
    bufs: Vec<B>,
    offset: u64,
) -> Outcome<Vec<B>> {
    let act = move |file: &StdFile, bufs: &mut Vec<B>| {
        let mut done = 0;
        for buf in bufs {
            let read = read_into(file, buf, offset + done as u64);
            match read {
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break, // the next read returns the error
            }
            if read.is_ok_and(|read| read < buf.total_len()) {
                break;
            }
        }
        Ok(done)
    };
    transfer(file, bufs, false, act).await
}

pub(crate) async fn write_vectored_at<B: IoBuf + Send>(
    file: &Arc<OpenFile>,
    bufs: Vec<B>,
    offset: u64,
) -> Outcome<Vec<B>> {
    let act = move |file: &StdFile, bufs: &mut Vec<B>| {
        let mut done = 0;
        for buf in bufs {
            let bytes = buf.as_init();
            match retry_interrupted(|| write_once(file, bytes, offset + done as u64)) {
                Ok(written) => {
                    done += written;
                    if written < bytes.len() {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break, // the next write returns the error
            }
        }
        Ok(done)
    };
    transfer(file, bufs, true, act).await
}

pub(crate) async fn sync_all(file: &Arc<OpenFile>) -> io::Result<()> {
    op::run(FileCall::sync(file, StdFile::sync_all)).await
}

pub(crate) async fn sync_data(file: &Arc<OpenFile>) -> io::Result<()> {
    op::run(FileCall::sync(file, StdFile::sync_data)).await
}

pub(crate) async fn set_len(file: &Arc<OpenFile>, len: u64) -> io::Result<()> {
    op::run(FileCall::change(file, move |std: &StdFile| std.set_len(len))).await
}

/// Reserves disk space, so that later writes there do not find the disk full.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
pub(crate) async fn allocate(file: &Arc<OpenFile>, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let allocate = move |std: &StdFile| {
        let range = (libc::off_t::try_from(offset), libc::off_t::try_from(len));
        let (Ok(offset), Ok(len)) = range else {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        };
        // SAFETY: a descriptor that is open, and numbers.
        match unsafe { libc::posix_fallocate(std.as_raw_fd(), offset, len) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    };
    op::run(FileCall::change(file, allocate)).await
}

pub(crate) async fn remove_file(path: &Path) -> io::Result<()> {
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::remove_file(owned))).await
}

pub(crate) async fn remove_dir(path: &Path) -> io::Result<()> {
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::remove_dir(owned))).await
}

pub(crate) async fn create_dir(path: &Path) -> io::Result<()> {
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::create_dir(owned))).await
}

pub(crate) async fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let owned = (from.to_owned(), to.to_owned());
    let call = PathCall::on_two(from, to, || std::fs::rename(owned.0, owned.1));
    op::run(call).await
}

pub(crate) async fn hard_link(original: &Path, link: &Path) -> io::Result<()> {
    let owned = (original.to_owned(), link.to_owned());
    let call = PathCall::on_two(original, link, || std::fs::hard_link(owned.0, owned.1));
    op::run(call).await
}

#[cfg(unix)]
pub(crate) async fn symlink(original: &Path, link: &Path) -> io::Result<()> {
    let owned = (original.to_owned(), link.to_owned());
    let call = PathCall::new(link, || std::os::unix::fs::symlink(owned.0, owned.1));
    op::run(call).await
}
