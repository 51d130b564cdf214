//! Windows named pipes: the other end of a pipe that is dropped reads what was written, and then the
//! end.

#![cfg(windows)]

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake};
use std::thread;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::windows::named_pipe::{ClientOptions, NamedPipeServer, ServerOptions};
use blitzen::runtime::{Builder, Runtime};

/// Long enough that only what never happens runs into it.
const FOREVER: Duration = Duration::from_secs(20);

/// More than a pipe's buffer holds: the write is under way until the other end has read.
const MUCH: usize = 1 << 20;

fn new_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let own = NEXT.fetch_add(1, Relaxed);
    format!(r"\\.\pipe\blitzen-test-{}-{own}", std::process::id())
}

/// A runtime that nobody drives outside `block_on`.
fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

fn open(name: &str) -> File {
    File::options().read(true).write(true).open(name).unwrap()
}

/// A server and its client, which is no part of a runtime.
async fn pair() -> (NamedPipeServer, File) {
    let name = new_name();
    let server = ServerOptions::new().create(&name).unwrap();
    let client = open(&name);
    server.connect().await.unwrap();
    (server, client)
}

/// Whether a future is done when it is polled once.
async fn is_done(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// Begins to write `MUCH` bytes, which the other end does not read yet.
async fn begin_write(server: &mut NamedPipeServer) {
    assert_eq!(server.write(&[7; MUCH]).await.unwrap(), MUCH);
    assert!(!is_done(server.write(&[8])).await, "the write is under way");
}

/// The end of a pipe that a thread reads until no more comes.
struct Peer(Receiver<usize>);

impl Peer {
    fn new(mut client: File) -> Self {
        let (sender, count) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // A pipe whose other end is disconnected ends with an error.
            let _ = client.read_to_end(&mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 7));
            let _ = sender.send(bytes.len());
        });
        Self(count)
    }

    #[track_caller]
    fn reads_to_the_end(self, len: usize) {
        assert_eq!(self.0.recv_timeout(FOREVER), Ok(len), "no end in time");
    }
}

#[test]
fn a_dropped_pipe_is_closed_at_once() {
    let name = new_name();
    // There is no worker that could close them meanwhile.
    current_thread().block_on(async {
        for round in 0..10 {
            // Refused while another one is open that is written to, or not, unlike this one.
            let is_written = round % 2 == 0;
            let server = ServerOptions::new()
                .access_outbound(is_written)
                .create(&name)
                .unwrap();
            let client = ClientOptions::new().read(is_written).open(&name).unwrap();
            server.connect().await.unwrap();
            // The server waits for bytes that never come.
            drop(client);
            drop(server);
        }
    });
}

#[test]
fn a_server_without_a_client_is_closed_whether_or_not_it_waits_for_one() {
    for runtime in [current_thread(), multi_thread()] {
        let name = new_name();
        let mut options = ServerOptions::new();
        options.first_pipe_instance(true);
        for waits in [true, false, true] {
            let server = runtime.block_on(async { options.create(&name) }).unwrap();
            if waits {
                runtime.block_on(async { assert!(!is_done(server.connect()).await) });
            }
            drop(server);
            // Nobody hears of the end but who creates the pipe again.
            let end = std::time::Instant::now() + FOREVER;
            let _entered = runtime.enter();
            while options.create(&name).is_err() {
                assert!(std::time::Instant::now() < end, "never closed");
                thread::yield_now();
            }
        }
    }
}

#[test]
fn a_server_that_has_not_yet_seen_its_client_is_closed() {
    let runtime = current_thread();
    for _ in 0..5 {
        let name = new_name();
        let client = runtime.block_on(async {
            let server = ServerOptions::new().create(&name).unwrap();
            assert!(!is_done(server.connect()).await);
            let client = open(&name);
            drop(server);
            client
        });
        Peer::new(client).reads_to_the_end(0);
    }
}

#[test]
fn a_server_with_bytes_that_nobody_has_read_is_closed() {
    let runtime = current_thread();
    for len in [1, 4096, 10_000] {
        let (mut server, mut client) = runtime.block_on(pair());
        client.write_all(&vec![1; len]).unwrap();
        if len > 1 {
            runtime.block_on(async { server.read_exact(&mut [0; 10]).await.unwrap() });
        }
        drop(server);
        Peer::new(client).reads_to_the_end(0);
    }
}

#[test]
fn a_server_that_has_disconnected_its_client_is_closed() {
    let runtime = current_thread();
    for waits in [false, true] {
        let (server, client) = runtime.block_on(pair());
        server.disconnect().unwrap();
        if waits {
            runtime.block_on(async { assert!(!is_done(server.connect()).await) });
        }
        drop(server);
        Peer::new(client).reads_to_the_end(0);
    }
}

#[test]
fn a_server_whose_write_has_failed_is_closed_with_its_next_client() {
    let client = current_thread().block_on(async {
        let name = new_name();
        let mut server = ServerOptions::new().create(&name).unwrap();
        let first = open(&name);
        server.connect().await.unwrap();
        begin_write(&mut server).await;
        drop(first);
        server.writable().await.unwrap(); // the write has failed, and nobody sees the error
        server.disconnect().unwrap();
        assert!(!is_done(server.connect()).await);
        open(&name)
    });
    Peer::new(client).reads_to_the_end(0);
}

