//! `BLITZEN_TRACE=FILE` and `BLITZEN_LOG=debug`: a thread that writes what is recorded to a file
//! for Perfetto, or as text to standard error.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use blitzen_observe::{EventReader, EventSink, EventText, EventTrack, PerfettoTrace, TraceMode};
use blitzen_sched::Scheduler;

use super::inner::Inner;
use super::trace::{Timeline, add_track, named_readers, process_name};

/// How often the rings are emptied.
const PERIOD: Duration = Duration::from_millis(10);
/// The largest file.
const MAX_BYTES: u64 = 256 << 20;
/// How many runtimes of a process may write to files of one name.
const MAX_FILES: u32 = 1_000;

/// The files that runtimes of this process have written. No later one replaces them.
static WRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The thread that writes what a runtime records.
pub(super) struct TraceWriter {
    stage: Arc<StageCell>,
}

type StageCell = (Mutex<Stage>, Condvar);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Recording,
    /// The runtime has shut down: what is left is written.
    Stopping,
    /// Everything is written.
    Done,
}

impl TraceWriter {
    /// Starts to write what `runtime` records to `path`. If that fails, the program goes on
    /// without.
    pub(super) fn to_file(runtime: &Inner, path: &Path) -> Option<Self> {
        let process = process_name(runtime.name());
        let started = open(path).and_then(|(file, path)| {
            let trace = PerfettoTrace::new(std::process::id(), &process);
            Self::start(
                runtime,
                trace,
                MAX_BYTES,
                move |mut drain, scheduler, stage| {
                    let Err(error) = drain.run(&file, scheduler, stage) else {
                        return;
                    };
                    scheduler.observation().set_trace(TraceMode::Off);
                    // The part of a packet at the end, if it can be removed.
                    let _ = file.set_len(drain.written);
                    say(&format!("recording to {} stops: {error}", path.display()));
                },
            )
        });
        match started {
            Ok(started) => Some(started),
            Err(error) => {
                runtime.scheduler().observation().set_trace(TraceMode::Off);
                say(&format!(
                    "nothing is recorded to {}: {error}",
                    path.display()
                ));
                None
            }
        }
    }

    /// Starts to write what `runtime` records to standard error, as text. If that fails, the
    /// program goes on without.
    pub(super) fn to_stderr(runtime: &Inner) -> Option<Self> {
        let text = EventText::new("blitzen: ");
        let started = Self::start(runtime, text, u64::MAX, |mut drain, scheduler, stage| {
            // A program whose standard error is closed runs all the same.
            let _ = drain.run(io::stderr(), scheduler, stage);
        });
        started.ok()
    }

