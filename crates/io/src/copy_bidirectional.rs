//! Moves bytes between two streams, both ways at once.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::copy::CopyBuffer;
use crate::{AsyncRead, AsyncWrite};

/// How far one direction has come.
enum TransferState {
    Running(CopyBuffer),
    /// The reader has ended; the writer is told.
    ShuttingDown(u64),
    Done(u64),
}

impl TransferState {
    /// Copies to the end of `reader`, then shuts `writer` down; returns how
    /// many bytes there were, as often as it is asked.
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

/// Copies from `a` to `b` and from `b` to `a` until both have ended; returns
/// how many bytes went each way.
///
/// When one of them ends, the other is shut down for writing, and its bytes go
/// on being copied.
///
/// # Errors
/// The first error in either direction ends both. Reads and writes that were
/// interrupted are tried again.
///
/// # Cancel safety
/// Not cancel safe: bytes that were read and not yet written are lost with the
/// future.
///
/// ```
/// use blitzen_io::{AsyncReadExt, AsyncWriteExt};
///
/// # futures::executor::block_on(async {
/// let (mut client, mut a) = blitzen_io::duplex(64);
/// let (mut b, mut server) = blitzen_io::duplex(64);
/// let proxy = blitzen_io::copy_bidirectional(&mut a, &mut b);
/// let talk = async {
///     client.write_all(b"question").await?;
///     client.shutdown().await?;
///     let mut question = String::new();
///     server.read_to_string(&mut question).await?;
///     server.write_all(b"answer").await?;
///     drop(server);
///     std::io::Result::Ok(question)
/// };
/// let (copied, question) = futures::future::join(proxy, talk).await;
/// assert_eq!((copied?, question?.as_str()), ((8, 6), "question"));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    transfer_both(a, b, CopyBuffer::growing(), CopyBuffer::growing()).await
}

/// Like [`copy_bidirectional`], with buffers of the given sizes.
///
/// # Errors
/// As for [`copy_bidirectional`].
///
/// # Panics
/// If one of the sizes is zero.
///
/// ```
/// # futures::executor::block_on(async {
/// let mut a = blitzen_io::join(&b"to b"[..], Vec::new());
/// let mut b = blitzen_io::join(&b"to a!"[..], Vec::new());
/// let copied = blitzen_io::copy_bidirectional_with_sizes(&mut a, &mut b, 1, 2).await?;
/// assert_eq!(copied, (4, 5));
/// assert_eq!(b.writer(), b"to b");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
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

/// Not an `async fn`: its future would hold the buffers twice.
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
        // Both are polled, whatever the first one says.
        let there = a_to_b.poll(Pin::new(&mut *a), Pin::new(&mut *b), cx)?;
        let back = b_to_a.poll(Pin::new(&mut *b), Pin::new(&mut *a), cx)?;
        Poll::Ready(Ok((ready!(there), ready!(back))))
    })
}
