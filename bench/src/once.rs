//! One sample of one contender: in this process, or in one started for it.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::other_build;
use crate::probe::{Probe, Sample};
use crate::row::{Contender, Place, Row};
use crate::watchdog;

/// Part of a sample's operations that run before it as a warm-up.
const WARM_UP_SHARE: u64 = 16;

/// The arguments of the hidden command `once`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Order {
    #[arg(long)]
    pub(crate) row: String,
    #[arg(long)]
    pub(crate) contender: String,
    #[arg(long)]
    pub(crate) ops: u64,
    #[arg(long)]
    pub(crate) warm_up: u64,
    #[arg(long)]
    pub(crate) workers: usize,
    /// The process runs under callgrind.
    #[arg(long)]
    pub(crate) callgrind: bool,
    /// Count allocations.
    #[arg(long)]
    pub(crate) allocations: bool,
}

impl Order {
    /// The command's words, the order's arguments included.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = vec!["once".into()];
        let mut option = |name: &str, value: String| words.extend([name.to_string(), value]);
        option("--row", self.row.clone());
        option("--contender", self.contender.clone());
        option("--ops", self.ops.to_string());
        option("--warm-up", self.warm_up.to_string());
        option("--workers", self.workers.to_string());
        if self.callgrind {
            words.push("--callgrind".into());
        }
        if self.allocations {
            words.push("--allocations".into());
        }
        words
    }
}

/// Takes one sample, where the row wants it taken.
pub(crate) fn sample(row: &Row, contender: &Contender, ops: u64) -> Sample {
    let warm_up = (ops / WARM_UP_SHARE).max(1);
    if !row.is_isolated && contender.place == Place::Here {
        return here(row, contender, ops, warm_up, row.workers);
    }
    let order = Order {
        row: row.name.to_string(),
        contender: contender.name.to_string(),
        ops,
        warm_up,
        workers: row.workers,
        callgrind: false,
        allocations: crate::alloc::is_counting(),
    };
    in_a_new_process(&program_of(contender), &order)
}

/// The program that takes the samples of a contender outside this process.
pub(crate) fn program_of(contender: &Contender) -> PathBuf {
    match contender.place {
        Place::OtherBuild => other_build::program().expect("looked for when it was chosen"),
        Place::Here | Place::OwnProcess => env::current_exe().expect("this program has a path"),
    }
}

/// Takes one sample in this process.
pub(crate) fn here(
    row: &Row,
    contender: &Contender,
    ops: u64,
    warm_up: u64,
    workers: usize,
) -> Sample {
    let _watched = watchdog::watch(format!("{} on {}", row.name, contender.name));
    let mut probe = Probe::new(ops, warm_up, workers).with_size(row.size);
    (contender.run)(&mut probe);
    probe.into_sample()
}

fn in_a_new_process(program: &Path, order: &Order) -> Sample {
    let output = Command::new(program)
        .args(order.words())
        .stderr(Stdio::inherit())
        .output()
        .expect("the program can be started");
    assert!(output.status.success(), "{order:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("a sample is printed as JSON")
}

/// The hidden command: takes the sample and prints it.
pub(crate) fn obey(order: &Order, rows: &[Row]) -> Result<(), String> {
    let row = rows
        .iter()
        .find(|row| row.name == order.row)
        .ok_or_else(|| format!("no row is called {}", order.row))?;
    let contender = row
        .contender(&order.contender)
        .ok_or_else(|| format!("{} has no contender {}", row.name, order.contender))?;
    if order.callgrind {
        crate::valgrind::expect_callgrind();
    }
    crate::alloc::count(order.allocations);
    let sample = here(row, contender, order.ops, order.warm_up, order.workers);
    let text = serde_json::to_string(&sample).expect("a sample is plain data");
    // A closed pipe means that the parent process has ended.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}
