//! tokio-util: codecs over sockets, cancellation, task trackers, bridges to other traits.
#![cfg(feature = "tokio_util")]

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _, SinkExt, StreamExt};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::codec::{BytesCodec, Framed, LengthDelimitedCodec, LinesCodec};
use tokio_util::compat::TokioAsyncReadCompatExt;
use tokio_util::io::{ReaderStream, StreamReader, SyncIoBridge};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{LocalPoolHandle, TaskTracker};
use tokio_util::time::DelayQueue;
use tokio_util::udp::UdpFramed;

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connect = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(connect, listener.accept());
    (client.unwrap(), server.unwrap().0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_pass_through_a_socket_whole_and_in_order() {
    let (client, server) = connected().await;
    let echo = tokio::spawn(async move {
        let framed = Framed::new(server, LengthDelimitedCodec::new());
        let (sink, stream) = framed.split();
        stream
            .map(|frame| Ok(frame?.freeze()))
            .forward(sink)
            .await
            .unwrap();
    });
    let (mut sink, mut stream) = Framed::new(client, LengthDelimitedCodec::new()).split();
    let length = |n: usize| n * n % 70_000;
    let send = tokio::spawn(async move {
        for n in 0..500 {
            sink.feed(Bytes::from(vec![n as u8; length(n)]))
                .await
                .unwrap();
        }
        sink.close().await.unwrap();
    });
    for n in 0..500 {
        let frame = stream.next().await.unwrap().unwrap();
        assert!(frame == vec![n as u8; length(n)], "frame {n}");
    }
    assert!(stream.next().await.is_none());
    send.await.unwrap();
    echo.await.unwrap();
}

#[tokio::test]
async fn lines_are_split_wherever_the_packets_end() {
    let (client, server) = connected().await;
    client.set_nodelay(true).unwrap();
    let write = tokio::spawn(async move {
        let mut client = Framed::new(client, BytesCodec::new());
        for piece in ["one\ntw", "o\n", "\nthree", "\r\nrest"] {
            client.send(Bytes::from(piece)).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let lines = Framed::new(server, LinesCodec::new());
    let lines: Vec<String> = lines.map(Result::unwrap).collect().await;
    assert_eq!(lines, ["one", "two", "", "three", "rest"]);
    write.await.unwrap();
}

#[tokio::test]
async fn datagrams_are_framed() {
    let bind = || async { UdpSocket::bind("127.0.0.1:0").await.unwrap() };
    let (one, other) = (bind().await, bind().await);
    let to = other.local_addr().unwrap();
    let mut one = UdpFramed::new(one, LinesCodec::new());
    let mut other = UdpFramed::new(other, LinesCodec::new());
    one.send(("hello", to)).await.unwrap();
    let (line, from) = other.next().await.unwrap().unwrap();
    assert_eq!(line, "hello");
    other.send(("back", from)).await.unwrap();
    assert_eq!(one.next().await.unwrap().unwrap().0, "back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_token_ends_its_children_and_a_tracker_waits_for_them() {
    let (tracker, parent) = (TaskTracker::new(), CancellationToken::new());
    for n in 0..100 {
        let token = parent.child_token();
        drop(tracker.spawn(async move {
            tokio::select! {
                () = token.cancelled() => Some(n),
                () = std::future::pending() => None,
            }
        }));
    }
    tracker.close();
    assert!(!tracker.is_empty());
    let child = parent.child_token();
    let guard = child.clone().drop_guard();
    drop(guard);
    assert!(child.is_cancelled() && !parent.is_cancelled());
    parent.cancel();
    tracker.wait().await;
    assert_eq!(tracker.len(), 0);
    let run = parent.run_until_cancelled(std::future::pending::<()>());
    assert_eq!(run.await, None);
}

#[tokio::test]
async fn a_socket_serves_the_traits_of_futures_io() {
    let (client, server) = connected().await;
    let (mut client, mut server) = (client.compat(), server.compat());
    let write = async {
        client.write_all(&[3; 100_000]).await.unwrap();
        client.close().await.unwrap();
    };
    let mut received = Vec::new();
    let (read, ()) = tokio::join!(server.read_to_end(&mut received), write);
    assert_eq!(read.unwrap(), 100_000);
    assert!(received.iter().all(|&byte| byte == 3));
}

#[tokio::test]
async fn readers_become_streams_and_streams_become_readers() {
    let text = b"some bytes".repeat(10_000);
    let stream = ReaderStream::with_capacity(&text[..], 777);
    let mut reader = StreamReader::new(stream);
    let mut copy = Vec::new();
    reader.read_to_end(&mut copy).await.unwrap();
    assert!(copy == text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_code_uses_a_socket_through_a_bridge() {
    let (client, server) = connected().await;
    let echo = tokio::task::spawn_blocking(move || {
        let mut bridge = SyncIoBridge::new(server);
        let mut bytes = [0; 5];
        bridge.read_exact(&mut bytes).unwrap();
        bridge.write_all(&bytes).unwrap();
        bridge.flush().unwrap();
    });
    let mut client = Framed::new(client, BytesCodec::new());
    client.send(Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), b"hello"[..]);
    echo.await.unwrap();
}

#[tokio::test]
async fn a_pool_of_local_runtimes_runs_futures_that_are_not_send() {
    let pool = LocalPoolHandle::new(2);
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            pool.spawn_pinned(move || async move {
                let shared = std::rc::Rc::new(n);
                tokio::task::yield_now().await;
                *shared * 2
            })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap(), 2 * n);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_queue_yields_by_deadline() {
    let mut queue = DelayQueue::new();
    let seconds = Duration::from_secs;
    queue.insert("third", seconds(300));
    let removed = queue.insert("removed", seconds(10));
    let moved = queue.insert("second", seconds(400));
    queue.insert("first", seconds(100));
    queue.remove(&removed);
    queue.reset(&moved, seconds(200));
    let start = tokio::time::Instant::now();
    let mut order = Vec::new();
    while let Some(expired) = queue.next().await {
        order.push((expired.into_inner(), start.elapsed().as_secs()));
    }
    assert_eq!(order, [("first", 100), ("second", 200), ("third", 300)]);
}
