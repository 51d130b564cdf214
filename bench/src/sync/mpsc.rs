//! Cost of a message from many tasks to one, and of each half on its own.
//!
//! Between tasks the scheduler is part of it: how often a full or empty channel puts
//! a task to sleep is the channel's doing. It would lie if messages were lost or
//! doubled: the receiver adds up what it gets, and the sum must be that of all
//! numbers sent.
//!
//! The rows of one thread use the `try_` forms in laps that fit a channel of 1,024, so
//! that the memory is warm, and time only their half of each lap.

use std::future::Future;

use super::pairs;
use crate::kit::split_evenly;
use crate::probe::{Laps, Probe, Region};
use crate::row::{Contender, Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio, may, run_inside};

macro_rules! bounded {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen BlitzenBounded,
            "tokio": Tokio TokioBounded,
            "tokio+blitzen": Tokio BlitzenBounded,
            "smol": Smol AsyncChannelBounded,
            "tokio+async-channel": Tokio AsyncChannelBounded,
            "tokio+kanal": Tokio KanalBounded,
            "tokio+flume": Tokio FlumeBounded,
        ]
    };
}

macro_rules! unbounded {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen BlitzenUnbounded,
            "tokio": Tokio TokioUnbounded,
            "tokio+blitzen": Tokio BlitzenUnbounded,
            "smol": Smol AsyncChannelUnbounded,
            "tokio+async-channel": Tokio AsyncChannelUnbounded,
            "tokio+kanal": Tokio KanalUnbounded,
            "tokio+flume": Tokio FlumeUnbounded,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    let between =
        |name, what, contenders: Vec<Contender>| Row::new(name, what, (200_000, 5_000), contenders);
    let alone =
        |name, what, contenders: Vec<Contender>| Row::new(name, what, (500_000, 5_000), contenders);
    vec![
        between(
            "mpsc_1p1c",
            "bounded mpsc, capacity 4,096, one task to another",
            bounded!(one_to_one_large),
        )
        .target(OverTokio(2.5)),
        between(
            "mpsc_4p1c",
            "bounded mpsc, capacity 4,096, four tasks to one",
            bounded!(four_to_one_large),
        )
        .target(OverTokio(2.5)),
        between(
            "mpsc_16_1p1c",
            "bounded mpsc, capacity 16, one task to another",
            bounded!(one_to_one_16),
        )
        .target(OverTokio(2.5)),
        between(
            "mpsc_1_1p1c",
            "bounded mpsc, capacity 1, one task to another",
            bounded!(one_to_one_1),
        )
        .target(OverTokio(2.5)),
        between(
            "mpsc_unbounded_1p1c",
            "unbounded mpsc, one task to another",
            unbounded!(one_to_one_large),
        )
        .isolated_peer("may", may_one_to_one)
        .target(OverTokio(2.0)),
        between(
            "mpsc_unbounded_4p1c",
            "unbounded mpsc, four tasks to one",
            unbounded!(four_to_one_large),
        )
        .isolated_peer("may", may_four_to_one)
        .target(OverTokio(2.0)),
        alone(
            "mpsc_try_send",
            "bounded mpsc, try_send, one thread",
            bounded!(try_send),
        )
        .floor("std", try_send::<Tokio, StdBounded>)
        .target(OverTokio(2.0)),
        alone(
            "mpsc_try_recv",
            "bounded mpsc, try_recv, one thread",
            bounded!(try_recv),
        )
        .floor("std", try_recv::<Tokio, StdBounded>)
        .target(OverTokio(2.0)),
        alone(
            "mpsc_try_trip",
            "bounded mpsc, try_send and try_recv, one thread",
            bounded!(try_trip),
        )
        .floor("std", try_trip::<Tokio, StdBounded>)
        .counted(10_000)
        .target(OverTokio(2.0)),
        alone(
            "mpsc_trip",
            "bounded mpsc, send().await and recv().await, one task",
            bounded!(trip),
        )
        .counted(10_000)
        .target(OverTokio(4.0)),
        alone(
            "mpsc_unbounded_try_send",
            "unbounded mpsc, send, one thread",
            unbounded!(try_send),
        )
        .floor("std", try_send::<Tokio, StdUnbounded>)
        .target(OverTokio(2.0)),
        alone(
            "mpsc_unbounded_try_recv",
            "unbounded mpsc, try_recv, one thread",
            unbounded!(try_recv),
        )
        .floor("std", try_recv::<Tokio, StdUnbounded>)
        .target(OverTokio(2.0)),
        alone(
            "mpsc_unbounded_try_trip",
            "unbounded mpsc, send and try_recv, one thread",
            unbounded!(try_trip),
        )
        .floor("std", try_trip::<Tokio, StdUnbounded>)
        .counted(10_000)
        .target(OverTokio(2.0)),
        alone(
            "mpsc_unbounded_trip",
            "unbounded mpsc, send and recv().await, one task",
            unbounded!(trip),
        )
        .counted(10_000)
        .target(OverTokio(4.0)),
    ]
}

