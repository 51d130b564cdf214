//! Owned buffers stay where they are and come back with what was read.

mod common;

use std::sync::Arc;

use blitzen_io::owned::{AsyncReadOwned, AsyncWriteOwned, IoBuf, IoBufMut, Polled};
use bytes::{Bytes, BytesMut};
use common::{Jumpy, calm_scripts, scripts};
use futures::executor::block_on;
use proptest::prelude::*;

#[test]
fn every_buffer_can_be_written_from() {
    fn written<B: IoBuf>(buf: B) -> Vec<u8> {
        let before = buf.stable_ptr();
        let mut sink = Polled::new(Vec::new());
        let (result, buf) = block_on(sink.write_all_owned(buf));
        assert_eq!(result.unwrap(), buf.init_len());
        assert_eq!(
            buf.stable_ptr(),
            before,
            "moved in and out, the bytes were not"
        );
        sink.into_inner()
    }
    assert_eq!(written(b"hello".to_vec()), b"hello");
    assert_eq!(written(b"hello".to_vec().into_boxed_slice()), b"hello");
    assert_eq!(written(Box::new(*b"hello")), b"hello");
    assert_eq!(written(String::from("hello")), b"hello");
    assert_eq!(written(Bytes::from_static(b"hello")), b"hello");
    assert_eq!(written(Bytes::from(b"hello".to_vec()).slice(1..)), b"ello");
    assert_eq!(written(BytesMut::from(&b"hello"[..])), b"hello");
    assert_eq!(written(Arc::<[u8]>::from(&b"hello"[..])), b"hello");
    assert_eq!(written("hello"), b"hello");
    assert_eq!(written(&b"hello"[..]), b"hello");
    assert_eq!(written(b"hello".to_vec().slice(1..=2).slice(1..)), b"l");
    assert_eq!(written(Vec::new()), b"");
}

#[test]
fn every_mutable_buffer_can_be_read_into() {
    fn read<B: IoBufMut>(buf: B) -> (usize, Vec<u8>) {
        let before = buf.stable_ptr();
        let (result, mut buf) = block_on(Polled::new(&b"hello"[..]).read_owned(buf));
        assert_eq!(buf.stable_ptr(), before);
        assert_eq!(buf.stable_mut_ptr().cast_const(), before);
        (result.unwrap(), buf.as_init().to_vec())
    }
    assert_eq!(read(Vec::with_capacity(5)), (5, b"hello".to_vec()));
    assert_eq!(read(BytesMut::with_capacity(5)), (5, b"hello".to_vec()));
    assert_eq!(
        read(BytesMut::from(&b"......."[..])),
        (5, b"hello..".to_vec())
    );
    assert_eq!(read(Box::new([0; 3])), (3, b"hel".to_vec()));
    assert_eq!(
        read(vec![0; 7].into_boxed_slice()),
        (5, b"hello\0\0".to_vec())
    );
    assert_eq!(read(vec![0; 7].slice_mut(1..4)), (3, b"hel".to_vec()));
}

#[test]
fn a_longer_vector_keeps_its_length() {
    let (result, buf) = block_on(Polled::new(&b"ab"[..]).read_owned(b"12345".to_vec()));
    assert_eq!((result.unwrap(), buf), (2, b"ab345".to_vec()));
}

#[test]
#[should_panic(expected = "behind the 2 initialised bytes")]
fn a_gap_is_refused() {
    let mut buf = Vec::with_capacity(8);
    buf.extend(b"ab");
    buf.slice_mut(3..);
}

#[test]
#[should_panic(expected = "reaches out of 2 initialised bytes")]
fn what_is_not_initialised_is_not_written() {
    let mut buf = Vec::with_capacity(8);
    buf.extend(b"ab");
    buf.slice(..3);
}

proptest! {
    #[test]
    fn appending_piece_by_piece_gives_the_whole(
        data in prop::collection::vec(any::<u8>(), 0..100),
        script in calm_scripts(),
        piece in 1..20_usize,
    ) {
        let mut reader = Polled::new(Jumpy::new(&data[..], script));
        let mut all = Vec::with_capacity(128);
        loop {
            let len = all.len();
            let end = all.capacity().min(len + piece);
            let (result, part) = block_on(reader.read_owned(all.slice_mut(len..end)));
            all = part.into_inner();
            match result.unwrap() {
                0 => break,
                amount => prop_assert_eq!(all.len(), len + amount),
            }
        }
        prop_assert_eq!(all, data);
    }

    #[test]
    fn all_of_it_is_written(data in prop::collection::vec(any::<u8>(), 0..100), script in scripts()) {
        let mut writer = Polled::new(Jumpy::new(Vec::new(), script));
        let (result, data) = block_on(writer.write_all_owned(data));
        prop_assert_eq!(result.unwrap(), data.len());
        prop_assert_eq!(writer.into_inner().inner, data);
    }
}
