//! Group `net`: what a request costs the server, and how long it takes.
//!
//! The server has one processor, the client another: both are threads of this
//! process, pinned. A row's value is the server's CPU time for one operation, all of
//! the process's but the client's, so a row's ratio is one of requests per server CPU
//! second. Beside it stand the time per request and the quantiles of the latency.
//!
//! It would lie if the client were not the same for all (it is bare epoll, and knows
//! no runtime), if a runtime were paid for connecting (connections are made, and
//! tried, before the clocks start), or if a connection were left out: the client
//! counts answers, byte by byte.
//!
//! monoio, compio and glommio have one thread, which accepts and serves; the others have a
//! worker beside a thread that sleeps.

mod accept;
mod bare_epoll;
mod bare_http;
mod bare_uring;
mod client;
mod cores;
mod echo;
mod http;
mod idle;
mod server;
mod short_of_cores;
mod single_thread;
mod stall;
mod wrk;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use crate::row::Row;
use crate::rt::{
    Blitzen, BlitzenCompletion, BlitzenCurrentThread, BlitzenFull, BlitzenHistograms,
    BlitzenSampled, Rt, Tokio, TokioConsole, TokioCurrentThread, TokioHistogram,
};

pub(crate) use cores::run_ahead;
pub(crate) use echo::observed_row as observed_echo_row;
pub(crate) use idle::hold;
pub(crate) use short_of_cores::burn;

pub(crate) fn rows() -> Vec<Row> {
    [
        echo::rows(),
        accept::rows(),
        http::rows(),
        idle::rows(),
        short_of_cores::rows(),
        stall::rows(),
        wrk::rows(),
    ]
    .concat()
}

/// Rows of curves over the number of connections.
pub(crate) fn sized_rows() -> Vec<Row> {
    vec![echo::sized_row()]
}

/// Calls only the client makes; a trace leaves them out.
const CLIENT_CALLS: &[&str] = &["preadv2", "pwritev2", "epoll_pwait"];

/// A runtime with sockets.
pub(crate) trait Net: Rt {
    type Listener: Send + Sync + 'static;
    type Stream: Send + 'static;

    /// Listens on a port of this machine that is free.
    fn listen() -> impl Future<Output = (Self::Listener, SocketAddr)> + Send;
    fn accept(listener: &Self::Listener) -> impl Future<Output = Self::Stream> + Send;
    /// How many bytes; none at the end, and when the connection is broken.
    fn read(stream: &mut Self::Stream, buf: &mut [u8]) -> impl Future<Output = usize> + Send;
    /// Whether all of it was written.
    fn write_all(stream: &mut Self::Stream, bytes: &[u8]) -> impl Future<Output = bool> + Send;
    /// Echoes with the library's own `copy`.
    fn copy_back(stream: Self::Stream) -> impl Future<Output = ()> + Send;
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send;
    /// Serves HTTP/1 with hyper until the client goes.
    fn serve_http(stream: Self::Stream) -> impl Future<Output = ()> + Send;
    /// Serves HTTP/1 with axum until the client goes.
    fn serve_axum(stream: Self::Stream) -> impl Future<Output = ()> + Send;
}

macro_rules! tokio_like {
    ($name:ident, $library:ident, $hyper_io:path) => {
        impl Net for $name {
            type Listener = $library::net::TcpListener;
            type Stream = $library::net::TcpStream;

            async fn listen() -> (Self::Listener, SocketAddr) {
                let listener = $library::net::TcpListener::bind("127.0.0.1:0")
                    .await
                    .expect("there is a free port");
                let address = listener.local_addr().expect("it was bound");
                (listener, address)
            }

            async fn accept(listener: &Self::Listener) -> Self::Stream {
                let (stream, _) = listener.accept().await.expect("descriptors are left");
                // A peer that is gone already has no use for it.
                let _ = stream.set_nodelay(true);
                stream
            }

            async fn read(stream: &mut Self::Stream, buf: &mut [u8]) -> usize {
                use $library::io::AsyncReadExt;
                stream.read(buf).await.unwrap_or(0)
            }

            async fn write_all(stream: &mut Self::Stream, bytes: &[u8]) -> bool {
                use $library::io::AsyncWriteExt;
                stream.write_all(bytes).await.is_ok()
            }

            async fn copy_back(mut stream: Self::Stream) {
                let (mut reader, mut writer) = stream.split();
                // The client ends by a reset.
                let _ = $library::io::copy(&mut reader, &mut writer).await;
            }

            async fn sleep(duration: Duration) {
                $library::time::sleep(duration).await;
            }

            async fn serve_http(stream: Self::Stream) {
                // The client ends by a reset.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection($hyper_io(stream), hyper::service::service_fn(http::answer))
                    .await;
            }

            async fn serve_axum(stream: Self::Stream) {
                let service = hyper_util::service::TowerToHyperService::new(http::router());
                // The client ends by a reset.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection($hyper_io(stream), service)
                    .await;
            }
        }
    };
}

