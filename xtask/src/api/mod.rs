//! Compares the façade's public surface with that of the tokio it stands for.
//!
//! Both are described by rustdoc's JSON. With all features, and once more with
//! `--cfg tokio_unstable`, everything is compared that a program can notice when it is compiled:
//! signatures, bounds, implemented traits, auto traits, fields, variants, `#[must_use]`. With
//! each feature alone, the names are. `compat/api-differences.txt` lists what differs on purpose;
//! anything else that differs is a failure, and so is a listed difference that does not exist.

mod differences;
mod doc_json;
mod library;
mod render;
mod surface;

use differences::{Listed, Unlisted, compare};
use doc_json::Setup;

use crate::checks::FACADE_FEATURES;
use crate::sh::{Failure, Outcome, Tally};

/// What `full` and `test-util` leave out. They have an effect only with `tokio_unstable`.
const UNSTABLE_FEATURES: [&str; 4] = ["io-uring", "schedule-latency", "taskdump", "tracing"];

/// `--only <setup>` compares one set of features. Other arguments choose the public paths that
/// start with one of them.
pub(crate) fn run(args: &[String]) -> Outcome<Tally> {
    let (only, args) = match args {
        [flag, only, rest @ ..] if flag == "--only" => (Some(only), rest),
        _ => (None, args),
    };
    let version = crate::conformance::facade_version()?;
    doc_json::describe_engine()?;
    let mut listed = Listed::read()?;
    let mut unlisted = Unlisted::default();
    let mut tally = Tally::default();
    let is_chosen = |setup: &Setup| only.is_none_or(|only| setup.name == *only);
    for setup in setups().into_iter().filter(is_chosen) {
        let (real, facade) = (doc_json::real(&setup, &version)?, doc_json::facade(&setup)?);
        let (real, facade) = match setup.features.iter().any(|feature| feature == "full") {
            true => (surface::details(&real), surface::details(&facade)),
            false => (surface::names(&real), surface::names(&facade)),
        };
        tally.passed += real.len();
        let found = compare(&real, &facade).into_iter().filter(|difference| {
            args.is_empty() || args.iter().any(|arg| difference.key.starts_with(arg))
        });
        for difference in found {
            if !listed.covers(&difference) {
                unlisted.add(difference, &setup.name);
            }
        }
    }
    unlisted.print();
    let unused: Vec<String> = match args.is_empty() && only.is_none() {
        true => listed.unused().collect(),
        false => Vec::new(),
    };
    for line in &unused {
        println!("listed, but there is no such difference: {line}");
    }
    tally.failed = unlisted.len() + unused.len();
    tally.passed -= unlisted.len().min(tally.passed);
    if tally.failed == 0 {
        Ok(tally)
    } else {
        Err(Failure {
            why: format!(
                "{} differences are not listed in compat/api-differences.txt, {} listed ones do not exist",
                unlisted.len(),
                unused.len()
            ),
            tally,
        })
    }
}

fn setups() -> Vec<Setup> {
    let full = ["full", "test-util"].map(str::to_owned).to_vec();
    let unstable = full
        .iter()
        .cloned()
        .chain(UNSTABLE_FEATURES.map(str::to_owned))
        .collect();
    let mut setups = vec![
        Setup {
            name: "full".to_owned(),
            features: full,
            unstable: false,
        },
        Setup {
            name: "unstable".to_owned(),
            features: unstable,
            unstable: true,
        },
    ];
    let alone = FACADE_FEATURES.into_iter().chain(["", "macros,rt"]);
    setups.extend(alone.map(|features| {
        Setup {
            name: match features {
                "" => "no-feature".to_owned(),
                features => features.replace(',', "+"),
            },
            features: features
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            unstable: false,
        }
    }));
    setups
}
