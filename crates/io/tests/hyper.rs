//! Streams get through hyper's traits unharmed.

#![cfg(feature = "hyper")]

mod common;

use blitzen_io::hyper::HyperIo;
use blitzen_io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use common::{Jumpy, scripts};
use futures::executor::block_on;
use proptest::prelude::*;

proptest! {
    #[test]
    fn there_and_back_again(data in prop::collection::vec(any::<u8>(), 0..100), script in scripts()) {
        let mut all = Vec::new();
        let reader = Jumpy::new(&data[..], script.clone());
        block_on(HyperIo::new(HyperIo::new(reader)).read_to_end(&mut all)).unwrap();
        prop_assert_eq!(&all, &data);

        let mut sink = HyperIo::new(HyperIo::new(Jumpy::new(Vec::new(), script)));
        block_on(sink.write_all(&data)).unwrap();
        block_on(sink.shutdown()).unwrap();
        prop_assert_eq!(sink.into_inner().into_inner().inner, data);
    }
}

#[test]
fn is_write_vectored_is_passed_on() {
    assert!(HyperIo::new(HyperIo::new(Vec::new())).is_write_vectored());
    let whole = Jumpy::new(Vec::new(), Vec::new());
    assert!(!HyperIo::new(HyperIo::new(whole)).is_write_vectored());
}
