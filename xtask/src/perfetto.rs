//! What Perfetto itself says of a trace: `xtask/check_perfetto.py` asks its schema and its trace
//! processor, where the Python package `perfetto` is installed.

use std::process::Command;

use crate::sh::{self, Context, Outcome, Tally};

/// What the script returns if the package is not there.
const NOT_THERE: i32 = 3;

pub(crate) fn run(_: &[String]) -> Outcome<Tally> {
    let trace = sh::target().join("record.pftrace");
    let mut record = sh::cargo();
    record
        .args(["run", "-q", "-p", "blitzen", "--example", "record", "--"])
        .arg(&trace);
    sh::run(&mut record)?;
    let mut check = Command::new("python3");
    check
        .arg(sh::root().join("xtask/check_perfetto.py"))
        .arg(&trace);
    let status = match check.status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("not run: there is no python3");
            return Ok(Tally::default());
        }
        status => status.context("python3")?,
    };
    match status.code() {
        Some(0) => Ok(Tally {
            passed: 1,
            failed: 0,
        }),
        Some(NOT_THERE) => Ok(Tally::default()),
        _ => Err("Perfetto does not understand the trace".into()),
    }
}
