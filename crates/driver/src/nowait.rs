//! File operations that the kernel does only if it need not wait.
//!
//! Examples are a read of bytes in the page cache, and opening a path whose directories
//! are cached. This is ten times faster than a ring or another thread.

use std::ffi::CStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The result of an operation that must not wait.
///
/// ```
/// use blitzen_driver::nowait::{NoWait, read_nowait};
///
/// # let path = std::env::temp_dir().join(format!("blitzen-now-{}", std::process::id()));
/// # std::fs::write(&path, b"cached")?;
/// let file = std::fs::File::open(&path)?;
/// let mut room = [std::mem::MaybeUninit::uninit(); 16];
/// match read_nowait(&file, &mut room, Some(0)) {
///     NoWait::Done(read) => assert_eq!(read?, 6),
///     NoWait::WouldBlock => println!("the bytes are on the disk"),
///     NoWait::Unsupported => println!("this file system cannot tell"),
/// }
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub enum NoWait<T> {
    /// The operation has succeeded or failed.
    Done(io::Result<T>),
    /// The operation would have to wait.
    WouldBlock,
    /// The kernel or the file system does not support the flag.
    Unsupported,
}

impl<T> NoWait<T> {
    /// Maps the value of a successful operation.
    ///
    /// ```
    /// # use blitzen_driver::nowait::NoWait;
    /// assert!(matches!(NoWait::Done(Ok(2)).map(|n| n + 1), NoWait::Done(Ok(3))));
    /// ```
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> NoWait<U> {
        match self {
            Self::Done(result) => NoWait::Done(result.map(change)),
            Self::WouldBlock => NoWait::WouldBlock,
            Self::Unsupported => NoWait::Unsupported,
        }
    }

    pub(crate) fn from_error(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Self::WouldBlock,
            // EINVAL: flags that this kernel does not know; EPERM: a sandbox that refuses
            // the call. If the error is a real one, the ordinary call returns it.
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::EPERM) => Self::Unsupported,
            _ => Self::Done(Err(error)),
        }
    }
}

/// Calls `preadv2(2)` or `pwritev2(2)`, which older libcs lack. Without an offset it uses
/// and moves the file's position.
///
/// # Safety
/// As for the call: the pieces are valid for writes, or for reads.
unsafe fn transfer_nowait(
    call: libc::c_long,
    file: BorrowedFd<'_>,
    pieces: &[libc::iovec],
    offset: Option<u64>,
) -> NoWait<usize> {
    let offset = match offset.map(i64::try_from) {
        None => -1,
        Some(Ok(offset)) => offset,
        Some(Err(_)) => return NoWait::Done(Err(io::Error::from_raw_os_error(libc::EINVAL))),
    };
    let (low, high) = split(offset);
    let (fd, count) = (file.as_raw_fd(), pieces.len());
    // SAFETY: the caller's pieces and their number; the rest are integers.
    let done = unsafe {
        libc::syscall(
            call,
            fd,
            pieces.as_ptr(),
            count,
            low,
            high,
            libc::RWF_NOWAIT,
        )
    };
    usize::try_from(done).map_or_else(
        |_| NoWait::from_error(io::Error::last_os_error()),
        |done| NoWait::Done(Ok(done)),
    )
}

/// Splits an offset into the two arguments that the kernel takes. On 64 bits only the
/// first one matters.
pub(crate) fn split(offset: i64) -> (libc::c_long, libc::c_long) {
    (offset as libc::c_long, (offset >> 32) as libc::c_long)
}

/// Reads at an offset, or at the file's position, into one or more pieces.
///
/// # Safety
/// As for `preadv2(2)`: the pieces are valid for writes.
pub(crate) unsafe fn readv_nowait(
    file: BorrowedFd<'_>,
    pieces: &[libc::iovec],
    offset: Option<u64>,
) -> NoWait<usize> {
    // SAFETY: the caller's pieces.
    unsafe { transfer_nowait(libc::SYS_preadv2, file, pieces, offset) }
}

/// Writes at an offset, or at the file's position, from one or more pieces.
///
/// # Safety
/// As for `pwritev2(2)`: the pieces are valid for reads.
pub(crate) unsafe fn writev_nowait(
    file: BorrowedFd<'_>,
    pieces: &[libc::iovec],
    offset: Option<u64>,
) -> NoWait<usize> {
    // SAFETY: the caller's pieces.
    unsafe { transfer_nowait(libc::SYS_pwritev2, file, pieces, offset) }
}

