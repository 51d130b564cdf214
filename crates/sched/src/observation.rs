//! What the workers of a scheduler observe of polls and wakes, and the switches for it.
//!
//! O1. A poll that is not observed costs nothing: the worker then runs a copy of its loop that
//!     does not know of this. A worker looks at the switches when it does maintenance and when
//!     it was unparked.
//! O2. The histograms and the ring of events of a worker are written by the thread that owns
//!     the worker. A thread that has lost its worker during a poll writes neither.
//! O3. What was ever switched on keeps its memory until the scheduler is dropped, so that
//!     readers need no lock.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use blitzen_observe::{
    EVENT_SIZE, Event, EventBudget, EventReader, EventWriter, Histogram, HistogramConfiguration,
    HistogramCounts, LintKind, LogHistogram, TickClock, TraceMode, WakeStamps, event_ring,
};
use blitzen_task::glue::id_number;
use blitzen_task::{Header, SpawnMeta};
use blitzen_util::pad::Padded;

/// How often a worker that does not record says how many polls it has made.
const SKIPPED_INTERVAL_NS: u64 = 1_000_000;

/// How many lints are kept. They have a ring of their own: polls, of which there are many more,
/// would overwrite them.
const LINT_EVENTS: usize = 1024;

/// Whether anything can be observed. A benchmark measures what that costs while all is off, by a
/// build without.
pub(crate) const IS_OBSERVABLE: bool = !cfg!(blitzen_unobservable);

/// A set of what is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObservedSet(u8);

impl ObservedSet {
    pub(crate) const NOTHING: Self = Self(0);
    /// The world is called before and after each poll.
    pub(crate) const HOOKS: Self = Self(1);
    /// Polls are timed.
    pub(crate) const POLL_TIMES: Self = Self(2);
    /// The time from a wake to the poll is measured.
    pub(crate) const DELAYS: Self = Self(4);
    /// Events are recorded.
    pub(crate) const EVENTS: Self = Self(8);
    /// Events have a budget.
    const BUDGET: Self = Self(16);

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self == Self::NOTHING || !IS_OBSERVABLE
    }

    #[inline(always)]
    pub(crate) fn has(self, other: Self) -> bool {
        IS_OBSERVABLE && self.0 & other.0 == other.0
    }

    /// Whether events are all there is.
    #[inline(always)]
    pub(crate) fn is_events_only(self) -> bool {
        self.without_budget() == Self::EVENTS
    }

    fn without_budget(self) -> Self {
        Self(self.0 & !Self::BUDGET.0)
    }

    pub(crate) fn without_events(self) -> Self {
        Self(self.0 & !(Self::EVENTS.0 | Self::BUDGET.0))
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn of_trace(mode: TraceMode) -> Self {
        match mode {
            TraceMode::Full => Self::EVENTS,
            TraceMode::Sampled => Self::EVENTS.with(Self::BUDGET),
            _ => Self::NOTHING,
        }
    }
}

/// A histogram of the settings.
#[derive(Clone, Debug)]
pub struct HistogramOption {
    /// Whether it is on from the start.
    pub enabled: bool,
    /// Its buckets.
    pub configuration: HistogramConfiguration,
}

impl Default for HistogramOption {
    fn default() -> Self {
        Self {
            enabled: false,
            configuration: HistogramConfiguration::log(LogHistogram::default()),
        }
    }
}

/// What is observed from the start, and with which memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObserveConfig {
    /// Whether to call [`World::before_poll`](crate::World::before_poll) and
    /// [`World::after_poll`](crate::World::after_poll).
    pub hooks: bool,
    /// How long polls take.
    pub poll_times: HistogramOption,
    /// How long tasks wait in queues.
    pub schedule_delays: HistogramOption,
    /// Whether the hooks are told how long a task has waited, histogram or not.
    pub track_schedule_delays: bool,
    /// What is recorded.
    pub trace: TraceMode,
    /// The size of a worker's ring of events.
    pub trace_bytes: usize,
}

impl Default for ObserveConfig {
    fn default() -> Self {
        Self {
            hooks: false,
            poll_times: HistogramOption::default(),
            schedule_delays: HistogramOption::default(),
            track_schedule_delays: false,
            trace: TraceMode::Off,
            trace_bytes: 512 << 10,
        }
    }
}

