//! Random programs over sockets: each byte arrives once, in order, whatever is
//! cancelled, split, handed out or reset in between.
//!
//! A byte's value is a function of its position in its stream, so every read is
//! checked. A failure prints its seed; `BLITZEN_SEED=7` runs only that one, and
//! `BLITZEN_SEEDS=1000` so many of them.

mod net_common;

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use blitzen::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use blitzen::net::{SocketMode, TcpListener, TcpStream, UdpSocket};
use blitzen::runtime::{Builder, Runtime};
use blitzen::task::yield_now;
use blitzen::time::timeout;
use blitzen_util::rng::Rng;
use net_common::{pattern, poll_a_few, poll_once};

/// The modes that streams are tested in, where the system has them.
const STREAM_MODES: &[SocketMode] = &[SocketMode::Readiness, SocketMode::Completion];

/// Datagrams have only this one.
const DATAGRAM_MODES: &[SocketMode] = &[SocketMode::Readiness];

/// How many seeds each kind of runtime gets, unless the environment says.
const SEEDS: u64 = 12;

/// Longer than any program takes.
const TOO_LONG: Duration = Duration::from_secs(60);

/// Names the program on the way out, if it failed.
struct OnFailure<'a> {
    test: &'a str,
    seed: u64,
    mode: SocketMode,
    workers: usize,
}

impl Drop for OnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self {
                test,
                seed,
                mode,
                workers,
            } = self;
            eprintln!("{test}: BLITZEN_SEED={seed} failed with {mode:?} and {workers} workers");
        }
    }
}

/// Runs `program` with each mode, kind of runtime and seed.
fn run<F>(test: &str, modes: &[SocketMode], program: impl Fn(u64) -> F)
where
    F: Future<Output = ()>,
{
    net_common::bound();
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seeds = match number("BLITZEN_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("BLITZEN_SEEDS").unwrap_or(SEEDS),
    };
    for &mode in modes {
        for workers in [0, 1, 3] {
            let Some(runtime) = runtime(workers, mode) else {
                continue;
            };
            for seed in seeds.clone() {
                let _on_failure = OnFailure {
                    test,
                    seed,
                    mode,
                    workers,
                };
                let outcome = runtime.block_on(async { timeout(TOO_LONG, program(seed)).await });
                assert!(outcome.is_ok(), "the program does not end");
            }
        }
    }
}

