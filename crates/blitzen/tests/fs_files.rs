//! What a file promises: the order of reads and writes, positions, and that
//! nothing is lost.

mod fs_common;

use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, SeekFrom, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use blitzen::fs::{self, File, OpenOptions};
use blitzen::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
#[cfg(unix)]
use fs_common::make_fifo;
use fs_common::{Dir, forget, on_each, reading_end, runtimes, until};

/// Polls a future once, which must have to wait.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) {
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_write_that_returned_is_seen_by_every_later_operation() {
    on_each(async || {
        let dir = Dir::new();
        let path = dir.join("file");
        let mut file = File::create_new(&path).await.unwrap();
        for round in 0..50_u64 {
            file.write_all(b"0123456789").await.unwrap();
            match round % 7 {
                0 => assert_eq!(file.metadata().await.unwrap().len(), (round + 1) * 10),
                1 => {
                    let (read, last) = file.read_at(Vec::with_capacity(10), round * 10).await;
                    assert_eq!((read.unwrap(), &last[..]), (10, &b"0123456789"[..]));
                }
                2 => {
                    let end = file.seek(SeekFrom::Current(0)).await.unwrap();
                    assert_eq!(end, (round + 1) * 10);
                }
                3 => assert_eq!(file.read(&mut [0; 8]).await.unwrap(), 0),
                4 => {
                    file.flush().await.unwrap();
                    let len = std::fs::metadata(&path).unwrap().len();
                    assert_eq!(len, (round + 1) * 10);
                }
                5 => {
                    let mut clone = file.try_clone().await.unwrap();
                    let end = clone.stream_position().await.unwrap();
                    assert_eq!(end, (round + 1) * 10);
                }
                _ => {}
            }
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"0123456789".repeat(50));
    });
}

#[test]
fn writes_arrive_in_order_however_many_are_under_way() {
    on_each(async || {
        let dir = Dir::new();
        let path = dir.join("file");
        let mut file = File::create(&path).await.unwrap();
        file.set_max_buf_size(1000);
        let mut expected = Vec::new();
        for round in 0..2000_u32 {
            let bytes = round.to_le_bytes();
            let pieces = [&bytes[..1], &bytes[1..]].map(std::io::IoSlice::new);
            expected.extend(bytes);
            match round % 2 {
                0 => file.write_all(&bytes).await.unwrap(),
                _ => assert_eq!(file.write_vectored(&pieces).await.unwrap(), 4),
            }
        }
        file.flush().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
    });
}

#[test]
fn a_small_write_does_not_overtake_a_large_one() {
    // One that goes to a job, and one that could be done on the spot.
    const LARGE: usize = 400_000;
    on_each(async || {
        let dir = Dir::new();
        for round in 0..20_u8 {
            let path = dir.join(round.to_string());
            let mut file = File::create_new(&path).await.unwrap();
            file.write_all(&[1]).await.unwrap();
            assert_eq!(file.write(&[2; LARGE]).await.unwrap(), LARGE);
            file.write_all(&[3; 10]).await.unwrap();
            file.flush().await.unwrap();
            let written = std::fs::read(&path).unwrap();
            assert_eq!(written.len(), LARGE + 11);
            assert_eq!((written[0], &written[LARGE + 1..]), (1, &[3; 10][..]));
        }
    });
}

