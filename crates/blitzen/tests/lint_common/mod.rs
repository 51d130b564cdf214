//! Runtimes whose lints a test waits for.

#![allow(dead_code)] // each test file uses some of it

use std::sync::mpsc;
use std::time::Duration;

use blitzen::runtime::lint::{Lint, LintKind};
use blitzen::runtime::{Builder, Runtime};

/// So long that a thread which has just begun its poll has come to what the test is about, also on
/// a machine that is busy with other programs.
pub(crate) const SLOW: Duration = Duration::from_millis(150);
/// Long enough that only what never comes runs into it.
pub(crate) const FOREVER: Duration = Duration::from_secs(60);

/// A runtime, and its lints as they come.
pub(crate) fn linted(mut builder: Builder) -> (Runtime, mpsc::Receiver<Lint>) {
    let (found, lints) = mpsc::channel();
    let runtime = builder
        .slow_poll(SLOW)
        .on_lint(move |lint| drop(found.send(lint.clone())))
        .enable_all()
        .build()
        .unwrap();
    (runtime, lints)
}

/// The first lint of a kind.
#[track_caller]
pub(crate) fn find(lints: &mpsc::Receiver<Lint>, kind: LintKind) -> Lint {
    loop {
        let lint = lints.recv_timeout(FOREVER).expect("the lint is reported");
        if lint.kind() == kind {
            return lint;
        }
    }
}
