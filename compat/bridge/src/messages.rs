//! The model as messages of `console-api`.

use std::time::Duration;

use console_api::field::{Name, Value};
use console_api::instrument::Update;
use console_api::register_metadata::NewMetadata;
use console_api::resources::{Resource, ResourceUpdate, resource};
use console_api::tasks::task::Kind;
use console_api::tasks::task_details::PollTimesHistogram;
use console_api::tasks::{DurationHistogram, Stats, Task, TaskDetails, TaskUpdate};
use console_api::{
    Attribute, Field, Location, MetaId, Metadata, PollStats, RegisterMetadata, metadata, resources,
};
use hdrhistogram::serialization::{Serializer, V2Serializer};
use prost::Message;
use prost_types::Timestamp;

use crate::locks::LockRecord;
use crate::model::Model;
use crate::task::{TaskKind, TaskRecord, Times};

/// The numbers of the two metadata that there are.
const TASK_METADATA: u64 = 1;
const LOCK_METADATA: u64 = 2;

/// About how long one update may be. Clients refuse those of 4 MiB.
const MAX_UPDATE: usize = 1 << 20;
/// The longest text that is sent.
const MAX_TEXT: usize = 1024;

/// What a client has been sent.
#[derive(Default)]
pub(crate) struct Sent {
    publication: u64,
    lost_events: u64,
}

impl Sent {
    /// What has changed since, as messages of a size that clients accept; at least one.
    pub(crate) fn updates(&mut self, model: &Model) -> Vec<Update> {
        let before = std::mem::replace(&mut self.publication, model.publication - 1);
        let lost_before = std::mem::replace(&mut self.lost_events, model.lost_events);
        let first = Update {
            new_metadata: (before == 0).then(metadata),
            task_update: Some(TaskUpdate {
                dropped_events: model.lost_events - lost_before,
                ..TaskUpdate::default()
            }),
            resource_update: Some(lock_update(model, before)),
            ..empty_update(model)
        };
        let mut updates = vec![first];
        let mut len = 0;
        for (&id, record) in &model.tasks {
            let Some(shown) = record.shown.filter(|_| record.changed > before) else {
                continue;
            };
            if len > MAX_UPDATE {
                updates.push(empty_update(model));
                len = 0;
            }
            let update = updates.last_mut().expect("there is one");
            let update = update.task_update.get_or_insert_default();
            let stats = task_stats(model, record);
            len += stats.encoded_len();
            update.stats_update.insert(id, stats);
            if shown > before {
                let task = new_task(id, record);
                len += task.encoded_len();
                update.new_tasks.push(task);
            }
        }
        updates
    }
}

fn empty_update(model: &Model) -> Update {
    Update {
        now: Some(timestamp(model, model.now_ns)),
        ..Update::default()
    }
}

fn metadata() -> RegisterMetadata {
    let new = |id, name: &str, target: &str| NewMetadata {
        id: Some(MetaId { id }),
        metadata: Some(Metadata {
            name: name.to_owned(),
            target: target.to_owned(),
            kind: metadata::Kind::Span as i32,
            level: metadata::Level::Trace as i32,
            ..Metadata::default()
        }),
    };
    RegisterMetadata {
        metadata: vec![
            new(TASK_METADATA, "task", "blitzen::task"),
            new(LOCK_METADATA, "lock", "blitzen::sync"),
        ],
    }
}

fn new_task(id: u64, record: &TaskRecord) -> Task {
    let (kind, kind_name) = match record.kind {
        TaskKind::Task => (Kind::Spawn, "task"),
        TaskKind::Blocking => (Kind::Blocking, "blocking"),
    };
    let mut fields = vec![
        field("task.id", Value::U64Val(id), TASK_METADATA),
        field("kind", Value::StrVal(kind_name.to_owned()), TASK_METADATA),
    ];
    if let Some(name) = &record.name {
        fields.push(field("task.name", text(name), TASK_METADATA));
    }
    if let Some((future, size)) = &record.future {
        fields.push(field("size.bytes", Value::U64Val(*size), TASK_METADATA));
        fields.push(field("future", text(future), TASK_METADATA));
    }
    Task {
        id: Some(id.into()),
        metadata: Some(MetaId { id: TASK_METADATA }),
        kind: kind as i32,
        fields,
        location: location(&record.spawned_at),
        ..Task::default()
    }
}

fn task_stats(model: &Model, record: &TaskRecord) -> Stats {
    let time = |ns: Option<u64>| ns.map(|ns| timestamp(model, ns));
    let last = record.last_times(model.now_ns);
    Stats {
        created_at: time(Some(record.created_ns)),
        dropped_at: time(record.ended_ns),
        wakes: record.wakes,
        waker_clones: record.wakers,
        waker_drops: 0,
        self_wakes: record.self_wakes,
        last_wake: time(last.queued_ns),
        scheduled_time: Some(duration(record.scheduled_ns)),
        poll_stats: Some(PollStats {
            polls: record.polls,
            first_poll: time(record.first_poll_ns),
            last_poll_started: time(last.start_ns),
            last_poll_ended: time(last.end_ns),
            busy_time: Some(duration(record.busy_ns)),
        }),
    }
}

