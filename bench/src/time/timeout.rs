//! Cost of a time limit that is not reached.
//!
//! Around a ready future it is a clock read and a poll; around one that waits once,
//! the timer is armed and dropped as well. smol takes no part in the first: its users
//! compose a limit from a race, which makes no timer when the future wins at once.

use std::time::Duration;

use super::{Clock, each_clock};
use crate::probe::{Probe, Region};
use crate::row::{Contender, Row, Target::OverTokio};
use crate::rt::{Blitzen, Tokio, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "timeout_ready",
            "timeout around a future that is ready",
            (500_000, 5_000),
            vec![
                Contender::named("blitzen", ready::<Blitzen>),
                Contender::named("tokio", ready::<Tokio>),
            ],
        )
        .counted(10_000)
        .target(OverTokio(1.3)),
        Row::new(
            "timeout_pending",
            "timeout around a future that yields once",
            (100_000, 2_000),
            each_clock!(pending),
        )
        .counted(5_000)
        .target(OverTokio(2.5)),
    ]
}

const LIMIT: Duration = Duration::from_secs(300);

fn ready<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut done = 0;
            let region = Region::begin();
            for _ in 0..n {
                let one = R::timeout(LIMIT, std::future::ready(1)).await;
                done += one.expect("the limit is far away");
            }
            region.end(done)
        })
    });
}

fn pending<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut done = 0;
            let region = Region::begin();
            for _ in 0..n {
                let in_time = R::timeout(LIMIT, R::yield_now()).await;
                done += u64::from(in_time.is_some());
            }
            region.end(done)
        })
    });
}
