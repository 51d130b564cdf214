//! A tour of the runtime: each part does some work, and a table shows what it cost.
//!
//! `cargo run --release --example tour`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use blitzen::channel::mpsc;
use blitzen::fs;
use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::net::{TcpListener, TcpStream};
use blitzen::runtime::{Builder, RuntimeMetrics};
use blitzen::task::{self, JoinSet};

fn main() {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    println!("{} workers", runtime.metrics().num_workers());
    let mut table = Table::new(runtime.metrics());
    runtime.block_on(async {
        table
            .row("spawn 100,000 tasks and join them", spawning())
            .await;
        table.row("one task feeds all workers", stealing()).await;
        table.row("a pipeline of channels", channels()).await;
        table.row("1,000 echoes on 10 sockets", sockets()).await;
        table.row("100 files, 10,000 reads", files()).await;
        table.row("100 blocking jobs", blocking()).await;
        table.row("10,000 tasks aborted", cancelling()).await;
        table.row("an abort waits for a shield", shielding()).await;
        table.row("a panic stays in its task", panicking()).await;
    });
    table.print();
    drop(runtime);
}

/// Tasks are cheap: one small allocation each, which the worker recycles.
async fn spawning() -> u64 {
    let mut tasks = JoinSet::new();
    for n in 0..100_000_u64 {
        tasks.spawn(async move { n % 2 });
    }
    let mut odd = 0;
    while let Some(output) = tasks.join_next().await {
        odd += output.unwrap();
    }
    assert_eq!(odd, 50_000);
    100_000
}

/// A task that spawns work faster than one worker can do it: the others steal.
async fn stealing() -> u64 {
    let done = Arc::new(AtomicU64::new(0));
    let root = blitzen::spawn({
        let done = done.clone();
        async move {
            let tasks: Vec<_> = (0..20_000)
                .map(|n| {
                    let done = done.clone();
                    blitzen::spawn(async move {
                        std::hint::black_box((0..n % 1_000).sum::<u64>());
                        done.fetch_add(1, Relaxed);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    });
    root.await.unwrap();
    done.load(Relaxed)
}

/// Three tasks pass values through two bounded channels.
async fn channels() -> u64 {
    const VALUES: u64 = 50_000;
    let (send, mut receive) = mpsc::channel(16);
    blitzen::spawn(async move {
        for n in 0..VALUES {
            send.send(n).await.unwrap();
        }
    });
    let (double, mut doubled) = mpsc::channel(16);
    blitzen::spawn(async move {
        while let Some(n) = receive.recv().await {
            double.send(2 * n).await.unwrap();
        }
    });
    let mut sum = 0;
    while let Some(n) = doubled.recv().await {
        sum += n;
    }
    assert_eq!(sum, VALUES * (VALUES - 1));
    VALUES
}

/// Each connection has a task; while it waits for its peer, other tasks run.
async fn sockets() -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = blitzen::spawn(async move {
        for _ in 0..10 {
            let (mut stream, _) = listener.accept().await.unwrap();
            blitzen::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                blitzen::io::copy(&mut reader, &mut writer).await.unwrap();
            });
        }
    });
    let mut clients = JoinSet::new();
    for _ in 0..10 {
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            for round in 0..100_u64 {
                stream.write_u64(round).await.unwrap();
                assert_eq!(stream.read_u64().await.unwrap(), round);
            }
            100
        });
    }
    server.await.unwrap();
    clients.join_all().await.into_iter().sum()
}

/// Data in the page cache is read at once; io_uring waits for the disk.
async fn files() -> u64 {
    let dir = std::env::temp_dir().join(format!("blitzen-tour-{}", std::process::id()));
    fs::create_dir_all(&dir).await.unwrap();
    let mut tasks = JoinSet::new();
    for n in 0..100_u64 {
        let path = dir.join(n.to_string());
        tasks.spawn(async move {
            fs::write(&path, vec![n as u8; 4_096]).await.unwrap();
            let file = fs::File::open(&path).await.unwrap();
            let mut block = vec![0; 16];
            for read in 0..100 {
                let (count, back) = file.read_exact_at(block, 16 * read).await;
                assert_eq!((count.unwrap(), back[0]), (16, n as u8));
                block = back;
            }
            100
        });
    }
    let reads = tasks.join_all().await.into_iter().sum();
    fs::remove_dir_all(&dir).await.unwrap();
    reads
}