/// Reads at an offset, or at the file's position, if that need not wait.
///
/// ```
/// use blitzen_driver::nowait::{NoWait, read_nowait};
///
/// let file = std::fs::File::open("/dev/null")?;
/// let mut room = [std::mem::MaybeUninit::uninit(); 16];
/// if let NoWait::Done(read) = read_nowait(&file, &mut room, None) {
///     assert_eq!(read?, 0);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_nowait(
    file: impl AsFd,
    room: &mut [MaybeUninit<u8>],
    offset: Option<u64>,
) -> NoWait<usize> {
    let piece = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: one piece, which is the caller's slice.
    unsafe { readv_nowait(file.as_fd(), &[piece], offset) }
}

/// Writes at an offset, or at the file's position, if that need not wait.
///
/// ```
/// use std::io::IoSlice;
/// use blitzen_driver::nowait::{NoWait, write_nowait};
///
/// let file = std::fs::File::options().write(true).open("/dev/null")?;
/// if let NoWait::Done(written) = write_nowait(&file, &[IoSlice::new(b"hello")], None) {
///     assert_eq!(written?, 5);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_nowait(file: impl AsFd, pieces: &[IoSlice<'_>], offset: Option<u64>) -> NoWait<usize> {
    let pieces = &pieces[..pieces.len().min(libc::UIO_MAXIOV as usize)];
    // SAFETY: an `IoSlice` has the layout of an `iovec`, by its documentation.
    let list = unsafe { std::slice::from_raw_parts(pieces.as_ptr().cast(), pieces.len()) };
    // SAFETY: the caller's slices, which are only read.
    unsafe { writev_nowait(file.as_fd(), list, offset) }
}

/// A file that was opened without waiting for another program.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: OwnedFd,
    /// Its length in bytes when it was opened.
    pub len: u64,
    /// Whether `O_NONBLOCK` was added. It has no effect on a regular file, but `fcntl(2)`
    /// shows it.
    pub(crate) is_nonblocking: bool,
}

impl Opened {
    /// Returns the file, without an `O_NONBLOCK` that is not in `flags`.
    ///
    /// ```
    /// use blitzen_driver::nowait::{NoWait, open_cached};
    ///
    /// if let NoWait::Done(opened) = open_cached(c"/etc/passwd", libc::O_RDONLY) {
    ///     let file: std::os::fd::OwnedFd = opened?.into_file(libc::O_RDONLY);
    ///     # drop(file);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_file(self, flags: i32) -> OwnedFd {
        if self.is_nonblocking && flags & libc::O_NONBLOCK == 0 {
            // SAFETY: sets a flag of a descriptor that we own. It does not fail for a
            // regular file.
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETFL, flags) };
        }
        self.file
    }
}

/// Opens a regular file or a directory with the flags of `open(2)`, if every
/// part of its path is in memory.
///
/// Refuses to create or truncate a file, which may always wait; and devices and named
/// pipes, whose opening has effects of its own: it may wait for another program, and must
/// not be done twice.
///
/// ```
/// use blitzen_driver::nowait::{NoWait, open_cached};
///
/// if let NoWait::Done(opened) = open_cached(c"/etc/passwd", libc::O_RDONLY) {
///     assert!(opened?.len > 0);
/// }
/// assert!(matches!(open_cached(c"/dev/null", libc::O_RDONLY), NoWait::Unsupported | NoWait::WouldBlock));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_cached(path: &CStr, flags: i32) -> NoWait<Opened> {
    if flags & (libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE) != 0 {
        return NoWait::WouldBlock;
    }
    let nofollow = flags & libc::O_NOFOLLOW;
    // The type has to be known before the file is opened.
    let found = match find_cached(path, nofollow != 0) {
        NoWait::Done(Ok(found)) => found,
        NoWait::Done(Err(error)) => return NoWait::Done(Err(error)),
        NoWait::WouldBlock => return NoWait::WouldBlock,
        NoWait::Unsupported => return NoWait::Unsupported,
    };
    let len = match stat_cached(found.as_fd()) {
        Some(stat) if matches!(file_type(&stat), libc::S_IFREG | libc::S_IFDIR) => stat.stx_size,
        _ => return NoWait::Unsupported,
    };
    // Opening waits until another program has given up its lease. With O_NONBLOCK it
    // returns EAGAIN instead.
    let file = match openat2_cached(path, flags | libc::O_NONBLOCK) {
        Ok(file) => file,
        Err(error) => return NoWait::from_error(error),
    };
    NoWait::Done(Ok(Opened {
        file,
        len,
        is_nonblocking: true,
    }))
}

