//! Pipes, with and without a name.
//!
//! # Examples
//!
//! ```
//! use blitzen::io::{AsyncReadExt, AsyncWriteExt};
//! use blitzen::net::unix::pipe;
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let (mut sender, mut receiver) = pipe::pipe()?;
//! sender.write_all(b"hello").await?;
//! drop(sender);
//! let mut text = String::new();
//! receiver.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BufMut;
use mio::unix::pipe as mio_pipe;

use crate::io::{
    AsyncRead, AsyncWrite, Interest, PollEvented, ReadBuf, Ready, fill_buf_mut, settled,
};

/// Creates a pipe without a name, and returns its two ends.
///
/// # Examples
///
#[doc = pipe_ends!("mut sender", "mut receiver")]
/// sender.write_all(b"hello").await?;
/// assert_eq!(receiver.read(&mut [0; 16]).await?, 5);
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns the error of `pipe(2)`, such as `EMFILE` without free descriptors, or
/// an error if the runtime has been shut down.
///
/// # Panics
/// Panics outside a runtime, and in a runtime without I/O.
#[track_caller]
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (sender, receiver) = mio_pipe::new()?;
    Ok((Sender::new(sender)?, Receiver::new(receiver)?))
}

/// Options for opening a named pipe (a FIFO).
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::net::unix::pipe::OpenOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("blitzen-fifo-{}", std::process::id()));
/// # let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
/// # assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
/// let mut receiver = OpenOptions::new().open_receiver(&path)?;
/// let mut sender = OpenOptions::new().open_sender(&path)?;
/// # std::fs::remove_file(&path)?;
/// sender.write_all(b"hello").await?;
/// assert_eq!(receiver.read(&mut [0; 16]).await?, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Whether the end is opened for both directions, so that the other end is
    /// never closed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    read_write: bool,
    /// Whether to skip the check that the file is a pipe.
    unchecked: bool,
}

impl OpenOptions {
    /// Creates options that open one end, and check that the file is a pipe.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::unix::pipe::OpenOptions;
    ///
    /// let options = OpenOptions::new();
    /// ```
    pub fn new() -> OpenOptions {
        OpenOptions {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            read_write: false,
            unchecked: false,
        }
    }

    /// Sets whether the end is opened for reading and writing.
    ///
    /// A receiver then never sees the end of the stream, and a sender can be
    /// opened before there is a receiver. Only Linux allows it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::unix::pipe::OpenOptions;
    ///
    /// let mut options = OpenOptions::new();
    /// options.read_write(true);
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn read_write(&mut self, value: bool) -> &mut Self {
        self.read_write = value;
        self
    }

    /// Sets whether to skip the check that the file is a pipe.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::unix::pipe::OpenOptions;
    ///
    /// let mut options = OpenOptions::new();
    /// options.unchecked(true);
    /// ```
    pub fn unchecked(&mut self, value: bool) -> &mut Self {
        self.unchecked = value;
        self
    }

    /// Opens the receiving end of the pipe at `path`.
    ///
    /// It may be opened before there is a sender: until then a read reports the
    /// end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::unix::pipe::OpenOptions;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let error = OpenOptions::new().open_receiver("/dev/null").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput); // not a pipe
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `open(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound);
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the file is not a pipe; or
    /// an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        let file = self.open(path.as_ref(), PipeEnd::Receiver)?;
        Receiver::from_file_unchecked(file)
    }

    /// Opens the sending end of the pipe at `path`.
    ///
    /// A receiver must be open already, unless
    /// [`read_write`](Self::read_write) is set.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::unix::pipe::OpenOptions;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let error = OpenOptions::new().open_sender("/dev/null").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput); // not a pipe
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `open(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound) or, without a receiver, `ENXIO`;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the file is not a pipe; or
    /// an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        let file = self.open(path.as_ref(), PipeEnd::Sender)?;
        Sender::from_file_unchecked(file)
    }

    fn open(&self, path: &Path, end: PipeEnd) -> io::Result<File> {
        let mut options = std::fs::OpenOptions::new();
        options
            .read(end == PipeEnd::Receiver || self.is_read_write())
            .write(end == PipeEnd::Sender || self.is_read_write())
            .custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        if !self.unchecked {
            check_is_pipe(&file)?;
        }
        Ok(file)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn is_read_write(&self) -> bool {
        self.read_write
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn is_read_write(&self) -> bool {
        false
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PipeEnd {
    Sender,
    Receiver,
}

fn check_is_pipe(file: &File) -> io::Result<()> {
    match file.metadata()?.file_type().is_fifo() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe")),
    }
}

/// Checks that `file` is a pipe, and open in the direction of `end`.
fn check_access(file: &File, end: PipeEnd) -> io::Result<()> {
    check_is_pipe(file)?;
    let mode = flags(file)? & libc::O_ACCMODE;
    let (one_way, wrong) = match end {
        PipeEnd::Sender => (libc::O_WRONLY, "not in O_WRONLY or O_RDWR access mode"),
        PipeEnd::Receiver => (libc::O_RDONLY, "not in O_RDONLY or O_RDWR access mode"),
    };
    match mode == one_way || mode == libc::O_RDWR {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, wrong)),
    }
}

