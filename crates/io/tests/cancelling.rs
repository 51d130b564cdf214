//! What a future that is dropped halfway leaves behind, as its documentation
//! says.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use blitzen_io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, duplex};
use bytes::Bytes;
use futures::executor::block_on;

/// Polls once and drops.
fn give_up(future: impl Future) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(future).poll(&mut cx).is_pending());
}

#[test]
fn half_a_line_is_kept_for_the_next_call() {
    let (mut near, far) = duplex(64);
    let mut lines = BufReader::new(far).lines();
    block_on(near.write_all("h\u{e9}".as_bytes().split_last().unwrap().1)).unwrap();
    give_up(lines.next_line());
    block_on(near.write_all(b"\xa9llo\r\n")).unwrap();
    assert_eq!(block_on(lines.next_line()).unwrap().unwrap(), "h\u{e9}llo");
}

#[test]
fn half_a_part_is_kept_for_the_next_call() {
    let (mut near, far) = duplex(64);
    let mut parts = BufReader::new(far).split(b',');
    block_on(near.write_all(b"on")).unwrap();
    give_up(parts.next_segment());
    block_on(near.write_all(b"e,")).unwrap();
    assert_eq!(block_on(parts.next_segment()).unwrap().unwrap(), b"one");
}

#[test]
fn read_line_leaves_text_in_the_string() {
    let (mut near, far) = duplex(64);
    let mut reader = BufReader::new(far);
    let mut text = String::from("so far: ");

    block_on(near.write_all(b"half")).unwrap();
    give_up(reader.read_line(&mut text));
    assert_eq!(text, "so far: half");

    block_on(near.write_all(b"\xff")).unwrap();
    give_up(reader.read_line(&mut text));
    assert_eq!(text, "so far: half", "not text, and so lost");

    let mut roomy = String::with_capacity(100);
    give_up(reader.read_line(&mut roomy));
    assert!(roomy.capacity() >= 100);
}

#[test]
fn read_to_string_leaves_text_in_the_string() {
    let (mut near, mut far) = duplex(64);
    let mut text = String::from("so far: ");
    block_on(near.write_all(b"half")).unwrap();
    give_up(far.read_to_string(&mut text));
    assert_eq!(text, "so far: half");
}

#[test]
fn read_to_end_and_read_until_leave_their_bytes_in_the_buffer() {
    let (mut near, mut far) = duplex(64);
    let mut all = Vec::new();
    block_on(near.write_all(b"half")).unwrap();
    give_up(far.read_to_end(&mut all));
    assert_eq!(all, b"half");

    let mut far = BufReader::new(far);
    block_on(near.write_all(b"more")).unwrap();
    give_up(far.read_until(b'\n', &mut all));
    assert_eq!(all, b"halfmore");
}

#[test]
fn write_all_buf_leaves_exactly_the_rest() {
    let (mut near, mut far) = duplex(4);
    let mut src = Bytes::from_static(b"hello world");
    give_up(near.write_all_buf(&mut src));
    assert_eq!(&src[..], b"o world");
    let mut first = [0; 4];
    block_on(far.read_exact(&mut first)).unwrap();
    assert_eq!(&first, b"hell");
}

#[test]
fn a_read_that_is_given_up_has_read_nothing() {
    let (mut near, mut far) = duplex(64);
    give_up(far.read(&mut [0; 8]));
    give_up(far.read_buf(&mut Vec::new()));
    block_on(near.write_all(b"hello")).unwrap();
    let mut all = [0; 5];
    block_on(far.read_exact(&mut all)).unwrap();
    assert_eq!(&all, b"hello");
}
