//! The thread that looks for lints and reports them.
//!
//! O1. Reports are foreign code, and standard error may block. Neither holds up a worker, nor the
//!     end of the runtime: who ends the runtime waits for the thread only while it is not
//!     reporting. Nor does a look hold up an end that has a limit: it goes through all tasks, and may
//!     wait for a thread to answer.
//! O2. After the runtime has ended no report begins.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use blitzen_task::glue::id_number;
use blitzen_util::quiet::quietly;

use super::detector::Detector;
use super::{Lint, RecentLints};
use crate::runtime::inner::Inner;
use crate::runtime::shutdown::ShutdownWait;

/// Makes every runtime report lints.
const VARIABLE: &str = "BLITZEN_LINTS";

/// Unless the builder says otherwise.
const SLOW_POLL: Duration = Duration::from_secs(1);

/// A callback for lints.
pub(crate) type OnLint = Arc<dyn Fn(&Lint) + Send + Sync>;

/// What the builder was told about lints.
#[derive(Clone, Default)]
pub(crate) struct LintOptions {
    pub(crate) slow_poll: Option<Duration>,
    pub(crate) on_lint: Option<OnLint>,
    pub(crate) stack_samples: bool,
}

/// Where reports go.
struct Reporter {
    on_lint: Option<OnLint>,
    to_stderr: bool,
}

/// The thread, and how to end it.
pub(crate) struct Observer {
    control: Arc<ObserverControl>,
    #[cfg_attr(not(unix), allow(dead_code))]
    recent: Arc<RecentLints>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct ObserverControl {
    state: Mutex<ObserverState>,
    on_close: Condvar,
}

#[derive(Default)]
struct ObserverState {
    is_closed: bool,
    activity: Activity,
}

/// What the thread does.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Waiting,
    Looking,
    Reporting,
}

impl Observer {
    /// Starts the thread if the builder or the environment asks for lints, or a console shows
    /// them.
    ///
    /// # Errors
    /// `InvalidInput` if the variable has an unknown value, and those of the system if it refuses
    /// the thread.
    pub(crate) fn start(
        options: &LintOptions,
        for_console: bool,
        runtime: &Arc<Inner>,
    ) -> io::Result<Option<Self>> {
        let is_in_environment = is_in_environment()?;
        let is_wanted = options.slow_poll.is_some() || options.on_lint.is_some();
        if !is_wanted && !is_in_environment && !for_console {
            return Ok(None);
        }
        let reporter = Reporter {
            on_lint: options.on_lint.clone(),
            to_stderr: is_in_environment || is_wanted && options.on_lint.is_none(),
        };
        let recent = Arc::<RecentLints>::default();
        let slow_poll = options.slow_poll.unwrap_or(SLOW_POLL);
        let detector = Detector::new(runtime, slow_poll, options.stack_samples);
        let control = Arc::<ObserverControl>::default();
        let thread = thread::Builder::new().name("blitzen-lints".into());
        let thread = thread.spawn({
            let (control, runtime) = (control.clone(), Arc::downgrade(runtime));
            let recent = recent.clone();
            move || observe(&control, &runtime, detector, &recent, &reporter)
        })?;
        Ok(Some(Self {
            control,
            recent,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// The latest lints.
    #[cfg(unix)]
    pub(crate) fn recent(&self) -> &Arc<RecentLints> {
        &self.recent
    }

    /// Ends the thread, and waits for that as far as O1 and `wait` allow.
    pub(crate) fn stop(&self, wait: ShutdownWait) {
        let mut state = self.control.lock();
        state.is_closed = true;
        let activity = state.activity;
        drop(state);
        self.control.on_close.notify_all();
        let joins = match wait {
            ShutdownWait::Endless => activity != Activity::Reporting,
            ShutdownWait::Within(_) => activity == Activity::Waiting,
            ShutdownWait::None => false,
        };
        let thread = self.thread.lock();
        let thread = thread.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|_| joins) {
            // Its panics are caught where foreign code runs.
            let _ = thread.join();
        }
    }
}

impl ObserverControl {
    fn lock(&self) -> MutexGuard<'_, ObserverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next look; returns false when the runtime has ended.
    fn wait(&self, period: Duration) -> bool {
        let is_open = |state: &mut ObserverState| !state.is_closed;
        let mut state = self.lock();
        state.activity = Activity::Waiting;
        let waited = self.on_close.wait_timeout_while(state, period, is_open);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.activity = Activity::Looking; // or ends, which takes no longer
        !state.is_closed
    }

    /// Calls `report`, unless the runtime has ended (O2).
    fn report(&self, report: impl FnOnce()) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.activity = Activity::Reporting;
        drop(state);
        quietly(report);
        self.lock().activity = Activity::Looking;
    }
}

/// The main function of the thread.
fn observe(
    control: &ObserverControl,
    runtime: &Weak<Inner>,
    mut detector: Detector,
    recent: &RecentLints,
    reporter: &Reporter,
) {
    while control.wait(detector.period()) {
        let Some(runtime) = runtime.upgrade() else {
            return;
        };
        let lints = detector.look(&runtime);
        for lint in &lints {
            let id = lint.task().map_or(0, |task| id_number(task.id()));
            let scheduler = runtime.scheduler();
            let now_ns = scheduler.world().now_ns();
            scheduler.observation().note_lint(now_ns, lint.kind(), id);
        }
        // Reports may take long, and must not keep the runtime in memory.
        drop(runtime);
        for lint in &lints {
            recent.push(lint.clone());
            control.report(|| reporter.report(lint));
        }
    }
}

impl Reporter {
    fn report(&self, lint: &Lint) {
        if let Some(on_lint) = &self.on_lint {
            on_lint(lint);
        }
        if self.to_stderr {
            let mut text = format!("blitzen: {lint}\n");
            for frame in lint.stack() {
                text += &format!("    {frame}\n");
            }
            // There is nobody to tell that standard error is gone.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

fn is_in_environment() -> io::Result<bool> {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("") => Ok(false),
        Ok("stderr") => Ok(true),
        Ok(other) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{VARIABLE} must be \"stderr\", not {other:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_end_with_a_limit_does_not_wait_for_a_look() {
        let control = Arc::<ObserverControl>::default();
        let ((looking, looks), (release, released)) = (mpsc::channel(), mpsc::channel());
        let thread = thread::spawn({
            let control = control.clone();
            move || {
                assert!(control.wait(Duration::ZERO));
                looking.send(()).unwrap();
                released.recv().unwrap(); // as a thread that takes long to answer
                assert!(!control.wait(Duration::MAX));
            }
        });
        looks.recv().unwrap();
        let observer = Observer {
            control,
            recent: Arc::default(),
            thread: Mutex::new(Some(thread)),
        };
        observer.stop(ShutdownWait::Within(Duration::from_secs(1)));
        release.send(()).unwrap(); // it is there still
    }
}
