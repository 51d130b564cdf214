//! Sharded runtimes: tasks that never move, listeners that spread connections, and bad days.

mod engine_common;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::pending;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream as StdStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::runtime::Builder;
use blitzen::shard::{Balance, ShardedListener, ShardedRuntime};
use blitzen::sync::Notify;
use blitzen::task::yield_now;
use engine_common::must_end;

fn sharded(shards: usize) -> ShardedRuntime {
    Builder::sharded().shards(shards).build().unwrap()
}

#[test]
fn each_shard_runs_its_future_on_a_thread_of_its_own() {
    let runtime = sharded(3);
    let threads = runtime.run_each(|shard| async move {
        let before = thread::current().id();
        let local = Rc::new(Cell::new(0));
        for _ in 0..100 {
            let task = shard.spawn_local({
                let local = local.clone();
                async move {
                    yield_now().await;
                    local.set(local.get() + 1);
                    thread::current().id()
                }
            });
            assert_eq!(task.await.unwrap(), before);
        }
        assert_eq!(local.get(), 100);
        (shard.index(), before)
    });
    let indices: Vec<usize> = threads.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [0, 1, 2]);
    let distinct: HashSet<ThreadId> = threads.iter().map(|(_, thread)| *thread).collect();
    assert_eq!(distinct.len(), 3);
    // They stay the same from one run to the next.
    let again = runtime.run_each(|_| async { thread::current().id() });
    assert!(again.iter().eq(threads.iter().map(|(_, thread)| thread)));
}

#[test]
fn a_task_stays_on_the_shard_that_it_was_spawned_on() {
    let runtime = sharded(3);
    let threads = runtime.run_each(|_| async { thread::current().id() });
    let (done, ended) = mpsc::channel();
    for (index, &expected) in threads.iter().enumerate() {
        let done = done.clone();
        runtime.spawn_on(index, async move {
            for _ in 0..50 {
                assert_eq!(thread::current().id(), expected);
                yield_now().await;
            }
            blitzen::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(thread::current().id(), expected);
            done.send(()).unwrap();
        });
    }
    drop(done);
    assert_eq!(ended.iter().count(), 3);
    // From one shard to another, and back through the handle.
    runtime.run_each(move |shard| {
        let threads = threads.clone();
        async move {
            assert_eq!(threads.len(), shard.count());
            for (index, &expected) in threads.iter().enumerate() {
                let there = shard.spawn_on(index, async { thread::current().id() });
                assert_eq!(there.await.unwrap(), expected);
            }
        }
    });
}

#[test]
fn timers_files_sockets_and_blocking_code_work_on_a_shard() {
    let runtime = sharded(2);
    runtime.run_each(|_| async {
        let thread = thread::current().id();
        blitzen::time::sleep(Duration::from_millis(1)).await;
        let listener = blitzen::net::TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap();
        let connect = blitzen::net::TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = blitzen::join!(connect, listener.accept());
        let (mut client, mut server) = (client.unwrap(), accepted.unwrap().0);
        client.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        let file = blitzen::fs::read(std::env::current_exe().unwrap()).await;
        assert!(!file.unwrap().is_empty());
        let blocking = blitzen::task::spawn_blocking(|| thread::current().id());
        assert_ne!(blocking.await.unwrap(), thread);
        assert_eq!(thread::current().id(), thread);
    });
}

#[test]
fn panics_come_out_when_all_have_ended() {
    let runtime = sharded(3);
    let ended = Arc::new(AtomicUsize::new(0));
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let ended = ended.clone();
        runtime.run_each(move |shard| {
            let ended = ended.clone();
            async move {
                if shard.index() == 1 {
                    panic!("the second one");
                }
                yield_now().await;
                ended.fetch_add(1, SeqCst);
            }
        })
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"the second one"));
    assert_eq!(ended.load(SeqCst), 2);
    assert_eq!(
        runtime.run_each(|shard| async move { shard.index() }),
        [0, 1, 2]
    );
}

