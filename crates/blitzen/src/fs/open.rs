//! How a file is opened.

use std::fs::File as StdFile;
use std::io;
use std::path::{Path, PathBuf};

use super::doc::example;
use super::op::{self, FileOp};
use super::{File, sys};

/// Options and flags for opening a file.
///
/// # Examples
///
#[doc = example!("use blitzen::fs::OpenOptions;", "use blitzen::io::AsyncWriteExt;")]
/// let mut log = OpenOptions::new()
///     .append(true)
///     .create(true)
///     .open(dir.join("log"))
///     .await?;
/// log.write_all(b"hello\n").await?;
/// log.flush().await?;
/// # std::fs::remove_dir_all(&dir) }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    std: std::fs::OpenOptions,
    /// The same settings, as far as they are known: std does not let its own be read.
    flags: Option<OpenFlags>,
}

/// The settings of std's options.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(blitzen_ring), allow(dead_code))]
pub(super) struct OpenFlags {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    #[cfg(unix)]
    custom_flags: i32,
    /// The permissions of a file that is created, if not the default.
    #[cfg(unix)]
    mode: Option<u32>,
    /// Whether a setting was made that is not recorded here.
    #[cfg(windows)]
    more: bool,
}

#[cfg(blitzen_ring)]
impl OpenFlags {
    /// Returns the flags for `open(2)`; `None` if they contradict each other: then std returns
    /// the error.
    pub(super) fn for_open(&self) -> Option<i32> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) => return None,
        };
        let changes = self.truncate || self.create || self.create_new;
        if (changes && !self.write && !self.append)
            || (self.append && self.truncate && !self.create_new)
        {
            return None;
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => libc::O_CREAT | libc::O_EXCL,
            (create, truncate, false) => {
                (libc::O_CREAT * i32::from(create)) | (libc::O_TRUNC * i32::from(truncate))
            }
        };
        let custom = self.custom_flags & !libc::O_ACCMODE;
        Some(access | creation | custom)
    }

    /// Returns the permissions of a file that is created.
    pub(super) fn mode(&self) -> libc::mode_t {
        self.mode.unwrap_or(0o666)
    }
}

macro_rules! option {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(&mut self, $name: bool) -> &mut Self {
            self.std.$name($name);
            if let Some(flags) = &mut self.flags {
                flags.$name = $name;
            }
            self
        }
    };
}

