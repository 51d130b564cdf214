//! Directories: making them, removing them, and what is in them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{FileType, Metadata};
use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use blitzen_task::JoinHandle;

use super::doc::example;
use super::op::{self, PathCall};
use super::sys;

/// Entries that a job reads before it reports.
const BATCH: usize = 64;

/// Creates a directory at `path`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::create_dir(dir.join("new")).await?;
/// assert!(fs::metadata(dir.join("new")).await?.is_dir());
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `mkdir(2)`, such as
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists),
/// [`NotFound`](io::ErrorKind::NotFound) for a missing parent, or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    sys::create_dir(path.as_ref()).await
}

/// Creates a directory at `path`, and its parents where they are missing.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::create_dir_all(dir.join("a/b/c")).await?;
/// assert!(fs::metadata(dir.join("a/b/c")).await?.is_dir());
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `mkdir(2)`, such as
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) or
/// [`NotADirectory`](io::ErrorKind::NotADirectory) if something on the way is
/// no directory, or [`PermissionDenied`](io::ErrorKind::PermissionDenied); or
/// an error if the runtime has been shut down.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::create_dir_all(owned))).await
}

/// Removes the empty directory at `path`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::create_dir(dir.join("empty")).await?;
/// fs::remove_dir(dir.join("empty")).await?;
/// assert!(!fs::try_exists(dir.join("empty")).await?);
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `rmdir(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound),
/// [`DirectoryNotEmpty`](io::ErrorKind::DirectoryNotEmpty),
/// [`NotADirectory`](io::ErrorKind::NotADirectory) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    sys::remove_dir(path.as_ref()).await
}

/// Removes the directory at `path` and everything in it. Symbolic links are
/// removed, not followed.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::create_dir_all(dir.join("a/b/c")).await?;
/// fs::remove_dir_all(dir.join("a")).await?;
/// assert!(!fs::try_exists(dir.join("a")).await?);
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Cancel safety
/// The removal goes on if the future is dropped.
///
/// # Errors
/// Returns the first error of `openat(2)`, `getdents(2)` or `unlinkat(2)`,
/// such as [`NotFound`](io::ErrorKind::NotFound) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    op::run(PathCall::on_pool(|| std::fs::remove_dir_all(path))).await
}

/// Creates directories with options.
///
/// # Examples
///
#[doc = example!("use blitzen::fs::DirBuilder;")]
/// DirBuilder::new().recursive(true).create(dir.join("a/b")).await?;
/// # assert!(dir.join("a/b").is_dir());
/// # std::fs::remove_dir_all(&dir) }
/// ```
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    #[cfg(unix)]
    mode: Option<u32>,
}

impl DirBuilder {
    /// Creates a builder for a single directory with the usual permissions.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::DirBuilder;")]
    /// DirBuilder::new().create(dir.join("new")).await?;
    /// # assert!(dir.join("new").is_dir());
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether missing parents are created as well. If so, a directory
    /// that exists already is no error.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::DirBuilder;")]
    /// let mut builder = DirBuilder::new();
    /// builder.recursive(true).create(dir.join("a/b")).await?;
    /// builder.create(dir.join("a/b")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Sets the permissions of new directories, from which the umask of the
    /// process is taken. The default is 0o777.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::DirBuilder;")]
    /// DirBuilder::new().mode(0o700).create(dir.join("private")).await?;
    /// # assert!(dir.join("private").is_dir());
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    #[cfg(unix)]
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Creates a directory at `path` with these options.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::DirBuilder;")]
    /// DirBuilder::new().create(dir.join("new")).await?;
    /// # assert!(dir.join("new").is_dir());
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// As for [`create_dir`], or for [`create_dir_all`] if the builder is
    /// recursive.
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let owned = path.to_owned();
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(self.recursive);
        #[cfg(unix)]
        if let Some(mode) = self.mode {
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
        }
        op::run(PathCall::new(path, move || builder.create(owned))).await
    }
}

/// Returns the entries of the directory at `path`, in no order.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// # fs::write(dir.join("one"), b"").await?;
/// let mut entries = fs::read_dir(&dir).await?;
/// while let Some(entry) = entries.next_entry().await? {
///     println!("{}", entry.path().display());
/// }
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `opendir(3)`, such as
/// [`NotFound`](io::ErrorKind::NotFound),
/// [`NotADirectory`](io::ErrorKind::NotADirectory) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let owned = path.to_owned();
    let read = || Ok(Batch::read(std::fs::read_dir(owned)?));
    let batch = op::run(PathCall::new(path, read)).await?;
    Ok(ReadDir(ReadDirState::Batch(batch)))
}

/// The entries of a directory, from [`read_dir`].
///
/// Whether entries show up that are created or removed meanwhile is not
/// specified, as with std.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// # fs::write(dir.join("one"), b"").await?;
/// let mut entries = fs::read_dir(&dir).await?;
/// assert_eq!(entries.next_entry().await?.unwrap().file_name(), "one");
/// assert!(entries.next_entry().await?.is_none());
/// # std::fs::remove_dir_all(&dir) }
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir(ReadDirState);

