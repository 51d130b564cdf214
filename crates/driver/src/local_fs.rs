//! Telling what the kernel is likely to do soon.
//!
//! Making, opening and removing files of a disk in this machine takes some
//! microseconds, unless the disk has to be waited for; and nobody can tell, for
//! the kernel cannot be asked to do it at once or not at all. But it can be told
//! where it is likely: where the directory is in memory, on a file system that
//! has no server to ask. And what would wait for another program, perhaps for
//! ever, can be left out.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::nowait::{NoWait, Opened, find_cached, is_regular, stat_cached};

/// A directory that has been looked at is believed in so many times: what it
/// tells is only likely.
const BELIEVED: u32 = 64;
/// The same for one that is far: it may be in memory soon.
const BELIEVED_FAR: u32 = 4;

/// Whether a path's directory is in memory, on a file system of this machine; as
/// far as is known, and known lately.
///
/// ```
/// use std::path::Path;
/// use blitzen_driver::local_fs::is_local;
///
/// println!("soon, or not: {}", is_local(Path::new("/etc/passwd")));
/// assert!(!is_local(Path::new("/proc/self/status")), "what is that?");
/// ```
pub fn is_local(path: &Path) -> bool {
    let directory = directory_of(path.as_os_str().as_bytes());
    DIR_CACHE.with_borrow_mut(|seen| seen.is_local(directory))
}

/// Without the last part.
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
    static DIR_CACHE: RefCell<DirCache> = const { RefCell::new(DirCache { two: [const { CachedDir::NONE }; 2] }) };
}

/// The last directories of a thread, the newest first.
struct DirCache {
    two: [CachedDir; 2],
}

struct CachedDir {
    directory: Vec<u8>,
    is_local: bool,
    /// How often it is believed yet.
    uses: u32,
}

impl CachedDir {
    const NONE: Self = Self {
        directory: Vec::new(),
        is_local: false,
        uses: 0,
    };
}

impl DirCache {
    fn is_local(&mut self, directory: &[u8]) -> bool {
        if self.two[0].directory != directory {
            self.two.swap(0, 1);
        }
        let entry = &mut self.two[0];
        if entry.directory != directory || entry.uses == 0 {
            entry.directory.clear();
            entry.directory.extend_from_slice(directory);
            entry.is_local = look(directory);
            entry.uses = if entry.is_local {
                BELIEVED
            } else {
                BELIEVED_FAR
            };
        }
        entry.uses -= 1;
        entry.is_local
    }
}

fn look(directory: &[u8]) -> bool {
    let Ok(directory) = CString::new(directory) else {
        return false;
    };
    matches!(find_cached(&directory, false), NoWait::Done(Ok(found)) if is_on_local_fs(found.as_fd()))
}

/// Whether an open file is a regular one on a file system of this machine.
///
/// ```
/// use blitzen_driver::local_fs::is_local_file;
///
/// assert!(!is_local_file(std::fs::File::open("/dev/null")?));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_local_file(file: impl AsFd) -> bool {
    let file = file.as_fd();
    stat_cached(file).is_some_and(|stat| is_regular(&stat)) && is_on_local_fs(file)
}

/// Whether the file system is known to have no server.
fn is_on_local_fs(file: BorrowedFd<'_>) -> bool {
    const RAMFS: u64 = 0x8584_58f6;
    const ZFS: u64 = 0x2fc1_2fc1;
    const BCACHEFS: u64 = 0xca45_1a4e;
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for the answer.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &mut stat) } != 0 {
        return false;
    }
    // Its type is another one on every system.
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

