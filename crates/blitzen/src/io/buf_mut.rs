//! Reading into memory that need not be initialised.

use std::io;
use std::mem::MaybeUninit;

use bytes::BufMut;

/// Lets `read` put bytes into the free part of `buf`, and counts them as there.
///
/// # Safety
/// If `read` answers `Ok((n, _))`, the first `n` bytes of what it was given are
/// initialised.
pub(crate) unsafe fn fill_buf_mut<B: BufMut + ?Sized, R>(
    buf: &mut B,
    read: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, R)>,
) -> io::Result<(usize, R)> {
    // SAFETY: `read` may only write initialised bytes into it, as anybody may
    // through a `&mut [MaybeUninit<u8>]` without making bytes that are
    // initialised uninitialised again: the system calls behind it never do.
    let room = unsafe { buf.chunk_mut().as_uninit_slice_mut() };
    let (count, rest) = read(room)?;
    // SAFETY: initialised, by the caller's word.
    unsafe { buf.advance_mut(count) };
    Ok((count, rest))
}
