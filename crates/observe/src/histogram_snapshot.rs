//! A histogram as users see it: a copy of the counts.

use std::ops::Range;
use std::time::Duration;

/// How often durations occurred: a copy of the counts of a histogram, over all workers.
///
/// [`RuntimeMetrics::poll_times`] and [`RuntimeMetrics::schedule_delays`] return it. The counts
/// are read one after another while the workers run, so they are not of exactly the same
/// moment.
///
/// [`RuntimeMetrics::poll_times`]: https://docs.rs/blitzen/latest/blitzen/runtime/struct.RuntimeMetrics.html#method.poll_times
/// [`RuntimeMetrics::schedule_delays`]: https://docs.rs/blitzen/latest/blitzen/runtime/struct.RuntimeMetrics.html#method.schedule_delays
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Builder;
///
/// let runtime = Builder::new_current_thread().build().unwrap();
/// runtime.handle().set_poll_times(true);
/// runtime.block_on(runtime.spawn(async {})).unwrap();
/// let polls = runtime.metrics().poll_times();
/// assert_eq!(polls.count(), 1);
/// println!("half of the polls take less than {:?}", polls.quantile(0.5).unwrap());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<(Range<u64>, u64)>,
}

impl Histogram {
    /// Adds counts of the same buckets.
    pub(crate) fn add(&mut self, counts: impl Iterator<Item = (Range<u64>, u64)>) {
        if self.buckets.is_empty() {
            self.buckets = counts.collect();
            return;
        }
        for ((_, total), (_, count)) in self.buckets.iter_mut().zip(counts) {
            *total += count;
        }
    }

    /// Returns how many durations were counted.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().poll_times().count(), 0, "it is switched off");
    /// ```
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Returns the buckets, the shortest durations first: which durations each counts, and how
    /// many there were. The last bucket has no end: its range ends at [`Duration::MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = blitzen::runtime::Builder::new_current_thread().build().unwrap();
    /// runtime.handle().set_poll_times(true);
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// for (range, count) in runtime.metrics().poll_times().buckets() {
    ///     if count > 0 {
    ///         println!("{:?} to {:?}: {count}", range.start, range.end);
    ///     }
    /// }
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Range<Duration>, u64)> + '_ {
        self.buckets.iter().map(|(range, count)| {
            let end = match range.end {
                u64::MAX => Duration::MAX,
                end => Duration::from_nanos(end),
            };
            (Duration::from_nanos(range.start)..end, *count)
        })
    }

    /// Returns a duration that the share `quantile` of those counted does not exceed: the end
    /// of the bucket in which it lies, or the start of the last one, which has no end. Returns
    /// `None` if nothing was counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = blitzen::runtime::Builder::new_current_thread().build().unwrap();
    /// runtime.handle().set_poll_times(true);
    /// let polls = || runtime.metrics().poll_times();
    /// assert_eq!(polls().quantile(0.99), None, "there was no poll");
    /// runtime.block_on(runtime.spawn(async {})).unwrap();
    /// assert!(polls().quantile(0.99).unwrap() > Duration::ZERO);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics unless `quantile` is between 0 and 1.
    #[track_caller]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        assert!(
            (0.0..=1.0).contains(&quantile),
            "a quantile is between 0 and 1, not {quantile}"
        );
        let rank = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        found.map(|(range, _)| match range.end {
            u64::MAX => Duration::from_nanos(range.start),
            end => Duration::from_nanos(end),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: [u64; 3]) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.add([0..10, 10..20, 20..u64::MAX].into_iter().zip(counts));
        histogram
    }

    #[test]
    fn counts_of_all_workers_add_up() {
        let mut total = histogram([1, 2, 3]);
        total.add([0..10, 10..20, 20..u64::MAX].into_iter().zip([5, 0, 1]));
        assert_eq!(total.count(), 12);
        let counts: Vec<_> = total.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [6, 2, 4]);
        assert_eq!(total.buckets().last().unwrap().0.end, Duration::MAX);
    }

    #[test]
    fn a_quantile_is_the_end_of_its_bucket() {
        let total = histogram([50, 49, 1]);
        let quantile = |share| total.quantile(share).unwrap().as_nanos();
        assert_eq!((quantile(0.0), quantile(0.5)), (10, 10));
        assert_eq!((quantile(0.51), quantile(0.99)), (20, 20));
        assert_eq!(quantile(1.0), 20, "the last bucket has no end");
        assert_eq!(histogram([0, 0, 0]).quantile(0.5), None);
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
