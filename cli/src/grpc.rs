//! The command that shows a program to tokio-console. It has a gRPC server, and so is a package of
//! its own: `compat/bridge`.

use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::client;

const BRIDGE: &str = "blitzen-console-bridge";

/// Becomes the bridge; returns only if that fails.
pub(crate) fn run(program: &str, address: &str) -> io::Result<()> {
    let socket = client::find(program)?;
    let own_folder = std::env::current_exe().ok();
    let beside = own_folder.and_then(|own| Some(own.parent()?.join(BRIDGE)));
    // Otherwise where commands are.
    let bridge = beside.filter(|path| path.exists());
    let bridge = bridge.unwrap_or_else(|| PathBuf::from(BRIDGE));
    let error = Command::new(&bridge).arg(socket).arg(address).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => io::Error::new(
            ErrorKind::NotFound,
            format!(
                "--grpc needs the command {BRIDGE}; in a checkout of blitzen, \
                 `cargo install --locked --path compat/bridge` installs it"
            ),
        ),
        kind => io::Error::new(kind, format!("{}: {error}", bridge.display())),
    })
}
