//! Pipes with a name, by which processes meet.
//!
//! ```no_run
//! use blitzen::io::{AsyncReadExt, AsyncWriteExt};
//! use blitzen::net::windows::named_pipe::{ClientOptions, ServerOptions};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! const NAME: &str = r"\\.\pipe\blitzen-example";
//!
//! let mut server = ServerOptions::new().first_pipe_instance(true).create(NAME)?;
//! let mut client = ClientOptions::new().open(NAME)?;
//! server.connect().await?;
//!
//! client.write_all(b"hello").await?;
//! let mut bytes = [0; 5];
//! server.read_exact(&mut bytes).await?;
//! assert_eq!(&bytes, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! One instance of a pipe serves one client. A server that wants the next one
//! creates another instance before it hands the first to a task, so that there
//! is always one to be found.

use std::ffi::{OsStr, c_void};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{
    AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle, RawHandle,
};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

use bytes::BufMut;
use windows_sys::Win32::Foundation::{
    ERROR_INVALID_PARAMETER, GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, OPEN_EXISTING,
    PIPE_ACCESS_INBOUND, PIPE_ACCESS_OUTBOUND, SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT,
    WRITE_DAC, WRITE_OWNER,
};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, GetNamedPipeInfo, PIPE_ACCEPT_REMOTE_CLIENTS, PIPE_READMODE_BYTE,
    PIPE_READMODE_MESSAGE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_SERVER_END, PIPE_TYPE_BYTE,
    PIPE_TYPE_MESSAGE, PIPE_UNLIMITED_INSTANCES, SetNamedPipeHandleState,
};
use windows_sys::Win32::System::SystemServices::ACCESS_SYSTEM_SECURITY;

use crate::io::{AsyncRead, AsyncWrite, BOTH, Interest, PollEvented, ReadBuf, Ready, fill_buf_mut};

/// What a pipe's buffers hold unless told otherwise.
const BUFFER_SIZE: u32 = 65_536;

/// What both ends can do.
macro_rules! end_methods {
    ($pipe:ident) => {
        /// Takes over a handle, which has to be one of an end of this kind that
        /// was opened for overlapped operations.
        ///
        /// # Errors
        /// What the system says, and if the runtime has been shut down.
        ///
        /// # Panics
        /// Outside a runtime, and in one without I/O.
        ///
        /// # Safety
        /// The handle is open, and nobody else's.
        #[track_caller]
        pub unsafe fn from_raw_handle(handle: RawHandle) -> io::Result<Self> {
            // SAFETY: the caller's word.
            let pipe = unsafe { mio::windows::NamedPipe::from_raw_handle(handle) };
            let io = PollEvented::new(pipe, BOTH, Ready::EMPTY)?;
            Ok(Self { io })
        }

        /// What is known of the pipe.
        ///
        /// # Errors
        /// What the system says.
        pub fn info(&self) -> io::Result<PipeInfo> {
            info(self.as_handle())
        }

        /// Waits until the pipe is ready for any of `interest`.
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

        /// Waits until the pipe can be read.
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

        /// Waits until the pipe can be written to.
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

        /// Waits until the pipe can be read. Of several tasks that wait with
        /// this function, or that read, the one that called last is woken.
        ///
        /// # Errors
        /// If the runtime has been shut down.
        pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let ready = self.io.registration().poll_read_ready(cx);
            ready.map(|ready| ready.map(drop))
        }

        /// Waits until the pipe can be written to. Of several tasks that wait
        /// with this function, or that write, the one that called last is woken.
        ///
        /// # Errors
        /// If the runtime has been shut down.
        pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let ready = self.io.registration().poll_write_ready(cx);
            ready.map(|ready| ready.map(drop))
        }

        /// Reads what is there, without waiting.
        ///
        /// # Errors
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
            let registration = self.io.registration();
            registration.try_io(Interest::READABLE, || (&*self.io).read(buf))
        }

        /// Reads what is there into several buffers, without waiting.
        ///
        /// # Errors
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let registration = self.io.registration();
            registration.try_io(Interest::READABLE, || (&*self.io).read_vectored(bufs))
        }

        /// Reads what is there, and appends it to `buf`, without waiting.
        ///
        /// # Errors
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and
        /// what the system says.
        pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
            let registration = self.io.registration();
            registration.try_io(Interest::READABLE, || read_once(&self.io, buf))
        }

        /// Writes what there is room for, without waiting.
        ///
        /// # Errors
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, and
        /// what the system says.
        pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
            let registration = self.io.registration();
            registration.try_io(Interest::WRITABLE, || (&*self.io).write(buf))
        }

        /// Writes what there is room for of several buffers, without waiting.
        ///
        /// # Errors
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room, and
        /// what the system says.
        pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            let registration = self.io.registration();
            registration.try_io(Interest::WRITABLE, || (&*self.io).write_vectored(bufs))
        }

        /// Tries an operation of one's own if the pipe may be ready for it;
        /// otherwise, or if it would have blocked, the answer is
        /// [`WouldBlock`](io::ErrorKind::WouldBlock).
        ///
        /// # Errors
        /// Those of the operation.
        pub fn try_io<R>(
            &self,
            interest: Interest,
            f: impl FnOnce() -> io::Result<R>,
        ) -> io::Result<R> {
            self.io.registration().try_io(interest, f)
        }

        /// Tries an operation of one's own, again and again, until it does not
        /// block; waits for `interest` in between.
        ///
        /// # Errors
        /// Those of the operation, and if the runtime has been shut down.
        ///
        /// # Cancel safety
        /// The operation is tried to its end or not at all.
        pub async fn async_io<R>(
            &self,
            interest: Interest,
            f: impl FnMut() -> io::Result<R>,
        ) -> io::Result<R> {
            self.io.registration().async_io(interest, f).await
        }
    };
}

