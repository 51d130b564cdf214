//! What can be done with a path in one go.

use std::fs::{Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use blitzen_io::AsyncWriteExt;

use super::op::{self, FileOp, MAX_INLINE_BYTES, PathCall};
use super::{File, doc, sys};

/// Contents up to this size are copied and written by one job, which makes the
/// file as well.
const MOST_IN_ONE_JOB: usize = 2 * 1024 * 1024;

/// Reads a whole file.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), b"hello").await?;
/// assert_eq!(fs::read(dir.join("file")).await?, b"hello");
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// As for [`File::open`] and for reading.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    op::enter()?;
    crate::task::consume_budget().await;
    let path = path.as_ref();
    match sys::read_whole(path).await {
        Some(contents) => contents,
        None => {
            let path = path.to_owned();
            op::run(PathCall::on_pool(|| std::fs::read(path))).await
        }
    }
}

/// Reads a whole file of text.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), "hello").await?;
/// assert_eq!(fs::read_to_string(dir.join("file")).await?, "hello");
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// As for [`read`], and [`InvalidData`](io::ErrorKind::InvalidData) if it is
/// not UTF-8.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let contents = read(path).await?;
    String::from_utf8(contents).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "stream did not contain valid UTF-8",
        )
    })
}

/// Writes a whole file, which is made if there is none, and replaced if there is
/// one.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), b"hello").await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// As for [`File::create`] and for writing.
///
/// # Cancel safety
/// What has been written is not known if the future is dropped.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    op::enter()?;
    crate::task::consume_budget().await;
    let (path, contents) = (path.as_ref(), contents.as_ref());
    if contents.len() <= MAX_INLINE_BYTES
        && let Some(written) = sys::write_whole(path, contents)
    {
        return written;
    }
    if contents.len() <= MOST_IN_ONE_JOB {
        let (path, contents) = (path.to_owned(), contents.to_owned());
        return op::run(PathCall::on_pool(|| std::fs::write(path, contents))).await;
    }
    let mut file = File::create(path).await?;
    file.write_all(contents).await?;
    file.flush().await
}

/// Copies a file with its permissions, and returns how many bytes it has.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), b"hello").await?;
/// assert_eq!(fs::copy(dir.join("file"), dir.join("copy")).await?, 5);
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// As for opening, reading and writing.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    op::run(PathCall::on_pool(|| std::fs::copy(from, to))).await
}

/// Gives a file or a directory another name, and replaces what had it.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("draft"), b"hello").await?;
/// fs::rename(dir.join("draft"), dir.join("final")).await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// It is not there, the other is on another disk, or they may not be changed.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    sys::rename(from.as_ref(), to.as_ref()).await
}

/// Removes a file.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), b"hello").await?;
/// fs::remove_file(dir.join("file")).await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// It is not there, is a directory, or may not be removed.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    sys::remove_file(path.as_ref()).await
}

/// Makes a second name for a file.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), b"hello").await?;
/// fs::hard_link(dir.join("file"), dir.join("also")).await?;
/// assert_eq!(fs::read(dir.join("also")).await?, b"hello");
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// It is not there, the other name is taken or on another disk.
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    sys::hard_link(original.as_ref(), link.as_ref()).await
}

/// Makes a symbolic link that leads to `original`.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), b"hello").await?;
/// fs::symlink(dir.join("file"), dir.join("link")).await?;
/// assert_eq!(fs::read_link(dir.join("link")).await?, dir.join("file"));
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// The link's name is taken, or it may not be made.
#[cfg(unix)]
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    sys::symlink(original.as_ref(), link.as_ref()).await
}

/// Makes a symbolic link to a directory.
///
/// # Errors
/// The link's name is taken, or it may not be made.
#[cfg(windows)]
pub async fn symlink_dir(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_owned(), link.as_ref().to_owned());
    op::run(PathCall::on_pool(|| {
        std::os::windows::fs::symlink_dir(original, link)
    }))
    .await
}

/// Makes a symbolic link to a file.
///
/// # Errors
/// The link's name is taken, or it may not be made.
#[cfg(windows)]
pub async fn symlink_file(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_owned(), link.as_ref().to_owned());
    op::run(PathCall::on_pool(|| {
        std::os::windows::fs::symlink_file(original, link)
    }))
    .await
}

/// Where a symbolic link leads.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// # #[cfg(unix)] {
/// fs::symlink("elsewhere", dir.join("link")).await?;
/// assert_eq!(fs::read_link(dir.join("link")).await?.to_str(), Some("elsewhere"));
/// # }
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// It is not there, or is no link.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::read_link(owned))).await
}

/// The path from the root on, without links and dots.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// let path = fs::canonicalize(dir.join(".")).await?;
/// assert!(path.is_absolute());
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// There is nothing there, or a part of the path is no directory.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::canonicalize(owned))).await
}

/// What is known of a file or a directory. Links are followed.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// assert!(fs::metadata(&dir).await?.is_dir());
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// There is nothing there, or it may not be looked at.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::metadata(owned))).await
}

/// What is known of a file, a directory or a link itself.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// # #[cfg(unix)] {
/// fs::symlink(&dir, dir.join("link")).await?;
/// assert!(fs::symlink_metadata(dir.join("link")).await?.is_symlink());
/// # }
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// There is nothing there, or it may not be looked at.
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::symlink_metadata(owned))).await
}

/// Sets the permissions of a file or a directory.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// fs::write(dir.join("file"), b"hello").await?;
/// let mut permissions = fs::metadata(dir.join("file")).await?.permissions();
/// permissions.set_readonly(true);
/// fs::set_permissions(dir.join("file"), permissions).await?;
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// There is nothing there, or it is not ours to change.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || {
        std::fs::set_permissions(owned, permissions)
    }))
    .await
}

/// Whether there is something at a path. Links are followed.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// assert!(fs::try_exists(&dir).await?);
/// assert!(!fs::try_exists(dir.join("nothing")).await?);
#[doc = doc::end!()]
#[doc = "```"]
///
/// # Errors
/// It cannot be known, as when a directory may not be looked into.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    op::run(TryExists(path.as_ref().to_owned())).await
}

struct TryExists(PathBuf);

impl FileOp<io::Result<bool>> for TryExists {
    fn nowait(self) -> Result<io::Result<bool>, Self> {
        sys::exists_cached(&self.0).ok_or(self)
    }

    fn block(self) -> io::Result<bool> {
        self.0.try_exists()
    }

    fn refuse(self, error: io::Error) -> io::Result<bool> {
        Err(error)
    }
}