/// Opens a regular file, or makes it if the flags of `open(2)` say so. `None` if
/// that failed, or is something that would be an act of its own: the ordinary way
/// will tell.
///
/// It may wait for a disk, but never for another program.
///
/// ```
/// use blitzen_driver::local_fs::open_regular;
///
/// if let Some(opened) = open_regular(c"/etc/passwd", libc::O_RDONLY, 0) {
///     assert!(opened.len > 0);
/// }
/// assert!(open_regular(c"/dev/null", libc::O_RDONLY, 0).is_none());
/// ```
pub fn open_regular(path: &CStr, flags: i32, mode: libc::mode_t) -> Option<Opened> {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE || flags & libc::O_PATH != 0 {
        return None;
    }
    if flags & libc::O_CREAT != 0 {
        // A new file waits for nobody.
        match open(path, flags | libc::O_EXCL, mode) {
            Ok(file) => return Some(Opened { file, len: 0 }),
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return None,
            Err(_) if flags & libc::O_EXCL != 0 => return None,
            Err(_) => {}
        }
    }
    let nofollow = flags & libc::O_NOFOLLOW != 0;
    let stat = stat_path(path, nofollow).filter(is_regular)?;
    // Should it have become a named pipe just now, or should somebody have a lease
    // on it, then this does not wait, and fails.
    let file = open(path, (flags & !libc::O_CREAT) | libc::O_NONBLOCK, 0).ok()?;
    let len = match flags & libc::O_TRUNC {
        0 => stat.stx_size,
        _ => 0,
    };
    Some(Opened { file, len })
}

/// Takes back the flag with which [`open_regular`] has opened a file: it means
/// nothing there, but can be seen.
///
/// ```
/// use blitzen_driver::local_fs::{open_regular, clear_nonblock};
///
/// if let Some(opened) = open_regular(c"/etc/passwd", libc::O_RDONLY, 0) {
///     clear_nonblock(&opened.file, libc::O_RDONLY);
/// }
/// ```
pub fn clear_nonblock(file: &OwnedFd, flags: i32) {
    if flags & libc::O_NONBLOCK == 0 {
        // SAFETY: a flag of a descriptor that is ours. It cannot fail for one
        // that takes no lock.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) };
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

fn stat_path(path: &CStr, nofollow: bool) -> Option<libc::statx> {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let flags = match nofollow {
        true => libc::AT_STATX_DONT_SYNC | libc::AT_SYMLINK_NOFOLLOW,
        false => libc::AT_STATX_DONT_SYNC,
    };
    let mask = libc::STATX_TYPE | libc::STATX_SIZE;
    // SAFETY: a path that ends with a zero, and room for the answer.
    let failed = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, mask, &mut stat) };
    (failed == 0).then_some(stat)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::scratch::Place;

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
    fn what_has_been_seen_is_believed_for_a_while_and_by_name() {
        let mut seen = DirCache {
            two: [const { CachedDir::NONE }; 2],
        };
        assert!(!seen.is_local(b"/proc/self"));
        assert!(!seen.is_local(b"/no/such/directory"));
        assert_eq!(seen.two[0].uses, BELIEVED_FAR - 1);
        // As if it had been found.
        seen.two[0].is_local = true;
        assert!(seen.is_local(b"/no/such/directory"));
        assert!(!seen.is_local(b"/proc/self"));
        assert!(seen.is_local(b"/no/such/directory"));
        seen.two[0].uses = 0;
        assert!(!seen.is_local(b"/no/such/directory"), "looked at again");
    }

    #[test]
    fn a_file_is_made_or_opened_and_nothing_is_opened_that_is_no_file() {
        let place = Place::new("soon");
        let making = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        assert!(open_regular(&place.c(), libc::O_WRONLY, 0).is_none());
        let made = open_regular(&place.c(), making, 0o600).unwrap();
        std::fs::write(&place.0, b"hello").unwrap();
        drop(made);
        assert_eq!(open_regular(&place.c(), libc::O_RDONLY, 0).unwrap().len, 5);
        assert!(open_regular(&place.c(), making | libc::O_EXCL, 0o600).is_none());
        let again = open_regular(&place.c(), making, 0o600).unwrap();
        assert_eq!(again.len, 0);
        assert_eq!(std::fs::read(&place.0).unwrap(), b"");
        clear_nonblock(&again.file, making);
        // SAFETY: asks for a number.
        let flags = unsafe { libc::fcntl(again.file.as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0);
    }

    #[test]
    fn a_named_pipe_is_left_alone_whatever_is_asked() {
        let place = Place::new("soon-fifo");
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(place.c().as_ptr(), 0o600) }, 0);
        for flags in [
            libc::O_RDONLY,
            libc::O_WRONLY,
            libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
        ] {
            // It would wait for the other end, and this test with it.
            assert!(open_regular(&place.c(), flags, 0o600).is_none());
        }
    }
}
