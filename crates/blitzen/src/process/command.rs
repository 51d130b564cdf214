//! How to spawn a child.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::path::Path;
use std::process::{Child as StdChild, Command as StdCommand, ExitStatus, Output, Stdio};

use super::child::Child;

/// A builder of child processes, like [`std::process::Command`], whose children are
/// awaited.
///
/// # Examples
/// ```
/// # #[cfg(unix)]
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use blitzen::process::Command;
///
/// let status = Command::new("sh").args(["-c", "exit 3"]).status().await?;
/// assert_eq!(status.code(), Some(3));
/// # Ok(())
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct Command {
    std: StdCommand,
    kill_on_drop: bool,
}

/// A method that forwards to std's.
macro_rules! forward {
    ($(#[$attr:meta])* $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*) $(where [$($bounds:tt)*])?) => {
        $(#[$attr])*
        pub fn $name $(<$($generics)*>)? (&mut self, $($arg: $type),*) -> &mut Command
        $(where $($bounds)*)?
        {
            self.std.$name($($arg),*);
            self
        }
    };
}

impl Command {
    /// Creates a command that runs `program`, without arguments and with the
    /// environment, the working directory and the standard streams of this process.
    /// `program` is searched in `PATH` unless it contains a path separator.
    ///
    /// # Examples
    /// ```
    /// let command = blitzen::process::Command::new("true");
    /// # drop(command);
    /// ```
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Self::from(StdCommand::new(program))
    }

    /// Returns a reference to the standard library's command.
    ///
    /// # Examples
    /// ```
    /// let command = blitzen::process::Command::new("true");
    /// assert_eq!(command.as_std().get_program(), "true");
    /// ```
    pub fn as_std(&self) -> &StdCommand {
        &self.std
    }

    /// Returns a mutable reference to the standard library's command.
    ///
    /// # Examples
    /// ```
    /// let mut command = blitzen::process::Command::new("ls");
    /// command.as_std_mut().arg("-l");
    /// assert_eq!(command.as_std().get_args().count(), 1);
    /// ```
    pub fn as_std_mut(&mut self) -> &mut StdCommand {
        &mut self.std
    }

    /// Converts `self` into the standard library's command. The setting of
    /// [`kill_on_drop`](Self::kill_on_drop) is lost.
    ///
    /// # Examples
    /// ```
    /// let command: std::process::Command = blitzen::process::Command::new("true").into_std();
    /// # drop(command);
    /// ```
    pub fn into_std(self) -> StdCommand {
        self.std
    }

    forward! {
        /// Adds the argument `arg`.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.arg("-l").arg("/");
        /// ```
        arg[S: AsRef<OsStr>](arg: S)
    }

    forward! {
        /// Adds the arguments `args`.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.args(["-l", "/"]);
        /// ```
        args[I, S](args: I) where [I: IntoIterator<Item = S>, S: AsRef<OsStr>]
    }

    forward! {
        /// Sets the variable `key` of the child's environment to `val`.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.env("LANG", "C");
        /// ```
        env[K, V](key: K, val: V) where [K: AsRef<OsStr>, V: AsRef<OsStr>]
    }

    forward! {
        /// Sets the variables `vars` of the child's environment.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.envs([("LANG", "C"), ("TZ", "UTC")]);
        /// ```
        envs[I, K, V](vars: I)
            where [I: IntoIterator<Item = (K, V)>, K: AsRef<OsStr>, V: AsRef<OsStr>]
    }

    forward! {
        /// Removes the variable `key` from the child's environment.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.env_remove("HOME");
        /// ```
        env_remove[K: AsRef<OsStr>](key: K)
    }

    forward! {
        /// Removes every variable from the child's environment, also inherited ones.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.env_clear();
        /// ```
        env_clear()
    }

    forward! {
        /// Sets the child's working directory to `dir`. Whether a relative path of the
        /// program is resolved against `dir` depends on the system.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.current_dir("/");
        /// ```
        current_dir[P: AsRef<Path>](dir: P)
    }

    forward! {
        /// Sets the child's standard input. By default it is inherited.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("cat");
        /// command.stdin(std::process::Stdio::piped());
        /// ```
        stdin[T: Into<Stdio>](cfg: T)
    }

    forward! {
        /// Sets the child's standard output. By default it is inherited, and a pipe
        /// with [`output`](Self::output).
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.stdout(std::process::Stdio::piped());
        /// ```
        stdout[T: Into<Stdio>](cfg: T)
    }

    forward! {
        /// Sets the child's standard error. By default it is inherited, and a pipe with
        /// [`output`](Self::output).
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.stderr(std::process::Stdio::null());
        /// ```
        stderr[T: Into<Stdio>](cfg: T)
    }

    /// Sets whether the child is killed when its [`Child`] is dropped, or the future of
    /// [`status`](Self::status) or [`output`](Self::output). By default it is not.
    ///
    /// # Examples
    /// ```
    /// let mut command = blitzen::process::Command::new("sleep");
    /// command.arg("1000").kill_on_drop(true);
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Command {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// Returns the setting of [`kill_on_drop`](Self::kill_on_drop).
    ///
    /// # Examples
    /// ```
    /// let command = blitzen::process::Command::new("true");
    /// assert!(!command.get_kill_on_drop());
    /// ```
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Spawns the child. The calling thread blocks until the program has started, or
    /// has failed to.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut child = blitzen::process::Command::new("true").spawn()?;
    /// assert!(child.wait().await?.success());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// Returns the error of `fork(2)` or `execve(2)` (`CreateProcess` on Windows), such
    /// as [`NotFound`](io::ErrorKind::NotFound) if there is no such program,
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if it may not be run and
    /// `WouldBlock` if there are too many processes; and an error of kind `Other` if a
    /// stream is a pipe and the runtime has been shut down.
    ///
    /// # Panics
    /// Panics outside a runtime, and if a stream is a pipe in a runtime without
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(StdCommand::spawn)
    }

    /// Spawns the child by calling `with` instead of std's `Command::spawn`.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use blitzen::process::Command;
    ///
    /// let mut child = Command::new("true").spawn_with(|command| command.spawn())?;
    /// assert!(child.wait().await?.success());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// Returns the error of `with`, or of registering the pipes of the child.
    ///
    /// # Panics
    /// Panics outside a runtime with I/O, as [`spawn`](Self::spawn) does.
    #[track_caller]
    pub fn spawn_with(
        &mut self,
        with: impl FnOnce(&mut StdCommand) -> io::Result<StdChild>,
    ) -> io::Result<Child> {
        Child::spawn(&mut self.std, self.kill_on_drop, with)
    }

    /// Spawns the child, and waits for its exit. Its pipes, if any, are closed at once.
    ///
    /// The child is spawned by this call, not when the future is polled.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let status = blitzen::process::Command::new("false").status().await?;
    /// assert_eq!(status.code(), Some(1));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future drops the [`Child`].
    ///
    /// # Errors
    /// Returns those of [`spawn`](Self::spawn) and [`Child::wait`].
    ///
    /// # Panics
    /// Panics outside a runtime, and if a stream is a pipe in a runtime without
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let child = self.spawn();
        async {
            let mut child = child?;
            drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Spawns the child, waits for its exit, and returns what it wrote to its standard
    /// output and error, which become pipes, whatever was set before.
    ///
    /// The child is spawned by this call, not when the future is polled.
    ///
    /// # Examples
    /// ```
    /// # #[cfg(unix)]
    /// # #[blitzen::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let output = blitzen::process::Command::new("echo").arg("hello").output().await?;
    /// assert_eq!(output.stdout, b"hello\n");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future drops the [`Child`] and what it has written.
    ///
    /// # Errors
    /// Returns those of [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    ///
    /// # Panics
    /// Panics outside a runtime, and in a runtime without
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.std.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn();
        async { child?.wait_with_output().await }
    }
}

#[cfg(unix)]
impl Command {
    forward! {
        /// Sets the child's user id; see `setuid(2)`.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("id");
        /// command.uid(65534);
        /// ```
        uid(id: u32)
    }

    forward! {
        /// Sets the child's group id; see `setgid(2)`.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("id");
        /// command.gid(65534);
        /// ```
        gid(id: u32)
    }

    forward! {
        /// Sets the name that the program finds as its own, `argv[0]`.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("sh");
        /// command.arg0("-sh");
        /// ```
        arg0[S](arg: S) where [S: AsRef<OsStr>]
    }

    forward! {
        /// Sets the child's process group; see `setpgid(2)`. With 0 it leads a group of
        /// its own, and ctrl-c does not reach it.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("sleep");
        /// command.arg("1").process_group(0);
        /// ```
        process_group(pgroup: i32)
    }

    /// Runs `f` in the child process, after `fork(2)` and before `execve(2)`.
    ///
    /// # Examples
    /// ```
    /// let mut command = blitzen::process::Command::new("true");
    /// // SAFETY: one system call that may be made there.
    /// unsafe {
    ///     command.pre_exec(|| match libc::setsid() {
    ///         -1 => Err(std::io::Error::last_os_error()),
    ///         _ => Ok(()),
    ///     });
    /// }
    /// ```
    ///
    /// # Safety
    /// As for std's [`pre_exec`](std::os::unix::process::CommandExt::pre_exec): the child
    /// is a copy of this process with one thread, so `f` may only call what a signal
    /// handler may call.
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller guarantees it.
        unsafe { self.std.pre_exec(f) };
        self
    }
}

#[cfg(windows)]
impl Command {
    forward! {
        /// Sets the creation flags that `CreateProcess` gets.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("cmd");
        /// command.creation_flags(0x0800_0000); // no window
        /// ```
        creation_flags(flags: u32)
    }

    forward! {
        /// Adds `text_to_append_as_is` to the command line, without quotes.
        ///
        /// # Examples
        /// ```
        /// let mut command = blitzen::process::Command::new("cmd");
        /// command.raw_arg("/c echo hello");
        /// ```
        raw_arg[S: AsRef<OsStr>](text_to_append_as_is: S)
    }
}

#[cfg(unix)]
use std::os::unix::process::CommandExt;
#[cfg(windows)]
use std::os::windows::process::CommandExt;

impl From<StdCommand> for Command {
    fn from(std: StdCommand) -> Command {
        Command {
            std,
            kill_on_drop: false,
        }
    }
}