/// A channel that can be used without waiting.
pub(crate) trait TryChannel: 'static {
    type Sender: Clone + Send + 'static;
    type Receiver: Send + 'static;

    /// An unbounded channel has no use for the capacity.
    fn open(capacity: usize) -> (Self::Sender, Self::Receiver);
    fn try_send(sender: &Self::Sender, value: u64) -> bool;
    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64>;
}

/// A channel that can be awaited.
pub(crate) trait Channel: TryChannel {
    fn send(sender: &Self::Sender, value: u64) -> impl Future<Output = ()> + Send;
    /// `None` when all senders are gone and all messages taken.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;
}

macro_rules! tokio_like {
    ($bounded:ident, $unbounded:ident, $($mpsc:ident)::+) => {
        pub(crate) struct $bounded;

        impl TryChannel for $bounded {
            type Sender = $($mpsc)::+::Sender<u64>;
            type Receiver = $($mpsc)::+::Receiver<u64>;

            fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
                $($mpsc)::+::channel(capacity)
            }

            fn try_send(sender: &Self::Sender, value: u64) -> bool {
                sender.try_send(value).is_ok()
            }

            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.try_recv().ok()
            }
        }

        impl Channel for $bounded {
            async fn send(sender: &Self::Sender, value: u64) {
                sender.send(value).await.expect("the receiver is there");
            }

            fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send {
                receiver.recv()
            }
        }

        pub(crate) struct $unbounded;

        impl TryChannel for $unbounded {
            type Sender = $($mpsc)::+::UnboundedSender<u64>;
            type Receiver = $($mpsc)::+::UnboundedReceiver<u64>;

            fn open(_: usize) -> (Self::Sender, Self::Receiver) {
                $($mpsc)::+::unbounded_channel()
            }

            fn try_send(sender: &Self::Sender, value: u64) -> bool {
                sender.send(value).is_ok()
            }

            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.try_recv().ok()
            }
        }

        impl Channel for $unbounded {
            async fn send(sender: &Self::Sender, value: u64) {
                sender.send(value).expect("the receiver is there");
            }

            fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send {
                receiver.recv()
            }
        }
    };
}

tokio_like!(TokioBounded, TokioUnbounded, tokio::sync::mpsc);
tokio_like!(BlitzenBounded, BlitzenUnbounded, blitzen::channel::mpsc);

/// A channel whose two ends work through shared references.
macro_rules! shared_ends {
    (
        $name:ident, $sender:ty, $receiver:ty, open: $capacity:ident => $open:expr,
        $send:ident is $sent:pat, $recv:ident is $value:ident in $received:pat
    ) => {
        pub(crate) struct $name;

        impl Channel for $name {
            async fn send(sender: &Self::Sender, value: u64) {
                sender.$send(value).await.expect("the receiver is there");
            }

            async fn recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.$recv().await.ok()
            }
        }

        impl TryChannel for $name {
            type Sender = $sender;
            type Receiver = $receiver;

            fn open($capacity: usize) -> (Self::Sender, Self::Receiver) {
                $open
            }

            fn try_send(sender: &Self::Sender, value: u64) -> bool {
                matches!(sender.try_send(value), $sent)
            }

            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                match receiver.try_recv() {
                    $received => Some($value),
                    _ => None,
                }
            }
        }
    };
}

