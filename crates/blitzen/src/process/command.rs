//! What to start, and how.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::path::Path;
use std::process::{Command as StdCommand, ExitStatus, Output, Stdio};

use super::child::Child;

/// What to start, and how: [`std::process::Command`], whose children are
/// awaited.
///
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

/// A method that hands on to std's.
macro_rules! hand_on {
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
    /// Starts `program`, which is looked up in `PATH` unless it is a path, with
    /// the environment, folder and standard streams of this process.
    ///
    /// ```
    /// let command = blitzen::process::Command::new("true");
    /// # drop(command);
    /// ```
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Self::from(StdCommand::new(program))
    }

    /// The command as std has it.
    ///
    /// ```
    /// let command = blitzen::process::Command::new("true");
    /// assert_eq!(command.as_std().get_program(), "true");
    /// ```
    pub fn as_std(&self) -> &StdCommand {
        &self.std
    }

    /// The command as std has it, to be changed.
    ///
    /// ```
    /// let mut command = blitzen::process::Command::new("ls");
    /// command.as_std_mut().arg("-l");
    /// assert_eq!(command.as_std().get_args().count(), 1);
    /// ```
    pub fn as_std_mut(&mut self) -> &mut StdCommand {
        &mut self.std
    }

    /// The command as std has it. Whether to kill on drop is forgotten.
    ///
    /// ```
    /// let command: std::process::Command = blitzen::process::Command::new("true").into_std();
    /// # drop(command);
    /// ```
    pub fn into_std(self) -> StdCommand {
        self.std
    }

    hand_on! {
        /// Adds an argument.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.arg("-l").arg("/");
        /// ```
        arg[S: AsRef<OsStr>](arg: S)
    }

    hand_on! {
        /// Adds arguments.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.args(["-l", "/"]);
        /// ```
        args[I, S](args: I) where [I: IntoIterator<Item = S>, S: AsRef<OsStr>]
    }

    hand_on! {
        /// Sets a variable of the child's environment.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.env("LANG", "C");
        /// ```
        env[K, V](key: K, val: V) where [K: AsRef<OsStr>, V: AsRef<OsStr>]
    }

    hand_on! {
        /// Sets variables of the child's environment.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.envs([("LANG", "C"), ("TZ", "UTC")]);
        /// ```
        envs[I, K, V](vars: I)
            where [I: IntoIterator<Item = (K, V)>, K: AsRef<OsStr>, V: AsRef<OsStr>]
    }

    hand_on! {
        /// Takes a variable from the child's environment.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.env_remove("HOME");
        /// ```
        env_remove[K: AsRef<OsStr>](key: K)
    }

    hand_on! {
        /// Takes every variable from the child's environment.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("env");
        /// command.env_clear();
        /// ```
        env_clear()
    }

    hand_on! {
        /// Starts the child in another folder. Whether a relative path of the
        /// program is looked up there depends on the system.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.current_dir("/");
        /// ```
        current_dir[P: AsRef<Path>](dir: P)
    }

    hand_on! {
        /// What the child's standard input is: inherited unless said otherwise,
        /// or a pipe, or nothing.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("cat");
        /// command.stdin(std::process::Stdio::piped());
        /// ```
        stdin[T: Into<Stdio>](cfg: T)
    }

    hand_on! {
        /// What the child's standard output is: inherited unless said otherwise,
        /// except by [`output`](Self::output).
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.stdout(std::process::Stdio::piped());
        /// ```
        stdout[T: Into<Stdio>](cfg: T)
    }

    hand_on! {
        /// What the child's standard error is: inherited unless said otherwise,
        /// except by [`output`](Self::output).
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("ls");
        /// command.stderr(std::process::Stdio::null());
        /// ```
        stderr[T: Into<Stdio>](cfg: T)
    }

    /// Whether a child is killed when its [`Child`] is dropped, or the future of
    /// [`status`](Self::status) or [`output`](Self::output). It is not, unless
    /// this says so.
    ///
    /// ```
    /// let mut command = blitzen::process::Command::new("sleep");
    /// command.arg("1000").kill_on_drop(true);
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Command {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// What [`kill_on_drop`](Self::kill_on_drop) was told last.
    ///
    /// ```
    /// let command = blitzen::process::Command::new("true");
    /// assert!(!command.get_kill_on_drop());
    /// ```
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Starts a child. The calling thread is held up until the program has
    /// begun, or is known not to.
    ///
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
    /// [`NotFound`](io::ErrorKind::NotFound) if there is no such program,
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if it may not be
    /// run, and whatever else the system says; and if the runtime has been shut
    /// down.
    ///
    /// # Panics
    /// Outside a runtime, and with pipes in one without I/O.
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        Child::spawn(&mut self.std, self.kill_on_drop)
    }

    /// Starts a child, and waits for its end. Ends of pipes are closed at once.
    ///
    /// The child starts now, not when the future is polled.
    ///
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
    /// # Errors
    /// Those of [`spawn`](Self::spawn) and [`Child::wait`].
    ///
    /// # Panics
    /// Outside a runtime, and with pipes in one without I/O.
    ///
    /// # Cancel safety
    /// Dropping the future drops the [`Child`].
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let child = self.spawn();
        async {
            let mut child = child?;
            drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Starts a child, waits for its end, and collects what it writes, whatever
    /// was said about its standard output and error before.
    ///
    /// The child starts now, not when the future is polled.
    ///
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
    /// # Errors
    /// Those of [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    ///
    /// # Panics
    /// Outside a runtime, and in one without I/O.
    ///
    /// # Cancel safety
    /// Dropping the future drops the [`Child`] and what it has written.
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.std.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn();
        async { child?.wait_with_output().await }
    }
}

#[cfg(unix)]
impl Command {
    hand_on! {
        /// Sets the child's user.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("id");
        /// command.uid(65534);
        /// ```
        uid(id: u32)
    }

    hand_on! {
        /// Sets the child's group of users.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("id");
        /// command.gid(65534);
        /// ```
        gid(id: u32)
    }

    hand_on! {
        /// Sets what the program finds as its own name.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("sh");
        /// command.arg0("-sh");
        /// ```
        arg0[S](arg: S) where [S: AsRef<OsStr>]
    }

    hand_on! {
        /// Sets the child's process group; with 0 it leads one of its own, and
        /// ctrl-c does not reach it.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("sleep");
        /// command.arg("1").process_group(0);
        /// ```
        process_group(pgroup: i32)
    }

    /// Runs code in the child, between its birth and the start of the program.
    ///
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
    /// As for std's [`pre_exec`](std::os::unix::process::CommandExt::pre_exec):
    /// the child is a copy with one thread, so that the code may do no more than
    /// a signal handler may.
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's word.
        unsafe { self.std.pre_exec(f) };
        self
    }
}

#[cfg(windows)]
impl Command {
    hand_on! {
        /// Sets the flags of `CreateProcess`.
        ///
        /// ```
        /// let mut command = blitzen::process::Command::new("cmd");
        /// command.creation_flags(0x0800_0000); // no window
        /// ```
        creation_flags(flags: u32)
    }

    hand_on! {
        /// Adds to the command line as it is, without quotes.
        ///
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