/// A runtime with `workers` workers, or a current-thread one with none; `None`
/// if the system lacks the mode.
fn runtime(workers: usize, mode: SocketMode) -> Option<Runtime> {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(workers.max(1));
    let runtime = builder.enable_all().socket_mode(mode).build().unwrap();
    match runtime.block_on(TcpListener::bind("127.0.0.1:0")) {
        Ok(_) => Some(runtime),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            eprintln!("not tested with {mode:?}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The random numbers of one task.
struct Dice(Rng);

impl Dice {
    fn new(seed: u64, index: u64) -> Self {
        Self(Rng::new(Rng::derive(seed, index)))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u32) as usize
    }

    /// Dice for another task.
    fn split(&mut self) -> Self {
        Self(Rng::new(self.0.next_u32().into()))
    }

    /// A size from one byte to `most`, mostly small.
    fn size(&mut self, most: usize) -> usize {
        let limit = [8, 100, 2_000, 9_000, 70_000][self.below(5)].min(most);
        1 + self.below(limit)
    }

    /// Polls `future`, and perhaps drops it before it completes: always, sooner
    /// or later, if it is `bounded`.
    async fn cancel<F: Future>(&mut self, bounded: bool, future: F) -> Option<F::Output> {
        match self.below(if bounded { 4 } else { 8 }) {
            0 => poll_once(future).await,
            1 => poll_a_few(1 + self.below(4), future).await,
            2 => timeout(Duration::from_micros(self.below(300) as u64), future)
                .await
                .ok(),
            3 => {
                let yields = self.below(6);
                blitzen::select! {
                    output = future => Some(output),
                    () = async {
                        for _ in 0..yields {
                            yield_now().await;
                        }
                    } => None,
                }
            }
            _ => Some(future.await),
        }
    }
}

/// What is `WouldBlock` has moved nothing.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// What TCP and Unix streams share.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync + Sized + 'static {
    type ReadHalf<'a>: AsyncRead + AsRef<Self> + Unpin + Send;
    type WriteHalf<'a>: AsyncWrite + AsRef<Self> + Unpin + Send;
    type OwnedReadHalf: AsyncRead + AsRef<Self> + Unpin + Send;
    type OwnedWriteHalf: AsyncWrite + AsRef<Self> + Unpin + Send;

    const IS_TCP: bool;

    fn split(&mut self) -> (Self::ReadHalf<'_>, Self::WriteHalf<'_>);
    fn into_split(self) -> (Self::OwnedReadHalf, Self::OwnedWriteHalf);
    fn reunite(reader: Self::OwnedReadHalf, writer: Self::OwnedWriteHalf) -> Self;
    /// Out of the runtime and back; as it was, if bytes would be lost.
    fn through_std(self) -> Self;
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn try_read(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn try_read_buf(&self, buf: &mut Vec<u8>) -> io::Result<usize>;
    fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn try_write(&self, buf: &[u8]) -> io::Result<usize>;
    fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
    fn try_send(&self, buf: &[u8]) -> io::Result<usize>;
    fn peek(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
    fn read_owned(&self, buf: Vec<u8>)
    -> impl Future<Output = (io::Result<usize>, Vec<u8>)> + Send;
    fn write_owned(
        &self,
        buf: Vec<u8>,
        zero_copy: bool,
    ) -> impl Future<Output = io::Result<usize>> + Send;
    fn reset_on_close(&self);
}

macro_rules! stream {
    ($stream:ty, $module:path, $is_tcp:literal, $peek:expr, $reset:expr) => {
        const _: () = {
            use $module as module;

            impl Stream for $stream {
                type ReadHalf<'a> = module::ReadHalf<'a>;
                type WriteHalf<'a> = module::WriteHalf<'a>;
                type OwnedReadHalf = module::OwnedReadHalf;
                type OwnedWriteHalf = module::OwnedWriteHalf;

                const IS_TCP: bool = $is_tcp;

                fn split(&mut self) -> (Self::ReadHalf<'_>, Self::WriteHalf<'_>) {
                    Self::split(self)
                }

                fn into_split(self) -> (Self::OwnedReadHalf, Self::OwnedWriteHalf) {
                    Self::into_split(self)
                }

                fn reunite(reader: Self::OwnedReadHalf, writer: Self::OwnedWriteHalf) -> Self {
                    reader.reunite(writer).unwrap()
                }

                fn through_std(self) -> Self {
                    use blitzen::net::IntoStdError;
                    match self.into_std() {
                        Ok(stream) => Self::from_std(stream).unwrap(),
                        Err(error) => error
                            .downcast::<IntoStdError<Self>>()
                            .unwrap()
                            .into_socket(),
                    }
                }

                async fn readable(&self) -> io::Result<()> {
                    Self::readable(self).await
                }

                async fn writable(&self) -> io::Result<()> {
                    Self::writable(self).await
                }

                fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                    Self::poll_read_ready(self, cx)
                }

                fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                    Self::try_read(self, buf)
                }

                fn try_read_buf(&self, buf: &mut Vec<u8>) -> io::Result<usize> {
                    Self::try_read_buf(self, buf)
                }

                fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                    Self::try_read_vectored(self, bufs)
                }

                fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                    let mut raw = &*socket2::SockRef::from(self);
                    match Self::try_io(self, Interest::READABLE, || raw.read(buf)) {
                        // By completion: there are bytes to be read first.
                        Err(error) if error.kind() == io::ErrorKind::Other => {
                            Err(io::ErrorKind::WouldBlock.into())
                        }
                        result => result,
                    }
                }

                fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                    Self::try_write(self, buf)
                }

                fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                    Self::try_write_vectored(self, bufs)
                }

                fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
                    let mut raw = &*socket2::SockRef::from(self);
                    Self::try_io(self, Interest::WRITABLE, || raw.write(buf))
                }

                async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
                    $peek(self, buf).await
                }

                async fn read_owned(&self, buf: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
                    Self::read_owned(self, buf).await
                }

                async fn write_owned(&self, buf: Vec<u8>, zero_copy: bool) -> io::Result<usize> {
                    match zero_copy {
                        true => Self::send_zc(self, buf).await.0,
                        false => Self::write_owned(self, buf).await.0,
                    }
                }

                fn reset_on_close(&self) {
                    $reset(self)
                }
            }
        };
    };
}

