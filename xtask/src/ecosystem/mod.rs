//! Programs on widely used crates, run on the façade and on the real tokio.
//!
//! The programs are the tests of `compat/ecosystem`: one file for each family of crates,
//! behind a feature of the same name. The façade is built once and runs in three modes,
//! which the environment chooses. The real tokio runs the same files.
//!
//! E1. Every runtime prints what it consists of (`BLITZEN_LOG=1`). A file counts as passed
//!     only if that is what its mode says, or nothing on the real tokio: a patch that cargo
//!     dropped, or a variable without effect, cannot pass unnoticed.

mod build;
mod page;
mod servers;
mod suites;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::conformance::may_use_io_uring;
use crate::sh::{self, Context, Ended, Failure, Outcome, Tally};
use build::{Engine, ProgramWorkspace};
use servers::Servers;

const USAGE: &str = "\
cargo xtask ecosystem [family]… [options]
  --uring, --epoll, --completion, --real
               run in these modes; without any of them in all four
  --short      the families that CI runs, in the three modes of the façade
  --suites     run the tests that published packages carry instead, on the façade and on
               the real tokio; names choose packages
  --write      write the result to docs/compatibility.md";

/// The slowest file takes 10 s by itself on two cores; a busy machine takes longer.
const FILE_LIMIT: Duration = Duration::from_secs(180);

/// A test file of `compat/ecosystem`, and the feature of the same name.
struct Family {
    name: &'static str,
    /// The crates that it is about.
    crates: &'static [&'static str],
    about: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        name: "actix",
        crates: &["actix-web"],
        about: "requests served by local tasks, graceful stop",
    },
    Family {
        name: "axum",
        crates: &["axum", "tower-http"],
        about: "compression, timeouts, server-sent events, WebSockets, graceful shutdown and rebinding",
    },
    Family {
        name: "hickory",
        crates: &["hickory-resolver"],
        about: "lookups over UDP, and over TCP after a truncated answer",
    },
    Family {
        name: "hyper",
        crates: &["hyper", "hyper-util"],
        about: "HTTP/1, HTTP/2, upgrades, pooled client, graceful shutdown",
    },
    Family {
        name: "mini_redis",
        crates: &["mini-redis"],
        about: "server, client, blocking client, publish and subscribe",
    },
    Family {
        name: "notify",
        crates: &["notify"],
        about: "file system events into a channel",
    },
    Family {
        name: "postgres",
        crates: &["tokio-postgres", "sqlx"],
        about: "pipelining, transactions, cancellation, pools, notifications; PostgreSQL server",
    },
    Family {
        name: "quinn",
        crates: &["quinn"],
        about: "QUIC streams and datagrams",
    },
    Family {
        name: "redis",
        crates: &["redis"],
        about: "multiplexing, pipelines, publish and subscribe, reconnecting; Redis server",
    },
    Family {
        name: "reqwest",
        crates: &["reqwest", "rustls", "tokio-rustls"],
        about: "HTTP/1 and HTTP/2 with TLS, blocking client inside and outside a runtime",
    },
    Family {
        name: "tokio_stream",
        crates: &["tokio-stream"],
        about: "timed combinators, wrappers of channels and listeners",
    },
    Family {
        name: "tokio_util",
        crates: &["tokio-util"],
        about: "codecs, `CancellationToken`, `TaskTracker`, `DelayQueue`, bridges to other traits",
    },
    Family {
        name: "tonic",
        crates: &["tonic", "prost"],
        about: "unary calls and the three kinds of streaming, deadlines",
    },
    Family {
        name: "tracing",
        crates: &["tracing", "tracing-subscriber"],
        about: "spans that follow their tasks",
    },
    Family {
        name: "tungstenite",
        crates: &["tokio-tungstenite"],
        about: "WebSocket server and client",
    },
    Family {
        name: "warp",
        crates: &["warp"],
        about: "filters, WebSockets, graceful shutdown",
    },
];

/// The families that CI runs: those that most programs use, and whose crates build fast.
const SHORT: [&str; 6] = [
    "axum",
    "hyper",
    "reqwest",
    "tokio_stream",
    "tokio_util",
    "tungstenite",
];

