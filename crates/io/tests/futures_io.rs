//! Streams get through both adapters unharmed.

#![cfg(feature = "futures-io")]

mod common;

use std::io::{Cursor, SeekFrom};

use blitzen_io::futures_io::{FromFutures, ToFutures};
use blitzen_io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use common::{Jumpy, scripts};
use futures::executor::block_on;
use proptest::prelude::*;

proptest! {
    #[test]
    fn there_and_back_again(data in prop::collection::vec(any::<u8>(), 0..100), script in scripts()) {
        let there_and_back = |inner| FromFutures::new(ToFutures::new(inner));
        let mut all = Vec::new();
        block_on(there_and_back(Jumpy::new(&data[..], script.clone())).read_to_end(&mut all)).unwrap();
        prop_assert_eq!(&all, &data);

        let mut sink = FromFutures::new(ToFutures::new(Jumpy::new(Vec::new(), script)));
        block_on(sink.write_all(&data)).unwrap();
        block_on(sink.shutdown()).unwrap();
        prop_assert_eq!(sink.into_inner().into_inner().inner, data);
    }
}

#[test]
fn seeking_works_in_both_directions() {
    let mut stream = FromFutures::new(ToFutures::new(Cursor::new(b"hello")));
    block_on(async {
        assert_eq!(stream.seek(SeekFrom::End(-2)).await.unwrap(), 3);
        assert_eq!(stream.fill_buf().await.unwrap(), b"lo");
        stream.consume(1);
        assert_eq!(stream.stream_position().await.unwrap(), 4);
        assert!(stream.seek(SeekFrom::Current(-9)).await.is_err());
        assert_eq!(stream.rewind().await.unwrap(), 0);
        assert_eq!(stream.read_u8().await.unwrap(), b'h');
    });
}
