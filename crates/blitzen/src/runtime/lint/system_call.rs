//! Which system call a thread of this process is in.

/// What a thread does, as far as the kernel tells. Only Linux tells.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ThreadActivity {
    /// It runs, or waits for a processor; or nothing is known.
    Running,
    /// It is in `futex(2)`.
    Futex,
    /// It is in another system call.
    Call(Box<str>),
}

impl ThreadActivity {
    /// The name of the system call.
    pub(super) fn call(self) -> Option<Box<str>> {
        match self {
            Self::Running => None,
            Self::Futex => Some("futex".into()),
            Self::Call(name) => Some(name),
        }
    }
}

/// Asks the kernel what a thread does.
#[cfg(target_os = "linux")]
pub(super) fn activity_of(kernel_thread: u32) -> ThreadActivity {
    let path = format!("/proc/self/task/{kernel_thread}/syscall");
    // The thread may have ended, and the file may not be there.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    parse(&text)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn activity_of(_kernel_thread: u32) -> ThreadActivity {
    ThreadActivity::Running
}

/// On 32-bit targets the constant is narrower.
#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_cast)]
const FUTEX: i64 = libc::SYS_futex as i64;

/// Reads `running`, or the number of a call and its arguments; -1 if the thread waits outside any.
#[cfg(target_os = "linux")]
fn parse(text: &str) -> ThreadActivity {
    let number = text.split_whitespace().next().map(str::parse::<i64>);
    match number {
        Some(Ok(number)) if number == FUTEX => ThreadActivity::Futex,
        Some(Ok(number @ 0..)) => ThreadActivity::Call(name(number)),
        _ => ThreadActivity::Running,
    }
}

#[cfg(target_os = "linux")]
fn name(number: i64) -> Box<str> {
    macro_rules! names {
        ($($call:ident $name:literal),* $(,)?) => {
            &[$((libc::$call as i64, $name)),*]
        };
    }
    const NAMES: &[(i64, &str)] = names! {
        SYS_read "read", SYS_write "write", SYS_readv "readv", SYS_writev "writev",
        SYS_pread64 "pread64", SYS_pwrite64 "pwrite64", SYS_openat "openat", SYS_close "close",
        SYS_fsync "fsync", SYS_fdatasync "fdatasync", SYS_flock "flock", SYS_fcntl "fcntl",
        SYS_ioctl "ioctl", SYS_getdents64 "getdents64", SYS_sendfile "sendfile",
        SYS_connect "connect", SYS_accept4 "accept4",
        SYS_recvfrom "recvfrom", SYS_recvmsg "recvmsg", SYS_sendto "sendto", SYS_sendmsg "sendmsg",
        SYS_ppoll "ppoll", SYS_pselect6 "pselect6", SYS_epoll_pwait "epoll_pwait",
        SYS_nanosleep "nanosleep", SYS_clock_nanosleep "clock_nanosleep",
        SYS_wait4 "wait4", SYS_waitid "waitid", SYS_io_uring_enter "io_uring_enter",
        SYS_munmap "munmap", SYS_madvise "madvise",
        SYS_sched_yield "sched_yield", SYS_rt_sigtimedwait "rt_sigtimedwait",
        SYS_membarrier "membarrier",
    };
    #[cfg(not(any(target_arch = "arm", target_arch = "x86")))]
    const MAPPING: &[(i64, &str)] = names! { SYS_mmap "mmap" };
    // It counts the offset in pages; 32-bit ARM has no other.
    #[cfg(any(target_arch = "arm", target_arch = "x86"))]
    const MAPPING: &[(i64, &str)] = names! { SYS_mmap2 "mmap2" };
    #[cfg(target_arch = "x86_64")]
    const OLDER: &[(i64, &str)] = names! {
        SYS_open "open", SYS_poll "poll", SYS_select "select", SYS_epoll_wait "epoll_wait",
        SYS_pause "pause", SYS_rename "rename", SYS_unlink "unlink", SYS_stat "stat",
    };
    #[cfg(not(target_arch = "x86_64"))]
    const OLDER: &[(i64, &str)] = &[];
    let known = NAMES
        .iter()
        .chain(MAPPING)
        .chain(OLDER)
        .find(|(known, _)| *known == number);
    match known {
        Some((_, name)) => (*name).into(),
        None => format!("system call {number}").into(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_answer_is_read() {
        assert_eq!(parse("running\n"), ThreadActivity::Running);
        assert_eq!(parse(""), ThreadActivity::Running);
        assert_eq!(parse("-1 0x7ffd 0x7f\n"), ThreadActivity::Running);
        let futex = format!("{} 0x7f 0x80 0x0\n", libc::SYS_futex);
        assert_eq!(parse(&futex), ThreadActivity::Futex);
        let read = format!("{} 0x0\n", libc::SYS_read);
        assert_eq!(parse(&read).call().as_deref(), Some("read"));
        assert_eq!(
            parse("9999 0x0").call().as_deref(),
            Some("system call 9999")
        );
    }
}
