//! Group `fs`: files that are in memory, files that are not, and small ones.
//!
//! The floors are the system calls themselves, made by one thread (`std`) that has
//! nothing else to do and so may wait.

mod random;
mod sequential;
mod single_thread;
mod small;

use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use crate::row::Row;
use crate::rt::{Blitzen, Rt, Tokio};

pub(crate) fn rows() -> Vec<Row> {
    [random::rows(), sequential::rows(), small::rows()].concat()
}

/// The size of a read.
const BLOCK: usize = 4096;
/// The file that is read at random.
const FILE_BLOCKS: u64 = 64 * 1024;

/// A quarter of a gigabyte that has no name any more, and is on the disk.
fn big_file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("blitzen-bench-{}", std::process::id()));
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .clone();
        let mut file = options.open(&path).expect("there is room for a file");
        std::fs::remove_file(&path).expect("it has just been made");
        let chunk: Vec<u8> = (0..1 << 20).map(|byte| byte as u8).collect();
        for _ in 0..(FILE_BLOCKS * BLOCK as u64) >> 20 {
            file.write_all(&chunk).expect("there is room on the disk");
        }
        file.sync_all().expect("the disk works");
        file
    })
}

/// The file opened once more, with a position of its own.
fn reopened() -> File {
    let fd = big_file().as_raw_fd();
    let file = File::open(format!("/proc/self/fd/{fd}")).expect("it is open");
    // No reading ahead of what is wanted.
    // SAFETY: a descriptor that is open, and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    file
}

/// Brings all of the file into memory.
fn warm() {
    let mut room = vec![0; 1 << 20];
    for offset in (0..FILE_BLOCKS * BLOCK as u64).step_by(room.len()) {
        big_file()
            .read_exact_at(&mut room, offset)
            .expect("it is there");
    }
}

/// Has the kernel forget the file's bytes.
fn chill() {
    // SAFETY: a descriptor that is open, and numbers.
    unsafe { libc::posix_fadvise(big_file().as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Offsets of blocks, the same for everybody.
struct Offsets(u64);

impl Offsets {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    fn next(&mut self) -> u64 {
        // Lehmer's generator: good enough not to repeat within a sample.
        self.0 = self.0.wrapping_mul(0xda94_2042_e4dd_58b5);
        (self.0 >> 40) % FILE_BLOCKS * BLOCK as u64
    }
}

/// A runtime with files.
pub(crate) trait Files: Rt {
    type File: Send + Sync;

    fn adopt(file: File) -> Self::File;

    /// What users of the library write to read at an offset without holding up
    /// other tasks.
    fn read_at(
        file: &Arc<Self::File>,
        buf: Vec<u8>,
        offset: u64,
    ) -> impl Future<Output = Vec<u8>> + Send;

    /// Moves there, and reads.
    fn seek_and_read(
        file: &mut Self::File,
        buf: &mut [u8],
        offset: u64,
    ) -> impl Future<Output = ()> + Send;

    /// Reads some bytes from where the file stands; zero at its end.
    fn read(file: &mut Self::File, buf: &mut [u8]) -> impl Future<Output = usize> + Send;
    fn write_all(file: &mut Self::File, bytes: &[u8]) -> impl Future<Output = ()> + Send;
    fn flush(file: &mut Self::File) -> impl Future<Output = ()> + Send;

    fn write_file(path: &std::path::Path, bytes: &[u8]) -> impl Future<Output = ()> + Send;
    fn read_file(path: &std::path::Path) -> impl Future<Output = Vec<u8>> + Send;
    fn remove_file(path: &std::path::Path) -> impl Future<Output = ()> + Send;
}

const WORKS: &str = "the file system works";

macro_rules! tokio_like {
    ($name:ident, $library:ident, $read_at:expr) => {
        impl Files for $name {
            type File = $library::fs::File;

            fn adopt(file: File) -> Self::File {
                $library::fs::File::from_std(file)
            }

            async fn read_at(file: &Arc<Self::File>, buf: Vec<u8>, offset: u64) -> Vec<u8> {
                $read_at(file, buf, offset).await
            }

            async fn seek_and_read(file: &mut Self::File, buf: &mut [u8], offset: u64) {
                use $library::io::{AsyncReadExt, AsyncSeekExt};
                let to = std::io::SeekFrom::Start(offset);
                file.seek(to).await.expect(WORKS);
                file.read_exact(buf).await.expect(WORKS);
            }

            async fn read(file: &mut Self::File, buf: &mut [u8]) -> usize {
                use $library::io::AsyncReadExt;
                file.read(buf).await.expect(WORKS)
            }

            async fn write_all(file: &mut Self::File, bytes: &[u8]) {
                use $library::io::AsyncWriteExt;
                file.write_all(bytes).await.expect(WORKS);
            }

            async fn flush(file: &mut Self::File) {
                use $library::io::AsyncWriteExt;
                file.flush().await.expect(WORKS);
            }

            async fn write_file(path: &std::path::Path, bytes: &[u8]) {
                $library::fs::write(path, bytes).await.expect(WORKS);
            }

            async fn read_file(path: &std::path::Path) -> Vec<u8> {
                $library::fs::read(path).await.expect(WORKS)
            }

            async fn remove_file(path: &std::path::Path) {
                $library::fs::remove_file(path).await.expect(WORKS);
            }
        }
    };
}

tokio_like!(Blitzen, blitzen, read_owned);
tokio_like!(Tokio, tokio, read_on_pool);

async fn read_owned(file: &Arc<blitzen::fs::File>, buf: Vec<u8>, offset: u64) -> Vec<u8> {
    let (read, buf) = file.read_at(buf, offset).await;
    assert_eq!(read.expect(WORKS), BLOCK);
    buf
}

/// tokio::fs has nothing for it.
async fn read_on_pool(file: &Arc<tokio::fs::File>, mut buf: Vec<u8>, offset: u64) -> Vec<u8> {
    let file = file.clone();
    let read = move || {
        let room = buf.as_mut_ptr().cast();
        // SAFETY: the descriptor is open as long as the file, and there is room.
        let read = unsafe { libc::pread64(file.as_raw_fd(), room, BLOCK, offset as i64) };
        assert_eq!(read, BLOCK as isize);
        buf
    };
    tokio::task::spawn_blocking(read).await.expect(WORKS)
}
