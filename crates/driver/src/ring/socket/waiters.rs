//! The tasks that wait for one direction of a stream.
//!
//! ```text
//!   poll_read, poll_write …   one place for a waker: the last caller counts
//!   peek, read_owned …        a node in a list, which its future leaves when dropped
//! ```
//!
//! W1. Nodes and the list are touched under the ring's lock only.
//! W2. A node holds a waker exactly while it is in the list.

use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use blitzen_util::list::{Linked, Links, List};
use blitzen_util::shim::cell::UnsafeCell;

use super::deferred::Deferred;
use super::stream::RingStream;
use super::table::StreamDirection;

/// A waiter's node in a list; part of its future.
pub(super) struct WaitNode {
    links: Links<WaitNode>,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: W1, one thread at a time; and a waker may go to any thread.
unsafe impl Send for WaitNode {}
// SAFETY: as above.
unsafe impl Sync for WaitNode {}

// SAFETY: the field's address, without a reference to the node.
unsafe impl Linked for WaitNode {
    unsafe fn links(node: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: in bounds of a live node.
        unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).links) }
    }
}

impl WaitNode {
    fn new() -> Self {
        Self {
            links: Links::new(),
            waker: UnsafeCell::new(None),
        }
    }

    /// Replaces the waker.
    ///
    /// # Safety
    /// The ring's lock is held (W1).
    unsafe fn replace(&self, waker: Option<Waker>) -> Option<Waker> {
        self.waker.with_mut(|place| {
            // SAFETY: the caller holds the lock, so nobody else accesses it.
            std::mem::replace(unsafe { &mut *place }, waker)
        })
    }
}

/// How a task waits.
#[derive(Clone, Copy)]
pub(super) enum WaitAs<'a> {
    /// In place of the task that waited like this before.
    Latest,
    /// Beside other tasks, with a node of its own.
    Node(Pin<&'a WaitNode>),
}

/// All tasks that wait for one direction; behind the ring's lock.
#[derive(Default)]
pub(super) struct StreamWaiters {
    latest: Option<Waker>,
    list: List<WaitNode>,
}

impl StreamWaiters {
    pub(super) fn is_empty(&self) -> bool {
        self.latest.is_none() && self.list.is_empty()
    }

    pub(super) fn add(&mut self, waiter: WaitAs<'_>, waker: Waker, deferred: &mut Deferred) {
        let replaced = match waiter {
            WaitAs::Latest => self.latest.replace(waker),
            WaitAs::Node(node) => {
                let pointer = NonNull::from(node.get_ref());
                // SAFETY: pinned, so it stays there until its future takes it
                // out; it is in this list or in none.
                unsafe {
                    if !self.list.contains(pointer) {
                        self.list.push_back(pointer);
                    }
                    node.replace(Some(waker)) // W1
                }
            }
        };
        deferred.drop_waker(replaced);
    }

    pub(super) fn wake_all(&mut self, deferred: &mut Deferred) {
        if let Some(waker) = self.latest.take() {
            deferred.wakes.push(waker);
        }
        while let Some(waker) = self.pop_node() {
            deferred.wakes.push(waker);
        }
    }

    /// Drops all wakers: the stream is closed, so a node that is still here
    /// belongs to a future that was leaked.
    pub(super) fn clear(&mut self, deferred: &mut Deferred) {
        deferred.drop_waker(self.latest.take());
        while let Some(waker) = self.pop_node() {
            deferred.drop_waker(Some(waker));
        }
    }

    fn pop_node(&mut self) -> Option<Waker> {
        let node = self.list.pop_front()?;
        // SAFETY: W2: it was in the list, so its future has not been dropped, and
        // W1: we hold the lock.
        unsafe { node.as_ref().replace(None) }
    }

    /// Takes a node out, if it is still there.
    fn remove(&mut self, node: &WaitNode) -> Option<Waker> {
        // SAFETY: alive, and in this list or in none.
        unsafe { self.list.remove(NonNull::from(node)) };
        // SAFETY: W1, we hold the lock.
        unsafe { node.replace(None) }
    }
}

/// A future that calls `poll` with a wait node of its own.
pub(super) struct PollWithNode<'a, F> {
    stream: &'a RingStream,
    direction: StreamDirection,
    node: WaitNode,
    /// Whether the node may be in a list.
    is_shared: bool,
    poll: F,
}

impl<'a, F> PollWithNode<'a, F> {
    pub(super) fn new<T>(stream: &'a RingStream, direction: StreamDirection, poll: F) -> Self
    where
        F: FnMut(&mut Context<'_>, WaitAs<'_>) -> Poll<T>,
    {
        Self {
            stream,
            direction,
            node: WaitNode::new(),
            is_shared: false,
            poll,
        }
    }
}

impl<T, F> Future for PollWithNode<'_, F>
where
    F: FnMut(&mut Context<'_>, WaitAs<'_>) -> Poll<T>,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: only the node has to stay where it is; it is not moved, and
        // `drop` takes it out of the list.
        let this = unsafe { self.get_unchecked_mut() };
        this.is_shared = true;
        // SAFETY: part of `self`, which is pinned.
        let node = unsafe { Pin::new_unchecked(&this.node) };
        (this.poll)(cx, WaitAs::Node(node))
    }
}

impl<F> Drop for PollWithNode<'_, F> {
    fn drop(&mut self) {
        if self.is_shared {
            let waker = self.stream.with_table(|table, _| {
                let waiters = table.waiters(self.stream.key(), self.direction);
                waiters.remove(&self.node)
            });
            drop(waker); // foreign code: after the lock
        }
    }
}
