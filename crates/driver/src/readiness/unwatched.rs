//! A stream that is written to without being watched for it.
//!
//! A selector that is asked whether a new stream can be written to says so at
//! once: an event for every connection, and mostly for nobody. So that is asked
//! when a write has found no room, which most streams never see.
//!
//! U1. While the word says that the stream can be written to, nobody need watch
//!     that. It is watched from before the word takes it back; and the selector,
//!     asked so late, says at once what it would have said before.

use std::io;

use blitzen_util::shim::atomic::AtomicI32;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use super::word::ReadyEvent;

/// No descriptor: what there is to watch is watched.
const NONE: i32 = -1;

/// The descriptor of which nobody watches whether it can be written to, if any.
#[derive(Debug)]
pub(crate) struct Unwatched(AtomicI32);

impl Unwatched {
    pub(crate) fn new(descriptor: Option<i32>) -> Self {
        Self(AtomicI32::new(descriptor.unwrap_or(NONE)))
    }

    /// To be called before `event` is taken back from the word (U1): has `watch`
    /// watch for writes, once. If that fails the word must stay as it is.
    #[inline]
    pub(crate) fn settle(
        &self,
        event: ReadyEvent,
        watch: impl FnOnce(i32) -> io::Result<()>,
    ) -> io::Result<()> {
        match event.ready().is_writable() && self.0.load(Relaxed) != NONE {
            true => self.settle_writes(watch),
            false => Ok(()),
        }
    }

    #[cold]
    fn settle_writes(&self, watch: impl FnOnce(i32) -> io::Result<()>) -> io::Result<()> {
        // Relaxed: who finds it taken may clear and wait at once. The event that
        // comes of the watching, if there is room, comes after this swap.
        match self.0.swap(NONE, Relaxed) {
            NONE => Ok(()),
            descriptor => watch(descriptor).inspect_err(|_| self.0.store(descriptor, Relaxed)),
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::Ready;
    use crate::readiness::word::Word;

    #[test]
    fn writes_are_watched_once_and_for_writes_only() {
        let word = Word::new();
        word.open(Ready::READABLE | Ready::WRITABLE);
        let unwatched = Unwatched::new(Some(7));
        let mut watched = Vec::new();
        let mut settle = |ready: Ready, answer: io::Result<()>| {
            unwatched.settle(word.load().event(ready), |descriptor| {
                watched.push(descriptor);
                answer
            })
        };
        settle(Ready::READABLE, Ok(())).unwrap();
        settle(Ready::WRITABLE, Err(io::ErrorKind::OutOfMemory.into())).unwrap_err();
        settle(Ready::ALL, Ok(())).unwrap(); // not watched yet: again
        settle(Ready::WRITABLE, Ok(())).unwrap();
        assert_eq!(watched, [7, 7]);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::Ready;
    use crate::readiness::{Direction, Slot};
    use crate::wakes::Wakes;
    use blitzen_util::shim::{Arc, Mutex, thread};
    use std::future::poll_fn;
    use std::task::Poll;

    /// The kernel's side.
    #[derive(Default)]
    struct Kernel {
        room: usize,
        is_watched: bool,
    }

    struct Stream {
        slot: Slot,
        unwatched: Unwatched,
        kernel: Mutex<Kernel>,
    }

    impl Stream {
        /// A stream that counts as writable, and is full.
        fn new() -> Arc<Self> {
            let slot = Slot::new();
            slot.open(Ready::WRITABLE);
            Arc::new(Self {
                slot,
                unwatched: Unwatched::new(Some(7)),
                kernel: Mutex::new(Kernel::default()),
            })
        }

        /// Changes the kernel's side, which tells if it is watched and has room.
        fn change(&self, change: impl FnOnce(&mut Kernel)) {
            let tells = {
                let mut kernel = self.kernel.lock();
                change(&mut kernel);
                kernel.is_watched && kernel.room > 0
            };
            if tells {
                let mut wakes = Wakes::default();
                self.slot.post(|_| true, Ready::WRITABLE, &mut wakes);
                wakes.fire();
            }
        }

        fn try_write(&self) -> bool {
            let mut kernel = self.kernel.lock();
            let fits = kernel.room > 0;
            kernel.room -= usize::from(fits);
            fits
        }

        fn refute(&self, event: ReadyEvent) {
            let watch = |_| {
                self.change(|kernel| kernel.is_watched = true);
                Ok(())
            };
            self.unwatched.settle(event, watch).unwrap();
            self.slot.clear(event);
        }

        async fn write(&self) {
            poll_fn(|cx| {
                loop {
                    match self.slot.poll(cx, Direction::Write) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(_) if self.try_write() => return Poll::Ready(()),
                        Poll::Ready(event) => self.refute(event),
                    }
                }
            })
            .await
        }
    }

    #[test]
    fn a_write_that_finds_no_room_is_told_of_some_although_nobody_watched() {
        loom::model(|| {
            let stream = Stream::new();
            let peer = thread::spawn({
                let stream = stream.clone();
                move || stream.change(|kernel| kernel.room += 1)
            });
            loom::future::block_on(stream.write());
            peer.join().unwrap();
        });
    }

    #[test]
    fn whoever_else_finds_no_room_is_told_by_the_one_who_watches() {
        loom::model(|| {
            let stream = Stream::new();
            // It only tries, and takes back what it has refuted.
            let other = thread::spawn({
                let stream = stream.clone();
                move || {
                    let event = stream.slot.now(Ready::WRITABLE);
                    if !event.ready().is_empty() && !stream.try_write() {
                        stream.refute(event);
                        return false;
                    }
                    !event.ready().is_empty()
                }
            });
            stream.change(|kernel| kernel.room += 2);
            loom::future::block_on(stream.write());
            other.join().unwrap();
        });
    }
}
