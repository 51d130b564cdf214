//! Which paths and files are on a local file system: one of this machine, not of a file
//! server.
//!
//! Creating, opening and removing files takes some microseconds there, unless the kernel
//! has to wait for the disk. No flag makes the kernel refuse instead of wait. But if the
//! directory is in memory the call is likely to be short, and calls that could wait for
//! another program, perhaps for ever, are excluded here.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use blitzen_util::backoff::Backoff;

use crate::nowait::{NoWait, Opened, file_type, find_cached, is_regular, stat_cached, statx};

/// Returns whether a path's directory is in memory, on a local file system, according to
/// the last check.
///
/// ```
/// use std::path::Path;
/// use blitzen_driver::local_fs::is_local;
///
/// println!("{}", is_local(Path::new("/etc/passwd")));
/// assert!(!is_local(Path::new("/proc/self/status")), "no disk, but a program");
/// ```
pub fn is_local(path: &Path) -> bool {
    let directory = directory_of(path.as_os_str().as_bytes());
    DIR_CACHE.with_borrow_mut(|cache| cache.check(directory))
}

/// Returns the path without its last component.
fn directory_of(path: &[u8]) -> &[u8] {
    let Some(end) = path.iter().rposition(|&byte| byte != b'/') else {
        return path;
    };
    match path[..end].iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/",
        Some(slash) => &path[..slash],
        None => b".",
    }
}

thread_local! {
    static DIR_CACHE: RefCell<DirCache> = const { RefCell::new(DirCache::new()) };
}

/// The last directories that a thread has checked, the newest first: two, since
/// files are renamed from one to another. A check takes three system calls, about
/// as many as what is then done there.
struct DirCache {
    entries: [CachedDir; 2],
}

struct CachedDir {
    path: Vec<u8>,
    is_local: bool,
    /// Checked again ever less often, as long as the answer stays the same.
    recheck: Backoff<64>,
}

impl CachedDir {
    const fn new() -> Self {
        Self {
            path: Vec::new(),
            is_local: false,
            recheck: Backoff::new(),
        }
    }
}

impl DirCache {
    const fn new() -> Self {
        Self {
            entries: [CachedDir::new(), CachedDir::new()],
        }
    }

    fn check(&mut self, path: &[u8]) -> bool {
        if self.entries[0].path != path {
            self.entries.swap(0, 1);
        }
        let entry = &mut self.entries[0];
        if entry.path != path {
            entry.path.clear();
            entry.path.extend_from_slice(path);
            entry.recheck = Backoff::new();
            entry.is_local = check_dir(path);
        } else if entry.recheck.begin_attempt() {
            let before = std::mem::replace(&mut entry.is_local, check_dir(path));
            match before == entry.is_local {
                true => entry.recheck.fail(), // it is not local
                false => entry.recheck.succeed(),
            }
        }
        entry.is_local
    }
}

fn check_dir(path: &[u8]) -> bool {
    let Ok(path) = CString::new(path) else {
        return false;
    };
    matches!(find_cached(&path, false), NoWait::Done(Ok(found)) if is_on_local_fs(found.as_fd()))
}

/// The kind of an open file, which decides how it is read and written.
///
/// ```
/// use blitzen_driver::local_fs::{FileKind, file_kind};
///
/// assert_eq!(file_kind(std::fs::File::open("/dev/null")?), FileKind::Stream);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file on a local file system, with the page cache.
    Local,
    /// Another regular file, or a block device.
    Seekable,
    /// Anything else: bytes that were read cannot be read again.
    Stream,
}

/// Returns what kind of file it is.
///
/// ```
/// use blitzen_driver::local_fs::{FileKind, file_kind};
///
/// let (reader, _writer) = std::io::pipe()?;
/// assert_eq!(file_kind(reader), FileKind::Stream);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn file_kind(file: impl AsFd) -> FileKind {
    let file = file.as_fd();
    let file_type = match stat_cached(file) {
        Some(stat) => file_type(&stat),
        None => file_type_without_statx(file),
    };
    match file_type {
        libc::S_IFREG if is_on_local_fs(file) && !is_direct(file) => FileKind::Local,
        libc::S_IFREG | libc::S_IFBLK => FileKind::Seekable,
        _ => FileKind::Stream,
    }
}

