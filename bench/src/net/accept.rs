//! A storm of connections that come and go at once.
//!
//! The client opens a number of connections at a time, shuts down its side, and
//! waits until the server has closed each of them.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use super::cores::{Side, others_cpu_ns, pin};
use super::server::Server;
use super::{Sockets, each_server};
use crate::probe::{Cost, Probe, Region};
use crate::row::{COMPLETION, Row, Target::OverTokio};

/// Connections at a time.
const BURST: u64 = 64;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "accept_storm",
            "a connection accepted, found at its end and closed: server CPU",
            (4_096, 128),
            each_server!(storm, serve),
        )
        .workers(1)
        .target(OverTokio(1.0))
        .target_of(COMPLETION, OverTokio(1.0)),
    ]
}

async fn serve<R: Sockets>(mut connection: R::Connection) {
    R::receive(&mut connection, vec![0; 16]).await;
}

fn storm(probe: &mut Probe, server: &Server) {
    probe.derive(|n| {
        let client = thread::spawn({
            let address = server.address;
            move || {
                pin(Side::Client);
                come_and_go(address, n)
            }
        });
        let cost = client.join().expect("the client does not panic");
        (cost, cost.cpu_ns() / n as f64)
    });
}

fn come_and_go(address: SocketAddr, n: u64) -> Cost {
    let mut gone = 0;
    let cpu_ns = others_cpu_ns();
    let region = Region::begin();
    while gone < n {
        let burst: Vec<TcpStream> = (0..BURST.min(n - gone))
            .map(|_| TcpStream::connect(address).expect("the server listens"))
            .collect();
        for stream in &burst {
            stream.shutdown(Shutdown::Write).expect("it is connected");
        }
        for mut stream in burst {
            let count = stream.read(&mut [0; 16]).expect("the server closes");
            assert_eq!(count, 0, "nobody said anything");
            gone += 1;
        }
    }
    region.end(gone).with_cpu(others_cpu_ns() - cpu_ns)
}
