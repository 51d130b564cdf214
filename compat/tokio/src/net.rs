//! Sockets.

pub use blitzen::net::{TcpListener, TcpSocket, TcpStream, ToSocketAddrs, UdpSocket, lookup_host};
#[cfg(unix)]
pub use blitzen::net::{UnixDatagram, UnixListener, UnixSocket, UnixStream};

/// Halves of a TCP stream.
pub mod tcp {
    pub use blitzen::net::tcp::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
}

/// What Unix sockets have more than others.
#[cfg(unix)]
pub mod unix {
    pub use blitzen::net::unix::{
        OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, SocketAddr, UCred, WriteHalf, gid_t,
        pid_t, uid_t,
    };

    /// Pipes, named and unnamed.
    pub mod pipe {
        pub use blitzen::net::unix::pipe::{OpenOptions, Receiver, Sender, pipe};
    }
}

/// What only Windows has.
#[cfg(windows)]
pub mod windows {
    /// Pipes with a name.
    pub mod named_pipe {
        pub use blitzen::net::windows::named_pipe::{
            ClientOptions, NamedPipeClient, NamedPipeServer, PipeEnd, PipeInfo, PipeMode,
            ServerOptions,
        };
    }
}
