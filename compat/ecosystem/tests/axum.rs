//! axum with tower-http: compression, timeouts, server-sent events, WebSockets, and a
//! graceful shutdown after which the same address is bound again.
#![cfg(feature = "axum")]

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use ecosystem::http_client;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::IntervalStream;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::TimeoutLayer;

fn router() -> Router {
    let events = || async {
        let ticks = tokio::time::interval(Duration::from_millis(5));
        let events = IntervalStream::new(ticks).take(10).enumerate();
        Sse::new(events.map(|(n, _)| Ok::<_, Infallible>(Event::default().data(n.to_string()))))
    };
    let timeout =
        TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_millis(50));
    Router::new()
        .route("/never", get(pending::<()>))
        .layer(timeout)
        .route("/text", get(|| async { "blitzen ".repeat(10_000) }))
        .layer(CompressionLayer::new())
        .route("/events", get(events))
        .route("/echo", post(|body: Bytes| async { body }))
        .route(
            "/ws",
            get(|ws: WebSocketUpgrade| async { ws.on_upgrade(echo) }),
        )
        .route(
            "/slow",
            get(|| async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                "slow"
            }),
        )
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if let Message::Text(_) | Message::Binary(_) = message {
            socket.send(message).await.unwrap();
        }
    }
}

async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn serve() -> SocketAddr {
    let (listener, address) = bind().await;
    tokio::spawn(async move { axum::serve(listener, router()).await.unwrap() });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_compressed_and_requests_time_out() {
    let address = serve().await;
    let client = http_client();
    let response = client
        .get(format!("http://{address}/text"))
        .send()
        .await
        .unwrap();
    // reqwest takes the header away when it decompresses.
    assert_eq!(response.content_length(), None);
    assert_eq!(response.text().await.unwrap(), "blitzen ".repeat(10_000));
    let plain = reqwest::Client::builder().gzip(false).build().unwrap();
    let request = plain
        .get(format!("http://{address}/text"))
        .header("accept-encoding", "gzip");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert!(response.bytes().await.unwrap().len() < 10_000);

    let response = client
        .get(format!("http://{address}/never"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 408);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_post_at_once() {
    let address = serve().await;
    let client = http_client();
    let mut requests = tokio::task::JoinSet::new();
    for n in 0..100_u8 {
        let request = client
            .post(format!("http://{address}/echo"))
            .body(vec![n; 10_000]);
        requests.spawn(async move {
            let body = request.send().await.unwrap().bytes().await.unwrap();
            assert!(body == vec![n; 10_000]);
        });
    }
    assert_eq!(requests.join_all().await.len(), 100);
}

#[tokio::test]
async fn server_sent_events_arrive_one_by_one() {
    let address = serve().await;
    let response = http_client()
        .get(format!("http://{address}/events"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut pieces = response.bytes_stream();
    let mut text = String::new();
    while let Some(piece) = pieces.next().await {
        text += std::str::from_utf8(&piece.unwrap()).unwrap();
    }
    let expected: String = (0..10).map(|n| format!("data: {n}\n\n")).collect();
    assert_eq!(text, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_echoes_text_and_large_messages_until_it_is_closed() {
    use tokio_tungstenite::tungstenite::Message;

    let address = serve().await;
    let (mut socket, response) = tokio_tungstenite::connect_async(format!("ws://{address}/ws"))
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 101);
    for n in 0..50 {
        socket.send(Message::text(n.to_string())).await.unwrap();
        assert_eq!(
            socket.next().await.unwrap().unwrap(),
            Message::text(n.to_string())
        );
    }
    let large = Message::binary(vec![7; 1_000_000]);
    socket.send(large.clone()).await.unwrap();
    assert!(socket.next().await.unwrap().unwrap() == large);
    socket.close(None).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        assert!(message.is_close());
    }
}

fn serve_until(
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let serve = axum::serve(listener, router()).with_graceful_shutdown(stop);
    tokio::spawn(async move { serve.await.unwrap() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_graceful_shutdown_the_address_can_be_bound_again() {
    let (mut listener, address) = bind().await;
    for _ in 0..5 {
        let stop = Arc::new(Notify::new());
        let server = serve_until(listener, {
            let stop = stop.clone();
            async move { stop.notified().await }
        });
        let client = http_client();
        let request = client.post(format!("http://{address}/echo")).body("first");
        assert_eq!(request.send().await.unwrap().text().await.unwrap(), "first");
        let slow = tokio::spawn(client.get(format!("http://{address}/slow")).send());
        tokio::time::sleep(Duration::from_millis(30)).await;
        stop.notify_one();
        // The request that is under way is answered.
        assert_eq!(slow.await.unwrap().unwrap().text().await.unwrap(), "slow");
        server.await.unwrap();
        listener = TcpListener::bind(address).await.unwrap();
    }
}
