//! Every task has a span with Tokio's fields, and a subscriber that panics harms no other task.

#![cfg(tokio_unstable)]

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tokio::runtime::{Builder, LocalRuntime, Runtime};
use tokio::task::{self, JoinSet, LocalSet};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Metadata, Subscriber};

/// What a subscriber was told, in order.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    New(u64),
    Enter(u64),
    Exit(u64),
    /// The operation on a waker of the span's task.
    Waker(u64, String),
    Close(u64),
}

/// Notes all calls that concern tasks, and panics at those that are to be tried.
struct Recorder {
    shared: Arc<Shared>,
    panics_at: fn(&Call) -> bool,
}

#[derive(Default)]
struct Shared {
    last_id: AtomicU64,
    calls: Mutex<Vec<Call>>,
    /// The fields of each span, by name.
    spans: Mutex<HashMap<u64, Fields>>,
}

#[derive(Clone, Default)]
struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Recorder {
    fn note(&self, call: Call) {
        let panics = (self.panics_at)(&call);
        self.shared.calls.lock().unwrap().push(call);
        if panics {
            panic!("of the subscriber");
        }
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tokio::task")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.shared.last_id.fetch_add(1, Relaxed) + 1;
        let mut fields = Fields::default();
        span.record(&mut fields);
        fields
            .0
            .insert("target", span.metadata().target().to_owned());
        fields.0.insert("span", span.metadata().name().to_owned());
        self.shared.spans.lock().unwrap().insert(id, fields);
        self.note(Call::New(id));
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let id = fields.0["task.id"].parse().unwrap();
        self.note(Call::Waker(id, fields.0["op"].clone()));
    }

    fn enter(&self, id: &Id) {
        self.note(Call::Enter(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        self.note(Call::Exit(id.into_u64()));
    }

    fn try_close(&self, id: Id) -> bool {
        self.note(Call::Close(id.into_u64()));
        true
    }
}

impl Shared {
    fn fields(&self, id: u64) -> HashMap<&'static str, String> {
        self.spans.lock().unwrap()[&id].0.clone()
    }

    /// The kinds of all tasks, in the order of their spawns.
    fn kinds(&self) -> Vec<String> {
        let last = self.last_id.load(Relaxed);
        (1..=last)
            .map(|id| self.fields(id)["kind"].clone())
            .collect()
    }

    /// What concerns one span.
    fn calls_of(&self, span: u64) -> Vec<Call> {
        let mut calls = self.calls.lock().unwrap().clone();
        calls.retain(|call| match call {
            Call::New(id) | Call::Enter(id) | Call::Exit(id) | Call::Close(id) => *id == span,
            Call::Waker(id, _) => *id == span,
        });
        calls
    }
}

/// Runs `code` with a subscriber, and returns what that was told.
fn recorded(code: impl FnOnce(&Arc<Shared>)) -> Arc<Shared> {
    recorded_with(|_| false, code)
}

fn recorded_with(panics_at: fn(&Call) -> bool, code: impl FnOnce(&Arc<Shared>)) -> Arc<Shared> {
    // One test at a time: a callsite asks all subscribers at once whether they want it.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|error| error.into_inner());
    let shared = Arc::<Shared>::default();
    let recorder = Recorder {
        shared: shared.clone(),
        panics_at,
    };
    with_default(recorder, || code(&shared));
    shared
}

/// A runtime that stays on the thread that has the subscriber.
fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn every_way_to_spawn_makes_a_span_of_its_kind() {
    let shared = recorded(|_| {
        let runtime = current_thread();
        runtime.block_on(async {
            tokio::spawn(async {}).await.unwrap();
            task::spawn_blocking(|| ()).await.unwrap();
            let mut set = JoinSet::new();
            set.spawn(async {});
            set.spawn_blocking(|| ());
            set.join_all().await;
            let local = LocalSet::new();
            local
                .run_until(async { task::spawn_local(async {}).await.unwrap() })
                .await;
        });
        runtime.handle().block_on(async {});
        let local = LocalRuntime::new().unwrap();
        local.block_on(local.spawn_local(async {})).unwrap();
    });
    let expected = [
        "block_on", "task", "blocking", "task", "blocking", "local", "block_on", "local",
        "block_on",
    ];
    assert_eq!(shared.kinds(), expected);
}

#[test]
fn a_span_has_the_fields_of_its_task() {
    let (mut line, mut id) = (0, String::new());
    let shared = recorded(|_| {
        let runtime = current_thread();
        let _entered = runtime.enter();
        let named = task::Builder::new().name("named");
        line = line!() + 1;
        let task = named.spawn(async {}).unwrap();
        id = task.id().to_string();
        runtime.block_on(task).unwrap();
    });
    let fields = shared.fields(1);
    assert_eq!(fields["span"], "runtime.spawn");
    assert_eq!(fields["target"], "tokio::task");
    assert_eq!(fields["task.name"], "named");
    assert!(fields["loc.file"].ends_with("task_spans.rs"));
    assert_eq!(fields["loc.line"], line.to_string());
    assert_eq!(fields["task.id"], id);
    assert!(fields["loc.col"].parse::<u32>().is_ok());
    assert_eq!(fields["size.bytes"], "1");
    assert!(
        !fields.contains_key("original_size.bytes"),
        "nothing is boxed"
    );
}

#[test]
fn a_span_is_entered_by_each_poll_and_by_the_drop_and_closes_with_the_task() {
    let shared = recorded(|shared| {
        let runtime = current_thread();
        let mut was_polled = false;
        let task = runtime.spawn(std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut was_polled, true) {
                return Poll::Ready(());
            }
            let (woken, dropped) = (cx.waker().clone(), cx.waker().clone());
            drop(dropped);
            cx.waker().wake_by_ref();
            woken.wake();
            Poll::Pending
        }));
        runtime.block_on(task::yield_now());
        runtime.block_on(task::yield_now());
        assert!(task.is_finished());
        // The handle keeps the memory, not the span.
        assert_eq!(shared.calls_of(1).last(), Some(&Call::Close(1)));
    });
    let waker = |op: &str| Call::Waker(1, format!("waker.{op}"));
    let expected = [
        Call::New(1),
        Call::Enter(1),
        waker("clone"),
        waker("clone"),
        waker("drop"),
        waker("wake_by_ref"),
        waker("wake"),
        Call::Exit(1),
        Call::Enter(1),
        Call::Exit(1),
        Call::Enter(1),
        Call::Exit(1),
        Call::Close(1),
    ];
    assert_eq!(shared.calls_of(1), expected);
}

