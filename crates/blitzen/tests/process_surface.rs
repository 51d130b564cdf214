//! Code that was written against Tokio compiles, also with warnings denied.

#![cfg(all(unix, not(blitzen_loom)))]
#![deny(warnings)]

use std::process::Stdio;

use blitzen::io::AsyncReadExt;
use blitzen::process::{Child, Command};

#[blitzen::test]
async fn the_pipes_can_be_moved_out_of_a_child() {
    let mut command = Command::new("cat");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Child { stdin, stdout, .. } = child.spawn().unwrap();
    drop(stdin);
    let mut text = String::new();
    stdout.unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "");

    let child = Command::new("echo").stdout(Stdio::piped()).spawn().unwrap();
    child
        .stdout
        .unwrap()
        .read_to_string(&mut text)
        .await
        .unwrap();
    assert_eq!(text, "\n");
}

#[blitzen::test]
async fn a_child_need_not_be_used() {
    Command::new("true").spawn().unwrap();
}