macro_rules! end_traits {
    ($pipe:ident) => {
        impl AsyncRead for $pipe {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let registration = self.io.registration();
                let read = registration.poll_read_io(cx, || read_once(&self.io, buf));
                read.map(|read| read.map(drop))
            }
        }

        impl AsyncWrite for $pipe {
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

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(())) // the system has it
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(())) // dropping it is what ends a pipe
            }
        }

        impl AsRawHandle for $pipe {
            fn as_raw_handle(&self) -> RawHandle {
                self.io.as_raw_handle()
            }
        }

        impl AsHandle for $pipe {
            fn as_handle(&self) -> BorrowedHandle<'_> {
                // SAFETY: the handle is open as long as the pipe is borrowed.
                unsafe { BorrowedHandle::borrow_raw(self.as_raw_handle()) }
            }
        }
    };
}

/// The end of a named pipe that waits for a client; made by [`ServerOptions`].
///
/// ```no_run
/// use blitzen::net::windows::named_pipe::ServerOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut server = ServerOptions::new().create(r"\\.\pipe\blitzen-server")?;
/// loop {
///     server.connect().await?;
///     let connected = server;
///     server = ServerOptions::new().create(r"\\.\pipe\blitzen-server")?;
///     blitzen::spawn(async move { drop(connected) });
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct NamedPipeServer {
    io: PollEvented<mio::windows::NamedPipe>,
}

impl NamedPipeServer {
    end_methods!(NamedPipeServer);

    /// Waits for a client.
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Cancel safety
    /// A client that comes after the future was dropped is found by the next.
    pub async fn connect(&self) -> io::Result<()> {
        // The pipe becomes writable when a client has come, but not before
        // somebody has asked for one.
        match self.io.connect() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        let registration = self.io.registration();
        registration
            .async_io(Interest::WRITABLE, || self.io.connect())
            .await
    }

    /// Lets the client go; then another one may be waited for.
    ///
    /// # Errors
    /// What the system says.
    pub fn disconnect(&self) -> io::Result<()> {
        self.io.disconnect()
    }
}

end_traits!(NamedPipeServer);