/// What a scheduler observes, for all its workers.
pub struct Observation {
    switches: AtomicU8,
    trace: Mutex<TraceRequests>,
    config: ObserveConfig,
    workers: Box<[Padded<WorkerObservation>]>,
    /// Events of threads that are no workers, by shard of the injection queue.
    outside: Box<[Padded<OutsideObservation>]>,
    /// Events of the blocking pool.
    jobs: OutsideObservation,
    /// Lints that were found while events were recorded.
    lints: OutsideObservation,
    /// How many lints of each kind were found.
    lint_counts: Box<[AtomicU64]>,
    /// How long polls took that were not made by the loop of a worker, and how long their tasks had
    /// waited.
    outside_poll_times: OnceLock<Mutex<HistogramCounts>>,
    outside_delays: OnceLock<Mutex<HistogramCounts>>,
    /// When tasks were queued.
    stamps: OnceLock<Box<WakeStamps>>,
}

/// Who asks the recorder for what: the greater mode is the one that it has.
#[derive(Default)]
struct TraceRequests {
    /// What it was last set to.
    set: TraceMode,
    /// What somebody wants for the time being.
    held: TraceMode,
}

/// What is known of one worker.
#[derive(Default)]
struct WorkerObservation {
    poll_times: OnceLock<HistogramCounts>,
    schedule_delays: OnceLock<HistogramCounts>,
    events: OnceLock<EventReader>,
    /// The other end of `events`, until the worker takes it.
    writer: Mutex<Option<EventWriter>>,
}

#[derive(Default)]
struct OutsideObservation {
    events: OnceLock<EventReader>,
    writer: Mutex<Option<BudgetedWriter>>,
}

struct BudgetedWriter {
    writer: EventWriter,
    budget: EventBudget,
}

impl Observation {
    pub(crate) fn new(config: ObserveConfig, workers: usize, inject_shards: usize) -> Self {
        let observation = Self {
            switches: AtomicU8::new(0),
            trace: Mutex::default(),
            workers: (0..workers).map(|_| Padded::default()).collect(),
            outside: (0..inject_shards).map(|_| Padded::default()).collect(),
            jobs: OutsideObservation::default(),
            lints: OutsideObservation::default(),
            lint_counts: LintKind::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            outside_poll_times: OnceLock::new(),
            outside_delays: OnceLock::new(),
            stamps: OnceLock::new(),
            config,
        };
        let config = &observation.config;
        observation.switch(ObservedSet::HOOKS, config.hooks);
        if config.poll_times.enabled {
            observation.set_poll_times(true);
        }
        if config.track_schedule_delays {
            observation.switch_stamps(true);
        }
        if config.schedule_delays.enabled {
            observation.set_schedule_delays(true);
        }
        observation.set_trace(config.trace);
        observation
    }

    #[inline]
    pub(crate) fn switches(&self) -> ObservedSet {
        // Relaxed: what was allocated before is found through locks of its own (O3).
        ObservedSet(self.switches.load(Relaxed))
    }

    fn switch(&self, what: ObservedSet, on: bool) {
        match on {
            true => self.switches.fetch_or(what.0, Relaxed),
            false => self.switches.fetch_and(!what.0, Relaxed),
        };
    }

    /// Switches the histogram of poll times.
    pub fn set_poll_times(&self, on: bool) {
        if on {
            let configuration = &self.config.poll_times.configuration;
            for worker in &self.workers {
                let histogram = &worker.poll_times;
                histogram.get_or_init(|| HistogramCounts::new(configuration));
            }
            let outside = || Mutex::new(HistogramCounts::new(configuration));
            self.outside_poll_times.get_or_init(outside);
        }
        self.switch(ObservedSet::POLL_TIMES, on);
    }

    /// Switches the histogram of schedule delays.
    pub fn set_schedule_delays(&self, on: bool) {
        if on {
            let configuration = &self.config.schedule_delays.configuration;
            for worker in &self.workers {
                let histogram = &worker.schedule_delays;
                histogram.get_or_init(|| HistogramCounts::new(configuration));
            }
            let outside = || Mutex::new(HistogramCounts::new(configuration));
            self.outside_delays.get_or_init(outside);
        }
        self.switch_stamps(on || self.config.track_schedule_delays);
    }