/// Returns the type of a file where there is no `statx(2)`. It may wait for a file
/// server.
#[cold]
fn file_type_without_statx(file: BorrowedFd<'_>) -> libc::mode_t {
    // SAFETY: a structure of integers, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for the answer.
    unsafe { libc::fstat(file.as_raw_fd(), &mut stat) };
    stat.st_mode & libc::S_IFMT
}

/// Whether a file is read and written past the page cache.
fn is_direct(file: BorrowedFd<'_>) -> bool {
    // SAFETY: asks for the flags of an open descriptor.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags & libc::O_DIRECT != 0
}

/// Whether the file system is known to have no server.
fn is_on_local_fs(file: BorrowedFd<'_>) -> bool {
    const RAMFS: u64 = 0x8584_58f6;
    const ZFS: u64 = 0x2fc1_2fc1;
    const BCACHEFS: u64 = 0xca45_1a4e;
    // SAFETY: a structure of integers, for which zero is valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for the answer.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &mut stat) } != 0 {
        return false;
    }
    // The type of this field differs between targets.
    #[allow(clippy::unnecessary_cast)]
    let kind = u64::from(stat.f_type as u32);
    let known = [
        libc::EXT4_SUPER_MAGIC as u64,
        libc::XFS_SUPER_MAGIC as u64,
        libc::BTRFS_SUPER_MAGIC as u64,
        libc::F2FS_SUPER_MAGIC as u64,
        libc::TMPFS_MAGIC as u64,
        libc::OVERLAYFS_SUPER_MAGIC as u64,
        RAMFS,
        ZFS,
        BCACHEFS,
    ];
    known.contains(&kind)
}

/// Opens a regular file with the flags of `open(2)`, or creates it if they say so.
///
/// It may wait for a disk, but never for another program:
/// [`Unsupported`](NoWait::Unsupported) for anything but a regular file.
///
/// ```
/// use blitzen_driver::local_fs::open_regular;
/// use blitzen_driver::nowait::NoWait;
///
/// if let NoWait::Done(opened) = open_regular(c"/etc/passwd", libc::O_RDONLY, 0) {
///     assert!(opened?.len > 0);
/// }
/// assert!(matches!(open_regular(c"/dev/null", libc::O_RDONLY, 0), NoWait::Unsupported));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_regular(path: &CStr, flags: i32, mode: libc::mode_t) -> NoWait<Opened> {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE || flags & libc::O_PATH != 0 {
        return NoWait::Unsupported;
    }
    if flags & libc::O_CREAT != 0 {
        // Creating a new file waits for no other process.
        match open(path, flags | libc::O_EXCL, mode) {
            Ok(file) => {
                return NoWait::Done(Ok(Opened {
                    file,
                    len: 0,
                    is_nonblocking: false,
                }));
            }
            Err(error) if flags & libc::O_EXCL != 0 => return from_error(error),
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return from_error(error),
            Err(_) => {}
        }
    }
    let nofollow = match flags & libc::O_NOFOLLOW {
        0 => 0,
        _ => libc::AT_SYMLINK_NOFOLLOW,
    };
    let stat = match statx(libc::AT_FDCWD, path, libc::AT_STATX_DONT_SYNC | nofollow) {
        Ok(stat) if is_regular(&stat) => stat,
        Ok(_) => return NoWait::Unsupported,
        // A dangling symbolic link: the file that it points to may be created.
        Err(_) if flags & libc::O_CREAT != 0 => return NoWait::Unsupported,
        Err(error) => return from_error(error),
    };
    // If it has become a named pipe just now, or another program has a lease on it, this
    // fails instead of waiting.
    let file = match open(path, (flags & !libc::O_CREAT) | libc::O_NONBLOCK, 0) {
        Ok(file) => file,
        Err(error) => return from_error(error),
    };
    let len = match flags & libc::O_TRUNC {
        0 => stat.stx_size,
        _ => 0,
    };
    NoWait::Done(Ok(Opened {
        file,
        len,
        is_nonblocking: true,
    }))
}

