//! `Handle::tasks` against everything that can happen to tasks meanwhile.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use blitzen::channel::{broadcast, mpsc as async_mpsc, oneshot, watch};
use blitzen::runtime::dump::{ListedTask, TaskStatus, WaitKind};
use blitzen::runtime::{Builder, Handle, Runtime};
use blitzen::sync::{Mutex, Notify, RwLock, Semaphore};
use blitzen::task::{JoinHandle, yield_now};

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

/// Waits until the task is idle, and returns how it is listed.
async fn idle<T>(task: &JoinHandle<T>) -> ListedTask {
    loop {
        let tasks = Handle::current().tasks();
        let listed = tasks.get(task.id()).expect("the task is alive");
        if listed.status() == TaskStatus::Idle {
            return listed.clone();
        }
        yield_now().await;
    }
}

/// Spawns a future that waits for ever, and returns what for.
async fn waits_for(future: impl Future<Output = ()> + Send + 'static) -> (WaitKind, Option<u64>) {
    let task = blitzen::spawn(future);
    let listed = idle(&task).await;
    task.abort();
    let wait = listed.wait();
    (
        wait.map_or(WaitKind::Unknown, |wait| wait.kind()),
        wait.and_then(|wait| wait.resource()),
    )
}

#[test]
fn a_task_says_what_it_waits_for() {
    runtime(2).block_on(async {
        let kind = |future| async move { waits_for(future).await.0 };
        macro_rules! check {
            ($kind:ident, $future:expr) => {
                let future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> =
                    Box::pin(async move {
                        let _ = $future.await;
                    });
                assert_eq!(kind(future).await, WaitKind::$kind);
            };
        }
        let mutex = Arc::new(Mutex::new(()));
        let _locked = mutex.lock().await;
        let waiter = mutex.clone();
        check!(Mutex, waiter.lock());
        let rwlock = Arc::new(RwLock::new(()));
        let written = rwlock.write().await;
        let waiter = rwlock.clone();
        check!(RwLockRead, waiter.read());
        let waiter = rwlock.clone();
        check!(RwLockWrite, waiter.write());
        drop(written);
        let semaphore = Arc::new(Semaphore::new(0));
        check!(Semaphore, semaphore.acquire());
        let notify = Arc::new(Notify::new());
        check!(Notify, notify.notified());
        let (full, mut empty) = async_mpsc::channel::<u8>(1);
        full.try_send(1).unwrap();
        let sender = full.clone();
        check!(MpscSend, sender.send(2));
        empty.recv().await.unwrap();
        check!(MpscReceive, empty.recv());
        let (_tx, rx) = oneshot::channel::<u8>();
        check!(Oneshot, rx);
        let (_tx, mut rx) = broadcast::channel::<u8>(1);
        check!(Broadcast, rx.recv());
        let (_tx, mut rx) = watch::channel(1);
        check!(Watch, rx.changed());
        check!(Timer, blitzen::time::sleep(Duration::from_secs(1000)));
        let listener = blitzen::net::TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap();
        check!(Readable, listener.accept());
        let (mut reader, _writer) = blitzen::io::duplex(1);
        check!(
            PipeRead,
            blitzen::io::AsyncReadExt::read(&mut reader, &mut [0; 1])
        );
        check!(Unknown, pending::<()>());
    });
}

#[test]
fn a_task_that_waits_for_several_things_says_so() {
    runtime(2).block_on(async {
        let both = blitzen::time::timeout(
            Duration::from_secs(1000),
            blitzen::time::sleep(Duration::from_secs(2000)),
        );
        let waits = waits_for(async move { drop(both.await) }).await;
        assert_eq!(waits, (WaitKind::Several, None));
    });
}

#[test]
#[cfg_attr(
    target_pointer_width = "32",
    ignore = "a word has no room for what is awaited"
)]
fn a_join_names_the_task_and_a_lock_is_the_same_for_two_waiters() {
    runtime(2).block_on(async {
        let joined = blitzen::spawn(pending::<()>());
        let id = joined.id().to_string();
        let abort = joined.abort_handle();
        let (kind, resource) = waits_for(async move { drop(joined.await) }).await;
        assert_eq!(kind, WaitKind::Join);
        assert_eq!(resource.unwrap().to_string(), id);
        abort.abort();

        let mutex = Arc::new(Mutex::new(()));
        let other = Arc::new(Mutex::new(()));
        let _locked = (mutex.lock().await, other.lock().await);
        let wait = |mutex: &Arc<Mutex<()>>| {
            let mutex = mutex.clone();
            waits_for(async move { drop(mutex.lock().await) })
        };
        let (one, two) = (wait(&mutex).await, wait(&mutex).await);
        assert_eq!(one, two);
        assert_ne!(one, wait(&other).await);
    });
}

#[test]
#[cfg_attr(
    target_pointer_width = "32",
    ignore = "a word has no room for what is awaited"
)]
fn a_timer_says_when_it_is_due_and_a_poll_without_a_leaf_forgets_the_last_one() {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (tx, rx) = oneshot::channel::<()>();
        let task = blitzen::spawn(async {
            let _ = rx.await;
            blitzen::time::sleep(Duration::from_secs(60)).await;
            pending::<()>().await
        });
        assert_eq!(idle(&task).await.wait().unwrap().kind(), WaitKind::Oneshot);
        drop(tx);
        yield_now().await;
        let listed = idle(&task).await;
        let due_in = listed.wait().unwrap().due_in().unwrap();
        assert!(due_in.abs_diff(Duration::from_secs(60)) < Duration::from_millis(10));
        blitzen::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(idle(&task).await.wait(), None);
        task.abort();
    });
}

