//! `BLITZEN_TRACE=FILE`: the events of a program in a file, and files that cannot be written.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use blitzen::runtime::{Builder, Runtime};
use blitzen::task::{self, yield_now};

mod observe_common;
use observe_common::Decoded;

/// Tells a child which of the programs below it is to run.
const PROGRAM: &str = "BLITZEN_TEST_PROGRAM";

fn current_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

async fn work(name: &str) {
    let task = task::Builder::new().name(name).spawn(async {
        for _ in 0..10 {
            yield_now().await;
        }
    });
    task.unwrap().await.unwrap();
}

/// The child's part; nothing to do otherwise.
#[test]
fn child() {
    match std::env::var(PROGRAM).as_deref() {
        Err(_) => {}
        Ok("one") => current_thread().block_on(work("worker")),
        Ok("two") => {
            let (first, second) = (current_thread(), current_thread());
            first.block_on(work("first"));
            second.block_on(work("second"));
        }
        Ok("two in turn") => {
            current_thread().block_on(work("first"));
            current_thread().block_on(work("second"));
        }
        Ok("multi") => {
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .trace_buffer(64 << 20) // nothing is lost, however late the file is written
                .build()
                .unwrap();
            runtime.block_on(async {
                for _ in 0..2_000 {
                    task::spawn(work("worker")).await.unwrap();
                }
            });
            runtime.spawn(async {
                loop {
                    yield_now().await;
                }
            });
            // It is dropped while it records.
        }
        Ok("background") => {
            let runtime = Builder::new_multi_thread().build().unwrap();
            runtime.block_on(work("worker"));
            runtime.shutdown_background();
        }
        Ok("until stopped") => {
            let runtime = current_thread();
            while is_recording(&runtime) {
                runtime.block_on(work("worker"));
            }
            println!("went on");
        }
        #[cfg(unix)]
        // SAFETY: it has no arguments, and cannot fail.
        Ok("user") => println!("runs as {}", unsafe { libc::geteuid() }),
        #[cfg(unix)]
        Ok("console") => {
            Builder::new_current_thread().console().build().unwrap();
            println!("has a console");
        }
        Ok(other) => panic!("{other}"),
    }
}

/// Whether a task that is spawned leaves an event behind.
fn is_recording(runtime: &Runtime) -> bool {
    let latest = || {
        let mut bytes = Vec::new();
        runtime.handle().trace().write_perfetto(&mut bytes).unwrap();
        let spawns = Decoded::parse(&bytes).instants_named("spawn");
        spawns.last().map(|spawn| spawn.notes["task"])
    };
    let before = latest();
    runtime.spawn(async {});
    latest() != before
}

/// A folder that is removed with everything in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("blitzen-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program in a child; returns what it says about its trace on standard error, and what
/// it prints.
fn run(program: &str, trace: &Path) -> (Vec<String>, String) {
    let executable = std::env::current_exe().unwrap();
    run_with(&executable, program, &[("BLITZEN_TRACE", trace)])
}

fn run_with(
    executable: &Path,
    program: &str,
    variables: &[(&str, &Path)],
) -> (Vec<String>, String) {
    let output = Command::new(executable)
        .args(["child", "--exact", "--nocapture"])
        .env(PROGRAM, program)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let errors = text(&output.stderr);
    let said = errors.lines().filter(|line| line.starts_with("blitzen: "));
    (said.map(str::to_owned).collect(), text(&output.stdout))
}

