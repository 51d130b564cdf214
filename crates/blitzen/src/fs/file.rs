//! An open file.
//!
//! F1. The file's position is the kernel's: clones, `into_std` and other
//!     programs that share the descriptor see it move.
//! F2. An operation first completes what was begun before it: bytes that were
//!     queued, changes whose futures were dropped, a seek that nobody waited for.

use std::fmt;
use std::fs::{File as StdFile, Metadata, Permissions};
use std::future::poll_fn;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use blitzen_io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use blitzen_util::coop;
use blitzen_util::shim::Mutex;

use super::doc::example;
use super::op::{self, FileCall, MAX_INLINE_BYTES};
use super::open_file::{OpenFile, retry_interrupted};
use super::reader::Reader;
use super::sys::{self, NoWait};
use super::{FileTimes, OpenOptions, inline};

/// The default limit of [`File::set_max_buf_size`].
const MAX_BUF_SIZE: usize = 2 * 1024 * 1024;

/// An open file that tasks read and write.
///
/// A read of bytes that are in memory returns at once. Bytes on a disk are
/// fetched by the kernel on behalf of the worker (io_uring) or, where there
/// is no io_uring, by a thread of the blocking pool.
///
/// A write returns as soon as the file has accepted its bytes. They reach the
/// kernel in order, even if the file is dropped or the runtime shut down, and
/// every later operation on the file sees them.
/// [`flush`](crate::io::AsyncWriteExt::flush) waits until they have. If they
/// could not be written, the next operation on the file returns the error.
///
/// Dropping a `File` closes it. Errors of closing are not reported: call
/// [`sync_all`](Self::sync_all) to know that everything is on the disk.
///
/// # Examples
///
#[doc = example!("use blitzen::fs::File;", "use blitzen::io::{AsyncReadExt, AsyncWriteExt};")]
/// let mut file = File::create_new(dir.join("greeting")).await?;
/// file.write_all(b"hello, world!").await?;
/// file.flush().await?;
///
/// let mut file = File::open(dir.join("greeting")).await?;
/// let mut text = String::new();
/// file.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello, world!");
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Cancel safety
/// A `read`, `write` or `seek` that is dropped before it completes has moved
/// no bytes; the seek still takes place before the next operation. A change
/// such as `set_len` whose future is dropped may still be made; the next
/// operation on the file starts after it.
pub struct File {
    pub(super) file: Arc<OpenFile>,
    cursor: Mutex<FileCursor>,
    max_buf_size: usize,
}

/// What is under way at the file's position.
struct FileCursor {
    reader: Reader,
    seek: SeekState,
}

enum SeekState {
    /// No seek was started; the position after the last one.
    Done(u64),
    Wanted(SeekFrom),
}

impl FileCursor {
    fn new() -> Self {
        Self {
            reader: Reader::new(),
            seek: SeekState::Done(0),
        }
    }

    /// Makes the seek that was started. `lseek(2)` never waits.
    fn complete_seek(&mut self, mut std: &StdFile) -> io::Result<u64> {
        match std::mem::replace(&mut self.seek, SeekState::Done(0)) {
            SeekState::Done(position) => {
                self.seek = SeekState::Done(position);
                Ok(position)
            }
            SeekState::Wanted(to) => {
                let position = std.seek(to)?;
                self.seek = SeekState::Done(position);
                Ok(position)
            }
        }
    }
}

