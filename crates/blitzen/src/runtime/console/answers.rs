//! What a console answers.

use std::collections::HashMap;
use std::time::Duration;

use blitzen_observe::{Event, PollResult, TraceMode, WaitKind, WorkerStats};
use blitzen_task::glue::id_number;

use crate::runtime::inner::Inner;
use crate::runtime::json::{self, Object};
use crate::runtime::lint::RecentLints;
use crate::runtime::prometheus::COUNTS;
use crate::runtime::trace::{NamedReader, named_readers, process_name};
use crate::runtime::{Handle, RuntimeFlavor};

/// Changes with everything that would make an older client misunderstand an answer.
const VERSION: u32 = 1;

/// How long a dump waits for tasks by default, and at most.
const DUMP_LIMIT: Duration = Duration::from_secs(1);
const MAX_DUMP_LIMIT: Duration = Duration::from_secs(10);

/// With more tasks than this, `stats` does not say which of them each worker polls.
const MAX_TASKS_TO_NAME: usize = 10_000;

/// The bytes of an answer, or why there is none.
pub(super) type Answer = Result<Vec<u8>, String>;

/// What a console knows of one client.
#[derive(Default)]
pub(super) struct ClientState {
    events: EventCursor,
    /// The least that is recorded while the client is there.
    pub(super) held_trace: TraceMode,
}

/// Which events a client has been sent: one number for each ring.
#[derive(Default)]
struct EventCursor(Vec<u64>);

/// The line that a client is sent first.
pub(super) fn greeting(runtime: &Inner) -> String {
    let mut out = String::new();
    json::push_object(&mut out, |object| {
        object
            .text("protocol", "blitzen-console")
            .literal("version", VERSION)
            .literal("pid", std::process::id())
            .text("program", process_name(None))
            .optional_text("runtime", runtime.name());
    });
    out.push('\n');
    out
}

/// Answers a request.
pub(super) fn answer(
    handle: &Handle,
    lints: &RecentLints,
    client: &mut ClientState,
    request: &[u8],
) -> Answer {
    let request = std::str::from_utf8(request).map_err(|_| "the request is not UTF-8")?;
    let mut words = request.split_ascii_whitespace();
    let (name, argument) = (words.next(), words.next());
    if words.next().is_some() {
        return Err("a request is one or two words".to_owned());
    }
    match (name, argument) {
        (Some("stats"), None) => Ok(stats(handle).into_bytes()),
        (Some("tasks"), None) => Ok(handle.tasks().to_json().into_bytes()),
        (Some("dump"), limit) => {
            let limit = limit.map_or(Ok(DUMP_LIMIT), milliseconds)?;
            let dump = handle.dump_within(limit.min(MAX_DUMP_LIMIT));
            Ok(dump.to_json().into_bytes())
        }
        (Some("lints"), None) => Ok(lints.to_json().into_bytes()),
        (Some("events"), None) => Ok(client.events.read(handle).into_bytes()),
        (Some("trace"), None) => {
            let mut file = Vec::new();
            let written = handle.trace().write_perfetto(&mut file);
            written.map_err(|error| error.to_string())?;
            Ok(file)
        }
        (Some("set_trace"), Some(mode)) => {
            handle.set_trace(parse_mode(mode)?);
            Ok(b"{}".to_vec())
        }
        (Some("hold_trace"), Some(mode)) => {
            client.held_trace = parse_mode(mode)?;
            Ok(b"{}".to_vec())
        }
        (name, _) => Err(format!("unknown request {:?}", name.unwrap_or_default())),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map(Duration::from_millis);
    number.map_err(|_| format!("not a number of milliseconds: {text:?}"))
}

fn parse_mode(text: &str) -> Result<TraceMode, String> {
    let modes = [TraceMode::Off, TraceMode::Sampled, TraceMode::Full];
    let mode = modes.into_iter().find(|&mode| mode_name(mode) == text);
    mode.ok_or_else(|| format!("not off, sampled or full: {text:?}"))
}

fn mode_name(mode: TraceMode) -> &'static str {
    match mode {
        TraceMode::Sampled => "sampled",
        TraceMode::Full => "full",
        _ => "off",
    }
}

fn stats(handle: &Handle) -> String {
    let scheduler = handle.inner.scheduler();
    let metrics = handle.metrics();
    let stats = metrics.stats();
    let flavor = match handle.runtime_flavor() {
        RuntimeFlavor::CurrentThread => "current_thread",
        _ => "multi_thread",
    };
    let polled = polled_tasks(handle);
    let mut out = String::new();
    json::push_object(&mut out, |object| {
        object
            .literal("now_ns", scheduler.world().now_ns())
            .text("flavor", flavor)
            .text("trace", mode_name(scheduler.observation().trace_mode()))
            .literal("alive_tasks", stats.alive_tasks)
            .literal("spawned_tasks", stats.total_spawned())
            .literal("global_queue_depth", stats.global_queue_depth)
            .literal("blocking_threads", metrics.num_blocking_threads())
            .literal("idle_blocking_threads", metrics.num_idle_blocking_threads())
            .literal("blocking_queue_depth", metrics.blocking_queue_depth());
        let workers = stats.workers.iter().enumerate();
        object.array("workers", workers, |object, (index, worker)| {
            let state = match scheduler.polled_address(index) {
                Some(_) => "running",
                None if scheduler.is_blocking(index) => "blocking",
                None => "parked",
            };
            object
                .text("state", state)
                .optional("task", polled.get(&index))
                .literal("queue_depth", scheduler.ring_depth(index));
            fill_worker(object, worker);
        });
    });
    out
}

