//! The stack of a thread that is stuck in a poll.
//!
//! ```text
//!   lint thread:   ask ──► SIGURG ──► wait ──► unwind the copy ──► names
//!   stuck thread:            └──► handler: registers, stack ──► copy
//! ```
//!
//! S1. The handler copies: it takes no lock, allocates nothing, and follows no pointer. Everything
//!     else happens on the lint thread, with the copy.
//! S2. The handler reads the stack of its own thread, between the stack pointer and the end that the
//!     thread itself has noted: memory that is there as long as the thread runs.
//! S3. A thread takes its note back before it ends, and the lint thread holds the note's lock while
//!     it asks: so the thread that answers is the one that has made the note.

use std::ffi::c_void;
use std::fmt::Write;

use super::dump::is_root_frame;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod capture;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod unwind;

/// Other systems have no samples.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod capture {
    use std::io;

    pub(crate) fn enable() -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn note_thread() {}

    pub(crate) fn addresses_of(_kernel_thread: u32) -> Vec<usize> {
        Vec::new()
    }
}

pub(crate) use capture::{addresses_of, enable, note_thread};

/// The calls at these addresses, innermost first, up to the poll of a task. Takes long when it is
/// called for the first time: it reads the debug information of the program.
pub(crate) fn calls_at(addresses: &[usize]) -> Vec<String> {
    let frames = addresses.iter().flat_map(|&address| names_of(address));
    frames.take_while(|frame| !is_root_frame(frame)).collect()
}

/// The functions at an address, with file and line if there is debug information: several if some
/// were inlined.
fn names_of(address: usize) -> Vec<String> {
    let mut names = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        let Some(name) = symbol.name() else { return };
        let mut text = format!("{name:#}");
        if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
            // Writing to a string does not fail.
            let _ = write!(text, " at {}:{line}", file.display());
        }
        names.push(text);
    });
    match names.is_empty() {
        true => vec![format!("{address:#x}")],
        false => names,
    }
}
