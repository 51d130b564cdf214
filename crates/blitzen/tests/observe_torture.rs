//! Everything that can be seen of a runtime is copied while all its workers run at full speed, and
//! overwrite the events that are being copied.

use std::collections::HashMap;
#[cfg(unix)]
use std::io::{BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use blitzen::runtime::{Builder, Handle, TraceMode};
use blitzen::sync::Notify;
use blitzen::task::{self, yield_now};

mod observe_common;
use observe_common::{Decoded, Kind};

const WORKERS: usize = 4;
const PAIRS: usize = 8;
/// So few that the sanitizers are done with them in seconds.
const COPIES: usize = 25;

/// Long enough that only what never happens runs into it.
const FOREVER: Duration = Duration::from_secs(60);

/// Names of the tasks, by number.
type Names = HashMap<u64, String>;

/// Wakes the other one of its pair, and waits for it, again and again.
async fn play(own: Arc<Notify>, other: Arc<Notify>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Relaxed) {
        other.notify_one();
        own.notified().await;
        yield_now().await;
    }
    other.notify_one();
}

/// Copies what is recorded and listed, and checks each event; returns how many polls were seen.
fn copy_and_check(handle: &Handle, names: &Names) -> usize {
    let trace = handle.trace();
    let decoded = Decoded::of(&trace);
    for moment in &decoded.moments {
        let track = &decoded.tracks[&moment.track];
        let task = moment.notes.get("task");
        let name = task.and_then(|id| names.get(id));
        // On a busy machine the monitor has a thread of the pool serve workers that are stuck.
        let is_rescuer = match moment.name.as_str() {
            "spawn" => track.starts_with("other threads"),
            _ => track.starts_with("blocking "),
        };
        assert!(
            task.is_none() || name.is_some() || is_rescuer,
            "{track}: {moment:?}"
        );
        match moment.kind {
            Kind::Begin if let Some(name) = name => assert_eq!(moment.name, *name, "{track}"),
            Kind::Counter => {
                let queued = moment.counter.unwrap();
                assert!(queued <= 2 * PAIRS as u64, "{track}: {queued} tasks");
            }
            _ => {}
        }
        if let Some(cause) = moment.texts.get("cause") {
            let known = ["task", "yield", "thread", "unknown"];
            assert!(known.contains(&cause.as_str()), "{track}: {moment:?}");
        }
    }
    let mut text = Vec::new();
    trace.write_text(&mut text).unwrap();
    String::from_utf8(text).unwrap();

    let listed = handle.tasks();
    assert_eq!(listed.len(), 2 * PAIRS);
    for task in &listed {
        let id = task.id().to_string().parse().unwrap();
        assert_eq!(task.name(), Some(names[&id].as_str()));
    }
    // It checks that slices are nested and in order.
    let slices = decoded.slices();
    slices
        .iter()
        .filter(|slice| slice.begin.notes.contains_key("task"))
        .count()
}

/// Asks a console for the events again and again: they come as they are in the ring of each worker.
/// Checks that they are whole; returns how many were seen. An event may have a time that was read
/// a little before that of the event which it follows, so their order is not checked.
#[cfg(unix)]
fn read_and_check(console: &Path, names: &Names) -> usize {
    let mut stream = BufReader::new(UnixStream::connect(console).unwrap());
    let mut line = String::new();
    stream.read_line(&mut line).unwrap(); // the greeting
    let mut seen = 0;
    for _ in 0..4 * COPIES {
        stream.get_mut().write_all(b"events\n").unwrap();
        line.clear();
        stream.read_line(&mut line).unwrap();
        let len = line.trim_end().strip_prefix("ok ").unwrap();
        let mut answer = vec![0; len.parse().unwrap()];
        stream.read_exact(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        for track in answer.split(r#"{"name":""#).skip(1) {
            let (name, _) = track.split_once('"').unwrap();
            let (_, rest) = track.split_once(r#","events":["#).unwrap();
            let events = rest.trim_end_matches(['[', ']', '{', '}', ',']);
            for event in events.split("],").filter(|event| !event.is_empty()) {
                let mut fields = event.trim_start_matches('[').split(',');
                let at_ns: u64 = fields.next().unwrap().parse().unwrap();
                assert!(at_ns > 0, "{name}: {event}");
                if let (Some(r#""poll""# | r#""wake""#), Some(id)) = (fields.next(), fields.next())
                {
                    let id = id.parse().unwrap();
                    assert!(names.contains_key(&id), "{name}: {event}");
                }
                seen += 1;
            }
        }
    }
    seen
}

#[test]
fn copies_are_whole_while_all_workers_overwrite_what_is_copied() {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(WORKERS)
        .trace(TraceMode::Full)
        .trace_buffer(16 << 10); // overwritten while a thread that copies it is preempted
    #[cfg(unix)]
    let console = std::env::temp_dir().join(format!("blitzen-torture-{}", std::process::id()));
    #[cfg(unix)]
    builder.console_at(&console);
    let runtime = builder.build().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut names = Names::new();
    let tasks: Vec<_> = (0..PAIRS)
        .flat_map(|pair| {
            let (one, two) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            [(0, one.clone(), two.clone()), (1, two, one)]
                .map(|(index, own, other)| (format!("player {pair}.{index}"), own, other))
        })
        .map(|(name, own, other)| {
            let play = play(own, other, is_over.clone());
            let builder = task::Builder::new().name(&name);
            let task = builder.spawn_on(play, runtime.handle()).unwrap();
            names.insert(task.id().to_string().parse().unwrap(), name);
            task
        })
        .collect();
    #[cfg(unix)]
    thread::scope(|scope| {
        let readers = [(); 2].map(|()| scope.spawn(|| read_and_check(&console, &names)));
        for reader in readers {
            assert!(reader.join().unwrap() > COPIES, "events were seen");
        }
    });
    let (began, mut polls) = (Instant::now(), 0);
    for copies in 1.. {
        polls += copy_and_check(runtime.handle(), &names);
        if copies >= COPIES && polls > COPIES {
            break;
        }
        // On a busy machine the workers may not have run yet.
        assert!(began.elapsed() < FOREVER, "{polls} polls were seen");
        thread::yield_now();
    }
    is_over.store(true, Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}
