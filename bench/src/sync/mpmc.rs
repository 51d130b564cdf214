//! Cost of a message when many tasks send and many receive.
//!
//! Tokio has no such channel: `tokio` here is async-channel on Tokio's scheduler,
//! what its users take. It would lie if a receiver starved while the others did its
//! work without anyone noticing the loss of a message: the sums of all receivers
//! together must be that of all numbers sent.

use super::mpsc::{
    AsyncChannelBounded, AsyncChannelUnbounded, Channel, FlumeBounded, FlumeUnbounded,
    KanalBounded, KanalUnbounded, LARGE, Received, TryChannel, receive_all, send_numbers,
};
use super::pairs;
use crate::kit::split_evenly;
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "mpmc_4p4c",
            "bounded mpmc, capacity 4,096, four tasks to four (tokio: with async-channel)",
            (200_000, 5_000),
            pairs![four_to_four;
                "blitzen": Blitzen BlitzenBounded,
                "tokio": Tokio AsyncChannelBounded,
                "tokio+blitzen": Tokio BlitzenBounded,
                "smol": Smol AsyncChannelBounded,
                "tokio+kanal": Tokio KanalBounded,
                "tokio+flume": Tokio FlumeBounded,
            ],
        )
        .target(OverTokio(3.0)),
        Row::new(
            "mpmc_unbounded_4p4c",
            "unbounded mpmc, four tasks to four (tokio: with async-channel)",
            (200_000, 5_000),
            pairs![four_to_four;
                "blitzen": Blitzen BlitzenUnbounded,
                "tokio": Tokio AsyncChannelUnbounded,
                "tokio+blitzen": Tokio BlitzenUnbounded,
                "smol": Smol AsyncChannelUnbounded,
                "tokio+kanal": Tokio KanalUnbounded,
                "tokio+flume": Tokio FlumeUnbounded,
            ],
        )
        .target(OverTokio(3.0)),
    ]
}

/// blitzen's own, which Tokio has no counterpart of.
macro_rules! blitzen {
    ($name:ident, $capacity:ident => $open:expr) => {
        struct $name;

        impl Channel for $name {
            async fn send(sender: &Self::Sender, value: u64) {
                sender.send(value).await.expect("the receiver is there");
            }

            async fn recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.recv().await
            }
        }

        impl TryChannel for $name {
            type Sender = blitzen::channel::Sender<u64>;
            type Receiver = blitzen::channel::Receiver<u64>;

            fn open($capacity: usize) -> (Self::Sender, Self::Receiver) {
                $open
            }

            fn try_send(sender: &Self::Sender, value: u64) -> bool {
                sender.try_send(value).is_ok()
            }

            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.try_recv().ok()
            }
        }
    };
}

blitzen!(BlitzenBounded, capacity => blitzen::channel::bounded(capacity));
blitzen!(BlitzenUnbounded, _capacity => blitzen::channel::unbounded());

fn four_to_four<R: Rt, C: Channel<Receiver: Clone>>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let (sender, receiver) = C::open(LARGE);
            let region = Region::begin();
            let consumers: Vec<_> = (0..4)
                .map(|_| R::spawn(receive_all::<C>(receiver.clone())))
                .collect();
            for count in split_evenly(n, 4) {
                R::detach(R::spawn(send_numbers::<C>(sender.clone(), count)));
            }
            drop(sender);
            let mut received = Received::default();
            for consumer in consumers {
                received.add(consumer.await);
            }
            region.end(received.check(n, 4))
        })
    });
}
