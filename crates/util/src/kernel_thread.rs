//! The calling thread as the kernel calls it.

/// Returns the thread id of the kernel, as in `/proc/self/task`; zero where that is unknown.
///
/// ```
/// use blitzen_util::kernel_thread::kernel_thread_id;
///
/// assert_eq!(kernel_thread_id(), kernel_thread_id());
/// ```
pub fn kernel_thread_id() -> u32 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: a system call without arguments.
    return unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return 0;
}
