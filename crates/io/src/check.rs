//! Checks of what readers and writers return. Both traits are safe to implement,
//! so nothing here may rely on an implementation being right.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{AsyncRead, ReadBuf};

/// Reads once into `buf`.
///
/// # Panics
///
/// If the reader put another buffer in its place. When this returns, what `buf`
/// counts as filled and initialised is in the memory it covered before.
#[inline]
#[track_caller]
pub(crate) fn poll_read<R: AsyncRead + ?Sized>(
    reader: Pin<&mut R>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let lent = buf.memory();
    let polled = reader.poll_read(cx, buf);
    // The length counts too: an empty buffer may lie right before another.
    assert!(
        std::ptr::eq(buf.memory(), lent),
        "the reader put another buffer in the place of the one it was given"
    );
    polled
}

/// Returns `amount`, which a writer says it took of `given` bytes.
///
/// # Panics
///
/// If that is more than there were.
#[inline]
#[track_caller]
pub(crate) fn written(amount: usize, given: usize) -> usize {
    assert!(
        amount <= given,
        "a writer was given {given} bytes and claims {amount}"
    );
    amount
}

/// Whether the operation is to be tried again at once.
pub(crate) fn is_interrupted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}
