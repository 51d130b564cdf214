//! The socket of a program: requests and answers.

use std::io::{self, ErrorKind};
use std::path::Path;

use blitzen_console_protocol::{AnswerHead, Greeting, MAX_GREETING, MAX_HEAD};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

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
        match Greeting::parse(&line) {
            Ok(greeting) => Ok(Self { stream, greeting }),
            Err(why) => Err(describe(not_understood(&why))),
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
        let Some(AnswerHead { is_ok, len }) = AnswerHead::parse(&head) else {
            return Err(not_understood("an answer of unknown form"));
        };
        let mut bytes = Vec::new();
        let mut limited = (&mut self.stream).take(len);
        let read = limited.read_to_end(&mut bytes).await.map_err(ended)?;
        if (read as u64) < len {
            return Err(ended(ErrorKind::UnexpectedEof.into()));
        }
        match is_ok {
            true => Ok(bytes),
            false => Err(io::Error::other(
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
