//! How a file is opened.

use std::fs::File as StdFile;
use std::io;
use std::path::{Path, PathBuf};

use super::op::{self, FileOp};
use super::{File, doc, sys};

/// Options and flags with which a file is opened.
///
#[doc = "```"]
#[doc = doc::begin!()]
/// let mut log = OpenOptions::new()
///     .append(true)
///     .create(true)
///     .open(dir.join("log"))
///     .await?;
/// log.write_all(b"hello\n").await?;
/// log.flush().await?;
#[doc = doc::end!()]
#[doc = "```"]
#[derive(Clone, Debug)]
pub struct OpenOptions {
    std: std::fs::OpenOptions,
    /// The same, as far as it is known: std keeps its own to itself.
    flags: Option<Flags>,
}

/// What std's options hold.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) struct Flags {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    #[cfg(unix)]
    custom_flags: i32,
    /// Of a file that is made, if not as usual.
    #[cfg(unix)]
    mode: Option<u32>,
    /// Something was said that is not kept here.
    #[cfg(windows)]
    more: bool,
}

#[cfg(target_os = "linux")]
impl Flags {
    /// For `open(2)`; `None` if they make no sense together, which std says
    /// best.
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

    /// The permissions of a file that is made.
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
    /// Nothing is set yet.
    ///
    /// ```
    /// use blitzen::fs::OpenOptions;
    ///
    /// let mut options = OpenOptions::new();
    /// options.read(true);
    /// ```
    pub fn new() -> Self {
        Self {
            std: std::fs::OpenOptions::new(),
            flags: Some(Flags::default()),
        }
    }

    option! {
        /// The file can be read.
        ///
        #[doc = "```"]
        #[doc = doc::begin!()]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// let file = OpenOptions::new().read(true).open(dir.join("file")).await?;
        /// # drop(file);
        #[doc = doc::end!()]
        #[doc = "```"]
        read
    }

    option! {
        /// The file can be written; what is there is overwritten.
        ///
        #[doc = "```"]
        #[doc = doc::begin!()]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// let mut file = OpenOptions::new().write(true).open(dir.join("file")).await?;
        /// file.write_all(b"J").await?;
        /// file.flush().await?;
        /// assert_eq!(fs::read(dir.join("file")).await?, b"Jello");
        #[doc = doc::end!()]
        #[doc = "```"]
        write
    }

    option! {
        /// Everything is written to the end of the file.
        ///
        #[doc = "```"]
        #[doc = doc::begin!()]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// let mut file = OpenOptions::new().append(true).open(dir.join("file")).await?;
        /// file.write_all(b"!").await?;
        /// file.flush().await?;
        /// assert_eq!(fs::read(dir.join("file")).await?, b"hello!");
        #[doc = doc::end!()]
        #[doc = "```"]
        append
    }

    option! {
        /// What is in the file is dropped; it has to be written for that.
        ///
        #[doc = "```"]
        #[doc = doc::begin!()]
        /// # fs::write(dir.join("file"), b"hello").await?;
        /// OpenOptions::new().write(true).truncate(true).open(dir.join("file")).await?;
        /// assert_eq!(fs::read(dir.join("file")).await?, b"");
        #[doc = doc::end!()]
        #[doc = "```"]
        truncate
    }

    option! {
        /// The file is made if there is none; it has to be written for that.
        ///
        #[doc = "```"]
        #[doc = doc::begin!()]
        /// OpenOptions::new().write(true).create(true).open(dir.join("new")).await?;
        /// assert!(fs::try_exists(dir.join("new")).await?);
        #[doc = doc::end!()]
        #[doc = "```"]
        create
    }

    option! {
        /// The file is made, and must not be there before; it has to be written
        /// for that. `create` and `truncate` then say nothing.
        ///
        #[doc = "```"]
        #[doc = doc::begin!()]
        /// let mut options = OpenOptions::new();
        /// options.write(true).create_new(true);
        /// assert!(options.open(dir.join("new")).await.is_ok());
        /// assert!(options.open(dir.join("new")).await.is_err());
        #[doc = doc::end!()]
        #[doc = "```"]
        create_new
    }

    /// Opens a file.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let error = OpenOptions::new().read(true).open(dir.join("nothing")).await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    #[doc = doc::end!()]
    #[doc = "```"]
    ///
    /// # Errors
    /// Those of std's `open`: there is no such file, it may not be opened so,
    /// or the options make no sense together.
    ///
    /// # Cancel safety
    /// Whether a file has been made or cut is not known if the future is
    /// dropped. It does not stay open.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let open = Open {
            options: self.clone(),
            path: path.as_ref().to_owned(),
        };
        op::run(open).await.map(File::from_std)
    }
}

/// Opening a file. Never on a ring: opening a named pipe waits for the other end,
/// perhaps for ever, and the kernel has few threads for a ring.
struct Open {
    options: OpenOptions,
    path: PathBuf,
}

impl FileOp<io::Result<StdFile>> for Open {
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
    /// The permissions of a file that is made, less what the process masks;
    /// 0o666 if not given.
    ///
    #[doc = "```"]
    #[doc = doc::begin!()]
    /// let mut options = OpenOptions::new();
    /// options.mode(0o600).write(true).create(true).open(dir.join("secret")).await?;
    #[doc = doc::end!()]
    #[doc = "```"]
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.std.mode(mode);
        if let Some(flags) = &mut self.flags {
            flags.mode = Some(mode);
        }
        self
    }

    /// More flags for `open(2)`. They cannot change how the file is accessed.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")]
    /// blitzen::fs::OpenOptions::new().read(true).custom_flags(0o400000); // O_NOFOLLOW
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
    /// The access asked for, instead of what `read` and `write` say.
    access_mode
    /// What others may do with the file meanwhile.
    share_mode
    /// More flags for `CreateFile`.
    custom_flags
    /// The attributes of a file that is made.
    attributes
    /// How far a pipe's server may act for us.
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

#[cfg(all(test, target_os = "linux", not(blitzen_loom)))]
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
