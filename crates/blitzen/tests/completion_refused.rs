//! A system that refuses io_uring, made by a filter in a child process: whoever
//! asks for completion is told, and whoever prefers it goes on without.
#![cfg(all(blitzen_ring, any(target_arch = "x86_64", target_arch = "aarch64")))]

mod completion_common;
mod refuse;

use std::io::ErrorKind;
use std::process::Command;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{SocketMode, TcpListener, TcpStream, UnixStream};
use blitzen::runtime::Builder;
use refuse::refuse;

const CHILD: &str = "BLITZEN_TEST_REFUSE_WITH";

/// The child's part; nothing to do otherwise.
#[test]
fn child() {
    let Ok(errno) = std::env::var(CHILD) else {
        return;
    };
    refuse(&[libc::SYS_io_uring_setup], errno.parse().unwrap());
    let build = |mode| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().socket_mode(mode);
        builder.build().unwrap()
    };
    build(SocketMode::Completion).block_on(async {
        let error = TcpListener::bind("127.0.0.1:0").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("prefer-completion"), "{error}");
        let error = UnixStream::pair().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
    build(SocketMode::PreferCompletion).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert_eq!(listener.mode(), SocketMode::Readiness);
        let connect = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = blitzen::join!(connect, listener.accept());
        let (mut client, mut server) = (client.unwrap(), accepted.unwrap().0);
        client.write_all(b"hello").await.unwrap();
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).await.unwrap();
        // One that is asked for by hand is refused, and stays what it was.
        let error = server.set_mode(SocketMode::Completion).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        server.set_mode(SocketMode::PreferCompletion).unwrap();
        assert_eq!(server.mode(), SocketMode::Readiness);
        server.write_all(b"world").await.unwrap();
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"world");
    });
}

#[test]
fn a_refused_ring_is_an_error_or_leaves_readiness() {
    for errno in [libc::ENOSYS, libc::EPERM, libc::ENOMEM] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(CHILD, errno.to_string())
            .env_remove("BLITZEN_IO")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn the_environment_sets_the_mode_too_and_is_checked() {
    const MODE: &str = "BLITZEN_TEST_EXPECTED_MODE";
    if let Ok(expected) = std::env::var(MODE) {
        let mut builder = Builder::new_current_thread();
        let built = builder.enable_all().build();
        match expected.as_str() {
            "error" => assert_eq!(built.unwrap_err().kind(), ErrorKind::InvalidInput),
            _ => {
                let listener = built.unwrap().block_on(TcpListener::bind("127.0.0.1:0"));
                assert_eq!(format!("{:?}", listener.unwrap().mode()), expected);
            }
        }
        return;
    }
    if completion_common::runtime(0).is_none() {
        return;
    }
    for (said, expected) in [
        ("readiness", "Readiness"),
        ("completion", "Completion"),
        ("prefer-completion", "Completion"),
        ("epoll", "error"),
    ] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["the_environment", "--nocapture"])
            .env("BLITZEN_SOCKETS", said)
            .env(MODE, expected)
            .output()
            .unwrap();
        assert!(output.status.success(), "{said}: {output:?}");
    }
}
