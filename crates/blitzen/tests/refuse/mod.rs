//! A system that refuses some calls, for the rest of a process.

/// Makes the system calls fail with `errno` for the rest of this process.
pub(crate) fn refuse(calls: &[libc::c_long], errno: i32) {
    let instruction = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let answer = |k: u32| instruction(libc::BPF_RET | libc::BPF_K, 0, k);
    // The system call's number comes first.
    let mut filter = vec![instruction(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        0,
        0,
    )];
    for &call in calls {
        let is_it = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(instruction(is_it, 1, call as u32));
        filter.push(answer(libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
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
