//! Resident memory per connection that waits for its peer.
//!
//! The client is another process, so that its memory and its descriptors are not
//! counted. Each task has seen a byte and waits for the next with the smallest buffer
//! there is: what remains is the library's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use super::client::{allow_descriptors, reset_when_closed};
use super::server::Server;
use super::{Net, each_net};
use crate::kit::resident_bytes;
use crate::probe::{Cost, Probe};
use crate::row::{COMPLETION, Row, Target::OverTokio, Unit};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "idle_connection",
            "resident bytes per connection that waits, of 10,000",
            (10_000, 500),
            each_net!(idle),
        )
        .unit(Unit::Bytes)
        .isolated()
        .target(OverTokio(1.0))
        .target_of(COMPLETION, OverTokio(1.01)), // less than Tokio
    ]
}

async fn serve<R: Net>(mut stream: R::Stream) {
    let mut byte = [0];
    while R::read(&mut stream, &mut byte).await == 1 {
        if !R::write_all(&mut stream, &byte).await {
            return;
        }
    }
}

fn idle<R: Net>(probe: &mut Probe) {
    allow_descriptors(10_100); // the other process has its own
    let server = Server::start::<R, _>(probe.workers(), serve::<R>);
    probe.derive_once(|n| {
        // One that comes first brings whatever is made once.
        let first = Holder::start(server.address, 1);
        let before = resident_bytes();
        let all = Holder::start(server.address, n);
        let bytes = resident_bytes() - before;
        drop((first, all));
        (Cost::of_count(n), bytes / n as f64)
    });
}

/// A process that holds connections.
struct Holder(Child);

impl Holder {
    /// Returns when every connection has been served.
    fn start(address: SocketAddr, count: u64) -> Holder {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .args(["hold", &address.to_string(), &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let mut answer = [0];
        let output = process.stdout.as_mut().expect("it was asked for");
        output.read_exact(&mut answer).expect("all are connected");
        Holder(process)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take()); // the end of its input is the end of its work
        let _ = self.0.wait();
    }
}

/// The hidden command: connects so often, sees one answer on each connection, says so,
/// and holds them until its input ends.
pub(crate) fn hold(address: SocketAddr, count: u64) -> std::io::Result<()> {
    allow_descriptors(count + 100);
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address)?;
        reset_when_closed(&stream);
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        streams.push(stream);
    }
    std::io::stdout().write_all(b"x")?;
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
