//! Named pipes of Windows.
//!
//! One instance of a pipe serves one client. A server creates the next instance
//! before it hands the connected one to a task, so that clients always find one.
//!
//! # Examples
//!
//! ```no_run
//! use blitzen::io::{AsyncReadExt, AsyncWriteExt};
//! use blitzen::net::windows::named_pipe::{ClientOptions, ServerOptions};
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! const NAME: &str = r"\\.\pipe\example";
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

use std::ffi::{OsStr, c_void};
use std::io::{self, IoSlice};
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{
    AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle, RawHandle,
};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

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

use super::pipe_io::PipeIo;
use crate::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The size of a pipe's buffers unless the server sets another, in bytes.
const BUFFER_SIZE: u32 = 65_536;

/// What both ends share. `$pair` begins an example with this end and the
/// other one.
macro_rules! end_methods {
    ($pipe:ident, $pair:ident) => {
        /// Creates this end of a pipe from `handle`, which must have been opened
        /// for overlapped operations.
        ///
        /// # Examples
        ///
        /// ```no_run
        #[doc = concat!("use blitzen::net::windows::named_pipe::", stringify!($pipe), ";")]
        /// use std::os::windows::io::{IntoRawHandle, OwnedHandle};
        ///
        #[doc = concat!("fn take_over(handle: OwnedHandle) -> std::io::Result<", stringify!($pipe), "> {")]
        ///     // SAFETY: `handle` is open, and nobody else's.
        #[doc = concat!("    unsafe { ", stringify!($pipe), "::from_raw_handle(handle.into_raw_handle()) }")]
        /// }
        /// ```
        ///
        /// # Errors
        /// Returns the error of registering with the completion port, or an error
        /// if the runtime has been shut down.
        ///
        /// # Panics
        /// Panics outside a runtime, and in a runtime without I/O.
        ///
        /// # Safety
        /// `handle` must be open, and owned by nobody else.
        #[track_caller]
        pub unsafe fn from_raw_handle(handle: RawHandle) -> io::Result<Self> {
            // SAFETY: the caller hands over an open handle that nobody else owns.
            let io = unsafe { PipeIo::from_raw_handle(handle) }?;
            Ok(Self { io })
        }

        fn io(&self) -> &PipeIo {
            &self.io
        }

        /// Returns the mode, the sizes and the end of the pipe.
        ///
        /// # Examples
        ///
        #[doc = $pair!("pipe", "other")]
        /// println!("{:?}", pipe.info()?);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `GetNamedPipeInfo`.
        pub fn info(&self) -> io::Result<PipeInfo> {
            info(self.as_handle())
        }

        ready_method!($pair!("pipe", "other"), "pipe", "WRITABLE");
        readable_methods!(
            concat!(
                $pair!("pipe", "mut other"),
                "\nother.write_all(b\"hello\").await?;"
            ),
            "pipe",
            poll_read_ready
        );
        writable_methods!($pair!("pipe", "other"), "pipe", poll_write_ready);
        try_read_methods!(
            concat!(
                $pair!("reader", "mut writer"),
                "\nwriter.write_all(b\"hello\").await?;"
            ),
            "ReadFile"
        );
        try_write_methods!($pair!("writer", "reader"), "WriteFile");

        /// Calls `f` if the pipe is ready for `interest`.
        ///
        /// `f` must work on this pipe, and must not block. If it returns
        /// [`WouldBlock`](io::ErrorKind::WouldBlock), the readiness is forgotten
        /// until the system reports it again.
        ///
        /// # Examples
        ///
        #[doc = $pair!("pipe", "other")]
        /// pipe.writable().await?;
        /// assert_eq!(pipe.try_io(Interest::WRITABLE, || Ok(42))?, 42);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) without calling `f`
        /// if the pipe is not ready, and otherwise the error of `f`.
        pub fn try_io<R>(
            &self,
            interest: Interest,
            f: impl FnOnce() -> io::Result<R>,
        ) -> io::Result<R> {
            self.io.attempt(interest, f)
        }

        /// Calls `f` until it does not return
        /// [`WouldBlock`](io::ErrorKind::WouldBlock), and waits for `interest`
        /// before each call.
        ///
        /// # Examples
        ///
        #[doc = $pair!("pipe", "other")]
        /// assert_eq!(pipe.async_io(Interest::WRITABLE, || Ok(42)).await?, 42);
        /// # Ok(()) }
        /// ```
        ///
        /// # Cancel safety
        /// If the future is dropped before it completes, no call of `f` has
        /// succeeded.
        ///
        /// # Errors
        /// Returns the error of `f`, or an error if the runtime has been shut
        /// down.
        pub async fn async_io<R>(
            &self,
            interest: Interest,
            f: impl FnMut() -> io::Result<R>,
        ) -> io::Result<R> {
            self.io.attempts(interest, f).await
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
                let read = registration.poll_read_io(cx, || self.io.read_buf(buf));
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
                registration.poll_write_io(cx, || self.io.write(buf))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let registration = self.io.registration();
                registration.poll_write_io(cx, || self.io.write_vectored(bufs))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(())) // the system has it already
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(())) // only closing the handle ends a pipe
            }
        }

        impl AsRawHandle for $pipe {
            fn as_raw_handle(&self) -> RawHandle {
                self.io.as_raw_handle()
            }
        }

        impl AsHandle for $pipe {
            fn as_handle(&self) -> BorrowedHandle<'_> {
                // SAFETY: the handle stays open while the pipe is borrowed.
                unsafe { BorrowedHandle::borrow_raw(self.as_raw_handle()) }
            }
        }
    };
}

