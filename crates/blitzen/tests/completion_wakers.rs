//! A waker that panics takes neither a worker down nor the end of its runtime, in
//! either mode.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::Write;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use blitzen::io::{AsyncRead, AsyncReadExt, ReadBuf};
use blitzen::net::{SocketMode, TcpStream};
use blitzen::time::timeout;
use completion_common::{half_pair, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

fn wait_with_a_waker_that_panics(stream: &mut TcpStream) {
    let waker = Waker::from(Arc::new(Panics));
    let mut cx = Context::from_waker(&waker);
    let mut bytes = [0; 8];
    let mut buf = ReadBuf::new(&mut bytes);
    let read = std::pin::Pin::new(stream).poll_read(&mut cx, &mut buf);
    assert!(matches!(read, Poll::Pending));
}

#[test]
fn a_worker_survives_a_waker_that_panics_and_so_does_its_end() {
    for mode in [SocketMode::Completion, SocketMode::Readiness] {
        for runtime in runtimes() {
            let (stream, peer) = runtime.block_on(async move {
                blitzen::spawn(async move {
                    let (mut ours, mut theirs) = half_pair().await;
                    ours.set_mode(mode).unwrap();
                    // By readiness, what is assumed is tried first.
                    assert!(
                        timeout(Duration::from_millis(1), ours.read(&mut [0; 8]))
                            .await
                            .is_err()
                    );
                    for _ in 0..3 {
                        wait_with_a_waker_that_panics(&mut ours);
                        theirs.write_all(b"x").unwrap();
                        blitzen::time::sleep(Duration::from_millis(2)).await;
                        let read = timeout(LONG, ours.read(&mut [0; 8])).await;
                        assert_eq!(read.unwrap().unwrap(), 1);
                    }
                    // Others are served, and the end comes although it waits.
                    let (mut other, mut other_peer) = half_pair().await;
                    other_peer.write_all(b"y").unwrap();
                    let read = timeout(LONG, other.read(&mut [0; 8])).await;
                    assert_eq!(read.unwrap().unwrap(), 1);
                    wait_with_a_waker_that_panics(&mut ours);
                    (ours, theirs)
                })
                .await
                .unwrap()
            });
            drop(runtime);
            drop((stream, peer));
        }
    }
}