/// What a thread has read for a future that was dropped is not read: the write goes
/// to where the file stood before.
#[test]
fn a_write_after_a_read_that_was_given_up_goes_to_where_the_reader_was() {
    on_each(async || {
        let dir = Dir::new();
        for round in 0..10_u8 {
            let path = dir.join(round.to_string());
            std::fs::write(&path, vec![1; 20_000]).unwrap();
            let options = std::fs::File::options().read(true).write(true).clone();
            let std = options.open(&path).unwrap();
            forget(&std);
            let mut file = File::from_std(std);
            let mut room = [0; 8];
            let read = {
                let mut read = pin!(file.read(&mut room));
                poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await
            };
            // Unless it was in memory after all.
            let stands = match read {
                Poll::Ready(read) => read.unwrap(),
                Poll::Pending => 0,
            };
            file.write_all(b"x").await.unwrap();
            file.flush().await.unwrap();
            let written = std::fs::read(&path).unwrap();
            assert_eq!((written.len(), written[stands]), (20_000, b'x'), "{stands}");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_of_which_a_part_is_in_memory_is_read_to_its_end() {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    on_each(async || {
        let dir = Dir::new();
        let contents: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        for round in 0..5_u8 {
            let path = dir.join(round.to_string());
            std::fs::write(&path, &contents).unwrap();
            let std = std::fs::File::open(&path).unwrap();
            std.sync_all().unwrap();
            // SAFETY: a descriptor that is open, and numbers.
            unsafe {
                libc::posix_fadvise(std.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
                libc::posix_fadvise(std.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM);
            }
            std.read_exact_at(&mut [0; 50_000], 0).unwrap();
            assert_eq!(fs::read(&path).await.unwrap(), contents);
        }
    });
}

#[test]
fn what_was_written_arrives_although_the_file_is_dropped() {
    on_each(async || {
        let dir = Dir::new();
        let path = dir.join("file");
        let mut file = File::create(&path).await.unwrap();
        file.write_all(&vec![7; 3 << 20]).await.unwrap();
        drop(file);
        until("it has not arrived", || {
            std::fs::metadata(&path).unwrap().len() == 3 << 20
        })
        .await;
    });
}

#[test]
fn what_was_written_arrives_although_the_runtime_is_dropped() {
    for runtime in runtimes() {
        let dir = Dir::new();
        let path = dir.join("file");
        let mut file = runtime.block_on(async {
            let mut file = File::create(&path).await.unwrap();
            file.write_all(&vec![7; 3 << 20]).await.unwrap();
            file
        });
        drop(runtime);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 << 20);
        // The file is still good for what needs no runtime, and for another.
        let next = blitzen::runtime::Runtime::new().unwrap();
        next.block_on(async {
            file.write_all(b"more").await.unwrap();
            file.flush().await.unwrap();
        });
        assert_eq!(std::fs::metadata(&path).unwrap().len(), (3 << 20) + 4);
    }
}

#[test]
fn reads_and_writes_move_one_position() {
    on_each(async || {
        let dir = Dir::new();
        let mut file = File::create_new(dir.join("file")).await.unwrap();
        file.write_all(b"hello, world!").await.unwrap();
        file.seek(SeekFrom::Start(0)).await.unwrap();
        let mut word = [0; 5];
        file.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"hello");
        file.write_all(b"; ").await.unwrap();
        file.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"world");
        // The position is the kernel's: std sees the same.
        let mut std = file.into_std().await;
        let mut rest = String::new();
        std.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "!");
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"hello; world!");
    });
}

#[test]
fn a_seek_that_nobody_waited_for_takes_place() {
    use blitzen::io::AsyncSeek;
    on_each(async || {
        let dir = Dir::new();
        std::fs::write(dir.join("file"), b"0123456789").unwrap();
        let mut file = File::open(dir.join("file")).await.unwrap();
        std::pin::Pin::new(&mut file)
            .start_seek(SeekFrom::End(-3))
            .unwrap();
        let again = std::pin::Pin::new(&mut file).start_seek(SeekFrom::Start(0));
        assert!(again.is_err(), "one at a time");
        assert_eq!(file.read_u8().await.unwrap(), b'7');
        let before_the_start = file.seek(SeekFrom::Current(-100)).await.unwrap_err();
        // std has no kind for the error of Windows.
        assert!(cfg!(windows) || before_the_start.kind() == ErrorKind::InvalidInput);
        assert_eq!(file.read_u8().await.unwrap(), b'8');
    });
}

#[test]
fn appends_go_to_the_end_wherever_the_file_stands() {
    on_each(async || {
        let dir = Dir::new();
        let path = dir.join("log");
        let mut options = OpenOptions::new();
        options.append(true).create(true).read(true);
        let mut one = options.open(&path).await.unwrap();
        let mut other = options.open(&path).await.unwrap();
        for _ in 0..10 {
            one.write_all(b"one\n").await.unwrap();
            one.flush().await.unwrap();
            other.seek(SeekFrom::Start(0)).await.unwrap();
            other.write_all(b"other\n").await.unwrap();
            other.flush().await.unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "one\nother\n".repeat(10));
    });
}

