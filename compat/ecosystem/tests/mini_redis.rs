//! mini-redis: the example program of Tokio's own tutorial, as a server and as a client.
#![cfg(feature = "mini_redis")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use mini_redis::client::{self, Client};
use mini_redis::{blocking_client, server};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

async fn serve() -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(async move { server::run(listener, stopped).await.unwrap() });
    (address, stop, server)
}

async fn connect(address: SocketAddr) -> Client {
    client::connect(address).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_set_and_get_until_the_server_is_stopped() {
    let (address, stop, server) = serve().await;
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..50_u8 {
        clients.spawn(async move {
            let (mut client, key) = (connect(address).await, n.to_string());
            for length in [1, 100, 10_000] {
                client.set(&key, vec![n; length].into()).await.unwrap();
                assert_eq!(client.get(&key).await.unwrap().unwrap(), vec![n; length]);
            }
        });
    }
    assert_eq!(clients.join_all().await.len(), 50);
    assert_eq!(connect(address).await.get("missing").await.unwrap(), None);
    stop.send(()).unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_value_expires_and_subscribers_get_messages() {
    let (address, _stop, _server) = serve().await;
    let mut client = connect(address).await;
    let value = Bytes::from("short-lived");
    client
        .set_expires("key", value.clone(), Duration::from_millis(200))
        .await
        .unwrap();
    assert_eq!(client.get("key").await.unwrap(), Some(value));
    while client.get("key").await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let mut subscriber = connect(address)
        .await
        .subscribe(vec!["news".into()])
        .await
        .unwrap();
    assert_eq!(client.publish("news", "first".into()).await.unwrap(), 1);
    let message = subscriber.next_message().await.unwrap().unwrap();
    assert_eq!(
        (&message.channel[..], &message.content[..]),
        ("news", &b"first"[..])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_blocking_client_has_a_runtime_of_its_own() {
    let (address, _stop, _server) = serve().await;
    let blocking = move || {
        let mut client = blocking_client::connect(address).unwrap();
        client.set("key", "value".into()).unwrap();
        client.get("key").unwrap().unwrap()
    };
    assert_eq!(
        tokio::task::spawn_blocking(blocking).await.unwrap(),
        "value"
    );
}
