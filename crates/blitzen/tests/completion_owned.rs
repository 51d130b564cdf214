//! Owned buffers by completion: they go out whole, in order, once, whoever is dropped
//! and whichever thread ends.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::TcpStream;
use blitzen::runtime::is_rt_shutdown_err;
use blitzen::time::timeout;
use completion_common::{half_pair, open_descriptors, pattern, poll_once, runtime, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);
/// More than the system takes of a connection whose peer does not read.
const LARGE: usize = 16 << 20;

fn large() -> Vec<u8> {
    pattern(0, 1 << 16).repeat(LARGE >> 16)
}

/// One at a time: some count what the process has.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn read_in_a_thread(
    mut theirs: std::net::TcpStream,
    wait: impl FnOnce() + Send + 'static,
) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        wait(); // meanwhile the kernel has to wait for room
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// The kernel's number of the calling thread.
fn thread_id() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process runs, or has not begun: its number is zero then.
fn is_running(thread: i32) -> bool {
    thread == 0 || std::path::Path::new(&format!("/proc/self/task/{thread}")).exists()
}

#[test]
fn a_write_goes_on_when_the_thread_that_submitted_it_ends() {
    let _alone = alone();
    if runtime(0).is_none() {
        return;
    }
    for zero_copy in [false, true] {
        // Threads end soon after they have nothing to do.
        let mut builder = blitzen::runtime::Builder::new_multi_thread();
        builder
            .worker_threads(1)
            .thread_keep_alive(Duration::from_millis(1))
            .enable_all()
            .socket_mode(blitzen::net::SocketMode::Completion);
        let runtime = builder.build().unwrap();
        runtime.block_on(async {
            let (ours, theirs) = blitzen::spawn(half_pair()).await.unwrap();
            let (begin, begun) = std::sync::mpsc::channel();
            let reader = read_in_a_thread(theirs, move || begun.recv().unwrap());
            let ours = Arc::new(ours);
            let submitter = Arc::new(AtomicI32::new(0));
            let writer = blitzen::spawn({
                let (ours, submitter) = (ours.clone(), submitter.clone());
                async move {
                    let bytes = large();
                    submitter.store(thread_id(), SeqCst);
                    match zero_copy {
                        false => ours.write_owned(bytes).await.0,
                        true => ours.send_zc(bytes).await.0,
                    }
                }
            });
            // It is submitted; then its thread leaves the worker, and ends.
            let start = Instant::now();
            while is_running(submitter.load(SeqCst)) {
                assert!(start.elapsed() < LONG, "its thread stays");
                blitzen::spawn(async {
                    blitzen::task::yield_now().await;
                    blitzen::task::block_in_place(|| std::thread::sleep(Duration::from_millis(5)));
                })
                .await
                .unwrap();
            }
            begin.send(()).unwrap();
            let written = timeout(LONG, writer).await.unwrap().unwrap();
            assert_eq!(written.unwrap(), LARGE);
            Arc::try_unwrap(ours)
                .ok()
                .unwrap()
                .shutdown()
                .await
                .unwrap();
            assert!(reader.join().unwrap() == large());
        });
    }
}

#[test]
fn a_write_that_is_dropped_goes_out_before_what_is_written_later() {
    let _alone = alone();
    for runtime in runtimes() {
        runtime.block_on(async {
            blitzen::spawn(async {
                let (mut ours, theirs) = half_pair().await;
                let reader =
                    read_in_a_thread(theirs, || std::thread::sleep(Duration::from_millis(20)));
                let written = timeout(Duration::from_millis(5), ours.write_owned(large()));
                assert!(written.await.is_err(), "it does not fit");
                ours.write_all(b"later").await.unwrap();
                ours.shutdown().await.unwrap();
                let bytes = reader.join().unwrap();
                assert_eq!(bytes.len(), LARGE + 5);
                assert!(bytes[..LARGE] == large());
                assert_eq!(&bytes[LARGE..], b"later");
            })
            .await
            .unwrap();
        });
    }
}

