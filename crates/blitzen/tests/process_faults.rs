//! Children that misbehave, awaited by pidfd and by SIGCHLD.
#![cfg(unix)]

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use blitzen::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use blitzen::process::{Child, Command};
use blitzen::runtime::{Builder, Runtime};
use blitzen::task::JoinSet;

/// Far more than anything here takes, on the busiest machine.
const TEST_LIMIT: Duration = Duration::from_secs(60);

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap(),
    ]
}

/// Runs a test on both kinds of runtimes; one that hangs fails.
fn everywhere<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for runtime in runtimes() {
        runtime.block_on(async {
            let done = blitzen::time::timeout(TEST_LIMIT, test()).await;
            done.expect("the test does not hang");
        });
    }
}

/// Waits for a condition of which there is no event.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TEST_LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn signal(pid: u32, signal: i32) -> bool {
    // SAFETY: sends a signal to a child of ours.
    unsafe { libc::kill(pid as libc::pid_t, signal) == 0 }
}

/// Whether there is still something of a process, if only a zombie.
fn exists(pid: u32) -> bool {
    signal(pid, 0)
}

/// Its state as the system shows it, if it is there.
#[cfg(target_os = "linux")]
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('Z'))
}

fn lines(child: &mut Child) -> blitzen::io::Lines<BufReader<blitzen::process::ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

#[test]
fn a_child_that_ignores_sigterm_can_be_killed() {
    everywhere(|| async {
        let mut child = sh("trap '' TERM; echo ready; read line; echo alive; read line")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = lines(&mut child);
        let mut stdin = child.stdin.take().unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
        assert!(signal(child.id().unwrap(), libc::SIGTERM));
        stdin.write_all(b"well?\n").await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "alive");
        child.kill().await.unwrap();
        let status = child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        assert_eq!(child.id(), None);
    });
}