stream!(
    TcpStream,
    blitzen::net::tcp,
    true,
    TcpStream::peek,
    |stream: &TcpStream| stream.set_zero_linger().unwrap()
);

#[cfg(unix)]
stream!(
    blitzen::net::UnixStream,
    blitzen::net::unix,
    false,
    async |_: &blitzen::net::UnixStream, _: &mut [u8]| -> io::Result<usize> {
        unreachable!("only TCP peeks")
    },
    |_: &blitzen::net::UnixStream| {}
);

/// The direction that an end reads: how far it has come.
#[derive(Default)]
struct Reading {
    position: usize,
    has_ended: bool,
}

impl Reading {
    fn check(&self, bytes: &[u8]) {
        let expected = pattern(self.position, bytes.len());
        assert!(bytes == expected, "wrong bytes from {} on", self.position);
    }

    /// Counts what a read into `room` bytes has returned.
    fn take(&mut self, bytes: &[u8]) {
        assert!(
            bytes.is_empty() || !self.has_ended,
            "bytes after the end of the stream"
        );
        self.check(bytes);
        self.position += bytes.len();
        self.has_ended = bytes.is_empty();
    }

    /// Does one thing with `reader`, and gives it up now and then; `bounded` if
    /// it must not wait for the peer.
    async fn step<S: Stream>(
        &mut self,
        reader: &mut (impl AsyncRead + AsRef<S> + Unpin),
        dice: &mut Dice,
        bounded: bool,
    ) -> io::Result<()> {
        let mut bytes = vec![0; dice.size(70_000)];
        match dice.below(12) {
            0..=3 => {
                if let Some(count) = dice.cancel(bounded, reader.read(&mut bytes)).await {
                    self.take(&bytes[..count?]);
                }
            }
            4 => {
                let mut bytes = Vec::with_capacity(bytes.len());
                if let Some(count) = dice.cancel(bounded, reader.read_buf(&mut bytes)).await {
                    assert_eq!(count?, bytes.len());
                    self.take(&bytes);
                } else {
                    assert!(bytes.is_empty(), "a cancelled read has read");
                }
            }
            5 => {
                let stream = reader.as_ref();
                if let Some(ready) = dice.cancel(bounded, stream.readable()).await {
                    ready?;
                    self.try_step(stream, dice)?;
                }
            }
            6 => self.try_step(reader.as_ref(), dice)?,
            7 if S::IS_TCP => {
                let stream = reader.as_ref();
                if let Some(count) = dice.cancel(bounded, stream.peek(&mut bytes)).await {
                    self.check(&bytes[..count?]);
                }
            }
            8 => {
                let room = Vec::with_capacity(bytes.len());
                let read = reader.as_ref().read_owned(room);
                if let Some((count, bytes)) = dice.cancel(bounded, read).await {
                    self.take(&bytes[..count?]);
                }
            }
            9 => {
                let stream = reader.as_ref();
                let ready = poll_fn(|cx| stream.poll_read_ready(cx));
                dice.cancel(bounded, ready).await.transpose()?;
            }
            10 => {
                let mut buf = ReadBuf::new(&mut bytes);
                let read = poll_fn(|cx| Pin::new(&mut *reader).poll_read(cx, &mut buf));
                if let Some(read) = dice.cancel(bounded, read).await {
                    read?;
                    self.take(buf.filled());
                } else {
                    assert!(buf.filled().is_empty(), "a cancelled read has read");
                }
            }
            _ => yield_now().await,
        }
        Ok(())
    }

