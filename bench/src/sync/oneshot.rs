//! Cost of one value handed over once: make the channel, send, receive, free.
//!
//! Mostly it is the allocation. Between tasks an operation includes spawning the
//! task that sends. It would lie if the compiler saw through an empty channel: the
//! ends pass through `black_box`.

use std::future::Future;
use std::hint::black_box;

use super::pairs;
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio, run_inside};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen BlitzenOneshot,
            "tokio": Tokio TokioOneshot,
            "tokio+blitzen": Tokio BlitzenOneshot,
            "tokio+oneshot": Tokio OneshotCrate,
            "smol": Smol AsyncChannelOfOne,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "oneshot_try",
            "oneshot: make, send, try_recv",
            (500_000, 5_000),
            contenders!(try_recv),
        )
        .counted(10_000)
        .target(OverTokio(1.8)),
        Row::new(
            "oneshot_await",
            "oneshot: make, send, await",
            (500_000, 5_000),
            contenders!(awaited),
        )
        .counted(10_000)
        .target(OverTokio(1.8)),
        Row::new(
            "oneshot_tasks",
            "oneshot: make, spawn a task that sends, await",
            (50_000, 2_000),
            contenders!(between_tasks),
        )
        .counted(2_000)
        .target(OverTokio(1.8)),
    ]
}

pub(crate) trait Oneshot: 'static {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    fn open() -> (Self::Sender, Self::Receiver);
    fn send(sender: Self::Sender, value: u64);
    fn recv(receiver: Self::Receiver) -> impl Future<Output = u64> + Send;
    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64>;
}

macro_rules! tokio_like {
    ($name:ident, $($oneshot:ident)::+) => {
        pub(crate) struct $name;

        impl Oneshot for $name {
            type Sender = $($oneshot)::+::Sender<u64>;
            type Receiver = $($oneshot)::+::Receiver<u64>;

            fn open() -> (Self::Sender, Self::Receiver) {
                $($oneshot)::+::channel()
            }

            fn send(sender: Self::Sender, value: u64) {
                sender.send(value).expect("the receiver is there");
            }

            async fn recv(receiver: Self::Receiver) -> u64 {
                receiver.await.expect("the sender sends")
            }

            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.try_recv().ok()
            }
        }
    };
}

tokio_like!(TokioOneshot, tokio::sync::oneshot);
tokio_like!(BlitzenOneshot, blitzen::channel::oneshot);

/// The crate `oneshot`.
pub(crate) struct OneshotCrate;

impl Oneshot for OneshotCrate {
    type Sender = oneshot::Sender<u64>;
    type Receiver = oneshot::Receiver<u64>;

    fn open() -> (Self::Sender, Self::Receiver) {
        oneshot::channel()
    }

    fn send(sender: Self::Sender, value: u64) {
        sender.send(value).expect("the receiver is there");
    }

    async fn recv(receiver: Self::Receiver) -> u64 {
        receiver.await.expect("the sender sends")
    }

    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
        receiver.try_recv().ok()
    }
}

/// What users of smol take.
pub(crate) struct AsyncChannelOfOne;

impl Oneshot for AsyncChannelOfOne {
    type Sender = async_channel::Sender<u64>;
    type Receiver = async_channel::Receiver<u64>;

    fn open() -> (Self::Sender, Self::Receiver) {
        async_channel::bounded(1)
    }

    fn send(sender: Self::Sender, value: u64) {
        sender.try_send(value).expect("there is room");
    }

    async fn recv(receiver: Self::Receiver) -> u64 {
        receiver.recv().await.expect("the sender sends")
    }

    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
        receiver.try_recv().ok()
    }
}

fn try_recv<R: Rt, O: Oneshot>(probe: &mut Probe) {
    probe.time(|n| {
        let mut received = 0;
        let region = Region::begin();
        for _ in 0..n {
            let (sender, mut receiver) = black_box(O::open());
            O::send(sender, 1);
            received += O::try_recv(&mut receiver).expect("it was sent");
        }
        region.end(received)
    });
}

fn awaited<R: Rt, O: Oneshot>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut received = 0;
            let region = Region::begin();
            for _ in 0..n {
                let (sender, receiver) = black_box(O::open());
                O::send(sender, 1);
                received += O::recv(receiver).await;
            }
            region.end(received)
        })
    });
}

fn between_tasks<R: Rt, O: Oneshot>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut received = 0;
            let region = Region::begin();
            for _ in 0..n {
                let (sender, receiver) = O::open();
                R::detach(R::spawn(async move { O::send(sender, 1) }));
                received += O::recv(receiver).await;
            }
            region.end(received)
        })
    });
}