shared_ends!(
    AsyncChannelBounded, async_channel::Sender<u64>, async_channel::Receiver<u64>,
    open: capacity => async_channel::bounded(capacity),
    send is Ok(()), recv is value in Ok(value)
);
shared_ends!(
    AsyncChannelUnbounded, async_channel::Sender<u64>, async_channel::Receiver<u64>,
    open: _capacity => async_channel::unbounded(),
    send is Ok(()), recv is value in Ok(value)
);
shared_ends!(
    KanalBounded, kanal::AsyncSender<u64>, kanal::AsyncReceiver<u64>,
    open: capacity => kanal::bounded_async(capacity),
    send is Ok(true), recv is value in Ok(Some(value))
);
shared_ends!(
    KanalUnbounded, kanal::AsyncSender<u64>, kanal::AsyncReceiver<u64>,
    open: _capacity => kanal::unbounded_async(),
    send is Ok(true), recv is value in Ok(Some(value))
);
shared_ends!(
    FlumeBounded, flume::Sender<u64>, flume::Receiver<u64>,
    open: capacity => flume::bounded(capacity),
    send_async is Ok(()), recv_async is value in Ok(value)
);
shared_ends!(
    FlumeUnbounded, flume::Sender<u64>, flume::Receiver<u64>,
    open: _capacity => flume::unbounded(),
    send_async is Ok(()), recv_async is value in Ok(value)
);

/// std's, which can wait only by blocking.
macro_rules! of_std {
    ($name:ident, $sender:ty, $open:expr, $send:ident) => {
        struct $name;

        impl TryChannel for $name {
            type Sender = $sender;
            type Receiver = std::sync::mpsc::Receiver<u64>;

            fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
                $open(capacity)
            }

            fn try_send(sender: &Self::Sender, value: u64) -> bool {
                sender.$send(value).is_ok()
            }

            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.try_recv().ok()
            }
        }
    };
}

of_std!(
    StdBounded,
    std::sync::mpsc::SyncSender<u64>,
    std::sync::mpsc::sync_channel,
    try_send
);
of_std!(
    StdUnbounded,
    std::sync::mpsc::Sender<u64>,
    |_capacity| std::sync::mpsc::channel(),
    send
);

/// Capacity of the rows that are not about waiting for room.
pub(super) const LARGE: usize = 4_096;

fn one_to_one_large<R: Rt, C: Channel>(probe: &mut Probe) {
    many_to_one::<R, C>(probe, 1, LARGE);
}

fn four_to_one_large<R: Rt, C: Channel>(probe: &mut Probe) {
    many_to_one::<R, C>(probe, 4, LARGE);
}

fn one_to_one_16<R: Rt, C: Channel>(probe: &mut Probe) {
    many_to_one::<R, C>(probe, 1, 16);
}

fn one_to_one_1<R: Rt, C: Channel>(probe: &mut Probe) {
    many_to_one::<R, C>(probe, 1, 1);
}

/// What a receiver got, and whether it can be what was sent.
#[derive(Default)]
pub(super) struct Received {
    messages: u64,
    sum: u64,
}

impl Received {
    pub(super) fn take(&mut self, value: u64) {
        self.messages += 1;
        self.sum = self.sum.wrapping_add(value);
    }

