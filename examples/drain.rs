//! A TCP server that drains: it stops taking connections, lets those that are at work
//! finish, and says who did not.
//!
//! ```text
//! cargo run --release --example drain -- 127.0.0.1:7008
//! ```
//!
//! serves until ctrl-c or SIGTERM; a second one ends the drain. A request is a line with
//! a number of milliseconds, which the answer takes. Without an address the program is
//! its own client, sends itself SIGTERM, and ends by itself.

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

/// How long requests that are under way may still take.
const GRACE: Duration = Duration::from_secs(1);

#[blitzen::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shutdown = Shutdown::on_signals()?;
    match std::env::args().nth(1) {
        Some(address) => {
            let listener = TcpListener::bind(address).await?;
            println!("listening on {}, ctrl-c to stop", listener.local_addr()?);
            run(listener, &shutdown).await;
        }
        None => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let client = blitzen::spawn(be_the_client(address, shutdown.clone()));
            run(listener, &shutdown).await;
            client.await??;
        }
    }
    Ok(())
}

/// Serves until it is time to end, and drains.
async fn run(listener: TcpListener, shutdown: &Shutdown) {
    serve(listener, shutdown).await;
    if let Some(cause) = shutdown.cause() {
        println!("stopping after {cause}: {} at work", shutdown.at_work());
    }
    match shutdown.drain(GRACE).await {
        Ok(()) => println!("everybody has finished"),
        Err(unfinished) => {
            println!("{} left behind:", unfinished.work.len());
            for work in &unfinished.work {
                println!("  {work}");
            }
        }
    }
}

/// Takes connections until it is time to end. The listener is closed with it, so that
/// nobody is kept waiting.
async fn serve(listener: TcpListener, shutdown: &Shutdown) {
    let stop = shutdown.token();
    loop {
        let accepted = blitzen::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Counted from now on, and named by the task it becomes.
                let connection = shutdown.track(answer(stream, stop.clone()));
                let name = format!("connection {peer}");
                if let Err(error) = task::Builder::new().name(&name).spawn(connection) {
                    eprintln!("{name}: {error}");
                }
            }
            Err(error) => {
                // Out of descriptors, say: those there are go on.
                eprintln!("accept: {error}");
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Answers requests until the peer hangs up, or until it is time to end and none is under
/// way.
async fn answer(mut stream: TcpStream, stop: CancelToken) {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    loop {
        let request = blitzen::select! {
            biased; // a request that has come is answered
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
            return; // the peer has hung up
        }
    }
}

/// Three connections: one that asks for nothing, one whose answer comes in time, and one
/// that asks for too much.
async fn be_the_client(address: SocketAddr, shutdown: Shutdown) -> io::Result<()> {
    let mut idle = TcpStream::connect(address).await?;
    let mut patient = TcpStream::connect(address).await?;
    let mut greedy = TcpStream::connect(address).await?;
    patient.write_all(b"0\n200\n").await?;
    greedy.write_all(b"0\n3600000\n").await?;
    // Both have been heard, and are at work on their second requests.
    for stream in [&mut patient, &mut greedy] {
        let mut first = [0; b"that was 0 ms\n".len()];
        stream.read_exact(&mut first).await?;
    }
    stop_myself(&shutdown).await?;

    let mut rest = String::new();
    idle.read_to_string(&mut rest).await?;
    assert_eq!(rest, "", "an idle connection is closed");
    patient.read_to_string(&mut rest).await?;
    assert_eq!(
        rest, "that was 200 ms\n",
        "a request that is under way is answered"
    );
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nobody is taken any more"
    );
    Ok(())
}

/// What `kill` does.
#[cfg(unix)]
async fn stop_myself(_: &Shutdown) -> io::Result<()> {
    let kill = format!("kill -TERM {}", std::process::id());
    let mut shell = blitzen::process::Command::new("sh");
    assert!(shell.args(["-c", &kill]).status().await?.success());
    Ok(())
}

/// There is no such thing here.
#[cfg(not(unix))]
async fn stop_myself(shutdown: &Shutdown) -> io::Result<()> {
    shutdown.trigger();
    Ok(())
}
