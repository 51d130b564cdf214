//! Windows console events.
//!
//! ```no_run
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let mut close = blitzen::signal::windows::ctrl_close()?;
//! close.recv().await;
//! println!("a few seconds are left");
//! # Ok(())
//! # }
//! ```

use std::io;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use blitzen_util::coop;
use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

use super::event_count::{EventCount, EventListener};
use crate::runtime::Handle;

/// One kind of event, and whether it was ever listened for.
struct ConsoleEvent {
    events: EventCount,
    wanted: OnceLock<()>,
}

impl ConsoleEvent {
    const fn new() -> Self {
        Self {
            events: EventCount::new(),
            wanted: OnceLock::new(),
        }
    }
}

static CTRL_C: ConsoleEvent = ConsoleEvent::new();
static BREAK: ConsoleEvent = ConsoleEvent::new();
static CLOSE: ConsoleEvent = ConsoleEvent::new();
static LOGOFF: ConsoleEvent = ConsoleEvent::new();
static SHUTDOWN: ConsoleEvent = ConsoleEvent::new();

/// Runs on a thread that the system starts for the event.
unsafe extern "system" fn handler(event: u32) -> BOOL {
    let kind = match event {
        CTRL_C_EVENT => &CTRL_C,
        CTRL_BREAK_EVENT => &BREAK,
        CTRL_CLOSE_EVENT => &CLOSE,
        CTRL_LOGOFF_EVENT => &LOGOFF,
        CTRL_SHUTDOWN_EVENT => &SHUTDOWN,
        _ => return 0,
    };
    if kind.wanted.get().is_none() {
        return 0; // the next handler's, or the default
    }
    kind.events.increment();
    if !matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT) {
        // The system ends the process when this returns, or when its time limit is
        // over: until then the program can clean up.
        loop {
            std::thread::park();
        }
    }
    1
}

#[track_caller]
fn listen(kind: &'static ConsoleEvent) -> io::Result<EventListener> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    drop(Handle::current()); // panics outside a runtime, as on Unix
    if INSTALLED.get().is_none() {
        // SAFETY: the handler is a function, which is never unloaded.
        if unsafe { SetConsoleCtrlHandler(Some(handler), 1) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let _ = INSTALLED.set(()); // twice does no harm: the last one answers
    }
    kind.wanted.get_or_init(|| ());
    Ok(kind.events.listen())
}

macro_rules! events {
    ($($function:ident $listener:ident $kind:ident $about:literal;)*) => {$(
        #[doc = concat!("Creates a listener for ", $about)]
        ///
        /// # Examples
        /// ```no_run
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = concat!("let mut event = blitzen::signal::windows::", stringify!($function), "()?;")]
        /// event.recv().await;
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `SetConsoleCtrlHandler`.
        ///
        /// # Panics
        /// Panics outside a runtime.
        #[track_caller]
        pub fn $function() -> io::Result<$listener> {
            Ok($listener(listen(&$kind)?))
        }

        #[doc = concat!("A listener for ", $about)]
        ///
        /// # Examples
        /// ```no_run
        /// # #[blitzen::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        #[doc = concat!("let mut event: blitzen::signal::windows::", stringify!($listener))]
        #[doc = concat!("    = blitzen::signal::windows::", stringify!($function), "()?;")]
        /// event.recv().await;
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Debug)]
        #[must_use = "a listener does nothing unless it is polled"]
        pub struct $listener(EventListener);

        impl $listener {
            /// Waits for the event. Never returns `None`.
            ///
            /// # Examples
            /// ```no_run
            /// # #[blitzen::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = concat!("# let mut event = blitzen::signal::windows::", stringify!($function), "()?;")]
            /// event.recv().await;
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Cancel safety
            /// Dropping the future loses no event.
            pub async fn recv(&mut self) -> Option<()> {
                std::future::poll_fn(|cx| self.poll_recv(cx)).await
            }

            /// Polls for the event; see [`recv`](Self::recv).
            ///
            /// # Examples
            /// ```no_run
            /// # #[blitzen::main(flavor = "current_thread")]
            /// # async fn main() -> std::io::Result<()> {
            #[doc = concat!("# let mut event = blitzen::signal::windows::", stringify!($function), "()?;")]
            /// std::future::poll_fn(|cx| event.poll_recv(cx)).await;
            /// # Ok(())
            /// # }
            /// ```
            pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
                let spent = ready!(coop::poll_proceed(cx));
                ready!(self.0.poll(cx));
                spent.made_progress();
                Poll::Ready(Some(()))
            }
        }
    )*};
}

events! {
    ctrl_c CtrlC CTRL_C "ctrl-c.";
    ctrl_break CtrlBreak BREAK "ctrl-break.";
    ctrl_close CtrlClose CLOSE "the closing of the console.";
    ctrl_logoff CtrlLogoff LOGOFF "the logoff of the user.";
    ctrl_shutdown CtrlShutdown SHUTDOWN "the shutdown of the system.";
}
