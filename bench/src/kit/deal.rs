//! Dividing operations among tasks without losing any.

/// `total` dealt to `hands` as evenly as whole numbers allow; fewer hands if there
/// are not enough.
pub(crate) fn deal(total: u64, hands: u64) -> impl Iterator<Item = u64> {
    let hands = hands.min(total).max(1);
    (0..hands).map(move |hand| total / hands + u64::from(hand < total % hands))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_dealt() {
        for (total, hands) in [(10, 3), (3, 10), (1_000_000, 1_000), (7, 7), (1, 1)] {
            let dealt: Vec<u64> = deal(total, hands).collect();
            assert_eq!(dealt.iter().sum::<u64>(), total);
            assert!(dealt.iter().max().unwrap() - dealt.iter().min().unwrap() <= 1);
            assert!(dealt.len() as u64 <= hands);
        }
    }
}
