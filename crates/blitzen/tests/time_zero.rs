//! A sleep of no length lets others run, and the drivers be seen to.

#![cfg(not(blitzen_loom))]

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::runtime::{Builder, Runtime};
use blitzen::time::{Duration, Instant, interval_at, sleep, sleep_until, timeout, timeout_at};

fn runtimes() -> [Runtime; 3] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap(),
        Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap(),
    ]
}

/// Polls a future once.
async fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[test]
fn a_sleep_of_no_length_yields_once() {
    for runtime in runtimes() {
        runtime.block_on(async {
            blitzen::spawn(async {
                assert!(poll_once(sleep(Duration::ZERO)).await.is_pending());
                sleep(Duration::ZERO).await;
            })
            .await
            .unwrap();
        });
    }
}

#[test]
fn what_is_past_is_ready_at_once() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let now = Instant::now();
            assert!(poll_once(sleep_until(now)).await.is_ready());
            assert!(
                poll_once(interval_at(now, Duration::from_secs(1)).tick())
                    .await
                    .is_ready()
            );
            assert!(poll_once(timeout_at(now, pending::<()>())).await.is_ready());
            assert_eq!(
                poll_once(timeout(Duration::ZERO, async { 1 })).await,
                Poll::Ready(Ok(1))
            );
            let mut nap = pin!(sleep(Duration::ZERO));
            nap.as_mut().reset(now);
            assert!(poll_once(nap).await.is_ready());
        });
    }
}

#[test]
fn the_clock_does_not_move_for_a_sleep_of_no_length() {
    let [.., paused] = runtimes();
    paused.block_on(async {
        blitzen::time::advance(Duration::from_nanos(7)).await;
        let start = Instant::now();
        for _ in 0..1000 {
            sleep(Duration::ZERO).await;
        }
        assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_loop_of_such_sleeps_lets_tasks_and_sockets_go_on() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = blitzen::net::TcpListener::bind("127.0.0.1:0")
                .await
                .unwrap();
            let address = listener.local_addr().unwrap();
            let echo = blitzen::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let byte = stream.read_u8().await.unwrap();
                stream.write_u8(byte).await.unwrap();
            });
            let client = blitzen::spawn(async move {
                let mut stream = blitzen::net::TcpStream::connect(address).await.unwrap();
                stream.write_u8(7).await.unwrap();
                stream.read_u8().await.unwrap()
            });
            while !(echo.is_finished() && client.is_finished()) {
                sleep(Duration::ZERO).await;
            }
            assert_eq!(client.await.unwrap(), 7);
        });
    }
}
