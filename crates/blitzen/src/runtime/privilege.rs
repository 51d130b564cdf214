//! Environment variables that a program with privileges of its own must not obey.
//!
//! The environment of a set-user-ID program, or of one with file capabilities, is chosen by
//! somebody with less rights than the program has. What names a file, or opens a way into the
//! program, is ignored there.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Variables that were said to be ignored.
static SAID: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// The value of a variable. If the program must not obey it, says so once on standard error, and
/// returns `None`.
pub(super) fn obeyed_variable(name: &'static str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    if !is_privileged() {
        return Some(value);
    }
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.contains(&name) {
        said.push(name);
        let text = format!("blitzen: {name} is ignored: the program has privileges of its own\n");
        // A program whose standard error is closed runs all the same.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    None
}

/// Whether the program may do more than whoever has started it.
pub(super) fn is_privileged() -> bool {
    cfg_select! {
        any(target_os = "linux", target_os = "android") => {
            // SAFETY: it reads what the kernel has told the process when it began.
            unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
        }
        unix => {
            // SAFETY: they have no arguments, and cannot fail.
            unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
        }
        _ => { false }
    }
}