#[test]
fn positional_operations_leave_the_position_alone_and_run_beside_each_other() {
    on_each(async || {
        let dir = Dir::new();
        let file = File::create_new(dir.join("file")).await.unwrap();
        file.set_len(64 * 4096).await.unwrap();
        let file = Arc::new(file);
        let mut writes = blitzen::task::JoinSet::new();
        for block in 0..64_u64 {
            let file = file.clone();
            writes.spawn(async move {
                let bytes = vec![block as u8; 4096];
                file.write_all_at(bytes, block * 4096).await.0.unwrap();
            });
        }
        writes.join_all().await;
        let mut reads = blitzen::task::JoinSet::new();
        for block in 0..64_u64 {
            let file = file.clone();
            reads.spawn(async move {
                let (read, bytes) = file.read_exact_at(Box::new([0; 4096]), block * 4096).await;
                assert_eq!(read.unwrap(), 4096);
                assert!(bytes.iter().all(|&byte| byte == block as u8));
            });
        }
        reads.join_all().await;
        let mut file = Arc::into_inner(file).unwrap();
        assert_eq!(file.stream_position().await.unwrap(), 0);
        let (read, _) = file.read_at(Vec::with_capacity(8), 64 * 4096).await;
        assert_eq!(read.unwrap(), 0, "the end");
        let (read, _) = file.read_exact_at(vec![0; 8], 64 * 4096 - 4).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn vectored_operations_fill_one_buffer_after_another() {
    on_each(async || {
        let dir = Dir::new();
        let file = File::create_new(dir.join("file")).await.unwrap();
        let (written, back) = file
            .write_vectored_at(vec![b"one".to_vec(), Vec::new(), b"three".to_vec()], 2)
            .await;
        assert_eq!((written.unwrap(), back.len()), (8, 3));
        let bufs = vec![Vec::with_capacity(4), Vec::new(), Vec::with_capacity(100)];
        let (read, bufs) = file.read_vectored_at(bufs, 0).await;
        assert_eq!(read.unwrap(), 10);
        assert_eq!(bufs, [b"\0\0on".to_vec(), vec![], b"ethree".to_vec()]);
        // More than a ring takes at once.
        let big = vec![vec![7; 1 << 20]; 3];
        let (written, _) = file.write_vectored_at(big, 0).await;
        let written = written.unwrap();
        let (read, bytes) = file.read_at(vec![0; written], 0).await;
        assert_eq!(read.unwrap(), written);
        assert!(bytes.iter().all(|&byte| byte == 7));
    });
}

#[test]
fn bytes_read_from_a_pipe_for_a_future_that_was_dropped_are_there_for_the_next() {
    on_each(async || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut file = reading_end(reader);
        {
            let mut room = [0; 16];
            let mut read = pin!(file.read(&mut room));
            poll_once(read.as_mut()).await;
        }
        writer.write_all(b"abc").unwrap();
        let mut two = [0; 2];
        file.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"ab");
        drop(writer);
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"c");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_the_kernel_knows_nothing_of_beforehand_is_read_all_the_same() {
    // Of /proc and of memory file systems nobody can tell what is at hand.
    on_each(async || {
        let text = fs::read_to_string("/proc/self/status").await.unwrap();
        assert!(text.starts_with("Name:"));
        let mut file = File::open("/proc/self/status").await.unwrap();
        let mut begin = [0; 5];
        file.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"Name:");
        assert_eq!(file.stream_position().await.unwrap(), 5);
        if !std::path::Path::new("/dev/shm").is_dir() {
            return;
        }
        let path = format!("/dev/shm/blitzen-{}", std::process::id());
        let mut file = File::create(&path).await.unwrap();
        file.write_all(&vec![7; 300_000]).await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap().len(), 300_000);
        let mut file = File::open(&path).await.unwrap();
        // What is read for nobody is given back.
        for _ in 0..10 {
            file.rewind().await.unwrap();
            let ended = {
                let mut room = [0; 64];
                let mut read = pin!(file.read(&mut room));
                poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_ready())).await
            };
            let position = file.stream_position().await.unwrap();
            assert_eq!(position, if ended { 64 } else { 0 });
        }
        file.rewind().await.unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes.len(), 300_000);
        fs::remove_file(&path).await.unwrap();
    });
}

/// It has a position, in a way: but what was read does not come again.
#[cfg(target_os = "linux")]
#[test]
fn what_is_no_file_is_never_read_ahead() {
    use std::os::fd::{FromRawFd, OwnedFd};
    on_each(async || {
        // SAFETY: numbers; and the descriptor is new.
        let event = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, 0)) };
        let mut file = File::from(event.try_clone().unwrap());
        let mut room = [0; 8];
        let mut read = std::pin::pin!(file.read(&mut room));
        poll_once(read.as_mut()).await;
        std::io::Write::write_all(&mut std::fs::File::from(event), &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(read.await.unwrap(), 8);
        assert_eq!(u64::from_ne_bytes(room), 1);
    });
}

#[cfg(unix)]
#[test]
fn a_named_pipe_is_opened_when_the_other_end_is() {
    on_each(async || {
        let dir = Dir::new();
        let path = dir.join("fifo");
        make_fifo(&path);
        let mut open = pin!(File::open(&path));
        poll_once(open.as_mut()).await; // no writer yet
        let writer = std::thread::spawn({
            let path = path.clone();
            move || std::fs::File::options().write(true).open(path).unwrap()
        });
        let mut file = open.await.unwrap();
        writer.join().unwrap().write_all(b"hello").unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    });
}

