//! The bar that shows how far a run has come.
//!
//! It is drawn between samples only, by the thread that takes them: a thread that
//! redraws it now and then would take processor time from what is measured.

use indicatif::{ProgressBar, ProgressStyle};

/// Counts samples. Draws nothing where standard error is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(samples: u64) -> Progress {
        let bar = ProgressBar::new(samples);
        let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {elapsed}+{eta}  {msg}");
        bar.set_style(style.expect("the template is well formed"));
        Progress { bar }
    }

    /// Says what is measured next.
    pub(crate) fn begin(&self, what: String) {
        self.bar.set_message(what);
    }

    /// One sample has been taken.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    /// Prints `text` to standard output, above the bar.
    pub(crate) fn print(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }

    /// Prints what went wrong to standard error, above the bar.
    pub(crate) fn warn(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
