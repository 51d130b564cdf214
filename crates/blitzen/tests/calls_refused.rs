//! Systems that refuse a call for which there is another way. A filter in a child process makes
//! them.

#![cfg(target_os = "linux")]

mod net_common;
mod refuse;

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use blitzen::io::AsyncReadExt;
use blitzen::net::{SocketMode, TcpListener};
use blitzen::runtime::{Builder, Runtime};
use blitzen_util::asymmetric_fence;
use blitzen_util::lock::AsymmetricLock;
use net_common::runtimes;
use refuse::refuse;

const CHILD: &str = "BLITZEN_TEST_REFUSE_WITH";

/// Runs the test called `name` again in children in which `call` fails, in the ways in which a
/// system that is old and one that forbids it fail. Returns the error if this is such a child.
fn in_children(name: &str, call: libc::c_long) -> bool {
    if let Ok(errno) = std::env::var(CHILD) {
        let errno = errno.parse().unwrap();
        refuse(&[call], errno);
        // SAFETY: all that is asked for is the refusal.
        let answer = unsafe { libc::syscall(call, -1, 0, 0, 0, 0, 0) };
        let error = std::io::Error::last_os_error();
        assert_eq!((answer, error.raw_os_error()), (-1, Some(errno)));
        return true;
    }
    for errno in [libc::ENOSYS, libc::EPERM] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, errno.to_string())
            .env_remove("BLITZEN_CHILD")
            .output()
            .unwrap();
        assert!(output.status.success(), "{errno}: {output:?}");
    }
    false
}

#[test]
fn children_are_awaited_without_pidfds() {
    let name = "children_are_awaited_without_pidfds";
    if !in_children(name, libc::SYS_pidfd_open) {
        return;
    }
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut command = blitzen::process::Command::new("sh");
            let status = command.args(["-c", "exit 3"]).status().await.unwrap();
            assert_eq!(status.code(), Some(3));
            let mut cat = blitzen::process::Command::new("cat");
            let mut cat = cat.stdin(std::process::Stdio::piped()).spawn().unwrap();
            cat.kill().await.unwrap();
            assert!(cat.wait().await.unwrap().code().is_none());
        });
    }
}

#[test]
fn timers_fire_without_waits_in_nanoseconds() {
    let name = "timers_fire_without_waits_in_nanoseconds";
    if !in_children(name, libc::SYS_epoll_pwait2) {
        return;
    }
    for runtime in runtimes() {
        runtime.block_on(async {
            // A socket, so that a worker waits in the poller.
            let _listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let sleeps = |count: u32| async move {
                for _ in 0..count {
                    let start = Instant::now();
                    let short = Duration::from_micros(300);
                    blitzen::time::sleep(short).await;
                    assert!(start.elapsed() >= short);
                }
            };
            blitzen::spawn(sleeps(20)).await.unwrap();
            sleeps(20).await;
        });
    }
}

/// Completions of a worker that does not enter the kernel are posted at the next tick of its
/// processor's clock.
#[test]
fn a_socket_of_a_worker_that_computes_is_served_without_membarrier() {
    let name = "a_socket_of_a_worker_that_computes_is_served_without_membarrier";
    if !in_children(name, libc::SYS_membarrier) {
        return;
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    let runtime = builder.socket_mode(SocketMode::PreferCompletion).build();
    let runtime: Runtime = runtime.unwrap();
    static IS_READ: AtomicBool = AtomicBool::new(false);
    let computes = runtime.spawn(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let reads = blitzen::spawn(async move {
            server.read_exact(&mut [0; 5]).await.unwrap();
            IS_READ.store(true, Relaxed);
        });
        // The read is under way, on this worker.
        blitzen::time::sleep(Duration::from_millis(5)).await;
        client.write_all(b"hello").unwrap();
        // No system call from here on.
        while !IS_READ.load(Relaxed) {
            std::hint::spin_loop();
        }
        reads.await.unwrap();
    });
    runtime.block_on(computes).unwrap();
}

/// Whoever waits for such a lock looks at it now and then, since the thread that releases it may not
/// see that somebody waits.
#[test]
fn a_lock_is_acquired_although_membarrier_is_taken_back() {
    let could_interrupt = asymmetric_fence::prepare();
    let name = "a_lock_is_acquired_although_membarrier_is_taken_back";
    if !in_children(name, libc::SYS_membarrier) {
        return;
    }
    if !could_interrupt {
        println!("not tested: this system has no membarrier");
        return;
    }
    assert!(!asymmetric_fence::heavy().is_fence, "it says so");
    let count = AsymmetricLock::new(0);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..100 {
                    let mut count = count.lock();
                    *count += 1;
                    (0..100).for_each(|_| std::thread::yield_now()); // so that others sleep
                }
            });
        }
    });
    assert_eq!(*count.lock(), 400);
}