/// What a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Uring,
    Epoll,
    Completion,
    Real,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Uring, Self::Epoll, Self::Completion, Self::Real];

    fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Epoll => "epoll",
            Self::Completion => "completion",
            Self::Real => "real tokio",
        }
    }

    fn from_option(option: &str) -> Option<Self> {
        match option {
            "--uring" => Some(Self::Uring),
            "--epoll" => Some(Self::Epoll),
            "--completion" => Some(Self::Completion),
            "--real" => Some(Self::Real),
            _ => None,
        }
    }

    fn engine(self) -> Engine {
        match self {
            Self::Real => Engine::Real,
            _ => Engine::Facade,
        }
    }

    fn needs_io_uring(self) -> bool {
        matches!(self, Self::Uring | Self::Completion)
    }

    /// The environment that chooses the mode.
    fn apply(self, command: &mut Command) {
        command
            .env("BLITZEN_LOG", "1")
            .env_remove("BLITZEN_IO")
            .env_remove("BLITZEN_SOCKETS");
        match self {
            Self::Epoll => command.env("BLITZEN_IO", "epoll"),
            Self::Completion => command.env("BLITZEN_SOCKETS", "completion"),
            Self::Uring | Self::Real => command,
        };
    }

    /// Whether the lines of the runtimes in `output` say that they run in this mode (E1).
    fn is_confirmed_by(self, output: &str) -> bool {
        let expected = match self {
            Self::Uring => ": io_uring, sockets by readiness, ",
            Self::Epoll => ": epoll, sockets by readiness, ",
            Self::Completion => ": io_uring, sockets by completion, ",
            Self::Real => return !output.contains(", sockets by "),
        };
        let mut lines = output
            .lines()
            .filter(|line| line.contains(", sockets by "))
            .peekable();
        lines.peek().is_some() && lines.all(|line| line.contains(expected))
    }
}

struct Options {
    names: Vec<String>,
    modes: Vec<Mode>,
    short: bool,
    suites: bool,
    write: bool,
}

impl Options {
    fn parse(args: &[String]) -> Outcome<Self> {
        let mut options = Self {
            names: Vec::new(),
            modes: Vec::new(),
            short: false,
            suites: false,
            write: false,
        };
        for arg in args {
            match (arg.as_str(), Mode::from_option(arg)) {
                (_, Some(mode)) => options.modes.push(mode),
                ("--short", _) => options.short = true,
                ("--suites", _) => options.suites = true,
                ("--write", _) => options.write = true,
                (option, _) if option.starts_with('-') => {
                    return Err(format!("unknown option {arg}\n{USAGE}").into());
                }
                (name, _) => options.names.push(name.to_owned()),
            }
        }
        if options.modes.is_empty() {
            options.modes = Mode::ALL.to_vec();
            if options.short {
                options.modes.retain(|mode| mode.engine() == Engine::Facade);
            }
        }
        if !may_use_io_uring() {
            println!("io_uring is not available here: epoll and the real tokio only");
            options.modes.retain(|mode| !mode.needs_io_uring());
        }
        if options.write && (options.short || !options.names.is_empty()) {
            return Err("--write needs a run of everything".into());
        }
        Ok(options)
    }

    fn families(&self) -> Outcome<Vec<&'static Family>> {
        if let Some(name) = self
            .names
            .iter()
            .find(|name| !FAMILIES.iter().any(|family| family.name == *name))
        {
            return Err(format!("there is no family `{name}`\n{USAGE}").into());
        }
        let is_chosen = |family: &&Family| {
            let is_named = self.names.iter().any(|name| name == family.name);
            let is_short = self.short && SHORT.contains(&family.name);
            is_named || is_short || (self.names.is_empty() && !self.short)
        };
        Ok(FAMILIES.iter().filter(is_chosen).collect())
    }
}

/// What came out of one file in one mode.
#[derive(Clone, Debug)]
enum FileResult {
    NotBuilt,
    Ran(Tally),
    /// Its runtimes did not say that they run in the mode (E1).
    WrongEngine,
    Hung,
}

impl FileResult {
    fn tally(&self) -> Tally {
        match self {
            Self::Ran(tally) => *tally,
            _ => Tally {
                passed: 0,
                failed: 1,
            },
        }
    }

    fn text(&self) -> String {
        match self {
            Self::NotBuilt => "not built".to_owned(),
            Self::WrongEngine => "WRONG MODE".to_owned(),
            Self::Hung => "HUNG".to_owned(),
            Self::Ran(Tally { passed, failed: 0 }) => format!("{passed} passed"),
            Self::Ran(Tally { failed, .. }) => format!("{failed} FAILED"),
        }
    }
}

