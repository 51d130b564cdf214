//! Processes of Windows.
//!
//! The end of a child is told by a thread of the system's pool; its pipes block,
//! and so are read and written on ours.
//!
//! V1. What the system's callback is given lives until the wait was taken back,
//!     which lasts until a callback that is under way has ended.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle, RawHandle};
use std::pin::Pin;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEINWAITTHREAD,
    WT_EXECUTEONLYONCE,
};

use crate::io::{AsyncRead, AsyncWrite, Blocking, ReadBuf};
use crate::runtime::Handle;

/// A child that nobody waits for leaves nothing behind: its handle is closed.
pub(crate) fn abandon(child: Child) {
    drop(child);
}

/// How the end of one child is waited for.
pub(crate) struct Exit(Option<Wait>);

impl Exit {
    pub(crate) fn new(_home: Handle) -> Self {
        Self(None)
    }

    /// The child's status when it is over.
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
            none => none.insert(Wait::new(child)?),
        };
        if wait.poll(cx).is_pending() {
            return Poll::Pending;
        }
        match child.try_wait()? {
            Some(status) => Poll::Ready(Ok(status)),
            None => unreachable!("a process whose handle is signalled is over"),
        }
    }
}

/// A wait that was asked of the system.
struct Wait {
    system: HANDLE,
    /// Given to the callback (V1).
    news: Arc<News>,
}

// SAFETY: the handle may be used by any thread.
unsafe impl Send for Wait {}
// SAFETY: nothing is done through a shared reference to it.
unsafe impl Sync for Wait {}

#[derive(Default)]
struct News(Mutex<(bool, Option<Waker>)>);

impl Wait {
    fn new(child: &Child) -> io::Result<Self> {
        let news = Arc::new(News::default());
        let mut system: HANDLE = std::ptr::null_mut();
        // SAFETY: the child's handle is open; the wait is taken back before the
        // handle is closed (the child owns it, and drops its `Exit` first); V1.
        let done = unsafe {
            RegisterWaitForSingleObject(
                &mut system,
                child.as_raw_handle() as HANDLE,
                Some(told),
                Arc::as_ptr(&news).cast(),
                INFINITE,
                WT_EXECUTEINWAITTHREAD | WT_EXECUTEONLYONCE,
            )
        };
        match done {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(Self { system, news }),
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut news = self.news.0.lock().unwrap_or_else(|e| e.into_inner());
        let (is_over, place) = &mut *news;
        let (answer, before) = match is_over {
            true => (Poll::Ready(()), None),
            false => (Poll::Pending, place.replace(waker)),
        };
        drop(news);
        drop(before);
        answer
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // Waits for a callback that is under way (V1). It can fail only for a
        // wait that is not one.
        // SAFETY: the wait is ours, and taken back once.
        unsafe { UnregisterWaitEx(self.system, INVALID_HANDLE_VALUE) };
    }
}

/// Runs on a thread of the system's pool.
unsafe extern "system" fn told(news: *mut c_void, _timed_out: bool) {
    // SAFETY: V1.
    let news = unsafe { &*news.cast_const().cast::<News>() };
    let mut news = news.0.lock().unwrap_or_else(|e| e.into_inner());
    news.0 = true;
    let waker = news.1.take();
    drop(news);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A pipe, shared by a stream and the job that reads or writes it.
struct Shared(Arc<File>);

impl Read for Shared {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buf)
    }
}

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self.0).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // the system has it
    }
}

/// One of our ends of a child's pipe.
pub(crate) struct End {
    file: Arc<File>,
    stream: Blocking<Shared>,
}

/// The end that is written.
pub(crate) type Sender = End;
/// The end that is read.
pub(crate) type Receiver = End;

/// Takes over a pipe of std's.
#[track_caller]
pub(crate) fn from_std(stream: impl Into<OwnedHandle>) -> io::Result<End> {
    let file = Arc::new(File::from(stream.into()));
    Ok(End {
        stream: Blocking::new(Shared(file.clone())),
        file,
    })
}

impl End {
    /// The pipe, for somebody else.
    pub(crate) fn into_owned_handle(self) -> io::Result<OwnedHandle> {
        // A job that is under way has the other.
        Ok(self.file.try_clone()?.into())
    }
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl AsRawHandle for End {
    fn as_raw_handle(&self) -> RawHandle {
        self.file.as_raw_handle()
    }
}

impl AsHandle for End {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.file.as_handle()
    }
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for End {
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