/// Finds what a path names, if every part of it is in memory. Returns an `O_PATH`
/// descriptor, which does not open the file itself.
///
/// ```
/// use blitzen_driver::nowait::{NoWait, find_cached};
///
/// if let NoWait::Done(found) = find_cached(c"/dev/null", false) {
///     println!("it is there: {:?}", found?);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn find_cached(path: &CStr, nofollow: bool) -> NoWait<OwnedFd> {
    let flags = match nofollow {
        true => libc::O_PATH | libc::O_NOFOLLOW,
        false => libc::O_PATH,
    };
    openat2_cached(path, flags).map_or_else(NoWait::from_error, |found| NoWait::Done(Ok(found)))
}

fn openat2_cached(path: &CStr, flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: a structure of integers, for which zero is valid.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_CACHED;
    let (how, size) = (&raw const how, size_of::<libc::open_how>());
    // SAFETY: a path that ends with a zero, and a structure of the size that is passed.
    let fd = unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), how, size) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just opened it for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether it is a regular file.
pub(crate) fn is_regular(stat: &libc::statx) -> bool {
    file_type(stat) == libc::S_IFREG
}

pub(crate) fn file_type(stat: &libc::statx) -> u32 {
    u32::from(stat.stx_mode) & libc::S_IFMT
}

/// Returns the metadata of an open file that the kernel knows without asking a server.
pub(crate) fn stat_cached(file: BorrowedFd<'_>) -> Option<libc::statx> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    statx(file.as_raw_fd(), c"", flags).ok()
}

/// Calls `statx(2)`, which older libcs lack, for type and size.
pub(crate) fn statx(dir: i32, path: &CStr, flags: i32) -> io::Result<libc::statx> {
    // SAFETY: a structure of integers, for which zero is valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let mask = libc::STATX_TYPE | libc::STATX_SIZE;
    // SAFETY: a path that ends with a zero, and room for the answer.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_statx,
            dir,
            path.as_ptr(),
            flags,
            mask,
            &raw mut stat,
        )
    };
    match failed {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::scratch::TempPath;
    use std::io::{Read, Seek, Write};

    #[test]
    fn a_cached_file_is_opened_as_asked() {
        let place = TempPath::new("open");
        std::fs::write(&place.0, b"hello").unwrap();
        let flags = libc::O_WRONLY | libc::O_APPEND;
        let NoWait::Done(opened) = open_cached(&place.c(), flags) else {
            return; // an old kernel
        };
        let opened = opened.unwrap();
        assert_eq!(opened.len, 5);
        let file = opened.into_file(flags);
        // SAFETY: asks for a number.
        let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & (libc::O_NONBLOCK | libc::O_APPEND), libc::O_APPEND);
        std::fs::File::from(file).write_all(b"!").unwrap();
        assert_eq!(std::fs::read(&place.0).unwrap(), b"hello!");
    }

    #[test]
    fn a_path_that_names_nothing_is_not_found() {
        let place = TempPath::new("missing");
        assert!(std::fs::metadata(&place.0).is_err()); // now the kernel knows it
        if let NoWait::Done(opened) = open_cached(&place.c(), libc::O_RDONLY) {
            assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn a_named_pipe_is_never_opened_here() {
        let place = TempPath::new("fifo");
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(place.c().as_ptr(), 0o600) }, 0);
        // It would wait for a writer, and this test with it.
        assert!(matches!(
            open_cached(&place.c(), libc::O_RDONLY),
            NoWait::Unsupported
        ));
    }

    #[test]
    fn a_read_without_an_offset_moves_the_file_and_one_with_does_not() {
        let place = TempPath::new("moves");
        std::fs::write(&place.0, b"hello").unwrap();
        let mut file = std::fs::File::open(&place.0).unwrap();
        let mut room = [MaybeUninit::uninit(); 2];
        let NoWait::Done(read) = read_nowait(&file, &mut room, Some(1)) else {
            return; // a file system that cannot tell
        };
        assert_eq!((read.unwrap(), file.stream_position().unwrap()), (2, 0));
        assert!(matches!(
            read_nowait(&file, &mut room, None),
            NoWait::Done(Ok(2))
        ));
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "llo");
    }

    #[test]
    fn an_empty_pipe_must_wait_and_an_offset_out_of_range_is_wrong() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut room = [MaybeUninit::uninit(); 8];
        match read_nowait(&reader, &mut room, None) {
            NoWait::WouldBlock => {}
            other => return println!("not known here: {other:?}"),
        }
        writer.write_all(b"x").unwrap();
        assert!(matches!(
            read_nowait(&reader, &mut room, None),
            NoWait::Done(Ok(1))
        ));
        let wrong = read_nowait(&reader, &mut room, Some(u64::MAX));
        assert!(matches!(wrong, NoWait::Done(Err(_))));
    }
}
