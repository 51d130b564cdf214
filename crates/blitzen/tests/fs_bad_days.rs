//! Disks that are full, files that are gone or not ours, runtimes that go while
//! everything is under way.

mod fs_common;

use std::io::ErrorKind;
use std::pin::pin;
use std::task::{Context, Waker};

use blitzen::fs::{self, File};
use blitzen::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use fs_common::{Dir, on_each, runtimes};

#[test]
fn a_file_that_is_not_open_for_reading_or_writing_is_an_error() {
    on_each(async || {
        let dir = Dir::new();
        std::fs::write(dir.join("file"), b"hello").unwrap();
        let mut file = File::open(dir.join("file")).await.unwrap();
        // Taken at once, or told of when it should arrive.
        let written = file.write_all(b"x").await;
        assert!(written.is_err() || file.flush().await.is_err());
        assert!(file.write_at("x", 0).await.0.is_err());
        assert!(file.set_len(0).await.is_err());
        assert_eq!(file.read_u8().await.unwrap(), b'h');
        let mut options = File::options();
        let mut file = options.write(true).open(dir.join("file")).await.unwrap();
        assert!(file.read(&mut [0; 8]).await.is_err());
        assert!(file.read_at(vec![0; 8], 0).await.0.is_err());
        #[cfg(unix)]
        {
            let mut directory = File::open(dir.path()).await.unwrap();
            let error = directory.read(&mut [0; 8]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IsADirectory);
            let error = fs::read(dir.path()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IsADirectory);
        }
    });
}

#[test]
fn a_file_removed_or_cut_underneath() {
    on_each(async || {
        let dir = Dir::new();
        let path = dir.join("file");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let mut file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .await
            .unwrap();
        file.read_exact(&mut [0; 10]).await.unwrap();
        // Cut: the end comes sooner.
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(15)
            .unwrap();
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), 5);
        assert_eq!(file.read_at(vec![0; 8], 50_000).await.0.unwrap(), 0);
        // Removed: it has no name any more, and is still there.
        std::fs::remove_file(&path).unwrap();
        file.rewind().await.unwrap();
        file.write_all(b"still there").await.unwrap();
        file.sync_all().await.unwrap();
        let (read, bytes) = file.read_at(Vec::with_capacity(11), 0).await;
        assert_eq!((read.unwrap(), &bytes[..]), (11, &b"still there"[..]));
        // Windows may keep the name until the file is closed.
        #[cfg(windows)]
        drop(file);
        for error in [
            File::open(&path).await.unwrap_err(),
            fs::read(&path).await.unwrap_err(),
            fs::remove_file(&path).await.unwrap_err(),
            fs::metadata(&path).await.unwrap_err(),
            fs::rename(&path, dir.join("other")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
        assert!(!fs::try_exists(&path).await.unwrap());
    });
}

#[test]
fn a_runtime_may_be_dropped_with_hundreds_of_operations_under_way() {
    for runtime in runtimes() {
        let dir = Dir::new();
        let mut written = Vec::new();
        let open = runtime.block_on(async {
            let mut tasks = Vec::new();
            for number in 0..100_u64 {
                let path = dir.join(number.to_string());
                written.push(path.clone());
                tasks.push(blitzen::spawn(async move {
                    let mut file = File::create_new(path).await.unwrap();
                    file.write_all(&[7; 10_000]).await.unwrap();
                    let file = std::sync::Arc::new(file);
                    // Under way when the runtime goes: some end, some do not.
                    for offset in 0..4 {
                        let file = file.clone();
                        blitzen::spawn(async move {
                            let _ = file.write_at(vec![8; 1000], offset * 1000).await;
                            let _ = file.sync_all().await;
                            let _ = file.read_at(vec![0; 1000], 0).await;
                        });
                    }
                    file
                }));
            }
            let mut open = Vec::new();
            for task in tasks {
                open.push(task.await.unwrap());
            }
            open
        });
        drop(runtime);
        for path in &written {
            assert_eq!(std::fs::metadata(path).unwrap().len(), 10_000);
        }
        drop(open);
    }
}

#[test]
fn an_operation_begun_outside_a_runtime_panics_and_says_why() {
    let dir = Dir::new();
    std::fs::write(dir.join("file"), b"hello").unwrap();
    let mut file = File::from_std(std::fs::File::open(dir.join("file")).unwrap());
    let mut cx = Context::from_waker(Waker::noop());
    let read = std::panic::AssertUnwindSafe(|| {
        let mut room = [0; 8];
        let mut read = pin!(file.read(&mut room));
        let _ = Future::poll(read.as_mut(), &mut cx);
    });
    let panic = std::panic::catch_unwind(read).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("there is no reactor running"), "{text}");
}

