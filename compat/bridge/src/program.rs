//! The socket of a program: requests and answers.

use std::io::{self, ErrorKind};
use std::path::Path;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::answers::Greeting;

/// The version of the protocol that is understood.
const VERSION: u32 = 1;

/// The longest greeting, head of an answer, and answer that are read.
const MAX_GREETING: u64 = 4096;
const MAX_HEAD: u64 = 64;
const MAX_ANSWER: u64 = 1 << 30;

/// A connection to a program.
pub(crate) struct Program {
    stream: BufReader<UnixStream>,
    greeting: Greeting,
}

impl Program {
    /// # Errors
    /// Those of `connect(2)`; `PermissionDenied` if the program does not answer this user;
    /// `InvalidData` if it is none with a console.
    pub(crate) async fn connect(socket: &Path) -> io::Result<Self> {
        let describe = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", socket.display()))
        };
        let stream = UnixStream::connect(socket).await.map_err(describe)?;
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        let mut limited = (&mut stream).take(MAX_GREETING);
        limited
            .read_until(b'\n', &mut line)
            .await
            .map_err(describe)?;
        if line.is_empty() {
            let why = "the program has closed the connection: only its owner may look";
            return Err(describe(io::Error::new(ErrorKind::PermissionDenied, why)));
        }
        let greeting = serde_json::from_slice::<Greeting>(&line).ok();
        let greeting = greeting.filter(|greeting| {
            greeting.protocol == "blitzen-console" && greeting.version == VERSION
        });
        match greeting {
            Some(greeting) => Ok(Self { stream, greeting }),
            None => Err(describe(not_understood("no console of this version"))),
        }
    }

    /// The name of the program and its runtime.
    pub(crate) fn title(&self) -> String {
        let Greeting { program, pid, .. } = &self.greeting;
        match &self.greeting.runtime {
            Some(runtime) => format!("{program} ({pid}), runtime {runtime},"),
            None => format!("{program} ({pid})"),
        }
    }

    /// Sends a request; returns the bytes of the answer.
    ///
    /// # Errors
    /// `UnexpectedEof` if the runtime has ended, `InvalidData` if the answer has no known form,
    /// and what the program answers instead.
    pub(crate) async fn ask(&mut self, request: &str) -> io::Result<Vec<u8>> {
        let ended = |_| io::Error::new(ErrorKind::UnexpectedEof, "the program has ended");
        let request = format!("{request}\n");
        let sent = self.stream.write_all(request.as_bytes()).await;
        sent.map_err(ended)?;
        let mut head = Vec::new();
        let mut limited = (&mut self.stream).take(MAX_HEAD);
        let read = limited.read_until(b'\n', &mut head).await;
        read.map_err(ended)?;
        if head.is_empty() {
            return Err(ended(ErrorKind::UnexpectedEof.into()));
        }
        let head = std::str::from_utf8(&head).ok();
        let words = head.and_then(|head| head.strip_suffix('\n')?.split_once(' '));
        let answer = words.and_then(|(word, len)| Some((word, len.parse::<u64>().ok()?)));
        let Some((word @ ("ok" | "error"), len @ ..=MAX_ANSWER)) = answer else {
            return Err(not_understood("an answer of unknown form"));
        };
        let is_error = word == "error";
        let mut bytes = Vec::new();
        let mut limited = (&mut self.stream).take(len);
        let read = limited.read_to_end(&mut bytes).await.map_err(ended)?;
        if (read as u64) < len {
            return Err(ended(ErrorKind::UnexpectedEof.into()));
        }
        match is_error {
            false => Ok(bytes),
            true => Err(io::Error::other(
                String::from_utf8_lossy(&bytes).into_owned(),
            )),
        }
    }

    /// [`ask`](Self::ask) for something that is answered in JSON.
    pub(crate) async fn ask_json<T: DeserializeOwned>(&mut self, request: &str) -> io::Result<T> {
        let answer = self.ask(request).await?;
        let value = serde_json::from_slice(&answer);
        value.map_err(|error| not_understood(&format!("the answer to {request:?}: {error}")))
    }
}

fn not_understood(what: &str) -> io::Error {
    let text = format!("the program is not understood: {what}");
    io::Error::new(ErrorKind::InvalidData, text)
}
