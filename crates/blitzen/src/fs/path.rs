//! Functions that take a path and need no open file.

use std::fs::{Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use blitzen_io::AsyncWriteExt;

use super::doc::example;
use super::op::{self, FileOp, MAX_INLINE_BYTES, PathCall};
use super::{File, sys};

/// Contents up to this size are copied, and written by one job, which also creates
/// the file.
const MAX_IN_ONE_JOB: usize = 2 * 1024 * 1024;

/// Reads the whole file at `path`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), b"hello").await?;
/// assert_eq!(fs::read(dir.join("file")).await?, b"hello");
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `open(2)` or `read(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound),
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) or
/// [`IsADirectory`](io::ErrorKind::IsADirectory); or an error if the runtime
/// has been shut down.
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

/// Reads the whole file at `path` as a string.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), "hello").await?;
/// assert_eq!(fs::read_to_string(dir.join("file")).await?, "hello");
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// As for [`read`], and [`InvalidData`](io::ErrorKind::InvalidData) if the
/// file is not UTF-8.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let contents = read(path).await?;
    String::from_utf8(contents).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "stream did not contain valid UTF-8",
        )
    })
}

/// Writes `contents` to the file at `path`. Creates it if it does not exist,
/// and replaces its contents if it does.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), b"hello").await?;
/// assert_eq!(fs::read(dir.join("file")).await?, b"hello");
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Cancel safety
/// Any part of `contents` may have been written, or may yet be, if the future
/// is dropped.
///
/// # Errors
/// Returns the error of `open(2)` or `write(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound) for a missing directory,
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied),
/// [`IsADirectory`](io::ErrorKind::IsADirectory) or
/// [`StorageFull`](io::ErrorKind::StorageFull); or an error if the runtime
/// has been shut down.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    op::enter()?;
    crate::task::consume_budget().await;
    let (path, contents) = (path.as_ref(), contents.as_ref());
    if contents.len() <= MAX_INLINE_BYTES
        && let Some(written) = sys::write_whole(path, contents)
    {
        return written;
    }
    if contents.len() <= MAX_IN_ONE_JOB {
        let (path, contents) = (path.to_owned(), contents.to_owned());
        return op::run(PathCall::on_pool(|| std::fs::write(path, contents))).await;
    }
    let mut file = File::create(path).await?;
    file.write_all(contents).await?;
    file.flush().await
}

/// Copies the contents and permissions of the file `from` to the file `to`,
/// which is replaced if it exists. Returns the number of bytes.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), b"hello").await?;
/// assert_eq!(fs::copy(dir.join("file"), dir.join("copy")).await?, 5);
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Cancel safety
/// The copying goes on if the future is dropped.
///
/// # Errors
/// Returns the error of `open(2)`, `copy_file_range(2)` or `fchmod(2)`, such
/// as [`NotFound`](io::ErrorKind::NotFound),
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) or
/// [`StorageFull`](io::ErrorKind::StorageFull);
/// [`InvalidInput`](io::ErrorKind::InvalidInput) if `from` is no file; or an
/// error if the runtime has been shut down.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    op::run(PathCall::on_pool(|| std::fs::copy(from, to))).await
}

/// Renames the file or directory `from` to `to`, which is replaced if it
/// exists.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("draft"), b"hello").await?;
/// fs::rename(dir.join("draft"), dir.join("final")).await?;
/// assert_eq!(fs::read(dir.join("final")).await?, b"hello");
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `rename(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound),
/// [`CrossesDevices`](io::ErrorKind::CrossesDevices) if `to` is on another
/// file system, or [`PermissionDenied`](io::ErrorKind::PermissionDenied); or
/// an error if the runtime has been shut down.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    sys::rename(from.as_ref(), to.as_ref()).await
}

/// Removes the file at `path`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), b"hello").await?;
/// fs::remove_file(dir.join("file")).await?;
/// assert!(!fs::try_exists(dir.join("file")).await?);
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `unlink(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound),
/// [`IsADirectory`](io::ErrorKind::IsADirectory) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    sys::remove_file(path.as_ref()).await
}

