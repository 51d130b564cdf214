//! The reaper: a thread that turns rings whose worker has ended before all of their
//! operations had.
//!
//! A zero-copy send reads its buffer until the peer has acknowledged the last byte.
//! That may be long after the connection was closed and the runtime was dropped, and
//! only a completion of the ring reports it. Until then the reaper keeps the ring, and
//! with it the buffer.
//!
//! E1. A ring is in the list, or owned by the thread, until the kernel has finished with
//!     it.
//! E2. The thread ends under the lock, when the list is empty: the next ring starts
//!     another one.
//! E3. The selector watches a ring before it is in the list, and reports completions
//!     that are there already. The thread turns a ring until there are none, so it
//!     sleeps only when the next one will be reported.
//! E4. Turning or dropping a ring runs foreign code, and happens outside the lock.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};

use super::Ring;

/// Rings without a worker.
struct OrphanedRings {
    rings: Vec<Arc<Ring>>,
    /// The registry of the selector in which the thread sleeps, if there is a thread.
    registry: Option<Registry>,
}

fn orphaned_rings() -> MutexGuard<'static, OrphanedRings> {
    static RINGS: Mutex<OrphanedRings> = Mutex::new(OrphanedRings {
        rings: Vec::new(),
        registry: None,
    });
    RINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the reaper turn a ring until the kernel has finished with it, and then drop it.
/// The ring is shut, and any thread may turn it.
///
/// # Errors
/// Returns the error of the system if it refuses a descriptor or a thread.
pub(crate) fn reap_in_background(ring: Arc<Ring>) -> io::Result<()> {
    let mut orphaned = orphaned_rings();
    match &orphaned.registry {
        Some(registry) => watch(registry, &ring)?,
        None => {
            let poll = Poll::new()?;
            let registry = poll.registry().try_clone()?;
            watch(&registry, &ring)?;
            // Last, so that a thread that was started has a ring to turn.
            thread::Builder::new()
                .name("blitzen-ring-reaper".into())
                .spawn(move || run(poll))?;
            orphaned.registry = Some(registry);
        }
    }
    orphaned.rings.push(ring); // E3
    Ok(())
}

/// Has the thread woken when there are completions.
fn watch(registry: &Registry, ring: &Ring) -> io::Result<()> {
    let fd = ring.as_raw_fd();
    registry.register(&mut SourceFd(&fd), Token(0), Interest::READABLE)
}

fn run(mut poll: Poll) {
    // How many rings have completions is enough: all of them are turned.
    let mut events = Events::with_capacity(1);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                unreachable!("nobody else knows the selector: {error}")
            }
            _ => {}
        }
        let mut rings = std::mem::take(&mut orphaned_rings().rings);
        rings.retain(|ring| {
            let has_kernel_work = turn_while_it_has_more(ring);
            if !has_kernel_work {
                let fd = ring.as_raw_fd();
                // It fails only if it was not registered.
                let _ = poll.registry().deregister(&mut SourceFd(&fd));
            }
            has_kernel_work
        });
        let mut orphaned = orphaned_rings();
        orphaned.rings.append(&mut rings);
        if orphaned.rings.is_empty() {
            orphaned.registry = None; // E2
            return;
        }
    }
}

/// Turns a ring as long as it has something to submit or to take in. Returns whether
/// the kernel still works for it.
fn turn_while_it_has_more(ring: &Ring) -> bool {
    loop {
        // An error is one of the ring itself: nothing more comes from it.
        if ring.turn(Some(Duration::ZERO)).is_err() {
            return false;
        }
        if !ring.has_more() {
            break;
        }
    }
    // A stream that has outlived its runtime submits its own requests: the thread is not
    // woken for them.
    ring.release_owner().is_ok() && ring.has_kernel_work()
}
