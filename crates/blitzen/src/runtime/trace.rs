//! What the recorder of a runtime has recorded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::panic::Location;
use std::path::PathBuf;

use blitzen_observe::{Event, EventReader, PerfettoTrace, PerfettoTrack, TraceMode};
use blitzen_sched::Scheduler;
use blitzen_task::glue::id_number;

use super::inner::Inner;

/// The environment variable that decides if the builder does not.
const VARIABLE: &str = "BLITZEN_TRACE";

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TraceRequest {
    /// To record.
    Mode(TraceMode),
    /// To record everything into a file.
    File(PathBuf),
}

impl TraceRequest {
    /// What the environment says.
    pub(super) fn from_environment() -> Self {
        match std::env::var_os(VARIABLE) {
            Some(value) => Self::parse(&value),
            None => Self::Mode(TraceMode::Off),
        }
    }

    fn parse(value: &OsStr) -> Self {
        match value.to_str() {
            Some("" | "off") => Self::Mode(TraceMode::Off),
            Some("sampled") => Self::Mode(TraceMode::Sampled),
            Some("full") => Self::Mode(TraceMode::Full),
            _ => Self::File(value.into()),
        }
    }

    pub(super) fn mode(&self) -> TraceMode {
        match self {
            Self::Mode(mode) => *mode,
            Self::File(_) => TraceMode::Full,
        }
    }
}

/// A copy of what the recorder of a runtime has recorded: the latest events of each worker.
///
/// [`Handle::trace`](super::Handle::trace) returns it.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{Builder, TraceMode};
///
/// let runtime = Builder::new_current_thread().trace(TraceMode::Full).build().unwrap();
/// runtime.block_on(runtime.spawn(async {})).unwrap();
/// let trace = runtime.handle().trace();
/// let mut file = Vec::new();
/// trace.write_perfetto(&mut file).unwrap();
/// println!("{} events in {} bytes", trace.len(), file.len());
/// # assert!(!trace.is_empty());
/// ```
pub struct Trace {
    process: String,
    tracks: Vec<TraceTrack>,
    tasks: HashMap<u64, TaskLabel>,
    now_ns: u64,
}

/// The events of a worker, or of threads that are no workers.
struct TraceTrack {
    name: String,
    events: Vec<(u64, Event)>,
    /// How many events were overwritten.
    lost: u64,
}

struct TaskLabel {
    name: Option<String>,
    spawned_at: &'static Location<'static>,
}

impl Trace {
    pub(super) fn of(runtime: &Inner) -> Self {
        let scheduler = runtime.scheduler();
        let mut tasks = HashMap::new();
        let readers = named_readers(scheduler);
        if !readers.is_empty() {
            scheduler.for_each_task(|task| {
                let (id, meta) = (id_number(task.id()), task.spawn_meta());
                let label = TaskLabel {
                    name: meta.name().map(str::to_owned),
                    spawned_at: meta.location(),
                };
                tasks.insert(id, label);
            });
        }
        let mut tracks = Vec::new();
        for (name, reader) in readers {
            let mut events = Vec::new();
            // The reader asks for the time when it has copied the events: none is younger.
            let lost = reader
                .read(0, || scheduler.world().now_ns(), &mut events)
                .lost;
            tracks.push(TraceTrack { name, events, lost });
        }
        Self {
            process: process_name(runtime.name()),
            tracks,
            tasks,
            now_ns: scheduler.world().now_ns(),
        }
    }

    /// Returns the number of events.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().trace().len(), 0, "nothing is recorded by default");
    /// ```
    pub fn len(&self) -> usize {
        self.tracks.iter().map(|track| track.events.len()).sum()
    }

