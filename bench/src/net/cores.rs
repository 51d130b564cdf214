//! A processor for the server and another for the client.

use std::fs;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static AHEAD: AtomicBool = AtomicBool::new(false);

/// From now on servers and clients run before everything else on the machine.
pub(crate) fn run_ahead() {
    AHEAD.store(true, Relaxed);
}

/// Who runs where.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Server,
    Client,
}

/// Keeps the calling thread, and those it will start, on its side's processor. With
/// one processor there are no sides.
pub(super) fn pin(side: Side) {
    let cores = cores();
    let core = match (side, cores.as_slice()) {
        (_, [] | [_]) => return,
        (Side::Server, [first, ..]) => *first,
        (Side::Client, [_, second, ..]) => *second,
    };
    // SAFETY: a set of all zeros is an empty one.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the number came out of such a set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is valid and as large as said; 0 is the calling thread.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(failed, 0, "a processor of ours can be chosen");
    if AHEAD.load(Relaxed) {
        let priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: the parameter is valid; 0 is the calling thread.
        let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
        assert_eq!(failed, 0, "only a privileged user goes ahead");
    }
}

/// CPU time of all threads of this process but the calling one. The clock of the
/// process would not do: it learns of what runs on other processors some
/// milliseconds late.
pub(super) fn others_cpu_ns() -> f64 {
    // SAFETY: no memory is passed.
    let own = unsafe { libc::gettid() };
    let threads = fs::read_dir("/proc/self/task").expect("the kernel lists our threads");
    threads
        .filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
        .filter(|thread| *thread != own)
        .filter_map(thread_cpu_ns)
        .sum()
}

/// `None` for a thread that has just ended.
fn thread_cpu_ns(thread: libc::pid_t) -> Option<f64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // How the kernel numbers the scheduler's clock of a thread.
    let clock = !thread << 3 | 6;
    // SAFETY: `time` is a valid timespec to write to.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    (failed == 0).then_some(time.tv_sec as f64 * 1e9 + time.tv_nsec as f64)
}

/// The processors this process may use, as it was started.
fn cores() -> Vec<usize> {
    // SAFETY: a set of all zeros is an empty one.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let process = std::process::id().cast_signed();
    // SAFETY: the set may be written to and is as large as said. The id is that of
    // the main thread, which nobody pins.
    let failed = unsafe { libc::sched_getaffinity(process, size_of_val(&set), &mut set) };
    assert_eq!(failed, 0, "a process may ask where it runs");
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is below the size of a set.
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect()
}
