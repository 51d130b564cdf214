//! What is copied arrives once and in order, whatever the streams do.

mod common;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use blitzen_io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter, DuplexStream,
    ReadBuf, copy, copy_bidirectional_with_sizes, copy_buf, duplex,
};
use common::{Jumpy, scripts};
use futures::executor::block_on;
use futures::future::join3;
use proptest::prelude::*;

/// Sends, says that it was all, and reads to the end.
async fn talk(stream: DuplexStream, words: &[u8], chunk: usize) -> Vec<u8> {
    let (mut reader, mut writer) = blitzen_io::split(stream);
    let send = async {
        for piece in words.chunks(chunk) {
            writer.write_all(piece).await.unwrap();
        }
        writer.shutdown().await.unwrap();
    };
    let mut heard = Vec::new();
    let hear = async { reader.read_to_end(&mut heard).await.unwrap() };
    futures::future::join(send, hear).await;
    heard
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

proptest! {
    #[test]
    fn both_ways_nothing_is_lost_or_doubled(
        (from_a, from_b) in (data(), data()),
        (script_a, script_b) in (scripts(), scripts()),
        (chunk_a, chunk_b) in (1..40_usize, 1..40_usize),
        (pipe_a, pipe_b) in (1..30_usize, 1..30_usize),
        (there, back) in (1..20_usize, 1..20_usize),
    ) {
        let (client, a) = duplex(pipe_a);
        let (b, server) = duplex(pipe_b);
        let (mut a, mut b) = (Jumpy::new(a, script_a), Jumpy::new(b, script_b));
        let (copied, at_a, at_b) = block_on(join3(
            copy_bidirectional_with_sizes(&mut a, &mut b, there, back),
            talk(client, &from_a, chunk_a),
            talk(server, &from_b, chunk_b),
        ));
        prop_assert_eq!(copied.unwrap(), (from_a.len() as u64, from_b.len() as u64));
        prop_assert_eq!(at_a, from_b);
        prop_assert_eq!(at_b, from_a);
    }

    #[test]
    fn one_way_too(data in data(), script in scripts(), sink_script in scripts(), capacity in 1..9_usize) {
        let mut reader = Jumpy::new(&data[..], script.clone());
        let mut writer = Jumpy::new(Vec::new(), sink_script.clone());
        prop_assert_eq!(block_on(copy(&mut reader, &mut writer)).unwrap(), data.len() as u64);
        prop_assert_eq!(&writer.inner, &data);

        let mut reader = BufReader::with_capacity(capacity, Jumpy::new(&data[..], script));
        let mut writer = Jumpy::new(Vec::new(), sink_script);
        prop_assert_eq!(block_on(copy_buf(&mut reader, &mut writer)).unwrap(), data.len() as u64);
        prop_assert_eq!(&writer.inner, &data);
    }
}

/// Gives some bytes and then an error.
struct Breaks(&'static [u8]);

impl AsyncRead for Breaks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0.is_empty() {
            true => Poll::Ready(Err(io::Error::other("broken"))),
            false => Pin::new(&mut self.0).poll_read(cx, buf),
        }
    }
}

#[test]
fn what_was_read_before_an_error_is_written_before_it_is_reported() {
    block_on(async {
        // The pipe is too small: the reader is asked again, and breaks, while
        // the writer still waits.
        let (mut near, mut far) = duplex(2);
        let mut breaks = Breaks(b"hello");
        let receive = async {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all
        };
        let send = async {
            let error = copy(&mut breaks, &mut near).await.unwrap_err();
            drop(near);
            error
        };
        let (error, all) = futures::future::join(send, receive).await;
        assert_eq!(error.to_string(), "broken");
        assert_eq!(all, b"hello");
    });
}

#[test]
fn a_writer_is_flushed_before_the_reader_is_waited_for() {
    let (mut client, mut a) = duplex(64);
    let (b, mut server) = duplex(64);
    let mut b = BufWriter::new(b);
    let mut cx = Context::from_waker(Waker::noop());

    let mut copying = Box::pin(copy(&mut a, &mut b));
    block_on(client.write_all(b"question")).unwrap();
    assert!(copying.as_mut().poll(&mut cx).is_pending());

    let mut question = [0; 8];
    block_on(server.read_exact(&mut question)).unwrap();
    assert_eq!(&question, b"question");
}

/// Takes nothing, ever.
struct Full;

impl AsyncWrite for Full {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(0))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_writer_that_takes_no_more_is_an_error() {
    let is_write_zero = |result: io::Result<u64>| {
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WriteZero);
    };
    is_write_zero(block_on(copy(&mut &b"x"[..], &mut Full)));
    is_write_zero(block_on(copy_buf(&mut &b"x"[..], &mut Full)));
    assert_eq!(block_on(copy(&mut &b""[..], &mut Full)).unwrap(), 0);
}

/// A reader that fills whatever it is given, and remembers the most it was given.
struct Greedy {
    left: usize,
    most: usize,
}

impl AsyncRead for Greedy {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.most = self.most.max(buf.remaining());
        let amount = buf.remaining().min(self.left);
        buf.initialize_unfilled_to(amount).fill(7);
        buf.advance(amount);
        self.left -= amount;
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_buffer_grows_while_reads_fill_it_and_not_beyond_its_limit() {
    let copied = |left: usize| {
        let mut reader = Greedy { left, most: 0 };
        let mut writer = Vec::new();
        let copied = block_on(copy(&mut reader, &mut writer)).unwrap();
        assert_eq!((copied as usize, writer.len()), (left, left));
        reader.most
    };
    assert_eq!(copied(8_000), 8 * 1024);
    assert_eq!(copied(1_000_000), 64 * 1024);
}
