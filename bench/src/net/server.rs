//! A server on a processor of its own, until it is told to stop.

use std::future::Future;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;

use blitzen::net::SocketMode;
use blitzen::shard::Balance;

use super::Net;
use super::cores::{Side, pin};
use super::single_thread::LocalNet;
use super::{bare_epoll, bare_http, bare_uring};
use crate::kit::Signal;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    stop: Arc<Signal>,
    /// A connection makes it look whether it is to stop.
    waits_in_accept: bool,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Starts a runtime where every connection is served by a task of its own.
    pub(super) fn start<R: Net, F>(workers: usize, serve: fn(R::Stream) -> F) -> Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Server::start_with::<R, F>(workers, serve, || ())
    }

    /// The same, with something to do inside the runtime before it serves.
    pub(super) fn start_with<R: Net, F>(
        workers: usize,
        serve: fn(R::Stream) -> F,
        prepare: impl FnOnce() + Send + 'static,
    ) -> Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Server::run(workers == 1, move |address, stop| {
            let rt = R::start(workers);
            rt.block_on(async {
                let (listener, bound) = R::listen().await;
                prepare();
                R::detach(R::spawn(async move {
                    loop {
                        let stream = R::accept(&listener).await;
                        R::detach(R::spawn(serve(stream)));
                    }
                }));
                address.send(bound).expect("somebody waits for it");
                stop.wait().await;
            });
        })
    }

    /// Starts a runtime of one thread, where every connection is served by a task of
    /// its own.
    pub(super) fn start_alone<R: LocalNet, F>(serve: fn(R::Connection) -> F) -> Server
    where
        F: Future<Output = ()> + 'static,
    {
        let mut server = Server::run(true, move |address, stop| {
            R::run(async {
                let (listener, bound) = R::listen_here().await;
                address.send(bound).expect("somebody waits for it");
                loop {
                    let connection = R::accept_here(&listener).await;
                    if stop.take() {
                        return; // it came to say so
                    }
                    R::spawn_local(serve(connection));
                }
            });
        });
        server.waits_in_accept = true;
        server
    }

    /// Starts a sharded runtime with one shard, where every connection is served by a task of its
    /// own that cannot leave the shard. The shard inherits the processor of the server.
    pub(super) fn start_sharded<F>(
        mode: SocketMode,
        serve: fn(blitzen::net::TcpStream) -> F,
    ) -> Server
    where
        F: Future<Output = ()> + 'static,
    {
        Server::run(true, move |address, stop| {
            let builder = blitzen::runtime::Builder::sharded().configure(move |builder| {
                builder.socket_mode(mode);
            });
            let shards = builder.shards(1).bind_threads(false).build();
            let shards = shards.expect("a thread starts");
            let listener = shards
                .listen("127.0.0.1:0", Balance::ReusePort)
                .expect("there is a free port");
            address
                .send(listener.local_addr())
                .expect("somebody waits for it");
            let stop = stop.clone();
            shards.run_each(move |shard| {
                let (listener, stop) = (listener.clone(), stop.clone());
                async move {
                    let mut part = listener.on(&shard).expect("the only shard takes its part");
                    let spawner = shard.clone();
                    shard.spawn_local(async move {
                        loop {
                            let (stream, open) = part.accept().await.expect("descriptors are left");
                            // A peer that is gone already has no use for it.
                            let _ = stream.set_nodelay(true);
                            spawner.spawn_local(async move {
                                let _open = open;
                                serve(stream).await;
                            });
                        }
                    });
                    stop.wait().await;
                }
            });
        })
    }

    /// Starts a server that is nothing but an io_uring, for `connections` connections.
    pub(super) fn start_bare_uring(connections: usize) -> Server {
        Server::start_bare(true, move |address, stop| {
            bare_uring::serve(connections, &address, stop)
        })
    }

    /// Starts a server that is nothing but an epoll loop.
    pub(super) fn start_bare_epoll() -> Server {
        Server::start_bare(true, |address, stop| bare_epoll::serve_echo(&address, stop))
    }

    /// Starts hyper on nothing but an epoll loop, on the server's processor or on any.
    pub(super) fn start_bare_hyper(is_pinned: bool) -> Server {
        Server::start_bare(is_pinned, |address, stop| {
            bare_http::serve_hyper(&address, stop);
        })
    }

    /// Starts axum on nothing but an epoll loop, on the server's processor or on any.
    pub(super) fn start_bare_axum(is_pinned: bool) -> Server {
        Server::start_bare(is_pinned, |address, stop| {
            bare_http::serve_axum(&address, stop);
        })
    }

    fn start_bare(
        is_pinned: bool,
        main: impl FnOnce(mpsc::Sender<SocketAddr>, &Arc<Signal>) + Send + 'static,
    ) -> Server {
        let mut server = Server::run(is_pinned, main);
        server.waits_in_accept = true;
        server
    }

    fn run(
        is_pinned: bool,
        main: impl FnOnce(mpsc::Sender<SocketAddr>, &Arc<Signal>) + Send + 'static,
    ) -> Server {
        let stop = Arc::new(Signal::default());
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn({
            let stop = stop.clone();
            move || {
                // Workers that a sibling is to help need a processor each.
                if is_pinned {
                    pin(Side::Server);
                }
                main(sender, &stop);
            }
        });
        Server {
            address: receiver.recv().expect("the server starts"),
            stop,
            waits_in_accept: false,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.fire();
        if self.waits_in_accept {
            // Refused by a server that has ended in a panic, which is told below.
            let _ = TcpStream::connect(self.address);
        }
        if let Some(Err(panic)) = self.thread.take().map(thread::JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