#[derive(Debug)]
enum ReadDirState {
    Batch(Batch),
    Job(JoinHandle<Batch>),
    /// A job was cancelled, and the directory is lost with it.
    Lost,
}

/// Some entries, and the rest of the directory.
#[derive(Debug)]
struct Batch {
    entries: VecDeque<io::Result<DirEntry>>,
    /// `None` at its end.
    rest: Option<std::fs::ReadDir>,
}

impl Batch {
    fn read(mut rest: std::fs::ReadDir) -> Self {
        let mut entries = VecDeque::with_capacity(BATCH);
        while entries.len() < BATCH {
            match rest.next() {
                Some(Ok(entry)) => entries.push_back(Ok(DirEntry::new(entry))),
                Some(Err(error)) => {
                    entries.push_back(Err(error));
                    return Self {
                        entries,
                        rest: Some(rest),
                    };
                }
                None => {
                    return Self {
                        entries,
                        rest: None,
                    };
                }
            }
        }
        Self {
            entries,
            rest: Some(rest),
        }
    }
}

impl ReadDir {
    /// Returns the next entry, or `None` after the last one.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs;")]
    /// let mut entries = fs::read_dir(&dir).await?;
    /// assert!(entries.next_entry().await?.is_none());
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// A future that is dropped has taken no entry.
    ///
    /// # Errors
    /// Returns the error of `readdir(3)`; the next call goes on behind it.
    /// Returns an error for good if the runtime has been shut down.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// Polls for the next entry, or `None` after the last one.
    ///
    /// # Examples
    ///
    #[doc = example!("use std::future::poll_fn;", "use blitzen::fs;")]
    /// let mut entries = fs::read_dir(&dir).await?;
    /// let entry = poll_fn(|cx| entries.poll_next_entry(cx)).await?;
    /// assert!(entry.is_none());
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// As for [`next_entry`](Self::next_entry).
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        let spent = ready!(blitzen_util::coop::poll_proceed(cx));
        loop {
            match &mut self.0 {
                ReadDirState::Batch(batch) => {
                    if let Some(entry) = batch.entries.pop_front() {
                        spent.made_progress();
                        return Poll::Ready(entry.map(Some));
                    }
                    let Some(rest) = batch.rest.take() else {
                        return Poll::Ready(Ok(None));
                    };
                    self.0 = ReadDirState::Job(op::spawn_on_pool(|| Batch::read(rest), false));
                }
                ReadDirState::Job(job) => {
                    self.0 = match ready!(Pin::new(job).poll(cx)) {
                        Ok(batch) => ReadDirState::Batch(batch),
                        Err(_) => ReadDirState::Lost,
                    };
                }
                ReadDirState::Lost => return Poll::Ready(Err(op::refused())),
            }
        }
    }
}

/// An entry of a directory, from [`ReadDir`].
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// # fs::write(dir.join("one"), b"hello").await?;
/// let mut entries = fs::read_dir(&dir).await?;
/// while let Some(entry) = entries.next_entry().await? {
///     println!("{:?}: {} bytes", entry.file_name(), entry.metadata().await?.len());
/// }
/// # std::fs::remove_dir_all(&dir) }
/// ```
#[derive(Debug)]
pub struct DirEntry {
    std: Arc<std::fs::DirEntry>,
    /// The type, if the directory contains it.
    file_type: Option<FileType>,
}

impl DirEntry {
    fn new(std: std::fs::DirEntry) -> Self {
        Self {
            // Called on the pool, since it may block: some file systems do not store
            // the type in the directory.
            file_type: std.file_type().ok(),
            std: Arc::new(std),
        }
    }

    /// Returns the path of the entry: that of the directory as it was given,
    /// and the name.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs;")]
    /// # fs::write(dir.join("one"), b"hello").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert_eq!(entry.path(), dir.join("one"));
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Returns the name of the entry.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs;")]
    /// # fs::write(dir.join("one"), b"hello").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert_eq!(entry.file_name(), "one");
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// Returns the metadata of the entry. Symbolic links are not followed.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs;")]
    /// # fs::write(dir.join("one"), b"hello").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert_eq!(entry.metadata().await?.len(), 5);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `statx(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) if the entry has been removed;
    /// or an error if the runtime has been shut down.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = self.std.clone();
        op::run(PathCall::new(&self.path(), move || std.metadata())).await
    }

    /// Returns whether the entry is a file, a directory or something else.
    /// Symbolic links are not followed.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs;")]
    /// # fs::write(dir.join("one"), b"hello").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert!(entry.file_type().await?.is_file());
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `statx(2)`, which is called only if the directory
    /// does not tell the type; or an error if the runtime has been shut down.
    pub async fn file_type(&self) -> io::Result<FileType> {
        if let Some(file_type) = self.file_type {
            return Ok(file_type);
        }
        let std = self.std.clone();
        op::run(PathCall::on_pool(move || std.file_type())).await
    }

    /// Returns the inode number of the entry.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs;")]
    /// # fs::write(dir.join("one"), b"hello").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert!(entry.ino() > 0);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    #[cfg(unix)]
    pub fn ino(&self) -> u64 {
        use std::os::unix::fs::DirEntryExt;
        self.std.ino()
    }
}