/// Decides whether the error is one of the file, or only of the way it was opened here.
fn from_error(error: io::Error) -> NoWait<Opened> {
    match error.raw_os_error() {
        // A pipe without a reader, or a missing device.
        Some(libc::ENXIO | libc::ENODEV) => NoWait::Unsupported,
        _ => NoWait::from_error(error),
    }
}

fn open(path: &CStr, flags: i32, mode: libc::mode_t) -> io::Result<OwnedFd> {
    // SAFETY: a path that ends with a zero.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    match fd {
        // SAFETY: the kernel has just opened it for us.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::scratch::TempPath;

    #[test]
    fn the_directory_of_a_path() {
        let cases: [(&[u8], &[u8]); 7] = [
            (b"/a/b/c", b"/a/b"),
            (b"/a/b/", b"/a"),
            (b"/a", b"/"),
            (b"a/b", b"a"),
            (b"a", b"."),
            (b"/", b"/"),
            (b"", b""),
        ];
        for (path, directory) in cases {
            assert_eq!(directory_of(path), directory);
        }
    }

    #[test]
    fn a_directory_is_checked_again_ever_less_often() {
        let mut cache = DirCache::new();
        assert!(!cache.check(b"/proc/self"));
        assert!(!cache.check(b"/no/such/directory"));
        assert!(!cache.check(b"/no/such/directory"));
        // An entry for a directory that does not exist: it is believed once.
        cache.entries[0].is_local = true;
        assert!(cache.check(b"/no/such/directory"));
        assert!(!cache.check(b"/proc/self"));
        assert!(!cache.check(b"/no/such/directory"), "checked again");
    }

    fn is_unsupported(opened: NoWait<Opened>) -> bool {
        matches!(opened, NoWait::Unsupported)
    }

    fn done(opened: NoWait<Opened>) -> io::Result<Opened> {
        match opened {
            NoWait::Done(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_created_or_opened_and_nothing_is_opened_that_is_no_file() {
        let place = TempPath::new("regular");
        let creating = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let missing = done(open_regular(&place.c(), libc::O_WRONLY, 0)).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let created = done(open_regular(&place.c(), creating, 0o600)).unwrap();
        std::fs::write(&place.0, b"hello").unwrap();
        drop(created);
        let opened = done(open_regular(&place.c(), libc::O_RDONLY, 0)).unwrap();
        assert_eq!(opened.len, 5);
        let twice = done(open_regular(&place.c(), creating | libc::O_EXCL, 0o600)).unwrap_err();
        assert_eq!(twice.kind(), io::ErrorKind::AlreadyExists);
        let again = done(open_regular(&place.c(), creating, 0o600)).unwrap();
        assert_eq!(again.len, 0);
        assert_eq!(std::fs::read(&place.0).unwrap(), b"");
        let again = again.into_file(creating);
        // SAFETY: asks for a number.
        let flags = unsafe { libc::fcntl(again.as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        assert!(is_unsupported(open_regular(c"/", libc::O_RDONLY, 0)));
    }

    #[test]
    fn a_named_pipe_is_left_alone_whatever_is_asked() {
        let place = TempPath::new("soon-fifo");
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(place.c().as_ptr(), 0o600) }, 0);
        for flags in [
            libc::O_RDONLY,
            libc::O_WRONLY,
            libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
        ] {
            // It would wait for the other end, and this test with it.
            assert!(is_unsupported(open_regular(&place.c(), flags, 0o600)));
        }
    }
}
