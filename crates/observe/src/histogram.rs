//! Histograms of durations: how they divide time into buckets, and the counts.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::counter::Counter;
use crate::histogram_snapshot::Histogram;

/// The default shortest and longest duration of a [`LogHistogram`].
const MIN_VALUE: Duration = Duration::from_nanos(100);
const MAX_VALUE: Duration = Duration::from_secs(60);
/// The default precision: four buckets for each power of two.
const PRECISION: u32 = 2;
const MAX_PRECISION: u32 = 10;

/// How a histogram divides time into buckets.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::runtime::{Builder, HistogramConfiguration};
///
/// let runtime = Builder::new_current_thread()
///     .enable_metrics_poll_time_histogram()
///     .metrics_poll_time_histogram_configuration(HistogramConfiguration::linear(
///         Duration::from_micros(100),
///         10,
///     ))
///     .build()
///     .unwrap();
/// assert_eq!(runtime.metrics().poll_time_histogram_num_buckets(), 10);
/// ```
#[derive(Clone, Debug)]
pub struct HistogramConfiguration {
    scale: Scale,
}

/// The buckets of a histogram.
#[derive(Clone, Copy, Debug)]
enum Scale {
    /// All have the same width.
    Linear {
        width_ns: u64,
        buckets: usize,
    },
    /// Each is twice as wide as the one before. The first width is a power of two.
    Doubling {
        first_ns: u64,
        buckets: usize,
    },
    Log(LogHistogram),
}

impl HistogramConfiguration {
    /// Creates a configuration of `num_buckets` buckets that are `bucket_width` wide. The last
    /// one also counts everything that is longer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::HistogramConfiguration;
    ///
    /// let configuration = HistogramConfiguration::linear(Duration::from_micros(50), 20);
    /// # let _ = configuration;
    /// ```
    pub fn linear(bucket_width: Duration, num_buckets: usize) -> Self {
        let (width_ns, buckets) = (nanos(bucket_width), num_buckets);
        Self {
            scale: Scale::Linear { width_ns, buckets },
        }
    }

    /// Creates a configuration whose buckets become wider with the durations that they count.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{HistogramConfiguration, LogHistogram};
    ///
    /// let configuration = HistogramConfiguration::log(LogHistogram::builder().max_error(0.1));
    /// # let _ = configuration;
    /// ```
    pub fn log(configuration: impl Into<LogHistogram>) -> Self {
        Self {
            scale: Scale::Log(configuration.into()),
        }
    }

    /// Creates a configuration of buckets that double in width. `first` is rounded up to a power
    /// of two nanoseconds.
    #[doc(hidden)]
    pub fn doubling(first: Duration, buckets: usize) -> Self {
        let first_ns = nanos(first).next_power_of_two();
        Self {
            scale: Scale::Doubling { first_ns, buckets },
        }
    }
}

impl Scale {
    fn buckets(&self) -> usize {
        match self {
            Self::Linear { buckets, .. } | Self::Doubling { buckets, .. } => *buckets,
            Self::Log(log) => log.buckets,
        }
    }

    /// The bucket that counts a duration, unless it is beyond the last.
    fn index(&self, value_ns: u64) -> u64 {
        match self {
            Self::Linear { width_ns, .. } => value_ns / (*width_ns).max(1),
            Self::Doubling { first_ns, .. } if value_ns < *first_ns => 0,
            Self::Doubling { first_ns, .. } => (value_ns.ilog2() - first_ns.ilog2() + 1).into(),
            Self::Log(log) => log_index(value_ns, log.precision).saturating_sub(log.first),
        }
    }

    /// Where a bucket that is not the first one starts.
    fn start(&self, bucket: u64) -> u64 {
        match self {
            Self::Linear { width_ns, .. } => width_ns.saturating_mul(bucket),
            Self::Doubling { first_ns, .. } => shift_left(*first_ns, bucket - 1),
            Self::Log(log) => log_start(log.first + bucket, log.precision),
        }
    }

    fn range(&self, bucket: usize) -> Range<u64> {
        let number = bucket as u64;
        let start = match bucket {
            0 => 0,
            _ => self.start(number),
        };
        let end = match bucket + 1 == self.buckets() {
            true => u64::MAX,
            false => self.start(number + 1),
        };
        start..end
    }
}

