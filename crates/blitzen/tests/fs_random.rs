//! Random programs on files and directories, run against std as their model: on a
//! disk and in memory, on every kind of runtime, with futures dropped after their
//! first poll.
//!
//! A failure prints the seed of its program; `BLITZEN_SEED` runs that one alone.

mod fs_common;

use std::collections::BTreeSet;
use std::fs::File as StdFile;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Seek, SeekFrom, Write};
#[cfg(unix)]
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;

use blitzen::fs::{self, File, OpenOptions};
use blitzen::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use fs_common::{Dir, file_systems, forget, runtimes};

/// What std has on Unix: there, an operation at an offset leaves the position alone.
#[cfg(windows)]
trait FileExt {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

#[cfg(windows)]
impl FileExt for StdFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let position = { self }.stream_position()?;
        let read = std::os::windows::fs::FileExt::seek_read(self, bytes, offset);
        { self }.seek(SeekFrom::Start(position))?;
        read
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let position = { self }.stream_position()?;
        { self }.seek(SeekFrom::Start(offset))?;
        let written = { self }.write_all(bytes);
        { self }.seek(SeekFrom::Start(position))?;
        written
    }
}

/// Programs for each file system, kind of runtime and place in it.
const PROGRAMS: u64 = 3;
const STEPS: usize = 60;

/// xorshift64*.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Mostly small, at times more than a worker moves at once.
    fn len(&mut self) -> usize {
        let most = [10, 100, 5000, 40_000, 600_000][self.below(5) as usize];
        self.below(most) as usize
    }

    fn bytes(&mut self) -> Vec<u8> {
        let (first, len) = (self.next() as u8, self.len());
        (0..len)
            .map(|i| first.wrapping_add((i / 7) as u8))
            .collect()
    }

    fn offset(&mut self) -> u64 {
        self.len() as u64
    }
}

/// Runs a program from each seed on everything there is.
fn run_programs<F: Future<Output = ()> + Send + 'static>(program: fn(Rng, PathBuf) -> F) {
    let seeds = match std::env::var("BLITZEN_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("BLITZEN_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..PROGRAMS,
    };
    for base in file_systems() {
        for (kind, runtime) in runtimes().into_iter().enumerate() {
            for seed in seeds.clone() {
                for on_worker in [true, false] {
                    let _note = Note(format!(
                        "BLITZEN_SEED={seed}: {} on runtime {kind}, on a worker: {on_worker}",
                        base.display()
                    ));
                    let dir = Dir::under(&base);
                    let task = program(Rng::new(seed + 1), dir.path().to_owned());
                    runtime.block_on(async {
                        match on_worker {
                            true => blitzen::spawn(task).await.unwrap(),
                            false => task.await,
                        }
                    });
                }
            }
        }
    }
}

/// Is printed if the test fails.
struct Note(String);

impl Drop for Note {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Polls a future once and drops it; what it gave, if it was ready.
async fn give_up<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The same open file twice: ours, and std's on a file of its own.
struct Pair {
    ours: File,
    model: StdFile,
}

struct Files {
    dir: PathBuf,
    /// Clones of each other.
    pairs: Vec<Pair>,
    is_append: bool,
}

#[derive(Clone, Copy)]
struct Options {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
}

impl Files {
    /// Opens both files with random options, as far as std does.
    async fn open(dir: &Path, rng: &mut Rng) -> Option<Self> {
        let options = Options {
            read: !rng.one_in(6),
            write: !rng.one_in(6),
            append: rng.one_in(6),
            truncate: rng.one_in(6),
            create: !rng.one_in(6),
            create_new: rng.one_in(12),
        };
        let (mut ours, mut model) = (OpenOptions::new(), StdFile::options());
        macro_rules! set {
            ($($option:ident)*) => {$(
                ours.$option(options.$option);
                model.$option(options.$option);
            )*};
        }
        set!(read write append truncate create create_new);
        let ours = ours.open(dir.join("ours")).await;
        let model = model.open(dir.join("model"));
        same_outcome("open", &ours, &model);
        Some(Self {
            dir: dir.to_owned(),
            pairs: vec![Pair {
                ours: ours.ok()?,
                model: model.ok()?,
            }],
            is_append: options.append,
        })
    }

