//! Cost of a value whose latest state four receivers follow.
//!
//! Left alone, receivers would skip values and the row would time a sender without
//! listeners. So each value is sent when all four have seen the one before: an
//! operation is one send and four wakes. Only Tokio and blitzen have the primitive.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel};

use super::{leak, pairs};
use crate::kit::Signal;
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Tokio};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen BlitzenWatch,
            "tokio": Tokio TokioWatch,
            "tokio+blitzen": Tokio BlitzenWatch,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "watch_1p4c",
            "watch, one task to four that see every value",
            (50_000, 2_000),
            contenders!(one_to_four),
        )
        .counted(2_000)
        .target(OverTokio(2.5)),
        Row::new(
            "watch_try",
            "watch, send, has_changed and borrow_and_update, one thread",
            (300_000, 5_000),
            contenders!(alone),
        )
        .counted(10_000)
        .target(OverTokio(2.5)),
    ]
}

const RECEIVERS: u64 = 4;

pub(crate) trait Watch: 'static {
    type Sender: Send + 'static;
    type Receiver: Clone + Send + 'static;

    fn open() -> (Self::Sender, Self::Receiver);
    fn send(sender: &Self::Sender, value: u64);
    fn changed(receiver: &mut Self::Receiver) -> impl Future<Output = u64> + Send;
    fn try_changed(receiver: &mut Self::Receiver) -> Option<u64>;
}

macro_rules! tokio_like {
    ($name:ident, $($watch:ident)::+) => {
        pub(crate) struct $name;

        impl Watch for $name {
            type Sender = $($watch)::+::Sender<u64>;
            type Receiver = $($watch)::+::Receiver<u64>;

            fn open() -> (Self::Sender, Self::Receiver) {
                $($watch)::+::channel(0)
            }

            fn send(sender: &Self::Sender, value: u64) {
                sender.send(value).expect("somebody listens");
            }

            async fn changed(receiver: &mut Self::Receiver) -> u64 {
                receiver.changed().await.expect("the sender is there");
                *receiver.borrow_and_update()
            }

            fn try_changed(receiver: &mut Self::Receiver) -> Option<u64> {
                let is_new = receiver.has_changed().expect("the sender is there");
                is_new.then(|| *receiver.borrow_and_update())
            }
        }
    };
}

tokio_like!(TokioWatch, tokio::sync::watch);
tokio_like!(BlitzenWatch, blitzen::channel::watch);

fn one_to_four<R: Rt, W: Watch>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let (sender, receiver) = W::open();
            let seen = leak((AtomicU64::new(0), Signal::default()));
            let region = Region::begin();
            let tasks: Vec<_> = (0..RECEIVERS)
                .map(|_| {
                    let mut receiver = receiver.clone();
                    R::spawn(async move {
                        let (count, all_saw) = seen;
                        for value in 1..=n {
                            assert_eq!(W::changed(&mut receiver).await, value, "every value");
                            // AcqRel: the last one to see it speaks for all.
                            if (count.fetch_add(1, AcqRel) + 1).is_multiple_of(RECEIVERS) {
                                all_saw.fire();
                            }
                        }
                        n
                    })
                })
                .collect();
            R::spawn(async move {
                for value in 1..=n {
                    W::send(&sender, value);
                    seen.1.wait().await;
                }
            })
            .await;
            let mut sights = 0;
            for task in tasks {
                sights += task.await;
            }
            region.end(sights / RECEIVERS)
        })
    });
}

fn alone<R: Rt, W: Watch>(probe: &mut Probe) {
    probe.time(|n| {
        let (sender, mut receiver) = W::open();
        let mut seen = 0;
        let region = Region::begin();
        for value in 1..=n {
            W::send(&sender, value);
            assert_eq!(W::try_changed(&mut receiver), Some(value));
            seen += 1;
        }
        region.end(seen)
    });
}
