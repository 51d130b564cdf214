//! Code that was written against Tokio compiles, also with warnings denied.

#![cfg(not(blitzen_loom))]
#![deny(warnings)]

use std::process::Stdio;

use blitzen::io::{AsyncReadExt, AsyncWriteExt};
use blitzen::process::{Child, Command};

/// Set in a child, to the status that it ends with.
const STATUS: &str = "BLITZEN_TEST_STATUS";

/// This program as a child, which copies its input to its output and ends with `status`.
fn copying_child(status: i32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["child", "--exact", "--nocapture"])
        .env(STATUS, status.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// The child's part; nothing to do otherwise.
#[test]
fn child() {
    if let Ok(status) = std::env::var(STATUS) {
        std::io::copy(&mut std::io::stdin(), &mut std::io::stdout()).unwrap();
        std::process::exit(status.parse().unwrap());
    }
}

#[blitzen::test]
async fn the_pipes_can_be_moved_out_of_a_child() {
    let child = copying_child(0).spawn().unwrap();
    let Child { stdin, stdout, .. } = child;
    let mut stdin = stdin.unwrap();
    stdin.write_all(b"through the child\n").await.unwrap();
    drop(stdin);
    let mut text = String::new();
    stdout.unwrap().read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("through the child\n"), "{text}");

    let child = copying_child(0).stdin(Stdio::null()).spawn().unwrap();
    child
        .stdout
        .unwrap()
        .read_to_string(&mut text)
        .await
        .unwrap();
}

#[blitzen::test]
async fn a_child_need_not_be_used() {
    let mut child = copying_child(0);
    child.stdin(Stdio::null()).stdout(Stdio::null());
    child.spawn().unwrap();
}

#[blitzen::test]
async fn a_child_ends_with_its_status_or_is_killed() {
    let mut child = copying_child(3);
    let status = child.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert_eq!(status.await.unwrap().code(), Some(3));
    let mut child = copying_child(0).spawn().unwrap();
    assert!(child.try_wait().unwrap().is_none(), "it waits for input");
    child.kill().await.unwrap();
    assert!(!child.wait().await.unwrap().success());
}
