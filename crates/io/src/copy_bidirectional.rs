//! Copies bytes between two streams, both ways at once.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::copy::CopyBuffer;
use crate::{AsyncRead, AsyncWrite};

/// How far one direction has come.
enum TransferState {
    Running(CopyBuffer),
    /// The reader has ended, and the writer is shut down.
    ShuttingDown(u64),
    Done(u64),
}

impl TransferState {
    /// Copies to the end of `reader`, shuts `writer` down, and returns how many bytes
    /// were copied. May be polled again afterwards.
    fn poll<R, W>(
        &mut self,
        mut reader: Pin<&mut R>,
        mut writer: Pin<&mut W>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>>
    where
        R: AsyncRead + ?Sized,
        W: AsyncWrite + ?Sized,
    {
        loop {
            *self = match self {
                Self::Running(copying) => {
                    let copied = copying.poll(reader.as_mut(), writer.as_mut(), cx);
                    Self::ShuttingDown(ready!(copied)?)
                }
                Self::ShuttingDown(total) => {
                    ready!(writer.as_mut().poll_shutdown(cx))?;
                    Self::Done(*total)
                }
                Self::Done(total) => return Poll::Ready(Ok(*total)),
            };
        }
    }
}

/// Copies from `a` to `b` and from `b` to `a` at once, until both have ended, and
/// returns how many bytes went each way.
///
/// When one stream ends, the other is shut down for writing; the other direction
/// continues. Reads and writes that fail with
/// [`Interrupted`](std::io::ErrorKind::Interrupted) are repeated.
///
/// # Examples
///
/// ```
/// use blitzen::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut client, mut a) = blitzen::io::duplex(64);
/// let (mut b, mut server) = blitzen::io::duplex(64);
/// let proxy = blitzen::spawn(async move { copy_bidirectional(&mut a, &mut b).await });
///
/// client.write_all(b"question").await?;
/// client.shutdown().await?;
/// let mut question = String::new();
/// server.read_to_string(&mut question).await?;
/// assert_eq!(question, "question");
///
/// server.write_all(b"answer").await?;
/// drop(server);
/// assert_eq!(proxy.await??, (8, 6));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Not cancel safe: bytes that were read and not yet written are lost if the
/// future is dropped.
///
/// # Errors
///
/// Returns the first error of either direction, which ends both, or
/// [`WriteZero`](std::io::ErrorKind::WriteZero) if a stream accepts no more bytes.
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    transfer_both(a, b, CopyBuffer::growing(), CopyBuffer::growing()).await
}

/// Copies like [`copy_bidirectional`], with buffers of `a_to_b_buf_size` and
/// `b_to_a_buf_size` bytes.
///
/// # Examples
///
/// ```
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut a = blitzen::io::join(&b"to b"[..], Vec::new());
/// let mut b = blitzen::io::join(&b"to a!"[..], Vec::new());
/// let copied = blitzen::io::copy_bidirectional_with_sizes(&mut a, &mut b, 1, 2).await?;
/// assert_eq!(copied, (4, 5));
/// assert_eq!(b.writer(), b"to b");
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Not cancel safe: bytes that were read and not yet written are lost if the
/// future is dropped.
///
/// # Errors
///
/// Returns the same errors as [`copy_bidirectional`].
///
/// # Panics
///
/// Panics if one of the sizes is zero.
pub async fn copy_bidirectional_with_sizes<A, B>(
    a: &mut A,
    b: &mut B,
    a_to_b_buf_size: usize,
    b_to_a_buf_size: usize,
) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    assert!(
        a_to_b_buf_size > 0,
        "`a_to_b_buf_size` must be greater than 0"
    );
    assert!(
        b_to_a_buf_size > 0,
        "`b_to_a_buf_size` must be greater than 0"
    );
    transfer_both(
        a,
        b,
        CopyBuffer::with_capacity(a_to_b_buf_size),
        CopyBuffer::with_capacity(b_to_a_buf_size),
    )
    .await
}

/// Copies both ways. Not an `async fn`, whose future would hold the buffers twice.
fn transfer_both<A, B>(
    a: &mut A,
    b: &mut B,
    a_to_b: CopyBuffer,
    b_to_a: CopyBuffer,
) -> impl Future<Output = io::Result<(u64, u64)>>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut a_to_b = TransferState::Running(a_to_b);
    let mut b_to_a = TransferState::Running(b_to_a);
    poll_fn(move |cx| {
        // Both are polled, whatever the first one returns.
        let there = a_to_b.poll(Pin::new(&mut *a), Pin::new(&mut *b), cx)?;
        let back = b_to_a.poll(Pin::new(&mut *b), Pin::new(&mut *a), cx)?;
        Poll::Ready(Ok((ready!(there), ready!(back))))
    })
}