/// The server's end of a named pipe, created by [`ServerOptions`].
///
/// # Examples
///
/// ```no_run
/// use blitzen::net::windows::named_pipe::ServerOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut server = ServerOptions::new().create(r"\\.\pipe\example")?;
/// loop {
///     server.connect().await?;
///     let connected = server;
///     server = ServerOptions::new().create(r"\\.\pipe\example")?;
///     blitzen::spawn(async move { drop(connected) });
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct NamedPipeServer {
    io: PipeIo,
}

impl NamedPipeServer {
    end_methods!(NamedPipeServer, named_pipe_server);

    /// Waits for a client to open the pipe.
    ///
    /// # Examples
    ///
    #[doc = named_pipe_server!("server", "client")]
    /// server.connect().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the next call gets a client that has come in
    /// the meantime.
    ///
    /// # Errors
    /// Returns the error of `ConnectNamedPipe`, or an error if the runtime has
    /// been shut down.
    pub async fn connect(&self) -> io::Result<()> {
        // The first call starts the wait; the pipe becomes writable when a
        // client has come.
        match self.io.connect() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        let registration = self.io.registration();
        registration
            .async_io(Interest::WRITABLE, || self.io.connect())
            .await
    }

    /// Disconnects the client, so that [`connect`](Self::connect) can wait for
    /// another one.
    ///
    /// # Examples
    ///
    #[doc = named_pipe_server!("server", "client")]
    /// server.connect().await?;
    /// server.disconnect()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `DisconnectNamedPipe`.
    pub fn disconnect(&self) -> io::Result<()> {
        self.io.disconnect()
    }
}

end_traits!(NamedPipeServer);

/// The client's end of a named pipe, created by [`ClientOptions`].
///
/// # Examples
///
/// ```no_run
/// use blitzen::io::AsyncWriteExt;
/// use blitzen::net::windows::named_pipe::ClientOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut client = ClientOptions::new().open(r"\\.\pipe\example")?;
/// client.write_all(b"hello").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NamedPipeClient {
    io: PipeIo,
}

impl NamedPipeClient {
    end_methods!(NamedPipeClient, named_pipe_client);
}

end_traits!(NamedPipeClient);

