//! hyper 1: HTTP/1 and HTTP/2, server and client, on one connection each.
#![cfg(feature = "hyper")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Answers with the body that it got, after the number of milliseconds in the path.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let delay_ms = request.uri().path()[1..].parse().unwrap_or(0);
    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    let body = request.into_body().collect().await.unwrap().to_bytes();
    Ok(Response::new(Full::new(body)))
}

fn post(path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://test{path}"));
    request.body(Full::new(body.into())).unwrap()
}

async fn body_of(response: Response<Incoming>) -> Bytes {
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn http1_serves_many_requests_on_one_connection() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = hyper::server::conn::http1::Builder::new();
        connection
            .serve_connection(TokioIo::new(stream), service_fn(echo))
            .await
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    for length in [0, 1, 100, 20_000, 300_000].into_iter().cycle().take(100) {
        let body = vec![length as u8; length];
        let response = sender.send_request(post("/0", body.clone())).await.unwrap();
        assert_eq!(body_of(response).await, body);
        sender.ready().await.unwrap();
    }
    drop(sender);
    connection.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_answers_out_of_order_on_one_connection() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        connection
            .serve_connection(TokioIo::new(stream), service_fn(echo))
            .await
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);

    let (ended, mut order) = tokio::sync::mpsc::unbounded_channel();
    let slow_ms = 300;
    for (request, delay_ms) in [slow_ms, 0, 0, 0, 0, 0, 0, 0].into_iter().enumerate() {
        let (mut sender, ended) = (sender.clone(), ended.clone());
        tokio::spawn(async move {
            let body = vec![request as u8; 100_000];
            let path = format!("/{delay_ms}");
            let response = sender
                .send_request(post(&path, body.clone()))
                .await
                .unwrap();
            assert_eq!(body_of(response).await, body);
            ended.send(request).unwrap();
        });
    }
    drop((sender, ended));
    let mut requests = Vec::new();
    while let Some(request) = order.recv().await {
        requests.push(request);
    }
    assert_eq!(requests.len(), 8);
    assert_eq!(requests[7], 0, "the slow one holds up no other");
    connection.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooled_client_reuses_connections_and_a_graceful_shutdown_ends_them() {
    let (listener, address) = listen().await;
    let connections = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(Notify::new());
    let server = tokio::spawn({
        let (connections, stop) = (connections.clone(), stop.clone());
        async move {
            let graceful = GracefulShutdown::new();
            loop {
                let (stream, _) = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap(),
                    () = stop.notified() => break,
                };
                connections.fetch_add(1, Relaxed);
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http1().timer(TokioTimer::new());
                let io = TokioIo::new(stream);
                let connection = builder.serve_connection(io, service_fn(echo));
                let connection = graceful.watch(connection.into_owned());
                tokio::spawn(async move { connection.await.unwrap() });
            }
            drop(listener);
            graceful.shutdown().await;
        }
    });
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let uri = |path: &str| format!("http://{address}{path}");
    for n in 0..20_u8 {
        let request = Request::post(uri("/0")).body(Full::from(vec![n])).unwrap();
        assert_eq!(
            body_of(client.request(request).await.unwrap()).await,
            [n].as_slice()
        );
    }
    // A connection that comes back to the pool a moment too late is replaced.
    let connections = connections.load(Relaxed);
    assert!(connections < 10, "{connections} for 20 requests");

    // A request that is under way is answered, and then the server ends.
    let request = Request::post(uri("/200")).body(Full::from("last")).unwrap();
    let last = tokio::spawn(client.request(request));
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.notify_one();
    assert_eq!(body_of(last.await.unwrap().unwrap()).await, "last");
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_both_ways() {
    let (listener, address) = listen().await;
    let upgrade = service_fn(|mut request: Request<Incoming>| async move {
        tokio::spawn(async move {
            let upgraded = hyper::upgrade::on(&mut request).await.unwrap();
            let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded));
            tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        let response = response
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, "echo");
        Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
    });
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = hyper::server::conn::http1::Builder::new();
        let connection = connection.serve_connection(TokioIo::new(stream), upgrade);
        connection.with_upgrades().await.unwrap();
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = Request::get("http://test/").header(CONNECTION, "upgrade");
    let request = request
        .header(UPGRADE, "echo")
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);

    let mut upgraded = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let sent: Vec<u8> = (0..50_000).map(|n| n as u8).collect();
    upgraded.write_all(&sent).await.unwrap();
    upgraded.shutdown().await.unwrap();
    let mut received = Vec::new();
    upgraded.read_to_end(&mut received).await.unwrap();
    assert!(received == sent);
}
