//! Threads as the kernel sees them.

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

/// Returns how often the kernel has taken the processor from the calling thread although it could
/// have gone on; zero where that is unknown.
///
/// ```
/// use blitzen_util::kernel_thread::preemptions;
///
/// let before = preemptions();
/// assert!(preemptions() >= before);
/// ```
pub fn preemptions() -> u64 {
    // The kernel of Android has it, but `libc` does not name it there.
    #[cfg(target_os = "linux")]
    {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` has room for what the call writes.
        let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0;
        // SAFETY: all zeros is a valid value, and the call has written the rest.
        let usage = unsafe { usage.assume_init() };
        match failed {
            true => 0,
            false => u64::try_from(usage.ru_nivcsw).unwrap_or(0),
        }
    }
    #[cfg(not(target_os = "linux"))]
    0
}

/// Returns how much processor time the calling thread has used, in nanoseconds; `None` where that
/// is unknown.
///
/// ```
/// use blitzen_util::kernel_thread::processor_ns;
///
/// let before = processor_ns();
/// assert!(processor_ns() >= before);
/// ```
pub fn processor_ns() -> Option<u64> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let mut time = std::mem::MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: `time` has room for what the call writes.
        let failed =
            unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) } != 0;
        // SAFETY: all zeros is a valid value, and the call has written the rest.
        let time = unsafe { time.assume_init() };
        let seconds = u64::try_from(time.tv_sec).ok().filter(|_| !failed)?;
        Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    None
}

/// How long a thread has had a processor, and could have run without one, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTimes {
    /// With a processor.
    pub run_ns: u64,
    /// Without. A wait that goes on is not counted yet.
    pub wait_ns: u64,
}

/// Returns the times of a thread of this process so far; `None` where they are unknown.
///
/// ```
/// use blitzen_util::kernel_thread::{kernel_thread_id, processor_times};
///
/// if let Some(before) = processor_times(kernel_thread_id()) {
///     assert!(processor_times(kernel_thread_id()).unwrap().wait_ns >= before.wait_ns);
/// }
/// ```
pub fn processor_times(kernel_thread: u32) -> Option<ProcessorTimes> {
    let times = std::fs::read_to_string(format!("/proc/self/task/{kernel_thread}/schedstat"));
    let times = times.ok()?;
    let mut times = times.split_whitespace().map(|time| time.parse().ok());
    Some(ProcessorTimes {
        run_ns: times.next()??,
        wait_ns: times.next()??,
    })
}

/// Returns whether a thread of this process sleeps in the kernel, so that it neither runs nor waits
/// for a processor; true where that is unknown.
///
/// ```
/// use blitzen_util::kernel_thread::{is_thread_asleep, kernel_thread_id};
///
/// let runs = !is_thread_asleep(kernel_thread_id());
/// assert_eq!(runs, cfg!(any(target_os = "linux", target_os = "android")));
/// ```
pub fn is_thread_asleep(kernel_thread: u32) -> bool {
    // `ID (NAME) STATE …`; a name may contain anything.
    let stat = std::fs::read_to_string(format!("/proc/self/task/{kernel_thread}/stat"));
    let state = stat.as_deref().ok().and_then(|stat| stat.rsplit_once(") "));
    state.is_none_or(|(_, rest)| !rest.starts_with('R'))
}
