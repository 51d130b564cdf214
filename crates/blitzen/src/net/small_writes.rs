//! Several small buffers, written to a socket by one call.

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;

use crate::io::ReadBuf;

/// Up to this many bytes are copied together first: `send(2)` of one piece takes the kernel some
/// 200 ns less than `writev(2)` of two, and copying a few hundred bytes takes 10.
const MAX_LEN: usize = 1024;

/// More buffers than this are not looked through: `writev(2)` takes no more of them, and a caller
/// who has many comes again with what is left.
const MAX_BUFS: usize = 1024;

/// Writes the buffers, like [`Write::write_vectored`].
pub(super) fn write_small_at_once(
    mut socket: impl Write,
    bufs: &[IoSlice<'_>],
) -> io::Result<usize> {
    if let [only] = bufs
        && !only.is_empty()
    {
        return socket.write(only);
    }
    // A send of nothing reports what a write of nothing does not, such as an end of the stream.
    if !is_small(bufs.iter().map(|buf| buf.len())) {
        return socket.write_vectored(bufs);
    }
    let mut room = [MaybeUninit::uninit(); MAX_LEN];
    let mut piece = ReadBuf::uninit(&mut room);
    bufs.iter().for_each(|buf| piece.put_slice(buf));
    socket.write(piece.filled())
}

/// Whether buffers of these lengths are small together, but not empty. Looks at no more of them
/// than it must.
fn is_small(mut lens: impl ExactSizeIterator<Item = usize>) -> bool {
    if lens.len() > MAX_BUFS {
        return false;
    }
    let sum = lens.try_fold(0, |sum, len| {
        let sum = sum + len; // at most `MAX_LEN` and `isize::MAX`
        (sum <= MAX_LEN).then_some(sum)
    });
    sum.is_some_and(|sum| sum > 0)
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
    fn one_buffer_is_written_as_such_however_long_it_is() {
        assert_eq!(write(&[b"alone"], 100).1.calls, ["write"]);
        let (written, socket) = write(&[&[1; 2 * MAX_LEN]], usize::MAX);
        assert_eq!((written, &socket.calls[..]), (2 * MAX_LEN, &["write"][..]));
    }

    #[test]
    fn of_many_buffers_few_are_looked_at() {
        let looked_at = |len: usize, count: usize| {
            let mut looks = 0;
            let lens = (0..count).map(|_| {
                looks += 1;
                len
            });
            assert!(!is_small(lens));
            looks
        };
        assert_eq!(looked_at(MAX_LEN / 2, MAX_BUFS), 3);
        assert_eq!(looked_at(1, 1_000_000), 0);
    }

    #[test]
    fn more_buffers_than_the_system_takes_go_to_it_as_they_are() {
        let mut bufs = [&b""[..]; MAX_BUFS + 1];
        bufs[0] = b"head";
        assert_eq!(write(&bufs[..MAX_BUFS], 100).1.calls, ["write"]);
        assert_eq!(write(&bufs, 100).1.calls, ["write_vectored"]);
    }

    #[test]
    fn empty_buffers_go_to_the_system_as_they_are() {
        for count in 0..3 {
            assert_eq!(
                write(&[&b""[..]; 2][..count], 100).1.calls,
                ["write_vectored"]
            );
        }
    }
}
