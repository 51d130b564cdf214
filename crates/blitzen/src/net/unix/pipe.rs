//! Pipes: one direction, between processes or within one.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BufMut;
use mio::unix::pipe as mio_pipe;

use crate::io::{AsyncRead, AsyncWrite, Interest, PollEvented, ReadBuf, Ready, fill_buf_mut};

/// A new pipe, without a name: what is sent is received.
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::net::unix::pipe;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut sender, mut receiver) = pipe::pipe()?;
/// sender.write_all(b"hello").await?;
/// drop(sender);
/// let mut text = String::new();
/// receiver.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// What the system says, and if the runtime has been shut down.
///
/// # Panics
/// Outside a runtime, and in one without I/O.
#[track_caller]
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (sender, receiver) = mio_pipe::new()?;
    Ok((Sender::new(sender)?, Receiver::new(receiver)?))
}

/// How a pipe with a name (a FIFO) is opened.
///
/// ```
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("blitzen-fifo-{}", std::process::id()));
/// # let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
/// # assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt};
/// use blitzen::net::unix::pipe::OpenOptions;
///
/// let mut receiver = OpenOptions::new().open_receiver(&path)?;
/// let mut sender = OpenOptions::new().open_sender(&path)?;
/// # std::fs::remove_file(&path)?;
/// sender.write_all(b"hello").await?;
/// let mut bytes = [0; 5];
/// receiver.read_exact(&mut bytes).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Whether the end is opened for both directions, so that there is always
    /// somebody at the other end.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    read_write: bool,
    /// Whether to believe that it is a pipe.
    unchecked: bool,
}

impl OpenOptions {
    /// Opens one end, of what is a pipe.
    ///
    /// ```
    /// let options = blitzen::net::unix::pipe::OpenOptions::new();
    /// # drop(options);
    /// ```
    pub fn new() -> OpenOptions {
        OpenOptions {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            read_write: false,
            unchecked: false,
        }
    }

    /// Opens the end for both directions: a receiver then never sees the end,
    /// and a sender can be opened before there is a receiver. Only Linux allows
    /// it.
    ///
    /// ```
    /// let mut options = blitzen::net::unix::pipe::OpenOptions::new();
    /// options.read_write(true);
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn read_write(&mut self, value: bool) -> &mut Self {
        self.read_write = value;
        self
    }

    /// Does not look whether the file is a pipe.
    ///
    /// ```
    /// let mut options = blitzen::net::unix::pipe::OpenOptions::new();
    /// options.unchecked(true);
    /// ```
    pub fn unchecked(&mut self, value: bool) -> &mut Self {
        self.unchecked = value;
        self
    }

    /// Opens the end that receives. It may wait for a sender: until there is one
    /// a read answers with the end.
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::net::unix::pipe::OpenOptions;
    ///
    /// let error = OpenOptions::new().open_receiver("/dev/null").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput); // not a pipe
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says; if the file is not a pipe; and if the runtime has
    /// been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        let file = self.open(path.as_ref(), End::Receiver)?;
        Receiver::from_file_unchecked(file)
    }

    /// Opens the end that sends. There has to be a receiver, unless it is opened
    /// for both directions.
    ///
    /// ```
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::net::unix::pipe::OpenOptions;
    ///
    /// let error = OpenOptions::new().open_sender("/dev/null").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput); // not a pipe
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the system says; if the file is not a pipe; and if the runtime has
    /// been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        let file = self.open(path.as_ref(), End::Sender)?;
        Sender::from_file_unchecked(file)
    }

    fn open(&self, path: &Path, end: End) -> io::Result<File> {
        let mut options = std::fs::OpenOptions::new();
        options
            .read(end == End::Receiver || self.is_both())
            .write(end == End::Sender || self.is_both())
            .custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        if !self.unchecked {
            check_is_pipe(&file)?;
        }
        Ok(file)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn is_both(&self) -> bool {
        self.read_write
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn is_both(&self) -> bool {
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
enum End {
    Sender,
    Receiver,
}

fn check_is_pipe(file: &File) -> io::Result<()> {
    match file.metadata()?.file_type().is_fifo() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe")),
    }
}

/// Checks that it is a pipe and open for `end`.
fn check_access(file: &File, end: End) -> io::Result<()> {
    check_is_pipe(file)?;
    let mode = flags(file)? & libc::O_ACCMODE;
    let (one_way, wrong) = match end {
        End::Sender => (libc::O_WRONLY, "not in O_WRONLY or O_RDWR access mode"),
        End::Receiver => (libc::O_RDONLY, "not in O_RDONLY or O_RDWR access mode"),
    };
    match mode == one_way || mode == libc::O_RDWR {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, wrong)),
    }
}