struct OnDrop(mpsc::Sender<ThreadId>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.send(thread::current().id()).unwrap();
    }
}

#[test]
fn dropping_the_runtime_drops_each_future_on_its_thread_and_ends_the_threads() {
    must_end(|| {
        let runtime = sharded(2);
        let (dropped, drops) = mpsc::channel();
        let threads = runtime.run_each(move |shard| {
            let on_drop = OnDrop(dropped.clone());
            async move {
                drop(shard.spawn_local(async move {
                    let _not_send = (Rc::new(on_drop), pending::<()>().await);
                }));
                yield_now().await;
                thread::current().id()
            }
        });
        drop(runtime);
        // All senders are gone, so the futures were dropped, and the threads have ended.
        let drops: HashSet<ThreadId> = drops.iter().collect();
        assert_eq!(drops, threads.into_iter().collect());
    });
}

#[test]
fn a_runtime_may_be_dropped_by_one_of_its_own_tasks() {
    must_end(|| {
        let runtime = sharded(2);
        let (dropped, drops) = mpsc::channel();
        let slot = Arc::new(Mutex::new(None));
        for index in 0..2 {
            let (slot, on_drop) = (slot.clone(), OnDrop(dropped.clone()));
            runtime.spawn_on(index, async move {
                let _on_drop = on_drop;
                loop {
                    drop::<Option<ShardedRuntime>>(slot.lock().unwrap().take());
                    yield_now().await;
                }
            });
        }
        drop(dropped);
        *slot.lock().unwrap() = Some(runtime);
        assert_eq!(drops.iter().count(), 2);
    });
}

#[test]
fn running_on_each_shard_is_refused_inside_a_runtime() {
    let runtime = Arc::new(sharded(1));
    let own = runtime.clone();
    let (done, ended) = mpsc::channel();
    runtime.spawn_on(0, async move {
        let refused = catch_unwind(AssertUnwindSafe(|| own.run_each(|_| async {})));
        done.send(refused.is_err()).unwrap();
        drop(own);
    });
    assert!(ended.recv().unwrap());
}

#[test]
fn settings_that_cannot_be_met_are_errors() {
    #[cfg(target_os = "linux")]
    {
        let error = Builder::sharded().cores([1023]).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("core 1023"), "{error}");
    }
    let error = Builder::sharded().thread_name("a\0b").build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = Builder::sharded()
        .shards(2)
        .configure(|_| panic!("on purpose"));
    assert!(error.build().unwrap_err().to_string().contains("panicked"));
    assert!(catch_unwind(|| Builder::sharded().shards(0)).is_err());
    let runtime = sharded(1);
    let missing = catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_on(1, async {}))));
    let message = missing.unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("there is no shard 1"), "{message}");
}

/// Serves `listener` on all shards: echoes a byte at a time until the client leaves. Returns the
/// stop signal of each shard.
fn serve(runtime: &ShardedRuntime, listener: &ShardedListener) -> Vec<Arc<Notify>> {
    let stops: Vec<Arc<Notify>> = (0..runtime.shards()).map(|_| Arc::default()).collect();
    runtime.run_each({
        let (listener, stops) = (listener.clone(), stops.clone());
        move |shard| {
            let mut part = listener.on(&shard).unwrap();
            let stop = stops[shard.index()].clone();
            let tasks = Rc::new(RefCell::new(0));
            drop(shard.clone().spawn_local(async move {
                loop {
                    let accepted = blitzen::select! {
                        accepted = part.accept() => accepted,
                        () = stop.notified() => return,
                    };
                    let (mut stream, open) = accepted.unwrap();
                    *tasks.borrow_mut() += 1;
                    shard.spawn_local({
                        let tasks = tasks.clone();
                        async move {
                            let mut byte = [0];
                            while stream.read(&mut byte).await.is_ok_and(|read| read == 1) {
                                stream.write_all(&byte).await.unwrap();
                            }
                            *tasks.borrow_mut() -= 1;
                            drop(open);
                        }
                    });
                }
            }));
            async {}
        }
    });
    stops
}