    fn start<S: EventSink + Send + 'static>(
        runtime: &Inner,
        sink: S,
        max_bytes: u64,
        run: impl FnOnce(TraceDrain<S>, &Scheduler, &StageCell) + Send + 'static,
    ) -> io::Result<Self> {
        let scheduler = runtime.scheduler().clone();
        let stage = Arc::new((Mutex::new(Stage::Recording), Condvar::new()));
        let shared = stage.clone();
        let builder = thread::Builder::new().name("blitzen-trace".into());
        builder.spawn(move || {
            let _done = DoneOnDrop(shared.clone());
            run(
                TraceDrain::new(&scheduler, sink, max_bytes),
                &scheduler,
                &shared,
            );
        })?;
        Ok(Self { stage })
    }

    /// Writes what is left; waits for it until `deadline`.
    pub(super) fn finish(&self, deadline: Option<Instant>) {
        let (stage, changed) = &*self.stage;
        let mut guard = lock(stage);
        if *guard == Stage::Recording {
            *guard = Stage::Stopping;
            changed.notify_all();
        }
        while *guard != Stage::Done {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            guard = match left {
                None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return,
                Some(left) => {
                    let waited = changed.wait_timeout(guard, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Waits until it is time to write; returns whether it is the last time.
fn wait_period((stage, changed): &StageCell) -> bool {
    let guard = lock(stage);
    let waited = changed.wait_timeout_while(guard, PERIOD, |stage| *stage == Stage::Recording);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == Stage::Stopping
}

/// Says that the thread is done, whatever has ended it: a shutdown waits for that.
struct DoneOnDrop(Arc<StageCell>);

impl Drop for DoneOnDrop {
    fn drop(&mut self) {
        let (stage, changed) = &*self.0;
        *lock(stage) = Stage::Done;
        changed.notify_all();
    }
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was read from the rings, and not written yet.
struct TraceDrain<S> {
    sink: S,
    rings: Vec<DrainedRing>,
    timeline: Timeline,
    /// When the rings were last read.
    last_read_ns: u64,
    written: u64,
    max_bytes: u64,
}

struct DrainedRing {
    reader: EventReader,
    track: EventTrack,
    next: u64,
}

impl<S: EventSink> TraceDrain<S> {
    fn new(scheduler: &Scheduler, mut sink: S, max_bytes: u64) -> Self {
        let readers = named_readers(scheduler).into_iter();
        let rings = readers.map(|named| DrainedRing {
            track: add_track(&mut sink, &named.name, named.is_worker),
            reader: named.reader,
            next: 0,
        });
        Self {
            rings: rings.collect(),
            sink,
            timeline: Timeline::default(),
            last_read_ns: 0,
            written: 0,
            max_bytes,
        }
    }

    /// Writes until the runtime has shut down, or `out` takes no more.
    fn run(
        &mut self,
        mut out: impl Write,
        scheduler: &Scheduler,
        stage: &StageCell,
    ) -> io::Result<()> {
        loop {
            let is_last = wait_period(stage);
            self.write_to(&mut out, scheduler, is_last)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Writes what was recorded since the last time; the latest events only if it `is_last`.
    fn write_to(
        &mut self,
        out: &mut dyn Write,
        scheduler: &Scheduler,
        is_last: bool,
    ) -> io::Result<()> {
        let now_ns = || scheduler.world().now_ns();
        let read_ns = now_ns();
        let mut events = Vec::new();
        for ring in &mut self.rings {
            events.clear();
            let read = ring.reader.read(ring.next, now_ns, &mut events);
            if read.lost > 0 {
                let at_ns = events.first().map_or(read_ns, |(at_ns, _)| *at_ns);
                self.timeline.add_lost(ring.track, at_ns, read.lost);
            }
            ring.next = read.next;
            self.timeline.add(ring.track, &events);
        }
        // An event that came while the rings were read may have its cause in a ring that was
        // read before: it waits for the next time.
        let until_ns = match is_last {
            true => u64::MAX,
            false => std::mem::replace(&mut self.last_read_ns, read_ns),
        };
        self.timeline.write(&mut self.sink, until_ns);
        if is_last {
            self.sink.finish(now_ns());
        }
        let bytes = self.sink.take_bytes();
        if self.written + bytes.len() as u64 > self.max_bytes {
            let text = format!("it has reached {} MiB", self.max_bytes >> 20);
            return Err(io::Error::other(text));
        }
        out.write_all(&bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// Opens a file that no other runtime writes to, and that none of this process has written: `path`,
/// or that with a number.
fn open(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    for number in 0..MAX_FILES {
        let mut path = path.to_owned();
        if number > 0 {
            path.as_mut_os_string().push(format!(".{number}"));
        }
        if written.contains(&path) {
            continue;
        }
        let file = open_options().open(&path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => continue,
            // Locked, or on a file system without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        if file.metadata()?.is_file() {
            restrict(&file)?;
            file.set_len(0)?;
            written.push(path.clone());
        }
        return Ok((file, path));
    }
    Err(io::Error::other(
        "too many runtimes have written to files of that name",
    ))
}

/// Never through a link, and never waiting for the reader of a pipe.
#[cfg(unix)]
fn open_options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

#[cfg(not(unix))]
fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options
}

/// Also a file that was there before is for its owner only.
#[cfg(unix)]
fn restrict(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(PermissionsExt::from_mode(0o600))
}

#[cfg(not(unix))]
fn restrict(_: &File) -> io::Result<()> {
    Ok(())
}

/// One line on standard error. A program whose standard error is closed runs all the same.
fn say(text: &str) {
    let _ = io::stderr().write_all(format!("blitzen: {text}\n").as_bytes());
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::runtime::Builder;

    #[test]
    fn a_file_does_not_grow_beyond_its_limit() {
        let runtime = Builder::new_current_thread()
            .trace(TraceMode::Full)
            .build()
            .unwrap();
        let scheduler = runtime.handle().inner.scheduler();
        let trace = PerfettoTrace::new(1, "test");
        let mut drain = TraceDrain::new(scheduler, trace, 10_000);
        let mut file = Vec::new();
        let mut rounds = 0;
        let error = loop {
            runtime.block_on(async {
                for _ in 0..10 {
                    crate::spawn(async {}).await.unwrap();
                }
            });
            match drain.write_to(&mut file, scheduler, false) {
                Ok(()) => rounds += 1,
                Err(error) => break error,
            }
        };
        assert!(rounds > 1 && file.len() > 1_000 && file.len() <= 10_000);
        assert_eq!(file.len() as u64, drain.written);
        assert!(error.to_string().contains("0 MiB"), "{error}");
    }
}
