//! Operations whose futures are dropped, and what the next operation on the file
//! then sees: a read that was given up has read nothing, and a change that was
//! given up is over, or has never begun, before the next operation starts.

mod fs_common;

use std::future::{Future, poll_fn};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;

use blitzen::fs::File;
use blitzen::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use blitzen::task::coop::unconstrained;
use blitzen::task::spawn_blocking;
use fs_common::{Dir, file_systems, forget, reading_end, runtimes_with};

/// Polls a future once and drops it; whether it was done. The poll begins the operation even if
/// one before it took so long that the budget is used up.
async fn give_up(future: impl Future) -> bool {
    let mut future = pin!(unconstrained(future));
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// When the operation after the one that was given up starts.
#[derive(Clone, Copy, Debug)]
enum Next {
    AtOnce,
    /// When the only thread of the pool has run what was given up.
    WhenPoolIsIdle,
}

fn one_thread(builder: &mut blitzen::runtime::Builder) {
    builder.max_blocking_threads(1);
}

/// Runs a test on every file system and every kind of runtime, on workers and
/// beside them. Their pools have one thread: jobs run in the order in which they
/// came.
fn everywhere<F: Future<Output = ()> + Send + 'static>(test: impl Fn(PathBuf, Next) -> F) {
    for base in file_systems() {
        for runtime in runtimes_with(one_thread) {
            for next in [Next::AtOnce, Next::WhenPoolIsIdle] {
                let dir = Dir::under(&base);
                let task = test(dir.join("worker"), next);
                runtime.block_on(async { blitzen::spawn(task).await.unwrap() });
                runtime.block_on(test(dir.join("beside"), next));
            }
        }
    }
}

/// A file with `content`, of which a read was begun and given up. It stands at its
/// first byte, unless the read was done at once.
async fn after_a_read(path: &Path, content: &[u8], next: Next) -> Option<File> {
    std::fs::write(path, content).unwrap();
    let std = std::fs::File::options().read(true).write(true).open(path);
    let mut file = File::from_std(std.unwrap());
    let is_done = give_up(file.read(&mut [0; 5])).await;
    if let Next::WhenPoolIsIdle = next {
        spawn_blocking(|| ()).await.unwrap();
    }
    (!is_done).then_some(file)
}

async fn read_all(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).await.unwrap();
    bytes
}

#[test]
fn a_shorter_file_has_no_bytes_beyond_its_end() {
    everywhere(async |path, next| {
        if let Some(file) = after_a_read(&path, b"hello, world", next).await {
            file.set_len(2).await.unwrap();
            assert_eq!(read_all(file).await, b"he");
        }
    });
}

#[test]
fn a_longer_file_goes_on_behind_its_old_end() {
    everywhere(async |path, next| {
        if let Some(file) = after_a_read(&path, b"", next).await {
            file.set_len(3).await.unwrap();
            assert_eq!(read_all(file).await, [0; 3]);
        }
    });
}

#[cfg(any(target_os = "linux", target_os = "freebsd"))]
#[test]
fn room_that_was_set_aside_is_read_as_zeroes() {
    everywhere(async |path, next| {
        if let Some(file) = after_a_read(&path, b"", next).await {
            file.allocate(0, 3).await.unwrap();
            assert_eq!(read_all(file).await, [0; 3]);
        }
    });
}

#[test]
fn a_clone_misses_no_bytes() {
    everywhere(async |path, next| {
        if let Some(file) = after_a_read(&path, b"hello, world", next).await {
            let clone = file.try_clone().await.unwrap();
            spawn_blocking(|| ()).await.unwrap();
            assert_eq!(read_all(clone).await, b"hello, world");
            assert_eq!(read_all(file).await, b"", "they share one position");
        }
    });
}

#[test]
fn a_clone_made_before_misses_no_bytes() {
    everywhere(async |path, next| {
        std::fs::write(&path, b"hello, world").unwrap();
        let std = std::fs::File::open(&path).unwrap();
        let clone = File::from_std(std.try_clone().unwrap());
        let mut file = File::from_std(std);
        let is_done = give_up(file.read(&mut [0; 5])).await;
        if let Next::WhenPoolIsIdle = next {
            spawn_blocking(|| ()).await.unwrap();
        }
        if !is_done {
            assert_eq!(read_all(clone).await, b"hello, world");
            assert_eq!(read_all(file).await, b"");
        }
    });
}

#[test]
fn positional_writes_are_read() {
    everywhere(async |path, next| {
        if let Some(file) = after_a_read(&path, b"hello, world", next).await {
            file.write_all_at("J", 0).await.0.unwrap();
            assert_eq!(read_all(file).await, b"Jello, world");
        }
    });
}

