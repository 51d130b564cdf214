//! Waiting through mio, wherever it works.

use std::io;
use std::time::Duration;

use blitzen_util::shim::Mutex;

use crate::Ready;

/// The kernel's queue of events.
#[derive(Debug)]
pub(in crate::poller) struct Selector {
    poll: Mutex<mio::Poll>,
    registry: mio::Registry,
}

impl Selector {
    pub(in crate::poller) fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        Ok(Self {
            registry: poll.registry().try_clone()?,
            poll: Mutex::new(poll),
        })
    }

    pub(in crate::poller) fn registry(&self) -> &mio::Registry {
        &self.registry
    }

    /// Waits for up to `limit` events, at most for `timeout`.
    pub(in crate::poller) fn wait(
        &self,
        events: &mut Events,
        limit: usize,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        // A buffer takes as many events as it has room for, so there are two.
        events.few_last = limit < events.most;
        let buffer = match events.few_last {
            true => &mut events.few,
            false => &mut events.many,
        };
        self.poll.lock().poll(buffer, timeout)
    }
}

/// What a wait brought.
#[derive(Debug)]
pub(in crate::poller) struct Events {
    few: mio::Events,
    many: mio::Events,
    most: usize,
    few_last: bool,
}

impl Events {
    pub(in crate::poller) fn with_limits(few: usize, many: usize) -> Self {
        Self {
            few: mio::Events::with_capacity(few),
            many: mio::Events::with_capacity(many),
            most: many,
            few_last: false,
        }
    }

    pub(in crate::poller) fn iter(&self) -> impl Iterator<Item = (usize, Ready)> + '_ {
        let buffer = if self.few_last { &self.few } else { &self.many };
        buffer
            .iter()
            .map(|event| (event.token().0, Ready::from_event(event)))
    }
}