#[test]
fn a_yield_counts_as_a_wake() {
    let shared = recorded(|_| {
        let runtime = current_thread();
        let task = runtime.spawn(task::yield_now());
        runtime.block_on(task).unwrap();
    });
    let woken = Call::Waker(1, "waker.wake_by_ref".to_owned());
    assert!(
        shared.calls_of(1).contains(&woken),
        "{:?}",
        shared.calls_of(1)
    );
}

#[test]
fn a_subscriber_that_panics_harms_at_most_the_task_at_hand() {
    type PanicsAt = fn(&Call) -> bool;
    let cases: [(PanicsAt, bool); 5] = [
        (|call| *call == Call::New(2), true),
        (|call| *call == Call::Enter(2), true),
        (|call| *call == Call::Exit(2), true),
        (|call| matches!(call, Call::Waker(2, _)), false),
        (|call| *call == Call::Close(2), false),
    ];
    for (case, (panics_at, is_harmed)) in cases.into_iter().enumerate() {
        recorded_with(panics_at, |shared| {
            let runtime = current_thread();
            runtime.block_on(async {
                let held = Arc::new(());
                let guard = held.clone();
                let spawned = catch_unwind(AssertUnwindSafe(|| {
                    tokio::spawn(async move {
                        let _guard = guard;
                        task::yield_now().await;
                        task::spawn_blocking(|| ()).await.unwrap();
                    })
                }));
                let failed = match spawned {
                    Ok(task) => task.await.is_err(),
                    Err(_) => true,
                };
                assert_eq!(failed, is_harmed, "case {case}: {:?}", shared.calls_of(2));
                assert_eq!(
                    Arc::strong_count(&held),
                    1,
                    "case {case}: its future is dropped"
                );
                tokio::spawn(task::yield_now()).await.unwrap();
            });
        });
    }
}

#[test]
fn a_subscriber_that_panics_while_a_task_panics_does_not_abort() {
    recorded_with(
        |call| matches!(call, Call::Exit(1) | Call::Close(1)),
        |_| {
            let runtime = current_thread();
            let task = runtime.spawn(async { panic!("of the task") });
            let error = runtime.block_on(task).unwrap_err();
            let payload = error.into_panic();
            assert_eq!(payload.downcast_ref(), Some(&"of the task"));
            let cancelled = runtime.spawn(pending::<()>());
            drop(runtime);
            assert!(cancelled.is_finished());
        },
    );
}
