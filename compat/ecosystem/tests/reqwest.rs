//! reqwest with rustls against an axum server with TLS, and its blocking client.
#![cfg(feature = "reqwest")]

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Version;
use axum::routing::{get, post};
use axum::serve::Listener;
use ecosystem::tls::Identity;
use ecosystem::{http_client, install_crypto_provider};
use reqwest::{Certificate, Client};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A listener whose connections speak TLS.
struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            // A client that gives up during the handshake is no error of the server.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn router() -> Router {
    Router::new()
        .route(
            "/version",
            get(|version: Version| async move { format!("{version:?}") }),
        )
        .route("/echo", post(|body: Body| async { body }))
        .route(
            "/length",
            post(|body: Bytes| async move { body.len().to_string() }),
        )
}

/// Starts a server; returns its address and what a client needs to trust it.
async fn serve(protocols: &[&str]) -> (SocketAddr, Certificate) {
    let identity = Identity::for_localhost();
    let listener = TlsListener {
        listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        acceptor: TlsAcceptor::from(identity.server_config(protocols)),
    };
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router()).await.unwrap() });
    (
        address,
        Certificate::from_der(&identity.certificate).unwrap(),
    )
}

fn client(address: SocketAddr, certificate: Certificate) -> Client {
    let builder = Client::builder().tls_certs_only([certificate]);
    builder
        .resolve("localhost", address)
        .no_proxy()
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_share_an_http2_connection_with_tls() {
    let (address, certificate) = serve(&["h2", "http/1.1"]).await;
    let client = client(address, certificate);
    let url = format!("https://localhost:{}", address.port());
    let response = client.get(format!("{url}/version")).send().await.unwrap();
    assert_eq!(response.version(), reqwest::Version::HTTP_2);
    assert_eq!(response.text().await.unwrap(), "HTTP/2.0");

    let mut requests = tokio::task::JoinSet::new();
    for n in 0..50_u8 {
        let request = client.post(format!("{url}/echo")).body(vec![n; 50_000]);
        requests.spawn(async move {
            let body = request.send().await.unwrap().bytes().await.unwrap();
            assert!(body == vec![n; 50_000]);
        });
    }
    assert_eq!(requests.join_all().await.len(), 50);
}

#[tokio::test]
async fn a_large_body_passes_through_http1_with_tls() {
    let (address, certificate) = serve(&["http/1.1"]).await;
    let client = client(address, certificate);
    let url = format!("https://localhost:{}", address.port());
    let body: Vec<u8> = (0..1_500_000).map(|n| (n / 3) as u8).collect();
    let request = client.post(format!("{url}/echo")).body(body.clone());
    let response = request.send().await.unwrap();
    assert_eq!(response.version(), reqwest::Version::HTTP_11);
    assert!(response.bytes().await.unwrap() == body);
    let request = client.post(format!("{url}/length")).body(body);
    assert_eq!(
        request.send().await.unwrap().text().await.unwrap(),
        "1500000"
    );
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_refused() {
    let (address, _) = serve(&["http/1.1"]).await;
    let other = Identity::for_localhost();
    let client = client(address, Certificate::from_der(&other.certificate).unwrap());
    let url = format!("https://localhost:{}/version", address.port());
    assert!(client.get(url).send().await.unwrap_err().is_connect());
}

/// A server on a thread of its own.
fn serve_plain() -> SocketAddr {
    install_crypto_provider();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router()).await.unwrap();
        });
    });
    address
}

#[test]
fn the_blocking_client_works_outside_a_runtime_and_on_its_blocking_threads() {
    let url = format!("http://{}/version", serve_plain());
    assert_eq!(
        reqwest::blocking::get(&url).unwrap().text().unwrap(),
        "HTTP/1.1"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let read = move || reqwest::blocking::get(url).unwrap().text().unwrap();
    let read = runtime.block_on(async { tokio::task::spawn_blocking(read).await });
    assert_eq!(read.unwrap(), "HTTP/1.1");
}

#[test]
fn the_blocking_client_panics_inside_a_current_thread_runtime_which_survives_it() {
    let url = format!("http://{}/version", serve_plain());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let panic = runtime.block_on(async {
        catch_unwind(AssertUnwindSafe(|| reqwest::blocking::get(&url).map(drop))).unwrap_err()
    });
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap();
    assert!(
        text.contains("Cannot drop a runtime in a context where blocking is not allowed"),
        "{text}"
    );
    let text =
        runtime.block_on(async { http_client().get(&url).send().await.unwrap().text().await });
    assert_eq!(text.unwrap(), "HTTP/1.1");
}