    pub(super) fn add(&mut self, other: Received) {
        self.messages += other.messages;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The number of messages, if they were those of [`send_numbers`] to each of
    /// `senders`, `total` in all.
    #[track_caller]
    pub(super) fn check(&self, total: u64, senders: u64) -> u64 {
        let sum = split_evenly(total, senders)
            .fold(0u64, |sum, count| sum.wrapping_add(count * (count - 1) / 2));
        assert_eq!(self.sum, sum, "the messages are not those that were sent");
        self.messages
    }
}

pub(super) async fn send_numbers<C: Channel>(sender: C::Sender, count: u64) {
    for value in 0..count {
        C::send(&sender, value).await;
    }
}

pub(super) async fn receive_all<C: Channel>(mut receiver: C::Receiver) -> Received {
    let mut received = Received::default();
    while let Some(value) = C::recv(&mut receiver).await {
        received.take(value);
    }
    received
}

fn many_to_one<R: Rt, C: Channel>(probe: &mut Probe, producers: u64, capacity: usize) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let (sender, receiver) = C::open(capacity);
            let region = Region::begin();
            let consumer = R::spawn(receive_all::<C>(receiver));
            for count in split_evenly(n, producers) {
                R::detach(R::spawn(send_numbers::<C>(sender.clone(), count)));
            }
            drop(sender);
            let received = consumer.await;
            region.end(received.check(n, producers))
        })
    });
}

fn may_one_to_one(probe: &mut Probe) {
    may_many_to_one(probe, 1);
}

fn may_four_to_one(probe: &mut Probe) {
    may_many_to_one(probe, 4);
}

/// The same between coroutines, by may's own channel.
fn may_many_to_one(probe: &mut Probe, producers: u64) {
    may::start(probe.workers());
    probe.time(|n| {
        let (sender, receiver) = ::may::sync::mpsc::channel();
        let region = Region::begin();
        let consumer = may::spawn(move || {
            let mut received = Received::default();
            while let Ok(value) = receiver.recv() {
                received.take(value);
            }
            received
        });
        for count in split_evenly(n, producers) {
            let sender = sender.clone();
            drop(may::spawn(move || {
                for value in 0..count {
                    sender.send(value).expect("the receiver is there");
                }
            }));
        }
        drop(sender);
        let received = may::join(consumer);
        region.end(received.check(n, producers))
    });
}

const LAP: u64 = 1_000;

/// Fills and empties a channel lap by lap, and times what `timed` says.
fn laps<C: TryChannel>(probe: &mut Probe, timed: Half) {
    probe.time(|n| {
        let (sender, mut receiver) = C::open(1_024);
        let mut laps = Laps::new();
        let mut received = 0;
        while received < n {
            let lap = LAP.min(n - received);
            let send = || {
                for value in 0..lap {
                    assert!(C::try_send(&sender, value), "there is room");
                }
            };
            let mut recv = || {
                for value in 0..lap {
                    assert_eq!(C::try_recv(&mut receiver), Some(value), "in order");
                    received += 1;
                }
            };
            match timed {
                Half::Send => {
                    laps.time(send);
                    recv();
                }
                Half::Recv => {
                    send();
                    laps.time(recv);
                }
            }
        }
        laps.end(received)
    });
}

#[derive(Clone, Copy)]
enum Half {
    Send,
    Recv,
}

// The rows of one thread need no scheduler; the parameter names the contender.

fn try_send<R: Rt, C: TryChannel>(probe: &mut Probe) {
    laps::<C>(probe, Half::Send);
}

fn try_recv<R: Rt, C: TryChannel>(probe: &mut Probe) {
    laps::<C>(probe, Half::Recv);
}

fn try_trip<R: Rt, C: TryChannel>(probe: &mut Probe) {
    probe.time(|n| {
        let (sender, mut receiver) = C::open(1_024);
        let mut received = 0;
        let region = Region::begin();
        for value in 0..n {
            assert!(C::try_send(&sender, value), "there is room");
            assert_eq!(C::try_recv(&mut receiver), Some(value));
            received += 1;
        }
        region.end(received)
    });
}

fn trip<R: Rt, C: Channel>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let (sender, mut receiver) = C::open(1_024);
            let mut received = 0;
            let region = Region::begin();
            for value in 0..n {
                C::send(&sender, value).await;
                assert_eq!(C::recv(&mut receiver).await, Some(value));
                received += 1;
            }
            region.end(received)
        })
    });
}