    fn switch_stamps(&self, on: bool) {
        if on {
            self.stamps.get_or_init(Box::default);
        }
        self.switch(ObservedSet::DELAYS, on);
        if let (false, Some(stamps)) = (on, self.stamps.get()) {
            stamps.clear();
        }
    }

    /// Whether the histogram of poll times is on.
    pub fn has_poll_times(&self) -> bool {
        self.switches().has(ObservedSet::POLL_TIMES)
    }

    /// Whether the histogram of schedule delays is on.
    pub fn has_schedule_delays(&self) -> bool {
        self.switches().has(ObservedSet::DELAYS) && self.schedule_delays(0).is_some()
    }

    /// How long the polls of a worker took, if that was ever switched on.
    pub fn poll_times(&self, worker: usize) -> Option<&HistogramCounts> {
        self.workers.get(worker)?.poll_times.get()
    }

    /// How long the tasks that a worker polled had waited, if that was ever switched on.
    pub fn schedule_delays(&self, worker: usize) -> Option<&HistogramCounts> {
        self.workers.get(worker)?.schedule_delays.get()
    }

    /// How long polls took, over all workers and other threads that poll tasks.
    pub fn all_poll_times(&self) -> Histogram {
        self.sum(Self::poll_times, &self.outside_poll_times)
    }

    /// How long tasks had waited, over all workers and other threads that poll tasks.
    pub fn all_schedule_delays(&self) -> Histogram {
        self.sum(Self::schedule_delays, &self.outside_delays)
    }

    fn sum<'a>(
        &'a self,
        of_worker: impl Fn(&'a Self, usize) -> Option<&'a HistogramCounts>,
        outside: &OnceLock<Mutex<HistogramCounts>>,
    ) -> Histogram {
        let mut total = Histogram::default();
        for counts in (0..self.workers.len()).filter_map(|worker| of_worker(self, worker)) {
            counts.add_to(&mut total);
        }
        if let Some(outside) = outside.get() {
            lock(outside).add_to(&mut total);
        }
        total
    }

    /// Switches the recorder.
    pub fn set_trace(&self, mode: TraceMode) {
        self.request_trace(|requests| requests.set = mode);
    }

    /// Makes the recorder record no less than `mode`, whatever it is set to, until the next call.
    pub fn hold_trace(&self, mode: TraceMode) {
        self.request_trace(|requests| requests.held = mode);
    }

    fn request_trace(&self, request: impl FnOnce(&mut TraceRequests)) {
        // Held until the switches are set: several threads may switch at the same time.
        let mut requests = lock(&self.trace);
        request(&mut requests);
        let wanted = ObservedSet::of_trace(requests.set.max(requests.held));
        if !wanted.is_empty() {
            self.allocate_rings();
        }
        let change = |switches| {
            let others = ObservedSet(switches).without_events();
            Some(others.with(wanted).0)
        };
        let _ = self.switches.fetch_update(Relaxed, Relaxed, change);
    }

    /// What is recorded.
    pub fn trace_mode(&self) -> TraceMode {
        let switches = self.switches();
        match (
            switches.has(ObservedSet::EVENTS),
            switches.has(ObservedSet::BUDGET),
        ) {
            (false, _) => TraceMode::Off,
            (true, true) => TraceMode::Sampled,
            (true, false) => TraceMode::Full,
        }
    }

    /// In the order in which [`event_readers`](Self::event_readers) lists them, so that a reader's
    /// place in that list never changes.
    fn allocate_rings(&self) {
        let events = self.ring_events();
        for worker in &self.workers {
            worker.events.get_or_init(|| {
                let (writer, reader) = event_ring(events);
                *lock(&worker.writer) = Some(writer);
                reader
            });
        }
        self.jobs.allocate(events);
        self.lints.allocate(LINT_EVENTS);
        let events = self.outside_events();
        for outside in &self.outside {
            outside.allocate(events);
        }
    }

    fn ring_events(&self) -> usize {
        // A power of two that takes no more than was allowed.
        1 << (self.config.trace_bytes / EVENT_SIZE).max(16).ilog2()
    }

    /// All threads that are no workers together have as much as one worker.
    fn outside_events(&self) -> usize {
        (self.ring_events() / self.outside.len().next_power_of_two()).max(16)
    }

