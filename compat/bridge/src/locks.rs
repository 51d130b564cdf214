//! The locks that tasks wait for.

use std::collections::{BTreeMap, HashMap};

use blitzen_console_protocol::Task;

/// A lock, from when a task was first seen to wait for it until none is.
pub(crate) struct LockRecord {
    pub(crate) type_name: &'static str,
    pub(crate) address: String,
    pub(crate) created_ns: u64,
    pub(crate) ended_ns: Option<u64>,
    /// How many tasks wait.
    pub(crate) waiting: u64,
    /// The task that holds it, if that is known.
    pub(crate) owner: Option<u64>,
    /// The publication that had it first.
    pub(crate) shown: u64,
    /// The publication that has its last change.
    pub(crate) changed: u64,
}

#[derive(Default)]
pub(crate) struct Locks {
    /// By a number of their own.
    records: BTreeMap<u64, LockRecord>,
    /// The number of each lock that is waited for.
    live: HashMap<(&'static str, String), u64>,
    last_number: u64,
}

impl Locks {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &LockRecord)> {
        self.records.iter().map(|(number, lock)| (*number, lock))
    }

    /// Takes in what the tasks of a list wait for.
    pub(crate) fn add_list(&mut self, list: &[Task], now_ns: u64, publication: u64) {
        let mut found: HashMap<(&'static str, String), (u64, Option<u64>)> = HashMap::new();
        for wait in list.iter().filter_map(|task| task.wait.as_ref()) {
            if let (Some(type_name), Some(address)) =
                (lock_type(&wait.kind), wait.resource.as_str())
            {
                let (waiting, owner) = found.entry((type_name, address.to_owned())).or_default();
                *waiting += 1;
                *owner = owner.or(wait.owner);
            }
        }
        self.live.retain(|key, number| {
            let is_waited_for = found.contains_key(key);
            if let Some(lock) = self.records.get_mut(number).filter(|_| !is_waited_for) {
                lock.set(0, None, publication);
                lock.ended_ns = Some(now_ns);
            }
            is_waited_for
        });
        for (key, (waiting, owner)) in found {
            let (type_name, address) = key.clone();
            let number = *self.live.entry(key).or_insert_with(|| {
                self.last_number += 1;
                self.last_number
            });
            let lock = self.records.entry(number).or_insert_with(|| LockRecord {
                type_name,
                address,
                created_ns: now_ns,
                ended_ns: None,
                waiting,
                owner,
                shown: publication,
                changed: publication,
            });
            lock.set(waiting, owner, publication);
        }
    }

    /// Forgets those that nobody has waited for since `ns`.
    pub(crate) fn forget_before(&mut self, ns: u64) {
        self.records
            .retain(|_, lock| lock.ended_ns.is_none_or(|ended_ns| ended_ns >= ns));
    }
}

impl LockRecord {
    fn set(&mut self, waiting: u64, owner: Option<u64>, publication: u64) {
        if (self.waiting, self.owner) != (waiting, owner) {
            (self.waiting, self.owner) = (waiting, owner);
            self.changed = publication;
        }
    }
}

fn lock_type(wait_kind: &str) -> Option<&'static str> {
    match wait_kind {
        "mutex" => Some("Mutex"),
        "rwlock read" | "rwlock write" => Some("RwLock"),
        "semaphore" => Some("Semaphore"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(json: &str) -> Vec<Task> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_lock_is_there_while_tasks_wait_for_it() {
        let mut locks = Locks::default();
        let two = r#"[{"id":1,"wait":{"kind":"mutex","resource":"0x10","owner":9}},
            {"id":2,"wait":{"kind":"mutex","resource":"0x10"}},
            {"id":3,"wait":{"kind":"join","resource":2}}, {"id":4}]"#;
        locks.add_list(&list(two), 100, 1);
        let all: Vec<_> = locks.iter().collect();
        let (number, lock) = all[0];
        assert_eq!(
            (all.len(), lock.type_name, &*lock.address),
            (1, "Mutex", "0x10")
        );
        assert_eq!(
            (lock.waiting, lock.owner, lock.ended_ns),
            (2, Some(9), None)
        );
        locks.add_list(&list(two), 200, 2);
        assert_eq!(locks.iter().next().unwrap().1.changed, 1, "nothing has");
        locks.add_list(&[], 300, 3);
        let (_, lock) = locks.iter().next().unwrap();
        assert_eq!(
            (lock.waiting, lock.ended_ns, lock.changed),
            (0, Some(300), 3)
        );
        locks.add_list(&list(two), 400, 4);
        let numbers: Vec<u64> = locks.iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [number, number + 1], "a wait of its own");
        locks.forget_before(301);
        assert_eq!(locks.iter().count(), 1);
    }
}
