//! The hidden beginnings of the examples: a `main`, and a connected pair called
//! `socket` and `peer`.

macro_rules! tcp_pair {
    () => {
        "# use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
# use blitzen::net::{TcpListener, TcpSocket, TcpStream};
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let listener = TcpListener::bind(\"127.0.0.1:0\").await?;
# let address = listener.local_addr()?;
# let (socket, accepted) = blitzen::join!(TcpStream::connect(address), listener.accept());
# let (mut socket, mut peer) = (socket?, accepted?.0);"
    };
}

macro_rules! udp_pair {
    () => {
        "# use blitzen::io::{Interest, ReadBuf};
# use blitzen::net::UdpSocket;
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let socket = UdpSocket::bind(\"127.0.0.1:0\").await?;
# let peer = UdpSocket::bind(\"127.0.0.1:0\").await?;
# socket.connect(peer.local_addr()?).await?;
# peer.connect(socket.local_addr()?).await?;"
    };
}

#[cfg(unix)]
macro_rules! unix_pair {
    () => {
        "# use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
# use blitzen::net::UnixStream;
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let (mut socket, mut peer) = UnixStream::pair()?;"
    };
}

#[cfg(unix)]
macro_rules! unix_datagram_pair {
    () => {
        "# use blitzen::io::{Interest, ReadBuf};
# use blitzen::net::UnixDatagram;
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let (socket, peer) = UnixDatagram::pair()?;"
    };
}

/// A folder `dir` of the example's own, for sockets that have a path.
#[cfg(unix)]
macro_rules! unix_dir {
    () => {
        "# use blitzen::net::{UnixDatagram, UnixListener, UnixSocket, UnixStream};
# struct Dir(std::path::PathBuf);
# impl Drop for Dir {
#     fn drop(&mut self) {
#         let _ = std::fs::remove_dir_all(&self.0);
#     }
# }
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let unique = format!(\"blitzen-{}-{}\", std::process::id(), line!());
# let guard = Dir(std::env::temp_dir().join(unique + module_path!().replace(':', \"_\").as_str()));
# let dir = guard.0.clone();
# std::fs::create_dir_all(&dir)?;"
    };
}

#[cfg(unix)]
macro_rules! pipe_pair {
    () => {
        "# use blitzen::io::{AsyncReadExt, AsyncWriteExt, Interest};
# use blitzen::net::unix::pipe;
# #[blitzen::main(flavor = \"current_thread\")]
# async fn main() -> std::io::Result<()> {
# let (mut sender, mut receiver) = pipe::pipe()?;"
    };
}