#[test]
fn an_abandoned_write_ends_with_its_runtime() {
    let _alone = alone();
    for workers in [0, 1, 2] {
        for drops_stream in [false, true] {
            let before = open_descriptors();
            let Some(runtime) = runtime(workers) else {
                return;
            };
            let (ours, mut theirs) = runtime.block_on(async move {
                let (ours, theirs) = blitzen::spawn(half_pair()).await.unwrap();
                let ours = Arc::new(ours);
                let writer = blitzen::spawn({
                    let ours = ours.clone();
                    async move { ours.write_owned(large()).await.0 }
                });
                blitzen::time::sleep(Duration::from_millis(5)).await;
                writer.abort();
                let _ = writer.await;
                (ours, theirs)
            });
            let ours = (!drops_stream).then_some(ours);
            drop(runtime);
            drop(ours);
            // The peer sees what went out, then the end.
            let mut bytes = Vec::new();
            theirs.read_to_end(&mut bytes).unwrap();
            assert!(bytes[..] == large()[..bytes.len()]);
            drop(theirs);
            assert_eq!(open_descriptors(), before);
        }
    }
}

#[test]
fn a_write_under_way_fails_when_the_runtime_ends() {
    let _alone = alone();
    let (Some(home), Some(other)) = (runtime(1), runtime(0)) else {
        return;
    };
    let (ours, _theirs) = home.block_on(async { blitzen::spawn(half_pair()).await.unwrap() });
    let begun = Arc::new(AtomicBool::new(false));
    let waiter = std::thread::spawn({
        let begun = begun.clone();
        move || {
            other.block_on(async {
                let mut write = std::pin::pin!(ours.write_owned(large()));
                assert!(poll_once(write.as_mut()).await.is_none());
                begun.store(true, SeqCst);
                write.await
            })
        }
    });
    while !begun.load(SeqCst) {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(5));
    drop(home);
    let (result, buffer) = waiter.join().unwrap();
    assert_eq!(buffer.len(), LARGE, "the buffer comes back");
    match result {
        Ok(sent) => assert!(sent < LARGE),
        Err(error) => assert!(is_rt_shutdown_err(&error), "{error}"),
    }
}

#[test]
fn several_tasks_write_through_one_reference() {
    let _alone = alone();
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, theirs) = half_pair().await;
            let reader = read_in_a_thread(theirs, || std::thread::sleep(Duration::from_millis(5)));
            let ours = Arc::new(ours);
            let writers: Vec<_> = (0..4_u8)
                .map(|n| {
                    let ours: Arc<TcpStream> = ours.clone();
                    blitzen::spawn(async move {
                        match n % 2 {
                            0 => ours.write_owned(vec![n; LARGE / 8]).await.0,
                            _ => ours.send_zc(vec![n; LARGE / 8]).await.0,
                        }
                    })
                })
                .collect();
            for writer in writers {
                let sent = timeout(LONG, writer).await.unwrap().unwrap();
                assert_eq!(sent.unwrap(), LARGE / 8);
            }
            drop(ours);
            // Each in one piece.
            let bytes = reader.join().unwrap();
            assert_eq!(bytes.len(), LARGE / 2);
            for piece in bytes.chunks(LARGE / 8) {
                assert!(piece.iter().all(|byte| *byte == piece[0]));
            }
        });
    }
}

#[test]
fn a_reset_ends_a_write_under_way() {
    let _alone = alone();
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, theirs) = half_pair().await;
            let mut write = Box::pin(ours.write_owned(large()));
            assert!(poll_once(write.as_mut()).await.is_none());
            blitzen::time::sleep(Duration::from_millis(2)).await;
            let socket = socket2::SockRef::from(&theirs);
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            drop(theirs);
            let (result, buffer) = timeout(LONG, write.as_mut()).await.unwrap();
            drop(write);
            assert_eq!(buffer.len(), LARGE);
            if let Ok(sent) = result {
                assert!(sent < LARGE);
                ours.write_all(b"more").await.unwrap_err();
            }
        });
    }
}

#[test]
fn empty_buffers_come_back_at_once() {
    let _alone = alone();
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, _theirs) = half_pair().await;
            assert_eq!(ours.write_owned(Vec::new()).await.0.unwrap(), 0);
            assert_eq!(ours.read_owned(Vec::new()).await.0.unwrap(), 0);
            assert_eq!(ours.read(&mut []).await.unwrap(), 0);
            assert_eq!(ours.write(&[]).await.unwrap(), 0);
        });
    }
}
