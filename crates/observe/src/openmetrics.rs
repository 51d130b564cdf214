//! Numbers in the text format of OpenMetrics, which Prometheus reads.

use std::fmt::{self, Write};

use crate::histogram_snapshot::Histogram;

/// Writes metric families, one after the other.
///
/// ```
/// use blitzen_observe::OpenMetrics;
///
/// let mut text = String::new();
/// let mut metrics = OpenMetrics::new(&mut text, "api");
/// metrics.counter("polls", "Polls of tasks.", [(Some(0), 7)]).unwrap();
/// metrics.finish().unwrap();
/// assert!(text.contains("blitzen_polls_total{runtime=\"api\",worker=\"0\"} 7\n"));
/// assert!(text.ends_with("# EOF\n"));
/// ```
pub struct OpenMetrics<'a> {
    out: &'a mut dyn Write,
    /// The label that all samples have.
    runtime: String,
}

impl fmt::Debug for OpenMetrics<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenMetrics")
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}

impl<'a> OpenMetrics<'a> {
    /// Begins a page about the runtime with the name `runtime`.
    ///
    /// ```
    /// let mut text = String::new();
    /// blitzen_observe::OpenMetrics::new(&mut text, "api").finish().unwrap();
    /// assert_eq!(text, "# EOF\n");
    /// ```
    pub fn new(out: &'a mut dyn Write, runtime: &str) -> Self {
        Self {
            out,
            runtime: escape(runtime),
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.out, "# TYPE blitzen_{name} {kind}")?;
        writeln!(self.out, "# HELP blitzen_{name} {help}")
    }

    fn labels(&self, worker: Option<usize>) -> String {
        let runtime = &self.runtime;
        match worker {
            Some(worker) => format!("runtime=\"{runtime}\",worker=\"{worker}\""),
            None => format!("runtime=\"{runtime}\""),
        }
    }

