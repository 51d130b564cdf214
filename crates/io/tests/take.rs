//! `take` gives exactly the first bytes, whatever way they come.

mod common;

use blitzen_io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use common::{Jumpy, scripts};
use futures::executor::block_on;
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_first_bytes_come_and_the_rest_stays(
        data in prop::collection::vec(any::<u8>(), 0..64),
        limits in prop::collection::vec(0..20_u64, 1..5),
        script in scripts(),
    ) {
        let mut taken = Jumpy::new(&data[..], script).take(0);
        let mut expected = &data[..];
        for limit in limits {
            taken.set_limit(limit);
            let mut part = Vec::new();
            let amount = block_on(taken.read_to_end(&mut part)).unwrap();
            let (first, rest) = expected.split_at(expected.len().min(limit as usize));
            prop_assert_eq!(&part[..], first);
            prop_assert_eq!(amount, first.len());
            prop_assert_eq!(taken.limit(), limit - first.len() as u64);
            expected = rest;
        }
        prop_assert_eq!(taken.into_inner().inner, expected);
    }

    #[test]
    fn by_lines_as_well(
        data in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..64),
        limit in 0..70_u64,
        capacity in 1..9_usize,
        script in scripts(),
    ) {
        let reader = BufReader::with_capacity(capacity, Jumpy::new(&data[..], script));
        let mut parts = reader.take(limit).split(b'\n');
        let mut all = Vec::new();
        while let Some(part) = block_on(parts.next_segment()).unwrap() {
            all.push(part);
        }
        let taken = &data[..data.len().min(limit as usize)];
        let mut expected: Vec<_> = taken.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        if expected.last().is_some_and(Vec::is_empty) {
            expected.pop(); // a delimiter ends a part, and starts none
        }
        prop_assert_eq!(all, expected);
    }
}

#[test]
fn a_limit_beyond_memory_is_no_limit() {
    let mut text = String::new();
    block_on((&b"hello"[..]).take(u64::MAX).read_to_string(&mut text)).unwrap();
    assert_eq!(text, "hello");
}
