//! A directory of one's own, and runtimes of every kind.

#![allow(dead_code)] // each test file uses its own part

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use blitzen::fs::File;
use blitzen::runtime::{Builder, IoBackend, Runtime};

/// Long enough that only what never happens runs into it.
pub(crate) const FOREVER: Duration = Duration::from_secs(30);

/// A directory that is removed at the end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        Self::under(&std::env::temp_dir())
    }

    /// A directory on the file system of `base`.
    pub(crate) fn under(base: &Path) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let own = NEXT.fetch_add(1, Relaxed);
        let name = format!("blitzen-test-{}-{own}", std::process::id());
        let path = base.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The file systems to test on: that of temporary files, and one in memory, whose
/// files know no `RWF_NOWAIT`.
pub(crate) fn file_systems() -> Vec<PathBuf> {
    let mut bases = vec![std::env::temp_dir()];
    let in_memory = Path::new("/dev/shm");
    if in_memory.is_dir() {
        bases.push(in_memory.to_owned());
    }
    bases
}

/// Every kind of runtime: three with io_uring if there is one, three without.
pub(crate) fn runtimes() -> Vec<Runtime> {
    runtimes_with(|_| {})
}

/// As [`runtimes`], each with more settings.
pub(crate) fn runtimes_with(configure: impl Fn(&mut Builder)) -> Vec<Runtime> {
    let mut runtimes = Vec::new();
    for backend in [IoBackend::Auto, IoBackend::Epoll] {
        let mut builders = vec![Builder::new_current_thread()];
        for workers in [1, 2] {
            let mut many = Builder::new_multi_thread();
            many.worker_threads(workers);
            builders.push(many);
        }
        for mut builder in builders {
            builder.enable_all().io_backend(backend);
            configure(&mut builder);
            runtimes.push(builder.build().unwrap());
        }
    }
    runtimes
}

/// Whether there is an io_uring to be had.
pub(crate) fn has_ring() -> bool {
    let mut with = Builder::new_current_thread();
    with.io_backend(IoBackend::Uring).build().is_ok()
}

/// Runs a test on every kind of runtime: on a worker, where there is a ring, and
/// beside the workers, where there is none.
pub(crate) fn on_each<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F) {
    for runtime in runtimes() {
        runtime.block_on(async { blitzen::spawn(test()).await.unwrap() });
        runtime.block_on(test());
    }
}

/// Waits until `is_so`, a look at a time.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + FOREVER;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        blitzen::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Has the system forget the bytes of a file that it has in memory, where it can be told so.
pub(crate) fn forget(file: &std::fs::File) {
    // Only what is on the disk can be forgotten.
    let _ = file.sync_all();
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: a descriptor that is open, and numbers.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
}

/// The reading end of a pipe, as a file.
pub(crate) fn reading_end(reader: std::io::PipeReader) -> File {
    #[cfg(unix)]
    return File::from(std::os::fd::OwnedFd::from(reader));
    #[cfg(windows)]
    return File::from(std::os::windows::io::OwnedHandle::from(reader));
}

pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[cfg(unix)]
pub(crate) fn make_fifo(path: &Path) {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}
