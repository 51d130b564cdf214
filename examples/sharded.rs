//! An echo server with one thread for each core, whose connections never change threads.
//!
//! Without an address it is its own client for a second, for both ways to spread connections, and
//! prints how many each shard had and how many requests they answered.
//!
//! ```text
//! cargo run --release --example sharded
//! cargo run --release --example sharded 0.0.0.0:7000
//! ```

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::TcpStream;
use blitzen::runtime::Builder;
use blitzen::shard::{Balance, ShardedListener, ShardedRuntime};
use blitzen::sync::CancelToken;

const CLIENTS: usize = 30;
const MEASURED: Duration = Duration::from_secs(1);

fn main() -> io::Result<()> {
    if let Some(address) = std::env::args().nth(1) {
        let runtime = Builder::sharded().build()?;
        let listener = runtime.listen(address, Balance::ReusePort)?;
        println!(
            "{} shards listen on {}",
            runtime.shards(),
            listener.local_addr()
        );
        serve(&runtime, &listener, &CancelToken::new());
        return Ok(());
    }
    for balance in [Balance::ReusePort, Balance::Exact] {
        let runtime = Builder::sharded().shards(3).build()?;
        let listener = match runtime.listen("127.0.0.1:0", balance) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => continue,
            listener => listener?,
        };
        measure(&runtime, &listener, balance);
    }
    Ok(())
}

/// Answers on all shards until `stop`; returns how many requests each shard has answered.
fn serve(runtime: &ShardedRuntime, listener: &ShardedListener, stop: &CancelToken) -> Vec<u64> {
    let (listener, stop) = (listener.clone(), stop.clone());
    runtime.run_each(move |shard| {
        let (listener, stop) = (listener.clone(), stop.clone());
        async move {
            let mut part = listener.on(&shard).expect("each shard has its part");
            let requests = Rc::new(Cell::new(0)); // shared without atomics
            loop {
                let accepted = blitzen::select! {
                    accepted = part.accept() => accepted,
                    () = stop.cancelled() => return requests.get(),
                };
                let Ok((stream, open)) = accepted else {
                    continue; // the peer has left, or there are too many
                };
                let requests = requests.clone();
                shard.spawn_local(async move {
                    // The peer has closed the connection.
                    let _ = echo(stream, &requests).await;
                    drop(open);
                });
            }
        }
    })
}

async fn echo(mut stream: TcpStream, requests: &Cell<u64>) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..read]).await?;
        requests.set(requests.get() + 1);
    }
}

fn measure(runtime: &ShardedRuntime, listener: &ShardedListener, balance: Balance) {
    let stop = CancelToken::new();
    let connections = thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let connections = run_clients(listener, runtime.shards());
            stop.cancel();
            connections
        });
        let requests = serve(runtime, listener, &stop);
        println!("{balance:?}: requests of each shard {requests:?}");
        clients.join().expect("the clients do not panic")
    });
    println!("{balance:?}: connections of each shard {connections:?}");
}

/// Has clients send requests for a while; returns how many connections each shard had.
fn run_clients(listener: &ShardedListener, shards: usize) -> Vec<usize> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let is_over = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (address, is_over) = (listener.local_addr(), is_over.clone());
                blitzen::spawn(async move {
                    let stream = TcpStream::connect(address).await;
                    let mut stream = stream.expect("the listener is there");
                    let mut reply = [0; 5];
                    while !is_over.load(Relaxed) {
                        stream.write_all(b"hello").await.expect("the server reads");
                        stream.read_exact(&mut reply).await.expect("it answers");
                    }
                })
            })
            .collect();
        blitzen::time::sleep(MEASURED).await;
        let connections = (0..shards).map(|index| listener.open_connections(index));
        let connections = connections.collect();
        is_over.store(true, Relaxed);
        for client in clients {
            client.await.expect("the clients do not panic");
        }
        connections
    })
}
