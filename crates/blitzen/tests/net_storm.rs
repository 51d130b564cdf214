//! Many connections: all at once, or idle for long.

mod net_common;

use std::io::{Read, Write};

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::TcpListener;
use net_common::{runtimes, with_workers};

#[test]
fn a_storm_of_connections_is_served_to_the_last() {
    const THREADS: usize = 8;
    const EACH: usize = 250;
    for runtime in runtimes() {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let clients: Vec<_> = (0..THREADS)
                .map(|thread| {
                    std::thread::spawn(move || {
                        for number in 0..EACH {
                            let mut stream = std::net::TcpStream::connect(address).unwrap();
                            let question = ((thread * EACH + number) as u64).to_be_bytes();
                            stream.write_all(&question).unwrap();
                            let mut answer = [0; 8];
                            stream.read_exact(&mut answer).unwrap();
                            assert_eq!(answer, question);
                        }
                    })
                })
                .collect();
            let mut tasks = blitzen::task::JoinSet::new();
            for _ in 0..THREADS * EACH {
                let (mut stream, _) = listener.accept().await.unwrap();
                tasks.spawn(async move {
                    let mut bytes = [0; 8];
                    stream.read_exact(&mut bytes).await.unwrap();
                    stream.write_all(&bytes).await.unwrap();
                });
            }
            while let Some(served) = tasks.join_next().await {
                served.unwrap();
            }
            for client in clients {
                client.join().unwrap();
            }
        });
    }
}

/// The variable that tells a copy of this program whom to call, and how often.
#[cfg(target_os = "linux")]
const CALL: &str = "NET_STORM_CALL";

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_idle_connections_cost_little_and_are_all_served_in_the_end() {
    // poll(2) looks at every descriptor each time.
    const COUNT: usize = match cfg!(blitzen_poll) {
        true => 1000,
        false => 10_000,
    };
    // The other ends are in another process, for a limit on descriptors of its own.
    if let Ok(address) = std::env::var(CALL) {
        // Each is greeted before the next calls: systems that let few wait to be
        // accepted make the others wait for a second.
        let mut streams: Vec<_> = (0..COUNT)
            .map(|_| {
                let mut stream = std::net::TcpStream::connect(&address).unwrap();
                stream.read_exact(&mut [0]).unwrap();
                stream
            })
            .collect();
        for stream in &mut streams {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&byte).unwrap();
        }
        return;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a structure that outlives the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(known, 0);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above. It reaches the other process too.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    if limit.rlim_cur < COUNT as libc::rlim_t + 200 {
        eprintln!(
            "only {} descriptors allowed: nothing is shown",
            limit.rlim_cur
        );
        return;
    }

    let runtime = with_workers(2);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "ten_thousand_idle_connections_cost_little_and_are_all_served_in_the_end",
            ])
            .env(CALL, address.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let before = resident();
        let (begin, begun) = blitzen::channel::watch::channel(false);
        let mut tasks = blitzen::task::JoinSet::new();
        for number in 0..COUNT {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"!").await.unwrap();
            let mut begun = begun.clone();
            tasks.spawn(async move {
                begun.wait_for(|begun| *begun).await.unwrap();
                let question = [number as u8];
                stream.write_all(&question).await.unwrap();
                let mut answer = [0];
                stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(answer, question);
            });
        }
        let each = resident().saturating_sub(before) / COUNT;
        println!("{each} bytes for each idle connection and its task");
        // A buffer for each of them would show.
        assert!(each < 4096, "{each} bytes for each idle connection");
        begin.send(true).unwrap();
        while let Some(served) = tasks.join_next().await {
            served.unwrap();
        }
        assert!(clients.wait().unwrap().success());
    });
}
