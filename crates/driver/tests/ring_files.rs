//! Every file operation of the ring, against the real file system.

#![cfg(all(blitzen_ring, not(blitzen_loom)))]

#[path = "common/ring.rs"]
mod common;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blitzen_driver::nowait::NoWait;
use blitzen_driver::ring::file::{
    Allocate, Close, CreateDir, Fsync, HardLink, Open, Read, ReadVectored, Remove, Rename, SetLen,
    Stat, Symlink, Transfer, Write, WriteVectored,
};
use blitzen_driver::ring::{Flavour, Memory, Operation, Pieces, Ring};
use common::{ring, run};

/// A directory of this test's own, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let name = format!("blitzen-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Both kinds of ring.
fn rings() -> Vec<Arc<Ring>> {
    [Flavour::Shared, Flavour::Pinned]
        .into_iter()
        .filter_map(|flavour| ring(8, 16, flavour))
        .collect()
}

#[test]
fn bytes_go_out_and_come_back() {
    for ring in rings() {
        let dir = Dir::new("bytes");
        let path = dir.path("file");
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        let file = run(&ring, ring.submit(Open::new(c(&path), flags, 0o644))).unwrap();
        let file = Arc::new(File::from(file));

        let message = b"hello, ring".to_vec();
        let write = Write::new(file.clone(), Memory::bytes(message.clone()), 3);
        let (written, back) = run(&ring, ring.submit(write));
        assert_eq!((written.unwrap(), back), (11, message));
        assert_eq!(fs::read(&path).unwrap(), b"\0\0\0hello, ring");

        run(&ring, ring.submit(Fsync::data(file.clone()))).unwrap();
        run(&ring, ring.submit(Fsync::all(file.clone()))).unwrap();

        // A read appends to what is there, and stops where the file does.
        let mut room = Vec::with_capacity(32);
        room.push(b'>');
        let read = Read::new(file.clone(), Memory::room(room), 3);
        let (read, text) = run(&ring, ring.submit(read));
        assert_eq!((read.unwrap(), &text[..]), (11, &b">hello, ring"[..]));
        let read = Read::new(file, Memory::room(Vec::with_capacity(8)), 100);
        let (read, nothing) = run(&ring, ring.submit(read));
        assert_eq!((read.unwrap(), nothing.len()), (0, 0));
    }
}

#[test]
fn several_pieces_go_out_and_come_back() {
    for ring in rings() {
        let dir = Dir::new("pieces");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.path("file"))
            .unwrap();
        let file = Arc::new(file);
        let pieces = vec![b"one".to_vec(), b"three".to_vec()];
        let write = WriteVectored::new(file.clone(), Pieces::bytes(pieces), 0);
        let (written, _) = run(&ring, ring.submit(write));
        assert_eq!(written.unwrap(), 8);
        let rooms = vec![Vec::with_capacity(4), Vec::with_capacity(64)];
        let read = ReadVectored::new(file, Pieces::room(rooms), 0);
        let (read, rooms) = run(&ring, ring.submit(read));
        assert_eq!(read.unwrap(), 8);
        let head = rooms[0].len();
        assert!(head >= 4, "filled before the next one");
        assert_eq!(rooms.concat(), b"onethree");
    }
}

