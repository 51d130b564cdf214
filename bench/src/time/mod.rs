//! Group `time`: what a timer costs, and how late it is.

mod lateness;
mod sleep;
mod timeout;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use async_io::Timer;
use futures_lite::StreamExt;

use crate::row::Row;
use crate::rt::{Blitzen, Rt, Smol, Tokio};

pub(crate) fn rows() -> Vec<Row> {
    [sleep::rows(), timeout::rows(), lateness::rows()].concat()
}

/// Rows of curves over the number of timers.
pub(crate) fn sized_rows() -> Vec<Row> {
    vec![sleep::sized_row(), lateness::sized_row()]
}

/// A runtime with timers.
pub(crate) trait Clock: Rt {
    type Sleep: Future<Output = ()> + Send;
    type Interval: Send;

    fn sleep(duration: Duration) -> Self::Sleep;
    fn sleep_until(deadline: Instant) -> Self::Sleep;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);

    /// `None` if the time was up first.
    fn timeout<F: Future<Output: Send> + Send>(
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// Due at `first` and then every `period`.
    fn interval(first: Instant, period: Duration) -> Self::Interval;
    fn tick(interval: &mut Self::Interval) -> impl Future<Output = ()> + Send;
}

macro_rules! tokio_like {
    ($name:ident, $library:ident) => {
        impl Clock for $name {
            type Sleep = $library::time::Sleep;
            type Interval = $library::time::Interval;

            fn sleep(duration: Duration) -> Self::Sleep {
                $library::time::sleep(duration)
            }

            fn sleep_until(deadline: Instant) -> Self::Sleep {
                $library::time::sleep_until(deadline.into())
            }

            fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
                sleep.reset(deadline.into());
            }

            async fn timeout<F: Future<Output: Send> + Send>(
                duration: Duration,
                future: F,
            ) -> Option<F::Output> {
                $library::time::timeout(duration, future).await.ok()
            }

            fn interval(first: Instant, period: Duration) -> Self::Interval {
                $library::time::interval_at(first.into(), period)
            }

            async fn tick(interval: &mut Self::Interval) {
                interval.tick().await;
            }
        }
    };
}

tokio_like!(Tokio, tokio);
tokio_like!(Blitzen, blitzen);

/// A timer that resolves to nothing.
pub(crate) struct SmolSleep(Timer);

impl Future for SmolSleep {
    type Output = ();

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|_fired_at| ())
    }
}

impl Clock for Smol {
    type Sleep = SmolSleep;
    type Interval = Timer;

    fn sleep(duration: Duration) -> SmolSleep {
        SmolSleep(Timer::after(duration))
    }

    fn sleep_until(deadline: Instant) -> SmolSleep {
        SmolSleep(Timer::at(deadline))
    }

    fn reset(mut sleep: Pin<&mut SmolSleep>, deadline: Instant) {
        sleep.0.set_at(deadline);
    }

    /// smol has no such function; this is what its users write.
    async fn timeout<F: Future<Output: Send> + Send>(
        duration: Duration,
        future: F,
    ) -> Option<F::Output> {
        futures_lite::future::or(async { Some(future.await) }, async {
            Timer::after(duration).await;
            None
        })
        .await
    }

    fn interval(first: Instant, period: Duration) -> Timer {
        Timer::interval_at(first, period)
    }

    async fn tick(interval: &mut Timer) {
        interval.next().await.expect("an interval does not end");
    }
}

/// A workload of timers, for each runtime that has them.
macro_rules! each_clock {
    ($work:ident) => {
        vec![
            $crate::row::Contender::named("blitzen", $work::<$crate::rt::Blitzen>),
            $crate::row::Contender::named("tokio", $work::<$crate::rt::Tokio>),
            $crate::row::Contender::named("smol", $work::<$crate::rt::Smol>),
        ]
    };
}
use each_clock;
