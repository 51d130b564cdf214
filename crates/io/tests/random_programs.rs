//! Random programs on streams that are slow, interrupted, short and broken, against
//! the blocking streams of the standard library.
//!
//! Every program comes from a seed, which is printed when it fails.
//! `BLITZEN_SEED=<seed>` runs that program alone.

use std::future::Future;
use std::io::{self, BufRead, Cursor, IoSlice, Read, Write};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use blitzen_io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufStream,
    BufWriter, ReadBuf,
};

/// How many programs of each kind are run.
const PROGRAMS: u64 = 300;

/// How often an operation may be polled, and repeated. None of them takes nearly as
/// many.
const MAX_STEPS: usize = 10_000;

fn run(program: impl Fn(&mut Rng)) {
    struct Report(u64);
    impl Drop for Report {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("BLITZEN_SEED={} runs this program again", self.0);
            }
        }
    }
    let seeds = match std::env::var("BLITZEN_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("BLITZEN_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..PROGRAMS,
    };
    for seed in seeds {
        let _report = Report(seed);
        program(&mut Rng(seed));
    }
}

/// SplitMix64.
#[derive(Clone)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Bytes with many commas and newlines; all of them ASCII.
    fn bytes(&mut self, max: usize) -> Vec<u8> {
        let len = self.below(max + 1);
        (0..len)
            .map(|_| match self.below(8) {
                0 => b'\n',
                1 => b',',
                2 => b'\r',
                _ => b'a' + self.below(26) as u8,
            })
            .collect()
    }

    fn fork(&mut self) -> Rng {
        Rng(self.next())
    }
}

/// A stream that waits, is interrupted, fails, and moves a few bytes at a time.
struct Flaky<T> {
    inner: T,
    rng: Rng,
    /// One in how many operations fails; never if zero.
    fails: usize,
    interrupts: bool,
}

impl<T> Flaky<T> {
    fn new(inner: T, rng: &mut Rng) -> Self {
        let rng = rng.fork();
        Self {
            inner,
            rng,
            fails: 0,
            interrupts: true,
        }
    }

    fn failing(mut self, fails: usize) -> Self {
        self.fails = fails;
        self
    }

    /// For operations that return `Interrupted` to their caller.
    fn calm(mut self) -> Self {
        self.interrupts = false;
        self
    }