fn client(listener: &ShardedListener) -> StdStream {
    try_client(listener).unwrap()
}

fn try_client(listener: &ShardedListener) -> std::io::Result<StdStream> {
    let mut client = StdStream::connect(listener.local_addr())?;
    client.write_all(b"x")?;
    client.read_exact(&mut [0])?;
    Ok(client)
}

fn counts(runtime: &ShardedRuntime, listener: &ShardedListener) -> Vec<usize> {
    let shards = 0..runtime.shards();
    shards
        .map(|index| listener.open_connections(index))
        .collect()
}

/// Waits until the shards have so many connections open.
fn wait_for_counts(runtime: &ShardedRuntime, listener: &ShardedListener, expected: &[usize]) {
    while counts(runtime, listener) != expected {
        thread::yield_now();
    }
}

#[test]
fn exact_balance_gives_every_shard_as_many_connections() {
    must_end(|| {
        let runtime = sharded(3);
        let listener = runtime.listen("127.0.0.1:0", Balance::Exact).unwrap();
        serve(&runtime, &listener);
        let mut clients: Vec<StdStream> = (0..30).map(|_| client(&listener)).collect();
        assert_eq!(counts(&runtime, &listener), [10, 10, 10]);
        // They went to the shards in turn. Those of the second shard leave, and come back there.
        let left: Vec<StdStream> = (1..=10).rev().map(|n| clients.remove(3 * n - 2)).collect();
        drop(left);
        wait_for_counts(&runtime, &listener, &[10, 0, 10]);
        clients.extend((0..10).map(|_| client(&listener)));
        assert_eq!(counts(&runtime, &listener), [10, 10, 10]);
        clients.extend((0..2).map(|_| client(&listener)));
        assert_eq!(counts(&runtime, &listener).iter().sum::<usize>(), 32);
        assert!(counts(&runtime, &listener).iter().all(|count| *count <= 11));
    });
}

#[test]
fn exact_balance_passes_over_shards_that_take_no_part() {
    must_end(|| {
        let runtime = sharded(3);
        let listener = runtime.listen("127.0.0.1:0", Balance::Exact).unwrap();
        let stops = serve(&runtime, &listener);
        stops[1].notify_one();
        let one_stopped = || {
            let client = try_client(&listener).ok()?;
            (counts(&runtime, &listener)[1] == 0).then_some(client)
        };
        // Until the part is dropped, the shard may still get some. One that waits there when it is
        // dropped is closed.
        let mut clients = Vec::new();
        while clients.len() < 10 {
            match one_stopped() {
                Some(client) => clients.push(client),
                None => clients.clear(),
            }
        }
    });
}

#[test]
fn exact_balance_does_not_wait_for_a_shard_that_has_ceased_to_accept() {
    const QUEUE: usize = 128;
    must_end(|| {
        let runtime = sharded(2);
        let listener = runtime.listen("127.0.0.1:0", Balance::Exact).unwrap();
        let (go_on, accepted) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let state = (listener.clone(), go_on.clone(), accepted.clone());
        runtime.run_each(move |shard| {
            let (listener, go_on, accepted) = state.clone();
            async move {
                let mut part = listener.on(&shard).unwrap();
                let accepts = shard.index() == 0;
                shard.spawn_local(async move {
                    if !accepts {
                        pending::<()>().await;
                    }
                    let mut open = Vec::new();
                    loop {
                        open.push(part.accept().await.unwrap());
                        accepted.fetch_add(1, SeqCst);
                        if open.len() == 5 {
                            go_on.notified().await;
                        }
                    }
                });
            }
        });
        let connect = |_| StdStream::connect(listener.local_addr()).unwrap();
        let clients: Vec<StdStream> = (0..300).map(connect).collect();
        // Both queues are full, and the shard that does not accept has fewer connections.
        while counts(&runtime, &listener).iter().sum::<usize>() < 5 + 2 * QUEUE {
            thread::yield_now();
        }
        go_on.notify_one();
        while accepted.load(SeqCst) < clients.len() - QUEUE {
            thread::yield_now();
        }
    });
}