#[test]
fn what_yields_and_waits_in_a_nested_executor_is_not_the_tasks_own() {
    runtime(2).block_on(async {
        let mutex = Arc::new(std::sync::Mutex::new(0));
        let task = blitzen::spawn({
            let mutex = mutex.clone();
            async move {
                let (tx, rx) = oneshot::channel::<u8>();
                let sender = thread::spawn(move || tx.send(1).unwrap());
                *mutex.lock().unwrap() = blitzen::task::block_in_place(|| {
                    let handle = Handle::current();
                    handle.block_on(rx).unwrap()
                });
                sender.join().unwrap();
                pending::<()>().await
            }
        });
        assert_eq!(idle(&task).await.wait(), None);
        assert_eq!(*mutex.lock().unwrap(), 1);
        task.abort();
    });
}

#[test]
fn names_types_sizes_and_lines_are_listed_as_text_and_json() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let bytes = [0_u8; 100];
        let named = blitzen::task::Builder::new()
            .name("the \"idler\"")
            .spawn(async move {
                pending::<()>().await;
                std::hint::black_box(&bytes);
            })
            .unwrap();
        let line = line!() - 5;
        let listed = idle(&named).await;
        assert_eq!(listed.name(), Some("the \"idler\""));
        assert_eq!(listed.spawned_at().line(), line);
        assert!(listed.future_size() >= 100);
        assert!(listed.future_type().contains("{{closure}}"));
        let tasks = Handle::current().tasks();
        let text = tasks.to_string();
        assert!(text.contains("\"the \\\"idler\\\"\" idle"), "{text}");
        assert!(
            text.contains(&format!("dump_task_list.rs:{line}")),
            "{text}"
        );
        let json = tasks.to_json();
        assert!(json.contains(r#""name":"the \"idler\"","#), "{json}");
        assert!(json.contains(r#""status":"idle""#), "{json}");
        named.abort();
    });
}

#[test]
fn every_survivor_is_listed_once_while_tasks_come_go_and_are_aborted() {
    let runtime = runtime(2);
    let survivors: Vec<_> = (0..1500).map(|_| runtime.spawn(pending::<()>())).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let churn: Vec<_> = (0..2)
        .map(|number| {
            let (handle, is_over) = (runtime.handle().clone(), is_over.clone());
            thread::spawn(move || {
                while !is_over.load(Relaxed) {
                    let tasks: Vec<_> = (0..100)
                        .map(|index| match index % 3 {
                            0 => handle.spawn(pending()),
                            1 => handle.spawn(yield_now()),
                            _ => handle.spawn(async {
                                drop(blitzen::spawn(yield_now()).await);
                            }),
                        })
                        .collect();
                    tasks.iter().skip(number).for_each(JoinHandle::abort);
                    for task in tasks.into_iter().skip(number) {
                        let _ = handle.block_on(task);
                    }
                }
            })
        })
        .collect();
    let expected: BTreeSet<_> = survivors.iter().map(|task| task.id()).collect();
    for _ in 0..200 {
        let tasks = runtime.handle().tasks();
        let listed: Vec<_> = tasks.iter().map(ListedTask::id).collect();
        let distinct: BTreeSet<_> = listed.iter().copied().collect();
        assert_eq!(distinct.len(), listed.len(), "none is listed twice");
        assert!(distinct.is_superset(&expected), "every survivor is there");
    }
    is_over.store(true, Relaxed);
    churn.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn tasks_are_listed_while_every_worker_is_blocked_for_good() {
    let runtime = runtime(2);
    let (begun, beginning) = mpsc::channel();
    let releases: Vec<_> = (0..2)
        .map(|_| {
            let (release, wait) = mpsc::channel::<()>();
            let begun = begun.clone();
            runtime.spawn(async move {
                begun.send(()).unwrap();
                let _ = wait.recv();
            });
            release
        })
        .collect();
    beginning.recv().unwrap();
    beginning.recv().unwrap();
    let behind = runtime.spawn(async {});
    let tasks = runtime.handle().tasks();
    let running = |task: &&ListedTask| task.status() == TaskStatus::Running;
    assert_eq!(tasks.iter().filter(running).count(), 2);
    assert_eq!(
        tasks.get(behind.id()).unwrap().status(),
        TaskStatus::Scheduled
    );
    drop(releases);
}

#[test]
fn a_list_during_a_shutdown_has_no_task_twice() {
    for round in 0..20 {
        let runtime = runtime(2);
        for _ in 0..2000 {
            runtime.spawn(pending::<()>());
        }
        let start = Arc::new(Barrier::new(2));
        let lister = thread::spawn({
            let (handle, start) = (runtime.handle().clone(), start.clone());
            move || {
                start.wait();
                loop {
                    let tasks = handle.tasks();
                    let distinct: BTreeSet<_> = tasks.iter().map(ListedTask::id).collect();
                    assert_eq!(distinct.len(), tasks.len());
                    if tasks.is_empty() {
                        return;
                    }
                }
            }
        });
        start.wait();
        match round % 2 {
            0 => drop(runtime),
            _ => runtime.shutdown_background(),
        }
        lister.join().unwrap();
    }
}

#[test]
fn a_million_tasks_are_listed() {
    let runtime = runtime(2);
    let tasks = 1_000_000;
    for _ in 0..tasks {
        runtime.spawn(pending::<()>());
    }
    assert_eq!(runtime.handle().tasks().len(), tasks);
}