    /// The events of each worker, then those of the blocking pool, then lints, then the events of
    /// threads that are neither workers nor of the pool; nothing before the recorder was first switched on.
    pub fn event_readers(&self) -> Vec<EventReader> {
        let workers = self.workers.iter().map(|worker| &worker.events);
        let outside = self.outside.iter().map(|outside| &outside.events);
        workers
            .chain([&self.jobs.events, &self.lints.events])
            .chain(outside)
            .filter_map(|events| events.get().cloned())
            .collect()
    }

    /// Notes when a task was queued.
    pub(crate) fn stamp(&self, id: u64, now_ns: u64) -> bool {
        let stamps = self.stamps.get();
        stamps.map(|stamps| stamps.set(id, now_ns)).is_some()
    }

    /// Returns how many nanoseconds a task has waited for the poll that begins, if that is
    /// measured.
    pub(crate) fn take_delay_ns(&self, task: &Header, now_ns: u64) -> Option<u64> {
        if !task.is_stamped() {
            return None;
        }
        let queued_ns = self.stamps.get()?.take(id_number(task.id()))?;
        Some(now_ns.saturating_sub(queued_ns))
    }

    /// Counts how long a task has waited that is not polled by the loop of a worker.
    pub(crate) fn count_outside_delay(&self, delay_ns: u64) {
        if let Some(outside) = self.outside_delays.get() {
            lock(outside).record(delay_ns);
        }
    }

    /// Makes a poll that is not made by the loop of a worker, and counts how long it takes if polls
    /// are timed.
    pub(crate) fn time_outside_poll<R>(
        &self,
        now_ns: impl Fn() -> u64,
        poll: impl FnOnce() -> R,
    ) -> R {
        let histogram = self.outside_poll_times.get();
        let Some(histogram) = histogram.filter(|_| self.has_poll_times()) else {
            return poll();
        };
        let start_ns = now_ns();
        let result = poll();
        lock(histogram).record(now_ns().saturating_sub(start_ns));
        result
    }

    /// Records events of a thread that is no worker.
    #[cold]
    pub(crate) fn record_outside(
        &self,
        shard: usize,
        now_ns: u64,
        events: impl Iterator<Item = Event>,
    ) {
        self.outside[shard].record(self.switches(), now_ns, events);
    }

    /// Counts a lint, and records it if events are recorded. `id` is its task, or zero.
    pub fn note_lint(&self, now_ns: u64, kind: LintKind, id: u64) {
        self.lint_counts[kind as usize].fetch_add(1, Relaxed);
        if self.switches().has(ObservedSet::EVENTS) {
            // Without a budget: there are few.
            let event = [Event::Lint { kind, id }].into_iter();
            self.lints.record(ObservedSet::EVENTS, now_ns, event);
        }
    }

    /// How many lints of a kind were found.
    pub fn lint_count(&self, kind: LintKind) -> u64 {
        self.lint_counts[kind as usize].load(Relaxed)
    }

    /// Records an event of the blocking pool; returns whether it did. A job that has begun ends,
    /// whatever the budget says.
    pub(crate) fn record_job(&self, now_ns: u64, event: Event) -> bool {
        let switches = match event {
            Event::JobEnd { .. } => ObservedSet::EVENTS,
            _ => self.switches(),
        };
        self.jobs.record(switches, now_ns, [event].into_iter())
    }
}

impl OutsideObservation {
    fn allocate(&self, events: usize) {
        self.events.get_or_init(|| {
            let (writer, reader) = event_ring(events);
            let budget = EventBudget::new(events);
            *lock(&self.writer) = Some(BudgetedWriter { writer, budget });
            reader
        });
    }

    fn record(
        &self,
        switches: ObservedSet,
        now_ns: u64,
        events: impl Iterator<Item = Event>,
    ) -> bool {
        let mut writer = lock(&self.writer);
        let Some(BudgetedWriter { writer, budget }) = &mut *writer else {
            return false;
        };
        if switches.has(ObservedSet::BUDGET) && !budget.refill(now_ns) {
            return false;
        }
        for event in events {
            writer.push(now_ns, event);
            budget.spend();
        }
        true
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("switches", &self.switches())
            .finish_non_exhaustive()
    }
}

