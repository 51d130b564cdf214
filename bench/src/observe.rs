//! Group `observe`: what it costs to watch. Rows of the other groups, with nothing switched on,
//! with the recorder in both modes, and with both histograms.
//!
//! `sampled` would lie in a short sample: the budget of a new runtime is full, and is used up
//! within its first milliseconds.

use crate::net::observed_echo_row;
use crate::row::{Row, Target::OverTokio};
use crate::scheduler::observed;

macro_rules! each_observed {
    ($work:path) => {{
        use $work as work;
        vec![
            $crate::row::Contender::named("blitzen", work::<$crate::rt::Blitzen>),
            $crate::row::Contender::named("blitzen-sampled", work::<$crate::rt::BlitzenSampled>),
            $crate::row::Contender::named("blitzen-full", work::<$crate::rt::BlitzenFull>),
            $crate::row::Contender::named(
                "blitzen-histograms",
                work::<$crate::rt::BlitzenHistograms>,
            ),
            $crate::row::Contender::named("tokio", work::<$crate::rt::Tokio>),
        ]
    }};
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "observe_yield",
            "yield_now, 1,000 tasks taking turns",
            (1_000_000, 20_000),
            each_observed!(observed::yield_many),
        )
        .counted(20_000)
        .target(OverTokio(1.2)),
        Row::new(
            "observe_ping_pong",
            "two tasks wake each other in turn, per wake",
            (200_000, 2_000),
            each_observed!(observed::ping_pong_pair),
        )
        .counted(4_000)
        .target(OverTokio(2.0)),
        Row::new(
            "observe_spawn",
            "spawn no-op tasks from a task, then join all",
            (100_000, 2_000),
            each_observed!(observed::spawn_inside),
        )
        .counted(2_000)
        .target(OverTokio(2.5)),
        observed_echo_row(),
    ]
}
