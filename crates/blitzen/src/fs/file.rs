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

use super::op::{self, FileCall, MAX_INLINE_BYTES};
use super::open_file::{OpenFile, retry_interrupted};
use super::reader::Reader;
use super::sys::{self, NoWait};
use super::{FileTimes, OpenOptions, doc, inline};

/// The most bytes that are on their way at once, unless told otherwise.
const MAX_BUF_SIZE: usize = 2 * 1024 * 1024;

/// An open file that can be read and written by tasks.
///
/// Bytes that are in memory are read on the spot. What has to come from a disk
/// is waited for by the kernel on behalf of the worker (io_uring), or, where
/// that is not to be had, by a thread of the blocking pool.
///
/// A write returns when its bytes have been handed over. They are on their way
/// then, and arrive even if the file is dropped or the runtime shut down; every
/// later operation on the file sees them. [`flush`](crate::io::AsyncWriteExt::flush)
/// waits until they have arrived. If they cannot, the next operation says so.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// let mut file = File::create_new(dir.join("greeting")).await?;
/// file.write_all(b"hello, world!").await?;
/// file.flush().await?;
///
/// let mut file = File::open(dir.join("greeting")).await?;
/// let mut text = String::new();
/// file.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello, world!");
#[doc = doc::end!()]
#[doc = "```"]
///
/// Files are closed when they are dropped. An error in doing so is not seen: to
/// know that everything is on the disk, call [`sync_all`](Self::sync_all).
pub struct File {
    pub(super) file: Arc<OpenFile>,
    cursor: Mutex<Cursor>,
    max_buf_size: usize,
}

/// What is under way at the file's position.
struct Cursor {
    reader: Reader,
    seek: SeekState,
}

enum SeekState {
    /// Where the file stood after the last seek.
    Done(u64),
    Wanted(SeekFrom),
}

impl Cursor {
    fn new() -> Self {
        Self {
            reader: Reader::new(),
            seek: SeekState::Done(0),
        }
    }