impl OpenOptions {
    /// Creates options of which none is set.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// let mut options = OpenOptions::new();
    /// let file = options.read(true).open(dir.join("file")).await?;
    /// # drop(file);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn new() -> Self {
        Self {
            std: std::fs::OpenOptions::new(),
            flags: Some(OpenFlags::default()),
        }
    }

    option! {
        /// Sets whether the file can be read.
        ///
        /// # Examples
        ///
        #[doc = example!("use blitzen::fs::OpenOptions;", "use blitzen::io::AsyncReadExt;")]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// let mut file = OpenOptions::new().read(true).open(dir.join("file")).await?;
        /// assert_eq!(file.read_u8().await?, b'h');
        /// # std::fs::remove_dir_all(&dir) }
        /// ```
        read
    }

    option! {
        /// Sets whether the file can be written. Writes replace the bytes at
        /// the position.
        ///
        /// # Examples
        ///
        #[doc = example!("use blitzen::fs::OpenOptions;", "use blitzen::io::AsyncWriteExt;")]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// let mut file = OpenOptions::new().write(true).open(dir.join("file")).await?;
        /// file.write_all(b"J").await?;
        /// file.flush().await?;
        /// # assert_eq!(fs::read(dir.join("file")).await?, b"Jello");
        /// # std::fs::remove_dir_all(&dir) }
        /// ```
        write
    }

    option! {
        /// Sets whether everything is written to the end of the file.
        ///
        /// # Examples
        ///
        #[doc = example!("use blitzen::fs::OpenOptions;", "use blitzen::io::AsyncWriteExt;")]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// let mut file = OpenOptions::new().append(true).open(dir.join("file")).await?;
        /// file.write_all(b"!").await?;
        /// file.flush().await?;
        /// # assert_eq!(fs::read(dir.join("file")).await?, b"hello!");
        /// # std::fs::remove_dir_all(&dir) }
        /// ```
        append
    }

    option! {
        /// Sets whether the file is truncated to no bytes. Needs
        /// [`write`](Self::write).
        ///
        /// # Examples
        ///
        #[doc = example!("use blitzen::fs::OpenOptions;")]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// OpenOptions::new().write(true).truncate(true).open(dir.join("file")).await?;
        /// # assert_eq!(fs::read(dir.join("file")).await?, b"");
        /// # std::fs::remove_dir_all(&dir) }
        /// ```
        truncate
    }

    option! {
        /// Sets whether the file is created if it does not exist. Needs
        /// [`write`](Self::write) or [`append`](Self::append).
        ///
        /// # Examples
        ///
        #[doc = example!("use blitzen::fs::OpenOptions;")]
        /// OpenOptions::new().write(true).create(true).open(dir.join("new")).await?;
        /// # assert!(fs::try_exists(dir.join("new")).await?);
        /// # std::fs::remove_dir_all(&dir) }
        /// ```
        create
    }

    option! {
        /// Sets whether the file is created, and must not exist before.
        /// [`create`](Self::create) and [`truncate`](Self::truncate) then
        /// have no effect. Needs [`write`](Self::write) or
        /// [`append`](Self::append).
        ///
        /// # Examples
        ///
        #[doc = example!("use blitzen::fs::OpenOptions;")]
        /// let mut options = OpenOptions::new();
        /// options.write(true).create_new(true);
        /// assert!(options.open(dir.join("new")).await.is_ok());
        /// assert!(options.open(dir.join("new")).await.is_err());
        /// # std::fs::remove_dir_all(&dir) }
        /// ```
        create_new
    }

    /// Opens the file at `path` with these options.
    ///
    /// # Examples
    ///
    #[doc = example!("use std::io::ErrorKind;", "use blitzen::fs::OpenOptions;")]
    /// let mut options = OpenOptions::new();
    /// let error = options.read(true).open(dir.join("nothing")).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    ///
    /// # Cancel safety
    /// The file may or may not have been created or truncated if the future
    /// is dropped. It does not stay open.
    ///
    /// # Errors
    /// Returns the error of `open(2)`, such as
    /// [`NotFound`](io::ErrorKind::NotFound),
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists),
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) or
    /// [`IsADirectory`](io::ErrorKind::IsADirectory);
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the options
    /// contradict each other; or an error if the runtime has been shut down.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let open = OpenCall {
            options: self.clone(),
            path: path.as_ref().to_owned(),
        };
        op::run(open).await.map(File::from_std)
    }
}

/// Opening a file. Never on a ring: opening a named pipe waits for the other end,
/// perhaps for ever, and the kernel has few threads for a ring.
struct OpenCall {
    options: OpenOptions,
    path: PathBuf,
}

impl FileOp<io::Result<StdFile>> for OpenCall {
    /// Way 2 before way 1: on a local file system that takes two system calls
    /// less.
    fn nowait(self) -> Result<io::Result<StdFile>, Self> {
        match &self.options.flags {
            Some(flags) => sys::open_here(&self.path, flags).ok_or(self),
            None => Err(self),
        }
    }

    fn block(self) -> io::Result<StdFile> {
        self.options.std.open(self.path)
    }

    fn refuse(self, error: io::Error) -> io::Result<StdFile> {
        Err(error)
    }
}

#[cfg(unix)]
impl OpenOptions {
    /// Sets the permissions of a file that is created, from which the umask
    /// of the process is taken. The default is 0o666.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// let mut options = OpenOptions::new();
    /// options.mode(0o600).write(true).create(true).open(dir.join("secret")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.std.mode(mode);
        if let Some(flags) = &mut self.flags {
            flags.mode = Some(mode);
        }
        self
    }

    /// Sets more flags for `open(2)`. They cannot change how the file is
    /// accessed.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// const O_NOFOLLOW: i32 = 0o400000; // on Linux
    /// let mut options = OpenOptions::new();
    /// # #[cfg(target_os = "linux")]
    /// options.read(true).custom_flags(O_NOFOLLOW).open(dir.join("file")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn custom_flags(&mut self, custom_flags: i32) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.std.custom_flags(custom_flags);
        if let Some(flags) = &mut self.flags {
            flags.custom_flags = custom_flags;
        }
        self
    }
}