/// The end of a named pipe that was opened by its name; made by
/// [`ClientOptions`].
///
/// ```no_run
/// use blitzen::io::AsyncWriteExt;
/// use blitzen::net::windows::named_pipe::ClientOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut client = ClientOptions::new().open(r"\\.\pipe\blitzen-server")?;
/// client.write_all(b"hello").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NamedPipeClient {
    io: PollEvented<mio::windows::NamedPipe>,
}

impl NamedPipeClient {
    end_methods!(NamedPipeClient);
}

end_traits!(NamedPipeClient);

fn read_once<B: BufMut + ?Sized>(pipe: &mio::windows::NamedPipe, buf: &mut B) -> io::Result<usize> {
    let read = |room: &mut [std::mem::MaybeUninit<u8>]| {
        for byte in &mut *room {
            byte.write(0);
        }
        // SAFETY: just written.
        let room = unsafe { room.assume_init_mut() };
        let mut pipe = pipe;
        Ok((pipe.read(room)?, ()))
    };
    // SAFETY: a read counts what it has written, and the rest is written too.
    let (count, ()) = unsafe { fill_buf_mut(buf, read) }?;
    Ok(count)
}

/// How a server's end of a pipe is made.
///
/// ```no_run
/// use blitzen::net::windows::named_pipe::ServerOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = ServerOptions::new()
///     .first_pipe_instance(true)
///     .create(r"\\.\pipe\blitzen-first")?;
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ServerOptions {
    open_mode: u32,
    pipe_mode: PipeMode,
    reject_remote_clients: bool,
    max_instances: u32,
    out_buffer_size: u32,
    in_buffer_size: u32,
}

impl ServerOptions {
    /// A pipe of bytes that goes both ways, for clients of this machine.
    pub fn new() -> ServerOptions {
        ServerOptions {
            open_mode: PIPE_ACCESS_INBOUND | PIPE_ACCESS_OUTBOUND | FILE_FLAG_OVERLAPPED,
            pipe_mode: PipeMode::Byte,
            reject_remote_clients: true,
            max_instances: PIPE_UNLIMITED_INSTANCES,
            out_buffer_size: BUFFER_SIZE,
            in_buffer_size: BUFFER_SIZE,
        }
    }

    fn set(&mut self, bits: u32, on: bool) -> &mut Self {
        match on {
            true => self.open_mode |= bits,
            false => self.open_mode &= !bits,
        }
        self
    }

    /// Whether bytes flow, or messages are kept apart.
    pub fn pipe_mode(&mut self, pipe_mode: PipeMode) -> &mut Self {
        self.pipe_mode = pipe_mode;
        self
    }

    /// Whether the client may write.
    pub fn access_inbound(&mut self, allowed: bool) -> &mut Self {
        self.set(PIPE_ACCESS_INBOUND, allowed)
    }

    /// Whether the client may read.
    pub fn access_outbound(&mut self, allowed: bool) -> &mut Self {
        self.set(PIPE_ACCESS_OUTBOUND, allowed)
    }

    /// Refuses to make the pipe if there is one of that name already.
    pub fn first_pipe_instance(&mut self, first: bool) -> &mut Self {
        self.set(FILE_FLAG_FIRST_PIPE_INSTANCE, first)
    }

    /// Asks for the right to change the pipe's access control list.
    pub fn write_dac(&mut self, requested: bool) -> &mut Self {
        self.set(WRITE_DAC, requested)
    }

    /// Asks for the right to change the pipe's owner.
    pub fn write_owner(&mut self, requested: bool) -> &mut Self {
        self.set(WRITE_OWNER, requested)
    }

    /// Asks for the right to change how access is audited.
    pub fn access_system_security(&mut self, requested: bool) -> &mut Self {
        self.set(ACCESS_SYSTEM_SECURITY, requested)
    }

    /// Whether clients of other machines are turned away.
    pub fn reject_remote_clients(&mut self, reject: bool) -> &mut Self {
        self.reject_remote_clients = reject;
        self
    }

