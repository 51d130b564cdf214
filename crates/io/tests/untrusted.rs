//! Wrong implementations of safe traits cost data or a panic, never memory
//! safety.

use std::any::Any;
use std::future::Future;
use std::io::{self, IoSlice, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use blitzen_io::owned::{AsyncReadOwned, AsyncWriteOwned, IoBuf, IoBufMut, Outcome, Polled, Slice};
use blitzen_io::{
    AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite, AsyncWriteExt, BufReader,
    BufWriter, DuplexStream, ReadBuf, WriteHalf, copy, duplex, repeat, split,
};
use bytes::BytesMut;
use futures::executor::block_on;

/// What a panic says.
fn panic_of<R>(act: impl FnOnce() -> R) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(act)) else {
        panic!("it should have panicked");
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().unwrap().to_string(),
    }
}

// Owned buffers.

#[test]
fn a_cloned_slice_ends_where_its_own_buffer_does() {
    fn check<B: IoBufMut + Clone>(buf: B, capacity: fn(&B) -> usize) {
        let slice = buf.slice_mut(2..50);
        let clone = slice.clone();
        let room = capacity(clone.get_ref()) - 2;
        assert!(clone.total_len() <= room, "{} > {room}", clone.total_len());
        assert_eq!(clone.as_init(), b"cd");

        let (result, clone) = block_on(Polled::new(repeat(7)).read_owned(clone));
        assert_eq!(result.unwrap(), clone.total_len());
        assert_eq!(slice.total_len(), 48);
    }
    let mut vec = Vec::with_capacity(64);
    vec.extend(b"abcd");
    check(vec, Vec::capacity);
    let mut bytes = BytesMut::with_capacity(64);
    bytes.extend(b"abcd");
    check(bytes, BytesMut::capacity);
}

/// A sink that claims everything, and returns another buffer than it was given.
struct Exchanges<T>(Option<T>);

impl<T: 'static> AsyncWriteOwned for Exchanges<T> {
    fn write_owned<B: IoBuf>(&mut self, buf: B) -> impl Future<Output = Outcome<B>> {
        let claimed = buf.init_len() / 2;
        let mut slot = Some(buf);
        let other = (&mut slot as &mut dyn Any).downcast_mut::<Option<T>>();
        if let (Some(given), Some(other)) = (other, self.0.take()) {
            *given = Some(other);
        }
        std::future::ready((Ok(claimed), slot.unwrap()))
    }
}

#[test]
fn a_sink_that_returns_a_shorter_buffer_makes_no_slice_reach_beyond_it() {
    let short: Slice<Vec<u8>> = b"ab".to_vec().slice(..);
    let (result, back) = block_on(Exchanges(Some(short)).write_all_owned(vec![0; 4096]));
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WriteZero);
    assert_eq!(back, b"ab");
}

#[test]
fn a_sink_that_returns_an_emptier_buffer_makes_no_slice_start_in_a_gap() {
    let mut roomy = Vec::with_capacity(4096);
    roomy.extend(b"ab");
    let (result, back) = block_on(Exchanges(Some(roomy.slice(..))).write_all_owned(vec![0; 4096]));
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WriteZero);
    assert_eq!(back, b"ab");
}

// Readers.

/// Puts a buffer of its own, full of data, in the place of the one it is given.
struct Swaps;

