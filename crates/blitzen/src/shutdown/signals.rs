//! The task that hears the signals.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use super::{Cause, Shared};
use crate::signal;
use crate::task::Builder;

/// The signals that ask for the end.
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

    /// The next one; `None` if there will be none.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Cause>> {
        match self.interrupt.poll_recv(cx) {
            Poll::Pending => self.terminate.poll_recv(cx),
            come => return come.map(|come| come.map(|()| Cause::Interrupt)),
        }
        .map(|come| come.map(|()| Cause::Terminate))
    }
}

/// Passes on to `shared` what signals there are, from now on.
#[track_caller]
pub(super) fn listen(shared: &Arc<Shared>) -> io::Result<()> {
    let signals = Signals::new()?;
    let over = shared.over.clone();
    let task = over.run_until_cancelled_owned(pass_on(signals, Arc::downgrade(shared)));
    // Which goes on by itself.
    drop(Builder::new().name("shutdown").spawn(task)?);
    Ok(())
}

async fn pass_on(mut signals: Signals, shared: Weak<Shared>) {
    while let Some(cause) = poll_fn(|cx| signals.poll_recv(cx)).await {
        match shared.upgrade() {
            Some(shared) => shared.signalled(cause),
            None => return,
        }
    }
}