    /// How many instances of the pipe there may be; the first one decides.
    ///
    /// # Panics
    /// If it is more than 254.
    #[track_caller]
    pub fn max_instances(&mut self, instances: usize) -> &mut Self {
        assert!(instances < 255, "cannot specify more than 254 instances");
        self.max_instances = instances as u32;
        self
    }

    /// How much may wait to be read by the client.
    pub fn out_buffer_size(&mut self, buffer: u32) -> &mut Self {
        self.out_buffer_size = buffer;
        self
    }

    /// How much may wait to be read by the server.
    pub fn in_buffer_size(&mut self, buffer: u32) -> &mut Self {
        self.in_buffer_size = buffer;
        self
    }

    /// Makes an instance of the pipe, which a client may open at once.
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn create(&self, addr: impl AsRef<OsStr>) -> io::Result<NamedPipeServer> {
        // SAFETY: without attributes there is nothing that could be invalid.
        unsafe { self.create_with_security_attributes_raw(addr, ptr::null_mut()) }
    }

    /// The same, with security attributes.
    ///
    /// # Errors
    /// What the system says, and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    ///
    /// # Safety
    /// `attrs` is null, or points to a valid `SECURITY_ATTRIBUTES`.
    #[track_caller]
    pub unsafe fn create_with_security_attributes_raw(
        &self,
        addr: impl AsRef<OsStr>,
        attrs: *mut c_void,
    ) -> io::Result<NamedPipeServer> {
        let name = wide(addr.as_ref())?;
        let kind = match self.pipe_mode {
            PipeMode::Byte => PIPE_TYPE_BYTE | PIPE_READMODE_BYTE,
            PipeMode::Message => PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE,
        };
        let remote = match self.reject_remote_clients {
            true => PIPE_REJECT_REMOTE_CLIENTS,
            false => PIPE_ACCEPT_REMOTE_CLIENTS,
        };
        // SAFETY: the name ends with a zero and outlives the call; the
        // attributes are valid by the caller's word.
        let handle = unsafe {
            CreateNamedPipeW(
                name.as_ptr(),
                self.open_mode,
                kind | remote,
                self.max_instances,
                self.out_buffer_size,
                self.in_buffer_size,
                0,
                attrs.cast(),
            )
        };
        let handle = opened(handle)?;
        // SAFETY: it was just opened, for overlapped operations.
        unsafe { NamedPipeServer::from_raw_handle(into_raw(handle)) }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How a client opens a pipe.
///
/// ```no_run
/// use blitzen::net::windows::named_pipe::ClientOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let client = ClientOptions::new().open(r"\\.\pipe\blitzen-server")?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClientOptions {
    access: u32,
    security_qos_flags: u32,
    pipe_mode: PipeMode,
}

impl ClientOptions {
    /// For reading and writing bytes; the server may identify the client, and no
    /// more.
    pub fn new() -> Self {
        Self {
            access: GENERIC_READ | GENERIC_WRITE,
            security_qos_flags: SECURITY_IDENTIFICATION | SECURITY_SQOS_PRESENT,
            pipe_mode: PipeMode::Byte,
        }
    }

    fn set(&mut self, bits: u32, on: bool) -> &mut Self {
        match on {
            true => self.access |= bits,
            false => self.access &= !bits,
        }
        self
    }

    /// Whether the client will read.
    pub fn read(&mut self, allowed: bool) -> &mut Self {
        self.set(GENERIC_READ, allowed)
    }

    /// Whether the client will write.
    pub fn write(&mut self, allowed: bool) -> &mut Self {
        self.set(GENERIC_WRITE, allowed)
    }

    /// How far the server may act as the client.
    pub fn security_qos_flags(&mut self, flags: u32) -> &mut Self {
        self.security_qos_flags = flags | SECURITY_SQOS_PRESENT;
        self
    }

    /// Whether bytes are read as they come, or message by message.
    pub fn pipe_mode(&mut self, pipe_mode: PipeMode) -> &mut Self {
        self.pipe_mode = pipe_mode;
        self
    }

