//! Traits, buffers and streams of bytes.

pub use blitzen::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
#[cfg(feature = "io-util")]
pub use blitzen::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufStream, BufWriter,
    Chain, DuplexStream, Empty, Join, Lines, ReadHalf, Repeat, SimplexStream, Sink, Split, Take,
    WriteHalf, copy, copy_bidirectional, copy_bidirectional_with_sizes, copy_buf, duplex, empty,
    join, repeat, simplex, sink, split,
};
#[cfg(any(
    feature = "net",
    all(
        tokio_unstable,
        feature = "io-uring",
        feature = "rt",
        feature = "fs",
        target_os = "linux"
    )
))]
pub use blitzen::io::{Interest, Ready};
#[cfg(feature = "io-std")]
pub use blitzen::io::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
pub use std::io::{Error, ErrorKind, Result, SeekFrom};

/// Readiness of any file descriptor.
#[cfg(all(unix, feature = "net"))]
pub mod unix {
    #[doc(hidden)]
    #[allow(deprecated)]
    pub use blitzen::io::unix::AsyncFdTryNewError;
    pub use blitzen::io::unix::{
        AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
    };
}
