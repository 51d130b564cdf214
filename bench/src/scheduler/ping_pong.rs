//! Cost of one task waking another.
//!
//! The pair row is the path of every request and reply: wake, queue, poll. A trip
//! is one wake of one task. It would lie if both signals could be seen without a
//! wake: they alternate strictly, so each wait begins before its signal or finds it
//! set, and with one pair there is nothing else to run meanwhile.
//!
//! The row of a thousand pairs adds what a server does around it: both tasks are
//! spawned, make one round trip, and end.

use std::sync::Arc;

use super::coroutines;
use crate::kit::{Countdown, Signal};
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Rt, each_runtime, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "ping_pong_pair",
            "two tasks wake each other in turn, per wake",
            (200_000, 2_000),
            each_runtime!(ping_pong_pair),
        )
        .isolated_peer("may", coroutines::ping_pong_pair)
        .counted(4_000)
        .target(OverTokio(2.0)),
        Row::new(
            "ping_pong_1000",
            "1,000 pairs at once: spawn both, one round trip, end",
            (50_000, 2_000),
            each_runtime!(ping_pong_1000),
        )
        .counted(2_000)
        .target(OverTokio(2.0)),
    ]
}

#[derive(Default)]
struct Signals {
    ping: Signal,
    pong: Signal,
}

pub(crate) fn ping_pong_pair<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let signals = Arc::new(Signals::default());
            let other = R::spawn({
                let signals = signals.clone();
                async move {
                    let mut trips = 0;
                    for _ in 0..n / 2 {
                        signals.ping.wait().await;
                        trips += 1;
                        signals.pong.fire();
                    }
                    trips
                }
            });
            let region = Region::begin();
            let mut trips = n % 2; // half a round trip is not made
            for _ in 0..n / 2 {
                signals.ping.fire();
                signals.pong.wait().await;
                trips += 1;
            }
            trips += other.await;
            region.end(trips)
        })
    });
}

const PAIRS_AT_ONCE: u64 = 1_000;

fn ping_pong_1000<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let mut done = 0;
            while done < n {
                let pairs = PAIRS_AT_ONCE.min(n - done);
                let round = Arc::new(Countdown::new(pairs));
                for pair in 0..pairs {
                    let round = round.clone();
                    R::detach(R::spawn(async move {
                        round_trip::<R>().await;
                        round.done(pair);
                    }));
                }
                round.wait().await;
                done += pairs;
            }
            region.end(done)
        })
    });
}

async fn round_trip<R: Rt>() {
    let signals = Arc::new(Signals::default());
    R::detach(R::spawn({
        let signals = signals.clone();
        async move {
            signals.ping.wait().await;
            signals.pong.fire();
        }
    }));
    signals.ping.fire();
    signals.pong.wait().await;
}