    /// Writes a number that only grows, in total or for each worker.
    ///
    /// ```
    /// let mut text = String::new();
    /// let mut metrics = blitzen_observe::OpenMetrics::new(&mut text, "");
    /// metrics.counter("polls", "Polls of tasks.", [(None, 7)]).unwrap();
    /// assert!(text.ends_with("blitzen_polls_total{runtime=\"\"} 7\n"));
    /// ```
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Option<usize>, u64)>,
    ) -> fmt::Result {
        self.head(name, "counter", help)?;
        for (worker, value) in samples {
            let labels = self.labels(worker);
            writeln!(self.out, "blitzen_{name}_total{{{labels}}} {value}")?;
        }
        Ok(())
    }

    /// Writes numbers that only grow, one for each value of the label `label`.
    ///
    /// ```
    /// let mut text = String::new();
    /// let mut metrics = blitzen_observe::OpenMetrics::new(&mut text, "");
    /// metrics.labelled_counter("lints", "Lints.", "kind", [("starved", 7)]).unwrap();
    /// assert!(text.ends_with("blitzen_lints_total{runtime=\"\",kind=\"starved\"} 7\n"));
    /// ```
    pub fn labelled_counter<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        self.head(name, "counter", help)?;
        let labels = self.labels(None);
        for (text, value) in samples {
            let text = escape(text);
            writeln!(
                self.out,
                "blitzen_{name}_total{{{labels},{label}=\"{text}\"}} {value}"
            )?;
        }
        Ok(())
    }

    /// Writes a time that only grows, given in nanoseconds. Its name ends in `_seconds`.
    ///
    /// ```
    /// let mut text = String::new();
    /// let mut metrics = blitzen_observe::OpenMetrics::new(&mut text, "");
    /// metrics.seconds("busy_seconds", "Time.", [(None, 1_500_000_000)]).unwrap();
    /// assert!(text.ends_with("blitzen_busy_seconds_total{runtime=\"\"} 1.500000000\n"));
    /// ```
    pub fn seconds(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Option<usize>, u64)>,
    ) -> fmt::Result {
        self.head(name, "counter", help)?;
        writeln!(self.out, "# UNIT blitzen_{name} seconds")?;
        for (worker, nanos) in samples {
            let (labels, seconds) = (self.labels(worker), seconds(nanos));
            writeln!(self.out, "blitzen_{name}_total{{{labels}}} {seconds}")?;
        }
        Ok(())
    }

    /// Writes a number that grows and shrinks.
    ///
    /// ```
    /// let mut text = String::new();
    /// let mut metrics = blitzen_observe::OpenMetrics::new(&mut text, "");
    /// metrics.gauge("tasks", "Live tasks.", [(None, 7)]).unwrap();
    /// assert!(text.ends_with("blitzen_tasks{runtime=\"\"} 7\n"));
    /// ```
    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Option<usize>, u64)>,
    ) -> fmt::Result {
        self.head(name, "gauge", help)?;
        for (worker, value) in samples {
            let labels = self.labels(worker);
            writeln!(self.out, "blitzen_{name}{{{labels}}} {value}")?;
        }
        Ok(())
    }

    /// Writes a histogram of durations. Its name ends in `_seconds`.
    ///
    /// ```
    /// use blitzen_observe::{Histogram, OpenMetrics};
    ///
    /// let mut text = String::new();
    /// let mut metrics = OpenMetrics::new(&mut text, "");
    /// metrics.histogram("poll_seconds", "Polls.", &Histogram::default()).unwrap();
    /// assert!(text.ends_with("blitzen_poll_seconds_bucket{runtime=\"\",le=\"+Inf\"} 0\n"));
    /// ```
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        self.head(name, "histogram", help)?;
        writeln!(self.out, "# UNIT blitzen_{name} seconds")?;
        let labels = self.labels(None);
        let mut below = 0;
        let mut has_infinite = false;
        for (range, count) in histogram.buckets() {
            below += count;
            has_infinite = range.end == std::time::Duration::MAX;
            let end = match has_infinite {
                true => "+Inf".to_owned(),
                false => seconds(range.end.as_nanos() as u64),
            };
            writeln!(
                self.out,
                "blitzen_{name}_bucket{{{labels},le=\"{end}\"}} {below}"
            )?;
        }
        if !has_infinite {
            writeln!(
                self.out,
                "blitzen_{name}_bucket{{{labels},le=\"+Inf\"}} {below}"
            )?;
        }
        Ok(())
    }

    /// Ends the page.
    ///
    /// ```
    /// let mut text = String::new();
    /// blitzen_observe::OpenMetrics::new(&mut text, "api").finish().unwrap();
    /// assert_eq!(text, "# EOF\n");
    /// ```
    pub fn finish(self) -> fmt::Result {
        self.out.write_str("# EOF\n")
    }
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// A label's value, in which three characters have a meaning.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramConfiguration, HistogramCounts};
    use std::time::Duration;

    #[test]
    fn buckets_add_up_and_the_last_one_has_no_end() {
        let configuration = HistogramConfiguration::linear(Duration::from_millis(1), 3);
        let counts = HistogramCounts::new(&configuration);
        for value_ns in [1, 2, 1_500_000, 9_000_000] {
            counts.record(value_ns);
        }
        let mut histogram = Histogram::default();
        counts.add_to(&mut histogram);
        let mut text = String::new();
        OpenMetrics::new(&mut text, "x")
            .histogram("poll_seconds", "Polls.", &histogram)
            .unwrap();
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "blitzen_poll_seconds_bucket{runtime=\"x\",le=\"0.001000000\"} 2",
                "blitzen_poll_seconds_bucket{runtime=\"x\",le=\"0.002000000\"} 3",
                "blitzen_poll_seconds_bucket{runtime=\"x\",le=\"+Inf\"} 4",
            ]
        );
    }

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        let mut text = String::new();
        let mut metrics = OpenMetrics::new(&mut text, "a\"} 1\nevil{x=\"\\");
        metrics.gauge("tasks", "Live tasks.", [(None, 7)]).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[2],
            r#"blitzen_tasks{runtime="a\"} 1\nevil{x=\"\\"} 7"#
        );
    }
}
