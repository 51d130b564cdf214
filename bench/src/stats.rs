//! Order statistics of small samples: pure arithmetic.

/// The value below which a share `q` of `values` lies: the nearest rank, so that
/// every answer is a value that was measured.
///
/// The p99 of fewer than a hundred values is their maximum; the report says so by
/// showing how many there were.
pub(crate) fn quantile(values: &[f64], q: f64) -> f64 {
    assert!(!values.is_empty(), "a quantile of nothing");
    assert!((0.0..=1.0).contains(&q), "quantile {q}");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The middle value, or the mean of the two middle ones.
pub(crate) fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median of nothing");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// The mean of ratios; `None` for no values.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    Some((logs / values.len() as f64).exp())
}

/// A ratio as it came out round by round.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// How far `own` is ahead of `other`, each round compared with itself only: what
/// slowed the machine in one round slowed both.
///
/// Above 1 means `own` is ahead: it costs less, or yields more if `higher_is_better`.
/// `None` when a value is zero, where no ratio exists.
pub(crate) fn ahead(own: &[f64], other: &[f64], higher_is_better: bool) -> Option<Ratio> {
    assert_eq!(
        own.len(),
        other.len(),
        "both sides are sampled in every round"
    );
    let ratios: Vec<f64> = own
        .iter()
        .zip(other)
        .map(|(&own, &other)| {
            if higher_is_better {
                own / other
            } else {
                other / own
            }
        })
        .collect();
    if ratios.is_empty()
        || ratios
            .iter()
            .any(|ratio| !ratio.is_finite() || *ratio <= 0.0)
    {
        return None;
    }
    Some(Ratio {
        median: median(&ratios),
        low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        high: ratios.iter().copied().fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 0.2), 1.0);
        assert_eq!(quantile(&values, 0.21), 2.0);
        assert_eq!(quantile(&values, 0.95), 5.0);
        assert_eq!(quantile(&values, 1.0), 5.0);
    }

    #[test]
    fn the_p99_of_a_hundred_values_leaves_one_above() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.99), 99.0);
        assert_eq!(quantile(&values, 0.95), 95.0);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn a_geometric_mean_treats_twice_and_half_alike() {
        assert_eq!(geometric_mean(&[]), None);
        let mean = geometric_mean(&[0.5, 2.0, 4.0]).unwrap();
        assert!((mean - 4f64.powf(1.0 / 3.0)).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn a_slow_round_slows_both_sides_and_leaves_the_ratio() {
        let own = [10.0, 100.0, 10.0];
        let other = [20.0, 200.0, 30.0];
        let ratio = ahead(&own, &other, false).unwrap();
        assert_eq!(ratio.median, 2.0);
        assert_eq!((ratio.low, ratio.high), (2.0, 3.0));
    }

    #[test]
    fn more_is_ahead_where_more_is_better() {
        let ratio = ahead(&[0.8], &[0.4], true).unwrap();
        assert_eq!(ratio.median, 2.0);
        let ratio = ahead(&[0.8], &[0.4], false).unwrap();
        assert_eq!(ratio.median, 0.5);
    }

    #[test]
    fn nothing_is_a_multiple_of_zero() {
        assert_eq!(ahead(&[0.0], &[1.0], false), None);
        assert_eq!(ahead(&[1.0], &[0.0], false), None);
        assert_eq!(ahead(&[], &[], false), None);
    }
}