// Elsewhere the pool reads ahead.
#[cfg(target_os = "linux")]
#[test]
fn what_another_wrote_meanwhile_is_read() {
    everywhere(async |path, next| {
        if let Some(file) = after_a_read(&path, b"hello", next).await {
            std::fs::write(&path, b"other bytes").unwrap();
            assert_eq!(read_all(file).await, b"other bytes");
        }
    });
}

#[test]
fn the_position_is_where_it_was() {
    everywhere(async |path, next| {
        if let Some(mut file) = after_a_read(&path, b"hello, world", next).await {
            assert_eq!(file.stream_position().await.unwrap(), 0);
            assert_eq!(file.seek(SeekFrom::Current(7)).await.unwrap(), 7);
            assert_eq!(read_all(file).await, b"world");
        }
    });
}

#[test]
fn a_write_goes_to_where_the_reader_was() {
    everywhere(async |path, next| {
        if let Some(mut file) = after_a_read(&path, b"hello, world", next).await {
            file.write_all(b"J").await.unwrap();
            file.flush().await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"Jello, world");
            assert_eq!(read_all(file).await, b"ello, world");
        }
    });
}

#[test]
fn what_changes_nothing_leaves_the_bytes_to_the_next_read() {
    everywhere(async |path, next| {
        if let Some(mut file) = after_a_read(&path, b"hello, world", next).await {
            assert_eq!(file.metadata().await.unwrap().len(), 12);
            file.flush().await.unwrap();
            file.sync_all().await.unwrap();
            file.sync_data().await.unwrap();
            let (read, bytes) = file.read_at(Vec::with_capacity(3), 7).await;
            assert_eq!((read.unwrap(), &bytes[..]), (3, &b"wor"[..]));
            assert_eq!(read_all(file).await, b"hello, world");
        }
    });
}

#[test]
fn a_smaller_buffer_gets_the_bytes_one_by_one() {
    everywhere(async |path, next| {
        if let Some(mut file) = after_a_read(&path, b"hello", next).await {
            file.set_max_buf_size(1);
            let mut room = [0; 5];
            assert_eq!(file.read(&mut room).await.unwrap(), 1);
            assert_eq!(file.read(&mut room[1..2]).await.unwrap(), 1);
            assert_eq!(&room[..2], b"he");
            assert_eq!(file.stream_position().await.unwrap(), 2);
        }
    });
}

#[test]
fn std_gets_the_file_where_the_reader_was() {
    everywhere(async |path, next| {
        if let Some(file) = after_a_read(&path, b"hello", next).await {
            let mut std = file.into_std().await;
            assert_eq!(std.stream_position().unwrap(), 0);
        }
        if let Some(file) = after_a_read(&path, b"hello", next).await {
            match file.try_into_std() {
                Ok(mut std) => assert_eq!(std.stream_position().unwrap(), 0),
                Err(file) => assert_eq!(read_all(file).await, b"hello"),
            }
        }
    });
}

#[test]
fn a_seek_that_was_given_up_takes_place_before_any_other_operation() {
    everywhere(async |path, _| {
        for operation in 0..5 {
            std::fs::write(&path, b"hello").unwrap();
            let std = std::fs::File::options().read(true).write(true).open(&path);
            let mut file = File::from_std(std.unwrap());
            // Large, so that it is on its way for a while.
            file.write_all(&[b'x'; 1 << 20]).await.unwrap();
            give_up(file.seek(SeekFrom::End(-1))).await;
            let last = (1 << 20) - 1;
            let position = match operation {
                0 => {
                    file.set_len(10).await.unwrap();
                    file.stream_position().await.unwrap()
                }
                1 => {
                    let (written, _) = file.write_at("y", 1 << 20).await;
                    written.unwrap();
                    file.stream_position().await.unwrap()
                }
                2 => {
                    let mut clone = file.try_clone().await.unwrap();
                    clone.stream_position().await.unwrap()
                }
                3 => file.into_std().await.stream_position().unwrap(),
                _ => {
                    file.metadata().await.unwrap();
                    file.try_into_std().unwrap().stream_position().unwrap()
                }
            };
            assert_eq!(position, last, "operation {operation}");
        }
    });
}

