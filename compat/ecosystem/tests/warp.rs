//! warp: filters, WebSockets and a graceful shutdown.
#![cfg(feature = "warp")]

use ecosystem::http_client;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use warp::Filter;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_and_websockets_are_served_until_the_signal() {
    let greet = warp::path!("hello" / String).map(|name| format!("hello, {name}"));
    let echo = warp::path("echo")
        .and(warp::post())
        .and(warp::body::bytes());
    let echo = echo.map(|body: warp::hyper::body::Bytes| body.to_vec());
    let socket = warp::path("ws").and(warp::ws()).map(|ws: warp::ws::Ws| {
        ws.on_upgrade(|socket| async {
            let (sink, stream) = socket.split();
            let data = stream.filter(|m| std::future::ready(m.as_ref().is_ok_and(|m| m.is_text())));
            // The client closes, which is no failure.
            let _ = data.forward(sink).await;
        })
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = warp::serve(greet.or(echo).or(socket)).incoming(listener);
    let server = server.graceful(async { drop(stopped.await) });
    let server = tokio::spawn(server.run());

    let client = http_client();
    let text = client
        .get(format!("http://{address}/hello/warp"))
        .send()
        .await
        .unwrap();
    assert_eq!(text.text().await.unwrap(), "hello, warp");
    let body: Vec<u8> = (0..500_000).map(|n| (n / 7) as u8).collect();
    let request = client
        .post(format!("http://{address}/echo"))
        .body(body.clone());
    assert!(request.send().await.unwrap().bytes().await.unwrap() == body);
    let missing = client
        .get(format!("http://{address}/nothing"))
        .send()
        .await
        .unwrap();
    assert_eq!(missing.status(), 404);

    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/ws"))
        .await
        .unwrap();
    for n in 0..20 {
        socket.send(Message::text(n.to_string())).await.unwrap();
        assert_eq!(
            socket.next().await.unwrap().unwrap(),
            Message::text(n.to_string())
        );
    }
    drop((socket, client));
    stop.send(()).unwrap();
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