    /// Reads without waiting.
    fn try_step<S: Stream>(&mut self, stream: &S, dice: &mut Dice) -> io::Result<()> {
        let mut bytes = vec![0; dice.size(70_000)];
        match dice.below(4) {
            0 => {
                if let Some(count) = unless_blocked(stream.try_read(&mut bytes))? {
                    self.take(&bytes[..count]);
                }
            }
            1 => {
                let mut bytes = Vec::with_capacity(bytes.len());
                if unless_blocked(stream.try_read_buf(&mut bytes))?.is_some() {
                    self.take(&bytes);
                }
            }
            2 => {
                let middle = bytes.len() / 2;
                let (head, tail) = bytes.split_at_mut(middle);
                let mut bufs = [IoSliceMut::new(head), IoSliceMut::new(tail)];
                if let Some(count) = unless_blocked(stream.try_read_vectored(&mut bufs))? {
                    self.take(&bytes[..count]);
                }
            }
            _ => {
                if let Some(count) = unless_blocked(stream.try_recv(&mut bytes))? {
                    self.take(&bytes[..count]);
                }
            }
        }
        Ok(())
    }
}

/// The direction that an end writes: how far it has come, and how far it goes.
struct Writing {
    position: usize,
    total: usize,
}

impl Writing {
    fn is_done(&self) -> bool {
        self.position == self.total
    }

    /// The next bytes.
    fn next(&self, dice: &mut Dice) -> Vec<u8> {
        pattern(self.position, dice.size(self.total - self.position))
    }

    /// Does one thing with `writer`, and gives it up now and then; `bounded` if
    /// it must not wait for the peer. There must be something left to write.
    async fn step<S: Stream>(
        &mut self,
        writer: &mut (impl AsyncWrite + AsRef<S> + Unpin),
        dice: &mut Dice,
        bounded: bool,
    ) -> io::Result<()> {
        let bytes = self.next(dice);
        match dice.below(10) {
            0..=3 => {
                if let Some(count) = dice.cancel(bounded, writer.write(&bytes)).await {
                    self.position += count?;
                }
            }
            4 => {
                let (head, tail) = bytes.split_at(bytes.len() / 2);
                let bufs = [IoSlice::new(head), IoSlice::new(tail)];
                if let Some(count) = dice.cancel(bounded, writer.write_vectored(&bufs)).await {
                    self.position += count?;
                }
            }
            5 => {
                let stream = writer.as_ref();
                if let Some(ready) = dice.cancel(bounded, stream.writable()).await {
                    ready?;
                    self.try_step(stream, dice)?;
                }
            }
            6 => self.try_step(writer.as_ref(), dice)?,
            // Not cancelled: by completion the kernel may have the buffer.
            7 if !bounded => {
                let zero_copy = dice.below(2) == 0;
                self.position += writer.as_ref().write_owned(bytes, zero_copy).await?;
            }
            8 => dice
                .cancel(bounded, writer.flush())
                .await
                .transpose()?
                .unwrap_or(()),
            _ => yield_now().await,
        }
        Ok(())
    }

    /// Writes without waiting.
    fn try_step<S: Stream>(&mut self, stream: &S, dice: &mut Dice) -> io::Result<()> {
        let bytes = self.next(dice);
        let count = match dice.below(3) {
            0 => stream.try_write(&bytes),
            1 => {
                let (head, tail) = bytes.split_at(bytes.len() / 2);
                stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(tail)])
            }
            _ => stream.try_send(&bytes),
        };
        self.position += unless_blocked(count)?.unwrap_or(0);
        Ok(())
    }
}

/// Reads and writes with both halves, at the same time: for so many steps, or to
/// the end of both directions.
async fn both_halves<S: Stream>(
    (reader, reading): (&mut (impl AsyncRead + AsRef<S> + Unpin), &mut Reading),
    (writer, writing): (&mut (impl AsyncWrite + AsRef<S> + Unpin), &mut Writing),
    dice: &mut Dice,
    steps: Option<usize>,
) -> io::Result<()> {
    let (mut reader_dice, mut writer_dice) = (dice.split(), dice.split());
    let read = read_for::<S>(reader, reading, &mut reader_dice, steps);
    let write = write_for::<S>(writer, writing, &mut writer_dice, steps);
    let (read, write) = blitzen::join!(read, write);
    read.and(write)
}

