//! What a workload is given, and what it hands back.
//!
//! A workload sets itself up, opens a [`Region`], does its operations, closes the
//! region with the number it *counted*, and gives the [`Cost`] to its [`Probe`]. A
//! count that is not the number asked for ends the program: a figure for work that
//! was not done is worse than none.

use std::time::Instant;

use crate::alloc::Counts;
use crate::valgrind;

/// What a stretch of work cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    done: u64,
    wall_ns: f64,
    used: Option<Used>,
}

/// What the process spent besides time.
#[derive(Clone, Copy, Debug)]
struct Used {
    cpu_ns: f64,
    allocated: Counts,
}

impl Cost {
    /// Of a workload that spends more on watching than on what it watches: its
    /// values count, its CPU time and allocations are the harness's.
    pub(crate) fn of_count(done: u64) -> Cost {
        Cost {
            done,
            wall_ns: 0.0,
            used: None,
        }
    }

    /// The same cost, with what was counted after the clocks had stopped.
    pub(crate) fn counted(self, done: u64) -> Cost {
        Cost { done, ..self }
    }

    /// The same cost, with the CPU time of the threads that count.
    pub(crate) fn with_cpu(mut self, cpu_ns: f64) -> Cost {
        if let Some(used) = &mut self.used {
            used.cpu_ns = cpu_ns;
        }
        self
    }

    pub(crate) fn wall_ns(&self) -> f64 {
        self.wall_ns
    }

    /// What was spent, where that is known.
    pub(crate) fn cpu_ns(&self) -> f64 {
        self.used.map_or(f64::NAN, |used| used.cpu_ns)
    }
}

/// An open stretch of measured work. Plain data: it may be opened in one task or
/// thread and closed in another.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    wall: Instant,
    cpu_ns: f64,
    allocated: Counts,
}

impl Region {
    /// Starts the clocks. The wall clock is read last, so that it does not see the
    /// reading of the others.
    pub(crate) fn begin() -> Region {
        let allocated = Counts::now();
        let cpu_ns = process_cpu_ns();
        valgrind::start_instrumentation();
        Region {
            allocated,
            cpu_ns,
            wall: Instant::now(),
        }
    }

    /// Stops the clocks, where the count is yet to be looked up.
    pub(crate) fn stop(self) -> Cost {
        self.end(0)
    }

    /// Stops the clocks. `done` is what the workload counted.
    pub(crate) fn end(self, done: u64) -> Cost {
        let wall_ns = self.wall.elapsed().as_nanos() as f64;
        valgrind::stop_instrumentation();
        Cost {
            done,
            wall_ns,
            used: Some(Used {
                cpu_ns: process_cpu_ns() - self.cpu_ns,
                allocated: Counts::now().since(self.allocated),
            }),
        }
    }
}

/// Several short stretches of work, with something between them that is not measured.
pub(crate) struct Laps {
    total: Cost,
}

impl Laps {
    pub(crate) fn new() -> Laps {
        let used = Some(Used {
            cpu_ns: 0.0,
            allocated: Counts::default(),
        });
        Laps {
            total: Cost {
                used,
                ..Cost::of_count(0)
            },
        }
    }

    pub(crate) fn time(&mut self, work: impl FnOnce()) {
        let region = Region::begin();
        work();
        let lap = region.stop();
        self.total.wall_ns += lap.wall_ns;
        if let (Some(total), Some(lap)) = (&mut self.total.used, lap.used) {
            total.cpu_ns += lap.cpu_ns;
            total.allocated.allocations += lap.allocated.allocations;
            total.allocated.bytes += lap.allocated.bytes;
        }
    }

    pub(crate) fn end(self, done: u64) -> Cost {
        self.total.counted(done)
    }
}

/// One run of one contender, as the report wants it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Sample {
    /// In the row's unit: one value for a throughput row, one per operation for a
    /// latency row.
    pub(crate) points: Vec<f64>,
    /// Nothing where they would be the harness's.
    pub(crate) per_op: Option<PerOp>,
    /// What else the run is judged by.
    pub(crate) notes: Vec<Note>,
}

/// A time beside the value of a row.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Note {
    pub(crate) name: String,
    pub(crate) ns: f64,
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct PerOp {
    pub(crate) cpu_ns: f64,
    pub(crate) allocations: f64,
    pub(crate) bytes: f64,
}

/// One run's orders, and the place for its result.
pub(crate) struct Probe {
    ops: u64,
    warm_up_ops: u64,
    workers: usize,
    size: u64,
    sample: Option<Sample>,
}

impl Probe {
    /// `workers` is what every contender of a row starts its runtime with.
    pub(crate) fn new(ops: u64, warm_up_ops: u64, workers: usize) -> Probe {
        assert!(ops > 0 && warm_up_ops > 0 && workers > 0);
        Probe {
            ops,
            warm_up_ops,
            workers,
            size: 0,
            sample: None,
        }
    }

    pub(crate) fn with_size(self, size: u64) -> Probe {
        Probe { size, ..self }
    }