fn flags(fd: &impl AsRawFd) -> io::Result<libc::c_int> {
    // SAFETY: reads the flags of an open descriptor.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) } {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(flags),
    }
}

fn set_nonblocking(fd: &impl AsRawFd, nonblocking: bool) -> io::Result<()> {
    let before = flags(fd)?;
    let after = match nonblocking {
        true => before | libc::O_NONBLOCK,
        false => before & !libc::O_NONBLOCK,
    };
    // SAFETY: sets flags of an open descriptor.
    if before != after && unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, after) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What both ends share: conversions from and into descriptors.
///
/// `$var` is the end's variable in the examples; `$ready_setup` begins an example
/// in which it is ready.
macro_rules! end_methods {
    ($end:ident, $mio:ty, $interest:ident, $var:literal, $ready_setup:expr) => {
        #[track_caller]
        fn new(pipe: $mio) -> io::Result<Self> {
            let io = PollEvented::new(pipe, Interest::$interest, Ready::EMPTY)?;
            Ok(Self { io })
        }

        fn io(&self) -> &PollEvented<$mio> {
            &self.io
        }

        /// Creates this end of a pipe from `file`, and puts it into non-blocking
        /// mode.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        /// use std::os::fd::OwnedFd;
        ///
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let file = std::fs::File::from(OwnedFd::from(", $var, "));")]
        #[doc = concat!("let end = ", stringify!($end), "::from_file(file)?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`InvalidInput`](io::ErrorKind::InvalidInput) if `file` is not
        /// a pipe or not open in the right direction, the error of `fstat(2)` or
        /// `fcntl(2)`, or an error if the runtime has been shut down.
        ///
        /// # Panics
        /// Panics outside a runtime, and in a runtime without I/O.
        #[track_caller]
        pub fn from_file(file: File) -> io::Result<Self> {
            check_access(&file, PipeEnd::$end)?;
            Self::from_file_unchecked(file)
        }

        /// Creates this end of a pipe from `owned_fd`, and puts it into
        /// non-blocking mode.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        ///
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let end = ", stringify!($end), "::from_owned_fd(", $var, ".into())?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// As for [`from_file`](Self::from_file).
        ///
        /// # Panics
        /// Panics outside a runtime, and in a runtime without I/O.
        #[track_caller]
        pub fn from_owned_fd(owned_fd: OwnedFd) -> io::Result<Self> {
            Self::from_file(File::from(owned_fd))
        }

        /// Creates this end of a pipe from `file` like
        /// [`from_file`](Self::from_file), but without a check of what `file` is.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        /// use std::os::fd::OwnedFd;
        ///
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let file = std::fs::File::from(OwnedFd::from(", $var, "));")]
        #[doc = concat!("let end = ", stringify!($end), "::from_file_unchecked(file)?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `fcntl(2)`, or an error if the runtime has been
        /// shut down.
        ///
        /// # Panics
        /// Panics outside a runtime, and in a runtime without I/O.
        #[track_caller]
        pub fn from_file_unchecked(file: File) -> io::Result<Self> {
            Self::from_owned_fd_unchecked(file.into())
        }

        /// Creates this end of a pipe from `owned_fd` like
        /// [`from_owned_fd`](Self::from_owned_fd), but without a check of what it
        /// is.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        ///
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let end = ", stringify!($end), "::from_owned_fd_unchecked(", $var, ".into())?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `fcntl(2)`, or an error if the runtime has been
        /// shut down.
        ///
        /// # Panics
        /// Panics outside a runtime, and in a runtime without I/O.
        #[track_caller]
        pub fn from_owned_fd_unchecked(owned_fd: OwnedFd) -> io::Result<Self> {
            set_nonblocking(&owned_fd, true)?;
            Self::new(owned_fd.into())
        }

        /// Converts the end into its descriptor, in blocking mode, as child
        /// processes expect it.
        ///
        /// # Examples
        ///
        #[doc = pipe_ends!("sender", "receiver")]
        #[doc = concat!("let fd: std::os::fd::OwnedFd = ", $var, ".into_blocking_fd()?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `fcntl(2)`, or of leaving the system's poller.
        pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
            let fd = self.into_nonblocking_fd()?;
            set_nonblocking(&fd, false)?;
            Ok(fd)
        }

        /// Converts the end into its descriptor, in non-blocking mode.
        ///
        /// # Examples
        ///
        #[doc = pipe_ends!("sender", "receiver")]
        #[doc = concat!("let fd: std::os::fd::OwnedFd = ", $var, ".into_nonblocking_fd()?;")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of leaving the system's poller, such as
        /// `epoll_ctl(2)`.
        pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
            Ok(self.io.into_inner()?.into())
        }

        ready_method!($ready_setup, $var, stringify!($interest));

        /// Calls `f` if the pipe is ready.
        ///
        /// `f` must work on this pipe, and must not block. If it returns
        /// [`WouldBlock`](io::ErrorKind::WouldBlock), the readiness is forgotten
        /// until the system reports it again.
        ///
        /// # Examples
        ///
        #[doc = $ready_setup]
        #[doc = concat!($var, ".ready(Interest::", stringify!($interest), ").await?;")]
        #[doc = concat!("assert_eq!(", $var, ".try_io(|| Ok(42))?, 42);")]
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) without calling `f`
        /// if the pipe is not ready, and otherwise the error of `f`.
        pub fn try_io<R>(&self, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
            let registration = self.io.registration();
            registration.try_io(Interest::$interest, || self.io.try_io(|| settled(f())))?
        }
    };
}