/// Only its owner may read the file or write to it, where files have such permissions.
fn assert_restricted(path: &Path) {
    assert!(path.is_file());
    #[cfg(unix)]
    assert_eq!(
        fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn the_events_of_a_program_are_in_a_file_for_its_owner() {
    let folder = Folder::new("trace");
    let file = folder.file("trace.pftrace");
    let (said, _) = run("one", &file);
    assert!(said.is_empty(), "{said:?}");
    assert_restricted(&file);
    let decoded = Decoded::parse(&fs::read(&file).unwrap());
    assert_eq!(decoded.slices_named("worker").len(), 11);
    assert_eq!(decoded.count_flows(), 1);
}

#[test]
fn a_file_that_was_there_is_replaced_and_restricted() {
    let folder = Folder::new("trace-old");
    let file = folder.file("trace.pftrace");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    run("one", &file);
    assert_restricted(&file);
    let decoded = Decoded::parse(&fs::read(&file).unwrap());
    assert_eq!(decoded.slices_named("worker").len(), 11);
}

#[test]
fn runtimes_at_the_same_time_and_in_turn_have_files_of_their_own() {
    for program in ["two", "two in turn"] {
        let folder = Folder::new("trace-two");
        let file = folder.file("trace.pftrace");
        run(program, &file);
        let read = |path| Decoded::parse(&fs::read(path).unwrap());
        assert_eq!(read(file).slices_named("first").len(), 11);
        let second = read(folder.file("trace.pftrace.1"));
        assert_eq!(second.slices_named("second").len(), 11);
    }
}

#[cfg(unix)]
const OTHER_USER: u32 = 12_345;

/// The program with the set-user-ID bit of another user; `None` if that has no effect here.
#[cfg(unix)]
fn set_user_id_copy(folder: &Folder) -> Option<PathBuf> {
    let copy = folder.file("program");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    chown(&copy, Some(OTHER_USER), None).ok()?; // only root can
    fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).unwrap();
    // The copy may write here, and its caller does not keep it from that.
    fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o777)).unwrap();
    let (_, printed) = run_with(&copy, "user", &[]);
    let is_other = printed.contains(&format!("runs as {OTHER_USER}"));
    is_other.then_some(copy)
}

#[test]
#[cfg(unix)]
#[cfg_attr(blitzen_asan, ignore = "leaks cannot be looked for in such a program")]
fn a_program_with_privileges_of_its_own_obeys_no_variable_that_names_a_file() {
    let folder = Folder::new("trace-privilege");
    let Some(program) = set_user_id_copy(&folder) else {
        return;
    };
    let file = folder.file("trace.pftrace");
    let trace = ("BLITZEN_TRACE", file.as_path());
    let (said, _) = run_with(&program, "two", &[trace]);
    let line = "blitzen: BLITZEN_TRACE is ignored: the program has privileges of its own";
    assert_eq!(said, [line]);
    assert!(!file.exists());
    let console = [
        ("BLITZEN_CONSOLE", Path::new("1")),
        ("XDG_RUNTIME_DIR", &folder.0),
    ];
    let (said, _) = run_with(&program, "one", &console);
    assert_eq!(said, [line.replace("TRACE", "CONSOLE")]);
    assert!(!folder.file("blitzen").exists());
    // The builder's wish is granted, but not where the caller says.
    let (_, printed) = run_with(&program, "console", &console[1..]);
    assert!(printed.contains("has a console"), "{printed}");
    assert!(!folder.file("blitzen").exists());
    fs::remove_dir(format!("/tmp/blitzen-{OTHER_USER}")).unwrap();
}

#[test]
fn a_runtime_that_is_dropped_while_it_records_leaves_a_whole_file() {
    let folder = Folder::new("trace-drop");
    let file = folder.file("trace.pftrace");
    let (said, _) = run("multi", &file);
    assert!(said.is_empty(), "{said:?}");
    let decoded = Decoded::parse(&fs::read(&file).unwrap());
    assert!(decoded.slices_named("worker").len() >= 11 * 2_000);
    assert!(decoded.count_flows() >= 2_000);
}

#[test]
fn a_runtime_that_nobody_waits_for_leaves_a_whole_file() {
    let folder = Folder::new("trace-background");
    let file = folder.file("trace.pftrace");
    run("background", &file);
    // The process may have ended at any moment: all that was written is whole.
    Decoded::parse(&fs::read(&file).unwrap());
}

#[test]
#[cfg(unix)]
fn a_link_is_not_followed_and_the_program_goes_on() {
    let folder = Folder::new("trace-link");
    let (target, link) = (folder.file("target"), folder.file("link"));
    fs::write(&target, "precious").unwrap();
    symlink(&target, &link).unwrap();
    let (said, _) = run("one", &link);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("nothing is recorded to"), "{said:?}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn a_file_that_cannot_be_written_is_reported_once() {
    let folder = Folder::new("trace-missing");
    let missing = folder.file("no such folder").join("trace");
    assert_eq!(run("one", &missing).0.len(), 1);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_the_recording_with_one_line_and_not_the_program() {
    let (said, printed) = run("until stopped", Path::new("/dev/full"));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("recording to /dev/full stops"), "{said:?}");
    assert!(printed.contains("went on"));
}