fn flags(fd: &impl AsRawFd) -> io::Result<libc::c_int> {
    // SAFETY: asks about an open descriptor.
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

/// What both ends have in common: from a file or descriptor, and back.
macro_rules! end_methods {
    ($end:ident, $mio:ty, $interest:expr, $which:expr, $open:literal) => {
        #[track_caller]
        fn new(pipe: $mio) -> io::Result<Self> {
            let io = PollEvented::new(pipe, $interest, Ready::EMPTY)?;
            Ok(Self { io })
        }

        /// Takes over an end of a pipe, open in the right direction.
        ///
        /// ```
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        ///
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let file = std::fs::File::from(std::os::fd::OwnedFd::from(", $open, "));")]
        #[doc = concat!("let end = ", stringify!($end), "::from_file(file)?;")]
        /// # drop(end);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// If it is not a pipe, or not open in the right direction; what the
        /// system says; and if the runtime has been shut down.
        ///
        /// # Panics
        /// Outside a runtime, and in one without I/O.
        #[track_caller]
        pub fn from_file(file: File) -> io::Result<Self> {
            check_access(&file, $which)?;
            Self::from_file_unchecked(file)
        }

        /// [`from_file`](Self::from_file), for a descriptor.
        ///
        /// ```
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        ///
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let end = ", stringify!($end), "::from_owned_fd(", $open, ".into())?;")]
        /// # drop(end);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// If it is not a pipe, or not open in the right direction; what the
        /// system says; and if the runtime has been shut down.
        ///
        /// # Panics
        /// Outside a runtime, and in one without I/O.
        #[track_caller]
        pub fn from_owned_fd(owned_fd: OwnedFd) -> io::Result<Self> {
            Self::from_file(File::from(owned_fd))
        }

        /// [`from_file`](Self::from_file), without a look at what it is. It is
        /// put into non-blocking mode.
        ///
        /// ```
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        ///
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let file = std::fs::File::from(std::os::fd::OwnedFd::from(", $open, "));")]
        #[doc = concat!("let end = ", stringify!($end), "::from_file_unchecked(file)?;")]
        /// # drop(end);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// What the system says, and if the runtime has been shut down.
        ///
        /// # Panics
        /// Outside a runtime, and in one without I/O.
        #[track_caller]
        pub fn from_file_unchecked(file: File) -> io::Result<Self> {
            Self::from_owned_fd_unchecked(file.into())
        }

        /// [`from_file_unchecked`](Self::from_file_unchecked), for a descriptor.
        ///
        /// ```
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = concat!("use blitzen::net::unix::pipe::", stringify!($end), ";")]
        ///
        /// let (receiver, sender) = std::io::pipe()?;
        #[doc = concat!("let end = ", stringify!($end), "::from_owned_fd_unchecked(", $open, ".into())?;")]
        /// # drop(end);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// What the system says, and if the runtime has been shut down.
        ///
        /// # Panics
        /// Outside a runtime, and in one without I/O.
        #[track_caller]
        pub fn from_owned_fd_unchecked(owned_fd: OwnedFd) -> io::Result<Self> {
            set_nonblocking(&owned_fd, true)?;
            Self::new(owned_fd.into())
        }

        /// The descriptor, in blocking mode, as other programs want it.
        ///
        /// ```
        #[doc = pipe_pair!()]
        #[doc = concat!("let fd: std::os::fd::OwnedFd = ", $open, ".into_blocking_fd()?;")]
        /// # drop(fd);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// What the system says.
        pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
            let fd = self.into_nonblocking_fd()?;
            set_nonblocking(&fd, false)?;
            Ok(fd)
        }

        /// The descriptor, in non-blocking mode.
        ///
        /// ```
        #[doc = pipe_pair!()]
        #[doc = concat!("let fd: std::os::fd::OwnedFd = ", $open, ".into_nonblocking_fd()?;")]
        /// # drop(fd);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// What the system says.
        pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
            Ok(self.io.into_inner()?.into())
        }

        /// Waits until the pipe is ready for any of `interest`.
        ///
        /// ```
        #[doc = pipe_pair!()]
        /// sender.write_all(b"hello").await?;
        #[doc = concat!($open, ".ready(Interest::READABLE | Interest::WRITABLE).await?;")]
        /// # drop((sender, receiver));
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// If the runtime has been shut down.
        ///
        /// # Cancel safety
        /// Dropping the future ends the wait and takes nothing away.
        pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
            let event = self.io.registration().readiness(interest).await?;
            Ok(event.ready())
        }

        /// Tries an operation of one's own if the pipe may be ready for it;
        /// otherwise, or if it would have blocked, the answer is
        /// [`WouldBlock`](io::ErrorKind::WouldBlock).
        ///
        /// ```
        #[doc = pipe_pair!()]
        /// sender.write_all(b"hello").await?;
        #[doc = concat!($open, ".ready(Interest::READABLE | Interest::WRITABLE).await?;")]
        #[doc = concat!("let answer = ", $open, ".try_io(|| Ok(42))?;")]
        /// assert_eq!(answer, 42);
        /// # drop((sender, receiver));
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Those of the operation.
        pub fn try_io<R>(&self, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
            let registration = self.io.registration();
            registration.try_io($interest, || self.io.try_io(f))
        }
    };
}

