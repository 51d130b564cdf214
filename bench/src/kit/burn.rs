//! Computation of a known length that touches no memory.
//!
//! The length is a number of steps, not a time: a task that is interrupted does not
//! get to do less. How long a step takes is the best of many short stretches, so
//! that a busy machine cannot make the ideal look slow and a runtime fast.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

const STRETCHES: usize = 200;
const STEPS_PER_STRETCH: u64 = 20_000;

/// So many steps of arithmetic.
#[derive(Clone, Copy)]
pub(crate) struct Burn {
    steps: u64,
}

impl Burn {
    /// A computation that takes `ns` on this processor when nothing disturbs it.
    pub(crate) fn of_ns(ns: f64) -> Burn {
        Burn {
            steps: (ns / step_ns()).round().max(1.0) as u64,
        }
    }

    pub(crate) fn run(self) {
        steps(self.steps);
    }

    /// What the processor needs for it at its best.
    pub(crate) fn ideal_ns(self) -> f64 {
        self.steps as f64 * step_ns()
    }
}

#[inline(never)]
fn steps(count: u64) {
    let mut word = black_box(count);
    for _ in 0..count {
        // Each step needs the one before it, so they cannot overlap.
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(5);
    }
    black_box(word);
}

fn step_ns() -> f64 {
    static STEP_NS: OnceLock<f64> = OnceLock::new();
    *STEP_NS.get_or_init(|| {
        (0..STRETCHES)
            .map(|_| {
                let started = Instant::now();
                steps(STEPS_PER_STRETCH);
                started.elapsed().as_nanos() as f64 / STEPS_PER_STRETCH as f64
            })
            .fold(f64::INFINITY, f64::min)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_burn_has_more_steps() {
        let (short, long) = (Burn::of_ns(1_000.0), Burn::of_ns(10_000.0));
        assert!(long.steps > 9 * short.steps && long.steps < 11 * short.steps);
        assert!((long.ideal_ns() - 10_000.0).abs() < 100.0);
        short.run();
    }
}
