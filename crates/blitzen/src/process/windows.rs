//! Child processes on Windows.
//!
//! A thread of the system's pool reports a child's exit. Its pipes block, and are read
//! and written on the blocking pool.
//!
//! V1. The callback's argument is a reference to the notice that is counted for it. The
//!     callback is called at most once, and gives the reference up. If it is not called,
//!     whoever unregisters the wait does.
//! V2. Unregistering does not wait for a callback that is running: it may be done by
//!     the waker that the callback calls.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle, RawHandle};
use std::pin::Pin;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use blitzen_util::quiet::quietly;
use windows_sys::Win32::Foundation::HANDLE;
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
    notice: Arc<ExitNotice>,
}

// SAFETY: the handle may be used by any thread.
unsafe impl Send for RegisteredWait {}
// SAFETY: nothing is done through a shared reference to it.
unsafe impl Sync for RegisteredWait {}

/// Whether the callback has been called, and who waits for that.
#[derive(Default)]
struct ExitNotice(Mutex<(bool, Option<Waker>)>);

impl ExitNotice {
    fn lock(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegisteredWait {
    fn new(child: &Child) -> io::Result<Self> {
        let notice = Arc::new(ExitNotice::default());
        let for_callback = Arc::into_raw(notice.clone()); // V1
        let mut system: HANDLE = std::ptr::null_mut();
        // SAFETY: the child's handle is open, and the wait is unregistered before it
        // is closed (the child drops its `ExitWait` first); V1.
        let done = unsafe {
            RegisterWaitForSingleObject(
                &mut system,
                child.as_raw_handle() as HANDLE,
                Some(on_exit),
                for_callback.cast(),
                INFINITE,
                WT_EXECUTEINWAITTHREAD | WT_EXECUTEONLYONCE,
            )
        };
        if done == 0 {
            let error = io::Error::last_os_error();
            // SAFETY: from `into_raw`; there is no callback that could use it.
            drop(unsafe { Arc::from_raw(for_callback) });
            return Err(error);
        }
        Ok(Self { system, notice })
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut notice = self.notice.lock();
        let (was_called, waker_slot) = &mut *notice;
        let (answer, before) = match was_called {
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
        // It returns zero while the callback runs, and that gives up its reference
        // (V1). The wait itself has ended then, so the child's handle may be closed.
        // SAFETY: the wait is ours, and unregistered once.
        let will_not_run = unsafe { UnregisterWaitEx(self.system, std::ptr::null_mut()) } != 0;
        if will_not_run && !self.notice.lock().0 {
            // SAFETY: V1: from `into_raw`, and the callback was not called and is not
            // called any more.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.notice)) };
        }
    }
}

/// Runs on a thread of the system's pool.
unsafe extern "system" fn on_exit(context: *mut c_void, _timed_out: bool) {
    // SAFETY: V1, from `into_raw`.
    let notice = unsafe { Arc::from_raw(context.cast_const().cast::<ExitNotice>()) };
    let mut state = notice.lock();
    state.0 = true;
    let waker = state.1.take();
    drop(state);
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
