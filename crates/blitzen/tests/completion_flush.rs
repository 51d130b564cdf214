//! A flush hands everything that was written to the kernel, whatever happens next.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::Read;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::TcpStream;
use completion_common::{half_pair, poll_once, runtime, runtimes};

/// Where a child process finds what to do.
const CHILD: &str = "BLITZEN_TEST_FLUSH_TO";

/// Writes so that most of it waits for the worker's next turn.
async fn write_three(stream: &mut TcpStream) {
    // Something is armed, and the ring has an owner.
    assert!(poll_once(stream.read(&mut [0; 8])).await.is_none());
    blitzen::time::sleep(Duration::from_millis(1)).await;
    for part in [b"1", b"2", b"3"] {
        stream.write_all(part).await.unwrap();
    }
}

#[test]
fn child() {
    let Ok(address) = std::env::var(CHILD) else {
        return;
    };
    let Some(runtime) = runtime(0) else { return };
    runtime.block_on(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        write_three(&mut stream).await;
        stream.flush().await.unwrap();
        std::process::exit(0);
    });
}

#[test]
fn what_was_flushed_arrives_although_the_process_exits() {
    if runtime(0).is_none() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, listener.local_addr().unwrap().to_string())
        .spawn()
        .unwrap();
    let (mut theirs, _) = listener.accept().unwrap();
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text, "123");
}

#[test]
fn what_was_flushed_arrives_although_the_worker_is_blocked() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            write_three(&mut ours).await;
            ours.flush().await.unwrap();
            let mut bytes = [0; 3];
            theirs.read_exact(&mut bytes).unwrap(); // blocks the worker
            assert_eq!(&bytes, b"123");
        });
    }
}

/// An executor that knows nothing of the runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_flush_ends_in_an_executor_that_blocks_the_worker() {
    for runtime in runtimes() {
        let flushing = runtime.spawn(async {
            let (mut ours, mut theirs) = half_pair().await;
            write_three(&mut ours).await;
            block_on(ours.flush()).unwrap();
            let mut bytes = [0; 3];
            theirs.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"123");
        });
        runtime.block_on(flushing).unwrap();
    }
}

#[test]
fn what_was_flushed_arrives_through_either_half() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            write_three(&mut ours).await;
            let (_reader, mut writer) = ours.into_split();
            writer.write_all(b"4").await.unwrap();
            writer.flush().await.unwrap();
            let mut bytes = [0; 4];
            theirs.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"1234");
            // A half that is dropped ends the stream after what was written.
            writer.write_all(b"5").await.unwrap();
            writer.write_all(b"6").await.unwrap();
            drop(writer);
            let mut text = String::new();
            theirs.read_to_string(&mut text).unwrap();
            assert_eq!(text, "56");
        });
    }
}

#[test]
fn a_shutdown_comes_after_what_was_written() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            write_three(&mut ours).await;
            ours.shutdown().await.unwrap();
            let mut text = String::new();
            theirs.read_to_string(&mut text).unwrap();
            assert_eq!(text, "123");
            ours.write_all(b"late").await.unwrap_err();
        });
    }
}

#[test]
fn a_stream_that_is_dropped_while_its_worker_is_blocked_has_sent_everything() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            write_three(&mut ours).await;
            drop(ours);
            let mut bytes = [0; 3];
            theirs.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"123");
        });
    }
}