#[test]
fn a_child_that_closes_its_pipes_early_goes_on() {
    everywhere(|| async {
        let mut child = sh("exec <&- >&- 2>&-; sleep 1000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .unwrap();
        let mut bytes = Vec::new();
        let mut stdout = child.stdout.take().unwrap();
        assert_eq!(stdout.read_to_end(&mut bytes).await.unwrap(), 0);
        let mut stderr = child.stderr.take().unwrap();
        assert_eq!(stderr.read_to_end(&mut bytes).await.unwrap(), 0);
        let mut stdin = child.stdin.take().unwrap();
        let error = loop {
            if let Err(error) = stdin.write_all(&[0; 4096]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        assert!(child.try_wait().unwrap().is_none());
        let group = child.id().unwrap();
        child.kill().await.unwrap();
        // SAFETY: what the shell may have started.
        unsafe { libc::kill(-(group as libc::pid_t), libc::SIGKILL) };
    });
}

#[test]
fn a_child_that_outlives_the_interest_in_it_leaves_no_zombie() {
    everywhere(|| async {
        let mut child = sh("read line; exit 3")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().unwrap();
        let stdin = child.stdin.take();
        drop(child);
        assert!(exists(pid), "it was not killed");
        drop(stdin);
        until("it is reaped", || !exists(pid));
    });
}

#[test]
fn a_child_that_is_killed_on_drop_leaves_no_zombie() {
    everywhere(|| async {
        let child = sh("exec sleep 1000").kill_on_drop(true).spawn().unwrap();
        let pid = child.id().unwrap();
        drop(child);
        until("it is reaped", || !exists(pid));
    });
}

#[test]
fn children_whose_runtime_is_gone_leave_no_zombies() {
    for runtime in runtimes() {
        let (reader, writer) = std::io::pipe().unwrap();
        let pids = runtime.block_on(async {
            let start = |kill_on_drop| {
                let mut child = Command::new("cat")
                    .stdin(reader.try_clone().unwrap())
                    .kill_on_drop(kill_on_drop)
                    .spawn()
                    .unwrap();
                let pid = child.id().unwrap();
                blitzen::spawn(async move { child.wait().await });
                pid
            };
            let pids = [true, false].map(start);
            blitzen::task::yield_now().await; // they are waited for, most likely
            pids
        });
        drop(runtime);
        until("the one is killed", || !exists(pids[0]));
        assert!(exists(pids[1]), "the other goes on");
        drop((reader, writer));
        until("the other is reaped", || !exists(pids[1]));
    }
}

#[test]
fn a_child_outlives_its_runtime_in_another() {
    for (runtime, elsewhere) in runtimes().into_iter().zip(runtimes()) {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut child = runtime.block_on(async {
            let mut child = Command::new("cat").stdin(reader).spawn().unwrap();
            let wait = blitzen::time::timeout(Duration::from_millis(1), child.wait());
            assert!(wait.await.is_err());
            child
        });
        drop(runtime);
        let status = elsewhere.block_on(async {
            let end_it = async {
                blitzen::task::yield_now().await;
                drop(writer);
            };
            let wait = blitzen::time::timeout(TEST_LIMIT, child.wait());
            blitzen::join!(wait, end_it).0
        });
        assert!(status.expect("the exit is seen").unwrap().success());
    }
}

#[test]
fn a_child_that_is_dropped_on_a_thread_of_no_runtime_leaves_no_zombie() {
    for runtime in runtimes() {
        let children: Vec<Child> = runtime.block_on(async {
            let mut children = Vec::new();
            for polled in [false, true] {
                let mut child = Command::new("sleep");
                let mut child = child.arg("1000").kill_on_drop(true).spawn().unwrap();
                if polled {
                    // It is registered for the exit.
                    let wait = blitzen::time::timeout(Duration::from_millis(1), child.wait());
                    wait.await.unwrap_err();
                }
                children.push(child);
            }
            children
        });
        let pids: Vec<u32> = children.iter().filter_map(Child::id).collect();
        assert_eq!(pids.len(), 2);
        // One while the runtime lives, one after it has ended.
        let mut children = children.into_iter();
        let first = children.next().unwrap();
        std::thread::spawn(move || drop(first)).join().unwrap();
        drop(runtime);
        std::thread::spawn(move || drop(children)).join().unwrap();
        for pid in pids {
            until("it is reaped", || !exists(pid));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_that_is_only_held_waits_for_its_owner() {
    everywhere(|| async {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id().unwrap();
        until("it has ended", || is_zombie(pid));
        assert_eq!(child.id(), Some(pid), "its number is kept for the owner");
        assert!(child.wait().await.unwrap().success());
        assert!(!exists(pid));
    });
}

/// As many as the system lets us have: each child that is waited for has one.
fn allow_many_descriptors() {
    // SAFETY: reads and writes a limit of ours.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_cur.max(limit.rlim_max.min(4 * 1024));
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

#[test]
fn a_thousand_children_at_once_are_all_awaited() {
    const CHILDREN: usize = 1_000;
    allow_many_descriptors();
    let [_, runtime] = runtimes();
    runtime.block_on(async {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut children = JoinSet::new();
        for index in 0..CHILDREN {
            let mut child = sh("read line; exit $0")
                .arg((index % 100).to_string())
                .stdin(reader.try_clone().unwrap())
                .spawn()
                .unwrap();
            children.spawn(async move { (index, child.wait().await.unwrap()) });
        }
        drop((reader, writer)); // they all end now
        let mut ended = 0;
        while let Some(done) = blitzen::time::timeout(TEST_LIMIT, children.join_next())
            .await
            .expect("every exit is seen")
        {
            let (index, status) = done.unwrap();
            assert_eq!(status.code(), Some((index % 100) as i32));
            ended += 1;
        }
        assert_eq!(ended, CHILDREN);
    });
}

#[test]
fn a_hundred_children_dropped_at_once_are_all_reaped() {
    let [runtime, _] = runtimes();
    let (reader, writer) = std::io::pipe().unwrap();
    let pids: Vec<u32> = runtime.block_on(async {
        let start = |_| {
            let child = Command::new("cat")
                .stdin(reader.try_clone().unwrap())
                .spawn();
            child.unwrap().id().unwrap() // and dropped
        };
        (0..100).map(start).collect()
    });
    drop(runtime);
    assert!(pids.iter().all(|pid| exists(*pid)));
    drop((reader, writer));
    for pid in pids {
        until("it is reaped", || !exists(pid));
    }
}

#[test]
fn a_child_that_is_dropped_while_another_lives_on_is_reaped() {
    everywhere(|| async {
        let start = || {
            let (reader, writer) = std::io::pipe().unwrap();
            let child = Command::new("cat").stdin(reader).spawn().unwrap();
            (child.id().unwrap(), writer) // and dropped
        };
        let (old, kept) = start();
        for _ in 0..5 {
            let (young, writer) = start();
            drop(writer);
            until("the young one is reaped", || !exists(young));
            assert!(exists(old));
        }
        drop(kept);
        until("the old one is reaped", || !exists(old));
    });
}

#[cfg(target_os = "linux")]
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_program_that_is_not_there_or_may_not_be_run_is_an_error() {
    let folder = std::env::temp_dir().join(format!("blitzen-process-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = folder.join("text");
    std::fs::write(&text, "not a program").unwrap();
    everywhere(|| async {
        let piped = |program: &std::path::Path| {
            let mut command = Command::new(program);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        };
        let missing = folder.join("missing");
        assert_eq!(
            piped(&missing).spawn().unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let refused = piped(&text).spawn().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        let refused = piped(&folder).output().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        let mut elsewhere = Command::new("true");
        elsewhere.current_dir(&missing);
        assert_eq!(
            elsewhere.status().await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn any_number_of_arguments_and_variables_arrives() {
    everywhere(|| async {
        let mut command = sh("echo $# $BLITZEN_777");
        command.args((0..10_000).map(|n| n.to_string()));
        command.envs((0..1_000).map(|n| (format!("BLITZEN_{n}"), format!("value {n}"))));
        let output = command.output().await.unwrap();
        assert_eq!(output.stdout, b"9999 value 777\n");
        // More than the system takes is refused by the system.
        let mut command = Command::new("true");
        command.arg("x".repeat(8 << 20));
        let error = command.spawn().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
    });
}

#[test]
fn a_pipeline_hands_its_pipes_on() {
    everywhere(|| async {
        let mut first = sh("echo hello; echo oops >&2")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let from_first: Stdio = first.stdout.take().unwrap().try_into().unwrap();
        let mut second = Command::new("cat")
            .stdin(from_first)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let fd: OwnedFd = second.stdout.take().unwrap().into_owned_fd().unwrap();
        // SAFETY: asks about an open descriptor.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0, "others expect it to block");
        let text = std::io::read_to_string(std::fs::File::from(fd)).unwrap();
        assert_eq!(text, "hello\n");
        let output = first.wait_with_output().await.unwrap();
        assert_eq!(output.stderr, b"oops\n");
        assert!(second.wait().await.unwrap().success());
    });
}

#[test]
fn an_input_that_nobody_writes_is_closed_before_the_wait() {
    everywhere(|| async {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        assert!(command.spawn().unwrap().wait().await.unwrap().success());
        let output = command.spawn().unwrap().wait_with_output().await.unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
        assert!(command.status().await.unwrap().success());
    });
}

#[test]
fn a_wait_that_was_dropped_can_be_made_again() {
    everywhere(|| async {
        let mut child = sh("read line; exit 5")
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        for _ in 0..3 {
            let wait = blitzen::time::timeout(Duration::from_millis(1), child.wait());
            assert!(wait.await.is_err());
        }
        drop(stdin);
        assert_eq!(child.wait().await.unwrap().code(), Some(5));
    });
}

#[test]
fn much_output_on_both_streams_is_collected() {
    everywhere(|| async {
        let output = sh("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2")
            .output()
            .await
            .unwrap();
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (1_000_000, 1_000_000)
        );
    });
}

/// A signal for the process would nearly always go to the same thread.
#[cfg(target_os = "linux")]
fn send_to_every_thread(signal: i32) -> u64 {
    let mut count = 0;
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let id: libc::pid_t = thread.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: a signal to a thread of ours, for which there is a handler; to
        // none, if it has ended.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, signal) };
        count += 1;
    }
    count
}

#[cfg(not(target_os = "linux"))]
fn send_to_every_thread(signal: i32) -> u64 {
    // SAFETY: a signal to ourselves, for which there is a handler.
    unsafe { libc::kill(libc::getpid(), signal) };
    1
}

#[test]
fn calls_that_signals_interrupt_are_made_again() {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: a handler that does nothing; without SA_RESTART, so that calls
    // which wait return early.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()),
            0
        );
    }
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let sender = std::thread::spawn(|| {
        let mut count = 0_u64;
        while !IS_DONE.load(Relaxed) {
            count += send_to_every_thread(libc::SIGUSR2);
            std::thread::sleep(Duration::from_micros(50));
        }
        count
    });
    everywhere(|| async {
        for round in 0..20 {
            let mut child = sh("read line; echo got $line; exit 7")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let text = format!("{round}\n");
            child
                .stdin
                .take()
                .unwrap()
                .write_all(text.as_bytes())
                .await
                .unwrap();
            let output = child.wait_with_output().await.unwrap();
            assert_eq!(output.status.code(), Some(7));
            assert_eq!(output.stdout, format!("got {round}\n").into_bytes());
            let dropped = Command::new("true").spawn().unwrap();
            let pid = dropped.id().unwrap();
            drop(dropped);
            until("it is reaped", || !exists(pid));
        }
    });
    IS_DONE.store(true, Relaxed);
    assert!(sender.join().unwrap() > 0);
}

/// Runs all of these tests once more, in a process that uses SIGCHLD instead of
/// pidfds.
#[test]
fn all_of_it_holds_with_sigchld() {
    if std::env::var_os("BLITZEN_CHILD").is_some() {
        return;
    }
    // All at once; and one alone, where no other test's runtime dispatches.
    let alone = ["children_whose_runtime_is_gone_leave_no_zombies", "--exact"];
    for chosen in [&[][..], &alone] {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(chosen)
            .env("BLITZEN_CHILD", "sigchld")
            .output()
            .unwrap();
        let said = [again.stdout, again.stderr].concat();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

/// In a process of its own, where no other test opens descriptors.
#[cfg(target_os = "linux")]
#[test]
fn no_descriptor_is_left_open() {
    const ALONE: &str = "BLITZEN_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["no_descriptor_is_left_open", "--exact", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        assert!(
            alone.status.success(),
            "{}",
            String::from_utf8_lossy(&alone.stderr)
        );
        return;
    }
    let [runtime, _] = runtimes();
    runtime.block_on(async {
        let round = || async {
            let mut command = sh("cat; echo oops >&2");
            command.stdin(Stdio::null()).output().await.unwrap();
            let mut nowhere = Command::new("/nowhere/at/all");
            nowhere.output().await.unwrap_err();
        };
        round().await;
        // The process has a pipe for signals from the first listener on.
        drop(blitzen::signal::unix::signal(blitzen::signal::unix::SignalKind::child()).unwrap());
        let before = descriptors();
        for _ in 0..10 {
            round().await;
            drop(Command::new("true").spawn().unwrap());
        }
        // The thread that collects has some as long as it lives.
        until("they are closed", || descriptors() <= before);
    });
}
