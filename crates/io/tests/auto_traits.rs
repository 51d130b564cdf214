//! Which types may be sent, shared, moved when pinned, and used after a panic.
//! All of it is decided at compile time.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use blitzen_io::owned::{Polled, Slice};
use blitzen_io::{
    AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufStream, BufWriter,
    Chain, DuplexStream, Empty, Join, Lines, ReadBuf, ReadHalf, Repeat, SimplexStream, Sink, Split,
    Take, WriteHalf,
};

/// Compiles if the type has all of the traits.
macro_rules! has {
    ($type:ty: $($bound:ident),+) => {
        const _: () = {
            const fn check<T: ?Sized $(+ $bound)+>() {}
            check::<$type>();
        };
    };
}

/// Compiles if the type has none of the traits: with one of them, two
/// implementations of `Ambiguous` would fit.
macro_rules! lacks {
    ($type:ty: $($bound:ident),+) => {$(
        const _: fn() = || {
            trait Ambiguous<A> {
                fn check() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + $bound> Ambiguous<u8> for T {}
            let _ = <$type as Ambiguous<_>>::check;
        };
    )+};
}

/// Neither sent nor shared.
type Local = Rc<Cell<u8>>;
/// Sent, and not shared.
type Unshared = Cell<u8>;

/// A wrapper is what its stream is.
macro_rules! follows_the_stream {
    ($($wrapper:ident),*) => {$(
        has!($wrapper<u8>: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
        has!($wrapper<Unshared>: Send, Unpin, UnwindSafe);
        lacks!($wrapper<Unshared>: Sync, RefUnwindSafe);
        has!($wrapper<Local>: Unpin);
        lacks!($wrapper<Local>: Send, Sync, UnwindSafe, RefUnwindSafe);
        has!($wrapper<PhantomPinned>: Send, Sync, UnwindSafe, RefUnwindSafe);
        lacks!($wrapper<PhantomPinned>: Unpin);
        has!($wrapper<&'static mut u8>: Send, Sync, Unpin, RefUnwindSafe);
        lacks!($wrapper<&'static mut u8>: UnwindSafe);
    )*};
}

follows_the_stream!(
    BufReader, BufWriter, BufStream, Take, Lines, Split, Polled, Slice
);

macro_rules! follows_both {
    ($($wrapper:ident),*) => {$(
        has!($wrapper<u8, u8>: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
        lacks!($wrapper<u8, Local>: Send, Sync, UnwindSafe, RefUnwindSafe);
        lacks!($wrapper<Local, u8>: Send, Sync, UnwindSafe, RefUnwindSafe);
        lacks!($wrapper<u8, PhantomPinned>: Unpin);
        lacks!($wrapper<PhantomPinned, u8>: Unpin);
    )*};
}

follows_both!(Chain, Join);

/// A half reaches its stream through a lock, on the thread that polls it.
macro_rules! half {
    ($($half:ident),*) => {$(
        has!($half<Unshared>: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
        has!($half<PhantomPinned>: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
        has!($half<&'static mut u8>: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
        has!($half<Local>: Unpin, UnwindSafe, RefUnwindSafe);
        lacks!($half<Local>: Send);
    )*};
}

half!(ReadHalf, WriteHalf);

has!(DuplexStream: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
has!(SimplexStream: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
has!(Empty: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
has!(Repeat: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
has!(Sink: Send, Sync, Unpin, UnwindSafe, RefUnwindSafe);
has!(ReadBuf<'static>: Send, Sync, Unpin, RefUnwindSafe);
lacks!(ReadBuf<'static>: UnwindSafe);

/// A future that borrows its stream. It may not be moved once it is polled,
/// since a later version may borrow from itself.
trait Operation: Send + Sync + RefUnwindSafe {}

impl<F: Send + Sync + RefUnwindSafe> Operation for F {}

/// Compiles; `Unpin` futures are told apart by the second parameter.
fn operation<F: Operation + Immovable<A>, A>(_: F) {}

trait Immovable<A> {}
impl<T> Immovable<()> for T {}
impl<T: Unpin> Immovable<u8> for T {}

#[test]
fn operations_may_be_sent_and_shared_and_not_moved() {
    let mut stream = std::io::Cursor::new(Vec::new());
    let (mut bytes, mut text, mut array) = (Vec::new(), String::new(), [0; 4]);
    operation(stream.read(&mut array));
    operation(stream.read_buf(&mut bytes));
    operation(stream.read_exact(&mut array));
    operation(stream.read_to_end(&mut bytes));
    operation(stream.read_to_string(&mut text));
    operation(stream.read_u16());
    operation(stream.read_f64_le());
    operation(stream.read_until(0, &mut bytes));
    operation(stream.read_line(&mut text));
    operation(stream.fill_buf());
    operation(stream.write(&array));
    operation(stream.write_vectored(&[]));
    operation(stream.write_buf(&mut &array[..]));
    operation(stream.write_all(&array));
    operation(stream.write_all_buf(&mut &array[..]));
    operation(stream.write_u16(1));
    operation(stream.flush());
    operation(stream.shutdown());
    operation(stream.rewind());
    operation(stream.stream_position());
    operation(blitzen_io::copy(&mut stream, &mut bytes));
    operation(blitzen_io::copy_buf(&mut stream, &mut bytes));
    let mut other = std::io::Cursor::new(Vec::new());
    operation(blitzen_io::copy_bidirectional(&mut stream, &mut other));
}

/// None of these is marked `must_use`: who calls one for its side effect, or for
/// nothing, is not warned.
#[test]
#[deny(unused_must_use)]
fn constructors_may_be_called_for_nothing() {
    blitzen_io::empty();
    blitzen_io::repeat(1);
    blitzen_io::sink();
    blitzen_io::duplex(1);
    blitzen_io::simplex(1);
    blitzen_io::split(blitzen_io::empty());
    blitzen_io::join(blitzen_io::empty(), blitzen_io::sink());
    BufReader::new(blitzen_io::empty());
    BufWriter::new(blitzen_io::sink());
    BufStream::new(blitzen_io::empty());
    SimplexStream::new_unsplit(1);
    ReadBuf::new(&mut []).take(1);
    (&b"a"[..]).take(1).limit();
}