/// The events of a new task.
pub(crate) fn spawn_events(id: u64, meta: &SpawnMeta) -> impl Iterator<Item = Event> + '_ {
    let location = meta.location();
    let names = meta.name().into_iter().flat_map(Event::name_events);
    [Event::Spawn { id }, Event::Site { location }]
        .into_iter()
        .chain(names)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of a recorder that only its worker sees (O2).
#[derive(Default)]
pub(crate) struct WorkerRecorder {
    events: RefCell<Option<BudgetedWriter>>,
    clock: TickClock,
    /// When the poll has begun that goes on.
    poll_start_ns: Cell<u64>,
    /// The time at which the last poll ended, if the next one begins right then.
    last_end_ns: Cell<Option<u64>>,
    /// How many polls the worker had made when it last recorded, and when that was; `None` if
    /// it records.
    skipped_since: Cell<Option<(u64, u64)>>,
}

impl WorkerRecorder {
    /// What the worker observes from now on, after `polls` polls.
    pub(crate) fn refresh(
        &self,
        observation: &Observation,
        worker: usize,
        polls: u64,
        now_ns: u64,
    ) -> ObservedSet {
        let wanted = observation.switches();
        if !wanted.has(ObservedSet::EVENTS) {
            self.skipped_since.set(None);
            return wanted.without_events();
        }
        let mut events = self.events.borrow_mut();
        if events.is_none() {
            let writer = lock(&observation.workers[worker].writer).take();
            let budget = EventBudget::new(observation.ring_events());
            *events = writer.map(|writer| BudgetedWriter { writer, budget });
        }
        let Some(BudgetedWriter { writer, budget }) = &mut *events else {
            return wanted.without_events();
        };
        let may_record = !wanted.has(ObservedSet::BUDGET) || budget.refill(now_ns);
        let skipped = self.skipped_since.get();
        let is_due = |since_ns: u64| may_record || now_ns >= since_ns + SKIPPED_INTERVAL_NS;
        match skipped {
            Some((polls_before, since_ns)) if is_due(since_ns) => {
                let polls = polls - polls_before;
                writer.push(now_ns, Event::Skipped { polls });
            }
            _ => {}
        }
        match may_record {
            true => self.skipped_since.set(None),
            false if skipped.is_none_or(|(_, since_ns)| is_due(since_ns)) => {
                self.skipped_since.set(Some((polls, now_ns)));
            }
            false => {}
        }
        match may_record {
            true => wanted,
            false => wanted.without_events(),
        }
    }

    /// Returns the time of an event that happens now, which `clock` tells if the processor's
    /// counter cannot.
    #[inline]
    pub(crate) fn now_ns(&self, clock: impl Fn() -> u64) -> u64 {
        self.clock.now_ns(clock)
    }

    /// Makes the next time a look at the clock, after the worker has used one of its own.
    pub(crate) fn forget_time(&self, has_steady_counter: bool) {
        self.clock.set_steady(has_steady_counter);
        self.clock.forget();
        self.forget_last_end();
    }

    /// Records an event; returns false if the budget is used up.
    #[inline(always)]
    pub(crate) fn push(&self, observed: ObservedSet, at_ns: u64, event: Event) -> bool {
        let mut events = self.events.borrow_mut();
        let Some(BudgetedWriter { writer, budget }) = &mut *events else {
            return false;
        };
        writer.push(at_ns, event);
        !observed.has(ObservedSet::BUDGET) || budget.spend()
    }

    /// Notes that a poll begins; returns when. Polls that follow each other share a look at
    /// the clock, unless their times matter by themselves.
    #[inline]
    pub(crate) fn start_poll(&self, observed: ObservedSet, now_ns: impl Fn() -> u64) -> u64 {
        let last_end_ns = self.last_end_ns.take();
        let shared = last_end_ns.filter(|_| observed.without_events().is_empty());
        let now_ns = shared.unwrap_or_else(now_ns);
        self.poll_start_ns.set(now_ns);
        now_ns
    }

    /// Notes that the poll really begins now, after the hooks.
    pub(crate) fn restart_poll(&self, now_ns: u64) {
        self.poll_start_ns.set(now_ns);
    }