/// The sending end of a pipe.
///
/// Writing fails with [`BrokenPipe`](io::ErrorKind::BrokenPipe) when all
/// receivers are closed.
///
/// # Examples
///
#[doc = pipe_ends!("mut sender", "receiver")]
/// sender.write_all(b"hello").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Sender {
    io: PollEvented<mio_pipe::Sender>,
}

impl Sender {
    end_methods!(
        Sender,
        mio_pipe::Sender,
        WRITABLE,
        "sender",
        pipe_ends!("sender", "receiver")
    );
    writable_methods!(pipe_ends!("sender", "receiver"), "sender", poll_write_ready);
    try_write_methods!(pipe_ends!("writer", "reader"), "write(2)");
}

impl PollEvented<mio_pipe::Sender> {
    fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.attempt(Interest::WRITABLE, || (&**self).write(buf))
    }

    fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.attempt(Interest::WRITABLE, || (&**self).write_vectored(bufs))
    }
}

impl AsyncWrite for Sender {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || (&*self.io).write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || (&*self.io).write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the kernel has it already
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // only closing the descriptor ends a pipe
    }
}

descriptor_traits!(Sender);

/// The receiving end of a pipe.
///
/// Reading reports the end of the stream when all senders are closed. A named
/// pipe may get another sender after that.
///
/// # Examples
///
#[doc = pipe_ends!("mut sender", "mut receiver")]
/// sender.write_all(b"hello").await?;
/// let mut bytes = [0; 5];
/// receiver.read_exact(&mut bytes).await?;
/// assert_eq!(&bytes, b"hello");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Receiver {
    io: PollEvented<mio_pipe::Receiver>,
}

impl Receiver {
    end_methods!(
        Receiver,
        mio_pipe::Receiver,
        READABLE,
        "receiver",
        concat!(
            pipe_ends!("mut sender", "receiver"),
            "\nsender.write_all(b\"hello\").await?;"
        )
    );
    readable_methods!(
        concat!(
            pipe_ends!("mut sender", "receiver"),
            "\nsender.write_all(b\"hello\").await?;"
        ),
        "receiver",
        poll_read_ready
    );
    try_read_methods!(
        concat!(
            pipe_ends!("mut writer", "reader"),
            "\nwriter.write_all(b\"hello\").await?;"
        ),
        "read(2)"
    );
}

impl PollEvented<mio_pipe::Receiver> {
    fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.attempt(Interest::READABLE, || (&**self).read(buf))
    }

    fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.attempt(Interest::READABLE, || (&**self).read_vectored(bufs))
    }

    fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.attempt(Interest::READABLE, || read_buf(self, buf))
    }
}

/// Appends what one `read(2)` returns to `buf`. Over poll(2), mio must see a `WouldBlock`, to
/// ask for the next event.
fn read_buf<B: BufMut + ?Sized>(pipe: &mio_pipe::Receiver, buf: &mut B) -> io::Result<usize> {
    let read = |room: &mut [_]| pipe.try_io(|| read(pipe.as_fd(), room));
    // SAFETY: `read` returns the number of bytes that the system has written.
    let (count, ()) = unsafe { fill_buf_mut(buf, |room| Ok((read(room)?, ()))) }?;
    Ok(count)
}

/// `read(2)`, into memory that need not be initialized.
fn read(fd: BorrowedFd<'_>, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize> {
    // SAFETY: the system writes at most `len` bytes, for which there is room.
    let count = unsafe { libc::read(fd.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Not `poll_read_stream`: in packet mode (`O_DIRECT`) a read stops at the
        // end of a packet, although there may be more.
        let registration = self.io.registration();
        let read = registration.poll_read_io(cx, || read_buf(&self.io, buf));
        read.map(|read| read.map(drop))
    }
}

descriptor_traits!(Receiver);
