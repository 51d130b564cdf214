//! A process that runs out of descriptors: `accept` says so, everything else
//! goes on, and the connection is served as soon as there is a descriptor again.
#![cfg(target_os = "linux")]

mod net_common;

use std::fs::File;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::TcpListener;
use net_common::{poll_a_few, runtimes};

/// Opens descriptors until there are none left.
fn take_all() -> Vec<File> {
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken
}

/// Few are enough, and quicker to take.
fn allow_few() {
    let few = libc::rlimit {
        rlim_cur: 256,
        rlim_max: 256,
    };
    // SAFETY: a structure that outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) }, 0);
}

// One test, since it takes from all that run beside it.
#[test]
fn accept_fails_without_harm_to_others_and_serves_afterwards() {
    allow_few();
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut served = std::net::TcpStream::connect(address).unwrap();
            let (mut neighbour, _) = listener.accept().await.unwrap();

            let waiting = std::net::TcpStream::connect(address).unwrap();
            let taken = take_all();
            for _ in 0..3 {
                let error = listener.accept().await.unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            }
            // The neighbour is served meanwhile.
            std::io::Write::write_all(&mut served, b"still there?").unwrap();
            let mut bytes = [0; 12];
            neighbour.read_exact(&mut bytes).await.unwrap();
            neighbour.write_all(b"yes").await.unwrap();

            drop(taken);
            let (mut stream, from) = listener.accept().await.unwrap();
            assert_eq!(from, waiting.local_addr().unwrap());
            stream.write_all(b"welcome").await.unwrap();
            // Nobody else waits: no spinning on an error that is over.
            assert!(poll_a_few(5, listener.accept()).await.is_none());
        });
    }
}