impl File {
    /// Opens the file at `path` for reading.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;", "use blitzen::io::AsyncReadExt;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let mut file = File::open(dir.join("file")).await?;
    /// let mut bytes = Vec::new();
    /// file.read_to_end(&mut bytes).await?;
    /// assert_eq!(bytes, b"hello");
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `open(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) or
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if
    /// the runtime has been shut down.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens the file at `path` for writing. Creates it if it does not exist,
    /// and truncates it if it does.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;", "use blitzen::io::AsyncWriteExt;")]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.flush().await?;
    /// # assert_eq!(fs::read(dir.join("file")).await?, b"hello");
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `open(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) for a missing directory,
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) or
    /// [`IsADirectory`](io::ErrorKind::IsADirectory); or an error if the
    /// runtime has been shut down.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Creates a file at `path` and opens it for reading and writing. Fails
    /// if something exists there.
    ///
    /// # Examples
    ///
    #[doc = example!("use std::io::ErrorKind;", "use blitzen::fs::File;")]
    /// File::create_new(dir.join("file")).await?;
    /// let error = File::create_new(dir.join("file")).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `open(2)`, such as
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists),
    /// [`NotFound`](io::ErrorKind::NotFound) for a missing directory, or
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if
    /// the runtime has been shut down.
    pub async fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(path).await
    }

    /// Returns new [`OpenOptions`]. The same as [`OpenOptions::new`].
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::options().write(true).create(true).open(dir.join("file")).await?;
    /// # drop(file);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Wraps a file that std has opened.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;", "use blitzen::io::AsyncReadExt;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let mut file = File::from_std(std::fs::File::open(dir.join("file"))?);
    /// assert_eq!(file.read_u8().await?, b'h');
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn from_std(std: StdFile) -> File {
        Self::from_open_file(OpenFile::new(std))
    }

    fn from_open_file(file: OpenFile) -> Self {
        File {
            file: Arc::new(file),
            cursor: Mutex::new(FileCursor::new()),
            max_buf_size: MAX_BUF_SIZE,
        }
    }

    /// Completes what was begun before (F2).
    pub(super) async fn settle(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_settle(cx)).await
    }

    fn poll_settle(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.file.write_back.poll_idle(cx))?;
        Poll::Ready(self.cursor.lock().complete_seek(&self.file.std).map(drop))
    }

    /// As [`settle`](Self::settle), before a change that a read must not miss.
    pub(super) async fn settle_for_change(&self) -> io::Result<()> {
        self.settle().await?;
        self.cursor.lock().reader.invalidate();
        Ok(())
    }

    /// Waits until everything that was written, and all metadata, is on the
    /// disk.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;", "use blitzen::io::AsyncWriteExt;")]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.sync_all().await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `fsync(2)`, such as
    /// [`StorageFull`](io::ErrorKind::StorageFull); or an error if the
    /// runtime has been shut down.
    pub async fn sync_all(&self) -> io::Result<()> {
        op::enter()?;
        self.settle().await?;
        sys::sync_all(&self.file).await
    }

    /// Waits until everything that was written is on the disk, with only as
    /// much metadata as is needed to find it again.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;", "use blitzen::io::AsyncWriteExt;")]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.sync_data().await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `fdatasync(2)`, such as
    /// [`StorageFull`](io::ErrorKind::StorageFull); or an error if the
    /// runtime has been shut down.
    pub async fn sync_data(&self) -> io::Result<()> {
        op::enter()?;
        self.settle().await?;
        sys::sync_data(&self.file).await
    }

    /// Truncates the file to `size` bytes, or extends it with zeroes. The
    /// position stays where it is.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;", "use blitzen::io::AsyncWriteExt;")]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.set_len(2).await?;
    /// # assert_eq!(fs::read(dir.join("file")).await?, b"he");
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// The file may or may not have the new length if the future is dropped.
    /// The next operation on it starts after that is decided.
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `ftruncate(2)`, such as
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a file that is not
    /// open for writing, or [`FileTooLarge`](io::ErrorKind::FileTooLarge); or
    /// an error if the runtime has been shut down.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        op::enter()?;
        self.settle_for_change().await?;
        sys::set_len(&self.file, size).await
    }

    /// Reserves disk space for `len` bytes from `offset` on, so that writes
    /// there do not find the disk full. The file grows if it was shorter.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create(dir.join("file")).await?;
    /// file.allocate(0, 1 << 16).await?;
    /// assert_eq!(file.metadata().await?.len(), 1 << 16);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// As for [`set_len`](Self::set_len).
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `fallocate(2)` (`posix_fallocate(2)` on FreeBSD), such as
    /// [`StorageFull`](io::ErrorKind::StorageFull),
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge), or
    /// [`Unsupported`](io::ErrorKind::Unsupported) on a file system that
    /// cannot; or an error if the runtime has been shut down.
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    pub async fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        op::enter()?;
        self.settle_for_change().await?;
        sys::allocate(&self.file, offset, len).await
    }

    /// Returns the metadata of the file.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let file = File::open(dir.join("file")).await?;
    /// assert_eq!(file.metadata().await?.len(), 5);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `statx(2)`; or an error if the runtime has been shut down.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        op::enter()?;
        self.settle().await?;
        op::run(FileCall::query(&self.file, StdFile::metadata)).await
    }

    /// Returns another `File` for the same descriptor's open file. Both share
    /// one position.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;", "use blitzen::io::AsyncReadExt;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let mut file = File::open(dir.join("file")).await?;
    /// let mut clone = file.try_clone().await?;
    /// assert_eq!(file.read_u8().await?, b'h');
    /// assert_eq!(clone.read_u8().await?, b'e');
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `fcntl(2)` if there are too many open files; or an error if
    /// the runtime has been shut down.
    pub async fn try_clone(&self) -> io::Result<File> {
        op::enter()?;
        self.settle().await?;
        let mut clone = Self::from_open_file(self.file.try_clone()?);
        clone.max_buf_size = self.max_buf_size;
        Ok(clone)
    }

    /// Waits until everything that was written has reached the kernel, and
    /// returns the file for std.
    ///
    /// Errors of earlier writes are dropped: call
    /// [`flush`](crate::io::AsyncWriteExt::flush) before to see them.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create(dir.join("file")).await?;
    /// let std: std::fs::File = file.into_std().await;
    /// # drop(std);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future drops the file.
    pub async fn into_std(mut self) -> StdFile {
        // Errors of earlier operations cannot be returned.
        let _ = self.settle().await;
        poll_fn(|cx| self.cursor.get_mut().reader.poll_idle(cx)).await;
        loop {
            self = match self.take_std() {
                Ok(std) => return std,
                Err(file) => file,
            };
            crate::task::yield_now().await;
        }
    }

    /// Returns the file for std, if nothing is under way.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create(dir.join("file")).await?;
    /// let std: std::fs::File = file.try_into_std().expect("nothing was written");
    /// # drop(std);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the file itself if bytes have not reached the kernel yet, or
    /// an operation is under way whose future was dropped.
    #[allow(clippy::result_large_err)] // it is what the caller had
    pub fn try_into_std(mut self) -> Result<StdFile, Self> {
        let cursor = self.cursor.get_mut();
        if self.file.write_back.is_busy() || cursor.reader.is_busy() {
            return Err(self);
        }
        // Its error cannot be returned.
        let _ = cursor.complete_seek(&self.file.std);
        self.take_std()
    }

    #[allow(clippy::result_large_err)] // it is what the caller had
    fn take_std(mut self) -> Result<StdFile, Self> {
        *self.cursor.get_mut() = FileCursor::new(); // a read-ahead has the file too
        match Arc::try_unwrap(self.file) {
            Ok(file) => Ok(file.std),
            // A read whose future was dropped has not ended.
            Err(file) => file.std.try_clone().map_err(|_| File { file, ..self }),
        }
    }

    /// Sets the permissions of the file.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create(dir.join("file")).await?;
    /// let mut permissions = file.metadata().await?.permissions();
    /// permissions.set_readonly(true);
    /// file.set_permissions(permissions).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `fchmod(2)`, such as
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if
    /// the runtime has been shut down.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        op::enter()?;
        self.settle().await?;
        let set = |std: &StdFile| std.set_permissions(permissions);
        op::run(FileCall::change(&self.file, set)).await
    }

    /// Sets the timestamps of the file.
    ///
    /// # Examples
    ///
    #[doc = example!("use std::time::SystemTime;", "use blitzen::fs::{File, FileTimes};")]
    /// let file = File::create(dir.join("file")).await?;
    /// let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    /// file.set_times(times).await?;
    /// assert_eq!(file.metadata().await?.modified()?, SystemTime::UNIX_EPOCH);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of an earlier write that could not be completed, or
    /// that of `futimens(3)`, such as
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if
    /// the runtime has been shut down.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        op::enter()?;
        self.settle().await?; // or queued bytes would change them once more
        let set = move |std: &StdFile| std.set_times(times.0);
        op::run(FileCall::change(&self.file, set)).await
    }

    /// Sets the time of the last modification of the file to `when`.
    ///
    /// # Examples
    ///
    #[doc = example!("use std::time::SystemTime;", "use blitzen::fs::File;")]
    /// let file = File::create(dir.join("file")).await?;
    /// file.set_modified(SystemTime::UNIX_EPOCH).await?;
    /// assert_eq!(file.metadata().await?.modified()?, SystemTime::UNIX_EPOCH);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// As for [`set_times`](Self::set_times).
    pub async fn set_modified(&self, when: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(when)).await
    }

    /// Sets how many bytes one read or write moves at most, and how many
    /// written bytes the file accepts before they reach the kernel.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.set_max_buf_size(8 * 1024 * 1024);
    /// assert_eq!(file.max_buf_size(), 8 * 1024 * 1024);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Panics
    /// Panics if `max_buf_size` is zero.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// Returns the limit that [`set_max_buf_size`](Self::set_max_buf_size)
    /// has set; 2 MiB at first.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::File;")]
    /// let file = File::create(dir.join("file")).await?;
    /// assert_eq!(file.max_buf_size(), 2 * 1024 * 1024);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }

    fn poll_write_pieces(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        op::enter()?;
        let cursor = self.cursor.get_mut();
        if let SeekState::Wanted(_) = cursor.seek {
            ready!(self.file.write_back.poll_idle(cx))?;
            cursor.complete_seek(&self.file.std)?;
        }
        cursor.reader.invalidate();
        let written = match self.write_here(pieces) {
            Some(written) => written,
            None => {
                let (file, max_len) = (&self.file, self.max_buf_size);
                ready!(file.write_back.poll_push(cx, file, pieces, max_len))
            }
        };
        spent.made_progress();
        Poll::Ready(written)
    }

    /// Writes without waiting, or on this thread if that is likely to be short.
    fn write_here(&self, pieces: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        let file = &*self.file;
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if len > self.max_buf_size.min(MAX_INLINE_BYTES) || !file.write_back.is_clean() {
            return None;
        }
        match file.write_nowait(pieces) {
            NoWait::Done(written) => return Some(written),
            NoWait::WouldBlock => return None,
            NoWait::Unsupported => {}
        }
        if !file.is_local() {
            return None;
        }
        let write = |pieces| retry_interrupted(|| (&file.std).write_vectored(pieces));
        inline::run(&file.inline, pieces, write).ok()
    }
}

