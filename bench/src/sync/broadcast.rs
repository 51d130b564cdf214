//! Cost of a message that four receivers all get.
//!
//! Tokio's and blitzen's channel overwrites what a slow receiver has not read, others
//! make the sender wait. So the sender pauses after each portion until all have read
//! it: nothing is overwritten, nobody waits for room, and every message is counted
//! four times.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel};

use super::{leak, pairs};
use crate::kit::Signal;
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen BlitzenBroadcast,
            "tokio": Tokio TokioBroadcast,
            "tokio+blitzen": Tokio BlitzenBroadcast,
            "smol": Smol AsyncBroadcast,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "broadcast_1p4c",
            "broadcast, one task to four, per message",
            (100_000, 2_000),
            contenders!(one_to_four),
        )
        .target(OverTokio(1.8)),
        Row::new(
            "broadcast_try",
            "broadcast, send and four try_recv, one thread",
            (200_000, 5_000),
            contenders!(try_four),
        )
        .counted(5_000)
        .target(OverTokio(1.8)),
    ]
}

const RECEIVERS: u64 = 4;
const CAPACITY: usize = 1_024;
const PORTION: u64 = 512;
const _: () = assert!(PORTION < CAPACITY as u64); // so that nothing is overwritten

pub(crate) trait Broadcast: 'static {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    fn open(capacity: usize, receivers: u64) -> (Self::Sender, Vec<Self::Receiver>);
    /// There is room and somebody listens.
    fn send(sender: &Self::Sender, value: u64);
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = u64> + Send;
    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64>;
}

macro_rules! tokio_like {
    ($name:ident, $($broadcast:ident)::+) => {
        pub(crate) struct $name;

        impl Broadcast for $name {
            type Sender = $($broadcast)::+::Sender<u64>;
            type Receiver = $($broadcast)::+::Receiver<u64>;

            fn open(capacity: usize, receivers: u64) -> (Self::Sender, Vec<Self::Receiver>) {
                let (sender, _) = $($broadcast)::+::channel(capacity);
                let receivers = (0..receivers).map(|_| sender.subscribe()).collect();
                (sender, receivers)
            }

            fn send(sender: &Self::Sender, value: u64) {
                sender.send(value).expect("somebody listens");
            }

            async fn recv(receiver: &mut Self::Receiver) -> u64 {
                receiver.recv().await.expect("nothing is overwritten")
            }

            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.try_recv().ok()
            }
        }
    };
}

tokio_like!(TokioBroadcast, tokio::sync::broadcast);
tokio_like!(BlitzenBroadcast, blitzen::channel::broadcast);

pub(crate) struct AsyncBroadcast;

impl Broadcast for AsyncBroadcast {
    type Sender = async_broadcast::Sender<u64>;
    type Receiver = async_broadcast::Receiver<u64>;

    fn open(capacity: usize, receivers: u64) -> (Self::Sender, Vec<Self::Receiver>) {
        let (sender, first) = async_broadcast::broadcast(capacity);
        let receivers = (0..receivers).map(|_| first.new_receiver()).collect();
        (sender, receivers)
    }

    fn send(sender: &Self::Sender, value: u64) {
        sender.try_broadcast(value).expect("there is room");
    }

    async fn recv(receiver: &mut Self::Receiver) -> u64 {
        receiver.recv_direct().await.expect("the sender is there")
    }

    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
        receiver.try_recv().ok()
    }
}

/// Where the sender waits for all receivers.
#[derive(Default)]
struct Pause {
    arrived: AtomicU64,
    all_arrived: Signal,
}

impl Pause {
    fn arrive(&self) {
        // AcqRel: the last one to arrive speaks for all.
        if (self.arrived.fetch_add(1, AcqRel) + 1).is_multiple_of(RECEIVERS) {
            self.all_arrived.fire();
        }
    }
}

fn one_to_four<R: Rt, B: Broadcast>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let (sender, receivers) = B::open(CAPACITY, RECEIVERS);
            let pause = leak(Pause::default());
            let region = Region::begin();
            let tasks: Vec<_> = receivers
                .into_iter()
                .map(|mut receiver| {
                    R::spawn(async move {
                        let mut received = 0;
                        while received < n {
                            assert_eq!(B::recv(&mut receiver).await, received, "in order");
                            received += 1;
                            if received % PORTION == 0 || received == n {
                                pause.arrive();
                            }
                        }
                        received
                    })
                })
                .collect();
            R::spawn(async move {
                for value in 0..n {
                    B::send(&sender, value);
                    if (value + 1) % PORTION == 0 || value + 1 == n {
                        pause.all_arrived.wait().await;
                    }
                }
            })
            .await;
            let mut received = 0;
            for task in tasks {
                received += task.await;
            }
            region.end(received / RECEIVERS)
        })
    });
}

fn try_four<R: Rt, B: Broadcast>(probe: &mut Probe) {
    probe.time(|n| {
        let (sender, mut receivers) = B::open(CAPACITY, RECEIVERS);
        let mut received = 0;
        let region = Region::begin();
        for value in 0..n {
            B::send(&sender, value);
            for receiver in &mut receivers {
                assert_eq!(B::try_recv(receiver), Some(value));
                received += 1;
            }
        }
        region.end(received / RECEIVERS)
    });
}