/// The scale of a histogram whose buckets become wider with the durations that they count.
///
/// Each power of two nanoseconds is divided into the same number of buckets, so that the
/// relative error is the same everywhere. The first bucket also counts everything that is
/// shorter than the minimum, the last one everything that is longer than the maximum.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::runtime::LogHistogram;
///
/// let histogram = LogHistogram::builder().max_value(Duration::from_secs(1)).build();
/// assert!(histogram.max_value() >= 1_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHistogram {
    /// Each power of two has 2^precision buckets.
    precision: u32,
    /// The bucket of the whole scale that is the first one here.
    first: u64,
    buckets: usize,
}

impl LogHistogram {
    /// Creates a builder with the default settings.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LogHistogram;
    ///
    /// assert_eq!(LogHistogram::builder().build(), LogHistogram::default());
    /// ```
    pub fn builder() -> LogHistogramBuilder {
        LogHistogramBuilder::default()
    }

    /// Returns where the last bucket starts, in nanoseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LogHistogram;
    ///
    /// assert_eq!(LogHistogram::default().max_value(), 60_129_542_144);
    /// ```
    pub fn max_value(&self) -> u64 {
        log_start(self.first + self.buckets as u64 - 1, self.precision)
    }
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl From<LogHistogramBuilder> for LogHistogram {
    fn from(builder: LogHistogramBuilder) -> Self {
        builder.build()
    }
}

/// Builds a [`LogHistogram`].
///
/// By default it counts durations from 100 ns to a minute with an error of at most 25 %.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::runtime::LogHistogram;
///
/// let histogram = LogHistogram::builder()
///     .min_value(Duration::from_micros(1))
///     .max_value(Duration::from_secs(10))
///     .max_error(0.1)
///     .build();
/// # let _ = histogram;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LogHistogramBuilder {
    min_value: Option<Duration>,
    max_value: Option<Duration>,
    precision: Option<u32>,
}

impl LogHistogramBuilder {
    /// Sets the largest relative error of a bucket. The default is 0.25, the minimum about 0.001.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LogHistogram;
    ///
    /// let exact = LogHistogram::builder().precision_exact(4).build();
    /// assert_eq!(LogHistogram::builder().max_error(0.07).build(), exact);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics unless `max_error` is greater than 0 and less than 1.
    pub fn max_error(self, max_error: f64) -> Self {
        assert!(max_error > 0.0, "max_error must be greater than 0");
        assert!(max_error < 1.0, "max_error must be less than 1");
        let suffices = |precision: &u32| 1.0 / f64::from(1_u32 << precision) <= max_error;
        let precision = (PRECISION..MAX_PRECISION).find(suffices);
        Self {
            precision: Some(precision.unwrap_or(MAX_PRECISION)),
            ..self
        }
    }

    /// Sets the number of buckets for each power of two to 2 to the power of `p`. The default
    /// is 2.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LogHistogram;
    ///
    /// // Each bucket is twice as wide as the one before.
    /// let histogram = LogHistogram::builder().precision_exact(0).build();
    /// # let _ = histogram;
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `p` is greater than 10.
    pub fn precision_exact(self, p: u32) -> Self {
        assert!(p <= MAX_PRECISION, "precision must be <= {MAX_PRECISION}");
        Self {
            precision: Some(p),
            ..self
        }
    }

    /// Sets the shortest duration that has a bucket of its own. The default is 100 ns.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::LogHistogram;
    ///
    /// let histogram = LogHistogram::builder().min_value(Duration::from_micros(20)).build();
    /// # let _ = histogram;
    /// ```
    pub fn min_value(self, duration: Duration) -> Self {
        Self {
            min_value: Some(duration),
            ..self
        }
    }

    /// Sets the longest duration that has a bucket of its own. The default is a minute.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen::runtime::LogHistogram;
    ///
    /// let histogram = LogHistogram::builder().max_value(Duration::from_millis(4)).build();
    /// assert!(histogram.max_value() >= 4_000_000);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `duration` is zero.
    pub fn max_value(self, duration: Duration) -> Self {
        assert!(!duration.is_zero(), "max value must be greater than 0");
        Self {
            max_value: Some(duration),
            ..self
        }
    }

    /// Creates the scale, unless it needs more than `max_buckets` buckets.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LogHistogram;
    ///
    /// assert!(LogHistogram::builder().max_buckets(119).is_ok());
    /// assert!(LogHistogram::builder().max_buckets(100).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the number of buckets that would be needed.
    pub fn max_buckets(
        &mut self,
        max_buckets: usize,
    ) -> Result<LogHistogram, InvalidHistogramConfiguration> {
        let histogram = self.build();
        match histogram.buckets <= max_buckets {
            true => Ok(histogram),
            false => Err(InvalidHistogramConfiguration::TooManyBuckets {
                required_bucket_count: histogram.buckets,
            }),
        }
    }

