//! tokio-stream: combinators that need timers, and wrappers of channels and listeners.
#![cfg(feature = "tokio_stream")]

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, interval};
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::wrappers::{
    BroadcastStream, IntervalStream, LinesStream, ReceiverStream, TcpListenerStream, WatchStream,
};
use tokio_stream::{StreamExt, StreamMap};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn timeouts_throttles_and_chunks_follow_the_clock() {
    let (sender, receiver) = mpsc::channel(10);
    tokio::spawn(async move {
        for pause_s in [0, 0, 5, 1] {
            tokio::time::sleep(pause_s * SECOND).await;
            sender.send(pause_s).await.unwrap();
        }
    });
    let stream = ReceiverStream::new(receiver).timeout(3 * SECOND);
    let items: Vec<_> = stream.map(Result::ok).collect().await;
    assert_eq!(items, [Some(0), Some(0), None, Some(5), Some(1)]);

    let start = Instant::now();
    let throttled: Vec<_> = tokio_stream::iter(0..4).throttle(SECOND).collect().await;
    assert_eq!((throttled.len(), start.elapsed().as_secs()), (4, 4));

    let ticks = IntervalStream::new(interval(SECOND)).take(10);
    let chunks = ticks.chunks_timeout(4, Duration::from_millis(2500));
    let lengths: Vec<_> = chunks.map(|chunk| chunk.len()).collect().await;
    assert_eq!(lengths.iter().sum::<usize>(), 10);
    assert!(lengths.iter().all(|&length| length <= 4), "{lengths:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_of_streams_yields_everything_from_each() {
    let mut map = StreamMap::new();
    for key in 0..10_u64 {
        let (sender, receiver) = mpsc::channel(4);
        map.insert(key, ReceiverStream::new(receiver));
        tokio::spawn(async move {
            for n in 0..100_u64 {
                sender.send(n).await.unwrap();
            }
        });
    }
    let mut sums = [0; 10];
    while let Some((key, n)) = map.next().await {
        sums[key as usize] += n;
    }
    assert_eq!(sums, [4950; 10]);
}

#[tokio::test]
async fn a_broadcast_that_lags_says_how_much_and_a_watch_yields_the_newest() {
    let (sender, receiver) = broadcast::channel(2);
    for n in 0..5 {
        sender.send(n).unwrap();
    }
    drop(sender);
    let items: Vec<_> = BroadcastStream::new(receiver).collect().await;
    assert_eq!(
        items,
        [Err(BroadcastStreamRecvError::Lagged(3)), Ok(3), Ok(4)]
    );

    let (sender, receiver) = watch::channel(1);
    let mut stream = WatchStream::new(receiver);
    assert_eq!(stream.next().await, Some(1));
    sender.send(2).unwrap();
    sender.send(3).unwrap();
    assert_eq!(stream.next().await, Some(3));
    drop(sender);
    assert_eq!(stream.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_is_a_stream_of_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut connections = TcpListenerStream::new(listener).take(20);
        while let Some(connection) = connections.next().await {
            let mut connection = connection.unwrap();
            let mut name = String::new();
            connection.read_to_string(&mut name).await.unwrap();
            connection
                .write_all(format!("{name}\nbye\n").as_bytes())
                .await
                .unwrap();
        }
    });
    for n in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(n.to_string().as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stream));
        let lines: Vec<_> = LinesStream::new(lines).map(Result::unwrap).collect().await;
        assert_eq!(lines, [n.to_string(), "bye".to_owned()]);
    }
    server.await.unwrap();
}

#[tokio::test]
async fn merged_streams_lose_nothing() {
    let one = tokio_stream::iter(0..1000);
    let other = tokio_stream::iter(1000..2000);
    let mut all: Vec<u32> = one.merge(other).collect().await;
    all.sort_unstable();
    assert_eq!(all, (0..2000).collect::<Vec<_>>());
}
