//! Sockets by completion leave the runtime: what would be lost stays, with the
//! socket, and a thread that cannot do it is told.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
use blitzen::net::{IntoStdError, SocketMode, TcpStream, UnixStream};
use blitzen::runtime::{Builder, LocalRuntime};
use blitzen::task::yield_now;
use completion_common::{half_pair, pattern, poll_once, runtime, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_stream_with_unread_bytes_comes_back_with_the_error() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut ours, mut theirs) = half_pair().await;
            assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
            theirs.write_all(b"unread").unwrap();
            // The receive is armed, so what is seen has been brought.
            assert_eq!(ours.peek(&mut [0; 8]).await.unwrap(), 6);
            let error = ours.into_std().unwrap_err();
            assert!(error.to_string().contains("6 bytes"), "{error}");
            let kept = error.get_ref().unwrap().downcast_ref();
            let kept: &IntoStdError<TcpStream> = kept.unwrap();
            assert_eq!(kept.socket().mode(), SocketMode::Readiness);
            let kept = error.downcast::<IntoStdError<TcpStream>>().unwrap();
            let mut ours = kept.into_socket();
            // In both directions, and on to where it was going.
            ours.write_all(b"well").await.unwrap();
            theirs.read_exact(&mut [0; 4]).unwrap();
            let mut bytes = [0; 6];
            ours.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"unread");
            let mut ours = ours.into_std().unwrap();
            theirs.write_all(b"later").unwrap();
            ours.set_nonblocking(false).unwrap();
            ours.read_exact(&mut bytes[..5]).unwrap();
            assert_eq!(&bytes[..5], b"later");
        });
    }
}

#[test]
fn a_unix_stream_comes_back_too() {
    let Some(runtime) = runtime(0) else { return };
    runtime.block_on(async {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
        theirs.write_all(b"unread").await.unwrap();
        theirs.flush().await.unwrap();
        blitzen::time::sleep(Duration::from_millis(10)).await; // it is brought
        let error = ours.into_std().unwrap_err();
        let kept = error.downcast::<IntoStdError<UnixStream>>().unwrap();
        let mut bytes = [0; 6];
        kept.into_socket().read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"unread");
    });
}

#[test]
fn a_reader_goes_on_while_others_try_the_socket() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = half_pair().await;
            let (mut reader, writer) = ours.into_split();
            let reading = blitzen::spawn(async move {
                let mut bytes = vec![0; 2000];
                reader.read_exact(&mut bytes).await.unwrap();
                bytes
            });
            for n in 0..200 {
                // Nothing, or what has come is the reader's: it is left alone.
                let tried = writer.as_ref().try_io(Interest::READABLE, || Ok(()));
                if let Err(error) = tried {
                    let kinds = [ErrorKind::WouldBlock, ErrorKind::Other];
                    assert!(kinds.contains(&error.kind()), "{error}");
                }
                theirs.write_all(&pattern(n * 10, 10)).unwrap();
                yield_now().await;
            }
            let read = blitzen::time::timeout(LONG, reading).await;
            assert!(read.unwrap().unwrap() == pattern(0, 2000));
        });
    }
}

/// A runtime that stays on this thread, and so has a ring that obeys it only.
fn local_runtime() -> Option<LocalRuntime> {
    runtime(0)?; // says why it is not tested
    let mut builder = Builder::new_current_thread();
    builder.enable_all().socket_mode(SocketMode::Completion);
    Some(builder.build_local(Default::default()).unwrap())
}

/// A stream of which the kernel is to bring something.
async fn armed() -> (TcpStream, std::net::TcpStream) {
    let (mut ours, theirs) = half_pair().await;
    assert!(poll_once(ours.read(&mut [0; 8])).await.is_none());
    blitzen::time::sleep(Duration::from_millis(1)).await;
    (ours, theirs)
}

#[test]
fn another_thread_gets_an_error_if_nobody_runs_the_runtime() {
    let Some(runtime) = local_runtime() else {
        return;
    };
    let (ours, mut theirs) = runtime.block_on(armed());
    let taker = thread::spawn(move || {
        let error = ours.into_std().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
        error.downcast::<IntoStdError<TcpStream>>().unwrap()
    });
    let mut ours = taker.join().unwrap().into_socket();
    // Nothing was lost by asking, and here it can be done.
    theirs.write_all(b"hello").unwrap();
    let mut bytes = [0; 5];
    runtime.block_on(ours.read_exact(&mut bytes)).unwrap();
    assert_eq!(&bytes, b"hello");
    runtime.block_on(async {
        assert!(poll_once(ours.read(&mut bytes)).await.is_none());
        blitzen::time::sleep(Duration::from_millis(1)).await;
    });
    ours.into_std().unwrap();
}

#[test]
fn another_thread_gets_an_error_if_the_runtime_is_busy() {
    let Some(runtime) = local_runtime() else {
        return;
    };
    runtime.block_on(async {
        let (ours, mut theirs) = armed().await;
        // The task waits for the thread: were that to wait for the runtime, neither
        // would ever go on.
        let error = thread::spawn(|| ours.into_std())
            .join()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
        let kept = error.downcast::<IntoStdError<TcpStream>>().unwrap();
        let mut ours = kept.into_socket();
        theirs.write_all(b"hello").unwrap();
        let mut bytes = [0; 5];
        ours.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"hello");
        ours.into_std().unwrap();
    });
}

#[test]
fn another_thread_may_wait_for_readiness_while_the_runtime_runs() {
    let Some(runtime) = local_runtime() else {
        return;
    };
    runtime.block_on(async {
        let (ours, mut theirs) = armed().await;
        let (tell, told) = blitzen::sync::oneshot::channel();
        let waiter = thread::spawn(move || {
            let elsewhere = Builder::new_current_thread().build().unwrap();
            let result = elsewhere.block_on(ours.readable());
            let _ = tell.send(result);
            ours
        });
        theirs.write_all(b"hello").unwrap();
        told.await.unwrap().unwrap();
        let mut bytes = [0; 5];
        waiter.join().unwrap().read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"hello");
    });
}

#[test]
fn a_runtime_that_has_not_run_yet_is_not_taken_over_by_another_thread() {
    let Some(runtime) = local_runtime() else {
        return;
    };
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let _inside = runtime.enter();
    let mut ours = UnixStream::from_std(ours).unwrap();
    {
        let (mut bytes, waker) = ([0; 8], std::task::Waker::noop());
        let read = std::pin::pin!(ours.read(&mut bytes));
        let mut cx = std::task::Context::from_waker(waker);
        assert!(read.poll(&mut cx).is_pending());
    }
    thread::spawn(move || drop(ours)).join().unwrap();
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0, "closed");
    // The ring obeys this thread, as it should.
    runtime.block_on(async {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert!(poll_once(one.read(&mut [0; 5])).await.is_none());
        other.write_all(b"hello").await.unwrap();
        let mut bytes = [0; 5];
        let read = blitzen::time::timeout(LONG, one.read_exact(&mut bytes));
        read.await.unwrap().unwrap();
        assert_eq!(&bytes, b"hello");
    });
}