async fn read_for<S: Stream>(
    reader: &mut (impl AsyncRead + AsRef<S> + Unpin),
    reading: &mut Reading,
    dice: &mut Dice,
    steps: Option<usize>,
) -> io::Result<()> {
    let mut left = steps.unwrap_or(usize::MAX);
    while !reading.has_ended && left > 0 {
        left -= 1;
        reading.step::<S>(reader, dice, steps.is_some()).await?;
    }
    Ok(())
}

async fn write_for<S: Stream>(
    writer: &mut (impl AsyncWrite + AsRef<S> + Unpin),
    writing: &mut Writing,
    dice: &mut Dice,
    steps: Option<usize>,
) -> io::Result<()> {
    let mut left = steps.unwrap_or(usize::MAX);
    while !writing.is_done() && left > 0 {
        left -= 1;
        writing.step::<S>(writer, dice, steps.is_some()).await?;
    }
    match steps {
        None => writer.shutdown().await,
        Some(_) => Ok(()),
    }
}

/// Several tasks read and write one stream through shared references. A lock
/// orders the operations themselves, not the waits.
async fn shared<S: Stream>(
    stream: &Arc<S>,
    reading: Reading,
    writing: Writing,
    dice: &mut Dice,
) -> (io::Result<()>, Reading, Writing) {
    let reading = Arc::new(Mutex::new(reading));
    let writing = Arc::new(Mutex::new(writing));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let (stream, reading, mut dice) = (stream.clone(), reading.clone(), dice.split());
        tasks.push(blitzen::spawn(async move {
            for _ in 0..dice.below(12) {
                let ready = dice.cancel(true, stream.readable()).await;
                ready.transpose()?;
                let mut reading = reading.lock().unwrap();
                if !reading.has_ended {
                    reading.try_step(&*stream, &mut dice)?;
                }
            }
            io::Result::Ok(())
        }));
    }
    for _ in 0..2 {
        let (stream, writing, mut dice) = (stream.clone(), writing.clone(), dice.split());
        tasks.push(blitzen::spawn(async move {
            for _ in 0..dice.below(12) {
                let ready = dice.cancel(true, stream.writable()).await;
                ready.transpose()?;
                let mut writing = writing.lock().unwrap();
                if !writing.is_done() {
                    writing.try_step(&*stream, &mut dice)?;
                }
            }
            io::Result::Ok(())
        }));
    }
    let mut result = Ok(());
    for task in tasks {
        result = result.and(task.await.unwrap());
    }
    (result, unwrap(reading), unwrap(writing))
}

fn unwrap<T>(shared: Arc<Mutex<T>>) -> T {
    let Ok(mutex) = Arc::try_unwrap(shared) else {
        panic!("a task is left over");
    };
    mutex.into_inner().unwrap()
}

/// How one end of a connection closes it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Close {
    /// When both directions have ended.
    AtTheEnd,
    /// In the middle, with a reset.
    Reset,
}

/// The life of one end of a connection: what it has read and written.
async fn end<S: Stream>(
    mut stream: S,
    close: Close,
    total: usize,
    mut dice: Dice,
) -> (io::Result<()>, Reading, Writing) {
    let mut reading = Reading::default();
    let mut writing = Writing { position: 0, total };
    for _ in 0..dice.below(5) {
        let steps = Some(dice.below(12));
        let result = match dice.below(4) {
            0 => {
                let (mut reader, mut writer) = stream.split();
                let read = (&mut reader, &mut reading);
                both_halves::<S>(read, (&mut writer, &mut writing), &mut dice, steps).await
            }
            1 => {
                let (result, halves);
                (result, halves, reading, writing) =
                    in_two_tasks(stream.into_split(), reading, writing, &mut dice, steps).await;
                stream = S::reunite(halves.0, halves.1);
                result
            }
            2 => {
                let whole = Arc::new(stream);
                let result;
                (result, reading, writing) = shared(&whole, reading, writing, &mut dice).await;
                let Ok(whole) = Arc::try_unwrap(whole) else {
                    panic!("a task is left over");
                };
                stream = whole;
                result
            }
            _ => {
                stream = stream.through_std();
                Ok(())
            }
        };
        if result.is_err() {
            return (result, reading, writing);
        }
    }
    if close == Close::Reset {
        stream.reset_on_close();
        return (Ok(()), reading, writing);
    }
    let result = match dice.below(2) {
        0 => {
            let (mut reader, mut writer) = stream.split();
            let read = (&mut reader, &mut reading);
            both_halves::<S>(read, (&mut writer, &mut writing), &mut dice, None).await
        }
        _ => {
            let (result, _halves);
            (result, _halves, reading, writing) =
                in_two_tasks(stream.into_split(), reading, writing, &mut dice, None).await;
            result
        }
    };
    (result, reading, writing)
}