#[cfg(windows)]
macro_rules! windows_options {
    ($($(#[$doc:meta])* $name:ident)*) => {
        impl OpenOptions {$(
            $(#[$doc])*
            pub fn $name(&mut self, value: u32) -> &mut Self {
                use std::os::windows::fs::OpenOptionsExt;
                self.std.$name(value);
                if let Some(flags) = &mut self.flags {
                    flags.more = true;
                }
                self
            }
        )*}
    };
}

#[cfg(windows)]
windows_options! {
    /// Sets the access rights for `CreateFileW`, instead of those that `read`
    /// and `write` imply.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// const GENERIC_READ: u32 = 0x8000_0000;
    /// let mut options = OpenOptions::new();
    /// options.read(true).access_mode(GENERIC_READ).open(dir.join("file")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    access_mode
    /// Sets what others may do with the file while it is open.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// const FILE_SHARE_READ: u32 = 0x0000_0001;
    /// let mut options = OpenOptions::new();
    /// options.read(true).share_mode(FILE_SHARE_READ).open(dir.join("file")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    share_mode
    /// Sets more flags for `CreateFileW`.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// const FILE_FLAG_SEQUENTIAL_SCAN: u32 = 0x0800_0000;
    /// let mut options = OpenOptions::new();
    /// options.read(true).custom_flags(FILE_FLAG_SEQUENTIAL_SCAN).open(dir.join("file")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    custom_flags
    /// Sets the attributes of a file that is created.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// const FILE_ATTRIBUTE_HIDDEN: u32 = 0x0000_0002;
    /// let mut options = OpenOptions::new();
    /// options.read(true).attributes(FILE_ATTRIBUTE_HIDDEN).open(dir.join("file")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    attributes
    /// Sets how far the server of a named pipe may act for this process.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::OpenOptions;")]
    /// # fs::write(dir.join("file"), b"hello").await?;
    /// const SECURITY_ANONYMOUS: u32 = 0x0000_0000;
    /// let mut options = OpenOptions::new();
    /// options.read(true).security_qos_flags(SECURITY_ANONYMOUS).open(dir.join("file")).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    security_qos_flags
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(std: std::fs::OpenOptions) -> Self {
        Self { std, flags: None }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, blitzen_ring, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// The flags with which std opens a file, read back from one it has opened.
    #[test]
    fn options_mean_what_they_mean_to_std() {
        use std::os::fd::AsRawFd;
        let dir = std::env::temp_dir().join(format!("blitzen-flags-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let runtime = crate::runtime::Runtime::new().unwrap();
        for bits in 0..64_u32 {
            let mut options = OpenOptions::new();
            options.read(bits & 1 != 0).write(bits & 2 != 0);
            options.append(bits & 4 != 0).truncate(bits & 8 != 0);
            options.create(bits & 16 != 0).create_new(bits & 32 != 0);
            for exists in [false, true] {
                let (ours, theirs) = (dir.join("ours"), dir.join("theirs"));
                for path in [&ours, &theirs] {
                    let _ = std::fs::remove_file(path);
                    if exists {
                        std::fs::write(path, b"before").unwrap();
                    }
                }
                let by_std = options.std.open(&theirs);
                let by_us = runtime.block_on(options.open(&ours));
                let by_us_on_worker = runtime.block_on(async {
                    let (options, ours) = (options.clone(), ours.clone());
                    let reopen = exists && bits & 32 == 0;
                    let task = crate::spawn(async move { options.open(ours).await });
                    reopen.then_some(task.await.unwrap())
                });
                let flags = |fd: &dyn AsRawFd| {
                    // SAFETY: asks for a number.
                    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) }
                };
                match (by_std, by_us) {
                    (Ok(std), Ok(us)) => assert_eq!(flags(&std), flags(&us), "{options:?}"),
                    (Err(std), Err(us)) => assert_eq!(std.kind(), us.kind(), "{options:?}"),
                    (std, us) => panic!("{options:?}: {std:?}, {us:?}"),
                }
                if let Some(by_us) = by_us_on_worker {
                    let std = options.std.open(&theirs);
                    assert_eq!(std.is_ok(), by_us.is_ok(), "{options:?}");
                }
                let content = |path| std::fs::read(path).ok();
                assert_eq!(content(&ours), content(&theirs), "{options:?}");
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
