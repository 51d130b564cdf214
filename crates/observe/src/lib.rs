//! What a blitzen runtime does, as numbers: counters, histograms and recorded events.
//!
//! The crate knows numbers, not schedulers. Each counter, histogram and ring of events has one
//! writer, and any thread may read it at any time.
//!
//! The crate is an implementation detail: its interface may change with any release.

mod counter;
mod event;
mod event_budget;
mod event_ring;
mod event_sink;
mod event_text;
mod histogram;
mod histogram_snapshot;
mod lint_kind;
mod openmetrics;
mod perfetto;
mod protobuf;
mod tick_clock;
mod trace_mode;
mod wake_stamps;
mod worker;

pub use blitzen_util::wait::WaitKind;
pub use blitzen_util::wake_cause::WakeCause;
pub use counter::Counter;
pub use event::{Event, EventWait, PollResult};
pub use event_budget::EventBudget;
pub use event_ring::{EVENT_SIZE, EventReader, EventWriter, EventsRead, event_ring};
pub use event_sink::{EventSink, EventTrack};
pub use event_text::EventText;
pub use histogram::{
    HistogramConfiguration, HistogramCounts, InvalidHistogramConfiguration, LogHistogram,
    LogHistogramBuilder,
};
pub use histogram_snapshot::Histogram;
pub use lint_kind::LintKind;
pub use openmetrics::OpenMetrics;
pub use perfetto::PerfettoTrace;
pub use tick_clock::TickClock;
pub use trace_mode::TraceMode;
pub use wake_stamps::WakeStamps;
pub use worker::{Stats, WorkerCounters, WorkerStats};