/// Creates a hard link at `link` to the file `original`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), b"hello").await?;
/// fs::hard_link(dir.join("file"), dir.join("also")).await?;
/// assert_eq!(fs::read(dir.join("also")).await?, b"hello");
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `linkat(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound),
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) or
/// [`CrossesDevices`](io::ErrorKind::CrossesDevices); or an error if the
/// runtime has been shut down.
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    sys::hard_link(original.as_ref(), link.as_ref()).await
}

/// Creates a symbolic link at `link` that points to `original`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), b"hello").await?;
/// fs::symlink(dir.join("file"), dir.join("link")).await?;
/// assert_eq!(fs::read_link(dir.join("link")).await?, dir.join("file"));
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `symlink(2)`, such as
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists),
/// [`NotFound`](io::ErrorKind::NotFound) for a missing directory, or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
#[cfg(unix)]
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    sys::symlink(original.as_ref(), link.as_ref()).await
}

/// Creates a symbolic link at `link` that points to the directory `original`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::create_dir(dir.join("original")).await?;
/// fs::symlink_dir(dir.join("original"), dir.join("link")).await?;
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `CreateSymbolicLinkW`, such as
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
#[cfg(windows)]
pub async fn symlink_dir(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_owned(), link.as_ref().to_owned());
    op::run(PathCall::on_pool(|| {
        std::os::windows::fs::symlink_dir(original, link)
    }))
    .await
}

/// Creates a symbolic link at `link` that points to the file `original`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("original"), b"hello").await?;
/// fs::symlink_file(dir.join("original"), dir.join("link")).await?;
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `CreateSymbolicLinkW`, such as
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
#[cfg(windows)]
pub async fn symlink_file(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_owned(), link.as_ref().to_owned());
    op::run(PathCall::on_pool(|| {
        std::os::windows::fs::symlink_file(original, link)
    }))
    .await
}

/// Returns the path that the symbolic link at `path` points to.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// # #[cfg(unix)] {
/// fs::symlink("elsewhere", dir.join("link")).await?;
/// assert_eq!(fs::read_link(dir.join("link")).await?.to_str(), Some("elsewhere"));
/// # }
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `readlink(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound), or
/// [`InvalidInput`](io::ErrorKind::InvalidInput) if there is no symbolic link
/// at `path`; or an error if the runtime has been shut down.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::read_link(owned))).await
}

/// Returns the absolute form of `path`, without symbolic links and dots.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// let path = fs::canonicalize(dir.join(".")).await?;
/// assert!(path.is_absolute());
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `realpath(3)`, such as
/// [`NotFound`](io::ErrorKind::NotFound) or
/// [`NotADirectory`](io::ErrorKind::NotADirectory); or an error if the
/// runtime has been shut down.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::canonicalize(owned))).await
}

/// Returns the metadata of what is at `path`. Symbolic links are followed.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// assert!(fs::metadata(&dir).await?.is_dir());
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `statx(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::metadata(owned))).await
}

/// Returns the metadata of what is at `path`. Symbolic links are not
/// followed.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// # #[cfg(unix)] {
/// fs::symlink(&dir, dir.join("link")).await?;
/// assert!(fs::symlink_metadata(dir.join("link")).await?.is_symlink());
/// # }
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `statx(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || std::fs::symlink_metadata(owned))).await
}

/// Sets the permissions of the file or directory at `path`.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// fs::write(dir.join("file"), b"hello").await?;
/// let mut permissions = fs::metadata(dir.join("file")).await?.permissions();
/// permissions.set_readonly(true);
/// fs::set_permissions(dir.join("file"), permissions).await?;
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `chmod(2)`, such as
/// [`NotFound`](io::ErrorKind::NotFound) or
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied); or an error if the
/// runtime has been shut down.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    let owned = path.to_owned();
    op::run(PathCall::new(path, || {
        std::fs::set_permissions(owned, permissions)
    }))
    .await
}

/// Returns whether there is something at `path`. Symbolic links are followed.
///
/// # Examples
///
#[doc = example!("use blitzen::fs;")]
/// assert!(fs::try_exists(&dir).await?);
/// assert!(!fs::try_exists(dir.join("nothing")).await?);
/// # std::fs::remove_dir_all(&dir) }
/// ```
///
/// # Errors
/// Returns the error of `statx(2)` or `openat2(2)` if that cannot be known,
/// such as [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a
/// directory on the way; or an error if the runtime has been shut down.
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