/// Both halves, each in a task of its own.
async fn in_two_tasks<S: Stream<OwnedReadHalf = R, OwnedWriteHalf = W>, R, W>(
    (mut reader, mut writer): (R, W),
    mut reading: Reading,
    mut writing: Writing,
    dice: &mut Dice,
    steps: Option<usize>,
) -> (io::Result<()>, (R, W), Reading, Writing)
where
    R: AsyncRead + AsRef<S> + Unpin + Send + 'static,
    W: AsyncWrite + AsRef<S> + Unpin + Send + 'static,
{
    let (mut reader_dice, mut writer_dice) = (dice.split(), dice.split());
    let read = blitzen::spawn(async move {
        let result = read_for::<S>(&mut reader, &mut reading, &mut reader_dice, steps).await;
        (result, reader, reading)
    });
    let write = blitzen::spawn(async move {
        let result = write_for::<S>(&mut writer, &mut writing, &mut writer_dice, steps).await;
        (result, writer, writing)
    });
    let (read, reader, reading) = read.await.unwrap();
    let (write, writer, writing) = write.await.unwrap();
    (read.and(write), (reader, writer), reading, writing)
}

/// Several connections at once, each with two random ends.
async fn connections<S: Stream, F>(seed: u64, pair: impl Fn() -> F)
where
    F: Future<Output = (S, S)>,
{
    let mut dice = Dice::new(seed, 0);
    let mut connections = Vec::new();
    for _ in 0..1 + dice.below(4) {
        let (one, other) = pair().await;
        let close = match S::IS_TCP && dice.below(4) == 0 {
            true => Close::Reset,
            false => Close::AtTheEnd,
        };
        let totals = [0, 1].map(|_| {
            let limit = [10, 3_000, 300_000][dice.below(3)];
            dice.below(limit)
        });
        let one = blitzen::spawn(end(one, Close::AtTheEnd, totals[0], dice.split()));
        let other = blitzen::spawn(end(other, close, totals[1], dice.split()));
        connections.push((close, one, other));
    }
    for (close, one, other) in connections {
        let (result, read, written) = one.await.unwrap();
        let (other_result, other_read, other_written) = other.await.unwrap();
        assert!(
            read.position <= other_written.position,
            "read more than was written"
        );
        assert!(
            other_read.position <= written.position,
            "read more than was written"
        );
        match close {
            Close::AtTheEnd => {
                if result.is_err() || other_result.is_err() {
                    panic!("one end: {result:?}, the other: {other_result:?}");
                }
                assert_eq!(read.position, other_written.total);
                assert_eq!(other_read.position, written.total);
            }
            Close::Reset => {
                other_result.unwrap();
                if let Err(error) = result {
                    use io::ErrorKind::{BrokenPipe, ConnectionReset};
                    assert!(
                        matches!(error.kind(), BrokenPipe | ConnectionReset),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn tcp_streams_keep_their_bytes_in_random_programs() {
    run("tcp_streams", STREAM_MODES, |seed| {
        connections(seed, || async { net_common::tcp_pair().await.unwrap() })
    });
}

#[cfg(unix)]
#[test]
fn unix_streams_keep_their_bytes_in_random_programs() {
    run("unix_streams", STREAM_MODES, |seed| {
        connections(seed, || async { blitzen::net::UnixStream::pair().unwrap() })
    });
}

/// What UDP and Unix datagram sockets share.
trait Datagram: Send + Sync + Sized + 'static {
    /// Whether the system drops datagrams that nobody has room for.
    const IS_LOSSY: bool;

    fn through_std(self) -> Self;
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn send(&self, buf: &[u8]) -> impl Future<Output = io::Result<usize>> + Send;
    fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;
    fn try_send(&self, buf: &[u8]) -> io::Result<usize>;
    fn recv(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
    fn recv_from(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
    fn recv_buf(&self, buf: &mut Vec<u8>) -> impl Future<Output = io::Result<usize>> + Send;
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn try_io_recv(&self, buf: &mut [u8]) -> io::Result<usize>;
    /// Looks at the next datagram, or at none where that cannot be done.
    fn peek(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
}

macro_rules! datagram {
    ($socket:ty, $is_lossy:literal, $peek:expr) => {
        impl Datagram for $socket {
            const IS_LOSSY: bool = $is_lossy;

            fn through_std(self) -> Self {
                Self::from_std(self.into_std().unwrap()).unwrap()
            }

            async fn readable(&self) -> io::Result<()> {
                Self::readable(self).await
            }

            async fn writable(&self) -> io::Result<()> {
                Self::writable(self).await
            }

            async fn send(&self, buf: &[u8]) -> io::Result<usize> {
                Self::send(self, buf).await
            }

            fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                Self::poll_send(self, cx, buf)
            }

            fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
                Self::try_send(self, buf)
            }

            async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                Self::recv(self, buf).await
            }

            async fn recv_from(&self, buf: &mut [u8]) -> io::Result<usize> {
                Ok(Self::recv_from(self, buf).await?.0)
            }

            async fn recv_buf(&self, buf: &mut Vec<u8>) -> io::Result<usize> {
                Self::recv_buf(self, buf).await
            }

            fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                Self::try_recv(self, buf)
            }

            fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<usize> {
                Ok(Self::try_recv_from(self, buf)?.0)
            }

            fn try_io_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                let mut raw = &*socket2::SockRef::from(self);
                Self::try_io(self, Interest::READABLE, || raw.read(buf))
            }

            async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
                $peek(self, buf).await
            }
        }
    };
}

datagram!(UdpSocket, true, UdpSocket::peek);

#[cfg(unix)]
datagram!(
    blitzen::net::UnixDatagram,
    false,
    async |_: &blitzen::net::UnixDatagram, _: &mut [u8]| Ok(0)
);

/// The number of the datagram that tells a receiver to stop.
const STOP: u32 = u32::MAX;

/// The longest datagram.
const LONGEST: usize = 2_000;

/// A datagram: its number, and bytes that follow from it.
fn datagram(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(pattern(number as usize % 1_000_000, len));
    bytes
}

/// Checks a datagram, which may be cut short, and returns its number.
fn number(bytes: &[u8]) -> u32 {
    let (number, rest) = bytes.split_first_chunk().expect("a number");
    let number = u32::from_le_bytes(*number);
    let expected = pattern(number as usize % 1_000_000, rest.len());
    assert!(rest == expected, "wrong bytes in datagram {number}");
    number
}

/// Sends datagrams 0 to `count`, then tells the receivers to stop until none is
/// left.
async fn send_all<D: Datagram>(
    socket: Arc<D>,
    count: u32,
    receivers: Arc<AtomicUsize>,
    mut dice: Dice,
) {
    let mut next = 0;
    while next < count {
        let bytes = datagram(next, dice.below(LONGEST));
        let sent = match dice.below(6) {
            0 | 1 => dice.cancel(false, socket.send(&bytes)).await,
            2 => {
                let send = poll_fn(|cx| socket.poll_send(cx, &bytes));
                dice.cancel(false, send).await
            }
            3 => {
                let ready = dice.cancel(false, socket.writable()).await;
                ready.transpose().unwrap();
                Some(socket.try_send(&bytes))
            }
            4 => Some(socket.try_send(&bytes)),
            _ => {
                yield_now().await;
                None
            }
        };
        if let Some(sent) = sent
            && let Some(sent) = unless_blocked(sent).unwrap()
        {
            assert_eq!(sent, bytes.len());
            next += 1;
        }
    }
    while receivers.load(Ordering::Relaxed) > 0 {
        let stop = datagram(STOP, 0);
        unless_blocked(socket.try_send(&stop)).unwrap();
        dice.cancel(true, socket.writable()).await;
        yield_now().await;
    }
}

/// Receives until told to stop, and notes the numbers.
async fn receive_all<D: Datagram>(
    socket: Arc<D>,
    seen: Arc<Mutex<HashSet<u32>>>,
    receivers: Arc<AtomicUsize>,
    mut dice: Dice,
) {
    loop {
        // On Windows, a datagram that does not fit is an error.
        let longest = if cfg!(windows) {
            LONGEST
        } else {
            dice.below(LONGEST)
        };
        let mut bytes = vec![0; 4 + longest];
        let received = match dice.below(9) {
            0 | 1 => dice.cancel(false, socket.recv(&mut bytes)).await,
            2 => dice.cancel(false, socket.recv_from(&mut bytes)).await,
            3 => {
                let mut room = Vec::with_capacity(bytes.len());
                let received = dice.cancel(false, socket.recv_buf(&mut room)).await;
                bytes = room;
                received
            }
            4 => {
                let ready = dice.cancel(false, socket.readable()).await;
                ready.transpose().unwrap();
                Some(socket.try_recv(&mut bytes))
            }
            5 => Some(socket.try_recv_from(&mut bytes)),
            6 => Some(socket.try_io_recv(&mut bytes)),
            7 => {
                let peeked = dice.cancel(false, socket.peek(&mut bytes)).await;
                if let Some(count @ 1..) = peeked.transpose().unwrap() {
                    number(&bytes[..count]);
                }
                None
            }
            _ => {
                yield_now().await;
                None
            }
        };
        let Some(received) = received else {
            continue;
        };
        if let Some(count) = unless_blocked(received).unwrap() {
            match number(&bytes[..count]) {
                STOP => break,
                number => {
                    let is_new = seen.lock().unwrap().insert(number);
                    assert!(is_new, "datagram {number} came twice");
                }
            }
        }
    }
    receivers.fetch_sub(1, Ordering::Relaxed);
}

/// Both directions of several pairs at once, each with several receivers.
async fn datagrams<D: Datagram, F>(seed: u64, pair: impl Fn() -> F)
where
    F: Future<Output = (D, D)>,
{
    let mut dice = Dice::new(seed, 0);
    let (mut flows, mut sockets) = (Vec::new(), Vec::new());
    for _ in 0..1 + dice.below(2) {
        let (mut one, mut other) = pair().await;
        if dice.below(2) == 0 {
            one = one.through_std();
        }
        if dice.below(2) == 0 {
            other = other.through_std();
        }
        let (one, other) = (Arc::new(one), Arc::new(other));
        for (from, to) in [(&one, &other), (&other, &one)] {
            let count = dice.below(200) as u32;
            let seen = Arc::new(Mutex::new(HashSet::new()));
            let receivers = Arc::new(AtomicUsize::new(1 + dice.below(3)));
            let mut tasks = Vec::new();
            for _ in 0..receivers.load(Ordering::Relaxed) {
                let (seen, receivers) = (seen.clone(), receivers.clone());
                let receive = receive_all(to.clone(), seen, receivers, dice.split());
                tasks.push(blitzen::spawn(receive));
            }
            let send = send_all(from.clone(), count, receivers, dice.split());
            tasks.push(blitzen::spawn(send));
            flows.push((count, seen, tasks));
        }
        sockets.push((one, other)); // open until nobody sends any more
    }
    for (count, seen, tasks) in flows {
        for task in tasks {
            task.await.unwrap();
        }
        let seen = unwrap(seen);
        assert!(seen.iter().all(|number| *number < count));
        if !D::IS_LOSSY {
            assert_eq!(seen.len(), count as usize, "datagrams were lost");
        }
    }
}

#[test]
fn udp_datagrams_come_whole_and_once_in_random_programs() {
    run("udp_datagrams", DATAGRAM_MODES, |seed| {
        datagrams(seed, || async {
            let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            one.connect(other.local_addr().unwrap()).await.unwrap();
            other.connect(one.local_addr().unwrap()).await.unwrap();
            (one, other)
        })
    });
}

#[cfg(unix)]
#[test]
fn unix_datagrams_come_whole_and_once_in_random_programs() {
    run("unix_datagrams", DATAGRAM_MODES, |seed| {
        datagrams(seed, || async {
            blitzen::net::UnixDatagram::pair().unwrap()
        })
    });
}
