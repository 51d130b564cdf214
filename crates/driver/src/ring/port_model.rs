//! A kernel of our own making, for models: what is submitted is done at once,
//! and kept in store until a thread comes by for it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use blitzen_util::shim::cell::UnsafeCell;
use blitzen_util::shim::{Condvar, Mutex};
use io_uring::squeue::Entry;

use super::setup::{Features, Refusal, RingConfig};
use super::slab::Token;
use crate::Poller;

/// Entries that fit into the submission queue.
const ENTRIES: usize = 2;

/// The ring's end of the model.
pub(super) struct Port {
    /// Touched with everything that P1 is about: loom finds who breaks it.
    queues: UnsafeCell<()>,
    kernel: Mutex<Kernel>,
    heard: Condvar,
}

/// What the kernel does for each operation, with the memory it was given.
pub(super) type Work = Box<dyn Fn() + Send>;

#[derive(Default)]
struct Kernel {
    submitted: Vec<u64>,
    store: Vec<u64>,
    completed: VecDeque<u64>,
    bell: bool,
    work: Option<Work>,
}

impl Kernel {
    fn come_by(&mut self) {
        self.completed.extend(self.store.drain(..));
        if std::mem::take(&mut self.bell) {
            self.completed.push_back(Token::WATCH.bits());
        }
    }
}

// SAFETY: the cell is there to be misused, and for loom to find out.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

impl Port {
    pub(super) fn open(_: &RingConfig) -> Result<(Self, Features), Refusal> {
        let port = Self {
            queues: UnsafeCell::new(()),
            kernel: Mutex::new(Kernel::default()),
            heard: Condvar::new(),
        };
        Ok((port, Features::none()))
    }

    pub(super) unsafe fn provide(&self, _: u64, _: u16, _: u16) -> io::Result<()> {
        Ok(())
    }

    /// Says what the kernel does for each operation.
    pub(super) fn set_work(&self, work: Work) {
        self.kernel.lock().work = Some(work);
    }

    /// Touches the queues (P1).
    fn touch<R>(&self, act: impl FnOnce() -> R) -> R {
        self.queues.with_mut(|_| act())
    }

    pub(super) unsafe fn push(&self, entry: &Entry) -> bool {
        self.touch(|| {
            let mut kernel = self.kernel.lock();
            let fits = kernel.submitted.len() < ENTRIES;
            if fits {
                kernel.submitted.push(entry.get_user_data());
            }
            fits
        })
    }

    pub(super) unsafe fn has_business(&self) -> bool {
        self.touch(|| {
            let kernel = self.kernel.lock();
            !kernel.submitted.is_empty() || !kernel.store.is_empty()
        })
    }

    pub(super) unsafe fn waits_for_submitter(&self) -> bool {
        self.touch(|| !self.kernel.lock().store.is_empty())
    }

    pub(super) unsafe fn has_completions(&self) -> bool {
        self.touch(|| !self.kernel.lock().completed.is_empty())
    }

    pub(super) unsafe fn reap(&self, most: usize, mut visit: impl FnMut(u64, i32, u32)) {
        self.touch(|| {
            for _ in 0..most {
                let Some(token) = self.kernel.lock().completed.pop_front() else {
                    break;
                };
                visit(token, 0, 0);
            }
        });
    }

    pub(super) fn enter(&self, wait: Option<Option<Duration>>, _prompt: u32) -> io::Result<()> {
        self.touch(|| {
            let mut kernel = self.kernel.lock();
            kernel.come_by();
            let submitted = std::mem::take(&mut kernel.submitted);
            for token in submitted {
                // A watch ends with the bell, and a cancellation comes too late.
                if ![Token::WATCH.bits(), Token::CANCEL.bits()].contains(&token) {
                    if let Some(work) = &kernel.work {
                        work();
                    }
                    kernel.store.push(token);
                }
            }
            if wait.is_none() {
                return Ok(());
            }
            kernel.come_by();
            while kernel.completed.is_empty() {
                kernel = self.heard.wait(kernel);
                kernel.come_by();
            }
            Ok(())
        })
    }

    pub(super) fn interrupt_submitters(&self) {
        self.kernel.lock().come_by();
        self.heard.notify_one();
    }

    pub(super) fn wake(&self, _: &Poller) {
        self.kernel.lock().bell = true;
        self.heard.notify_one();
    }
}