/// Options for creating the server's end of a named pipe.
///
/// # Examples
///
/// ```no_run
/// use blitzen::net::windows::named_pipe::ServerOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = ServerOptions::new()
///     .first_pipe_instance(true)
///     .create(r"\\.\pipe\example")?;
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
    /// Creates options for a pipe of bytes in both directions, for clients of
    /// this machine.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let options = ServerOptions::new();
    /// ```
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

    /// Sets whether the pipe is a stream of bytes or of messages.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::{ServerOptions, PipeMode};
    ///
    /// let mut options = ServerOptions::new();
    /// options.pipe_mode(PipeMode::Message);
    /// ```
    pub fn pipe_mode(&mut self, pipe_mode: PipeMode) -> &mut Self {
        self.pipe_mode = pipe_mode;
        self
    }

    /// Sets whether data may flow from the client to the server.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.access_inbound(false);
    /// ```
    pub fn access_inbound(&mut self, allowed: bool) -> &mut Self {
        self.set(PIPE_ACCESS_INBOUND, allowed)
    }

    /// Sets whether data may flow from the server to the client.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.access_outbound(false);
    /// ```
    pub fn access_outbound(&mut self, allowed: bool) -> &mut Self {
        self.set(PIPE_ACCESS_OUTBOUND, allowed)
    }

    /// Sets whether creating the pipe fails if one of that name exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.first_pipe_instance(true);
    /// ```
    pub fn first_pipe_instance(&mut self, first: bool) -> &mut Self {
        self.set(FILE_FLAG_FIRST_PIPE_INSTANCE, first)
    }

    /// Requests the right to change the pipe's access control list (`WRITE_DAC`).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.write_dac(true);
    /// ```
    pub fn write_dac(&mut self, requested: bool) -> &mut Self {
        self.set(WRITE_DAC, requested)
    }

    /// Requests the right to change the pipe's owner (`WRITE_OWNER`).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.write_owner(true);
    /// ```
    pub fn write_owner(&mut self, requested: bool) -> &mut Self {
        self.set(WRITE_OWNER, requested)
    }

    /// Requests the right to change how access is audited
    /// (`ACCESS_SYSTEM_SECURITY`).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.access_system_security(true);
    /// ```
    pub fn access_system_security(&mut self, requested: bool) -> &mut Self {
        self.set(ACCESS_SYSTEM_SECURITY, requested)
    }

    /// Sets whether clients of other machines are rejected.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.reject_remote_clients(false);
    /// ```
    pub fn reject_remote_clients(&mut self, reject: bool) -> &mut Self {
        self.reject_remote_clients = reject;
        self
    }

    /// Sets how many instances of the pipe may exist; the first instance decides.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.max_instances(16);
    /// ```
    ///
    /// # Panics
    /// Panics if `instances` is more than 254.
    #[track_caller]
    pub fn max_instances(&mut self, instances: usize) -> &mut Self {
        assert!(instances < 255, "cannot specify more than 254 instances");
        self.max_instances = instances as u32;
        self
    }

    /// Sets the size of the buffer for data to the client, in bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.out_buffer_size(4096);
    /// ```
    pub fn out_buffer_size(&mut self, buffer: u32) -> &mut Self {
        self.out_buffer_size = buffer;
        self
    }

    /// Sets the size of the buffer for data to the server, in bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// let mut options = ServerOptions::new();
    /// options.in_buffer_size(4096);
    /// ```
    pub fn in_buffer_size(&mut self, buffer: u32) -> &mut Self {
        self.in_buffer_size = buffer;
        self
    }

    /// Creates an instance of the pipe named `addr`, which a client may open at
    /// once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = ServerOptions::new().create(r"\\.\pipe\example")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `CreateNamedPipeW`, such as
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a first instance
    /// that is not the first, or an error if the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn create(&self, addr: impl AsRef<OsStr>) -> io::Result<NamedPipeServer> {
        // SAFETY: without attributes there is nothing that could be invalid.
        unsafe { self.create_with_security_attributes_raw(addr, ptr::null_mut()) }
    }

    /// Creates an instance like [`create`](Self::create), with the security
    /// attributes `attrs`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::net::windows::named_pipe::ServerOptions;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (name, attrs) = (r"\\.\pipe\example", std::ptr::null_mut());
    /// // SAFETY: `attrs` is null.
    /// let server = unsafe { ServerOptions::new().create_with_security_attributes_raw(name, attrs) }?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    ///
    /// # Safety
    /// `attrs` must be null, or point to a valid `SECURITY_ATTRIBUTES`.
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
        // caller vouches for the attributes.
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
        // SAFETY: the handle was just opened, for overlapped operations.
        unsafe { NamedPipeServer::from_raw_handle(into_raw(handle)) }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Options for opening the client's end of a named pipe.
