//! Corners of reading that the property tests do not reach.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use blitzen_io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};
use futures::executor::block_on;

#[test]
fn a_read_into_no_room_does_not_end_the_first_of_a_chain() {
    let mut chain = (&b"ab"[..]).chain(&b"cd"[..]);
    let mut text = String::new();
    block_on(async {
        assert_eq!(chain.read(&mut []).await.unwrap(), 0);
        chain.read_to_string(&mut text).await.unwrap();
    });
    assert_eq!(text, "abcd");
}

#[test]
fn a_chain_of_buffered_readers_is_one_text() {
    let chain = BufReader::new(&b"one\ntw"[..]).chain(BufReader::new(&b"o\nthree"[..]));
    let mut lines = chain.lines();
    let mut all = Vec::new();
    while let Some(line) = block_on(lines.next_line()).unwrap() {
        all.push(line);
    }
    assert_eq!(all, ["one", "two", "three"]);
}

/// Initialises all the room it is given and fills one byte of it.
struct Thorough;

impl AsyncRead for Thorough {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buf.initialize_unfilled()[0] = 7;
        buf.advance(1);
        Poll::Ready(Ok(()))
    }
}

#[test]
fn take_knows_what_its_reader_initialised() {
    let mut storage = [std::mem::MaybeUninit::uninit(); 8];
    let mut buf = ReadBuf::uninit(&mut storage);
    let mut cx = Context::from_waker(Waker::noop());
    let read = pin!(Thorough.take(5)).poll_read(&mut cx, &mut buf);
    assert!(read.is_ready());
    assert_eq!(buf.filled(), [7]);
    assert_eq!(buf.initialized(), [7, 0, 0, 0, 0]);
}

#[test]
fn a_carriage_return_is_part_of_the_end_only_before_a_newline() {
    let mut lines = (&b"a\rb\r\nc\r"[..]).lines();
    assert_eq!(block_on(lines.next_line()).unwrap().unwrap(), "a\rb");
    assert_eq!(block_on(lines.next_line()).unwrap().unwrap(), "c\r");
    assert_eq!(block_on(lines.next_line()).unwrap(), None);
}

#[test]
fn traits_can_be_objects_and_the_methods_are_there() {
    let mut boxed: Box<dyn AsyncRead + Unpin> = Box::new(&b"\x01\x02xyz"[..]);
    let mut rest = Vec::new();
    block_on(async {
        assert_eq!(boxed.read_u16().await.unwrap(), 0x0102);
        boxed.read_to_end(&mut rest).await.unwrap();
    });
    assert_eq!(rest, b"xyz");
}
