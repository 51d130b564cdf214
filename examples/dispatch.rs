//! A server whose heavy requests run on a dispatcher of their own.
//!
//! A client sends short requests and measures how long each takes, while others send heavy ones
//! that keep a processor busy for 20 ms. First the heavy ones run where the connection's task is,
//! then on a dispatcher with threads of its own. Run it with `--release`:
//!
//! ```text
//! cargo run --release --example dispatch
//! ```

use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use blitzen::dispatch::{Dispatcher, with_dispatcher};
use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream};

const SHORT: u8 = b's';
const HEAVY: u8 = b'h';
const HEAVY_TIME: Duration = Duration::from_millis(20);
const MEASURED: Duration = Duration::from_secs(1);
const HEAVY_CLIENTS: usize = 4;

#[blitzen::main(worker_threads = 2)]
async fn main() -> io::Result<()> {
    // One task that may move, since the future of `main` is none.
    blitzen::spawn(compare()).await?
}

async fn compare() -> io::Result<()> {
    let apart = Dispatcher::builder().threads(2).name("heavy").build()?;
    for (name, heavy) in [
        ("heavy requests on the workers", Dispatcher::default()),
        ("on a dispatcher of their own", apart.clone()),
    ] {
        let mut times = measure(heavy).await?;
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!(
            "{name:30} short requests: median {:?}, 99 % {:?}, longest {:?}",
            at(50),
            at(99),
            at(100)
        );
    }
    println!("{:?}", apart.metrics());
    Ok(())
}

/// Serves both kinds of requests, and returns how long the short ones took.
async fn measure(heavy: Dispatcher) -> io::Result<Vec<Duration>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = blitzen::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            blitzen::spawn(serve(connection, heavy.clone()));
        }
    });
    let load: Vec<_> = (0..HEAVY_CLIENTS)
        .map(|_| blitzen::spawn(request_for_ever(address)))
        .collect();
    let times = blitzen::spawn(async move {
        let mut client = TcpStream::connect(address).await?;
        let (begun, mut times) = (Instant::now(), Vec::new());
        while begun.elapsed() < MEASURED {
            let start = Instant::now();
            request(&mut client, SHORT).await?;
            times.push(start.elapsed());
        }
        Ok(times)
    });
    let times = times.await?;
    load.iter().for_each(|client| client.abort());
    server.abort();
    times
}

async fn serve(mut connection: TcpStream, heavy: Dispatcher) -> io::Result<()> {
    let mut request = [0];
    while connection.read(&mut request).await? == 1 {
        if request[0] == HEAVY {
            with_dispatcher(&heavy, async { compute() }).await;
        }
        connection.write_all(&request).await?;
    }
    Ok(())
}

/// Keeps a processor busy.
fn compute() {
    let (start, mut sum) = (Instant::now(), 0u64);
    while start.elapsed() < HEAVY_TIME {
        (0..1_000).for_each(|n| sum = black_box(sum.wrapping_mul(31) + n));
    }
}

async fn request(client: &mut TcpStream, kind: u8) -> io::Result<()> {
    let mut reply = [0];
    client.write_all(&[kind]).await?;
    client.read_exact(&mut reply).await.map(drop)
}

async fn request_for_ever(address: SocketAddr) -> io::Result<()> {
    let mut client = TcpStream::connect(address).await?;
    loop {
        request(&mut client, HEAVY).await?;
    }
}
