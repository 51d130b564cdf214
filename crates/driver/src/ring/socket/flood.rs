//! Whether more comes than can be dealt with: pure arithmetic.
//!
//! What the kernel brings early is cold when its task runs at last, and so is the
//! connection when the answer is sent. Then it is cheaper to be told only, and to
//! read when the task runs.

/// So many completions left over by a turn are many.
const MANY: usize = 512;
/// And so many are few.
const FEW: usize = 32;
/// So many turns in a row leave many: it is a flood.
const RISES_AFTER: u32 = 8;
/// So many turns in a row leave few: it is over.
const FALLS_AFTER: u32 = 64;

#[derive(Debug, Default)]
pub(super) struct Flood {
    is_high: bool,
    /// Turns in a row that speak for a change.
    turns: u32,
}

impl Flood {
    /// A turn has left so many completions for the next one.
    pub(super) fn note(&mut self, left: usize) {
        let (differs, enough) = match self.is_high {
            false => (left >= MANY, RISES_AFTER),
            true => (left <= FEW, FALLS_AFTER),
        };
        self.turns = if differs { self.turns + 1 } else { 0 };
        if self.turns == enough {
            self.is_high = !self.is_high;
            self.turns = 0;
        }
    }

    pub(super) fn is_high(&self) -> bool {
        self.is_high
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_takes_turns_in_a_row_to_rise_and_to_fall() {
        let mut flood = Flood::default();
        let mut after = |turns: u32, left: usize| {
            (0..turns).for_each(|_| flood.note(left));
            flood.is_high()
        };
        assert!(!after(RISES_AFTER - 1, MANY));
        assert!(!after(1, MANY - 1));
        assert!(!after(RISES_AFTER - 1, MANY));
        assert!(after(1, MANY));
        assert!(after(FALLS_AFTER - 1, FEW));
        assert!(after(1, FEW + 1));
        assert!(after(FALLS_AFTER - 1, FEW));
        assert!(!after(1, FEW));
    }
}
