//! Where the socket of a console is, and who may connect.
//!
//! K1. The usual folder belongs to the owner of the process, and nobody else can enter it. It is
//!     not used if that is not so.
//! K2. A socket is removed before its listener closes. So the process of a socket that refuses
//!     connections has ended, and anybody may remove that socket.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::net::unix::UCred;
use crate::runtime::privilege::is_privileged;

/// How many runtimes of one process may listen at the usual path.
const MAX_SOCKETS: u32 = 1_000;

/// Held while a socket is bound: two threads must not remove the same old socket.
static BINDING: Mutex<()> = Mutex::new(());

/// A bound socket. Its file is removed when this is dropped.
pub(super) struct ConsoleSocket {
    path: PathBuf,
    listener: UnixListener,
}

impl ConsoleSocket {
    /// Binds to the number of this process in the usual folder; with a second number behind it
    /// if another runtime is there.
    pub(super) fn bind_usual() -> io::Result<Self> {
        let folder = usual_folder();
        create_private(&folder)?;
        let pid = std::process::id();
        let mut result = Self::bind_at(&folder.join(pid.to_string()));
        for number in 1..MAX_SOCKETS {
            match &result {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    result = Self::bind_at(&folder.join(format!("{pid}.{number}")));
                }
                _ => break,
            }
        }
        result
    }

    /// Binds to `path`, and replaces a socket there whose process has ended.
    pub(super) fn bind_at(path: &Path) -> io::Result<Self> {
        let _binding = BINDING.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path) => {
                fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            bound => bound,
        };
        let socket = Self {
            listener: bound.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?,
            path: path.to_owned(),
        };
        // A client that was faster is refused by its user.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        socket.listener.set_nonblocking(true)?;
        Ok(socket)
    }

    /// The listener, for the thread that accepts.
    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for ConsoleSocket {
    fn drop(&mut self) {
        // K2. Somebody may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether there is a socket to which nobody listens (K2).
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refuses = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refuses)
}

/// `$XDG_RUNTIME_DIR/blitzen`, or a folder with the number of the user among temporary files. A
/// program with privileges of its own has none where its caller wants it.
fn usual_folder() -> PathBuf {
    if is_privileged() {
        return PathBuf::from(format!("/tmp/blitzen-{}", own_user()));
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("blitzen"),
        None => std::env::temp_dir().join(format!("blitzen-{}", own_user())),
    }
}

/// Creates a folder that only its owner can enter, or checks that it is one (K1).
fn create_private(folder: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(io::Error::new(
                error.kind(),
                format!("{}: {error}", folder.display()),
            ));
        }
        _ => {}
    }
    // Not through a link: that may be somebody else's.
    let found = fs::symlink_metadata(folder)?;
    let is_private = found.is_dir() && found.uid() == own_user() && found.mode() & 0o077 == 0;
    match is_private {
        true => Ok(()),
        false => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "{} is not a folder of mode 0700 that belongs to this user",
                folder.display()
            ),
        )),
    }
}

/// Whether the process at the other end may ask: it belongs to the same user, or to root.
pub(super) fn may_ask(client: &UnixStream) -> bool {
    let peer = UCred::from_peer(client);
    peer.is_ok_and(|peer| is_trusted(peer.uid(), own_user()))
}

fn is_trusted(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

fn own_user() -> u32 {
    // SAFETY: it has no arguments, and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("blitzen-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn the_owner_and_root_are_trusted() {
        assert!(is_trusted(1000, 1000));
        assert!(is_trusted(0, 1000));
        assert!(!is_trusted(1001, 1000));
        assert!(!is_trusted(1000, 0));
    }

    #[test]
    fn a_folder_that_others_can_enter_is_not_used() {
        let folder = scratch("folder");
        create_private(&folder).unwrap();
        create_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let link = folder.join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert_eq!(
            create_private(&link).unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(
            create_private(&folder).unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_abandoned_socket_is_replaced_and_nothing_else() {
        let folder = scratch("abandoned");
        create_private(&folder).unwrap();
        let path = folder.join("socket");
        drop(UnixListener::bind(&path).unwrap()); // leaves its file behind
        let socket = ConsoleSocket::bind_at(&path).unwrap();
        let again = ConsoleSocket::bind_at(&path).err().unwrap();
        assert_eq!(again.kind(), ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        let file = ConsoleSocket::bind_at(&path).err().unwrap();
        assert_eq!(file.kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read(&path).unwrap(), b"a file");
        fs::remove_dir_all(&folder).unwrap();
    }
}