    /// Makes the seek that was wanted. It only moves a number, and never waits.
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
    /// Opens a file to read it.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let mut file = File::open(dir.join("file")).await?;
    /// let mut bytes = Vec::new();
    /// file.read_to_end(&mut bytes).await?;
    /// assert_eq!(bytes, b"hello");
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file to write it, which is made if there is none, and emptied if
    /// there is one.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.flush().await?;
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Makes a file to read and write it; it must not be there before.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// File::create_new(dir.join("file")).await?;
    /// let error = File::create_new(dir.join("file")).await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub async fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(path).await
    }

    /// Options with which to open a file.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let file = File::options().write(true).create(true).open(dir.join("file")).await?;
    /// # drop(file);
    #[doc = doc::end!()]
    #[doc = "```"]
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Takes a file that std has opened.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let mut file = File::from_std(std::fs::File::open(dir.join("file"))?);
    /// assert_eq!(file.read_u8().await?, b'h');
    #[doc = doc::end!()]
    #[doc = "```"]
    pub fn from_std(std: StdFile) -> File {
        File {
            file: Arc::new(OpenFile::new(std)),
            cursor: Mutex::new(Cursor::new()),
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

    /// Brings what was written, and everything known of the file, to the disk.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.sync_all().await?;
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// That of an earlier write, or the disk's.
    pub async fn sync_all(&self) -> io::Result<()> {
        op::enter()?;
        self.settle().await?;
        sys::sync_all(&self.file).await
    }

    /// Brings what was written to the disk, and of what is known of the file
    /// only as much as is needed to find it again.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.sync_data().await?;
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// That of an earlier write, or the disk's.
    pub async fn sync_data(&self) -> io::Result<()> {
        op::enter()?;
        self.settle().await?;
        sys::sync_data(&self.file).await
    }

    /// Makes the file as long as that: cuts it, or adds zeroes. Its position
    /// stays where it is.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.write_all(b"hello").await?;
    /// file.set_len(2).await?;
    /// assert_eq!(fs::read(dir.join("file")).await?, b"he");
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// That of an earlier write; or the file is not open to be written, or the
    /// disk is full.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        op::enter()?;
        self.settle_for_change().await?;
        sys::set_len(&self.file, size).await
    }

    /// Sets room aside for `len` bytes from `offset` on, so that writes there do
    /// not find the disk full. The file grows if it was shorter.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let file = File::create(dir.join("file")).await?;
    /// file.allocate(0, 1 << 16).await?;
    /// assert_eq!(file.metadata().await?.len(), 1 << 16);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// That of an earlier write; or the file is not open to be written, the disk
    /// is full, or its file system cannot do that.
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    pub async fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        op::enter()?;
        self.settle_for_change().await?;
        sys::allocate(&self.file, offset, len).await
    }

    /// What is known of the file.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let file = File::open(dir.join("file")).await?;
    /// assert_eq!(file.metadata().await?.len(), 5);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// That of an earlier write, or the system's.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        op::enter()?;
        self.settle().await?;
        op::run(FileCall::query(&self.file, StdFile::metadata)).await
    }

    /// Another handle to the same file, with the same position.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let mut file = File::open(dir.join("file")).await?;
    /// let mut clone = file.try_clone().await?;
    /// assert_eq!(file.read_u8().await?, b'h');
    /// assert_eq!(clone.read_u8().await?, b'e');
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// That of an earlier write, or there are too many open files.
    pub async fn try_clone(&self) -> io::Result<File> {
        op::enter()?;
        self.settle().await?;
        let mut clone = File::from_std(self.file.std.try_clone()?);
        clone.max_buf_size = self.max_buf_size;
        Ok(clone)
    }

    /// The file for std, when everything that was written has arrived.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let file = File::create(dir.join("file")).await?;
    /// let std: std::fs::File = file.into_std().await;
    /// # drop(std);
    #[doc = doc::end!()]
    #[doc = "```"]
    pub async fn into_std(mut self) -> StdFile {
        // Errors of what was begun before have nobody to go to.
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

    /// The file for std, if nothing is under way.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let file = File::create(dir.join("file")).await?;
    /// let std: std::fs::File = file.try_into_std().expect("nothing was written");
    /// # drop(std);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// The file back.
    #[allow(clippy::result_large_err)] // it is what the caller had
    pub fn try_into_std(mut self) -> Result<StdFile, Self> {
        let cursor = self.cursor.get_mut();
        if self.file.write_back.is_busy() || cursor.reader.is_busy() {
            return Err(self);
        }
        // Its error has nobody to go to.
        let _ = cursor.complete_seek(&self.file.std);
        self.take_std()
    }

    #[allow(clippy::result_large_err)] // it is what the caller had
    fn take_std(mut self) -> Result<StdFile, Self> {
        *self.cursor.get_mut() = Cursor::new(); // a read-ahead has the file too
        match Arc::try_unwrap(self.file) {
            Ok(file) => Ok(file.std),
            // The kernel is still busy with a read that nobody waits for.
            Err(file) => file.std.try_clone().map_err(|_| File { file, ..self }),
        }
    }

    /// Sets the permissions of the file.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let file = File::create(dir.join("file")).await?;
    /// let mut permissions = file.metadata().await?.permissions();
    /// permissions.set_readonly(true);
    /// file.set_permissions(permissions).await?;
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// The system's: it may not be ours to change.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        op::enter()?;
        self.settle().await?;
        let set = |std: &StdFile| std.set_permissions(permissions);
        op::run(FileCall::change(&self.file, set)).await
    }

    /// Sets when the file was last used.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// use std::time::SystemTime;
    ///
    /// let file = File::create(dir.join("file")).await?;
    /// let times = fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    /// file.set_times(times).await?;
    /// assert_eq!(file.metadata().await?.modified()?, SystemTime::UNIX_EPOCH);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// That of an earlier write, or the system's.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        op::enter()?;
        self.settle().await?; // or queued bytes would change them once more
        let set = move |std: &StdFile| std.set_times(times.0);
        op::run(FileCall::change(&self.file, set)).await
    }

    /// Sets when the file was last written.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let file = File::create(dir.join("file")).await?;
    /// file.set_modified(std::time::SystemTime::UNIX_EPOCH).await?;
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// As for [`set_times`](Self::set_times).
    pub async fn set_modified(&self, when: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(when)).await
    }

    /// The most bytes that a read or a write moves, and that are on their way
    /// at once.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut file = File::create(dir.join("file")).await?;
    /// file.set_max_buf_size(8 * 1024 * 1024);
    /// assert_eq!(file.max_buf_size(), 8 * 1024 * 1024);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// What [`set_max_buf_size`](Self::set_max_buf_size) has set; 2 MiB at first.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let file = File::create(dir.join("file")).await?;
    /// assert_eq!(file.max_buf_size(), 2 * 1024 * 1024);
    #[doc = doc::end!()]
    #[doc = "```"]
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
            // SAFETY: the caller's.
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
            // SAFETY: the caller's.
            unsafe { StdFile::from_raw_handle(handle) }.into()
        }
    }

    impl From<OwnedHandle> for File {
        fn from(handle: OwnedHandle) -> Self {
            StdFile::from(handle).into()
        }
    }
}