#[test]
fn bytes_that_are_not_in_memory_are_fetched() {
    on_each(async || {
        let dir = Dir::new();
        let path = dir.join("file");
        let contents: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7) as u8).collect();
        std::fs::write(&path, &contents).unwrap();
        let std = std::fs::File::open(&path).unwrap();
        forget(&std);
        assert_eq!(fs::read(&path).await.unwrap(), contents);
        forget(&std);
        let mut file = File::open(&path).await.unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, contents);
        forget(&std);
        let (read, bytes) = file.read_exact_at(vec![0; 300_000], 500_000).await;
        assert_eq!(read.unwrap(), 300_000);
        assert_eq!(bytes, contents[500_000..800_000]);
        // A future that is dropped while the bytes come has read nothing.
        for _ in 0..20 {
            forget(&std);
            file.seek(SeekFrom::Start(123_456)).await.unwrap();
            {
                let mut room = [0; 64];
                let mut read = pin!(file.read(&mut room));
                poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_ready())).await;
            }
            let position = file.stream_position().await.unwrap();
            assert!([123_456, 123_520].contains(&position), "{position}");
        }
    });
}

#[test]
fn room_can_be_set_aside_and_taken_back() {
    on_each(async || {
        let dir = Dir::new();
        let mut file = File::create_new(dir.join("file")).await.unwrap();
        #[cfg(target_os = "linux")]
        match file.allocate(0, 10_000).await {
            Ok(()) => assert_eq!(file.metadata().await.unwrap().len(), 10_000),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
        }
        file.write_all(b"hello").await.unwrap();
        file.set_len(2).await.unwrap();
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"he");
        assert!(file.set_len(u64::MAX).await.is_err());
    });
}

#[test]
fn directories_are_read_to_their_end() {
    on_each(async || {
        let dir = Dir::new();
        for number in 0..200 {
            fs::write(dir.join(number.to_string()), b"").await.unwrap();
        }
        fs::create_dir(dir.join("a directory")).await.unwrap();
        #[cfg(unix)]
        fs::symlink("nowhere", dir.join("a link")).await.unwrap();
        let (mut files, mut dirs, mut links) = (0, 0, 0);
        let mut entries = fs::read_dir(dir.path()).await.unwrap();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            let file_type = entry.file_type().await.unwrap();
            files += usize::from(file_type.is_file());
            dirs += usize::from(file_type.is_dir());
            links += usize::from(file_type.is_symlink());
            assert!(entry.metadata().await.is_ok());
            #[cfg(unix)]
            assert!(entry.ino() > 0);
        }
        assert_eq!((files, dirs, links), (200, 1, usize::from(cfg!(unix))));
        assert!(entries.next_entry().await.unwrap().is_none());
    });
}

#[test]
fn paths_with_a_zero_in_them_are_refused() {
    on_each(async || {
        let path = "zero\0zero";
        for error in [
            File::open(path).await.unwrap_err(),
            fs::read(path).await.unwrap_err(),
            fs::remove_file(path).await.unwrap_err(),
            fs::rename(path, "other").await.unwrap_err(),
            fs::create_dir(path).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
    });
}

/// Nobody may be held up by it, not even the task: it can be given up.
#[cfg(target_os = "linux")]
#[test]
fn what_waits_for_another_program_can_be_given_up() {
    use blitzen::time::timeout;
    use std::time::Duration;
    on_each(async || {
        let dir = Dir::new();
        let [to_read, to_write] = ["to-read", "to-write"].map(|name| dir.join(name));
        make_fifo(&to_read);
        make_fifo(&to_write);
        let short = Duration::from_millis(5);
        assert!(timeout(short, fs::read(&to_read)).await.is_err());
        assert!(timeout(short, File::open(&to_read)).await.is_err());
        assert!(timeout(short, fs::write(&to_write, b"x")).await.is_err());
        assert!(timeout(short, File::create(&to_write)).await.is_err());
        for pipe in [to_read, to_write] {
            // What only names it does not wait.
            assert_eq!(fs::metadata(&pipe).await.unwrap().len(), 0);
            let other = dir.join("other");
            fs::rename(&pipe, &other).await.unwrap();
            // Lets the threads go that wait for the other end.
            let both = std::fs::File::options().read(true).write(true).open(&other);
            let _both = both.unwrap();
            fs::remove_file(&other).await.unwrap();
        }
    });
}
