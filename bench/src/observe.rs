//! Group `observe`: what it costs to watch. Rows of the other groups on one worker, with nothing
//! switched on, with the recorder, and with both histograms; beside them Tokio with its histogram of
//! poll times and with console-subscriber.
//!
//! `sampled` would lie in a short sample: the budget of a new runtime is full, and is used up
//! within its first milliseconds. Under callgrind it would lie always, since the budget is one of
//! time: `thinned` is what is left of it when the budget is used up. `unobservable` has no code for
//! observing.

#[cfg(feature = "io")]
use crate::net::observed_echo_row;
use crate::row::{
    BLITZEN, InstructionBound, Row,
    Target::{CpuAbovePlain, CpuTimesPlain},
};
use crate::scheduler::observed;

// As many operations are counted as make the share of maintenance, which is a matter of time, the same
// in all samples.

pub(crate) const SAMPLED: &str = "blitzen-sampled";
pub(crate) const THINNED: &str = "blitzen-thinned";
pub(crate) const FULL: &str = "blitzen-full";
pub(crate) const HISTOGRAMS: &str = "blitzen-histograms";
pub(crate) const UNOBSERVABLE: &str = "blitzen-unobservable";
pub(crate) const TOKIO_HISTOGRAM: &str = "tokio-histogram";
pub(crate) const TOKIO_CONSOLE: &str = "tokio-console";

macro_rules! each_observed {
    ($work:path) => {{
        use $crate::row::Contender;
        use $crate::{observe, rt};
        use $work as work;
        vec![
            Contender::named("blitzen", work::<rt::Blitzen>),
            Contender::named(observe::SAMPLED, work::<rt::BlitzenSampled>),
            Contender::named(observe::THINNED, work::<rt::BlitzenThinned>),
            Contender::named(observe::FULL, work::<rt::BlitzenFull>),
            Contender::named(observe::HISTOGRAMS, work::<rt::BlitzenHistograms>),
            Contender::named(observe::UNOBSERVABLE, work::<rt::Blitzen>).in_other_build(),
            Contender::named("tokio", work::<rt::Tokio>),
            Contender::named(observe::TOKIO_HISTOGRAM, work::<rt::TokioHistogram>).in_other_build(),
            Contender::named(observe::TOKIO_CONSOLE, work::<rt::TokioConsole>).in_other_build(),
        ]
    }};
}

/// How many instructions more a poll may have while nothing is observed.
const OFF: InstructionBound = InstructionBound::More(4.0);
/// What a recorder may cost whose budget is used up.
const SAMPLED_SHARE: f64 = 1.01;
/// What recording may cost: for a poll, and for an event.
const POLL_NS: f64 = 15.0;
const EVENT_NS: f64 = 10.0;

pub(crate) fn rows() -> Vec<Row> {
    let sampled = |row: Row| {
        row.workers(1)
            .target_of(SAMPLED, CpuTimesPlain(SAMPLED_SHARE))
    };
    let rows = scheduler_rows().into_iter().chain(echo_row());
    rows.map(sampled).collect()
}

/// What an event costs is less than what its CPU time varies by, so only a share is judged.
#[cfg(feature = "io")]
fn echo_row() -> Option<Row> {
    Some(observed_echo_row())
}

#[cfg(not(feature = "io"))]
fn echo_row() -> Option<Row> {
    None
}

fn scheduler_rows() -> Vec<Row> {
    vec![
        Row::new(
            "observe_yield",
            "yield_now, 1,000 tasks taking turns, one worker",
            (1_000_000, 20_000),
            each_observed!(observed::yield_many),
        )
        .counted(200_000)
        .instructions(BLITZEN, UNOBSERVABLE, OFF)
        .instructions(THINNED, BLITZEN, InstructionBound::Times(SAMPLED_SHARE))
        .target_of(FULL, CpuAbovePlain(POLL_NS)),
        // A wake besides the poll: an event and a look at the clock more.
        Row::new(
            "observe_ping_pong",
            "two tasks wake each other in turn, one worker, per wake",
            (1_000_000, 2_000),
            each_observed!(observed::ping_pong_pair),
        )
        .counted(100_000)
        .instructions(BLITZEN, UNOBSERVABLE, OFF)
        .instructions(THINNED, BLITZEN, InstructionBound::Times(SAMPLED_SHARE))
        .target_of(FULL, CpuAbovePlain(POLL_NS + EVENT_NS)),
        // The events of the spawn, its line, and the wake of whoever joins it.
        Row::new(
            "observe_spawn",
            "spawn no-op tasks from a task, then join all, one worker",
            (200_000, 2_000),
            each_observed!(observed::spawn_inside),
        )
        .counted(20_000)
        .instructions(THINNED, BLITZEN, InstructionBound::Times(SAMPLED_SHARE)),
    ]
}
