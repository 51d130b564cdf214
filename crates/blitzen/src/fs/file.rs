//! An open file.
//!
//! F1. The file's position is the kernel's: clones, `into_std` and other
//!     programs that share the descriptor see it move.
//! F2. Whatever depends on the position, or on what was written, first waits
//!     until nothing is on its way: reads until the write_back is empty, writes and
//!     seeks also until the reader has given back what it read too much.

use std::fmt;
use std::fs::{File as StdFile, Metadata, Permissions};
use std::future::poll_fn;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use blitzen_io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use blitzen_util::coop;
use blitzen_util::shim::Mutex;

use super::inline::{InlineBackoff, run_inline};
use super::reader::Reader;
use super::sys::{self, NoWait, NoWaitBackoff};
use super::write_back::WriteBack;
use super::{FileTimes, OpenOptions, doc, engine};

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
    pub(super) std: Arc<StdFile>,
    pub(super) write_back: Arc<WriteBack>,
    reader: Mutex<Reader>,
    seek: SeekState,
    max_buf_size: usize,
    writing: Writing,
    /// Whether it is a regular one, of this machine; once that is known.
    is_local: OnceLock<bool>,
    backoff: InlineBackoff,
    /// Whether it is worth asking, for positional operations.
    pub(super) nowait_backoff: NoWaitBackoff,
}

/// How bytes are written.
#[derive(Clone, Copy)]
enum Writing {
    /// At once: the kernel can tell what needs no waiting.
    AtOnce,
    /// It cannot, but it is likely.
    Inline,
    /// By a job.
    Elsewhere,
}

