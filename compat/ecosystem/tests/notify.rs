//! notify: file system events from its thread into the runtime's channels.
#![cfg(feature = "notify")]

use std::path::PathBuf;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // If it fails, the rest stays in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_tasks_write_are_reported() {
    let folder = std::env::temp_dir().join(format!("ecosystem-notify-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let folder = Folder(folder);
    // As small as this, so that the watcher's thread also has to wait for the task.
    let (sender, mut events) = mpsc::channel(2);
    let send = move |event: notify::Result<Event>| drop(sender.blocking_send(event));
    let mut watcher = RecommendedWatcher::new(send, notify::Config::default()).unwrap();
    watcher
        .watch(&folder.0, RecursiveMode::NonRecursive)
        .unwrap();

    let write = tokio::spawn({
        let folder = folder.0.clone();
        async move {
            for n in 0..20 {
                tokio::fs::write(folder.join(n.to_string()), "text")
                    .await
                    .unwrap();
            }
            tokio::fs::rename(folder.join("0"), folder.join("renamed"))
                .await
                .unwrap();
            tokio::fs::remove_file(folder.join("1")).await.unwrap();
        }
    });
    let mut created = Vec::new();
    loop {
        let event = events.recv().await.unwrap().unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        if event.kind.is_create() {
            created.extend(event.paths.iter().map(name));
        } else if event.kind.is_remove() {
            assert_eq!(event.paths.iter().map(name).collect::<Vec<_>>(), ["1"]);
            break;
        }
    }
    assert_eq!(created, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    write.await.unwrap();
}
