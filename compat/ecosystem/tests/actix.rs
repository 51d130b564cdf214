//! actix-web: its own threads, each with a current-thread runtime and a `LocalSet`.
#![cfg(feature = "actix")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpRequest, HttpServer, web};
use ecosystem::http_client;

/// Starts a server on a thread of its own.
fn serve() -> (SocketAddr, ServerHandle, JoinHandle<()>) {
    let (sender, started) = mpsc::channel();
    let thread = thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let app = || {
                let echo = |body: web::Bytes| async { body };
                // Not `Send`: each of actix's threads has its own.
                let count = |calls: web::Data<Cell<u32>>| async move {
                    calls.set(calls.get() + 1);
                    tokio::task::yield_now().await;
                    calls.get().to_string()
                };
                let slow = |_: HttpRequest| async {
                    actix_web::rt::time::sleep(Duration::from_millis(100)).await;
                    "slow"
                };
                let local = || async {
                    let shared = std::rc::Rc::new(Cell::new(1));
                    let other = shared.clone();
                    actix_web::rt::spawn(async move { other.set(7) })
                        .await
                        .unwrap();
                    shared.get().to_string()
                };
                App::new()
                    .app_data(web::Data::new(Cell::new(0_u32)))
                    .route("/echo", web::post().to(echo))
                    .route("/count", web::get().to(count))
                    .route("/slow", web::get().to(slow))
                    .route("/local", web::get().to(local))
            };
            let server = HttpServer::new(app).workers(2).disable_signals();
            let server = server.bind(("127.0.0.1", 0)).unwrap();
            let address = server.addrs()[0];
            let server = server.run();
            sender.send((address, server.handle())).unwrap();
            server.await.unwrap();
        });
    });
    let (address, handle) = started.recv().unwrap();
    (address, handle, thread)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_served_by_local_tasks_until_a_graceful_stop() {
    let (address, server, thread) = serve();
    let client = http_client();
    let mut requests = tokio::task::JoinSet::new();
    for n in 0..100_u8 {
        let request = client
            .post(format!("http://{address}/echo"))
            .body(vec![n; 5_000]);
        requests.spawn(async move {
            let body = request.send().await.unwrap().bytes().await.unwrap();
            assert!(body == vec![n; 5_000]);
        });
    }
    assert_eq!(requests.join_all().await.len(), 100);
    let get = |path: &str| client.get(format!("http://{address}{path}")).send();
    assert_eq!(get("/local").await.unwrap().text().await.unwrap(), "7");
    let count: u32 = get("/count")
        .await
        .unwrap()
        .text()
        .await
        .unwrap()
        .parse()
        .unwrap();
    assert!(count >= 1);

    let slow = tokio::spawn(get("/slow"));
    tokio::time::sleep(Duration::from_millis(30)).await;
    server.stop(true).await;
    assert_eq!(slow.await.unwrap().unwrap().text().await.unwrap(), "slow");
    thread.join().unwrap();
    assert!(get("/local").await.is_err());
}
