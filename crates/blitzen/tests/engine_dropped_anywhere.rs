//! A runtime may be dropped on any thread, its own included, from any code that safe
//! programs can have called there: nothing hangs, and nothing else is harmed.

mod engine_common;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use blitzen::runtime::{Builder, EnterGuard, Handle, Runtime};
use blitzen::task::{block_in_place, spawn_blocking};
use blitzen::time::sleep;

use engine_common::{FOREVER, SHORT, assert_works, current_thread, multi_thread, must_end};

/// A runtime for whichever thread drops it first, and the news of that.
#[derive(Clone)]
struct Slot {
    runtime: Arc<Mutex<Option<Runtime>>>,
    is_filled: Arc<AtomicBool>,
    dropped: mpsc::Sender<()>,
}

impl Slot {
    fn new() -> (Self, mpsc::Receiver<()>) {
        let (dropped, is_dropped) = mpsc::channel();
        let slot = Self {
            runtime: Arc::default(),
            is_filled: Arc::default(),
            dropped,
        };
        (slot, is_dropped)
    }

    fn fill(&self, runtime: Runtime) -> Handle {
        let handle = runtime.handle().clone();
        *self.runtime.lock().unwrap() = Some(runtime);
        self.is_filled.store(true, SeqCst);
        handle
    }

    fn drop_it(&self) {
        while !self.is_filled.load(SeqCst) {
            thread::yield_now();
        }
        let runtime = self.runtime.lock().unwrap().take();
        if let Some(runtime) = runtime {
            // On a thread that runs tasks the drop panics, after the shutdown.
            let _refused = catch_unwind(AssertUnwindSafe(|| drop(runtime)));
            self.dropped.send(()).unwrap();
        }
    }
}

/// Builds a runtime with `hook`, has its threads work, and waits until the hook has
/// dropped it.
fn dropped_by_hook(
    hook: impl Fn(&mut Builder, Box<dyn Fn() + Send + Sync>),
    work: impl Fn(&Handle),
) {
    let (slot, is_dropped) = Slot::new();
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .thread_keep_alive(SHORT)
        .enable_all();
    let in_hook = slot.clone();
    hook(&mut builder, Box::new(move || in_hook.drop_it()));
    // If there is a start hook, the workers get their threads with this.
    let handle = slot.fill(builder.build().unwrap());
    work(&handle);
    is_dropped.recv_timeout(FOREVER).unwrap();
}

fn spawn_task(handle: &Handle) {
    handle.spawn(sleep_long());
}

async fn sleep_long() {
    sleep(FOREVER).await;
}

fn spawn_job(handle: &Handle) {
    handle.spawn_blocking(|| ());
}

#[test]
fn by_the_start_hook_of_a_worker_or_of_a_thread_of_the_pool() {
    for work in [spawn_task, spawn_job] {
        must_end(move || {
            dropped_by_hook(
                |builder, hook| {
                    builder.on_thread_start(hook);
                },
                work,
            );
        });
    }
}

#[test]
fn by_the_stop_hook_of_a_thread_of_the_pool() {
    must_end(|| {
        dropped_by_hook(
            |builder, hook| {
                builder.on_thread_stop(hook);
            },
            spawn_job,
        );
    });
}

#[test]
fn by_the_park_hook_of_a_worker() {
    must_end(|| {
        dropped_by_hook(
            |builder, hook| {
                builder.on_thread_park(hook);
            },
            spawn_task,
        );
    });
    must_end(|| {
        dropped_by_hook(
            |builder, hook| {
                builder.on_thread_unpark(hook);
            },
            spawn_task,
        );
    });
}

#[test]
fn by_a_park_hook_that_blocks_in_place() {
    must_end(|| {
        dropped_by_hook(
            |builder, hook| {
                builder.on_thread_park(move || block_in_place(&hook));
            },
            spawn_task,
        );
    });
}

#[test]
fn by_blocking_work_of_a_current_thread_runtime() {
    must_end(|| {
        let (slot, is_dropped) = Slot::new();
        let handle = slot.fill(current_thread());
        let task = handle.spawn(sleep_long());
        handle.spawn_blocking(move || slot.drop_it());
        is_dropped.recv_timeout(FOREVER).unwrap();
        assert!(current_thread().block_on(task).unwrap_err().is_cancelled());
    });
}

