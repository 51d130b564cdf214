//! A worker that a task has blocked does not take its sockets along, nor do all of them.

mod net_common;

use std::sync::{Arc, Barrier, mpsc};
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

/// Blocks every worker of a runtime until what it returns is dropped.
fn block_workers(runtime: &blitzen::runtime::Runtime, workers: usize) -> Vec<mpsc::Sender<()>> {
    let all = Arc::new(Barrier::new(workers + 1));
    let block = |_| {
        let (all, (release, wait)) = (all.clone(), mpsc::channel());
        runtime.spawn(async move {
            all.wait();
            assert!(wait.recv_timeout(FOREVER).is_err(), "dropped, not late");
        });
        release
    };
    let releases = (0..workers).map(block).collect();
    all.wait();
    releases
}

#[test]
fn timers_connections_and_tasks_go_on_while_every_worker_is_blocked() {
    for workers in [1, 2, 3] {
        let runtime = with_workers(workers);
        let (mut one, mut other) = runtime.block_on(async {
            // Its sockets are a worker's.
            blitzen::spawn(tcp_pair()).await.unwrap().unwrap()
        });
        let echo = runtime.spawn(async move {
            let mut byte = [0];
            while other.read(&mut byte).await.unwrap() > 0 {
                other.write_all(&byte).await.unwrap();
            }
        });
        let blocked = block_workers(&runtime, workers);
        let (done, wait) = mpsc::channel();
        runtime.spawn(async move {
            for round in 0..5 {
                let mut byte = [round];
                one.write_all(&byte).await.unwrap();
                one.read_exact(&mut byte).await.unwrap();
                assert_eq!(byte, [round]);
                blitzen::time::sleep(Duration::from_millis(1)).await;
                let sum = blitzen::spawn(async {
                    blitzen::task::yield_now().await;
                    1
                });
                assert_eq!(sum.await.unwrap(), 1);
            }
            done.send(()).unwrap();
        });
        wait.recv_timeout(FOREVER).unwrap();
        drop(blocked);
        runtime.block_on(echo).unwrap();
    }
}

#[test]
fn what_a_blocked_worker_has_queued_runs_elsewhere() {
    let runtime = with_workers(1);
    let blocked = runtime.spawn(async {
        let (done, wait) = mpsc::channel();
        for task in 0..3 {
            let done = done.clone();
            blitzen::spawn(async move { done.send(task) });
        }
        drop(done);
        let mut ran = [0, 1, 2].map(|_| wait.recv_timeout(FOREVER).unwrap());
        ran.sort_unstable();
        assert_eq!(ran, [0, 1, 2]);
    });
    runtime.block_on(blocked).unwrap();
}

#[test]
fn tasks_that_wait_for_each_other_on_their_threads_get_threads() {
    // The worker, and all threads that may run tasks in its place.
    let at_once = Arc::new(Barrier::new(5));
    let runtime = with_workers(1);
    let wait = |_| {
        let at_once = at_once.clone();
        runtime.spawn(async move { at_once.wait().is_leader() })
    };
    let tasks: Vec<_> = (0..5).map(wait).collect();
    let mut leaders = 0;
    for task in tasks {
        leaders += usize::from(runtime.block_on(task).unwrap());
    }
    assert_eq!(leaders, 1);
}

#[test]
fn a_dispatcher_goes_on_while_every_worker_is_blocked() {
    use blitzen::dispatch::Dispatcher;

    let runtime = with_workers(2);
    let blocked = block_workers(&runtime, 2);
    let (done, wait) = mpsc::channel();
    let views = {
        let _inside = runtime.enter();
        [
            Dispatcher::default(),
            Dispatcher::default().limited(1),
            Dispatcher::io(),
        ]
    };
    for view in &views {
        for _ in 0..10 {
            let done = done.clone();
            view.spawn(async move {
                blitzen::task::yield_now().await;
                done.send(()).unwrap();
            });
        }
    }
    for _ in 0..30 {
        wait.recv_timeout(FOREVER).unwrap();
    }
    drop(blocked);
}

#[cfg(feature = "coro")]
#[test]
fn a_coroutine_waits_for_a_worker_while_others_go_on() {
    let runtime = with_workers(1);
    let blocked = block_workers(&runtime, 1);
    let _inside = runtime.enter();
    // SAFETY: it has nothing on its stack that anyone else refers to.
    let coroutine = unsafe { blitzen::coro::spawn(|| 1) };
    let (done, wait) = mpsc::channel();
    for _ in 0..10 {
        let done = done.clone();
        blitzen::spawn(async move { done.send(()) });
    }
    for _ in 0..10 {
        wait.recv_timeout(FOREVER).unwrap();
    }
    drop(blocked);
    assert_eq!(runtime.block_on(coroutine).unwrap(), 1);
}
