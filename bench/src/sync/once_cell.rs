//! Cost of a value that is set once.
//!
//! A get is one load and a branch; there is nothing to win, only to lose. It would
//! lie if the load were hoisted out of the loop: the cell passes through `black_box`.

use std::hint::black_box;

use super::{leak, pairs};
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio, run_inside};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen blitzen::sync::OnceCell<u64>,
            "tokio": Tokio tokio::sync::OnceCell<u64>,
            "tokio+blitzen": Tokio blitzen::sync::OnceCell<u64>,
            "smol": Smol async_lock::OnceCell<u64>,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "once_cell_get",
            "OnceCell::get of a set cell",
            (10_000_000, 50_000),
            contenders!(get),
        )
        .floor("std", get::<Tokio, std::sync::OnceLock<u64>>)
        .counted(100_000)
        .target(OverTokio(1.0)),
        Row::new(
            "once_cell_set",
            "OnceCell made, set, dropped",
            (1_000_000, 5_000),
            contenders!(set),
        )
        .floor("std", set::<Tokio, std::sync::OnceLock<u64>>)
        .counted(10_000)
        .target(OverTokio(1.2)),
    ]
}

pub(crate) trait Once: Send + Sync + 'static {
    fn new() -> Self;
    fn get(&self) -> Option<&u64>;
    /// Whether the cell was empty.
    fn set(&self, value: u64) -> bool;
}

macro_rules! tokio_like {
    ($($library:ident)::+) => {
        impl Once for $($library)::+::OnceCell<u64> {
            fn new() -> Self {
                Self::new()
            }

            fn get(&self) -> Option<&u64> {
                self.get()
            }

            fn set(&self, value: u64) -> bool {
                self.set(value).is_ok()
            }
        }
    };
}

tokio_like!(tokio::sync);
tokio_like!(blitzen::sync);

impl Once for std::sync::OnceLock<u64> {
    fn new() -> Self {
        Self::new()
    }

    fn get(&self) -> Option<&u64> {
        self.get()
    }

    fn set(&self, value: u64) -> bool {
        self.set(value).is_ok()
    }
}

impl Once for async_lock::OnceCell<u64> {
    fn new() -> Self {
        Self::new()
    }

    fn get(&self) -> Option<&u64> {
        self.get()
    }

    fn set(&self, value: u64) -> bool {
        self.set_blocking(value).is_ok()
    }
}

fn get<R: Rt, C: Once>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let cell = leak(C::new());
            assert!(cell.set(1));
            let mut sum = 0;
            let region = Region::begin();
            for _ in 0..n {
                sum += black_box(cell).get().expect("it is set");
            }
            region.end(sum)
        })
    });
}

fn set<R: Rt, C: Once>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mut sum = 0;
            let region = Region::begin();
            for _ in 0..n {
                let cell = C::new();
                sum += u64::from(black_box(&cell).set(1));
            }
            region.end(sum)
        })
    });
}