/// Blocking code runs on separate threads, started when needed.
async fn blocking() -> u64 {
    let jobs: Vec<_> = (0..100)
        .map(|_| task::spawn_blocking(|| std::fs::metadata(".").unwrap().is_dir()))
        .collect();
    let mut done = 0;
    for job in jobs {
        done += u64::from(job.await.unwrap());
    }
    done
}

/// An aborted task ends at its next await; its handle returns an error.
async fn cancelling() -> u64 {
    let tasks: Vec<_> = (0..10_000)
        .map(|_| blitzen::spawn(std::future::pending::<()>()))
        .collect();
    tasks.iter().for_each(task::JoinHandle::abort);
    let mut cancelled = 0;
    for task in tasks {
        cancelled += u64::from(task.await.unwrap_err().is_cancelled());
    }
    cancelled
}

/// A shielded future runs to its end before an abort takes effect.
async fn shielding() -> u64 {
    let committed = Arc::new(AtomicU64::new(0));
    let (inside, entered) = blitzen::channel::oneshot::channel();
    let task = blitzen::spawn({
        let committed = committed.clone();
        async move {
            task::shield(async {
                inside.send(()).unwrap();
                for _ in 0..10 {
                    task::yield_now().await;
                }
                committed.store(1, Relaxed);
            })
            .await;
            std::future::pending::<()>().await
        }
    });
    entered.await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    committed.load(Relaxed)
}

/// A panic is an error for whoever joins the task, and affects nothing else.
async fn panicking() -> u64 {
    let error = blitzen::spawn(async {
        if std::env::args().count() > 0 {
            std::panic::resume_unwind(Box::new("on purpose")); // without a message
        }
    })
    .await
    .unwrap_err();
    u64::from(error.is_panic())
}

/// What each part of the tour cost.
struct Table {
    metrics: RuntimeMetrics,
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    count: u64,
    micros: u128,
    polls: u64,
    stolen: u64,
    parks: u64,
}

impl Table {
    fn new(metrics: RuntimeMetrics) -> Self {
        Self {
            metrics,
            rows: Vec::new(),
        }
    }

    /// Runs a part inside a task, so that it runs on a worker.
    async fn row(&mut self, name: &'static str, part: impl Future<Output = u64> + Send + 'static) {
        let before = self.metrics.stats().total();
        let start = Instant::now();
        let count = blitzen::spawn(part).await.unwrap();
        let micros = start.elapsed().as_micros();
        let after = self.metrics.stats().total();
        assert!(count > 0, "{name} did nothing");
        self.rows.push(Row {
            name,
            count,
            micros,
            polls: after.polls - before.polls,
            stolen: after.tasks_stolen - before.tasks_stolen,
            parks: after.park_events - before.park_events,
        });
    }

    fn print(&self) {
        println!(
            "{:<36}{:>9}{:>11}{:>10}{:>9}{:>8}",
            "", "count", "µs", "polls", "stolen", "parks"
        );
        for row in &self.rows {
            println!(
                "{:<36}{:>9}{:>11}{:>10}{:>9}{:>8}",
                row.name, row.count, row.micros, row.polls, row.stolen, row.parks
            );
        }
        let stats = self.metrics.stats();
        println!(
            "{} tasks in all, {} alive, {} blocking threads",
            stats.total_spawned(),
            stats.alive_tasks,
            self.metrics.num_blocking_threads()
        );
        for (index, worker) in stats.workers.iter().enumerate() {
            println!(
                "worker {index}: {} polls, {} lifo hits, {}/{} steals, {} batches, busy {:?}",
                worker.polls,
                worker.lifo_hits,
                worker.steal_successes,
                worker.steal_attempts,
                worker.global_batch_fetches,
                worker.busy()
            );
        }
    }
}