    /// Creates the scale.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::LogHistogram;
    ///
    /// assert_eq!(LogHistogram::builder().build(), LogHistogram::default());
    /// ```
    pub fn build(&self) -> LogHistogram {
        let min_ns = nanos(self.min_value.unwrap_or(MIN_VALUE));
        let max_ns = nanos(self.max_value.unwrap_or(MAX_VALUE));
        let precision = self.precision.unwrap_or(PRECISION);
        // The first bucket ends where the one of the minimum starts, the last one starts at
        // the maximum or right after it.
        let first = log_index(min_ns, precision).saturating_sub(1);
        let mut last = log_index(max_ns, precision);
        let next = log_start(last + 1, precision);
        if log_start(last, precision) < max_ns && next < u64::MAX {
            last += 1;
        }
        LogHistogram {
            precision,
            first,
            buckets: (last.saturating_sub(first) as usize + 1).max(2),
        }
    }
}

/// The error of a [`LogHistogramBuilder`].
///
/// # Examples
///
/// ```
/// use blitzen::runtime::{InvalidHistogramConfiguration, LogHistogram};
///
/// let error = LogHistogram::builder().max_buckets(100).unwrap_err();
/// let InvalidHistogramConfiguration::TooManyBuckets { required_bucket_count } = error;
/// assert_eq!(required_bucket_count, 119);
/// ```
#[derive(Debug)]
pub enum InvalidHistogramConfiguration {
    /// More buckets are needed than were allowed.
    TooManyBuckets {
        /// The number of buckets that are needed.
        required_bucket_count: usize,
    },
}

impl fmt::Display for InvalidHistogramConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TooManyBuckets {
            required_bucket_count,
        } = self;
        write!(f, "the histogram needs {required_bucket_count} buckets")
    }
}

impl Error for InvalidHistogramConfiguration {}

/// The bucket of a value on a scale with 2^precision buckets for each power of two, from zero.
/// Values below 2^(precision + 1) have a bucket each.
fn log_index(value: u64, precision: u32) -> u64 {
    let shift = value.max(1).ilog2().saturating_sub(precision);
    (u64::from(shift) << precision) + (value >> shift)
}

/// Where the bucket starts that [`log_index`] returns.
fn log_start(index: u64, precision: u32) -> u64 {
    let shift = (index >> precision).saturating_sub(1);
    shift_left(index - (shift << precision), shift)
}

