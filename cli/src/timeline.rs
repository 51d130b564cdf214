//! Events as shares of time: how much of each moment a worker has spent in polls.

use std::collections::{HashMap, VecDeque};

use blitzen_console_protocol::{EventKind, Events, Track};

/// How much time one cell stands for.
pub(crate) const CELL_NS: u64 = 25_000_000;
/// How many cells are kept: three seconds.
pub(crate) const CELLS: usize = 120;

/// The latest moments of all workers.
#[derive(Default)]
pub(crate) struct Timeline {
    rows: Vec<Row>,
    now_ns: u64,
}

/// The latest moments of a worker.
#[derive(Default)]
struct Row {
    name: String,
    /// The newest last; its number is that of `last`.
    cells: VecDeque<Cell>,
    last: u64,
    /// The tasks that are being polled, each inside the poll of the one before.
    polled: Vec<u64>,
    /// From when on the time of the innermost poll is not counted yet.
    counted_ns: u64,
}

#[derive(Clone, Default)]
struct Cell {
    /// The time of each task that was polled.
    polled: HashMap<u64, u64>,
    is_incomplete: bool,
}

/// What is shown of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Percent of the time that was spent in polls.
    Busy(u8),
    /// Events were left out or lost.
    Unknown,
}

impl Timeline {
    /// Adds what was recorded. `stuck` returns the task that the worker with a name has polled all
    /// the time since the last answer, if that is known: a poll that had begun before anything was
    /// recorded is in no event.
    pub(crate) fn add(&mut self, events: &Events, stuck: impl Fn(&str) -> Option<u64>) {
        let before_ns = std::mem::replace(&mut self.now_ns, events.now_ns);
        for track in &events.tracks {
            // Other threads poll nothing.
            if !track.name.starts_with("worker") {
                continue;
            }
            let known = self.rows.iter().position(|row| row.name == track.name);
            let index = known.unwrap_or_else(|| {
                self.rows.push(Row {
                    name: track.name.clone(),
                    ..Row::default()
                });
                self.rows.len() - 1
            });
            let row = &mut self.rows[index];
            if track.events.is_empty() && track.lost == 0 && row.polled.is_empty() {
                row.counted_ns = row.counted_ns.max(before_ns);
                row.polled.extend(stuck(&track.name));
            }
            row.add(track, events.now_ns);
        }
    }

    /// The name and the shares of each worker, oldest first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, Vec<Share>)> {
        self.rows.iter().map(|row| {
            let shares = row.cells.iter().map(Cell::share).collect();
            (row.name.as_str(), shares)
        })
    }

    /// The tasks that were polled for the longest time, with their percentage of one worker.
    pub(crate) fn busiest(&self) -> Vec<(u64, f64)> {
        let mut times: HashMap<u64, u64> = HashMap::new();
        for cell in self.rows.iter().flat_map(|row| &row.cells) {
            for (task, ns) in &cell.polled {
                *times.entry(*task).or_default() += ns;
            }
        }
        let window = self.rows.iter().map(|row| row.cells.len()).max();
        let window_ns = window.unwrap_or(0).max(1) as u64 * CELL_NS;
        let percent = |ns: u64| ns as f64 * 100.0 / window_ns as f64;
        let mut busiest: Vec<_> = times
            .into_iter()
            .map(|(task, ns)| (task, percent(ns)))
            .collect();
        busiest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        busiest
    }
}

impl Row {
    fn add(&mut self, track: &Track, now_ns: u64) {
        let first = track.events.first();
        let first_ns = first.map_or(now_ns, |event| event.at_ns);
        if track.lost > 0 {
            self.polled.clear();
            // Nothing is known since the last answer.
            while !self.cells.is_empty() && self.last < first_ns / CELL_NS {
                self.cell((self.last + 1) * CELL_NS).is_incomplete = true;
            }
            self.cell(first_ns).is_incomplete = true;
        }
        self.cell(first_ns);
        for event in &track.events {
            let at_ns = event.at_ns;
            match event.kind {
                EventKind::Poll { id, is_nested } => {
                    self.count(at_ns);
                    if !is_nested {
                        self.polled.clear();
                    }
                    self.polled.push(id);
                }
                EventKind::PollEnd(_) => {
                    self.count(at_ns);
                    self.polled.pop();
                }
                EventKind::HandOff => {
                    self.count(at_ns);
                    self.polled.clear();
                }
                EventKind::Skipped => self.cell(at_ns).is_incomplete = true,
                _ => {}
            }
        }
        self.count(now_ns);
        self.cell(now_ns);
    }

    /// Counts the time up to `until_ns` for the innermost poll, if there is one.
    fn count(&mut self, until_ns: u64) {
        let mut from_ns = self.counted_ns;
        self.counted_ns = from_ns.max(until_ns);
        let Some(&task) = self.polled.last() else {
            return;
        };
        // What has left the window need not be counted.
        from_ns = from_ns.max(until_ns.saturating_sub(CELLS as u64 * CELL_NS));
        while from_ns < until_ns {
            let end_ns = until_ns.min((from_ns / CELL_NS + 1) * CELL_NS);
            *self.cell(from_ns).polled.entry(task).or_default() += end_ns - from_ns;
            from_ns = end_ns;
        }
    }

