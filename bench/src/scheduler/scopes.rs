//! Cost of a scope: opening and ending one, and a child in it.
//!
//! A child is compared with a plain task that is spawned and joined, on the same runtime: that is
//! the floor. `detached` are plain tasks that nobody joins: the last one wakes whoever waits for
//! all. It would lie if children could be left out (they count what they did), or
//! if the scope returned before them (the count is read when it has). An empty scope would lie if
//! the compiler saw through it: its body's value is opaque.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::kit::Signal;
use crate::probe::{Probe, Region};
use crate::row::{Contender, Row, Target::AtMost, Target::OverTokio, Target::TimesFloor};
use crate::rt::{Blitzen, Rt, Tokio, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "scope_child",
            "spawn no-op children without handles into a scope, until it ends",
            (100_000, 2_000),
            vec![
                Contender::named("blitzen", scope_child),
                Contender::named("tokio", join_set_child),
            ],
        )
        .floor("spawn", spawn_and_join)
        .floor("detached", spawn_detached)
        .counted(2_000)
        .target(OverTokio(2.0))
        .target(TimesFloor(1.15)),
        Row::new(
            "scope_empty",
            "open and end a scope without children",
            (500_000, 2_000),
            vec![
                Contender::named("blitzen", scope_empty),
                Contender::named("tokio", join_set_empty),
            ],
        )
        .counted(2_000)
        .target(AtMost(80.0)),
    ]
}

fn scope_child(probe: &mut Probe) {
    let rt = Blitzen::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let done = Arc::new(AtomicU64::new(0));
            let region = Region::begin();
            let ended = blitzen::scope(|s| {
                let done = done.clone();
                async move {
                    for _ in 0..n {
                        let done = done.clone();
                        s.spawn(async move {
                            done.fetch_add(black_box(1), Relaxed);
                            Ok::<_, blitzen::scope::Stopped>(())
                        });
                    }
                    Ok(())
                }
            });
            ended.await.expect("no child fails");
            region.end(done.load(Relaxed))
        })
    });
}

fn join_set_child(probe: &mut Probe) {
    let rt = Tokio::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let done = Arc::new(AtomicU64::new(0));
            let region = Region::begin();
            let mut set = tokio::task::JoinSet::new();
            for _ in 0..n {
                let done = done.clone();
                set.spawn(async move {
                    done.fetch_add(black_box(1), Relaxed);
                });
            }
            while set.join_next().await.is_some() {}
            region.end(done.load(Relaxed))
        })
    });
}

fn spawn_and_join(probe: &mut Probe) {
    let rt = Blitzen::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let done = Arc::new(AtomicU64::new(0));
            let mut joins = Vec::with_capacity(n as usize);
            let region = Region::begin();
            for _ in 0..n {
                let done = done.clone();
                joins.push(Blitzen::spawn(async move {
                    done.fetch_add(black_box(1), Relaxed);
                }));
            }
            for join in joins {
                join.await;
            }
            region.end(done.load(Relaxed))
        })
    });
}

fn spawn_detached(probe: &mut Probe) {
    let rt = Blitzen::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let done = Arc::new(AtomicU64::new(0));
            let all = Arc::new(Signal::default());
            let region = Region::begin();
            for _ in 0..n {
                let (done, all) = (done.clone(), all.clone());
                Blitzen::detach(Blitzen::spawn(async move {
                    if done.fetch_add(black_box(1), Relaxed) + 1 == n {
                        all.fire();
                    }
                }));
            }
            all.wait().await;
            region.end(done.load(Relaxed))
        })
    });
}

fn scope_empty(probe: &mut Probe) {
    let rt = Blitzen::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let mut done = 0;
            for _ in 0..n {
                let ended =
                    blitzen::scope(|_| async { Ok::<_, blitzen::scope::Stopped>(black_box(1)) });
                done += ended.await.expect("nobody fails");
            }
            region.end(done)
        })
    });
}

fn join_set_empty(probe: &mut Probe) {
    let rt = Tokio::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let region = Region::begin();
            let mut done = 0;
            for _ in 0..n {
                let mut set = tokio::task::JoinSet::<()>::new();
                done += match black_box(&mut set).join_next().await {
                    None => 1,
                    Some(_) => 0,
                };
            }
            region.end(done)
        })
    });
}
