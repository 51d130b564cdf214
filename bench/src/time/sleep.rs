//! Cost of a timer that does not fire, which is nearly every timer there is.
//!
//! Such a row would lie if the timer were not really armed: except in the first row
//! each is polled once, by the task's own waker, and must be pending. The row with a
//! million others live holds ten for each one measured.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::{Clock, each_clock};
use crate::probe::{Cost, Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::run_inside;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "sleep_new",
            "Sleep made and dropped, never polled",
            (500_000, 5_000),
            each_clock!(new),
        )
        .counted(10_000)
        .target(OverTokio(1.5)),
        Row::new(
            "sleep_armed",
            "Sleep made, polled once, dropped",
            (300_000, 5_000),
            each_clock!(armed),
        )
        .counted(10_000)
        .target(OverTokio(1.7)),
        Row::new(
            "sleep_armed_1_worker",
            "Sleep made, polled once, dropped; one worker",
            (100_000, 5_000),
            each_clock!(armed),
        )
        .workers(1)
        .target(OverTokio(6.0)),
        Row::new(
            "sleep_armed_among_1m",
            "Sleep made, polled once, dropped; a million others live",
            (100_000, 500),
            each_clock!(armed_among_many),
        )
        .target(OverTokio(2.0)),
        Row::new(
            "sleep_reset",
            "Sleep::reset of an armed one to a later deadline",
            (300_000, 5_000),
            each_clock!(reset),
        )
        .counted(10_000)
        .target(OverTokio(1.3)),
    ]
}

/// The row of a curve over the number of timers.
pub(crate) fn sized_row() -> Row {
    Row::new(
        "timers_armed",
        "Sleep made, polled once, dropped; that many others live",
        (100_000, 1_000),
        each_clock!(armed_among_sized),
    )
}

/// Far enough away not to fire in any sample.
const FAR: Duration = Duration::from_secs(300);

/// Polls once, and asserts that the timer waits.
async fn arm<S: Future>(mut sleep: Pin<&mut S>) {
    poll_fn(|cx| {
        assert!(sleep.as_mut().poll(cx).is_pending(), "it is far away");
        Poll::Ready(())
    })
    .await
}

fn new<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut made = 0;
            let region = Region::begin();
            for _ in 0..n {
                drop(black_box(R::sleep(FAR)));
                made += 1;
            }
            region.end(made)
        })
    });
}

async fn arm_and_drop<R: Clock>(n: u64) -> Cost {
    let mut armed = 0;
    let region = Region::begin();
    for _ in 0..n {
        arm(pin!(R::sleep(FAR))).await;
        armed += 1;
    }
    region.end(armed)
}

fn armed<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| run_inside(&rt, arm_and_drop::<R>(n)));
}

const OTHERS_PER_OP: u64 = 10;

fn armed_among_many<R: Clock>(probe: &mut Probe) {
    armed_among::<R>(probe, |n| OTHERS_PER_OP * n);
}

fn armed_among_sized<R: Clock>(probe: &mut Probe) {
    let size = probe.size();
    armed_among::<R>(probe, |_| size);
}

/// Arms and drops a timer while as many others live as `others` says for so many
/// operations.
fn armed_among<R: Clock>(probe: &mut Probe, others: impl Fn(u64) -> u64) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let others_live = others(n);
        run_inside(&rt, async move {
            let mut others = Vec::new();
            for other in 0..others_live {
                // Spread over a minute, as a server's timeouts are.
                let spread = Duration::from_micros(other * 7_919 % 60_000_000);
                let mut sleep = Box::pin(R::sleep(FAR + spread));
                arm(sleep.as_mut()).await;
                others.push(sleep);
            }
            let cost = arm_and_drop::<R>(n).await;
            drop(others);
            cost
        })
    });
}

fn reset<R: Clock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let start = Instant::now() + FAR;
            let mut sleep = pin!(R::sleep_until(start));
            arm(sleep.as_mut()).await;
            let mut resets = 0;
            let region = Region::begin();
            for later in 1..=n {
                R::reset(sleep.as_mut(), start + Duration::from_micros(later));
                resets += 1;
            }
            let cost = region.end(resets);
            arm(sleep.as_mut()).await; // still waiting
            cost
        })
    });
}
