//! What makes a wait in the selector return.
//!
//! Over poll(2), mio's waker loses wakes: mio tells a waiting thread by one descriptor that a
//! waker was used and that a source was added or removed. The thread that adds or removes empties
//! the descriptor when it is done, and with it the wake that came before the wait began. A pipe
//! that is a source like any other keeps its byte until it is read.
//!
//! On Windows, the waker counts its events: they show which of the others were taken in, since the
//! port hands out events in the order of their posting.

use std::io;

use mio::{Registry, Token};

cfg_select! {
    windows => {
        use blitzen_util::shim::atomic::AtomicU64;
        use blitzen_util::shim::atomic::Ordering::Relaxed;

        /// Relaxed: the port orders the counts for a thread that takes an event.
        #[derive(Debug)]
        pub(in crate::poller) struct Waker {
            waker: mio::Waker,
            /// How many events are posted, or are about to be.
            posted: AtomicU64,
            /// How many of them were taken in. Written under the turn's lock.
            taken: AtomicU64,
        }

        impl Waker {
            pub(in crate::poller) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
                Ok(Self {
                    waker: mio::Waker::new(registry, token)?,
                    posted: AtomicU64::new(0),
                    taken: AtomicU64::new(0),
                })
            }

            pub(in crate::poller) fn wake(&self) -> io::Result<()> {
                self.posted.fetch_add(1, Relaxed); // first: see `mark`
                let woken = self.waker.wake();
                if woken.is_err() {
                    self.posted.fetch_sub(1, Relaxed);
                }
                woken
            }

            /// Takes in an event of the waker. The caller has the turn's lock.
            pub(in crate::poller) fn clear(&self) {
                self.taken.store(self.taken.load(Relaxed) + 1, Relaxed);
            }

            /// Posts an event. All that was posted before is taken in once `has_passed` returns true
            /// for the mark that this returns.
            ///
            /// The mark is the number of events that others have posted or counted by now, and this
            /// one. Those in front of this one are among them, so it is taken in with the last of
            /// them at the latest.
            pub(in crate::poller) fn mark(&self) -> u64 {
                self.wake().expect("the poller's waker must work");
                self.posted.load(Relaxed)
            }

            pub(in crate::poller) fn has_passed(&self, mark: u64) -> bool {
                self.taken.load(Relaxed) >= mark
            }
        }
    }
    not(blitzen_poll) => {
        #[derive(Debug)]
        pub(in crate::poller) struct Waker(mio::Waker);

        impl Waker {
            pub(in crate::poller) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
                mio::Waker::new(registry, token).map(Self)
            }

            pub(in crate::poller) fn wake(&self) -> io::Result<()> {
                self.0.wake()
            }

            /// Takes in an event of the waker: there is nothing to do, mio reports each wake once.
            pub(in crate::poller) fn clear(&self) {}
        }
    }
    _ => {
        use std::io::{Read, Write};

        use mio::unix::pipe::{self, Receiver, Sender};

        #[derive(Debug)]
        pub(in crate::poller) struct Waker {
            sender: Sender,
            receiver: Receiver,
        }

        impl Waker {
            pub(in crate::poller) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
                let (sender, mut receiver) = pipe::new()?;
                registry.register(&mut receiver, token, mio::Interest::READABLE)?;
                Ok(Self { sender, receiver })
            }

            pub(in crate::poller) fn wake(&self) -> io::Result<()> {
                match (&self.sender).write(&[1]) {
                    // A full pipe wakes as well as one more byte would.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                    result => result.map(drop),
                }
            }

            /// Takes in an event of the waker: empties the pipe. The read that would block asks mio
            /// for the next event.
            pub(in crate::poller) fn clear(&self) {
                while (&self.receiver).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            }
        }
    }
}
