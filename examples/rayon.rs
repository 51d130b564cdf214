//! Tasks whose polls run on rayon's threads, where parallel iterators find their pool.
//!
//! A task reads numbers from a channel, as any other task does. Each of its polls is a job of
//! rayon's pool, so that what it computes in parallel shares that pool and blocks no worker.
//!
//! ```text
//! cargo run --release --example rayon
//! ```

use std::sync::Arc;
use std::time::Instant;

use blitzen::channel::mpsc;
use blitzen::dispatch::Dispatcher;
use rayon::prelude::*;

const CHUNKS: u64 = 16;
const CHUNK: u64 = 20_000;

#[blitzen::main]
async fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = Arc::new(pool.expect("the system has two threads for us"));
    let on_rayon = Dispatcher::from_fn({
        let pool = pool.clone();
        move |job| pool.spawn(move || job.run())
    });

    let (tx, mut rx) = mpsc::channel(4);
    let sum = on_rayon.spawn(async move {
        let mut sum = 0;
        while let Some(chunk) = rx.recv().await {
            assert!(rayon::current_thread_index().is_some(), "always on rayon");
            sum += primes(chunk);
        }
        sum
    });

    let begun = Instant::now();
    for chunk in 0..CHUNKS {
        tx.send(chunk).await.expect("the task receives");
    }
    drop(tx);
    let primes = sum.await.expect("the task does not panic");
    println!("{primes} primes below {}", CHUNKS * CHUNK);
    println!("took {:?}; {:?}", begun.elapsed(), on_rayon.metrics());
}

/// Counts the primes of a chunk, in parallel.
fn primes(chunk: u64) -> usize {
    let is_prime = |n: &u64| {
        *n > 1
            && (2..)
                .take_while(|d| d * d <= *n)
                .all(|d| !n.is_multiple_of(d))
    };
    let numbers = chunk * CHUNK..(chunk + 1) * CHUNK;
    numbers.into_par_iter().filter(is_prime).count()
}
