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

use super::op::{self, PathCall};
use super::{doc, sys};

/// Entries that a job reads before it reports.
const BATCH: usize = 64;

/// Makes a directory.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::create_dir(dir.join("new")).await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// Its parent is missing, something of that name is there, or it may not be
/// made.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    sys::create_dir(path.as_ref()).await
}

/// Makes a directory, and those it is in where they are missing.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::create_dir_all(dir.join("a/b/c")).await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// Something on the way is no directory, or one may not be made.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::create_dir_all(owned))).await
}

/// Removes an empty directory.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::create_dir(dir.join("empty")).await?;
/// fs::remove_dir(dir.join("empty")).await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// It is not there, not empty, no directory, or may not be removed.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    sys::remove_dir(path.as_ref()).await
}

/// Removes a directory and everything in it. Links are removed, not followed.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::create_dir_all(dir.join("a/b/c")).await?;
/// fs::remove_dir_all(dir.join("a")).await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// The first thing that could not be removed.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    op::run(PathCall::on_pool(|| std::fs::remove_dir_all(path))).await
}

/// Makes directories in ways of your choice.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::DirBuilder::new().recursive(true).create(dir.join("a/b")).await?;
#[doc = doc::end!()]
#[doc = "```"]
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    #[cfg(unix)]
    mode: Option<u32>,
}

impl DirBuilder {
    /// Makes one directory, with the usual permissions.
    ///
    /// ```
    /// let builder = blitzen::fs::DirBuilder::new();
    /// # drop(builder);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether parents that are missing are made as well, and a directory that
    /// is there already is fine.
    ///
    /// ```
    /// let mut builder = blitzen::fs::DirBuilder::new();
    /// builder.recursive(true);
    /// ```
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// The permissions of what is made, less what the process masks.
    ///
    /// ```
    /// let mut builder = blitzen::fs::DirBuilder::new();
    /// builder.mode(0o700);
    /// ```
    #[cfg(unix)]
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Makes a directory.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// fs::DirBuilder::new().create(dir.join("new")).await?;
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// As for [`create_dir`] and [`create_dir_all`].
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

/// Looks into a directory.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// # fs::write(dir.join("one"), b"").await?;
/// let mut entries = fs::read_dir(&dir).await?;
/// while let Some(entry) = entries.next_entry().await? {
///     println!("{}", entry.path().display());
/// }
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// It is not there, no directory, or may not be looked into.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let owned = path.to_owned();
    let read = || Ok(Batch::read(std::fs::read_dir(owned)?));
    let batch = op::run(PathCall::new(path, read)).await?;
    Ok(ReadDir(State::Batch(batch)))
}

/// What is in a directory, in no order.
///
/// As with std, what changes meanwhile may be seen or not.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// # fs::write(dir.join("one"), b"").await?;
/// let mut entries = fs::read_dir(&dir).await?;
/// assert_eq!(entries.next_entry().await?.unwrap().file_name(), "one");
/// assert!(entries.next_entry().await?.is_none());
#[doc = doc::end!()]
#[doc = "```"]
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir(State);

#[derive(Debug)]
enum State {
    Batch(Batch),
    Job(JoinHandle<Batch>),
    /// A job was lost, and the directory with it.
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
    /// The next entry, or `None` at the end.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut entries = fs::read_dir(&dir).await?;
    /// assert!(entries.next_entry().await?.is_none());
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// The system's. The next call goes on.
    ///
    /// # Cancel safety
    /// A future that is dropped has taken no entry.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// Polls for the next entry.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut entries = fs::read_dir(&dir).await?;
    /// let entry = std::future::poll_fn(|cx| entries.poll_next_entry(cx)).await?;
    /// assert!(entry.is_none());
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// As for [`next_entry`](Self::next_entry).
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        let spent = ready!(blitzen_util::coop::poll_proceed(cx));
        loop {
            match &mut self.0 {
                State::Batch(batch) => {
                    if let Some(entry) = batch.entries.pop_front() {
                        spent.made_progress();
                        return Poll::Ready(entry.map(Some));
                    }
                    let Some(rest) = batch.rest.take() else {
                        return Poll::Ready(Ok(None));
                    };
                    self.0 = State::Job(op::spawn_on_pool(|| Batch::read(rest), false));
                }
                State::Job(job) => {
                    self.0 = match ready!(Pin::new(job).poll(cx)) {
                        Ok(batch) => State::Batch(batch),
                        Err(_) => State::Lost,
                    };
                }
                State::Lost => return Poll::Ready(Err(op::refused())),
            }
        }
    }
}

/// Something in a directory.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// # fs::write(dir.join("one"), b"hello").await?;
/// let mut entries = fs::read_dir(&dir).await?;
/// while let Some(entry) = entries.next_entry().await? {
///     println!("{:?}: {} bytes", entry.file_name(), entry.metadata().await?.len());
/// }
#[doc = doc::end!()]
#[doc = "```"]
#[derive(Debug)]
pub struct DirEntry {
    std: Arc<std::fs::DirEntry>,
    /// If the directory has told it.
    file_type: Option<FileType>,
}

impl DirEntry {
    fn new(std: std::fs::DirEntry) -> Self {
        Self {
            // On the pool, where this may wait: some file systems do not keep
            // it in the directory.
            file_type: std.file_type().ok(),
            std: Arc::new(std),
        }
    }

    /// Its path: that of the directory, and the name.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("one"), b"").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert_eq!(entry.path(), dir.join("one"));
    #[doc = doc::end!()]
    #[doc = "```"]
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Its name.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("one"), b"").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert_eq!(entry.file_name(), "one");
    #[doc = doc::end!()]
    #[doc = "```"]
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// What is known of it. Links are not followed.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("one"), b"hello").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert_eq!(entry.metadata().await?.len(), 5);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// It is gone, or may not be looked at.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = self.std.clone();
        op::run(PathCall::new(&self.path(), move || std.metadata())).await
    }

    /// Whether it is a file, a directory, a link. Links are not followed.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("one"), b"").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert!(entry.file_type().await?.is_file());
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// It is gone, or may not be looked at.
    pub async fn file_type(&self) -> io::Result<FileType> {
        if let Some(file_type) = self.file_type {
            return Ok(file_type);
        }
        let std = self.std.clone();
        op::run(PathCall::on_pool(move || std.file_type())).await
    }

    /// The number of its inode.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// # fs::write(dir.join("one"), b"").await?;
    /// let entry = fs::read_dir(&dir).await?.next_entry().await?.unwrap();
    /// assert!(entry.ino() > 0);
    #[doc = doc::end!()]
    #[doc = "```"]
    #[cfg(unix)]
    pub fn ino(&self) -> u64 {
        use std::os::unix::fs::DirEntryExt;
        self.std.ino()
    }
}