    /// Notes that the poll has ended; returns how long it took.
    #[inline]
    pub(crate) fn end_poll(&self, now_ns: u64) -> u64 {
        self.last_end_ns.set(Some(now_ns));
        now_ns.saturating_sub(self.poll_start_ns.get())
    }

    /// Notes that something takes time between two polls.
    #[inline]
    pub(crate) fn forget_last_end(&self) {
        self.last_end_ns.set(None);
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use crate::testing::{StillWorld, Tasks, id};
    use crate::{Config, Scheduler};
    use blitzen_task::RunOutcome;

    fn observation(trace: TraceMode) -> Observation {
        let config = ObserveConfig {
            trace,
            trace_bytes: 64 * EVENT_SIZE,
            ..ObserveConfig::default()
        };
        Observation::new(config, 2, 1)
    }

    fn events(observation: &Observation, reader: usize) -> Vec<Event> {
        let mut events = Vec::new();
        observation.event_readers()[reader].read(0, || u64::MAX, &mut events);
        events.into_iter().map(|(_, event)| event).collect()
    }

    #[test]
    fn a_task_that_is_polled_outside_the_workers_leaves_no_stamp_and_is_counted() {
        let mut config = Config::new(1);
        config.observe.schedule_delays.enabled = true;
        config.observe.poll_times.enabled = true;
        let scheduler = Scheduler::new(config, Box::new(StillWorld::default()));
        let (task, observation) = (Tasks::job(|| {}), &scheduler.observation);
        let id = id(&task);
        assert!(observation.stamp(id, 0));
        task.header().set_stamped();
        assert!(matches!(
            scheduler.poll_routed(task, None),
            RunOutcome::Complete
        ));
        assert_eq!(observation.stamps.get().unwrap().take(id), None);
        assert_eq!(observation.all_schedule_delays().count(), 1);
        assert_eq!(observation.all_poll_times().count(), 1);
        observation.set_poll_times(false);
        drop(scheduler.poll_routed(Tasks::job(|| {}), None));
        assert_eq!(observation.all_poll_times().count(), 1, "it is off");
        scheduler.close();
    }

    #[test]
    fn what_is_off_takes_no_memory() {
        let observation = observation(TraceMode::Off);
        assert!(observation.switches().is_empty());
        assert!(observation.event_readers().is_empty());
        assert!(observation.poll_times(0).is_none());
        assert!(observation.stamps.get().is_none());
    }

    #[test]
    fn switches_do_not_change_each_other() {
        let observation = observation(TraceMode::Off);
        observation.set_poll_times(true);
        observation.set_trace(TraceMode::Sampled);
        observation.set_schedule_delays(true);
        assert_eq!(observation.trace_mode(), TraceMode::Sampled);
        observation.set_trace(TraceMode::Full);
        assert_eq!(observation.trace_mode(), TraceMode::Full);
        observation.set_poll_times(false);
        assert!(observation.has_schedule_delays() && !observation.has_poll_times());
        observation.set_trace(TraceMode::Off);
        observation.set_schedule_delays(false);
        assert!(observation.switches().is_empty());
        assert_eq!(observation.event_readers().len(), 5, "O3");
    }

    #[test]
    fn what_is_held_is_the_least_that_is_recorded() {
        let observation = observation(TraceMode::Sampled);
        observation.hold_trace(TraceMode::Full);
        assert_eq!(observation.trace_mode(), TraceMode::Full);
        observation.set_trace(TraceMode::Off);
        assert_eq!(observation.trace_mode(), TraceMode::Full);
        observation.hold_trace(TraceMode::Sampled);
        assert_eq!(observation.trace_mode(), TraceMode::Sampled);
        observation.set_trace(TraceMode::Full);
        assert_eq!(observation.trace_mode(), TraceMode::Full);
        observation.set_trace(TraceMode::Off);
        observation.hold_trace(TraceMode::Off);
        assert_eq!(observation.trace_mode(), TraceMode::Off);
    }

    #[test]
    fn a_busy_worker_stops_recording_and_says_how_much_it_has_skipped() {
        let observation = observation(TraceMode::Sampled);
        let recorder = WorkerRecorder::default();
        let mut observed = recorder.refresh(&observation, 0, 0, 0);
        assert!(observed.has(ObservedSet::EVENTS));
        let mut recorded = 0;
        while recorder.push(observed, 0, Event::PollStart { id: 1 }) {
            recorded += 1;
        }
        assert_eq!(recorded, 63, "the ring holds 64");
        observed = recorder.refresh(&observation, 0, 100, 1_000);
        assert!(observed.is_empty());
        observed = recorder.refresh(&observation, 0, 110, 500_000);
        assert!(observed.is_empty());
        observed = recorder.refresh(&observation, 0, 150, 1_100_000);
        assert!(observed.is_empty());
        assert_eq!(
            events(&observation, 0).pop(),
            Some(Event::Skipped { polls: 50 })
        );
        observed = recorder.refresh(&observation, 0, 170, 1_000_000_000);
        assert!(observed.has(ObservedSet::EVENTS));
        assert_eq!(
            events(&observation, 0).pop(),
            Some(Event::Skipped { polls: 20 })
        );
        recorder.refresh(&observation, 0, 180, 1_000_000_001);
        assert_eq!(
            events(&observation, 0).pop(),
            Some(Event::Skipped { polls: 20 })
        );
    }

    #[test]
    fn a_worker_that_records_everything_has_no_budget() {
        let observation = observation(TraceMode::Full);
        let recorder = WorkerRecorder::default();
        let observed = recorder.refresh(&observation, 1, 0, 0);
        for id in 0..1_000 {
            assert!(recorder.push(observed, id, Event::JobStart { id }));
        }
        assert_eq!(events(&observation, 1).len(), 63);
        assert!(events(&observation, 0).is_empty());
    }

    #[test]
    fn polls_in_a_row_share_a_look_at_the_clock_unless_they_are_timed() {
        let recorder = WorkerRecorder::default();
        let (events, times) = (ObservedSet::EVENTS, ObservedSet::POLL_TIMES);
        assert_eq!(recorder.start_poll(events, || 10), 10);
        assert_eq!(recorder.end_poll(15), 5);
        assert_eq!(
            recorder.start_poll(events, || panic!("the clock is read")),
            15
        );
        assert_eq!(recorder.end_poll(18), 3);
        assert_eq!(recorder.start_poll(events.with(times), || 20), 20);
        recorder.end_poll(22);
        recorder.forget_last_end();
        assert_eq!(recorder.start_poll(events, || 30), 30);
    }

    #[test]
    fn threads_that_are_no_workers_record_within_a_budget() {
        let observation = observation(TraceMode::Sampled);
        for id in 0..1_000 {
            observation.record_outside(0, 0, [Event::Spawn { id }].into_iter());
        }
        let recorded = events(&observation, 4).len();
        assert!((50..64).contains(&recorded), "{recorded}");
    }

    #[test]
    fn lints_are_counted_always_and_polls_do_not_overwrite_them() {
        let observation = observation(TraceMode::Off);
        observation.note_lint(1, LintKind::SlowPoll, 7);
        observation.set_trace(TraceMode::Full);
        observation.note_lint(2, LintKind::SlowPoll, 8);
        observation.note_lint(3, LintKind::Starved, 0);
        let recorder = WorkerRecorder::default();
        let observed = recorder.refresh(&observation, 0, 0, 0);
        for id in 0..10_000 {
            recorder.push(observed, 4, Event::PollStart { id });
        }
        let lint = |kind, id| Event::Lint { kind, id };
        assert_eq!(
            events(&observation, 3),
            [lint(LintKind::SlowPoll, 8), lint(LintKind::Starved, 0)]
        );
        assert_eq!(observation.lint_count(LintKind::SlowPoll), 2);
        assert_eq!(observation.lint_count(LintKind::Starved), 1);
        assert_eq!(observation.lint_count(LintKind::Deadlock), 0);
    }

    #[test]
    fn a_job_whose_beginning_is_recorded_ends_although_the_budget_is_used_up() {
        let observation = observation(TraceMode::Sampled);
        let mut recorded = 0;
        while observation.record_job(0, Event::JobStart { id: recorded }) {
            recorded += 1;
        }
        assert!((50..64).contains(&recorded), "{recorded}");
        let end = Event::JobEnd {
            id: 0,
            is_complete: true,
        };
        assert!(observation.record_job(0, end));
        assert_eq!(events(&observation, 2).pop(), Some(end));
    }
}
