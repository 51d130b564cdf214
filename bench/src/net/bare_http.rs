//! hyper on a bare epoll loop: a connection is polled when it has an event, and that is all. What
//! HTTP costs under an executor that costs nothing.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt::{Read as HyperRead, ReadBufCursor, Write as HyperWrite};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;

use super::{bare_epoll, http};
use crate::kit::Signal;

/// Serves with hyper until a connection comes to say that it is over.
pub(super) fn serve_hyper(address: &mpsc::Sender<SocketAddr>, stop: &Signal) {
    serve(address, stop, |stream| async {
        // The client ends by a reset.
        let _ = http1::Builder::new()
            .serve_connection(stream, service_fn(http::answer))
            .await;
    });
}

/// Serves with axum until a connection comes to say that it is over.
pub(super) fn serve_axum(address: &mpsc::Sender<SocketAddr>, stop: &Signal) {
    serve(address, stop, |stream| async {
        let service = TowerToHyperService::new(http::router());
        // The client ends by a reset.
        let _ = http1::Builder::new()
            .serve_connection(stream, service)
            .await;
    });
}

fn serve<F: Future<Output = ()> + 'static>(
    address: &mpsc::Sender<SocketAddr>,
    stop: &Signal,
    serve: impl Fn(Stream) -> F,
) {
    let again = Arc::new(Again::default());
    let waker = Waker::from(again.clone());
    let open = |stream| {
        let has_event = Arc::new(AtomicBool::new(true));
        Connection {
            has_event: has_event.clone(),
            served: Some(Box::pin(serve(Stream {
                stream,
                may_read: has_event,
            }))),
        }
    };
    bare_epoll::serve(address, stop, open, |connection: &mut Connection<F>| {
        connection.has_event.store(true, Relaxed);
        let mut cx = Context::from_waker(&waker);
        loop {
            let Some(served) = &mut connection.served else {
                return;
            };
            if served.as_mut().poll(&mut cx).is_ready() {
                connection.served = None;
            } else if !again.0.swap(false, Relaxed) {
                return;
            }
        }
    });
}

struct Connection<F> {
    has_event: Arc<AtomicBool>,
    /// `None` when it is over.
    served: Option<Pin<Box<F>>>,
}

/// The future that is being polled wants to be polled again.
#[derive(Default)]
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A socket that is read only after an event. There is one thread, so all is Relaxed.
struct Stream {
    stream: TcpStream,
    may_read: Arc<AtomicBool>,
}

impl HyperRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.may_read.load(Relaxed) {
            return Poll::Pending;
        }
        let mut room = [0; 4096];
        let len = room.len().min(buf.remaining());
        match (&self.stream).read(&mut room[..len]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.may_read.store(false, Relaxed);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
            Ok(count) => {
                // Nothing is left behind; an event comes for the end.
                self.may_read.store(count == len || count == 0, Relaxed);
                buf.put_slice(&room[..count]);
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// Answers to a client that reads each before it asks again always fit into the socket: no write
/// has to wait.
impl HyperWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready((&self.stream).write(buf))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(std::net::Shutdown::Write))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready((&self.stream).write_vectored(bufs))
    }
}