    /// The cell of a moment. One that has left the window is the oldest.
    fn cell(&mut self, at_ns: u64) -> &mut Cell {
        let number = at_ns / CELL_NS;
        if self.cells.is_empty() {
            self.last = number;
            self.cells.push_back(Cell::default());
        }
        while self.last < number {
            self.last += 1;
            self.cells.push_back(Cell::default());
            if self.cells.len() > CELLS {
                self.cells.pop_front();
            }
        }
        let age = (self.last - number) as usize;
        let index = self.cells.len().saturating_sub(age + 1);
        &mut self.cells[index]
    }
}

impl Cell {
    fn share(&self) -> Share {
        let polled_ns: u64 = self.polled.values().sum();
        match self.is_incomplete {
            true => Share::Unknown,
            false => Share::Busy((polled_ns * 100 / CELL_NS).min(100) as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(now_ns: u64, json: &str) -> Events {
        let track = Track {
            name: "worker 0".into(),
            lost: 0,
            events: serde_json::from_str(json).unwrap(),
        };
        Events {
            now_ns,
            tracks: vec![track],
        }
    }

    fn shares(timeline: &Timeline) -> Vec<Share> {
        timeline.rows().next().unwrap().1
    }

    #[test]
    fn a_poll_is_shared_out_over_the_moments_that_it_lasts() {
        let mut timeline = Timeline::default();
        let (start, end) = (CELL_NS / 2, CELL_NS * 2 + CELL_NS / 4);
        let json = format!(r#"[[{start},"poll",7],[{end},"idle",0]]"#);
        timeline.add(&events(CELL_NS * 3, &json), |_| None);
        let expected = [50, 100, 25, 0].map(Share::Busy);
        assert_eq!(shares(&timeline), expected);
        assert_eq!(timeline.busiest()[0].0, 7);
    }

    #[test]
    fn a_poll_that_does_not_end_is_busy_up_to_now_and_goes_on() {
        let mut timeline = Timeline::default();
        timeline.add(&events(CELL_NS, r#"[[0,"poll",7]]"#), |_| None);
        timeline.add(&events(CELL_NS * 3, "[]"), |_| None);
        assert_eq!(shares(&timeline), [100, 100, 100, 0].map(Share::Busy));
        assert!((timeline.busiest()[0].1 - 75.0).abs() < 0.1);
    }

    #[test]
    fn a_poll_that_began_before_the_recorder_did_is_shown() {
        let mut timeline = Timeline::default();
        let stuck = |name: &str| (name == "worker 0").then_some(7);
        timeline.add(&events(CELL_NS, "[]"), |_| None);
        timeline.add(&events(CELL_NS * 3, "[]"), stuck);
        assert_eq!(shares(&timeline), [100, 100, 0].map(Share::Busy));
        let end = CELL_NS * 3 + CELL_NS / 2;
        let json = format!(r#"[[{end},"idle",0]]"#);
        timeline.add(&events(CELL_NS * 4, &json), |_| None);
        assert_eq!(shares(&timeline), [100, 100, 50, 0].map(Share::Busy));
    }

    #[test]
    fn a_poll_inside_another_takes_its_time_from_it() {
        let mut timeline = Timeline::default();
        let at = |percent: u64| CELL_NS * percent / 100;
        let json = format!(
            r#"[[0,"poll",7],[{},"poll",8,"nested"],[{},"idle",0],[{},"idle",0],
                [{},"poll",9],[{},"hand-off"]]"#,
            at(10),
            at(40),
            at(60),
            at(80),
            at(90)
        );
        timeline.add(&events(CELL_NS - 1, &json), |_| None);
        assert_eq!(shares(&timeline), [Share::Busy(70)]);
        let busiest = timeline.busiest().into_iter();
        let busiest: Vec<_> = busiest
            .map(|(task, percent)| (task, percent as u64))
            .collect();
        assert_eq!(busiest, [(7, 30), (8, 30), (9, 10)]);
    }

    #[test]
    fn only_the_latest_moments_are_kept_however_late_an_answer_is() {
        let mut timeline = Timeline::default();
        timeline.add(&events(0, r#"[[0,"poll",7]]"#), |_| None);
        timeline.add(&events(CELL_NS * 100_000, r#"[[5,"wake",1]]"#), |_| None);
        assert_eq!(shares(&timeline).len(), CELLS);
        assert_eq!(shares(&timeline)[0], Share::Busy(100));
    }

    #[test]
    fn what_was_left_out_is_not_shown_as_idle() {
        let mut timeline = Timeline::default();
        let json = r#"[[1,"skipped",5000],[2,"odd"]]"#;
        timeline.add(&events(CELL_NS / 2, json), |_| None);
        assert_eq!(shares(&timeline), [Share::Unknown]);
    }
}
