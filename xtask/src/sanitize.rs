//! The library crates' tests under the sanitizers.
//!
//! Each run begins with canaries, tests that hold a defect, and fails unless the sanitizer
//! reports it: one that is not switched on would pass everything. Those in `xtask/canary` leak,
//! race and use freed memory; one of blitzen's own uses a freed task.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sh::{self, Context, LibraryPackage, Outcome, Tally};
use crate::toolchain;

/// Without a target, the flags would apply to build scripts and procedural macros too.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// The lints of another toolchain do not matter here. Memory of finished tasks goes back to
/// the allocator at once, or the sanitizers could not see that it is used again.
const FLAGS: &str = "--cap-lints=warn --cfg blitzen_no_recycle";

/// Tests that a sanitizer cannot run: two measure memory, to which a sanitizer adds; one
/// closes a descriptor while it is used, which the thread sanitizer takes for a race; seven
/// need signals on time, but the thread sanitizer delays handlers while a thread computes, or sleeps
/// in a system call that it does not know; one makes so many polls in a second that it needs a
/// build without a sanitizer.
const UNFIT: [&str; 11] = [
    "operations_are_a_few_words",
    "ten_thousand_idle_connections_cost_little_and_are_all_served_in_the_end",
    "a_descriptor_closed_while_a_task_waits_on_it_harms_nobody_else",
    "all_of_it_holds_with_sigchld",
    "a_stuck_process_writes_its_tasks_for_each_signal",
    "the_functions_of_a_loop_are_named",
    "a_sleep_is_named_with_its_call_and_lasts_as_long_as_it_should",
    "a_lock_of_std_is_named_with_its_call",
    "the_thread_of_a_current_thread_runtime_is_sampled_too",
    "a_handler_that_was_there_before_gets_its_own_signals_and_no_others",
    "a_task_that_only_yields_is_reported",
];

/// Address sanitizer, which looks for leaks at exit as well.
pub(crate) fn asan(args: &[String]) -> Outcome<Tally> {
    let cargo = || {
        let mut command = toolchain::unstable_cargo();
        command
            .args(["test", "--target", HOST])
            .env(
                "RUSTFLAGS",
                format!("-Zsanitizer=address --cfg blitzen_asan {FLAGS}"),
            )
            .env(
                "ASAN_OPTIONS",
                "detect_leaks=1:detect_stack_use_after_return=1",
            )
            .env(
                "LSAN_OPTIONS",
                format!(
                    "suppressions={}",
                    sh::root().join("xtask/lsan.supp").display()
                ),
            );
        command
    };
    let canaries = [
        Canary {
            test: "heap_use_after_free",
            within: Within::CanaryPackage,
            report: "AddressSanitizer: heap-use-after-free",
        },
        Canary {
            test: "memory_leak",
            within: Within::CanaryPackage,
            report: "LeakSanitizer: detected memory leaks",
        },
        Canary {
            test: "use_of_a_freed_task",
            within: Within::Blitzen,
            report: "AddressSanitizer: heap-use-after-free",
        },
    ];
    sanitize("asan", cargo, &canaries, args)
}

/// Thread sanitizer. It knows nothing of stacks that are switched: coroutines have a thread each
/// (`--cfg blitzen_baton`). The standard library is instrumented too, or each of its locks would
/// look like a race.
pub(crate) fn tsan(args: &[String]) -> Outcome<Tally> {
    let cargo = toolchain::build_std_cargo()?;
    let runtime = tsan_runtime(&cargo)?;
    let cargo = || {
        let mut command = toolchain::build_std_cargo().expect("found above");
        // The runtime has to come before every object whose calls it intercepts.
        let link = format!(
            "-Wl,--whole-archive,{},--no-whole-archive",
            runtime.display()
        );
        let suppressed = sh::root().join("xtask/tsan.supp");
        command
            .args(["test", "-Zbuild-std", "--target", HOST])
            .env(
                "RUSTFLAGS",
                format!("-Zsanitizer=thread --cfg blitzen_baton -Zexternal-clangrt -Zpre-link-args={link} {FLAGS}"),
            )
            .env(
                "TSAN_OPTIONS",
                format!("suppressions={}", suppressed.display()),
            );
        command
    };
    let canaries = [Canary {
        test: "data_race",
        within: Within::CanaryPackage,
        report: "ThreadSanitizer: data race",
    }];
    sanitize("tsan", cargo, &canaries, args)
}

