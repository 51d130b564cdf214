//! A worker that a task has blocked does not take its sockets along.

mod net_common;

use std::sync::mpsc;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use net_common::{tcp_pair, with_workers};

/// Long enough that only what never happens runs into it.
const FOREVER: Duration = Duration::from_secs(30);

#[test]
fn sockets_made_on_a_worker_are_served_while_it_is_blocked() {
    for workers in [2, 4] {
        let runtime = with_workers(workers);
        let blocked = runtime.spawn(async {
            for _ in 0..10 {
                // Their home is this worker, which is about to be blocked.
                let (mut one, mut other) = tcp_pair().await.unwrap();
                let (done, wait) = mpsc::channel();
                blitzen::spawn(async move {
                    let mut byte = [0];
                    while other.read(&mut byte).await.unwrap() > 0 {
                        other.write_all(&byte).await.unwrap();
                    }
                });
                blitzen::spawn(async move {
                    for round in 0..20 {
                        let mut byte = [round];
                        one.write_all(&byte).await.unwrap();
                        one.read_exact(&mut byte).await.unwrap();
                    }
                    done.send(()).unwrap();
                });
                // Blocks the worker until the echo is through.
                wait.recv_timeout(FOREVER).unwrap();
            }
        });
        runtime.block_on(blocked).unwrap();
    }
}

#[test]
fn timers_connections_and_tasks_go_on_beside_a_worker_that_is_blocked() {
    let runtime = with_workers(2);
    let (begin, begun) = mpsc::channel();
    let blocked = runtime.spawn(async move {
        for _ in 0..5 {
            let (done, wait) = mpsc::channel::<()>();
            begin.send(done).unwrap();
            wait.recv_timeout(FOREVER).unwrap();
            blitzen::task::yield_now().await;
        }
    });
    for done in begun {
        runtime.block_on(async {
            blitzen::time::sleep(Duration::from_millis(3)).await;
            let task = blitzen::spawn(async {
                blitzen::time::sleep(Duration::from_millis(3)).await;
                let (mut one, mut other) = tcp_pair().await.unwrap();
                one.write_all(b"x").await.unwrap();
                other.read_exact(&mut [0]).await.unwrap();
            });
            task.await.unwrap();
        });
        done.send(()).unwrap();
    }
    runtime.block_on(blocked).unwrap();
}

#[test]
fn a_listener_of_a_blocked_worker_accepts() {
    let runtime = with_workers(2);
    let blocked = runtime.spawn(async {
        let listener = blitzen::net::TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let (done, wait) = mpsc::channel();
        blitzen::spawn(async move {
            for _ in 0..5 {
                listener.accept().await.unwrap();
            }
            done.send(()).unwrap();
        });
        for _ in 0..5 {
            std::net::TcpStream::connect(address).unwrap();
        }
        wait.recv_timeout(FOREVER).unwrap();
    });
    runtime.block_on(blocked).unwrap();
}
