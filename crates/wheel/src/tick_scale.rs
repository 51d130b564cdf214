//! From nanoseconds to ticks and back.

/// The moment at which ticks begin, and the length of a tick.
///
/// A deadline is rounded up to a tick and the clock down, so that nothing is ever early.
///
/// ```
/// use blitzen_wheel::TickScale;
///
/// let scale = TickScale::new(1_000, 125_000);
/// assert_eq!(scale.tick_of_deadline(126_000), 1);
/// assert_eq!(scale.tick_of_deadline(126_001), 2);
/// assert_eq!(scale.tick_reached(126_000), 1);
/// assert_eq!(scale.tick_reached(125_999), 0);
/// assert_eq!(scale.tick_start_ns(1), 126_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TickScale {
    origin_ns: u64,
    tick_ns: u64,
    /// A little more than 2⁶⁴ / `tick_ns`: a division costs five times a multiplication.
    reciprocal: u64,
}

impl TickScale {
    /// Creates a scale of ticks of `tick_ns`, counted from `origin_ns`.
    ///
    /// ```
    /// assert_eq!(blitzen_wheel::TickScale::new(0, 1_000).tick_reached(5_999), 5);
    /// ```
    ///
    /// # Panics
    /// If a tick is shorter than two nanoseconds.
    #[track_caller]
    pub const fn new(origin_ns: u64, tick_ns: u64) -> Self {
        assert!(tick_ns > 1, "a tick is longer than a nanosecond");
        Self {
            origin_ns,
            tick_ns,
            reciprocal: u64::MAX / tick_ns + 1,
        }
    }

    /// Returns the first tick that begins at `deadline_ns` or after it. [`u64::MAX`] means never, as
    /// a deadline and as a tick.
    ///
    /// ```
    /// # use blitzen_wheel::TickScale;
    /// assert_eq!(TickScale::new(0, 10).tick_of_deadline(11), 2);
    /// assert_eq!(TickScale::new(0, 10).tick_of_deadline(u64::MAX), u64::MAX);
    /// ```
    #[inline]
    pub const fn tick_of_deadline(self, deadline_ns: u64) -> u64 {
        if deadline_ns <= self.origin_ns {
            return 0;
        }
        if deadline_ns == u64::MAX {
            return u64::MAX;
        }
        self.whole_ticks(deadline_ns - self.origin_ns - 1) + 1
    }

    /// Returns the last tick that has begun at `now_ns`.
    ///
    /// ```
    /// # use blitzen_wheel::TickScale;
    /// assert_eq!(TickScale::new(0, 10).tick_reached(19), 1);
    /// ```
    #[inline]
    pub const fn tick_reached(self, now_ns: u64) -> u64 {
        self.whole_ticks(now_ns.saturating_sub(self.origin_ns))
    }

    /// Returns the moment at which `tick` begins, or [`u64::MAX`] if it overflows.
    ///
    /// ```
    /// # use blitzen_wheel::TickScale;
    /// assert_eq!(TickScale::new(5, 10).tick_start_ns(2), 25);
    /// assert_eq!(TickScale::new(5, 10).tick_start_ns(u64::MAX), u64::MAX);
    /// ```
    #[inline]
    pub const fn tick_start_ns(self, tick: u64) -> u64 {
        tick.saturating_mul(self.tick_ns)
            .saturating_add(self.origin_ns)
    }

    #[inline]
    const fn whole_ticks(self, span_ns: u64) -> u64 {
        // The reciprocal is too large by less than one part in 2⁶⁴, so the product is right or
        // one too large.
        let ticks = ((span_ns as u128 * self.reciprocal as u128) >> 64) as u64;
        match ticks * self.tick_ns > span_ns {
            true => ticks - 1,
            false => ticks,
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_moment_before_the_first_tick_counts_as_that() {
        let scale = TickScale::new(1_000, 10);
        assert_eq!((scale.tick_of_deadline(0), scale.tick_reached(0)), (0, 0));
    }

    proptest! {
        #[test]
        fn ticks_are_those_of_a_division(
            span in prop_oneof![any::<u64>(), 0..1_000_000_u64, (u64::MAX - 1_000_000)..u64::MAX],
            tick_ns in prop_oneof![2..1_000_u64, 2..u64::MAX, Just(125_000)],
        ) {
            let scale = TickScale::new(0, tick_ns);
            prop_assert_eq!(scale.tick_reached(span), span / tick_ns);
            let up = match span {
                u64::MAX => u64::MAX,
                _ => span.div_ceil(tick_ns),
            };
            prop_assert_eq!(scale.tick_of_deadline(span), up);
        }

        #[test]
        fn nothing_is_early(
            origin in 0..1_u64 << 62,
            deadline in 0..1_u64 << 62,
            now in 0..1_u64 << 62,
            tick_ns in 2..1_u64 << 40,
        ) {
            let scale = TickScale::new(origin, tick_ns);
            if deadline > origin && scale.tick_reached(now) >= scale.tick_of_deadline(deadline) {
                prop_assert!(now >= deadline);
            }
            prop_assert!(scale.tick_start_ns(scale.tick_of_deadline(deadline)) >= deadline);
        }
    }
}
