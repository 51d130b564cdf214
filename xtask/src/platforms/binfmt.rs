//! A namespace in which the kernel runs programs for other processors by qemu.
//!
//! qemu-user starts a child of its program by `execve`, so a test that runs its own executable
//! again needs the kernel to know what runs it. It is told in a user and mount namespace (Linux
//! 6.7), so that the rest of the machine does not change. A process that waits keeps the namespace,
//! and ends with xtask: its standard input is closed then.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::sh::{self, Context, Outcome};
use crate::toolchain;

/// All users and groups are what they are outside, so that tests can be run as nobody.
const ID_MAP: &str = "0 0 4294967295";

/// What runs which executables, by the beginning of the file: its class, its type (bar one bit, so
/// that shared objects are included) and its machine. With `F` the interpreter is opened now.
const REGISTRATIONS: [&str; 2] = [
    concat!(
        r":qemu-aarch64:M::",
        r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:",
        r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:",
        r"/usr/bin/qemu-aarch64:F",
    ),
    concat!(
        r":qemu-arm:M::",
        r"\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x28\x00:",
        r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:",
        r"/usr/bin/qemu-arm:F",
    ),
];

pub(super) struct Namespace {
    holder: Child,
}

impl Namespace {
    pub(super) fn new() -> Outcome<Self> {
        if !toolchain::is_root() {
            return Err("needs root, to make a namespace with all users".into());
        }
        let mut holder = Command::new("unshare");
        holder
            .args(["--user", "--mount", "sh", "-c", "echo; exec cat >&2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let holder = holder.spawn().context("unshare")?;
        let mut namespace = Self { holder };
        let mut out = namespace.holder.stdout.take().expect("piped above");
        out.read_exact(&mut [0]).context("unshare")?; // what `echo` writes: it has unshared
        for map in ["uid_map", "gid_map"] {
            let path = format!("/proc/{}/{map}", namespace.holder.id());
            fs::write(&path, ID_MAP).context(&path)?;
        }
        let tell = "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && \
            for one; do printf %s \"$one\" > /proc/sys/fs/binfmt_misc/register || exit; done";
        let mut words = namespace.entry(Path::new("/"));
        words.extend(["sh", "-c", tell, "sh"].map(str::to_owned));
        words.extend(REGISTRATIONS.map(str::to_owned));
        sh::read(Command::new(&words[0]).args(&words[1..]))?;
        Ok(namespace)
    }

    /// The words before a command that run it in the namespace, in the folder `dir`.
    pub(super) fn entry(&self, dir: &Path) -> Vec<String> {
        vec![
            "nsenter".to_owned(),
            format!("--target={}", self.holder.id()),
            "--user".to_owned(),
            "--mount".to_owned(),
            format!("--wdns={}", dir.display()),
            "--".to_owned(),
        ]
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to wait for.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
