//! A `BufWriter` leaves in its sink what the writes without a buffer would.

mod common;

use std::io::{Cursor, IoSlice, Seek, Write};

use blitzen_io::{AsyncSeekExt, AsyncWriteExt, BufWriter, SeekFrom};
use common::{Jumpy, scripts};
use futures::executor::block_on;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Write(Vec<u8>),
    Vectored(Vec<Vec<u8>>),
    Seek(SeekFrom),
    Flush,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..12);
    prop::collection::vec(
        prop_oneof![
            4 => bytes().prop_map(Op::Write),
            2 => prop::collection::vec(bytes(), 0..4).prop_map(Op::Vectored),
            1 => (0..40_u64).prop_map(|to| Op::Seek(SeekFrom::Start(to))),
            1 => (-10..10_i64).prop_map(|by| Op::Seek(SeekFrom::Current(by))),
            1 => Just(Op::Flush),
        ],
        0..20,
    )
}

/// A cursor beyond the end fills the gap even for nothing; nobody asks a sink
/// to write nothing.
fn write(cursor: &mut Cursor<Vec<u8>>, bytes: &[u8]) {
    if !bytes.is_empty() {
        Write::write_all(cursor, bytes).unwrap();
    }
}

proptest! {
    #[test]
    fn it_agrees_with_a_cursor(capacity in 0..10_usize, script in scripts(), ops in ops()) {
        let mut plain = Cursor::new(Vec::new());
        let sink = Jumpy::new(Cursor::new(Vec::new()), script);
        let mut buffered = BufWriter::with_capacity(capacity, sink);
        for op in ops {
            match op {
                Op::Write(bytes) => {
                    write(&mut plain, &bytes);
                    block_on(buffered.write_all(&bytes)).unwrap();
                }
                Op::Vectored(bufs) => {
                    let slices: Vec<_> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
                    // A sink that is interrupted says so, and has taken nothing.
                    let taken = block_on(buffered.write_vectored(&slices)).unwrap_or(0);
                    let all = bufs.concat();
                    prop_assert!(taken <= all.len());
                    write(&mut plain, &all[..taken]);
                }
                Op::Seek(to) => {
                    let (expected, seen) = (Seek::seek(&mut plain, to), block_on(buffered.seek(to)));
                    prop_assert_eq!(seen.ok(), expected.ok());
                }
                Op::Flush => block_on(buffered.flush()).unwrap(),
            }
            prop_assert!(buffered.buffer().len() <= capacity);
        }
        block_on(buffered.flush()).unwrap();
        let sink = buffered.into_inner().inner;
        prop_assert_eq!(sink.position(), plain.position());
        prop_assert_eq!(sink.into_inner(), plain.into_inner());
    }
}