#[cfg(unix)]
#[test]
fn each_shard_has_a_socket_of_its_own_on_one_address() {
    must_end(|| {
        let runtime = sharded(3);
        let listener = runtime.listen("127.0.0.1:0", Balance::ReusePort).unwrap();
        // It comes in before any shard has taken its part.
        let mut early = StdStream::connect(listener.local_addr()).unwrap();
        serve(&runtime, &listener);
        early.write_all(b"x").unwrap();
        early.read_exact(&mut [0]).unwrap();
        let clients: Vec<StdStream> = (0..60).map(|_| client(&listener)).collect();
        assert_eq!(counts(&runtime, &listener).iter().sum::<usize>(), 61);
        drop(early);
        drop(clients);
        wait_for_counts(&runtime, &listener, &[0, 0, 0]);
    });
}

#[test]
fn a_shard_takes_its_part_once_and_the_address_is_free_afterwards() {
    let runtime = sharded(2);
    for balance in [Balance::Exact, Balance::ReusePort] {
        if cfg!(not(unix)) && balance == Balance::ReusePort {
            continue;
        }
        let listener = runtime.listen("127.0.0.1:0", balance).unwrap();
        let address = listener.local_addr();
        runtime.run_each({
            let listener = listener.clone();
            move |shard| {
                let listener = listener.clone();
                async move {
                    let part = listener.on(&shard).unwrap();
                    let error = listener.on(&shard).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                    drop(part);
                }
            }
        });
        drop(listener);
        // The task that accepts is dropped by its shard.
        while StdStream::connect(address).is_ok() {
            thread::yield_now();
        }
    }
    assert_eq!(
        runtime.listen(&[][..], Balance::Exact).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

/// The kernel lets only the thread of a ring with `DEFER_TASKRUN` ask for completions, and that
/// is how the flag can be seen from outside. Run by
/// [`the_rings_of_shards_leave_completions_to_their_threads`], in a process without other rings.
#[cfg(target_os = "linux")]
fn check_rings() {
    /// io_uring_enter(2), `IORING_ENTER_GETEVENTS`.
    const GETEVENTS: libc::c_uint = 1;
    let runtime = sharded(2);
    let engines = runtime.run_each(|shard| async move {
        let name = format!("shard-{}-{}", std::process::id(), shard.index());
        let path = std::env::temp_dir().join(name);
        blitzen::fs::write(&path, b"a ring is used").await.unwrap();
        blitzen::fs::remove_file(&path).await.unwrap();
        blitzen::engine().to_string()
    });
    let is_uring = |engine: &&String| engine.contains("io_uring");
    let expected = engines.iter().filter(is_uring).count();
    let links = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|fd| fd.unwrap().path());
    let rings: Vec<libc::c_int> = links
        .filter(|fd| {
            std::fs::read_link(fd).is_ok_and(|to| to.to_string_lossy().contains("io_uring"))
        })
        .map(|fd| fd.file_name().unwrap().to_string_lossy().parse().unwrap())
        .collect();
    for ring in &rings {
        // SAFETY: nothing is submitted, and no memory is passed.
        let entered =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, *ring, 0, 0, GETEVENTS, 0, 0) };
        assert_eq!(
            entered, -1,
            "another thread took completions of a shard's ring"
        );
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EEXIST), "{error}");
    }
    assert_eq!(
        rings.len(),
        expected,
        "a ring for each shard, where there are rings"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn the_rings_of_shards_leave_completions_to_their_threads() {
    const INSIDE: &str = "BLITZEN_TEST_RINGS";
    if std::env::var_os(INSIDE).is_some() {
        return check_rings();
    }
    let name = "the_rings_of_shards_leave_completions_to_their_threads";
    let process = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&process.stdout);
    let errors = String::from_utf8_lossy(&process.stderr);
    assert!(process.status.success(), "{output}{errors}");
    assert!(output.contains("1 passed"), "{output}");
}
