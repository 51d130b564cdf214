//! One task that accepts all connections, and hands each to the shard with the fewest.
//!
//! A1. A connection counts as open on its shard from the moment it is handed over, so two that
//!     come in a row go to different shards.
//! A2. Shards that have not taken their part, or have dropped it, get no connection. While there
//!     is no other, connections wait in the kernel.
//! A3. A shard that has [`QUEUE_ROOM`] connections waiting gets no more. While all have, the next one
//!     waits for the first that has room: a shard that has ceased to accept holds up no other.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use blitzen_sync::Notify;
use blitzen_sync::channel::mpsc;

use super::listener::{OpenConnection, OpenCounts};
use crate::net::{SocketMode, TcpListener, TcpStream};
use crate::runtime::Handle;
use crate::task::AbortHandle;

/// How many connections may wait for a shard.
const QUEUE_ROOM: usize = 128;

/// A connection that no poller knows yet.
type Unwatched = (mio::net::TcpStream, SocketAddr);

/// What a shard gets: a connection, or why there is none.
pub(super) struct Accepted(io::Result<(mio::net::TcpStream, SocketMode, OpenConnection)>);

impl Accepted {
    /// Has the poller of the calling thread watch the connection.
    pub(super) fn into_stream(self) -> io::Result<(TcpStream, OpenConnection)> {
        let (stream, mode, open) = self.0?;
        Ok((TcpStream::accepted(stream, mode)?, open))
    }
}

/// A handle to the task that accepts. Dropping it ends the task.
pub(super) struct Acceptor {
    parts: Arc<TakenParts>,
    task: AbortHandle,
}

/// Which shards have taken their part.
struct TakenParts {
    is_taken: Box<[AtomicBool]>,
    on_taken: Notify,
}

impl Acceptor {
    /// Starts it on `runtime`; returns what the shards take.
    pub(super) fn start(
        runtime: &Handle,
        listener: std::net::TcpListener,
        open: OpenCounts,
    ) -> (Self, Vec<mpsc::Receiver<Accepted>>) {
        let queues = open.iter().map(|_| mpsc::channel(QUEUE_ROOM));
        let (queues, receivers): (Vec<_>, Vec<_>) = queues.unzip();
        let parts = Arc::new(TakenParts {
            is_taken: open.iter().map(|_| AtomicBool::new(false)).collect(),
            on_taken: Notify::new(),
        });
        let balancer = Balancer {
            queues,
            parts: parts.clone(),
            open,
        };
        let task = runtime.spawn(async move {
            // Without a poller nobody accepts, and the shards get an error.
            if let Ok(listener) = TcpListener::from_std(listener) {
                balancer.accept_all(&listener).await;
            }
        });
        let acceptor = Self {
            parts,
            task: task.abort_handle(),
        };
        (acceptor, receivers)
    }

    /// Lets a shard take part.
    pub(super) fn add(&self, index: usize) {
        self.parts.is_taken[index].store(true, Relaxed);
        self.parts.on_taken.notify_one();
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state of the task that accepts.
struct Balancer {
    /// One for each shard.
    queues: Vec<mpsc::Sender<Accepted>>,
    parts: Arc<TakenParts>,
    open: OpenCounts,
}

impl Balancer {
    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            while self.least_open(|_| true).is_none() {
                if self.queues.iter().all(mpsc::Sender::is_closed) {
                    return;
                }
                self.parts.on_taken.notified().await; // A2
            }
            let accepted = listener.accept_unwatched().await;
            self.hand_over(accepted, listener.mode()).await;
        }
    }

    /// The shard that has the fewest connections open, of those that `fits`.
    fn least_open(&self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.queues.len())
            .filter(|&index| self.takes(index) && fits(index))
            .min_by_key(|&index| self.open[index].load(Relaxed))
    }

    fn takes(&self, index: usize) -> bool {
        self.parts.is_taken[index].load(Relaxed) && !self.queues[index].is_closed()
    }

    async fn hand_over(&self, accepted: io::Result<Unwatched>, mode: SocketMode) {
        let Some(index) = self.shard_with_room().await else {
            return; // all have dropped their parts meanwhile
        };
        let accepted = accepted.map(|(stream, peer)| {
            self.open[index].fetch_add(1, Relaxed); // A1
            let open = OpenConnection::new(self.open.clone(), index, peer);
            (stream, mode, open)
        });
        // A shard that drops its part now closes the connection, as if it had accepted it.
        let _ = self.queues[index].try_send(Accepted(accepted));
    }

    /// The shard with the fewest connections of those whose queue has room; waits until one has
    /// (A3). `None` if no shard has a part any more.
    async fn shard_with_room(&self) -> Option<usize> {
        let has_room = |index: usize| self.queues[index].capacity() > 0;
        loop {
            self.least_open(|_| true)?;
            if let Some(index) = self.least_open(has_room) {
                return Some(index); // nobody else sends there
            }
            let taken = (0..self.queues.len()).filter(|&index| self.takes(index));
            let mut rooms: Vec<_> = taken
                .map(|index| Box::pin(self.queues[index].reserve()))
                .collect();
            let mut on_taken = pin!(self.parts.on_taken.notified());
            poll_fn(|cx| {
                let has_one = rooms
                    .iter_mut()
                    .any(|room| room.as_mut().poll(cx).is_ready());
                match has_one || on_taken.as_mut().poll(cx).is_ready() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
        }
    }
}
