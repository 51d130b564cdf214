//! tokio-tungstenite: WebSockets, server and client.
#![cfg(feature = "tungstenite")]

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{accept_async, accept_async_with_config, connect_async};

/// Echoes text and bytes on every connection.
async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (sink, stream) = accept_async(stream).await.unwrap().split();
                let data = stream.filter(|message| {
                    let is_data = message.as_ref().is_ok_and(|m| m.is_text() || m.is_binary());
                    std::future::ready(is_data)
                });
                data.forward(sink).await
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_get_their_own_messages_back() {
    let address = serve().await;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..30_usize {
        clients.spawn(async move {
            let (socket, _) = connect_async(format!("ws://{address}")).await.unwrap();
            let (mut sink, mut stream) = socket.split();
            let send = tokio::spawn(async move {
                for n in 0..50 {
                    sink.feed(Message::binary(vec![client as u8; n * 100]))
                        .await
                        .unwrap();
                }
                sink.flush().await.unwrap();
                sink
            });
            for n in 0..50 {
                let message = stream.next().await.unwrap().unwrap();
                assert!(message == Message::binary(vec![client as u8; n * 100]));
            }
            send.await.unwrap().close().await.unwrap();
        });
    }
    assert_eq!(clients.join_all().await.len(), 30);
}

#[tokio::test]
async fn pings_are_answered_and_large_messages_pass() {
    let address = serve().await;
    let (mut socket, _) = connect_async(format!("ws://{address}")).await.unwrap();
    socket
        .send(Message::Ping("are you there".into()))
        .await
        .unwrap();
    assert_eq!(
        socket.next().await.unwrap().unwrap(),
        Message::Pong("are you there".into())
    );
    let large = Message::text("x".repeat(3_000_000));
    socket.send(large.clone()).await.unwrap();
    assert!(socket.next().await.unwrap().unwrap() == large);
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let config = WebSocketConfig::default().max_message_size(Some(1000));
        let mut socket = accept_async_with_config(stream, Some(config))
            .await
            .unwrap();
        assert!(socket.next().await.unwrap().is_ok());
        let error = socket.next().await.unwrap().unwrap_err();
        let frame = CloseFrame {
            code: CloseCode::Size,
            reason: "too long".into(),
        };
        socket.close(Some(frame)).await.unwrap();
        error
    });
    let (mut socket, _) = connect_async(format!("ws://{address}")).await.unwrap();
    socket.send(Message::text("short")).await.unwrap();
    socket
        .send(Message::text("long".repeat(1000)))
        .await
        .unwrap();
    assert!(matches!(server.await.unwrap(), Error::Capacity(_)));
    match socket.next().await.unwrap() {
        Ok(Message::Close(Some(frame))) => assert_eq!(frame.code, CloseCode::Size),
        // The server did not read the long message, so the kernel may reset the connection.
        Err(Error::Io(_) | Error::Protocol(_)) => {}
        other => panic!("{other:?}"),
    }
}