/// By family and mode.
type Results = BTreeMap<(&'static str, Mode), FileResult>;

/// Runs the families of CI.
pub(crate) fn run_short(_: &[String]) -> Outcome<Tally> {
    run(&["--short".to_owned()])
}

pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let options = Options::parse(args)?;
    if options.suites {
        return suites::run(&options.names, options.write);
    }
    let families = options.families()?;
    let names: Vec<&str> = families.iter().map(|family| family.name).collect();
    let servers = Servers::start(&names)?;
    let mut results = Results::new();
    for engine in [Engine::Facade, Engine::Real] {
        let mut modes = options.modes.iter().copied();
        if !modes.any(|mode| mode.engine() == engine) {
            continue;
        }
        let start = Instant::now();
        let workspace = ProgramWorkspace::prepare(engine)?;
        let built = workspace.build(&names)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "built {} of {} files in {seconds:.0} s",
            built.len(),
            names.len()
        );
        for &mode in options.modes.iter().filter(|mode| mode.engine() == engine) {
            for family in &families {
                let result = match built.get(family.name) {
                    Some(executable) => run_file(&workspace, executable, family, mode, &servers)?,
                    None => FileResult::NotBuilt,
                };
                println!("{:<12} {:<12} {}", family.name, mode.name(), result.text());
                results.insert((family.name, mode), result);
            }
        }
    }
    drop(servers);
    print_table(&families, &options.modes, &results);
    if options.write {
        page::write_programs(&families, &options.modes, &results)?;
    }
    let mut tally = Tally::default();
    results.values().for_each(|result| tally += result.tally());
    match tally.failed {
        0 => Ok(tally),
        failed => Err(Failure {
            why: format!("{failed} failed; logs in {}", build::logs().display()),
            tally,
        }),
    }
}

fn run_file(
    workspace: &ProgramWorkspace,
    executable: &Path,
    family: &Family,
    mode: Mode,
    servers: &Servers,
) -> Outcome<FileResult> {
    let log = build::logs().join(format!(
        "{}.{}.log",
        family.name,
        mode.name().replace(' ', "-")
    ));
    let mut command = Command::new(executable);
    mode.apply(&mut command);
    command
        .current_dir(workspace.dir())
        .envs(servers.addresses().iter().cloned());
    let ended = sh::run_for(&mut command, FILE_LIMIT, &log)?;
    let output = fs::read(&log).context(log.display())?;
    let output = String::from_utf8_lossy(&output);
    let counted = output.lines().find_map(sh::parse_result_line);
    Ok(match (ended, counted) {
        (Ended::TimedOut, _) => FileResult::Hung,
        (Ended::Exited(status), Some(tally)) => {
            for test in failed_tests(&output) {
                println!("  {}::{test} failed ({})", family.name, mode.name());
            }
            let is_confirmed = mode.is_confirmed_by(&output);
            match status.success() && !is_confirmed {
                true => FileResult::WrongEngine,
                false => FileResult::Ran(tally),
            }
        }
        // A signal ended it.
        (Ended::Exited(_), None) => FileResult::Ran(Tally {
            passed: 0,
            failed: 1,
        }),
    })
}

/// The names in `test name ... FAILED`.
fn failed_tests(output: &str) -> impl Iterator<Item = &str> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

fn print_table(families: &[&Family], modes: &[Mode], results: &Results) {
    print!("\n{:<14}", "");
    modes.iter().for_each(|mode| print!("{:>12}", mode.name()));
    println!();
    for family in families {
        print!("{:<14}", family.name);
        for mode in modes {
            print!("{:>12}", results[&(family.name, *mode)].text());
        }
        println!();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_confirmed_only_if_every_runtime_says_it() {
        let uring = "blitzen 0.1.0: io_uring, sockets by readiness, 2 workers\n";
        let epoll = "blitzen 0.1.0: epoll, sockets by readiness, 1 worker\n";
        assert!(Mode::Uring.is_confirmed_by(uring));
        assert!(!Mode::Uring.is_confirmed_by(""));
        assert!(!Mode::Uring.is_confirmed_by(&[uring, epoll].concat()));
        assert!(!Mode::Completion.is_confirmed_by(uring));
        assert!(Mode::Real.is_confirmed_by("test result: ok"));
        assert!(!Mode::Real.is_confirmed_by(epoll));
    }

    #[test]
    fn every_family_has_its_file_and_every_file_its_family() {
        let folder = sh::root().join("compat/ecosystem/tests");
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        let families: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(files, families);
        assert!(SHORT.iter().all(|name| families.contains(name)));
    }

    #[test]
    fn only_names_of_failed_tests_are_taken() {
        let output = "test a ... ok\ntest b::c ... FAILED\ntest result: FAILED. 1 passed\n";
        assert_eq!(failed_tests(output).collect::<Vec<_>>(), ["b::c"]);
    }
}
