//! Tasks for the tests of queues, and a world for those of schedulers.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Mutex;

use blitzen_task::glue::{id_number, next_id};
use blitzen_task::{Header, OwnedTasks, Runnable, Schedule, SpawnMeta};
use blitzen_util::shim::{AccessCheck, Arc};

/// What tasks consist of, for loom: written by the thread that makes a task, and read by the one that
/// asks for its [`id`].
static CONTENTS: Mutex<BTreeMap<u64, AccessCheck>> = Mutex::new(BTreeMap::new());

/// A source of tasks that remembers what it made, and frees it when closed.
pub(crate) struct Tasks {
    owned: Arc<OwnedTasks>,
    ids: Mutex<Vec<u64>>,
}

struct TestShard(Arc<OwnedTasks>);

impl Schedule for TestShard {
    fn schedule(&self, task: Runnable) {
        task.forget();
    }

    fn release(&self, task: &Header) {
        // SAFETY: inserted there by `next`, or nowhere.
        unsafe { self.0.remove(task) };
    }
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self {
            owned: Arc::new(OwnedTasks::new()),
            ids: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn next(&self) -> Runnable {
        let shard = TestShard(self.owned.clone());
        let (task, _) = blitzen_task::spawn(pending::<()>(), shard, next_id(), SpawnMeta::caller());
        // SAFETY: new, and `release` above removes it.
        unsafe { self.owned.insert(&task) }.unwrap();
        let number = id_number(task.header().id());
        let content = AccessCheck::new();
        content.write();
        CONTENTS.lock().unwrap().insert(number, content);
        self.ids.lock().unwrap().push(number);
        task
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.ids.lock().unwrap().clone()
    }

    /// A task that runs `code` in its first poll, and has no owner.
    #[allow(dead_code)] // the models use it
    pub(crate) fn job(code: impl FnOnce() + Send + 'static) -> Runnable {
        let shard = TestShard(Arc::new(OwnedTasks::new()));
        let future = async move { code() };
        blitzen_task::spawn(future, shard, next_id(), SpawnMeta::caller()).0
    }

    /// Frees every task whose runnable was forgotten.
    pub(crate) fn close(&self) {
        let ids = self.ids();
        let mut contents = CONTENTS.lock().unwrap();
        contents.retain(|id, _| !ids.contains(id));
        drop(contents);
        // SAFETY: the tests have forgotten or dropped every runnable by now.
        unsafe { self.owned.cancel_all() };
    }
}

pub(crate) fn id(task: &Runnable) -> u64 {
    let number = id_number(task.header().id());
    if let Some(content) = CONTENTS.lock().unwrap().get(&number) {
        content.read();
    }
    number
}

/// A world in which nothing happens. It keeps what relief threads would be started for.
#[cfg(not(blitzen_loom))]
#[derive(Default)]
pub(crate) struct StillWorld {
    pub(crate) reliefs: Arc<Mutex<Vec<crate::Relief>>>,
}

#[cfg(not(blitzen_loom))]
impl crate::World for StillWorld {
    fn turn(&self, _: usize, _: Option<std::time::Duration>) {}

    fn serve(&self, _: usize) {}

    fn interrupt(&self, _: usize) {}

    fn now_ns(&self) -> u64 {
        0
    }

    fn seed(&self, _: usize) -> u64 {
        1
    }

    fn start(&self, _: crate::Worker, _: Option<String>) -> std::io::Result<()> {
        unreachable!("nothing is spawned")
    }

    fn relieve(&self, relief: crate::Relief) {
        self.reliefs.lock().unwrap().push(relief);
    }
}
