//! The program's side of the console: answers questions about a runtime on a Unix socket.
//!
//! ```text
//!   socket.rs    where the socket is, and who may connect
//!   server.rs    the thread: clients, requests, answers
//!   answers.rs   what is answered
//! ```
//!
//! `docs/console-protocol.md` describes requests and answers.
//!
//! C1. No request holds up or ends a task. A dump polls tasks once more, and `set_trace` and
//!     `hold_trace` switch the recorder; all others only read.
//! C2. Only the owner of the process, and root, are answered.
//! C3. Neither a client that sends nonsense nor one that does not read what it has asked for
//!     holds up the thread: sockets do not block, and what one client can make it keep is bounded.
//!     Clients have their turns one request at a time.
//! C4. Nobody waits for the end of the thread. It keeps the runtime in memory only while it answers.
//! C5. What a client has recorded by `hold_trace` ends with its connection, however that ends.

mod answers;
mod server;
mod socket;

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::inner::Inner;
use super::lint::RecentLints;
use super::privilege::obeyed_variable;
use crate::signal::unix::WakePipe;
use server::Server;
use socket::ConsoleSocket;

/// Makes every runtime listen.
const VARIABLE: &str = "BLITZEN_CONSOLE";

/// What the builder was told about the console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConsoleOption {
    /// Nothing: the environment decides.
    #[default]
    Unset,
    /// To listen at the usual path.
    Usual,
    /// To listen at this path.
    At(PathBuf),
}

impl ConsoleOption {
    /// Whether somebody asks for a console.
    ///
    /// # Errors
    /// `InvalidInput` if the variable has an unknown value.
    pub(crate) fn is_wanted(&self) -> io::Result<bool> {
        Ok(*self != Self::Unset || is_in_environment()?)
    }
}

/// A socket, and how to end the thread that serves it.
pub(crate) struct Console {
    pipe: Arc<WakePipe>,
    socket: Mutex<Option<ConsoleSocket>>,
}

impl Console {
    /// Starts the thread, if somebody asks for it. If the environment does and the socket cannot
    /// be made, the program goes on without.
    ///
    /// # Errors
    /// Those of [`ConsoleOption::is_wanted`]. If the builder asks: those of `mkdir(2)`,
    /// `socket(2)` and `bind(2)`, and of starting a thread.
    pub(crate) fn start(
        option: &ConsoleOption,
        runtime: &Arc<Inner>,
        lints: &Arc<RecentLints>,
    ) -> io::Result<Option<Self>> {
        if !option.is_wanted()? {
            return Ok(None);
        }
        let bound = match option {
            ConsoleOption::At(path) => ConsoleSocket::bind_at(path),
            ConsoleOption::Usual | ConsoleOption::Unset => ConsoleSocket::bind_usual(),
        };
        match (
            bound.and_then(|socket| Self::serve(socket, runtime, lints)),
            option,
        ) {
            (Ok(console), _) => Ok(Some(console)),
            (Err(error), ConsoleOption::Unset) => {
                // There is nobody to tell that standard error is gone.
                let text = format!("blitzen: there is no console: {error}\n");
                let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
                Ok(None)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn serve(
        socket: ConsoleSocket,
        runtime: &Arc<Inner>,
        lints: &Arc<RecentLints>,
    ) -> io::Result<Self> {
        let pipe = Arc::new(WakePipe::new()?);
        let server = Server::new(socket.listener()?, pipe.clone(), runtime, lints.clone());
        let thread = thread::Builder::new().name("blitzen-console".into());
        drop(thread.spawn(move || server.run())?); // C4
        Ok(Self {
            pipe,
            socket: Mutex::new(Some(socket)),
        })
    }

    /// Removes the socket, and ends the thread when it has answered what it is answering.
    pub(crate) fn stop(&self) {
        let socket = self
            .socket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(socket);
        self.pipe.wake();
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_in_environment() -> io::Result<bool> {
    let value = obeyed_variable(VARIABLE);
    match value.as_deref().and_then(OsStr::to_str) {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{VARIABLE} must be \"1\" or \"0\", not {other:?}"),
        )),
    }
}