fn fill_worker(object: &mut Object<'_>, worker: &WorkerStats) {
    for (name, _, count) in COUNTS {
        object.literal(name, count(worker));
    }
    object
        .literal("busy_ns", worker.busy_ns)
        .literal("poll_ns", worker.sampled_run_ns)
        .literal("max_poll_ns", worker.max_run_ns);
}

/// The tasks that workers poll, unless there are too many to look for them.
fn polled_tasks(handle: &Handle) -> HashMap<usize, u64> {
    let scheduler = handle.inner.scheduler();
    let mut found = HashMap::new();
    if scheduler.alive_tasks() > MAX_TASKS_TO_NAME {
        return found;
    }
    let addresses: HashMap<usize, usize> = (0..scheduler.workers())
        .filter_map(|worker| Some((scheduler.polled_address(worker)?, worker)))
        .collect();
    if !addresses.is_empty() {
        scheduler.walk_tasks(|task| {
            if let Some(&worker) = addresses.get(&std::ptr::from_ref(task).addr()) {
                found.insert(worker, id_number(task.id()));
            }
        });
    }
    found
}

impl EventCursor {
    /// What was recorded since the last time.
    fn read(&mut self, handle: &Handle) -> String {
        let scheduler = handle.inner.scheduler();
        let now_ns = || scheduler.world().now_ns();
        let readers = named_readers(scheduler);
        self.0.resize(readers.len(), 0);
        let mut tracks = Vec::new();
        for (named, next) in readers.into_iter().zip(&mut self.0) {
            let NamedReader { name, reader, .. } = named;
            let mut events = Vec::new();
            let read = reader.read(*next, now_ns, &mut events);
            *next = read.next;
            tracks.push((name, read.lost, events));
        }
        let mut out = String::new();
        json::push_object(&mut out, |object| {
            object.literal("now_ns", now_ns());
            object.array("tracks", tracks, |object, (name, lost, events)| {
                let events = events.iter();
                let events = events.filter_map(|(at_ns, event)| event_text(*at_ns, event));
                object
                    .text("name", name)
                    .literal("lost", lost)
                    .literals("events", events);
            });
        });
        out
    }
}

/// An event as an array: its time, its kind, and numbers. Those of the user's spans are left out.
fn event_text(at_ns: u64, event: &Event) -> Option<String> {
    Some(match *event {
        Event::Spawn { id } => format!(r#"[{at_ns},"spawn",{id}]"#),
        Event::Site { location } => {
            let location = json::text(&location.to_string());
            format!(r#"[{at_ns},"site",{location}]"#)
        }
        Event::Name { bytes, len } => {
            let bytes = bytes[..len.into()].iter();
            let bytes: String = bytes.map(|byte| format!(",{byte}")).collect();
            format!(r#"[{at_ns},"name"{bytes}]"#)
        }
        Event::PollStart { id } => format!(r#"[{at_ns},"poll",{id}]"#),
        Event::NestedPollStart { id } => format!(r#"[{at_ns},"poll",{id},"nested"]"#),
        Event::PollEnd {
            result,
            queued,
            wait,
        } => {
            let result = match result {
                PollResult::Idle => "idle",
                PollResult::Yielded => "yielded",
                PollResult::Woken => "woken",
                PollResult::Complete => "complete",
            };
            match wait.kind {
                WaitKind::Unknown => format!(r#"[{at_ns},"{result}",{queued}]"#),
                kind => {
                    let identity = wait.identity;
                    format!(r#"[{at_ns},"{result}",{queued},"{kind}",{identity}]"#)
                }
            }
        }
        Event::Wake { id, cause } => format!(r#"[{at_ns},"wake",{id},"{cause}"]"#),
        Event::JobStart { id } => format!(r#"[{at_ns},"job",{id}]"#),
        Event::JobEnd { id, is_complete } => {
            let is_complete = u8::from(is_complete);
            format!(r#"[{at_ns},"job-end",{id},{is_complete}]"#)
        }
        Event::Park => format!(r#"[{at_ns},"park"]"#),
        Event::Unpark => format!(r#"[{at_ns},"unpark"]"#),
        Event::Steal { victim, count } => format!(r#"[{at_ns},"steal",{victim},{count}]"#),
        Event::Overflow => format!(r#"[{at_ns},"overflow"]"#),
        Event::HandOff => format!(r#"[{at_ns},"hand-off"]"#),
        Event::Skipped { polls } => format!(r#"[{at_ns},"skipped",{polls}]"#),
        Event::Lint { kind, id } => format!(r#"[{at_ns},"lint",{id},"{kind}"]"#),
        Event::SpanEnter { .. } | Event::SpanExit => return None,
    })
}
