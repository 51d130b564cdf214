//! Child processes on Windows.
//!
//! A thread of the system's pool tells of a child's exit. Its pipes block, and are
//! read and written on the blocking pool.
//!
//! V1. The callback's argument lives until `UnregisterWaitEx` has returned, which
//!     waits for a callback that is running.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle, RawHandle};
use std::pin::Pin;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use blitzen_util::quiet::quietly;
use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEINWAITTHREAD,
    WT_EXECUTEONLYONCE,
};

use crate::io::{AsyncRead, AsyncWrite, Blocking, ReadBuf};
use crate::runtime::Handle;

/// Closes the handle: Windows keeps nothing of a child that nobody waits for.
pub(crate) fn reap_in_background(child: Child) {
    drop(child);
}

/// The wait for one child's exit.
pub(crate) struct ExitWait(Option<RegisteredWait>);

impl ExitWait {
    pub(crate) fn new(_runtime: Handle) -> Self {
        Self(None)
    }

    /// Returns the child's status when it has exited.
    pub(crate) fn poll(
        &mut self,
        child: &mut Child,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<ExitStatus>> {
        if let Some(status) = child.try_wait()? {
            return Poll::Ready(Ok(status));
        }
        let wait = match &mut self.0 {
            Some(wait) => wait,
            none => none.insert(RegisteredWait::new(child)?),
        };
        if wait.poll(cx).is_pending() {
            return Poll::Pending;
        }
        match child.try_wait()? {
            Some(status) => Poll::Ready(Ok(status)),
            None => unreachable!("a process whose handle is signalled has exited"),
        }
    }
}

/// A wait that is registered with the system.
struct RegisteredWait {
    system: HANDLE,
    /// Given to the callback (V1).
    notice: Arc<ExitNotice>,
}

// SAFETY: the handle may be used by any thread.
unsafe impl Send for RegisteredWait {}
// SAFETY: nothing is done through a shared reference to it.
unsafe impl Sync for RegisteredWait {}

#[derive(Default)]
struct ExitNotice(Mutex<(bool, Option<Waker>)>);

impl RegisteredWait {
    fn new(child: &Child) -> io::Result<Self> {
        let notice = Arc::new(ExitNotice::default());
        let mut system: HANDLE = std::ptr::null_mut();
        // SAFETY: the child's handle is open, and the wait is unregistered before it
        // is closed (the child drops its `ExitWait` first); V1.
        let done = unsafe {
            RegisterWaitForSingleObject(
                &mut system,
                child.as_raw_handle() as HANDLE,
                Some(on_exit),
                Arc::as_ptr(&notice).cast(),
                INFINITE,
                WT_EXECUTEINWAITTHREAD | WT_EXECUTEONLYONCE,
            )
        };
        match done {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(Self { system, notice }),
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut notice = self.notice.0.lock().unwrap_or_else(|e| e.into_inner());
        let (has_exited, waker_slot) = &mut *notice;
        let (answer, before) = match has_exited {
            true => (Poll::Ready(()), None),
            false => (Poll::Pending, waker_slot.replace(waker)),
        };
        drop(notice);
        drop(before);
        answer
    }
}

impl Drop for RegisteredWait {
    fn drop(&mut self) {
        // Waits for a callback that is running (V1). It can fail only for an invalid
        // handle.
        // SAFETY: the wait is ours, and unregistered once.
        unsafe { UnregisterWaitEx(self.system, INVALID_HANDLE_VALUE) };
    }
}

/// Runs on a thread of the system's pool.
unsafe extern "system" fn on_exit(context: *mut c_void, _timed_out: bool) {
    // SAFETY: V1.
    let notice = unsafe { &*context.cast_const().cast::<ExitNotice>() };
    let mut notice = notice.0.lock().unwrap_or_else(|e| e.into_inner());
    notice.0 = true;
    let waker = notice.1.take();
    drop(notice);
    if let Some(waker) = waker {
        // A panic must not leave a callback of the system: it would abort the process.
        quietly(|| waker.wake());
    }
}

/// A pipe, shared by a stream and the job that reads or writes it.
struct SharedPipe(Arc<File>);

impl Read for SharedPipe {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buf)
    }
}

impl Write for SharedPipe {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self.0).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // the system has it
    }
}

/// The parent's end of a child's pipe.
pub(crate) struct PipeEnd {
    file: Arc<File>,
    stream: Blocking<SharedPipe>,
}

/// The end that is written.
pub(crate) type Sender = PipeEnd;
/// The end that is read.
pub(crate) type Receiver = PipeEnd;

/// Wraps a pipe of std's.
#[track_caller]
pub(crate) fn from_std(stream: impl Into<OwnedHandle>) -> io::Result<PipeEnd> {
    let file = Arc::new(File::from(stream.into()));
    Ok(PipeEnd {
        stream: Blocking::new(SharedPipe(file.clone())),
        file,
    })
}

impl PipeEnd {
    /// Returns a handle of the pipe.
    pub(crate) fn into_owned_handle(self) -> io::Result<OwnedHandle> {
        // A job that is running may hold the other one.
        Ok(self.file.try_clone()?.into())
    }
}

impl std::fmt::Debug for PipeEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl AsRawHandle for PipeEnd {
    fn as_raw_handle(&self) -> RawHandle {
        self.file.as_raw_handle()
    }
}

impl AsHandle for PipeEnd {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.file.as_handle()
    }
}

impl AsyncRead for PipeEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for PipeEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
