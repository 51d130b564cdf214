//! A stream whose writability is not watched yet.
//!
//! A new stream can nearly always be written to. A selector that watches for it reports
//! that at once: an event for every connection, which mostly no task waits for. So
//! writability is watched only after a write has found no room, which most streams
//! never see.
//!
//! U1. While the word has `WRITABLE`, it need not be watched for. Watching begins
//!     before the word loses it; if the stream is writable then, the selector reports
//!     that at once, so that no event is lost.

use std::io;

use blitzen_util::shim::atomic::AtomicI32;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use super::SourceSlot;
use super::word::ReadyEvent;
use crate::Ready;
use crate::wake_list::WakeList;

/// No descriptor: writability is watched, or the source is not a stream.
const NONE: i32 = -1;

/// The descriptor of a stream whose writability is not watched yet, if it is one.
#[derive(Debug)]
pub(crate) struct Unwatched(AtomicI32);

impl Unwatched {
    pub(crate) fn new(descriptor: Option<i32>) -> Self {
        Self(AtomicI32::new(descriptor.unwrap_or(NONE)))
    }

    /// Clears `event` from the word of `slot`. Before that, if `event` has writability
    /// and it is not watched yet, calls `watch` (U1); if that fails, the word stays as
    /// it is.
    #[inline]
    pub(crate) fn clear(
        &self,
        slot: &SourceSlot,
        event: ReadyEvent,
        watch: impl FnOnce(i32) -> io::Result<()>,
    ) -> io::Result<()> {
        if event.ready().is_writable() && self.0.load(Relaxed) != NONE {
            self.watch_once(slot, watch)?;
        }
        slot.clear(event);
        Ok(())
    }

    #[cold]
    fn watch_once(
        &self,
        slot: &SourceSlot,
        watch: impl FnOnce(i32) -> io::Result<()>,
    ) -> io::Result<()> {
        // Relaxed: a thread that finds `NONE` may clear and wait at once. If there is
        // room, the event that `watch` causes comes after this swap.
        let descriptor = self.0.swap(NONE, Relaxed);
        if descriptor == NONE {
            return Ok(());
        }
        watch(descriptor).inspect_err(|_| {
            // A swap: it comes after every swap that found `NONE`. Relaxed: a thread
            // that sees the post below sees this.
            self.0.swap(descriptor, Relaxed);
            // A task that has cleared in between must try again: nothing watches.
            let mut wakes = WakeList::default();
            slot.post(|_| true, Ready::WRITABLE, &mut wakes);
            wakes.wake_all();
        })
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn writes_are_watched_once_and_for_writes_only() {
        let slot = SourceSlot::new();
        slot.open(Ready::READABLE | Ready::WRITABLE);
        let unwatched = Unwatched::new(Some(7));
        let mut watched = Vec::new();
        let mut clear = |ready: Ready, answer: io::Result<()>| {
            unwatched.clear(&slot, slot.now(ready), |descriptor| {
                watched.push(descriptor);
                answer
            })
        };
        clear(Ready::READABLE, Ok(())).unwrap();
        clear(Ready::WRITABLE, Err(io::ErrorKind::OutOfMemory.into())).unwrap_err();
        assert_eq!(slot.now(Ready::ALL).ready(), Ready::WRITABLE);
        clear(Ready::ALL, Ok(())).unwrap(); // not watched yet: again
        clear(Ready::WRITABLE, Ok(())).unwrap();
        assert_eq!(watched, [7, 7]);
        assert_eq!(slot.now(Ready::ALL).ready(), Ready::EMPTY);
    }
}

#[cfg(all(test, blitzen_loom))]
mod model {
    use super::*;
    use crate::readiness::Direction;
    use blitzen_util::shim::{Arc, Mutex, thread};
    use std::future::poll_fn;
    use std::task::Poll;

    /// The kernel's side.
    #[derive(Default)]
    struct Kernel {
        room: usize,
        is_watched: bool,
        /// How many times it refuses to watch.
        refusals: usize,
    }

    struct Stream {
        slot: SourceSlot,
        unwatched: Unwatched,
        kernel: Mutex<Kernel>,
    }

    impl Stream {
        /// A stream that counts as writable, and is full.
        fn new() -> Arc<Self> {
            let slot = SourceSlot::new();
            slot.open(Ready::WRITABLE);
            Arc::new(Self {
                slot,
                unwatched: Unwatched::new(Some(7)),
                kernel: Mutex::new(Kernel::default()),
            })
        }

        /// Changes the kernel's side, which posts an event if the stream is watched and
        /// has room.
        fn change(&self, change: impl FnOnce(&mut Kernel)) {
            let tells = {
                let mut kernel = self.kernel.lock();
                change(&mut kernel);
                kernel.is_watched && kernel.room > 0
            };
            if tells {
                let mut wakes = WakeList::default();
                self.slot.post(|_| true, Ready::WRITABLE, &mut wakes);
                wakes.wake_all();
            }
        }

        fn try_write(&self) -> bool {
            let mut kernel = self.kernel.lock();
            let fits = kernel.room > 0;
            kernel.room -= usize::from(fits);
            fits
        }

        fn watch(&self) -> io::Result<()> {
            {
                let mut kernel = self.kernel.lock();
                if kernel.refusals > 0 {
                    kernel.refusals -= 1;
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
            }
            self.change(|kernel| kernel.is_watched = true);
            Ok(())
        }

        fn refute(&self, event: ReadyEvent) -> io::Result<()> {
            self.unwatched.clear(&self.slot, event, |_| self.watch())
        }

        async fn write(&self) -> io::Result<()> {
            poll_fn(|cx| {
                loop {
                    match self.slot.poll(cx, Direction::Write) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(_) if self.try_write() => return Poll::Ready(Ok(())),
                        Poll::Ready(event) => match self.refute(event) {
                            Ok(()) => {}
                            Err(error) => return Poll::Ready(Err(error)),
                        },
                    }
                }
            })
            .await
        }

        /// Tries once, and clears the readiness if the write found no room.
        fn try_once(&self) -> io::Result<()> {
            let event = self.slot.now(Ready::WRITABLE);
            match !event.ready().is_empty() && !self.try_write() {
                true => self.refute(event),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn a_write_that_finds_no_room_is_woken_although_nothing_was_watched() {
        loom::model(|| {
            let stream = Stream::new();
            let peer = thread::spawn({
                let stream = stream.clone();
                move || stream.change(|kernel| kernel.room += 1)
            });
            loom::future::block_on(stream.write()).unwrap();
            peer.join().unwrap();
        });
    }

    #[test]
    fn a_second_write_is_woken_by_the_watch_of_the_first() {
        loom::model(|| {
            let stream = Stream::new();
            let other = thread::spawn({
                let stream = stream.clone();
                move || stream.try_once().unwrap()
            });
            stream.change(|kernel| kernel.room += 2);
            loom::future::block_on(stream.write()).unwrap();
            other.join().unwrap();
        });
    }

    #[test]
    fn no_write_waits_if_the_kernel_refuses_to_watch() {
        loom::model(|| {
            let stream = Stream::new();
            stream.kernel.lock().refusals = 2;
            let other = thread::spawn({
                let stream = stream.clone();
                move || stream.try_once()
            });
            let written = loom::future::block_on(stream.write());
            written.expect_err("there is no room, and nobody will tell of some");
            let _ = other.join().unwrap();
        });
    }
}
