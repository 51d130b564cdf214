//! The task that waits for the signals.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use super::{Cause, ShutdownShared};
use crate::signal;
use crate::task::Builder;

/// The signals that trigger a shutdown.
struct Signals {
    #[cfg(unix)]
    interrupt: signal::unix::Signal,
    #[cfg(unix)]
    terminate: signal::unix::Signal,
    #[cfg(windows)]
    interrupt: signal::windows::CtrlC,
    #[cfg(windows)]
    terminate: signal::windows::CtrlClose,
}

impl Signals {
    #[cfg(unix)]
    #[track_caller]
    fn new() -> io::Result<Self> {
        use signal::unix::SignalKind;
        Ok(Self {
            interrupt: signal::unix::signal(SignalKind::interrupt())?,
            terminate: signal::unix::signal(SignalKind::terminate())?,
        })
    }

    #[cfg(windows)]
    #[track_caller]
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal::windows::ctrl_c()?,
            terminate: signal::windows::ctrl_close()?,
        })
    }

    /// Returns the next one; `None` if there will be none.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Cause>> {
        match self.interrupt.poll_recv(cx) {
            Poll::Pending => self.terminate.poll_recv(cx),
            received => return received.map(|signal| signal.map(|()| Cause::Interrupt)),
        }
        .map(|signal| signal.map(|()| Cause::Terminate))
    }
}

/// Spawns the task that passes signals on to `shared`.
#[track_caller]
pub(super) fn listen(shared: &Arc<ShutdownShared>) -> io::Result<()> {
    let signals = Signals::new()?;
    let dropped = shared.dropped.clone();
    let task = dropped.run_until_cancelled_owned(pass_on(signals, Arc::downgrade(shared)));
    // The task is detached.
    drop(Builder::new().name("shutdown").spawn(task)?);
    Ok(())
}

async fn pass_on(mut signals: Signals, shared: Weak<ShutdownShared>) {
    while let Some(cause) = poll_fn(|cx| signals.poll_recv(cx)).await {
        match shared.upgrade() {
            Some(shared) => shared.on_signal(cause),
            None => return,
        }
    }
}