///
/// # Examples
///
/// ```no_run
/// use blitzen::net::windows::named_pipe::ClientOptions;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let client = ClientOptions::new().open(r"\\.\pipe\example")?;
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
    /// Creates options for reading and writing bytes. The server may identify the
    /// client, but not act as it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ClientOptions;
    ///
    /// let options = ClientOptions::new();
    /// ```
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

    /// Sets whether the client may read.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ClientOptions;
    ///
    /// let mut options = ClientOptions::new();
    /// options.read(false);
    /// ```
    pub fn read(&mut self, allowed: bool) -> &mut Self {
        self.set(GENERIC_READ, allowed)
    }

    /// Sets whether the client may write.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ClientOptions;
    ///
    /// let mut options = ClientOptions::new();
    /// options.write(false);
    /// ```
    pub fn write(&mut self, allowed: bool) -> &mut Self {
        self.set(GENERIC_WRITE, allowed)
    }

    /// Sets how far the server may act as the client (`SECURITY_*` flags of
    /// `CreateFileW`).
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::ClientOptions;
    ///
    /// let mut options = ClientOptions::new();
    /// options.security_qos_flags(0); // SECURITY_ANONYMOUS
    /// ```
    pub fn security_qos_flags(&mut self, flags: u32) -> &mut Self {
        self.security_qos_flags = flags | SECURITY_SQOS_PRESENT;
        self
    }

    /// Sets whether the client reads a stream of bytes or of messages.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::net::windows::named_pipe::{ClientOptions, PipeMode};
    ///
    /// let mut options = ClientOptions::new();
    /// options.pipe_mode(PipeMode::Message);
    /// ```
    pub fn pipe_mode(&mut self, pipe_mode: PipeMode) -> &mut Self {
        self.pipe_mode = pipe_mode;
        self
    }

    /// Opens the pipe named `addr`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::net::windows::named_pipe::ClientOptions;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let client = ClientOptions::new().open(r"\\.\pipe\example")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `CreateFileW`, such as
    /// [`NotFound`](io::ErrorKind::NotFound), or `ERROR_PIPE_BUSY` if every
    /// instance has a client: wait a moment, and try again. Returns an error if
    /// the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    #[track_caller]
    pub fn open(&self, addr: impl AsRef<OsStr>) -> io::Result<NamedPipeClient> {
        // SAFETY: without attributes there is nothing that could be invalid.
        unsafe { self.open_with_security_attributes_raw(addr, ptr::null_mut()) }
    }

    /// Opens the pipe like [`open`](Self::open), with the security attributes
    /// `attrs`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::net::windows::named_pipe::ClientOptions;
    ///
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let (name, attrs) = (r"\\.\pipe\example", std::ptr::null_mut());
    /// // SAFETY: `attrs` is null.
    /// let client = unsafe { ClientOptions::new().open_with_security_attributes_raw(name, attrs) }?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without I/O.
    ///
    /// # Safety
    /// `attrs` must be null, or point to a valid `SECURITY_ATTRIBUTES`.
    #[track_caller]
    pub unsafe fn open_with_security_attributes_raw(
        &self,
        addr: impl AsRef<OsStr>,
        attrs: *mut c_void,
    ) -> io::Result<NamedPipeClient> {
        let name = wide(addr.as_ref())?;
        // SAFETY: the name ends with a zero and outlives the call; the
        // caller vouches for the attributes.
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
        // SAFETY: the handle was just opened, for overlapped operations.
        unsafe { NamedPipeClient::from_raw_handle(into_raw(handle)) }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a pipe is a stream of bytes or of messages.
///
/// # Examples
///
/// ```
/// use blitzen::net::windows::named_pipe::{PipeMode, ServerOptions};
///
/// let mut options = ServerOptions::new();
/// options.pipe_mode(PipeMode::Message);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipeMode {
    /// A stream of bytes.
    Byte,
    /// A stream of messages: each write is one message.
    Message,
}

/// An end of a pipe.
///
/// # Examples
///
#[doc = named_pipe_server!("server", "client")]
/// use blitzen::net::windows::named_pipe::PipeEnd;
///
/// assert_eq!(server.info()?.end, PipeEnd::Server);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipeEnd {
    /// The end that opened the pipe.
    Client,
    /// The end that created the pipe.
    Server,
}

/// The properties of a pipe, returned by `info`.
///
/// # Examples
///
#[doc = named_pipe_server!("server", "client")]
/// use blitzen::net::windows::named_pipe::PipeInfo;
///
/// let info: PipeInfo = server.info()?;
/// println!("at most {} instances", info.max_instances);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PipeInfo {
    /// Whether the pipe is a stream of bytes or of messages.
    pub mode: PipeMode,
    /// Which end this is.
    pub end: PipeEnd,
    /// How many instances may exist.
    pub max_instances: u32,
    /// The size of the buffer for data to the other end, in bytes.
    pub out_buffer_size: u32,
    /// The size of the buffer for data to this end, in bytes.
    pub in_buffer_size: u32,
}

fn info(pipe: BorrowedHandle<'_>) -> io::Result<PipeInfo> {
    let (mut flags, mut out_buffer_size, mut in_buffer_size, mut max_instances) = (0, 0, 0, 0);
    // SAFETY: the handle is open, and the pointers are to integers.
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

/// Converts a name to UTF-16 with a final zero.
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
    // SAFETY: the handle was just opened, and nobody else has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn into_raw(handle: OwnedHandle) -> RawHandle {
    use std::os::windows::io::IntoRawHandle;
    handle.into_raw_handle()
}
