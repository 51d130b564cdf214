//! What the process occupies.

use std::fs;

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("the kernel tells our size");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let pages: u64 = pages.expect("the second field is the resident size in pages");
    // SAFETY: no memory is passed.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    (pages * page as u64) as f64
}
