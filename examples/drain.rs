//! A TCP server that drains: it stops accepting connections, lets requests under way
//! finish, and reports those that did not.
//!
//! ```text
//! cargo run --release --example drain -- 127.0.0.1:7008
//! ```
//!
//! serves until Ctrl-C or SIGTERM; a second one ends the drain. A request is a line with the
//! number of milliseconds that the response takes. Without an address the program is its own
//! client, sends itself SIGTERM, and ends by itself.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use blitzen::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use blitzen::net::{TcpListener, TcpStream};
use blitzen::shutdown::Shutdown;
use blitzen::sync::CancelToken;
use blitzen::task;
use blitzen::time::sleep;

/// How long requests under way may still take.
const GRACE: Duration = Duration::from_secs(1);

#[blitzen::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shutdown = Shutdown::on_signals()?;
    match std::env::args().nth(1) {
        Some(address) => {
            let listener = TcpListener::bind(address).await?;
            println!("listening on {}, Ctrl-C to stop", listener.local_addr()?);
            run(listener, &shutdown).await;
        }
        None => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let client = blitzen::spawn(run_clients(address, shutdown.clone()));
            run(listener, &shutdown).await;
            client.await??;
        }
    }
    Ok(())
}

/// Serves until the shutdown begins, then drains.
async fn run(listener: TcpListener, shutdown: &Shutdown) {
    serve(listener, shutdown).await;
    if let Some(cause) = shutdown.cause() {
        println!("stopping after {cause}: {} under way", shutdown.at_work());
    }
    match shutdown.drain(GRACE).await {
        Ok(()) => println!("all connections have ended"),
        Err(unfinished) => {
            println!("{} did not end:", unfinished.work.len());
            for work in &unfinished.work {
                println!("  {work}");
            }
        }
    }
}

/// Accepts connections until the shutdown begins. Returning closes the listener, so that new
/// connections are refused instead of kept waiting.
async fn serve(listener: TcpListener, shutdown: &Shutdown) {
    let stop = shutdown.token();
    loop {
        let accepted = blitzen::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // The drain waits for it, and reports it under the name of its task.
                let connection = shutdown.track(answer(stream, stop.clone()));
                let name = format!("connection {peer}");
                if let Err(error) = task::Builder::new().name(&name).spawn(connection) {
                    eprintln!("{name}: {error}");
                }
            }
            Err(error) => {
                // For example, the process is out of descriptors; existing connections go on.
                eprintln!("accept: {error}");
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Answers requests until the peer closes, or until the shutdown begins and no request is
/// under way.
async fn answer(mut stream: TcpStream, stop: CancelToken) {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    loop {
        let request = blitzen::select! {
            biased; // answer a request that has arrived before stopping
            request = lines.next_line() => request,
            () = stop.cancelled() => return,
        };
        let Ok(Some(request)) = request else { return };
        let answer = match request.trim().parse() {
            Ok(millis) => {
                sleep(Duration::from_millis(millis)).await;
                format!("that was {millis} ms\n")
            }
            Err(error) => format!("{request:?}: {error}\n"),
        };
        if writer.write_all(answer.as_bytes()).await.is_err() {
            return; // the peer has closed
        }
    }
}

/// Opens three connections: one that requests nothing, one whose response takes 200 ms, and
/// one whose response takes an hour.
async fn run_clients(address: SocketAddr, shutdown: Shutdown) -> io::Result<()> {
    let mut idle = TcpStream::connect(address).await?;
    let mut quick = TcpStream::connect(address).await?;
    let mut slow = TcpStream::connect(address).await?;
    quick.write_all(b"0\n200\n").await?;
    slow.write_all(b"0\n3600000\n").await?;
    // Both have had their first response; the second requests are under way.
    for stream in [&mut quick, &mut slow] {
        let mut first = [0; b"that was 0 ms\n".len()];
        stream.read_exact(&mut first).await?;
    }
    stop_myself(&shutdown).await?;

    let mut rest = String::new();
    idle.read_to_string(&mut rest).await?;
    assert_eq!(rest, "", "an idle connection is closed");
    quick.read_to_string(&mut rest).await?;
    assert_eq!(rest, "that was 200 ms\n", "a request under way is answered");
    assert!(
        TcpStream::connect(address).await.is_err(),
        "no connection is accepted any more"
    );
    Ok(())
}

/// Sends SIGTERM to this process.
#[cfg(unix)]
async fn stop_myself(_: &Shutdown) -> io::Result<()> {
    let kill = format!("kill -TERM {}", std::process::id());
    let mut shell = blitzen::process::Command::new("sh");
    assert!(shell.args(["-c", &kill]).status().await?.success());
    Ok(())
}

/// Begins the shutdown; there is no SIGTERM here.
#[cfg(not(unix))]
async fn stop_myself(shutdown: &Shutdown) -> io::Result<()> {
    shutdown.trigger();
    Ok(())
}