    /// Returns whether there are no events.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert!(runtime.handle().trace().is_empty(), "nothing is recorded by default");
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the events in the format of [Perfetto](https://ui.perfetto.dev), which shows
    /// them: a track for each worker with its polls, arrows from wakes to the polls that they
    /// cause, and the lengths of the queues.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, TraceMode};
    ///
    /// let runtime = Builder::new_current_thread().trace(TraceMode::Full).build().unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let mut file = Vec::new(); // or `std::fs::File::create("trace.pftrace")?`
    /// runtime.handle().trace().write_perfetto(&mut file)?;
    /// assert!(!file.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn write_perfetto(&self, mut out: impl io::Write) -> io::Result<()> {
        let mut trace = PerfettoTrace::new(std::process::id(), &self.process);
        for (id, label) in &self.tasks {
            trace.name_task(*id, label.name.as_deref(), label.spawned_at);
        }
        let mut timeline = Timeline::default();
        for track in &self.tracks {
            let name = trace.add_track(&track.name);
            if let (1.., Some((first_ns, _))) = (track.lost, track.events.first()) {
                trace.add_lost(name, *first_ns, track.lost);
            }
            timeline.add(name, &track.events);
        }
        timeline.write(&mut trace, u64::MAX);
        trace.finish(self.now_ns);
        out.write_all(&trace.take_bytes())?;
        out.flush()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("events", &self.len())
            .finish_non_exhaustive()
    }
}

/// The events of several tracks in the order of time, so that a wake comes before the poll that
/// it causes.
#[derive(Default)]
pub(super) struct Timeline {
    events: Vec<(u64, PerfettoTrack, Event)>,
}

impl Timeline {
    /// Adds events of one track. They are in order, but some have an older reading of the clock
    /// than the event before them.
    pub(super) fn add(&mut self, track: PerfettoTrack, events: &[(u64, Event)]) {
        let mut latest_ns = 0;
        for (at_ns, event) in events {
            latest_ns = latest_ns.max(*at_ns);
            self.events.push((latest_ns, track, *event));
        }
    }

    /// Moves the events up to `until_ns` to a trace.
    pub(super) fn write(&mut self, trace: &mut PerfettoTrace, until_ns: u64) {
        // Stable: events of one track at the same moment stay in order.
        self.events.sort_by_key(|(at_ns, ..)| *at_ns);
        let end = self
            .events
            .partition_point(|(at_ns, ..)| *at_ns <= until_ns);
        for (at_ns, track, event) in self.events.drain(..end) {
            trace.add(track, at_ns, event);
        }
    }
}

/// The rings of a runtime, with names for their tracks.
pub(super) fn named_readers(scheduler: &Scheduler) -> Vec<(String, EventReader)> {
    let readers = scheduler.observation().event_readers().into_iter();
    let workers = scheduler.workers();
    let name = |index: usize| match index.checked_sub(workers) {
        None => format!("worker {index}"),
        Some(shard) => format!("other threads {shard}"),
    };
    readers
        .enumerate()
        .map(|(index, reader)| (name(index), reader))
        .collect()
}

/// The name of the program, and of the runtime if it has one.
pub(super) fn process_name(runtime: Option<&str>) -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let program = program.as_deref().and_then(|path| path.file_name());
    let program = program.unwrap_or_default().to_string_lossy();
    match runtime {
        Some(runtime) => format!("{program}: {runtime}"),
        None => program.into_owned(),
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_mode_or_a_file() {
        let parse = |text: &str| TraceRequest::parse(OsStr::new(text));
        assert_eq!(parse(""), TraceRequest::Mode(TraceMode::Off));
        assert_eq!(parse("off"), TraceRequest::Mode(TraceMode::Off));
        assert_eq!(parse("sampled"), TraceRequest::Mode(TraceMode::Sampled));
        assert_eq!(parse("full"), TraceRequest::Mode(TraceMode::Full));
        let file = parse("/tmp/trace.pftrace");
        assert_eq!(file, TraceRequest::File("/tmp/trace.pftrace".into()));
        assert_eq!(file.mode(), TraceMode::Full);
    }
}