    /// The bytes of both files.
    fn contents(&self) -> (Vec<u8>, Vec<u8>) {
        let read = |name| std::fs::read(self.dir.join(name)).unwrap();
        (read("ours"), read("model"))
    }

    /// Completes what is under way, and compares everything.
    async fn check(&mut self, what: &str) {
        for pair in &mut self.pairs {
            pair.ours.flush().await.unwrap();
        }
        let (ours, model) = self.contents();
        assert!(
            ours == model,
            "{what}: {} bytes, not {}",
            ours.len(),
            model.len()
        );
        for pair in &mut self.pairs {
            let position = pair.ours.stream_position().await.unwrap();
            assert_eq!(position, pair.model.stream_position().unwrap(), "{what}");
        }
    }
}

fn same_outcome<A, B>(what: &str, ours: &io::Result<A>, model: &io::Result<B>) {
    match (ours, model) {
        (Ok(_), Ok(_)) => {}
        (Err(ours), Err(model)) => assert_eq!(ours.kind(), model.kind(), "{what}"),
        (ours, model) => panic!(
            "{what}: {:?}, not {:?}",
            ours.as_ref().map(drop),
            model.as_ref().map(drop)
        ),
    }
}

/// What a read of `ours` has brought is what `model` has there; it may be less.
fn same_read(ours: io::Result<usize>, room: &[u8], mut model: &StdFile) {
    let mut expected = vec![0; room.len()];
    match ours {
        Ok(0) => {
            let read = model.read(&mut expected).unwrap();
            assert_eq!(read, 0, "ours is at its end");
        }
        Ok(read) => {
            model.read_exact(&mut expected[..read]).unwrap();
            assert!(room[..read] == expected[..read], "{read} other bytes");
        }
        Err(ours) => {
            let model = model.read(&mut expected).map(drop).unwrap_err();
            assert_eq!(ours.kind(), model.kind());
        }
    }
}

async fn random_file_program(mut rng: Rng, dir: PathBuf) {
    if rng.one_in(2) {
        let bytes = rng.bytes();
        for name in ["ours", "model"] {
            std::fs::write(dir.join(name), &bytes).unwrap();
        }
    }
    let mut files = None;
    for _ in 0..STEPS {
        if files.is_none() || rng.one_in(30) {
            files = Files::open(&dir, &mut rng).await;
            continue;
        }
        if let Some(files) = &mut files {
            file_step(files, &mut rng).await;
        }
    }
}

async fn file_step(files: &mut Files, rng: &mut Rng) {
    let index = rng.below(files.pairs.len() as u64) as usize;
    // Clones know nothing of what is under way in each other.
    for (other, pair) in files.pairs.iter().enumerate() {
        if other != index {
            pair.ours.metadata().await.unwrap();
        }
    }
    let gives_up = rng.one_in(3);
    let (is_append, count) = (files.is_append, files.pairs.len());
    let dir = files.dir.clone();
    let Pair { ours, model } = &mut files.pairs[index];
    match rng.below(16) {
        0..=2 => {
            let mut room = vec![0; rng.len() + 1];
            match gives_up {
                true => {
                    if let Some(read) = give_up(ours.read(&mut room)).await {
                        same_read(read, &room, model);
                    }
                }
                false => same_read(ours.read(&mut room).await, &room, model),
            }
        }
        3 | 4 => {
            let bytes = rng.bytes();
            if gives_up {
                match give_up(ours.write(&bytes)).await {
                    Some(Ok(written)) => match ours.flush().await {
                        Ok(()) => model.write_all(&bytes[..written]).unwrap(),
                        error => same_outcome("flush", &error, &model.write(&bytes)),
                    },
                    Some(error) => same_outcome("write", &error, &model.write(&bytes)),
                    None => {}
                }
                return;
            }
            let written = match ours.write_all(&bytes).await {
                // Another operation may be the one that completes it.
                Ok(()) if rng.one_in(2) => ours.flush().await,
                Ok(()) => ours.sync_data().await,
                error => error,
            };
            same_outcome("write_all", &written, &model.write_all(&bytes));
        }
        5 | 6 => {
            let offset = rng.offset();
            let to = match rng.below(3) {
                0 => SeekFrom::Start(offset),
                1 => SeekFrom::Current(offset as i64 - 50),
                _ => SeekFrom::End(50 - offset as i64),
            };
            let there = model.seek(to);
            if gives_up && there.is_ok() {
                // It takes place nevertheless, if it is begun at all: with a budget.
                blitzen::task::yield_now().await;
                give_up(ours.seek(to)).await;
                return;
            }
            let ours = ours.seek(to).await;
            same_outcome("seek", &ours, &there);
            assert_eq!(ours.ok(), there.ok());
        }
        7 => {
            let len = rng.offset();
            if !gives_up {
                return same_outcome("set_len", &ours.set_len(len).await, &model.set_len(len));
            }
            let before = ours.metadata().await.unwrap().len();
            give_up(ours.set_len(len)).await;
            // Over, or never begun: and not only later.
            let after = ours.metadata().await.unwrap().len();
            assert!([before, len].contains(&after), "{after} bytes");
            if after != before {
                model.set_len(len).unwrap();
            }
        }
        8 => {
            let (mut expected, offset) = (vec![0; rng.len() + 1], rng.offset());
            if gives_up {
                give_up(ours.read_at(expected, offset)).await;
                return;
            }
            let (read, bytes) = ours.read_at(vec![0; expected.len()], offset).await;
            let model = model.read_at(&mut expected, offset);
            same_outcome("read_at", &read, &model);
            if let (Ok(read), Ok(model)) = (read, model) {
                assert!(read <= model && (read > 0 || model == 0));
                assert!(bytes[..read] == expected[..read]);
            }
        }
        9 | 10 if !is_append => {
            let (bytes, offset) = (rng.bytes(), rng.offset());
            if gives_up {
                give_up(ours.write_at(bytes.clone(), offset)).await;
                // Over now. Whatever it has written, it was that.
                ours.metadata().await.unwrap();
                let written = std::fs::read(dir.join("ours")).unwrap();
                let before = std::fs::read(dir.join("model")).unwrap();
                if written != before {
                    model.write_all_at(&bytes, offset).unwrap();
                }
                return;
            }
            let (written, _) = ours.write_all_at(bytes.clone(), offset).await;
            let model = model.write_all_at(&bytes, offset);
            if !bytes.is_empty() {
                same_outcome("write_all_at", &written, &model);
            }
        }
        11 => match gives_up {
            true => drop(give_up(ours.sync_all()).await),
            false => same_outcome("sync_all", &ours.sync_all().await, &model.sync_all()),
        },
        12 => {
            if gives_up {
                give_up(ours.metadata()).await;
                return;
            }
            let ours = ours.metadata().await.unwrap().len();
            assert_eq!(ours, model.metadata().unwrap().len());
        }
        13 if count < 3 => {
            if gives_up {
                give_up(ours.try_clone()).await;
                return;
            }
            let ours = ours.try_clone().await.unwrap();
            let model = model.try_clone().unwrap();
            files.pairs.push(Pair { ours, model });
        }
        13 => drop(files.pairs.swap_remove(index)),
        14 => {
            ours.set_max_buf_size(rng.len() + 1000); // each is a trip to the pool
            // Nothing of it is in memory for the next reads, where there is a disk.
            ours.sync_all().await.unwrap();
            forget(&StdFile::open(dir.join("ours")).unwrap());
        }
        _ => {
            let Pair { ours, model } = files.pairs.swap_remove(index);
            let ours = match ours.try_into_std() {
                Ok(std) => std,
                Err(file) => file.into_std().await,
            };
            let ours = File::from_std(ours);
            files.pairs.push(Pair { ours, model });
        }
    }
    files.check("after a step").await;
}

#[test]
fn random_programs_on_files_do_what_std_does() {
    run_programs(random_file_program);
}

async fn random_dir_program(mut rng: Rng, dir: PathBuf) {
    let (ours, model) = (dir.join("ours"), dir.join("model"));
    for base in [&ours, &model] {
        std::fs::create_dir(base).unwrap();
    }
    const NAMES: [&str; 7] = ["a", "b", "c", "a/x", "a/y", "b/x", "b/x/z"];
    for _ in 0..STEPS {
        let [one, two] = [(); 2].map(|()| NAMES[rng.below(NAMES.len() as u64) as usize]);
        let bytes = rng.bytes();
        let ((our_one, our_two), (one, two)) = (
            (ours.join(one), ours.join(two)),
            (model.join(one), model.join(two)),
        );
        macro_rules! both {
            ($operation:ident($($ours:expr),*), ($($model:expr),*)) => {{
                let ours = fs::$operation($($ours),*).await;
                let model = std::fs::$operation($($model),*);
                same_outcome(stringify!($operation), &ours, &model);
                (ours, model)
            }};
        }
        match rng.below(15) {
            0 | 1 => drop(both!(create_dir(&our_one), (&one))),
            2 => drop(both!(create_dir_all(&our_one), (&one))),
            3 | 4 => drop(both!(write(&our_one, &bytes), (&one, &bytes))),
            5 => drop(both!(remove_file(&our_one), (&one))),
            6 => drop(both!(remove_dir(&our_one), (&one))),
            7 if rng.one_in(3) => drop(both!(remove_dir_all(&our_one), (&one))),
            7 | 8 => drop(both!(rename(&our_one, &our_two), (&one, &two))),
            9 => drop(both!(hard_link(&our_one, &our_two), (&one, &two))),
            #[cfg(unix)]
            10 => {
                let ours = fs::symlink("x", &our_one).await;
                same_outcome("symlink", &ours, &std::os::unix::fs::symlink("x", &one));
            }
            11 => {
                let (ours, model) = both!(read(&our_one), (&one));
                assert!(ours.ok() == model.ok());
            }
            12 => {
                let (ours, model) = both!(metadata(&our_one), (&one));
                let facts = |data: std::fs::Metadata| (data.is_dir(), data.permissions());
                assert_eq!(ours.ok().map(facts), model.ok().map(facts));
                let (ours, model) = both!(symlink_metadata(&our_one), (&one));
                let facts = |data: std::fs::Metadata| data.file_type();
                assert_eq!(ours.ok().map(facts), model.ok().map(facts));
                drop(both!(read_link(&our_one), (&one)));
                drop(both!(canonicalize(&our_one), (&one)));
            }
            13 => {
                let ours = fs::try_exists(&our_one).await;
                assert_eq!(ours.ok(), one.try_exists().ok());
            }
            _ => drop(both!(copy(&our_one, &our_two), (&one, &two))),
        }
        for name in ["", "a", "b", "c"] {
            assert_eq!(listing(&ours.join(name)).await, names_in(&model.join(name)));
        }
    }
}

/// The names in a directory, if it is one, as we read them.
async fn listing(dir: &Path) -> Option<BTreeSet<(std::ffi::OsString, bool)>> {
    let mut entries = fs::read_dir(dir).await.ok()?;
    let mut names = BTreeSet::new();
    while let Some(entry) = entries.next_entry().await.unwrap() {
        names.insert((entry.file_name(), entry.file_type().await.unwrap().is_dir()));
    }
    Some(names)
}

/// The same, as std does.
fn names_in(dir: &Path) -> Option<BTreeSet<(std::ffi::OsString, bool)>> {
    let entries = std::fs::read_dir(dir).ok()?.map(|entry| entry.unwrap());
    Some(
        entries
            .map(|entry| (entry.file_name(), entry.file_type().unwrap().is_dir()))
            .collect(),
    )
}

#[test]
fn random_programs_on_directories_do_what_std_does() {
    run_programs(random_dir_program);
}
