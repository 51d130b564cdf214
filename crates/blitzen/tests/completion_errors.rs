//! What goes wrong after a write has answered is told by the next operation, by
//! completion, and what is under way keeps its place.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
use blitzen::net::TcpListener;
use blitzen::runtime::is_rt_shutdown_err;
use blitzen::task::yield_now;
use blitzen::time::timeout;
use completion_common::{half_pair, poll_once, runtime, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);

/// Closes a connection by a reset.
fn reset(stream: std::net::TcpStream) {
    let at_once = Some(Duration::ZERO);
    socket2::SockRef::from(&stream).set_linger(at_once).unwrap();
}

#[test]
fn flush_and_shutdown_return_the_error_of_bytes_that_were_not_sent() {
    // In one poll of a runtime of one thread: nothing is sent in between.
    let Some(runtime) = runtime(0) else { return };
    for shuts_down in [false, true] {
        runtime.block_on(async {
            let (mut ours, theirs) = half_pair().await;
            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
            blitzen::time::sleep(Duration::from_millis(1)).await; // the ring has an owner
            ours.write_all(b"sent").await.unwrap();
            ours.write_all(b"taken over").await.unwrap();
            reset(theirs);
            yield_now().await;
            let told = match shuts_down {
                false => timeout(LONG, ours.flush()).await.unwrap(),
                true => timeout(LONG, ours.shutdown()).await.unwrap(),
            };
            told.unwrap_err();
        });
    }
}

#[test]
fn a_foreign_write_does_not_overtake_buffered_bytes() {
    for runtime in runtimes() {
        runtime.block_on(async {
            blitzen::spawn(async {
                let (mut ours, mut theirs) = half_pair().await;
                for _ in 0..10 {
                    ours.write_all(b"1").await.unwrap();
                    ours.write_all(b"2").await.unwrap();
                    let send = || socket2::SockRef::from(&ours).send(b"3");
                    ours.async_io(Interest::WRITABLE, send).await.unwrap();
                    let mut bytes = [0; 3];
                    theirs.read_exact(&mut bytes).unwrap();
                    assert_eq!(&bytes, b"123");
                }
            })
            .await
            .unwrap();
        });
    }
}

#[test]
fn a_reset_behind_a_full_buffer_is_reported() {
    for runtime in runtimes() {
        runtime.block_on(async {
            for len in [2048, 4096, 100] {
                let (mut ours, mut theirs) = half_pair().await;
                assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
                yield_now().await;
                theirs.write_all(&vec![7; len]).unwrap();
                reset(theirs);
                let mut bytes = vec![0; 16 * 1024];
                let mut received = 0;
                let error = loop {
                    match timeout(LONG, ours.read(&mut bytes)).await.unwrap() {
                        Ok(0) => panic!("an end after {received} of {len}, instead of a reset"),
                        Ok(count) => received += count,
                        Err(error) => break error,
                    }
                };
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                assert!(received == len || received == 0, "{received} of {len}");
            }
        });
    }
}

#[test]
fn a_reset_behind_the_first_buffer_of_a_vectored_read_is_reported() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            theirs.write_all(b"four").unwrap();
            timeout(LONG, ours.readable()).await.unwrap().unwrap();
            reset(theirs);
            let (mut one, mut other) = ([0; 4], [0; 4]);
            let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
            match ours.try_read_vectored(&mut bufs) {
                Ok(count) => {
                    assert_eq!((count, &one), (4, b"four"));
                    let next = timeout(LONG, ours.read(&mut other)).await.unwrap();
                    let error = next.expect_err("a reset, and no end");
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
            }
        });
    }
}

#[test]
fn more_buffers_than_the_kernel_takes_at_once_are_no_error() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            timeout(LONG, ours.writable()).await.unwrap().unwrap();
            let written = ours
                .write_vectored(&[IoSlice::new(b"x"); 2000])
                .await
                .unwrap();
            assert!(written > 0);
            assert_eq!(
                ours.try_write_vectored(&[IoSlice::new(b"y"); 2000])
                    .unwrap(),
                1024
            );

            theirs.write_all(&[7; 2000]).unwrap();
            timeout(LONG, ours.readable()).await.unwrap().unwrap();
            let mut bytes = [0; 2000];
            let mut bufs: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
            assert!(ours.try_read_vectored(&mut bufs).unwrap() > 0);
        });
    }
}

#[test]
fn a_wait_in_another_runtime_ends_with_an_error() {
    for workers in [0, 2] {
        let (Some(own), Some(other)) = (runtime(workers), runtime(0)) else {
            return;
        };
        let (mut ours, _theirs) = own.block_on(half_pair());
        let listener = own.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let listener = Arc::new(listener);
        // Both have something with the kernel, in its own runtime.
        own.block_on(async {
            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
            assert!(poll_once(listener.accept()).await.is_none());
            yield_now().await;
        });
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = thread::spawn(move || {
            other.block_on(async {
                let mut byte = [0];
                let accept = listener.accept();
                let mut waits = std::pin::pin!(async {
                    blitzen::join!(timeout(LONG, ours.read(&mut byte)), timeout(LONG, accept))
                });
                assert!(poll_once(waits.as_mut()).await.is_none());
                tell.send(()).unwrap();
                let (read, accepted) = waits.await;
                (read.unwrap().unwrap_err(), accepted.unwrap().unwrap_err())
            })
        });
        told.recv_timeout(LONG).unwrap();
        drop(own);
        let (read, accepted) = waiter.join().unwrap();
        assert!(is_rt_shutdown_err(&read), "{read}");
        assert!(is_rt_shutdown_err(&accepted), "{accepted}");
    }
}