impl AsyncRead for File {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let spent = ready!(coop::poll_proceed(cx));
        op::enter()?;
        ready!(this.file.write_back.poll_idle(cx))?; // F2
        let cursor = this.cursor.get_mut();
        cursor.complete_seek(&this.file.std)?;
        let (file, max_len) = (&this.file, this.max_buf_size);
        let read = ready!(cursor.reader.poll_read(cx, file, buf, max_len));
        spent.made_progress();
        Poll::Ready(read)
    }
}

impl AsyncWrite for File {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_pieces(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_pieces(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let spent = ready!(coop::poll_proceed(cx));
        let arrived = ready!(self.file.write_back.poll_idle(cx));
        spent.made_progress();
        Poll::Ready(arrived)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let cursor = self.cursor.get_mut();
        if let SeekState::Wanted(_) = cursor.seek {
            return Err(io::Error::other(
                "a seek is under way: wait with `poll_complete` before the next",
            ));
        }
        cursor.seek = SeekState::Wanted(position);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let spent = ready!(coop::poll_proceed(cx));
        op::enter()?;
        let this = &mut *self;
        let cursor = this.cursor.get_mut();
        if let SeekState::Wanted(_) = cursor.seek {
            ready!(this.file.write_back.poll_idle(cx))?;
        }
        let position = cursor.complete_seek(&this.file.std);
        spent.made_progress();
        Poll::Ready(position)
    }
}

impl From<StdFile> for File {
    fn from(std: StdFile) -> Self {
        Self::from_std(std)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("tokio::fs::File")
            .field("std", &self.file.std)
            .finish()
    }
}

#[cfg(unix)]
mod unix {
    use super::{File, StdFile};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

