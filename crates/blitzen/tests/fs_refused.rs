//! Systems that refuse io_uring, or are too old for what is asked at once: files
//! work all the same. A filter in a child process makes them.

#![cfg(all(blitzen_ring, any(target_arch = "x86_64", target_arch = "aarch64")))]

mod fs_common;
mod refuse;

use std::io::ErrorKind;
use std::process::Command;

use blitzen::fs::{self, File};
use blitzen::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use blitzen::runtime::{Builder, IoBackend};
use fs_common::{Dir, on_each};
use refuse::refuse;

const CHILD: &str = "BLITZEN_TEST_REFUSE";

/// The child's part; nothing to do otherwise.
#[test]
fn child() {
    let Ok(orders) = std::env::var(CHILD) else {
        return;
    };
    let (what, errno) = orders.split_once(' ').unwrap();
    let errno = errno.parse().unwrap();
    match what {
        "ring" => refuse(&[libc::SYS_io_uring_setup], errno),
        "nowait" => refuse(
            &[libc::SYS_openat2, libc::SYS_preadv2, libc::SYS_pwritev2],
            errno,
        ),
        "local" => refuse(&[libc::SYS_fstatfs], errno),
        "statx" => refuse(&[libc::SYS_statx], errno),
        _ => refuse(
            &[
                libc::SYS_io_uring_setup,
                libc::SYS_openat2,
                libc::SYS_preadv2,
                libc::SYS_pwritev2,
            ],
            errno,
        ),
    }
    if !matches!(what, "nowait" | "local" | "statx") {
        let mut with = Builder::new_multi_thread();
        let error = with.io_backend(IoBackend::Uring).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        println!("{error}");
    }
    on_each(everything);
}

/// A little of everything.
async fn everything() {
    let dir = Dir::new();
    let path = dir.join("file");
    let mut file = File::create_new(&path).await.unwrap();
    file.write_all(b"hello, world!").await.unwrap();
    file.sync_all().await.unwrap();
    file.rewind().await.unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello, world!");
    file.write_all_at("J", 0).await.0.unwrap();
    let (read, word) = file.read_exact_at(Box::new([0; 5]), 0).await;
    read.unwrap();
    assert_eq!(&*word, b"Jello");
    file.set_len(5).await.unwrap();
    assert_eq!(fs::read(&path).await.unwrap(), b"Jello");
    assert!(fs::try_exists(&path).await.unwrap());
    fs::rename(&path, dir.join("other")).await.unwrap();
    assert!(!fs::try_exists(&path).await.unwrap());
    fs::hard_link(dir.join("other"), &path).await.unwrap();
    fs::remove_file(&path).await.unwrap();
    fs::create_dir(dir.join("dir")).await.unwrap();
    fs::remove_dir(dir.join("dir")).await.unwrap();
    let error = File::open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn each_refusal_leaves_files_that_work() {
    for what in ["ring", "nowait", "local", "statx", "all"] {
        for errno in [libc::ENOSYS, libc::EPERM, libc::ENOMEM] {
            if what != "ring" && errno == libc::ENOMEM {
                continue; // an error of a read, and not of a system that is old
            }
            if what == "statx" && errno != libc::ENOSYS {
                continue; // std itself takes no other answer for a system that is old
            }
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["child", "--exact", "--nocapture"])
                .env(CHILD, format!("{what} {errno}"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{what} {errno}: {output:?}");
        }
    }
}

#[test]
fn the_environment_chooses_where_the_code_does_not() {
    const ROLE: &str = "BLITZEN_TEST_ROLE";
    if std::env::var_os(ROLE).is_some() {
        let built = Builder::new_multi_thread().build();
        match std::env::var("BLITZEN_IO").unwrap().as_str() {
            "kqueue" => {
                let error = built.unwrap_err();
                assert!(error.to_string().contains("BLITZEN_IO"), "{error}");
                // What the code says counts.
                Builder::new_multi_thread()
                    .io_backend(IoBackend::Epoll)
                    .build()
                    .unwrap();
            }
            _ => built.unwrap().block_on(everything()),
        }
        return;
    }
    for value in ["epoll", "auto", "kqueue"] {
        let name = "the_environment_chooses_where_the_code_does_not";
        let output = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(ROLE, "child")
            .env("BLITZEN_IO", value)
            .output()
            .unwrap();
        assert!(output.status.success(), "{value}: {output:?}");
    }
}
