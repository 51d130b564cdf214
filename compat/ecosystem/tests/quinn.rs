//! quinn: QUIC over the runtime's UDP sockets.
#![cfg(feature = "quinn")]

use std::net::SocketAddr;
use std::sync::Arc;

use ecosystem::tls::Identity;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, ServerConfig};

const PROTOCOL: &str = "ecosystem";

/// Echoes streams and datagrams until the client closes the connection.
async fn echo(connection: Connection) {
    loop {
        tokio::select! {
            stream = connection.accept_bi() => {
                let Ok((mut send, mut receive)) = stream else { return };
                tokio::spawn(async move {
                    let bytes = receive.read_to_end(10_000_000).await.unwrap();
                    send.write_all(&bytes).await.unwrap();
                    send.finish().unwrap();
                });
            }
            datagram = connection.read_datagram() => {
                let Ok(datagram) = datagram else { return };
                connection.send_datagram(datagram).unwrap();
            }
        }
    }
}

/// Connects a client to a new server.
async fn connect() -> (Endpoint, Endpoint, Connection) {
    let identity = Identity::for_localhost();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let crypto = identity.server_config(&[PROTOCOL]);
    let crypto = QuicServerConfig::try_from(crypto).unwrap();
    let server = Endpoint::server(ServerConfig::with_crypto(Arc::new(crypto)), any).unwrap();
    let crypto = QuicClientConfig::try_from(identity.client_config(&[PROTOCOL])).unwrap();
    let mut client = Endpoint::client(any).unwrap();
    client.set_default_client_config(ClientConfig::new(Arc::new(crypto)));

    tokio::spawn({
        let server = server.clone();
        async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move { echo(incoming.await.unwrap()).await });
            }
        }
    });
    let address = server.local_addr().unwrap();
    let connection = client.connect(address, "localhost").unwrap().await.unwrap();
    (server, client, connection)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_one_connection_carry_large_bodies_at_once() {
    let (server, client, connection) = connect().await;
    let mut streams = tokio::task::JoinSet::new();
    for n in 0..20_u8 {
        let connection = connection.clone();
        streams.spawn(async move {
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            let bytes = vec![n; 200_000];
            send.write_all(&bytes).await.unwrap();
            send.finish().unwrap();
            assert!(receive.read_to_end(10_000_000).await.unwrap() == bytes);
        });
    }
    assert_eq!(streams.join_all().await.len(), 20);
    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    server.close(0_u32.into(), b"");
    server.wait_idle().await;
}

#[tokio::test]
async fn datagrams_come_back_and_a_closed_connection_says_why() {
    let (server, client, connection) = connect().await;
    // One at a time: datagrams may be lost, but not on an idle loopback.
    for n in 0..50_u8 {
        connection.send_datagram(vec![n; 500].into()).unwrap();
        assert_eq!(connection.read_datagram().await.unwrap(), vec![n; 500]);
    }
    server.close(7_u32.into(), b"enough");
    match connection.closed().await {
        ConnectionError::ApplicationClosed(close) => {
            assert_eq!(
                (close.error_code, &close.reason[..]),
                (7_u32.into(), &b"enough"[..])
            );
        }
        other => panic!("{other}"),
    }
    client.wait_idle().await;
}
