//! A second build of this program, for contenders whose compiler flags would change all others.
//!
//! Tokio's histogram and console-subscriber need `--cfg tokio_unstable`, and the latter the spans of
//! Tokio's feature `tracing` too. That build's own blitzen has nothing in it that could observe, which
//! shows what observing costs while it is off.

use std::env;
use std::path::PathBuf;

use crate::row::{Place, Row};

/// The folder of that build, beside `release`.
const FOLDER: &str = "observed-tokio";

/// The command that makes it.
const COMMAND: &str = "cargo xtask bench-observed";

/// The program, if it was built.
pub(crate) fn program() -> Option<PathBuf> {
    let here = env::current_exe().expect("this program has a path");
    let folder = here.parent()?.parent()?.join(FOLDER);
    let program = folder.join("release").join(here.file_name()?);
    program.exists().then_some(program)
}

/// Leaves out the contenders that take part in that build only, and says so, if it is not there.
pub(crate) fn leave_out_if_missing(rows: &mut [Row]) {
    if program().is_some() {
        return;
    }
    let mut left_out: Vec<&str> = Vec::new();
    for row in rows {
        row.contenders.retain(|contender| {
            let stays = contender.place != Place::OtherBuild;
            if !stays && !left_out.contains(&contender.name) {
                left_out.push(contender.name);
            }
            stays
        });
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        eprintln!("without {names}: their build is missing (`{COMMAND}` makes it)");
    }
}
