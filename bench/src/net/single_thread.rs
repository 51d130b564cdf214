//! Sockets of runtimes of one thread, whose buffers go to the kernel and come back.
//!
//! A buffer that is received into is emptied first: then its length is what came, and
//! it is sent as it is.

use std::net::SocketAddr;

use super::Sockets;
use crate::rt::{Compio, Glommio, Monoio, SingleThread};

/// What the server of such a runtime needs.
pub(crate) trait LocalNet: SingleThread + Sockets {
    type Listener: 'static;

    /// Listens on a port of this machine that is free.
    fn listen_here() -> impl Future<Output = (Self::Listener, SocketAddr)>;
    fn accept_here(listener: &Self::Listener) -> impl Future<Output = Self::Connection>;
}

impl LocalNet for Monoio {
    type Listener = monoio::net::TcpListener;

    async fn listen_here() -> (Self::Listener, SocketAddr) {
        let listener = monoio::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it was bound");
        (listener, address)
    }

    async fn accept_here(listener: &Self::Listener) -> Self::Connection {
        let (stream, _) = listener.accept().await.expect("descriptors are left");
        // A peer that is gone already has no use for it.
        let _ = stream.set_nodelay(true);
        stream
    }
}

impl Sockets for Monoio {
    type Connection = monoio::net::TcpStream;

    async fn receive(stream: &mut Self::Connection, mut buf: Vec<u8>) -> (usize, Vec<u8>) {
        use monoio::io::AsyncReadRent;
        buf.clear();
        let (count, buf) = stream.read(buf).await;
        (count.unwrap_or(0), buf)
    }

    async fn send_all(
        stream: &mut Self::Connection,
        buf: Vec<u8>,
        count: usize,
    ) -> (bool, Vec<u8>) {
        use monoio::io::AsyncWriteRentExt;
        assert_eq!(buf.len(), count, "as received");
        let (sent, buf) = stream.write_all(buf).await;
        (sent.is_ok(), buf)
    }

    async fn copy_all_back(stream: Self::Connection) {
        use monoio::io::Splitable;
        let (mut reader, mut writer) = stream.into_split();
        // The client ends by a reset.
        let _ = monoio::io::copy(&mut reader, &mut writer).await;
    }
}

impl LocalNet for Compio {
    type Listener = compio::net::TcpListener;

    async fn listen_here() -> (Self::Listener, SocketAddr) {
        let listener = compio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("there is a free port");
        let address = listener.local_addr().expect("it was bound");
        (listener, address)
    }

    async fn accept_here(listener: &Self::Listener) -> Self::Connection {
        let (stream, _) = listener.accept().await.expect("descriptors are left");
        // A peer that is gone already has no use for it.
        let _ = stream.set_nodelay(true);
        stream
    }
}

impl Sockets for Compio {
    type Connection = compio::net::TcpStream;

    async fn receive(stream: &mut Self::Connection, mut buf: Vec<u8>) -> (usize, Vec<u8>) {
        use compio::io::AsyncRead;
        buf.clear();
        let compio::BufResult(count, buf) = stream.read(buf).await;
        (count.unwrap_or(0), buf)
    }

    async fn send_all(
        stream: &mut Self::Connection,
        buf: Vec<u8>,
        count: usize,
    ) -> (bool, Vec<u8>) {
        use compio::io::AsyncWriteExt;
        assert_eq!(buf.len(), count, "as received");
        let compio::BufResult(sent, buf) = stream.write_all(buf).await;
        (sent.is_ok(), buf)
    }

    async fn copy_all_back(stream: Self::Connection) {
        let (mut reader, mut writer) = (&stream, &stream);
        // The client ends by a reset.
        let _ = compio::io::copy(&mut reader, &mut writer).await;
    }
}

impl LocalNet for Glommio {
    type Listener = glommio::net::TcpListener;

    async fn listen_here() -> (Self::Listener, SocketAddr) {
        let listener =
            glommio::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it was bound");
        (listener, address)
    }

    async fn accept_here(listener: &Self::Listener) -> Self::Connection {
        let stream = listener.accept().await.expect("descriptors are left");
        // A peer that is gone already has no use for it.
        let _ = stream.set_nodelay(true);
        stream
    }
}

impl Sockets for Glommio {
    type Connection = glommio::net::TcpStream;

    async fn receive(stream: &mut Self::Connection, mut buf: Vec<u8>) -> (usize, Vec<u8>) {
        use futures_lite::AsyncReadExt;
        let count = stream.read(&mut buf).await.unwrap_or(0);
        (count, buf)
    }

    async fn send_all(
        stream: &mut Self::Connection,
        buf: Vec<u8>,
        count: usize,
    ) -> (bool, Vec<u8>) {
        use futures_lite::AsyncWriteExt;
        let done = stream.write_all(&buf[..count]).await.is_ok();
        (done, buf)
    }

    async fn copy_all_back(stream: Self::Connection) {
        let (reader, writer) = futures_lite::io::split(stream);
        // The client ends by a reset.
        let _ = futures_lite::io::copy(reader, writer).await;
    }
}