/// Tests in a process that may do less.
#[cfg(target_os = "linux")]
mod restricted {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    /// Runs the test called `name` of this file again, alone and as the child that
    /// `prepare` makes of it.
    fn in_child(name: &str, prepare: impl FnOnce(&mut Command)) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, name);
        prepare(&mut child);
        let output = child.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    const CHILD: &str = "BLITZEN_TEST_CHILD";

    fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    /// The most bytes that a file may have in the child.
    const LIMIT: usize = 100_000;

    fn limit_files(child: &mut Command) {
        let limit = || {
            let limit = libc::rlimit {
                rlim_cur: LIMIT as libc::rlim_t,
                rlim_max: LIMIT as libc::rlim_t,
            };
            // SAFETY: numbers; and the signal that comes with it shall be an error
            // only.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
            }
            Ok(())
        };
        // SAFETY: two system calls, which a child may make before it is another
        // program.
        unsafe { child.pre_exec(limit) };
    }

    #[test]
    fn the_next_operation_returns_the_error_of_a_full_disk() {
        if !is_child() {
            let name = "restricted::the_next_operation_returns_the_error_of_a_full_disk";
            return in_child(name, limit_files);
        }
        on_each(async || {
            let dir = Dir::new();
            for next in 0..6 {
                let mut file = File::create_new(dir.join(next.to_string())).await.unwrap();
                file.write_all(&[7; LIMIT]).await.unwrap();
                file.flush().await.unwrap();
                // Told of at once if the job is quick, else later.
                let taken = file.write_all(b"too much").await;
                let told = match next {
                    _ if taken.is_err() => taken,
                    0 => file.flush().await,
                    1 => file.shutdown().await,
                    2 => file.sync_all().await,
                    3 => file.seek(std::io::SeekFrom::Start(0)).await.map(drop),
                    4 => file.read(&mut [0; 8]).await.map(drop),
                    _ => file.set_len(0).await,
                };
                assert_eq!(told.unwrap_err().kind(), ErrorKind::FileTooLarge);
                // Once: the file is as good as before.
                file.flush().await.unwrap();
                file.rewind().await.unwrap();
                file.write_all(b"fits").await.unwrap();
                file.flush().await.unwrap();
                assert_eq!(file.metadata().await.unwrap().len(), LIMIT as u64);
                let (written, _) = file.write_at("too much", LIMIT as u64).await;
                assert_eq!(written.unwrap_err().kind(), ErrorKind::FileTooLarge);
                assert!(file.allocate(0, LIMIT as u64 + 1).await.is_err());
            }
            let error = fs::write(dir.join("whole"), vec![7; LIMIT + 1]).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::FileTooLarge);
            let error = fs::write(dir.join("big"), vec![7; 5 << 20]).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::FileTooLarge);
        });
    }

    #[test]
    fn a_write_of_much_more_than_fits_ends_with_the_error_and_not_without() {
        if !is_child() {
            let name =
                "restricted::a_write_of_much_more_than_fits_ends_with_the_error_and_not_without";
            return in_child(name, limit_files);
        }
        on_each(async || {
            let dir = Dir::new();
            let mut file = File::create_new(dir.join("file")).await.unwrap();
            let written = async {
                for _ in 0..1000 {
                    file.write_all(&[7; 4096]).await?;
                }
                file.flush().await
            };
            assert_eq!(written.await.unwrap_err().kind(), ErrorKind::FileTooLarge);
            file.flush().await.unwrap();
            assert_eq!(file.metadata().await.unwrap().len(), LIMIT as u64);
        });
    }

    #[test]
    fn what_is_not_ours_is_denied() {
        if !is_child() {
            return in_child("restricted::what_is_not_ours_is_denied", |child| {
                // SAFETY: asks for a number.
                if unsafe { libc::geteuid() } == 0 {
                    child.uid(65534).gid(65534);
                }
            });
        }
        on_each(async || {
            let is_denied = |error: std::io::Error| {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            };
            use std::os::unix::fs::PermissionsExt;
            let dir = Dir::new();
            let path = dir.join("secret");
            fs::write(&path, b"secret").await.unwrap();
            let mut permissions = fs::metadata(&path).await.unwrap().permissions();
            permissions.set_mode(0o000);
            fs::set_permissions(&path, permissions.clone())
                .await
                .unwrap();
            is_denied(File::open(&path).await.unwrap_err());
            is_denied(File::create(&path).await.unwrap_err());
            is_denied(fs::read(&path).await.unwrap_err());
            is_denied(fs::write(&path, b"").await.unwrap_err());

            let kept = dir.join("kept");
            fs::create_dir(&kept).await.unwrap();
            fs::write(kept.join("file"), b"").await.unwrap();
            permissions.set_mode(0o555);
            fs::set_permissions(&kept, permissions.clone())
                .await
                .unwrap();
            is_denied(fs::remove_file(kept.join("file")).await.unwrap_err());
            is_denied(fs::create_dir(kept.join("dir")).await.unwrap_err());
            let elsewhere = dir.join("elsewhere");
            is_denied(fs::rename(kept.join("file"), elsewhere).await.unwrap_err());

            permissions.set_mode(0o000);
            let closed = dir.join("closed");
            fs::create_dir(&closed).await.unwrap();
            fs::set_permissions(&closed, permissions.clone())
                .await
                .unwrap();
            is_denied(fs::try_exists(closed.join("file")).await.unwrap_err());
            is_denied(fs::read_dir(&closed).await.unwrap_err());
            is_denied(fs::metadata(closed.join("file")).await.unwrap_err());

            // So that they can be removed.
            permissions.set_mode(0o755);
            for dir in [kept, closed] {
                fs::set_permissions(dir, permissions.clone()).await.unwrap();
            }
        });
    }
}
