//! An HTTP/1 server: hyper on blitzen's own sockets, timers and tasks.
//!
//! `cargo run --release --example http -- 127.0.0.1:8080` serves until Ctrl-C. Then it
//! accepts no more connections, finishes the responses under way, and closes. Without an
//! address it is its own client and ends by itself.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use blitzen::io::hyper::{HyperIo, HyperTimer};
use blitzen::net::{TcpListener, TcpStream};
use blitzen::sync::CancelToken;
use blitzen::task::JoinSet;
use blitzen::time::{sleep, timeout};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

/// How long responses may take to finish after Ctrl-C.
const GRACE: Duration = Duration::from_secs(10);

type BoxError = Box<dyn Error + Send + Sync>;

#[blitzen::main]
async fn main() -> Result<(), BoxError> {
    let stop = CancelToken::new();
    match std::env::args().nth(1) {
        Some(address) => {
            let listener = TcpListener::bind(address).await?;
            println!("http://{}/hello, Ctrl-C to stop", listener.local_addr()?);
            let serving = blitzen::spawn(serve(listener, stop.clone()));
            blitzen::signal::ctrl_c().await?;
            stop.cancel();
            println!("{} connections served", serving.await?);
        }
        None => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let serving = blitzen::spawn(serve(listener, stop.clone()));
            run_client(address, &stop).await?;
            println!("{} connections served", serving.await?);
        }
    }
    Ok(())
}

/// Serves until `stop` is cancelled, then waits for the connections that are left. Returns
/// how many there were.
async fn serve(listener: TcpListener, stop: CancelToken) -> usize {
    let mut connections = JoinSet::new();
    let mut served = 0;
    loop {
        let accepted = blitzen::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue, // one has ended
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                served += 1;
                connections.spawn(connection(stream, stop.clone()));
            }
            Err(error) => {
                eprintln!("accept: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener); // new connections are refused from now on
    let all_done = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, all_done).await.is_err() {
        eprintln!("closing the connections that have not ended");
    }
    served
}

async fn connection(stream: TcpStream, stop: CancelToken) {
    let serving = http1::Builder::new()
        .timer(HyperTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .serve_connection(HyperIo::new(stream), service_fn(respond));
    let mut serving = pin!(serving);
    let served = blitzen::select! {
        served = serving.as_mut() => served,
        () = stop.cancelled() => {
            // The response under way is the last one on this connection.
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        eprintln!("connection: {error}");
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let mut response = Response::new(String::new());
    match request.uri().path() {
        "/hello" => *response.body_mut() = "Hello, world!".into(),
        "/slow" => {
            sleep(Duration::from_millis(200)).await;
            *response.body_mut() = "Good things take time.".into();
        }
        _ => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}

/// Sends 100 requests on one connection, one for an unknown path, and one whose response is
/// under way when the server stops.
async fn run_client(address: SocketAddr, stop: &CancelToken) -> Result<(), BoxError> {
    let mut client = connect(address).await?;
    for _ in 0..100 {
        let hello = get(&mut client, "/hello").await?;
        assert_eq!(hello, (StatusCode::OK, "Hello, world!".into()));
    }
    let (unknown, _) = get(&mut client, "/nowhere").await?;
    println!("100 times 200, then {unknown}");

    let slow = get(&mut client, "/slow");
    let stopping = async {
        sleep(Duration::from_millis(50)).await;
        stop.cancel();
    };
    let (slow, ()) = blitzen::join!(slow, stopping);
    println!("requested before the stop: {:?}", slow?.1);
    Ok(())
}

/// Connects, and spawns a task that drives the connection.
async fn connect(address: SocketAddr) -> Result<SendRequest<String>, BoxError> {
    let stream = TcpStream::connect(address).await?;
    let (client, connection) = handshake(HyperIo::new(stream)).await?;
    blitzen::spawn(connection);
    Ok(client)
}

/// Sends a GET request, and returns the status and the body.
async fn get(
    client: &mut SendRequest<String>,
    path: &str,
) -> Result<(StatusCode, String), BoxError> {
    client.ready().await?;
    let request = Request::get(path).header(HOST, "localhost");
    let response = client.send_request(request.body(String::new())?).await?;
    let status = response.status();
    let mut body = pin!(response.into_body());
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        bytes.extend_from_slice(&frame?.into_data().unwrap_or_default());
    }
    Ok((status, String::from_utf8(bytes)?))
}
