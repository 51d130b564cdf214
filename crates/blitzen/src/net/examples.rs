//! How the examples begin.
//!
//! Each macro opens a code block with a hidden `main` and makes what the example
//! works on; the arguments are the patterns that its parts are bound to. The
//! doc comment goes on from there, and closes both:
//!
//! ```text
//! #[doc = udp_pair!("socket", "peer")]
//! /// peer.send(b"hello").await?;
//! /// # Ok(()) }
//! /// ```
//! ```

/// Two connected `TcpStream`s.
macro_rules! tcp_pair {
    ($socket:literal, $peer:literal) => {
        concat!(
            "```
# use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
use blitzen::net::{TcpListener, TcpStream};

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let listener = TcpListener::bind(\"127.0.0.1:0\").await?;
let ",
            $socket,
            " = TcpStream::connect(listener.local_addr()?).await?;
let (",
            $peer,
            ", _) = listener.accept().await?;"
        )
    };
}

/// A `TcpListener`.
macro_rules! tcp_listener {
    ($listener:literal) => {
        concat!(
            "```
use blitzen::net::{TcpListener, TcpStream};

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let ",
            $listener,
            " = TcpListener::bind(\"127.0.0.1:0\").await?;"
        )
    };
}

/// A `TcpSocket`, called `socket`, for IPv4.
macro_rules! tcp_socket {
    () => {
        "```
use blitzen::net::TcpSocket;

# fn main() -> std::io::Result<()> {
let socket = TcpSocket::new_v4()?;"
    };
}

/// A `TcpSocket`, called `socket`, for IPv6.
macro_rules! tcp_socket_v6 {
    () => {
        "```
use blitzen::net::TcpSocket;

# fn main() -> std::io::Result<()> {
let socket = TcpSocket::new_v6()?;"
    };
}

/// Two `UdpSocket`s that are connected to each other.
macro_rules! udp_pair {
    ($socket:literal, $peer:literal) => {
        concat!(
            "```
# use blitzen::io::{Interest, ReadBuf};
use blitzen::net::UdpSocket;

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let ",
            $socket,
            " = UdpSocket::bind(\"127.0.0.1:0\").await?;
let ",
            $peer,
            " = UdpSocket::bind(\"127.0.0.1:0\").await?;
",
            $socket,
            ".connect(",
            $peer,
            ".local_addr()?).await?;
",
            $peer,
            ".connect(",
            $socket,
            ".local_addr()?).await?;"
        )
    };
}

/// A `UdpSocket`, called `socket`, for IPv4.
macro_rules! udp_socket {
    () => {
        "```
use blitzen::net::UdpSocket;

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let socket = UdpSocket::bind(\"127.0.0.1:0\").await?;"
    };
}

/// A `UdpSocket`, called `socket`, for IPv6.
macro_rules! udp_socket_v6 {
    () => {
        "```
use blitzen::net::UdpSocket;

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let socket = UdpSocket::bind(\"[::1]:0\").await?;"
    };
}

/// Two connected `UnixStream`s.
#[cfg(unix)]
macro_rules! unix_pair {
    ($socket:literal, $peer:literal) => {
        concat!(
            "```
# use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
use blitzen::net::UnixStream;

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let (",
            $socket,
            ", ",
            $peer,
            ") = UnixStream::pair()?;"
        )
    };
}

/// Two connected `UnixDatagram`s without addresses.
#[cfg(unix)]
macro_rules! unix_datagram_pair {
    ($socket:literal, $peer:literal) => {
        concat!(
            "```
# use blitzen::io::{Interest, ReadBuf};
use blitzen::net::UnixDatagram;

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let (",
            $socket,
            ", ",
            $peer,
            ") = UnixDatagram::pair()?;"
        )
    };
}

/// `UnixDatagram`s with paths in the folder `dir`, connected to each other.
#[cfg(unix)]
macro_rules! unix_datagram_bound {
    ($socket:literal, $peer:literal) => {
        concat!(
            unix_dir!("UnixDatagram"),
            "
# use blitzen::io::ReadBuf;
let ",
            $socket,
            " = UnixDatagram::bind(dir.join(\"socket\"))?;
let ",
            $peer,
            " = UnixDatagram::bind(dir.join(\"peer\"))?;
",
            $peer,
            ".connect(dir.join(\"socket\"))?;"
        )
    };
}

/// A folder `dir` of the example's own, for sockets that have a path, and the
/// import of the given types.
#[cfg(unix)]
macro_rules! unix_dir {
    ($types:literal) => {
        concat!(
            "```
use blitzen::net::",
            $types,
            ";

# struct RemoveOnDrop(std::path::PathBuf);
# impl Drop for RemoveOnDrop {
#     fn drop(&mut self) {
#         let _ = std::fs::remove_dir_all(&self.0);
#     }
# }
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let unique = format!(\"blitzen-{}-{}\", std::process::id(), line!());
# let unique = unique + module_path!().replace(':', \"_\").as_str();
# let guard = RemoveOnDrop(std::env::temp_dir().join(unique));
# let dir = guard.0.clone();
# std::fs::create_dir_all(&dir)?;"
        )
    };
}

/// The two ends of a pipe.
#[cfg(unix)]
macro_rules! pipe_ends {
    ($sender:literal, $receiver:literal) => {
        concat!(
            "```
# use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
use blitzen::net::unix::pipe;

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let (",
            $sender,
            ", ",
            $receiver,
            ") = pipe::pipe()?;"
        )
    };
}

/// The two ends of a named pipe, the server first. Examples of it are not run:
/// doc tests run at the same time, and would share one name.
#[cfg(windows)]
macro_rules! named_pipe_server {
    ($server:literal, $client:literal) => {
        concat!(
            "```no_run
# use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
use blitzen::net::windows::named_pipe::{ClientOptions, ServerOptions};

# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
let ",
            $server,
            " = ServerOptions::new().create(r\"\\\\.\\pipe\\example\")?;
let ",
            $client,
            " = ClientOptions::new().open(r\"\\\\.\\pipe\\example\")?;"
        )
    };
}

/// The two ends of a named pipe, the client first.
#[cfg(windows)]
macro_rules! named_pipe_client {
    ($client:literal, $server:literal) => {
        named_pipe_server!($server, $client)
    };
}