/// A test with a defect that a sanitizer has to report.
struct Canary {
    test: &'static str,
    within: Within,
    /// What the sanitizer says of it.
    report: &'static str,
}

/// Where a canary is.
#[derive(Clone, Copy)]
enum Within {
    /// In `xtask/canary`, which depends on nothing.
    CanaryPackage,
    /// In `crates/blitzen/tests/sanitizer_canary.rs`, where it is ignored otherwise.
    Blitzen,
}

fn sanitize(
    name: &str,
    cargo: impl Fn() -> Command,
    canaries: &[Canary],
    args: &[String],
) -> Outcome<Tally> {
    let packages = sh::library_packages()?;
    if let Some(test) = missing_test(&packages)? {
        return Err(format!("there is no test {test}, which {name} is to skip").into());
    }
    let target = sh::target().join(name);
    let prepared = |manifest: &Path| {
        let mut command = cargo();
        command
            .arg("--manifest-path")
            .arg(manifest)
            .env("CARGO_TARGET_DIR", &target);
        command
    };
    let blitzen = || {
        let mut command = prepared(&sh::root().join("Cargo.toml"));
        // A sanitizer makes code several times slower; some optimisation makes up for it. Not of
        // `blitzen`: its many test programs take longer to compile than to run.
        for package in packages.iter().filter(|package| package.name != "blitzen") {
            let level = format!("profile.dev.package.{}.opt-level=1", package.name);
            command.args(["--config", &level]);
        }
        command
    };

    for canary in canaries {
        let mut command = match canary.within {
            Within::CanaryPackage => prepared(&sh::root().join("xtask/canary/Cargo.toml")),
            Within::Blitzen => {
                let mut command = blitzen();
                command.args(["-p", "blitzen", "--test", "sanitizer_canary"]);
                command
            }
        };
        let output = command
            .args(["--", "--include-ignored", canary.test])
            .output()
            .context("cargo")?;
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        if output.status.success() || !said.iter().any(|text| text.contains(canary.report)) {
            println!("{}", said.concat());
            return Err(format!("{name} does not report the canary {}", canary.test).into());
        }
        println!("canary: {} is reported", canary.test);
    }

    let mut command = blitzen();
    command.args(["--lib", "--tests", "--no-fail-fast"]);
    for package in &packages {
        command.args(["-p", &package.name]);
    }
    command.arg("--").args(args);
    for test in UNFIT {
        command.args(["--skip", test]);
    }
    sh::run_tests(&mut command)
}

/// A name in [`UNFIT`] that no test has.
fn missing_test(packages: &[LibraryPackage]) -> Outcome<Option<&'static str>> {
    let mut missing = UNFIT.to_vec();
    for package in packages {
        for (_, text) in sh::rust_files(&package.dir)? {
            missing.retain(|test| !text.contains(&format!("fn {test}(")));
        }
    }
    Ok(missing.first().copied())
}

/// The sanitizer's runtime. Debian's toolchain lacks it, so it is taken from rustup's.
fn tsan_runtime(cargo: &Command) -> Outcome<PathBuf> {
    let with_nightly = cargo.get_program() == "rustup";
    let (toolchain, name) = if with_nightly {
        ("nightly", "librustc-nightly_rt.tsan.a")
    } else {
        ("stable", "librustc-stable_rt.tsan.a")
    };
    let sysroot =
        sh::read(Command::new("rustup").args(["run", toolchain, "rustc", "--print", "sysroot"]))?;
    let path = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(HOST)
        .join("lib")
        .join(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("no thread sanitizer runtime at {}", path.display()).into())
    }
}
