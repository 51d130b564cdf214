//! What the runtime takes in ahead of those who ask is bounded, by completion,
//! and when there is no buffer left for it nobody is forgotten.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use blitzen::io::AsyncReadExt;
use blitzen::net::{TcpStream, UnixStream};
use blitzen::time::{sleep, timeout};
use completion_common::{half_pair, pattern, poll_once, runtime, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);
/// Some time for the kernel to bring what it can.
const MOMENT: Duration = Duration::from_millis(1);

/// One at a time: they count what the process has.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn a_peer_that_floods_who_does_not_read_is_held_up() {
    /// Far more than the system itself keeps for a connection.
    const TOO_MUCH: usize = 64 << 20;
    let _alone = alone();
    for runtime in [runtime(0), runtime(2)].into_iter().flatten() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            // Short messages that are read at once, after which more are asked for.
            for n in 0..20 {
                theirs.write_all(&pattern(n, 8)).unwrap();
                ours.read_exact(&mut [0; 8]).await.unwrap();
            }
            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
            theirs.set_nonblocking(true).unwrap();
            let (mut sent, mut refusals) = (0, 0);
            while refusals < 20 {
                match theirs.write(&pattern(sent, 1000)) {
                    Ok(count) => (sent, refusals) = (sent + count, 0),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        refusals += 1;
                        sleep(MOMENT).await;
                    }
                }
                if sent % 7 == 0 {
                    blitzen::task::yield_now().await;
                }
                assert!(sent < TOO_MUCH, "somebody takes everything");
            }
            let mut bytes = vec![0; sent];
            let read = timeout(LONG, ours.read_exact(&mut bytes));
            read.await.unwrap().unwrap();
            assert!(bytes == pattern(0, sent));
        });
    }
}

#[test]
fn short_messages_that_nobody_reads_are_left_to_the_system() {
    /// Fewer than the system itself keeps for a connection.
    const ENOUGH: usize = 2000;
    let _alone = alone();
    for runtime in runtimes() {
        runtime.block_on(async {
            // Another descriptor, for a look that does not move the stream.
            let (looker, theirs) = half_pair().await;
            let (looker, mut theirs) = (looker.into_std().unwrap(), theirs);
            let ours = looker.try_clone().unwrap();
            let mut ours = TcpStream::from_std(ours).unwrap();
            let mut bytes = [0; 8];
            for n in 0..20 {
                theirs.write_all(&pattern(n, 8)).unwrap();
                ours.read_exact(&mut bytes).await.unwrap();
            }
            assert!(poll_once(ours.read(&mut bytes)).await.is_none());
            let (mut sent, mut left_over) = (0, 0);
            while left_over < 20 {
                // Some of them together, if the kernel is slow to bring them.
                if left_over == 0 {
                    assert!(sent < ENOUGH, "all of it is taken in");
                    theirs.write_all(&pattern(sent * 8, 8)).unwrap();
                    sent += 1;
                }
                sleep(MOMENT).await;
                left_over = match bytes_waiting(&looker) {
                    0 => 0,
                    _ => left_over + 1,
                };
            }
            for n in 0..sent {
                let read = timeout(LONG, ours.read_exact(&mut bytes));
                read.await.unwrap().unwrap();
                assert_eq!(&bytes[..], pattern(n * 8, 8));
            }
        });
    }
}

/// What the system keeps for a socket.
fn bytes_waiting(socket: &impl AsRawFd) -> libc::c_int {
    let mut waiting = 0;
    // SAFETY: a descriptor that is open, and room for a number.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &mut waiting) };
    assert_eq!(answer, 0);
    waiting
}

/// Allows for as many descriptors as the system does.
fn allow_descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: structures that outlive the calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    limit.rlim_cur
}

#[test]
fn buffers_run_dry_and_everybody_gets_what_has_come() {
    const STREAMS: usize = 700;
    const ROUNDS: usize = 8; // messages on each: together more than there are buffers
    let _alone = alone();
    if allow_descriptors() < 2 * STREAMS as u64 + 200 {
        eprintln!("not tested: too few descriptors");
        return;
    }
    for workers in [0, 2] {
        let Some(runtime) = runtime(workers) else {
            return;
        };
        runtime.block_on(async {
            let mut streams: Vec<_> = (0..STREAMS)
                .map(|_| {
                    let (theirs, ours) = std::os::unix::net::UnixStream::pair().unwrap();
                    ours.set_nonblocking(true).unwrap();
                    (UnixStream::from_std(ours).unwrap(), theirs)
                })
                .collect();
            // Each has had some short messages, and is to have all that come.
            let mut bytes = [0; 8];
            for n in 0..4 {
                for (ours, theirs) in &mut streams {
                    assert!(poll_once(ours.read(&mut bytes)).await.is_none());
                    theirs.write_all(&pattern(n, 8)).unwrap();
                }
                for (ours, _) in &mut streams {
                    timeout(LONG, ours.read_exact(&mut bytes))
                        .await
                        .unwrap()
                        .unwrap();
                }
            }
            for (ours, _) in &mut streams {
                assert!(poll_once(ours.read(&mut bytes)).await.is_none());
            }
            for round in 0..ROUNDS {
                for (n, (_, theirs)) in streams.iter_mut().enumerate() {
                    theirs.write_all(&pattern(n + round * 8, 8)).unwrap();
                }
                sleep(2 * MOMENT).await;
            }
            for (n, (ours, _)) in streams.iter_mut().enumerate() {
                let mut bytes = [0; ROUNDS * 8];
                let read = timeout(LONG, ours.read_exact(&mut bytes));
                read.await.unwrap().unwrap();
                assert_eq!(&bytes[..], pattern(n, ROUNDS * 8));
            }
            // And goes on.
            for (ours, theirs) in &mut streams {
                assert!(poll_once(ours.read(&mut bytes)).await.is_none());
                theirs.write_all(b"and more").unwrap();
            }
            for (ours, _) in &mut streams {
                let read = timeout(LONG, ours.read_exact(&mut bytes));
                read.await.unwrap().unwrap();
                assert_eq!(&bytes, b"and more");
            }
        });
    }
}
