//! Group `process`: what a child costs that does nothing.
//!
//! Most of it is the kernel's: the floor is std, which makes the same child with one
//! thread that has nothing else to do and so may wait. Whoever left a child behind, or
//! did not read its pipes to the end, would be faster: an operation counts only if the
//! status was collected and both pipes were empty.

use std::future::Future;
use std::process::Output;

use crate::probe::{Probe, Region};
use crate::row::{Contender, Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, TaskSet, Tokio, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "process_output",
            "spawn /bin/true, wait for it and collect its output",
            (64, 4),
            vec![
                Contender::named("blitzen", one_by_one::<Blitzen>),
                Contender::named("tokio", one_by_one::<Tokio>),
                Contender::floor("std", with_std),
            ],
        )
        .target(OverTokio(1.0)),
        Row::new(
            "process_32",
            "the same with 32 children at once",
            (64, 32),
            vec![
                Contender::named("blitzen", at_once::<Blitzen>),
                Contender::named("tokio", at_once::<Tokio>),
            ],
        )
        .target(OverTokio(1.0)),
    ]
}

const PROGRAM: &str = "/bin/true";
const AT_ONCE: u64 = 32;

/// A runtime with processes.
trait Processes: Rt {
    fn output(program: &str) -> impl Future<Output = std::io::Result<Output>> + Send;
}

macro_rules! tokio_like {
    ($name:ident, $library:ident) => {
        impl Processes for $name {
            fn output(program: &str) -> impl Future<Output = std::io::Result<Output>> + Send {
                $library::process::Command::new(program).output()
            }
        }
    };
}

tokio_like!(Tokio, tokio);
tokio_like!(Blitzen, blitzen);

/// 1 if everything is as it should be.
fn verdict(output: std::io::Result<Output>) -> u64 {
    let output = output.expect("there is such a program");
    let said_nothing = output.stdout.is_empty() && output.stderr.is_empty();
    u64::from(output.status.success() && said_nothing)
}

fn one_by_one<R: Processes>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut done = 0;
            let region = Region::begin();
            for _ in 0..n {
                done += verdict(R::output(PROGRAM).await);
            }
            region.end(done)
        })
    });
}

fn at_once<R: Processes + TaskSet>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let (mut begun, mut done) = (0, 0);
            let mut set = R::new_set();
            let region = Region::begin();
            loop {
                while begun < n && begun - done < AT_ONCE {
                    begun += 1;
                    R::spawn_into(&mut set, async { verdict(R::output(PROGRAM).await) });
                }
                match R::join_next(&mut set).await {
                    Some(one) => done += one,
                    None => break,
                }
            }
            region.end(done)
        })
    });
}

fn with_std(probe: &mut Probe) {
    probe.time(|n| {
        let mut done = 0;
        let region = Region::begin();
        for _ in 0..n {
            done += verdict(std::process::Command::new(PROGRAM).output());
        }
        region.end(done)
    });
}
