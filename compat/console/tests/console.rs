//! `console-subscriber` shows the tasks of a program to a client, over gRPC.

#![cfg(tokio_unstable)]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use console_api::field::Name;
use console_api::instrument::InstrumentRequest;
use console_api::instrument::instrument_client::InstrumentClient;
use console_api::tasks::{Stats, Task};
use tokio::time::{sleep, timeout};

/// Long enough that only what never happens runs into it.
const FOREVER: Duration = Duration::from_secs(60);

#[test]
fn the_console_shows_a_named_task_with_its_line_and_its_polls() {
    let address = free_address();
    console_subscriber::ConsoleLayer::builder()
        .server_addr(address)
        .publish_interval(Duration::from_millis(20))
        .init();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let observed = tokio::task::Builder::new().name("observed");
        let (line, task) = (line!(), observed.spawn(tick()).unwrap());
        let (shown, stats) = timeout(FOREVER, watch(address, "observed")).await.unwrap();

        let location = shown.location.unwrap();
        assert!(location.file.unwrap().ends_with("console.rs"));
        assert_eq!(location.line, Some(line));
        assert!(stats.wakes >= 3, "{stats:?}");
        assert!(stats.waker_clones >= 1, "{stats:?}");
        assert!(stats.dropped_at.is_none(), "{stats:?}");
        task.abort();
    });
}

/// A task that waits again and again.
async fn tick() {
    loop {
        sleep(Duration::from_millis(1)).await;
    }
}

/// An address that nobody listens on. The system does not give it away again at once.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Watches the console at `address` until it has seen some polls of the task with this name.
async fn watch(address: SocketAddr, name: &str) -> (Task, Stats) {
    let mut client = loop {
        match InstrumentClient::connect(format!("http://{address}")).await {
            Ok(client) => break client,
            Err(_) => sleep(Duration::from_millis(10)).await, // its thread is starting
        }
    };
    let updates = client.watch_updates(InstrumentRequest {}).await.unwrap();
    let mut updates = updates.into_inner();
    let mut field_names = HashMap::new();
    let mut found = None;
    loop {
        let update = updates.message().await.unwrap().expect("it goes on");
        for new in update.new_metadata.into_iter().flat_map(|new| new.metadata) {
            field_names.insert(new.id.unwrap().id, new.metadata.unwrap().field_names);
        }
        let Some(tasks) = update.task_update else {
            continue;
        };
        for task in tasks.new_tasks {
            if name_of(&task, &field_names).as_deref() == Some(name) {
                found = Some(task);
            }
        }
        let Some(task) = &found else { continue };
        if let Some(stats) = tasks.stats_update.get(&task.id.as_ref().unwrap().id)
            && stats.poll_stats.as_ref().unwrap().polls >= 5
        {
            return (task.clone(), *stats);
        }
    }
}

/// The value of a task's field `task.name`.
fn name_of(task: &Task, field_names: &HashMap<u64, Vec<String>>) -> Option<String> {
    let field = task.fields.iter().find(|field| {
        let name = match field.name.as_ref().unwrap() {
            Name::StrName(name) => name,
            Name::NameIdx(index) => {
                let metadata = field.metadata_id.as_ref().unwrap().id;
                &field_names[&metadata][*index as usize]
            }
        };
        name == "task.name"
    });
    field.map(|field| field.value.as_ref().unwrap().to_string())
}
