//! Several small buffers, written to a socket by one call.

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;

use crate::io::ReadBuf;

/// Up to this many bytes are copied together first: `send(2)` of one piece takes the kernel some
/// 200 ns less than `writev(2)` of two, and copying a few hundred bytes takes 10.
const MAX_LEN: usize = 1024;

/// Writes the buffers, like [`Write::write_vectored`].
pub(super) fn write_small_at_once(
    mut socket: impl Write,
    bufs: &[IoSlice<'_>],
) -> io::Result<usize> {
    let len = bufs
        .iter()
        .fold(0, |len: usize, buf| len.saturating_add(buf.len()));
    // A send of nothing reports what a write of nothing does not, such as an end of the stream.
    if bufs.len() < 2 || len == 0 || len > MAX_LEN {
        return socket.write_vectored(bufs);
    }
    let mut room = [MaybeUninit::uninit(); MAX_LEN];
    let mut piece = ReadBuf::uninit(&mut room);
    bufs.iter().for_each(|buf| piece.put_slice(buf));
    socket.write(piece.filled())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts calls, and takes some bytes of each.
    #[derive(Default)]
    struct Socket {
        bytes: Vec<u8>,
        calls: Vec<&'static str>,
        most: usize,
    }

    impl Write for Socket {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.calls.push("write");
            let taken = &buf[..buf.len().min(self.most)];
            self.bytes.extend(taken);
            Ok(taken.len())
        }

        fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            self.calls.push("write_vectored");
            let taken: Vec<u8> = bufs
                .iter()
                .flat_map(|buf| buf.iter().copied())
                .take(self.most)
                .collect();
            self.bytes.extend(&taken);
            Ok(taken.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(bufs: &[&[u8]], most: usize) -> (usize, Socket) {
        let mut socket = Socket {
            most,
            ..Socket::default()
        };
        let bufs: Vec<_> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
        let written = write_small_at_once(&mut socket, &bufs).unwrap();
        (written, socket)
    }

    #[test]
    fn small_buffers_are_written_in_one_piece_and_in_order() {
        let (written, socket) = write(&[b"head", b"", b"body"], 100);
        assert_eq!((written, &socket.bytes[..]), (8, &b"headbody"[..]));
        assert_eq!(socket.calls, ["write"]);
    }

    #[test]
    fn a_short_write_is_reported_as_such() {
        let (written, socket) = write(&[b"head", b"body"], 6);
        assert_eq!((written, &socket.bytes[..]), (6, &b"headbo"[..]));
    }

    #[test]
    fn exactly_what_fits_is_copied_and_more_is_not() {
        let (half, more) = ([1; MAX_LEN / 2], [2; MAX_LEN / 2 + 1]);
        let (written, socket) = write(&[&half, &half], usize::MAX);
        assert_eq!((written, &socket.calls[..]), (MAX_LEN, &["write"][..]));
        let (written, socket) = write(&[&half, &more], usize::MAX);
        assert_eq!(
            (written, &socket.calls[..]),
            (MAX_LEN + 1, &["write_vectored"][..])
        );
    }

    #[test]
    fn one_buffer_or_none_goes_to_the_system_as_it_is() {
        assert_eq!(write(&[b"alone"], 100).1.calls, ["write_vectored"]);
        assert_eq!(write(&[], 100).1.calls, ["write_vectored"]);
    }

    #[test]
    fn empty_buffers_go_to_the_system_as_they_are() {
        assert_eq!(write(&[b"", b""], 100).1.calls, ["write_vectored"]);
    }
}