#[test]
fn names_are_made_changed_and_removed() {
    for ring in rings() {
        let dir = Dir::new("names");
        let sub = dir.path("sub");
        run(&ring, ring.submit(CreateDir::new(c(&sub), 0o755))).unwrap();
        assert!(sub.is_dir());
        let (first, second) = (sub.join("first"), sub.join("second"));
        fs::write(&first, b"x").unwrap();
        run(&ring, ring.submit(Rename::new(c(&first), c(&second)))).unwrap();
        assert!(!first.exists() && second.exists());
        run(&ring, ring.submit(HardLink::new(c(&second), c(&first)))).unwrap();
        assert_eq!(fs::metadata(&first).unwrap().nlink(), 2);
        let link = sub.join("link");
        run(&ring, ring.submit(Symlink::new(c"second".into(), c(&link)))).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("second"));

        let busy = run(&ring, ring.submit(Remove::dir(c(&sub))));
        assert_eq!(busy.unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        for path in [&first, &second, &link] {
            run(&ring, ring.submit(Remove::file(c(path)))).unwrap();
        }
        run(&ring, ring.submit(Remove::dir(c(&sub)))).unwrap();
        assert!(!sub.exists());
        let twice = run(&ring, ring.submit(Remove::file(c(&first))));
        assert_eq!(twice.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn what_is_known_of_a_file_is_asked_by_path_and_by_descriptor() {
    for ring in rings() {
        let dir = Dir::new("stat");
        let path = dir.path("file");
        fs::write(&path, [0; 100]).unwrap();
        let expected = fs::metadata(&path).unwrap();
        let stat = run(&ring, ring.submit(Stat::path(c(&path), 0))).unwrap();
        assert_eq!((stat.stx_size, stat.stx_ino), (100, expected.ino()));
        let file = Arc::new(File::options().write(true).open(&path).unwrap());
        if ring.supports(SetLen::<File>::CODE) {
            run(&ring, ring.submit(SetLen::new(file.clone(), 10))).unwrap();
            let stat = run(&ring, ring.submit(Stat::file(file.clone()))).unwrap();
            assert_eq!(stat.stx_size, 10);
        }
        run(&ring, ring.submit(Allocate::new(file.clone(), 0, 0, 5000))).unwrap();
        let stat = run(&ring, ring.submit(Stat::file(file))).unwrap();
        assert_eq!(stat.stx_size, 5000);
        let absent = run(&ring, ring.submit(Stat::path(c(&dir.path("no")), 0)));
        assert_eq!(absent.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn closing_really_closes() {
    for ring in rings() {
        let (reader, writer) = std::io::pipe().unwrap();
        run(&ring, ring.submit(Close::new(writer.into()))).unwrap();
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut { reader }, &mut rest).unwrap(); // ends
        // Nobody waits for this one, and it closes all the same.
        let (reader, writer) = std::io::pipe().unwrap();
        ring.submit(Close::new(writer.into())).detach();
        while ring.in_flight() > 0 {
            ring.turn(None).unwrap();
        }
        std::io::Read::read_to_end(&mut { reader }, &mut rest).unwrap();
    }
}

#[test]
fn a_transfer_needs_no_ring() {
    let dir = Dir::new("now");
    let path = dir.path("file");
    fs::write(&path, b"cached").unwrap();
    let file = Arc::new(File::options().read(true).write(true).open(&path).unwrap());
    let read = || Read::new(file.clone(), Memory::room(Vec::with_capacity(4)), 2);
    // Some file systems cannot tell; those that can have just got the bytes.
    let mut attempt = read();
    if let NoWait::Done(done) = attempt.nowait() {
        assert_eq!(attempt.finish(done).1, b"ched");
    }
    assert_eq!(read().block().1, b"ched");
    let write = Write::new(file.clone(), Memory::bytes(b"more".to_vec()), 4);
    assert_eq!(write.block().0.unwrap(), 4);
    let pieces = Pieces::bytes(vec![b"C".to_vec(), b"A".to_vec()]);
    assert_eq!(
        WriteVectored::new(file.clone(), pieces, 0)
            .block()
            .0
            .unwrap(),
        2
    );
    let rooms = vec![Vec::with_capacity(3), Vec::with_capacity(16)];
    let (read, bytes) = ReadVectored::new(file, Pieces::room(rooms), 0).block();
    assert_eq!((read.unwrap(), bytes.concat()), (8, b"CAchmore".to_vec()));
    let (reader, _writer) = std::io::pipe().unwrap();
    let room = Memory::room(Vec::with_capacity(4));
    let error = Read::new(reader, room, 0).block().0.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::NotSeekable,
        "a pipe has no offsets"
    );
}

#[test]
fn the_kernels_errors_are_passed_on() {
    for ring in rings() {
        let open = Open::new(c"/nowhere/at/all".into(), libc::O_RDONLY, 0);
        let error = run(&ring, ring.submit(open)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let dir = Dir::new("errors");
        let file = File::create(dir.path("file")).unwrap(); // not for reading
        let read = Read::new(file, Memory::room(Vec::with_capacity(8)), 0);
        let (result, _room) = run(&ring, ring.submit(read));
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}

#[test]
fn a_full_disk_and_a_truncated_file_are_what_they_are() {
    for ring in rings() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let write = Write::new(full, Memory::bytes(vec![0; 64]), 0);
        let (result, _) = run(&ring, ring.submit(write));
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENOSPC));

        let dir = Dir::new("truncated");
        let path = dir.path("file");
        fs::write(&path, [7; 4096]).unwrap();
        let file = File::open(&path).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(5)
            .unwrap();
        fs::remove_file(&path).unwrap();
        let read = Read::new(file, Memory::room(Vec::with_capacity(4096)), 0);
        let (result, bytes) = run(&ring, ring.submit(read));
        assert_eq!((result.unwrap(), bytes), (5, vec![7; 5]));
    }
}