impl AsyncRead for Swaps {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Remembered, so that a leak checker finds it.
        static LEAKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        let storage: &'static mut [u8] = Box::leak(vec![7; 3 * buf.capacity() + 1].into());
        LEAKED.lock().unwrap().push(storage.as_ptr().addr());
        let mut other = ReadBuf::new(storage);
        other.set_filled(other.capacity());
        *buf = other;
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_reader_that_swaps_the_buffer_is_found_out() {
    const TEXT: &str = "put another buffer in the place of the one it was given";
    let found_out = |text: String| assert!(text.contains(TEXT), "{text}");
    found_out(panic_of(|| block_on(Swaps.read(&mut [0; 4]))));
    found_out(panic_of(|| block_on(Swaps.read_exact(&mut [0; 4]))));
    found_out(panic_of(|| block_on(Swaps.read_u32())));
    found_out(panic_of(|| {
        block_on(Swaps.read_buf(&mut Vec::with_capacity(4)))
    }));
    found_out(panic_of(|| block_on(Swaps.read_to_end(&mut Vec::new()))));
    found_out(panic_of(|| block_on(Swaps.read_to_end(&mut vec![0; 64]))));
    found_out(panic_of(|| {
        block_on(Swaps.read_to_string(&mut String::new()))
    }));
    found_out(panic_of(|| block_on(Swaps.take(2).read(&mut [0; 4]))));
    found_out(panic_of(|| {
        block_on(BufReader::new(Swaps).read(&mut [0; 4]))
    }));
    found_out(panic_of(|| block_on(copy(&mut Swaps, &mut Vec::new()))));
    found_out(panic_of(|| {
        block_on(Polled::new(Swaps).read_owned(Vec::with_capacity(4)))
    }));
}

#[cfg(feature = "futures-io")]
#[test]
fn a_reader_that_swaps_the_buffer_is_found_out_through_futures_io() {
    use futures::io::AsyncReadExt as _;
    let mut swaps = blitzen_io::futures_io::ToFutures::new(Swaps);
    let text = panic_of(|| block_on(swaps.read(&mut [0; 4])));
    assert!(text.contains("put another buffer"), "{text}");
}

/// Takes back what is in the buffer already.
struct Clears;

impl AsyncRead for Clears {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buf.clear();
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_reader_cannot_take_back_what_others_have_read() {
    let mut storage = [0; 8];
    let mut buf = ReadBuf::new(&mut storage);
    buf.put_slice(b"ab");
    let mut taken = Clears.take(4);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(Pin::new(&mut taken).poll_read(&mut cx, &mut buf).is_ready());
    assert_eq!((buf.filled(), taken.limit()), (&b"ab"[..], 4));
}

/// Gives half a character, and then panics.
struct Breaks(bool);

impl AsyncRead for Breaks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        assert!(!std::mem::replace(&mut self.0, true), "broken");
        buf.put_slice(b"\xc3");
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_reader_that_panics_leaves_text_in_the_string() {
    let mut text = String::from("so far");
    assert_eq!(
        panic_of(|| block_on(Breaks(false).read_to_string(&mut text))),
        "broken"
    );
    assert_eq!(text, "so far");
}

// Writers.

/// Claims more than it was given.
struct Claims(usize);

impl AsyncWrite for Claims {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len().wrapping_add(self.0)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write(cx, &bufs[0])
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Claims {
    fn start_seek(self: Pin<&mut Self>, _position: SeekFrom) -> io::Result<()> {
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(0))
    }
}

#[test]
fn a_writer_that_claims_more_than_it_was_given_is_found_out() {
    let found_out = |text: String| assert!(text.contains("claims"), "{text}");
    for more in [1, 252, 256, usize::MAX - 8] {
        found_out(panic_of(|| block_on(Claims(more).write_all(b"four"))));
        found_out(panic_of(|| block_on(Claims(more).write_u32(4))));
        found_out(panic_of(|| {
            block_on(Claims(more).write_all_buf(&mut &b"four"[..]))
        }));
        found_out(panic_of(|| {
            block_on(copy(&mut &b"four"[..], &mut Claims(more)))
        }));
        found_out(panic_of(|| {
            block_on(Polled::new(Claims(more)).write_all_owned(b"four".to_vec()))
        }));
        let buffered = || {
            let mut writer = BufWriter::new(Claims(more));
            block_on(writer.write_all(b"four")).unwrap();
            writer
        };
        found_out(panic_of(|| block_on(buffered().flush())));
        found_out(panic_of(|| block_on(buffered().seek(SeekFrom::Start(0)))));
    }
}

// Wakers.

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[test]
fn a_waker_that_panics_costs_no_other_task_the_end_of_a_stream() {
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (near, mut far) = duplex(1);
    block_on(far.write_all(b"x")).unwrap();
    let (bomb, count) = (Waker::from(Arc::new(Bomb)), Arc::new(Count::default()));
    let counted = Waker::from(count.clone());
    let read = |far: &mut DuplexStream, waker: &Waker| {
        let mut byte = [0];
        let mut cx = Context::from_waker(waker);
        Pin::new(far).poll_read(&mut cx, &mut ReadBuf::new(&mut byte))
    };
    let write = |far: &mut DuplexStream, waker: &Waker| {
        Pin::new(far).poll_write(&mut Context::from_waker(waker), b"y")
    };
    assert!(read(&mut far, &bomb).is_pending());
    assert!(write(&mut far, &counted).is_pending());

    panic_of(|| drop(near));
    assert_eq!(count.0.load(Relaxed), 1, "the writer was woken");
    assert!(matches!(write(&mut far, &counted), Poll::Ready(Err(_))));
    assert!(matches!(read(&mut far, &counted), Poll::Ready(Ok(()))));
}

/// A stream whose read has the other half wait, and panics.
struct PanicsWhileContended(Arc<Mutex<Option<WriteHalf<Self>>>>);

impl AsyncRead for PanicsWhileContended {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let waker = Waker::from(Arc::new(Bomb));
        let mut other = self.0.lock().unwrap().take().unwrap();
        let waits = Pin::new(&mut other).poll_flush(&mut Context::from_waker(&waker));
        assert!(waits.is_pending());
        panic!("a stream that panics");
    }
}

impl AsyncWrite for PanicsWhileContended {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_stream_and_the_waker_of_its_other_half_may_panic_at_once() {
    let slot = Arc::new(Mutex::new(None));
    let (mut reader, writer) = split(PanicsWhileContended(slot.clone()));
    *slot.lock().unwrap() = Some(writer);
    let text = panic_of(|| block_on(reader.read_u8()));
    assert_eq!(text, "a stream that panics");
}
