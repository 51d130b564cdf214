//! Waiting through mio, wherever it works.

use std::io;
use std::ops::Range;
use std::time::Duration;

use blitzen_util::shim::Mutex;
use mio::event::Source;
use mio::{Interest, Token};

use crate::Ready;

/// A source that is read and written.
///
/// ```
/// let (mut ours, _theirs) = mio::net::UnixStream::pair()?;
/// fn stream(_: &mut impl blitzen_driver::Stream) {}
/// stream(&mut ours);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Stream: Source {}

impl<S: Source> Stream for S {}

/// The descriptor of a source, and what it is watched for.
///
/// Over poll(2) and event ports, mio reports an event once, and then has to be asked again. Its own
/// types do that when an operation would block, but over poll(2) this fails once the other end was
/// closed or there was an error: mio has removed the source then. Other selectors go on reporting.
#[derive(Debug)]
pub(crate) struct BareDescriptor(Option<(i32, Interest)>);

impl BareDescriptor {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    #[cfg(unix)]
    pub(crate) fn new(descriptor: i32, interest: Interest) -> Self {
        let is_asked_again = cfg!(any(blitzen_poll, target_os = "solaris"));
        Self(is_asked_again.then_some((descriptor, interest)))
    }
}

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

    /// Registers a stream for both directions, so that there is nothing to add
    /// later.
    pub(in crate::poller) fn add_stream(
        &self,
        stream: &mut impl Stream,
        token: Token,
    ) -> io::Result<Option<i32>> {
        let both = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(stream, token, both)?;
        Ok(None)
    }

    /// Never called: [`add_stream`](Self::add_stream) registers both
    /// directions.
    pub(in crate::poller) fn watch_both(&self, _descriptor: i32, _token: Token) -> io::Result<()> {
        Ok(())
    }

    /// Removes a source. Over poll(2), mio has removed it already if its other end is closed.
    pub(in crate::poller) fn remove(&self, source: &mut impl Source) -> io::Result<()> {
        match self.registry.deregister(source) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Watches for the next event of a descriptor.
    #[cfg_attr(not(unix), allow(unused_variables))]
    pub(in crate::poller) fn watch_again(
        &self,
        bare: &BareDescriptor,
        token: Token,
    ) -> io::Result<()> {
        match bare.0 {
            None => Ok(()),
            #[cfg(unix)]
            Some((descriptor, interest)) => {
                let mut source = mio::unix::SourceFd(&descriptor);
                match self.registry.reregister(&mut source, token, interest) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.registry.register(&mut source, token, interest)
                    }
                    watched => watched,
                }
            }
            #[cfg(not(unix))]
            Some(_) => unreachable!("never created here"),
        }
    }

    /// Waits for up to `limit` events, at most for `timeout`.
    pub(in crate::poller) fn wait(
        &self,
        events: &mut Events,
        limit: usize,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        if !events.are_left() {
            events.count = 0;
            events.taken = 0..0;
            // A buffer takes as many events as it has room for, so there are two.
            events.few_last = limit < events.most;
            let buffer = match events.few_last {
                true => &mut events.few,
                false => &mut events.many,
            };
            self.poll.lock().poll(buffer, timeout)?;
            events.count = buffer.iter().count();
        }
        let start = events.taken.end;
        events.taken = start..events.count.min(start + limit);
        Ok(())
    }
}

/// The events of a wait.
///
/// Over poll(2), mio finds more events than there is room for. What is beyond the limit of a wait
/// is left for the next.
#[derive(Debug)]
pub(in crate::poller) struct Events {
    few: mio::Events,
    many: mio::Events,
    most: usize,
    /// Which of the buffers was filled last, and with how many events.
    few_last: bool,
    count: usize,
    /// The events of the last wait.
    taken: Range<usize>,
}

impl Events {
    pub(in crate::poller) fn with_limits(few: usize, many: usize) -> Self {
        Self {
            few: mio::Events::with_capacity(few),
            many: mio::Events::with_capacity(many),
            most: many,
            few_last: false,
            count: 0,
            taken: 0..0,
        }
    }

    /// Whether a wait has found more than its limit, and the next one hands it out.
    pub(in crate::poller) fn are_left(&self) -> bool {
        self.taken.end < self.count
    }

    pub(in crate::poller) fn iter(&self) -> impl Iterator<Item = (usize, Ready)> + '_ {
        let buffer = if self.few_last { &self.few } else { &self.many };
        buffer
            .iter()
            .skip(self.taken.start)
            .take(self.taken.len())
            .map(|event| (event.token().0, Ready::from_event(event)))
    }
}