    /// How many tasks, timers or connections a row of a curve is to have.
    pub(crate) fn size(&self) -> u64 {
        assert!(self.size > 0, "only rows of a curve have a size");
        self.size
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Runs `work` twice, small and then in full, and keeps the second as
    /// nanoseconds per operation. The first run starts the threads, fills the
    /// caches and lets pools grow.
    pub(crate) fn time(&mut self, mut work: impl FnMut(u64) -> Cost) {
        work(self.warm_up_ops).check(self.warm_up_ops);
        let cost = work(self.ops);
        let per_op = cost.wall_ns / self.ops as f64;
        self.keep(cost, vec![per_op]);
    }

    /// Like [`time`](Probe::time) for a workload that yields one value in the
    /// row's unit for each operation.
    pub(crate) fn collect(&mut self, mut work: impl FnMut(u64) -> (Cost, Vec<f64>)) {
        let (cost, points) = work(self.warm_up_ops);
        cost.check(self.warm_up_ops);
        assert_eq!(points.len() as u64, self.warm_up_ops, "a value for each");
        let (cost, points) = work(self.ops);
        assert_eq!(points.len() as u64, self.ops, "a value for each");
        self.keep(cost, points);
    }

    /// Like [`time`](Probe::time) for a workload that yields one value in the
    /// row's unit for the whole run.
    pub(crate) fn derive(&mut self, mut work: impl FnMut(u64) -> (Cost, f64)) {
        work(self.warm_up_ops).0.check(self.warm_up_ops);
        let (cost, value) = work(self.ops);
        self.keep(cost, vec![value]);
    }

    /// Like [`derive`](Probe::derive) without the warm-up, for a value that only
    /// the first run of a fresh process has.
    pub(crate) fn derive_once(&mut self, work: impl FnOnce(u64) -> (Cost, f64)) {
        let (cost, value) = work(self.ops);
        self.keep(cost, vec![value]);
    }

    /// A time beside the value, which has been reported.
    pub(crate) fn note(&mut self, name: &str, ns: f64) {
        let sample = self.sample.as_mut().expect("the value comes first");
        let name = name.to_string();
        sample.notes.push(Note { name, ns });
    }

    fn keep(&mut self, cost: Cost, points: Vec<f64>) {
        cost.check(self.ops);
        let ops = self.ops as f64;
        let earlier = self.sample.replace(Sample {
            points,
            per_op: cost.used.map(|used| PerOp {
                cpu_ns: used.cpu_ns / ops,
                allocations: used.allocated.allocations as f64 / ops,
                bytes: used.allocated.bytes as f64 / ops,
            }),
            notes: Vec::new(),
        });
        assert!(earlier.is_none(), "a workload reports once");
    }

    pub(crate) fn into_sample(self) -> Sample {
        self.sample.expect("a workload reports its cost")
    }
}

impl Cost {
    #[track_caller]
    fn check(&self, asked: u64) {
        assert_eq!(self.done, asked, "the workload did not do what was asked");
    }
}

/// CPU time of all threads of this process.
fn process_cpu_ns() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to, and the clock always exists.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "the process has a CPU clock");
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(done: u64) -> Cost {
        Region::begin().end(done)
    }

    #[test]
    fn the_second_run_is_kept() {
        let mut probe = Probe::new(100, 10, 1);
        let mut asked = Vec::new();
        probe.time(|n| {
            asked.push(n);
            Cost {
                wall_ns: 5.0 * n as f64,
                ..cost(n)
            }
        });
        assert_eq!(asked, [10, 100]);
        assert_eq!(probe.into_sample().points, [5.0]);
    }

    #[test]
    #[should_panic(expected = "did not do what was asked")]
    fn a_short_count_is_refused() {
        Probe::new(100, 10, 1).time(|n| cost(if n == 100 { 99 } else { n }));
    }

    #[test]
    #[should_panic(expected = "did not do what was asked")]
    fn a_short_count_while_warming_up_is_refused() {
        Probe::new(100, 10, 1).time(|n| cost(if n == 10 { 9 } else { n }));
    }

    #[test]
    fn laps_add_up() {
        let mut laps = Laps::new();
        laps.time(|| std::thread::sleep(std::time::Duration::from_millis(2)));
        laps.time(|| std::thread::sleep(std::time::Duration::from_millis(3)));
        let cost = laps.end(2);
        assert!(cost.wall_ns() >= 5e6);
        cost.check(2);
    }

    #[test]
    #[should_panic(expected = "a value for each")]
    fn a_missing_latency_is_refused() {
        Probe::new(4, 2, 1).collect(|n| (cost(n), vec![1.0; 2]));
    }

    #[test]
    fn cpu_time_passes_while_the_processor_is_kept_busy() {
        let region = Region::begin();
        let mut word = 1u64;
        while region.wall.elapsed().as_millis() < 20 {
            word = std::hint::black_box(word.wrapping_mul(3));
        }
        assert!(region.end(1).used.unwrap().cpu_ns > 0.0);
    }
}
