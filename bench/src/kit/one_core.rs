//! Binding a process to one processor.

use std::mem;

/// Keeps the calling thread, and those it will start, on the first processor it may use.
/// For a process of its own: there is no way back.
pub(crate) fn keep_to_one_core() {
    // SAFETY: a set of all zeros is an empty one.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set may be written to and is as large as said; 0 is this thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    assert_eq!(failed, 0, "a thread may ask where it runs");
    let first = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is below the size of a set.
        .find(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .expect("a thread runs somewhere");
    // SAFETY: a set of all zeros is an empty one.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the number came out of such a set.
    unsafe { libc::CPU_SET(first, &mut set) };
    // SAFETY: the set is valid and as large as said; 0 is this thread.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(failed, 0, "a processor of ours can be chosen");
}
