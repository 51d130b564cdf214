//! Reading into the spare capacity of a `BufMut`.

use std::io;
use std::mem::MaybeUninit;

use bytes::BufMut;

/// Lets `read` write into the spare capacity of `buf`, and advances `buf` by what
/// was read.
///
/// # Safety
///
/// If `read` returns `Ok((n, _))`, it must have initialised the first `n` bytes of
/// its argument.
pub(crate) unsafe fn fill_buf_mut<B: BufMut + ?Sized, R>(
    buf: &mut B,
    read: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, R)>,
) -> io::Result<(usize, R)> {
    // SAFETY: the system calls in `read` write initialised bytes only, so they make no
    // initialised byte uninitialised.
    let room = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
    let (count, rest) = read(room)?;
    // SAFETY: the first `count` bytes are initialised, by this function's contract.
    unsafe { buf.advance_mut(count) };
    Ok((count, rest))
}
