//! A peer that never reads costs no memory but the system's buffers, and blocks
//! nobody but who writes to it.

mod net_common;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use net_common::{pattern, poll_once, runtimes, tcp_pair};

#[test]
fn writing_to_a_peer_that_never_reads_waits() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = tcp_pair().await.unwrap();
            let mut sent = 0;
            // As much as the system takes; it must end, or memory is unbounded.
            loop {
                let bytes = pattern(sent, 64 * 1024);
                match poll_once(ours.write(&bytes)).await {
                    Some(count) => sent += count.unwrap(),
                    None => break,
                }
                assert!(sent < 256 << 20, "{sent} bytes, and still more are taken");
            }

            // Others are served while it waits.
            let (mut one, mut other) = tcp_pair().await.unwrap();
            let more = pattern(sent, 12 << 20); // more than it can find room for later
            let mut waiting = pin!(ours.write_all(&more));
            assert!(poll_once(waiting.as_mut()).await.is_none());
            one.write_all(b"hello").await.unwrap();
            let mut bytes = [0; 5];
            other.read_exact(&mut bytes).await.unwrap();

            // When the peer reads at last, it gets everything, in order.
            let total = sent + more.len();
            let reading = async {
                let mut received = 0;
                let mut buf = vec![0; 100_000];
                while received < total {
                    let count = theirs.read(&mut buf).await.unwrap();
                    assert_eq!(buf[..count], pattern(received, count), "at {received}");
                    received += count;
                }
            };
            let (written, ()) = blitzen::join!(waiting, reading);
            written.unwrap();
        });
    }
}

#[test]
fn whoever_waits_for_room_is_left_alone() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, theirs) = tcp_pair().await.unwrap();
            let polls = Arc::new(AtomicU32::new(0));
            let writing = blitzen::spawn({
                let polls = polls.clone();
                async move {
                    let bytes = vec![1; 64 << 20];
                    let mut writing = pin!(ours.write_all(&bytes));
                    std::future::poll_fn(|cx| {
                        polls.fetch_add(1, Relaxed);
                        writing.as_mut().poll(cx)
                    })
                    .await
                }
            });
            // It takes a while until the system has taken all it will; then nobody
            // has a reason to try again.
            let mut is_at_rest = false;
            for _ in 0..100 {
                let before = polls.load(Relaxed);
                blitzen::time::sleep(Duration::from_millis(20)).await;
                is_at_rest = before > 0 && polls.load(Relaxed) == before;
                if is_at_rest {
                    break;
                }
            }
            assert!(is_at_rest, "it tries again and again");
            writing.abort();
            assert!(writing.await.unwrap_err().is_cancelled());
            drop(theirs);
        });
    }
}
