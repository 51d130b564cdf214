//! What makes a wait in the selector return.
//!
//! Over poll(2), mio's waker loses wakes: mio tells a waiting thread by one descriptor that a
//! waker was used and that a source was added or removed. The thread that adds or removes empties
//! the descriptor when it is done, and with it the wake that came before the wait began. A pipe
//! that is a source like any other keeps its byte until it is read.

use std::io;

use mio::{Registry, Token};

cfg_select! {
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
