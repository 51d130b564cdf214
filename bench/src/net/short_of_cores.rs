//! Echoes where processors are short: everything on one, and eight workers on two that
//! other processes use as well.
//!
//! A runtime that spins, or wakes more workers than there is work for, pays for it here.
//! Each sample is a process of its own. The value is the server's CPU time, which the
//! other processes do not change but by the switches they force.

use std::process::{Child, Command, Stdio};

use super::client::{Client, Talk};
use super::echo::{measure, serve};
use super::server::Server;
use super::{CLIENT_CALLS, Net, each_net};
use crate::kit::keep_to_one_core;
use crate::probe::Probe;
use crate::row::{COMPLETION, Row, Target::OverTokio};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "one_core_echo",
            "64 B echoed on 32 connections, client and server on one processor: server CPU",
            (20_000, 256),
            each_net!(one_core),
        )
        .workers(1)
        .isolated()
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.0))
        .target_of(COMPLETION, OverTokio(1.0)),
        Row::new(
            "loaded_echo",
            "64 B echoed on 32 connections, eight workers beside foreign load: server CPU",
            (10_000, 256),
            each_net!(loaded),
        )
        .workers(8)
        .isolated()
        .untraced(CLIENT_CALLS)
        .target(OverTokio(1.0))
        .target_of(COMPLETION, OverTokio(1.0)),
    ]
}

const CONNECTIONS: usize = 32;

fn echo<R: Net>(probe: &mut Probe) {
    let server = Server::start::<R, _>(probe.workers(), serve::<R>);
    let talk = Talk::echo(64, 1);
    measure(probe, Client::connect(server.address, CONNECTIONS, &talk));
}

fn one_core<R: Net>(probe: &mut Probe) {
    keep_to_one_core();
    echo::<R>(probe);
}

fn loaded<R: Net>(probe: &mut Probe) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let _load: Vec<BurningProcess> = (0..processors).map(|_| BurningProcess::start()).collect();
    echo::<R>(probe);
}

/// A process that computes until it is dropped.
struct BurningProcess(Child);

impl BurningProcess {
    fn start() -> BurningProcess {
        let program = std::env::current_exe().expect("this program has a path");
        let process = Command::new(program)
            .arg("burn")
            .stdin(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        BurningProcess(process)
    }
}

impl Drop for BurningProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take()); // the end of its input is the end of its work
        let _ = self.0.wait();
    }
}

/// The hidden command: computes on one thread until its input ends.
pub(crate) fn burn() -> std::io::Result<()> {
    std::thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
