//! Peers and neighbours on their bad days, by completion: one that never reads,
//! one that floods, a worker that is blocked, a process without descriptors.
#![cfg(blitzen_ring)]

mod completion_common;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::TcpListener;
use blitzen::time::timeout;
use completion_common::{half_pair, pattern, runtime, runtimes};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_peer_that_never_reads_holds_up_nobody_else_and_loses_nothing() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut deaf, mut deaf_peer) = half_pair().await;
            let sent = Arc::new(AtomicUsize::new(0));
            let writing = blitzen::spawn({
                let sent = sent.clone();
                async move {
                    loop {
                        let from = sent.load(SeqCst);
                        let count = deaf.write(&pattern(from, 1500)).await.unwrap();
                        sent.fetch_add(count, SeqCst);
                    }
                }
            });
            let (mut ours, mut theirs) = half_pair().await;
            for n in 0..100 {
                ours.write_all(&pattern(n, 100)).await.unwrap();
                blitzen::task::yield_now().await;
            }
            let answers = thread::spawn(move || {
                let mut bytes = vec![0; 100 * 100];
                theirs.read_exact(&mut bytes).unwrap();
            });
            ours.flush().await.unwrap();
            let joined = blitzen::task::spawn_blocking(move || answers.join());
            timeout(LONG, joined).await.unwrap().unwrap().unwrap();
            // It is stuck by now, or soon; what has answered is on its way.
            let mut before = usize::MAX;
            while before != sent.load(SeqCst) {
                before = sent.load(SeqCst);
                blitzen::time::sleep(Duration::from_millis(20)).await;
            }
            writing.abort();
            assert!(writing.await.unwrap_err().is_cancelled());
            let sent = sent.load(SeqCst);
            let read = blitzen::task::spawn_blocking(move || {
                let mut bytes = Vec::new();
                deaf_peer.read_to_end(&mut bytes).unwrap();
                bytes
            });
            let bytes = timeout(LONG, read).await.unwrap().unwrap();
            assert_eq!(bytes.len(), sent);
            assert!(bytes == pattern(0, sent));
        });
    }
}

#[test]
fn a_peer_that_floods_leaves_its_neighbours_their_turn() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let stop = Arc::new(AtomicBool::new(false));
            let floods: Vec<_> = {
                let mut floods = Vec::new();
                for _ in 0..2 {
                    let (mut ours, mut theirs) = half_pair().await;
                    let stop = stop.clone();
                    floods.push(thread::spawn(move || {
                        while !stop.load(SeqCst) {
                            theirs.write_all(&[7; 4096]).unwrap();
                        }
                    }));
                    blitzen::spawn(async move {
                        let mut buf = vec![0; 300]; // reads far less than comes
                        while ours.read(&mut buf).await.unwrap() > 0 {}
                    });
                }
                floods
            };
            let (mut ours, mut theirs) = half_pair().await;
            let neighbour = thread::spawn(move || {
                let mut bytes = [0; 64];
                for n in 0..50 {
                    theirs.write_all(&pattern(n, 64)).unwrap();
                    theirs.read_exact(&mut bytes).unwrap();
                    assert_eq!(&bytes[..], pattern(n, 64));
                }
            });
            let mut bytes = [0; 64];
            for _ in 0..50 {
                timeout(LONG, ours.read_exact(&mut bytes))
                    .await
                    .unwrap()
                    .unwrap();
                ours.write_all(&bytes).await.unwrap();
                ours.flush().await.unwrap();
                blitzen::task::yield_now().await;
            }
            let neighbour = blitzen::task::spawn_blocking(move || neighbour.join());
            timeout(LONG, neighbour).await.unwrap().unwrap().unwrap();
            stop.store(true, SeqCst);
            for flood in floods {
                let flood = blitzen::task::spawn_blocking(move || flood.join());
                timeout(LONG, flood).await.unwrap().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn the_sockets_of_a_blocked_worker_are_served_by_another() {
    let Some(runtime) = runtime(2) else { return };
    let (release, blocked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let echo = async |mut ours: blitzen::net::TcpStream| {
        let mut buf = [0; 64];
        loop {
            match ours.read(&mut buf).await {
                Ok(0) | Err(_) => break,
                Ok(count) => ours.write_all(&buf[..count]).await.unwrap(),
            }
        }
    };
    // Streams that live with each of the workers, in use.
    let mut peers: Vec<_> = (0..8)
        .map(|_| {
            let tell = tell.clone();
            runtime.spawn(async move {
                let (ours, theirs) = half_pair().await;
                tell.send(theirs).unwrap();
                echo(ours).await;
            });
            told.recv_timeout(LONG).unwrap()
        })
        .collect();
    let mut ping = |round: usize| {
        for theirs in &mut peers {
            theirs.write_all(&pattern(round, 64)).unwrap();
            let mut bytes = [0; 64];
            theirs.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes[..], pattern(round, 64));
        }
    };
    for round in 0..10 {
        ping(round);
    }
    let (tell, is_blocked) = mpsc::channel();
    runtime.spawn(async move {
        tell.send(()).unwrap();
        blocked.recv().unwrap(); // blocks its worker
    });
    is_blocked.recv_timeout(LONG).unwrap();
    for round in 10..20 {
        ping(round);
    }
    release.send(()).unwrap();
    for round in 20..30 {
        ping(round);
    }
}

#[test]
fn accept_says_when_there_are_no_descriptors_and_goes_on_later() {
    const CHILD: &str = "BLITZEN_TEST_FEW_DESCRIPTORS";
    if std::env::var(CHILD).is_err() {
        // In a process of its own: it takes from all that run beside it.
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["accept_says", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let few = libc::rlimit {
        rlim_cur: 128,
        rlim_max: 128,
    };
    // SAFETY: a structure that outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) }, 0);
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut clients: Vec<_> = (0..2)
                .map(|_| std::net::TcpStream::connect(address).unwrap())
                .collect();
            let mut taken = Vec::new();
            while let Ok(file) = std::fs::File::open("/dev/null") {
                taken.push(file);
            }
            let error = timeout(LONG, listener.accept()).await.unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            drop(taken);
            for client in &mut clients {
                let (mut stream, from) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
                assert_eq!(from, client.local_addr().unwrap());
                stream.write_all(b"welcome").await.unwrap();
                stream.shutdown().await.unwrap();
                let mut text = String::new();
                client.read_to_string(&mut text).unwrap();
                assert_eq!(text, "welcome");
            }
        });
    }
}