    impl AsFd for File {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.file.std.as_fd()
        }
    }

    impl AsRawFd for File {
        fn as_raw_fd(&self) -> RawFd {
            self.file.std.as_raw_fd()
        }
    }

    impl FromRawFd for File {
        unsafe fn from_raw_fd(fd: RawFd) -> Self {
            // SAFETY: the caller upholds the same contract.
            unsafe { StdFile::from_raw_fd(fd) }.into()
        }
    }

    impl From<OwnedFd> for File {
        fn from(fd: OwnedFd) -> Self {
            StdFile::from(fd).into()
        }
    }
}

#[cfg(windows)]
mod windows {
    use super::{File, StdFile};
    use std::os::windows::io::{
        AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle, RawHandle,
    };

    impl AsHandle for File {
        fn as_handle(&self) -> BorrowedHandle<'_> {
            self.file.std.as_handle()
        }
    }

    impl AsRawHandle for File {
        fn as_raw_handle(&self) -> RawHandle {
            self.file.std.as_raw_handle()
        }
    }

    impl FromRawHandle for File {
        unsafe fn from_raw_handle(handle: RawHandle) -> Self {
            // SAFETY: the caller upholds the same contract.
            unsafe { StdFile::from_raw_handle(handle) }.into()
        }
    }

    impl From<OwnedHandle> for File {
        fn from(handle: OwnedHandle) -> Self {
            StdFile::from(handle).into()
        }
    }
}
