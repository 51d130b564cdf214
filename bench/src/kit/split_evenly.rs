//! Dividing operations among tasks without losing any.

/// Splits `total` into `parts` parts as evenly as whole numbers allow; into fewer if
/// `total` is smaller.
pub(crate) fn split_evenly(total: u64, parts: u64) -> impl Iterator<Item = u64> {
    let parts = parts.min(total).max(1);
    (0..parts).map(move |part| total / parts + u64::from(part < total % parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_and_differ_by_at_most_one() {
        for (total, parts) in [(10, 3), (3, 10), (1_000_000, 1_000), (7, 7), (1, 1)] {
            let split: Vec<u64> = split_evenly(total, parts).collect();
            assert_eq!(split.iter().sum::<u64>(), total);
            assert!(split.iter().max().unwrap() - split.iter().min().unwrap() <= 1);
            assert!(split.len() as u64 <= parts);
        }
    }
}