tokio_like!(Tokio, tokio, hyper_util::rt::TokioIo::new);
tokio_like!(Blitzen, blitzen, blitzen::io::hyper::HyperIo::new);
tokio_like!(TokioCurrentThread, tokio, hyper_util::rt::TokioIo::new);
tokio_like!(
    BlitzenCurrentThread,
    blitzen,
    blitzen::io::hyper::HyperIo::new
);
tokio_like!(BlitzenCompletion, blitzen, blitzen::io::hyper::HyperIo::new);
tokio_like!(BlitzenSampled, blitzen, blitzen::io::hyper::HyperIo::new);
tokio_like!(BlitzenFull, blitzen, blitzen::io::hyper::HyperIo::new);
tokio_like!(BlitzenHistograms, blitzen, blitzen::io::hyper::HyperIo::new);
tokio_like!(TokioHistogram, tokio, hyper_util::rt::TokioIo::new);
tokio_like!(TokioConsole, tokio, hyper_util::rt::TokioIo::new);

/// What an echo needs. Buffers go along and come back, and futures may stay on their
/// thread, so that runtimes which want it so can take part.
pub(crate) trait Sockets: 'static {
    type Connection: 'static;

    /// How many bytes, at the beginning of the buffer; none at the end, and when the
    /// connection is broken.
    fn receive(
        connection: &mut Self::Connection,
        buf: Vec<u8>,
    ) -> impl Future<Output = (usize, Vec<u8>)>;
    /// Writes the first `count` bytes, which were received last; whether all went.
    fn send_all(
        connection: &mut Self::Connection,
        buf: Vec<u8>,
        count: usize,
    ) -> impl Future<Output = (bool, Vec<u8>)>;
    /// Echoes with the library's own `copy`.
    fn copy_all_back(connection: Self::Connection) -> impl Future<Output = ()>;
}

impl<R: Net> Sockets for R {
    type Connection = R::Stream;

    async fn receive(stream: &mut R::Stream, mut buf: Vec<u8>) -> (usize, Vec<u8>) {
        let count = R::read(stream, &mut buf).await;
        (count, buf)
    }

    async fn send_all(stream: &mut R::Stream, buf: Vec<u8>, count: usize) -> (bool, Vec<u8>) {
        let done = R::write_all(stream, &buf[..count]).await;
        (done, buf)
    }

    async fn copy_all_back(stream: R::Stream) {
        R::copy_back(stream).await;
    }
}

/// A workload of sockets, for each runtime that takes part.
macro_rules! each_net {
    ($work:ident $(, $number:literal)*) => {
        vec![
            $crate::row::Contender::named(
                "blitzen", $work::<$crate::rt::Blitzen $(, $number)*>
            ),
            $crate::row::Contender::named(
                "tokio", $work::<$crate::rt::Tokio $(, $number)*>
            ),
            $crate::row::Contender::named(
                "blitzen-completion", $work::<$crate::rt::BlitzenCompletion $(, $number)*>
            ),
        ]
    };
}
use each_net;

/// A client's work against a server that serves every connection so, for each runtime
/// that takes part, those of one thread included.
macro_rules! each_server {
    ($work:expr, $serve:ident) => {
        vec![
            $crate::net::server_of!("blitzen", Blitzen, $work, $serve),
            $crate::net::server_of!("tokio", Tokio, $work, $serve),
            $crate::net::server_of!("blitzen-completion", BlitzenCompletion, $work, $serve),
            $crate::net::server_single_thread!("monoio", Monoio, $work, $serve),
            $crate::net::server_single_thread!("compio", Compio, $work, $serve),
            $crate::net::server_single_thread!("glommio", Glommio, $work, $serve),
        ]
    };
}
use each_server;

macro_rules! server_of {
    ($name:expr, $rt:ident, $work:expr, $serve:ident) => {
        $crate::row::Contender::named($name, |probe| {
            type R = $crate::rt::$rt;
            let server = $crate::net::server::Server::start::<R, _>(probe.workers(), $serve::<R>);
            $work(probe, &server);
        })
    };
}
use server_of;

macro_rules! server_single_thread {
    ($name:literal, $rt:ident, $work:expr, $serve:ident) => {
        $crate::row::Contender::named($name, |probe| {
            type R = $crate::rt::$rt;
            let server = $crate::net::server::Server::start_alone::<R, _>($serve::<R>);
            $work(probe, &server);
        })
    };
}
use server_single_thread;

/// The same, and beside them the forms of Tokio and blitzen on one thread.
macro_rules! each_server_and_current_thread {
    ($work:expr, $serve:ident) => {
        [
            $crate::net::each_server!($work, $serve),
            vec![
                $crate::net::server_of!("blitzen-alone", BlitzenCurrentThread, $work, $serve),
                $crate::net::server_of!("tokio-alone", TokioCurrentThread, $work, $serve),
            ],
        ]
        .concat()
    };
}
use each_server_and_current_thread;
