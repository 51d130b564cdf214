//! The socket of a program: finding it, and asking it.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use blitzen_console_protocol::{AnswerHead, Greeting, MAX_GREETING, MAX_HEAD};
use serde::de::DeserializeOwned;

/// How long to wait for the greeting: longer than the longest dump, after which the program greets
/// the next client.
const GREETING_LIMIT: Duration = Duration::from_secs(15);

/// A connection to a program.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    pub(crate) greeting: Greeting,
}

impl Client {
    /// Connects to a program: the number of its process, or the path of its socket.
    pub(crate) fn connect(program: &str) -> io::Result<Self> {
        Self::connect_to(&find(program)?, GREETING_LIMIT)
    }

    /// Connects to the socket at `path`. Waits for the greeting for `limit`.
    ///
    /// # Errors
    /// Those of `connect(2)`; `TimedOut` if the program does not answer.
    pub(crate) fn connect_to(path: &Path, limit: Duration) -> io::Result<Self> {
        let describe =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let stream = UnixStream::connect(path).map_err(describe)?;
        stream.set_read_timeout(Some(limit))?;
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        let greeting = (&mut stream)
            .take(MAX_GREETING)
            .read_until(b'\n', &mut line);
        greeting.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                describe(io::Error::new(ErrorKind::TimedOut, "does not answer"))
            }
            _ => error,
        })?;
        stream.get_ref().set_read_timeout(None)?;
        if line.is_empty() {
            let why = "the program has closed the connection: only its owner may look";
            return Err(describe(io::Error::new(ErrorKind::PermissionDenied, why)));
        }
        match Greeting::parse(&line) {
            Ok(greeting) => Ok(Self { stream, greeting }),
            Err(why) => Err(describe(io::Error::new(ErrorKind::InvalidData, why))),
        }
    }

    /// Sends a request; returns the bytes of the answer.
    pub(crate) fn ask(&mut self, request: &str) -> io::Result<Vec<u8>> {
        let ended = || io::Error::new(ErrorKind::UnexpectedEof, "the runtime has ended");
        let request = format!("{request}\n");
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        sent.map_err(|_| ended())?;
        let mut line = Vec::new();
        (&mut self.stream)
            .take(MAX_HEAD)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(ended());
        }
        let Some(AnswerHead { is_ok, len }) = AnswerHead::parse(&line) else {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "an answer of unknown form",
            ));
        };
        let mut bytes = Vec::new();
        if (&mut self.stream).take(len).read_to_end(&mut bytes)? as u64 != len {
            return Err(ended());
        }
        match is_ok {
            true => Ok(bytes),
            false => Err(io::Error::other(
                String::from_utf8_lossy(&bytes).into_owned(),
            )),
        }
    }

    /// [`ask`](Self::ask) for something that is answered in JSON.
    pub(crate) fn ask_json<T: DeserializeOwned>(&mut self, request: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&self.ask(request)?)?)
    }
}

/// The path of the socket of a program: the number of its process, or that path.
pub(crate) fn find(program: &str) -> io::Result<PathBuf> {
    if program.contains('/') {
        return Ok(program.into());
    }
    let mut paths = folders(program)
        .into_iter()
        .map(|folder| folder.join(program));
    paths.find(|path| path.exists()).ok_or_else(|| {
        io::Error::new(
            ErrorKind::NotFound,
            format!(
                "{program:?} has no console; start it with BLITZEN_CONSOLE=1, or see `blitzen \
                 list`"
            ),
        )
    })
}

/// The sockets that can be found, of this user's programs.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let folders = folders("self").into_iter();
    let entries = folders.filter_map(|folder| fs::read_dir(folder).ok());
    let paths = entries
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    let is_socket = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
    };
    let mut sockets: Vec<_> = paths.filter(is_socket).collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

/// Where the sockets of a process may be: in the folders of the user that it belongs to.
fn folders(program: &str) -> Vec<PathBuf> {
    let pid = program.split('.').next().unwrap_or(program);
    let user = match fs::metadata(format!("/proc/{pid}")) {
        Ok(process) => process.uid(),
        // SAFETY: it has no arguments, and cannot fail.
        Err(_) => unsafe { libc::geteuid() },
    };
    let own =
        std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("blitzen"));
    let usual = [
        PathBuf::from(format!("/run/user/{user}/blitzen")),
        std::env::temp_dir().join(format!("blitzen-{user}")),
    ];
    own.into_iter().chain(usual).collect()
}
