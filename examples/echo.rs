//! An echo server that shuts down in good order.
//!
//! `cargo run --release --example echo -- 127.0.0.1:7007` serves until Ctrl-C. Then it
//! accepts no more connections, echoes what it has received, and closes. Without an address
//! it is its own client and ends by itself.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream};
use blitzen::sync::CancelToken;
use blitzen::task::JoinSet;
use blitzen::time::{sleep, timeout};

/// How long connections may take to finish after Ctrl-C.
const GRACE: Duration = Duration::from_secs(10);

#[blitzen::main]
async fn main() -> io::Result<()> {
    let stop = CancelToken::new();
    match std::env::args().nth(1) {
        Some(address) => {
            let listener = TcpListener::bind(address).await?;
            println!("listening on {}, Ctrl-C to stop", listener.local_addr()?);
            let serving = blitzen::spawn(serve(listener, stop.clone()));
            blitzen::signal::ctrl_c().await?;
            stop.cancel();
            println!("{} connections served", serving.await?);
        }
        None => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let serving = blitzen::spawn(serve(listener, stop.clone()));
            run_clients(address, &stop).await?;
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
                connections.spawn(echo(stream, stop.clone()));
            }
            Err(error) => {
                // For example, the process is out of descriptors. Existing connections
                // go on, and free some when they end.
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

/// Echoes until the peer has finished writing or `stop` is cancelled.
async fn echo(mut stream: TcpStream, stop: CancelToken) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        let count = blitzen::select! {
            biased; // echo what has arrived before stopping
            count = stream.read(&mut buffer) => count?,
            () = stop.cancelled() => 0,
        };
        if count == 0 {
            return stream.shutdown().await;
        }
        stream.write_all(&buffer[..count]).await?;
    }
}

/// Runs 100 clients, then one that is still connected when the server stops.
async fn run_clients(address: SocketAddr, stop: &CancelToken) -> io::Result<()> {
    let mut clients = JoinSet::new();
    for number in 0..100 {
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            let text = format!("hello from {number}");
            stream.write_all(text.as_bytes()).await?;
            stream.shutdown().await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            assert_eq!(answer, text);
            io::Result::Ok(answer.len())
        });
    }
    let mut bytes = 0;
    while let Some(received) = clients.join_next().await {
        bytes += received??;
    }
    println!("100 clients received {bytes} bytes");

    let mut last = TcpStream::connect(address).await?;
    last.write_all(b"goodbye").await?;
    let mut answer = [0; 7];
    last.read_exact(&mut answer).await?;
    stop.cancel();
    assert_eq!(last.read(&mut answer).await?, 0, "the server closes");
    println!(
        "the last client received {:?}, then end of file",
        answer.escape_ascii().to_string()
    );
    Ok(())
}