/// The histograms of a task.
pub(crate) fn task_details(model: &Model, id: u64, record: &TaskRecord) -> TaskDetails {
    TaskDetails {
        task_id: Some(id.into()),
        now: Some(timestamp(model, model.now_ns)),
        poll_times_histogram: Some(PollTimesHistogram::Histogram(histogram(&record.poll_times))),
        scheduled_times_histogram: Some(histogram(&record.scheduled_times)),
    }
}

fn histogram(times: &Times) -> DurationHistogram {
    let histogram = times.histogram();
    let mut raw_histogram = Vec::new();
    let written = V2Serializer::new().serialize(&histogram, &mut raw_histogram);
    written.expect("there is room in memory");
    DurationHistogram {
        raw_histogram,
        max_value: histogram.max(),
        high_outliers: 0,
        highest_outlier: None,
    }
}

/// The locks that have changed since a publication.
fn lock_update(model: &Model, before: u64) -> ResourceUpdate {
    let changed = model.locks.iter().filter(|(_, lock)| lock.changed > before);
    let mut update = ResourceUpdate::default();
    for (number, lock) in changed {
        update.stats_update.insert(number, lock_stats(model, lock));
        if lock.shown > before {
            let kind = resource::kind::Kind::Other("Sync".to_owned());
            update.new_resources.push(Resource {
                id: Some(number.into()),
                metadata: Some(MetaId { id: LOCK_METADATA }),
                concrete_type: lock.type_name.to_owned(),
                kind: Some(resource::Kind { kind: Some(kind) }),
                ..Resource::default()
            });
        }
    }
    update
}

fn lock_stats(model: &Model, lock: &LockRecord) -> resources::Stats {
    let attribute = |name, value| Attribute {
        field: Some(field(name, value, LOCK_METADATA)),
        unit: None,
    };
    let mut attributes = vec![
        attribute("address", text(&lock.address)),
        attribute("waiting", Value::U64Val(lock.waiting)),
    ];
    if let Some(owner) = lock.owner {
        attributes.push(attribute("held by task", Value::U64Val(owner)));
    }
    resources::Stats {
        created_at: Some(timestamp(model, lock.created_ns)),
        dropped_at: lock.ended_ns.map(|ns| timestamp(model, ns)),
        attributes,
    }
}

fn field(name: &str, value: Value, metadata: u64) -> Field {
    Field {
        name: Some(Name::StrName(name.to_owned())),
        value: Some(value),
        metadata_id: Some(MetaId { id: metadata }),
    }
}

fn text(text: &str) -> Value {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Value::StrVal(text[..end].to_owned())
}

/// Takes apart a text of file, line and column.
fn location(text: &str) -> Option<Location> {
    let (rest, column) = text.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some(Location {
        file: Some(file.to_owned()),
        line: Some(line.parse().ok()?),
        column: Some(column.parse().ok()?),
        module_path: None,
    })
}

fn timestamp(model: &Model, ns: u64) -> Timestamp {
    model.time(ns).into()
}

fn duration(ns: u64) -> prost_types::Duration {
    let duration = Duration::from_nanos(ns);
    prost_types::Duration {
        seconds: duration.as_secs() as i64,
        nanos: duration.subsec_nanos() as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blitzen_console_protocol as answers;

    #[test]
    fn a_client_is_sent_what_has_changed_in_messages_that_it_accepts() {
        let stats = answers::Stats::default();
        let events = || answers::Events {
            now_ns: 0,
            tracks: Vec::new(),
        };
        let task = |id| answers::Task {
            id,
            future: "x".repeat(5_000),
            ..answers::Task::default()
        };
        let list = || (0..10_000).map(task).collect();
        let mut model = Model::attach(&stats, events(), list());
        let mut sent = Sent::default();
        let updates = sent.updates(&model);
        assert!(updates.iter().all(|update| update.encoded_len() < 2 << 20));
        assert!(updates[0].new_metadata.is_some() && updates[1].new_metadata.is_none());
        let tasks = |updates: &[Update]| -> (usize, usize) {
            let updates = updates
                .iter()
                .filter_map(|update| update.task_update.as_ref());
            let count = |update: &TaskUpdate| (update.new_tasks.len(), update.stats_update.len());
            updates
                .map(count)
                .fold((0, 0), |all, some| (all.0 + some.0, all.1 + some.1))
        };
        assert_eq!(tasks(&updates), (10_000, 10_000));
        model.add_list(&stats, list());
        assert_eq!(tasks(&sent.updates(&model)), (0, 0));
        let woken = (0..10_000).map(|id| answers::Task {
            wakers: u64::from(id == 5),
            ..task(id)
        });
        model.add_list(&stats, woken.collect());
        assert_eq!(tasks(&sent.updates(&model)), (0, 1));
        assert_eq!(
            tasks(&Sent::default().updates(&model)),
            (10_000, 10_000),
            "another client"
        );
    }

    #[test]
    fn a_location_is_taken_apart_from_its_end() {
        let found = location("/a:b/main.rs:8:5").unwrap();
        assert_eq!((found.line, found.column), (Some(8), Some(5)));
        assert_eq!(found.file.as_deref(), Some("/a:b/main.rs"));
        assert!(location("").is_none() && location("main.rs:x:y").is_none());
    }
}
