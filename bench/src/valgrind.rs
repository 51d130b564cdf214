//! Tells callgrind which part of the program to count.
//!
//! A program under valgrind talks to it through an instruction sequence that does
//! nothing on a real processor: four rotations of one register that add up to two
//! full turns, then an exchange of a register with itself. The request and its
//! arguments lie in memory that `rax` points to.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static COUNTING: AtomicBool = AtomicBool::new(false);

/// callgrind's requests are numbered from the letters `CT`, as its header says.
const TOOL_BASE: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
const DUMP_STATS: u64 = TOOL_BASE;
const START_INSTRUMENTATION: u64 = TOOL_BASE + 4;
const STOP_INSTRUMENTATION: u64 = TOOL_BASE + 5;

/// Makes the two functions below speak to callgrind: this process was started
/// under it.
pub(crate) fn expect_callgrind() {
    COUNTING.store(true, Relaxed);
}

/// Counts what every thread executes from here on.
pub(crate) fn start_instrumentation() {
    if COUNTING.load(Relaxed) {
        request(START_INSTRUMENTATION);
    }
}

/// Writes what was counted to a file of its own and counts no longer. In this
/// order: stopping throws the counts away.
pub(crate) fn stop_instrumentation() {
    if COUNTING.load(Relaxed) {
        request(DUMP_STATS);
        request(STOP_INSTRUMENTATION);
    }
}

#[cfg(target_arch = "x86_64")]
fn request(code: u64) {
    let arguments: [u64; 6] = [code, 0, 0, 0, 0, 0];
    // SAFETY: the rotations turn `rdi` by 3 + 13 + 61 + 51 = 128 bits, so it ends as
    // it began, and `rbx` is exchanged with itself. Under valgrind the sequence reads
    // the six words behind `rax` and writes `rdx` only.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0u64 => _,
            inout("rdi") 0u64 => _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_code: u64) {
    panic!("instruction counts need an x86-64 processor");
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_request_does_nothing_outside_valgrind() {
        super::request(super::STOP_INSTRUMENTATION);
    }
}