    /// Opens the pipe.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) if there is none of that name;
    /// `ERROR_PIPE_BUSY` if every instance has a client: wait a moment, and try
    /// again; and if the runtime has been shut down.
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    #[track_caller]
    pub fn open(&self, addr: impl AsRef<OsStr>) -> io::Result<NamedPipeClient> {
        // SAFETY: without attributes there is nothing that could be invalid.
        unsafe { self.open_with_security_attributes_raw(addr, ptr::null_mut()) }
    }

    /// The same, with security attributes.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    ///
    /// # Safety
    /// `attrs` is null, or points to a valid `SECURITY_ATTRIBUTES`.
    #[track_caller]
    pub unsafe fn open_with_security_attributes_raw(
        &self,
        addr: impl AsRef<OsStr>,
        attrs: *mut c_void,
    ) -> io::Result<NamedPipeClient> {
        let name = wide(addr.as_ref())?;
        // SAFETY: the name ends with a zero and outlives the call; the
        // attributes are valid by the caller's word.
        let handle = unsafe {
            CreateFileW(
                name.as_ptr(),
                self.access,
                0,
                attrs.cast(),
                OPEN_EXISTING,
                FILE_FLAG_OVERLAPPED | self.security_qos_flags,
                ptr::null_mut(),
            )
        };
        let handle = opened(handle)?;
        if self.pipe_mode == PipeMode::Message {
            // SAFETY: the handle is open, the mode outlives the call, and what
            // is null is left as it is.
            let done = unsafe {
                SetNamedPipeHandleState(
                    handle.as_raw_handle(),
                    &PIPE_READMODE_MESSAGE,
                    ptr::null(),
                    ptr::null(),
                )
            };
            if done == 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: it was just opened, for overlapped operations.
        unsafe { NamedPipeClient::from_raw_handle(into_raw(handle)) }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a pipe keeps messages apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipeMode {
    /// Bytes flow.
    Byte,
    /// What was written at once is read at once.
    Message,
}

/// Which end of a pipe this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipeEnd {
    /// The one that opened it.
    Client,
    /// The one that made it.
    Server,
}

/// What is known of a pipe.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PipeInfo {
    /// Whether it keeps messages apart.
    pub mode: PipeMode,
    /// Which end this is.
    pub end: PipeEnd,
    /// How many instances there may be.
    pub max_instances: u32,
    /// How much may wait to be read by the other end.
    pub out_buffer_size: u32,
    /// How much may wait to be read here.
    pub in_buffer_size: u32,
}

fn info(pipe: BorrowedHandle<'_>) -> io::Result<PipeInfo> {
    let (mut flags, mut out_buffer_size, mut in_buffer_size, mut max_instances) = (0, 0, 0, 0);
    // SAFETY: the handle is open, and each place may be written to.
    let done = unsafe {
        GetNamedPipeInfo(
            pipe.as_raw_handle(),
            &mut flags,
            &mut out_buffer_size,
            &mut in_buffer_size,
            &mut max_instances,
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PipeInfo {
        mode: match flags & PIPE_TYPE_MESSAGE {
            0 => PipeMode::Byte,
            _ => PipeMode::Message,
        },
        end: match flags & PIPE_SERVER_END {
            0 => PipeEnd::Client,
            _ => PipeEnd::Server,
        },
        max_instances,
        out_buffer_size,
        in_buffer_size,
    })
}

/// A name as the system wants it.
fn wide(name: &OsStr) -> io::Result<Vec<u16>> {
    let mut wide: Vec<u16> = name.encode_wide().collect();
    if wide.contains(&0) {
        return Err(io::Error::from_raw_os_error(
            ERROR_INVALID_PARAMETER.cast_signed(),
        ));
    }
    wide.push(0);
    Ok(wide)
}

fn opened(handle: RawHandle) -> io::Result<OwnedHandle> {
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened, for us.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn into_raw(handle: OwnedHandle) -> RawHandle {
    use std::os::windows::io::IntoRawHandle;
    handle.into_raw_handle()
}
