//! A `BufReader` is at every moment where the source without a buffer would be.

mod common;

use std::io::{Cursor, Read, Seek};

use blitzen_io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader, SeekFrom};
use common::{Jumpy, calm_scripts};
use futures::executor::block_on;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    ReadExact(usize),
    Fill(usize),
    Seek(SeekFrom),
    Position,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let edges = prop_oneof![
        -40..40_i64,
        Just(i64::MIN),
        Just(i64::MIN + 3),
        Just(i64::MAX)
    ];
    prop::collection::vec(
        prop_oneof![
            3 => (0..12_usize).prop_map(Op::ReadExact),
            3 => (0..12_usize).prop_map(Op::Fill),
            2 => edges.prop_map(|by| Op::Seek(SeekFrom::Current(by))),
            1 => (0..60_u64).prop_map(|to| Op::Seek(SeekFrom::Start(to))),
            1 => (-60..20_i64).prop_map(|by| Op::Seek(SeekFrom::End(by))),
            1 => Just(Op::Position),
        ],
        0..30,
    )
}

proptest! {
    #[test]
    fn it_agrees_with_a_cursor(
        data in prop::collection::vec(any::<u8>(), 0..50),
        capacity in 1..10_usize,
        script in calm_scripts(),
        ops in ops(),
    ) {
        let mut plain = Cursor::new(&data[..]);
        let source = Jumpy::new(Cursor::new(&data[..]), script);
        let mut buffered = BufReader::with_capacity(capacity, source);
        for op in ops {
            match op {
                Op::ReadExact(amount) => {
                    // A seek may have gone further than a `usize` of 32 bits.
                    let position = plain.position().min(data.len() as u64);
                    let left = data.len() - position as usize;
                    let amount = amount.min(left);
                    let (mut expected, mut seen) = (vec![0; amount], vec![0; amount]);
                    Read::read_exact(&mut plain, &mut expected).unwrap();
                    block_on(buffered.read_exact(&mut seen)).unwrap();
                    prop_assert_eq!(seen, expected);
                }
                Op::Fill(amount) => {
                    let seen = block_on(buffered.fill_buf()).unwrap();
                    let amount = amount.min(seen.len());
                    let seen = seen[..amount].to_vec();
                    buffered.consume(amount);
                    let mut expected = vec![0; amount];
                    Read::read_exact(&mut plain, &mut expected).unwrap();
                    prop_assert_eq!(seen, expected);
                }
                Op::Seek(to) => {
                    let (expected, seen) = (Seek::seek(&mut plain, to), block_on(buffered.seek(to)));
                    prop_assert_eq!(seen.is_ok(), expected.is_ok());
                    if let (Ok(seen), Ok(expected)) = (seen, expected) {
                        prop_assert_eq!(seen, expected);
                        prop_assert!(buffered.buffer().is_empty());
                    }
                }
                Op::Position => {
                    let seen = block_on(buffered.stream_position()).unwrap();
                    prop_assert_eq!(seen, plain.position());
                }
            }
        }
    }
}
