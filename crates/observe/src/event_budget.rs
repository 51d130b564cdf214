//! How many events may be recorded: pure arithmetic.

/// How long it takes to earn as many events as the ring holds.
const REFILL_NS: u64 = 2_000_000_000;

/// A token bucket: an event costs a token, time brings new ones.
///
/// ```
/// let mut budget = blitzen_observe::EventBudget::new(1_000);
/// assert!(budget.refill(0));
/// while budget.spend() {}
/// assert!(!budget.refill(1_000_000));
/// assert!(budget.refill(1_000_000_000), "after a second it has earned half of them");
/// ```
#[derive(Debug)]
pub struct EventBudget {
    tokens: u64,
    capacity: u64,
    /// How long it takes to earn a token.
    token_ns: u64,
    /// The time for which tokens were given.
    paid_until_ns: u64,
}

impl EventBudget {
    /// Creates a full budget for a ring of `capacity` events.
    ///
    /// ```
    /// assert!(blitzen_observe::EventBudget::new(64).refill(0));
    /// ```
    pub fn new(capacity: usize) -> Self {
        Self {
            tokens: capacity as u64,
            capacity: capacity as u64,
            token_ns: (REFILL_NS / capacity.max(1) as u64).max(1),
            paid_until_ns: 0,
        }
    }

    /// Adds what was earned until `now_ns`. Returns whether an eighth of the capacity is there,
    /// so that what is recorded comes in whole stretches.
    ///
    /// ```
    /// assert!(blitzen_observe::EventBudget::new(64).refill(0));
    /// ```
    pub fn refill(&mut self, now_ns: u64) -> bool {
        let elapsed_ns = now_ns.saturating_sub(self.paid_until_ns);
        // Called every few microseconds: it seldom has to divide.
        if elapsed_ns >= self.token_ns {
            let earned = elapsed_ns / self.token_ns;
            // What is not a whole token yet is earned next time.
            self.paid_until_ns += earned * self.token_ns;
            self.tokens = self.tokens.saturating_add(earned).min(self.capacity);
        }
        self.tokens >= (self.capacity / 8).max(1)
    }

    /// Pays for an event; returns false if that was the last token.
    ///
    /// ```
    /// let mut budget = blitzen_observe::EventBudget::new(2);
    /// assert!(budget.spend());
    /// assert!(!budget.spend());
    /// ```
    pub fn spend(&mut self) -> bool {
        self.tokens = self.tokens.saturating_sub(1);
        self.tokens > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_recorded_than_a_ring_in_two_seconds() {
        let mut budget = EventBudget::new(1_000);
        let mut recorded = 0;
        let (step_ns, steps) = (100_000, 100_000);
        for step in 0..steps {
            if budget.refill(step * step_ns) {
                // As many as there are, with all speed.
                while budget.spend() {
                    recorded += 1;
                }
            }
        }
        // Ten seconds, and the tokens of the start.
        assert!((5_500..=6_000).contains(&recorded), "{recorded}");
    }

    #[test]
    fn a_budget_does_not_grow_beyond_a_ring() {
        let mut budget = EventBudget::new(100);
        assert!(budget.refill(u64::MAX / 2));
        assert_eq!(budget.tokens, 100);
    }

    #[test]
    fn short_intervals_lose_nothing() {
        let mut budget = EventBudget::new(8);
        while budget.spend() {}
        // A token takes a quarter of a second.
        for now_ns in (0..=REFILL_NS).step_by(1_000_003) {
            budget.refill(now_ns);
        }
        assert_eq!(budget.tokens, 7);
    }
}