/// The end of a pipe that sends.
///
/// ```
#[doc = pipe_pair!()]
/// sender.write_all(b"hello").await?;
/// # drop(receiver);
/// # Ok(()) }
/// ```
///
/// When the receivers are gone, writing fails with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe).
#[derive(Debug)]
pub struct Sender {
    io: PollEvented<mio_pipe::Sender>,
}

impl Sender {
    end_methods!(
        Sender,
        mio_pipe::Sender,
        Interest::WRITABLE,
        End::Sender,
        "sender"
    );

    /// Waits until something can be sent.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.writable().await?;
    /// # drop(receiver);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and takes nothing away.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await?;
        Ok(())
    }

    /// Waits until something can be sent. Of several tasks that wait with this
    /// function, or that write, the one that called last is woken.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// std::future::poll_fn(|cx| sender.poll_write_ready(cx)).await?;
    /// # drop(receiver);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the runtime has been shut down.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.io.registration().poll_write_ready(cx);
        ready.map(|ready| ready.map(drop))
    }

    /// Sends what there is room for, without waiting.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.writable().await?;
    /// assert_eq!(sender.try_write(b"hello")?, 5);
    /// # drop(receiver);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, and what
    /// the system says.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::WRITABLE, || io::Write::write(&mut &*self.io, buf))
    }

    /// Sends what there is room for of several buffers, without waiting.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.writable().await?;
    /// assert_eq!(sender.try_write_vectored(&[std::io::IoSlice::new(b"hello")])?, 5);
    /// # drop(receiver);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, and what
    /// the system says.
    pub fn try_write_vectored(&self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::WRITABLE, || {
            io::Write::write_vectored(&mut &*self.io, bufs)
        })
    }
}

impl AsyncWrite for Sender {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || io::Write::write(&mut &*self.io, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let registration = self.io.registration();
        registration.poll_write_io(cx, || io::Write::write_vectored(&mut &*self.io, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the kernel has it
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // dropping it is what ends a pipe
    }
}

descriptor_traits!(Sender);

/// The end of a pipe that receives.
///
/// ```
#[doc = pipe_pair!()]
/// sender.write_all(b"hello").await?;
/// let mut bytes = [0; 5];
/// receiver.read_exact(&mut bytes).await?;
/// # Ok(()) }
/// ```
///
/// When the senders are gone, reading answers with the end; a pipe with a name
/// may get another sender after that.
#[derive(Debug)]
pub struct Receiver {
    io: PollEvented<mio_pipe::Receiver>,
}

impl Receiver {
    end_methods!(
        Receiver,
        mio_pipe::Receiver,
        Interest::READABLE,
        End::Receiver,
        "receiver"
    );

    /// Waits until there is something to receive.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.write_all(b"hello").await?;
    /// receiver.readable().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the runtime has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and takes nothing away.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await?;
        Ok(())
    }

    /// Waits until there is something to receive. Of several tasks that wait
    /// with this function, or that read, the one that called last is woken.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.write_all(b"hello").await?;
    /// std::future::poll_fn(|cx| receiver.poll_read_ready(cx)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the runtime has been shut down.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.io.registration().poll_read_ready(cx);
        ready.map(|ready| ready.map(drop))
    }

    /// Receives what is there, without waiting.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.write_all(b"hello").await?;
    /// receiver.readable().await?;
    /// assert_eq!(receiver.try_read(&mut [0; 16])?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and what
    /// the system says.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || io::Read::read(&mut &*self.io, buf))
    }

    /// Receives what is there into several buffers, without waiting.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.write_all(b"hello").await?;
    /// receiver.readable().await?;
    /// let mut bytes = [0; 16];
    /// let mut bufs = [std::io::IoSliceMut::new(&mut bytes)];
    /// assert_eq!(receiver.try_read_vectored(&mut bufs)?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and what
    /// the system says.
    pub fn try_read_vectored(&self, bufs: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || {
            io::Read::read_vectored(&mut &*self.io, bufs)
        })
    }

    /// Receives what is there, and appends it to `buf`, without waiting.
    ///
    /// ```
    #[doc = pipe_pair!()]
    /// sender.write_all(b"hello").await?;
    /// receiver.readable().await?;
    /// let mut bytes = Vec::with_capacity(16);
    /// assert_eq!(receiver.try_read_buf(&mut bytes)?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and what
    /// the system says.
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        let registration = self.io.registration();
        registration.try_io(Interest::READABLE, || self.read_once(buf))
    }

    fn read_once<B: BufMut + ?Sized>(&self, buf: &mut B) -> io::Result<usize> {
        use std::os::fd::AsFd;
        let fd = self.as_fd();
        // SAFETY: `read` counts what the system has written.
        let (count, ()) = unsafe { fill_buf_mut(buf, |room| Ok((read(fd, room)?, ()))) }?;
        Ok(count)
    }
}

/// `read(2)`, into memory that need not be initialised.
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
        // Not as a stream's: where packets are kept apart, a read stops short
        // although there is more.
        let registration = self.io.registration();
        let read = registration.poll_read_io(cx, || self.read_once(buf));
        read.map(|read| read.map(drop))
    }
}

descriptor_traits!(Receiver);
