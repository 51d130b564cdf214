//! Cost of telling one task that something happened.
//!
//! Stored and taken, it is two state changes; between two tasks it is a wake, to be
//! read beside `ping_pong_pair`, which has the same shape and the least a flag and a
//! waker can cost. Only Tokio and blitzen have the primitive.

use std::future::Future;

use super::{leak, pairs};
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Tokio, run_inside};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen blitzen::sync::Notify,
            "tokio": Tokio tokio::sync::Notify,
            "tokio+blitzen": Tokio blitzen::sync::Notify,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "notify_stored",
            "Notify: a permit stored, then taken",
            (1_000_000, 5_000),
            contenders!(stored),
        )
        .counted(10_000)
        .target(OverTokio(1.5)),
        Row::new(
            "notify_ping_pong",
            "Notify: two tasks notify each other in turn, per wake",
            (100_000, 2_000),
            contenders!(ping_pong),
        )
        .counted(4_000)
        .target(OverTokio(1.7)),
    ]
}

pub(crate) trait AsyncNotify: Send + Sync + 'static {
    fn new() -> Self;
    fn notify_one(&self);
    fn notified(&'static self) -> impl Future<Output = ()> + Send;
}

macro_rules! tokio_like {
    ($($library:ident)::+) => {
        impl AsyncNotify for $($library)::+::Notify {
            fn new() -> Self {
                Self::new()
            }

            fn notify_one(&self) {
                self.notify_one();
            }

            fn notified(&'static self) -> impl Future<Output = ()> + Send {
                self.notified()
            }
        }
    };
}

tokio_like!(tokio::sync);
tokio_like!(blitzen::sync);

fn stored<R: Rt, N: AsyncNotify>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let notify = leak(N::new());
            let mut taken = 0;
            let region = Region::begin();
            for _ in 0..n {
                notify.notify_one();
                notify.notified().await;
                taken += 1;
            }
            region.end(taken)
        })
    });
}

fn ping_pong<R: Rt, N: AsyncNotify>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let (ping, pong) = (leak(N::new()), leak(N::new()));
            let other = R::spawn(async move {
                let mut trips = 0;
                for _ in 0..n / 2 {
                    ping.notified().await;
                    trips += 1;
                    pong.notify_one();
                }
                trips
            });
            let region = Region::begin();
            let mut trips = n % 2; // half a round trip is not made
            for _ in 0..n / 2 {
                ping.notify_one();
                pong.notified().await;
                trips += 1;
            }
            trips += other.await;
            region.end(trips)
        })
    });
}
