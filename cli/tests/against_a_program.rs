//! The command against a program that runs: this one.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use blitzen::channel::oneshot;
use blitzen::runtime::{Builder, Runtime};

/// A runtime with a task that waits, and the path of its console.
struct Watched {
    runtime: Option<Runtime>,
    folder: PathBuf,
    _sender: oneshot::Sender<()>,
}

impl Watched {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("blitzen-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .name("watched")
            .enable_all()
            .console_at(folder.join("socket"))
            .build()
            .unwrap();
        let (sender, receiver) = oneshot::channel::<()>();
        let entered = runtime.enter();
        let task = blitzen::task::Builder::new().name("reader\u{1b}[2J");
        drop(task.spawn(async move { drop(receiver.await) }).unwrap());
        drop(entered);
        let watched = Self {
            runtime: Some(runtime),
            folder,
            _sender: sender,
        };
        watched.wait_until_idle();
        watched
    }

    /// Waits until the task has been polled, and waits.
    fn wait_until_idle(&self) {
        let handle = self.runtime.as_ref().unwrap().handle();
        while handle.tasks().iter().any(|task| task.wait().is_none()) {
            std::thread::yield_now();
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blitzen"));
        command
            .arg(args[0])
            .arg(self.folder.join("socket"))
            .args(&args[1..]);
        command
    }

    fn output(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.runtime.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn failure(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn dump_top_and_trace_write_what_the_program_answers() {
    let watched = Watched::new("reports");
    let dump = watched.output(&["dump"]);
    assert!(dump.starts_with("1 task\ntask "), "{dump}");
    assert!(dump.contains(" idle: oneshot 0x"), "{dump}");
    assert!(dump.contains("against_a_program.rs"), "{dump}");
    assert!(
        !dump.contains('\u{1b}'),
        "a name cannot control the terminal"
    );
    // A task that is not polled within a second has no stack.
    let kind = (0..30).find_map(|_| {
        let json = watched.output(&["dump", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["tasks"][0]["stacks"].get(0)?["kind"]
            .as_str()
            .map(str::to_owned)
    });
    assert_eq!(kind.as_deref(), Some("oneshot"));
    watched.wait_until_idle(); // after the poll for the dump
    let top = watched.output(&["top", "--for", "0"]);
    assert!(top.contains("runtime watched"), "{top}");
    assert!(top.contains("  oneshot 0x"), "{top}");

    let file = watched.folder.join("trace.pftrace");
    watched.output(&["trace", file.to_str().unwrap(), "--for", "0.01"]);
    let trace = fs::read(&file).unwrap();
    let name = b"worker 0";
    assert!(trace.windows(name.len()).any(|part| part == name));
    let written = watched.command(&["trace", "-"]).output().unwrap();
    assert!(written.status.success() && !written.stdout.is_empty());
    assert!(
        watched
            .output(&["top", "--for", "0"])
            .contains("recorder off"),
        "as before"
    );
}

#[test]
fn a_trace_is_not_written_through_a_link_and_is_for_its_owner() {
    let watched = Watched::new("private");
    let old = watched.folder.join("old");
    fs::write(&old, vec![7; 1 << 20]).unwrap();
    fs::set_permissions(&old, PermissionsExt::from_mode(0o644)).unwrap();
    watched.output(&["trace", old.to_str().unwrap()]);
    let found = fs::metadata(&old).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!(found.len() < 1 << 20, "the old content is gone");

    let (target, link) = (watched.folder.join("target"), watched.folder.join("link"));
    fs::write(&target, "precious").unwrap();
    symlink(&target, &link).unwrap();
    let output = watched.command(&["trace", link.to_str().unwrap()]).output();
    let why = failure(&output.unwrap());
    assert!(why.contains("link: "), "{why}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn what_cannot_be_looked_into_is_named() {
    let watched = Watched::new("unknown");
    let path = watched.folder.join("nobody");
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_blitzen"))
            .args(args)
            .output()
    };
    let why = failure(&run(&["dump", path.to_str().unwrap()]).unwrap());
    assert!(why.contains("nobody: "), "{why}");
    let why = failure(&run(&["dump", "0"]).unwrap());
    assert!(why.contains("BLITZEN_CONSOLE=1"), "{why}");
    let why = failure(&run(&["frobnicate"]).unwrap());
    assert!(why.contains("unknown command"), "{why}");
    // Something else listens there.
    let other = UnixListener::bind(&path).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream
            .write_all(b"{\"protocol\":\"x\",\"version\":9,\"pid\":1,\"program\":\"y\"}\n")
            .unwrap();
    });
    let why = failure(&run(&["dump", path.to_str().unwrap()]).unwrap());
    assert!(why.contains("speaks x 9"), "{why}");
    answers.join().unwrap();
}

#[test]
fn programs_that_listen_at_the_usual_place_are_listed_and_found_by_number() {
    let watched = Watched::new("listed");
    let usual = watched.folder.join("blitzen");
    fs::create_dir(&usual).unwrap();
    symlink(watched.folder.join("socket"), usual.join("77.1")).unwrap();
    let runtime = Builder::new_current_thread()
        .name("second")
        .console_at(usual.join("77"))
        .build()
        .unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blitzen"));
        command.args(args).env("XDG_RUNTIME_DIR", &watched.folder);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    // A program that was stopped accepts nobody.
    let _silent = UnixListener::bind(usual.join("78")).unwrap();
    let list = run(&["list"]);
    let is_silent = |line: &str| line.starts_with("78 ") && line.ends_with("does not answer");
    assert!(list.lines().any(is_silent), "{list}");
    let is_second = |line: &str| line.starts_with("77 ") && line.ends_with("runtime second");
    assert!(list.lines().any(is_second), "{list}");
    assert!(run(&["top", "77", "--for", "0"]).contains("runtime second"));
    assert!(run(&["top", "77.1", "--for", "0"]).contains("runtime watched"));
    drop(runtime);
}

/// A browser's side of `--web`.
struct Web {
    child: Child,
    port: String,
    token: String,
}

impl Web {
    fn start(watched: &Watched) -> Self {
        let mut command = watched.command(&["console", "--web"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let rest = line
            .trim()
            .strip_prefix("http://127.0.0.1:")
            .expect("an address");
        let (port, token) = rest.trim_end_matches('/').split_once('/').unwrap();
        Self {
            port: port.to_owned(),
            token: token.to_owned(),
            child,
        }
    }

    fn request(&self, method: &str, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = Vec::new();
        // What was too long to be read ends the connection.
        let _ = stream.read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    }

    fn ask(&self, method: &str, resource: &str) -> String {
        let host = format!("localhost:{}", self.port);
        self.request(method, &format!("/{}/{resource}", self.token), &host)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_and_its_data_are_served_to_who_knows_the_token_only() {
    let watched = Watched::new("web");
    let web = Web::start(&watched);
    let page = web.ask("GET", "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("Content-Security-Policy: default-src 'none';"));
    assert!(
        !page.contains("src=\"http") && !page.contains("@import"),
        "it is self-contained"
    );
    let state = web.ask("GET", "state");
    let (_, json) = state.split_once("\r\n\r\n").unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["program"]["runtime"], "watched");
    assert_eq!(json["workers"].as_array().unwrap().len(), 2);
    assert_eq!(json["tasks"][0]["wait"]["kind"], "oneshot");
    assert_eq!(json["waits"][0]["tasks"], 1);
    assert!(
        web.ask("POST", "set_trace/full")
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        watched
            .output(&["top", "--for", "0"])
            .contains("recorder full")
    );
    assert!(web.ask("GET", "trace.pftrace").contains("worker 0"));

    let own = format!("127.0.0.1:{}", web.port);
    let wrong = format!("/{}/state", "0".repeat(web.token.len()));
    for (method, path, host) in [
        ("GET", "/", own.as_str()),
        ("GET", "/state", &own),
        ("GET", &wrong, &own),
        ("GET", &format!("/{}x/state", web.token), &own),
        ("GET", &format!("/{}/abort", web.token), &own),
        ("GET", &format!("/{}/set_trace/off", web.token), &own),
        ("GET", &format!("/{}/state", web.token), "example.org"),
    ] {
        let response = web.request(method, path, host);
        assert!(
            response.starts_with("HTTP/1.1 40"),
            "{path} {host}: {response}"
        );
        assert!(!response.contains("watched"));
    }
    let response = web.request("GET", &"x".repeat(20_000), &own);
    assert!(!response.contains("200 OK"), "{response}");
    assert!(
        watched
            .output(&["top", "--for", "0"])
            .contains("recorder full"),
        "as it was"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn connections_that_send_nothing_take_a_bounded_number_of_threads() {
    const SERVED: usize = 32;
    let watched = Watched::new("silent");
    let web = Web::start(&watched);
    let threads = || {
        let folder = format!("/proc/{}/task", web.child.id());
        fs::read_dir(folder).unwrap().count()
    };
    let connect = |_| TcpStream::connect(format!("127.0.0.1:{}", web.port)).unwrap();
    let silent: Vec<_> = (0..2 * SERVED + 6).map(connect).collect();
    while threads() <= SERVED {
        std::thread::yield_now();
    }
    // Accepted after all of them, and answered when enough of them have had their time.
    let (answered, most) = std::thread::scope(|scope| {
        let page = scope.spawn(|| web.ask("GET", ""));
        let mut most = 0;
        while !page.is_finished() {
            most = most.max(threads());
        }
        (page.join().unwrap(), most.max(threads()))
    });
    assert!(answered.starts_with("HTTP/1.1 200 OK\r\n"), "{answered}");
    // One accepts, and those that have just ended may still be counted.
    assert!(most <= 2 * SERVED + 1, "{most} threads");
    drop(silent);
}

#[test]
fn the_bridge_to_tokio_console_is_given_the_socket_and_the_address() {
    let watched = Watched::new("grpc");
    let run = |path: &std::path::Path| {
        let mut command = watched.command(&["console", "--grpc", "127.0.0.1:6669"]);
        command.env("PATH", path).output().unwrap()
    };
    let why = failure(&run(&watched.folder));
    assert!(
        why.contains("cargo install --locked --path compat/bridge"),
        "{why}"
    );
    let bridge = watched.folder.join("blitzen-console-bridge");
    symlink("/bin/echo", bridge).unwrap();
    let output = run(&watched.folder);
    let expected = format!(
        "{} 127.0.0.1:6669\n",
        watched.folder.join("socket").display()
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
