//! The futures hold references and a little state, and no buffers: they live
//! inside other futures, often many of them.

use blitzen_io::{AsyncReadExt, AsyncWriteExt, duplex};

const WORD: usize = size_of::<usize>();

#[test]
fn operations_are_a_few_words() {
    let (mut stream, mut other) = duplex(8);
    let mut bytes = Vec::new();
    let mut array = [0; 8];
    assert_eq!(size_of_val(&stream.read(&mut array)), 3 * WORD);
    assert_eq!(size_of_val(&stream.read_buf(&mut bytes)), 2 * WORD);
    assert_eq!(size_of_val(&stream.read_exact(&mut array)), 5 * WORD);
    assert_eq!(size_of_val(&stream.read_to_end(&mut bytes)), 5 * WORD);
    // The stream, four bytes and how many of them are there.
    assert_eq!(size_of_val(&stream.read_u32()), WORD + 8);
    assert_eq!(size_of_val(&stream.write(b"x")), 3 * WORD);
    assert_eq!(size_of_val(&stream.write_all(b"x")), 3 * WORD);
    assert_eq!(size_of_val(&stream.flush()), WORD);
    assert!(size_of_val(&blitzen_io::copy(&mut stream, &mut other)) <= 16 * WORD);
    let both = blitzen_io::copy_bidirectional_with_sizes(&mut stream, &mut other, 1, 1);
    assert!(size_of_val(&both) <= 28 * WORD);
}