#[test]
fn what_was_written_arrives_although_nobody_drives_the_runtime() {
    let runtime = current_thread();
    let (mut server, client) = runtime.block_on(pair());
    runtime.block_on(begin_write(&mut server));
    drop(server);
    Peer::new(client).reads_to_the_end(MUCH);
}

#[test]
fn a_write_that_ends_while_the_runtime_is_left_alone_closes_the_pipe() {
    let runtime = current_thread();
    let (mut server, client) = runtime.block_on(pair());
    runtime.block_on(begin_write(&mut server));
    drop(server);
    // Others come and go meanwhile.
    for _ in 0..3 {
        let (server, client) = runtime.block_on(pair());
        drop(server);
        Peer::new(client).reads_to_the_end(0);
    }
    Peer::new(client).reads_to_the_end(MUCH);
}

#[test]
fn a_pipe_may_be_dropped_on_another_thread() {
    for runtime in [current_thread(), multi_thread()] {
        for is_written in [false, true] {
            let (mut server, client) = runtime.block_on(pair());
            if is_written {
                runtime.block_on(begin_write(&mut server));
            }
            thread::spawn(move || drop(server)).join().unwrap();
            Peer::new(client).reads_to_the_end(if is_written { MUCH } else { 0 });
        }
    }
}

#[test]
fn pipes_may_be_dropped_on_many_threads_at_once() {
    const THREADS: usize = 8;
    for runtime in [current_thread(), multi_thread()] {
        for _ in 0..5 {
            let pairs = (0..THREADS).map(|_| runtime.block_on(pair()));
            let (servers, clients): (Vec<_>, Vec<_>) = pairs.unzip();
            let barrier = Arc::new(Barrier::new(THREADS));
            let threads = servers.into_iter().map(|server| {
                let barrier = barrier.clone();
                thread::spawn(move || {
                    barrier.wait();
                    drop(server);
                })
            });
            for thread in threads.collect::<Vec<_>>() {
                thread.join().unwrap();
            }
            for client in clients {
                Peer::new(client).reads_to_the_end(0);
            }
        }
    }
}

#[test]
fn a_pipe_may_be_dropped_after_its_runtime() {
    for make in [current_thread, multi_thread] {
        for is_written in [false, true] {
            let runtime = make();
            let (mut server, client) = runtime.block_on(pair());
            if is_written {
                runtime.block_on(begin_write(&mut server));
            }
            drop(runtime);
            drop(server);
            Peer::new(client).reads_to_the_end(if is_written { MUCH } else { 0 });
        }
    }
}

#[test]
fn a_runtime_may_be_dropped_while_a_task_of_it_writes() {
    for make in [current_thread, multi_thread] {
        let runtime = make();
        let client = runtime.block_on(async {
            let (mut server, client) = pair().await;
            begin_write(&mut server).await;
            blitzen::spawn(async move { server.write(&[8]).await });
            blitzen::task::yield_now().await;
            client
        });
        drop(runtime);
        Peer::new(client).reads_to_the_end(MUCH);
    }
}

#[test]
fn an_idle_worker_closes_a_pipe() {
    let runtime = multi_thread();
    let task = runtime.spawn(async {
        let (mut server, client) = pair().await;
        begin_write(&mut server).await;
        (server, client)
    });
    let (server, client) = runtime.block_on(task).unwrap();
    thread::sleep(Duration::from_millis(10)); // the worker is asleep by then
    drop(server);
    Peer::new(client).reads_to_the_end(MUCH);
}

#[test]
fn a_client_may_be_dropped_like_a_server() {
    let runtime = current_thread();
    for is_written in [false, true] {
        let (mut server, client) = runtime.block_on(async {
            let name = new_name();
            let server = ServerOptions::new().create(&name).unwrap();
            let mut client = ClientOptions::new().open(&name).unwrap();
            server.connect().await.unwrap();
            if is_written {
                assert_eq!(client.write(&[7; MUCH]).await.unwrap(), MUCH);
            }
            (server, client)
        });
        drop(client);
        let mut bytes = Vec::new();
        let read = async { server.read_to_end(&mut bytes).await };
        let limited = async { blitzen::time::timeout(FOREVER, read).await };
        runtime.block_on(limited).expect("no end in time").unwrap();
        assert_eq!(bytes.len(), if is_written { MUCH } else { 0 });
    }
}

/// A waker that takes a lock, which nobody should have then.
#[derive(Default)]
struct Locker {
    lock: Mutex<()>,
    free: AtomicUsize,
    taken: AtomicUsize,
}

impl Wake for Locker {
    fn wake(self: Arc<Self>) {
        let count = match self.lock.try_lock() {
            Ok(_) => &self.free,
            Err(_) => &self.taken,
        };
        count.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_waker_may_take_a_lock_that_a_thread_has_while_it_drops_a_pipe() {
    current_thread().block_on(async {
        let (dropped, _client) = pair().await;
        let (other, _other_client) = pair().await;
        let mut is_writable = pin!(other.writable());
        let locker = Arc::new(Locker::default());
        let waker = locker.clone().into();
        let polled = is_writable.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        // Taken in while the pipe is closed, by this thread: nobody else turns.
        let locked = locker.lock.lock();
        drop(dropped);
        drop(locked);
        assert_eq!(locker.taken.load(Relaxed), 0);
        while locker.free.load(Relaxed) == 0 {
            blitzen::task::yield_now().await;
        }
        assert_eq!(locker.taken.load(Relaxed), 0);
        is_writable.await.unwrap();
    });
}