#[test]
fn by_blocking_work_with_a_time_limit() {
    must_end(|| {
        let runtime = multi_thread(2);
        let handle = runtime.handle().clone();
        let (ended, has_ended) = mpsc::channel();
        handle.spawn_blocking(move || ended.send(runtime.shutdown_within(FOREVER)));
        let stragglers = has_ended.recv_timeout(FOREVER).unwrap();
        assert!(
            stragglers.is_ok(),
            "it does not wait for itself: {stragglers:?}"
        );
    });
}

#[test]
fn by_a_thread_that_has_lost_its_worker_and_by_one_that_relieves() {
    must_end(|| {
        for nested in [false, true] {
            let (slot, is_dropped) = Slot::new();
            let handle = slot.fill(multi_thread(1));
            handle.spawn(async move {
                let drop_it = move || {
                    thread::sleep(SHORT * 5); // it is relieved by then
                    slot.drop_it();
                };
                match nested {
                    // The task that drops runs on the relief thread.
                    true => {
                        let relieved = blitzen::spawn(async move { block_in_place(drop_it) });
                        block_in_place(|| thread::sleep(SHORT * 20));
                        drop(relieved);
                    }
                    false => block_in_place(drop_it),
                }
            });
            is_dropped.recv_timeout(FOREVER).unwrap();
        }
    });
}

#[test]
fn by_the_destructor_of_a_thread_local_value() {
    thread_local! {
        static AT_EXIT: RefCell<Option<DropAtExit>> = const { RefCell::new(None) };
    }
    struct DropAtExit(Slot);
    impl Drop for DropAtExit {
        fn drop(&mut self) {
            self.0.drop_it();
        }
    }
    must_end(|| {
        let (slot, is_dropped) = Slot::new();
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_keep_alive(SHORT);
        let handle = slot.fill(builder.enable_all().build().unwrap());
        handle.spawn_blocking(move || AT_EXIT.set(Some(DropAtExit(slot))));
        is_dropped.recv_timeout(FOREVER).unwrap();
    });
}

#[test]
fn by_the_panic_hook() {
    // In a process of its own, which has another panic hook.
    if std::env::var_os("DROP_IN_PANIC_HOOK").is_none() {
        let own = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(own);
        command.env("DROP_IN_PANIC_HOOK", "1");
        command.args(["--exact", "by_the_panic_hook"]);
        assert!(command.status().unwrap().success());
        return;
    }
    type Spawn = fn(&Handle);
    let spawns: [Spawn; 3] = [
        |handle| drop(handle.spawn(async { panic!("in a task") })),
        |handle| drop(handle.spawn_blocking(|| panic!("in blocking work"))),
        |handle| drop(handle.spawn(async { block_in_place(|| panic!("in place")) })),
    ];
    for spawn in spawns {
        let (slot, is_dropped) = Slot::new();
        let handle = slot.fill(multi_thread(2));
        std::panic::set_hook(Box::new(move |_| slot.drop_it()));
        spawn(&handle);
        is_dropped.recv_timeout(FOREVER).unwrap();
    }
}

#[test]
fn a_guard_kept_in_a_thread_local_value_of_a_worker_affects_no_task() {
    thread_local! {
        static KEPT: RefCell<Vec<EnterGuard<'static>>> = const { RefCell::new(Vec::new()) };
    }
    must_end(|| {
        static OTHER: std::sync::OnceLock<Handle> = std::sync::OnceLock::new();
        let other = multi_thread(1);
        let entered = OTHER.get_or_init(|| other.handle().clone());
        let runtime = multi_thread(1);
        let id = runtime.handle().id();
        runtime.block_on(async {
            for round in 0..6 {
                let keeps = blitzen::spawn(async move {
                    let own = entered.enter();
                    KEPT.with_borrow_mut(|kept| kept.push(entered.enter()));
                    if round % 2 == 1 {
                        // One of the last round, and one of this round, out of order.
                        let _refused = catch_unwind(|| KEPT.with_borrow_mut(|kept| kept.remove(0)));
                    }
                    let _refused = catch_unwind(AssertUnwindSafe(|| drop(own)));
                });
                keeps.await.unwrap();
                blitzen::spawn(assert_works(id)).await.unwrap();
                let seen = spawn_blocking(|| Handle::current().id()).await.unwrap();
                assert_eq!(seen, id);
            }
        });
        drop(runtime);
        drop(other);
    });
}