/// Shifts to the left; a result that does not fit is the largest value.
fn shift_left(value: u64, by: u64) -> u64 {
    match u64::from(value.leading_zeros()) >= by {
        true if value > 0 => value << by,
        true => 0,
        false => u64::MAX,
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Counts of durations, with one writer.
///
/// ```
/// use std::time::Duration;
/// use blitzen_observe::{HistogramConfiguration, HistogramCounts};
///
/// let histogram = HistogramCounts::new(&HistogramConfiguration::linear(Duration::from_nanos(10), 3));
/// histogram.record(12);
/// assert_eq!((histogram.count(0), histogram.count(1)), (0, 1));
/// ```
#[derive(Debug)]
pub struct HistogramCounts {
    scale: Scale,
    counts: Box<[Counter]>,
}

impl HistogramCounts {
    /// Creates an empty histogram.
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen_observe::{HistogramConfiguration, HistogramCounts};
    ///
    /// let configuration = HistogramConfiguration::linear(Duration::from_nanos(10), 3);
    /// assert_eq!(HistogramCounts::new(&configuration).buckets(), 3);
    /// ```
    pub fn new(configuration: &HistogramConfiguration) -> Self {
        let scale = configuration.scale;
        Self {
            counts: (0..scale.buckets()).map(|_| Counter::new()).collect(),
            scale,
        }
    }

    /// Counts a duration. Only the owner calls this.
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen_observe::{HistogramConfiguration, HistogramCounts};
    ///
    /// let histogram = HistogramCounts::new(&HistogramConfiguration::linear(Duration::from_nanos(10), 3));
    /// histogram.record(1_000_000);
    /// assert_eq!(histogram.count(2), 1);
    /// ```
    pub fn record(&self, value_ns: u64) {
        let bucket = usize::try_from(self.scale.index(value_ns)).unwrap_or(usize::MAX);
        let last = self.counts.len().wrapping_sub(1);
        if let Some(count) = self.counts.get(bucket.min(last)) {
            count.bump();
        }
    }

    /// Returns the number of buckets.
    ///
    /// ```
    /// use blitzen_observe::{HistogramConfiguration, HistogramCounts, LogHistogram};
    ///
    /// let configuration = HistogramConfiguration::log(LogHistogram::default());
    /// assert_eq!(HistogramCounts::new(&configuration).buckets(), 119);
    /// ```
    pub fn buckets(&self) -> usize {
        self.counts.len()
    }

    /// Returns the nanoseconds that a bucket covers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen_observe::{HistogramConfiguration, HistogramCounts};
    ///
    /// let histogram = HistogramCounts::new(&HistogramConfiguration::linear(Duration::from_nanos(10), 3));
    /// assert_eq!(histogram.range(1), 10..20);
    /// assert_eq!(histogram.range(2), 20..u64::MAX);
    /// ```
    pub fn range(&self, bucket: usize) -> Range<u64> {
        self.scale.range(bucket)
    }

    /// Returns the count of a bucket.
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen_observe::{HistogramConfiguration, HistogramCounts};
    ///
    /// let histogram = HistogramCounts::new(&HistogramConfiguration::linear(Duration::from_nanos(10), 3));
    /// assert_eq!(histogram.count(0), 0);
    /// ```
    ///
    /// # Panics
    /// Panics if there is no such bucket.
    #[track_caller]
    pub fn count(&self, bucket: usize) -> u64 {
        self.counts[bucket].get()
    }

    /// Adds the counts to `total`, which has the same buckets, or none yet.
    ///
    /// ```
    /// use std::time::Duration;
    /// use blitzen_observe::{Histogram, HistogramConfiguration, HistogramCounts};
    ///
    /// let counts = HistogramCounts::new(&HistogramConfiguration::linear(Duration::from_nanos(10), 3));
    /// counts.record(12);
    /// let mut total = Histogram::default();
    /// counts.add_to(&mut total);
    /// counts.add_to(&mut total);
    /// assert_eq!(total.count(), 2);
    /// ```
    pub fn add_to(&self, total: &mut Histogram) {
        let counts = (0..self.buckets()).map(|bucket| (self.range(bucket), self.count(bucket)));
        total.add(counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every bucket starts where the one before ends, and counts its first and last value.
    fn check(configuration: &HistogramConfiguration) {
        let scale = configuration.scale;
        let mut end = 0;
        for bucket in 0..scale.buckets() {
            let range = scale.range(bucket);
            assert_eq!(range.start, end, "bucket {bucket} of {scale:?}");
            assert!(range.start < range.end, "bucket {bucket} of {scale:?}");
            for value in [range.start, range.end - 1] {
                let index = (scale.index(value) as usize).min(scale.buckets() - 1);
                assert_eq!(index, bucket, "{value} of {scale:?}");
            }
            end = range.end;
        }
        assert_eq!(end, u64::MAX);
    }

    #[test]
    fn buckets_cover_all_time_and_agree_with_their_ranges() {
        for precision in 0..=MAX_PRECISION {
            for (min_ns, max_ns) in [(0, 1), (1, 1_000), (100, 60_000_000_000), (999, u64::MAX)] {
                let log = LogHistogram::builder()
                    .min_value(Duration::from_nanos(min_ns))
                    .max_value(Duration::from_nanos(max_ns))
                    .precision_exact(precision);
                check(&HistogramConfiguration::log(log));
            }
        }
        for buckets in [1, 2, 10] {
            check(&HistogramConfiguration::linear(
                Duration::from_nanos(7),
                buckets,
            ));
            check(&HistogramConfiguration::doubling(
                Duration::from_nanos(50),
                buckets,
            ));
        }
    }

    #[test]
    fn the_first_bucket_is_below_the_minimum_and_the_last_above_the_maximum() {
        let log = LogHistogram::builder()
            .min_value(Duration::from_micros(20))
            .max_value(Duration::from_millis(4))
            .precision_exact(0)
            .build();
        assert_eq!(log.buckets, 10);
        let scale = Scale::Log(log);
        assert_eq!(scale.range(0), 0..16_384);
        assert_eq!(scale.range(9), 4_194_304..u64::MAX);
    }

    #[test]
    fn doubling_buckets_start_at_powers_of_two() {
        let scale = HistogramConfiguration::doubling(Duration::from_micros(50), 3).scale;
        assert_eq!(scale.range(0), 0..65_536);
        assert_eq!(scale.range(1), 65_536..131_072);
        assert_eq!(scale.range(2), 131_072..u64::MAX);
    }
}