#[test]
fn a_change_that_was_given_up_is_over_before_the_next_one() {
    everywhere(async |path, _| {
        for change in 0..3 {
            std::fs::write(&path, b"hello, world").unwrap();
            let std = std::fs::File::options().read(true).write(true).open(&path);
            let mut file = File::from_std(std.unwrap());
            // The pool's thread is busy for a while.
            let (go_on, wait) = std::sync::mpsc::channel::<()>();
            let busy = spawn_blocking(move || wait.recv());
            match change {
                0 => drop(give_up(file.set_len(2)).await),
                1 => drop(give_up(file.write_at("HELLO", 0)).await),
                _ => drop(give_up(file.write_vectored_at(vec!["HE", "LLO"], 0)).await),
            }
            go_on.send(()).unwrap();
            file.write_all(b"01234").await.unwrap();
            file.flush().await.unwrap();
            busy.await.unwrap().unwrap();
            spawn_blocking(|| ()).await.unwrap();
            let content = std::fs::read(&path).unwrap();
            assert_eq!(
                &content[..5.min(content.len())],
                b"01234",
                "change {change}"
            );
        }
    });
}

/// The bytes of a pipe have no position to go back to: they are kept.
#[test]
fn a_pipe_keeps_what_was_read_for_nobody() {
    everywhere(async |_, next| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut file = reading_end(reader);
        assert!(!give_up(file.read(&mut [0; 5])).await);
        writer.write_all(b"hello").unwrap();
        if let Next::WhenPoolIsIdle = next {
            spawn_blocking(|| ()).await.unwrap();
        }
        drop(writer);
        assert_eq!(read_all(file).await, b"hello");
    });
}

/// So many bytes that reading them takes a while.
const MANY: usize = 32 << 20;

/// Runs a test on runtimes whose pools have two threads.
fn with_two_threads<F: Future<Output = ()> + Send + 'static>(test: impl Fn(PathBuf) -> F) {
    for runtime in runtimes_with(|builder| {
        builder.max_blocking_threads(2);
    }) {
        let dir = Dir::new();
        runtime.block_on(test(dir.join("file")));
    }
}

/// A file at its first byte, of which `MANY` bytes are likely to be read just now by the job of a
/// read that was given up. `None` if the read was done at once.
async fn during_a_read(path: &Path) -> Option<File> {
    let mut options = std::fs::File::options();
    options.read(true).write(true).create(true).truncate(false);
    let std = options.open(path).unwrap();
    std.set_len(MANY as u64).unwrap();
    forget(&std);
    let mut file = File::from_std(std);
    file.set_max_buf_size(MANY);
    let is_done = give_up(file.read(&mut vec![0; MANY])).await;
    spawn_blocking(|| ()).await.unwrap(); // the other thread runs it after the first has the job
    (!is_done).then_some(file)
}

#[test]
fn a_seek_during_a_read_that_was_given_up_is_not_undone() {
    with_two_threads(async |path| {
        for _ in 0..2 {
            if let Some(mut file) = during_a_read(&path).await {
                assert_eq!(file.seek(SeekFrom::Start(100)).await.unwrap(), 100);
                assert_eq!(file.into_std().await.stream_position().unwrap(), 100);
            }
        }
    });
}

#[test]
fn a_write_during_a_read_that_was_given_up_moves_the_position() {
    with_two_threads(async |path| {
        for _ in 0..2 {
            if let Some(mut file) = during_a_read(&path).await {
                file.write_all(b"JK").await.unwrap();
                file.flush().await.unwrap();
                let mut std = file.into_std().await;
                assert_eq!(std.stream_position().unwrap(), 2);
                let mut bytes = [0; 3];
                std.rewind().unwrap();
                std.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"JK\0");
            }
        }
    });
}

#[test]
fn a_read_after_a_seek_gets_the_bytes_from_there() {
    with_two_threads(async |path| {
        for _ in 0..2 {
            if let Some(mut file) = during_a_read(&path).await {
                file.seek(SeekFrom::End(-2)).await.unwrap();
                assert_eq!(read_all(file).await.len(), 2);
            }
        }
    });
}

#[test]
fn operations_at_offsets_on_two_clones_leave_the_position_alone() {
    with_two_threads(async |path| {
        std::fs::write(&path, [0; 1000]).unwrap();
        let std = std::fs::File::options().read(true).write(true).open(&path);
        let mut file = File::from_std(std.unwrap());
        file.seek(SeekFrom::Start(7)).await.unwrap();
        let clone = file.try_clone().await.unwrap();
        for _ in 0..500 {
            let one = file.read_at(Vec::with_capacity(100), 50);
            let other = clone.write_at("x", 200);
            let ((read, _), (written, _)) = blitzen::join!(one, other);
            assert_eq!((read.unwrap(), written.unwrap()), (100, 1));
            assert_eq!(file.stream_position().await.unwrap(), 7);
        }
    });
}