enum SeekState {
    /// Where the file stood after the last seek.
    Done(u64),
    Wanted(SeekFrom),
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
            std: Arc::new(std),
            write_back: Arc::default(),
            reader: Mutex::new(Reader::new()),
            seek: SeekState::Done(0),
            max_buf_size: MAX_BUF_SIZE,
            writing: Writing::AtOnce,
            is_local: OnceLock::new(),
            backoff: InlineBackoff::new(),
            nowait_backoff: NoWaitBackoff::new(),
        }
    }

    /// Waits until everything that was written has arrived. Tells why it could
    /// not.
    pub(super) async fn arrived(&self) -> io::Result<()> {
        poll_fn(|cx| self.write_back.poll_idle(cx)).await
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
        engine::enter()?;
        self.arrived().await?;
        sys::sync_all(&self.std).await
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
        engine::enter()?;
        self.arrived().await?;
        sys::sync_data(&self.std).await
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
        engine::enter()?;
        self.arrived().await?;
        self.give_back();
        sys::set_len(&self.std, size, self.is_local().then_some(&self.backoff)).await
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
        engine::enter()?;
        self.arrived().await?;
        sys::allocate(&self.std, offset, len).await
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
        engine::enter()?;
        self.arrived().await?;
        if self.is_local() {
            crate::task::consume_budget().await;
            return self.std.metadata(); // in memory, as long as it is open
        }
        let std = self.std.clone();
        engine::job(move || std.metadata()).await
    }

    fn is_local(&self) -> bool {
        *self.is_local.get_or_init(|| sys::is_local_file(&self.std))
    }

    /// Does something on the spot, if that is likely to take no waiting; or else
    /// by a job.
    async fn act<T: Send + 'static>(
        &self,
        act: impl FnOnce(&StdFile) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        crate::task::consume_budget().await;
        let std = self.std.clone();
        let act = move || act(&std);
        match self.is_local() {
            true => match run_inline(&self.backoff, act) {
                Ok(done) => done,
                Err(act) => engine::job(act).await,
            },
            false => engine::job(act).await,
        }
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
        engine::enter()?;
        self.arrived().await?;
        self.give_back();
        let mut clone = File::from_std(self.std.try_clone()?);
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
        poll_fn(|cx| {
            // An error of an earlier write has nobody to go to.
            let _ = ready!(self.poll_settled(cx));
            Poll::Ready(())
        })
        .await;
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
        if self.write_back.is_busy() || self.reader.get_mut().is_busy() {
            return Err(self);
        }
        self.give_back();
        self.take_std()
    }

    #[allow(clippy::result_large_err)] // it is what the caller had
    fn take_std(self) -> Result<StdFile, Self> {
        *self.reader.lock() = Reader::new(); // which may have it too
        match Arc::try_unwrap(self.std) {
            Ok(std) => Ok(std),
            // The kernel is still busy with a read that nobody waits for.
            Err(std) => std.try_clone().map_err(|_| File { std, ..self }),
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
        engine::enter()?;
        self.act(|std| std.set_permissions(permissions)).await
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
        engine::enter()?;
        self.arrived().await?; // or that would change them once more
        self.act(move |std| std.set_times(times.0)).await
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

    /// Makes the file's own position that of the reader, unless a read is under
    /// way whose future was dropped.
    fn give_back(&self) {
        let mut reader = self.reader.lock();
        if !reader.is_busy() {
            reader.give_back(&self.std);
        }
    }

    /// Waits until everything has arrived and the position is the reader's (F2).
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.write_back.poll_idle(cx))?;
        self.reader.get_mut().poll_settle(cx, &self.std)
    }

    /// Waits until the seek that was begun is through.
    fn poll_seek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let to = match self.seek {
            SeekState::Done(position) => return Poll::Ready(Ok(position)),
            SeekState::Wanted(to) => to,
        };
        ready!(self.poll_settled(cx))?;
        self.seek = SeekState::Done(0);
        // Only moves a number: nothing to wait for.
        let position = (&*self.std).seek(to)?;
        self.seek = SeekState::Done(position);
        Poll::Ready(Ok(position))
    }

    fn poll_write_pieces(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let spent = ready!(coop::poll_proceed(cx));
        engine::enter()?;
        ready!(self.poll_seek(cx))?;
        ready!(self.reader.get_mut().poll_settle(cx, &self.std))?;
        let written = match self.write_here(pieces) {
            Some(written) => written,
            None => {
                let most = self.max_buf_size;
                ready!(self.write_back.poll_put(cx, &self.std, pieces, most))
            }
        };
        spent.made_progress();
        Poll::Ready(written)
    }

    /// Writes if that needs no waiting, or is likely not to.
    fn write_here(&mut self, pieces: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let most = self.max_buf_size.min(engine::MOST_AT_ONCE);
        if len > most || self.write_back.has_news() {
            return None;
        }
        if let Writing::AtOnce = self.writing {
            match sys::write_nowait(&self.std, pieces) {
                NoWait::Done(written) => return Some(written),
                NoWait::WouldBlock => return None,
                NoWait::Unsupported => {}
            }
            self.writing = match self.is_local() {
                true => Writing::Inline,
                false => Writing::Elsewhere,
            };
        }
        match self.writing {
            Writing::Inline => run_inline(&self.backoff, || write_some(&self.std, pieces)).ok(),
            Writing::AtOnce | Writing::Elsewhere => None,
        }
    }
}

/// One write, again if a signal comes in between.
fn write_some(mut file: &StdFile, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match file.write_vectored(pieces) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => return written,
        }
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
        engine::enter()?;
        ready!(this.poll_seek(cx))?;
        ready!(this.write_back.poll_idle(cx))?; // F2
        let most = this.max_buf_size;
        let read = ready!(this.reader.get_mut().poll_read(cx, &this.std, buf, most));
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
        let arrived = ready!(self.write_back.poll_idle(cx));
        spent.made_progress();
        Poll::Ready(arrived)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        if matches!(self.seek, SeekState::Wanted(_)) {
            return Err(io::Error::other(
                "a seek is under way: wait with `poll_complete` before the next",
            ));
        }
        self.seek = SeekState::Wanted(position);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let spent = ready!(coop::poll_proceed(cx));
        engine::enter()?;
        let position = ready!(self.poll_seek(cx));
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
            .field("std", &self.std)
            .finish()
    }
}

#[cfg(unix)]
mod unix {
    use super::{File, StdFile};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

    impl AsFd for File {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.std.as_fd()
        }
    }

    impl AsRawFd for File {
        fn as_raw_fd(&self) -> RawFd {
            self.std.as_raw_fd()
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
            self.std.as_handle()
        }
    }

    impl AsRawHandle for File {
        fn as_raw_handle(&self) -> RawHandle {
            self.std.as_raw_handle()
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
