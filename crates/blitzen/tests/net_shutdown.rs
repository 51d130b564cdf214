//! The end of a runtime with operations under way: nothing hangs, nothing leaks,
//! and what was written is delivered.

mod net_common;

use std::io::Read;
use std::net::TcpStream as StdStream;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream, UdpSocket};
use blitzen::runtime::is_rt_shutdown_err;
use net_common::{one_thread, pattern, runtimes, tcp_pair, with_workers};

#[test]
fn what_was_written_is_delivered_although_the_runtime_is_dropped() {
    for runtime in runtimes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let task = runtime.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&pattern(0, 100_000)).await.unwrap();
            stream
        });
        let server = std::thread::spawn(move || listener.accept().unwrap().0);
        drop(runtime.block_on(task).unwrap());
        drop(runtime);
        let mut received = Vec::new();
        let mut server = server.join().unwrap();
        server.read_to_end(&mut received).unwrap();
        assert!(received == pattern(0, 100_000));
    }
}

#[test]
fn waits_of_tasks_end_with_the_runtime_and_their_sockets_are_closed() {
    for runtime in runtimes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connected, all_connected) = std::sync::mpsc::channel();
        for number in 0..20 {
            let connected = connected.clone();
            runtime.spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                connected.send(()).unwrap();
                // For ever, one way or another.
                match number % 3 {
                    0 => drop(stream.read(&mut [0; 8]).await),
                    1 => drop(stream.write_all(&vec![0; 256 << 20]).await),
                    _ => drop(
                        TcpListener::bind("127.0.0.1:0")
                            .await
                            .unwrap()
                            .accept()
                            .await,
                    ),
                }
            });
        }
        let wait = async move {
            blitzen::task::spawn_blocking(move || {
                (0..20).for_each(|_| all_connected.recv().unwrap());
            })
            .await
            .unwrap();
        };
        runtime.block_on(wait);
        let servers: Vec<StdStream> = (0..20).map(|_| listener.accept().unwrap().0).collect();
        drop(runtime);
        for mut server in servers {
            // The end, after what was sent, or a reset: but not for ever.
            let mut buf = vec![0; 1 << 20];
            while server.read(&mut buf).is_ok_and(|count| count > 0) {}
        }
    }
}

#[test]
fn a_socket_that_outlives_its_runtime_returns_an_error() {
    for runtime in runtimes() {
        let (mut stream, listener, socket) = runtime.block_on(async {
            let (stream, _) = tcp_pair().await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            (stream, listener, socket)
        });
        drop(runtime);
        one_thread().block_on(async {
            let error = stream.read(&mut [0; 8]).await.unwrap_err();
            assert!(is_rt_shutdown_err(&error));
            assert!(is_rt_shutdown_err(&listener.accept().await.unwrap_err()));
            let error = socket.recv(&mut [0; 8]).await.unwrap_err();
            assert!(is_rt_shutdown_err(&error));
        });
        // The socket itself is as good as ever.
        stream.into_std().unwrap();
    }
}

#[test]
fn a_task_of_another_runtime_is_woken_by_the_end() {
    for runtime in runtimes() {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (waits, wait) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            one_thread().block_on(async {
                let mut accept = std::pin::pin!(listener.accept());
                std::future::poll_fn(|cx| {
                    let polled = accept.as_mut().poll(cx);
                    let _ = waits.send(());
                    polled
                })
                .await
                .unwrap_err()
            })
        });
        wait.recv().unwrap();
        drop(runtime);
        assert!(is_rt_shutdown_err(&waiting.join().unwrap()));
    }
}

#[test]
fn a_blocking_thread_that_waits_for_a_socket_does_not_hang_the_end() {
    for runtime in runtimes() {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let handle = runtime.handle().clone();
        let (waits, wait) = std::sync::mpsc::channel();
        let waiting = runtime.spawn_blocking(move || {
            handle.block_on(async {
                waits.send(()).unwrap();
                listener.accept().await.unwrap_err()
            })
        });
        wait.recv().unwrap();
        drop(runtime);
        let error = one_thread().block_on(waiting).unwrap();
        assert!(is_rt_shutdown_err(&error));
    }
}

#[test]
fn nothing_can_be_opened_in_a_runtime_that_is_gone() {
    for runtime in runtimes() {
        let handle = runtime.handle().clone();
        drop(runtime);
        let error = handle
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .unwrap_err();
        assert!(is_rt_shutdown_err(&error));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_runtime_leaves_no_descriptor_open() {
    // In a process of its own: the other tests open and close as they please.
    if std::env::var_os("NET_SHUTDOWN_ALONE").is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_runtime_leaves_no_descriptor_open"])
            .env("NET_SHUTDOWN_ALONE", "1")
            .status()
            .unwrap();
        assert!(alone.success());
        return;
    }
    let before = net_common::open_descriptors();
    for _ in 0..20 {
        let runtime = with_workers(2);
        runtime.block_on(async {
            for _ in 0..5 {
                let (mut one, other) = tcp_pair().await.unwrap();
                blitzen::spawn(async move {
                    let _other = other;
                    std::future::pending::<()>().await;
                });
                blitzen::spawn(async move { one.read(&mut [0; 8]).await });
            }
        });
    }
    assert_eq!(net_common::open_descriptors(), before);
}
