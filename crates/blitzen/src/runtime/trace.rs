//! What the recorder of a runtime has recorded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::panic::Location;
use std::path::PathBuf;

use blitzen_observe::{
    Event, EventReader, EventSink, EventText, EventTrack, PerfettoTrace, TraceMode,
};
use blitzen_sched::Scheduler;
use blitzen_task::glue::id_number;

use super::engine::LogLevel;
use super::inner::Inner;
use super::privilege::obeyed_variable;

/// The environment variable that decides if the builder does not.
const VARIABLE: &str = "BLITZEN_TRACE";

/// What is to be recorded, and where it is written while the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceRequest {
    pub(super) mode: TraceMode,
    pub(super) file: Option<PathBuf>,
    /// Whether it is written to standard error.
    pub(super) has_log: bool,
}

impl TraceRequest {
    /// What the builder says, or else the environment.
    pub(super) fn new(of_builder: Option<TraceMode>) -> Self {
        let value = match of_builder {
            Some(_) => None,
            None => obeyed_variable(VARIABLE),
        };
        Self::of(of_builder, value.as_deref(), LogLevel::from_environment())
    }

    fn of(of_builder: Option<TraceMode>, value: Option<&OsStr>, log: LogLevel) -> Self {
        let has_log = log == LogLevel::Debug;
        let (mode, file) = match (of_builder, value.map(|value| (value, value.to_str()))) {
            (Some(mode), _) => (mode, None),
            (None, None) if has_log => (TraceMode::Full, None),
            (None, None | Some((_, Some("" | "off")))) => (TraceMode::Off, None),
            (None, Some((_, Some("sampled")))) => (TraceMode::Sampled, None),
            (None, Some((_, Some("full")))) => (TraceMode::Full, None),
            (None, Some((path, _))) => (TraceMode::Full, Some(path.into())),
        };
        Self {
            mode,
            file,
            has_log: has_log && mode != TraceMode::Off,
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

/// The events of a worker, of the blocking pool, or of threads that are neither.
struct TraceTrack {
    name: String,
    is_worker: bool,
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
        for NamedReader {
            name,
            is_worker,
            reader,
        } in readers
        {
            let mut events = Vec::new();
            // The reader asks for the time when it has copied the events: none is younger.
            let lost = reader
                .read(0, || scheduler.world().now_ns(), &mut events)
                .lost;
            tracks.push(TraceTrack {
                name,
                is_worker,
                events,
                lost,
            });
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
    /// them: a track for each worker with its polls, what each task waited for after a poll, arrows
    /// from wakes to the polls that they cause, the lengths of the queues, and code on the blocking
    /// pool.
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
    pub fn write_perfetto(&self, out: impl io::Write) -> io::Result<()> {
        let trace = PerfettoTrace::new(std::process::id(), &self.process);
        self.write(trace, out)
    }

    /// Writes the events as text, in the order of their times: a line for each, which begins with
    /// the seconds since the runtime was made.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Builder, TraceMode};
    ///
    /// let runtime = Builder::new_current_thread().trace(TraceMode::Full).build().unwrap();
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// let mut text = Vec::new();
    /// runtime.handle().trace().write_text(&mut text)?;
    /// // 0.000181 worker 0: poll task 1
    /// assert!(String::from_utf8(text).unwrap().contains(" worker 0: poll task "));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn write_text(&self, out: impl io::Write) -> io::Result<()> {
        self.write(EventText::new(""), out)
    }

    fn write(&self, mut sink: impl EventSink, mut out: impl io::Write) -> io::Result<()> {
        for (id, label) in &self.tasks {
            sink.name_task(*id, label.name.as_deref(), label.spawned_at);
        }
        let mut timeline = Timeline::default();
        for track in &self.tracks {
            let id = add_track(&mut sink, &track.name, track.is_worker);
            if let (1.., Some((first_ns, _))) = (track.lost, track.events.first()) {
                timeline.add_lost(id, *first_ns, track.lost);
            }
            timeline.add(id, &track.events);
        }
        timeline.write(&mut sink, u64::MAX);
        sink.finish(self.now_ns);
        out.write_all(&sink.take_bytes())?;
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
    entries: Vec<(u64, EventTrack, TimelineEntry)>,
}

enum TimelineEntry {
    Event(Event),
    /// How many events were overwritten.
    Lost(u64),
}

impl Timeline {
    /// Adds events of one track. They are in order, but some have an older reading of the clock
    /// than the event before them.
    pub(super) fn add(&mut self, track: EventTrack, events: &[(u64, Event)]) {
        let mut latest_ns = 0;
        for (at_ns, event) in events {
            latest_ns = latest_ns.max(*at_ns);
            let entry = TimelineEntry::Event(*event);
            self.entries.push((latest_ns, track, entry));
        }
    }

    /// Notes that events were lost before those that are added next.
    pub(super) fn add_lost(&mut self, track: EventTrack, at_ns: u64, events: u64) {
        self.entries
            .push((at_ns, track, TimelineEntry::Lost(events)));
    }

    /// Moves the events up to `until_ns` to a trace.
    pub(super) fn write(&mut self, sink: &mut impl EventSink, until_ns: u64) {
        // Stable: events of one track at the same moment stay in order.
        self.entries.sort_by_key(|(at_ns, ..)| *at_ns);
        let end = self
            .entries
            .partition_point(|(at_ns, ..)| *at_ns <= until_ns);
        for (at_ns, track, entry) in self.entries.drain(..end) {
            match entry {
                TimelineEntry::Event(event) => sink.add(track, at_ns, event),
                TimelineEntry::Lost(events) => sink.add_lost(track, at_ns, events),
            }
        }
    }
}

/// A ring of events, with a name for its track.
pub(super) struct NamedReader {
    pub(super) name: String,
    /// Whether they are a worker's.
    pub(super) is_worker: bool,
    pub(super) reader: EventReader,
}

/// The rings of a runtime.
pub(super) fn named_readers(scheduler: &Scheduler) -> Vec<NamedReader> {
    let readers = scheduler.observation().event_readers().into_iter();
    let workers = scheduler.workers();
    let name = |index: usize| match index.checked_sub(workers) {
        None => format!("worker {index}"),
        Some(0) => "blocking pool".to_owned(),
        Some(1) => "lints".to_owned(),
        Some(shard) => format!("other threads {}", shard - 2),
    };
    readers
        .enumerate()
        .map(|(index, reader)| NamedReader {
            name: name(index),
            is_worker: index < workers,
            reader,
        })
        .collect()
}

/// Adds a track. Those of workers are shown without events, too.
pub(super) fn add_track(sink: &mut impl EventSink, name: &str, is_worker: bool) -> EventTrack {
    match is_worker {
        true => sink.add_track(name),
        false => sink.add_optional_track(name),
    }
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
        let parse = |text: &str| TraceRequest::of(None, Some(text.as_ref()), LogLevel::Off);
        for (text, mode) in [
            ("", TraceMode::Off),
            ("off", TraceMode::Off),
            ("sampled", TraceMode::Sampled),
            ("full", TraceMode::Full),
        ] {
            let request = parse(text);
            assert_eq!((request.mode, request.file), (mode, None), "{text}");
        }
        let request = parse("/tmp/trace.pftrace");
        assert_eq!(request.mode, TraceMode::Full);
        assert_eq!(request.file, Some("/tmp/trace.pftrace".into()));
    }

    #[test]
    fn a_log_records_everything_unless_somebody_says_otherwise() {
        let request = |of_builder, value: Option<&str>| {
            let request = TraceRequest::of(of_builder, value.map(OsStr::new), LogLevel::Debug);
            (request.mode, request.has_log)
        };
        assert_eq!(request(None, None), (TraceMode::Full, true));
        assert_eq!(request(None, Some("sampled")), (TraceMode::Sampled, true));
        assert_eq!(request(None, Some("off")), (TraceMode::Off, false));
        assert_eq!(request(Some(TraceMode::Off), None), (TraceMode::Off, false));
    }
}
