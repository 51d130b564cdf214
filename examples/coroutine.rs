//! A library that only knows `std::io::Read`, fed from a socket without a thread of its own.
//!
//! `cargo run --release --features coro --example coroutine` sends compressed text over a
//! connection. `flate2` unpacks it in a coroutine, which is suspended wherever `flate2` needs
//! bytes that have not arrived.

use std::io::{self, Read, Write};

use blitzen::coro;
use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// A stream as synchronous code sees it.
struct Blocking(TcpStream);

impl Read for Blocking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        coro::block_on(self.0.read(buffer))
    }
}

#[blitzen::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let receiving = blitzen::spawn(receive(listener));

    let text = "a line that is worth compressing\n".repeat(10_000);
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes())?;
    let packed = packer.finish()?;
    let mut stream = TcpStream::connect(address).await?;
    // In small pieces, so that the other side has to wait in the middle.
    for piece in packed.chunks(100) {
        stream.write_all(piece).await?;
        blitzen::task::yield_now().await;
    }
    drop(stream);

    let unpacked = receiving.await??;
    println!(
        "{} bytes came, {} were unpacked",
        packed.len(),
        unpacked.len()
    );
    assert_eq!(unpacked, text);
    Ok(())
}

/// Unpacks what one connection sends.
async fn receive(listener: TcpListener) -> io::Result<String> {
    let (stream, _) = listener.accept().await?;
    // SAFETY: flate2 keeps nothing in thread-locals.
    let unpacking = unsafe {
        coro::Builder::new().name("unpack").spawn(move || {
            let mut text = String::new();
            GzDecoder::new(Blocking(stream)).read_to_string(&mut text)?;
            Ok(text)
        })
    };
    unpacking.await?
}
