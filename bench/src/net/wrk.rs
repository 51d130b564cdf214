//! HTTP/1 under `wrk`, an ordinary load generator: two workers, and a client that shares their
//! processors, as on the machine of whoever tries a server for the first time.
//!
//! The value is the server's CPU time for a request; beside it stand the time per request and
//! the latencies that wrk has seen. wrk stops after a time and not after a number of requests, so
//! an operation of these rows is a second of load. Without wrk on the path there are no such rows.
//!
//! The floor is the same HTTP library on a bare epoll loop, on one thread: what is left when the
//! runtime costs nothing.

use std::process::Command;

use super::server::Server;
use super::{Net, each_net};
use crate::probe::{Cost, Probe, Region};
use crate::row::{COMPLETION, Row, Target::OverTokio};

/// How often wrk asks again on each connection has no bound; how long it waits has one.
const TIMEOUT: &str = "--timeout=10s";

macro_rules! wrk_row {
    ($name:literal, $library:literal, $work:ident, $bare:ident, $connections:literal, $target:literal) => {
        Row::new(
            $name,
            concat!(
                "HTTP/1 requests to ",
                $library,
                " by wrk on ",
                $connections,
                " connections: server CPU"
            ),
            (2, 1),
            each_net!($work, $connections),
        )
        .workers(2)
        .isolated()
        .floor("epoll loop", |probe| {
            measure(probe, &Server::$bare(false), $connections);
        })
        .target(OverTokio($target))
        .target_of(COMPLETION, OverTokio($target))
    };
}

pub(crate) fn rows() -> Vec<Row> {
    if Command::new("wrk").arg("--version").output().is_err() {
        return Vec::new();
    }
    vec![
        wrk_row!("wrk_axum_16", "axum", axum, start_bare_axum, 16, 1.0),
        wrk_row!("wrk_axum_64", "axum", axum, start_bare_axum, 64, 1.1),
        wrk_row!("wrk_axum_256", "axum", axum, start_bare_axum, 256, 1.1),
        wrk_row!("wrk_axum_512", "axum", axum, start_bare_axum, 512, 1.15),
        wrk_row!("wrk_hyper_16", "hyper", hyper, start_bare_hyper, 16, 1.0),
        wrk_row!("wrk_hyper_64", "hyper", hyper, start_bare_hyper, 64, 1.03),
        wrk_row!("wrk_hyper_256", "hyper", hyper, start_bare_hyper, 256, 1.03),
        wrk_row!("wrk_hyper_512", "hyper", hyper, start_bare_hyper, 512, 1.03),
    ]
}

fn axum<R: Net, const CONNECTIONS: usize>(probe: &mut Probe) {
    let server = Server::start::<R, _>(probe.workers(), R::serve_axum);
    measure(probe, &server, CONNECTIONS);
}

fn hyper<R: Net, const CONNECTIONS: usize>(probe: &mut Probe) {
    let server = Server::start::<R, _>(probe.workers(), R::serve_http);
    measure(probe, &server, CONNECTIONS);
}

fn measure(probe: &mut Probe, server: &Server, connections: usize) {
    let mut load = None;
    probe.derive(|seconds| {
        let region = Region::begin();
        let seen = Load::run(server, connections, seconds);
        let used = region.stop();
        let per_request = used.cpu_ns() / seen.requests;
        load = Some((used.wall_ns(), seen));
        (Cost::of_count(seconds), per_request)
    });
    let (wall_ns, seen) = load.expect("it has run");
    probe.note("time", wall_ns / seen.requests);
    probe.note("p50", seen.p50_ns);
    probe.note("p99", seen.p99_ns);
}

/// What wrk reports.
#[derive(Debug)]
struct Load {
    requests: f64,
    p50_ns: f64,
    p99_ns: f64,
}

impl Load {
    fn run(server: &Server, connections: usize, seconds: u64) -> Load {
        let output = Command::new("wrk")
            .args(["-t1", "--latency", TIMEOUT])
            .arg(format!("-c{connections}"))
            .arg(format!("-d{seconds}s"))
            .arg(format!("http://{}/hello", server.address))
            .output()
            .expect("wrk was found before");
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && !report.contains("Non-2xx"),
            "wrk failed: {report}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Load::parse(&report).unwrap_or_else(|| panic!("wrk says something else: {report}"))
    }

    fn parse(report: &str) -> Option<Load> {
        let mut load = Load {
            requests: f64::NAN,
            p50_ns: f64::NAN,
            p99_ns: f64::NAN,
        };
        for line in report.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["50%", time] => load.p50_ns = parse_ns(time)?,
                ["99%", time] => load.p99_ns = parse_ns(time)?,
                [count, "requests", "in", ..] => load.requests = count.parse().ok()?,
                _ => {}
            }
        }
        let is_whole = load.requests > 0.0 && load.p50_ns > 0.0 && load.p99_ns > 0.0;
        is_whole.then_some(load)
    }
}

fn parse_ns(time: &str) -> Option<f64> {
    let unit = time.find(|c: char| c.is_ascii_alphabetic())?;
    let scale = match &time[unit..] {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(time[..unit].parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_wrk_is_understood() {
        let report = "  Latency Distribution\n     50%  635.00us\n     75%  780.00us\n     \
                      90%    1.02ms\n     99%    2.91ms\n  146112 requests in 2.00s, 21.3MB read\n";
        let load = Load::parse(report).expect("it is whole");
        assert_eq!(
            (load.requests, load.p50_ns, load.p99_ns),
            (146_112.0, 635e3, 2.91e6)
        );
        assert!(Load::parse("unable to connect").is_none());
    }
}