    /// How many bytes the next operation may move.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.rng.one_in(4) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.interrupts && self.rng.one_in(8) {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        if self.fails > 0 && self.rng.one_in(self.fails) {
            return Poll::Ready(Err(io::Error::other("broken")));
        }
        Poll::Ready(Ok(1 + self.rng.below(24)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Flaky<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rng.one_in(3) {
            buf.initialize_unfilled().fill(b'?'); // as some readers do first
        }
        let limit = std::task::ready!(self.poll_step(cx))?.min(buf.remaining());
        let mut storage = vec![0; limit];
        let mut part = ReadBuf::new(&mut storage);
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part))?;
        buf.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Flaky<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let limit = std::task::ready!(self.poll_step(cx))?.min(buf.len());
        Pin::new(&mut self.inner).poll_write(cx, &buf[..limit])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut all: Vec<u8> = bufs.iter().flat_map(|buf| buf.to_vec()).collect();
        let limit = std::task::ready!(self.poll_step(cx))?;
        all.truncate(limit);
        Pin::new(&mut self.inner).poll_write(cx, &all)
    }

    fn is_write_vectored(&self) -> bool {
        self.rng.0.is_multiple_of(2)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Flushes wait and fail; no writer repeats an interrupted one.
        match std::task::ready!(self.poll_step(cx)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Poll::Ready(Err(error)),
            _ => Pin::new(&mut self.inner).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Polls until the future is ready: everything here wakes itself.
fn finish<F: Future>(future: F) -> F::Output {
    poll_times(future, MAX_STEPS).expect("it should have been ready long ago")
}

/// Polls when woken, until the future is ready. A wait that nothing ends is an error.
fn finish_woken<F: Future>(future: F) -> F::Output {
    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(flag.clone());
    let mut future = pin!(future);
    for _ in 0..MAX_STEPS {
        assert!(
            flag.0.swap(false, Relaxed),
            "it waits, and nobody will wake it"
        );
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
    }
    panic!("it should have been ready long ago")
}

/// Polls a few times, and then drops the future.
fn finish_or_cancel<F: Future>(rng: &mut Rng, future: F) -> Option<F::Output> {
    let polls = 1 + rng.below(4);
    poll_times(future, polls)
}

fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// What the model reads next must be these bytes.
fn expect(model: &mut impl Read, bytes: &[u8]) {
    let mut expected = vec![0; bytes.len()];
    model.read_exact(&mut expected).expect("so much is left");
    assert_eq!(bytes, expected);
}

#[test]
fn readers_return_what_those_of_std_do() {
    run(|rng| {
        let (first, second) = (rng.bytes(300), rng.bytes(300));
        let limit = rng.below(700) as u64;
        let buffered = |bytes, rng: &mut Rng| {
            let capacity = 1 + rng.below(40);
            BufReader::with_capacity(capacity, Flaky::new(bytes, rng).failing(20))
        };
        let (one, two) = (buffered(&first[..], rng), buffered(&second[..], rng));
        let mut reader = one.chain(two).take(limit);
        let mut model = Read::take(
            Read::chain(Cursor::new(&first), Cursor::new(&second)),
            limit,
        );

        for _ in 0..80 {
            match rng.below(6) {
                0 => {
                    let mut bytes = vec![0; rng.below(60)];
                    if let Some(Ok(count)) = finish_or_cancel(rng, reader.read(&mut bytes)) {
                        expect(&mut model, &bytes[..count]);
                        if count == 0 && !bytes.is_empty() {
                            assert!(model.fill_buf().unwrap().is_empty(), "not at the end yet");
                        }
                    }
                }
                1 => {
                    let mut bytes = Vec::with_capacity(rng.below(60));
                    if let Some(Ok(_)) = finish_or_cancel(rng, reader.read_buf(&mut bytes)) {
                        expect(&mut model, &bytes);
                    }
                }
                2 => {
                    let delimiter = *[b',', b'\n', b'!'].get(rng.below(3)).unwrap();
                    let mut bytes = b"kept".to_vec();
                    let ended = finish_or_cancel(rng, reader.read_until(delimiter, &mut bytes));
                    assert_eq!(&bytes[..4], b"kept");
                    match ended {
                        Some(Ok(count)) => {
                            let mut expected = Vec::new();
                            model.read_until(delimiter, &mut expected).unwrap();
                            assert_eq!((&bytes[4..], count), (&expected[..], expected.len()));
                        }
                        // Cancelled or failed: what came before is there.
                        Some(Err(_)) | None => {
                            assert!(!bytes[4..].contains(&delimiter));
                            expect(&mut model, &bytes[4..]);
                        }
                    }
                }
                3 => {
                    let used = rng.below(20);
                    if let Some(Ok(bytes)) = finish_or_cancel(rng, reader.fill_buf()) {
                        let used = used.min(bytes.len());
                        let is_end = bytes.is_empty();
                        expect(&mut model, &bytes[..used]);
                        assert!(!is_end || model.fill_buf().unwrap().is_empty());
                        reader.consume(used);
                    }
                }
                4 => {
                    let mut bytes = b"kept".to_vec();
                    let ended = finish_or_cancel(rng, reader.read_to_end(&mut bytes));
                    expect(&mut model, &bytes[4..]);
                    if let Some(Ok(count)) = ended {
                        assert_eq!(count, bytes.len() - 4);
                        assert!(model.fill_buf().unwrap().is_empty());
                    }
                }
                _ if rng.one_in(4) => {
                    let limit = rng.below(100) as u64;
                    reader.set_limit(limit);
                    model.set_limit(limit);
                }
                _ => assert_eq!(reader.limit(), model.limit()),
            }
        }
    });
}

#[test]
fn exact_reads_and_numbers_are_those_of_std() {
    run(|rng| {
        let data = rng.bytes(200);
        let capacity = 1 + rng.below(20);
        let mut reader = BufReader::with_capacity(capacity, Flaky::new(&data[..], rng));
        let mut model = &data[..];
        loop {
            let mut bytes = vec![0; rng.below(30)];
            let mut expected = bytes.clone();
            let result = finish(reader.read_exact(&mut bytes));
            match Read::read_exact(&mut model, &mut expected) {
                Ok(()) => assert_eq!(result.unwrap(), bytes.len()),
                Err(error) => {
                    assert_eq!(result.unwrap_err().kind(), error.kind());
                    break;
                }
            }
            assert_eq!(bytes, expected);
            if let Some((number, rest)) = model.split_first_chunk() {
                assert_eq!(
                    finish(reader.read_u32()).unwrap(),
                    u32::from_be_bytes(*number)
                );
                model = rest;
            }
        }
    });
}

#[test]
fn lines_and_segments_survive_cancellation_and_errors() {
    run(|rng| {
        let data = rng.bytes(400);
        let capacity = 1 + rng.below(30);
        let flaky = Flaky::new(&data[..], rng).failing(15);
        let mut lines = BufReader::with_capacity(capacity, flaky).lines();
        let mut all = Vec::new();
        for _ in 0..MAX_STEPS {
            match finish_or_cancel(rng, lines.next_line()) {
                Some(Ok(Some(line))) => all.push(line),
                Some(Ok(None)) => break,
                Some(Err(_)) | None => {}
            }
        }
        let expected: Vec<_> = BufRead::lines(&data[..]).map(Result::unwrap).collect();
        assert_eq!(all, expected);

        let flaky = Flaky::new(&data[..], rng).failing(15);
        let mut segments = BufReader::with_capacity(capacity, flaky).split(b',');
        let mut all = Vec::new();
        for _ in 0..MAX_STEPS {
            match finish_or_cancel(rng, segments.next_segment()) {
                Some(Ok(Some(segment))) => all.push(segment),
                Some(Ok(None)) => break,
                Some(Err(_)) | None => {}
            }
        }
        let expected: Vec<_> = BufRead::split(&data[..], b',')
            .map(Result::unwrap)
            .collect();
        assert_eq!(all, expected);
    });
}

#[test]
fn strings_hold_text_whatever_ends_a_read() {
    run(|rng| {
        let data: Vec<u8> = (0..rng.below(80))
            .flat_map(|_| match rng.below(12) {
                0 => vec![0xff],
                1 => b"\n".to_vec(),
                2..=5 => "\u{e9}".as_bytes().to_vec(),
                _ => b"x".to_vec(),
            })
            .collect();
        let flaky = Flaky::new(&data[..], rng).failing(15);
        let mut reader = BufReader::with_capacity(1 + rng.below(8), flaky);
        let mut text = String::from("kept");
        for _ in 0..20 {
            let before = text.len();
            let result = match rng.below(2) {
                0 => finish_or_cancel(rng, reader.read_line(&mut text)),
                _ => finish_or_cancel(rng, reader.read_to_string(&mut text)),
            };
            assert!(std::str::from_utf8(text.as_bytes()).is_ok());
            assert!(text.starts_with("kept") && text.len() >= before);
            if let Some(Ok(count)) = result {
                assert_eq!(text.len(), before + count);
            }
        }
    });
}

#[test]
fn writers_write_what_those_of_std_do() {
    run(|rng| {
        let capacity = 1 + rng.below(40);
        let flaky = Flaky::new(Vec::new(), rng).failing(20).calm();
        let mut writer = BufWriter::with_capacity(capacity, flaky);
        let mut model = io::BufWriter::with_capacity(capacity, Vec::new());
        for _ in 0..60 {
            let bytes = rng.bytes(50);
            match rng.below(4) {
                0 => {
                    if let Some(Ok(count)) = finish_or_cancel(rng, writer.write(&bytes)) {
                        assert!(count > 0 || bytes.is_empty());
                        model.write_all(&bytes[..count]).unwrap();
                    }
                }
                1 => {
                    let middle = bytes.len() / 2;
                    let bufs = [
                        IoSlice::new(&bytes[..middle]),
                        IoSlice::new(&bytes[middle..]),
                    ];
                    let written = finish_or_cancel(rng, writer.write_vectored(&bufs));
                    if let Some(Ok(count)) = written {
                        model.write_all(&bytes[..count]).unwrap();
                    }
                }
                2 => {
                    // Cancelled or failed: exactly the rest is left.
                    let mut rest = &bytes[..];
                    let _ = finish_or_cancel(rng, writer.write_all_buf(&mut rest));
                    model.write_all(&bytes[..bytes.len() - rest.len()]).unwrap();
                }
                _ => {
                    if let Some(Ok(())) = finish_or_cancel(rng, writer.flush()) {
                        model.flush().unwrap();
                        assert!(writer.buffer().is_empty());
                        assert_eq!(&writer.get_ref().inner, model.get_ref());
                    }
                }
            }
        }
        let is_flushed = (0..MAX_STEPS).any(|_| finish(writer.flush()).is_ok());
        assert!(is_flushed);
        assert_eq!(writer.into_inner().inner, model.into_inner().unwrap());
    });
}

#[test]
fn a_copy_is_that_of_std_up_to_the_error() {
    run(|rng| {
        let data = rng.bytes(1000);
        let mut reader = Flaky::new(&data[..], rng).failing(60);
        let mut writer = Flaky::new(Vec::new(), rng);
        let copied = match rng.below(2) {
            0 => finish(blitzen_io::copy(&mut reader, &mut writer)),
            _ => {
                let mut reader = BufReader::with_capacity(1 + rng.below(40), &mut reader);
                finish(blitzen_io::copy_buf(&mut reader, &mut writer))
            }
        };
        let mut expected = Vec::new();
        io::copy(&mut &data[..], &mut expected).unwrap();
        match copied {
            Ok(count) => assert_eq!((count, &writer.inner), (data.len() as u64, &expected)),
            // Everything that was read before the error has been written.
            Err(_) => {
                let read = data.len() - reader.inner.len();
                assert_eq!(writer.inner, expected[..read]);
            }
        }
    });
}

/// Sends and receives at once, with cancelled reads and writes in between.
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    words: Vec<u8>,
    mut rng: Rng,
) -> Vec<u8> {
    let (mut reader, mut writer) = blitzen_io::split(stream);
    let mut send_rng = rng.fork();
    let send = async {
        let mut rest = &words[..];
        while !rest.is_empty() {
            let (mut chunk, later) = rest.split_at(rest.len().min(1 + send_rng.below(40)));
            // Given up after a poll, and then gone on with.
            let mut first = true;
            while !chunk.is_empty() {
                let mut write = pin!(writer.write_all_buf(&mut chunk));
                let written = std::future::poll_fn(|cx| match write.as_mut().poll(cx) {
                    Poll::Pending if std::mem::take(&mut first) => Poll::Ready(Ok(())),
                    polled => polled,
                });
                written.await.unwrap();
            }
            rest = later;
        }
        writer.flush().await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut heard = Vec::new();
    let hear = async {
        loop {
            let mut bytes = vec![0; 1 + rng.below(50)];
            let mut first = rng.one_in(2);
            let count = {
                let mut read = pin!(reader.read(&mut bytes));
                let read = std::future::poll_fn(|cx| match read.as_mut().poll(cx) {
                    Poll::Pending if std::mem::take(&mut first) => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(read) => Poll::Ready(Some(read.unwrap())),
                });
                read.await
            };
            match count {
                None => {} // given up
                Some(0) => break,
                Some(count) => heard.extend(&bytes[..count]),
            }
        }
    };
    futures::future::join(send, hear).await;
    heard
}

#[test]
fn two_peers_talk_through_a_proxy() {
    run(|rng| {
        let (to_server, to_client) = (rng.bytes(600), rng.bytes(600));
        let pair = |rng: &mut Rng| blitzen_io::duplex(1 + rng.below(30));
        let ((client, mut a), (mut b, server)) = (pair(rng), pair(rng));
        let client = BufStream::with_capacity(1 + rng.below(20), rng.below(20), client);
        let (there, back) = (1 + rng.below(30), 1 + rng.below(30));
        let proxy = blitzen_io::copy_bidirectional_with_sizes(&mut a, &mut b, there, back);
        let (copied, at_client, at_server) = finish_woken(futures::future::join3(
            proxy,
            talk(client, to_server.clone(), rng.fork()),
            talk(
                Flaky::new(server, rng).calm(),
                to_client.clone(),
                rng.fork(),
            ),
        ));
        assert_eq!(
            copied.unwrap(),
            (to_server.len() as u64, to_client.len() as u64)
        );
        assert_eq!(at_client, to_client);
        assert_eq!(at_server, to_server);
    });
}

#[test]
fn a_pipe_holds_no_more_than_its_capacity_and_loses_nothing() {
    run(|rng| {
        let capacity = 1 + rng.below(40);
        let (mut reader, mut writer) = blitzen_io::simplex(capacity);
        let mut model = std::collections::VecDeque::new();
        for _ in 0..100 {
            let bytes = rng.bytes(30);
            if rng.one_in(2) {
                match poll_times(writer.write(&bytes), 1) {
                    Some(written) => {
                        let written = written.unwrap();
                        assert_eq!(written, bytes.len().min(capacity - model.len()));
                        model.extend(&bytes[..written]);
                    }
                    None => assert_eq!(model.len(), capacity, "there is room"),
                }
            } else {
                let mut read = vec![0; bytes.len()];
                match poll_times(reader.read(&mut read), 1) {
                    Some(count) => {
                        read.truncate(count.unwrap());
                        let expected: Vec<u8> =
                            model.drain(..bytes.len().min(model.len())).collect();
                        assert_eq!(read, expected);
                    }
                    None => assert!(model.is_empty(), "there is something to read"),
                }
            }
        }
        finish(writer.shutdown()).unwrap();
        let mut rest = Vec::new();
        finish(reader.read_to_end(&mut rest)).unwrap();
        assert_eq!(rest, Vec::from(model));
    });
}
