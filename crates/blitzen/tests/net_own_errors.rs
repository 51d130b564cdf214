//! Errors that an operation of the user's returns reach the user, whatever their kind.
//!
//! Over poll(2), mio has an error of its own for a source that it has removed, and an operation that
//! would have blocked waits when it finds that error. The same error of a user's is not waited for.

mod net_common;

use std::io::{Error, ErrorKind};

use blitzen::io::{AsyncWriteExt, Interest};
use net_common::{runtimes, tcp_pair};

fn not_found() -> std::io::Result<()> {
    Err(ErrorKind::NotFound.into())
}

fn kind(result: Result<(), Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn an_operation_on_a_socket_may_return_any_error() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = tcp_pair().await.unwrap();
            theirs.write_all(b"x").await.unwrap();
            ours.readable().await.unwrap();
            let tried = ours.try_io(Interest::READABLE, not_found);
            assert_eq!(kind(tried), ErrorKind::NotFound);
            let awaited = ours.async_io(Interest::READABLE, not_found).await;
            assert_eq!(kind(awaited), ErrorKind::NotFound);
            // The readiness was not cleared.
            assert_eq!(ours.try_read(&mut [0; 8]).unwrap(), 1);
        });
    }
}

#[test]
#[cfg(unix)]
fn an_operation_on_a_pipe_may_return_any_error() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut sender, receiver) = blitzen::net::unix::pipe::pipe().unwrap();
            sender.write_all(b"x").await.unwrap();
            receiver.readable().await.unwrap();
            assert_eq!(kind(receiver.try_io(not_found)), ErrorKind::NotFound);
            assert_eq!(receiver.try_read(&mut [0; 8]).unwrap(), 1);
        });
    }
}

#[test]
#[cfg(unix)]
fn an_operation_on_a_descriptor_may_return_any_error() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use blitzen::io::unix::AsyncFd;

    for runtime in runtimes() {
        runtime.block_on(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            // SAFETY: the stream has its descriptor for as long as it lives.
            let mut ours = unsafe { AsyncFd::register(ours) }.unwrap();
            theirs.write_all(b"x").unwrap();
            ours.readable().await.unwrap().retain_ready();
            let tried = ours.try_io(Interest::READABLE, |_| not_found());
            assert_eq!(kind(tried), ErrorKind::NotFound);
            let tried = ours.try_io_mut(Interest::READABLE, |_| not_found());
            assert_eq!(kind(tried), ErrorKind::NotFound);
            let awaited = ours.async_io(Interest::READABLE, |_| not_found()).await;
            assert_eq!(kind(awaited), ErrorKind::NotFound);
            let awaited = ours.async_io_mut(Interest::READABLE, |_| not_found()).await;
            assert_eq!(kind(awaited), ErrorKind::NotFound);
            let read = ours.try_io_mut(Interest::READABLE, |ours| ours.read(&mut [0; 8]));
            assert_eq!(read.unwrap(), 1);
        });
    }
}
