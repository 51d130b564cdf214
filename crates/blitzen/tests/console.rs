//! The console's socket: what it answers, to whom, and whom it cannot harm.

#![cfg(unix)]

use std::fs;
use std::future::{pending, poll_fn};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use blitzen::runtime::lint::LintKind;
use blitzen::runtime::{Builder, Runtime, TraceMode};

/// Long enough that only what never comes runs into it.
const FOREVER: Duration = Duration::from_secs(60);

/// A folder for sockets that is removed with its contents.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("blitzen-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn runtime_at(path: &Path) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .name("watched")
        .enable_all()
        .console_at(path)
        .build()
        .unwrap()
}

/// A connection to a console.
struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(FOREVER)).unwrap();
        let mut client = Self(BufReader::new(stream));
        let greeting = client.line();
        assert!(
            greeting.starts_with(r#"{"protocol":"blitzen-console","version":1,"#),
            "{greeting}"
        );
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn send(&mut self, bytes: &[u8]) {
        // Whether the other side has closed the connection shows in what it has answered.
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// The answer to the next request: its first word, and its bytes.
    fn answer(&mut self) -> (String, Vec<u8>) {
        let line = self.line();
        let (word, len) = line.trim_end().split_once(' ').expect("an answer");
        let mut bytes = vec![0; len.parse().unwrap()];
        self.0.read_exact(&mut bytes).unwrap();
        (word.to_owned(), bytes)
    }

    fn ask(&mut self, request: &str) -> String {
        let (word, bytes) = self.ask_bytes(request);
        assert_eq!(word, "ok", "{request}");
        String::from_utf8(bytes).unwrap()
    }

    fn ask_bytes(&mut self, request: &str) -> (String, Vec<u8>) {
        self.send(format!("{request}\n").as_bytes());
        self.answer()
    }

    /// Whether the other side has closed the connection.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Blocks a worker of `runtime` until the sender is dropped.
fn block_worker(runtime: &Runtime) -> mpsc::Sender<()> {
    let (begun, beginning) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    runtime.spawn(async move {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    beginning.recv().unwrap();
    release
}

#[test]
fn a_client_sees_the_runtime_although_its_worker_is_stuck() {
    let folder = Folder::new("seen");
    let runtime = runtime_at(&folder.socket());
    let _idle = runtime.spawn(pending::<()>());
    let release = block_worker(&runtime);
    let mut client = Client::connect(&folder.socket());

    let stats = client.ask("stats");
    assert!(stats.contains(r#""flavor":"multi_thread","trace":"off","alive_tasks":2,"#));
    assert!(stats.contains(r#""workers":[{"state":"running","task":"#));
    let tasks = client.ask("tasks");
    assert_eq!(tasks, runtime.handle().tasks().to_json());
    let dump = client.ask("dump 1");
    assert!(dump.starts_with(r#"{"tasks":[{"id":"#), "{dump}");
    assert_eq!(dump.matches(r#""stacks":[]"#).count(), 2, "{dump}");

    // Each answer goes on where the last one ended.
    client.ask("set_trace full");
    assert!(client.ask("stats").contains(r#""trace":"full""#));
    drop(runtime.spawn(async {}));
    let line = line!() - 1;
    let events = client.ask("events");
    assert_eq!(events.matches(r#","spawn","#).count(), 1, "{events}");
    assert!(events.contains(&format!("console.rs:{line}:")), "{events}");
    assert!(!events.contains(r#","name","#), "{events}");
    let entered = runtime.enter();
    let named = blitzen::task::Builder::new().name("a b");
    drop(named.spawn(async {}).unwrap());
    drop(entered);
    let events = client.ask("events");
    assert_eq!(events.matches(r#","spawn","#).count(), 1, "{events}");
    assert!(events.contains(r#","name",97,32,98]"#), "{events}");
    client.ask("set_trace off");
    assert!(client.ask("stats").contains(r#""trace":"off""#));
    let (word, trace) = client.ask_bytes("trace");
    assert_eq!(word, "ok");
    let name = b"worker 0";
    assert!(trace.windows(name.len()).any(|part| part == name));
    drop(release);
}

#[test]
fn a_worker_whose_thread_blocks_in_place_is_not_parked() {
    let folder = Folder::new("blocking");
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .console_at(folder.socket())
        .build()
        .unwrap();
    let mut client = Client::connect(&folder.socket());
    let (begun, has_begun) = mpsc::channel();
    let block_in_place = || {
        let (begun, (release, wait)) = (begun.clone(), mpsc::channel::<()>());
        runtime.spawn(async move {
            blitzen::task::block_in_place(|| {
                begun.send(()).unwrap();
                let _ = wait.recv();
            });
        });
        has_begun.recv().unwrap();
        release
    };
    // A thread goes on with the worker of the first one, and none is left for the second.
    let releases = [block_in_place(), block_in_place()];
    let stats = client.ask("stats");
    assert!(
        stats.contains(r#""workers":[{"state":"blocking","task":null,"#),
        "{stats}"
    );
    drop(releases);
    while !client.ask("stats").contains(r#""state":"parked""#) {}
}

#[test]
fn the_lints_of_a_runtime_are_kept_for_its_console() {
    let folder = Folder::new("lints");
    let mut builder = Builder::new_multi_thread();
    let (found, lints) = mpsc::channel();
    builder
        .on_lint(move |lint| drop(found.send((lint.kind(), lint.to_string()))))
        .console_at(folder.socket());
    let runtime = builder.build().unwrap();
    let task = runtime.spawn(pending::<()>()); // keeps no waker
    // Others may come on a machine that is slow.
    let (_, lint) = lints
        .iter()
        .find(|(kind, _)| *kind == LintKind::LostWaker)
        .unwrap();
    let answer = Client::connect(&folder.socket()).ask("lints");
    assert!(
        answer.contains(&format!(r#""kind":"lost waker","task":{}"#, task.id())),
        "{answer}"
    );
    assert!(answer.contains(&lint.replace('"', "\\\"")), "{answer}");
    task.abort();
}

#[test]
fn nonsense_is_refused_and_harms_nobody() {
    let folder = Folder::new("nonsense");
    let runtime = runtime_at(&folder.socket());
    let mut other = Client::connect(&folder.socket());
    let mut client = Client::connect(&folder.socket());
    for request in [
        "",
        "abort 1",
        "dump soon",
        "set_trace",
        "set_trace loud",
        "hold_trace",
        "stats 1 2",
        "\u{0}",
    ] {
        let (word, why) = client.ask_bytes(request);
        assert_eq!(word, "error", "{request:?}");
        assert!(!why.is_empty());
    }
    client.send(b"\xff\xfe\n");
    assert_eq!(client.answer().0, "error");
    // Several requests at once, and one in pieces.
    client.send(b"tasks\nta");
    assert_eq!(client.answer().1, b"[]");
    client.send(b"sks\n");
    assert_eq!(client.answer().1, b"[]");
    client.send(&[b'x'; 256]);
    assert_eq!(client.answer().0, "error");
    assert!(client.is_closed());
    assert_eq!(other.ask("tasks"), "[]");
    drop(runtime);
}

#[test]
fn a_client_that_goes_in_the_middle_or_reads_nothing_holds_up_no_other() {
    let folder = Folder::new("gone");
    let runtime = runtime_at(&folder.socket());
    for _ in 0..2_000 {
        runtime.spawn(pending::<()>());
    }
    let mut lazy = Client::connect(&folder.socket());
    lazy.send(&b"tasks\n".repeat(40));
    for _ in 0..20 {
        Client::connect(&folder.socket()).send(b"sta"); // half a request
        Client::connect(&folder.socket()).send(b"tasks\n"); // and does not wait for the answer
        drop(UnixStream::connect(folder.socket()).unwrap());
    }
    // Until the thread has noticed that the others are gone, there may be too many clients.
    while Client::connect(&folder.socket()).ask_bytes("tasks").0 != "ok" {}
    for _ in 0..40 {
        let tasks = String::from_utf8(lazy.answer().1).unwrap();
        let count = tasks.matches(r#"{"id":"#).count();
        assert_eq!(count, 2_000, "what was asked for is still sent");
    }
    drop(runtime);
}

#[test]
fn more_clients_than_are_served_are_told_so() {
    let folder = Folder::new("many");
    let runtime = runtime_at(&folder.socket());
    let mut clients: Vec<_> = (0..8).map(|_| Client::connect(&folder.socket())).collect();
    let mut ninth = Client::connect(&folder.socket());
    assert_eq!(ninth.answer().0, "error");
    assert!(ninth.is_closed());
    for client in &mut clients {
        assert_eq!(client.ask("tasks"), "[]");
    }
    drop(runtime);
}

#[test]
fn a_dump_during_the_shutdown_ends_with_it_and_the_socket_is_removed() {
    let folder = Folder::new("shutdown");
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .console_at(folder.socket())
        .build()
        .unwrap();
    let release = block_worker(&runtime);
    let (polled, polls) = mpsc::channel();
    runtime.spawn(poll_fn::<(), _>(move |_| {
        polled.send(()).unwrap();
        Poll::Pending
    }));
    polls.recv().unwrap();
    let mut idle = Client::connect(&folder.socket());
    let mut client = Client::connect(&folder.socket());
    client.send(b"dump 10000\n"); // of a worker that is stuck
    polls.recv().unwrap(); // the dump has begun
    runtime.shutdown_background();
    assert!(!folder.socket().exists());
    // The answer or nothing, and then the end.
    let mut rest = Vec::new();
    let _ = client.0.read_to_end(&mut rest);
    assert!(idle.is_closed());
    drop(release);
    // The path is free for another.
    let runtime = runtime_at(&folder.socket());
    assert_eq!(Client::connect(&folder.socket()).ask("tasks"), "[]");
    drop(runtime);
    assert!(!folder.socket().exists());
}

#[test]
fn a_path_in_use_is_an_error_of_the_builder() {
    let folder = Folder::new("in-use");
    let runtime = runtime_at(&folder.socket());
    let second = Builder::new_current_thread()
        .console_at(folder.socket())
        .build();
    assert_eq!(second.unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(Client::connect(&folder.socket()).ask("tasks"), "[]");
    drop(runtime);
}

/// Needs root, to become somebody else.
#[test]
#[cfg(target_os = "linux")]
fn the_client_of_another_user_is_closed_without_a_word() {
    use std::os::unix::fs::PermissionsExt;

    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let folder = Folder::new("other-user");
    let runtime = runtime_at(&folder.socket());
    assert_eq!(fs::metadata(folder.socket()).unwrap().mode() & 0o777, 0o600);
    // Without this the file system refuses it.
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(folder.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let path = folder.socket();
    let refused = std::thread::spawn(move || {
        const NOBODY: libc::c_long = 65_534;
        // SAFETY: the system call itself concerns this thread only, which then ends.
        let status = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(status, 0);
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(FOREVER)).unwrap();
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        received
    });
    assert_eq!(refused.join().unwrap(), b"");
    assert_eq!(Client::connect(&folder.socket()).ask("tasks"), "[]");
    drop(runtime);
}

/// Set for the process that is to be looked at.
const CHILD: &str = "BLITZEN_TEST_CONSOLE_CHILD";

fn be_looked_at() {
    let runtimes = [(); 2].map(|()| Runtime::new().unwrap());
    println!("listens");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(runtimes);
    println!("ended");
}

#[test]
fn the_environment_asks_for_a_socket_in_a_private_folder() {
    if std::env::var_os(CHILD).is_some() {
        return be_looked_at();
    }
    let folder = Folder::new("environment");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("the_environment_asks_for_a_socket_in_a_private_folder")
        .env(CHILD, "1")
        .env("BLITZEN_CONSOLE", "1")
        .env("XDG_RUNTIME_DIR", &folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("listens")));
    let sockets = folder.0.join("blitzen");
    assert_eq!(fs::metadata(&sockets).unwrap().mode() & 0o777, 0o700);
    for name in [child.id().to_string(), format!("{}.1", child.id())] {
        let path = sockets.join(name);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Client::connect(&path).ask("tasks"), "[]");
    }
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(lines.any(|line| line.contains("ended")));
    assert_eq!(fs::read_dir(&sockets).unwrap().count(), 0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_a_client_switches_on_another_sees() {
    let folder = Folder::new("two");
    let runtime = runtime_at(&folder.socket());
    let (mut one, mut two) = (
        Client::connect(&folder.socket()),
        Client::connect(&folder.socket()),
    );
    one.ask("set_trace sampled");
    assert!(two.ask("stats").contains(r#""trace":"sampled""#));
    runtime.handle().set_trace(TraceMode::Off);
    assert!(one.ask("stats").contains(r#""trace":"off""#));
}

#[test]
fn what_a_client_holds_ends_with_its_connection() {
    let folder = Folder::new("held");
    let runtime = runtime_at(&folder.socket());
    let has_mode = |client: &mut Client, mode| {
        let field = format!(r#""trace":"{mode}""#);
        client.ask("stats").contains(&field)
    };
    let (mut one, mut two, mut other) = (
        Client::connect(&folder.socket()),
        Client::connect(&folder.socket()),
        Client::connect(&folder.socket()),
    );
    one.ask("hold_trace full");
    assert!(has_mode(&mut other, "full"));
    two.ask("hold_trace sampled");
    other.ask("set_trace off");
    assert!(has_mode(&mut other, "full"));
    one.send(b"dump"); // it is in the middle of a request when it goes
    drop(one);
    while !has_mode(&mut other, "sampled") {}
    two.ask("hold_trace off");
    assert!(has_mode(&mut other, "off"));
    two.ask("hold_trace full");
    runtime.handle().set_trace(TraceMode::Sampled);
    two.send(&b"trace\n".repeat(20)); // it does not read the answers
    drop(two);
    while !has_mode(&mut other, "sampled") {}
}

#[test]
fn a_client_with_many_requests_does_not_go_before_others() {
    const REQUESTS: usize = 100;
    let folder = Folder::new("fair");
    let runtime = runtime_at(&folder.socket());
    let release = block_worker(&runtime);
    let (mut greedy, mut other) = (
        Client::connect(&folder.socket()),
        Client::connect(&folder.socket()),
    );
    // Each takes its time, since the worker is stuck.
    greedy.send(&b"dump 100\n".repeat(REQUESTS));
    other.ask("stats");
    greedy.0.get_ref().set_nonblocking(true).unwrap();
    let mut answers = Vec::new();
    let _ = greedy.0.read_to_end(&mut answers);
    let answers = String::from_utf8(answers).unwrap();
    let count = answers.matches("ok ").count();
    assert!(count < REQUESTS, "the other was answered after {count}");
    drop(release);
}
