//! A system that refuses io_uring, made by a filter in a child process.

#![cfg(all(
    blitzen_ring,
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(blitzen_loom)
))]

use std::process::Command;
use std::sync::Arc;

use blitzen_driver::ring::{Refusal, Ring, RingConfig};
use blitzen_driver::{Interest, Poller, Ready};

const ERRNO: &str = "BLITZEN_TEST_REFUSE_WITH";

/// Makes io_uring_setup(2) fail with `errno` for the rest of this process.
fn refuse(errno: i32) {
    let load_number = libc::sock_filter {
        code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k: 0, // the system call's number comes first
    };
    let is_setup = libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k: libc::SYS_io_uring_setup as u32,
    };
    let answer = |k: u32| libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let mut filter = [
        load_number,
        is_setup,
        answer(libc::SECCOMP_RET_ERRNO | errno as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: numbers, and a program that outlives the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &program), 0);
    }
}

/// The child's part; nothing to do otherwise.
#[test]
fn child() {
    let Ok(errno) = std::env::var(ERRNO) else {
        return;
    };
    let errno: i32 = errno.parse().unwrap();
    refuse(errno);
    let poller = Arc::new(Poller::new(16).unwrap());
    let refusal = Ring::new(&RingConfig::default(), poller.clone()).unwrap_err();
    let expected = match errno {
        libc::ENOSYS => matches!(refusal, Refusal::Missing(_)),
        libc::EPERM => matches!(refusal, Refusal::Forbidden(_)),
        libc::ENOMEM => matches!(refusal, Refusal::NoMemory(_)),
        _ => unreachable!(),
    };
    assert!(expected, "{refusal}");
    // Readiness is not concerned.
    let mut socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let _io = poller
        .register(&mut socket, Interest::WRITABLE, Ready::EMPTY)
        .unwrap();
    assert_eq!(poller.turn(None).unwrap(), 1);
}

#[test]
fn each_way_of_refusing_is_recognised() {
    for errno in [libc::ENOSYS, libc::EPERM, libc::ENOMEM] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(ERRNO, errno.to_string())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
