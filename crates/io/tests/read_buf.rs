//! A `ReadBuf` behaves like a vector that is filled, with a mark of how far it
//! has ever been written to.

use std::mem::MaybeUninit;

use blitzen_io::ReadBuf;
use bytes::BufMut;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>),
    PutByte(u8),
    Initialize(usize),
    Advance(usize),
    SetFilled(usize),
    Clear,
    Part(usize, Vec<u8>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..8);
    prop::collection::vec(
        prop_oneof![
            bytes().prop_map(Op::Put),
            any::<u8>().prop_map(Op::PutByte),
            (0..20_usize).prop_map(Op::Initialize),
            (0..8_usize).prop_map(Op::Advance),
            (0..20_usize).prop_map(Op::SetFilled),
            Just(Op::Clear),
            ((0..8_usize), bytes()).prop_map(|(limit, bytes)| Op::Part(limit, bytes)),
        ],
        0..24,
    )
}

/// What is known of each byte, and how many count as data.
struct Model {
    known: Vec<u8>,
    filled: usize,
    capacity: usize,
}

impl Model {
    fn write(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if self.known.len() < end {
            self.known.resize(end, 0);
        }
        self.known[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }

    fn room(&self) -> usize {
        self.capacity - self.filled
    }
}

/// Both do the same, as far as the buffer allows it.
fn apply(op: Op, buf: &mut ReadBuf<'_>, model: &mut Model) {
    match op {
        Op::Put(bytes) => {
            let bytes = &bytes[..bytes.len().min(model.room())];
            buf.put_slice(bytes);
            model.write(bytes);
        }
        Op::PutByte(byte) if model.room() > 0 => {
            buf.put_u8(byte);
            model.write(&[byte]);
        }
        Op::PutByte(_) => {}
        Op::Initialize(amount) => {
            let amount = amount.min(model.room());
            let end = model.filled + amount;
            if model.known.len() < end {
                model.known.resize(end, 0);
            }
            let seen = buf.initialize_unfilled_to(amount);
            assert_eq!(seen, &model.known[model.filled..end]);
        }
        Op::Advance(amount) => {
            let amount = amount.min(model.known.len() - model.filled);
            buf.advance(amount);
            model.filled += amount;
        }
        Op::SetFilled(amount) => {
            let amount = amount.min(model.known.len());
            buf.set_filled(amount);
            model.filled = amount;
        }
        Op::Clear => {
            buf.clear();
            model.filled = 0;
        }
        Op::Part(limit, bytes) => {
            let mut part = buf.take(limit);
            assert_eq!(part.capacity(), limit.min(model.room()));
            let bytes = &bytes[..bytes.len().min(part.remaining())];
            part.put_slice(bytes);
            // SAFETY: the part is the unfilled start, and `bytes` were put there.
            unsafe { buf.assume_init(bytes.len()) };
            buf.advance(bytes.len());
            model.write(bytes);
        }
    }
}

proptest! {
    #[test]
    fn it_agrees_with_a_vector(capacity in 0..20_usize, ops in ops()) {
        let mut storage = vec![MaybeUninit::uninit(); capacity];
        let mut buf = ReadBuf::uninit(&mut storage);
        let mut model = Model { known: Vec::new(), filled: 0, capacity };
        for op in ops {
            apply(op, &mut buf, &mut model);
            prop_assert_eq!(buf.filled(), &model.known[..model.filled]);
            prop_assert_eq!(buf.initialized(), &model.known[..]);
            prop_assert_eq!(buf.remaining(), model.room());
            prop_assert_eq!(buf.remaining_mut(), model.room());
        }
    }
}

#[test]
#[should_panic(expected = "filled must not become larger than initialized")]
fn what_is_not_initialised_is_no_data() {
    let mut storage = [MaybeUninit::uninit(); 4];
    ReadBuf::uninit(&mut storage).advance(1);
}

#[test]
#[should_panic(expected = "filled overflow")]
fn an_absurd_advance_is_refused() {
    let mut storage = [0; 4];
    let mut buf = ReadBuf::new(&mut storage);
    buf.put_slice(b"a");
    buf.advance(usize::MAX);
}

#[test]
#[should_panic(expected = "cannot put 3 bytes into a buffer with 2 remaining")]
fn what_does_not_fit_is_refused() {
    let mut storage = [0; 2];
    ReadBuf::new(&mut storage).put_slice(b"abc");
}
